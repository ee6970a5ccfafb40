// small_model.h - writes small Llama models of any shape and type, fast enough to test dozens.
#ifndef TESTS_MODEL_SMALL_MODEL_H
#define TESTS_MODEL_SMALL_MODEL_H

#include "base/number/dtype.h"

typedef struct small_shape {
    const char *what;
    int n_layer, dim, n_head, n_kv_head, head_dim, n_ffn, n_vocab;
    bool tied; // no output.weight
} small_shape;

// A key beyond those that every model has.
typedef struct small_key {
    const char *key;
    char kind; // 'u' u32, 'f' f32, 's' text, 'b' bool, 0: none
    double number;
    const char *text;
} small_key;

typedef struct small_model {
    small_shape shape;
    fxi_dtype type; // of the matrices, if n_type is 0; else they cycle through:
    const fxi_dtype *types;
    int n_type;
    bool widened;         // the same numbers, but stored as F32
    bool output_twice;    // output.weight repeats token_embd.weight
    int n_expert, n_used; // 0: no experts; n_ffn is of each
    small_key key[3];
} small_model;

// Random weights: the same numbers for the same shape and types.
void small_model_write(const char *path, const small_model *m);

#endif
