// softmax.h - loops over a whole row of logits: the largest, the least, and exp.
//
// x = (n / 64) ln 2 + r with |r| <= ln 2 / 128, so that exp(x) is 2^(n / 64) from a table and the
// exponent bits, times the first terms of the series of exp(r). The relative error is below 4e-16.
#ifndef FXI_ENGINE_SOFTMAX_H
#define FXI_ENGINE_SOFTMAX_H

#include <math.h>
#include <stdint.h>
#include <string.h>

// A function that loops over a row is compiled for wider vectors as well, chosen when the program
// starts. Every sum and product is the same, and so are the bits. (The choice is made before the
// thread sanitizer is ready.)
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(FXI_TSAN)
#    define FXI_ROW_LOOP __attribute__((target_clones("avx2", "default")))
#else
#    define FXI_ROW_LOOP
#endif

// The largest of n logits, -inf if all are NaN. Four independent chains.
static inline float fxi_logits_max(const float *logits, int n)
{
    float max[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    int i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) max[k] = logits[i + k] > max[k] ? logits[i + k] : max[k];
    for (; i < n; i++) max[0] = logits[i] > max[0] ? logits[i] : max[0];
    for (int k = 1; k < 4; k++) max[0] = max[k] > max[0] ? max[k] : max[0];
    return max[0];
}

// The least of n logits, inf if all are NaN.
static inline float fxi_logits_min(const float *logits, int n)
{
    float min[4] = {INFINITY, INFINITY, INFINITY, INFINITY};
    int i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) min[k] = logits[i + k] < min[k] ? logits[i + k] : min[k];
    for (; i < n; i++) min[0] = logits[i] < min[0] ? logits[i] : min[0];
    for (int k = 1; k < 4; k++) min[0] = min[k] < min[0] ? min[k] : min[0];
    return min[0];
}

// Below it exp gives 0; above it no result is subnormal.
#define FXI_EXP_LOWEST (-708.0)

// 2^(i / 64)
static const double fxi_exp_root[64] = {
    0x1.0000000000000p+0, 0x1.02c9a3e778061p+0, 0x1.059b0d3158574p+0, 0x1.0874518759bc8p+0,
    0x1.0b5586cf9890fp+0, 0x1.0e3ec32d3d1a2p+0, 0x1.11301d0125b51p+0, 0x1.1429aaea92de0p+0,
    0x1.172b83c7d517bp+0, 0x1.1a35beb6fcb75p+0, 0x1.1d4873168b9aap+0, 0x1.2063b88628cd6p+0,
    0x1.2387a6e756238p+0, 0x1.26b4565e27cddp+0, 0x1.29e9df51fdee1p+0, 0x1.2d285a6e4030bp+0,
    0x1.306fe0a31b715p+0, 0x1.33c08b26416ffp+0, 0x1.371a7373aa9cbp+0, 0x1.3a7db34e59ff7p+0,
    0x1.3dea64c123422p+0, 0x1.4160a21f72e2ap+0, 0x1.44e086061892dp+0, 0x1.486a2b5c13cd0p+0,
    0x1.4bfdad5362a27p+0, 0x1.4f9b2769d2ca7p+0, 0x1.5342b569d4f82p+0, 0x1.56f4736b527dap+0,
    0x1.5ab07dd485429p+0, 0x1.5e76f15ad2148p+0, 0x1.6247eb03a5585p+0, 0x1.6623882552225p+0,
    0x1.6a09e667f3bcdp+0, 0x1.6dfb23c651a2fp+0, 0x1.71f75e8ec5f74p+0, 0x1.75feb564267c9p+0,
    0x1.7a11473eb0187p+0, 0x1.7e2f336cf4e62p+0, 0x1.82589994cce13p+0, 0x1.868d99b4492edp+0,
    0x1.8ace5422aa0dbp+0, 0x1.8f1ae99157736p+0, 0x1.93737b0cdc5e5p+0, 0x1.97d829fde4e50p+0,
    0x1.9c49182a3f090p+0, 0x1.a0c667b5de565p+0, 0x1.a5503b23e255dp+0, 0x1.a9e6b5579fdbfp+0,
    0x1.ae89f995ad3adp+0, 0x1.b33a2b84f15fbp+0, 0x1.b7f76f2fb5e47p+0, 0x1.bcc1e904bc1d2p+0,
    0x1.c199bdd85529cp+0, 0x1.c67f12e57d14bp+0, 0x1.cb720dcef9069p+0, 0x1.d072d4a07897cp+0,
    0x1.d5818dcfba487p+0, 0x1.da9e603db3285p+0, 0x1.dfc97337b9b5fp+0, 0x1.e502ee78b3ff6p+0,
    0x1.ea4afa2a490dap+0, 0x1.efa1bee615a27p+0, 0x1.f50765b6e4540p+0, 0x1.fa7c1819e90d8p+0,
};

static inline uint64_t fxi_bits_from_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double fxi_double_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// exp(x) for x <= 0, -inf included. exp(0) is 1; NaN gives NaN or 0. The same x gives the same bits
// alone and in a loop that the compiler vectorises: nothing here branches or compares, and the
// table stays in the L1 cache.
static inline double fxi_exp(double x)
{
    const double shift = 0x1.8p52; // adding it rounds to an integer in the low bits
    const double shifted = x * 0x1.71547652b82fep+6 + shift, n = shifted - shift;
    // ln 2 / 64 in two parts; n times the first is exact
    const double r = (x - n * 0x1.62e42fee00000p-7) - n * 0x1.a39ef35793c76p-39;
    double p = 1.0 / 24 + r * (1.0 / 120);
    p = 1 + r * (1 + r * (0.5 + r * (1.0 / 6 + r * p)));
    const uint64_t bits = fxi_bits_from_double(shifted);
    const double power =
        fxi_double_from_bits(fxi_bits_from_double(fxi_exp_root[bits & 63]) + (bits >> 6 << 52));
    const uint64_t too_low = fxi_bits_from_double(x - FXI_EXP_LOWEST) >> 63; // the sign
    return fxi_double_from_bits(fxi_bits_from_double(p * power) & (too_low - 1));
}

#endif
