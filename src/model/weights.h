// weights.h - loads the tensors of a file as weights of a model: found by name, checked against the
// expected shape, packed.
//
// A loader records which tensors were loaded, so that a file with tensors that the architecture
// does not know (and would therefore compute wrongly) is refused by name.
//
// Weights lie in the given arena and are freed with it. Large tensors are packed in parts; the
// file's pages of each part are dropped, so that loading needs little more memory than the model.
#ifndef FXI_MODEL_WEIGHTS_H
#define FXI_MODEL_WEIGHTS_H

#include "base/system/arena.h"
#include "kernels/kernels.h"
#include "model/model.h"

typedef struct fxi_loader {
    const fxi_gguf *g;
    const fxi_model_options *opt;
    fxi_arena *mem;
    uint64_t done_bytes, total_bytes; // of tensors, for on_progress
    uint64_t n_param;                 // numbers in the tensors loaded so far
    bool *taken;                      // [n_tensor]
} fxi_loader;

fx_status fxi_loader_init(fxi_loader *ld, const fxi_gguf *g, const fxi_model_options *opt,
                          fxi_arena *mem, fx_error *err);
// FX_EFORMAT, with its name, if the file has a tensor that was not loaded.
fx_status fxi_loader_finish(const fxi_loader *ld, fx_error *err);
void fxi_loader_free(fxi_loader *ld);

// The name of a tensor: "NAME", or "blk.LAYER.NAME" if layer >= 0.
typedef struct fxi_tensor_key {
    const char *name;
    int layer;
} fxi_tensor_key;

// NULL if the file has no such tensor. Does not record it as loaded.
const fxi_gguf_tensor *fxi_loader_find(const fxi_loader *ld, fxi_tensor_key key);

// Loads and packs a matrix [n_out][n_in] (GGUF: ne = {n_in, n_out}) of a supported type.
// Errors of this and the next functions: FX_EFORMAT, FX_ENOMEM; then the result is zero.
fx_status fxi_load_linear(fxi_loader *ld, fxi_tensor_key key, int n_in, int n_out, fxi_linear *w,
                          fx_error *err);

// Loads a vector of n numbers as f32.
fx_status fxi_load_vector(fxi_loader *ld, fxi_tensor_key key, int n, float **out, fx_error *err);

// Rows in the file's format, for look-ups of embeddings.
typedef struct fxi_rows {
    fxi_dtype type;
    int n_row, n_elem;
    size_t row_bytes;
    char *data; // [n_row][row_bytes]
} fxi_rows;

fx_status fxi_load_rows(fxi_loader *ld, fxi_tensor_key key, int n_elem, int n_row, fxi_rows *out,
                        fx_error *err);

#endif
