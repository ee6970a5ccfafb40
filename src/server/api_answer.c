// api_answer.c - what is known of one reply while it comes into being. Plain data: whoever calls
// holds the job's lock.
//
//   init -> event ... event -> ended            whole: texts are kept per choice, api_reply.c
//   writes the body
//                 \-> fail  -> ended            stream: each event becomes SSE text in `out`, taken
//                 by the I/O thread
#include "server/server_internal.h"

#include <stdlib.h>
#include <string.h>

// How a choice may end badly, as the client is told.
static const struct bad_end {
    int status;
    const char *code, *message;
} bad_ends[FX_N_FINISH] = {
    [FX_FINISH_CANCEL] = {500, "cancelled", "the request was cancelled"},
    [FX_FINISH_ABORT] = {503, "draining", "the engine is shutting down"},
    [FX_FINISH_ERROR] = {500, NULL, "the request failed"},
};

bool fxi_answer_init(fxi_answer *a, const fxi_params *par, size_t max_out_bytes)
{
    a->api = par->api;
    a->stream = par->stream;
    a->include_usage = par->include_usage;
    a->continuous_usage = par->continuous_usage;
    a->n_prompt = (int)par->n_prompt;
    a->n_per_prompt = (int)par->n;
    a->n_left = a->n_prompt * a->n_per_prompt;
    a->max_out_bytes = max_out_bytes;
    a->stop = json_incref(json_object_get(par->root, "stop"));
    a->stop_token = json_incref(json_object_get(par->root, "stop_token_ids"));
    a->use = calloc((size_t)a->n_prompt, sizeof *a->use);
    a->choice = calloc((size_t)a->n_left, sizeof *a->choice);
    return a->use && a->choice && (!a->stream || fxi_stream_head(a));
}

void fxi_answer_free(fxi_answer *a)
{
    for (int k = 0; a->choice && k < a->n_prompt * a->n_per_prompt; k++)
        fxi_buf_free(&a->choice[k].text);
    free(a->choice);
    free(a->use);
    json_decref(a->stop);
    json_decref(a->stop_token);
    fxi_buf_free(&a->head);
    fxi_buf_free(&a->out);
    *a = (fxi_answer){0};
}

static void fail_text(fxi_answer *a, int status, const char *code, const char *message)
{
    fxi_http_error e;
    fxi_http_fail(&e, status, code, NULL, "%s", message);
    fxi_answer_fail(a, &e);
}

// An error's own text is one line of the engine; the id lets it be found in the log.
static void fail_finish(fxi_answer *a, const fx_event *ev)
{
    const struct bad_end *bad = &bad_ends[ev->finish];
    fxi_http_error e;
    fxi_http_fail(&e, bad->status, bad->code, NULL, "%s%s%s (%s)", bad->message,
                  ev->error ? ": " : "", ev->error ? ev->error : "", a->id);
    fxi_answer_fail(a, &e);
}

static void check_backlog(fxi_answer *a)
{
    if (!a->ended && a->out.n - a->n_sent > a->max_out_bytes)
        fail_text(a, 500, "slow_client", "the answer was not read fast enough");
}

static const json_t *find_id(const json_t *list, int id)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == id) return json_array_get(list, i);
    return NULL;
}

// Of what the client named, that which ended the choice: an end-of-text token of the model's own
// is not told.
static const json_t *stop_reason(const fxi_answer *a, const fx_event *ev)
{
    if (ev->finish != FX_FINISH_STOP) return NULL;
    if (ev->stop_string < 0) return find_id(a->stop_token, ev->stop_token);
    return json_is_string(a->stop) ? a->stop : json_array_get(a->stop, (size_t)ev->stop_string);
}

static bool add_event(fxi_answer *a, int k, const fx_event *ev)
{
    fxi_choice *c = &a->choice[k];
    c->stop_reason = stop_reason(a, ev);
    if (!(a->stream ? fxi_stream_event(a, k, ev) : fxi_buf_add(&c->text, ev->text, ev->text_bytes)))
        return false;
    if (ev->finish == FX_FINISH_NONE) return true;
    c->finish = ev->finish;
    if (--a->n_left) return true;
    if (a->stream && !fxi_stream_end(a)) return false;
    a->ended = true;
    return true;
}

void fxi_answer_event(fxi_answer *a, int prompt, const fx_event *ev)
{
    int k = prompt * a->n_per_prompt + ev->choice;
    size_t before = a->out.n;
    if (a->ended || a->choice[k].finish != FX_FINISH_NONE) return;
    a->use[prompt] = (fxi_prompt_use){ev->n_prompt, ev->n_cached, ev->n_discarded};
    a->choice[k].n_generated = ev->n_generated;
    if (bad_ends[ev->finish].status) {
        fail_finish(a, ev);
    } else if (!add_event(a, k, ev)) {
        a->out.n = before; // no half a chunk
        fail_text(a, 500, NULL, "out of memory");
    }
    check_backlog(a);
}

void fxi_answer_fail(fxi_answer *a, const fxi_http_error *e)
{
    if (a->ended) return;
    a->err = *e;
    if (a->begun) (void)fxi_stream_error(a, e); // without memory the stream just ends
    a->ended = true;
}

// Taken bytes stay in front until they are half of the buffer, so that each byte is moved once at
// most.
size_t fxi_answer_take(fxi_answer *a, char *dst, size_t max)
{
    size_t n = a->out.n - a->n_sent;
    if (n > max) n = max;
    if (n) memcpy(dst, a->out.p + a->n_sent, n);
    a->n_sent += n;
    if (a->n_sent * 2 >= a->out.n) {
        fxi_buf_drop_front(&a->out, a->n_sent);
        a->n_sent = 0;
    }
    return n;
}

void fxi_answer_ping(fxi_answer *a)
{
    if (a->ended || a->out.n > a->n_sent) return;
    a->begun = fxi_buf_str(&a->out, ": ping\n\n") || a->begun;
}

fxi_prompt_use fxi_answer_prompt_use(const fxi_answer *a)
{
    fxi_prompt_use sum = {0};
    for (int i = 0; i < a->n_prompt; i++) {
        sum.n_prompt += a->use[i].n_prompt;
        sum.n_cached += a->use[i].n_cached;
    }
    return sum;
}

int fxi_answer_generated(const fxi_answer *a)
{
    int sum = 0;
    for (int k = 0; a->choice && k < a->n_prompt * a->n_per_prompt; k++)
        sum += a->choice[k].n_generated;
    for (int i = 0; a->use && i < a->n_prompt; i++) sum += a->use[i].n_discarded;
    return sum;
}
