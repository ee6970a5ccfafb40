// watch.c - one thread that sees what MHD does not see while a connection is suspended: that the
// client has gone, and that the stream has been silent for too long; and what MHD never sees: that
// a client takes too long for its request (peers.h), or to read its answer.
//
// The thread sleeps in epoll on the sockets of the listed jobs (for hang-ups only) and on an
// eventfd, until the next ping or deadline is due. A socket is armed once (EPOLLONESHOT) and
// carries its job's serial number instead of its address: an event fetched before the job was
// removed finds nothing. A half-closed connection counts as a hang-up.
#include "base/json/json_write.h"
#include "server/http/http.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h"         // defines: fxi_fail
#include "base/system/clock.h" // defines: fxi_now_s

#define WAKE_SERIAL 0
#define N_EVENT     64

#define LEAST_BYTES_PER_S 1024 // that a client reads

static void wake_watcher(fxi_watch *w)
{
    uint64_t one = 1;
    ssize_t n = write(w->wake_fd, &one, sizeof one);
    (void)n; // fails only if the count is full, and then the watcher wakes too
}

static void drain_wakes(fxi_watch *w)
{
    uint64_t n_wake;
    ssize_t n = read(w->wake_fd, &n_wake, sizeof n_wake);
    (void)n;
}

static void hang_up_locked(fxi_server *srv, uint64_t serial)
{
    for (fxi_http_job *j = srv->jobs; j; j = j->next)
        if (j->serial == serial) fxi_http_job_hangup(j);
}

// Of n_out bytes, those that the client's machine has acknowledged.
static uint64_t acked_bytes(const fxi_http_job *job, uint64_t n_out)
{
    const uint64_t n_queued = fxi_http_job_queued_bytes(job);
    return n_out > n_queued ? n_out - n_queued : 0;
}

// A client that always has something to read must take 1 KiB per second of it, measured over
// read_timeout_s. What lies in the socket's buffer has not been taken. Returns when to look again.
static double check_reader_locked(fxi_server *srv, fxi_http_job *job, double now_s)
{
    const double limit_s = srv->opt.read_timeout_s;
    uint64_t n_out;
    const double since_s = fxi_http_job_unread(job, &n_out);
    if (!since_s) return now_s + limit_s;
    const uint64_t ack = acked_bytes(job, n_out);
    const bool is_new = job->window_s < since_s; // or it has caught up meanwhile
    if (!is_new && now_s < job->window_s + limit_s) return job->window_s + limit_s;
    if (!is_new && (double)(ack - job->window_ack) < limit_s * LEAST_BYTES_PER_S)
        fxi_peers_cut(&srv->peers, job->peer);
    job->window_s = now_s;
    job->window_ack = ack;
    return now_s + limit_s;
}

// Wakes connections, pings streams and cuts connections that are due. Returns the seconds until
// the next one; < 0: nothing to wait for.
static double do_what_is_due_locked(fxi_server *srv)
{
    const double now_s = fxi_now_s();
    fxi_http_wake_late(srv, now_s);
    double next_s = fmin(fxi_wakes_due_s(&srv->wakes), fxi_peers_expire(&srv->peers, now_s));
    for (fxi_http_job *j = srv->jobs; j; j = j->next) {
        next_s = fmin(next_s, fxi_http_job_ping(j, now_s, srv->opt.ping_s));
        next_s = fmin(next_s, check_reader_locked(srv, j, now_s));
        next_s = fmin(next_s, fxi_http_job_look(j, now_s));
    }
    return isinf(next_s) ? -1 : fmax(next_s - now_s, 0);
}

static int timeout_ms(double s)
{
    return s < 0 ? -1 : (int)fmin(ceil(s * 1e3), 60e3);
}

static void *watch_main(void *ud)
{
    fxi_server *srv = ud;
    struct epoll_event ev[N_EVENT];
    bool stop = false;
    int n = 0, wait_ms = -1;
    while (!stop) {
        n = epoll_wait(srv->watch.epoll_fd, ev, N_EVENT, wait_ms);
        pthread_mutex_lock(&srv->mu);
        for (int i = 0; i < n; i++) {
            if (ev[i].data.u64 == WAKE_SERIAL)
                drain_wakes(&srv->watch);
            else
                hang_up_locked(srv, ev[i].data.u64);
        }
        wait_ms = timeout_ms(do_what_is_due_locked(srv));
        stop = srv->watch.stop;
        pthread_mutex_unlock(&srv->mu);
    }
    return NULL;
}

static bool arm_socket(fxi_watch *w, int fd, uint64_t serial, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.u64 = serial};
    return !epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

fx_status fxi_watch_start(fxi_server *srv, fx_error *err)
{
    fxi_watch *w = &srv->watch;
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->epoll_fd < 0 || w->wake_fd < 0 || !arm_socket(w, w->wake_fd, WAKE_SERIAL, EPOLLIN))
        return fxi_fail(err, FX_EIO, "cannot watch connections: %s", strerror(errno));
    int e = pthread_create(&w->thread, NULL, watch_main, srv);
    if (e) return fxi_fail(err, FX_EINTERNAL, "cannot start a thread: %s", strerror(e));
    w->started = true;
    srv->wakes.alarm_fd = w->wake_fd;
    return FX_OK;
}

