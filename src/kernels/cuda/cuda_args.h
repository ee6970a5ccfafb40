// cuda_args.h - the arguments of the CUDA kernels: a struct per kernel, plain C11 and CUDA C++.
//
// Every pointer is an address of the device. Kernels allocate nothing, and what a struct does not
// point to they do not touch. Rows are numbered within the batch; shapes are given as in kernels.h,
// whose order of sums says what the results are. A pointer that may be NULL says so.
//
// Each struct begins with how many rows there are, n_row below (of attention n_tile, of gather
// n_place).
//
// Weights lie as cuda_pack.h packs them.
#ifndef FXI_KERNELS_CUDA_ARGS_H
#define FXI_KERNELS_CUDA_ARGS_H

#include "kernels/kernels.h"

// The most rows, for which the grid is made, and where the number of them that count in this pass
// is; NULL: all. So a graph of kernels, made once, serves every batch up to its size.
typedef struct fxi_cuda_count {
    int32_t most;
    const int32_t *live;
} fxi_cuda_count;

// Rows of activations in the forms that linear layers read. A kernel that writes them writes every
// form that is there (not NULL); of those it reads, the one that the weights need.
typedef struct fxi_cuda_act {
    float *x;            // [n_row][n]
    uint16_t *f16, *b16; // the same rounded to f16, to bf16: for tensor cores
    int8_t *q;           // the same rounded to Q8 (quant_q8); n is a multiple of 32
    float *d;            // [n_row][n / 32], with q
    int32_t *sum;        // [n_row][n / 16], with q
} fxi_cuda_act;

// A matrix as cuda_pack.h packs it: a linear layer's, or a table whose rows are looked up.
typedef struct fxi_cuda_matrix {
    const void *data;
    int32_t type;        // fxi_dtype
    int32_t n_in, n_out; // numbers of a row; rows
} fxi_cuda_matrix;

// Normalises runs of n numbers; the weights of a run begin `step` after those of the one before.
typedef struct fxi_cuda_norm {
    const float *w; // NULL: no norm
    const float *b; // NULL: none
    int32_t n, step;
    int32_t is_rms; // otherwise layer_norm
    float eps;
} fxi_cuda_norm;

// One sequence of a batch.
typedef struct fxi_cuda_seq {
    fxi_kv_view view[FXI_KV_MAX_GROUP]; // as in the layout; pointers of the device
    int32_t row0, n_tok;                // its rows of the batch
    int32_t pos;                        // of the first
    int32_t n_pos;                      // 0: causal; otherwise every token sees 0 .. n_pos - 1
} fxi_cuda_seq;

// ---- the stream --------------------------------------------------------------------------------

// embed: rows of a table as f32. Grid: rows.
typedef struct fxi_cuda_embed_args {
    fxi_cuda_count count;
    fxi_cuda_matrix table;
    const int32_t *token; // [n_row] rows of the table
    fxi_cuda_act out;     // [n_row][table.n_in]
} fxi_cuda_embed_args;

typedef enum fxi_cuda_stream {
    FXI_CUDA_STREAM_BEGIN, // x has the embeddings: x scale, + token type, + positions
    FXI_CUDA_STREAM_ADD,   // finishes the branch h, then x += held (if there is one), x += h
    FXI_CUDA_STREAM_HOLD   // finishes the branch h, then held = h
} fxi_cuda_stream;

// add_norm: completes the residual stream of each row, then out = norm(x). Finishing a branch is:
// h + bias, norm of that, x residual_scale. h and out.x may be the same. Grid: rows.
typedef struct fxi_cuda_add_norm_args {
    fxi_cuda_count count;
    int32_t kind; // fxi_cuda_stream
    int32_t dim;
    float *x;             // [..][dim]
    const int32_t *x_row; // [n_row] where the rows are in x; NULL: the same

    // begin
    float embd_scale;
    const float *token_type;   // [types][dim] NULL: none
    const int32_t *type;       // [n_row] which of them; NULL: the first
    fxi_cuda_matrix positions; // data NULL: none
    const int32_t *pos;        // [n_row] with positions

    // add, hold
    float *h;                  // [n_row][dim]; overwritten
    const float *bias;         // [dim] NULL: none
    fxi_cuda_norm branch_norm; // w NULL: none
    float residual_scale;
    float *held; // [n_row][dim]; add: NULL if nothing is held

    // all
    fxi_cuda_norm norm; // w NULL: out = x
    int32_t is_post;    // the norm's result replaces x
    fxi_cuda_act out;   // [n_row][dim]
} fxi_cuda_add_norm_args;

