// kernels.h - the numeric operations of a forward pass, and their order of rounding.
//
// THE LAW OF ORDER. The text below defines each result down to the last bit; ref/ states it in
// plain C, and every other path must give the same bits (tests compare with ==). So a token's
// logits depend on nothing but its own sequence: not on the batch, the chunking of the prompt, the
// number of threads, or the instruction set.
//
//  linear, float weights
//      y[o] is one chain of fused multiply-adds over k = 0, 1, .., n_in-1, starting from +0:
//      acc = fma(w[o][k] widened to f32, x[k], acc)
//  linear, block types (Q8_0, Q4_K, ..)
//      x is rounded to blocks of 32 with a scale dx each (quant_q8). For each run of numbers that
//      share a scale dw (32 of them, 16 in Q2_K, Q3_K, Q6_K) in ascending order, with the exact
//      integers s = sum of (value(code) - zero) x q and sum = sum of q over the run:
//          acc = fma(dw x (float)s, dx, acc)
//          acc = fma(min, dx x (float)sum, acc)   with a minimum: Q4_1, Q5_1, Q2_K, Q4_K, Q5_K
//      dw is d, or the exact d x sc; min is m, or the exact -(m x mn) (base/number/qblock.h); the
//      products dw x (float)s (a zero counts as +0) and dx x (float)sum are rounded
//  sum16
//      the sum of n numbers: lane j of 16 starts from +0 and adds the elements j, j+16, j+32, .. in
//      ascending order (by fma if they are products), then the lanes are folded in halves:
//      a[j] += a[j+8], +4, +2, +1
//  rms_norm
//      mean = sum16(x * x) / n; y = (x * (1 / sqrtf(mean + eps))) * w
//  layer_norm
//      mean = sum16(x) / n; c = x - mean; var = sum16(c * c) / n;
//      y = fma(c * (1 / sqrtf(var + eps)), w, b), or without b the product with w, rounded
//  expf, tanhf, erff, softplusf
//      fxi_expf, fxi_tanhf, fxi_erff, fxi_softplusf of ref/mathf.h, operation by operation
//  activations, softcap
//      see fxi_activation and softcap below
//  attention
//      see attention below
//  short convolutions, recurrent layers
//      see fxi_conv and fxi_recur below
//
// The law holds for finite numbers, and for scales dw below 2^100. NaN and inf give unspecified
// results, but never corrupt memory.
//
// Arguments of kernels are plain data. Kernels do not allocate, cannot fail and do not know about
// threads: callers divide the work along the units named here (output panels, heads, segments),
// which never changes a bit.
#ifndef FXI_KERNELS_H
#define FXI_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/number/dtype.h"
#include "kernels/kv_view.h"

// ---- linear layers -----------------------------------------------------------------------------

#define FXI_PANEL 16 // interleaved outputs: the unit of packing and of parallel work

// Weights of one linear layer, packed into panels (layout: linear.c). The weights of outputs beyond
// n_out in the last panel are zero.
typedef struct fxi_linear {
    fxi_dtype type;
    int n_in, n_out; // n_in >= 1, a multiple of the numbers in the type's block
    int group;       // of a float type: so many panels lie row by row; 0: each for itself
    int panel0;      // of data: where the outputs begin, if this is a part of another layer
    void *data;      // 64-byte aligned, owned by whoever packed it
} fxi_linear;

int fxi_linear_n_panel(int n_out);
// Outputs row0 .. row0 + n_row - 1 of w, as a layer. Pre: row0 is a multiple of FXI_PANEL.
fxi_linear fxi_linear_part(const fxi_linear *w, int row0, int n_row);
size_t fxi_linear_bytes(const fxi_linear *w); // of data; a multiple of 64
// Packs one panel. rows: [n_out][n_in] numbers of w->type in GGUF's layout, at any address.
void fxi_linear_pack_panel(const fxi_linear *w, const void *rows, int panel);

// Row `row` (an output) as f32, [n_in]: bit-identical to fxi_row_to_f32 of that row of the file.
void fxi_linear_row(const fxi_linear *w, int row, float *dst);
// Whether a layer with these weights reads activations rounded to Q8, not f32.
bool fxi_linear_reads_q8(const fxi_linear *w);

