// messages_out.c - an answer as Anthropic's messages have it, whole and streamed.
//
//   message_start, per block: content_block_start, _delta .., _stop, then message_delta with the
//   reason of the end and the usage, message_stop. While nothing comes: ping. Errors: error.
#include <string.h>

#include "base/json/json.h"
#include "server/reply/api_reply.h"

static bool add_message_block(fxi_buf *b, const fxi_content_part *p, bool whole)
{
    const fxi_str text = {p->text.p, whole ? p->text.n : 0};
    if (p->kind == FXI_OUTPUT_CALL)
        return fxi_json_fmt(b, "{'type':'tool_use','id':%q,'name':%t,'input':%s}", p->id,
                            (fxi_str){p->name.p, p->name.n},
                            text.n && !p->is_broken ? p->text.p : "{}");
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
    for (size_t i = 0; ok && whole && i < c->n_content; i++)
        ok = fxi_buf_str(b, i ? "," : "") && add_message_block(b, &c->content[i], true);
    return ok && fxi_buf_str(b, "],") && add_stop(b, r, whole ? c->finish : FX_FINISH_NONE) &&
           add_message_usage(b, r) && fxi_buf_str(b, "}");
}

bool fxi_messages_whole(fxi_buf *b, const fxi_reply *r)
{
    return add_whole_message(b, r, true);
}

// ---- errors -------------------------------------------------------------------------------------

static const struct error_row {
    int status, there;
    const char *type;
} error_rows[] = {
    {400, 400, "invalid_request_error"},
    {401, 401, "authentication_error"},
    {403, 403, "permission_error"},
    {404, 404, "not_found_error"},
    {413, 413, "request_too_large"},
    {429, 429, "rate_limit_error"},
    {500, 500, "api_error"},
    {501, 501, "not_supported_error"},
    {503, 529, "overloaded_error"},
    {0, 0, "invalid_request_error"}, // last: all others
};

static const struct error_row *find_error(int status)
{
    const struct error_row *row = error_rows;
    while (row->status && row->status != status) row++;
    return row;
}

int fxi_messages_error_status(int status)
{
    const struct error_row *row = find_error(status);
    return row->status ? row->there : status;
}

bool fxi_messages_error_body(fxi_buf *b, const fxi_http_error *e, const char *request_id)
{
    return fxi_json_fmt(b, "{'type':'error','error':{'type':%q,'message':%q},'request_id':%q}",
                        find_error(e->status)->type, e->message, request_id);
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

static bool close_block(fxi_reply *r)
{
    if (!r->item_open) return true;
    r->item_open = false;
    return begin_event(r, "content_block_stop") &&
           fxi_json_fmt(&r->out, ",'index':%z", r->n_item - 1) && end_event(r);
}

static bool open_block(fxi_reply *r, size_t i)
{
    r->n_item = i + 1;
    r->item_open = true;
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

static bool write_content(fxi_reply *r, int k, const fxi_output_event *ev)
{
    const size_t i = r->choice[k].n_content - 1;
    if (ev->kind == FXI_OUTPUT_DONE || ev->kind == FXI_OUTPUT_BROKEN) return close_block(r);
    if (i == r->n_item && (!close_block(r) || !open_block(r, i))) return false;
    return ev->kind == FXI_OUTPUT_CALL || add_delta(r, i, ev);
}

static bool write_finish(fxi_reply *r, int k, fx_finish finish)
{
    (void)k;
    return close_block(r) && begin_event(r, "message_delta") &&
           fxi_json_fmt(&r->out, ",'delta':{") && add_stop(&r->out, r, finish) &&
           fxi_buf_str(&r->out, "}") && add_message_usage(&r->out, r) && end_event(r) &&
           begin_event(r, "message_stop") && end_event(r);
}

static bool write_error(fxi_reply *r, const fxi_http_error *e)
{
    return fxi_buf_str(&r->out, "event: error\ndata: ") &&
           fxi_messages_error_body(&r->out, e, r->id) && fxi_buf_str(&r->out, "\n\n");
}

const fxi_writer fxi_messages_writer = {.keeps = true,
                                        .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                                        .begin = begin_message_stream,
                                        .content = write_content,
                                        .finish = write_finish,
                                        .error = write_error};
