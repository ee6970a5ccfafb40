// rope.h - rotary position embedding: the angles, as a table that grows where positions are used.
//
// Pair i of a head is rotated by the angle pos x scale x freq[i] (Su et al., RoFormer, arXiv
// 2104.09864), and both numbers are multiplied by `gain`. Usually freq[i] = base^(-2 i / n_rot);
// the other kinds of long-context models change these numbers (load/rope_read.c). Computed in
// double, stored as f32: an angle depends on its position alone.
//
// A table is address space for all positions of the context. Memory and time are spent on blocks of
// FXI_ROPE_BLOCK positions, when a pass first has a token there. It is host memory: every device
// reads the same numbers.
#ifndef FXI_MODEL_ROPE_H
#define FXI_MODEL_ROPE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/system/pool.h"

#define FXI_ROPE_BLOCK 64

// What the angles are made of.
typedef struct fxi_rope_spec {
    int n_rot;    // rotated numbers of a head, even
    double base;  // of the frequencies
    double scale; // of positions: 1 / the linear factor
    double gain;  // of cos and sin

    // From position dynamic_tok on the base grows with the position, as if the sequence ended
    // there: base x (dynamic_factor x (pos + 1) / dynamic_tok - dynamic_factor + 1)^(n_rot /
    // (n_rot - 2)). 0: never. (Dynamic NTK scaling, as Hugging Face's models compute it token by
    // token.)
    int dynamic_tok;
    double dynamic_factor;
    double *freq; // [n_rot / 2]
} fxi_rope_spec;

typedef struct fxi_rope {
    fxi_rope_spec spec; // freq is owned
    int n_pos, n_pair;  // rotated pairs of a head, n_rot / 2
    float *cos;         // [n_pos][n_pair]
    float *sin;         // same shape
    size_t map_bytes;   // of both
    bool *is_made;      // [blocks]
} fxi_rope;

// A table for positions 0 .. n_pos-1, without any of them. Takes spec->freq, also if it fails.
// Errors: FX_ENOMEM.
fx_status fxi_rope_open(int n_pos, const fxi_rope_spec *spec, fxi_rope *out, fx_error *err);
void fxi_rope_close(fxi_rope *r); // all zero is allowed

// Makes the angles of n positions from pos on, where they are missing; allocates nothing. Pre: they
// are in the table.
void fxi_rope_reach(fxi_pool *pool, fxi_rope *r, int pos, int n);

#endif
