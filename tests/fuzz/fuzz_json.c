// fuzz_json.c - request bodies: any bytes end in parameters or in an error, 4xx or 501, with a line
// of text, and nothing leaks. What parses is also answered, so that every combination of options is
// rendered.
#include "fuzz.h"
#include "server/request/api_request.h"

#include <math.h>
#include <stdlib.h>

static void check_json(fxi_buf *b)
{
    json_t *j = json_loadb(b->p, b->n, JSON_ALLOW_NUL, NULL);
    FUZZ_CHECK(j != NULL);
    json_decref(j);
    fxi_buf_free(b);
}

// The error body must itself be JSON, whatever of the client's it repeats.
static void check_error(const fxi_http_error *e)
{
    fxi_buf b = {0};
    FUZZ_CHECK((e->status >= 400 && e->status < 500) || e->status == 501);
    FUZZ_CHECK(e->message[0] && fxi_http_error_body(&b, e));
    check_json(&b);
}

// What parses is within the ranges that flexinfer.h names.
static void check_request(const fxi_params *par)
{
    fx_request r = fxi_params_request(par, 1);
    const fx_sampling *s = &r.sampling;
    FUZZ_CHECK(r.n_choice >= 1 && r.n_choice <= FX_MAX_CHOICE && r.max_tok >= -1);
    FUZZ_CHECK(!r.n_best || (r.n_best > r.n_choice && r.n_best <= FX_MAX_CHOICE && !r.beam_width));
    FUZZ_CHECK(!r.beam_width || (r.beam_width >= r.n_choice && r.beam_width <= FX_MAX_BEAM));
    FUZZ_CHECK(abs(r.priority) <= FX_MAX_PRIORITY && fabsf(r.length_penalty) <= 100);
    FUZZ_CHECK(s->top_p > 0 && s->top_p <= 1 && s->typical_p > 0 && s->typical_p <= 1);
    FUZZ_CHECK(s->repetition_penalty > 0 && isfinite(s->repetition_penalty));
    FUZZ_CHECK(fabsf(s->presence_penalty) <= 2 && fabsf(s->frequency_penalty) <= 2);
    FUZZ_CHECK(s->min_p >= 0 && s->min_p <= 1 && s->top_k >= 0 && s->min_tok >= 0);
    for (size_t i = 0; i < s->n_bias; i++)
        FUZZ_CHECK(s->bias[i].token >= 0 && s->bias[i].token < 100 &&
                   fabsf(s->bias[i].bias) <= 100);
    for (size_t i = 0; i < s->n_allow; i++) FUZZ_CHECK(s->allow[i] >= 0 && s->allow[i] < 100);
    for (size_t i = 0; i < r.n_stop_token; i++)
        FUZZ_CHECK(r.stop_token[i] >= 0 && r.stop_token[i] < 100);
}

static void check_answer(const fxi_params *par, const char *text, size_t n_bytes)
{
    fxi_reply r = {.model = "m", .fingerprint = "f"};
    fxi_reply_spec spec = fxi_params_reply(par);
    FUZZ_CHECK(fxi_reply_init(&r, &spec, 1 << 16));
    for (int k = 0; k < r.spec.n_prompt * r.spec.n_per_prompt; k++) {
        fx_event ev = {.choice = k % r.spec.n_per_prompt, .text = text, .text_bytes = n_bytes};
        ev.finish = FX_FINISH_STOP;
        ev.stop_string = (int)par->n_stop - 1;
        ev.stop_token = par->stop_token.n ? par->stop_token.id[0] : -1;
        fxi_reply_event(&r, k / r.spec.n_per_prompt, &ev);
    }
    FUZZ_CHECK(r.ended);
    if (!r.spec.stream) {
        fxi_buf b = {0};
        FUZZ_CHECK(fxi_whole_body(&b, &r));
        check_json(&b);
    }
    fxi_reply_free(&r);
}

static void try_api(fxi_api api, const char *body, size_t n_bytes)
{
    static const fxi_limits limits = {.model_id = "m", .n_vocab = 100, .max_choice = 64};
    fxi_params par;
    fxi_http_error e = {0};
    if (fxi_params_parse(&par, api, body, n_bytes, &limits, &e)) {
        check_request(&par);
        check_answer(&par, body, n_bytes);
    } else {
        check_error(&e);
    }
    fxi_params_free(&par);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    try_api(FXI_API_COMPLETIONS, (const char *)data, n_bytes);
    try_api(FXI_API_CHAT, (const char *)data, n_bytes);
    return 0;
}

bool fuzz_seed(unsigned i, fxi_buf *out)
{
    static const char *const bodies[] = {
        "{\"prompt\":\"a\",\"max_tokens\":5,\"temperature\":0.7,\"top_p\":0.9,\"top_k\":40,"
        "\"min_p\":0.1,\"seed\":-5,\"stop\":\"x\",\"ignore_eos\":true,\"model\":\"m\"}",
        "{\"prompt\":[\"a\",\"b\"],\"n\":2,\"stream\":true,\"stop\":[\"x\",\"y\"],"
        "\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}}",
        "{\"prompt\":[[1,2],[3]],\"best_of\":2,\"logprobs\":null,\"logit_bias\":{\"1\":0}}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"h\\u00e9\\ud83d\\ude00\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"t\"}]}],\"tools\":[],"
        "\"tool_choice\":\"auto\",\"response_format\":{\"type\":\"text\"},\"n\":3}",
        "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{}]},"
        "{\"role\":\"tool\",\"content\":\"\"}],\"echo\":true,\"logprobs\":true,\"top_logprobs\":2}",
        "{\"prompt\":\"a\",\"presence_penalty\":1,\"frequency_penalty\":-1,\"repetition_penalty\":"
        "1.2,"
        "\"typical_p\":0.9,\"logit_bias\":{\"5\":-100,\"7\":1.5},\"allowed_token_ids\":[5,7,8],"
        "\"min_tokens\":2,\"stop_token_ids\":[7,99],\"include_stop_str_in_output\":true,"
        "\"n\":2,\"best_of\":4,\"priority\":-3,\"cache_salt\":\"s\\u00e9\",\"cache_prompt\":false}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"use_beam_search\":true,\"n\":3,"
        "\"length_penalty\":0.5,\"early_stopping\":\"never\",\"stop_token_ids\":[3]}",
        "[[[[{\"a\":1e5}]]]]",
    };
    if (i >= sizeof bodies / sizeof *bodies) return false;
    return fxi_buf_str(out, bodies[i]);
}
