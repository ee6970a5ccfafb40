// body_linear.h - linear layers with float weights. Written once for every vector unit (cpu.h).
// Needs: body_tile.h; the register tile, SMALL_TOK tokens x SMALL_PANELS panels, with
// SMALL_CASES(X); WIDE_TOK, from how many tokens on 16-bit weights are widened first.
//
// For each group of panels, the first tokens' tile reads the weights from memory, prefetching them,
// and computes at once: for a few tokens memory is the limit. More tokens follow tile by tile, with
// k cut into blocks whose weights stay in the second-level cache meanwhile; between blocks sums are
// kept in y, which is exact. For many tokens, 16-bit weights of a block are widened to f32 once,
// and the first tile prefetches the block that comes next.
#include <string.h>

#include "kernels/cpu/body/body_tile.h"
#include "kernels/linear.h"

#define K_BLOCK 1024 // of more tokens than one tile has

// The operands of a tile: n_k x P neighbouring panels. With each of the first n_ahead rows, the
// same row after `ahead` is prefetched.
typedef struct small_tile {
    tile c;
    const char *ahead;
    size_t ahead_stride; // from row to row
    int n_ahead;
} small_tile;

// A float layer, and the activations of all tokens.
typedef struct float_layer {
    const fxi_linear *w;
    const float *x;
    int n_tok, panel1;
    float *y;
    size_t ldy;
} float_layer;

// ---- tiles -------------------------------------------------------------------------------------

// Prefetches the first n_byte of row k.
ALWAYS_INLINE void small_prefetch(const small_tile *s, int k, const int N_BYTE)
{
    const char *line = s->ahead + (size_t)k * s->ahead_stride;
#pragma GCC unroll 4
    for (int i = 0; i < N_BYTE; i += 64) __builtin_prefetch(line + i);
}

ALWAYS_INLINE void small_step(load_fn *load, const int T, const int P, const tile *c, int k,
                              v16 acc[TILE_TOK][TILE_MAX_PANEL])
{
#pragma GCC unroll 4
    for (int p = 0; p < P; p++) {
        v16 w = load(c->panel, (size_t)k * c->ldk + (size_t)p * FXI_PANEL);
#pragma GCC unroll 16
        for (int t = 0; t < T; t++) {
            v16 x = v16_set1(c->x[(size_t)t * c->ldx + (size_t)k]);
            acc[t][p] = v16_fma(w, x, acc[t][p]);
        }
    }
}

// T, P and AHEAD, the bytes of a number that is prefetched or 0, are constants at every call.
ALWAYS_INLINE void small_run(load_fn *load, const int T, const int P, const int AHEAD,
                             const small_tile *s)
{
    const tile *c = &s->c;
    const int n_ahead = AHEAD ? s->n_ahead : 0;
    int k = 0;
    v16 acc[TILE_TOK][TILE_MAX_PANEL];
    tile_begin(T, P, c, acc);
    for (; k < n_ahead; k++) {
        small_prefetch(s, k, AHEAD * P * FXI_PANEL);
        small_step(load, T, P, c, k, acc);
    }
    for (; k < c->n_k; k++) small_step(load, T, P, c, k, acc);
    tile_end(T, P, c, acc);
}

// n_tok: at most SMALL_TOK; n_panel: SMALL_PANELS or 1.
ALWAYS_INLINE void tile_small(load_fn *load, const int AHEAD, int n_tok, int n_panel,
                              const small_tile *s)
{
#define SMALL_CASE(T)                                   \
    case T:                                             \
        if (n_panel == 1)                               \
            small_run(load, T, 1, AHEAD, s);            \
        else                                            \
            small_run(load, T, SMALL_PANELS, AHEAD, s); \
        break;
    switch (n_tok) {
        SMALL_CASES(SMALL_CASE)
    }
#undef SMALL_CASE
}

// All tokens, in the fewest possible tiles. The first one prefetches, and is full, because its
// products cost nothing beside memory; the others divide the rest evenly.
ALWAYS_INLINE void small_tokens(load_fn *load, const int AHEAD, small_tile s, int n_tok,
                                int n_panel)
{
    int n_tile = (n_tok + SMALL_TOK - 1) / SMALL_TOK;
    int n = min_int(n_tok, SMALL_TOK);
    tile_small(load, AHEAD, n, n_panel, &s);
    while (--n_tile > 0) {
        s.c.x += (size_t)n * s.c.ldx;
        s.c.y += (size_t)n * s.c.ldy;
        n_tok -= n;
        n = n_tok / n_tile;
        tile_small(load, 0, n, n_panel, &s);
    }
}

// ---- groups of panels --------------------------------------------------------------------------

static small_tile small_group(const float_layer *l, int p)
{
    return (small_tile){.c = {.panel = fxi_linear_panel(l->w, p),
                              .ldk = fxi_linear_ldk(l->w),
                              .x = l->x,
                              .ldx = (size_t)l->w->n_in,
                              .y = l->y + (size_t)p * FXI_PANEL,
                              .ldy = l->ldy,
                              .n_out = l->w->n_out - p * FXI_PANEL}};
}

