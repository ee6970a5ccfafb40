// api_whole.c - the body of a finished reply: text, a conversation's answer, embeddings, prompts
// that are kept.
#include "base/json/json_write.h"
#include "base/text/base64.h"
#include "server/reply/api_reply.h"
#include "server/reply/dialect/dialect_out.h"

// ---- text and chat ------------------------------------------------------------------------------

static size_t content_bytes(const fxi_choice *c, fxi_answer_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_content; i++)
        if (c->content[i].kind == kind) n += c->content[i].text.n;
    return n;
}

// All of one kind, as one string.
static bool add_content_text(fxi_buf *b, const fxi_choice *c, fxi_answer_kind kind)
{
    fxi_buf all = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < c->n_content; i++)
        ok = c->content[i].kind != kind ||
             fxi_buf_add(&all, c->content[i].text.p, c->content[i].text.n);
    ok = ok && fxi_json_str(b, all.p, all.n);
    fxi_buf_free(&all);
    return ok;
}

static bool add_call(fxi_buf *b, const fxi_content_part *p, bool first)
{
    return fxi_buf_fmt(b, "%s{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":",
                       first ? "" : ",", p->id) &&
           fxi_json_str(b, p->name.p, p->name.n) && fxi_buf_str(b, ",\"arguments\":") &&
           fxi_json_str(b, p->text.p, p->text.n) && fxi_buf_str(b, "}}");
}

// Members of a message beside its content.
static bool add_content(fxi_buf *b, const fxi_choice *c)
{
    bool ok =
        !content_bytes(c, FXI_ANSWER_REASONING) ||
        (fxi_buf_str(b, ",\"reasoning_content\":") && add_content_text(b, c, FXI_ANSWER_REASONING));
    if (!c->n_call) return ok;
    ok = ok && fxi_buf_str(b, ",\"tool_calls\":[");
    bool first = true;
    for (size_t i = 0; ok && i < c->n_content; i++) {
        if (c->content[i].kind != FXI_ANSWER_CALL) continue;
        ok = add_call(b, &c->content[i], first);
        first = false;
    }
    return ok && fxi_buf_str(b, "]");
}

static bool add_choice_text(fxi_buf *b, const fxi_choice *c, const fxi_prompt_part *prompt)
{
    const bool says_other = c->n_call || content_bytes(c, FXI_ANSWER_REASONING);
    if (says_other && !content_bytes(c, FXI_ANSWER_TEXT)) return fxi_buf_str(b, "null");
    if (c->answer) return add_content_text(b, c, FXI_ANSWER_TEXT);
    if (!prompt->echo.n) return fxi_json_str(b, c->text.p, c->text.n);
    fxi_buf both = {0};
    bool ok = fxi_buf_add(&both, prompt->echo.p, prompt->echo.n) &&
              (!c->text.n || fxi_buf_add(&both, c->text.p, c->text.n)) &&
              fxi_json_str(b, both.p, both.n);
    fxi_buf_free(&both);
    return ok;
}

static bool add_logprobs(fxi_buf *b, const fxi_reply *r, const fxi_choice *c,
                         const fxi_prompt_part *prompt)
{
    if (!r->spec.logprobs) return fxi_buf_str(b, "null");
    return fxi_probs_write(b, r, &prompt->probs, &c->probs);
}

// Of completions they are members of each choice, of a chat members of the body.
static bool add_of_prompt(fxi_buf *b, const fxi_reply *r, const fxi_prompt_part *prompt)
{
    return (!r->spec.prompt_logprobs || fxi_list_write(b, "prompt_logprobs", &prompt->logprobs)) &&
           (!r->spec.return_ids || fxi_list_write(b, "prompt_token_ids", &prompt->ids));
}

static bool add_choice(fxi_buf *b, const fxi_reply *r, int k)
{
    static const struct frame {
        const char *before, *after;
    } frames[] = {
        [FXI_API_COMPLETIONS] = {"\"text\":", ""},
        [FXI_API_CHAT] = {"\"message\":{\"role\":\"assistant\",\"content\":", ",\"refusal\":null"},
    };
    const struct frame *f = &frames[r->spec.api];
    const fxi_choice *c = &r->choice[k];
    const fxi_prompt_part *prompt = &r->prompt[k / r->spec.n_per_prompt];
    return fxi_buf_fmt(b, "%s{\"index\":%d,%s", k ? "," : "", k, f->before) &&
           add_choice_text(b, c, prompt) && fxi_buf_str(b, f->after) &&
           (r->spec.api != FXI_API_CHAT || (add_content(b, c) && fxi_buf_str(b, "}"))) &&
           fxi_buf_str(b, ",\"logprobs\":") && add_logprobs(b, r, c, prompt) &&
           fxi_buf_str(b, ",") && fxi_finish_add(b, r, c, c->finish) &&
           (!r->spec.return_ids || fxi_list_write(b, "token_ids", &c->ids)) &&
           (r->spec.api == FXI_API_CHAT || add_of_prompt(b, r, prompt)) && fxi_buf_str(b, "}");
}

