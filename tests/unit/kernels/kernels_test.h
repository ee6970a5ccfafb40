// kernels_test.h - shared by the kernel tests: cmocka, data of every magnitude, the paths that this
// machine can run, and exact comparison.
#ifndef KERNELS_TEST_H
#define KERNELS_TEST_H

#include "unit/cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number/rng.h"
#include "guarded.h"
#include "kernels/kernels.h"

// The paths of this machine besides ref: fast_path(0), fast_path(1), .. until NULL.
static inline const fxi_kernels *fast_path(int i)
{
    static const char *const names[] = {"avx2", "avx2-vnni", "avx512", "avx512-vnni"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        const fxi_kernels *k = fxi_kernels_get(names[n]);
        if (k && i-- == 0) return k;
    }
    return NULL;
}

static inline const fxi_kernels *ref_path(void)
{
    return fxi_kernels_get("ref");
}

// Exactly n floats, which nobody reads past their end (guarded.h).
static inline float *floats(size_t n)
{
    return guarded_new(n * sizeof(float));
}

// The distribution of test numbers.
typedef enum spread {
    EVEN,  // uniform in [-1, 1]
    WIDE,  // of magnitudes 2^-40 to 2^40
    EDGES, // many zeros of both signs, subnormal and tiny numbers
    N_SPREAD
} spread;

static inline float spread_draw(spread s, uint64_t i)
{
    float u = (float)(2 * fxi_rng_unit(s, 0, i) - 1);
    int r = (int)(fxi_rng_u64(s, 1, i) % 81);
    if (s == EVEN) return u;
    if (s == WIDE) return ldexpf(u, r - 40);
    if (r < 20) return r % 2 ? 0.0f : -0.0f;
    if (r < 40) return u * 0x1p-130f;
    return r < 60 ? u * 0x1p-70f : u;
}

// Number i of a stream. All streams read one table, which is drawn once.
static inline float spread_number(spread s, uint64_t stream, uint64_t i)
{
    enum { N = 8191 };
    static float table[N_SPREAD][N];
    static int drawn;
    for (; drawn < N_SPREAD; drawn++)
        for (uint64_t k = 0; k < N; k++) table[drawn][k] = spread_draw((spread)drawn, k);
    return table[s][(stream * 577 + i) % N];
}

static inline float *random_floats(size_t n, spread s, uint64_t stream)
{
    float *p = floats(n);
    for (size_t i = 0; i < n; i++) p[i] = spread_number(s, stream, i);
    return p;
}

// Barely optimised vector code, as under the sanitizers, leaves the upper halves of registers in
// use; plain C after it, above all fmaf, would run up to 30 times slower.
#ifdef __x86_64__
__attribute__((target("avx"))) static inline void upper_halves_clear(void)
{
    if (fast_path(0)) __builtin_ia32_vzeroupper();
}
#else
static inline void upper_halves_clear(void)
{
}
#endif

// Fails, naming the path, unless all bits of n numbers are equal.
static inline void assert_same(const char *path, const float *got, const float *want, size_t n)
{
    upper_halves_clear();
    if (!memcmp(got, want, n * sizeof *got)) return;
    for (size_t i = 0; i < n; i++) {
        if (!memcmp(&got[i], &want[i], sizeof *got)) continue;
        print_error("%s: number %zu of %zu is %a, not %a\n", path, i, n, (double)got[i],
                    (double)want[i]);
        fail();
    }
}

#endif
