// endpoints.c - see endpoint.h.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_write.h"
#include "server/endpoint/endpoint.h"
#include "server/trace/chrome_trace.h"

// ---- the model ----------------------------------------------------------------------------------

bool fxi_endpoint_end(bool ok, fxi_http_error *err)
{
    return ok || fxi_http_fail_memory(err);
}

static bool add_model(const fxi_call *c, const char *name, fxi_buf *b)
{
    return fxi_buf_str(b, "{\"id\":") && fxi_json_cstr(b, name) &&
           fxi_buf_fmt(b,
                       ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"flexinfer\","
                       "\"max_model_len\":%d,\"root\":",
                       (long long)c->created_s, fx_engine_info(c->eng)->ctx_tok) &&
           fxi_json_cstr(b, c->lim->model_id) && fxi_buf_str(b, ",\"parent\":null}");
}

bool fxi_endpoint_models(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    bool ok =
        fxi_buf_str(out, "{\"object\":\"list\",\"data\":[") && add_model(c, c->lim->model_id, out);
    for (size_t i = 0; ok && i < c->lim->n_alias; i++)
        ok = fxi_buf_str(out, ",") && add_model(c, c->lim->alias[i], out);
    return fxi_endpoint_end(ok && fxi_buf_str(out, "]}"), err);
}

bool fxi_endpoint_model(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    const char *name = fxi_limits_model(c->lim, c->tail);
    if (!name) return fxi_limits_no_model(c->lim, "model", c->tail, err);
    return fxi_endpoint_end(add_model(c, name, out), err);
}

static bool add_shape(const fx_model_info *m, fxi_buf *b)
{
    return fxi_buf_str(b, ",\"architecture\":") && fxi_json_cstr(b, m->arch) &&
           fxi_buf_str(b, ",\"type\":") && fxi_json_cstr(b, m->type) &&
           fxi_buf_fmt(b,
                       ",\"parameters\":%llu,\"layers\":%d,\"vocabulary\":%d,\"max_model_len\":%d,"
                       "\"generates\":%s,\"embeds\":%s,\"embedding_length\":%d,"
                       "\"has_chat_template\":%s",
                       (unsigned long long)m->n_param, m->n_layer, m->n_vocab, m->ctx_tok,
                       m->generates ? "true" : "false", m->embeds ? "true" : "false", m->n_embd,
                       m->has_chat_template ? "true" : "false");
}

// n_ctx stands where clients of llama.cpp look for it.
bool fxi_endpoint_props(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    const fx_model_info *m = fx_engine_info(c->eng);
    bool ok = fxi_buf_str(out, "{\"model\":") && fxi_json_cstr(out, c->lim->model_id) &&
              add_shape(m, out) &&
              fxi_buf_fmt(out, ",\"default_generation_settings\":{\"n_ctx\":%d},\"build_info\":",
                          m->ctx_tok) &&
              fxi_json_cstr(out, fx_version()) && fxi_buf_str(out, "}");
    return fxi_endpoint_end(ok, err);
}

// A token as it is spelled out in a prompt.
static bool add_token(const fx_engine *eng, const char *name, int32_t id, fxi_buf *b)
{
    size_t n = 0;
    const char *text = id < 0 ? NULL : fx_token_text(eng, id, &n);
    return fxi_buf_fmt(b, "\"%s\":", name) &&
           (text ? fxi_json_str(b, text, n) : fxi_buf_str(b, "null")) && fxi_buf_str(b, ",");
}

// By vLLM's name: with it and /tokenize, evaluation tools need no tokenizer of their own.
bool fxi_endpoint_tokenizer_info(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    const fx_model_info *m = fx_engine_info(c->eng);
    const bool ok =
        fxi_buf_str(out, "{") && add_token(c->eng, "bos_token", m->bos_id, out) &&
        add_token(c->eng, "eos_token", m->eos_id, out) &&
        fxi_buf_fmt(out, "\"max_model_len\":%d,\"vocabulary\":%d}", m->ctx_tok, m->n_vocab);
    return fxi_endpoint_end(ok, err);
}

bool fxi_endpoint_version(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    (void)c;
    bool ok = fxi_buf_str(out, "{\"version\":") && fxi_json_cstr(out, fx_version()) &&
              fxi_buf_str(out, "}");
    return fxi_endpoint_end(ok, err);
}

