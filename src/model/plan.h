// plan.h - a transformer as data: what each layer does, in the order in which it does it.
//
//   x = embedding[token] (Win, where it is narrower) (x a scale, + the type of its text,
//       + a learned position)
//   per layer:  h = norm(x);  q, k, v = h W + b
//               q, k = norm(q), norm(k), rotated;  the K, V rows are stored in the cache
//               x += norm(attention(q) Wo + bo)
//               h = norm(x);  x += norm(feed(h))
//   logits = norm(x) (Wout) Woutput (x a scale, limited)
//
//   feed(h) = (act(h Wgate) * h Wup) Wdown, or act(h Wup) Wdown, or the weighted sum of the experts
//             that a router chooses
//   parallel layers add both branches at their end, so that feed does not see attention's result
//   post-norm layers: where a norm is read, its result replaces x: x = norm(x), h = x; in some
//   others the norm of the embeddings does
//
// Every norm, bias and scale may be absent: load/loading.h says which family has what. A norm
// before a branch that is absent copies; a norm after a branch that is absent does nothing.
//
// Only a few rows need logits: after the K and V of the last layer nothing is computed for the
// others.
//
// Addresses of weights are the device's (device.h): the host compares them with NULL, and reads
// nothing there.
//
// Vaswani et al., arXiv 1706.03762; Touvron et al., LLaMA, arXiv 2302.13971; Llama 2, arXiv
// 2307.09288 (grouped queries); Shazeer et al., arXiv 1701.06538 (experts).
#ifndef FXI_MODEL_PLAN_H
#define FXI_MODEL_PLAN_H

#include "base/system/pool.h"
#include "base/system/regions.h"
#include "kernels/kernels.h"
#include "model/model.h"

// ---- rotary position embedding ------------------------------------------------------------------
//
// The angles are a table that grows where positions are used. Pair i of a head is rotated by the
// angle pos x scale x freq[i] (Su et al., RoFormer, arXiv 2104.09864), and both numbers are
// multiplied by `gain`. Usually freq[i] = base^(-2 i / n_rot); the other kinds of long-context
// models change these numbers (load/rope_read.c). Computed in double, stored as f32: an angle
// depends on its position alone.
//
// A table is address space for all positions of the context. Memory and time are spent on blocks of
// FXI_ROPE_BLOCK positions, when a pass first has a token there. It is host memory: every device
// reads the same numbers.

#define FXI_ROPE_BLOCK 64

typedef struct fxi_rope {
    // What the angles are made of.
    int n_rot, n_pair; // rotated numbers of a head, even, and n_rot / 2
    double base;       // of the frequencies
    double scale;      // of positions: 1 / the linear factor
    double gain;       // of cos and sin
    // From position dynamic_tok on the base grows with the position, as if the sequence ended
    // there: base x (dynamic_factor x (pos + 1) / dynamic_tok - dynamic_factor + 1)^(n_rot /
    // (n_rot - 2)). 0: never. (Dynamic NTK scaling, as Hugging Face's models compute it token by
    // token.)
    int dynamic_tok;
    double dynamic_factor;
    double *freq; // [n_pair] owned

    // The table.
    int n_pos;
    float *cos;       // [n_pos][n_pair]
    float *sin;       // same shape
    size_t map_bytes; // of both
    bool *is_made;    // [blocks]
} fxi_rope;

// Gives r, whose first members are set, a table for positions 0 .. n_pos-1, without any of them.
// Errors: FX_ENOMEM; r is closed then.
fx_status fxi_rope_open(fxi_rope *r, int n_pos, fx_error *err);
void fxi_rope_close(fxi_rope *r); // all zero is allowed

// Makes the angles of n positions from pos on, where they are missing; allocates nothing. Pre: they
// are in the table.
void fxi_rope_reach(fxi_pool *pool, fxi_rope *r, int pos, int n);

// ---- the plan -----------------------------------------------------------------------------------

// Normalises runs of n numbers; the weights of a run begin `step` after those of the one before.
typedef struct fxi_rownorm {
    float *w; // NULL: no norm
    float *b; // NULL: none
    int n, step;
    bool replaces; // its result is x from there on
} fxi_rownorm;

