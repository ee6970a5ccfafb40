// log.c - see log.h.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"         // defines: fxi_fail
#include "base/json/json.h"    // defines: fxi_json_str, fxi_json_cstr
#include "base/system/clock.h" // defines: fxi_clock_after
#include "server/log/log.h"

#define DEFAULT_BYTES (256u << 10)
#define TOLD_BYTES    256

struct fxi_log {
    int fd, wake_fd;
    pthread_t thread;
    bool is_json; // lines of its own are JSON objects
    pthread_mutex_t mu;
    pthread_cond_t moved; // the ring is empty, or the thread has ended
    char *ring;           // [cap], guarded by mu, as is all below
    size_t cap, at, n;    // bytes ring[at .. at + n), around the end
    uint64_t n_dropped, n_told;
    bool closing, done;
};

// ---- the ring ---------------------------------------------------------------------------------

static void put_bytes_locked(fxi_log *log, const char *p, size_t n)
{
    const size_t to = (log->at + log->n) % log->cap;
    const size_t first = n < log->cap - to ? n : log->cap - to;
    memcpy(log->ring + to, p, first);
    memcpy(log->ring, p + first, n - first);
    log->n += n;
}

static bool put_line_locked(fxi_log *log, const char *line)
{
    const size_t n = strlen(line);
    if (n >= log->cap - log->n) return false;
    put_bytes_locked(log, line, n);
    put_bytes_locked(log, "\n", 1);
    return true;
}

// Lines stay in order: what was dropped is told before the next line that has room.
static bool tell_dropped_locked(fxi_log *log)
{
    char line[TOLD_BYTES];
    const uint64_t n = log->n_dropped - log->n_told;
    if (!n) return true;
    if (log->is_json) {
        fxi_line l = fxi_line_begin(true, FXI_LEVEL_WARN, "dropped");
        fxi_line_int(&l, "lines", (long long)n);
        const char *text = fxi_line_end(&l);
        snprintf(line, sizeof line, "%s", text ? text : "{}");
        fxi_line_free(&l);
    } else {
        snprintf(line, sizeof line,
                 "warning: %" PRIu64 " log lines were dropped: stderr did not take them", n);
    }
    if (!put_line_locked(log, line)) return false;
    log->n_told = log->n_dropped;
    return true;
}

// ---- the writer -------------------------------------------------------------------------------

static void wake_writer(fxi_log *log)
{
    (void)eventfd_write(log->wake_fd, 1); // fails if the count is full, and then it wakes too
}

// Bytes leave the ring once they are written, or lost because nobody will ever read them.
static void *writer_main(void *ud)
{
    fxi_log *log = ud;
    char piece[PIPE_BUF];
    pthread_mutex_lock(&log->mu);
    while (!log->closing) {
        if (!log->n) tell_dropped_locked(log);
        const size_t straight = log->cap - log->at < log->n ? log->cap - log->at : log->n;
        const size_t n = straight < PIPE_BUF ? straight : PIPE_BUF;
        size_t n_done = 0;
        memcpy(piece, log->ring + log->at, n);
        pthread_mutex_unlock(&log->mu);
        struct pollfd fds[] = {{.fd = log->wake_fd, .events = POLLIN},
                               {.fd = log->fd, .events = POLLOUT}};
        eventfd_t count;
        if (poll(fds, n ? 2 : 1, -1) >= 0) {
            if (fds[0].revents) (void)eventfd_read(log->wake_fd, &count);
            if (n && fds[1].revents) {
                const ssize_t k = write(log->fd, piece, n);
                n_done = k >= 0 ? (size_t)k : errno == EINTR || errno == EAGAIN ? 0 : n;
            }
        }
        pthread_mutex_lock(&log->mu);
        log->at = (log->at + n_done) % log->cap;
        log->n -= n_done;
        if (!log->n) pthread_cond_broadcast(&log->moved);
    }
    log->done = true;
    pthread_cond_broadcast(&log->moved);
    pthread_mutex_unlock(&log->mu);
    return NULL;
}

// ---- life -------------------------------------------------------------------------------------

static void free_log(fxi_log *log)
{
    if (log->wake_fd >= 0) close(log->wake_fd);
    pthread_cond_destroy(&log->moved);
    pthread_mutex_destroy(&log->mu);
    free(log->ring);
    free(log);
}

static fx_status start_log(fxi_log *log, fx_error *err)
{
    log->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (log->wake_fd < 0) return fxi_fail(err, FX_EIO, "cannot log: %s", strerror(errno));
    if (!log->ring) return fxi_fail(err, FX_ENOMEM, "out of memory");
    const int e = pthread_create(&log->thread, NULL, writer_main, log);
    if (e) return fxi_fail(err, FX_EINTERNAL, "cannot start a thread: %s", strerror(e));
    return FX_OK;
}

