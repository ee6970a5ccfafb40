// llama.h - the Llama family: RMSNorm, rotary embedding on interleaved pairs, grouped-query
// attention, SwiGLU.
//
//   x = embedding[token]
//   per layer:  h = norm(x);  q, k, v = h W;  rotate q, k;  store the K, V rows in the cache
//               x += attention(q) Wo
//               h = norm(x);  x += (silu(h Wgate) * (h Wup)) Wdown
//   logits = norm(x) Woutput
//
// Only a few rows need logits: after the K and V of the last layer nothing is computed for the
// others.
//
// Touvron et al., LLaMA, arXiv 2302.13971; Llama 2, arXiv 2307.09288 (grouped queries).
#ifndef FXI_MODEL_LLAMA_H
#define FXI_MODEL_LLAMA_H

#include "model/arch.h"
#include "model/compute.h"
#include "model/rope.h"
#include "model/weights.h"

typedef struct llama_layer {
    float *attn_norm, *ffn_norm; // [dim]
    fxi_linear q, k, v, o; // dim -> n_head x head_dim | n_kv_head x head_dim twice | back to dim
    fxi_linear gate, up, down; // dim -> n_ffn twice, and back
} llama_layer;

// Buffers of one pass, sized at load for the largest batch.
typedef struct llama_scratch {
    float *x;          // [n_tok][dim] the residual stream
    float *h;          // [n_tok][dim] normalised, or what a block adds to x
    float *q, *att;    // [n_tok][n_head][head_dim]
    float *k, *v;      // [n_tok][n_kv_head][head_dim]
    float *attn, *ffn; // scratch of fxi_compute_attention and fxi_compute_ffn
    int8_t *act_q;     // [n_tok][widest of h, att] rounded to Q8
    float *act_d;      // [n_tok][widest / 32]
    int32_t *act_sum;  // [n_tok][widest / 16]
    float *mid;        // [n_tok][n_ffn] input of down, if a layer reads f32
    int8_t *mid_q;     // the same rounded to Q8, if a layer reads that
    float *mid_d;
    int32_t *mid_sum;
    const fxi_batch_seq **tok_seq; // [n_tok] the sequence of each token
    int *tok_pos;                  // [n_tok]
    fxi_attn_block *block;         // [n_tok] at most
    int *logit_row;                // [max_batch_logit] rows that want logits
} llama_scratch;

typedef struct llama {
    fxi_model model; // first: a fxi_model is cast to this
    fxi_compute compute;
    int ctx_tok; // most positions of a sequence
    float rms_eps;
    int n_rot; // rotated numbers of a head
    float rope_base, rope_scale;
    fxi_rope rope;
    fxi_arena mem; // of all weights
    fxi_rows embd; // no data: the embedding is the rows of output
    float *out_norm;
    fxi_linear output;
    llama_layer *layer; // [n_layer]
    llama_scratch s;
} llama;

// llama_load.c
fx_status fxi_llama_load(const fxi_gguf *g, const fxi_model_options *opt, fxi_model **out,
                         fx_error *err);
void fxi_llama_free(fxi_model *m);

// llama.c
void fxi_llama_forward(fxi_model *m, const fxi_batch *batch, float *logits);

#endif
