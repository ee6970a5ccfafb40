// body_quant_tile.h - tiles of tokens x panels for layers with weights of block types; see
// body_quant.h.
//
// The codes of Q_PANELS panels and one block of k are unpacked to bytes first, and their scales to
// f32; both stay in the first-level cache while all tokens are multiplied with them. The integer
// sums of each run of numbers that share a scale are completed in registers and then added, scaled,
// to the float sums once.
#include "kernels/cpu/body/body_codes.h"

enum { Q_DW, Q_OFFSET, Q_MIN, Q_N_SCALE }; // dw, scale_offset(dw), min

typedef struct q_scales {
    float v[Q_MAX_SUB][Q_N_SCALE][FXI_PANEL];
} q_scales;

// The operands of one tile: one block of k.
typedef struct q_tile {
    const uint8_t *code;   // [n_block][8][16][4]
    size_t code_stride;    // from panel to panel
    const q_scales *scale; // [P]
    int n_block;
    const q_token *tok; // [T]
    bool first;         // sums start from zero, otherwise from y
    float *y;           // [T][ldy], from the first panel's first output on
    size_t ldy;
    int n_out;              // outputs from there on; the last panel may have fewer than 16
    const char *prefetch;   // codes to prefetch meanwhile
    size_t prefetch_stride; // from panel to panel
    int prefetch_lines;     // lines of each panel for each block of 32
} q_tile;

// Parameters that are const below are constants at every call, so that loops unroll and sums stay
// in registers: T tokens; P panels; N vectors of codes in a run of numbers that share a scale (8 or
// 4); has_min, whether runs have minima; wide, whether values have 8 bits.

// The integer sums of one run, from vector g0 of block b on.
ALWAYS_INLINE void q_run_dot(const int T, const int P, const int N, const bool wide,
                             const q_tile *c, int b, int g0, vq acc[Q_TOK][Q_PANELS])
{
    const uint8_t *code = c->code + (size_t)b * 8 * 64;
    const int8_t *q = c->tok->q + (size_t)b * FXI_Q_BLOCK;
#pragma GCC unroll 8
    for (int i = 0; i < N; i++) {
        const int g = g0 + i;
        vq_w w[Q_PANELS];
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            w[p] = vq_codes(vb_load(code + (size_t)p * c->code_stride + g * 64), wide);
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) {
            int32_t x = four_bytes(q + (size_t)t * sizeof *c->tok + 4 * g);
#pragma GCC unroll 4
            for (int p = 0; p < P; p++) acc[t][p] = vq_dot(acc[t][p], w[p], x, wide);
        }
    }
}

// Run s of the block of k, from vector g0 of block b on.
ALWAYS_INLINE void q_run(const int T, const int P, const int N, const bool has_min, const bool wide,
                         const q_tile *c, int b, int s, int g0, v16 acc[Q_TOK][Q_PANELS])
{
    vq isum[Q_TOK][Q_PANELS];
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) isum[t][p] = vq_set1(&c->tok[t].start[s]);
    q_run_dot(T, P, N, wide, c, b, g0, isum);
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) {
        v16 dx = v16_set1(c->tok[t].d[b]);
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) {
            const float(*sc)[FXI_PANEL] = c->scale[p].v[s];
            v16 v = times_scale(isum[t][p], v16_load(sc[Q_DW]), v16_load(sc[Q_OFFSET]));
            acc[t][p] = v16_fma(v, dx, acc[t][p]);
            if (has_min)
                acc[t][p] = v16_fma(v16_load(sc[Q_MIN]), v16_set1(c->tok[t].dsum[s]), acc[t][p]);
        }
    }
}

ALWAYS_INLINE void q_tile_prefetch(const int P, const q_tile *c, int b)
{
    const char *at = c->prefetch + (size_t)b * (size_t)c->prefetch_lines * 64;
    for (int i = 0; i < c->prefetch_lines; i++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            __builtin_prefetch(at + (size_t)p * c->prefetch_stride + i * 64, 0, 2);
}

ALWAYS_INLINE void q_tile_run(const int T, const int P, const int N, const bool has_min,
                              const bool wide, const q_tile *c)
{
    v16 acc[Q_TOK][Q_PANELS];
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) {
            const float *y = c->y + (size_t)t * c->ldy + p * FXI_PANEL;
            acc[t][p] = c->first ? v16_zero() : panel_load(y, c->n_out - p * FXI_PANEL);
            __builtin_prefetch(y + (size_t)T * c->ldy, 1); // of the next tile: rows are far apart
        }
    for (int b = 0; b < c->n_block; b++) {
        q_tile_prefetch(P, c, b);
#pragma GCC unroll 2
        for (int g = 0; g < 8; g += N) q_run(T, P, N, has_min, wide, c, b, (8 * b + g) / N, g, acc);
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            panel_store(c->y + (size_t)t * c->ldy + p * FXI_PANEL, acc[t][p],
                        c->n_out - p * FXI_PANEL);
}

// A tile of n_tok tokens (1 to Q_TOK) x n_panel panels (Q_PANELS or 1).
typedef void q_tile_fn(int n_tok, int n_panel, const q_tile *c);

#define Q_CASE(T)                                         \
    case T:                                               \
        if (n_panel == 1)                                 \
            q_tile_run(T, 1, N, has_min, wide, c);        \
        else                                              \
            q_tile_run(T, Q_PANELS, N, has_min, wide, c); \
        break;

ALWAYS_INLINE void q_tile_any(const int N, const bool has_min, const bool wide, int n_tok,
                              int n_panel, const q_tile *c)
{
    switch (n_tok) {
        Q_CASES(Q_CASE)
    }
}

#define Q_TILE_FN(name, N, has_min, wide)                     \
    static void name(int n_tok, int n_panel, const q_tile *c) \
    {                                                         \
        q_tile_any(N, has_min, wide, n_tok, n_panel, c);      \
    }

Q_TILE_FN(q_tile_wide, 8, false, true)
Q_TILE_FN(q_tile_32, 8, false, false)
Q_TILE_FN(q_tile_32_min, 8, true, false)
Q_TILE_FN(q_tile_16, 4, false, false)
Q_TILE_FN(q_tile_16_min, 4, true, false)

// ---- unpacking one panel and one block of k -----------------------------------------------------

// code: the panel's codes of the block; out: [n_block][8][16][4]
ALWAYS_INLINE void unpack_codes(const int LO, const int HI, const uint8_t *const VALUE,
                                const uint8_t *code, int n_block, uint8_t *out)
{
    for (int b = 0; b < n_block; b++, code += 64 * (LO + HI))
#pragma GCC unroll 8
        for (int g = 0; g < 8; g++, out += 64) vb_store(out, code_vector(LO, HI, VALUE, code, g));
}

// at: the first of n_group groups of `bytes` bytes
ALWAYS_INLINE void unpack_scales(const int LO, const int HI, const int N, const bool BIG,
                                 const bool HAS_MIN, const uint8_t *const VALUE, const uint8_t *at,
                                 size_t bytes, int n_group, q_scales *out)
{
    const int n_run = BIG ? 64 / N : 1;
    for (int g = 0; g < n_group; g++, at += bytes) {
        q_head head = head_load(BIG, HAS_MIN, VALUE, at);
        for (int r = 0; r < n_run; r++) {
            q_scale s = run_scale(LO, HI, BIG, HAS_MIN, head, at, r);
            float(*v)[FXI_PANEL] = out->v[g * n_run + r];
            v16_store(v[Q_DW], s.dw);
            v16_store(v[Q_OFFSET], scale_offset(s.dw));
            v16_store(v[Q_MIN], s.min);
        }
    }
}
