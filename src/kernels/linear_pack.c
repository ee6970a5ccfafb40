// linear_pack.c - rows as a file holds them become the panels that linear.c describes.
//
// The rows of a panel go forward together, a block of each at a time. So a panel is written once,
// from its start to its end, and what changes places stays in the first-level cache. A file of
// gigabytes is packed when a model is loaded: this is most of the time that loading takes.
#include <string.h>

#include "kernels/linear.h"

fxi_panel_rows fxi_panel_rows_of(fxi_dtype type, int n_in, int n_out, const void *rows, int p)
{
    const fxi_dtype_info *t = fxi_dtype_find(type);
    const size_t row_bytes = (size_t)n_in / t->block_elems * t->block_bytes;
    const int rest = n_out - p * FXI_PANEL;
    fxi_panel_rows r = {.n = rest < FXI_PANEL ? rest : FXI_PANEL};
    for (int o = 0; o < r.n; o++)
        r.row[o] = (const char *)rows + (size_t)(p * FXI_PANEL + o) * row_bytes;
    return r;
}

// ---- block types -------------------------------------------------------------------------------

enum { N_FOUR = FXI_Q_BLOCK / 4 };

typedef uint32_t code_fours[N_FOUR][FXI_PANEL]; // four codes of each output along k

// Stores the plane of the codes' bits from `shift` on.
static void store_plane(uint8_t *plane, int bits, const code_fours in, int shift)
{
    const uint32_t mask = 0x01010101u * ((1u << bits) - 1); // of four codes at once
    for (int v = 0; v < bits; v++) {
        uint32_t line[FXI_PANEL] = {0};
        for (int up = 0; up < N_FOUR; up += bits)
            for (int o = 0; o < FXI_PANEL; o++) line[o] |= (in[up + v][o] >> shift & mask) << up;
        memcpy(plane + v * 64, line, sizeof line);
    }
}

// Stores scale group g of all rows, and its codes.
static void store_group(const fxi_qpanel *q, uint8_t *panel, int n_in, int g, const fxi_qblock *blk)
{
    uint8_t *const scales = panel + fxi_qpanel_scale_at(q, n_in, g);
    uint8_t *at = panel + fxi_qpanel_code_at(q, g * (q->f->n / FXI_Q_BLOCK));
    code_fours fours;
    for (int o = 0; o < FXI_PANEL; o++) fxi_qpanel_put_scales(q, scales, o, &blk[o]);
    for (int k = 0; k < q->f->n; k += FXI_Q_BLOCK, at += q->code_bytes) {
        for (int o = 0; o < FXI_PANEL; o++)
            for (int i = 0; i < N_FOUR; i++) memcpy(&fours[i][o], blk[o].code + k + 4 * i, 4);
        store_plane(at, q->lo_bits, fours, 0);
        if (q->hi_bits) store_plane(at + 64 * q->lo_bits, q->hi_bits, fours, q->lo_bits);
    }
}

static void pack_block_rows(const fxi_linear *w, const fxi_panel_rows *rows, uint8_t *panel)
{
    const fxi_qpanel q = fxi_qpanel_of(w->type);
    const size_t block_bytes = fxi_dtype_find(w->type)->block_bytes;
    const int n_group = w->n_in / q.f->n;
    const size_t end = fxi_qpanel_scale_at(&q, w->n_in, n_group);
    fxi_qblock blk[FXI_PANEL] = {0};
    for (int g = 0; g < n_group; g++) {
        for (int o = 0; o < rows->n; o++)
            q.f->read(rows->row[o] + (size_t)g * block_bytes, &blk[o]);
        store_group(&q, panel, w->n_in, g, blk);
    }
    memset(panel + end, 0, fxi_linear_panel_bytes(w->type, w->n_in) - end);
}

// ---- floats ------------------------------------------------------------------------------------

static uint64_t half_of(const fxi_panel_rows *rows, int o, int k)
{
    uint16_t h;
    memcpy(&h, rows->row[o] + 2 * k, 2);
    return h;
}

// Of 16 bits four outputs are stored at once.
static void pack_float_rows(const fxi_linear *w, fxi_panel_rows *rows, size_t elem, char *panel)
{
    const size_t ldk = fxi_linear_ldk(w), end = (size_t)rows->n * elem;
    for (int o = rows->n; o < FXI_PANEL; o++) rows->row[o] = rows->row[0]; // any: cleared below
    char *at = panel;
    for (int k = 0; elem == 2 && k < w->n_in; k++, at += 2 * ldk)
        for (int o = 0; o < FXI_PANEL; o += 4) {
            const uint64_t four = half_of(rows, o, k) | half_of(rows, o + 1, k) << 16 |
                                  half_of(rows, o + 2, k) << 32 | half_of(rows, o + 3, k) << 48;
            memcpy(at + 2 * o, &four, 8);
        }
    for (int k = 0; elem == 4 && k < w->n_in; k++, at += 4 * ldk)
        for (int o = 0; o < FXI_PANEL; o++) memcpy(at + 4 * o, rows->row[o] + 4 * k, 4);
    for (int k = 0; end < FXI_PANEL * elem && k < w->n_in; k++)
        memset(panel + (size_t)k * ldk * elem + end, 0, FXI_PANEL * elem - end);
}

// ---- all types ---------------------------------------------------------------------------------

void fxi_linear_pack_panel(const fxi_linear *w, const void *rows, int p)
{
    fxi_panel_rows r = fxi_panel_rows_of(w->type, w->n_in, w->n_out, rows, p);
    if (fxi_linear_reads_q8(w)) {
        pack_block_rows(w, &r, fxi_linear_panel(w, p));
        return;
    }
    pack_float_rows(w, &r, fxi_dtype_find(w->type)->block_bytes, fxi_linear_panel(w, p));
}
