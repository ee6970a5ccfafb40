// loop.c - the I/O thread: it accepts connections, waits for what they wait for, and looks at those
// whose jobs have been posted.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"           // defines: fxi_fail
#include "base/system/clock.h"   // defines: fxi_now_s
#include "base/system/regions.h" // defines: fxi_heap_trim
#include "server/http/http.h"

#define N_EVENT        64
#define ACCEPTS        64  // at once
#define ACCEPT_AGAIN_S 0.1 // when no file is free

// ---- accepting --------------------------------------------------------------------------------

static void free_conn(fxi_loop *l, fxi_conn *c)
{
    if (c->is_spare)
        l->spare = c;
    else
        free(c);
}

// Through a file's socket there are no addresses: users of this machine take their place.
static fxi_address address_of_peer(int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t n = sizeof peer;
    (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n);
    return fxi_address_of_user((uint32_t)peer.uid);
}

// What cannot be told why it has no place is closed.
static void begin_conn(fxi_server *srv, int fd, const struct sockaddr *from)
{
    fxi_loop *l = &srv->loop;
    const fxi_address a = from->sa_family == AF_UNIX ? address_of_peer(fd) : fxi_address_of(from);
    fxi_conn *c = malloc(sizeof *c);
    const bool is_spare = !c;
    if (!c) {
        c = l->spare;
        l->spare = NULL;
    }
    if (!c) {
        close(fd);
        return;
    }
    memset(c, 0, offsetof(fxi_conn, in)); // the buffers need not be touched
    c->is_spare = is_spare;
    c->srv = srv;
    if (fxi_transport_open(&c->io, fd, l->identity) &&
        fxi_places_enter(&l->places, &c->place, &a, fxi_now_s())) {
        fxi_conn_begin(c);
        return;
    }
    fxi_transport_close(&c->io);
    free_conn(l, c);
}

static void listen_to(fxi_loop *l, bool on)
{
    struct epoll_event ev = {.events = on ? EPOLLIN : 0, .data.ptr = l};
    (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, l->listen_fd, &ev);
}

// Where no file is free for a connection, it waits in the socket's queue.
static void accept_conns(fxi_server *srv)
{
    fxi_loop *l = &srv->loop;
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage from;
        socklen_t n = sizeof from;
        struct sockaddr *const a = (struct sockaddr *)&from;
        const int fd = accept4(l->listen_fd, a, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            begin_conn(srv, fd, a);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            listen_to(l, false);
            l->accept_again_s = fxi_now_s() + ACCEPT_AGAIN_S;
        }
        return;
    }
}

// ---- the heap ---------------------------------------------------------------------------------

// What is free goes back to the system. Not while there are jobs: streams that run would wait for
// the heap's locks. When the last job goes, this is posted again.
static void run_trim(fxi_work *w)
{
    fxi_server *srv = (fxi_server *)((char *)w - offsetof(fxi_server, trim));
    pthread_mutex_lock(&srv->mu);
    const bool is_idle = !srv->jobs;
    pthread_mutex_unlock(&srv->mu);
    if (is_idle) fxi_heap_trim();
}

// ---- the thread -------------------------------------------------------------------------------

static void free_dead(fxi_loop *l)
{
    while (l->dead) {
        fxi_conn *c = l->dead;
        l->dead = c->next_dead;
        free_conn(l, c);
    }
}