// Rows from the first one of panel p to the end of the last one's group.
static int rows_left(const float_layer *l, int p)
{
    const int n = fxi_linear_group(l->w), group = (l->w->panel0 + p) / n,
              last = (l->w->panel0 + l->panel1 - 1) / n;
    return (last - group + 1) * l->w->n_in;
}

// How far ahead weights are prefetched: one token takes less time for each line than several.
static int ahead_bytes(int n_tok)
{
    return n_tok > 1 ? 8192 : 4096;
}

// Prefetches what lies n_row rows of row_bytes after `row`, of those left from there on.
static void set_ahead(small_tile *s, const char *row, size_t row_bytes, int n_row, int left)
{
    s->ahead = row + (size_t)n_row * row_bytes;
    s->ahead_stride = row_bytes;
    s->n_ahead = max_int(min_int(left - n_row, s->c.n_k), 0);
}

// n panels from panel p on.
ALWAYS_INLINE void group_narrow(load_fn *load, const int ELEM, const float_layer *l, int p, int n)
{
    const int n_in = l->w->n_in, block = l->n_tok <= SMALL_TOK ? n_in : K_BLOCK;
    const size_t row_bytes = (size_t)ELEM * fxi_linear_ldk(l->w);
    const int distance = ahead_bytes(l->n_tok) / (int)row_bytes;
    small_tile s = small_group(l, p);
    for (int k0 = 0, left = rows_left(l, p); k0 < n_in; k0 += block, left -= block) {
        s.c.n_k = min_int(n_in - k0, block);
        s.c.first = k0 == 0;
        set_ahead(&s, s.c.panel, row_bytes, distance, left);
        small_tokens(load, ELEM, s, l->n_tok, n);
        s.c.panel += (size_t)block * row_bytes;
        s.c.x += block;
    }
}

// Widens n_k rows of P panels. wide: [K_BLOCK][SMALL_PANELS][16]
ALWAYS_INLINE void widen_rows(load_fn *load, const int P, const void *panel, size_t ldk, int n_k,
                              float *wide)
{
    for (size_t k = 0; k < (size_t)n_k; k++)
#pragma GCC unroll 4
        for (size_t p = 0; p < (size_t)P; p++)
            v16_store(wide + (k * SMALL_PANELS + p) * FXI_PANEL,
                      load(panel, k * ldk + p * FXI_PANEL));
}

// The same, widened block by block. While the first tile computes a block, the next is prefetched.
ALWAYS_INLINE void group_wide(load_fn *load, const int ELEM, const float_layer *l, int p, int n)
{
    _Alignas(64) float wide[K_BLOCK * SMALL_PANELS * FXI_PANEL];
    const int n_in = l->w->n_in;
    const size_t ldk = fxi_linear_ldk(l->w), row_bytes = (size_t)ELEM * ldk;
    small_tile s = small_group(l, p);
    const char *raw = s.c.panel;
    s.c.panel = (const char *)wide;
    s.c.ldk = SMALL_PANELS * FXI_PANEL;
    for (int k0 = 0, left = rows_left(l, p); k0 < n_in; k0 += K_BLOCK, left -= K_BLOCK) {
        s.c.n_k = min_int(n_in - k0, K_BLOCK);
        s.c.first = k0 == 0;
        if (n == 1)
            widen_rows(load, 1, raw, ldk, s.c.n_k, wide);
        else
            widen_rows(load, SMALL_PANELS, raw, ldk, s.c.n_k, wide);
        set_ahead(&s, raw, row_bytes, s.c.n_k, left);
        small_tokens(tile_load_f32, ELEM, s, l->n_tok, n);
        s.c.x += K_BLOCK;
        raw += (size_t)K_BLOCK * row_bytes;
    }
}

ALWAYS_INLINE void linear_float(load_fn *load, const int ELEM, const fxi_linear *w, const float *x,
                                int n_tok, int panel0, int panel1, float *y, size_t ldy)
{
    const float_layer l = {.w = w, .x = x, .n_tok = n_tok, .panel1 = panel1, .y = y, .ldy = ldy};
    for (int p = panel0, n; p < panel1; p += n) {
        const int group = fxi_linear_group(w), group_left = group - (w->panel0 + p) % group;
        n = min_int(panel1 - p, group_left) >= SMALL_PANELS ? SMALL_PANELS : 1;
        if (ELEM < 4 && n_tok >= WIDE_TOK)
            group_wide(load, ELEM, &l, p, n);
        else
            group_narrow(load, ELEM, &l, p, n);
    }
}

static void linear_f32(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                       float *y, size_t ldy)
{
    linear_float(tile_load_f32, 4, w, a->x, n_tok, panel0, panel1, y, ldy);
}

static void linear_f16(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                       float *y, size_t ldy)
{
    linear_float(tile_load_f16, 2, w, a->x, n_tok, panel0, panel1, y, ldy);
}

static void linear_bf16(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                        float *y, size_t ldy)
{
    linear_float(tile_load_bf16, 2, w, a->x, n_tok, panel0, panel1, y, ldy);
}
