// api_parts.c - what streams and whole bodies share: token counts, ids, and how a choice ended.
#include "base/json/json_write.h"
#include "server/reply/api_reply.h"

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
static bool add_stop_reason(fxi_buf *b, const json_t *v)
{
    if (!fxi_buf_str(b, ",\"stop_reason\":")) return false;
    if (json_is_string(v)) return fxi_json_str(b, json_string_value(v), json_string_length(v));
    if (!v) return fxi_buf_str(b, "null");
    return fxi_buf_fmt(b, "%lld", (long long)json_integer_value(v));
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
