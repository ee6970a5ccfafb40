// keys.c - see keys.h.
#include "model/load/keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "format/show.h"

#define NAME_BYTES 128
#define OURS       "flexinfer"

typedef enum key_kind { KEY_INT, KEY_BOOL, KEY_REAL, KEY_TEXT, KEY_IGNORED } key_kind;

// Where a key's value goes, and its plausible range.
typedef struct key_row {
    const char *key;
    key_kind kind;
    size_t offset; // in fxi_keys
    bool must;
    double min, max;
} key_row;

#define AT(field) offsetof(fxi_keys, field)
#define ANY       -1e30, 1e30
#define POSITIVE  1e-30, 1e30
#define FROM_0    0, 1e30

static const key_row arch_keys[] = {
    {"block_count", KEY_INT, AT(n_layer), true, 1, 1024},
    {"embedding_length", KEY_INT, AT(dim), true, 1, 1 << 17},
    {"feed_forward_length", KEY_INT, AT(n_ffn), false, 0, 1 << 20},
    {"attention.head_count", KEY_INT, AT(n_head), true, 1, 4096},
    {"attention.head_count_kv", KEY_INT, AT(n_kv_head), false, 1, 4096},
    {"attention.key_length", KEY_INT, AT(key_length), false, 1, 1024},
    {"attention.value_length", KEY_INT, AT(value_length), false, 1, 1024},
    {"context_length", KEY_INT, AT(n_ctx), true, 1, 1 << 24},
    {"attention.layer_norm_rms_epsilon", KEY_REAL, AT(rms_eps), false, 0, 1},
    {"attention.layer_norm_epsilon", KEY_REAL, AT(layer_eps), false, 0, 1},

    {"rope.dimension_count", KEY_INT, AT(n_rot), false, 0, 1024},
    {"rope.freq_base", KEY_REAL, AT(rope_base), false, POSITIVE},
    {"rope.freq_base_swa", KEY_REAL, AT(window_base), false, POSITIVE},
    {"rope.scale_linear", KEY_REAL, AT(linear), false, FROM_0},
    {"rope.scaling.type", KEY_TEXT, AT(rope_type), false, 0, 0},
    {"rope.scaling.factor", KEY_REAL, AT(factor), false, FROM_0},
    {"rope.scaling.attn_factor", KEY_REAL, AT(attn_factor), false, FROM_0},
    {"rope.scaling.original_context_length", KEY_INT, AT(orig_ctx), false, 0, 1 << 24},
    {"rope.scaling.yarn_beta_fast", KEY_REAL, AT(beta_fast), false, POSITIVE},
    {"rope.scaling.yarn_beta_slow", KEY_REAL, AT(beta_slow), false, POSITIVE},
    {"rope.scaling.yarn_ext_factor", KEY_REAL, AT(ext_factor), false, ANY},
    {"rope.scaling.yarn_attn_factor", KEY_REAL, AT(attn_factor), false, FROM_0},
    {"rope.scaling.yarn_log_multiplier", KEY_REAL, AT(log_multiplier), false, FROM_0},
    {"rope.scaling.yarn_truncate", KEY_BOOL, AT(yarn_truncates), false, 0, 1},
    {"rope.scaling.finetuned", KEY_IGNORED, 0, false, 0, 0},

    {"attention.sliding_window", KEY_INT, AT(window), false, 0, 1 << 30},
    {"attention.sliding_window_pattern", KEY_IGNORED, 0, false, 0, 0}, // fxi_keys_find
    {"attention.scale", KEY_REAL, AT(attn_scale), false, FROM_0},
    {"attn_logit_softcapping", KEY_REAL, AT(attn_cap), false, FROM_0},
    {"final_logit_softcapping", KEY_REAL, AT(logit_cap), false, FROM_0},
    {"embedding_scale", KEY_REAL, AT(embd_scale), false, ANY},
    {"residual_scale", KEY_REAL, AT(residual_scale), false, ANY},
    {"logit_scale", KEY_REAL, AT(logit_scale), false, ANY},
    {"attention.temperature_scale", KEY_REAL, AT(log_scale), false, ANY},
    {"attention.temperature_length", KEY_INT, AT(log_tok), false, 0, 1 << 30},
    {"use_parallel_residual", KEY_BOOL, AT(is_parallel), false, 0, 1},
    {"do_layer_norm_before", KEY_BOOL, AT(norm_before), false, 0, 1},
    {"attention.causal", KEY_BOOL, AT(is_causal), false, 0, 1},
    {"attention.clamp_kqv", KEY_REAL, AT(clamp_kqv), false, ANY},
    {"attention.max_alibi_bias", KEY_REAL, AT(alibi), false, ANY},

    {"expert_count", KEY_INT, AT(n_expert), false, 0, 1 << 16},
    {"expert_used_count", KEY_INT, AT(n_used), false, 0, 1 << 16},
    {"expert_feed_forward_length", KEY_INT, AT(n_expert_ffn), false, 0, 1 << 20},
    {"expert_shared_feed_forward_length", KEY_INT, AT(n_shared_ffn), false, 0, 1 << 20},
    {"expert_weights_norm", KEY_BOOL, AT(sums_to_1), false, 0, 1},
    {"expert_weights_scale", KEY_REAL, AT(expert_scale), false, FROM_0},
    {"expert_gating_func", KEY_INT, AT(gating), false, 0, 100},
    {"expert_shared_count", KEY_IGNORED, 0, false, 0, 0}, // their tensors say it

    {"pooling_type", KEY_INT, AT(pooling), false, 0, 100},
    {"pooling_normalize", KEY_BOOL, AT(normalizes), false, 0, 1},
    {"vocab_size", KEY_INT, AT(n_vocab), false, 0, 1 << 24},
    {"tensor_data_layout", KEY_IGNORED, 0, false, 0, 0},
    {"decoder_sparse_step", KEY_IGNORED, 0, false, 0, 0}, // the layers' tensors say it
};

