// api_whole.c - whole bodies: a finished reply, a rendered prompt, a model's description.
#include "server/reply/api_reply.h"
#include "server/reply/json_out.h"

static bool add_choice(fxi_buf *b, const fxi_reply *r, int k)
{
    static const struct frame {
        const char *before, *after;
    } frames[] = {
        [FXI_API_COMPLETIONS] = {"\"text\":", ""},
        [FXI_API_CHAT] = {"\"message\":{\"role\":\"assistant\",\"content\":", ",\"refusal\":null}"},
    };
    const struct frame *f = &frames[r->spec.api];
    const fxi_choice *c = &r->choice[k];
    return fxi_buf_fmt(b, "%s{\"index\":%d,%s", k ? "," : "", k, f->before) &&
           fxi_json_str(b, c->text.p, c->text.n) &&
           fxi_buf_fmt(b, "%s,\"logprobs\":null,", f->after) && fxi_finish_add(b, c, c->finish) &&
           fxi_buf_str(b, "}");
}

bool fxi_whole_body(fxi_buf *b, const fxi_reply *r)
{
    static const char *const objects[] = {"text_completion", "chat.completion"};
    bool ok = fxi_buf_fmt(b, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", r->id,
                          objects[r->spec.api], (long long)r->created) &&
              fxi_json_cstr(b, r->model) && fxi_buf_str(b, ",\"system_fingerprint\":") &&
              fxi_json_cstr(b, r->fingerprint) && fxi_buf_str(b, ",\"choices\":[");
    for (int k = 0; ok && k < r->spec.n_prompt * r->spec.n_per_prompt; k++)
        ok = add_choice(b, r, k);
    return ok && fxi_buf_str(b, "],\"usage\":") && fxi_usage_add(b, r) && fxi_buf_str(b, "}");
}

bool fxi_whole_prompt(fxi_buf *b, const char *text, size_t n_bytes)
{
    return fxi_buf_str(b, "{\"prompt\":") && fxi_json_str(b, text, n_bytes) && fxi_buf_str(b, "}");
}

bool fxi_whole_model(fxi_buf *b, const char *model_id, int64_t created, int ctx_tok)
{
    return fxi_buf_str(b, "{\"id\":") && fxi_json_cstr(b, model_id) &&
           fxi_buf_fmt(b,
                       ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"flexinfer\","
                       "\"max_model_len\":%d,\"root\":",
                       (long long)created, ctx_tok) &&
           fxi_json_cstr(b, model_id) && fxi_buf_str(b, ",\"parent\":null}");
}