bool fxi_endpoint_ping(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    (void)c;
    return fxi_endpoint_end(fxi_buf_str(out, "{\"status\":\"ok\"}"), err);
}

// ---- texts and tokens ---------------------------------------------------------------------------

// Text to tokens and back, and what the chat template makes of a conversation.

#define ID_BYTES     32 // for each byte of a text: its ids and their digits, in lists that double
#define SPELL_COPIES 6  // of a text: in a buffer that doubles, and twice as JSON

static bool read_call(const fxi_call *c, fxi_api api, fxi_params *par, fxi_http_error *err)
{
    return fxi_params_parse(par, api, c->body, c->n_body, c->lim, err);
}

// Charges what an answer takes while it is made; given back when it has been sent.
static bool charge_work(const fxi_call *c, size_t n_bytes, fxi_http_error *err)
{
    fxi_charge *charge = c->lim->charge;
    return !charge || fxi_bytes_granted(err, fxi_charge_reserve(charge, FXI_BYTES_PROMPT, n_bytes));
}

// ---- /tokenize ----------------------------------------------------------------------------------

static bool add_strings(const fxi_call *c, const fx_tokens *t, fxi_buf *b)
{
    bool ok = fxi_buf_str(b, "[");
    for (size_t i = 0; ok && i < t->n; i++) {
        size_t n;
        const char *s = fx_token_text(c->eng, t->id[i], &n);
        ok = (!i || fxi_buf_str(b, ",")) && fxi_json_str(b, s, n);
    }
    return ok && fxi_buf_str(b, "]");
}

static bool write_token_list(const fxi_call *c, const fx_tokens *t, bool strings, fxi_buf *b)
{
    bool ok = fxi_buf_fmt(b, "{\"count\":%zu,\"max_model_len\":%d,\"tokens\":[", t->n,
                          fx_engine_info(c->eng)->ctx_tok);
    for (size_t i = 0; ok && i < t->n; i++) ok = fxi_buf_fmt(b, "%s%d", i ? "," : "", t->id[i]);
    return ok && fxi_buf_str(b, "],\"token_strs\":") &&
           (strings ? add_strings(c, t, b) : fxi_buf_str(b, "null")) && fxi_buf_str(b, "}");
}

bool fxi_endpoint_tokenize(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fxi_params par;
    fx_tokens t = {0};
    if (!read_call(c, FXI_API_TOKENIZE, &par, err)) return false;
    bool ok = charge_work(c, (FXI_TEXT_COPIES + ID_BYTES) * c->n_body, err) &&
              fxi_params_encode(&par, c->eng, 0, &t, err) &&
              fxi_endpoint_end(write_token_list(c, &t, par.token_strs, out), err);
    fx_tokens_free(&t);
    fxi_params_free(&par);
    return ok;
}

// How many tokens the prompt of Anthropic's messages has.
bool fxi_endpoint_count(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fxi_params par;
    fx_tokens t = {0};
    if (!read_call(c, FXI_API_COUNT, &par, err)) return false;
    bool ok = charge_work(c, (FXI_TEXT_COPIES + ID_BYTES) * c->n_body, err) &&
              fxi_params_encode(&par, c->eng, 0, &t, err) &&
              fxi_endpoint_end(fxi_buf_fmt(out, "{\"input_tokens\":%zu}", t.n), err);
    fx_tokens_free(&t);
    fxi_params_free(&par);
    return ok;
}

// ---- text ---------------------------------------------------------------------------------------

static bool add_member(fxi_buf *b, const char *before, const char *text, size_t n)
{
    return fxi_buf_str(b, before) && fxi_json_str(b, text, n);
}

static size_t spelled_bytes(const fxi_call *c, const fxi_id_list *ids)
{
    size_t sum = 0, n;
    for (size_t i = 0; i < ids->n; i++) {
        (void)fx_token_text(c->eng, ids->id[i], &n);
        sum += n;
    }
    return sum;
}

