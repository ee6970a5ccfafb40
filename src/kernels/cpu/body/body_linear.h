// body_linear.h - linear layers with float weights. Written once for every vector unit (cpu.h).
// Needs: body_tile.h; the tile of small batches, SMALL_TOK x SMALL_PANELS, with SMALL_CASES(X).
//
// Small batches: weights are read once, from memory, and used at once; memory is the limit.
//
// Larger batches: k is cut into blocks of K_BLOCK. For one block, the weights of a group of panels
// are widened to f32 once (f32 weights are used in place) and stay in the second-level cache. The
// tile's rows of x are copied together, so that they stay in the first-level cache while they are
// multiplied with all panels of the group. Between blocks sums are kept in y, which is exact.
#include <string.h>

#include "kernels/cpu/body/body_tile.h"
#include "kernels/linear.h"

#define K_BLOCK        256
#define GROUP_PANEL    16
#define PREFETCH_BYTES 2048 // prefetch distance of weights in each panel of a small batch

// ---- small batches ------------------------------------------------------------------------------

// The operands: n_k x P neighbouring panels, beginning with `tile`. Weights are prefetched
// PREFETCH_BYTES ahead; from step k_far on that is beyond the panel, and the lines at a distance of
// far_bytes are prefetched instead: those of the panels that come next.
typedef struct small_tile {
    tile c;
    int k_far;
    size_t far_bytes;
} small_tile;

// T, P and LINE_K, the steps of k that share a line, are constants at every call.
ALWAYS_INLINE void small_run(load_fn *load, const int T, const int P, const int LINE_K,
                             const small_tile *s)
{
    const tile *c = &s->c;
    v16 acc[TILE_TOK][TILE_MAX_PANEL];
#pragma GCC unroll 16
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) acc[t][p] = v16_zero();
    for (int k = 0; k < c->n_k; k += LINE_K) {
        const size_t at = (size_t)k / (size_t)LINE_K * 64;
        const size_t ahead = at + (k < s->k_far ? PREFETCH_BYTES : s->far_bytes);
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            __builtin_prefetch(c->panel + (size_t)p * c->panel_bytes + ahead);
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
#pragma GCC unroll 16
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            panel_store(c->y + (size_t)t * c->ldy + p * FXI_PANEL, acc[t][p],
                        c->n_out - p * FXI_PANEL);
}

// n_panel: SMALL_PANELS or 1.
ALWAYS_INLINE void tile_small(load_fn *load, const int LINE_K, int n_tok, int n_panel,
                              const small_tile *s)
{
#define SMALL_CASE(T)                                    \
    case T:                                              \
        if (n_panel == 1)                                \
            small_run(load, T, 1, LINE_K, s);            \
        else                                             \
            small_run(load, T, SMALL_PANELS, LINE_K, s); \
        break;
    switch (n_tok) {
        SMALL_CASES(SMALL_CASE)
    }
#undef SMALL_CASE
}

ALWAYS_INLINE void linear_small(load_fn *load, const int LINE_K, const fxi_linear *w,
                                const float *x, int n_tok, int panel0, int panel1, float *y,
                                size_t ldy)
{
    const int ahead_k = PREFETCH_BYTES / 64 * LINE_K;
    small_tile s = {.c = {.panel_bytes = fxi_linear_panel_bytes(w->type, w->n_in),
                          .x = x,
                          .ldx = (size_t)w->n_in,
                          .n_k = w->n_in,
                          .ldy = ldy},
                    .k_far = max_int(w->n_in - ahead_k, 0)};
    for (int p = panel0, n; p < panel1; p += n) {
        n = panel1 - p >= SMALL_PANELS ? SMALL_PANELS : 1;
        s.c.panel = fxi_linear_panel(w, p);
        s.c.y = y + (size_t)p * FXI_PANEL;
        s.c.n_out = w->n_out - p * FXI_PANEL;
        s.far_bytes = 0;
        if (p + n < panel1)
            s.far_bytes = (size_t)n * s.c.panel_bytes - (size_t)(s.k_far / LINE_K) * 64;
        tile_small(load, LINE_K, n_tok, n, &s);
    }
}

// ---- large batches ------------------------------------------------------------------------------

// Widens n_k x 16 weights of each panel. wide: [n_panel][K_BLOCK][16]
ALWAYS_INLINE void widen_panels(load_fn *load, const tile *c, int n_panel, float *wide)
{
    for (int p = 0; p < n_panel; p++)
        for (int k = 0; k < c->n_k; k++)
            v16_store(wide + (p * K_BLOCK + k) * FXI_PANEL,
                      load(c->panel + (size_t)p * c->panel_bytes, (size_t)k * FXI_PANEL));
}

