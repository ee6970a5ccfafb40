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
    return fxi_json_fmt(b,
                        "{'prompt_tokens':%d,'completion_tokens':%d,'total_tokens':%d,"
                        "'prompt_tokens_details':{'cached_tokens':%d}",
                        use.n_prompt, use.n_generated, use.n_prompt + use.n_generated,
                        use.n_cached) &&
           fxi_json_fmt(
               b, r->spec.reasoning ? ",'completion_tokens_details':{'reasoning_tokens':%d}}" : "}",
               use.n_reasoning);
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
    return fxi_json_fmt(b, ",'timings':{'cache_n':%d", use.n_cached) &&
           add_rate(b, "prompt", use.n_prompt - use.n_cached, prefill_us) &&
           add_rate(b, "predicted", use.n_generated, decode_us) && fxi_buf_str(b, "}");
}

bool fxi_finish_add(fxi_buf *b, const fxi_reply *r, const fxi_choice *c, fx_finish f)
{
    static const char *const words[FX_N_FINISH] = {
        [FX_FINISH_STOP] = "stop",
        [FX_FINISH_LENGTH] = "length",
    };
    const char *word = f == FX_FINISH_STOP && c->n_done ? "tool_calls" : words[f];
    return fxi_json_fmt(b, ",'finish_reason':%q", word) &&
           ((r->spec.stream && !c->stop_reason) ||
            fxi_json_fmt(b, ",'stop_reason':%v", c->stop_reason));
}

bool fxi_list_add_int(fxi_buf *list, int64_t v)
{
    return fxi_buf_fmt(list, "%s%lld", list->n ? "," : "", (long long)v);
}

// ---- names --------------------------------------------------------------------------------------

static size_t spell_bytes(const char *s, size_t n, char name[NAME_BYTES])
{
    size_t at = (size_t)snprintf(name, NAME_BYTES, "bytes:");
    for (size_t i = 0; i < n && at + 5 < NAME_BYTES; i++)
        at += (size_t)snprintf(name + at, NAME_BYTES - at, "\\x%02x", (unsigned char)s[i]);
    return at;
}

// The name, in `room`.
static fxi_str name_token(const fxi_reply *r, int32_t id, char room[NAME_BYTES])
{
    size_t n;
    const char *s = fx_token_text(r->eng, id, &n);
    if (r->spec.tokens_as_ids)
        n = (size_t)snprintf(room, NAME_BYTES, "token_id:%d", id);
    else if (r->spec.api != FXI_API_CHAT && fxi_utf8_check(s, n) < n)
        n = spell_bytes(s, n, room);
    else
        memcpy(room, s, n = n < NAME_BYTES ? n : NAME_BYTES);
    return (fxi_str){room, n};
}

static bool add_comma(fxi_buf *list)
{
    return !list->n || fxi_buf_str(list, ",");
}

// ---- completions --------------------------------------------------------------------------------

// Whether the name of the i-th likeliest token stands already: of the chosen one, or of a likelier
// one.
static bool is_named(const fxi_reply *r, int32_t chosen, const fx_token_prob *p, int i)
{
    char room[NAME_BYTES], other[NAME_BYTES];
    const fxi_str name = name_token(r, p->top[i].token, room);
    bool named = !fxi_str_compare(name, name_token(r, chosen, other));
    for (int k = 0; !named && k < i; k++)
        named = !fxi_str_compare(name, name_token(r, p->top[k].token, other));
    return named;
}

static bool add_likeliest(fxi_buf *b, const fxi_reply *r, int32_t chosen, const fx_token_prob *p)
{
    char room[NAME_BYTES];
    bool ok = fxi_json_fmt(b, "{%t:%f", name_token(r, chosen, room), (double)p->logprob);
    for (int i = 0; ok && i < p->n_top && i < r->spec.n_top; i++)
        if (!is_named(r, chosen, p, i))
            ok = fxi_json_fmt(b, ",%t:%f", name_token(r, p->top[i].token, room),
                              (double)p->top[i].logprob);
    return ok && fxi_buf_str(b, "}");
}