// Keys that this project's converter adds where a file would otherwise not say it.
static const key_row our_keys[] = {
    {"activation", KEY_TEXT, AT(activation), false, 0, 0},
};

#define N_ROW(table) (sizeof(table) / sizeof *(table))

// ---- one key -----------------------------------------------------------------------------------

static fx_status refuse_key(const fxi_gguf *g, const char *name, const char *why, fx_error *err)
{
    return fxi_fail(err, FX_EFORMAT, "%s: key '%s': %s", fxi_gguf_name(g), name, why);
}

static bool is_number(fxi_gguf_type t)
{
    return t != FXI_GGUF_STR && t != FXI_GGUF_ARRAY;
}

static bool is_real(fxi_gguf_type t)
{
    return t == FXI_GGUF_F32 || t == FXI_GGUF_F64;
}

// A number, or an array of equal ones: the same for all layers.
static fx_status read_number(const fxi_gguf *g, const char *name, const fxi_gguf_kv *kv,
                             double *out, fx_error *err)
{
    if (!is_number(kv->elem_type) || !kv->n_elem)
        return refuse_key(g, name, "is not a number", err);
    const bool real = is_real(kv->elem_type);
    *out = real ? fxi_gguf_float_at(kv, 0) : (double)fxi_gguf_int_at(kv, 0);
    for (uint64_t i = 1; i < kv->n_elem; i++)
        if ((real ? fxi_gguf_float_at(kv, i) : (double)fxi_gguf_int_at(kv, i)) != *out)
            return refuse_key(g, name, "layers that differ in it are not supported", err);
    return FX_OK;
}

static fx_status read_int(const fxi_gguf *g, const key_row *k, const char *name,
                          const fxi_gguf_kv *kv, int *dst, fx_error *err)
{
    double v;
    FX_TRY(read_number(g, name, kv, &v, err));
    if (is_real(kv->elem_type)) return refuse_key(g, name, "is not an integer", err);
    if ((kv->elem_type == FXI_GGUF_BOOL) != (k->kind == KEY_BOOL))
        return refuse_key(g, name,
                          k->kind == KEY_BOOL ? "is not true or false" : "is not an integer", err);
    if (!(v >= k->min && v <= k->max))
        return fxi_fail(err, FX_EFORMAT, "%s: key '%s': %.0f is not from %.0f to %.0f",
                        fxi_gguf_name(g), name, v, k->min, k->max);
    *dst = (int)v;
    return FX_OK;
}

static fx_status read_real(const fxi_gguf *g, const key_row *k, const char *name,
                           const fxi_gguf_kv *kv, float *dst, fx_error *err)
{
    double v;
    FX_TRY(read_number(g, name, kv, &v, err));
    if (kv->elem_type == FXI_GGUF_BOOL) return refuse_key(g, name, "is not a number", err);
    if (!(v >= k->min && v <= k->max))
        return fxi_fail(err, FX_EFORMAT, "%s: key '%s': %g is not a number from %g to %g",
                        fxi_gguf_name(g), name, v, k->min, k->max);
    *dst = (float)v;
    return FX_OK;
}

