// loading.h - a file becomes a transformer: its keys become rules, its tensors weights, and the
// options of a batch buffers.
#ifndef FXI_MODEL_LOADING_H
#define FXI_MODEL_LOADING_H

#include "base/text/str.h"
#include "format/gguf.h"
#include "model/device.h"

// ---- families.c: the architectures that run -----------------------------------------------------
//
// A family is a row of what distinguishes it from the others. Tensors and keys have the names that
// GGUF files give them; a key KEY of architecture A is A.KEY.

// How queries and keys are rotated, and how their rows lie in the file.
typedef enum fxi_rope_layout {
    FXI_ROPE_NONE,
    FXI_ROPE_PAIRS, // number 2i with 2i + 1
    FXI_ROPE_HALVES // number i with i + n_rot / 2: loading makes pairs of them
} fxi_rope_layout;

typedef enum fxi_qk_norm {
    FXI_QK_NONE,
    FXI_QK_HEAD,       // of each head
    FXI_QK_HEAD_MAYBE, // the same, where the file has it
    FXI_QK_ROW,        // of all heads together
    FXI_QK_MAYBE       // of each head, with weights of its own, where the file has them
} fxi_qk_norm;

enum { // fxi_family.flags
    FXI_GATED = 1,
    FXI_PARALLEL = 2,          // always; otherwise the key use_parallel_residual says so
    FXI_LEARNED_POSITIONS = 4, // position_embd.weight
    FXI_EMBD_SQRT_DIM = 8,     // embeddings are multiplied by sqrt(dim)
    FXI_LOGIT_DIVIDED = 16,    // logit_scale divides
    FXI_SINKS = 32,            // attn_sinks.weight
    FXI_SUMS_TO_1 = 64,        // the chosen experts' weights, unless a key says otherwise
    FXI_ROUGH_YARN = 128,      // the ramp between frequencies does not begin at whole pairs
    FXI_PLAIN_WINDOWS = 256,   // rope scaling is not for windowed layers
    // attn_out and ffn_out name the norms of x after attention's result and the feed-forward
    // block's are added to it; there is no output_norm.
    FXI_POST_NORM = 512,
    FXI_EMBD_NORM =
        1024, // token_embd_norm of the embeddings, which the first layer reads as they are
    FXI_TOKEN_TYPES = 2048, // token_types.weight: of the first and the second text
    FXI_READS_ALL = 4096,   // a token sees all of its text, unless attention.causal says otherwise
    // do_layer_norm_before may say that attn_in and ffn_in follow, as with FXI_POST_NORM; and
    // embeddings may be of another width, which project_in.weight and project_out.weight change.
    FXI_SMALL_OPT = 8192,
    FXI_DENSE = 32768,      // dense_2.weight and dense_3.weight follow pooling
    FXI_FULL_FIRST = 16384, // the first of every window_every layers has no window, not the last
    FXI_SIGMOID = 65536,    // the router's scores, unless expert_gating_func says otherwise
    FXI_ROTATES_FIRST = 131072,  // queries and keys are rotated before their norm
    FXI_WINDOWS_ROTATE = 262144, // if there are windows, layers without one are not rotated
    FXI_LATENT = 524288,         // latent attention
    FXI_GATED_HEADS = 1048576,   // attn_q has the rows of a head's query, then those of its gate
    FXI_TILED_HEADS = 2097152,   // of states (fxi_recurrence.is_tiled)
    FXI_ROPE_SWITCH = 4194304,   // nothing rotates where rope.scaling.finetuned is false
    // A block of the file is one branch: a feed-forward block where feed_forward_length is not 0,
    // which makes one layer with the block before it.
    FXI_SPLIT_BLOCKS = 8388608,
};

typedef struct fxi_family {
    const char *name; // value of general.architecture
    fxi_rownorm_kind norm;
    // Tensors of the norms before and after attention and the feed-forward block; NULL: none. In
    // parallel models, where one of the two before is not in the file, the other stands for both.
    const char *attn_in, *attn_out, *ffn_in, *ffn_out;
    const char *out_norm; // of the last norm; NULL: "output_norm"
    fxi_qk_norm qk_norm;
    fxi_rope_layout rope;
    fxi_activation act;
    unsigned flags;
    int window_every;  // of every so many layers the last has no window; 0: all have
    int no_rope_every; // of every so many layers the last is not rotated; 0: all are
    float window_base; // rope.freq_base of windowed layers, if no key says it; 0: as the others
    // Of recurrent layers: where attention.head_count_kv is 0 or, of FXI_MIX_DELTA, where
    // attention.recurrent_layers says so, or all but the last of every full_attention_interval.
    fxi_mixer mixer;
    int square_layers; // of the one size whose scale is 1 / sqrt(dim / n_head); 0: none
} fxi_family;

// NULL: unknown.
const fxi_family *fxi_family_find(fxi_str name);
// The names of all families, separated by ", ".
void fxi_family_list(char *out, size_t size_bytes);

