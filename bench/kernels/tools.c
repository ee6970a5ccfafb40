// tools.c - memory, time and comparison for all parts of bench_kernels.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/number/rng.h"
#include "base/system/clock.h"
#include "bench_kernels.h"

enum { MIN_RUN = 5 };

#define HUGE_BYTES ((size_t)2 << 20)

void *bench_lines(size_t n_bytes)
{
    const size_t align = n_bytes < HUGE_BYTES ? 64 : HUGE_BYTES;
    const size_t size = (n_bytes + align - 1) / align * align;
    void *p = need(aligned_alloc(align, size));
    if (align == HUGE_BYTES) (void)madvise(p, size, MADV_HUGEPAGE); // a hint
    return p;
}

float *bench_random_floats(size_t n)
{
    float *p = bench_lines(n * sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = (float)(fxi_rng_unit(1, 0, i) - 0.5);
    return p;
}

static void time_once(const kernel_bench *b, bench_timed *t)
{
    double start = b->now_s();
    t->run(t->arg);
    samples_add(&t->s, b->now_s() - start);
}

void bench_time(const kernel_bench *b, bench_timed *t, int n, double *s)
{
    for (int i = 0; i < n; i++) t[i].run(t[i].arg);
    const double end = fxi_now_s() + n * b->row_s;
    for (int r = 0; r < MIN_RUN || fxi_now_s() < end; r++)
        for (int i = 0; i < n; i++) time_once(b, &t[i]);
    for (int i = 0; i < n; i++) {
        s[i] = samples_at(&t[i].s, 0.5);
        samples_free(&t[i].s);
    }
}

void bench_same_bits(const kernel_bench *b, const char *op, const char *type, const void *got,
                     const void *ref, size_t n)
{
    if (!memcmp(got, ref, n)) return;
    fprintf(stderr, "bench_kernels: %s %s of %s has not ref's bits\n", op, type, b->k->name);
    exit(1);
}
