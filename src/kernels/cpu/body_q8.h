// body_q8.h - linear layers with Q8_0 weights, once for every vector unit (cpu.h).
// Needs: a vec*.h; Q8_TOK and Q8_PANELS (the register tile), Q8_CASES; and the integer products:
//   vq                 16 sums of i32
//   vq_start(sum)      what they start from, given the sum of the activations
//   vq_w               [16][4] weight bytes, loaded by vq_load(p)
//   vq_dot(acc, w, x)  adds to each of 16 sums the products of its 4 weights with the 4 activations
//                      in x
//   vq_to_f32(acc)
//
// A tile is up to Q8_TOK tokens x Q8_PANELS panels. For every block of 32 along k its integer sums
// are complete in registers, then go once, scaled, into its float sums:
// 8 x (T x P vq_dot), then T x P fused multiply-adds.
#include <string.h>

#include "kernels/linear.h"

#define Q8_AHEAD_BYTES 2048 // how far ahead of the sums weights are asked for

#define Q8_INLINE static inline __attribute__((always_inline))

typedef struct q8_tile {
    const char *panel; // first panel; the next panel_bytes behind it
    size_t panel_bytes;
    int n_in, n_block;
    const int8_t *q;    // [T][n_in]
    const float *d;     // [T][n_block]
    const int32_t *sum; // [T][n_block]
    float *y;           // [T][ldy], outputs from the first panel's first on
    size_t ldy;
    int n_out; // outputs from there on; the last panel may be cut by it
} q8_tile;

Q8_INLINE int32_t four_bytes(const int8_t *q)
{
    int32_t x;
    memcpy(&x, q, sizeof x);
    return x;
}

// One block's integer sums. wq: the block's [8][16][4] bytes of the first panel.
Q8_INLINE void q8_block_dot(const int T, const int P, const q8_tile *c, int b,
                            vq acc[Q8_TOK][Q8_PANELS])
{
    const uint8_t *wq = (const uint8_t *)c->panel + fxi_q8_quant_at(b);
    const int8_t *q = c->q + (size_t)b * FXI_Q8_0_ELEMS;
#pragma GCC unroll 8
    for (int k = 0; k < FXI_Q8_0_ELEMS; k += 4) {
        vq_w w[Q8_PANELS];
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) {
            const uint8_t *at = wq + (size_t)p * c->panel_bytes + k * FXI_PANEL;
            __builtin_prefetch(at + Q8_AHEAD_BYTES);
            w[p] = vq_load(at);
        }
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) {
            int32_t x = four_bytes(q + (size_t)t * (size_t)c->n_in + k);
#pragma GCC unroll 4
            for (int p = 0; p < P; p++) acc[t][p] = vq_dot(acc[t][p], w[p], x);
        }
    }
}

// T, P: constants at every call, so that the loops over them unroll and the sums live in registers.
Q8_INLINE void q8_tile_run(const int T, const int P, const q8_tile *c)
{
    v16 acc[Q8_TOK][Q8_PANELS];
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) acc[t][p] = v16_zero();

    for (int b = 0; b < c->n_block; b++) {
        size_t at = (size_t)b;
        vq isum[Q8_TOK][Q8_PANELS];
#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
#pragma GCC unroll 4
            for (int p = 0; p < P; p++)
                isum[t][p] = vq_start(c->sum[(size_t)t * (size_t)c->n_block + at]);
        q8_block_dot(T, P, c, b, isum);
        v16 dw[Q8_PANELS];
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            dw[p] = v16_from_f16((const uint16_t *)(c->panel + (size_t)p * c->panel_bytes +
                                                    fxi_q8_scale_at(c->n_in, b)));
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) {
            v16 dx = v16_set1(c->d[(size_t)t * (size_t)c->n_block + at]);
#pragma GCC unroll 4
            for (int p = 0; p < P; p++)
                acc[t][p] = v16_fma(v16_mul(dw[p], dx), vq_to_f32(isum[t][p]), acc[t][p]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) {
            float *y = c->y + (size_t)t * c->ldy + p * FXI_PANEL;
            int n = c->n_out - p * FXI_PANEL;
            if (n >= FXI_PANEL)
                v16_store(y, acc[t][p]);
            else
                v16_store_n(y, acc[t][p], n);
        }
}

static void q8_tile_any(int n_tok, int n_panel, const q8_tile *c)
{
#define Q8_CASE(T)                        \
    case T:                               \
        if (n_panel == 1)                 \
            q8_tile_run(T, 1, c);         \
        else                              \
            q8_tile_run(T, Q8_PANELS, c); \
        break;
    switch (n_tok) {
        Q8_CASES
    }
#undef Q8_CASE
}

// Tokens are shared out evenly among as few tiles as there can be.
static void q8_tokens(q8_tile c, const fxi_act *a, float *y, int n_tok, int n_panel)
{
    int n_tile = (n_tok + Q8_TOK - 1) / Q8_TOK;
    for (int i = 0, t = 0, n; i < n_tile; i++, t += n) {
        n = (n_tok - t) / (n_tile - i);
        size_t at = (size_t)t * (size_t)c.n_block;
        c.q = a->q + at * FXI_Q8_0_ELEMS;
        c.d = a->d + at;
        c.sum = a->sum + at;
        c.y = y + (size_t)t * c.ldy;
        q8_tile_any(n, n_panel, &c);
    }
}

static void q8_linear(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                      float *y, size_t ldy)
{
    q8_tile c = {.panel_bytes = fxi_linear_panel_bytes(w->type, w->n_in),
                 .n_in = w->n_in,
                 .n_block = w->n_in / FXI_Q8_0_ELEMS,
                 .ldy = ldy};
    for (int p = panel0, n; p < panel1; p += n) {
        n = panel1 - p >= Q8_PANELS ? Q8_PANELS : 1;
        c.panel = fxi_linear_panel(w, p);
        c.n_out = w->n_out - p * FXI_PANEL;
        q8_tokens(c, a, y + (size_t)p * FXI_PANEL, n_tok, n);
    }
}