// Activations as linear layers read them: f32 rows, or the same rows rounded to Q8. Only the form
// that the weights need is read (fxi_linear_reads_q8).
typedef struct fxi_act {
    const float *x; // [n_tok][n_in]
    int8_t *q;      // [n_tok][n_in]
    float *d;       // [n_tok][n_in / 32]
    int32_t *sum;   // [n_tok][n_in / 16] sums of runs of 16 of q
} fxi_act;

// ---- attention ---------------------------------------------------------------------------------

#define FXI_ATTN_SEGMENT 256 // positions per segment of a walk over the cache
#define FXI_ATTN_TILE    64  // positions that fast paths process at a time; not part of the law
#define FXI_ATTN_MAX_TOK 32

// Bytes of n neighbouring numbers of a cache's row. A cache is F32, F16, BF16 or, if head_dim is a
// multiple of 32, Q8_0; for Q8_0, n is a multiple of 32 too.
size_t fxi_kv_bytes(fxi_dtype type, int n);

// One call of attention: n_tok neighbouring tokens of one sequence and n_kv_head KV heads from
// kv_head on, each with the `group` query heads that read it (KV head h: query heads h * group and
// on). For few tokens, one call for many heads is faster than a call per head, because the heads'
// rows of the cache are neighbours in memory.
typedef struct fxi_attn {
    fxi_kv_view view;
    fxi_dtype kv_type; // of the cache, see fxi_kv_bytes
    int layer;
    int kv_head, n_kv_head, n_head, head_dim, group; // n_head: all query heads of the model
    // 0: a value is a row of its own, of head_dim numbers, in the plane after that of the keys.
    // Otherwise (latent attention) a layer has one plane, whose rows have one key for all KV heads,
    // and a value is the first v_dim numbers of it; of Q8_0 v_dim is a multiple of 32.
    int v_dim;
    int n_tok; // n_tok * n_kv_head is 1 to FXI_ATTN_MAX_TOK
    int pos;   // position of the first token; token i has position p = pos + i
    int n_pos; // 0: causal, a token attends to positions 0 .. p; otherwise to 0 .. n_pos - 1
    // 0: no window. Otherwise a token attends only to positions j > p - window, and j < p + window.
    int window;
    float softcap;     // 0: none, otherwise scores are capped to [-softcap, softcap]
    const float *sink; // NULL, or [n_head]: a score of each head with no value
    const float *q;    // [n_tok][n_head][head_dim] from the first token on, all heads
    float *out;        // [n_tok][n_head][fxi_attn_value_dim]
    float scale;       // multiplies every q . k
    float *scratch;    // fxi_attn_scratch floats
    // NULL, or the call that this thread makes next, of the same kv_type: its first rows are
    // prefetched.
    const struct fxi_attn *then;
} fxi_attn;

// Numbers of a value, and of a head's result.
static inline int fxi_attn_value_dim(const fxi_attn *a)
{
    return a->v_dim ? a->v_dim : a->head_dim;
}

// Where a KV head's numbers begin in a row.
static inline int fxi_attn_head_at(const fxi_attn *a, int kv_head)
{
    return a->v_dim ? 0 : kv_head * a->head_dim;
}

// The planes of the layer's keys and values in the view.
static inline int fxi_attn_key_plane(const fxi_attn *a)
{
    return a->v_dim ? a->layer : 2 * a->layer;
}

static inline int fxi_attn_value_plane(const fxi_attn *a)
{
    return a->v_dim ? a->layer : 2 * a->layer + 1;
}

// Attention is defined for each query row on its own. With q' = q * scale, all positions are cut
// into segments of 256 from position 0 on. Within a segment, for ascending j among the positions
// that the token attends to:
//   s[j] is one chain over d = 0, 1, .. from +0:    s = fma(q'[d], k[j][d], s)
//   with a softcap:                                 s = softcap * tanhf(s * (1 / softcap))
//   m = max of all s[j];  p[j] = expf(s[j] - m);  l = sum16(p)
//   acc[d] is one chain over j from +0:             acc = fma(p[j], v[j][d], acc)
// sum16 takes the segment's positions as they are: position j of it is in lane j % 16. Segments
// (ms, ls, accs) merge in ascending order, from m = -inf, l = 0 or, with a sink, m = sink, l = 1,
// and acc = +0. Segments that the token does not attend to are passed over.
//   m' = max(m, ms);  e = expf(m - m');  es = expf(ms - m')
//   l = fma(ls, es, l * e);  acc = fma(accs + 0, es, acc * e)
// out = acc * (1 / l). Adding +0 turns -0 into +0, so that positions of weight 0 before a row's
// first one and after its last one change nothing. Only positions that some token of the call
// attends to are ever read: the rest of the cache may be absent.
//
// Keys and values are the cache's numbers as f32; for Q8_0 scale times integer, exactly.