// rows: copies rows, and rounds them. from[i] is the row of x that becomes row i. Grid: rows.
typedef struct fxi_cuda_rows_args {
    fxi_cuda_count count;
    const float *x;      // [..][n]
    const int32_t *from; // NULL: the same
    int32_t n;
    fxi_cuda_act out; // [n_row][n]; out.x may be x if `from` is NULL
} fxi_cuda_rows_args;

// ---- linear layers -----------------------------------------------------------------------------

// linear_<type>: y = a x w. Experts: n_expert matrices of one shape lie expert_bytes apart, and
// expert e reads rows range[e] .. range[e + 1] - 1 of a and writes the same rows of y. Without
// range, the only matrix reads rows 0 .. n_row - 1. Grid: panels, groups of rows, experts.
typedef struct fxi_cuda_linear_args {
    fxi_cuda_count count; // of all experts together; live: not with range
    fxi_cuda_matrix w;
    int32_t n_expert; // 1 without range
    size_t expert_bytes;
    const int32_t *range; // [n_expert + 1] NULL: none
    fxi_cuda_act a;       // [n_row][w.n_in]
    float *y;             // [n_row][w.n_out]
} fxi_cuda_linear_args;

// join: act(gate + bias) x (up + bias), or act(up + bias) without a gate. Grid: rows.
typedef struct fxi_cuda_join_args {
    fxi_cuda_count count;
    int32_t act;                      // fxi_activation
    const float *gate;                // [n_row][n] NULL: none
    const float *up;                  // [n_row][n]
    const float *gate_bias, *up_bias; // [n], with experts [n_expert][n]; NULL: none
    const int32_t *row_expert;        // [n_row] the expert of each row; NULL: no experts
    int32_t n;
    fxi_cuda_act out; // [n_row][n]; out.x may be up or gate
} fxi_cuda_join_args;

// ---- attention ---------------------------------------------------------------------------------

// rope_store: a row's queries and keys are finished (bias, norm, rotation, scale of the query), its
// keys and values are stored in the cache. Grid: rows.
typedef struct fxi_cuda_rope_store_args {
    fxi_cuda_count count;
    float *q;                              // [n_row][n_head][head_dim]; overwritten
    float *k;                              // [n_row][n_kv_head][head_dim]; overwritten
    float *v;                              // same shape; overwritten if there is a bias
    const float *q_bias, *k_bias, *v_bias; // NULL: none
    fxi_cuda_norm q_norm, k_norm;
    int32_t rotates_first;   // 1: the norms come after the rotation
    const float *cos, *sin;  // [n_row][n_pair] of the rows' positions; NULL: no rotation
    const float *q_scale;    // [n_row] factor of the queries, 1 changes nothing; NULL: none
    const fxi_cuda_seq *seq; // [n_seq]
    const int32_t *row_seq;  // [n_row] the sequence of each row
    const int32_t *pos;      // [n_row]
    int32_t n_head, n_kv_head, head_dim, n_pair;
    int32_t kv_type;  // fxi_dtype of the cache
    int32_t kv_group; // of the views
    int32_t kv_layer; // of that group
} fxi_cuda_rope_store_args;

// Query rows that one block computes: those of one KV head, of n_tok neighbouring tokens; of wide
// tiles, which have kernels of their own.
#define FXI_CUDA_TILE_ROW 16
#define FXI_CUDA_WIDE_ROW 64

// Of shared memory, what a kernel of attention has at most beside what a launch gives it.
#define FXI_CUDA_OWN_SHARED_BYTES 1024

typedef struct fxi_cuda_tile {
    int32_t seq;         // of the batch
    int32_t tok0, n_tok; // tokens of the sequence, from its first one of this batch on
    int32_t seg0, n_seg; // segments that some token of the tile sees
    int32_t n_range;     // 1: a block walks all segments; n_seg: a block each, merged by attn_merge
    int32_t part0;       // with n_range > 1: its first partial result
} fxi_cuda_tile;

