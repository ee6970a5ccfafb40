// api_probs.c - logprobs as clients read them, rendered token by token.
//
//   completions   four lists: names, logprobs, the likeliest as {name: logprob}, text offsets
//   chat          one list of objects, with the likeliest in descending order
//   prompts       (vLLM's prompt_logprobs) {"id": {"logprob", "rank", "decoded_token"}}
//
// A name is the token's text, control tokens as they are spelled. In completions, names are keys:
// bytes that are not UTF-8 are spelled "bytes:\xe2\x80", and of two tokens with one name the
// likelier counts. The chosen token is always among the likeliest.
#include <stdio.h>
#include <string.h>

#include "base/json/json_write.h"
#include "base/text/utf8.h" // defines: fxi_utf8_check
#include "server/reply/api_reply.h"

#define NAME_BYTES 512 // longer names are cut: a token of so many bytes is padding

// ---- names --------------------------------------------------------------------------------------

static size_t spell_bytes(const char *s, size_t n, char name[NAME_BYTES])
{
    size_t at = (size_t)snprintf(name, NAME_BYTES, "bytes:");
    for (size_t i = 0; i < n && at + 5 < NAME_BYTES; i++)
        at += (size_t)snprintf(name + at, NAME_BYTES - at, "\\x%02x", (unsigned char)s[i]);
    return at;
}

// Returns its length.
static size_t name_token(const fxi_reply *r, int32_t id, char name[NAME_BYTES])
{
    if (r->spec.tokens_as_ids) return (size_t)snprintf(name, NAME_BYTES, "token_id:%d", id);
    size_t n;
    const char *s = fx_token_text(r->eng, id, &n);
    if (r->spec.api != FXI_API_CHAT && fxi_utf8_check(s, n) < n) return spell_bytes(s, n, name);
    if (n > NAME_BYTES) n = NAME_BYTES;
    memcpy(name, s, n);
    return n;
}

static bool add_name(fxi_buf *b, const fxi_reply *r, int32_t id)
{
    char name[NAME_BYTES];
    const size_t n = name_token(r, id, name);
    return fxi_json_str(b, name, n);
}

static bool add_comma(fxi_buf *list)
{
    return !list->n || fxi_buf_str(list, ",");
}

// ---- completions --------------------------------------------------------------------------------

static bool has_name(const fxi_reply *r, const char *name, size_t n, int32_t id)
{
    char other[NAME_BYTES];
    return name_token(r, id, other) == n && !memcmp(name, other, n);
}

// Whether a name stands already, before the i-th likeliest token: of the chosen one, or of a
// likelier one.
static bool is_named(const fxi_reply *r, int32_t chosen, const fx_token_prob *p, int i)
{
    char name[NAME_BYTES];
    const size_t n = name_token(r, p->top[i].token, name);
    bool named = has_name(r, name, n, chosen);
    for (int k = 0; !named && k < i; k++) named = has_name(r, name, n, p->top[k].token);
    return named;
}

static bool add_likeliest(fxi_buf *b, const fxi_reply *r, int32_t chosen, const fx_token_prob *p)
{
    bool ok = fxi_buf_str(b, "{") && add_name(b, r, chosen) && fxi_buf_str(b, ":") &&
              fxi_json_float(b, p->logprob);
    for (int i = 0; ok && i < p->n_top && i < r->spec.n_top; i++)
        if (!is_named(r, chosen, p, i))
            ok = fxi_buf_str(b, ",") && add_name(b, r, p->top[i].token) && fxi_buf_str(b, ":") &&
                 fxi_json_float(b, p->top[i].logprob);
    return ok && fxi_buf_str(b, "}");
}

static bool add_to_lists(const fxi_reply *r, fxi_probs *p, int32_t token, const fx_token_prob *prob,
                         size_t at)
{
    return add_comma(&p->token) && add_name(&p->token, r, token) && add_comma(&p->value) &&
           (prob ? fxi_json_float(&p->value, prob->logprob) : fxi_buf_str(&p->value, "null")) &&
           add_comma(&p->top) &&
           (prob ? add_likeliest(&p->top, r, token, prob) : fxi_buf_str(&p->top, "null")) &&
           fxi_list_add_int(&p->offset, (int64_t)at);
}

// ---- chat ---------------------------------------------------------------------------------------

// Without the closing brace.
static bool open_object(fxi_buf *b, const fxi_reply *r, int32_t token, float logprob)
{
    size_t n;
    const char *s = fx_token_text(r->eng, token, &n);
    bool ok = fxi_buf_str(b, "{\"token\":") && add_name(b, r, token) &&
              fxi_buf_str(b, ",\"logprob\":") && fxi_json_float(b, logprob) &&
              fxi_buf_str(b, ",\"bytes\":[");
    for (size_t i = 0; ok && i < n; i++)
        ok = fxi_buf_fmt(b, "%s%d", i ? "," : "", (unsigned char)s[i]);
    return ok && fxi_buf_str(b, "]");
}

