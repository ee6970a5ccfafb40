// load.c - requests per second, time to the first token and between tokens at several numbers of
// streams, through the server and on the engine alone, in turn.
#include "bench_serve.h"

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

static void move_samples(samples *to, const samples *from)
{
    for (size_t i = 0; i < from->n; i++) samples_add(to, from->v[i]);
}

static void add_pass(level_sum *l, int side, const work *w, const pass *p)
{
    samples_add(&l->rate[side], w->n_order / (p->wall_ns / 1e9));
    samples_add(&l->cpu_ms[side], p->cpu_ns / 1e6 / w->n_order);
    samples_add(&l->n_forward[side], p->n_forward);
    move_samples(&l->first_ms[side], &p->first_ms);
    move_samples(&l->gap_ms[side], &p->gap_ms);
    l->n_failed += p->n_failed;
}

static int count_different(const work *w, const pass *a, const pass *b)
{
    int n = 0;
    for (int i = 0; i < w->n_order; i++)
        n += a->answer[i].n != b->answer[i].n ||
             memcmp(a->answer[i].p, b->answer[i].p, a->answer[i].n) != 0;
    return n;
}

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
        add_pass(l, side, &w, &p[side]);
    }
    samples_add(&l->more_time, (p[SERVER].wall_ns / p[ENGINE].wall_ns - 1) * 100);
    samples_add(&l->more_cpu, (p[SERVER].cpu_ns / p[ENGINE].cpu_ns - 1) * 100);
    l->n_request += w.n_order;
    l->n_different += count_different(&w, &p[SERVER], &p[ENGINE]);
    for (int side = 0; side < N_SIDE; side++) pass_free(&p[side], &w);
    work_free(&w);
}

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

static void side_row(bench *b, int level, int side, level_sum *l)
{
    results *out = &b->out;
    row_begin(out, "%d stream%s, %s", levels[level], plural(levels[level]), sides[side].name);
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
    samples_free(&l->rate[side]), samples_free(&l->cpu_ms[side]);
    samples_free(&l->n_forward[side]);
    samples_free(&l->first_ms[side]), samples_free(&l->gap_ms[side]);
}

static void overhead_row(bench *b, int level, level_sum *l)
{
    b->found.more_time = fmax(b->found.more_time, samples_at(&l->more_time, 0.5));
    row_begin(&b->out, "%d stream%s, server over engine", levels[level], plural(levels[level]));
    row_spread(&b->out, "more time", &l->more_time, "%");
    if (b->srv.pid) {
        b->found.more_cpu = fmax(b->found.more_cpu, samples_at(&l->more_cpu, 0.5));
        row_spread(&b->out, "more CPU", &l->more_cpu, "%");
    }
    row_cell(&b->out, "different", l->n_different, "answers");
    row_cell(&b->out, "failed", l->n_failed, "requests");
    row_end(&b->out);
    samples_free(&l->more_time), samples_free(&l->more_cpu);
}

static void check_level(const bench *b)
{
    for (int i = 0; i < b->size.n_level; i++)
        if (levels[i] == b->n_stream) return;
    if (b->n_stream) die("--streams", "no level of load has so many");
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
    check_level(b);
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
