// exporter.c - the ring, and the thread that empties it.
//
// The thread waits on the ring's condition between batches and between attempts, and in polls that
// an eventfd ends while it talks to the collector.
#include "server/spans/exporter.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "base/net/http_client.h"
#include "base/system/clock.h" // defines: fxi_now_s, fxi_clock_after
#include "base/text/utf8.h"    // defines: FXI_UTF8_HEAD
#include "server/spans/span.h"

#define GATHER_S         1.0 // from the first span of a batch until it is sent
#define MAX_WAIT_S       30.0
#define MAX_ANSWER_BYTES (64u << 10)

enum { MAX_HEADER = 32 };

struct fxi_spans {
    fxi_spans_options opt;
    fxi_http_client *client;
    char *header[MAX_HEADER];
    int n_header;
    int stop_fd;
    pthread_t thread;
    _Atomic uint64_t n_sent, n_lost[FXI_N_LOST];
    double close_s; // the deadline, once it is closing
    atomic_bool closing;

    pthread_mutex_t eng_mu; // held while the recorder is read
    const fx_engine *eng;   // guarded by eng_mu

    pthread_mutex_t mu;
    pthread_cond_t moved;                 // something below has changed, or it is closing
    fxi_trace_span *ring[FXI_SPANS_RING]; // guarded by mu, as is all below
    size_t at, n;                         // ring[at .. at + n), around the end
    bool done;

    // The thread's own.
    fxi_preempts preempts;
    fxi_trace_span *batch[FXI_SPANS_BATCH];
    size_t n_batch;
    bool is_failing; // the collector, as last told
};

// ---- the ring ---------------------------------------------------------------------------------

static void count_lost_spans(fxi_spans *x, int why, uint64_t n)
{
    atomic_fetch_add_explicit(&x->n_lost[why], n, memory_order_relaxed);
}

void fxi_spans_add(fxi_spans *x, fxi_trace_span *s)
{
    if (!x) return;
    pthread_mutex_lock(&x->mu);
    const bool has_room = x->n < FXI_SPANS_RING && !x->closing;
    if (has_room) x->ring[(x->at + x->n++) % FXI_SPANS_RING] = s;
    if (has_room && x->n == FXI_SPANS_BATCH) pthread_cond_broadcast(&x->moved);
    pthread_mutex_unlock(&x->mu);
    if (has_room) return;
    count_lost_spans(x, FXI_LOST_full, 1);
    free(s);
}

// Waits until so much time has passed, the ring has so many spans, or the exporter is closing.
// Returns how many it has.
static size_t wait_for_spans(fxi_spans *x, double s, size_t enough)
{
    const struct timespec end = fxi_clock_after(s);
    int late = 0;
    pthread_mutex_lock(&x->mu);
    while (!x->closing && !late && x->n < enough)
        late = pthread_cond_timedwait(&x->moved, &x->mu, &end);
    const size_t n = x->n;
    pthread_mutex_unlock(&x->mu);
    return n;
}

// ---- a batch ----------------------------------------------------------------------------------

// One line where the collector begins (why: not NULL) or ceases to fail.
static void tell_change(fxi_spans *x, const char *why)
{
    char text[512];
    if (x->is_failing == (why != NULL)) return;
    x->is_failing = why != NULL;
    if (why)
        snprintf(text, sizeof text, "warning: the collector of spans at %.200s: %.*s",
                 x->opt.endpoint, FXI_UTF8_HEAD(why, 200));
    else
        snprintf(text, sizeof text, "the collector of spans at %.200s accepts them again",
                 x->opt.endpoint);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' ';
    if (x->opt.say && !x->closing) x->opt.say(x->opt.ud, why != NULL, text);
}

