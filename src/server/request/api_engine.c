// api_engine.c - parameters to an engine request, and to the shape of the reply.
//
// Some names and meanings differ: priorities run the other way round, the width of a beam search is
// best_of, and a salt names the tenant, within which prefixes are shared.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "server/request/api_fields.h"

int64_t fxi_params_max_tok(const fxi_params *par)
{
    static const int absent[FXI_N_API] = {[FXI_API_COMPLETIONS] = 16,
                                          [FXI_API_CHAT] = -1,
                                          [FXI_API_RESPONSES] = -1,
                                          [FXI_API_MESSAGES] = -1};
    int64_t n = par->max_completion_tok >= 0 ? par->max_completion_tok : par->max_tok;
    return n < 0 ? absent[par->api] : n;
}

int64_t fxi_params_n_seq(const fxi_params *par)
{
    return par->best_of > par->n ? par->best_of : par->n;
}

// What the client calls logprobs, and those of the prompt, which an echo has too.
static bool wants_logprobs(const fxi_params *par)
{
    return par->api == FXI_API_CHAT ? par->logprobs : par->n_logprob >= 0;
}

static void set_logprobs(fx_request *req, const fxi_params *par)
{
    const bool echoes = par->reply.echo && wants_logprobs(par);
    const int64_t n_prompt = par->n_prompt_logprob, n_top = par->n_logprob < 0 ? 0 : par->n_logprob;
    req->logprobs = wants_logprobs(par);
    req->n_top = (int)n_top;
    req->prompt_logprobs = n_prompt >= 0 || echoes;
    req->n_prompt_top = (int)(echoes && n_top > n_prompt ? n_top : n_prompt < 0 ? 0 : n_prompt);
}

fx_request fxi_params_request(const fxi_params *par, uint64_t seed)
{
    fx_request req = par->request;
    const int n_seq = (int)fxi_params_n_seq(par);
    const int64_t max_tok = fxi_params_max_tok(par);
    if (req.sampling.top_k < 0) req.sampling.top_k = 0;
    if (!par->has_seed) req.sampling.seed = seed;
    req.sampling.bias = par->bias;
    req.sampling.n_bias = par->n_bias;
    req.sampling.allow = par->allow.id;
    req.sampling.n_allow = par->allow.n;
    if (par->has_breakers) {
        req.sampling.dry_breaker = par->breaker;
        req.sampling.n_dry_breaker = par->n_breaker;
    }
    req.sampling.ban_run = par->ban;
    req.sampling.n_ban_run = par->n_ban;
    req.n_choice = (int)par->n;
    req.beam_width = par->beam ? n_seq : 0;
    req.n_best = !par->beam && n_seq > req.n_choice ? n_seq : 0;
    req.max_tok = max_tok > INT_MAX ? INT_MAX : (int)max_tok;
    req.stop = par->stop;
    req.n_stop = par->n_stop;
    req.stop_token = par->stop_token.id;
    req.n_stop_token = par->stop_token.n;
    req.show_control = !par->skip_special;
    set_logprobs(&req, par);
    if (fxi_params_calls(par) || fxi_params_reasoning(par)) {
        req.show_token = par->formats->mark; // marks that are control tokens must be seen
        req.n_show_token = par->formats->n_mark;
    }
    if (par->api == FXI_API_EMBEDDINGS) {
        req.task = FX_TASK_EMBED;
        req.n_dim = (int)par->dimensions;
        if (fxi_json_get(par->root, "normalize"))
            req.norm = par->normalize ? FX_NORM_UNIT : FX_NORM_NONE;
    }
    if (fxi_api_is_score(par->api)) {
        req.task = par->reply.is_pairs ? FX_TASK_SCORE : FX_TASK_EMBED;
        req.norm = FX_NORM_UNIT;
    }
    req.grammar = par->grammar;
    req.keep_s = (uint32_t)par->keep_s;
    req.priority = -(int)par->priority; // as in vLLM, the lower goes first
    req.tenant = par->cache_salt;
    req.no_cache = !par->cache_prompt;
    req.no_speculate = !par->speculate;
    return req;
}

