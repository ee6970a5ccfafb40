// api_stream.c - one reply as server-sent events.
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

#include "base/json/json_write.h"
#include "server/reply/api_reply.h"

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

static bool add_delta(fxi_reply *r, int k, const char *before, const fxi_answer_event *ev,
                      const char *after)
{
    return add_choice_chunk(
        r, k, (chunk_part){.before = before, .after = after, .text = ev->p, .n_bytes = ev->n},
        FX_FINISH_NONE);
}

static bool stream_reasoning(fxi_reply *r, int k, const fxi_answer_event *ev)
{
    return add_delta(r, k, "\"delta\":{\"reasoning_content\":", ev, "}");
}

static bool stream_call(fxi_reply *r, int k, const fxi_answer_event *ev)
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

static bool stream_args_event(fxi_reply *r, int k, const fxi_answer_event *ev)
{
    char before[96];
    snprintf(before, sizeof before,
             "\"delta\":{\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":",
             r->choice[k].n_call - 1);
    return add_delta(r, k, before, ev, "}}]}");
}

// What was emitted of a call that is none after all stays so; the rest is text.
static bool stream_rest(fxi_reply *r, int k, const fxi_answer_event *ev)
{
    return stream_text(r, k, ev->p + ev->n_emitted, ev->n - ev->n_emitted);
}

static bool stream_text_event(fxi_reply *r, int k, const fxi_answer_event *ev)
{
    return stream_text(r, k, ev->p, ev->n);
}

static bool stream_nothing(fxi_reply *r, int k, const fxi_answer_event *ev)
{
    (void)r, (void)k, (void)ev;
    return true;
}

static bool stream_content(fxi_reply *r, int k, const fxi_answer_event *ev)
{
    static bool (*const add[])(fxi_reply *, int, const fxi_answer_event *) = {
        [FXI_ANSWER_TEXT] = stream_text_event, [FXI_ANSWER_REASONING] = stream_reasoning,
        [FXI_ANSWER_CALL] = stream_call,       [FXI_ANSWER_ARGS] = stream_args_event,
        [FXI_ANSWER_DONE] = stream_nothing,    [FXI_ANSWER_BROKEN] = stream_rest,
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