// attention_<..>: blocks of (range, heads, tile); attn_merge: (heads, tile), nothing to do for
// tiles whose n_range is 1. "Heads" are up to 16 query heads of one KV head:
// fxi_cuda_attn_heads of them. Plans are made by cuda_plan.h.
typedef struct fxi_cuda_attn_args {
    fxi_cuda_count count;      // of tiles
    const fxi_cuda_seq *seq;   // [n_seq]
    const fxi_cuda_tile *tile; // [n_tile]
    int32_t max_range;         // the largest n_range
    const float *q;            // [n_row][n_head][head_dim]
    float *out;                // same shape
    // Partial results: m, l, and from FXI_CUDA_PART_ACC on acc. Those of a tile, from part0 on, are
    // [segment][token of the tile][n_head].
    float *part;       // [..][FXI_CUDA_PART_ACC + head_dim]
    const float *sink; // [n_head] NULL: none
    int32_t n_head, n_kv_head, head_dim;
    int32_t kv_type, kv_group, kv_layer;
    int32_t window; // 0: none
    float scale, softcap;
} fxi_cuda_attn_args;

#define FXI_CUDA_PART_ACC 4 // floats of a partial result before acc

// ---- experts -----------------------------------------------------------------------------------

// route: a row's experts and weights (fxi_route_experts), of logits + bias. Grid: rows.
typedef struct fxi_cuda_route_args {
    fxi_cuda_count count;
    const float *logits;      // [n_row][n_expert]
    const float *bias;        // [n_expert] NULL: none
    const float *choice_bias; // the same
    fxi_router router;
    int32_t *chosen; // [n_row][n_used]
    float *share;    // [n_row][n_used]
} fxi_cuda_route_args;

// place: gives every choice a place, those of an expert side by side in the order of rows. One
// block.
typedef struct fxi_cuda_place_args {
    fxi_cuda_count count;
    const int32_t *chosen; // [n_row][n_used]
    int32_t n_expert, n_used;
    int32_t *place;        // [n_row][n_used]
    int32_t *place_row;    // [n_row x n_used] the row of each place
    int32_t *place_expert; // [n_row x n_used] the expert of each place
    int32_t *range; // [n_expert + 1] the first place of each expert; the last is their number
} fxi_cuda_place_args;

// gather: rows of activations to the places of experts, in all forms that `to` has. Grid: places.
typedef struct fxi_cuda_gather_args {
    fxi_cuda_count count;  // of places
    fxi_cuda_act from, to; // [n_row][n], [n_place][n]
    const int32_t *place_row;
    int32_t n;
} fxi_cuda_gather_args;

// combine: y = the weighted sum of a row's places, in the order of the router's choice, and of the
// shared experts' result. Grid: rows.
typedef struct fxi_cuda_combine_args {
    fxi_cuda_count count;
    const float *ex;               // [n_place][dim] results of experts
    const float *bias;             // [n_expert][dim] NULL: none
    const int32_t *chosen, *place; // [n_row][n_used]
    const float *share;            // [n_row][n_used]
    const float *shared;           // [n_row][dim] NULL: no shared expert
    const float *shared_bias;      // [dim] NULL: none
    const float *shared_gate;      // [n_row] before the sigmoid; NULL: the weight is 1
    int32_t dim, n_used;
    float *y; // [n_row][dim]
} fxi_cuda_combine_args;

// add_ranks: y = the sum of what several devices have computed, ((r0 + r1) + r2) .. Grid: rows.
typedef struct fxi_cuda_add_ranks_args {
    fxi_cuda_count count;
    const float *from; // [n_rank][n_row][n]
    int32_t n_rank, n;
    float *y; // [n_row][n]
} fxi_cuda_add_ranks_args;

// ---- logits ------------------------------------------------------------------------------------

// logits: y + bias, x scale, limited to [-cap, cap]. Grid: rows.
typedef struct fxi_cuda_logits_args {
    fxi_cuda_count count;
    float *y;          // [n_row][n]
    const float *bias; // [n] NULL: none
    float scale, cap;  // 1 and 0 change nothing
    int32_t n;
} fxi_cuda_logits_args;

// argmax: the largest number of each row, the first among equals. Grid: rows.
typedef struct fxi_cuda_argmax_args {
    fxi_cuda_count count;
    const float *y; // [n_row][n]
    int32_t n;
    int32_t *best; // [n_row]; -1: a number of the row is inf or NaN
    float *value;  // [n_row] that number
} fxi_cuda_argmax_args;

#endif
