// bench_picture.c - what pictures of a large cache cost: taking one, making a change of two and the
// whole of one, in CPU time; and how many changes a second the budget for those who look allows.
//
// The engine is that of paper_engine.h. Between two pictures steps are computed, and a prompt is
// recorded, as under load.
#include <stdio.h>
#include <stdlib.h>

#include "base/system/clock.h"
#include "engine/iteration.h"
#include "engine/picture/paint.h"
#include "figures.h"
#include "paper_engine.h"
#include "server/picture/picture_json.h"

enum { N_SAMPLE = 41, LEAST_GAP_MS = 100 };

typedef struct scene {
    const char *manager;
    int n_prompt, prompt_chunks; // recorded: so many of this length
    int n_seq;                   // that generate
} scene;

static void open_scene(paper_engine *p, const scene *s)
{
    const uint64_t chunk_bytes = 4ull * 4096;
    paper_engine_open(p, s->manager, s->n_seq + 8, 1 << 16,
                      chunk_bytes *
                          (uint64_t)(s->n_prompt * (s->prompt_chunks + 1) + 8 * s->n_seq + 64));
}

static void run_until(paper_engine *p, int n_ended)
{
    for (int i = 0; p->n_ended < n_ended; i++) {
        if (i > 1000000) die("no progress");
        (void)fxi_iteration_run(p->r.eng);
    }
}

static void record_prompts(paper_engine *p, const scene *s)
{
    for (int i = 0; i < s->n_prompt; i++) {
        paper_engine_ask(p, s->prompt_chunks * PAPER_CHUNK_TOK + 8, 2);
        if (p->n_made - p->n_ended >= 8) run_until(p, p->n_made);
    }
    run_until(p, p->n_made);
    for (int i = 0; i < s->n_seq; i++) paper_engine_ask(p, 40, 1200);
    for (int i = 0; i < 40; i++) (void)fxi_iteration_run(p->r.eng);
}

typedef struct costs {
    samples take, change, change_bytes, whole, whole_bytes;
} costs;

static const fx_picture *take(paper_engine *p, uint64_t after, samples *us)
{
    fxi_iteration_publish(p->r.eng);
    p->clock_us += 600000000;
    const uint64_t start_ns = fxi_thread_cpu_ns();
    (void)fxi_picture_act(p->r.eng);
    samples_add(us, (double)(fxi_thread_cpu_ns() - start_ns) / 1e3);
    const fx_picture *is = fx_picture_get(p->r.eng, after);
    if (!is) die("no picture");
    return is;
}

static void make_text(samples *us, samples *bytes, const fx_picture *from, const fx_picture *to)
{
    fxi_buf b = {0};
    const uint64_t start_ns = fxi_thread_cpu_ns();
    if (!(from ? fxi_picture_change(&b, from, to) : fxi_picture_whole(&b, to))) die("no memory");
    samples_add(us, (double)(fxi_thread_cpu_ns() - start_ns) / 1e3);
    samples_add(bytes, (double)b.n / 1e3);
    fxi_buf_free(&b);
}

static void look_at(paper_engine *p, const scene *s, costs *c)
{
    samples first = {0};
    fx_picture_begin(p->r.eng);
    const fx_picture *was = take(p, 0, &first);
    for (int i = 0; i < N_SAMPLE; i++) {
        paper_engine_ask(p, s->prompt_chunks * PAPER_CHUNK_TOK + 8, 2);
        for (int k = 0; k < 4; k++) (void)fxi_iteration_run(p->r.eng);
        const fx_picture *is = take(p, was->number, &c->take);
        make_text(&c->change, &c->change_bytes, was, is);
        fx_picture_unref(was);
        was = is;
        if (i % 8 == 0) make_text(&c->whole, &c->whole_bytes, NULL, is);
    }
    printf("%-8s %6d prompts x %d chunks, %4d sequences: %zu runs of chunks, %zu segments, %zu "
           "nodes\n",
           s->manager, s->n_prompt, s->prompt_chunks, s->n_seq, was->n_chunk_run,
           was->n_segment_run, was->n_node);
    fx_picture_unref(was);
    fx_picture_end(p->r.eng);
    samples_free(&first);
}

static void show(costs *c)
{
    const double take_us = samples_at(&c->take, 0.5), change_us = samples_at(&c->change, 0.5);
    const double gap_ms = (take_us + change_us) * FX_PICTURE_SHARE / 1e3;
    printf(
        "  taking %.0f us; a change %.0f us, %.1f KB; the whole %.0f us, %.0f KB; %.2f changes/s\n",
        take_us, change_us, samples_at(&c->change_bytes, 0.5), samples_at(&c->whole, 0.5),
        samples_at(&c->whole_bytes, 0.5), 1e3 / (gap_ms > LEAST_GAP_MS ? gap_ms : LEAST_GAP_MS));
    samples_free(&c->take);
    samples_free(&c->change);
    samples_free(&c->change_bytes);
    samples_free(&c->whole);
    samples_free(&c->whole_bytes);
}

int main(void)
{
    static const scene scenes[] = {
        {"vtensor", 100, 1, 8},      {"vtensor", 20000, 1, 8}, {"vtensor", 20000, 5, 8},
        {"vtensor", 20000, 5, 2000}, {"paged", 20000, 1, 8},   {"paged", 20000, 5, 8},
        {"paged", 20000, 5, 2000},
    };
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        paper_engine *p = need(calloc(1, sizeof *p));
        costs c = {0};
        open_scene(p, &scenes[i]);
        record_prompts(p, &scenes[i]);
        look_at(p, &scenes[i], &c);
        show(&c);
        paper_engine_close(p);
        free(p);
    }
    return 0;
}
