// exporter.c - the ring, and the thread that empties it.
//
// The thread waits on the ring's condition between batches and between attempts, and in polls that
// an eventfd ends while it talks to the collector.
#include "server/spans/exporter.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "base/net/http_client.h"
#include "base/system/clock.h" // defines: fxi_now_s, fxi_clock_after
#include "base/text/utf8.h"    // defines: fxi_utf8_vprint
#include "server/spans/span.h"

#define GATHER_S         1.0 // from the first span of a batch until it is sent
#define MAX_WAIT_S       30.0
#define MAX_ANSWER_BYTES (64u << 10)

enum { MAX_HEADER = 32 };

struct fxi_spans {
    char *endpoint;
    fxi_http_client *client;
    char service_name[128];
    char *resource; // NULL: none
    char *header[MAX_HEADER];
    int n_header;
    fxi_spans_options opt; // its texts are not valid any more
    int stop_fd;
    pthread_t thread;
    _Atomic uint64_t n_sent, n_lost[FXI_N_LOST];

    pthread_mutex_t eng_mu; // held while the recorder is read
    const fx_engine *eng;   // guarded by eng_mu

    pthread_mutex_t mu;
    pthread_cond_t moved;                 // something below has changed
    fxi_trace_span *ring[FXI_SPANS_RING]; // guarded by mu, as is all below
    size_t at, n;                         // ring[at .. at + n), around the end
    bool closing, done;
    double close_s; // the deadline, once it is closing

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

static bool exporter_is_closing(fxi_spans *x)
{
    pthread_mutex_lock(&x->mu);
    const bool closing = x->closing;
    pthread_mutex_unlock(&x->mu);
    return closing;
}

// Sleeps until so much time has passed, or the exporter is closing.
static void sleep_unless_closing(fxi_spans *x, double s)
{
    const struct timespec end = fxi_clock_after(s);
    int late = 0;
    pthread_mutex_lock(&x->mu);
    while (!x->closing && !late) late = pthread_cond_timedwait(&x->moved, &x->mu, &end);
    pthread_mutex_unlock(&x->mu);
}

// Waits for a batch: its first span, then for more of them for a while. False: the exporter is
// closing, and nothing is left.
static bool wait_for_batch(fxi_spans *x)
{
    struct timespec end = fxi_clock_after(GATHER_S);
    int late = 0;
    pthread_mutex_lock(&x->mu);
    while (!x->closing && !late && x->n < FXI_SPANS_BATCH)
        late = pthread_cond_timedwait(&x->moved, &x->mu, &end);
    const bool go_on = !x->closing || x->n > 0;
    pthread_mutex_unlock(&x->mu);
    return go_on;
}

static void take_batch(fxi_spans *x)
{
    pthread_mutex_lock(&x->mu);
    for (x->n_batch = 0; x->n > 0 && x->n_batch < FXI_SPANS_BATCH; x->n--) {
        x->batch[x->n_batch++] = x->ring[x->at];
        x->at = (x->at + 1) % FXI_SPANS_RING;
    }
    pthread_mutex_unlock(&x->mu);
}

static void free_spans(fxi_spans *x)
{
    for (size_t i = 0; i < x->n_batch; i++) free(x->batch[i]);
    x->n_batch = 0;
}

// ---- what is told -----------------------------------------------------------------------------

// One line where the collector begins or ceases to fail.
__attribute__((format(printf, 3, 4))) static void tell_change(fxi_spans *x, bool fails,
                                                              const char *fmt, ...)
{
    char text[512];
    va_list args;
    if (x->is_failing == fails) return;
    x->is_failing = fails;
    va_start(args, fmt);
    fxi_utf8_vprint(text, sizeof text, fmt, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' ';
    if (x->opt.say && !exporter_is_closing(x)) x->opt.say(x->opt.ud, fails, text);
}

static void tell_failure(fxi_spans *x, const char *why)
{
    tell_change(x, true, "warning: the collector of spans at %.200s: %.200s", x->endpoint, why);
}

static void tell_success(fxi_spans *x)
{
    tell_change(x, false, "the collector of spans at %.200s accepts them again", x->endpoint);
}

// ---- one attempt ------------------------------------------------------------------------------

typedef enum post_outcome {
    POST_TAKEN,   // 2xx; n_rejected of the spans were not taken all the same
    POST_REFUSED, // an answer that will stay the same
    POST_LATER,   // 429, 502, 503, 504, or no answer: it may be tried again
} post_outcome;

typedef struct post_result {
    post_outcome outcome;
    int retry_after_s;   // with LATER: what the collector asks for; 0: nothing
    uint64_t n_rejected; // with TAKEN
    char why[256];       // one line, where something was not taken
} post_result;

static post_result post_body(fxi_spans *x, const fxi_buf *body, double timeout_s)
{
    const fxi_http_call call = {.url = x->endpoint,
                                .header = (const char *const *)x->header,
                                .n_header = x->n_header,
                                .body = body,
                                .timeout_s = timeout_s,
                                .max_bytes = MAX_ANSWER_BYTES};
    post_result out = {.outcome = POST_LATER};
    fxi_http_answer a;
    fx_error err;
    if (fxi_http_client_call(x->client, &call, &a, &err) != FX_OK) {
        snprintf(out.why, sizeof out.why, "%.*s", FXI_UTF8_HEAD(err.text, 200));
        return out;
    }
    if (a.status < 300) {
        out.outcome = POST_TAKEN;
        out.n_rejected =
            fxi_otlp_rejected(a.body.p ? a.body.p : "", a.body.n, out.why, sizeof out.why);
    } else {
        const bool may_pass =
            a.status == 429 || a.status == 502 || a.status == 503 || a.status == 504;
        out.outcome = may_pass ? POST_LATER : POST_REFUSED;
        out.retry_after_s = a.retry_after_s;
        snprintf(out.why, sizeof out.why, "status %d", a.status);
    }
    fxi_buf_free(&a.body);
    return out;
}

// ---- a batch ----------------------------------------------------------------------------------

static void count_taken(fxi_spans *x, const post_result *r)
{
    const uint64_t n_refused = r->n_rejected < x->n_batch ? r->n_rejected : x->n_batch;
    atomic_fetch_add_explicit(&x->n_sent, x->n_batch - n_refused, memory_order_relaxed);
    count_lost_spans(x, FXI_LOST_refused, n_refused);
    if (n_refused)
        tell_failure(x, r->why);
    else
        tell_success(x);
}

// How long an attempt may take: less when the exporter is closing.
static double attempt_limit_s(fxi_spans *x, double limit_s)
{
    pthread_mutex_lock(&x->mu);
    const double left_s = x->closing ? x->close_s - fxi_now_s() : limit_s;
    pthread_mutex_unlock(&x->mu);
    return left_s < 0.001 ? 0.001 : left_s < limit_s ? left_s : limit_s;
}

// Tries until the collector has taken or refused the batch, or time is up. When the exporter is
// closing there is one more attempt.
static void send_body(fxi_spans *x, const fxi_buf *body)
{
    const double limit_s = x->opt.give_up_s > 0 ? x->opt.give_up_s : 60;
    const double attempt_s = x->opt.give_up_s > 0 ? limit_s : 10;
    const double give_up_s = fxi_now_s() + limit_s;
    double wait_s = x->opt.first_wait_s > 0 ? x->opt.first_wait_s : 1;
    post_result r;
    for (;; wait_s = wait_s * 2 < MAX_WAIT_S ? wait_s * 2 : MAX_WAIT_S) {
        const bool was_closing = exporter_is_closing(x);
        r = post_body(x, body, attempt_limit_s(x, attempt_s));
        if (r.outcome == POST_TAKEN) {
            count_taken(x, &r);
            return;
        }
        tell_failure(x, r.why);
        if (r.outcome == POST_REFUSED) break;
        const double pause_s = r.retry_after_s > wait_s ? r.retry_after_s : wait_s;
        if (was_closing || fxi_now_s() + pause_s > give_up_s) break;
        sleep_unless_closing(x, pause_s);
    }
    const int why = r.outcome == POST_REFUSED ? FXI_LOST_refused : FXI_LOST_unreachable;
    count_lost_spans(x, why, x->n_batch);
}

static void follow_engine(fxi_spans *x)
{
    pthread_mutex_lock(&x->eng_mu);
    if (x->eng) fxi_preempts_follow(&x->preempts, x->eng);
    pthread_mutex_unlock(&x->eng_mu);
}

static int64_t epoch_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - (int64_t)fxi_now_ns();
}

static void send_batch(fxi_spans *x)
{
    const fxi_otlp o = {.service_name = x->service_name,
                        .resource = x->resource,
                        .epoch_ns = epoch_ns(),
                        .preempts = &x->preempts};
    fxi_buf body = {0};
    if (x->n_batch && fxi_otlp_write(&body, &o, x->batch, x->n_batch))
        send_body(x, &body);
    else
        count_lost_spans(x, FXI_LOST_full, x->n_batch);
    fxi_buf_free(&body);
    free_spans(x);
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
    free(x->endpoint);
    free(x->resource);
    free(x);
}

static void *exporter_main(void *ud)
{
    fxi_spans *x = ud;
    while (wait_for_batch(x)) {
        follow_engine(x);
        take_batch(x);
        send_batch(x);
    }
    pthread_mutex_lock(&x->mu);
    x->done = true;
    pthread_cond_broadcast(&x->moved);
    pthread_mutex_unlock(&x->mu);
    return NULL;
}

// False: no memory.
static bool copy_texts(fxi_spans *x, const fxi_spans_options *opt)
{
    const char *list = opt->headers;
    fxi_otel_pair p;
    bool ok = (x->header[x->n_header++] = strdup("Content-Type: application/json")) != NULL;
    while (ok && x->n_header < MAX_HEADER && fxi_otel_pair_next(&list, &p)) {
        fxi_buf header = {0};
        if (!fxi_otel_pair_is_header(&p)) continue;
        ok = fxi_buf_fmt(&header, "%s: %s", p.key, p.value);
        x->header[x->n_header++] = header.p;
    }
    snprintf(x->service_name, sizeof x->service_name, "%s",
             opt->service_name ? opt->service_name : "");
    x->endpoint = strdup(opt->endpoint);
    x->resource = opt->resource ? strdup(opt->resource) : NULL;
    return ok && x->endpoint && (!opt->resource || x->resource);
}

static fx_status start_exporter(fxi_spans *x, const fxi_spans_options *opt, fx_error *err)
{
    x->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (x->stop_fd < 0) return fxi_fail(err, FX_EIO, "cannot send spans: %s", strerror(errno));
    FX_TRY(fxi_spans_check(opt->endpoint, err));
    FX_TRY(fxi_http_client_open(opt->ca_file, x->stop_fd, &x->client, err));
    if (!copy_texts(x, opt)) return fxi_fail(err, FX_ENOMEM, "out of memory");
    const int e = pthread_create(&x->thread, NULL, exporter_main, x);
    return e ? fxi_fail(err, FX_EINTERNAL, "cannot start a thread: %s", strerror(e)) : FX_OK;
}

fx_status fxi_spans_check(const char *endpoint, fx_error *err)
{
    return fxi_http_url_check(endpoint, err);
}

fx_status fxi_spans_start(const fxi_spans_options *opt, fxi_spans **out, fx_error *err)
{
    pthread_condattr_t attr;
    fxi_spans *x = calloc(1, sizeof *x);
    *out = NULL;
    if (!x) return fxi_fail(err, FX_ENOMEM, "out of memory");
    x->opt = *opt;
    pthread_mutex_init(&x->mu, NULL);
    pthread_mutex_init(&x->eng_mu, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&x->moved, &attr);
    pthread_condattr_destroy(&attr);
    const fx_status st = start_exporter(x, opt, err);
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
    x->closing = true;
    x->close_s = fxi_now_s() + wait_s;
    pthread_cond_broadcast(&x->moved);
    while (!x->done && !late) late = pthread_cond_timedwait(&x->moved, &x->mu, &end);
    pthread_mutex_unlock(&x->mu);
    (void)eventfd_write(x->stop_fd, 1); // cannot fail: the count is 0
    pthread_join(x->thread, NULL);
    free_exporter(x);
}
