// responses_out.c - an answer as OpenAI's responses have it, whole and streamed.
//
//   response.created, .in_progress
//   per item: .output_item.added, [.content_part.added], deltas, .done, [.content_part.done],
//             .output_item.done
//   response.completed, .incomplete or .failed
//
// Each event has its type, also in its `event:` line, and a sequence number.
#include <string.h>

#include "base/number/rng.h"
#include "server/reply/api_reply.h"

// How the kinds of parts are called.
static const struct item_words {
    const char *item, *id, *part, *delta, *done, *text;
} item_words[] = {
    [FXI_OUTPUT_TEXT] = {"message", "msg", "output_text", "response.output_text.delta",
                         "response.output_text.done", "text"},
    [FXI_OUTPUT_REASONING] = {"reasoning", "rs", "reasoning_text", "response.reasoning_text.delta",
                              "response.reasoning_text.done", "text"},
    [FXI_OUTPUT_CALL] = {"function_call", "fc", NULL, "response.function_call_arguments.delta",
                         "response.function_call_arguments.done", "arguments"},
};

// ---- items --------------------------------------------------------------------------------------

static bool add_item_id(fxi_buf *b, const fxi_reply *r, size_t i)
{
    const uint64_t v = fxi_rng_u64(r->seed, 3, i), w = fxi_rng_u64(r->seed, 4, i);
    return fxi_buf_fmt(b, "\"%s_%016llx%08x\"", item_words[r->choice[0].content[i].kind].id,
                       (unsigned long long)v, (unsigned)w);
}

static bool add_text_part(fxi_buf *b, const fxi_content_part *p, bool whole)
{
    return fxi_json_fmt(b, "{'type':%q,'text':%t", item_words[p->kind].part,
                        (fxi_str){p->text.p, whole ? p->text.n : 0}) &&
           fxi_json_fmt(b, p->kind == FXI_OUTPUT_TEXT ? ",'annotations':[],'logprobs':[]}" : "}");
}

static bool add_output_item(fxi_buf *b, const fxi_reply *r, size_t i, const char *status)
{
    const fxi_content_part *p = &r->choice[0].content[i];
    const bool whole = strcmp(status, "in_progress") != 0;
    const bool is_text = p->kind == FXI_OUTPUT_TEXT;
    bool ok = fxi_json_fmt(b, "{'id':") && add_item_id(b, r, i) &&
              fxi_json_fmt(b, ",'type':%q,'status':%q", item_words[p->kind].item,
                           p->is_broken && whole ? "incomplete" : status);
    if (p->kind == FXI_OUTPUT_CALL)
        return ok && fxi_json_fmt(b, ",'call_id':%q,'name':%t,'arguments':%t}", p->id,
                                  (fxi_str){p->name.p, p->name.n},
                                  (fxi_str){p->text.p, whole ? p->text.n : 0});
    return ok && fxi_json_fmt(b, is_text ? ",'role':'assistant'" : ",'summary':[]") &&
           fxi_json_fmt(b, ",'content':[") && (!whole || add_text_part(b, p, true)) &&
           fxi_buf_str(b, "]}");
}

// ---- the response -------------------------------------------------------------------------------

static bool add_response_usage(fxi_buf *b, const fxi_reply *r)
{
    const fxi_usage use = fxi_usage_of(r);
    return fxi_json_fmt(b,
                        "{'input_tokens':%d,'input_tokens_details':{'cached_tokens':%d,"
                        "'cache_write_tokens':0},"
                        "'output_tokens':%d,'output_tokens_details':{'reasoning_tokens':%d},"
                        "'total_tokens':%d}",
                        use.n_prompt, use.n_cached, use.n_generated, use.n_reasoning,
                        use.n_prompt + use.n_generated);
}

static const char *response_status(const fxi_reply *r)
{
    const fx_finish f = r->choice[0].finish;
    if (r->err.status) return "failed";
    return f == FX_FINISH_LENGTH ? "incomplete" : f == FX_FINISH_STOP ? "completed" : "in_progress";
}

static bool add_output(fxi_buf *b, const fxi_reply *r, const char *status)
{
    const fxi_choice *c = &r->choice[0];
    const bool cut = strcmp(status, "completed") != 0;
    bool ok = fxi_json_fmt(b, ",'output':[");
    for (size_t i = 0; ok && i < c->n_content; i++)
        ok = fxi_buf_str(b, i ? "," : "") &&
             add_output_item(b, r, i, cut && i + 1 == c->n_content ? "incomplete" : "completed");
    return ok && fxi_buf_str(b, "]");
}