// Tries until the collector has taken or refused the batch, or time is up. When the exporter is
// closing there is one more attempt, which takes no longer than is left.
static void send_body(fxi_spans *x, const fxi_buf *body)
{
    const double limit_s = x->opt.give_up_s > 0 ? x->opt.give_up_s : 60;
    const double attempt_s = x->opt.give_up_s > 0 ? limit_s : 10;
    const double give_up_s = fxi_now_s() + limit_s;
    double wait_s = x->opt.first_wait_s > 0 ? x->opt.first_wait_s : 1;
    fxi_http_call call = {.url = x->opt.endpoint,
                          .header = (const char *const *)x->header,
                          .n_header = x->n_header,
                          .body = body,
                          .max_bytes = MAX_ANSWER_BYTES};
    for (;; wait_s = fmin(wait_s * 2, MAX_WAIT_S)) {
        fxi_http_answer a;
        fx_error err;
        char why[256];
        const bool was_closing = x->closing;
        const double left_s = was_closing ? x->close_s - fxi_now_s() : attempt_s;
        call.timeout_s = fmax(fmin(left_s, attempt_s), 0.001);
        const bool has_answer = fxi_http_client_call(x->client, &call, &a, &err) == FX_OK;
        if (has_answer && a.status < 300) {
            uint64_t n = fxi_otlp_rejected(a.body.p ? a.body.p : "", a.body.n, why, sizeof why);
            if (n > x->n_batch) n = x->n_batch;
            atomic_fetch_add_explicit(&x->n_sent, x->n_batch - n, memory_order_relaxed);
            count_lost_spans(x, FXI_LOST_refused, n);
            tell_change(x, n ? why : NULL);
            fxi_buf_free(&a.body);
            return;
        }
        // Other errors of the collector will stay the same.
        const bool may_pass =
            !has_answer || a.status == 429 || a.status == 502 || a.status == 503 || a.status == 504;
        const double pause_s = has_answer ? fmax(a.retry_after_s, wait_s) : wait_s;
        if (has_answer) snprintf(err.text, sizeof err.text, "status %d", a.status);
        tell_change(x, err.text);
        fxi_buf_free(&a.body);
        if (!may_pass || was_closing || fxi_now_s() + pause_s > give_up_s) {
            count_lost_spans(x, may_pass ? FXI_LOST_unreachable : FXI_LOST_refused, x->n_batch);
            return;
        }
        (void)wait_for_spans(x, pause_s, SIZE_MAX);
    }
}

static int64_t epoch_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - (int64_t)fxi_now_ns();
}

// Preemptions are followed even while no request ends.
static void send_batch(fxi_spans *x)
{
    const fxi_otlp o = {.service_name = x->opt.service_name,
                        .resource = x->opt.resource,
                        .epoch_ns = epoch_ns(),
                        .preempts = &x->preempts};
    fxi_buf body = {0};
    pthread_mutex_lock(&x->eng_mu);
    if (x->eng) fxi_preempts_follow(&x->preempts, x->eng);
    pthread_mutex_unlock(&x->eng_mu);
    pthread_mutex_lock(&x->mu);
    for (x->n_batch = 0; x->n > 0 && x->n_batch < FXI_SPANS_BATCH; x->n--) {
        x->batch[x->n_batch++] = x->ring[x->at];
        x->at = (x->at + 1) % FXI_SPANS_RING;
    }
    pthread_mutex_unlock(&x->mu);
    if (x->n_batch && fxi_otlp_write(&body, &o, x->batch, x->n_batch))
        send_body(x, &body);
    else
        count_lost_spans(x, FXI_LOST_full, x->n_batch);
    fxi_buf_free(&body);
    for (size_t i = 0; i < x->n_batch; i++) free(x->batch[i]);
}

// ---- life -------------------------------------------------------------------------------------

static void free_exporter(fxi_spans *x)
{
    for (; x->n > 0; x->n--, x->at = (x->at + 1) % FXI_SPANS_RING) free(x->ring[x->at]);
    if (x->stop_fd >= 0) close(x->stop_fd);
    pthread_cond_destroy(&x->moved);
    pthread_mutex_destroy(&x->mu);
    pthread_mutex_destroy(&x->eng_mu);
    fxi_http_client_close(x->client);
    for (int i = 0; i < x->n_header; i++) free(x->header[i]);
    free(x);
}

