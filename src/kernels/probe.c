// probe.c - runs the probe loops of the best path on all threads of a pool and keeps the best time.
#include "kernels/probe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BUFFER_BYTES ((size_t)256 << 20)
#define SLICE_BYTES  ((size_t)1 << 20) // what one task reads
#define N_SLICE      ((int)(BUFFER_BYTES / SLICE_BYTES))
#define TRY_S        3e-3
#define TRIAL_ROUNDS 1000 // that say how many rounds a try has
#define N_TRY        5    // the best one counts: whatever else runs can only slow it down

typedef struct probe_run {
    const fxi_probe_loops *loops;
    double (*now_s)(void);
    float *buffer;
    fxi_probe_run run;
    int n_round;
    volatile float sink; // keeps unused results from being optimised away
} probe_run;

static void fill_slice(void *arg, int task)
{
    memset((char *)((probe_run *)arg)->buffer + (size_t)task * SLICE_BYTES, 0x3e, SLICE_BYTES);
}

static void read_slice(void *arg, int task)
{
    probe_run *p = arg;
    const float *at = p->buffer + (size_t)task * (SLICE_BYTES / sizeof(float));
    float s = p->loops->read(at, SLICE_BYTES / sizeof(float));
    if (s < 0) p->sink = s; // never true: the tasks share p, so they must not write it
}

static void run_fma(void *arg, int task)
{
    probe_run *p = arg;
    (void)task;
    if (p->loops->fma(1, p->n_round) < 0) p->sink = 0;
}

static void run_int8(void *arg, int task)
{
    probe_run *p = arg;
    (void)task;
    if (p->loops->int8[p->run].run(0, p->n_round) < 0) p->sink = 0;
}

static double best_seconds(fxi_pool *pool, fxi_task_fn *fn, probe_run *p, int n_task)
{
    double best = 1e9;
    for (int i = 0; i < N_TRY; i++) {
        double start = p->now_s();
        fxi_pool_run(pool, fn, p, n_task);
        double took = p->now_s() - start;
        best = took < best ? took : best;
    }
    return best;
}

// 10^9 operations per second of all threads, with op_per_round of them in each round of fn.
static double peak_rate(fxi_pool *pool, fxi_task_fn *fn, probe_run *p, double op_per_round)
{
    int n_thread = fxi_pool_n_thread(pool);
    p->n_round = TRIAL_ROUNDS;
    p->n_round = 1 + (int)(TRY_S / best_seconds(pool, fn, p, n_thread) * TRIAL_ROUNDS);
    return n_thread * (p->n_round * op_per_round) / best_seconds(pool, fn, p, n_thread) * 1e-9;
}

fx_status fxi_probe_machine(fxi_pool *pool, double (*now_s)(void), fxi_probe *out, fx_error *err)
{
    probe_run p = {.loops = fxi_probe_loops_get(), .now_s = now_s};
    p.buffer = aligned_alloc((size_t)2 << 20, BUFFER_BYTES);
    if (!p.buffer) return fxi_fail(err, FX_ENOMEM, "no memory for a buffer to measure with");
    madvise(p.buffer, BUFFER_BYTES, MADV_HUGEPAGE);
    fxi_pool_run(pool, fill_slice, &p, N_SLICE);
    out->read_gb_s = (double)BUFFER_BYTES / best_seconds(pool, read_slice, &p, N_SLICE) * 1e-9;
    free(p.buffer);
    out->fma_gflop_s = peak_rate(pool, run_fma, &p, p.loops->fma_flop);
    for (p.run = 0; p.run < FXI_PROBE_N_RUN; p.run++)
        out->int8_gop_s[p.run] =
            p.loops->int8 ? peak_rate(pool, run_int8, &p, p.loops->int8[p.run].op) : 0;
    return FX_OK;
}