// A field that the engine's line begins with, and what clients call it.
static const struct field_name {
    const char *engine, *client;
} field_names[] = {
    {"min_tok:", "min_tokens"},      {"allow:", "allowed_token_ids"},
    {"temperature:", "temperature"}, {"the model ", "model"},
    {"this model ", "model"},        {"repetition_penalty:", "repetition_penalty"},
};

const char *fxi_params_blame(const fxi_params *par, const fx_error *err)
{
    static const char *const lengths[] = {"max_tokens", "max_completion_tokens"};
    if (err->status == FX_ENOSPACE) return lengths[par->max_completion_tok >= 0];
    if (err->status != FX_EINVAL) return par->input;
    for (size_t i = 0; i < sizeof field_names / sizeof field_names[0]; i++)
        if (!strncmp(err->text, field_names[i].engine, strlen(field_names[i].engine)))
            return field_names[i].client;
    // The values have been checked: the request has more sequences than the engine runs together.
    return par->best_of > par->n ? "best_of" : "n";
}

fxi_reply_spec fxi_params_reply(const fxi_params *par)
{
    const bool stops =
        par->api == FXI_API_COMPLETIONS || fxi_api_is_chat(par->api); // checked there
    const char *stop = par->api == FXI_API_MESSAGES ? "stop_sequences" : "stop";
    fxi_reply_spec spec = par->reply;
    spec.api = par->api;
    spec.logprobs = wants_logprobs(par);
    spec.show_control = !par->skip_special;
    spec.n_top = par->n_logprob < 0 ? 0 : (int)par->n_logprob;
    spec.prompt_logprobs = par->n_prompt_logprob >= 0;
    spec.n_prompt_top = (int)par->n_prompt_logprob;
    spec.calls = fxi_params_calls(par);
    spec.reasoning = fxi_params_reasoning(par);
    spec.either = par->form.field != NULL;
    spec.drop_reasoning = !par->include_reasoning;
    spec.one_call = !par->parallel_calls || par->only_tool;
    spec.forced_calls = par->must_call;
    spec.unmarked_calls = fxi_params_unmarked(par);
    spec.tools = spec.calls || spec.unmarked_calls ? par->tools : NULL;
    spec.only_tools = par->allowed_tools;
    spec.documents = par->return_documents && par->api == FXI_API_RERANK ? par->second_texts : NULL;
    spec.mirror = par->mirror.p;
    spec.n_prompt = (int)par->n_prompt;
    spec.n_per_prompt = (int)par->n;
    spec.stop = stops ? fxi_json_get(par->root, stop) : NULL;
    spec.stop_token_id = stops ? fxi_json_get(par->root, "stop_token_ids") : NULL;
    return spec;
}

// ---- texts to token ids -------------------------------------------------------------------------
//
// In a raw prompt, control tokens that are spelled out become those tokens, unless parse_special is
// false: its writer is the program that asks. In the messages of a chat they never do.

// Whether the model reads texts and generates none.
static bool only_reads(const fxi_params *par)
{
    return par->api == FXI_API_EMBEDDINGS || fxi_api_is_score(par->api);
}

// /tokenize shows what an encoder reads: its tokens around a text, too.
static unsigned flags_of(const fxi_params *par, const fx_engine *eng)
{
    const bool reads = only_reads(par) || !fx_engine_info(eng)->generates;
    const unsigned around = reads ? FX_TOKENIZE_EMBED : FX_TOKENIZE_PROMPT;
    const bool control = par->parse_special && !only_reads(par);
    return (par->add_special ? around : 0) | (control ? FX_TOKENIZE_CONTROL : 0);
}

