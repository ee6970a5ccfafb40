// api_body.c - one reply as text for the client: server-sent events, or one JSON body.
//
// Events of a stream:
//
//   chat:        {"role"} -> {"reasoning_content"} ... {"content"} ... {"tool_calls"} ...
//                         -> {} with finish_reason
//   completions: [echo]   -> "text" ...      -> "" with finish_reason
//
// per choice, and choices interleave; then the usage chunk if the client asked for it, then [DONE].
// After an error, an error event replaces the rest.
//
// Logprobs and token ids ride in the chunk with the text of their token: those of tokens without
// text, or whose text is held back, wait in the choice for the next chunk.
//
// All chunks of a stream start alike; that start is written once, into the reply's `head`.
#include <stdio.h>

#include "base/json/json.h"
#include "base/text/base64.h"
#include "server/reply/api_reply.h"

// ---- streams ------------------------------------------------------------------------------------

static bool stream_head(fxi_reply *r)
{
    static const char *const objects[] = {"text_completion", "chat.completion.chunk"};
    return fxi_buf_fmt(&r->head,
                       "data: {\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", r->id,
                       objects[r->spec.api], (long long)r->created) &&
           fxi_json_cstr(&r->head, r->model) && fxi_buf_str(&r->head, ",\"choices\":[");
}

static bool begin_chunk(fxi_reply *r)
{
    r->begun = true;
    return fxi_buf_add(&r->out, r->head.p, r->head.n);
}

static bool add_chunk_usage(fxi_reply *r)
{
    if (r->spec.continuous_usage)
        return fxi_buf_str(&r->out, ",\"usage\":") && fxi_usage_add(&r->out, r);
    return !r->spec.include_usage || fxi_buf_str(&r->out, ",\"usage\":null");
}

// A choice's part of a chunk: JSON around an optional text.
typedef struct chunk_part {
    const char *before, *after; // JSON
    const char *text;           // NULL: none
    size_t n_bytes;
    const fxi_probs *probs; // NULL: none
    const fxi_buf *ids;     // NULL: none
    bool first;             // of the choice
} chunk_part;

static bool add_chunk_finish(fxi_reply *r, int k, fx_finish finish)
{
    if (finish == FX_FINISH_NONE) return fxi_buf_str(&r->out, "\"finish_reason\":null");
    return fxi_finish_add(&r->out, r, &r->choice[k], finish);
}

static bool add_chunk_probs(fxi_reply *r, const fxi_probs *p)
{
    if (!p || fxi_probs_are_empty(p)) return fxi_buf_str(&r->out, "\"logprobs\":null,");
    return fxi_buf_str(&r->out, "\"logprobs\":") && fxi_probs_write(&r->out, r, p, NULL) &&
           fxi_buf_str(&r->out, ",");
}

static bool add_chunk_ids(fxi_reply *r, const fxi_buf *ids)
{
    return !r->spec.return_ids || !ids || fxi_list_write(&r->out, "token_ids", ids);
}

// The prompt's ids come once per choice; of completions inside of it.
static bool add_prompt_ids(fxi_reply *r, int k, bool here)
{
    return !r->spec.return_ids || !here ||
           fxi_list_write(&r->out, "prompt_token_ids", &r->prompt[k / r->spec.n_per_prompt].ids);
}

static bool add_chunk(fxi_reply *r, int k, chunk_part s, fx_finish finish)
{
    fxi_buf *b = &r->out;
    const bool chat = r->spec.api == FXI_API_CHAT;
    return begin_chunk(r) && fxi_buf_fmt(b, "{\"index\":%d,%s", k, s.before) &&
           (!s.text || fxi_json_str(b, s.text, s.n_bytes)) && fxi_buf_fmt(b, "%s,", s.after) &&
           add_chunk_probs(r, s.probs) && add_chunk_finish(r, k, finish) &&
           add_chunk_ids(r, s.ids) && add_prompt_ids(r, k, s.first && !chat) &&
           fxi_buf_str(b, "}]") && add_prompt_ids(r, k, s.first && chat) && add_chunk_usage(r) &&
           fxi_timings_add(b, r) && fxi_buf_str(b, "}\n\n");
}

