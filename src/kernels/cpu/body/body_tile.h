// body_tile.h - the product of a few rows of numbers with panels of 16 columns: the inner loop of
// float layers and of attention. Written once for every vector unit (cpu.h).
// Needs: a vec*.h; TILE_TOK, the most rows of a tile.
//
// A tile is T rows x P panels; its sums stay in registers over all k.
//
//     for each k:  load P vectors of the panels, broadcast T numbers of x,
//                  do T x P fused multiply-adds
#ifndef FXI_KERNELS_BODY_TILE_H
#define FXI_KERNELS_BODY_TILE_H

#include <stdbool.h>

#include "kernels/cpu/body/body_panel.h"

#define TILE_MAX_PANEL 4

// Loads sixteen numbers of a panel, from element i on.
typedef v16 load_fn(const void *panel, size_t i);

// The operands of one tile. Rows of x and panels begin at the block's first k.
typedef struct tile {
    const char *panel;  // [n_k][ldk] numbers, the first 16 of each row are used
    size_t panel_bytes; // from panel to panel
    size_t ldk;         // from k to k + 1
    const float *x;     // [T][ldx]
    size_t ldx;
    int n_k;
    bool first; // sums start from zero, otherwise from y
    float *y;   // [T][ldy], from the first panel's first column on
    size_t ldy;
    int n_out; // columns from there on; the last panel may have fewer than 16

    // tile_run_prefetch: step k prefetches the line at prefetch_line[k * prefetch_step] into the
    // second-level cache.
    const char *const *prefetch_line;
    size_t prefetch_step;
} tile;

ALWAYS_INLINE v16 tile_load_f32(const void *panel, size_t i)
{
    return v16_load((const float *)panel + i);
}

ALWAYS_INLINE v16 tile_load_f16(const void *panel, size_t i)
{
    return v16_from_f16((const uint16_t *)panel + i);
}

ALWAYS_INLINE v16 tile_load_bf16(const void *panel, size_t i)
{
    return v16_from_bf16((const uint16_t *)panel + i);
}

// T and P are constants at every call, so that the loops over them unroll and acc stays in
// registers.
ALWAYS_INLINE void tile_begin(const int T, const int P, const tile *c,
                              v16 acc[TILE_TOK][TILE_MAX_PANEL])
{
#pragma GCC unroll 16
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) {
            const float *y = c->y + (size_t)t * c->ldy + p * FXI_PANEL;
            acc[t][p] = c->first ? v16_zero() : panel_load(y, c->n_out - p * FXI_PANEL);
        }
}

ALWAYS_INLINE void tile_end(const int T, const int P, const tile *c,
                            v16 acc[TILE_TOK][TILE_MAX_PANEL])
{
#pragma GCC unroll 16
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            panel_store(c->y + (size_t)t * c->ldy + p * FXI_PANEL, acc[t][p],
                        c->n_out - p * FXI_PANEL);
}

// ldk is a constant where possible.
ALWAYS_INLINE void tile_run_prefetch(load_fn *load, const int T, const int P, const size_t ldk,
                                     const tile *c)
{
    v16 acc[TILE_TOK][TILE_MAX_PANEL];
    tile_begin(T, P, c, acc);
#pragma GCC unroll 2
    for (int k = 0; k < c->n_k; k++) {
        __builtin_prefetch(c->prefetch_line[(size_t)k * c->prefetch_step], 0, 2);
        v16 w[TILE_MAX_PANEL];
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            w[p] = load(c->panel + (size_t)p * c->panel_bytes, (size_t)k * ldk);
#pragma GCC unroll 16
        for (int t = 0; t < T; t++) {
            v16 x = v16_set1(c->x[(size_t)t * c->ldx + (size_t)k]);
#pragma GCC unroll 4
            for (int p = 0; p < P; p++) acc[t][p] = v16_fma(w[p], x, acc[t][p]);
        }
    }
    tile_end(T, P, c, acc);
}

#endif
