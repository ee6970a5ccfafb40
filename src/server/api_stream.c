// api_stream.c - one reply as server-sent events.
//
//   chat:        {"role"} -> {"content"} ... -> {} with finish_reason and stop_reason
//   completions:             "text" ...      -> "" with finish_reason and stop_reason
//
// per choice, choices interleave; then the usage chunk if asked for, then [DONE]. An error event
// takes the place of what is left.
//
// All chunks of a stream begin alike, so that beginning is written once.
#include "server/server_internal.h"

bool fxi_stream_head(fxi_answer *a)
{
    static const char *const objects[] = {"text_completion", "chat.completion.chunk"};
    return fxi_buf_fmt(&a->head,
                       "data: {\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", a->id,
                       objects[a->api], (long long)a->created) &&
           fxi_json_cstr(&a->head, a->model) && fxi_buf_str(&a->head, ",\"choices\":[");
}

static bool chunk_begin(fxi_answer *a)
{
    a->begun = true;
    return fxi_buf_add(&a->out, a->head.p, a->head.n);
}

static bool add_usage(fxi_answer *a)
{
    if (a->continuous_usage)
        return fxi_buf_str(&a->out, ",\"usage\":") && fxi_reply_usage(&a->out, a);
    return !a->include_usage || fxi_buf_str(&a->out, ",\"usage\":null");
}

// What a chunk says of its choice, around a text that may be absent.
typedef struct piece {
    const char *before, *after; // JSON
    const char *text;           // NULL: none
    size_t n_bytes;
} piece;

// How the choice has ended, or that it has not.
static bool add_finish(fxi_answer *a, int k, fx_finish finish)
{
    if (finish == FX_FINISH_NONE) return fxi_buf_str(&a->out, "\"finish_reason\":null");
    return fxi_reply_finish(&a->out, &a->choice[k], finish);
}

static bool chunk(fxi_answer *a, int k, piece s, fx_finish finish)
{
    fxi_buf *b = &a->out;
    return chunk_begin(a) && fxi_buf_fmt(b, "{\"index\":%d,%s", k, s.before) &&
           (!s.text || fxi_json_str(b, s.text, s.n_bytes)) &&
           fxi_buf_fmt(b, "%s,\"logprobs\":null,", s.after) && add_finish(a, k, finish) &&
           fxi_buf_str(b, "}]") && add_usage(a) && fxi_buf_str(b, "}\n\n");
}

static bool role_chunk(fxi_answer *a, int k)
{
    static const piece role = {"\"delta\":{\"role\":\"assistant\",\"content\":\"\"}", "", NULL, 0};
    if (a->choice[k].begun) return true;
    a->choice[k].begun = true;
    return a->api != FXI_API_CHAT || chunk(a, k, role, FX_FINISH_NONE);
}

static bool text_chunk(fxi_answer *a, int k, const char *text, size_t n_bytes)
{
    if (!n_bytes) return true;
    piece chat = {"\"delta\":{\"content\":", "}", text, n_bytes};
    piece plain = {"\"text\":", "", text, n_bytes};
    return chunk(a, k, a->api == FXI_API_CHAT ? chat : plain, FX_FINISH_NONE);
}

static bool final_chunk(fxi_answer *a, int k, fx_finish finish)
{
    static const piece ends[] = {{"\"text\":\"\"", "", NULL, 0}, {"\"delta\":{}", "", NULL, 0}};
    return finish == FX_FINISH_NONE || chunk(a, k, ends[a->api], finish);
}

bool fxi_stream_event(fxi_answer *a, int k, const fx_event *ev)
{
    return role_chunk(a, k) && text_chunk(a, k, ev->text, ev->text_bytes) &&
           final_chunk(a, k, ev->finish);
}

bool fxi_stream_end(fxi_answer *a)
{
    fxi_buf *b = &a->out;
    bool ok = !a->include_usage || (chunk_begin(a) && fxi_buf_str(b, "],\"usage\":") &&
                                    fxi_reply_usage(b, a) && fxi_buf_str(b, "}\n\n"));
    return ok && fxi_buf_str(b, "data: [DONE]\n\n");
}

bool fxi_stream_error(fxi_answer *a, const fxi_http_error *e)
{
    return fxi_buf_str(&a->out, "data: ") && fxi_http_error_body(&a->out, e) &&
           fxi_buf_str(&a->out, "\n\ndata: [DONE]\n\n");
}
