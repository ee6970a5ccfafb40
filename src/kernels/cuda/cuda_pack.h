// cuda_pack.h - how the weights of a matrix lie in a GPU's memory, and their packing.
//
// Rows (outputs) are taken 16 at a time: a panel. Within a panel, numbers lie in tiles of 16 rows x
// 32 along k, in ascending order of k; rows and numbers that a matrix lacks are zeros.
//
//   float types   a tile is [16 rows][32 k]. A lane of a warp, 4 g + c, so loads 8 neighbouring
//                 numbers of row g, and of row g + 8, with one load of 16 bytes each.
//   block types   a code's bits are split into planes as on the CPU (linear.h): 8; 4; 4 + 1; 4 + 2;
//                 2; or 2 + 1 bits, the low plane of a tile before the high one. Lane 4 g + c has
//                 the 16 codes that it feeds to mma.m16n8k32, as four words of four:
//                     word 0: row g, k = 4c ..    word 1: row g + 8, the same k
//                     word 2: row g, k = 16 + 4c ..    word 3: row g + 8, the same k
//                 8 bits: 16 bytes, words 0 to 3. Codes of Q8_0 are the signed numbers.
//                 4 bits: 8 bytes: words 0 and 1 in the low halves of bytes, 2 and 3 in the high.
//                 2 bits: 4 bytes, the codes of word w in bits 2w, 2w + 1 of each byte.
//                 1 bit:  2 bytes, the code of byte j of word w in bit 4j + w.
//                 After the tiles of a panel come its scales, as the CPU's panels have them
//                 (linear.c; fxi_qpanel_scale_at).
//
// A panel begins at a multiple of 256 bytes.
#ifndef FXI_KERNELS_CUDA_PACK_H
#define FXI_KERNELS_CUDA_PACK_H

#include "kernels/kernels.h"

size_t fxi_cuda_panel_bytes(fxi_dtype type, int n_in); // from panel to panel
size_t fxi_cuda_matrix_bytes(fxi_dtype type, int n_in, int n_out);

// Packs n_row rows, which become the panels at dst, one after the other: the whole matrix, or those
// of its rows from a multiple of 16 on. n_row is a multiple of 16, or the rows end with the matrix.
// rows: [n_row][n_in] numbers in GGUF's layout, at any address. dst: aligned to 16 bytes. Callers
// pack a few panels at a time into a buffer that is on its way to the device, on any threads.
void fxi_cuda_pack_rows(fxi_dtype type, int n_in, int n_row, const void *rows, void *dst);

#endif
