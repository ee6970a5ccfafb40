// bench_turns - what a turn of the scheduler costs outside of the model: with n sequences that
// decode, and with n newcomers at once; CPU time of the engine's thread. Of the newcomers'
// turn, their admission stands apart: prefixes looked for, memory counted, sequences made.
//
// The engine is that of paper_engine.h. What is done with each logit is the model's: nothing is
// drawn (the calls are replaced).
#include <stdio.h>
#include <stdlib.h>

#include "base/system/clock.h"
#include "engine/loop/loop.h"
#include "figures.h"
#include "paper_engine.h"

enum { N_SAMPLE = 61, PROMPT_TOK = 40 };

int32_t __wrap_fxi_sampler_draw(const fx_sampling *p, const float *logits, int n_vocab, int choice,
                                int position, void *cand);
bool __wrap_fxi_logits_are_finite(const float *logits, int n_vocab);
bool __real_fxi_admit_waiting(fx_engine *eng);
bool __wrap_fxi_admit_waiting(fx_engine *eng);

static double admission_ms; // of the last turn

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

bool __wrap_fxi_admit_waiting(fx_engine *eng)
{
    const uint64_t start_ns = fxi_thread_cpu_ns();
    const bool some = __real_fxi_admit_waiting(eng);
    admission_ms = (double)(fxi_thread_cpu_ns() - start_ns) / 1e6;
    return some;
}

static fx_status no_pass(fxi_model *m, const fxi_batch *batch, float *logits, fx_error *err)
{
    (void)m, (void)batch, (void)logits, (void)err;
    return FX_OK;
}

static void open_passless(paper_engine *p, int n_seq)
{
    static fxi_model_ops passless;
    paper_engine_open(p, "vtensor", n_seq, 1 << 18, (uint64_t)n_seq << 20);
    passless = *p->r.model->model.ops;
    passless.submit = no_pass;
    p->r.model->model.ops = &passless;
}

static double turn_ms(paper_engine *p)
{
    const uint64_t start_ns = fxi_thread_cpu_ns();
    (void)fxi_turn_run(p->r.eng);
    p->clock_us += 20000;
    return (double)(fxi_thread_cpu_ns() - start_ns) / 1e6;
}

// Newcomers of one turn, which is the first, and then turns in which all of them decode.
static void measure(int n_seq)
{
    paper_engine *p = need(calloc(1, sizeof *p));
    samples decode = {0};
    open_passless(p, n_seq);
    for (int i = 0; i < n_seq; i++) paper_engine_ask(p, PROMPT_TOK, 2 * N_SAMPLE);
    const double first_ms = turn_ms(p), first_admission_ms = admission_ms;
    if (p->r.eng->running.n_seq != n_seq) die("not all were admitted");
    for (int i = 0; i < N_SAMPLE; i++) samples_add(&decode, turn_ms(p));
    printf("%d,%.3f,%.3f,%.3f,%.3f\n", n_seq, first_ms, first_admission_ms,
           samples_at(&decode, 0.5), samples_at(&decode, 0.99));
    samples_free(&decode);
    paper_engine_close(p);
    free(p);
}

int main(void)
{
    puts("sequences,newcomers_ms,admission_ms,decode_p50_ms,decode_p99_ms");
    for (int n_seq = 1; n_seq <= 4096; n_seq *= 4) measure(n_seq);
    return 0;
}