// ---- model_rules.c: keys ------------------------------------------------------------------------
//
// A file's metadata as numbers. One table lists the keys and the range of each. A key of the
// architecture that is not in the table is refused by name, unless its value says nothing: 0,
// false, or empty.

// 0 or false: absent, unless a comment says otherwise. A key KEY of architecture A is "A.KEY".
typedef struct fxi_keys {
    int n_layer, dim, n_ffn, n_head, n_kv_head, key_length, value_length, n_ctx;
    int q_lora, kv_lora, key_length_mla, value_length_mla; // latent attention
    int n_tap;                                             // shortconv.l_cache
    int ssm_tap, ssm_inner, ssm_state, ssm_head, ssm_group, attention_every;
    float rms_eps, layer_eps; // negative: absent

    int n_rot;
    float rope_base, window_base, linear, factor, attn_factor;
    int orig_ctx;
    float beta_fast, beta_slow, ext_factor, log_multiplier;
    int yarn_truncates; // -1: absent
    int is_finetuned;   // rope.scaling.finetuned; 1 if absent
    fxi_str rope_type;  // "" if absent

    int window;
    float attn_scale, attn_cap, logit_cap, embd_scale, residual_scale, logit_scale;
    float log_scale;            // attention.temperature_scale
    int log_tok;                // attention.temperature_length
    int is_parallel, is_causal; // is_causal: -1: absent
    int norm_before;            // do_layer_norm_before; -1: absent
    float clamp_kqv, alibi;

    int n_expert, n_used, n_expert_ffn, n_shared_ffn, gating, sums_to_1; // sums_to_1: -1 absent
    int n_group, n_group_used;                                           // of experts
    int n_nextn; // layers at the end that only draft
    float expert_scale;
    int pooling, normalizes, n_vocab; // normalizes: -1: absent

    fxi_str activation; // flexinfer.activation: another one than the family's
} fxi_keys;

// ---- loading ------------------------------------------------------------------------------------

// Which part of the model is loaded: that of device `rank` of n_rank. Of layers with heads and of
// feed-forward blocks it is 1 / n_rank, of everything else all.
typedef struct fxi_cut {
    int rank, n_rank; // 0, 1: the whole
} fxi_cut;

// The part [*first, *first + *count) of n numbers: whole units, but for the end; the parts of all
// ranks are about as long, and follow each other. *count 0: there are fewer units than ranks.
void fxi_cut_range(fxi_cut cut, int n, int unit, int *first, int *count);

// What the steps of loading read and fill. A dry loader checks everything and loads nothing:
// weights point at an address that says only that they exist.
typedef struct fxi_loader {
    const fxi_gguf *g;
    const fxi_model_options *opt;
    fxi_cut cut;
    bool is_dry;
    const fxi_family *family;
    fxi_str arch;
    fxi_keys keys;
    fxi_transformer *m;
    uint64_t done_bytes, total_bytes; // of tensors, for on_progress
    bool *taken;                      // [n_tensor] loaded
    char *rows; // [rows_bytes] rows on their way to another order, or to the device
    size_t rows_bytes;
} fxi_loader;

// Loads the part `cut` of g; dry: everything is checked, but there are no weights and no buffers,
// and no forward pass. The caller frees *out with fxi_transformer_free. Errors: as fxi_model_load.
fx_status fxi_transformer_load(const fxi_gguf *g, const fxi_model_options *opt, fxi_cut cut,
                               bool is_dry, fxi_transformer **out, fx_error *err);
void fxi_transformer_free(fxi_transformer *m);

// An error about the file: FX_EFORMAT.
static inline fx_status fxi_loading_fail(const fxi_loader *l, const char *what, fx_error *err)
{
    return fxi_fail(err, FX_EFORMAT, "%s: %s", fxi_gguf_name(l->g), what);
}

// Loads all parts of a model that several devices compute, those of opt->device->ranks. Errors:
// also FX_EINVAL: they cannot share it out.
fx_status fxi_ranks_load(const fxi_gguf *g, const fxi_model_options *opt, fxi_transformer **out,
                         fx_error *err);

// model_rules.c: the shape and the rules, from keys and family.
fx_status fxi_rules_read(fxi_loader *l, fx_error *err);
// The shape becomes that of the part that is loaded. Where there are fewer KV heads than ranks,
// several of these have the same one. FX_EINVAL: it cannot be cut so.
fx_status fxi_rules_cut(fxi_loader *l, fx_error *err);

// Heads of the part that is loaded: n from `first` on, of all that the file has.
typedef struct fxi_head_range {
    int n, first, all;
} fxi_head_range;
fxi_head_range fxi_rules_heads(const fxi_loader *l); // of queries
fxi_head_range fxi_rules_kv_heads(const fxi_loader *l);

// The sizes of latent layers: n_rope numbers of a query or of a row are rotated; the others are
// n_nope of a query, n_lora of a row; n_value of a head go to Wo; q_lora: what q reads, 0: h.
typedef struct fxi_latent_sizes {
    int q_lora, n_lora, n_rope, n_nope, n_value;
} fxi_latent_sizes;
fxi_latent_sizes fxi_rules_latent(const fxi_loader *l);

