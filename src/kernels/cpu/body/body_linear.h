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

#define K_BLOCK        1024 // of more tokens than one tile has
#define PREFETCH_BYTES 2048 // prefetch distance in each panel, while weights are read from memory

// The operands of a tile: n_k x P neighbouring panels. Each line of a panel that is read prefetches
// one at the same place after `ahead`; from step k_far on far_bytes further.
typedef struct small_tile {
    tile c;
    const char *ahead; // of the first panel
    size_t ahead_stride;
    int k_far;
    ptrdiff_t far_bytes;
} small_tile;

// A float layer, and the activations of all tokens.
typedef struct float_layer {
    const fxi_linear *w;
    const float *x;
    int n_tok, panel1;
    float *y;
    size_t ldy, panel_bytes;
} float_layer;

// ---- tiles -------------------------------------------------------------------------------------

ALWAYS_INLINE void small_prefetch(const int P, const small_tile *s, int k, size_t at)
{
    const char *ahead = s->ahead + at;
    if (k >= s->k_far) ahead += s->far_bytes;
#pragma GCC unroll 4
    for (int p = 0; p < P; p++) __builtin_prefetch(ahead + (size_t)p * s->ahead_stride);
}

// T, P, LINE_K, the steps of k that share a line in memory, and AHEAD, whether to prefetch, are
// constants at every call.
ALWAYS_INLINE void small_run(load_fn *load, const int T, const int P, const int LINE_K,
                             const bool AHEAD, const small_tile *s)
{
    const tile *c = &s->c;
    v16 acc[TILE_TOK][TILE_MAX_PANEL];
    tile_begin(T, P, c, acc);
    for (int k = 0; k < c->n_k; k += LINE_K) {
        if (AHEAD) small_prefetch(P, s, k, (size_t)k / (size_t)LINE_K * 64);
        for (int i = 0; i < LINE_K && k + i < c->n_k; i++)
#pragma GCC unroll 4
            for (int p = 0; p < P; p++) {
                const size_t elem = (size_t)(k + i) * FXI_PANEL;
                v16 w = load(c->panel + (size_t)p * c->panel_bytes, elem);
#pragma GCC unroll 16
                for (int t = 0; t < T; t++) {
                    v16 x = v16_set1(c->x[(size_t)t * c->ldx + (size_t)(k + i)]);
                    acc[t][p] = v16_fma(w, x, acc[t][p]);
                }
            }
    }
    tile_end(T, P, c, acc);
}

// n_tok: at most SMALL_TOK; n_panel: SMALL_PANELS or 1.
ALWAYS_INLINE void tile_small(load_fn *load, const int LINE_K, const bool AHEAD, int n_tok,
                              int n_panel, const small_tile *s)
{
#define SMALL_CASE(T)                                           \
    case T:                                                     \
        if (n_panel == 1)                                       \
            small_run(load, T, 1, LINE_K, AHEAD, s);            \
        else                                                    \
            small_run(load, T, SMALL_PANELS, LINE_K, AHEAD, s); \
        break;
    switch (n_tok) {
        SMALL_CASES(SMALL_CASE)
    }
#undef SMALL_CASE
}

// All tokens, in the fewest possible tiles. The first one prefetches, and is full, because its
// products cost nothing beside memory; the others divide the rest evenly.
ALWAYS_INLINE void small_tokens(load_fn *load, const int LINE_K, small_tile s, int n_tok,
                                int n_panel)
{
    int n_tile = (n_tok + SMALL_TOK - 1) / SMALL_TOK;
    int n = min_int(n_tok, SMALL_TOK);
    tile_small(load, LINE_K, true, n, n_panel, &s);
    while (--n_tile > 0) {
        s.c.x += (size_t)n * s.c.ldx;
        s.c.y += (size_t)n * s.c.ldy;
        n_tok -= n;
        n = n_tok / n_tile;
        tile_small(load, 1, false, n, n_panel, &s);
    }
}

// ---- groups of panels --------------------------------------------------------------------------

static small_tile small_group(const float_layer *l, int p)
{
    return (small_tile){.c = {.panel = fxi_linear_panel(l->w, p),
                              .panel_bytes = l->panel_bytes,
                              .x = l->x,
                              .ldx = (size_t)l->w->n_in,
                              .y = l->y + (size_t)p * FXI_PANEL,
                              .ldy = l->ldy,
                              .n_out = l->w->n_out - p * FXI_PANEL}};
}

