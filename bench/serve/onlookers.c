// onlookers.c - what those who watch /kv/stream cost: the same load with four of them and without,
// in turn. One thread reads for all of them and drops what it reads, as cheap as a reader can be.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench_serve.h"

enum { N_ONLOOKER = 4, N_CASE = 2, LOOK_MS = 50 };

static const char ask_stream[] = "GET /kv/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

typedef struct onlookers {
    struct pollfd fd[N_ONLOOKER];
    atomic_bool stop;
    pthread_t thread;
    double n_bytes, n_event;
} onlookers;

static void count_bytes(onlookers *o, const char *p, ssize_t n)
{
    static const char mark[] = "\nevent: ";
    o->n_bytes += (double)n;
    for (const char *end = p + n; (p = memmem(p, (size_t)(end - p), mark, sizeof mark - 1)); p++)
        o->n_event++;
}

static void *look_on(void *arg)
{
    static char buf[64 << 10];
    onlookers *o = arg;
    while (!atomic_load(&o->stop)) {
        if (poll(o->fd, N_ONLOOKER, LOOK_MS) <= 0) continue;
        for (int i = 0; i < N_ONLOOKER; i++) {
            if (!o->fd[i].revents) continue;
            const ssize_t n = recv(o->fd[i].fd, buf, sizeof buf, 0);
            if (n <= 0) die("watch", "the server ended a stream");
            count_bytes(o, buf, n);
        }
    }
    return NULL;
}

static void onlookers_start(onlookers *o, const server *srv)
{
    *o = (onlookers){.n_bytes = 0};
    for (int i = 0; i < N_ONLOOKER; i++) {
        o->fd[i] = (struct pollfd){.fd = server_connect(srv), .events = POLLIN};
        if (o->fd[i].fd < 0 ||
            send(o->fd[i].fd, ask_stream, sizeof ask_stream - 1, MSG_NOSIGNAL) < 0)
            die("watch", "the server does not answer");
    }
    if (pthread_create(&o->thread, NULL, look_on, o)) die("watch", "no thread");
}

static void onlookers_stop(onlookers *o)
{
    atomic_store(&o->stop, true);
    pthread_join(o->thread, NULL);
    for (int i = 0; i < N_ONLOOKER; i++) close(o->fd[i].fd);
}

// A figure of GET /stats.
static double stat_of(const server *srv, const char *name)
{
    static const char get[] = "GET /stats HTTP/1.0\r\n\r\n";
    char reply[8192], key[64];
    size_t n = 0;
    ssize_t more;
    const int fd = server_connect(srv);
    if (fd < 0 || send(fd, get, sizeof get - 1, MSG_NOSIGNAL) < 0) die("watch", "no statistics");
    while (n < sizeof reply - 1 && (more = recv(fd, reply + n, sizeof reply - 1 - n, 0)) > 0)
        n += (size_t)more;
    close(fd);
    reply[n] = 0;
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(reply, key);
    if (!at) die("watch", "a figure is missing");
    return strtod(at + strlen(key), NULL);
}

// What all repeats at one level showed; case 1 is with onlookers.
typedef struct watch_sum {
    samples rate[N_CASE], more_time, more_cpu, events_s, bytes_s;
    samples taking; // the engine thread's time for pictures, in %
    int n_request, n_failed;
} watch_sum;

static void run_case(bench *b, const work *w, bool is_watched, pass *p, watch_sum *sum)
{
    onlookers o;
    pass_init(p, w);
    const double start_us = stat_of(&b->srv, "picture_us");
    if (is_watched) onlookers_start(&o, &b->srv);
    http_pass(b, w, p);
    if (is_watched) {
        onlookers_stop(&o);
        const double s = p->wall_ns / 1e9, end_us = stat_of(&b->srv, "picture_us");
        samples_add(&sum->taking, (end_us - start_us) / (s * 1e6) * 100);
        samples_add(&sum->events_s, o.n_event / N_ONLOOKER / s);
        samples_add(&sum->bytes_s, o.n_bytes / N_ONLOOKER / s / 1e3);
    }
    samples_add(&sum->rate[is_watched], w->n_order / (p->wall_ns / 1e9));
    sum->n_failed += p->n_failed;
}

// The cases take turns in going first, with the same requests.
static void run_pair(bench *b, int n_stream, int n_each, int repeat, watch_sum *sum)
{
    pass p[N_CASE];
    work w;
    for (int k = 0; k < N_CASE; k++) {
        const int is_watched = (k + repeat) % N_CASE;
        work_make(&w, b, n_stream, n_each);
        run_case(b, &w, is_watched, &p[is_watched], sum);
        sum->n_request += w.n_order;
        pass_free(&p[is_watched], &w);
        work_free(&w);
    }
    samples_add(&sum->more_time, (p[1].wall_ns / p[0].wall_ns - 1) * 100);
    samples_add(&sum->more_cpu, (p[1].cpu_ns / p[0].cpu_ns - 1) * 100);
}

static void watch_row(bench *b, int n_stream, watch_sum *sum)
{
    results *out = &b->out;
    b->found.watch = fmax(b->found.watch, samples_at(&sum->more_time, 0.5));
    row_begin(out, "%d streams, %d onlookers", n_stream, N_ONLOOKER);
    row_cell(out, "n", sum->n_request, "requests");
    row_spread(out, "rate alone", &sum->rate[0], "1/s");
    row_spread(out, "rate watched", &sum->rate[1], "1/s");
    row_spread(out, "more time", &sum->more_time, "%");
    if (b->srv.pid) row_spread(out, "more CPU", &sum->more_cpu, "%");
    row_spread(out, "engine's time for it", &sum->taking, "%");
    row_spread(out, "events of each", &sum->events_s, "1/s");
    row_spread(out, "bytes of each", &sum->bytes_s, "KB/s");
    row_cell(out, "failed", sum->n_failed, "requests");
    row_end(out);
    samples_free(&sum->rate[0]), samples_free(&sum->rate[1]);
    samples_free(&sum->more_time), samples_free(&sum->more_cpu);
    samples_free(&sum->taking), samples_free(&sum->events_s), samples_free(&sum->bytes_s);
}

void bench_watch(bench *b)
{
    static const int levels[] = {8, 64};
    section(&b->out, "watch", "the same load, watched through /kv/stream by four clients and not");
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        watch_sum sum = {.n_request = 0};
        const int n_each = b->quick ? 2 : levels[i] < 32 ? 16 : 4;
        for (int r = 0; r < b->size.n_repeat; r++) run_pair(b, levels[i], n_each, r, &sum);
        watch_row(b, levels[i], &sum);
    }
}
