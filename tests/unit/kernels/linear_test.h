// linear_test.h - shared by the tests of linear layers: packed layers with activations and ref's
// result, and the comparison of every path with it.
#ifndef LINEAR_TEST_H
#define LINEAR_TEST_H

#include "kernels/linear.h"
#include "kernels_test.h"

static const fxi_dtype types[] = {FXI_F32,  FXI_F16,    FXI_BF16,   FXI_Q8_0, FXI_Q4_0, FXI_Q4_1,
                                  FXI_Q5_0, FXI_Q5_1,   FXI_Q2_K,   FXI_Q3_K, FXI_Q4_K, FXI_Q5_K,
                                  FXI_Q6_K, FXI_IQ4_NL, FXI_IQ4_XS, FXI_MXFP4};
enum { N_TYPE = sizeof types / sizeof types[0] };

// The shape and type of a layer, and its number of tokens.
typedef struct plan {
    fxi_dtype type;
    int n_in, n_out, n_tok;
    int group; // of panels
} plan;

typedef struct layer {
    fxi_linear w;
    int n_tok;
    fxi_act act; // of n_tok tokens
    char *raw;   // the rows in the file's format
    float *x;    // [n_tok][n_in]
    float *want; // [n_tok][n_out] ref's result
} layer;

static inline size_t row_bytes(fxi_dtype type, int n_in)
{
    const fxi_dtype_info *t = fxi_dtype_find(type);
    return (size_t)n_in / t->block_elems * t->block_bytes;
}

static inline void layer_quantise(layer *l)
{
    size_t n_in = (size_t)l->w.n_in, n_tok = (size_t)l->n_tok;
    l->act.q = guarded_new(n_tok * n_in);
    l->act.d = floats(n_tok * n_in / 32);
    l->act.sum = guarded_new(n_tok * n_in / 16 * sizeof(int32_t));
    for (size_t at = 0; at < n_tok * n_in; at += n_in)
        ref_path()->quant_q8(l->x + at, l->w.n_in, l->act.q + at, l->act.d + at / 32,
                             l->act.sum + at / 16);
}

// raw: [n_out] rows, x: [n_tok][n_in]. Takes ownership of both.
static inline layer layer_make(plan p, char *raw, float *x)
{
    layer l = {.w = {.type = p.type, .n_in = p.n_in, .n_out = p.n_out, .group = p.group},
               .n_tok = p.n_tok,
               .act = {.x = x},
               .raw = raw,
               .x = x};
    size_t n_byte = row_bytes(p.type, p.n_in) * (size_t)p.n_out;
    char *odd = guarded_new(n_byte + 1); // rows at an odd address, as in a file
    memcpy(odd + 1, raw, n_byte);
    l.w.data = guarded_new(fxi_linear_bytes(&l.w));
    int n_panel = fxi_linear_n_panel(p.n_out);
    for (int i = 0; i < n_panel; i++) fxi_linear_pack_panel(&l.w, odd + 1, i);
    guarded_free(odd);
    if (fxi_linear_reads_q8(&l.w)) layer_quantise(&l);
    l.want = floats((size_t)p.n_tok * (size_t)p.n_out);
    ref_path()->linear[p.type](&l.w, &l.act, p.n_tok, 0, n_panel, l.want, (size_t)p.n_out);
    return l;
}

static inline void layer_free(layer *l)
{
    guarded_free_all(l->w.data, l->raw, l->x, l->want, l->act.q, l->act.d, l->act.sum);
}

// The activations from token t on.
static inline fxi_act act_from(const layer *l, int t)
{
    size_t at = (size_t)t * (size_t)l->w.n_in;
    fxi_act a = {.x = l->x + at};
    if (l->act.q) a.q = l->act.q + at, a.d = l->act.d + at / 32, a.sum = l->act.sum + at / 16;
    return a;
}

// Activation k of token t as this layer reads it: x, or q * d.
static inline double act_value(const layer *l, size_t t, size_t k)
{
    size_t at = t * (size_t)l->w.n_in + k;
    return l->act.q ? (double)l->act.q[at] * (double)l->act.d[at / 32] : (double)l->x[at];
}

static inline void *copy_of(const void *p, size_t n_bytes)
{
    return memcpy(guarded_new(n_bytes), p, n_bytes);
}

// Runs tokens [0, n_tok) in one call, on activations that end with the last of them. Rows of y are
// wider than n_out; nothing may be written beyond n_out.
static inline void same_bits(const fxi_kernels *k, const layer *l, int n_tok)
{
    size_t n_out = (size_t)l->w.n_out, ldy = n_out + 5;
    float *y = floats((size_t)n_tok * ldy);
    for (size_t i = 0; i < (size_t)n_tok * ldy; i++) y[i] = 12345;
    const size_t n_x = (size_t)(n_tok * l->w.n_in);
    fxi_act a = {0};
    if (l->act.q) {
        a.q = copy_of(l->act.q, n_x);
        a.d = copy_of(l->act.d, n_x / 32 * sizeof *a.d);
        a.sum = copy_of(l->act.sum, n_x / 16 * sizeof *a.sum);
    } else {
        a.x = copy_of(l->x, n_x * sizeof *a.x);
    }
    k->linear[l->w.type](&l->w, &a, n_tok, 0, fxi_linear_n_panel(l->w.n_out), y, ldy);
    for (size_t t = 0; t < (size_t)n_tok; t++) {
        assert_same(k->name, y + t * ldy, l->want + t * n_out, n_out);
        for (size_t o = n_out; o < ldy; o++) assert_true(y[t * ldy + o] == 12345);
    }
    guarded_free_all(y, (void *)a.x, a.q, a.d, a.sum);
}

// Every path with every number of tokens that a tile can have, and some that need several tiles.
static inline void paths_same_bits(const layer *l)
{
    const fxi_kernels *k;
    for (int i = 0; (k = fast_path(i)); i++) {
        for (int n_tok = 1; n_tok < l->n_tok; n_tok += n_tok < 17 ? 1 : 4 + n_tok / 4)
            same_bits(k, l, n_tok);
        same_bits(k, l, l->n_tok);
    }
}

#endif
