// api_parts.c - what streams and whole bodies share: token counts, ids, and how a choice ended.
#include "server/reply/api_reply.h"
#include "server/reply/json_out.h"

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
