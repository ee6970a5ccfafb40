// completion.c - one request from the terminal's side.
//
// The engine's thread must not block on a slow terminal or pipe: its callback only appends to a
// buffer and wakes the main thread, which writes. Times are taken when events happen, not when
// their text is printed.
#include "cli/terminal/terminal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/system/clock.h"

typedef struct text_stream {
    pthread_mutex_t mu;
    fxi_buf pending; // guarded by mu: text not yet written
    bool last;       // guarded by mu: the request has ended, and nothing below changes any more
    bool no_memory;  // an event's text was lost
    double start_s, first_s, end_s;
    fx_finish finish;
    int n_prompt, n_generated;
    char error[FX_ERROR_TEXT_BYTES];
} text_stream;

static void take_end(text_stream *s, const fx_event *ev)
{
    s->end_s = fxi_now_s();
    s->finish = ev->finish;
    if (ev->error) snprintf(s->error, sizeof s->error, "%s", ev->error);
}

static void add_event_text(void *ud, const fx_event *ev)
{
    text_stream *s = ud;
    pthread_mutex_lock(&s->mu);
    if (ev->token >= 0 && s->first_s == 0) s->first_s = fxi_now_s();
    if (ev->text_bytes && !fxi_buf_add(&s->pending, ev->text, ev->text_bytes)) s->no_memory = true;
    s->n_prompt = ev->n_prompt;
    s->n_generated = ev->n_generated;
    if (ev->finish != FX_FINISH_NONE) take_end(s, ev);
    s->last = ev->last;
    pthread_mutex_unlock(&s->mu);
    fxi_signals_wake();
}

// Moves the text that has arrived into *text. True: there will be no more.
static bool take_pending(text_stream *s, fxi_buf *text)
{
    fxi_buf_clear(text);
    pthread_mutex_lock(&s->mu);
    fxi_buf got = s->pending;
    s->pending = *text;
    *text = got;
    bool last = s->last;
    pthread_mutex_unlock(&s->mu);
    return last;
}

static fx_status write_stdout(const fxi_buf *text, fx_error *err)
{
    if (text->n == 0) return FX_OK;
    if (fwrite(text->p, 1, text->n, stdout) == text->n && fflush(stdout) == 0) return FX_OK;
    return fxi_fail(err, FX_EIO, "cannot write to stdout: %s", strerror(errno));
}

// Writes until the request has ended, and waits for that end even after a failure: the engine holds
// our callback.
static fx_status write_until_end(text_stream *s, fx_engine *eng, uint64_t id, fxi_completion *out,
                                 fx_error *err)
{
    fxi_buf text = {0};
    fx_status st = FX_OK;
    bool cancelled = false;
    for (bool last = false; !last;) {
        fxi_signals_wait();
        last = take_pending(s, &text);
        if (st == FX_OK) st = write_stdout(&text, err);
        if (text.n && !fxi_buf_add(&out->text, text.p, text.n)) s->no_memory = true;
        if (!cancelled && (st != FX_OK || fxi_signals_stop())) {
            fx_cancel(eng, id);
            cancelled = true;
        }
    }
    fxi_buf_free(&text);
    return st;
}

static fx_status take_figures(const text_stream *s, fxi_completion *out, fx_error *err)
{
    out->finish = s->finish;
    out->n_prompt = s->n_prompt;
    out->n_generated = s->n_generated;
    out->first_s = s->first_s > 0 ? s->first_s - s->start_s : 0;
    out->total_s = s->end_s - s->start_s;
    if (s->finish == FX_FINISH_ERROR) return fxi_fail(err, FX_EINTERNAL, "%s", s->error);
    if (s->no_memory) return fxi_fail(err, FX_ENOMEM, "no memory for the answer's text");
    return FX_OK;
}

fx_status fxi_completion_run(fx_engine *eng, fx_request *req, fxi_completion *out, fx_error *err)
{
    text_stream s = {.mu = PTHREAD_MUTEX_INITIALIZER, .start_s = fxi_now_s()};
    *out = (fxi_completion){.finish = FX_FINISH_NONE};
    req->on_event = add_event_text;
    req->ud = &s;
    uint64_t id;
    fx_status st = fx_submit(eng, req, &id, err);
    if (st == FX_OK) st = write_until_end(&s, eng, id, out, err);
    if (st == FX_OK) st = take_figures(&s, out, err);
    fxi_buf_free(&s.pending);
    pthread_mutex_destroy(&s.mu);
    return st;
}

fx_request fxi_completion_request(const fxi_cli_options *o)
{
    fx_request req = fx_request_default();
    req.max_tok = o->max_tok;
    req.sampling = o->sampling;
    req.ignore_eos = o->ignore_eos;
    return req;
}

void fxi_completion_print(const fx_engine *eng, const fxi_completion *a)
{
    fx_stats st;
    fx_engine_stats(eng, &st);
    char mapped[FXI_SIZE_TEXT_BYTES], live[FXI_SIZE_TEXT_BYTES];
    fxi_cli_size(st.kv_peak_mapped_bytes, mapped);
    fxi_cli_size(st.kv_peak_live_bytes, live);
    double decode_s = a->total_s - a->first_s;
    double rate = a->n_generated > 1 && decode_s > 0 ? (a->n_generated - 1) / decode_s : 0;
    fprintf(stderr,
            "[%d prompt tokens, first token after %.0f ms, %d tokens at %.1f tokens/s, KV cache at "
            "most %s "
            "mapped for %s live]\n",
            a->n_prompt, a->first_s * 1e3, a->n_generated, rate, mapped, live);
}
