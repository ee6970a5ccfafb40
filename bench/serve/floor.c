// floor.c - what sending a token costs by itself, without a server or an engine: as many bytes as
// an event has, written to each of n connections, as after a step. A thread reads them.
//
// The kernel runs the receiving side of a local connection on the sender's account, and the wake-up
// of the reader, too. It is the least that a server pays which sends each token by itself.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "bench_serve.h"

enum { EVENT_BYTES = 200, STEP_NS = 1000000, N_STEP = 400, N_QUICK_STEP = 20 };

typedef struct floor_run {
    int n_conn, epoll_fd;
    int writer[MAX_STREAM], reader[MAX_STREAM];
    pthread_t thread;
} floor_run;

static int listen_locally(struct sockaddr_in *a)
{
    socklen_t n = sizeof *a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (struct sockaddr *)a, n) || listen(fd, MAX_STREAM) ||
        getsockname(fd, (struct sockaddr *)a, &n))
        die("floor", "no port to listen on");
    return fd;
}

static void open_pair(floor_run *r, int i, int listen_fd, const struct sockaddr_in *a)
{
    const int one = 1;
    struct epoll_event ev = {.events = EPOLLIN};
    r->reader[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(r->reader[i], (const struct sockaddr *)a, sizeof *a)) die("floor", "no connection");
    r->writer[i] = accept(listen_fd, NULL, NULL);
    setsockopt(r->writer[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ev.data.fd = r->reader[i];
    epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->reader[i], &ev);
}

// Until the connections are closed.
static void *read_all(void *ud)
{
    floor_run *r = ud;
    char buf[4096];
    struct epoll_event ev[MAX_STREAM];
    for (int n_open = r->n_conn; n_open;) {
        const int n = epoll_wait(r->epoll_fd, ev, MAX_STREAM, -1);
        for (int i = 0; i < n; i++) {
            if (recv(ev[i].data.fd, buf, sizeof buf, 0) > 0) continue;
            close(ev[i].data.fd);
            n_open--;
        }
    }
    return NULL;
}

// One event to each connection; returns the CPU time of a send in us.
static double send_step(const floor_run *r)
{
    static const char event[EVENT_BYTES];
    const double start_ns = (double)fxi_thread_cpu_ns();
    for (int i = 0; i < r->n_conn; i++)
        if (send(r->writer[i], event, sizeof event, MSG_NOSIGNAL) < 0) die("floor", "send");
    return ((double)fxi_thread_cpu_ns() - start_ns) / 1e3 / r->n_conn;
}

static void floor_row(bench *b, int n_conn)
{
    struct sockaddr_in a;
    samples us = {.n = 0};
    floor_run r = {.n_conn = n_conn, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    const int listen_fd = listen_locally(&a);
    for (int i = 0; i < n_conn; i++) open_pair(&r, i, listen_fd, &a);
    const int e = pthread_create(&r.thread, NULL, read_all, &r);
    if (e) die("thread", strerror(e));
    for (int k = b->quick ? N_QUICK_STEP : N_STEP; k > 0; k--) {
        samples_add(&us, send_step(&r));
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
    for (int i = 0; i < n_conn; i++) close(r.writer[i]);
    pthread_join(r.thread, NULL);
    close(listen_fd), close(r.epoll_fd);
    row_begin(&b->out, "%d connection%s", n_conn, n_conn == 1 ? "" : "s");
    row_cell(&b->out, "CPU of a send p50", samples_at(&us, 0.5), "us");
    row_cell(&b->out, "CPU of a send p99", samples_at(&us, 0.99), "us");
    row_end(&b->out);
    samples_free(&us);
}

void bench_floor(bench *b)
{
    static const int n_conn[] = {1, 8, 32, MAX_STREAM};
    section(&b->out, "floor", "an event to each connection, without a server");
    for (size_t i = 0; i < sizeof n_conn / sizeof *n_conn; i++) floor_row(b, n_conn[i]);
}
