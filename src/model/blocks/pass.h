// pass.h - one forward pass over a mixed batch: its state, and the blocks that it runs through.
//
// Rows of all sequences go through the linear layers together; only attention distinguishes the
// sequences. Operations on one row at a time (norms, rotation, rounding to Q8) are row functions;
// whatever reads a row next runs right after it, while the row is in the cache.
#ifndef FXI_MODEL_PASS_H
#define FXI_MODEL_PASS_H

#include "model/blocks/plan.h"

// What is left to do with the result of a branch, in h, before it is added to x.
typedef struct fxi_branch {
    const float *bias;       // NULL: none
    const fxi_rownorm *norm; // NULL: none
} fxi_branch;

typedef struct fxi_pass {
    fxi_transformer *m;
    const fxi_batch *batch;
    const fxi_layer *layer;
    int i_layer;
    fxi_attn_pass attn[2]; // of layers without and with windows
    int n_row;             // rows that are computed
    const int *x_row;      // [n_row] where they are in x; NULL: the same
    int n_logit;           // rows of logits that are wanted, before those of sequences that embed
    bool has_begun;        // x is filled
    bool holds;            // `held` has the result of attention
    fxi_branch branch;     // the last one

    // Parameters of row functions.
    const fxi_rownorm *norm;
    bool q8; // the layers after this norm read Q8
    float *logits;
} fxi_pass;

static inline size_t fxi_pass_x_row(const fxi_pass *p, int row)
{
    return (size_t)(p->x_row ? p->x_row[row] : row);
}

// The activations whose f32 rows begin at x; the Q8 buffers hold their rounded form.
static inline fxi_act fxi_pass_act(const fxi_pass *p, const float *x)
{
    const fxi_scratch *s = &p->m->s;
    return (fxi_act){.x = x, .q = s->act_q, .d = s->act_d, .sum = s->act_sum};
}

void fxi_pass_rows(fxi_pass *p, fxi_row_fn *fn); // fn(p, row) for all rows
// Rounds n_elem numbers as row `row` of what the next layers read.
void fxi_pass_quant(const fxi_pass *p, const float *x, int n_elem, int row);
// y = a norm of n_run runs at x; y may be x. Pre: the norm is there.
void fxi_pass_norm(const fxi_pass *p, const fxi_rownorm *norm, const float *x, int n_run, float *y);

// pass.c: the batch
void fxi_pass_index(fxi_pass *p);       // sequences, positions, angles and blocks of attention
void fxi_pass_keep_wanted(fxi_pass *p); // from here on, only the rows that are wanted

// stream.c: both leave h = norm(x) in the form that the next layers read.
// x = the embedding, or x += the last branch.
void fxi_stream_next(fxi_pass *p, const fxi_rownorm *norm, bool q8);
// Keeps the last branch for the next call of fxi_stream_next.
void fxi_stream_hold(fxi_pass *p, const fxi_rownorm *norm, bool q8);
// The last norm: logits of the first rows that are wanted, the other rows as they are.
void fxi_stream_finish(fxi_pass *p, float *logits);

// attend.c
void fxi_attend_project(fxi_pass *p); // q, k, v of all rows; the cache has k and v
void fxi_attend_run(fxi_pass *p);     // h = the result of attention

// feed.c, experts.c: h = the result of the feed-forward block
void fxi_feed_run(fxi_pass *p);
void fxi_experts_run(fxi_pass *p);
bool fxi_feed_reads_q8(const fxi_layer *l);
// y = the second half of a block: `down` over rows of mid, which begin at row 0.
void fxi_feed_dense(fxi_pass *p, const fxi_ffn *f, const fxi_act *a, float *y);

#endif