size_t fxi_params_max_prompt(const fxi_params *par, const fx_engine *eng)
{
    const fx_model_info *m = fx_engine_info(eng);
    if (par->truncate || par->api == FXI_API_TOKENIZE) return 0;
    return (size_t)(only_reads(par) && m->embd_tok ? m->embd_tok : m->ctx_tok);
}

// BOS, prompt, suffix, each after its mark, and the mark of what is to come.
static fx_status encode_around(const fxi_params *par, const fx_engine *eng, const fxi_prompt *p,
                               size_t max_tok, fx_tokens *out, fx_error *err)
{
    enum { MARK = FX_TOKENIZE_CONTROL | FX_TOKENIZE_INNER };
    const unsigned flags = flags_of(par, eng), text = flags & FX_TOKENIZE_CONTROL;
    const char *suffix = fxi_json_text(par->suffix);
    const size_t n_suffix = fxi_json_string(par->suffix).n;
    const struct {
        const char *text;
        size_t n_bytes;
        unsigned flags;
    } pieces[] = {
        {par->infill->before, strlen(par->infill->before), MARK | (flags & FX_TOKENIZE_BOS)},
        {p->text, p->n_bytes, text},
        {par->infill->after, strlen(par->infill->after), MARK},
        {suffix, n_suffix, text | FX_TOKENIZE_INNER},
        {par->infill->between, strlen(par->infill->between), MARK},
    };
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        FX_TRY(fx_tokenize_max(eng, pieces[i].text, pieces[i].n_bytes, pieces[i].flags, max_tok,
                               out, err));
    if (out->n <= max_tok) return FX_OK;
    return fxi_fail(err, FX_ECONTEXT, "prompt and suffix have %zu tokens", out->n);
}

// Prompt i as ids. Errors: FX_ECONTEXT, more than max_tok, 0: there is no limit.
static fx_status encode_input(const fxi_params *par, const fx_engine *eng, size_t i, size_t max_tok,
                              fx_tokens *out, fx_error *err)
{
    if (par->messages) {
        fx_chat_request q = fxi_params_chat(par);
        q.max_tok = max_tok;
        return fx_chat_request_tokenize(eng, &q, out, err);
    }
    const fxi_prompt *p = &par->prompt[i];
    if (par->suffix) return encode_around(par, eng, p, max_tok, out, err);
    if (p->second) {
        const char *const text[] = {p->text, p->second};
        const size_t n_bytes[] = {p->n_bytes, p->n_second_bytes};
        return fx_tokenize_pair(eng, text, n_bytes, max_tok, out, &par->prompt[i].n_first, err);
    }
    if (p->text)
        return fx_tokenize_max(eng, p->text, p->n_bytes, flags_of(par, eng), max_tok, out, err);
    out->id = malloc(p->ids.n * sizeof *out->id);
    if (!out->id) return fxi_fail(err, FX_ENOMEM, "out of memory");
    memcpy(out->id, p->ids.id, p->ids.n * sizeof *out->id);
    out->n = out->cap = p->ids.n;
    return FX_OK;
}

// A length that was asked for and does not fit, where the operator will not have it clamped.
static bool check_excess(const fxi_params *par, const fx_engine *eng, size_t n_tok,
                         fxi_http_error *err)
{
    const bool newer = par->max_completion_tok >= 0;
    const int64_t asked = newer ? par->max_completion_tok : par->max_tok;
    const int ctx_tok = fx_engine_info(eng)->ctx_tok;
    if (!par->refuse_excess || asked < 0 || asked <= ctx_tok - (int64_t)n_tok) return true;
    return fxi_http_fail(err, 400, "context_length_exceeded",
                         newer ? "max_completion_tokens" : "max_tokens",
                         "This model's maximum context length is %d tokens. However, you requested "
                         "%llu tokens (%zu in the prompt, %lld in the completion).",
                         ctx_tok, (unsigned long long)asked + n_tok, n_tok, (long long)asked);
}

