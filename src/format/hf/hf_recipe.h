// hf_recipe.h - how a tensor of a GGUF file is made from tensors of a Hugging Face folder.
//
// A recipe cuts the tensor into units of `run` numbers that lie side by side in the source too. Its
// views say which units of the sources these are; the sources count as one tensor, one after the
// other (experts are stacked so). Numbers are converted to the recipe's type; FP8 numbers are
// multiplied with the scale of their block. A recipe that changes nothing needs no making: the
// mapped bytes are used.
#ifndef FXI_FORMAT_HF_RECIPE_H
#define FXI_FORMAT_HF_RECIPE_H

#include "format/gguf.h"
#include "format/hf/hf_files.h"

typedef struct fxi_recipe fxi_recipe;

typedef struct fxi_recipe_src {
    const fxi_st_tensor *t;
    const fxi_st_tensor *scale;      // FP8 and MXFP4 only; otherwise NULL
    uint64_t block_rows, block_cols; // FP8: numbers that share a scale
} fxi_recipe_src;

// n units in another order: three loops over the sources' units, from the outermost. Unit u is
//     from + u / (n1 * n2) * step[0] + u / n2 % n1 * step[1] + u % n2 * step[2]
typedef struct fxi_recipe_view {
    uint64_t n, from, n1, n2, step[3];
} fxi_recipe_view;

struct fxi_recipe {
    char name[96]; // the GGUF tensor's name
    fxi_dtype type;
    uint32_t n_dim;
    uint64_t ne[FXI_GGUF_MAX_DIM];
    fxi_recipe_src *src; // [n_src], all of one shape
    size_t n_src;
    uint64_t run;
    fxi_recipe_view view[3]; // [n_view], one after the other; none: the sources' order
    size_t n_view;
    float plus;    // added to every number
    bool mxfp4;    // sources are gpt-oss's blocks and scales; a unit is a row
    float *values; // of a tensor that is computed: all of them
};

// The recipe's bytes as they lie in its source; NULL: it must be made.
const void *fxi_recipe_place(const fxi_recipe *r);
// Writes rows [row, row + n_row), runs of ne[0] numbers, to dst.
void fxi_recipe_make(const fxi_recipe *r, uint64_t row, uint64_t n_row, void *dst);

// The number type that weights of a source's type have; FXI_DTYPE_END: none are read from it.
fxi_dtype fxi_recipe_type_of(const fxi_st_tensor *t);

#endif