fx_status fxi_log_open(int fd, size_t ring_bytes, bool is_json, fxi_log **out, fx_error *err)
{
    fxi_log *log = calloc(1, sizeof *log);
    *out = NULL;
    if (!log) return fxi_fail(err, FX_ENOMEM, "out of memory");
    log->fd = fd;
    log->is_json = is_json;
    log->cap = ring_bytes ? ring_bytes : DEFAULT_BYTES;
    log->ring = malloc(log->cap);
    pthread_mutex_init(&log->mu, NULL);
    fxi_cond_init(&log->moved);
    const fx_status st = start_log(log, err);
    if (st == FX_OK)
        *out = log;
    else
        free_log(log);
    return st;
}

void fxi_log_add(fxi_log *log, const char *line)
{
    pthread_mutex_lock(&log->mu);
    const bool was_empty = !log->n;
    if (!tell_dropped_locked(log) || !put_line_locked(log, line)) log->n_dropped++;
    pthread_mutex_unlock(&log->mu);
    if (was_empty) wake_writer(log);
}

uint64_t fxi_log_n_dropped(fxi_log *log)
{
    pthread_mutex_lock(&log->mu);
    const uint64_t n = log->n_dropped;
    pthread_mutex_unlock(&log->mu);
    return n;
}

void fxi_log_close(fxi_log *log, double wait_s)
{
    if (!log) return;
    const struct timespec deadline = fxi_clock_after(wait_s);
    int late = 0;
    pthread_mutex_lock(&log->mu);
    while (log->n && !late) late = pthread_cond_timedwait(&log->moved, &log->mu, &deadline);
    log->closing = true;
    pthread_mutex_unlock(&log->mu);
    wake_writer(log);
    const struct timespec end = fxi_clock_after(wait_s);
    pthread_mutex_lock(&log->mu);
    for (late = 0; !log->done && !late;) late = pthread_cond_timedwait(&log->moved, &log->mu, &end);
    const bool done = log->done;
    pthread_mutex_unlock(&log->mu);
    if (!done) {
        pthread_detach(log->thread); // and its memory: it may still use it
        return;
    }
    pthread_join(log->thread, NULL);
    free_log(log);
}

// ---- lines --------------------------------------------------------------------------------------

static const char *const level_names[FXI_N_LEVEL] = {"debug", "info", "warn", "error"};

int fxi_level_named(const char *name)
{
    for (int i = 0; i < FXI_N_LEVEL; i++)
        if (strcasecmp(name, level_names[i]) == 0) return i;
    return -1;
}

// The time is RFC 3339, in UTC, to the millisecond.
fxi_line fxi_line_begin(bool is_json, fxi_level level, const char *event)
{
    fxi_line l = {.is_json = is_json, .ok = true};
    struct timespec now;
    struct tm utc;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    const int ms = (int)(now.tv_nsec / 1000000);
    if (is_json)
        l.ok = fxi_buf_fmt(&l.b, "{\"time\":\"%s.%03dZ\",\"level\":\"%s\",\"event\":\"%s\"", text,
                           ms, level_names[level], event);
    else
        l.ok = fxi_buf_fmt(&l.b, "%s.%03dZ %s", text, ms, level_names[level]);
    return l;
}

static void add_key(fxi_line *l, const char *key)
{
    l->ok = l->ok && fxi_buf_fmt(&l->b, l->is_json ? ",\"%s\":" : " %s=", key);
}

// In text, a word of printable ASCII is not quoted.
static void add_value(fxi_line *l, const char *s, size_t n)
{
    bool is_bare = !l->is_json && n > 0;
    for (size_t i = 0; is_bare && i < n; i++)
        is_bare = s[i] > ' ' && s[i] <= '~' && s[i] != '"' && s[i] != '\\';
    l->ok = l->ok && (is_bare ? fxi_buf_add(&l->b, s, n) : fxi_json_str(&l->b, s, n));
}

void fxi_line_word(fxi_line *l, const char *key, const char *value)
{
    if (l->is_json)
        add_key(l, key);
    else
        l->ok = l->ok && fxi_buf_str(&l->b, " ");
    add_value(l, value, strlen(value));
}

void fxi_line_text(fxi_line *l, const char *key, const char *value, size_t n_bytes)
{
    add_key(l, key);
    add_value(l, value, n_bytes);
}

void fxi_line_str(fxi_line *l, const char *key, const char *value)
{
    fxi_line_text(l, key, value, strlen(value));
}

void fxi_line_int(fxi_line *l, const char *key, long long value)
{
    add_key(l, key);
    l->ok = l->ok && fxi_buf_fmt(&l->b, "%lld", value);
}

void fxi_line_seconds(fxi_line *l, const char *key, double value)
{
    add_key(l, key);
    l->ok = l->ok && fxi_buf_fmt(&l->b, "%.3f", value);
}

const char *fxi_line_end(fxi_line *l)
{
    if (l->is_json) l->ok = l->ok && fxi_buf_str(&l->b, "}");
    return l->ok ? l->b.p : NULL;
}

void fxi_line_free(fxi_line *l)
{
    fxi_buf_free(&l->b);
}