// Clients know this by OpenAI's words. Up to twice the context it is counted by how much a prompt
// is too long; beyond that, counting would be work for nothing.
static bool fail_context(const fxi_params *par, const fx_engine *eng, size_t i, size_t max_tok,
                         fxi_http_error *err)
{
    char how[64];
    fx_tokens all = {0};
    if (encode_input(par, eng, i, 2 * max_tok, &all, NULL) == FX_OK)
        snprintf(how, sizeof how, "%zu, %zu too many", all.n, all.n - max_tok);
    else
        snprintf(how, sizeof how, "more than %zu", 2 * max_tok);
    fx_tokens_free(&all);
    return fxi_http_fail(err, 400, "context_length_exceeded", par->input,
                         "This model's maximum context length is %zu tokens. However, '%s' has %s.",
                         max_tok, par->input, how);
}

// Of a prompt the front goes; of a text that is only read its end, but for the token after it.
static bool truncate_prompt(const fxi_params *par, const fx_engine *eng, size_t i, fx_tokens *out,
                            fxi_http_error *err)
{
    const fx_model_info *m = fx_engine_info(eng);
    const size_t room = (size_t)(only_reads(par) ? m->embd_tok : m->ctx_tok - 1);
    const size_t keep = par->truncate < 0 ? room : (size_t)par->truncate;
    if (!par->truncate || out->n <= keep) return true;
    if (par->prompt && par->prompt[i].n_first + 1 >= keep && par->prompt[i].second)
        return fxi_http_fail(err, 400, "context_length_exceeded", "truncate_prompt_tokens",
                             "the first text alone has %zu tokens", par->prompt[i].n_first);
    const int32_t last = out->id[out->n - 1];
    if (!only_reads(par))
        memmove(out->id, out->id + (out->n - keep), keep * sizeof *out->id);
    else if (last == m->eos_id)
        out->id[keep - 1] = last;
    out->n = keep;
    return true;
}

bool fxi_params_encode(const fxi_params *par, const fx_engine *eng, size_t i, fx_tokens *out,
                       fxi_http_error *err)
{
    fx_error e = {0};
    const size_t max_tok = fxi_params_max_prompt(par, eng);
    const fx_status st = encode_input(par, eng, i, max_tok, out, &e);
    if (st == FX_ECONTEXT) return fail_context(par, eng, i, max_tok, err);
    if (st != FX_OK) return fxi_http_fail_fx(err, &e, par->input);
    if (!truncate_prompt(par, eng, i, out, err)) return false;
    if (out->n || par->api == FXI_API_TOKENIZE) return check_excess(par, eng, out->n, err);
    return fxi_http_fail(err, 400, "invalid_value", par->input, "the prompt has no tokens");
}

#define TOKENS_BYTES 64 // of the shortest list

// ---- words that are banned ----------------------------------------------------------------------

// Takes the ids over, unless they are the run that was added last.
static void take_run(fxi_params *par, fx_tokens *t)
{
    const fx_id_run *last = par->n_ban ? &par->ban[par->n_ban - 1] : NULL;
    const bool is_same = last && last->n == t->n && !memcmp(last->id, t->id, t->n * sizeof *t->id);
    if (!t->n || is_same) {
        fx_tokens_free(t);
        return;
    }
    par->ban[par->n_ban++] = (fx_id_run){t->id, t->n};
}

// As a word within a text: after a space, and after something else.
static bool ban_word(fxi_params *par, const fx_engine *eng, const char *word, fxi_http_error *err)
{
    fxi_buf spaced = {0};
    fx_error e = {FX_ENOMEM, "out of memory"};
    fx_tokens plain = {0}, after_space = {0};
    const size_t n = strlen(word);
    bool ok = fxi_buf_str(&spaced, " ") && fxi_buf_add(&spaced, word, n) &&
              fx_tokenize(eng, word, n, FX_TOKENIZE_INNER, &plain, &e) == FX_OK &&
              fx_tokenize(eng, spaced.p, n + 1, FX_TOKENIZE_INNER, &after_space, &e) == FX_OK;
    fxi_buf_free(&spaced);
    if (ok) {
        take_run(par, &plain);
        take_run(par, &after_space);
        return true;
    }
    fx_tokens_free(&plain);
    fx_tokens_free(&after_space);
    return fxi_http_fail_fx(err, &e, "bad_words");
}