static bool add_to_lists(const fxi_reply *r, fxi_probs *p, int32_t token, const fx_token_prob *prob,
                         size_t at)
{
    char room[NAME_BYTES];
    const char *comma = p->list[FXI_PROBS_TOKEN].n ? "," : "";
    fxi_buf *const value = &p->list[FXI_PROBS_VALUE], *const top = &p->list[FXI_PROBS_TOP];
    return fxi_json_fmt(&p->list[FXI_PROBS_TOKEN], "%s%t", comma, name_token(r, token, room)) &&
           fxi_json_fmt(value, prob ? "%s%f" : "%snull", comma, prob ? prob->logprob : 0.0) &&
           fxi_json_fmt(top, prob ? "%s" : "%snull", comma) &&
           (!prob || add_likeliest(top, r, token, prob)) &&
           fxi_list_add_int(&p->list[FXI_PROBS_OFFSET], (int64_t)at);
}

// ---- chat ---------------------------------------------------------------------------------------

// Without the closing brace.
static bool open_object(fxi_buf *b, const fxi_reply *r, int32_t token, float logprob)
{
    size_t n;
    char room[NAME_BYTES];
    const char *s = fx_token_text(r->eng, token, &n);
    bool ok = fxi_json_fmt(b, "{'token':%t,'logprob':%f,'bytes':[", name_token(r, token, room),
                           (double)logprob);
    for (size_t i = 0; ok && i < n; i++)
        ok = fxi_json_fmt(b, i ? ",%d" : "%d", (unsigned char)s[i]);
    return ok && fxi_buf_str(b, "]");
}

static bool add_object(const fxi_reply *r, fxi_buf *b, int32_t token, const fx_token_prob *prob)
{
    bool ok = add_comma(b) && open_object(b, r, token, prob->logprob) &&
              fxi_json_fmt(b, ",'top_logprobs':[");
    for (int i = 0; ok && i < prob->n_top && i < r->spec.n_top; i++)
        ok = (!i || fxi_buf_str(b, ",")) &&
             open_object(b, r, prob->top[i].token, prob->top[i].logprob) && fxi_buf_str(b, "}");
    return ok && fxi_buf_str(b, "]}");
}

// ---- both ---------------------------------------------------------------------------------------

bool fxi_probs_add(const fxi_reply *r, fxi_probs *p, int32_t token, const fx_token_prob *prob,
                   size_t at)
{
    return r->spec.api == FXI_API_CHAT ? add_object(r, &p->list[FXI_PROBS_TOKEN], token, prob)
                                       : add_to_lists(r, p, token, prob, at);
}

bool fxi_probs_write(fxi_buf *b, const fxi_reply *r, const fxi_probs *first,
                     const fxi_probs *second)
{
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    const bool is_chat = r->spec.api == FXI_API_CHAT;
    if (!first && !second) return fxi_buf_str(b, "null");
    bool ok = fxi_buf_str(b, "{");
    for (int i = 0; ok && i < (is_chat ? 1 : FXI_N_PROBS); i++) {
        const fxi_buf none = {0}, *x = first ? &first->list[i] : &none,
                      *y = second ? &second->list[i] : &none;
        ok = fxi_json_fmt(b, "%s%q:[%b%s%b]", i ? "," : "", is_chat ? "content" : names[i], x,
                          x->n && y->n ? "," : "", y);
    }
    return ok && fxi_json_fmt(b, is_chat ? ",'refusal':null}" : "}");
}

size_t fxi_probs_bytes(const fxi_probs *p)
{
    size_t n = 0;
    for (int i = 0; i < FXI_N_PROBS; i++) n += p->list[i].cap;
    return n;
}

void fxi_probs_clear(fxi_probs *p)
{
    for (int i = 0; i < FXI_N_PROBS; i++) fxi_buf_clear(&p->list[i]);
}

void fxi_probs_free(fxi_probs *p)
{
    for (int i = 0; i < FXI_N_PROBS; i++) fxi_buf_free(&p->list[i]);
}

// ---- prompt_logprobs ----------------------------------------------------------------------------

static bool add_ranked(fxi_buf *b, const fxi_reply *r, int32_t token, float logprob, int rank)
{
    char room[NAME_BYTES];
    return fxi_json_fmt(b, "'%d':{'logprob':%f,'rank':%d,'decoded_token':%t}", (int)token,
                        (double)logprob, rank, name_token(r, token, room));
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
