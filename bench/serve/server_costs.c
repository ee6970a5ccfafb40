// server_costs.c - what the server costs: a load of several streams through it and on the engine
// alone; an idle server; and the least that sending a token costs any server.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench_serve.h"

// ---- load
//
// Requests per second, time to the first token and between tokens at several numbers of streams,
// through the server and on the engine alone, in turn.

static const int levels[N_LEVEL] = {1, 8, 32, 128};

enum { SERVER, ENGINE, N_SIDE };

static const struct side {
    const char *name;
    void (*run)(bench *b, const work *w, pass *p);
} sides[N_SIDE] = {{"server", http_pass}, {"engine alone", engine_pass}};

// What all repeats at one level showed.
typedef struct level_sum {
    samples rate[N_SIDE], cpu_ms[N_SIDE], n_forward[N_SIDE], first_ms[N_SIDE], gap_ms[N_SIDE];
    samples more_time, more_cpu;
    int n_request, n_failed, n_different;
} level_sum;

// The sides take turns in going first.
static void run_repeat(bench *b, int level, int repeat, level_sum *l)
{
    work w;
    pass p[N_SIDE];
    work_make(&w, b, levels[level], b->size.n_each[level]);
    for (int k = 0; k < N_SIDE; k++) {
        const int side = (k + repeat) % N_SIDE;
        pass_init(&p[side], &w);
        sides[side].run(b, &w, &p[side]);
        samples_add(&l->rate[side], w.n_order / (p[side].wall_ns / 1e9));
        samples_add(&l->cpu_ms[side], p[side].cpu_ns / 1e6 / w.n_order);
        samples_add(&l->n_forward[side], p[side].n_forward);
        samples_join(&l->first_ms[side], &p[side].first_ms);
        samples_join(&l->gap_ms[side], &p[side].gap_ms);
        l->n_failed += p[side].n_failed;
    }
    samples_add(&l->more_time, (p[SERVER].wall_ns / p[ENGINE].wall_ns - 1) * 100);
    samples_add(&l->more_cpu, (p[SERVER].cpu_ns / p[ENGINE].cpu_ns - 1) * 100);
    l->n_request += w.n_order;
    for (int i = 0; i < w.n_order; i++) {
        const fxi_buf *a = &p[SERVER].answer[i], *other = &p[ENGINE].answer[i];
        l->n_different += a->n != other->n || memcmp(a->p, other->p, a->n) != 0;
    }
    for (int side = 0; side < N_SIDE; side++) pass_free(&p[side], &w);
    work_free(&w);
}

static void side_row(bench *b, int level, int side, level_sum *l)
{
    results *out = &b->out;
    row_begin(out, "%d stream%s, %s", levels[level], levels[level] == 1 ? "" : "s",
              sides[side].name);
    row_cell(out, "n", l->n_request, "requests");
    row_spread(out, "rate", &l->rate[side], "1/s");
    row_spread(out, "forward passes", &l->n_forward[side], "");
    row_cell(out, "first token p50", samples_at(&l->first_ms[side], 0.5), "ms");
    row_cell(out, "first token p99", samples_at(&l->first_ms[side], 0.99), "ms");
    row_cell(out, "between tokens p50", samples_at(&l->gap_ms[side], 0.5), "ms");
    row_cell(out, "between tokens p99", samples_at(&l->gap_ms[side], 0.99), "ms");
    if (!isnan(samples_at(&l->cpu_ms[side], 0.5)))
        row_spread(out, "CPU of a request", &l->cpu_ms[side], "ms");
    row_end(out);
    samples_free(&l->cpu_ms[side]); // if it is not shown
    samples_free(&l->first_ms[side]), samples_free(&l->gap_ms[side]);
}

static void overhead_row(bench *b, int level, level_sum *l)
{
    b->found.more_time = fmax(b->found.more_time, samples_at(&l->more_time, 0.5));
    row_begin(&b->out, "%d stream%s, server over engine", levels[level],
              levels[level] == 1 ? "" : "s");
    row_spread(&b->out, "more time", &l->more_time, "%");
    if (b->srv.pid) {
        b->found.more_cpu = fmax(b->found.more_cpu, samples_at(&l->more_cpu, 0.5));
        row_spread(&b->out, "more CPU", &l->more_cpu, "%");
    }
    row_cell(&b->out, "different", l->n_different, "answers");
    row_cell(&b->out, "failed", l->n_failed, "requests");
    row_end(&b->out);
    samples_free(&l->more_cpu); // if it is not shown
}