bool fxi_rules_window(const fxi_loader *l, int layer); // whether a layer has a window
bool fxi_rules_rotates(const fxi_loader *l, int layer);
fxi_mixer fxi_rules_mixer(const fxi_loader *l, int layer);
bool fxi_rules_feeds(const fxi_loader *l, int block); // whether it is a feed-forward block alone

// rope_read.c: the angles of all layers.
fx_status fxi_ropes_read(fxi_loader *l, fx_error *err);

// layers.c: tensors, and what a token costs.
fx_status fxi_layers_load(fxi_loader *l, fx_error *err);

// mixers.c: those of a layer that mix the tokens of a sequence; i: its block in the file.
fx_status fxi_mixer_load(fxi_loader *l, int i, fxi_layer *out, fx_error *err);
void fxi_work_count(fxi_transformer *m);

// ---- weights.c: tensors by name -----------------------------------------------------------------
//
// A tensor that is missing, or has another shape or an unsupported type, is refused by name. Each
// is recorded as loaded, so that a file with tensors that the architecture does not know (and would
// therefore compute wrongly) is refused, too.
//
// Weights lie in the device's memory and are freed with it. Large tensors are packed in parts; the
// file's pages of each part are dropped, so that loading needs little more memory than the model.

// FX_EFORMAT, with its name, if the file has a tensor that was not loaded.
fx_status fxi_loader_finish(const fxi_loader *ld, fx_error *err);

// A tensor's name: "NAME.weight" or, if layer >= 0, "blk.LAYER.NAME.weight"; ".bias" if is_bias,
// and nothing if is_bare.
typedef struct fxi_tensor_key {
    const char *name;
    int layer;
    bool is_bias, is_bare;
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
    bool is_turned;  // vectors: [n_out][n_slice] in memory, not [n_slice][n_out]
    int n_all_slice, slice0; // the slices from slice0 on of n_all_slice; n_all_slice 0: all
    // Its rows are those of heads of head_dim, and get another order: rows 2i and 2i + 1 below
    // n_rot are those at i and i + n_rot / 2, so that rotation by halves is one by pairs. 0: none.
    int head_dim, n_rot;
    int head_step; // rows of the file from one head to the next, row0 being in the first; 0:
                   // head_dim
} fxi_part_of;

// Loads and packs a matrix of a supported type; those of a tensor of slices go to w[0..n_slice).
// Errors of this and the next functions: FX_EFORMAT, FX_ENOMEM, FX_EINVAL (the device has no kernel
// for it); then the result is zero.
fx_status fxi_load_linear(fxi_loader *ld, const fxi_part_of *m, fxi_linear *w, fx_error *err);
// The same for n matrices of one shape and type, each a tensor of its own: "NAME.0", "NAME.1" ..
fx_status fxi_load_singles(fxi_loader *ld, const fxi_part_of *m, fxi_linear *w, int n,
                           fx_error *err);

// Loads the transpose of a matrix of n_out x n_in numbers of the file: w has n_out inputs. Floats
// keep their type. The others become F32, which holds them exactly: blocks of a transpose would lie
// across those of the file, and rounding again would lose what these had kept.
fx_status fxi_load_transpose(fxi_loader *ld, const fxi_part_of *m, fxi_linear *w, fx_error *err);

// Loads a vector as f32, or all vectors of a tensor of slices, [n_slice][n_out]. Refuses numbers
// that are not finite.
fx_status fxi_load_vector(fxi_loader *ld, const fxi_part_of *m, float **out, fx_error *err);
// The same for the host's own use: valid until the next call. A dry loader gives zeros.
fx_status fxi_read_vector(fxi_loader *ld, const fxi_part_of *m, const float **out, fx_error *err);

// The bias of matrix m, if the file has one; otherwise *out is NULL.
fx_status fxi_load_bias(fxi_loader *ld, const fxi_part_of *m, float **out, fx_error *err);
// A matrix and its bias, if the file has one.
fx_status fxi_load_affine(fxi_loader *ld, const fxi_part_of *m, fxi_affine *out, fx_error *err);
// A norm of runs of n numbers, each with n_out / n weights of its own.
fx_status fxi_load_norm(fxi_loader *ld, const fxi_part_of *m, int n, fxi_rownorm *out,
                        fx_error *err);

static inline fxi_tensor_key fxi_weight_key(const char *name, int layer)
{
    return (fxi_tensor_key){.name = name, .layer = layer};
}

static inline bool fxi_has_weight(const fxi_loader *ld, const char *name, int layer)
{
    return fxi_loader_find(ld, fxi_weight_key(name, layer)) != NULL;
}

// Memory of the host that is freed with the plan, all zero; with a dry loader too. Errors:
// FX_ENOMEM.
fx_status fxi_load_zeros(fxi_loader *ld, size_t size_bytes, void **out, fx_error *err);

#endif