// Floats of scratch that attention needs in calls of up to n_row query rows: n_tok * n_kv_head *
// group.
size_t fxi_attn_scratch(int n_row, int head_dim, int value_dim);

// The partial result of one query row and one segment: m, l, and from float 16 on acc.
#define FXI_ATTN_PART_ACC 16
int fxi_attn_n_segment(int n_pos); // segments of positions 0 .. n_pos - 1
size_t fxi_attn_part_floats(int value_dim);

// Initialisers of fxi_kernels.linear that use one function for all block types.
#define FXI_QUANT_TYPES(fn)                                                              \
    [FXI_Q4_0] = fn, [FXI_Q4_1] = fn, [FXI_Q5_0] = fn, [FXI_Q5_1] = fn, [FXI_Q8_0] = fn, \
    [FXI_Q2_K] = fn, [FXI_Q3_K] = fn, [FXI_Q4_K] = fn, [FXI_Q5_K] = fn, [FXI_Q6_K] = fn, \
    [FXI_IQ4_NL] = fn, [FXI_IQ4_XS] = fn, [FXI_MXFP4] = fn

// ---- activations -------------------------------------------------------------------------------

// act(x) for rows, and act(gate) * up, rounded after act, for gated layers.
typedef enum fxi_activation {
    FXI_ACT_SILU,     // x / (1 + expf(-x))
    FXI_ACT_GELU,     // the tanh form: x / (1 + expf((A * x) * fma(B * x, x, 1)))
    FXI_ACT_GELU_ERF, // (0.5 * x) * (1 + erff(x * sqrt(1/2)))
    FXI_ACT_RELU,     // x > 0 ? x : 0
    FXI_ACT_SIGMOID,  // 1 / (1 + expf(-x))
    FXI_ACT_SOFTPLUS, // softplusf(x)
    FXI_ACT_RELU2,    // r * r, r = x > 0 ? x : 0
    // Gated only, of gpt-oss: with g = min(gate, LIMIT) and u = up clamped to [-LIMIT, LIMIT],
    // (g / (1 + expf(-(ALPHA * g)))) * (u + 1)
    FXI_ACT_CLAMPED,
    FXI_ACT_END
} fxi_activation;

#define FXI_GELU_A       (-1.5957691216f) // -2 sqrt(2 / pi)
#define FXI_GELU_B       0.044715f
#define FXI_SQRT_HALF    0.70710678119f
#define FXI_SWIGLU_ALPHA 1.702f
#define FXI_SWIGLU_LIMIT 7.0f

typedef void fxi_act_fn(const float *x, int n, float *y); // y may be x
// y may be gate or up.
typedef void fxi_gate_fn(const float *gate, const float *up, int n, float *y);

// ---- recurrent layers --------------------------------------------------------------------------

#define FXI_MAX_TAP 16

// A causal convolution of each channel on its own, for one token. For channel c one chain over taps
// j = 0, 1, .., n_tap - 1, from b[c], or from +0 without b:
//   y[c] = fma(x[j][c], w[j][c], y[c])
// x[n_tap - 1] is the token's own row, x[0] the one n_tap - 1 tokens before it; rows before the
// sequence's first token are NULL, and left out.
typedef struct fxi_conv {
    int n_tap, n_channel;
    const float *w;        // [n_tap][n_channel]
    const float *b;        // [n_channel]; NULL: none
    const float *const *x; // [n_tap] rows of n_channel numbers
    float *y;              // [n_channel] none of the rows
} fxi_conv;

