// chrome_trace.c - first steps and calls, in the order of time; then the requests, one by one.
#include "server/trace/chrome_trace.h"

#include <stdlib.h>

#include "base/json/json.h"

enum { STEPS = 1, CALLS, REQUESTS }; // the rows, as thread ids

typedef struct trace {
    fxi_buf *out;
    uint64_t end_us;       // of the last event
    double calls_us;       // the row of the calls is filled up to here
    const fx_record *step; // the one that has begun; NULL: none
    bool ok, some;
} trace;

// ---- one event of the trace --------------------------------------------------------------------

static void begin_event(trace *t, const char *phase, int row, const char *name, double at_us)
{
    t->ok =
        t->ok &&
        fxi_buf_fmt(t->out, "%s\n{\"ph\":\"%s\",\"pid\":1,\"tid\":%d,\"name\":\"%s\",\"ts\":%.3f",
                    t->some ? "," : "", phase, row, name, at_us);
    t->some = true;
}

#define ADD(t, ...) ((t)->ok = (t)->ok && fxi_json_fmt((t)->out, __VA_ARGS__))

static void name_row(trace *t, const char *what, int row, const char *name)
{
    begin_event(t, "M", row, what, 0);
    ADD(t, ",'args':{'name':%q}}", name);
}

// ---- steps -------------------------------------------------------------------------------------

// is_cut: the other end of it is not among the events.
static void put_step(trace *t, const fx_record *begin, const fx_record *end)
{
    const uint64_t from_us = begin ? begin->at_us : end->at_us;
    begin_event(t, "X", STEPS, "step", (double)from_us);
    ADD(t, ",'dur':%w,'args':{", (end ? end->at_us : t->end_us) - from_us);
    if (begin) ADD(t, "'tokens':%u,'sequences':%u", begin->n_tok, begin->n);
    if (end) ADD(t, "%s'generated':%u,'status':%d", begin ? "," : "", end->n_tok, end->status);
    ADD(t, begin && end ? "}}" : ",'cut':true}}");
}

static void begin_step(trace *t, const fx_record *ev)
{
    t->step = ev;
}

static void end_step(trace *t, const fx_record *ev)
{
    put_step(t, t->step, ev);
    t->step = NULL;
}

// ---- calls -------------------------------------------------------------------------------------

static void put_args(trace *t, const fx_record *ev)
{
    ADD(t, ",'args':{'request':%w,'choice':%d,'tokens':%u,'n':%u,'status':%d}}", ev->request,
        ev->choice, ev->n_tok, ev->n, ev->status);
}

// The clock shows whole microseconds: a call begins where the one before it ended, at the earliest.
static void put_call(trace *t, const fx_record *ev)
{
    const double to_us = (double)ev->at_us;
    double from_us = to_us - ev->took_ns / 1e3;
    if (from_us < t->calls_us) from_us = t->calls_us < to_us ? t->calls_us : to_us;
    t->calls_us = to_us;
    begin_event(t, "X", CALLS, fx_record_name(ev->kind), from_us);
    t->ok = t->ok && fxi_buf_fmt(t->out, ",\"dur\":%.3f", to_us - from_us);
    put_args(t, ev);
}

static void put_instant(trace *t, const fx_record *ev)
{
    begin_event(t, "i", CALLS, fx_record_name(ev->kind), (double)ev->at_us);
    ADD(t, ",'s':'t'");
    put_args(t, ev);
}

static void put_memory(trace *t, const fx_record *ev)
{
    begin_event(t, "C", CALLS, "KV memory, KiB", (double)ev->at_us);
    ADD(t, ",'args':{'mapped':%u,'live':%u,'shared':%u}}", ev->mapped_kib, ev->live_kib,
        ev->shared_kib);
}

// ---- requests ----------------------------------------------------------------------------------

// What each kind of event is in the trace.
static const struct kind_row {
    void (*put)(trace *t, const fx_record *ev); // among steps and calls
    const char *state; // a request is in from then on; "": in none, it has ended
} kinds[FX_N_RECORD] = {
    [FX_RECORD_step_begin] = {begin_step, NULL}, [FX_RECORD_draft] = {put_instant, NULL},
    [FX_RECORD_step_end] = {end_step, NULL},     [FX_RECORD_arrive] = {NULL, "waiting"},
    [FX_RECORD_admit] = {NULL, "running"},       [FX_RECORD_wait] = {NULL, "waiting"},
    [FX_RECORD_leave] = {NULL, "leaving"},       [FX_RECORD_away] = {NULL, "away"},
    [FX_RECORD_come] = {NULL, "coming"},         [FX_RECORD_finish] = {NULL, ""},
    [FX_RECORD_preempt] = {put_instant, NULL},   [FX_RECORD_create] = {put_call, NULL},
    [FX_RECORD_match] = {put_call, NULL},        [FX_RECORD_fork] = {put_call, NULL},
    [FX_RECORD_extend] = {put_call, NULL},       [FX_RECORD_record] = {put_call, NULL},
    [FX_RECORD_release] = {put_instant, NULL},   [FX_RECORD_evict] = {put_instant, NULL},
    [FX_RECORD_trim] = {put_call, NULL},         [FX_RECORD_budget] = {put_instant, NULL},
    [FX_RECORD_memory] = {put_memory, NULL},
};