// y = x w + b
typedef struct fxi_affine {
    fxi_linear w;
    float *b; // NULL: none
} fxi_affine;

typedef struct fxi_ffn {
    fxi_affine gate, up, down; // dim -> n_ffn twice, and back; gate may be absent (no data)
} fxi_ffn;

// One matrix per expert, of the same shape and type, and its bias.
typedef struct fxi_expert_linear {
    fxi_linear *w; // [n_expert]; NULL: absent
    float *b;      // [n_expert][n_out]; NULL: none
} fxi_expert_linear;

typedef struct fxi_experts {
    fxi_affine router; // dim -> n_expert
    fxi_expert_linear gate, up, down;
    fxi_ffn shared;     // for every token; no data: none
    fxi_linear sh_gate; // dim -> 1, through a sigmoid the weight of `shared`; no data: 1
} fxi_experts;

typedef struct fxi_layer {
    fxi_rownorm attn_in, attn_out; // before and after attention
    fxi_rownorm ffn_in, ffn_out;   // before and after the feed-forward block
    fxi_rownorm q_norm, k_norm;
    fxi_affine q, k, v, o; // dim -> n_head x head_dim | n_kv_head x head_dim twice | back to dim
    float *sink;           // [n_head] NULL: none
    bool is_windowed;
    int kv_group, kv_layer; // where its rows are: group of the cache, layer of that group
    fxi_rope *rope;         // NULL: positions do not rotate
    fxi_ffn ffn;            // if experts is NULL
    fxi_experts *experts;   // owned
} fxi_layer;

typedef enum fxi_rownorm_kind { FXI_NORM_RMS, FXI_NORM_LAYER } fxi_rownorm_kind;

// What all layers share.
typedef struct fxi_rules {
    fxi_rownorm_kind norm;
    float eps;
    fxi_activation act;
    bool is_parallel, is_post_norm;
    float embd_scale, residual_scale, attn_scale, logit_scale;
    float attn_cap, logit_cap; // 0: none
    int window;                // of windowed layers; 0: there are none
    // Queries are multiplied by 1 + log_scale x log(1 + floor(pos / log_tok)); 0: not.
    float log_scale;
    int log_tok;
    int n_expert, n_used, n_expert_ffn, n_shared_ffn;
    fxi_route_norm route;
    float expert_scale; // of the chosen experts' weights
} fxi_rules;

struct fxi_transformer;

// The parts of a model that several devices compute together (device.h), and what of a batch
// differs between them.
typedef struct fxi_model_ranks {
    int n;                                      // 0: one device has the whole model
    struct fxi_transformer *part[FXI_MAX_RANK]; // [n] owned
    fxi_batch batch[FXI_MAX_RANK];              // [n] of the pass that runs
    const fxi_batch *all;                       // the same, as it was given
    int32_t *best[FXI_MAX_RANK];                // [n][max_logit] among its part of the vocabulary,
    float *best_logit[FXI_MAX_RANK];            // and its logit; memory of the device for results
    fxi_batch_seq *seq; // [n - 1][max_seq] its sequences, with the views of devices 1 and on
    int max_seq;
} fxi_model_ranks;

typedef struct fxi_transformer {
    fxi_model model;        // first: a fxi_model is cast to this
    struct fxi_device *dev; // where the weights are; NULL: it was only inspected
    bool owns_dev;
    fxi_model_ranks ranks; // not empty: this one says what the whole model is and has no weights
    int ctx_tok;           // most positions of a sequence
    fxi_rules rules;
    fxi_rope rope[2];     // of layers without and with windows; n_pair 0: not used
    fxi_arena mem;        // of what lists layers and experts
    fxi_linear embd;      // a row for each token; `output` may be some or all of them
    fxi_linear positions; // no data: none are learned
    float *token_type;    // [n_token_type][dim] of the first text of a sequence, and the second
    int n_token_type;     // 0 to 2
    fxi_rownorm out_norm;
    fxi_affine output; // no data: the model does not generate, or this rank has none of its rows
    int vocab0;        // the token of output's first row: others are before it in other ranks
    fxi_layer *layer;  // [n_layer]
    // Between embeddings and x, where their widths differ; no data: they are as wide.
    fxi_linear embd_in, embd_out;
} fxi_transformer;

#endif