// What banned words become: each two lists of ids, none longer than its text.
static bool charge_words(fxi_params *par, fxi_http_error *err)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < fxi_json_array_size(par->bad_words); i++)
        n_bytes += 2 * sizeof *par->ban +
                   2 * (TOKENS_BYTES +
                        sizeof(int32_t) * fxi_json_string(fxi_json_at(par->bad_words, i)).n);
    return fxi_charge_list(&(fxi_parse){.par = par, .err = err}, n_bytes);
}

// ---- a budget of reasoning ----------------------------------------------------------------------

// Most tokens of reasoning; -1: as many as it takes. Of models whose template does not read an
// effort, it is a number of tokens, in the steps that other servers take.
static int64_t thinking_tokens(const fxi_params *par)
{
    static const struct {
        const char *effort;
        int n_tok;
    } steps[] = {{"none", 0}, {"minimal", 256}, {"low", 1024}, {"medium", 8192}};
    if (par->thinking_tok >= 0) return par->thinking_tok;
    if (par->thinking < 0) return 0;
    const bool counts = par->effort && !par->formats->template_reads_effort;
    for (size_t i = 0; counts && i < sizeof steps / sizeof steps[0]; i++)
        if (!strcmp(par->effort, steps[i].effort)) return steps[i].n_tok;
    return -1;
}

// No format opens or closes reasoning in more than two ways.
static bool make_thought(fxi_params *par, const fx_engine *eng, fxi_http_error *err)
{
    fx_error e = {0};
    const fxi_reason_format *r = par->formats ? par->formats->reasoning : NULL;
    const int64_t n_tok = r && fxi_api_is_chat(par->api) && !par->beam ? thinking_tokens(par) : -1;
    if (n_tok < 0) return true;
    if (fx_tokenize(eng, r->spelled_close, strlen(r->spelled_close),
                    FX_TOKENIZE_CONTROL | FX_TOKENIZE_INNER, &par->close_tok, &e) != FX_OK)
        return fxi_http_fail_fx(err, &e, par->input);
    const char *in_channel[] = {r->spelled_open, NULL}, *at_end[] = {"<|end|>", NULL};
    const char *const *open = r->channels ? in_channel : r->open, *const *close = r->channels
                                                                                      ? at_end
                                                                                      : r->close;
    par->thought = (fx_thought){.open = {open[0], open[1]},
                                .close = {close[0], close[1]},
                                .max_tok = n_tok < INT32_MAX ? (int)n_tok : INT32_MAX,
                                .close_tok = par->close_tok.id,
                                .n_close = par->close_tok.n};
    return true;
}

bool fxi_params_resolve(fxi_params *par, const fx_engine *eng, fxi_http_error *err)
{
    const size_t n = fxi_json_array_size(par->bad_words);
    if (par->api == FXI_API_EMBEDDINGS && !fx_engine_info(eng)->embeds)
        return fxi_http_fail(err, 400, "invalid_value", "model",
                             "this model is not made to embed texts: its file does not say how; "
                             "the server's option --pooling mean, first or last does");
    if (!fxi_params_compile(par, eng, err) || !make_thought(par, eng, err)) return false;
    if (!n) return true;
    if (!charge_words(par, err)) return false;
    par->ban = calloc(2 * n, sizeof *par->ban);
    if (!par->ban) return fxi_http_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        if (!ban_word(par, eng, fxi_json_text(fxi_json_at(par->bad_words, i)), err)) return false;
    return true;
}