static const char *state_of(const fx_record *ev)
{
    return ev->kind < FX_N_RECORD ? kinds[ev->kind].state : NULL;
}

static void put_edge(trace *t, const char *phase, const fx_record *of, const char *name,
                     uint64_t at_us)
{
    begin_event(t, phase, REQUESTS, name, (double)at_us);
    ADD(t, ",'cat':'request','id':%w", of->request);
}

// ev[n]: the states of one request, in the order of time.
static void put_request(trace *t, const fx_record *const *ev, size_t n)
{
    const fx_record *first = ev[0], *last = ev[n - 1];
    const bool has_ended = last->kind == FX_RECORD_finish;
    const bool is_cut = first->kind != FX_RECORD_arrive || !has_ended;
    put_edge(t, "b", first, "request", first->at_us);
    ADD(t, ",'args':{'tokens':%u,'sequences':%u", first->n_tok, first->n);
    ADD(t, is_cut ? ",'cut':true}}" : "}}");
    for (size_t i = 0; i < n; i++) {
        const char *state = state_of(ev[i]);
        if (!*state) continue;
        put_edge(t, "b", first, state, ev[i]->at_us);
        ADD(t, "}");
        put_edge(t, "e", first, state, i + 1 < n ? ev[i + 1]->at_us : t->end_us);
        ADD(t, "}");
    }
    put_edge(t, "e", first, "request", has_ended ? last->at_us : t->end_us);
    ADD(t, ",'args':{'finish':%d}}", has_ended ? last->finish : FX_FINISH_NONE);
}

// By request, then in the order of time, in which they lie in memory.
static int compare_states(const void *a, const void *b)
{
    const fx_record *x = *(const fx_record *const *)a, *y = *(const fx_record *const *)b;
    if (x->request != y->request) return x->request < y->request ? -1 : 1;
    return (x > y) - (x < y);
}

static void put_requests(trace *t, const fx_record *ev, size_t n)
{
    const fx_record **of = malloc((n ? n : 1) * sizeof *of);
    size_t n_of = 0;
    t->ok = t->ok && of;
    for (size_t i = 0; of && i < n; i++)
        if (state_of(&ev[i])) of[n_of++] = &ev[i];
    if (n_of) qsort(of, n_of, sizeof *of, compare_states);
    for (size_t i = 0, k; i < n_of; i = k) {
        for (k = i + 1; k < n_of && of[k]->request == of[i]->request; k++) {
        }
        put_request(t, of + i, k - i);
    }
    free(of);
}

// ---- the whole ---------------------------------------------------------------------------------

bool fxi_chrome_trace(fxi_buf *out, const fx_record *ev, size_t n, uint64_t n_lost)
{
    trace t = {.out = out, .ok = true, .end_us = n ? ev[n - 1].at_us : 0};
    ADD(&t,
        "{'displayTimeUnit':'ms','otherData':{'version':%q,'events':%z,'lost_events':%w},"
        "'traceEvents':[",
        fx_version(), n, n_lost);
    name_row(&t, "process_name", STEPS, "flexinfer");
    name_row(&t, "thread_name", STEPS, "steps");
    name_row(&t, "thread_name", CALLS, "KV cache");
    name_row(&t, "thread_name", REQUESTS, "requests");
    for (size_t i = 0; t.ok && i < n; i++)
        if (ev[i].kind < FX_N_RECORD && kinds[ev[i].kind].put) kinds[ev[i].kind].put(&t, &ev[i]);
    if (t.step) put_step(&t, t.step, NULL);
    put_requests(&t, ev, n);
    ADD(&t, "\n]}\n");
    return t.ok;
}

// ---- from an engine ----------------------------------------------------------------------------

enum { PIECE = 4096 }; // events copied at once

// Until a piece is not full: the engine does not fill one while it is copied.
bool fxi_chrome_trace_of(fxi_buf *out, const fx_engine *eng)
{
    fxi_buf bytes = {0}; // of fx_record
    uint64_t from = 0, first, n_lost = 0;
    bool ok = true;
    for (size_t n = PIECE; ok && n == PIECE;) {
        ok = fxi_buf_reserve(&bytes, PIECE * sizeof(fx_record));
        if (!ok) break;
        n = fx_record_copy(eng, from, (fx_record *)(void *)(bytes.p + bytes.n), PIECE, &first);
        bytes.n += n * sizeof(fx_record);
        n_lost += first - from;
        from = first + n;
    }
    ok = ok && fxi_chrome_trace(out, (const fx_record *)(const void *)bytes.p,
                                bytes.n / sizeof(fx_record), n_lost);
    fxi_buf_free(&bytes);
    return ok;
}