static fx_status read_key(const fxi_gguf *g, fxi_str arch, const key_row *k, fxi_keys *out,
                          fx_error *err)
{
    char name[NAME_BYTES];
    void *dst = (char *)out + k->offset;
    snprintf(name, sizeof name, "%.*s.%s", (int)arch.n, arch.p, k->key);
    const fxi_gguf_kv *kv = fxi_gguf_find(g, name);
    if (!kv && k->must)
        return fxi_fail(err, FX_EFORMAT, "%s: missing key '%s'", fxi_gguf_name(g), name);
    if (!kv || k->kind == KEY_IGNORED) return FX_OK;
    if (k->kind == KEY_TEXT) return fxi_gguf_str(g, name, true, dst, err);
    if (k->kind == KEY_REAL) return read_real(g, k, name, kv, dst, err);
    return read_int(g, k, name, kv, dst, err);
}

// ---- keys that nobody knows --------------------------------------------------------------------

static bool says_nothing(const fxi_gguf_kv *kv)
{
    const unsigned char *cursor = kv->value;
    for (uint64_t i = 0; i < kv->n_elem; i++) {
        if (kv->elem_type == FXI_GGUF_STR ? fxi_gguf_next_str(&cursor).n > 0
            : is_real(kv->elem_type)      ? fxi_gguf_float_at(kv, i) != 0
                                          : fxi_gguf_int_at(kv, i) != 0)
            return false;
    }
    return true;
}

// The part of a key after "ARCH."; no bytes if it does not begin so.
static fxi_str key_suffix(fxi_str key, fxi_str arch)
{
    if (key.n <= arch.n + 1 || memcmp(key.p, arch.p, arch.n) != 0 || key.p[arch.n] != '.')
        return (fxi_str){"", 0};
    return (fxi_str){key.p + arch.n + 1, key.n - arch.n - 1};
}

static bool is_listed(fxi_str suffix)
{
    for (size_t i = 0; i < N_ROW(arch_keys); i++)
        if (fxi_str_is(suffix, arch_keys[i].key)) return true;
    return false;
}

static fx_status refuse_unknown(const fxi_gguf *g, fxi_str arch, fx_error *err)
{
    for (uint64_t i = 0; i < fxi_gguf_n_kv(g); i++) {
        const fxi_gguf_kv *kv = fxi_gguf_kv_at(g, i);
        const fxi_str suffix = key_suffix(kv->key, arch);
        const bool known = !suffix.n || is_listed(suffix);
        if (!known && !says_nothing(kv))
            return fxi_fail(err, FX_EFORMAT,
                            "%s: key '%s' is not one we know, and may change the result",
                            fxi_gguf_name(g), fxi_show_text(kv->key.p, kv->key.n).s);
    }
    return FX_OK;
}

// ---- all of them -------------------------------------------------------------------------------

// Values that make no model, or that the blocks cannot compute with.
static fx_status refuse_values(const fxi_gguf *g, const fxi_keys *k, fx_error *err)
{
    const char *what = k->clamp_kqv != 0 ? "attention.clamp_kqv"
                       : k->alibi != 0   ? "attention.max_alibi_bias"
                                         : NULL;
    if (what) return fxi_fail(err, FX_EFORMAT, "%s: %s is not supported", fxi_gguf_name(g), what);
    return FX_OK;
}

fx_status fxi_keys_read(const fxi_gguf *g, fxi_str arch, fxi_keys *out, fx_error *err)
{
    *out = (fxi_keys){.rms_eps = -1,
                      .layer_eps = -1,
                      .beta_fast = 32,
                      .beta_slow = 1,
                      .ext_factor = 1,
                      .is_causal = -1,
                      .norm_before = -1,
                      .yarn_truncates = -1,
                      .sums_to_1 = -1,
                      .normalizes = -1};
    for (size_t i = 0; i < N_ROW(arch_keys); i++)
        FX_TRY(read_key(g, arch, &arch_keys[i], out, err));
    for (size_t i = 0; i < N_ROW(our_keys); i++)
        FX_TRY(read_key(g, fxi_str_of(OURS), &our_keys[i], out, err));
    FX_TRY(refuse_unknown(g, arch, err));
    return refuse_values(g, out, err);
}

const fxi_gguf_kv *fxi_keys_find(const fxi_gguf *g, fxi_str arch, const char *key)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.*s.%s", (int)arch.n, arch.p, key);
    return fxi_gguf_find(g, name);
}