static bool add_role_chunk(fxi_reply *r, int k)
{
    static const chunk_part role = {.before = "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}",
                                    .after = "",
                                    .first = true};
    return add_chunk(r, k, role, FX_FINISH_NONE);
}

static bool add_echo_chunk(fxi_reply *r, int k)
{
    const fxi_prompt_part *p = &r->prompt[k / r->spec.n_per_prompt];
    const chunk_part echo = {.before = "\"text\":",
                             .after = "",
                             .text = p->echo.p ? p->echo.p : "",
                             .n_bytes = p->echo.n,
                             .probs = &p->probs,
                             .first = true};
    return add_chunk(r, k, echo, FX_FINISH_NONE);
}

static bool stream_begin(fxi_reply *r, int k)
{
    if (r->choice[k].begun) return true;
    const bool chat = r->spec.api == FXI_API_CHAT;
    if (chat || r->spec.echo) r->choice[k].begun = true;
    return chat ? add_role_chunk(r, k) : !r->spec.echo || add_echo_chunk(r, k);
}

// A chunk with what waits in the choice.
static bool add_choice_chunk(fxi_reply *r, int k, chunk_part s, fx_finish finish)
{
    fxi_choice *c = &r->choice[k];
    s.probs = &c->probs;
    s.ids = &c->ids;
    s.first = !c->begun;
    c->begun = true;
    if (!add_chunk(r, k, s, finish)) return false;
    fxi_probs_clear(&c->probs);
    fxi_buf_clear(&c->ids);
    return true;
}

static bool stream_text(fxi_reply *r, int k, const char *text, size_t n_bytes)
{
    if (!n_bytes) return true;
    const bool chat = r->spec.api == FXI_API_CHAT;
    return add_choice_chunk(r, k,
                            (chunk_part){.before = chat ? "\"delta\":{\"content\":" : "\"text\":",
                                         .after = chat ? "}" : "",
                                         .text = text,
                                         .n_bytes = n_bytes},
                            FX_FINISH_NONE);
}

static bool stream_finish(fxi_reply *r, int k, fx_finish finish)
{
    static const chunk_part ends[] = {{.before = "\"text\":\"\"", .after = ""},
                                      {.before = "\"delta\":{}", .after = ""}};
    return add_choice_chunk(r, k, ends[r->spec.api], finish);
}

// ---- reasoning and calls ------------------------------------------------------------------------

static bool add_delta(fxi_reply *r, int k, const char *before, const fxi_output_event *ev,
                      const char *after)
{
    return add_choice_chunk(
        r, k, (chunk_part){.before = before, .after = after, .text = ev->p, .n_bytes = ev->n},
        FX_FINISH_NONE);
}

static bool stream_reasoning(fxi_reply *r, int k, const fxi_output_event *ev)
{
    return add_delta(r, k, "\"delta\":{\"reasoning_content\":", ev, "}");
}

static bool stream_call(fxi_reply *r, int k, const fxi_output_event *ev)
{
    char id[FXI_CALL_ID_BYTES], before[FXI_CALL_ID_BYTES + 96];
    const int n = r->choice[k].n_call++;
    fxi_tools_call_id(r, k, n, ev, id);
    snprintf(before, sizeof before,
             "\"delta\":{\"tool_calls\":[{\"index\":%d,\"id\":\"%s\",\"type\":\"function\","
             "\"function\":{\"name\":",
             n, id);
    return add_delta(r, k, before, ev, ",\"arguments\":\"\"}}]}");
}

static bool stream_args_event(fxi_reply *r, int k, const fxi_output_event *ev)
{
    char before[96];
    snprintf(before, sizeof before,
             "\"delta\":{\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":",
             r->choice[k].n_call - 1);
    return add_delta(r, k, before, ev, "}}]}");
}

