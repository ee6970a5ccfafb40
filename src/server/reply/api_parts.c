// api_parts.c - what streams and whole bodies share: usage, timings, the end of a choice, lists,
// and logprobs as clients read them, rendered token by token:
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

#include "base/json/json.h"
#include "base/text/utf8.h" // defines: fxi_utf8_check
#include "server/reply/api_reply.h"

#define NAME_BYTES 512 // longer names are cut: a token of so many bytes is padding

// ---- usage, timings, ends and lists -------------------------------------------------------------

fxi_usage fxi_usage_of(const fxi_reply *r)
{
    fxi_usage sum = {0};
    for (int i = 0; r->use && i < r->spec.n_prompt; i++) {
        sum.n_prompt += r->use[i].n_prompt;
        sum.n_cached += r->use[i].n_cached;
        sum.n_generated += r->use[i].n_discarded;
    }
    for (int k = 0; r->choice && k < r->spec.n_prompt * r->spec.n_per_prompt; k++)
        sum.n_generated += r->choice[k].n_generated, sum.n_reasoning += r->choice[k].n_reasoning;
    return sum;
}

bool fxi_usage_add(fxi_buf *b, const fxi_reply *r)
{
    fxi_usage use = fxi_usage_of(r);
    return fxi_buf_fmt(b,
                       "{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
                       "\"prompt_tokens_details\":{\"cached_tokens\":%d}",
                       use.n_prompt, use.n_generated, use.n_prompt + use.n_generated,
                       use.n_cached) &&
           (!r->spec.reasoning ||
            fxi_buf_fmt(b, ",\"completion_tokens_details\":{\"reasoning_tokens\":%d}",
                        use.n_reasoning)) &&
           fxi_buf_str(b, "}");
}

// `n` tokens in the time `us`, as llama.cpp's server tells it.
static bool add_rate(fxi_buf *b, const char *what, int n, uint64_t us)
{
    const double ms = (double)us / 1e3;
    return fxi_buf_fmt(b,
                       ",\"%s_n\":%d,\"%s_ms\":%.3f,\"%s_per_token_ms\":%.3f,"
                       "\"%s_per_second\":%.3f",
                       what, n, what, ms, what, n ? ms / n : 0, what,
                       us ? n * 1e6 / (double)us : 0);
}

// Prompts that are computed side by side took as long as the longest of them.
bool fxi_timings_add(fxi_buf *b, const fxi_reply *r)
{
    const fxi_usage use = fxi_usage_of(r);
    uint64_t prefill_us = 0, decode_us = 0;
    if (!r->spec.timings) return true;
    for (int i = 0; r->use && i < r->spec.n_prompt; i++) {
        if (r->use[i].prefill_us > prefill_us) prefill_us = r->use[i].prefill_us;
        if (r->use[i].decode_us > decode_us) decode_us = r->use[i].decode_us;
    }
    return fxi_buf_fmt(b, ",\"timings\":{\"cache_n\":%d", use.n_cached) &&
           add_rate(b, "prompt", use.n_prompt - use.n_cached, prefill_us) &&
           add_rate(b, "predicted", use.n_generated, decode_us) && fxi_buf_str(b, "}");
}

// The client's string or integer, or NULL.
static bool add_stop_reason(fxi_buf *b, const fxi_json *v)
{
    if (!fxi_buf_str(b, ",\"stop_reason\":")) return false;
    if (fxi_json_is_string(v)) return fxi_json_str(b, fxi_json_text(v), fxi_json_string(v).n);
    if (!v) return fxi_buf_str(b, "null");
    return fxi_buf_fmt(b, "%lld", (long long)fxi_json_int(v));
}

bool fxi_finish_add(fxi_buf *b, const fxi_reply *r, const fxi_choice *c, fx_finish f)
{
    static const char *const words[FX_N_FINISH] = {
        [FX_FINISH_STOP] = "\"stop\"",
        [FX_FINISH_LENGTH] = "\"length\"",
    };
    const char *word = f == FX_FINISH_STOP && c->n_done ? "\"tool_calls\"" : words[f];
    return fxi_buf_fmt(b, "\"finish_reason\":%s", word ? word : "null") &&
           ((r->spec.stream && !c->stop_reason) || add_stop_reason(b, c->stop_reason));
}

bool fxi_list_add_int(fxi_buf *list, int64_t v)
{
    return fxi_buf_fmt(list, "%s%lld", list->n ? "," : "", (long long)v);
}

bool fxi_list_write(fxi_buf *b, const char *name, const fxi_buf *list)
{
    return fxi_buf_fmt(b, ",\"%s\":[", name) && (!list->n || fxi_buf_add(b, list->p, list->n)) &&
           fxi_buf_str(b, "]");
}

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
