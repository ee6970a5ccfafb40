#include "server/server_internal.h"

// A string or an integer of the client's, or NULL.
static bool add_reason(fxi_buf *b, const json_t *v)
{
    if (json_is_string(v)) return fxi_json_str(b, json_string_value(v), json_string_length(v));
    if (!v) return fxi_buf_str(b, "null");
    return fxi_buf_fmt(b, "%lld", (long long)json_integer_value(v));
}

bool fxi_reply_finish(fxi_buf *b, const fxi_choice *c, fx_finish f)
{
    static const char *const words[FX_N_FINISH] = {
        [FX_FINISH_STOP] = "\"stop\"",
        [FX_FINISH_LENGTH] = "\"length\"",
    };
    return fxi_buf_fmt(b, "\"finish_reason\":%s,\"stop_reason\":", words[f] ? words[f] : "null") &&
           add_reason(b, c->stop_reason);
}

bool fxi_reply_usage(fxi_buf *b, const fxi_answer *a)
{
    fxi_prompt_use use = fxi_answer_prompt_use(a);
    int generated = fxi_answer_generated(a);
    return fxi_buf_fmt(b,
                       "{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
                       "\"prompt_tokens_details\":{\"cached_tokens\":%d}}",
                       use.n_prompt, generated, use.n_prompt + generated, use.n_cached);
}

static bool add_choice(fxi_buf *b, const fxi_answer *a, int k)
{
    static const struct frame {
        const char *before, *after;
    } frames[] = {
        [FXI_API_COMPLETIONS] = {"\"text\":", ""},
        [FXI_API_CHAT] = {"\"message\":{\"role\":\"assistant\",\"content\":", ",\"refusal\":null}"},
    };
    const struct frame *f = &frames[a->api];
    const fxi_choice *c = &a->choice[k];
    return fxi_buf_fmt(b, "%s{\"index\":%d,%s", k ? "," : "", k, f->before) &&
           fxi_json_str(b, c->text.p, c->text.n) &&
           fxi_buf_fmt(b, "%s,\"logprobs\":null,", f->after) && fxi_reply_finish(b, c, c->finish) &&
           fxi_buf_str(b, "}");
}

bool fxi_reply_body(fxi_buf *b, const fxi_answer *a)
{
    static const char *const objects[] = {"text_completion", "chat.completion"};
    bool ok = fxi_buf_fmt(b, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", a->id,
                          objects[a->api], (long long)a->created) &&
              fxi_json_cstr(b, a->model) && fxi_buf_str(b, ",\"system_fingerprint\":") &&
              fxi_json_cstr(b, a->fingerprint) && fxi_buf_str(b, ",\"choices\":[");
    for (int k = 0; ok && k < a->n_prompt * a->n_per_prompt; k++) ok = add_choice(b, a, k);
    return ok && fxi_buf_str(b, "],\"usage\":") && fxi_reply_usage(b, a) && fxi_buf_str(b, "}");
}

bool fxi_reply_prompt(fxi_buf *b, const char *text, size_t n_bytes)
{
    return fxi_buf_str(b, "{\"prompt\":") && fxi_json_str(b, text, n_bytes) && fxi_buf_str(b, "}");
}

bool fxi_reply_model(fxi_buf *b, const char *model_id, int64_t created, int ctx_tok)
{
    return fxi_buf_str(b, "{\"id\":") && fxi_json_cstr(b, model_id) &&
           fxi_buf_fmt(b,
                       ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"flexinfer\","
                       "\"max_model_len\":%d,\"root\":",
                       (long long)created, ctx_tok) &&
           fxi_json_cstr(b, model_id) && fxi_buf_str(b, ",\"parent\":null}");
}
