// weights.h - loads the tensors of a file as weights of a model: found by name, checked against
// the expected shape, packed.
//
// A loader records which tensors were loaded, so that a file with tensors that the architecture
// does not know (and would therefore compute wrongly) is refused by name.
//
// Weights lie in the device's memory and are freed with it. Large tensors are packed in parts; the
// file's pages of each part are dropped, so that loading needs little more memory than the model.
//
// A dry loader has no device; it checks everything and loads nothing: weights point at an address
// that says only that they exist.
#ifndef FXI_MODEL_WEIGHTS_H
#define FXI_MODEL_WEIGHTS_H

#include "model/device.h"

// Which part of the model is loaded: that of device `rank` of n_rank. Of layers with heads and of
// feed-forward blocks it is 1 / n_rank, of everything else all.
typedef struct fxi_cut {
    int rank, n_rank; // 0, 1: the whole
} fxi_cut;

// The part [*first, *first + *count) of n numbers: whole units, but for the end; the parts of all
// ranks are about as long, and follow each other. *count 0: there are fewer units than ranks.
void fxi_cut_range(fxi_cut cut, int n, int unit, int *first, int *count);

typedef struct fxi_loader {
    const fxi_gguf *g;
    const fxi_model_options *opt;
    fxi_cut cut;
    fxi_arena *mem;  // of the host: what lists layers and experts
    fxi_device *dev; // NULL: dry
    bool is_dry;
    uint64_t done_bytes, total_bytes; // of tensors, for on_progress
    uint64_t n_param;                 // numbers in the tensors loaded so far
    bool *taken;                      // [n_tensor]
    char *rows; // [rows_bytes] rows on their way to another order, or to the device
    size_t rows_bytes;
} fxi_loader;

// dev: NULL for a dry loader
fx_status fxi_loader_init(fxi_loader *ld, const fxi_gguf *g, const fxi_model_options *opt,
                          fxi_cut cut, fxi_arena *mem, fxi_device *dev, fx_error *err);
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

// A matrix [n_out][n_in] (GGUF: ne = {n_in, n_out}), or a vector of n_out numbers if n_in is 0.
typedef struct fxi_part_of {
    fxi_tensor_key key;
    int n_in, n_out;
    int n_row, row0; // it is n_out rows from row0 on of a tensor of n_row rows; n_row 0: all
    int n_col, col0; // it is n_in columns from col0 on, whole blocks, of n_col; n_col 0: all
    int n_slice;     // of a tensor of several such matrices; 0: it has one
    int n_all_slice, slice0; // the slices from slice0 on of n_all_slice; n_all_slice 0: all
    // Its rows are those of heads of head_dim, and get another order: rows 2i and 2i + 1 below
    // n_rot are those at i and i + n_rot / 2, so that rotation by halves is one by pairs. 0: none.
    int head_dim, n_rot;
} fxi_part_of;

// Loads and packs a matrix of a supported type; those of a tensor of slices go to w[0..n_slice).
// Errors of this and the next functions: FX_EFORMAT, FX_ENOMEM, FX_EINVAL (the device has no kernel
// for it); then the result is zero.
fx_status fxi_load_linear(fxi_loader *ld, const fxi_part_of *m, fxi_linear *w, fx_error *err);
// The same for n matrices of one shape and type, each a tensor of its own: "NAME.0", "NAME.1" ..
fx_status fxi_load_singles(fxi_loader *ld, const fxi_part_of *m, fxi_linear *w, int n,
                           fx_error *err);

// Loads a vector as f32, or all vectors of a tensor of slices, [n_slice][n_out]. Refuses numbers
// that are not finite.
fx_status fxi_load_vector(fxi_loader *ld, const fxi_part_of *m, float **out, fx_error *err);
// The same for the host's own use: valid until the next call. A dry loader gives zeros.
fx_status fxi_read_vector(fxi_loader *ld, const fxi_part_of *m, const float **out, fx_error *err);
// The first of n_row rows, as a vector.
fx_status fxi_load_first_row(fxi_loader *ld, fxi_tensor_key key, int n_elem, int n_row, float **out,
                             fx_error *err);

fx_status fxi_load_rows(fxi_loader *ld, fxi_tensor_key key, int n_elem, int n_row, fxi_rows *out,
                        fx_error *err);

// Memory of the host that is freed with the plan, all zero; with a dry loader too. Errors:
// FX_ENOMEM.
fx_status fxi_load_zeros(fxi_loader *ld, size_t size_bytes, void **out, fx_error *err);

#endif
