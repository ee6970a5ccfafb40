// ep_text.c - text to tokens and back, and what the chat template makes of a conversation.
#include <stdlib.h>

#include "server/endpoint/endpoint.h"
#include "server/reply/json_out.h"

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
