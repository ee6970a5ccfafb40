// server.c - starting and stopping the server.
//
// MHD requires that no connection is suspended when its daemon stops. The order of a stop keeps
// that rule and bounds the time it takes:
//   1. closing: from now on no job is listed (fxi_watch_add), so none suspends its connection;
//   2. every listed job ends with an error, which resumes its connection and cancels its requests
//      in the engine;
//   3. clients get grace_s to take what is left;
//   4. the watcher ends, then MHD, which closes all connections; each drops its job; then the
//      workers, which find their jobs ended;
//   5. the engine drops its last references by itself.
#include "server/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"         // defines: fxi_fail, FX_TRY
#include "base/system/clock.h" // defines: fxi_clock_after
#include "base/system/pages.h" // defines: fxi_heap_trim
#include "server/http/http.h"

#define CONN_MEMORY_BYTES (64u << 10) // MHD's buffer for the head and the block that it sends
#define BACKLOG           256
#define MAX_CHOICE        1024
#define IDLE_S            1
#define OWN_FILES         64 // open files that are not connections

// ---- the listening socket ---------------------------------------------------------------------

typedef union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} socket_address;

// Returns the bytes of *a that are used; 0: the text is not an address.
static socklen_t parse_address(const char *host, int port, socket_address *a)
{
    memset(a, 0, sizeof *a);
    if (!strcmp(host, "localhost")) host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &a->v4.sin_addr) == 1) {
        a->v4.sin_family = AF_INET;
        a->v4.sin_port = htons((uint16_t)port);
        return sizeof a->v4;
    }
    if (inet_pton(AF_INET6, host, &a->v6.sin6_addr) != 1) return 0;
    a->v6.sin6_family = AF_INET6;
    a->v6.sin6_port = htons((uint16_t)port);
    return sizeof a->v6;
}

static int open_listener(const socket_address *a, socklen_t n_addr)
{
    int one = 1, fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (!bind(fd, &a->any, n_addr) && !listen(fd, BACKLOG)) return fd;
    int e = errno;
    close(fd);
    errno = e;
    return -1;
}

static fx_status listen_at(fxi_server *srv, fx_error *err)
{
    socket_address a;
    socklen_t n = parse_address(srv->host, srv->opt.port, &a);
    if (!n) return fxi_fail(err, FX_EINVAL, "'%s' is not an IPv4 or IPv6 address", srv->host);
    srv->listen_fd = open_listener(&a, n);
    if (srv->listen_fd < 0 || getsockname(srv->listen_fd, &a.any, &n)) {
        bool v6 = strchr(srv->host, ':');
        return fxi_fail(err, FX_EIO, "cannot listen on %s%s%s:%d: %s", v6 ? "[" : "", srv->host,
                        v6 ? "]" : "", srv->opt.port, strerror(errno));
    }
    srv->port = ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
    return FX_OK;
}

// ---- options ----------------------------------------------------------------------------------

static int default_conn(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= 1000 + OWN_FILES) return 1000;
    return r.rlim_cur > 2 * OWN_FILES ? (int)r.rlim_cur - OWN_FILES : OWN_FILES;
}

static fx_status take_options(fxi_server *srv, const fxi_server_options *opt, fx_error *err)
{
    fxi_server_options *o = &srv->opt;
    *o = *opt;
    if (o->port < 0 || o->port > 65535)
        return fxi_fail(err, FX_EINVAL, "port %d is not between 0 and 65535", o->port);
    if (o->n_io_thread < 0 || o->n_worker < 0 || o->max_conn < 0 || o->idle_timeout_s < 0 ||
        o->ping_s < 0 || o->grace_s < 0)
        return fxi_fail(err, FX_EINVAL, "a limit of the server is negative");
    if (!o->n_io_thread) o->n_io_thread = 2;
    if (!o->n_worker) o->n_worker = 2;
    if (!o->max_queue_bytes) o->max_queue_bytes = fxi_ledger_default_bytes("");
    if (!o->max_conn) o->max_conn = default_conn();
    if (!o->max_body_bytes) o->max_body_bytes = 8u << 20;
    if (!o->max_out_bytes) o->max_out_bytes = 4u << 20;
    if (!o->idle_timeout_s) o->idle_timeout_s = 60;
    if (o->ping_s == 0) o->ping_s = 15;
    if (o->grace_s == 0) o->grace_s = 1;
    if (o->max_conn < o->n_io_thread) o->max_conn = o->n_io_thread; // each thread needs one
    return FX_OK;
}

