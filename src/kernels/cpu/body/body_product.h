// body_product.h - products of attention: some rows x panels of keys or values, tile by tile, with
// the prefetching of what comes next. Written once for every vector unit (cpu.h).
// Needs: body_tile.h; the register tiles: TILE_TOK x TILE_PANELS with TILE_CASES(X), which is X(n)
// for n from 1 to TILE_TOK, and for few rows SMALL_TOK x SMALL_PANELS with SMALL_CASES(X).
#ifndef FXI_KERNELS_BODY_PRODUCT_H
#define FXI_KERNELS_BODY_PRODUCT_H

#include "kernels/cpu/body/body_prefetch.h"
#include "kernels/cpu/body/body_tile.h"

// A product of tiles: n_row rows, at most TILE_TOK, x n_panel panels.
typedef void kv_product_fn(tile c, int n_row, int n_panel, prefetch_list *next);

#define ROW_CASE(T)                               \
case T:                                           \
    if (n_panel == 1)                             \
        tile_run_prefetch(load, T, 1, ldk, c);    \
    else                                          \
        tile_run_prefetch(load, T, MOST, ldk, c); \
    break;

// One tile of a small batch, and one of a larger. n_panel: MOST or 1.
ALWAYS_INLINE void tile_small_rows(load_fn *load, size_t ldk, int n_row, int n_panel, const tile *c)
{
    enum { MOST = SMALL_PANELS };
    switch (n_row) {
        SMALL_CASES(ROW_CASE)
    }
}

ALWAYS_INLINE void tile_rows(load_fn *load, size_t ldk, int n_row, int n_panel, const tile *c)
{
    enum { MOST = TILE_PANELS };
    switch (n_row) {
        TILE_CASES(ROW_CASE)
    }
}

#undef ROW_CASE

// n_row rows, at most TILE_TOK, x n_panel panels.
ALWAYS_INLINE void product_rows(load_fn *load, size_t ldk, tile c, int n_row, int n_panel,
                                prefetch_list *next)
{
    bool small = n_row <= SMALL_TOK;
    int most = small ? SMALL_PANELS : TILE_PANELS;
    for (int p = 0, n; p < n_panel; p += n) {
        n = n_panel - p >= most ? most : 1;
        prefetch_attach(next, &c);
        if (small)
            tile_small_rows(load, ldk, n_row, n, &c);
        else
            tile_rows(load, ldk, n_row, n, &c);
        c.panel += (size_t)n * c.panel_bytes;
        c.y += n * FXI_PANEL;
        c.n_out -= n * FXI_PANEL;
    }
}

static void product_f32(tile c, int n_row, int n_panel, prefetch_list *next)
{
    product_rows(tile_load_f32, FXI_PANEL, c, n_row, n_panel, next);
}

static void product_f16(tile c, int n_row, int n_panel, prefetch_list *next)
{
    product_rows(tile_load_f16, c.ldk, c, n_row, n_panel, next);
}

static void product_bf16(tile c, int n_row, int n_panel, prefetch_list *next)
{
    product_rows(tile_load_bf16, c.ldk, c, n_row, n_panel, next);
}

// n_row rows x n_panel panels of f32. Rows are divided evenly among the fewest possible tiles.
static void product_tiles(tile c, int n_row, int n_panel, prefetch_list *next)
{
    int n_tile = (n_row + TILE_TOK - 1) / TILE_TOK;
    for (int i = 0, n; i < n_tile; i++, n_row -= n) {
        n = n_row / (n_tile - i);
        product_f32(c, n, n_panel, next);
        c.x += (size_t)n * c.ldx;
        c.y += (size_t)n * c.ldy;
    }
}

#endif