void fxi_watch_stop(fxi_server *srv)
{
    fxi_watch *w = &srv->watch;
    if (!w->started) return;
    pthread_mutex_lock(&srv->mu);
    w->stop = true;
    pthread_mutex_unlock(&srv->mu);
    wake_watcher(w);
    pthread_join(w->thread, NULL);
}

void fxi_watch_close(fxi_server *srv)
{
    fxi_watch *w = &srv->watch;
    if (w->wake_fd >= 0) close(w->wake_fd);
    if (w->epoll_fd >= 0) close(w->epoll_fd);
}

static void list_locked(fxi_server *srv, fxi_http_job *job)
{
    job->serial = ++srv->next_serial;
    job->next = srv->jobs;
    if (job->next) job->next->prev = job;
    srv->jobs = job;
    job->listed = true;
}

bool fxi_watch_add(fxi_http_job *job)
{
    fxi_server *srv = job->srv;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(job->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    job->fd = info ? info->connect_fd : -1;
    pthread_mutex_lock(&srv->mu);
    bool ok = !srv->closing;
    if (ok) list_locked(srv, job);
    pthread_mutex_unlock(&srv->mu);
    if (!ok) return false;
    // Hang-ups and errors are always reported, whatever the events asked for.
    arm_socket(&srv->watch, job->fd, job->serial, EPOLLRDHUP | EPOLLONESHOT);
    return true;
}

void fxi_watch_wake(fxi_server *srv)
{
    wake_watcher(&srv->watch);
}

void fxi_watch_remove(fxi_http_job *job)
{
    fxi_server *srv = job->srv;
    if (!job->listed) return;
    epoll_ctl(srv->watch.epoll_fd, EPOLL_CTL_DEL, job->fd, NULL);
    pthread_mutex_lock(&srv->mu);
    if (job->next) job->next->prev = job->prev;
    if (job->prev)
        job->prev->next = job->next;
    else
        srv->jobs = job->next;
    bool empty = !srv->jobs;
    if (empty) pthread_cond_signal(&srv->empty);
    pthread_mutex_unlock(&srv->mu);
    job->listed = false;
    if (empty) fxi_workers_touch(srv->workers); // memory goes back if no other job comes
}

static bool goes_by_id(fxi_http_job *job, const char *id)
{
    pthread_mutex_lock(&job->mu);
    bool same = !strcmp(job->reply.id, id) || !strcmp(job->request_id, id);
    pthread_mutex_unlock(&job->mu);
    return same;
}

int fxi_watch_abort(const fxi_http_job *but, const char *id)
{
    fxi_server *srv = but->srv;
    int n = 0;
    fxi_http_error e;
    fxi_http_fail(&e, 410, "aborted", NULL, "the request was ended by an operator");
    pthread_mutex_lock(&srv->mu);
    for (fxi_http_job *j = srv->jobs; j; j = j->next) {
        if (j == but || !goes_by_id(j, id) || fxi_http_job_is_over(j)) continue;
        fxi_http_job_end(j, &e);
        n++;
    }
    pthread_mutex_unlock(&srv->mu);
    return n;
}

static bool add_job(fxi_buf *b, fxi_http_job *job, double now_s)
{
    pthread_mutex_lock(&job->mu);
    const fxi_reply *r = &job->reply;
    const fxi_usage use = fxi_usage_of(r);
    const char *state = job->look          ? "watching"
                        : !job->n_part     ? "reading"
                        : !use.n_prompt    ? "queued"
                        : !use.n_generated ? "prefill"
                                           : "decode";
    bool ok = fxi_buf_fmt(b, "{\"id\":") && fxi_json_cstr(b, r->id) &&
              fxi_buf_str(b, ",\"request_id\":") && fxi_json_cstr(b, job->request_id) &&
              fxi_buf_fmt(b,
                          ",\"path\":\"%s\",\"tenant\":\"%s\",\"state\":\"%s\",\"age_s\":%.3f,"
                          "\"choices\":%d,\"prompt_tokens\":%d,\"completion_tokens\":%d}",
                          job->route->path, job->tenant->id, r->ended ? "sending" : state,
                          now_s - job->started_s, r->n_left, use.n_prompt, use.n_generated);
    pthread_mutex_unlock(&job->mu);
    return ok;
}

bool fxi_watch_list(fxi_server *srv, fxi_buf *b)
{
    const double now_s = fxi_now_s();
    bool ok = true;
    pthread_mutex_lock(&srv->mu);
    for (fxi_http_job *j = srv->jobs; ok && j; j = j->next)
        ok = (j == srv->jobs || fxi_buf_str(b, ",")) && add_job(b, j, now_s);
    pthread_mutex_unlock(&srv->mu);
    return ok;
}
