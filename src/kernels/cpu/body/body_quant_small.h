// body_quant_small.h - small batches of tokens x panels of block types; see body_quant.h. Weights
// go straight from memory into the sums; memory is the limit.
#include "kernels/cpu/body/body_codes.h"

#define Q_SMALL_TOK 8 // the most tokens that go over the weights together

// Prefetch distance of codes. Eight tokens of codes of 8 bits are faster with more, others slower.
#define Q_PREFETCH_BYTES(T, LINES) ((T) > 4 && (LINES) == 8 ? 4608 : 3072)

// The operands: all of k for P neighbouring panels.
typedef struct q_small {
    const uint8_t *code, *scale; // of the first panel; each next one panel_bytes on
    size_t panel_bytes, scale_bytes;
    // Blocks from n_block on are those of the panels that are read after these: as far beyond the
    // end of these, plus a jump. last_far: the last block that may be prefetched.
    ptrdiff_t code_jump, scale_jump;
    int last_far;
    const q_token *tok; // [n_in / Q_K_BLOCK][n_slot], the first of T tokens
    int n_slot, n_block;
    int n_store; // tokens whose results are wanted
    float *y;    // [n_store][ldy]
    size_t ldy;
    int n_out; // outputs from the first panel on; the last panel may be cut by it
} q_small;

// What lies a prefetch distance ahead of block b, in these panels or in those that come next. The
// hardware does not find scales in time: it has to learn of them again in each panel, and those of
// 256 numbers lie far apart.
ALWAYS_INLINE void q_small_prefetch(const int T, const int P, const int LINES, const bool BIG,
                                    const q_small *c, int b)
{
    const int far = min_int(b + Q_PREFETCH_BYTES(T, LINES) / (64 * LINES), c->last_far);
    const bool here = far < c->n_block;
    const uint8_t *code = c->code + (size_t)far * 64 * LINES + (here ? 0 : c->code_jump);
    const uint8_t *scale =
        c->scale + (size_t)far * c->scale_bytes / (BIG ? 8 : 1) + (here ? 0 : c->scale_jump);
#pragma GCC unroll 4
    for (int p = 0; p < P; p++) {
#pragma GCC unroll 8
        for (int i = 0; i < LINES; i++)
            __builtin_prefetch(code + (size_t)p * c->panel_bytes + i * 64);
        __builtin_prefetch(scale + (size_t)p * c->panel_bytes);
    }
}

// The run of N vectors from vector g0 of block b on, which share `scale`.
ALWAYS_INLINE void q_small_run(const int T, const int P, const int LO, const int HI, const int N,
                               const bool HAS_MIN, const uint8_t *const VALUE, const q_small *c,
                               int b, const int g0, const q_scale *scale,
                               v16 acc[Q_SMALL_TOK][Q_SMALL_MAX_PANELS])
{
    const q_token *tok = c->tok + b / Q_MAX_BLOCK * c->n_slot;
    const int in = b % Q_MAX_BLOCK, s = (8 * in + g0) / N;
    const uint8_t *code = c->code + (size_t)b * 64 * (LO + HI);
    const int W = T > 4 ? P : 1; // panels whose codes are in registers together
    vq sum[Q_SMALL_TOK][Q_SMALL_MAX_PANELS];
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) sum[t][p] = vq_set1(&tok[t].start[s]);
#pragma GCC unroll 8
    for (int i = 0; i < N; i++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p += W) {
            vq_w w[Q_SMALL_MAX_PANELS];
#pragma GCC unroll 4
            for (int j = 0; j < W; j++)
                w[j] = vq_codes(
                    code_vector(LO, HI, VALUE, code + (size_t)(p + j) * c->panel_bytes, g0 + i),
                    Q_WIDE(LO, VALUE));
#pragma GCC unroll 8
            for (int t = 0; t < T; t++) {
                int32_t x = four_bytes(tok[t].q + in * FXI_Q_BLOCK + 4 * (g0 + i));
#pragma GCC unroll 4
                for (int j = 0; j < W; j++)
                    sum[t][p + j] = vq_dot(sum[t][p + j], w[j], x, Q_WIDE(LO, VALUE));
            }
        }
#pragma GCC unroll 4
    for (int p = 0; p < P; p++) {
        v16 offset = scale_offset(scale[p].dw);
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) {
            v16 v = times_scale(sum[t][p], scale[p].dw, offset);
            acc[t][p] = v16_fma(v, v16_set1(tok[t].d[in]), acc[t][p]);
            if (HAS_MIN) acc[t][p] = v16_fma(scale[p].min, v16_set1(tok[t].dsum[s]), acc[t][p]);
        }
    }
}

// Block b, which is block `in` of the group of scales at `at`.
ALWAYS_INLINE void q_small_block(const int T, const int P, const int LO, const int HI, const int N,
                                 const bool BIG, const bool HAS_MIN, const uint8_t *const VALUE,
                                 const q_small *c, int b, const q_head *head, const uint8_t *at,
                                 int in, v16 acc[Q_SMALL_TOK][Q_SMALL_MAX_PANELS])
{
    q_small_prefetch(T, P, LO + HI, BIG, c, b);
#pragma GCC unroll 2
    for (int g0 = 0; g0 < 8; g0 += N) {
        q_scale scale[Q_SMALL_MAX_PANELS];
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            scale[p] = run_scale(LO, HI, BIG, HAS_MIN, head[p], at + (size_t)p * c->panel_bytes,
                                 (8 * in + g0) / N);
        q_small_run(T, P, LO, HI, N, HAS_MIN, VALUE, c, b, g0, scale, acc);
    }
}

// All of k for T tokens and P panels.
ALWAYS_INLINE void q_small_panels(const int T, const int P, const int LO, const int HI, const int N,
                                  const bool BIG, const bool HAS_MIN, const uint8_t *const VALUE,
                                  const q_small *c)
{
    v16 acc[Q_SMALL_TOK][Q_SMALL_MAX_PANELS];
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) acc[t][p] = v16_zero();
    const uint8_t *at = c->scale;
    for (int b = 0; b < c->n_block; at += c->scale_bytes) {
        q_head head[Q_SMALL_MAX_PANELS];
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            head[p] = head_load(BIG, HAS_MIN, VALUE, at + (size_t)p * c->panel_bytes);
        for (int in = 0; in < (BIG ? 8 : 1); in++, b++)
            q_small_block(T, P, LO, HI, N, BIG, HAS_MIN, VALUE, c, b, head, at, in, acc);
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) {
        if (t == c->n_store) break;
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            panel_store(c->y + (size_t)t * c->ldy + p * FXI_PANEL, acc[t][p],
                        c->n_out - p * FXI_PANEL);
    }
}

// The most tokens that go over the weights together. The float sums of eight tokens lie in memory,
// which costs less than a second pass, except where a run has 16 numbers and a minimum.
#define Q_SMALL_MOST(N, HAS_MIN) ((N) == 4 && (HAS_MIN) ? 4 : Q_SMALL_MAX_TOK)

// How many panels T tokens are multiplied with at a time.
#define Q_SMALL_PANELS(T)                                           \
    ((T) > 4                                   ? 2                  \
     : (T) >= Q_SMALL_SUMS                     ? 1                  \
     : Q_SMALL_SUMS / (T) < Q_SMALL_MAX_PANELS ? Q_SMALL_SUMS / (T) \
                                               : Q_SMALL_MAX_PANELS)
