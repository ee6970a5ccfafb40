// cuda_plan.h - attention's work as tiles of query rows (cuda_args.h): plain C, on the host.
#ifndef FXI_KERNELS_CUDA_PLAN_H
#define FXI_KERNELS_CUDA_PLAN_H

#include "kernels/cuda/cuda_args.h"

// What a plan is made for: all layers with the same window.
typedef struct fxi_cuda_plan {
    int n_head, n_kv_head;
    int window;   // 0: none
    int n_block;  // how many blocks keep the device busy: below that, segments are spread
    int max_part; // partial results that there is room for, each of a query row of one head
    bool is_wide; // there is a kernel for wide tiles: sequences of many rows get them
    // Filled in by fxi_cuda_plan_end:
    int n_tile, max_range;
    int n_wide; // the last ones of the tiles are wide
} fxi_cuda_plan;

// Appends the tiles of the last n_want tokens of sequence i to tile, at most one per token.
void fxi_cuda_plan_add(fxi_cuda_plan *p, const fxi_cuda_seq *seq, int i, int n_want,
                       fxi_cuda_tile *tile);
// Moves wide tiles after the others, and divides the tiles' segments among blocks.
void fxi_cuda_plan_end(fxi_cuda_plan *p, fxi_cuda_tile *tile);

// Blocks per tile: groups of up to FXI_CUDA_TILE_ROW query heads of one KV head.
int fxi_cuda_attn_heads(int n_head, int n_kv_head);

#endif