// Prefetches rows [r0, r1) of x, which the next tile copies.
static void prefetch_rows(const float *x, size_t ldx, int n_k, int r0, int r1)
{
    for (int r = r0; r < r1; r++)
        for (int k = 0; k < n_k; k += 16) __builtin_prefetch(x + (size_t)r * ldx + k);
}

// n rows x n_panel panels. Prefetches the n_next rows of x at `next` meanwhile.
static void rows_panels(tile c, int n, int n_panel, const float *next, size_t ldx, int n_next)
{
    int n_step = (n_panel + TILE_PANELS - 1) / TILE_PANELS;
    for (int i = 0, p = 0; p < n_panel; i++, p += TILE_PANELS) {
        int n_p = n_panel - p < TILE_PANELS ? n_panel - p : TILE_PANELS;
        prefetch_rows(next, ldx, c.n_k, n_next * i / n_step, n_next * (i + 1) / n_step);
        tile_panels(c, n, n_p);
        c.panel += (size_t)TILE_PANELS * c.panel_bytes;
        c.y += TILE_PANELS * FXI_PANEL;
        c.n_out -= TILE_PANELS * FXI_PANEL;
    }
}

// All tokens x n_panel panels, for one block of k. Tokens are divided evenly among the fewest
// possible tiles.
static void block_tokens(tile c, int n_tok, int n_panel)
{
    _Alignas(64) float rows[TILE_TOK * K_BLOCK];
    const float *x = c.x;
    float *y = c.y;
    const size_t ldx = c.ldx;
    int n_tile = (n_tok + TILE_TOK - 1) / TILE_TOK;
    c.x = rows;
    c.ldx = K_BLOCK;
    for (int i = 0, t = 0, n; i < n_tile; i++, t += n) {
        n = (n_tok - t) / (n_tile - i);
        int n_next = i + 1 < n_tile ? (n_tok - t - n) / (n_tile - i - 1) : 0;
        for (int r = 0; r < n; r++)
            memcpy(rows + r * K_BLOCK, x + (size_t)(t + r) * ldx, (size_t)c.n_k * sizeof *x);
        c.y = y + (size_t)t * c.ldy;
        rows_panels(c, n, n_panel, x + (size_t)(t + n) * ldx, ldx, n_next);
    }
}

// The group of n panels from panel p on, block after block.
ALWAYS_INLINE void linear_group(load_fn *load, const fxi_linear *w, const float *x, int n_tok,
                                int p, int n, float *y, size_t ldy)
{
    _Alignas(64) float wide[GROUP_PANEL * K_BLOCK * FXI_PANEL];
    size_t elem = fxi_dtype_find(w->type)->block_bytes;
    tile c = {.ldx = (size_t)w->n_in,
              .y = y + (size_t)p * FXI_PANEL,
              .ldy = ldy,
              .n_out = w->n_out - p * FXI_PANEL};
    for (int k0 = 0; k0 < w->n_in; k0 += K_BLOCK) {
        c.n_k = w->n_in - k0 < K_BLOCK ? w->n_in - k0 : K_BLOCK;
        c.x = x + k0;
        c.first = k0 == 0;
        c.panel_bytes = fxi_linear_panel_bytes(w->type, w->n_in);
        c.panel = (char *)fxi_linear_panel(w, p) + (size_t)k0 * FXI_PANEL * elem;
        if (load != tile_load_f32) {
            widen_panels(load, &c, n, wide);
            c.panel = (char *)wide;
            c.panel_bytes = K_BLOCK * FXI_PANEL * sizeof(float);
        }
        block_tokens(c, n_tok, n);
    }
}

ALWAYS_INLINE void linear_float(load_fn *load, const int LINE_K, const fxi_linear *w,
                                const float *x, int n_tok, int panel0, int panel1, float *y,
                                size_t ldy)
{
    if (n_tok <= SMALL_TOK) {
        linear_small(load, LINE_K, w, x, n_tok, panel0, panel1, y, ldy);
        return;
    }
    for (int p = panel0, n; p < panel1; p += n) {
        n = panel1 - p < GROUP_PANEL ? panel1 - p : GROUP_PANEL;
        linear_group(load, w, x, n_tok, p, n, y, ldy);
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
