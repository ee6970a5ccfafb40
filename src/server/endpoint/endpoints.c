// endpoints.c - see endpoint.h.
#include "base/json/json.h"
#include "server/endpoint/endpoint.h"
#include "server/trace/chrome_trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the model ----------------------------------------------------------------------------------

bool fxi_endpoint_end(bool ok, fxi_http_error *err)
{
    return ok || fxi_http_fail_memory(err);
}

static bool add_model(const fxi_call *c, const char *name, fxi_buf *b)
{
    return fxi_json_fmt(b,
                        "{'id':%q,'object':'model','created':%l,'owned_by':'flexinfer',"
                        "'max_model_len':%d,'root':%q,'parent':null}",
                        name, (long long)c->created_s, fx_engine_info(c->eng)->ctx_tok,
                        c->lim->model_id);
}

bool fxi_endpoint_models(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    bool ok = fxi_json_fmt(out, "{'object':'list','data':[") && add_model(c, c->lim->model_id, out);
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

static const char *bool_word(bool b)
{
    return b ? "true" : "false";
}

// n_ctx stands where clients of llama.cpp look for it.
bool fxi_endpoint_props(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    const fx_model_info *m = fx_engine_info(c->eng);
    const fx_sampling *s = c->lim->preset;
    char params[192]; // of requests that do not say, by llama.cpp's names
    snprintf(
        params, sizeof params,
        "{\"temperature\":%.6g,\"top_k\":%d,\"top_p\":%.6g,\"min_p\":%.6g,\"repeat_penalty\":%.6g}",
        (double)s->temperature, s->top_k, (double)s->top_p, (double)s->min_p,
        (double)s->repetition_penalty);
    const bool ok = fxi_json_fmt(
        out,
        "{'model':%q,'architecture':%q,'type':%q,'parameters':%w,'layers':%d,'vocabulary':%d,"
        "'max_model_len':%d,'generates':%s,'embeds':%s,'scores':%s,'embedding_length':%d,"
        "'has_chat_template':%s,'default_generation_settings':{'n_ctx':%d,'params':%s},'build_info'"
        ":%q}",
        c->lim->model_id, m->arch, m->type, m->n_param, m->n_layer, m->n_vocab, m->ctx_tok,
        bool_word(m->generates), bool_word(m->embeds), bool_word(m->scores), m->n_embd,
        bool_word(m->has_chat_template), m->ctx_tok, params, fx_version());
    return fxi_endpoint_end(ok, err);
}

// A token as it is spelled out in a prompt.
static bool add_token(const fx_engine *eng, const char *name, int32_t id, fxi_buf *b)
{
    fxi_str text = {0};
    if (id >= 0) text.p = fx_token_text(eng, id, &text.n);
    return text.p ? fxi_json_fmt(b, "%q:%t,", name, text) : fxi_json_fmt(b, "%q:null,", name);
}

// By vLLM's name: with it and /tokenize, evaluation tools need no tokenizer of their own.
bool fxi_endpoint_tokenizer_info(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    const fx_model_info *m = fx_engine_info(c->eng);
    const bool ok =
        fxi_buf_str(out, "{") && add_token(c->eng, "bos_token", m->bos_id, out) &&
        add_token(c->eng, "eos_token", m->eos_id, out) &&
        fxi_json_fmt(out, "'max_model_len':%d,'vocabulary':%d}", m->ctx_tok, m->n_vocab);
    return fxi_endpoint_end(ok, err);
}

bool fxi_endpoint_version(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    (void)c;
    return fxi_endpoint_end(fxi_json_fmt(out, "{'version':%q}", fx_version()), err);
}

bool fxi_endpoint_ping(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    (void)c;
    return fxi_endpoint_end(fxi_json_fmt(out, "{'status':'ok'}"), err);
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
    bool ok = fxi_json_fmt(b, "{'count':%z,'max_model_len':%d,'tokens':[", t->n,
                           fx_engine_info(c->eng)->ctx_tok);
    for (size_t i = 0; ok && i < t->n; i++) ok = fxi_buf_fmt(b, "%s%d", i ? "," : "", t->id[i]);
    ok = ok && fxi_json_fmt(b, "],'token_strs':%s", strings ? "[" : "null}");
    for (size_t i = 0; ok && strings && i < t->n; i++) {
        fxi_str text;
        text.p = fx_token_text(c->eng, t->id[i], &text.n);
        ok = fxi_json_fmt(b, "%s%t", i ? "," : "", text);
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
    const bool ok = fxi_json_fmt(out, "{'input_tokens':%z}", t.n);
    fx_tokens_free(&t);
    fxi_params_free(&par);
    return fxi_endpoint_end(ok, err);
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
    const fxi_str s = {text, n};
    ok = ok && fxi_endpoint_end(fxi_json_fmt(out, "{'prompt':%t,'content':%t}", s, s), err);
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
    ok = ok && fxi_endpoint_end(fxi_json_fmt(out, "{'prompt':%t}", (fxi_str){text, n}), err);
    free(text);
    return ok;
}

// ---- for operators: figures, the KV cache and its budget, the flight recorder -------------------

// All figures, as one flat object with the names of FX_STATS.
static bool put_stats(fxi_buf *b, const fx_stats *st)
{
    const char *comma = "{";
    bool ok = true;
#define PUT_STAT(name, help)                                         \
    ok = ok && fxi_json_fmt(b, "%s'" #name "':%w", comma, st->name); \
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
    const bool ok = fxi_json_fmt(
        out,
        "{'kv_memory_bytes':%w,'mapped_bytes':%w,'cached_bytes':%w,'live_bytes':%w,"
        "'swapped_bytes':%w,'bytes_per_token':%z,'prompt_tokens':%w,'cached_tokens':%w}",
        st.kv_budget_bytes, st.kv_mapped_bytes, st.kv_cached_bytes, st.kv_live_bytes,
        st.kv_swapped_bytes, tok_bytes, st.n_prompt_tok + st.n_cached_tok, st.n_cached_tok);
    return fxi_endpoint_end(ok, err);
}

bool fxi_endpoint_cache_clear(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fx_clear_cache(c->eng);
    return fxi_endpoint_end(fxi_json_fmt(out, "{'status':'ok'}"), err);
}

bool fxi_endpoint_trace(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    return fxi_endpoint_end(fxi_chrome_trace_of(out, c->eng), err);
}

bool fxi_endpoint_budget(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fx_stats st;
    fx_engine_stats(c->eng, &st);
    return fxi_endpoint_end(fxi_json_fmt(out, "{'kv_memory_bytes':%w}", st.kv_budget_bytes), err);
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
    return fxi_endpoint_end(fxi_json_fmt(out, "{'kv_memory_bytes':%w}", n_bytes), err);
}

// ---- a snapshot of the engine -------------------------------------------------------------------

// The long lists are rows of numbers, which are written without printf: a large snapshot has tens
// of thousands of them.

enum { MAX_DIGITS = 20 }; // of 2^64 - 1

// A comma, unless the item is the first one, or a member's value.
static const char *comma_of(const fxi_buf *b)
{
    return strchr("[{:", b->p[b->n - 1]) ? "" : ",";
}

static bool put_row(fxi_buf *b, const uint64_t *v, int n)
{
    char digits[MAX_DIGITS];
    if (!fxi_buf_str(b, comma_of(b)) || !fxi_buf_reserve(b, (size_t)n * (MAX_DIGITS + 1) + 2))
        return false;
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
    bool ok = fxi_json_fmt(b, "{'number':%w,'at_us':%w,'version':%q,'manager':%q,'groups':[",
                           s->number, s->at_us, fx_version(), s->manager);
    for (const fx_chunk_group *g = s->group; ok && g < s->group + s->n_group; g++)
        ok = fxi_json_fmt(b, "%s{'chunk_bytes':%w,'chunk_tokens':%u,'device':%u}", comma_of(b),
                          g->chunk_bytes, g->chunk_tok, g->device);
    return ok && fxi_json_fmt(b, "],'stats':") && put_stats(b, &s->stats) &&
           fxi_json_fmt(b, ",'counts':{'chunks':") && put_row(b, s->n_chunk, FX_N_CHUNK_STATE) &&
           fxi_json_fmt(b, ",'spans':%w,'nodes':%w,'requests':%w}", s->n_all_span, s->n_all_node,
                        s->n_all_request);
}

static bool put_spans(fxi_buf *b, const fx_snapshot *s)
{
    bool ok = fxi_json_fmt(b, ",'spans':[");
    for (size_t i = 0; ok && i < s->n_span; i++) {
        const fx_span *p = &s->span[i];
        ok = fxi_json_fmt(b, "%s{'request':%w,'choice':%u,'tokens':%u,'generating':%u,'segments':[",
                          comma_of(b), p->request, p->choice, p->n_tok, p->n_generating);
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
    bool ok = fxi_json_fmt(b, ",'requests':[");
    for (size_t i = 0; ok && i < s->n_request; i++) {
        const fx_request_view *r = &s->request[i];
        ok = fxi_json_fmt(b,
                          "%s{'id':%w,'state':%q,'place':%u,'prompt':%u,'cached':%u,"
                          "'generated':%u,'max':%u,'sequences':%u,'priority':%d,'submit_us':%w}",
                          comma_of(b), r->id, fx_request_state_name(r->state), r->place,
                          r->n_prompt, r->n_cached, r->n_generated, r->max_tok, r->n_seq,
                          r->priority, r->submit_us);
    }
    return ok && fxi_buf_str(b, "]");
}

bool fxi_snapshot_json(fxi_buf *out, const fx_snapshot *s)
{
    bool ok = put_figures(out, s) && fxi_json_fmt(out, ",'chunks':[");
    for (size_t i = 0; ok && i < s->n_chunk_run; i++) {
        const fx_chunk_run *r = &s->chunk[i];
        ok = PUT_ROW(out, r->first, r->n, r->state, r->group);
    }
    ok = ok && fxi_buf_str(out, "]") && put_spans(out, s) && fxi_json_fmt(out, ",'nodes':[");
    for (size_t i = 0; ok && i < s->n_node; i++) {
        const fx_prefix_node *n = &s->node[i];
        ok = PUT_ROW(out, n->id, n->parent, n->domain, n->n_tok, n->n_seq, n->held_bytes);
    }
    return ok && fxi_buf_str(out, "]") && put_requests(out, s) && fxi_buf_str(out, "}");
}