static void *exporter_main(void *ud)
{
    fxi_spans *x = ud;
    while (wait_for_spans(x, GATHER_S, FXI_SPANS_BATCH) || !x->closing) send_batch(x);
    pthread_mutex_lock(&x->mu);
    x->done = true;
    pthread_cond_broadcast(&x->moved);
    pthread_mutex_unlock(&x->mu);
    return NULL;
}

static fx_status start_exporter(fxi_spans *x, fx_error *err)
{
    const char *list = x->opt.headers;
    fxi_otel_pair p;
    x->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (x->stop_fd < 0) return fxi_fail(err, FX_EIO, "cannot send spans: %s", strerror(errno));
    FX_TRY(fxi_spans_check(x->opt.endpoint, err));
    FX_TRY(fxi_http_client_open(x->opt.ca_file, x->stop_fd, &x->client, err));
    bool ok = (x->header[x->n_header++] = strdup("Content-Type: application/json")) != NULL;
    while (ok && x->n_header < MAX_HEADER && fxi_otel_pair_next(&list, &p)) {
        fxi_buf header = {0};
        if (!fxi_otel_pair_is_header(&p)) continue;
        ok = fxi_buf_fmt(&header, "%s: %s", p.key, p.value);
        x->header[x->n_header++] = header.p;
    }
    if (!ok) return fxi_fail(err, FX_ENOMEM, "out of memory");
    const int e = pthread_create(&x->thread, NULL, exporter_main, x);
    return e ? fxi_fail(err, FX_EINTERNAL, "cannot start a thread: %s", strerror(e)) : FX_OK;
}

fx_status fxi_spans_check(const char *endpoint, fx_error *err)
{
    return fxi_http_url_check(endpoint, err);
}

fx_status fxi_spans_start(const fxi_spans_options *opt, fxi_spans **out, fx_error *err)
{
    fxi_spans *x = calloc(1, sizeof *x);
    *out = NULL;
    if (!x) return fxi_fail(err, FX_ENOMEM, "out of memory");
    x->opt = *opt;
    pthread_mutex_init(&x->mu, NULL);
    pthread_mutex_init(&x->eng_mu, NULL);
    fxi_cond_init(&x->moved);
    const fx_status st = start_exporter(x, err);
    if (st == FX_OK)
        *out = x;
    else
        free_exporter(x);
    return st;
}

void fxi_spans_watch(fxi_spans *x, const fx_engine *eng)
{
    if (!x) return;
    pthread_mutex_lock(&x->eng_mu);
    x->eng = eng;
    pthread_mutex_unlock(&x->eng_mu);
}

void fxi_spans_count(fxi_spans *x, fxi_spans_counts *out)
{
    *out = (fxi_spans_counts){0};
    if (!x) return;
    out->n_sent = atomic_load_explicit(&x->n_sent, memory_order_relaxed);
    for (int i = 0; i < FXI_N_LOST; i++)
        out->n_lost[i] = atomic_load_explicit(&x->n_lost[i], memory_order_relaxed);
}

void fxi_spans_stop(fxi_spans *x, double wait_s)
{
    const struct timespec end = fxi_clock_after(wait_s);
    int late = 0;
    if (!x) return;
    pthread_mutex_lock(&x->mu);
    x->close_s = fxi_now_s() + wait_s;
    x->closing = true;
    pthread_cond_broadcast(&x->moved);
    while (!x->done && !late) late = pthread_cond_timedwait(&x->moved, &x->mu, &end);
    pthread_mutex_unlock(&x->mu);
    (void)eventfd_write(x->stop_fd, 1); // cannot fail: the count is 0
    pthread_join(x->thread, NULL);
    free_exporter(x);
}
