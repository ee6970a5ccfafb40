// host.h - the host as a device (device.h): the kernels of this machine's cores, in parallel on the
// pool.
//
// Rows of all sequences go through the linear layers together; only attention distinguishes the
// sequences. Operations on one row at a time (norms, rotation, rounding to Q8) are row functions;
// whatever reads a row next runs right after it, while the row is in the cache.
//
// Nothing runs in the background: a step has done its work when it returns, submit and wait do
// nothing. No step can fail.
#ifndef FXI_MODEL_HOST_H
#define FXI_MODEL_HOST_H

#include "model/device.h"
#include "model/host/compute.h"

// Buffers of one pass, sized for the largest batch.
typedef struct fxi_host_buffers {
    float *x;       // [n_tok][dim] the residual stream
    float *h;       // [n_tok][dim] normalised, or what a branch adds to x
    float *held;    // [n_tok][dim] the result of attention in parallel layers
    float *narrow;  // [n_tok][width of embeddings] before Win and after Wout
    float *q, *att; // [n_tok][n_head][head_dim]; latent: att [n_tok][n_head][n_lora], or heads
    float *k, *v;   // [n_tok][n_kv_head][head_dim]
    float *gate;    // [n_tok][widest gate]
    int *run;       // [n_tok + 1] first rows of runs of tokens in one block of a recurrence
    // Latent layers: [n_tok][what q_a makes]; [n_tok][n_head][what q makes, or v_up]
    float *q_a, *heads;
    fxi_linear_job *head_job; // [n_head]
    float *attn, *ffn;        // scratch of fxi_compute_attention and fxi_compute_ffn
    int8_t *act_q;            // [n_tok][widest of h, att, heads] rounded to Q8
    float *act_d;             // [n_tok][widest / 32]
    int32_t *act_sum;         // [n_tok][widest / 16]
    float *mid;               // [n_tok][n_ffn] input of down, if a layer reads f32
    int8_t *mid_q;            // the same rounded to Q8, if a layer reads that
    float *mid_d;
    int32_t *mid_sum;
    float *logits;                 // [most rows of logits][n_vocab] if the caller wants none
    const fxi_batch_seq **tok_seq; // [n_tok] the sequence of each token
    int *tok_pos;                  // [n_tok]
    fxi_attn_block *block[2];      // [n_tok] at most, without and with windows
    int *wanted;                   // [most rows that may be wanted]

    // Mixtures of experts. A place is one of the n_used experts of a row; places lie expert after
    // expert.
    float *router, *share; // [n_tok][n_expert]; [n_tok][n_used] weights of the chosen experts
    float *sh_gate;        // [n_tok]
    int *chosen, *place;   // [n_tok][n_used] experts, and their places
    int *place_row;        // [n_tok x n_used] the row of each place
    int *expert0;          // [n_expert + 1] the first place of each expert
    float *ex;             // [n_tok x n_used][dim] the rows of all places, if a layer reads f32
    int8_t *ex_q;          // the same rounded to Q8
    float *ex_d;
    int32_t *ex_sum;
    float *ex_out, *sh_out; // [n_tok x n_used][dim], [n_tok][dim]
    fxi_ffn_part *part;     // [n_expert]
    fxi_linear_job *job;    // [n_expert]
} fxi_host_buffers;

typedef struct fxi_host {
    fxi_device dev; // first: an fxi_device is cast to this
    fxi_compute compute;
    uint64_t q8_types; // bit t: layers with weights of type t read rows rounded to Q8
    fxi_arena weights;
    struct fxi_host_block *blocks; // list
    const fxi_transformer *m;      // once prepared
    fxi_host_buffers s;

    // the pass
    const fxi_batch *batch;
    float *logits;
    fxi_attn_pass attn[2]; // of layers without and with windows
    int n_row;             // rows that are computed
    const int *x_row;      // [n_row] where they are in x, q and att; NULL: the same
    const float *att_in;   // [n_row] what o reads, as f32
    bool holds;            // `held` has the result of attention
    bool has_q8;           // h is rounded to Q8, too

    // Parameters of row functions.
    const fxi_branch_end *end;
    const fxi_next_norm *next;
    const fxi_layer *layer;
    const fxi_experts *experts;
} fxi_host;

