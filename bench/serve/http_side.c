// http_side.c - a pass over sockets: one thread, one epoll, a connection per stream that is kept
// alive from order to order.
//
// Texts are taken out of the events after the last answer, so that this client stays cheap while
// it shares the machine with the server.
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench_serve.h"

typedef struct stream {
    int fd, at;     // at: the current order
    wire *wire;     // of the current order
    double sent_ns; // of the current order
    double last_ns; // its last piece; 0: none yet
} stream;

typedef struct http_run {
    const server *srv;
    const work *w;
    pass *p;
    stream *stream; // [n_stream]
    wire *wire;     // [n_order]
    int epoll_fd, n_open;
} http_run;

static void open_stream(http_run *r, int i)
{
    stream *s = &r->stream[i];
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
    s->fd = server_connect(r->srv);
    if (s->fd < 0) die("connect", strerror(errno));
    if (epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, s->fd, &ev)) die("epoll", strerror(errno));
}

// The request fits the socket's buffer.
static void send_order(http_run *r, stream *s)
{
    const fxi_buf *http = &r->w->order[s->at].http;
    s->wire = &r->wire[s->at];
    s->last_ns = 0;
    s->sent_ns = now_ns();
    (void)send(s->fd, http->p, http->n, MSG_NOSIGNAL); // a failure shows at the next read
}

static void next_order(http_run *r, stream *s)
{
    s->at += r->w->n_stream;
    if (s->at < r->w->n_order) {
        send_order(r, s);
        return;
    }
    close(s->fd);
    r->n_open--;
}

// n: what recv returned.
static void fail_order(http_run *r, int i, ssize_t n)
{
    stream *s = &r->stream[i];
    const char *why = n < 0 ? strerror(errno) : n ? "no stream with status 200" : "closed";
    fprintf(stderr, "bench_serve: a request failed: %s; status %d, %zu bytes of body\n", why,
            s->wire->status, s->wire->body.n);
    r->p->n_failed++;
    close(s->fd);
    open_stream(r, i);
    next_order(r, s);
}

static void note_pieces(http_run *r, stream *s, int n, double ns)
{
    for (; n > 0; n--) {
        const double waited_ns = ns - (s->last_ns > 0 ? s->last_ns : s->sent_ns);
        samples_add(s->last_ns > 0 ? &r->p->gap_ms : &r->p->first_ms, waited_ns / 1e6);
        s->last_ns = ns;
    }
}

static void read_stream(http_run *r, int i)
{
    static char buf[64 << 10];
    stream *s = &r->stream[i];
    const ssize_t n = recv(s->fd, buf, sizeof buf, 0);
    const double ns = now_ns();
    if (n <= 0 || !wire_take(s->wire, buf, (size_t)n)) {
        fail_order(r, i, n);
        return;
    }
    note_pieces(r, s, wire_pieces(s->wire), ns);
    if (s->wire->at != WIRE_DONE) return;
    samples_add(&r->p->whole_ms, (ns - s->sent_ns) / 1e6);
    next_order(r, s);
}

static void run_streams(http_run *r)
{
    struct epoll_event ev[MAX_STREAM];
    for (int i = 0; i < r->w->n_stream; i++) send_order(r, &r->stream[i]);
    while (r->n_open) {
        const int n = epoll_wait(r->epoll_fd, ev, MAX_STREAM, -1);
        for (int k = 0; k < n; k++) read_stream(r, (int)ev[k].data.u32);
    }
}

static void take_answer(http_run *r, int i)
{
    fx_error err = {0};
    if (r->wire[i].at != WIRE_DONE) return; // fail_order said why
    if (wire_answer(&r->wire[i], &r->p->answer[i], &err) == FX_OK) return;
    fprintf(stderr, "bench_serve: an answer is wrong: %s\n", err.text);
    r->p->n_failed++;
}

static void take_answers(http_run *r)
{
    for (int i = 0; i < r->w->n_order; i++) {
        take_answer(r, i);
        wire_free(&r->wire[i]);
    }
}

static double count_forward(const server *srv)
{
    static metrics m;
    metrics_ask(srv, &m);
    return metrics_figure(&m, "iterations_total");
}

void http_pass(bench *b, const work *w, pass *p)
{
    http_run r = {.srv = &b->srv, .w = w, .p = p, .n_open = w->n_stream};
    r.stream = need(calloc((size_t)w->n_stream, sizeof *r.stream));
    r.wire = need(calloc((size_t)w->n_order, sizeof *r.wire));
    r.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < w->n_stream; i++) {
        r.stream[i].at = i;
        open_stream(&r, i);
    }
    const double n_before = count_forward(&b->srv);
    const double start = now_ns(), start_cpu = server_cpu_ns(&b->srv);
    run_streams(&r);
    p->wall_ns = now_ns() - start;
    p->cpu_ns = server_cpu_ns(&b->srv) - start_cpu;
    p->n_forward = count_forward(&b->srv) - n_before;
    take_answers(&r);
    close(r.epoll_fd);
    free(r.stream), free(r.wire);
}
