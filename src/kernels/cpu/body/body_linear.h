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

// The operands of a tile: n_k x P neighbouring panels. With each of the first n_ahead rows, as many
// lines as a row has are prefetched: P of them line_bytes apart, then the P that come turn_bytes
// after those. So panels that lie each for itself are prefetched in turn.
typedef struct small_tile {
    tile c;
    const char *ahead;
    size_t line_bytes, turn_bytes;
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

// ELEM: bytes of a number in memory.
ALWAYS_INLINE void small_prefetch(const int P, const int ELEM, const small_tile *s, int k)
{
    const size_t n_line = P * ELEM * FXI_PANEL < 64 ? 1 : P * ELEM * FXI_PANEL / 64;
#pragma GCC unroll 4
    for (size_t i = 0; i < n_line; i++) {
        const size_t line = (size_t)k * n_line + i;
        __builtin_prefetch(s->ahead + line / P * s->turn_bytes + line % P * s->line_bytes);
    }
}

ALWAYS_INLINE void small_step(load_fn *load, const int T, const int P, const tile *c, int k,
                              v16 acc[TILE_TOK][TILE_MAX_PANEL])
{
#pragma GCC unroll 4
    for (int p = 0; p < P; p++) {
        v16 w = load(c->panel + (size_t)p * c->panel_bytes, (size_t)k * c->ldk);
#pragma GCC unroll 16
        for (int t = 0; t < T; t++) {
            v16 x = v16_set1(c->x[(size_t)t * c->ldx + (size_t)k]);
            acc[t][p] = v16_fma(w, x, acc[t][p]);
        }
    }
}

// T, P and AHEAD, the bytes of a number that is prefetched, or 0, are constants at every call.
ALWAYS_INLINE void small_run(load_fn *load, const int T, const int P, const int AHEAD,
                             const small_tile *s)
{
    const tile *c = &s->c;
    const int n_ahead = AHEAD ? s->n_ahead : 0;
    int k = 0;
    v16 acc[TILE_TOK][TILE_MAX_PANEL];
    tile_begin(T, P, c, acc);
    for (; k < n_ahead; k++) {
        small_prefetch(P, AHEAD, s, k);
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

static bool is_grouped(const fxi_linear *w)
{
    return fxi_linear_group(w) > 1;
}

ALWAYS_INLINE size_t float_row_bytes(const fxi_linear *w, const int ELEM)
{
    return (size_t)ELEM * fxi_linear_ldk(w);
}

ALWAYS_INLINE small_tile small_group(const int ELEM, const float_layer *l, int p, int n)
{
    const bool grouped = is_grouped(l->w);
    const size_t row_bytes = float_row_bytes(l->w, ELEM),
                 panel_bytes = fxi_linear_panel_bytes(l->w->type, l->w->n_in);
    return (small_tile){.c = {.panel = fxi_linear_panel(l->w, p),
                              .panel_bytes = grouped ? (size_t)ELEM * FXI_PANEL : panel_bytes,
                              .ldk = fxi_linear_ldk(l->w),
                              .x = l->x,
                              .ldx = (size_t)l->w->n_in,
                              .y = l->y + (size_t)p * FXI_PANEL,
                              .ldy = l->ldy,
                              .n_out = l->w->n_out - p * FXI_PANEL},
                        .line_bytes = grouped ? 64 : panel_bytes,
                        .turn_bytes = n == 1    ? row_bytes
                                      : grouped ? (size_t)n * 64
                                                : 64};
}

// How far ahead weights are prefetched. In a group one token takes less time for each line than
// several; panels of their own have 2 KiB each.
ALWAYS_INLINE int ahead_rows(const int ELEM, const float_layer *l)
{
    const int bytes = !is_grouped(l->w) ? 2048 : l->n_tok > 1 ? 8192 : 4096;
    return bytes / (int)float_row_bytes(l->w, ELEM);
}

// Prefetches rows of panels p .. p + n - 1 from row k on, as far as there are; from k = n_in on
// those of the panels that come next.
ALWAYS_INLINE void set_ahead(const int ELEM, const float_layer *l, int p, int n, int k,
                             small_tile *s)
{
    const int n_in = l->w->n_in;
    const bool here = k < n_in, is_last = p + n >= l->panel1;
    const int row = here ? k : k - n_in;
    s->ahead = (const char *)fxi_linear_panel(l->w, here || is_last ? p : p + n) +
               (size_t)row * float_row_bytes(l->w, ELEM);
    s->n_ahead = !here && is_last ? 0 : max_int(min_int(n_in - row, s->c.n_k), 0);
}

// n panels from panel p on.
ALWAYS_INLINE void group_narrow(load_fn *load, const int ELEM, const float_layer *l, int p, int n)
{
    const int n_in = l->w->n_in, block = l->n_tok <= SMALL_TOK ? n_in : K_BLOCK,
              distance = ahead_rows(ELEM, l), far = max_int(n_in - distance, 0);
    small_tile s = small_group(ELEM, l, p, n);
    for (int k0 = 0, k1; k0 < n_in; k0 = k1) {
        k1 = min_int(k0 + block, k0 < far ? far : n_in);
        s.c.n_k = k1 - k0;
        s.c.first = k0 == 0;
        set_ahead(ELEM, l, p, n, k0 + distance, &s);
        small_tokens(load, ELEM, s, l->n_tok, n);
        s.c.panel += (size_t)s.c.n_k * float_row_bytes(l->w, ELEM);
        s.c.x += s.c.n_k;
    }
}

// Widens n_k rows of P panels. wide: [K_BLOCK][SMALL_PANELS][16]
ALWAYS_INLINE void widen_rows(load_fn *load, const int P, const tile *c, float *wide)
{
    for (size_t k = 0; k < (size_t)c->n_k; k++)
#pragma GCC unroll 4
        for (size_t p = 0; p < (size_t)P; p++)
            v16_store(wide + (k * SMALL_PANELS + p) * FXI_PANEL,
                      load(c->panel + p * c->panel_bytes, k * c->ldk));
}

// The same, widened block by block. While the first tile computes a block, the next is prefetched.
ALWAYS_INLINE void group_wide(load_fn *load, const int ELEM, const float_layer *l, int p, int n)
{
    _Alignas(64) float wide[K_BLOCK * SMALL_PANELS * FXI_PANEL];
    const int n_in = l->w->n_in;
    small_tile s = small_group(ELEM, l, p, n);
    tile raw = s.c;
    s.c.panel = (const char *)wide;
    s.c.panel_bytes = FXI_PANEL * sizeof *wide;
    s.c.ldk = SMALL_PANELS * FXI_PANEL;
    for (int k0 = 0; k0 < n_in; k0 += K_BLOCK) {
        s.c.n_k = raw.n_k = min_int(n_in - k0, K_BLOCK);
        s.c.first = k0 == 0;
        if (n == 1)
            widen_rows(load, 1, &raw, wide);
        else
            widen_rows(load, SMALL_PANELS, &raw, wide);
        set_ahead(ELEM, l, p, n, k0 + s.c.n_k, &s);
        small_tokens(tile_load_f32, ELEM, s, l->n_tok, n);
        s.c.x += K_BLOCK;
        raw.panel += (size_t)K_BLOCK * float_row_bytes(l->w, ELEM);
    }
}

ALWAYS_INLINE void linear_float(load_fn *load, const int ELEM, const fxi_linear *w, const float *x,
                                int n_tok, int panel0, int panel1, float *y, size_t ldy)
{
    const float_layer l = {.w = w, .x = x, .n_tok = n_tok, .panel1 = panel1, .y = y, .ldy = ldy};
    for (int p = panel0, n; p < panel1; p += n) {
        const int group = fxi_linear_group(w), group_left = group - (w->panel0 + p) % group;
        const int left = is_grouped(w) ? min_int(panel1 - p, group_left) : panel1 - p;
        n = left >= SMALL_PANELS ? SMALL_PANELS : 1;
        if (ELEM < 4 && n_tok >= WIDE_TOK)
            group_wide(load, ELEM, &l, p, n);
        else
            group_narrow(load, ELEM, &l, p, n);
    }
}

#define LINEAR_FLOAT(type, ELEM)                                                            \
    static void linear_##type(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, \
                              int panel1, float *y, size_t ldy)                             \
    {                                                                                       \
        linear_float(tile_load_##type, ELEM, w, a->x, n_tok, panel0, panel1, y, ldy);       \
    }
LINEAR_FLOAT(f32, 4)
LINEAR_FLOAT(f16, 2)
LINEAR_FLOAT(bf16, 2)
#undef LINEAR_FLOAT