// A layer of states keeps, for each head, one matrix S of n_key rows of n_value numbers instead of
// rows for all tokens. Tokens are cut into blocks of FXI_RECUR_TOK from position 0 on, and S is
// known where a block begins; a token's results depend on that S and on the tokens of its block.
// So a prompt at once, in pieces and in single tokens gives the same bits.
//
// Token t of a block brings a query q, a key k of n_key numbers, values v of n_value numbers, a
// factor b and, in g, the logarithm of a decay, summed over the tokens of the block up to its own.
// With a[t] = expf(g[t]), c[t][s] = expf(g[t] - g[s]), sum2 of n numbers as the chain over the even
// ones plus that over the odd ones, each from +0 and by fma, and x a query or a key of token t:
//   recall(x, n)[j] = fma(sum2 over i of S[i][j] * x[i], a[t],
//                         sum2 over s < n of (c[t][s] * sum16(x * k[s])) * u[s][j])
//   u[t][j] = (v[j] - recall(k, t)[j]) * b      with the delta rule; otherwise u = v * b, rounded
//   out[t][j] = recall(q, t + 1)[j]
// and at the end of a block, with t its last token, the next one's S is a chain over s = 0, 1 ..
//   S[i][j] = fma(c[t][s] * k[s][i], u[s][j], S[i][j]) from S[i][j] * a[t]
// Of all factors products are rounded as written. A state that is all zero is NULL; its sum is +0.
//
// This is the gated delta rule in blocks (Yang et al., arXiv 2412.06464), and without the delta
// rule Mamba-2 (Dao and Gu, arXiv 2405.21060): k and q are its B and C, v is x, b is dt, and g
// sums A dt.

#define FXI_RECUR_TOK     FXI_KV_STATE_TOK
#define FXI_RECUR_MAX_KEY 256 // numbers of a key

// One head and some tokens of one block. Columns of S, v, u and out do not depend on each other:
// callers may divide them, too.
typedef struct fxi_recur {
    int n_key, n_value;
    int column0, n_column;
    int first, n_tok;   // tokens first .. first + n_tok - 1 of the block
    const float *state; // [n_key][n_value] where the block begins; NULL: all zero
    // Of the block's first token; row_step floats later those of the next one. u of the tokens
    // before `first` are there.
    const float *k; // [n_key]
    const float *g; // 1 number
    float *u;       // [n_value]
    size_t row_step;
    // Of token `first`; in_step floats later those of the next one. recur_read reads x, its
    // queries [n_key]; recur_update reads x, its values [n_value], and b.
    const float *x;
    size_t in_step;
    const float *b; // 1 number; b_step floats later that of the next token
    size_t b_step;
    float *out; // [n_value] of recur_read; out_step floats later that of the next token
    size_t out_step;
} fxi_recur;

// ---- routing -----------------------------------------------------------------------------------

// What becomes of a router's logits: the score p of an expert.
typedef enum fxi_route_score {
    FXI_ROUTE_SOFTMAX, // expf(logit - the largest logit), still to be divided by a sum
    FXI_ROUTE_SIGMOID  // fxi_sigmoid(logit)
} fxi_route_score;

// What a router's weights are divided by.
typedef enum fxi_route_norm {
    FXI_ROUTE_ALL,   // the sum over all experts: softmax, then the choice. A sigmoid: nothing
    FXI_ROUTE_CHOSEN // the sum over those chosen: softmax of the chosen ones alone
} fxi_route_norm;

#define FXI_MAX_EXPERT_GROUP 64
#define FXI_ROUTE_TINY       1e-20f // added to the sum over those chosen, whose scores may all be 0

typedef struct fxi_router {
    int n_expert, n_used; // 1 <= n_used <= n_expert
    fxi_route_score score;
    fxi_route_norm norm;
    // Groups of as many neighbouring experts each, up to FXI_MAX_EXPERT_GROUP of them; experts are
    // chosen from n_group_used of them. n_group 0: there is one.
    int n_group, n_group_used;
    float scale; // of the weights
} fxi_router;

// Chooses n_used experts by their keys in descending order, the lower index first among equals, and
// weighs them. (DeepSeek-AI, arXiv 2405.04434 and 2412.19437.)
//   key     softmax: the logit, or with a bias p / sum16(p of all) + bias; sigmoid: p (+ bias)
//   groups  the key of a group is the largest of its experts', for a sigmoid the sum of the largest
//           two (of one if it has only one); those with the largest keys are open, the lower index
//           first among equals; experts of the others are not chosen
//   weight  p / sum * scale; sum is sum16 of p in the order of experts or, for FXI_ROUTE_CHOSEN,
//           sum16 in the order of choice + FXI_ROUTE_TINY; without a sum p * scale
// logits: [n_expert], finite; bias: the same, of the choice alone; NULL: none.
void fxi_route_experts(const fxi_router *r, const float *logits, const float *bias, int *expert,
                       float *weight);

