// order.c - what the order of rounding (kernels.h) leaves of the int8 peak: the integer products of
// a type's runs and the roundings after each run, for twelve sums, in registers. Nothing is loaded
// and no code is unpacked, so no layer can be faster with these bits. The peak counts products
// alone.
//
// Runs of 32 numbers have eight products and two roundings, three with a minimum; runs of 16 have
// four products and two roundings. Rows are printed on paths with AVX-512 VNNI.
#include <string.h>

#include "bench_kernels.h"

#if defined(__x86_64__)
#    include <immintrin.h>

#    define VNNI __attribute__((target("avx512f,avx512vnni")))

enum { N_CHAIN = 12, N_ROUND = 200000 };

// N_ROUND runs of n_dot products and n_float roundings, for N_CHAIN sums. n_dot and n_float are
// constants at every call.
static inline __attribute__((always_inline)) VNNI float order_run(const int n_dot,
                                                                  const int n_float)
{
    const __m512i x = _mm512_set1_epi32(1);
    const __m512 scale = _mm512_set1_ps(0.5f);
    __m512 acc[N_CHAIN];
#    pragma GCC unroll 12
    for (int t = 0; t < N_CHAIN; t++) acc[t] = _mm512_setzero_ps();
    for (int r = 0; r < N_ROUND; r++) {
        __m512i sum[N_CHAIN];
#    pragma GCC unroll 12
        for (int t = 0; t < N_CHAIN; t++) {
            sum[t] = x;
            __asm__ volatile("" : "+v"(sum[t])); // unknown, so that no sum is another one's
        }
#    pragma GCC unroll 12
        for (int i = 0; i < n_dot; i++)
#    pragma GCC unroll 12
            for (int t = 0; t < N_CHAIN; t++) sum[t] = _mm512_dpbusd_epi32(sum[t], x, x);
#    pragma GCC unroll 12
        for (int t = 0; t < N_CHAIN; t++) {
            __m512 v = _mm512_fmadd_ps(_mm512_castsi512_ps(sum[t]), scale, scale);
            acc[t] = _mm512_fmadd_ps(v, scale, acc[t]);
            if (n_float == 3) acc[t] = _mm512_fmadd_ps(scale, scale, acc[t]);
        }
    }
    for (int t = 1; t < N_CHAIN; t++) acc[0] = _mm512_add_ps(acc[0], acc[t]);
    return _mm512_reduce_add_ps(acc[0]);
}

static VNNI float run_32(void)
{
    return order_run(8, 2);
}

static VNNI float run_32_min(void)
{
    return order_run(8, 3);
}

static VNNI float run_16(void)
{
    return order_run(4, 2);
}

static const struct order {
    const char *type;
    float (*run)(void);
    int n_dot;
} orders[] = {
    {"Q8_0", run_32, 8}, {"Q4_0", run_32, 8}, {"Q4_K", run_32_min, 8}, {"Q6_K", run_16, 4}};

typedef struct order_job {
    const struct order *order;
    fxi_pool *pool;
    volatile float sink;
} order_job;

static void order_task(void *arg, int task)
{
    order_job *job = arg;
    (void)task;
    if (job->order->run() < 0) job->sink = 0; // never: keeps the result in use
}

static void order_all(void *arg)
{
    order_job *job = arg;
    fxi_pool_run(job->pool, order_task, job, fxi_pool_n_thread(job->pool));
}

void bench_order_all(const kernel_bench *b)
{
    if (strcmp(b->k->name, "avx512-vnni") != 0) return;
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        if (b->only_type && strcmp(b->only_type, orders[i].type) != 0) continue;
        order_job job = {.order = &orders[i], .pool = b->pool};
        bench_timed t = {.run = order_all, .arg = &job};
        double s;
        bench_limits_before(b);
        bench_time(b, &t, 1, &s);
        const double n_op =
            2.0 * 64 * orders[i].n_dot * N_CHAIN * N_ROUND * fxi_pool_n_thread(b->pool);
        bench_print_row(b, "order", orders[i].type, 0, 0, 0, s, 0, n_op, BENCH_INT8);
    }
}

#else

void bench_order_all(const kernel_bench *b)
{
    (void)b;
}

#endif
