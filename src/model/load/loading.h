// loading.h - a file becomes a transformer: its keys become rules, its tensors weights, and the
// options of a batch buffers.
#ifndef FXI_MODEL_LOADING_H
#define FXI_MODEL_LOADING_H

#include "model/load/families.h"
#include "model/load/keys.h"
#include "model/load/weights.h"

// What the steps of loading read and fill.
typedef struct fxi_loading {
    const fxi_family *family;
    fxi_str arch;
    fxi_keys keys;
    fxi_loader *ld;
    fxi_transformer *m;
} fxi_loading;

// Loads the part `cut` of g; dry: everything is checked, but there are no weights and no buffers,
// and no forward pass. The caller frees *out with fxi_transformer_free. Errors: as fxi_model_load.
fx_status fxi_transformer_load(const fxi_gguf *g, const fxi_model_options *opt, fxi_cut cut,
                               bool is_dry, fxi_transformer **out, fx_error *err);
void fxi_transformer_free(fxi_transformer *m);

// An error about the file.
static inline fx_status fxi_loading_fail_as(const fxi_loading *l, fx_status st, const char *what,
                                            fx_error *err)
{
    return fxi_fail(err, st, "%s: %s", fxi_gguf_name(l->ld->g), what);
}

static inline fx_status fxi_loading_fail(const fxi_loading *l, const char *what, fx_error *err)
{
    return fxi_loading_fail_as(l, FX_EFORMAT, what, err);
}

// ranks.c: all parts of a model that several devices compute, those of opt->device->ranks. Errors:
// also FX_EINVAL: they cannot share it out.
fx_status fxi_ranks_load(const fxi_gguf *g, const fxi_model_options *opt, fxi_transformer **out,
                         fx_error *err);

// model_rules.c: the shape and the rules, from keys and family.
fx_status fxi_rules_read(fxi_loading *l, fx_error *err);
// The shape becomes that of the part that is loaded. Where there are fewer KV heads than ranks,
// several of these have the same one. FX_EINVAL: it cannot be cut so.
fx_status fxi_rules_cut(fxi_loading *l, fx_error *err);

// Heads of the part that is loaded: n from `first` on, of all that the file has.
typedef struct fxi_head_range {
    int n, first, all;
} fxi_head_range;
fxi_head_range fxi_rules_heads(const fxi_loading *l); // of queries
fxi_head_range fxi_rules_kv_heads(const fxi_loading *l);

bool fxi_rules_window(const fxi_loading *l, int layer); // whether a layer has a window
bool fxi_rules_rotates(const fxi_loading *l, int layer);

// rope_read.c: the angles of all layers.
fx_status fxi_ropes_read(fxi_loading *l, fx_error *err);

// layers.c, layer_experts.c: tensors.
fx_status fxi_layers_load(fxi_loading *l, fx_error *err);
fx_status fxi_experts_load(fxi_loading *l, int layer, fxi_experts *out, fx_error *err);

// layer_parts.c
fxi_tensor_key fxi_weight_key(const char *name, int layer);
bool fxi_loading_has(const fxi_loading *l, const char *name, int layer);
// The bias of matrix m, where the file has one; otherwise *out is NULL.
fx_status fxi_bias_load(fxi_loading *l, const fxi_part_of *m, float **out, fx_error *err);
// This device's part of the n_ffn numbers between the halves of a feed-forward block, as the blocks
// of the second half's type allow. FX_EINVAL: there are too few.
fx_status fxi_ffn_cut(const fxi_loading *l, fxi_tensor_key down, int n_ffn, int *first, int *count,
                      fx_error *err);
fx_status fxi_affine_load(fxi_loading *l, const fxi_part_of *m, fxi_affine *out, fx_error *err);
// This device's part of a feed-forward block of n_ffn numbers; name: of gate, up and down. Without
// a tensor of the gate, up's has the gate's rows before its own.
fx_status fxi_ffn_load(fxi_loading *l, int layer, const char *const name[3], int n_ffn,
                       fxi_ffn *out, fx_error *err);

// work.c: what a token costs.
void fxi_work_count(fxi_transformer *m);

#endif
