// order.c - what the order of rounding (kernels.h) leaves of the int8 peak: the integer products of
// a type's runs and the roundings after each run, in registers. Nothing is loaded and no code is
// unpacked, so no layer can be faster with these bits. The peak counts products alone. Rows are
// printed on paths with VPDPBUSD.
#include <string.h>

#include "bench_kernels.h"

enum { N_ROUND = 200000 };

static const struct order {
    const char *type;
    fxi_probe_run run;
} orders[] = {{"Q8_0", FXI_PROBE_RUN_32},
              {"Q4_0", FXI_PROBE_RUN_32},
              {"Q4_K", FXI_PROBE_RUN_32_OFFSET},
              {"Q6_K", FXI_PROBE_RUN_16}};

typedef struct order_job {
    const fxi_probe_int8 *loop;
    fxi_pool *pool;
    volatile float sink;
} order_job;

static void order_task(void *arg, int task)
{
    order_job *job = arg;
    (void)task;
    if (job->loop->run(0, N_ROUND) < 0) job->sink = 0; // never: keeps the result in use
}

static void order_all(void *arg)
{
    order_job *job = arg;
    fxi_pool_run(job->pool, order_task, job, fxi_pool_n_thread(job->pool));
}

void bench_order_all(const kernel_bench *b)
{
    const fxi_probe_int8 *loops = fxi_probe_loops_get()->int8;
    for (size_t i = 0; loops && i < sizeof orders / sizeof orders[0]; i++) {
        if (b->only_type && strcmp(b->only_type, orders[i].type) != 0) continue;
        order_job job = {.loop = &loops[orders[i].run], .pool = b->pool};
        bench_timed t = {.run = order_all, .arg = &job};
        double s;
        bench_limits_before(b);
        bench_time(b, &t, 1, &s);
        const double n_op = job.loop->op * N_ROUND * fxi_pool_n_thread(b->pool);
        bench_print_row(b, "order", orders[i].type, 0, 0, 0, s, 0, n_op, BENCH_INT8);
    }
}