// The weight of an expert that every token has: 1 / (1 + expf(-x)).
float fxi_sigmoid(float x);

// ---- the table ---------------------------------------------------------------------------------

typedef void fxi_linear_fn(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                           float *y, size_t ldy);

typedef struct fxi_kernels {
    const char *name; // "avx512-vnni", "avx512", "avx2-vnni", "avx2", "ref"

    // Writes y[t][o], at y + t * ldy + o, for t in [0, n_tok) and the outputs o < n_out of the
    // panels [panel0, panel1). n_tok >= 1. Bits do not depend on how tokens and panels are divided
    // into calls. Fastest if the panels of a call are a multiple of 4 and it has all tokens.
    fxi_linear_fn *linear[FXI_DTYPE_END]; // by the weights' type; NULL: not supported
    int linear_group;                     // panels of a float type that are computed at once

    // Rounds a row of n numbers (a multiple of 32) to Q8: d = max|x| / 127, q = round to nearest
    // even of x * (1 / d), sum of q per run of 16. If 1 / d is inf (max|x| below about 2^-121), d
    // and all q are 0.
    void (*quant_q8)(const float *x, int n, int8_t *q, float *d, int32_t *sum);

    void (*rms_norm)(const float *x, const float *w, int n, float eps, float *y); // y may be x
    // b may be NULL; y may be x
    void (*layer_norm)(const float *x, const float *w, const float *b, int n, float eps, float *y);
    void (*add)(float *y, const float *x, int n);                 // y += x
    void (*add_scaled)(float *y, const float *x, float f, int n); // y = fma(x, f, y)
    void (*scale)(float *x, float f, int n);                      // x *= f
    void (*multiply)(float *y, const float *x, int n);            // y *= x
    void (*softcap)(float *x, float cap, int n);                  // x = cap * tanhf(x * (1 / cap))
    fxi_act_fn *act[FXI_ACT_END];                                 // NULL for FXI_ACT_CLAMPED
    fxi_gate_fn *gate[FXI_ACT_END];
    // Rotates the pairs (x[2i], x[2i+1]) of each head's first 2 * n_pair numbers by the angles
    // cos/sin[i]: (fma(x0, c, -(x1 * s)), fma(x1, c, x0 * s)).
    void (*rope)(float *x, int n_head, int head_dim, int n_pair, const float *cos,
                 const float *sin);
    void (*conv)(const fxi_conv *c);
    void (*recur_update)(const fxi_recur *r); // u of the tokens, by the delta rule
    void (*recur_read)(const fxi_recur *r);   // out of the tokens; their u are there
    // The state after the block, whose last token is the call's last one. next is not r->state.
    void (*recur_state)(const fxi_recur *r, float *next);
    // Stores a row of f32 as the cache's type. 16 bits: rounded to nearest even; Q8_0: blocks of 32
    // as quant_q8 gives them, their scale rounded to f16.
    void (*store_kv[FXI_DTYPE_END])(const float *src, int n, void *dst);

    // All of a call; or the same in two steps, on any threads: attention_part for ranges of
    // segments that together cover all of them, then attention_merge.
    // part: [n_kv_head][n_segment][n_tok * group][fxi_attn_part_floats], where n_segment is
    // fxi_attn_n_segment of the positions up to the last one that the call attends to. Segments
    // that it does not attend to are left as they are, and need not be asked for.
    void (*attention)(const fxi_attn *a);
    void (*attention_part)(const fxi_attn *a, int segment0, int segment1, float *part);
    void (*attention_merge)(const fxi_attn *a, const float *part);
} fxi_kernels;

// The table of path `want`, or the best one for this machine if want is NULL. NULL if the path is
// unknown or this machine cannot run it.
const fxi_kernels *fxi_kernels_get(const char *want);

// How many panels of a float layer should lie row by row (fxi_linear.group) for k to read them
// fastest on this machine. Any other number gives the same bits.
int fxi_linear_best_group(const fxi_kernels *k);

#endif
