// onlookers.c - what subscribers of /kv/stream cost: the same load with four of them and without,
// in turn. One thread reads for all of them and drops what it reads, as cheap as a reader can be.
//
// The load never stops. One sample is four slices of it, alone, watched, watched, alone or
// the other way round, so that what drifts cancels. A slice is watched once all onlookers have
// their first snapshot: opening a page costs once, keeping it open costs all the time. What a slice
// gets done is counted in tokens, including those of prompts, by the server. The effect is smaller
// than what slices differ by, so the rows have the median and an interval that holds it with 95 %,
// and what the server counts exactly itself: the CPU time for snapshots, and for sending them.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench_serve.h"

enum { N_ONLOOKER = 4, N_CASE = 2, N_SLICE = 4, LOOK_MS = 50, N_WARM_UP = 2 };

static const char ask_stream[] = "GET /kv/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

typedef struct onlookers {
    struct pollfd fd[N_ONLOOKER];
    bool has_first[N_ONLOOKER]; // the beginning of a snapshot
    atomic_int n_first;
    atomic_bool stop;
    pthread_t thread;
    double cpu_ns; // of the thread
} onlookers;

static void *look_on(void *arg)
{
    static char buf[64 << 10];
    onlookers *o = arg;
    while (!atomic_load(&o->stop)) {
        if (poll(o->fd, N_ONLOOKER, LOOK_MS) <= 0) continue;
        for (int i = 0; i < N_ONLOOKER; i++) {
            if (!o->fd[i].revents) continue;
            const ssize_t n = recv(o->fd[i].fd, buf, sizeof buf, 0);
            if (n <= 0) die("watch: the server ended a stream");
            if (o->has_first[i] || !memmem(buf, (size_t)n, "event: snapshot", 15)) continue;
            o->has_first[i] = true;
            atomic_fetch_add(&o->n_first, 1);
        }
    }
    o->cpu_ns = thread_cpu_ns();
    return NULL;
}

// Until each has its first snapshot.
static void onlookers_start(onlookers *o, const server *srv)
{
    *o = (onlookers){.cpu_ns = 0};
    for (int i = 0; i < N_ONLOOKER; i++) {
        o->fd[i] = (struct pollfd){.fd = server_connect(srv), .events = POLLIN};
        if (o->fd[i].fd < 0 ||
            send(o->fd[i].fd, ask_stream, sizeof ask_stream - 1, MSG_NOSIGNAL) < 0)
            die("watch: the server does not answer");
    }
    if (pthread_create(&o->thread, NULL, look_on, o)) die("watch: no thread");
    while (atomic_load(&o->n_first) < N_ONLOOKER) sleep_ms(1);
}

// ---- what the server says ----------------------------------------------------------------------

typedef struct told { // by /metrics, and about its process
    double at_ns, cpu_ns, n_tok, n_forward;
    double clients, snapshot_s, made, sent, bytes, send_s; // of /kv/stream
} told;

static told ask_told(const server *srv)
{
    static metrics m;
    metrics_ask(srv, &m);
    return (told){now_ns(),
                  server_cpu_ns(srv),
                  metrics_figure(&m, "prompt_tokens_computed_total") +
                      metrics_figure(&m, "generation_tokens_total"),
                  metrics_figure(&m, "iterations_total"),
                  metrics_figure(&m, "kv_stream_clients"),
                  metrics_figure(&m, "kv_stream_snapshot_seconds_total"),
                  metrics_figure(&m, "kv_stream_events_made_total"),
                  metrics_figure(&m, "kv_stream_events_sent_total"),
                  metrics_figure(&m, "kv_stream_sent_bytes_total"),
                  metrics_figure(&m, "kv_stream_send_seconds_total")};
}

// ---- slices ------------------------------------------------------------------------------------

// What all samples at one level showed; case 1 is with onlookers.
typedef struct watch_sum {
    samples rate[N_CASE], n_forward[N_CASE], more_time, more_cpu;
    samples taking, sending, reading; // CPU time, in % of one core
    samples first_bytes, events_s, bytes_s;
    double n_made, n_sent;
} watch_sum;

// What a token takes, summed over the slices of each case.
typedef struct watch_costs {
    double wall_ns[N_CASE], cpu_ns[N_CASE];
} watch_costs;

static void add_slice(watch_sum *sum, watch_costs *costs, bool is_watched, const told *a,
                      const told *b)
{
    const double ns = b->at_ns - a->at_ns, n_tok = b->n_tok - a->n_tok;
    costs->wall_ns[is_watched] += ns / n_tok;
    costs->cpu_ns[is_watched] += (b->cpu_ns - a->cpu_ns) / n_tok;
    samples_add(&sum->rate[is_watched], n_tok / ns * 1e9);
    samples_add(&sum->n_forward[is_watched], (b->n_forward - a->n_forward) / ns * 1e9);
}

