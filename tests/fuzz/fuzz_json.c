// fuzz_json.c - request bodies: any bytes end in parameters or in one 4xx or 501 with a line of text, and nothing leaks.
// What parses is also answered, so that the shapes see every combination of options.
#include "fuzz.h"
#include "server/server_internal.h"

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

static void check_answer(const fxi_params *par, const char *text, size_t n_bytes)
{
    fxi_answer a = {.model = "m", .fingerprint = "f"};
    FUZZ_CHECK(fxi_answer_init(&a, par, 1 << 16));
    for (int k = 0; k < a.n_prompt * a.n_per_prompt; k++) {
        fx_event ev = {.choice = k % a.n_per_prompt, .text = text, .text_bytes = n_bytes};
        ev.finish = FX_FINISH_LENGTH;
        fxi_answer_event(&a, k / a.n_per_prompt, &ev);
    }
    FUZZ_CHECK(a.ended);
    if (!a.stream) {
        fxi_buf b = {0};
        FUZZ_CHECK(fxi_reply_body(&b, &a));
        check_json(&b);
    }
    fxi_answer_free(&a);
}

static void try_api(fxi_api api, const char *body, size_t n_bytes)
{
    static const fxi_limits limits = {.model_id = "m", .n_vocab = 100, .max_choice = 64};
    fxi_params par;
    fxi_http_error e = {0};
    if (fxi_params_parse(&par, api, body, n_bytes, &limits, &e))
        check_answer(&par, body, n_bytes);
    else
        check_error(&e);
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
        "[[[[{\"a\":1e5}]]]]",
    };
    if (i >= sizeof bodies / sizeof *bodies) return false;
    return fxi_buf_str(out, bodies[i]);
}
