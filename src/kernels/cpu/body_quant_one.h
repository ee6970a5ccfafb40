// body_quant_one.h - one token against panels of block types; see body_quant.h. Weights are read once, from memory,
// straight to the sums; memory is the limit.
#include "kernels/cpu/body_codes.h"

#define Q_AHEAD_BYTES 3072 // how far ahead of the sums codes are asked for

// What is worked on: all of k for P neighbouring panels.
typedef struct q_one {
    const uint8_t *code, *scale; // of the first panel; the next panel_bytes behind it
    const uint8_t *next;         // codes that are read after these, or NULL
    size_t panel_bytes, scale_bytes;
    const q_token *tok; // [n_in / Q_K_BLOCK]
    int n_block;
    float *y;
    int n_out; // outputs from the first panel on; the last panel may be cut by it
} q_one;

ALWAYS_INLINE void one_ahead(const int P, const int LINES, const q_one *c, int b)
{
    const int far = b + Q_AHEAD_BYTES / (64 * LINES);
    const uint8_t *at = far < c->n_block ? c->code + (size_t)far * 64 * (size_t)LINES
                        : c->next        ? c->next + (size_t)(far - c->n_block) * 64 * (size_t)LINES
                                         : c->code;
#pragma GCC unroll 4
    for (int p = 0; p < P; p++)
#pragma GCC unroll 8
        for (int i = 0; i < LINES; i++)
            __builtin_prefetch(at + (size_t)p * c->panel_bytes + i * 64);
}

// The run of N vectors from g0 of block b on, number s of the token's block of k. scale: its scales
ALWAYS_INLINE void one_run(const int P, const int LO, const int HI, const int N, const bool HAS_MIN,
                           const q_one *c, int b, const int g0, const q_scale *scale, v16 *acc)
{
    const q_token *tok = c->tok + b / Q_MAX_BLOCK;
    const int in = b % Q_MAX_BLOCK, s = (8 * in + g0) / N;
    const uint8_t *code = c->code + (size_t)b * 64 * (LO + HI);
    vq sum[Q_ONE_PANELS];
#pragma GCC unroll 4
    for (int p = 0; p < P; p++) sum[p] = vq_set1(&tok->start[s]);
#pragma GCC unroll 8
    for (int i = 0; i < N; i++) {
        const int32_t x = four_bytes(tok->q + in * FXI_Q_BLOCK + 4 * (g0 + i));
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            sum[p] = vq_dot(
                sum[p],
                vq_codes(code_vector(LO, HI, code + (size_t)p * c->panel_bytes, g0 + i), LO == 8),
                x, LO == 8);
    }
    v16 dx = v16_set1(tok->d[in]);
#pragma GCC unroll 4
    for (int p = 0; p < P; p++) {
        acc[p] = v16_fma(times_scale(sum[p], scale[p].dw, scale_offset(scale[p].dw)), dx, acc[p]);
        if (HAS_MIN) acc[p] = v16_fma(scale[p].min, v16_set1(tok->dsum[s]), acc[p]);
    }
}

// Block b, number `in` of the group of scales at `at`.
ALWAYS_INLINE void one_block(const int P, const int LO, const int HI, const int N, const bool BIG,
                             const bool HAS_MIN, const q_one *c, int b, const q_head *head,
                             const uint8_t *at, int in, v16 *acc)
{
    one_ahead(P, LO + HI, c, b);
#pragma GCC unroll 2
    for (int g0 = 0; g0 < 8; g0 += N) {
        q_scale scale[Q_ONE_PANELS];
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            scale[p] = run_scale(LO, HI, BIG, HAS_MIN, head[p], at + (size_t)p * c->panel_bytes,
                                 (8 * in + g0) / N);
        one_run(P, LO, HI, N, HAS_MIN, c, b, g0, scale, acc);
    }
}

ALWAYS_INLINE void one_panels(const int P, const int LO, const int HI, const int N, const bool BIG,
                              const bool HAS_MIN, const q_one *c)
{
    v16 acc[Q_ONE_PANELS];
#pragma GCC unroll 4
    for (int p = 0; p < P; p++) acc[p] = v16_zero();
    const uint8_t *at = c->scale;
    for (int b = 0; b < c->n_block; at += c->scale_bytes) {
        q_head head[Q_ONE_PANELS];
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            head[p] = head_load(BIG, HAS_MIN, at + (size_t)p * c->panel_bytes);
        for (int in = 0; in < (BIG ? 8 : 1); in++, b++)
            one_block(P, LO, HI, N, BIG, HAS_MIN, c, b, head, at, in, acc);
    }
#pragma GCC unroll 4
    for (int p = 0; p < P; p++) panel_store(c->y + p * FXI_PANEL, acc[p], c->n_out - p * FXI_PANEL);
}