// A slice has a token at least, however slow the machine is.
static told await_end(const bench *b, const told *before)
{
    told t = *before;
    while (t.n_tok <= before->n_tok) {
        sleep_ms(b->size.slice_s * 1e3);
        t = ask_told(&b->srv);
    }
    return t;
}

static void run_watched(bench *b, watch_sum *sum, watch_costs *costs)
{
    onlookers o;
    const told start = ask_told(&b->srv);
    onlookers_start(&o, &b->srv);
    told before = start;
    while (before.sent - start.sent < N_ONLOOKER) { // what is sent is counted a little later
        sleep_ms(1);
        before = ask_told(&b->srv);
    }
    const told after = await_end(b, &before);
    atomic_store(&o.stop, true);
    pthread_join(o.thread, NULL);
    for (int i = 0; i < N_ONLOOKER; i++) close(o.fd[i].fd);
    add_slice(sum, costs, true, &before, &after);
    const double s = (after.at_ns - before.at_ns) / 1e9;
    samples_add(&sum->taking, (after.snapshot_s - before.snapshot_s) / s * 100);
    samples_add(&sum->sending, (after.send_s - before.send_s) / s * 100);
    samples_add(&sum->events_s, (after.sent - before.sent) / N_ONLOOKER / s);
    samples_add(&sum->bytes_s, (after.bytes - before.bytes) / N_ONLOOKER / s / 1e3);
    sum->n_made += after.made - before.made;
    sum->n_sent += after.sent - before.sent;
    samples_add(&sum->first_bytes, (before.bytes - start.bytes) / N_ONLOOKER / 1e3);
    samples_add(&sum->reading, o.cpu_ns / (after.at_ns - start.at_ns) * 100);
    while (ask_told(&b->srv).clients > 0) sleep_ms(1); // seen a little later
}

static void run_sample(bench *b, bool begins_watched, watch_sum *sum)
{
    static const bool is_other[N_SLICE] = {false, true, true, false};
    watch_costs costs = {.wall_ns = {0}};
    for (int i = 0; i < N_SLICE; i++) {
        if (is_other[i] != begins_watched) {
            run_watched(b, sum, &costs);
            continue;
        }
        const told before = ask_told(&b->srv), after = await_end(b, &before);
        add_slice(sum, &costs, false, &before, &after);
    }
    samples_add(&sum->more_time, (costs.wall_ns[1] / costs.wall_ns[0] - 1) * 100);
    samples_add(&sum->more_cpu, (costs.cpu_ns[1] / costs.cpu_ns[0] - 1) * 100);
}

static void watch_row(bench *b, const steady *load, watch_sum *sum)
{
    results *out = &b->out;
    b->found.watch = fmax(b->found.watch, samples_bound(&sum->more_time, true));
    row_begin(out, "%d streams, %d onlookers", load->n_stream, N_ONLOOKER);
    row_cell(out, "n", load->n_request, "requests");
    row_interval(out, "more time", &sum->more_time, "%");
    if (b->srv.pid) row_interval(out, "more CPU of the server", &sum->more_cpu, "%");
    row_spread(out, "rate alone", &sum->rate[0], "tokens/s");
    row_spread(out, "rate watched", &sum->rate[1], "tokens/s");
    row_spread(out, "forward passes alone", &sum->n_forward[0], "1/s");
    row_spread(out, "forward passes watched", &sum->n_forward[1], "1/s");
    row_spread(out, "CPU for snapshots", &sum->taking, "%");
    row_spread(out, "CPU for sending", &sum->sending, "%");
    row_spread(out, "CPU of the onlookers", &sum->reading, "%");
    row_spread(out, "events of each", &sum->events_s, "1/s");
    row_spread(out, "bytes of each", &sum->bytes_s, "KB/s");
    row_spread(out, "snapshot", &sum->first_bytes, "KB");
    row_cell(out, "events made", sum->n_made, "");
    row_cell(out, "events sent", sum->n_sent, "");
    row_cell(out, "failed", load->n_failed, "requests");
    row_end(out);
    samples_free(&sum->more_cpu); // if it is not shown
}

void bench_watch(bench *b)
{
    static const int levels[] = {8, 64};
    section(&b->out, "watch", "the same load, watched through /kv/stream by four clients and not");
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        static steady load;
        watch_sum sum = {.n_made = 0};
        steady_start(&load, b, levels[i]);
        // The first slices fill the cache and bring streams out of step: they are not counted.
        sleep_ms(N_WARM_UP * b->size.slice_s * 1e3);
        for (int r = 0; r < b->size.n_repeat; r++) run_sample(b, r % 2, &sum);
        steady_stop(&load);
        watch_row(b, &load, &sum);
    }
}
