// api_reply.c - one reply from its first event to its end.
//
//   init -> event ... event -> ended      whole: keeps the text of each choice for api_whole.c
//       \-> ... fail        -> ended      stream: api_stream.c turns each event into SSE text in
//                                         `out`, which the I/O thread takes
#include "server/reply/api_reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/json/json_doc.h" // defines: fxi_json_copy

#define KEPT_BYTES (64u << 10) // of memory for text that a stream keeps when all has been taken

// The error for each way in which a choice can end badly.
static const struct bad_end {
    int status;
    const char *code, *message;
} bad_ends[FX_N_FINISH] = {
    [FX_FINISH_CANCEL] = {500, "cancelled", "the request was cancelled"},
    [FX_FINISH_ABORT] = {503, "draining", "the engine is shutting down"},
    [FX_FINISH_ERROR] = {500, NULL, "the request failed"},
};

bool fxi_reply_init(fxi_reply *r, const fxi_reply_spec *spec, size_t max_out_bytes)
{
    r->spec = *spec;
    r->spec.stop = fxi_json_copy(spec->stop);
    r->spec.stop_token_id = fxi_json_copy(spec->stop_token_id);
    r->n_left = spec->n_prompt * spec->n_per_prompt;
    r->max_out_bytes = max_out_bytes;
    r->use = calloc((size_t)spec->n_prompt, sizeof *r->use);
    r->choice = calloc((size_t)r->n_left, sizeof *r->choice);
    bool copied = !spec->stop == !r->spec.stop && !spec->stop_token_id == !r->spec.stop_token_id;
    return copied && r->use && r->choice && (!spec->stream || fxi_stream_head(r));
}

void fxi_reply_free(fxi_reply *r)
{
    for (int k = 0; r->choice && k < r->spec.n_prompt * r->spec.n_per_prompt; k++)
        fxi_buf_free(&r->choice[k].text);
    free(r->choice);
    free(r->use);
    json_decref(r->spec.stop);
    json_decref(r->spec.stop_token_id);
    fxi_buf_free(&r->head);
    fxi_buf_free(&r->out);
    *r = (fxi_reply){0};
}

static void fail_with_text(fxi_reply *r, int status, const char *code, const char *message)
{
    fxi_http_error e;
    fxi_http_fail(&e, status, code, NULL, "%s", message);
    fxi_reply_fail(r, &e);
}

// The engine's text is one line; the id lets an operator find the request in the log.
static void fail_with_finish(fxi_reply *r, const fx_event *ev)
{
    const struct bad_end *bad = &bad_ends[ev->finish];
    fxi_http_error e;
    fxi_http_fail(&e, bad->status, bad->code, NULL, "%s%s%s (%s)", bad->message,
                  ev->error ? ": " : "", ev->error ? ev->error : "", r->id);
    fxi_reply_fail(r, &e);
}

static void check_backlog(fxi_reply *r)
{
    if (!r->ended && r->out.n - r->n_sent > r->max_out_bytes)
        fail_with_text(r, 500, "slow_client", "the answer was not read fast enough");
}

static const json_t *find_token_id(const json_t *list, int id)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == id) return json_array_get(list, i);
    return NULL;
}

// The client's own stop string or token id that ended the choice; NULL for the model's end-of-text
// token.
static const json_t *stop_reason_of(const fxi_reply *r, const fx_event *ev)
{
    const json_t *stop = r->spec.stop;
    if (ev->finish != FX_FINISH_STOP) return NULL;
    if (ev->stop_string < 0) return find_token_id(r->spec.stop_token_id, ev->stop_token);
    return json_is_string(stop) ? stop : json_array_get(stop, (size_t)ev->stop_string);
}

static bool keep_choice_text(fxi_reply *r, fxi_choice *c, const fx_event *ev)
{
    size_t before = c->text.cap;
    bool ok = fxi_buf_add(&c->text, ev->text, ev->text_bytes);
    r->kept_bytes += c->text.cap - before;
    return ok;
}

static bool add_event(fxi_reply *r, int k, const fx_event *ev)
{
    fxi_choice *c = &r->choice[k];
    c->stop_reason = stop_reason_of(r, ev);
    if (!(r->spec.stream ? fxi_stream_event(r, k, ev) : keep_choice_text(r, c, ev))) return false;
    if (ev->finish == FX_FINISH_NONE) return true;
    c->finish = ev->finish;
    if (--r->n_left) return true;
    if (r->spec.stream && !fxi_stream_end(r)) return false;
    r->ended = true;
    return true;
}

void fxi_reply_event(fxi_reply *r, int prompt, const fx_event *ev)
{
    int k = prompt * r->spec.n_per_prompt + ev->choice;
    size_t before = r->out.n;
    if (r->ended || r->choice[k].finish != FX_FINISH_NONE) return;
    r->use[prompt] = (fxi_prompt_use){ev->n_prompt, ev->n_cached, ev->n_discarded};
    r->choice[k].n_generated = ev->n_generated;
    if (bad_ends[ev->finish].status) {
        fail_with_finish(r, ev);
    } else if (!add_event(r, k, ev)) {
        r->out.n = before; // drop a partial chunk
        fail_with_text(r, 500, NULL, "out of memory");
    }
    check_backlog(r);
}

void fxi_reply_fail(fxi_reply *r, const fxi_http_error *e)
{
    if (r->ended) return;
    r->err = *e;
    if (r->begun) (void)fxi_stream_error(r, e); // out of memory: the stream just ends
    r->ended = true;
}

// Taken bytes stay at the front until they fill half of the buffer, so each byte moves at most
// once.
size_t fxi_reply_take(fxi_reply *r, char *dst, size_t max)
{
    size_t n = r->out.n - r->n_sent;
    if (n > max) n = max;
    if (n) memcpy(dst, r->out.p + r->n_sent, n);
    r->n_sent += n;
    if (r->n_sent * 2 >= r->out.n) {
        fxi_buf_drop_front(&r->out, r->n_sent);
        r->n_sent = 0;
    }
    if (!r->out.n && r->out.cap > KEPT_BYTES) fxi_buf_free(&r->out);
    return n;
}

void fxi_reply_ping(fxi_reply *r)
{
    if (r->ended || r->out.n > r->n_sent) return;
    r->begun = fxi_buf_str(&r->out, ": ping\n\n") || r->begun;
}

bool fxi_reply_has_news(const fxi_reply *r)
{
    return r->ended || r->out.n > r->n_sent;
}

size_t fxi_reply_base_bytes(const fxi_reply *r)
{
    size_t n_choice = (size_t)r->spec.n_prompt * (size_t)r->spec.n_per_prompt;
    return r->head.cap + (size_t)r->spec.n_prompt * sizeof *r->use + n_choice * sizeof *r->choice;
}