// What was emitted of a call that is none after all stays so; the rest is text.
static bool stream_rest(fxi_reply *r, int k, const fxi_output_event *ev)
{
    return stream_text(r, k, ev->p + ev->n_emitted, ev->n - ev->n_emitted);
}

static bool stream_text_event(fxi_reply *r, int k, const fxi_output_event *ev)
{
    return stream_text(r, k, ev->p, ev->n);
}

static bool stream_nothing(fxi_reply *r, int k, const fxi_output_event *ev)
{
    (void)r, (void)k, (void)ev;
    return true;
}

static bool stream_content(fxi_reply *r, int k, const fxi_output_event *ev)
{
    static bool (*const add[])(fxi_reply *, int, const fxi_output_event *) = {
        [FXI_OUTPUT_TEXT] = stream_text_event, [FXI_OUTPUT_REASONING] = stream_reasoning,
        [FXI_OUTPUT_CALL] = stream_call,       [FXI_OUTPUT_ARGS] = stream_args_event,
        [FXI_OUTPUT_DONE] = stream_nothing,    [FXI_OUTPUT_BROKEN] = stream_rest,
    };
    return add[ev->kind](r, k, ev);
}

static bool stream_end(fxi_reply *r)
{
    fxi_buf *b = &r->out;
    bool ok = !r->spec.include_usage ||
              (begin_chunk(r) && fxi_buf_str(b, "],\"usage\":") && fxi_usage_add(b, r) &&
               fxi_timings_add(b, r) && fxi_buf_str(b, "}\n\n"));
    return ok && fxi_buf_str(b, "data: [DONE]\n\n");
}

static bool stream_error(fxi_reply *r, const fxi_http_error *e)
{
    return fxi_buf_str(&r->out, "data: ") && fxi_http_error_body(&r->out, e) &&
           fxi_buf_str(&r->out, "\n\ndata: [DONE]\n\n");
}

const fxi_writer fxi_stream_writer = {.ping = ": ping\n\n",
                                      .head = stream_head,
                                      .begin = stream_begin,
                                      .text = stream_text,
                                      .content = stream_content,
                                      .finish = stream_finish,
                                      .end = stream_end,
                                      .error = stream_error};

// ---- whole bodies -------------------------------------------------------------------------------

// The body of a finished reply: text, a conversation's answer, embeddings, prompts
// that are kept.

// ---- text and chat ------------------------------------------------------------------------------

static size_t content_bytes(const fxi_choice *c, fxi_output_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_content; i++)
        if (c->content[i].kind == kind) n += c->content[i].text.n;
    return n;
}

// All of one kind, as one string.
static bool add_content_text(fxi_buf *b, const fxi_choice *c, fxi_output_kind kind)
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
        !content_bytes(c, FXI_OUTPUT_REASONING) ||
        (fxi_buf_str(b, ",\"reasoning_content\":") && add_content_text(b, c, FXI_OUTPUT_REASONING));
    if (!c->n_call) return ok;
    ok = ok && fxi_buf_str(b, ",\"tool_calls\":[");
    bool first = true;
    for (size_t i = 0; ok && i < c->n_content; i++) {
        if (c->content[i].kind != FXI_OUTPUT_CALL) continue;
        ok = add_call(b, &c->content[i], first);
        first = false;
    }
    return ok && fxi_buf_str(b, "]");
}

static bool add_choice_text(fxi_buf *b, const fxi_choice *c, const fxi_prompt_part *prompt)
{
    const bool says_other = c->n_call || content_bytes(c, FXI_OUTPUT_REASONING);
    if (says_other && !content_bytes(c, FXI_OUTPUT_TEXT)) return fxi_buf_str(b, "null");
    if (c->answer) return add_content_text(b, c, FXI_OUTPUT_TEXT);
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
