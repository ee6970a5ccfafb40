// compute.h - kernels in parallel on the pool: the steps that every architecture is built from.
//
// How work is divided never changes a bit of the results (kernels.h, the law of order), only the
// speed.
#ifndef FXI_MODEL_COMPUTE_H
#define FXI_MODEL_COMPUTE_H

#include <stdatomic.h>

#include "kernels/kernels.h"
#include "model/model.h"

// What a pass computes with; both pointers are borrowed.
typedef struct fxi_compute {
    const fxi_kernels *k;
    fxi_pool *pool;
} fxi_compute;

// Calls fn(arg, row) for every row, on any thread and in any order.
typedef void fxi_row_fn(void *arg, int row);
void fxi_compute_rows(const fxi_compute *c, int n_row, fxi_row_fn *fn, void *arg);

// y[n_tok][ldy] = a x w, over rows row0 .. row0 + n_tok - 1 of the activations: layers that
// read the same rows, or experts, each with rows of its own. All in one go, so that many small
// products keep all threads busy.
typedef struct fxi_linear_job {
    const fxi_linear *w;
    float *y;   // of row row0
    int row0;   // of the activations
    int n_tok;  // 0: nothing to do
    size_t ldy; // from row to row of y; 0: w->n_out
} fxi_linear_job;

void fxi_compute_linear(const fxi_compute *c, const fxi_act *a, const fxi_linear_job *job,
                        int n_job);

// One feed-forward block's first half over some rows. All blocks of a pass have the same shapes.
typedef struct fxi_ffn_part {
    const fxi_linear *gate; // NULL: none
    const fxi_linear *up;
    const float *gate_bias, *up_bias; // [n_ffn], NULL: none
    int row0, n_tok;                  // of the activations, and of the result; n_tok may be 0
} fxi_ffn_part;

// act(a x gate) * (a x up), or act(a x up) without a gate; as f32 or rounded to Q8: whichever the
// next layer reads.
typedef struct fxi_ffn_pass {
    const fxi_act *a;
    const fxi_ffn_part *part; // [n_part]
    int n_part;
    int n_tok; // most rows of a part
    fxi_activation act;
    float *y;          // [row][n_ffn] as f32; NULL: the result goes to q8
    const fxi_act *q8; // may not share buffers with a
    float *scratch;    // fxi_compute_ffn_scratch floats
} fxi_ffn_pass;

size_t fxi_compute_ffn_scratch(const fxi_compute *c);
void fxi_compute_ffn(const fxi_compute *c, const fxi_ffn_pass *pass);

// Neighbouring tokens of one sequence whose attention is computed together.
typedef struct fxi_attn_block {
    fxi_kv_view view;
    int row;   // of the first token in the batch
    int n_tok; // at most FXI_ATTN_MAX_TOK
    int pos;   // of the first token
    int n_pos; // 0: a token sees the positions up to its own; otherwise those below n_pos

    // Filled in by fxi_compute_attn_plan.
    int segment0; // the first segment that a token of it sees
    int item0;    // index of its first item
    int n_head;   // KV heads of an item; the last item of a block may have fewer
    int n_range;  // ranges of segments that each group of n_head heads is split into
    size_t part0; // index of its first partial result, if n_range > 1
} fxi_attn_block;

// Attention of all blocks, all heads, in one layer.
typedef struct fxi_attn_pass {
    const fxi_attn_block *block; // [n_block]
    int n_block;
    int n_item;   // set by the plan
    bool is_cut;  // set by the plan: some items are ranges of segments, to be merged afterwards
    int kv_plane; // the layer's first plane in the views
    int n_kv_head;
    int ctx_tok; // most positions of a sequence
    // What all calls have in common; q and out: of the batch's first token. Without a view, tokens
    // and KV heads, which are an item's, and scratch, which is a thread's.
    fxi_attn call;
    float *scratch; // fxi_compute_attn_scratch floats
} fxi_attn_pass;

// How many tokens of a prompt a block should have, in a batch of n_tok. Reads the heads.
int fxi_compute_attn_block_tok(const fxi_compute *c, const fxi_attn_pass *pass, int n_tok);
// Divides the blocks' work into items, for all layers of the same window. Reads n_block, the
// heads, ctx_tok and window; divides the heads of latent layers among KV heads anew.
void fxi_compute_attn_plan(const fxi_compute *c, fxi_attn_pass *pass, fxi_attn_block *block);
// Reads the heads, their sizes and ctx_tok.
size_t fxi_compute_attn_scratch(const fxi_compute *c, const fxi_attn_pass *pass);
void fxi_compute_attention(const fxi_compute *c, const fxi_attn_pass *pass);

// ---- panels of weights --------------------------------------------------------------------------
//
// Threads take panels in ranges that become shorter. What a kernel does once per call is lost time:
// it prepares the tokens, and its first weights are not in a cache yet. So ranges are long at
// first. The last ones are short, so that the threads end together. Large batches get ranges of one
// length, because there each call prepares much more.

typedef struct fxi_panel_ranges {
    int n_panel, period; // no range goes beyond a multiple of period
    int least, most;     // panels of a range, multiples of 4; the last one of a period is shorter
    int n_share;         // a range is three n_share-ths of what is left, within these bounds
    atomic_int next;     // the first panel that is not taken
} fxi_panel_ranges;

// For batches of at most n_tok tokens. most: panels of a range if the batch is large.
void fxi_ranges_init(fxi_panel_ranges *r, const fxi_compute *c, int n_panel, int period, int n_tok,
                     int most);
// Takes the next range: panels first to end - 1. False if none is left. Called by any thread.
bool fxi_ranges_take(fxi_panel_ranges *r, int *first, int *end);

#endif
