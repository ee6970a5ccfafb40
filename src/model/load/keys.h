// keys.h - a file's metadata as numbers: every key that an architecture may have, checked.
//
// One table (keys.c) lists the keys and the range of each. A key of the architecture that is not in
// the table is refused by name, unless its value says nothing: 0, false, or empty.
#ifndef FXI_MODEL_KEYS_H
#define FXI_MODEL_KEYS_H

#include "format/gguf.h"

// 0 or false: absent, unless a comment says otherwise. A key KEY of architecture A is "A.KEY".
typedef struct fxi_keys {
    int n_layer, dim, n_ffn, n_head, n_kv_head, key_length, value_length, n_ctx;
    float rms_eps, layer_eps; // negative: absent

    int n_rot;
    float rope_base, window_base, linear, factor, attn_factor;
    int orig_ctx;
    float beta_fast, beta_slow, ext_factor, log_multiplier;
    int yarn_truncates; // -1: absent
    fxi_str rope_type;  // "" if absent

    int window;
    float attn_scale, attn_cap, logit_cap, embd_scale, residual_scale, logit_scale;
    float log_scale;            // attention.temperature_scale
    int log_tok;                // attention.temperature_length
    int is_parallel, is_causal; // is_causal: -1: absent
    int norm_before;            // do_layer_norm_before; -1: absent
    float clamp_kqv, alibi;

    int n_expert, n_used, n_expert_ffn, n_shared_ffn, gating, sums_to_1; // sums_to_1: -1 absent
    float expert_scale;
    int pooling, normalizes, n_vocab; // normalizes: -1: absent

    fxi_str activation; // flexinfer.activation: another one than the family's
} fxi_keys;

// Reads and checks all keys of architecture `arch`. Errors: FX_EFORMAT, names the key.
fx_status fxi_keys_read(const fxi_gguf *g, fxi_str arch, fxi_keys *out, fx_error *err);

// What a key says of each layer: one number for all, or an array. NULL: the file has no such key.
const fxi_gguf_kv *fxi_keys_find(const fxi_gguf *g, fxi_str arch, const char *key);

#endif
