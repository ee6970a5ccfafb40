// bench_turns - what a turn of the scheduler costs outside of the model: with n sequences that
// decode, and with n newcomers at once; CPU time of the engine's thread.
//
// The engine, its scheduler and its KV manager are the real ones, over a model that computes
// nothing and memory that is only counted (replay/paper). What is done with each logit is the
// model's: nothing is drawn (the calls are replaced).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "engine/loop/loop.h"
#include "figures.h"
#include "replay/replay_parts.h"

enum { N_SAMPLE = 61, PROMPT_TOK = 40, CHUNK_TOK = 64 };

static const fxi_geometry small = {"small", 2, 64, 1, 1, 32, 1e6, 2048};

typedef struct stage {
    fxi_replay r;
    fxi_replay_options opt;
    fxi_replay_figures out;
    fxi_trace trace;
    uint64_t clock_us;
    int n_made;
} stage;

int32_t __wrap_fxi_sampler_draw(const fx_sampling *p, const float *logits, int n_vocab, int choice,
                                int position, void *cand);
bool __wrap_fxi_logits_are_finite(const float *logits, int n_vocab);

int32_t __wrap_fxi_sampler_draw(const fx_sampling *p, const float *logits, int n_vocab, int choice,
                                int position, void *cand)
{
    (void)p, (void)logits, (void)n_vocab, (void)choice, (void)position, (void)cand;
    return 7;
}

bool __wrap_fxi_logits_are_finite(const float *logits, int n_vocab)
{
    (void)logits, (void)n_vocab;
    return true;
}

static fx_status no_pass(fxi_model *m, const fxi_batch *batch, float *logits, fx_error *err)
{
    (void)m, (void)batch, (void)logits, (void)err;
    return FX_OK;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_turns: %s\n", what);
    exit(1);
}

static uint64_t stage_clock(void *ud)
{
    return ((stage *)ud)->clock_us;
}

static void open_stage(stage *g, int n_seq)
{
    fx_error err = {0};
    g->opt = fxi_replay_options_start();
    g->opt.manager = "vtensor";
    g->opt.geometry = &small;
    g->opt.page_bytes = 4096;
    g->opt.block_tok = CHUNK_TOK;
    g->opt.max_seq = n_seq;
    g->opt.step_tok = 1 << 18;
    g->opt.kv_bytes = (uint64_t)n_seq << 20;
    g->r = (fxi_replay){.t = &g->trace, .opt = &g->opt, .out = &g->out};
    if (fxi_replay_open(&g->r, &err) != FX_OK) die(err.text);
    static fxi_model_ops passless;
    passless = *g->r.model->model.ops;
    passless.submit = no_pass;
    g->r.model->model.ops = &passless;
    g->clock_us = 1000000;
    g->r.eng->now_us = stage_clock;
    g->r.eng->now_ud = g;
}

static void ignore_event(void *ud, const fx_event *ev)
{
    (void)ud, (void)ev;
}

// Prompts that differ from their first tokens on.
static void ask(stage *g, int max_tok)
{
    fx_error err = {0};
    uint64_t id;
    int32_t tok[PROMPT_TOK];
    for (int i = 0; i < PROMPT_TOK; i++) tok[i] = 1 + i;
    tok[0] = 1 + g->n_made % 1000;
    tok[1] = 1 + g->n_made / 1000;
    g->n_made++;
    fx_request q = fx_request_default();
    q.prompt = tok;
    q.n_prompt = PROMPT_TOK;
    q.max_tok = max_tok;
    q.ignore_eos = true;
    q.on_event = ignore_event;
    if (fx_submit(g->r.eng, &q, &id, &err) != FX_OK) die(err.text);
}

static double turn_ms(stage *g)
{
    const uint64_t start_ns = fxi_thread_cpu_ns();
    (void)fxi_turn_run(g->r.eng);
    g->clock_us += 20000;
    return (double)(fxi_thread_cpu_ns() - start_ns) / 1e6;
}

// Newcomers of one turn, which is the first, and then turns in which all of them decode.
static void measure(int n_seq)
{
    stage *g = need(calloc(1, sizeof *g));
    samples decode = {0};
    open_stage(g, n_seq);
    for (int i = 0; i < n_seq; i++) ask(g, 2 * N_SAMPLE);
    const double first_ms = turn_ms(g);
    if (g->r.eng->running.n_seq != n_seq) die("not all were admitted");
    for (int i = 0; i < N_SAMPLE; i++) samples_add(&decode, turn_ms(g));
    printf("%d,%.3f,%.3f,%.3f\n", n_seq, first_ms, samples_at(&decode, 0.5),
           samples_at(&decode, 0.99));
    samples_free(&decode);
    fxi_turn_end_all(g->r.eng, FX_FINISH_ABORT);
    fxi_replay_close(&g->r);
    free(g);
}

int main(void)
{
    puts("sequences,newcomers_ms,decode_p50_ms,decode_p99_ms");
    for (int n_seq = 1; n_seq <= 4096; n_seq *= 4) measure(n_seq);
    return 0;
}
