// body_linear.h - linear layers with float weights, once for every vector unit (cpu.h).
// Needs: a vec*.h; the register tile, TILE_TOK x TILE_PANELS, with MANY_CASES for FEW_TOK + 1 to
// TILE_TOK tokens; the tile of few tokens, FEW_TOK x FEW_PANELS, with FEW_CASES.
//
// A tile is T tokens x P panels: its sums stay in registers while k runs.
//
//     for each k:  P vectors of weights,  T numbers of x, each spread over a vector:
//                  T x P fused multiply-adds
//
// Few tokens: weights are read once, from memory, straight to the sums; memory is the limit.
//
// More tokens: k is cut into blocks of K_BLOCK. The weights of TILE_PANELS panels and one block are
// widened to f32 once (f32 weights: stay where they are), and stay in the first-level cache while
// all tokens' tiles pass. Between blocks a sum rests in y, which loses nothing. While all of x fits
// the second-level cache, panels are outermost, so that weights are read from memory in order.
// Where it does not fit, blocks are: one block of x serves all panels of the call from there.
#include <stdbool.h>

#include "kernels/linear.h"

#define K_BLOCK       256
#define X_STAYS_BYTES ((size_t)1 << 20)
#define AHEAD_BYTES   4096 // how far ahead of the sums weights are asked for
#define MAX_PANELS    4

// Tokens are shared out evenly among tiles, so the smallest tile of many tokens has this many.
_Static_assert((TILE_TOK + 1) / 2 > FEW_TOK, "MANY_CASES must cover all tiles");

#define ALWAYS_INLINE static inline __attribute__((always_inline))

// Sixteen weights from element i of a panel on.
typedef v16 load_fn(const void *panel, size_t i);

ALWAYS_INLINE v16 load_f32(const void *panel, size_t i)
{
    const float *p = (const float *)panel + i;
    __builtin_prefetch((const char *)p + AHEAD_BYTES);
    return v16_load(p);
}

ALWAYS_INLINE v16 load_f16(const void *panel, size_t i)
{
    const uint16_t *p = (const uint16_t *)panel + i;
    __builtin_prefetch((const char *)p + AHEAD_BYTES);
    return v16_from_f16(p);
}

ALWAYS_INLINE v16 load_bf16(const void *panel, size_t i)
{
    const uint16_t *p = (const uint16_t *)panel + i;
    __builtin_prefetch((const char *)p + AHEAD_BYTES);
    return v16_from_bf16(p);
}

// What one tile works on. Rows of x and of weights begin at the block's first k.
typedef struct tile {
    const char *panel; // [n_k][16] weights; the next panel panel_bytes behind it
    size_t panel_bytes;
    const float *x; // [T][ldx]
    size_t ldx;
    int n_k;
    bool first; // sums start from zero, otherwise from y
    float *y;   // [T][ldy], outputs from the first panel's first on
    size_t ldy;
    int n_out; // outputs from there on; the last panel may be cut by it
} tile;

ALWAYS_INLINE v16 y_load(const tile *c, int t, int p)
{
    const float *y = c->y + (size_t)t * c->ldy + p * FXI_PANEL;
    int n = c->n_out - p * FXI_PANEL;
    if (c->first) return v16_zero();
    return n >= FXI_PANEL ? v16_load(y) : v16_load_n(y, n);
}

ALWAYS_INLINE void y_store(float *y, v16 v, int n)
{
    if (n >= FXI_PANEL)
        v16_store(y, v);
    else
        v16_store_n(y, v, n);
}