static bool write_answer(fxi_buf *b, const fxi_reply *r)
{
    static const char *const objects[] = {"text_completion", "chat.completion"};
    bool ok = fxi_buf_fmt(b, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", r->id,
                          objects[r->spec.api], (long long)r->created) &&
              fxi_json_cstr(b, r->model) && fxi_buf_str(b, ",\"system_fingerprint\":") &&
              fxi_json_cstr(b, r->fingerprint) && fxi_buf_str(b, ",\"choices\":[");
    for (int k = 0; ok && k < r->spec.n_prompt * r->spec.n_per_prompt; k++)
        ok = add_choice(b, r, k);
    return ok && fxi_buf_str(b, "],\"usage\":") && fxi_usage_add(b, r) && fxi_timings_add(b, r) &&
           (r->spec.api != FXI_API_CHAT || add_of_prompt(b, r, &r->prompt[0])) &&
           fxi_buf_str(b, "}");
}

// ---- embeddings ---------------------------------------------------------------------------------

static bool add_vector(fxi_buf *b, const fxi_reply *r, const fxi_buf *floats)
{
    const float *v = (const float *)floats->p;
    if (r->spec.base64)
        return fxi_buf_str(b, "\"") && fxi_base64_add(b, floats->p, floats->n) &&
               fxi_buf_str(b, "\"");
    bool ok = fxi_buf_str(b, "[");
    for (size_t i = 0; ok && i < floats->n / sizeof *v; i++)
        ok = (!i || fxi_buf_str(b, ",")) && fxi_json_float(b, v[i]);
    return ok && fxi_buf_str(b, "]");
}

static bool write_embeddings(fxi_buf *b, const fxi_reply *r)
{
    const int n_tok = fxi_usage_of(r).n_prompt;
    bool ok = fxi_buf_str(b, "{\"object\":\"list\",\"data\":[");
    for (int k = 0; ok && k < r->spec.n_prompt; k++)
        ok = fxi_buf_fmt(b, "%s{\"object\":\"embedding\",\"index\":%d,\"embedding\":", k ? "," : "",
                         k) &&
             add_vector(b, r, &r->choice[k].text) && fxi_buf_str(b, "}");
    return ok && fxi_buf_str(b, "],\"model\":") && fxi_json_cstr(b, r->model) &&
           fxi_buf_fmt(b, ",\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d}}", n_tok, n_tok);
}

// ---- prompts that are kept ----------------------------------------------------------------------

static bool write_retained(fxi_buf *b, const fxi_reply *r)
{
    bool ok = fxi_buf_str(b, "{\"object\":\"list\",\"data\":[");
    for (int k = 0; ok && k < r->spec.n_prompt; k++)
        ok = fxi_buf_fmt(b,
                         "%s{\"object\":\"cache.prefix\",\"index\":%d,\"tokens\":%d,"
                         "\"cached_tokens\":%d}",
                         k ? "," : "", k, r->use[k].n_prompt, r->use[k].n_cached);
    return ok && fxi_buf_str(b, "]}");
}

// ---- all of them --------------------------------------------------------------------------------

size_t fxi_whole_bytes(const fxi_reply *r)
{
    enum { FRAME_BYTES = 256, FLOAT_BYTES = 16 }; // of JSON around a choice; of a float and a comma
    size_t n = FRAME_BYTES;
    for (int k = 0; k < r->spec.n_prompt * r->spec.n_per_prompt; k++) {
        const fxi_choice *c = &r->choice[k];
        const fxi_prompt_part *p = &r->prompt[k / r->spec.n_per_prompt];
        n += FRAME_BYTES + fxi_content_bytes(c) + c->ids.n + fxi_probs_bytes(&c->probs) +
             p->echo.n + p->ids.n + p->logprobs.n + fxi_probs_bytes(&p->probs);
        if (r->spec.api != FXI_API_EMBEDDINGS)
            n += c->text.n + c->text.n / 8;
        else
            n += r->spec.base64 ? c->text.n / 3 * 4 + 4 : c->text.n / sizeof(float) * FLOAT_BYTES;
    }
    return n;
}

bool fxi_whole_body(fxi_buf *b, const fxi_reply *r)
{
    static bool (*const writers[])(fxi_buf * b, const fxi_reply *r) = {
        [FXI_API_COMPLETIONS] = write_answer,      [FXI_API_CHAT] = write_answer,
        [FXI_API_EMBEDDINGS] = write_embeddings,   [FXI_API_RETAIN] = write_retained,
        [FXI_API_RESPONSES] = fxi_responses_whole, [FXI_API_MESSAGES] = fxi_messages_whole,
    };
    return writers[r->spec.api](b, r);
}
