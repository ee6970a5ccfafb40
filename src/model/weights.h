// weights.h - tensors of a file to weights of a model: found by name, checked against the shape
// expected, packed.
//
// A loader remembers which tensors were asked for, so that a file that holds more than the
// architecture knows (and would therefore be computed wrongly) is refused by name.
//
// Weights lie in the arena given and are freed with it. Large tensors are packed in parts; of each
// the pages of the file are dropped, so that loading takes little more memory than the model.
#ifndef FXI_MODEL_WEIGHTS_H
#define FXI_MODEL_WEIGHTS_H

#include "base/arena.h"
#include "kernels/kernels.h"
#include "model/model.h"

typedef struct fxi_loader {
    const fxi_gguf *g;
    const fxi_model_options *opt;
    fxi_arena *mem;
    uint64_t done_bytes, total_bytes; // of tensors, for progress
    uint64_t n_param;                 // numbers in the tensors taken so far
    bool *taken;                      // [n_tensor]
} fxi_loader;

fx_status fxi_loader_init(fxi_loader *ld, const fxi_gguf *g, const fxi_model_options *opt,
                          fxi_arena *mem, fx_error *err);
// FX_EFORMAT naming a tensor of the file that nothing has asked for, if there is one.
fx_status fxi_loader_finish(const fxi_loader *ld, fx_error *err);
void fxi_loader_free(fxi_loader *ld);

// Which tensor is meant: "NAME", or "blk.LAYER.NAME" for layer >= 0.
typedef struct fxi_tensor_key {
    const char *name;
    int layer;
} fxi_tensor_key;

// NULL if the file has no such tensor; does not count as asking for it.
const fxi_gguf_tensor *fxi_loader_find(const fxi_loader *ld, fxi_tensor_key key);

// A matrix [n_out][n_in] (GGUF: ne = {n_in, n_out}) of a type that runs, packed.
// Errors: FX_EFORMAT, FX_ENOMEM; then *w is zero.
fx_status fxi_load_linear(fxi_loader *ld, fxi_tensor_key key, int n_in, int n_out, fxi_linear *w,
                          fx_error *err);

// A vector of n numbers as f32.
fx_status fxi_load_vector(fxi_loader *ld, fxi_tensor_key key, int n, float **out, fx_error *err);

// Rows kept as they are in the file, for look-ups of embeddings.
typedef struct fxi_rows {
    fxi_dtype type;
    int n_row, n_elem;
    size_t row_bytes;
    char *data; // [n_row][row_bytes]
} fxi_rows;

fx_status fxi_load_rows(fxi_loader *ld, fxi_tensor_key key, int n_elem, int n_row, fxi_rows *out,
                        fx_error *err);

#endif
