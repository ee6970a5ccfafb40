// weights.h - loads the tensors of a file as weights of a model: found by name, checked against
// the expected shape, packed.
//
// A loader records which tensors were loaded, so that a file with tensors that the architecture
// does not know (and would therefore compute wrongly) is refused by name.
//
// Weights lie in the given arena and are freed with it. Large tensors are packed in parts; the
// file's pages of each part are dropped, so that loading needs little more memory than the model.
//
// A dry loader checks everything and loads nothing: weights point at an address that says only
// that they exist.
#ifndef FXI_MODEL_WEIGHTS_H
#define FXI_MODEL_WEIGHTS_H

#include "model/blocks/plan.h"

typedef struct fxi_loader {
    const fxi_gguf *g;
    const fxi_model_options *opt;
    fxi_arena *mem;
    bool is_dry;
    float norm_offset;                // added to the weights of norms
    uint64_t done_bytes, total_bytes; // of tensors, for on_progress
    uint64_t n_param;                 // numbers in the tensors loaded so far
    bool *taken;                      // [n_tensor]
    char *rows;                       // [rows_bytes] rows on their way to another order
    size_t rows_bytes;
} fxi_loader;

fx_status fxi_loader_init(fxi_loader *ld, const fxi_gguf *g, const fxi_model_options *opt,
                          fxi_arena *mem, bool is_dry, fx_error *err);
// FX_EFORMAT, with its name, if the file has a tensor that was not loaded.
fx_status fxi_loader_finish(const fxi_loader *ld, fx_error *err);
void fxi_loader_free(fxi_loader *ld);

// A tensor's name: "NAME.weight" or, if layer >= 0, "blk.LAYER.NAME.weight"; ".bias" if is_bias.
typedef struct fxi_tensor_key {
    const char *name;
    int layer;
    bool is_bias;
} fxi_tensor_key;

// NULL if the file has no such tensor. Does not record it as loaded.
const fxi_gguf_tensor *fxi_loader_find(const fxi_loader *ld, fxi_tensor_key key);

// Where the rows of a matrix lie among the rows of its tensor. Rows come in heads of head_dim:
// `per` heads lie side by side, the next ones `stride` heads further; the first is head `first`.
// Within a head, rows 2i and 2i + 1 below n_rot come from i and i + n_rot / 2 (rope in halves).
typedef struct fxi_row_map {
    int head_dim, n_rot;
    int per, stride, first;
} fxi_row_map;

int fxi_row_map_at(const fxi_row_map *map, int row);

// A matrix [n_out][n_in] (GGUF: ne = {n_in, n_out}), or a vector of n_out numbers if n_in is 0.
typedef struct fxi_part_of {
    fxi_tensor_key key;
    int n_in, n_out;
    int n_row;              // rows of the tensor; 0: n_out
    const fxi_row_map *map; // NULL: its rows in order
    int n_slice;            // of a tensor of several such matrices; 0: it has one
    bool is_norm;           // a vector that gets the loader's norm_offset
} fxi_part_of;

// Loads and packs a matrix of a supported type; those of a tensor of slices go to w[0..n_slice).
// Errors of this and the next functions: FX_EFORMAT, FX_ENOMEM; then the result is zero.
fx_status fxi_load_linear(fxi_loader *ld, const fxi_part_of *m, fxi_linear *w, fx_error *err);

// Loads a vector as f32, or all vectors of a tensor of slices, [n_slice][n_out]. Refuses numbers
// that are not finite.
fx_status fxi_load_vector(fxi_loader *ld, const fxi_part_of *m, float **out, fx_error *err);

fx_status fxi_load_rows(fxi_loader *ld, fxi_tensor_key key, int n_elem, int n_row, fxi_rows *out,
                        fx_error *err);

// Memory that is freed with the weights, all zero; with a dry loader too. Errors: FX_ENOMEM.
fx_status fxi_load_zeros(fxi_loader *ld, size_t size_bytes, void **out, fx_error *err);

#endif