// Under the names that vLLM and llama.cpp give it.
bool fxi_endpoint_detokenize(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fxi_params par;
    fx_error e;
    char *text = NULL;
    size_t n = 0;
    if (!read_call(c, FXI_API_DETOKENIZE, &par, err)) return false;
    bool ok = charge_work(c, SPELL_COPIES * spelled_bytes(c, &par.tokens), err) &&
              (fx_detokenize(c->eng, par.tokens.id, par.tokens.n, !par.skip_special, NULL, &text,
                             &n, &e) == FX_OK ||
               fxi_http_fail_fx(err, &e, "tokens"));
    fxi_params_free(&par);
    ok = ok &&
         fxi_endpoint_end(add_member(out, "{\"prompt\":", text, n) &&
                              add_member(out, ",\"content\":", text, n) && fxi_buf_str(out, "}"),
                          err);
    free(text);
    return ok;
}

bool fxi_endpoint_apply_template(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fxi_params par;
    fx_error e;
    char *text = NULL;
    size_t n = 0;
    if (!read_call(c, FXI_API_CHAT, &par, err)) return false;
    const fx_chat_request q = fxi_params_chat(&par);
    bool ok = charge_work(c, FXI_TEXT_COPIES * c->n_body, err) &&
              (fx_chat_request_text(c->eng, &q, &text, &n, &e) == FX_OK ||
               fxi_http_fail_fx(err, &e, "messages"));
    fxi_params_free(&par);
    ok = ok &&
         fxi_endpoint_end(add_member(out, "{\"prompt\":", text, n) && fxi_buf_str(out, "}"), err);
    free(text);
    return ok;
}

// ---- the cache, the budget, the trace -----------------------------------------------------------

// For operators: figures, the KV cache and its budget, the flight recorder.

// All figures, as one flat object with the names of FX_STATS.
bool fxi_endpoint_stats(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fx_stats st;
    fx_engine_stats(c->eng, &st);
    const size_t at = out->n;
    bool ok = fxi_buf_str(out, "{");
#define ADD_STAT(name, help) \
    ok = ok && fxi_buf_fmt(out, "%s\"" #name "\":%" PRIu64, out->n > at + 1 ? "," : "", st.name);
    FX_STATS(ADD_STAT)
#undef ADD_STAT
    return fxi_endpoint_end(ok && fxi_buf_str(out, "}"), err);
}

bool fxi_endpoint_cache(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fx_stats st;
    fx_engine_stats(c->eng, &st);
    const size_t tok_bytes = fx_engine_info(c->eng)->kv_bytes_per_tok;
    bool ok = fxi_buf_fmt(
        out,
        "{\"kv_memory_bytes\":%" PRIu64 ",\"mapped_bytes\":%" PRIu64 ",\"cached_bytes\":%" PRIu64
        ",\"live_bytes\":%" PRIu64 ",\"swapped_bytes\":%" PRIu64 ",\"bytes_per_token\":%zu"
        ",\"prompt_tokens\":%" PRIu64 ",\"cached_tokens\":%" PRIu64 "}",
        st.kv_budget_bytes, st.kv_mapped_bytes, st.kv_cached_bytes, st.kv_live_bytes,
        st.kv_swapped_bytes, tok_bytes, st.n_prompt_tok + st.n_cached_tok, st.n_cached_tok);
    return fxi_endpoint_end(ok, err);
}

bool fxi_endpoint_cache_clear(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fx_clear_cache(c->eng);
    return fxi_endpoint_end(fxi_buf_str(out, "{\"status\":\"ok\"}"), err);
}

bool fxi_endpoint_trace(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    return fxi_endpoint_end(fxi_chrome_trace_of(out, c->eng), err);
}

bool fxi_endpoint_budget(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fx_stats st;
    fx_engine_stats(c->eng, &st);
    return fxi_endpoint_end(
        fxi_buf_fmt(out, "{\"kv_memory_bytes\":%" PRIu64 "}", st.kv_budget_bytes), err);
}

bool fxi_endpoint_set_budget(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fxi_params par;
    fx_error e;
    if (!fxi_params_parse(&par, FXI_API_BUDGET, c->body, c->n_body, c->lim, err)) return false;
    const uint64_t n_bytes = (uint64_t)par.kv_memory_bytes;
    fxi_params_free(&par);
    if (fx_set_kv_memory(c->eng, n_bytes, &e) != FX_OK)
        return fxi_http_fail_fx(err, &e, "kv_memory_bytes");
    return fxi_endpoint_end(fxi_buf_fmt(out, "{\"kv_memory_bytes\":%" PRIu64 "}", n_bytes), err);
}
