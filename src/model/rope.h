// rope.h - rotary position embedding: the angles, as a table that is computed once.
//
// Pair i of a head is rotated by the angle pos x scale x base^(-2 i / n_rot) / factor[i] (Su et
// al., RoFormer, arXiv 2104.09864). `scale` is 1 / the linear scaling factor, `factor` the
// per-frequency divisors of Llama 3 files. Computed in double, stored as f32.
#ifndef FXI_MODEL_ROPE_H
#define FXI_MODEL_ROPE_H

#include "base/fail.h"

typedef struct fxi_rope {
    int n_pair; // rotated pairs of a head, n_rot / 2
    float *cos; // [n_pos][n_pair]
    float *sin; // same shape
} fxi_rope;

// factor: n_pair numbers, or NULL for all 1. Errors: FX_ENOMEM.
fx_status fxi_rope_make(int n_pos, int n_rot, double base, double scale, const float *factor,
                        fxi_rope *out, fx_error *err);
void fxi_rope_free(fxi_rope *r);

#endif