static void *loop_main(void *ud)
{
    fxi_server *srv = ud;
    fxi_loop *l = &srv->loop;
    struct epoll_event ev[N_EVENT];
    bool stop = false;
    while (!stop) {
        if (l->accept_again_s <= fxi_now_s()) {
            l->accept_again_s = INFINITY;
            listen_to(l, true);
        }
        if (l->trim_s <= fxi_now_s()) {
            l->trim_s = INFINITY;
            fxi_workers_drop(srv->workers, &srv->trim); // the last one may wait still
            srv->trim = (fxi_work){.run = run_trim, .large = true};
            fxi_workers_post(srv->workers, &srv->trim);
        }
        const double due_s =
            fmin(fxi_places_expire(&l->places, fxi_now_s()), fmin(l->accept_again_s, l->trim_s));
        const double wait_ms = fmin(ceil(fmax(due_s - fxi_now_s(), 0) * 1e3), 60e3);
        free_dead(l);
        const int n = epoll_wait(l->epoll_fd, ev, N_EVENT, isinf(due_s) ? -1 : (int)wait_ms);
        for (int i = 0; i < n; i++) {
            if (ev[i].data.ptr == &l->wake_fd) {
                // The wake-up is heard before the flags and the posted jobs are read.
                pthread_mutex_lock(&l->mu);
                l->is_woken = false;
                stop = l->stop;
                if (l->is_closing) (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, l->listen_fd, NULL);
                pthread_mutex_unlock(&l->mu);
            } else if (ev[i].data.ptr == l) {
                accept_conns(srv);
            } else {
                fxi_conn_on_events(ev[i].data.ptr, ev[i].events);
            }
        }
        for (fxi_http_job *job; (job = fxi_loop_pop(l));) {
            if (job->conn) fxi_conn_look(job->conn);
            fxi_http_job_unref(job);
        }
    }
    while (l->places.first) fxi_conn_close((fxi_conn *)l->places.first, FXI_SHUT_DOWN);
    free_dead(l);
    return NULL;
}

// ---- life -------------------------------------------------------------------------------------

void fxi_loop_init(fxi_loop *l)
{
    *l = (fxi_loop){.epoll_fd = -1,
                    .wake_fd = -1,
                    .listen_fd = -1,
                    .accept_again_s = INFINITY,
                    .trim_s = INFINITY,
                    .date_s = -1};
    l->places.next_due_s = INFINITY;
    l->last_ready = &l->first_ready;
    pthread_mutex_init(&l->mu, NULL);
}

// The eventfd is heard by its edges, so that nobody has to read it.
fx_status fxi_loop_start(fxi_server *srv, fx_error *err)
{
    fxi_loop *l = &srv->loop;
    struct epoll_event wake = {.events = EPOLLIN | EPOLLET, .data.ptr = &l->wake_fd};
    struct epoll_event come = {.events = EPOLLIN, .data.ptr = l};
    l->places.give_up = fxi_conn_give_up;
    l->places.on_due = fxi_conn_on_due;
    l->spare = malloc(sizeof *l->spare);
    if (!l->spare) return fxi_fail(err, FX_ENOMEM, "out of memory");
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->epoll_fd < 0 || l->wake_fd < 0 ||
        epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->wake_fd, &wake) ||
        epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->listen_fd, &come))
        return fxi_fail(err, FX_EIO, "cannot watch connections: %s", strerror(errno));
    const int e = pthread_create(&l->thread, NULL, loop_main, srv);
    if (e) return fxi_fail(err, FX_EINTERNAL, "cannot start a thread: %s", strerror(e));
    l->started = true;
    return FX_OK;
}

static void raise_flag(fxi_loop *l, bool *flag)
{
    pthread_mutex_lock(&l->mu);
    *flag = true;
    fxi_loop_wake_locked(l);
    pthread_mutex_unlock(&l->mu);
}

void fxi_loop_quiesce(fxi_loop *l)
{
    raise_flag(l, &l->is_closing);
}

void fxi_loop_stop(fxi_loop *l)
{
    if (!l->started) return;
    raise_flag(l, &l->stop);
    pthread_join(l->thread, NULL);
    l->started = false;
}

void fxi_loop_free(fxi_loop *l)
{
    for (fxi_http_job *job; (job = fxi_loop_pop(l));) fxi_http_job_unref(job);
    if (l->wake_fd >= 0) close(l->wake_fd);
    if (l->epoll_fd >= 0) close(l->epoll_fd);
    fxi_identity_close(l->identity);
    free(l->spare);
    pthread_mutex_destroy(&l->mu);
}