// n panels from panel p on. PREFETCH_BYTES before the end of the panels, those that come next are
// prefetched.
ALWAYS_INLINE void group_narrow(load_fn *load, const int LINE_K, const float_layer *l, int p, int n)
{
    const int n_in = l->w->n_in, block = l->n_tok <= SMALL_TOK ? n_in : K_BLOCK;
    const int ahead_k = PREFETCH_BYTES / 64 * LINE_K;
    small_tile s = small_group(l, p);
    for (int k0 = 0; k0 < n_in; k0 += block) {
        s.c.n_k = min_int(n_in - k0, block);
        s.c.first = k0 == 0;
        s.ahead = s.c.panel + PREFETCH_BYTES;
        s.ahead_stride = l->panel_bytes;
        s.k_far = max_int(n_in - k0 - ahead_k, 0);
        s.far_bytes = -PREFETCH_BYTES;
        if (p + n < l->panel1)
            s.far_bytes +=
                (ptrdiff_t)((size_t)n * l->panel_bytes) - (ptrdiff_t)(k0 + s.k_far) / LINE_K * 64;
        small_tokens(load, LINE_K, s, l->n_tok, n);
        s.c.panel += (size_t)block / (size_t)LINE_K * 64;
        s.c.x += block;
    }
}

// Widens n_k x 16 weights of each panel. wide: [n_panel][K_BLOCK][16]
ALWAYS_INLINE void widen_panels(load_fn *load, const tile *c, int n_panel, float *wide)
{
    for (int p = 0; p < n_panel; p++)
        for (int k = 0; k < c->n_k; k++)
            v16_store(wide + (p * K_BLOCK + k) * FXI_PANEL,
                      load(c->panel + (size_t)p * c->panel_bytes, (size_t)k * FXI_PANEL));
}

// The same, widened block by block.
ALWAYS_INLINE void group_wide(load_fn *load, const int LINE_K, const float_layer *l, int p, int n)
{
    _Alignas(64) float wide[SMALL_PANELS * K_BLOCK * FXI_PANEL];
    const int n_in = l->w->n_in;
    small_tile s = small_group(l, p);
    const char *raw = s.c.panel;
    for (int k0 = 0; k0 < n_in; k0 += K_BLOCK) {
        const char *next = raw + (size_t)K_BLOCK / (size_t)LINE_K * 64;
        if (k0 + K_BLOCK >= n_in) next = fxi_linear_panel(l->w, p + n < l->panel1 ? p + n : p);
        s.c.n_k = min_int(n_in - k0, K_BLOCK);
        s.c.first = k0 == 0;
        s.c.panel = raw;
        s.c.panel_bytes = l->panel_bytes;
        widen_panels(load, &s.c, n, wide);
        s.c.panel = (const char *)wide;
        s.c.panel_bytes = K_BLOCK * FXI_PANEL * sizeof *wide;
        s.ahead = next;
        s.ahead_stride = l->panel_bytes;
        s.k_far = s.c.n_k;
        small_tokens(tile_load_f32, LINE_K, s, l->n_tok, n);
        s.c.x += K_BLOCK;
        raw = next;
    }
}

ALWAYS_INLINE void linear_float(load_fn *load, const int LINE_K, const fxi_linear *w,
                                const float *x, int n_tok, int panel0, int panel1, float *y,
                                size_t ldy)
{
    const float_layer l = {.w = w,
                           .x = x,
                           .n_tok = n_tok,
                           .panel1 = panel1,
                           .y = y,
                           .ldy = ldy,
                           .panel_bytes = fxi_linear_panel_bytes(w->type, w->n_in)};
    for (int p = panel0, n; p < panel1; p += n) {
        n = panel1 - p >= SMALL_PANELS ? SMALL_PANELS : 1;
        if (LINE_K > 1 && n_tok >= WIDE_TOK)
            group_wide(load, LINE_K, &l, p, n);
        else
            group_narrow(load, LINE_K, &l, p, n);
    }
}

static void linear_f32(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                       float *y, size_t ldy)
{
    linear_float(tile_load_f32, 1, w, a->x, n_tok, panel0, panel1, y, ldy);
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
