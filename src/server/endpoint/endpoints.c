// endpoints.c - see endpoint.h.
#include "base/json/json.h"
#include "server/endpoint/endpoint.h"
#include "server/trace/chrome_trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

// n_ctx stands where clients of llama.cpp look for it.
bool fxi_endpoint_props(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    const fx_model_info *m = fx_engine_info(c->eng);
    const bool ok =
        fxi_buf_str(out, "{\"model\":") && fxi_json_cstr(out, c->lim->model_id) &&
        fxi_buf_str(out, ",\"architecture\":") && fxi_json_cstr(out, m->arch) &&
        fxi_buf_str(out, ",\"type\":") && fxi_json_cstr(out, m->type) &&
        fxi_buf_fmt(out,
                    ",\"parameters\":%llu,\"layers\":%d,\"vocabulary\":%d,\"max_model_len\":%d,"
                    "\"generates\":%s,\"embeds\":%s,\"embedding_length\":%d,"
                    "\"has_chat_template\":%s,\"default_generation_settings\":{\"n_ctx\":%d},"
                    "\"build_info\":",
                    (unsigned long long)m->n_param, m->n_layer, m->n_vocab, m->ctx_tok,
                    m->generates ? "true" : "false", m->embeds ? "true" : "false", m->n_embd,
                    m->has_chat_template ? "true" : "false", m->ctx_tok) &&
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

// ---- text to tokens and back, and what the chat template makes of a conversation ----------------

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

static bool write_token_list(const fxi_call *c, const fx_tokens *t, bool strings, fxi_buf *b)
{
    bool ok = fxi_buf_fmt(b, "{\"count\":%zu,\"max_model_len\":%d,\"tokens\":[", t->n,
                          fx_engine_info(c->eng)->ctx_tok);
    for (size_t i = 0; ok && i < t->n; i++) ok = fxi_buf_fmt(b, "%s%d", i ? "," : "", t->id[i]);
    ok = ok && fxi_buf_str(b, strings ? "],\"token_strs\":[" : "],\"token_strs\":null}");
    for (size_t i = 0; ok && strings && i < t->n; i++) {
        size_t n;
        const char *s = fx_token_text(c->eng, t->id[i], &n);
        ok = (!i || fxi_buf_str(b, ",")) && fxi_json_str(b, s, n);
    }
    return ok && (!strings || fxi_buf_str(b, "]}"));
}

// A prompt's tokens, charged, for the two endpoints that take one.
static bool encode_call(const fxi_call *c, fxi_api api, fxi_params *par, fx_tokens *t,
                        fxi_http_error *err)
{
    *t = (fx_tokens){0};
    if (!read_call(c, api, par, err)) return false;
    if (charge_work(c, (FXI_TEXT_COPIES + ID_BYTES) * c->n_body, err) &&
        fxi_params_encode(par, c->eng, 0, t, err))
        return true;
    fxi_params_free(par);
    return false;
}

bool fxi_endpoint_tokenize(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fxi_params par;
    fx_tokens t;
    if (!encode_call(c, FXI_API_TOKENIZE, &par, &t, err)) return false;
    const bool ok = write_token_list(c, &t, par.token_strs, out);
    fx_tokens_free(&t);
    fxi_params_free(&par);
    return fxi_endpoint_end(ok, err);
}

// How many tokens the prompt of Anthropic's messages has.
bool fxi_endpoint_count(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fxi_params par;
    fx_tokens t;
    if (!encode_call(c, FXI_API_COUNT, &par, &t, err)) return false;
    const bool ok = fxi_buf_fmt(out, "{\"input_tokens\":%zu}", t.n);
    fx_tokens_free(&t);
    fxi_params_free(&par);
    return fxi_endpoint_end(ok, err);
}

static bool add_member(fxi_buf *b, const char *before, const char *text, size_t n)
{
    return fxi_buf_str(b, before) && fxi_json_str(b, text, n);
}

// Under the names that vLLM and llama.cpp give it.
bool fxi_endpoint_detokenize(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fxi_params par;
    fx_error e;
    char *text = NULL;
    size_t n = 0, n_bytes = 0;
    if (!read_call(c, FXI_API_DETOKENIZE, &par, err)) return false;
    for (size_t i = 0; i < par.tokens.n; i++, n_bytes += n)
        (void)fx_token_text(c->eng, par.tokens.id[i], &n);
    bool ok = charge_work(c, SPELL_COPIES * n_bytes, err) &&
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

// ---- for operators: figures, the KV cache and its budget, the flight recorder -------------------

// All figures, as one flat object with the names of FX_STATS.
static bool put_stats(fxi_buf *b, const fx_stats *st)
{
    const char *comma = "{";
    bool ok = true;
#define PUT_STAT(name, help)                                                \
    ok = ok && fxi_buf_fmt(b, "%s\"" #name "\":%" PRIu64, comma, st->name); \
    comma = ",";
    FX_STATS(PUT_STAT)
#undef PUT_STAT
    return ok && fxi_buf_str(b, "}");
}

bool fxi_endpoint_stats(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fx_stats st;
    fx_engine_stats(c->eng, &st);
    return fxi_endpoint_end(put_stats(out, &st), err);
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

// ---- a snapshot of the engine -------------------------------------------------------------------

// The long lists are rows of numbers, which are written without printf: a large snapshot has tens
// of thousands of them.

enum { MAX_DIGITS = 20 }; // of 2^64 - 1

static bool begin_list(fxi_buf *b, const char *name)
{
    return fxi_buf_fmt(b, ",\"%s\":[", name);
}

// A comma, unless the item is the first one, or a member's value.
static bool separate_item(fxi_buf *b)
{
    return strchr("[{:", b->p[b->n - 1]) || fxi_buf_str(b, ",");
}

static bool put_row(fxi_buf *b, const uint64_t *v, int n)
{
    char digits[MAX_DIGITS];
    if (!separate_item(b) || !fxi_buf_reserve(b, (size_t)n * (MAX_DIGITS + 1) + 2)) return false;
    char *at = b->p + b->n;
    *at++ = '[';
    for (int i = 0; i < n; i++) {
        int n_digit = 0;
        uint64_t left = v[i];
        if (i) *at++ = ',';
        do digits[n_digit++] = (char)('0' + left % 10);
        while (left /= 10);
        while (n_digit) *at++ = digits[--n_digit];
    }
    *at++ = ']';
    *at = 0;
    b->n = (size_t)(at - b->p);
    return true;
}

#define PUT_ROW(b, ...)                         \
    put_row(b, (const uint64_t[]){__VA_ARGS__}, \
            (int)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)))

static bool put_figures(fxi_buf *b, const fx_snapshot *s)
{
    bool ok = fxi_buf_fmt(
        b, "{\"number\":%" PRIu64 ",\"at_us\":%" PRIu64 ",\"version\":\"%s\",\"manager\":\"%s\"",
        s->number, s->at_us, fx_version(), s->manager);
    ok = ok && begin_list(b, "groups");
    for (uint32_t g = 0; ok && g < s->n_group; g++)
        ok = fxi_buf_fmt(
            b,
            "%s{\"chunk_bytes\":%" PRIu64 ",\"chunk_tokens\":%" PRIu32 ",\"device\":%" PRIu32 "}",
            g ? "," : "", s->group[g].chunk_bytes, s->group[g].chunk_tok, s->group[g].device);
    return ok && fxi_buf_str(b, "],\"stats\":") && put_stats(b, &s->stats) &&
           fxi_buf_str(b, ",\"counts\":{\"chunks\":") && put_row(b, s->n_chunk, FX_N_CHUNK_STATE) &&
           fxi_buf_fmt(b, ",\"spans\":%" PRIu64 ",\"nodes\":%" PRIu64 ",\"requests\":%" PRIu64 "}",
                       s->n_all_span, s->n_all_node, s->n_all_request);
}

static bool put_spans(fxi_buf *b, const fx_snapshot *s)
{
    bool ok = begin_list(b, "spans");
    for (size_t i = 0; ok && i < s->n_span; i++) {
        const fx_span *p = &s->span[i];
        ok = separate_item(b) &&
             fxi_buf_fmt(b,
                         "{\"request\":%" PRIu64 ",\"choice\":%" PRIu32 ",\"tokens\":%" PRIu32
                         ",\"generating\":%" PRIu32,
                         p->request, p->choice, p->n_tok, p->n_generating) &&
             begin_list(b, "segments");
        for (uint32_t k = 0; ok && k < p->n_run; k++) {
            const fx_segment_run *r = &s->segment[p->first_run + k];
            ok = PUT_ROW(b, r->group, r->at, r->chunk, r->n);
        }
        ok = ok && fxi_buf_str(b, "]}");
    }
    return ok && fxi_buf_str(b, "]");
}

static bool put_requests(fxi_buf *b, const fx_snapshot *s)
{
    bool ok = begin_list(b, "requests");
    for (size_t i = 0; ok && i < s->n_request; i++) {
        const fx_request_view *r = &s->request[i];
        ok = separate_item(b) &&
             fxi_buf_fmt(b,
                         "{\"id\":%" PRIu64 ",\"state\":\"%s\",\"place\":%" PRIu32
                         ",\"prompt\":%" PRIu32 ",\"cached\":%" PRIu32 ",\"generated\":%" PRIu32
                         ",\"max\":%" PRIu32 ",\"sequences\":%" PRIu32 ",\"priority\":%" PRId32
                         ",\"submit_us\":%" PRIu64 "}",
                         r->id, fx_request_state_name(r->state), r->place, r->n_prompt, r->n_cached,
                         r->n_generated, r->max_tok, r->n_seq, r->priority, r->submit_us);
    }
    return ok && fxi_buf_str(b, "]");
}

bool fxi_snapshot_json(fxi_buf *out, const fx_snapshot *s)
{
    bool ok = put_figures(out, s) && begin_list(out, "chunks");
    for (size_t i = 0; ok && i < s->n_chunk_run; i++) {
        const fx_chunk_run *r = &s->chunk[i];
        ok = PUT_ROW(out, r->first, r->n, r->state, r->group);
    }
    ok = ok && fxi_buf_str(out, "]") && put_spans(out, s) && begin_list(out, "nodes");
    for (size_t i = 0; ok && i < s->n_node; i++) {
        const fx_prefix_node *n = &s->node[i];
        ok = PUT_ROW(out, n->id, n->parent, n->domain, n->n_tok, n->n_seq, n->held_bytes);
    }
    return ok && fxi_buf_str(out, "]") && put_requests(out, s) && fxi_buf_str(out, "}");
}
