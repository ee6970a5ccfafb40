// bench_picture.c - what pictures of a large cache cost: taking one, making a change of two and the
// whole of one, in CPU time; and how many changes a second the budget for those who look allows.
//
// The engine, its scheduler and its KV manager are the real ones, over a model that computes
// nothing and memory that is only counted (replay/paper), so that a cache of any size fits. Between
// two pictures steps are computed, and a prompt is recorded, as under load.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "engine/loop/loop.h"
#include "engine/picture/paint.h"
#include "figures.h"
#include "replay/replay_parts.h"
#include "server/picture/picture_json.h"

enum { N_SAMPLE = 41, LEAST_GAP_MS = 100, CHUNK_TOK = 64 };

typedef struct scene {
    const char *manager;
    int n_prompt, prompt_chunks; // recorded: so many of this length
    int n_seq;                   // that generate
} scene;

static const fxi_geometry small = {"small", 2, 64, 1, 1, 32, 1e6, 2048};

typedef struct view {
    fxi_replay r;
    fxi_replay_options opt;
    fxi_replay_figures out;
    fxi_trace trace;
    int32_t tok[2048];
    uint64_t clock_us;
    int n_ended, n_made;
} view;

static void die(const char *what)
{
    fprintf(stderr, "bench_picture: %s\n", what);
    exit(1);
}

static uint64_t view_clock(void *ud)
{
    return ((view *)ud)->clock_us;
}

static void note_event(void *ud, const fx_event *ev)
{
    ((view *)ud)->n_ended += ev->last;
}

static void open_view(view *v, const scene *s)
{
    fx_error err = {0};
    const uint64_t chunk_bytes = 4ull * 4096;
    v->opt = fxi_replay_options_start();
    v->opt.manager = s->manager;
    v->opt.geometry = &small;
    v->opt.page_bytes = 4096;
    v->opt.block_tok = CHUNK_TOK;
    v->opt.max_seq = s->n_seq + 8;
    v->opt.step_tok = 1 << 16;
    v->opt.kv_bytes =
        chunk_bytes * (uint64_t)(s->n_prompt * (s->prompt_chunks + 1) + 8 * s->n_seq + 64);
    v->r = (fxi_replay){.t = &v->trace, .opt = &v->opt, .out = &v->out};
    if (fxi_replay_open(&v->r, &err) != FX_OK) die(err.text);
    v->r.model->before_pass = NULL;
    v->clock_us = 1000000;
    v->r.eng->now_us = view_clock;
    v->r.eng->now_ud = v;
}

// A prompt that begins like no other.
static void ask(view *v, int n_prompt, int max_tok)
{
    fx_error err = {0};
    uint64_t id;
    fx_request q = fx_request_default();
    for (int i = 0; i < n_prompt; i++) v->tok[i] = 1 + i % 1000;
    v->tok[0] = 1 + v->n_made % 1000;
    v->tok[1] = 1 + v->n_made / 1000;
    v->n_made++;
    q.prompt = v->tok;
    q.n_prompt = (size_t)n_prompt;
    q.max_tok = max_tok;
    q.ignore_eos = true;
    q.on_event = note_event;
    q.ud = v;
    if (fx_submit(v->r.eng, &q, &id, &err) != FX_OK) die(err.text);
}

static void run_until(view *v, int n_ended)
{
    for (int i = 0; v->n_ended < n_ended; i++) {
        if (i > 1000000) die("no progress");
        (void)fxi_turn_run(v->r.eng);
    }
}

static void record_prompts(view *v, const scene *s)
{
    for (int i = 0; i < s->n_prompt; i++) {
        ask(v, s->prompt_chunks * CHUNK_TOK + 8, 2);
        if (v->n_made - v->n_ended >= 8) run_until(v, v->n_made);
    }
    run_until(v, v->n_made);
    for (int i = 0; i < s->n_seq; i++) ask(v, 40, 1200);
    for (int i = 0; i < 40; i++) (void)fxi_turn_run(v->r.eng);
}

typedef struct costs {
    samples take, change, change_bytes, whole, whole_bytes;
} costs;

static const fx_picture *take(view *v, uint64_t after, samples *us)
{
    fxi_inbox_publish(v->r.eng);
    v->clock_us += 600000000;
    const uint64_t start_ns = fxi_thread_cpu_ns();
    (void)fxi_picture_act(v->r.eng);
    samples_add(us, (double)(fxi_thread_cpu_ns() - start_ns) / 1e3);
    const fx_picture *p = fx_picture_get(v->r.eng, after);
    if (!p) die("no picture");
    return p;
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

static void look_at(view *v, const scene *s, costs *c)
{
    samples first = {0};
    fx_picture_begin(v->r.eng);
    const fx_picture *was = take(v, 0, &first);
    for (int i = 0; i < N_SAMPLE; i++) {
        ask(v, s->prompt_chunks * CHUNK_TOK + 8, 2);
        for (int k = 0; k < 4; k++) (void)fxi_turn_run(v->r.eng);
        const fx_picture *is = take(v, was->number, &c->take);
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
    fx_picture_end(v->r.eng);
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
        view *v = need(calloc(1, sizeof *v));
        costs c = {0};
        open_view(v, &scenes[i]);
        record_prompts(v, &scenes[i]);
        look_at(v, &scenes[i], &c);
        show(&c);
        fxi_turn_end_all(v->r.eng, FX_FINISH_ABORT);
        fxi_replay_close(&v->r);
        free(v);
    }
    return 0;
}