fx_status fxi_server_check(const fxi_server_options *opt, fx_error *err)
{
    socket_address a;
    const char *host = opt->host ? opt->host : "127.0.0.1";
    fxi_server *srv = calloc(1, sizeof *srv);
    if (!srv) return fxi_fail(err, FX_ENOMEM, "out of memory");
    fx_status st = take_options(srv, opt, err);
    free(srv);
    if (st != FX_OK || parse_address(host, opt->port, &a)) return st;
    return fxi_fail(err, FX_EINVAL, "'%s' is not an IPv4 or IPv6 address", host);
}

static void take_names(fxi_server *srv)
{
    const char *host = srv->opt.host, *id = srv->opt.model_id;
    if (!id || !*id) id = fx_engine_info(srv->eng)->name;
    snprintf(srv->host, sizeof srv->host, "%s", host ? host : "127.0.0.1");
    snprintf(srv->model_id, sizeof srv->model_id, "%s", id);
    srv->opt.host = srv->host;
    srv->opt.model_id = srv->model_id;
}

// FNV-1a over what decides an answer: the program, the weights, the kernels.
static void make_fingerprint(fxi_server *srv)
{
    const fx_model_info *m = fx_engine_info(srv->eng);
    char text[512];
    snprintf(text, sizeof text, "%s|%s|%s|%s|%llu|%llu|%s", fx_version(), m->name, m->arch, m->type,
             (unsigned long long)m->n_param, (unsigned long long)m->file_bytes, m->kernel_path);
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *c = text; *c; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    snprintf(srv->fingerprint, sizeof srv->fingerprint, "fp_%012llx",
             (unsigned long long)(h & 0xffffffffffffu));
}

// ---- start ------------------------------------------------------------------------------------

// poll, not epoll: with epoll, the serving thread and the one that calls MHD_quiesce_daemon may
// both remove the listening socket from the set, and the second removal ends the process (0.9.75).
static fx_status start_mhd(fxi_server *srv, fx_error *err)
{
    const fxi_server_options *o = &srv->opt;
    unsigned pool = o->n_io_thread > 1 ? (unsigned)o->n_io_thread : 0;
    srv->mhd =
        MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0,
                         NULL, NULL, fxi_http_on_request, srv,                          //
                         MHD_OPTION_LISTEN_SOCKET, srv->listen_fd,                      //
                         MHD_OPTION_NOTIFY_COMPLETED, fxi_http_on_completed, srv,       //
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->max_conn,            //
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONN_MEMORY_BYTES, //
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)o->idle_timeout_s,    //
                         MHD_OPTION_THREAD_POOL_SIZE, pool, MHD_OPTION_END);
    if (srv->mhd) return FX_OK;
    return fxi_fail(err, FX_EINTERNAL, "cannot start the HTTP threads");
}

// Without jobs: streams that run would wait for the heap's locks. When the last job goes, this is
// called again.
static void trim_heap(void *ud)
{
    fxi_server *srv = ud;
    pthread_mutex_lock(&srv->mu);
    bool idle = !srv->jobs;
    pthread_mutex_unlock(&srv->mu);
    if (idle) fxi_heap_trim();
}

