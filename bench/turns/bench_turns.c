// bench_turns - what an iteration of the scheduler costs outside of the model: with n newcomers at
// once, and with n sequences that decode; CPU time of the engine's thread. Newcomers are measured
// twice, in an engine of their own each time: memory that the program never used before costs more.
// The second iteration is split up by phase, in microseconds per newcomer: new requests are
// collected, newcomers are admitted, the rest of the plan (their caches grow), the batch is made;
// after the pass, until tokens are drawn (prompts are recorded), drawing, and what follows (tokens
// are emitted). All of their tokens are computed in that iteration; default_ms is the median of
// first iterations with the default step, which computes 512 of them.
//
// The engine is that of simulated_engine.h. What is done with each logit is the model's: nothing is
// drawn (the calls are replaced).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/iteration.h"
#include "figures.h"
#include "simulated_engine.h"

enum { N_SAMPLE = 61, PROMPT_TOK = 40, ALL_TOK = 1 << 18, DEFAULT_TOK = 512, N_DEFAULT = 5 };

enum { COLLECT, ADMIT, PLAN, BATCH, ADVANCE, DRAW, SETTLE, N_PHASE }; // as they are printed

static double phase_ms[N_PHASE]; // of the last iteration
static double phase_ns;          // when the phase began

int32_t __wrap_fxi_sampler_draw(const fx_sampling *p, const float *logits, int n_vocab, int choice,
                                int position, void *cand);
bool __wrap_fxi_logits_are_finite(const float *logits, int n_vocab);
void __real_fxi_preempt_continue(fxi_memory *m);
void __wrap_fxi_preempt_continue(fxi_memory *m);
bool __real_fxi_admit_waiting(fx_engine *eng);
bool __wrap_fxi_admit_waiting(fx_engine *eng);
void __real_fxi_forward_run(fx_engine *eng);
void __wrap_fxi_forward_run(fx_engine *eng);
void __real_fxi_sample_run(fx_engine *eng);
void __wrap_fxi_sample_run(fx_engine *eng);

static void end_phase(int phase)
{
    const double now = thread_cpu_ns();
    phase_ms[phase] += (now - phase_ns) / 1e6;
    phase_ns = now;
}

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

// What an iteration does first with what it has collected.
void __wrap_fxi_preempt_continue(fxi_memory *m)
{
    end_phase(COLLECT);
    __real_fxi_preempt_continue(m);
}

bool __wrap_fxi_admit_waiting(fx_engine *eng)
{
    end_phase(PLAN);
    const bool some = __real_fxi_admit_waiting(eng);
    end_phase(ADMIT);
    return some;
}

void __wrap_fxi_forward_run(fx_engine *eng)
{
    end_phase(PLAN);
    __real_fxi_forward_run(eng);
}

void __wrap_fxi_sample_run(fx_engine *eng)
{
    end_phase(ADVANCE);
    __real_fxi_sample_run(eng);
    end_phase(DRAW);
}

static fx_status no_pass(fxi_model *m, const fxi_batch *batch, float *logits, fx_error *err)
{
    (void)m, (void)batch, (void)logits, (void)err;
    end_phase(BATCH);
    return FX_OK;
}

static double turn_ms(simulated_engine *p)
{
    const double start_ns = thread_cpu_ns();
    memset(phase_ms, 0, sizeof phase_ms);
    phase_ns = start_ns;
    (void)fxi_iteration_run(p->r.eng);
    end_phase(SETTLE);
    p->clock_us += 20000;
    return (phase_ns - start_ns) / 1e6;
}

static double newcomers_ms(simulated_engine *p, int n_seq, int step_tok)
{
    static fxi_model_ops passless;
    simulated_engine_open(p, "vtensor", n_seq, step_tok, (uint64_t)n_seq << 20);
    passless = *p->r.model->model.ops;
    passless.submit = no_pass;
    p->r.model->model.ops = &passless;
    for (int i = 0; i < n_seq; i++) simulated_engine_ask(p, PROMPT_TOK, 2 * N_SAMPLE);
    const double ms = turn_ms(p);
    if (p->r.eng->sched.running.n_seq != n_seq) die("not all were admitted");
    return ms;
}

static double newcomers_alone_ms(simulated_engine *p, int n_seq, int step_tok)
{
    const double ms = newcomers_ms(p, n_seq, step_tok);
    simulated_engine_close(p);
    return ms;
}

static double default_ms(int n_seq)
{
    simulated_engine *p = need(calloc(1, sizeof *p));
    samples s = {0};
    for (int i = 0; i < N_DEFAULT; i++) samples_add(&s, newcomers_alone_ms(p, n_seq, DEFAULT_TOK));
    const double ms = samples_at(&s, 0.5);
    samples_free(&s);
    free(p);
    return ms;
}

// Newcomers, newcomers of other engines, and then iterations in which the last ones decode.
static void measure(int n_seq)
{
    simulated_engine *p = need(calloc(2, sizeof *p));
    samples decode = {0};
    const double first_ms = newcomers_alone_ms(&p[0], n_seq, ALL_TOK);
    const double again_ms = newcomers_ms(&p[1], n_seq, ALL_TOK);
    printf("%d,%.3f,%.3f", n_seq, first_ms, again_ms);
    for (int i = 0; i < N_PHASE; i++) printf(",%.3f", phase_ms[i] * 1e3 / n_seq);
    for (int i = 0; i < N_SAMPLE; i++) samples_add(&decode, turn_ms(&p[1]));
    printf(",%.3f,%.3f,%.3f\n", samples_at(&decode, 0.5), samples_at(&decode, 0.99),
           default_ms(n_seq));
    samples_free(&decode);
    simulated_engine_close(&p[1]);
    free(p);
}

int main(void)
{
    puts("sequences,newcomers_ms,again_ms,collect_us,admit_us,plan_us,batch_us,advance_us,"
         "draw_us,settle_us,decode_p50_ms,decode_p99_ms,default_ms");
    for (int n_seq = 1; n_seq <= 4096; n_seq *= 4) measure(n_seq);
    return 0;
}
