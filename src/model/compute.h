// compute.h - kernels spread over the pool: the steps that every architecture is built from.
//
// How work is cut never changes a bit (kernels.h, the law of order); it is chosen for speed alone.
#ifndef FXI_MODEL_COMPUTE_H
#define FXI_MODEL_COMPUTE_H

#include "kernels/kernels.h"
#include "model/model.h"

// What a pass computes with; plain borrowed pointers.
typedef struct fxi_compute {
    const fxi_kernels *k;
    fxi_pool *pool;
} fxi_compute;

// fn(arg, row) for every row; rows are independent.
typedef void fxi_row_fn(void *arg, int row);
void fxi_compute_rows(const fxi_compute *c, int n_row, fxi_row_fn *fn, void *arg);

// y[n_tok][w->n_out] = a x w, for up to FXI_MAX_JOB layers that read the same activations.
typedef struct fxi_linear_job {
    const fxi_linear *w;
    float *y;
} fxi_linear_job;

#define FXI_MAX_JOB 3

// How many of n_panel panels a task should have: a multiple of 4, at most `most`.
int fxi_compute_panels(const fxi_compute *c, int n_panel, int n_tok, int most);
void fxi_compute_linear(const fxi_compute *c, const fxi_act *a, int n_tok,
                        const fxi_linear_job *job, int n_job);

// swiglu(a x gate, a x up) for the layer that follows: f32, or rounded to Q8.
typedef struct fxi_ffn_pass {
    const fxi_act *a; // [n_tok]
    int n_tok;
    const fxi_linear *gate, *up; // of the same shape
    float *y;                    // [n_tok][n_ffn]; NULL: q8 gets it
    const fxi_act *q8;           // not a's buffers
    float *scratch;              // fxi_compute_ffn_scratch floats
} fxi_ffn_pass;

size_t fxi_compute_ffn_scratch(const fxi_compute *c, int max_tok);
void fxi_compute_ffn(const fxi_compute *c, const fxi_ffn_pass *pass);

// Neighbouring tokens of one sequence that attend together.
typedef struct fxi_attn_block {
    fxi_kv_view view;
    int row;   // of the first token in the batch
    int n_tok; // at most FXI_ATTN_MAX_TOK
    int pos;   // of the first token

    // Filled in by fxi_compute_attn_plan.
    int item0;    // number of its first item
    int n_head;   // KV heads of an item; the last ones of a block may be fewer
    int n_range;  // ranges of segments that each of these runs of heads is cut into
    size_t part0; // where its parts begin, if there are several
} fxi_attn_block;

// Attention of all blocks, all heads, in one layer.
typedef struct fxi_attn_pass {
    const fxi_attn_block *block; // [n_block]
    int n_block;
    int n_item;  // by the plan
    bool is_cut; // by the plan: some items are ranges of segments, whose parts are merged
    int layer, n_head, n_kv_head, head_dim;
    int ctx_tok; // positions there can be
    fxi_dtype kv_type;
    float scale;
    const float *q; // [n_tok][n_head][head_dim]
    float *out;     // same shape
    float *scratch; // fxi_compute_attn_scratch floats
} fxi_attn_pass;

// How many tokens of a prompt a block should have, in a batch of n_tok.
int fxi_compute_attn_block_tok(const fxi_compute *c, int n_tok, int n_kv_head);
// Shares the blocks' work out; holds for every layer. Reads n_block, the heads and ctx_tok.
void fxi_compute_attn_plan(const fxi_compute *c, fxi_attn_pass *pass, fxi_attn_block *block);
size_t fxi_compute_attn_scratch(const fxi_compute *c, int n_head, int n_kv_head, int head_dim,
                                int ctx_tok);
void fxi_compute_attention(const fxi_compute *c, const fxi_attn_pass *pass);

#endif