static fx_status start_server(fxi_server *srv, const fxi_server_options *opt, fx_error *err)
{
    FX_TRY(take_options(srv, opt, err));
    take_names(srv);
    make_fingerprint(srv);
    const fx_model_info *m = fx_engine_info(srv->eng);
    srv->lim = (fxi_limits){.model_id = srv->model_id,
                            .alias = srv->opt.alias,
                            .n_alias = srv->opt.n_alias,
                            .n_vocab = m->n_vocab,
                            .max_choice = MAX_CHOICE,
                            .n_embd = m->n_embd};
    const char *route[FXI_MAX_ROUTE];
    srv->ledger = fxi_ledger_new(srv->opt.max_queue_bytes);
    srv->metrics = fxi_metrics_new(route, fxi_route_paths(route, FXI_MAX_ROUTE));
    if (!srv->ledger || !srv->metrics) return fxi_fail(err, FX_ENOMEM, "out of memory");
    FX_TRY(listen_at(srv, err));
    FX_TRY(fxi_workers_start(srv->opt.n_worker, IDLE_S, trim_heap, srv, &srv->workers, err));
    FX_TRY(fxi_watch_start(srv, err));
    return start_mhd(srv, err);
}

static fxi_server *new_server(fx_engine *eng)
{
    fxi_server *srv = calloc(1, sizeof *srv);
    pthread_condattr_t attr;
    if (!srv) return NULL;
    srv->eng = eng;
    srv->created = time(NULL);
    srv->listen_fd = srv->watch.epoll_fd = srv->watch.wake_fd = -1;
    pthread_mutex_init(&srv->mu, NULL);
    pthread_mutex_init(&srv->log_mu, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&srv->empty, &attr);
    pthread_condattr_destroy(&attr);
    return srv;
}

// No connection may be suspended. Jobs that are still listed leave while MHD stops.
static void free_server(fxi_server *srv)
{
    fxi_watch_stop(srv);
    if (srv->mhd) MHD_stop_daemon(srv->mhd);
    fxi_workers_stop(srv->workers);
    fxi_watch_close(srv);
    if (srv->listen_fd >= 0) close(srv->listen_fd);
    pthread_cond_destroy(&srv->empty);
    pthread_mutex_destroy(&srv->mu);
    pthread_mutex_destroy(&srv->log_mu);
    fxi_metrics_unref(srv->metrics);
    fxi_ledger_unref(srv->ledger);
    free(srv);
}

fx_status fxi_server_start(fx_engine *eng, const fxi_server_options *opt, fxi_server **out,
                           fx_error *err)
{
    *out = NULL;
    fxi_server *srv = new_server(eng);
    if (!srv) return fxi_fail(err, FX_ENOMEM, "out of memory");
    fx_status st = start_server(srv, opt, err);
    if (st == FX_OK)
        *out = srv;
    else
        free_server(srv);
    return st;
}

int fxi_server_port(const fxi_server *srv)
{
    return srv->port;
}

// ---- stop -------------------------------------------------------------------------------------

static void end_jobs_locked(fxi_server *srv)
{
    fxi_http_error e;
    fxi_http_fail(&e, 503, "draining", NULL, "the server is shutting down");
    for (fxi_http_job *j = srv->jobs; j; j = j->next) fxi_http_job_end(j, &e);
}

void fxi_server_stop(fxi_server *srv)
{
    if (!srv) return;
    struct timespec deadline = fxi_clock_after(srv->opt.grace_s);
    pthread_mutex_lock(&srv->mu);
    srv->closing = true;
    end_jobs_locked(srv);
    pthread_mutex_unlock(&srv->mu);
    MHD_quiesce_daemon(srv->mhd); // the socket is closed after MHD has stopped
    pthread_mutex_lock(&srv->mu);
    int late = 0;
    while (srv->jobs && !late) late = pthread_cond_timedwait(&srv->empty, &srv->mu, &deadline);
    pthread_mutex_unlock(&srv->mu);
    free_server(srv);
}