bool fxi_responses_whole(fxi_buf *b, const fxi_reply *r)
{
    const char *status = response_status(r);
    const bool over = strcmp(status, "in_progress") != 0, is_cut = !strcmp(status, "incomplete");
    return fxi_json_fmt(b,
                        "{'id':%q,'object':'response','created_at':%l,'status':%q,"
                        "'background':false,'error':",
                        r->id, (long long)r->created, status) &&
           fxi_json_fmt(b, r->err.status ? "{'code':'server_error','message':%q}" : "null",
                        r->err.message) &&
           fxi_json_fmt(b, ",'incomplete_details':") &&
           fxi_json_fmt(b, is_cut ? "{'reason':'max_output_tokens'}" : "null") &&
           fxi_json_fmt(b, ",'model':%q", r->model) &&
           (over ? add_output(b, r, status) : fxi_json_fmt(b, ",'output':[]")) &&
           fxi_json_fmt(b,
                        "%b,'previous_response_id':null,'store':false,'truncation':'disabled',"
                        "'user':null,'usage':",
                        &r->mirror) &&
           (over ? add_response_usage(b, r) : fxi_buf_str(b, "null")) && fxi_buf_str(b, "}");
}

// ---- events -------------------------------------------------------------------------------------

static bool begin_event(fxi_reply *r, const char *type)
{
    r->begun = true;
    return fxi_json_fmt(&r->out, "event: %s\ndata: {'type':%q,'sequence_number':%d", type, type,
                        r->n_event++);
}

static bool end_event(fxi_reply *r)
{
    return fxi_buf_str(&r->out, "}\n\n");
}

static bool add_response_event(fxi_reply *r, const char *type)
{
    return begin_event(r, type) && fxi_json_fmt(&r->out, ",'response':") &&
           fxi_responses_whole(&r->out, r) && end_event(r);
}

static bool add_item_event(fxi_reply *r, const char *type, size_t i, const char *status)
{
    return begin_event(r, type) && fxi_json_fmt(&r->out, ",'output_index':%z,'item':", i) &&
           add_output_item(&r->out, r, i, status) && end_event(r);
}

// The start of an event of item i's inside.
static bool begin_inner(fxi_reply *r, const char *type, size_t i)
{
    const bool call = r->choice[0].content[i].kind == FXI_OUTPUT_CALL;
    return begin_event(r, type) && fxi_json_fmt(&r->out, ",'item_id':") &&
           add_item_id(&r->out, r, i) &&
           fxi_json_fmt(&r->out,
                        call ? ",'output_index':%z" : ",'output_index':%z,'content_index':0", i);
}

// Its end, which shows the text with a name.
static bool end_inner(fxi_reply *r, size_t i, const char *name, fxi_str text)
{
    const bool is_text = r->choice[0].content[i].kind == FXI_OUTPUT_TEXT;
    return fxi_json_fmt(&r->out, is_text ? ",'%s':%t,'logprobs':[]" : ",'%s':%t", name, text) &&
           end_event(r);
}

static bool add_part_event(fxi_reply *r, const char *type, size_t i, bool whole)
{
    const fxi_content_part *p = &r->choice[0].content[i];
    return p->kind == FXI_OUTPUT_CALL ||
           (begin_inner(r, type, i) && fxi_json_fmt(&r->out, ",'part':") &&
            add_text_part(&r->out, p, whole) && end_event(r));
}

static bool open_item(fxi_reply *r, size_t i)
{
    return add_item_event(r, "response.output_item.added", i, "in_progress") &&
           add_part_event(r, "response.content_part.added", i, false);
}

static bool add_text_done(fxi_reply *r, size_t i)
{
    const fxi_content_part *p = &r->choice[0].content[i];
    const struct item_words *w = &item_words[p->kind];
    return begin_inner(r, w->done, i) &&
           (p->kind != FXI_OUTPUT_CALL ||
            fxi_json_fmt(&r->out, ",'name':%t", (fxi_str){p->name.p, p->name.n})) &&
           end_inner(r, i, w->text, (fxi_str){p->text.p, p->text.n});
}

static bool close_item(fxi_reply *r, size_t i, const char *status)
{
    return add_text_done(r, i) && add_part_event(r, "response.content_part.done", i, true) &&
           add_item_event(r, "response.output_item.done", i, status);
}

static bool begin_response(fxi_reply *r, int k)
{
    if (r->choice[k].begun) return true;
    r->choice[k].begun = true;
    return add_response_event(r, "response.created") &&
           add_response_event(r, "response.in_progress");
}

static bool add_delta(fxi_reply *r, size_t i, const fxi_output_event *ev)
{
    return begin_inner(r, item_words[r->choice[0].content[i].kind].delta, i) &&
           end_inner(r, i, "delta", (fxi_str){ev->p, ev->n});
}

static bool write_finish(fxi_reply *r, int k, fx_finish finish)
{
    const bool cut = finish == FX_FINISH_LENGTH;
    r->choice[k].finish = finish; // the last event tells it
    return fxi_content_close(r, cut ? "incomplete" : "completed") &&
           add_response_event(r, cut ? "response.incomplete" : "response.completed");
}

static bool write_error(fxi_reply *r, const fxi_http_error *e)
{
    (void)e; // r->err
    return add_response_event(r, "response.failed");
}

const fxi_writer fxi_responses_writer = {.ping = ": ping\n\n",
                                         .begin = begin_response,
                                         .open_item = open_item,
                                         .delta = add_delta,
                                         .close_item = close_item,
                                         .finish = write_finish,
                                         .error = write_error};