static bool add_object(const fxi_reply *r, fxi_buf *b, int32_t token, const fx_token_prob *prob)
{
    bool ok = add_comma(b) && open_object(b, r, token, prob->logprob) &&
              fxi_buf_str(b, ",\"top_logprobs\":[");
    for (int i = 0; ok && i < prob->n_top && i < r->spec.n_top; i++)
        ok = (!i || fxi_buf_str(b, ",")) &&
             open_object(b, r, prob->top[i].token, prob->top[i].logprob) && fxi_buf_str(b, "}");
    return ok && fxi_buf_str(b, "]}");
}

// ---- both ---------------------------------------------------------------------------------------

bool fxi_probs_add(const fxi_reply *r, fxi_probs *p, int32_t token, const fx_token_prob *prob,
                   size_t at)
{
    if (r->spec.api == FXI_API_CHAT) return add_object(r, &p->token, token, prob);
    return add_to_lists(r, p, token, prob, at);
}

static bool join_lists(fxi_buf *b, const char *name, const fxi_buf *first, const fxi_buf *second)
{
    const size_t n_first = first ? first->n : 0, n_second = second ? second->n : 0;
    return fxi_buf_fmt(b, "\"%s\":[", name) && (!n_first || fxi_buf_add(b, first->p, n_first)) &&
           (!n_first || !n_second || fxi_buf_str(b, ",")) &&
           (!n_second || fxi_buf_add(b, second->p, n_second)) && fxi_buf_str(b, "]");
}

bool fxi_probs_write(fxi_buf *b, const fxi_reply *r, const fxi_probs *x, const fxi_probs *y)
{
    if (r->spec.api == FXI_API_CHAT)
        return fxi_buf_str(b, "{") &&
               join_lists(b, "content", x ? &x->token : NULL, y ? &y->token : NULL) &&
               fxi_buf_str(b, ",\"refusal\":null}");
    return fxi_buf_str(b, "{") &&
           join_lists(b, "tokens", x ? &x->token : NULL, y ? &y->token : NULL) &&
           fxi_buf_str(b, ",") &&
           join_lists(b, "token_logprobs", x ? &x->value : NULL, y ? &y->value : NULL) &&
           fxi_buf_str(b, ",") &&
           join_lists(b, "top_logprobs", x ? &x->top : NULL, y ? &y->top : NULL) &&
           fxi_buf_str(b, ",") &&
           join_lists(b, "text_offset", x ? &x->offset : NULL, y ? &y->offset : NULL) &&
           fxi_buf_str(b, "}");
}

bool fxi_probs_are_empty(const fxi_probs *p)
{
    return !p->token.n;
}

size_t fxi_probs_bytes(const fxi_probs *p)
{
    return p->token.cap + p->value.cap + p->top.cap + p->offset.cap;
}

void fxi_probs_clear(fxi_probs *p)
{
    fxi_buf_clear(&p->token);
    fxi_buf_clear(&p->value);
    fxi_buf_clear(&p->top);
    fxi_buf_clear(&p->offset);
}

void fxi_probs_free(fxi_probs *p)
{
    fxi_buf_free(&p->token);
    fxi_buf_free(&p->value);
    fxi_buf_free(&p->top);
    fxi_buf_free(&p->offset);
}

// ---- prompt_logprobs ----------------------------------------------------------------------------

static bool add_ranked(fxi_buf *b, const fxi_reply *r, int32_t token, float logprob, int rank)
{
    return fxi_buf_fmt(b, "\"%d\":{\"logprob\":", token) && fxi_json_float(b, logprob) &&
           fxi_buf_fmt(b, ",\"rank\":%d,\"decoded_token\":", rank) && add_name(b, r, token) &&
           fxi_buf_str(b, "}");
}

bool fxi_prompt_probs_add(const fxi_reply *r, fxi_buf *list, int32_t token,
                          const fx_token_prob *prob)
{
    if (!prob) return add_comma(list) && fxi_buf_str(list, "null");
    bool ok = add_comma(list) && fxi_buf_str(list, "{") &&
              add_ranked(list, r, token, prob->logprob, prob->rank);
    for (int i = 0; ok && i < prob->n_top && i < r->spec.n_prompt_top; i++)
        if (prob->top[i].token != token)
            ok = fxi_buf_str(list, ",") &&
                 add_ranked(list, r, prob->top[i].token, prob->top[i].logprob, i + 1);
    return ok && fxi_buf_str(list, "}");
}