// T, P: constants at every call, so that the loops over them unroll and acc lives in registers.
ALWAYS_INLINE void tile_run(load_fn *load, const int T, const int P, const tile *c)
{
    v16 acc[TILE_TOK][MAX_PANELS];
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) acc[t][p] = y_load(c, t, p);

    for (int k = 0; k < c->n_k; k++) {
        v16 w[MAX_PANELS];
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            w[p] = load(c->panel + (size_t)p * c->panel_bytes, (size_t)k * FXI_PANEL);
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) {
            v16 x = v16_set1(c->x[(size_t)t * c->ldx + (size_t)k]);
#pragma GCC unroll 4
            for (int p = 0; p < P; p++) acc[t][p] = v16_fma(w[p], x, acc[t][p]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            y_store(c->y + (size_t)t * c->ldy + p * FXI_PANEL, acc[t][p], c->n_out - p * FXI_PANEL);
}

// n_panel: P or 1.
#define TILE_CASE(load, T, P)        \
    case T:                          \
        if (n_panel == 1)            \
            tile_run(load, T, 1, c); \
        else                         \
            tile_run(load, T, P, c); \
        break;

ALWAYS_INLINE void tile_few(load_fn *load, int n_tok, int n_panel, const tile *c)
{
#define FEW_CASE(T) TILE_CASE(load, T, FEW_PANELS)
    switch (n_tok) {
        FEW_CASES
    }
}

static void tile_many(int n_tok, int n_panel, const tile *c)
{
#define MANY_CASE(T) TILE_CASE(load_f32, T, TILE_PANELS)
    switch (n_tok) {
        MANY_CASES
    }
}

ALWAYS_INLINE void linear_few(load_fn *load, const fxi_linear *w, const float *x, int n_tok,
                              int panel0, int panel1, float *y, size_t ldy)
{
    tile c = {.panel_bytes = fxi_linear_panel_bytes(w->type, w->n_in),
              .x = x,
              .ldx = (size_t)w->n_in,
              .n_k = w->n_in,
              .first = true,
              .ldy = ldy};
    for (int p = panel0, n; p < panel1; p += n) {
        n = panel1 - p >= FEW_PANELS ? FEW_PANELS : 1;
        c.panel = fxi_linear_panel(w, p);
        c.y = y + (size_t)p * FXI_PANEL;
        c.n_out = w->n_out - p * FXI_PANEL;
        tile_few(load, n_tok, n, &c);
    }
}

// Tokens are shared out evenly among as few tiles as there can be.
static void block_tokens(tile c, int n_tok, int n_panel)
{
    const float *x = c.x;
    float *y = c.y;
    int n_tile = (n_tok + TILE_TOK - 1) / TILE_TOK;
    for (int i = 0, t = 0, n; i < n_tile; i++, t += n) {
        n = (n_tok - t) / (n_tile - i);
        c.x = x + (size_t)t * c.ldx;
        c.y = y + (size_t)t * c.ldy;
        tile_many(n, n_panel, &c);
    }
}

// n_k x 16 weights of each of n panels, widened: wide is [n][K_BLOCK][16].
ALWAYS_INLINE void widen(load_fn *load, const tile *c, int n_panel, float *wide)
{
    for (int p = 0; p < n_panel; p++)
        for (int k = 0; k < c->n_k; k++)
            v16_store(wide + (p * K_BLOCK + k) * FXI_PANEL,
                      load(c->panel + (size_t)p * c->panel_bytes, (size_t)k * FXI_PANEL));
}

// The block of k from k0 on: for all panels and tokens.
ALWAYS_INLINE void linear_block(load_fn *load, const fxi_linear *w, const float *x, int n_tok,
                                int k0, int panel0, int panel1, float *y, size_t ldy)
{
    _Alignas(64) float wide[TILE_PANELS * K_BLOCK * FXI_PANEL];
    size_t elem = fxi_dtype_find(w->type)->block_bytes;
    tile c = {.x = x + k0, .ldx = (size_t)w->n_in, .first = k0 == 0, .ldy = ldy};
    c.n_k = w->n_in - k0 < K_BLOCK ? w->n_in - k0 : K_BLOCK;
    for (int p = panel0, n; p < panel1; p += n) {
        n = panel1 - p >= TILE_PANELS ? TILE_PANELS : 1;
        c.panel_bytes = fxi_linear_panel_bytes(w->type, w->n_in);
        c.panel = (char *)fxi_linear_panel(w, p) + (size_t)k0 * FXI_PANEL * elem;
        c.y = y + (size_t)p * FXI_PANEL;
        c.n_out = w->n_out - p * FXI_PANEL;
        if (load != load_f32) {
            widen(load, &c, n, wide);
            c.panel = (char *)wide;
            c.panel_bytes = K_BLOCK * FXI_PANEL * sizeof(float);
        }
        block_tokens(c, n_tok, n);
    }
}

ALWAYS_INLINE void linear_float(load_fn *load, const fxi_linear *w, const float *x, int n_tok,
                                int panel0, int panel1, float *y, size_t ldy)
{
    if (n_tok <= FEW_TOK) {
        linear_few(load, w, x, n_tok, panel0, panel1, y, ldy);
        return;
    }
    bool x_stays = (size_t)n_tok * (size_t)w->n_in * sizeof *x <= X_STAYS_BYTES;
    int step = x_stays ? TILE_PANELS : panel1 - panel0;
    for (int p = panel0; p < panel1; p += step) {
        int end = panel1 - p < step ? panel1 : p + step;
        for (int k0 = 0; k0 < w->n_in; k0 += K_BLOCK)
            linear_block(load, w, x, n_tok, k0, p, end, y, ldy);
    }
}

static void linear_f32(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                       float *y, size_t ldy)
{
    linear_float(load_f32, w, a->x, n_tok, panel0, panel1, y, ldy);
}

static void linear_f16(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                       float *y, size_t ldy)
{
    linear_float(load_f16, w, a->x, n_tok, panel0, panel1, y, ldy);
}

static void linear_bf16(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                        float *y, size_t ldy)
{
    linear_float(load_bf16, w, a->x, n_tok, panel0, panel1, y, ldy);
}