static inline fxi_host *fxi_host_of(fxi_device *d)
{
    return (fxi_host *)d;
}

// ---- host_rows.c: rows --------------------------------------------------------------------------

// Where row `row` of those that are computed is in x, q and att.
static inline size_t fxi_host_place(const fxi_host *h, int row)
{
    return (size_t)(h->x_row ? h->x_row[row] : row);
}

// fn(h, row) for all rows that are computed.
static inline void fxi_host_each_row(fxi_host *h, fxi_row_fn *fn)
{
    fxi_compute_rows(&h->compute, h->n_row, fn, h);
}

// The activations whose f32 rows begin at x; the Q8 buffers hold their rounded form.
static inline fxi_act fxi_host_act(const fxi_host *h, const float *x)
{
    const fxi_host_buffers *s = &h->s;
    return (fxi_act){.x = x, .q = s->act_q, .d = s->act_d, .sum = s->act_sum};
}

// Rounds n_elem numbers to row `row` of the Q8 buffers, whose rows have n_elem numbers.
void fxi_host_quant_row(const fxi_host *h, const float *x, int n_elem, int row);
void fxi_host_norm_runs(const fxi_host *h, const fxi_rownorm *norm, const float *x, int n_run,
                        float *y);

// ---- host_latent.c: latent layers ---------------------------------------------------------------

fx_status fxi_host_latent_store(fxi_device *d, const fxi_layer *l, fx_error *err);
// heads = a head's result of attention x its v_up, for all heads of the rows that are computed.
void fxi_host_expand_heads(fxi_host *h);

// ---- host_states.c: recurrent layers with states ------------------------------------------------

void fxi_host_states_store(fxi_host *h);
void fxi_host_states_mix(fxi_host *h);

// ---- host_recur.c: fxi_device_ops of recurrent layers ------------------------------------------

fx_status fxi_host_recur_store(fxi_device *d, const fxi_layer *l, fx_error *err);
fx_status fxi_host_recur(fxi_device *d, const fxi_layer *l, fx_error *err);

// ---- host_steps.c: fxi_device_ops --------------------------------------------------------------

// The parameters of attention that all layers and batches share.
fxi_attn_pass fxi_host_attn_pass(const fxi_host *h);
// att is complete: brings its rows into the form that l->o reads.
void fxi_host_finish_att(fxi_host *h, const fxi_layer *l);

fx_status fxi_host_begin(fxi_device *d, const fxi_batch *batch, float *logits, fx_error *err);
fx_status fxi_host_keep_rows(fxi_device *d, fx_error *err);
fx_status fxi_host_embed(fxi_device *d, const fxi_next_norm *next, fx_error *err);
fx_status fxi_host_add_norm(fxi_device *d, const fxi_branch_end *end, fx_error *err);
fx_status fxi_host_return_rows(fxi_device *d, int n_row, fx_error *err);
fx_status fxi_host_rope_store(fxi_device *d, const fxi_layer *l, fx_error *err);
fx_status fxi_host_attention(fxi_device *d, const fxi_layer *l, fx_error *err);
fx_status fxi_host_linear(fxi_device *d, fxi_operand a, const fxi_device_linear *job, int n_job,
                          fx_error *err);
fx_status fxi_host_ffn(fxi_device *d, const fxi_ffn *f, fx_error *err);
fx_status fxi_host_logits(fxi_device *d, int n_row, fx_error *err);
fx_status fxi_host_best(fxi_device *d, int n_row, fx_error *err);
fx_status fxi_host_experts(fxi_device *d, const fxi_experts *x, fx_error *err);

#endif
