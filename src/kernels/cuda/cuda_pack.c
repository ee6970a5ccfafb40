// cuda_pack.c - rows as a file holds them become panels in the order of fragments.
#include "kernels/cuda/cuda_pack.h"

#include <string.h>

#include "kernels/linear.h"

enum { TILE_ROW = FXI_PANEL, TILE_K = FXI_Q_BLOCK, PANEL_ALIGN = 256 };

static int n_tile_of(int n_in)
{
    return (n_in + TILE_K - 1) / TILE_K;
}

size_t fxi_cuda_panel_bytes(fxi_dtype type, int n_in)
{
    size_t used = (size_t)n_tile_of(n_in) * TILE_K * TILE_ROW * fxi_dtype_find(type)->block_bytes;
    if (fxi_qformat_find(type)) {
        const fxi_qpanel q = fxi_qpanel_of(type);
        used = fxi_qpanel_scale_at(&q, n_in, n_in / q.f->n);
    }
    return (used + PANEL_ALIGN - 1) / PANEL_ALIGN * PANEL_ALIGN;
}

size_t fxi_cuda_matrix_bytes(fxi_dtype type, int n_in, int n_out)
{
    return (size_t)fxi_linear_n_panel(n_out) * fxi_cuda_panel_bytes(type, n_in);
}

// ---- block types -------------------------------------------------------------------------------

// Where the code of byte j of word w lies among the bits of a lane: at j x byte + w % 2 x row +
// w / 2 x half.
typedef struct lane_order {
    int bits, byte, row, half;
} lane_order;

static const lane_order orders[] = {{8, 8, 32, 64}, {4, 8, 32, 4}, {2, 8, 2, 4}, {1, 4, 1, 2}};

// A plane of the tile whose codes begin at k: `bits` of each from `shift` on. It is zero before.
static void put_plane_of(uint8_t *plane, int bits, const fxi_qblock *blk, int k, int shift)
{
    const lane_order *o = orders;
    while (o->bits != bits) o++;
    for (int lane = 0; lane < 32; lane++, plane += 2 * bits)
        for (int w = 0; w < 4; w++) {
            const uint8_t *code = blk[lane / 4 + w % 2 * 8].code + k + lane % 4 * 4 + w / 2 * 16;
            for (int j = 0; j < 4; j++) {
                const int at = j * o->byte + w % 2 * o->row + w / 2 * o->half;
                plane[at / 8] |= (uint8_t)((code[j] >> shift & ((1 << bits) - 1)) << at % 8);
            }
        }
}

// Group g of all rows: their scales, and the tiles of their codes.
static void put_group(const fxi_qpanel *q, int n_in, int g, const fxi_qblock *blk, uint8_t *panel)
{
    uint8_t *scales = panel + fxi_qpanel_scale_at(q, n_in, g);
    uint8_t *at = panel + fxi_qpanel_code_at(q, g * (q->f->n / TILE_K));
    for (int r = 0; r < TILE_ROW; r++) fxi_qpanel_put_scales(q, scales, r, &blk[r]);
    for (int k = 0; k < q->f->n; k += TILE_K, at += q->code_bytes) {
        put_plane_of(at, q->lo_bits, blk, k, 0);
        if (q->hi_bits) put_plane_of(at + 64 * q->lo_bits, q->hi_bits, blk, k, q->lo_bits);
    }
}

// Q8_0's codes are stored as signed numbers.
static void pack_block_tiles(fxi_dtype type, int n_in, const fxi_panel_rows *rows, uint8_t *panel)
{
    const fxi_qpanel q = fxi_qpanel_of(type);
    const size_t block_bytes = fxi_dtype_find(type)->block_bytes;
    fxi_qblock blk[TILE_ROW] = {0};
    for (int g = 0; g < n_in / q.f->n; g++) {
        for (int r = 0; r < rows->n; r++) {
            q.f->read(rows->row[r] + (size_t)g * block_bytes, &blk[r]);
            for (int i = 0; q.f->bits == 8 && i < FXI_Q8_0_ELEMS; i++) blk[r].code[i] ^= 0x80;
        }
        put_group(&q, n_in, g, blk, panel);
    }
}

static void pack_float_tiles(int n_in, const fxi_panel_rows *rows, size_t elem, char *panel)
{
    for (int t = 0; t < n_tile_of(n_in); t++)
        for (int r = 0; r < rows->n; r++) {
            const int left = n_in - t * TILE_K;
            const size_t n = (size_t)(left < TILE_K ? left : TILE_K);
            memcpy(panel + (size_t)(t * TILE_ROW + r) * TILE_K * elem,
                   rows->row[r] + (size_t)t * TILE_K * elem, n * elem);
        }
}

void fxi_cuda_pack_rows(fxi_dtype type, int n_in, int n_row, const void *rows, void *dst)
{
    const size_t panel_bytes = fxi_cuda_panel_bytes(type, n_in);
    char *panel = memset(dst, 0, fxi_cuda_matrix_bytes(type, n_in, n_row));
    for (int p = 0; p < fxi_linear_n_panel(n_row); p++, panel += panel_bytes) {
        const fxi_panel_rows r = fxi_panel_rows_of(type, n_in, n_row, rows, p);
        if (fxi_qformat_find(type))
            pack_block_tiles(type, n_in, &r, (uint8_t *)panel);
        else
            pack_float_tiles(n_in, &r, fxi_dtype_find(type)->block_bytes, panel);
    }
}