// The first request of a process is another thing: weights come from the file, memory from the
// system, and the engine has not measured yet what a prompt costs.
static void warm_up(bench *b)
{
    for (int side = 0; side < N_SIDE; side++) {
        work w;
        pass p;
        work_make(&w, b, 1, 1);
        pass_init(&p, &w);
        sides[side].run(b, &w, &p);
        pass_free(&p, &w);
        work_free(&w);
    }
}

void bench_load(bench *b)
{
    int level = 0;
    while (level < b->size.n_level && levels[level] != b->n_stream) level++;
    if (b->n_stream && level == b->size.n_level) die("--streams: no level of load has so many");
    warm_up(b);
    section(&b->out, "load", "each stream sends its next request once the last is answered");
    for (int i = 0; i < b->size.n_level; i++) {
        level_sum l = {.n_request = 0};
        if (b->n_stream && b->n_stream != levels[i]) continue;
        for (int r = 0; r < b->size.n_repeat; r++) run_repeat(b, i, r, &l);
        for (int side = 0; side < N_SIDE; side++) side_row(b, i, side, &l);
        overhead_row(b, i, &l);
    }
}

// ---- idle
//
// The CPU that the server takes while nothing is asked of it: without connections, and with
// connections that are kept alive.

static void idle_row(bench *b, int n_conn)
{
    const double start_ns = now_ns(), start_cpu_ns = server_cpu_ns(&b->srv);
    sleep_ms(b->size.idle_s * 1e3);
    const double cpu_ns = server_cpu_ns(&b->srv) - start_cpu_ns;
    const double share = cpu_ns / (now_ns() - start_ns) * 100;
    b->found.idle = fmax(b->found.idle, share);
    row_begin(&b->out, "%d connections", n_conn);
    row_cell(&b->out, "time", b->size.idle_s, "s");
    row_cell(&b->out, "CPU time", cpu_ns / 1e6, "ms");
    row_cell(&b->out, "CPU", share, "%");
    row_end(&b->out);
}

void bench_idle(bench *b)
{
    static const char get[] = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    char reply[1024];
    int fd[MAX_STREAM];
    if (!b->srv.pid) return; // another process's CPU cannot be read
    section(&b->out, "idle", "CPU of the server while nothing is asked of it");
    sleep_ms(1000); // what the last request left to do
    idle_row(b, 0);
    for (int i = 0; i < MAX_STREAM; i++) { // one request each: idle connections, not new ones
        fd[i] = server_connect(&b->srv);
        if (fd[i] < 0 || send(fd[i], get, sizeof get - 1, MSG_NOSIGNAL) < 0 ||
            recv(fd[i], reply, sizeof reply, 0) <= 0)
            die("idle: the server does not answer");
    }
    sleep_ms(200);
    idle_row(b, MAX_STREAM);
    for (int i = 0; i < MAX_STREAM; i++) close(fd[i]);
}

// ---- floor
//
// What sending a token costs by itself, without a server or an engine: as many bytes as an event
// has, written to each of n connections, as after a step. A thread reads them.
//
// The kernel runs the receiving side of a local connection on the sender's account, and the wake-up
// of the reader, too. It is the least that a server pays which sends each token by itself.

enum { EVENT_BYTES = 200, STEP_MS = 1, N_STEP = 400, N_QUICK_STEP = 20 };

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
        die("floor: no port to listen on");
    return fd;
}

static void open_pair(floor_run *r, int i, int listen_fd, const struct sockaddr_in *a)
{
    const int one = 1;
    struct epoll_event ev = {.events = EPOLLIN};
    r->reader[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(r->reader[i], (const struct sockaddr *)a, sizeof *a)) die("floor: no connection");
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

static void floor_row(bench *b, int n_conn)
{
    static const char event[EVENT_BYTES];
    struct sockaddr_in a;
    samples us = {.n = 0};
    floor_run r = {.n_conn = n_conn, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    const int listen_fd = listen_locally(&a);
    for (int i = 0; i < n_conn; i++) open_pair(&r, i, listen_fd, &a);
    const int e = pthread_create(&r.thread, NULL, read_all, &r);
    if (e) die("thread: %s", strerror(e));
    for (int k = b->quick ? N_QUICK_STEP : N_STEP; k > 0; k--) {
        const double start_ns = thread_cpu_ns(); // one event to each connection
        for (int i = 0; i < n_conn; i++)
            if (send(r.writer[i], event, sizeof event, MSG_NOSIGNAL) < 0) die("floor: send");
        samples_add(&us, (thread_cpu_ns() - start_ns) / 1e3 / n_conn);
        sleep_ms(STEP_MS);
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
