// bench_snapshot.c - what snapshots of a large cache cost: taking one and writing it, in CPU time;
// and how many a second the engine allows.
//
// The engine is that of simulated_engine.h. Between two snapshots steps are computed, and a prompt
// is recorded, as under load.
#include <stdio.h>
#include <stdlib.h>

#include "engine/engine_snapshot.h"
#include "engine/iteration.h"
#include "figures.h"
#include "server/endpoint/endpoint.h"
#include "simulated_engine.h"

enum { N_SAMPLE = 41, LEAST_GAP_MS = 100, CHUNK_BYTES = 4 * 4096 };

typedef struct scene {
    const char *manager;
    int n_prompt, prompt_chunks; // recorded: so many of this length
    int n_seq;                   // that generate
} scene;

static void run_until(simulated_engine *p, int n_ended)
{
    for (int i = 0; p->n_ended < n_ended; i++) {
        if (i > 1000000) die("no progress");
        (void)fxi_iteration_run(p->r.eng);
    }
}

static void record_prompts(simulated_engine *p, const scene *s)
{
    for (int i = 0; i < s->n_prompt; i++) {
        simulated_engine_ask(p, s->prompt_chunks * SIMULATED_CHUNK_TOK + 8, 2);
        if (p->n_made - p->n_ended >= 8) run_until(p, p->n_made);
    }
    run_until(p, p->n_made);
    for (int i = 0; i < s->n_seq; i++) simulated_engine_ask(p, 40, 1200);
    for (int i = 0; i < 40; i++) (void)fxi_iteration_run(p->r.eng);
}

typedef struct costs {
    samples take, text, text_bytes;
} costs;

static const fx_snapshot *take(simulated_engine *p, uint64_t after, samples *us)
{
    fxi_iteration_publish(p->r.eng);
    p->clock_us += 600000000;
    const double start_ns = thread_cpu_ns();
    (void)fxi_snapshot_act(p->r.eng);
    samples_add(us, (thread_cpu_ns() - start_ns) / 1e3);
    const fx_snapshot *is = fx_snapshot_get(p->r.eng, after);
    if (!is) die("no snapshot");
    return is;
}

static void look_at(simulated_engine *p, const scene *s, costs *c)
{
    uint64_t number = 0;
    fx_snapshot_subscribe(p->r.eng);
    for (int i = 0; i < N_SAMPLE; i++) {
        simulated_engine_ask(p, s->prompt_chunks * SIMULATED_CHUNK_TOK + 8, 2);
        for (int k = 0; k < 4; k++) (void)fxi_iteration_run(p->r.eng);
        const fx_snapshot *is = take(p, number, &c->take);
        fxi_buf b = {0};
        const double start_ns = thread_cpu_ns();
        if (!fxi_snapshot_json(&b, is)) die("no memory");
        samples_add(&c->text, (thread_cpu_ns() - start_ns) / 1e3);
        samples_add(&c->text_bytes, (double)b.n / 1e3);
        fxi_buf_free(&b);
        number = is->number;
        if (i == N_SAMPLE - 1)
            printf("%-8s %6d prompts x %d chunks, %4d sequences: %zu runs of chunks, %zu segments, "
                   "%zu of %llu nodes\n",
                   s->manager, s->n_prompt, s->prompt_chunks, s->n_seq, is->n_chunk_run,
                   is->n_segment_run, is->n_node, (unsigned long long)is->n_all_node);
        fx_snapshot_unref(is);
    }
    fx_snapshot_unsubscribe(p->r.eng);
}

static void show(costs *c)
{
    const double take_us = samples_at(&c->take, 0.5), text_us = samples_at(&c->text, 0.5);
    const double gap_ms = (take_us + text_us) * FX_SNAPSHOT_SHARE / 1e3;
    printf("  taking %.0f us; writing %.0f us, %.0f KB; %.2f snapshots/s\n", take_us, text_us,
           samples_at(&c->text_bytes, 0.5), 1e3 / (gap_ms > LEAST_GAP_MS ? gap_ms : LEAST_GAP_MS));
    samples_free(&c->take);
    samples_free(&c->text);
    samples_free(&c->text_bytes);
}

int main(void)
{
    static const scene scenes[] = {
        {"vtensor", 100, 1, 8},      {"vtensor", 20000, 1, 8}, {"vtensor", 20000, 5, 8},
        {"vtensor", 20000, 5, 2000}, {"paged", 20000, 1, 8},   {"paged", 20000, 5, 8},
        {"paged", 20000, 5, 2000},
    };
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        simulated_engine *p = need(calloc(1, sizeof *p));
        costs c = {0};
        const scene *s = &scenes[i];
        const int n_chunk = s->n_prompt * (s->prompt_chunks + 1) + 8 * s->n_seq + 64;
        simulated_engine_open(p, s->manager, s->n_seq + 8, 1 << 16,
                              CHUNK_BYTES * (uint64_t)n_chunk);
        record_prompts(p, s);
        look_at(p, s, &c);
        show(&c);
        simulated_engine_close(p);
        free(p);
    }
    return 0;
}
