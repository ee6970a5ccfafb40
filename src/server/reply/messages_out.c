// messages_out.c - an answer as Anthropic's messages have it, whole and streamed.
//
//   message_start, per block: content_block_start, _delta .., _stop, then message_delta with the
//   reason of the end and the usage, message_stop. While nothing comes: ping. Errors: error.
#include "server/reply/api_reply.h"

static bool add_message_block(fxi_buf *b, const fxi_content_part *p, bool whole)
{
    const fxi_str text = {p->text.p, whole ? p->text.n : 0};
    if (p->kind == FXI_OUTPUT_CALL)
        return fxi_json_fmt(b, "{'type':'tool_use','id':%q,'name':%t,'input':%s}", p->id,
                            (fxi_str){p->name.p, p->name.n}, text.n ? p->text.p : "{}");
    if (p->kind == FXI_OUTPUT_REASONING)
        return fxi_json_fmt(b, "{'type':'thinking','thinking':%t,'signature':''}", text);
    return fxi_json_fmt(b, "{'type':'text','text':%t}", text);
}

// ---- the message --------------------------------------------------------------------------------

// The prompt's tokens are those that were computed, and those from the cache.
static bool add_message_usage(fxi_buf *b, const fxi_reply *r)
{
    const fxi_usage use = fxi_usage_of(r);
    return fxi_json_fmt(b,
                        ",'usage':{'input_tokens':%d,'cache_creation_input_tokens':0,"
                        "'cache_read_input_tokens':%d,'output_tokens':%d}",
                        use.n_prompt - use.n_cached, use.n_cached, use.n_generated);
}

static bool add_stop(fxi_buf *b, const fxi_reply *r, fx_finish finish)
{
    const fxi_choice *c = &r->choice[0];
    const char *word = finish == FX_FINISH_NONE             ? NULL
                       : finish == FX_FINISH_LENGTH         ? "max_tokens"
                       : c->n_done                          ? "tool_use"
                       : fxi_json_is_string(c->stop_reason) ? "stop_sequence"
                                                            : "end_turn";
    return fxi_json_fmt(b, "'stop_reason':%q,'stop_sequence':%q", word,
                        fxi_json_text(c->stop_reason));
}

static bool add_whole_message(fxi_buf *b, const fxi_reply *r, bool whole)
{
    const fxi_choice *c = &r->choice[0];
    bool ok = fxi_json_fmt(b, "{'id':%q,'type':'message','role':'assistant','model':%q,'content':[",
                           r->id, r->model);
    const char *comma = "";
    for (size_t i = 0; ok && whole && i < c->n_content; i++) {
        const fxi_content_part *p = &c->content[i];
        if (p->kind == FXI_OUTPUT_CALL && p->is_broken) continue; // its input is no JSON
        ok = fxi_buf_str(b, comma) && add_message_block(b, p, true);
        comma = ",";
    }
    return ok && fxi_buf_str(b, "],") && add_stop(b, r, whole ? c->finish : FX_FINISH_NONE) &&
           add_message_usage(b, r) && fxi_buf_str(b, "}");
}

bool fxi_messages_whole(fxi_buf *b, const fxi_reply *r)
{
    return add_whole_message(b, r, true);
}

// ---- errors -------------------------------------------------------------------------------------

bool fxi_messages_error_body(fxi_buf *b, const fxi_http_error *e, const char *request_id)
{
    return fxi_json_fmt(b, "{'type':'error','error':{'type':%q,'message':%q},'request_id':%q}",
                        fxi_http_status_of(e->status)->anthropic, e->message, request_id);
}

// ---- events -------------------------------------------------------------------------------------

static bool begin_event(fxi_reply *r, const char *type)
{
    r->begun = true;
    return fxi_json_fmt(&r->out, "event: %s\ndata: {'type':%q", type, type);
}

static bool end_event(fxi_reply *r)
{
    return fxi_buf_str(&r->out, "}\n\n");
}

static bool begin_message_stream(fxi_reply *r, int k)
{
    if (r->choice[k].begun) return true;
    r->choice[k].begun = true;
    return begin_event(r, "message_start") && fxi_json_fmt(&r->out, ",'message':") &&
           add_whole_message(&r->out, r, false) && end_event(r);
}

static bool close_block(fxi_reply *r, size_t i, const char *status)
{
    (void)status;
    return begin_event(r, "content_block_stop") && fxi_json_fmt(&r->out, ",'index':%z", i) &&
           end_event(r);
}

static bool open_block(fxi_reply *r, size_t i)
{
    return begin_event(r, "content_block_start") &&
           fxi_json_fmt(&r->out, ",'index':%z,'content_block':", i) &&
           add_message_block(&r->out, &r->choice[0].content[i], false) && end_event(r);
}

static bool add_delta(fxi_reply *r, size_t i, const fxi_output_event *ev)
{
    static const char *const patterns[] = {
        [FXI_OUTPUT_TEXT] = ",'index':%z,'delta':{'type':'text_delta','text':%t}",
        [FXI_OUTPUT_REASONING] = ",'index':%z,'delta':{'type':'thinking_delta','thinking':%t}",
        [FXI_OUTPUT_CALL] = ",'index':%z,'delta':{'type':'input_json_delta','partial_json':%t}",
    };
    return begin_event(r, "content_block_delta") &&
           fxi_json_fmt(&r->out, patterns[r->choice[0].content[i].kind], i,
                        (fxi_str){ev->p, ev->n}) &&
           end_event(r);
}

static bool write_finish(fxi_reply *r, int k, fx_finish finish)
{
    (void)k;
    return fxi_content_close(r, NULL) && begin_event(r, "message_delta") &&
           fxi_json_fmt(&r->out, ",'delta':{") && add_stop(&r->out, r, finish) &&
           fxi_buf_str(&r->out, "}") && add_message_usage(&r->out, r) && end_event(r) &&
           begin_event(r, "message_stop") && end_event(r);
}

static bool write_error(fxi_reply *r, const fxi_http_error *e)
{
    return fxi_buf_str(&r->out, "event: error\ndata: ") &&
           fxi_messages_error_body(&r->out, e, r->id) && fxi_buf_str(&r->out, "\n\n");
}

const fxi_writer fxi_messages_writer = {.ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                                        .begin = begin_message_stream,
                                        .open_item = open_block,
                                        .delta = add_delta,
                                        .close_item = close_block,
                                        .finish = write_finish,
                                        .error = write_error};
