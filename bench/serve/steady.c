// steady.c - a load that goes on until it is stopped: each stream sends its next order once the
// last one is answered. Answers are as long as chance wants, so that streams do not go in step, and
// any stretch of time has as many prompts as any other. What was done in it is asked of the server.
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/number/rng.h"
#include "bench_serve.h"

enum { WAIT_MS = 20 }; // to notice a stop

// Half as long as usual to half as long again.
static int draw_tok(const steady *s)
{
    const int most = s->b->size.max_tok;
    return most / 2 + (int)(fxi_rng_u64(s->b->next_order, 1, 0) % (uint64_t)(most + 1));
}

// The request fits the socket's buffer.
static void send_next(steady *s, steady_stream *t)
{
    order_free(&t->order);
    order_make(&t->order, ++s->b->next_order, s->b->size.n_word, draw_tok(s));
    wire_reset(&t->wire);
    (void)send(t->fd, t->order.http.p, t->order.http.n, MSG_NOSIGNAL); // fails at the next read
}

static void open_next(steady *s, int i)
{
    steady_stream *t = &s->stream[i];
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
    t->fd = server_connect(&s->b->srv);
    if (t->fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, t->fd, &ev))
        die("watch", strerror(errno));
    send_next(s, t);
}

static void read_next(steady *s, int i)
{
    static char buf[64 << 10];
    steady_stream *t = &s->stream[i];
    const ssize_t n = recv(t->fd, buf, sizeof buf, 0);
    if (n <= 0 || !wire_take(&t->wire, buf, (size_t)n)) {
        fprintf(stderr, "bench_serve: a request failed with status %d\n", t->wire.status);
        s->n_failed++;
        close(t->fd);
        open_next(s, i);
    } else if (t->wire.at == WIRE_DONE) {
        s->n_request++;
        send_next(s, t);
    }
}

static void *run_steady(void *arg)
{
    steady *s = arg;
    struct epoll_event ev[MAX_STREAM];
    while (!atomic_load(&s->stop)) {
        const int n = epoll_wait(s->epoll_fd, ev, MAX_STREAM, WAIT_MS);
        for (int k = 0; k < n; k++) read_next(s, (int)ev[k].data.u32);
    }
    return NULL;
}

void steady_start(steady *s, bench *b, int n_stream)
{
    *s = (steady){.b = b, .n_stream = n_stream, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    for (int i = 0; i < n_stream; i++) open_next(s, i);
    if (pthread_create(&s->thread, NULL, run_steady, s)) die("watch", "no thread");
}

void steady_stop(steady *s)
{
    atomic_store(&s->stop, true);
    pthread_join(s->thread, NULL);
    for (int i = 0; i < s->n_stream; i++) {
        close(s->stream[i].fd);
        order_free(&s->stream[i].order);
        wire_free(&s->stream[i].wire);
    }
    close(s->epoll_fd);
}
