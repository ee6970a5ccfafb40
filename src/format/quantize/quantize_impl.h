// quantize_impl.h - what the files of this folder share.
#ifndef FXI_FORMAT_QUANTIZE_IMPL_H
#define FXI_FORMAT_QUANTIZE_IMPL_H

#include "base/number/qblock.h"
#include "format/quantize.h"

// ---- mixture.c: the types of a file -----------------------------------------------------------

// What the types of a model's tensors depend on besides their names.
typedef struct fxi_mixture_model {
    fxi_str arch;
    uint32_t n_layer, n_head, n_kv_head, n_expert;
    bool has_output; // otherwise the embedding is the output, too
    bool has_imatrix;
} fxi_mixture_model;

void fxi_mixture_look(const fxi_gguf *g, bool has_imatrix, fxi_mixture_model *out);
uint32_t fxi_mixture_file_type(const fxi_mixture *m); // general.file_type
bool fxi_mixture_is_rounded(const fxi_mixture *m);    // to blocks; false: F32, F16, BF16
// The type that a tensor gets.
const fxi_dtype_info *fxi_mixture_type(const fxi_mixture *m, const fxi_mixture_model *model,
                                       const fxi_gguf_tensor *t);

// ---- quantize.c: rows to blocks -----------------------------------------------------------------

// Changes a block that is close to x [n] so that the sum of weight[i] x (error i)^2 is smaller, or
// leaves it. The same bits on every machine. Pre: x is finite; weights are finite and not negative.
void fxi_qblock_refine(const fxi_qformat *f, const float *x, const float *weight, fxi_qblock *b);

typedef struct fxi_encode_rows {
    const fxi_dtype_info *from, *to;
    size_t n_col, n_row;
    const void *src;     // [n_row] rows
    void *dst;           // [n_row] rows
    const float *weight; // [n_row / rows_per_slice ..][n_col]; NULL: none
    size_t first_row, rows_per_slice, n_slice;
} fxi_encode_rows;

// Converts rows; *bad_row is the first that holds a number that is not finite or too large for the
// type, n_row: none.
fx_status fxi_rows_encode(const fxi_encode_rows *job, fxi_pool *pool, size_t *bad_row,
                          fx_error *err);

#endif
