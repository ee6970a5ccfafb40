// hf_recipe.h - how a tensor of a GGUF file is made from tensors of a Hugging Face folder.
//
// A recipe cuts the tensor into units of `run` numbers that lie side by side in the source too.
// Unit u is unit map(u) of the sources, which count as one tensor, one after the other (experts are
// stacked so). Numbers are converted to the recipe's type; FP8 numbers are multiplied with the
// scale of their block. A recipe that changes nothing needs no making: the mapped bytes are used.
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

struct fxi_recipe {
    char name[96]; // the GGUF tensor's name
    fxi_dtype type;
    uint32_t n_dim;
    uint64_t ne[FXI_GGUF_MAX_DIM];
    fxi_recipe_src *src; // [n_src], all of one shape
    size_t n_src;
    uint64_t run;
    uint64_t (*map)(const fxi_recipe *r, uint64_t unit); // NULL: unit
    uint64_t p[4];                                       // parameters of map
    float plus;                                          // added to every number
    bool mxfp4;    // sources are gpt-oss's blocks and scales; a unit is a row
    float *values; // a tensor without sources: its values, [ne[0]]
};

// The maps. A row is a run of n_in numbers, n_in = the matrix's columns.
//   pairs      p = {head size}: rows i and i + half of each head side by side (rope by halves to
//              rope by pairs)
//   qkv        p = {head size, heads per group, groups}: rows q.., k, v of each group to all q, all
//              k, all v
//   transpose  p = {n_out, n_in}: matrices [n_in][n_out] to [n_out][n_in]
//   step       p = {step, first}: every step-th unit
//   half       p = {n, which}: unit of run n of half 0 or 1 of each 2 n units
//   step_transpose  p = {n_out, n_in, step, first}: every step-th column of matrices [n_in][step x
//              n_out] to rows
uint64_t fxi_recipe_pairs(const fxi_recipe *r, uint64_t unit);
uint64_t fxi_recipe_qkv(const fxi_recipe *r, uint64_t unit);
uint64_t fxi_recipe_transpose(const fxi_recipe *r, uint64_t unit);
uint64_t fxi_recipe_step(const fxi_recipe *r, uint64_t unit);
uint64_t fxi_recipe_half(const fxi_recipe *r, uint64_t unit);
uint64_t fxi_recipe_step_transpose(const fxi_recipe *r, uint64_t unit);

// The recipe's bytes as they lie in its source; NULL: it must be made.
const void *fxi_recipe_place(const fxi_recipe *r);
// Writes rows [row, row + n_row), runs of ne[0] numbers, to dst.
void fxi_recipe_make(const fxi_recipe *r, uint64_t row, uint64_t n_row, void *dst);

// The number type that weights of a source's type have; FXI_DTYPE_END: none are read from it.
fxi_dtype fxi_recipe_type_of(const fxi_st_tensor *t);

#endif
