// api_stream.c - one reply as server-sent events.
//
//   chat:        {"role"} -> {"content"} ... -> {} with finish_reason and stop_reason
//   completions:             "text" ...      -> "" with finish_reason and stop_reason
//
// per choice, and choices interleave; then the usage chunk if the client asked for it, then [DONE].
// After an error, an error event replaces the rest.
//
// All chunks of a stream start alike; that start is written once, into the reply's `head`.
#include "server/reply/api_reply.h"
#include "server/reply/json_out.h"

bool fxi_stream_head(fxi_reply *r)
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
} chunk_part;

static bool add_chunk_finish(fxi_reply *r, int k, fx_finish finish)
{
    if (finish == FX_FINISH_NONE) return fxi_buf_str(&r->out, "\"finish_reason\":null");
    return fxi_finish_add(&r->out, &r->choice[k], finish);
}

static bool add_chunk(fxi_reply *r, int k, chunk_part s, fx_finish finish)
{
    fxi_buf *b = &r->out;
    return begin_chunk(r) && fxi_buf_fmt(b, "{\"index\":%d,%s", k, s.before) &&
           (!s.text || fxi_json_str(b, s.text, s.n_bytes)) &&
           fxi_buf_fmt(b, "%s,\"logprobs\":null,", s.after) && add_chunk_finish(r, k, finish) &&
           fxi_buf_str(b, "}]") && add_chunk_usage(r) && fxi_buf_str(b, "}\n\n");
}

static bool add_role_chunk(fxi_reply *r, int k)
{
    static const chunk_part role = {"\"delta\":{\"role\":\"assistant\",\"content\":\"\"}", "", NULL,
                                    0};
    if (r->choice[k].begun) return true;
    r->choice[k].begun = true;
    return r->spec.api != FXI_API_CHAT || add_chunk(r, k, role, FX_FINISH_NONE);
}

static bool add_text_chunk(fxi_reply *r, int k, const char *text, size_t n_bytes)
{
    if (!n_bytes) return true;
    chunk_part chat = {"\"delta\":{\"content\":", "}", text, n_bytes};
    chunk_part plain = {"\"text\":", "", text, n_bytes};
    return add_chunk(r, k, r->spec.api == FXI_API_CHAT ? chat : plain, FX_FINISH_NONE);
}

static bool add_final_chunk(fxi_reply *r, int k, fx_finish finish)
{
    static const chunk_part ends[] = {{"\"text\":\"\"", "", NULL, 0},
                                      {"\"delta\":{}", "", NULL, 0}};
    return finish == FX_FINISH_NONE || add_chunk(r, k, ends[r->spec.api], finish);
}

bool fxi_stream_event(fxi_reply *r, int k, const fx_event *ev)
{
    return add_role_chunk(r, k) && add_text_chunk(r, k, ev->text, ev->text_bytes) &&
           add_final_chunk(r, k, ev->finish);
}

bool fxi_stream_end(fxi_reply *r)
{
    fxi_buf *b = &r->out;
    bool ok = !r->spec.include_usage || (begin_chunk(r) && fxi_buf_str(b, "],\"usage\":") &&
                                         fxi_usage_add(b, r) && fxi_buf_str(b, "}\n\n"));
    return ok && fxi_buf_str(b, "data: [DONE]\n\n");
}

bool fxi_stream_error(fxi_reply *r, const fxi_http_error *e)
{
    return fxi_buf_str(&r->out, "data: ") && fxi_http_error_body(&r->out, e) &&
           fxi_buf_str(&r->out, "\n\ndata: [DONE]\n\n");
}
