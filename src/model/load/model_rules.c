// model_rules.c - a file's keys, checked; the shape and the rules of a model, from its keys and
// family.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "format/show.h"
#include "model/load/loading.h"
#include "model/pooling.h"

#define WINDOW_LAYERS    "attention.sliding_window_pattern"
#define KV_HEADS         "attention.head_count_kv"
#define FFN_LENGTH       "feed_forward_length"
#define RECURRENT_LAYERS "attention.recurrent_layers"
#define ROPE_LAYERS      "flexinfer.no_rope_layer_step" // true: a layer rotates
#define NAME_BYTES       128
#define ACTIVATION       "flexinfer.activation" // of the project's converter: not the family's

typedef enum key_kind {
    KEY_INT,
    KEY_LAYERS, // an integer, or one for each layer: the same, or 0 where a layer has none
    KEY_BOOL,
    KEY_REAL,
    KEY_TEXT,
    KEY_IGNORED
} key_kind;

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
    {FFN_LENGTH, KEY_LAYERS, AT(n_ffn), false, 0, 1 << 20},
    {"attention.head_count", KEY_INT, AT(n_head), true, 1, 4096},
    {KV_HEADS, KEY_LAYERS, AT(n_kv_head), false, 1, 4096},
    {"attention.key_length", KEY_INT, AT(key_length), false, 1, 1024},
    {"attention.value_length", KEY_INT, AT(value_length), false, 1, 1024},
    {"attention.q_lora_rank", KEY_INT, AT(q_lora), false, 0, 1 << 16},
    {"attention.kv_lora_rank", KEY_INT, AT(kv_lora), false, 0, 1024},
    {"attention.key_length_mla", KEY_INT, AT(key_length_mla), false, 0, 1024},
    {"attention.value_length_mla", KEY_INT, AT(value_length_mla), false, 0, 1024},
    {"context_length", KEY_INT, AT(n_ctx), true, 1, 1 << 24},
    {"attention.layer_norm_rms_epsilon", KEY_REAL, AT(rms_eps), false, 0, 1},
    {"attention.layer_norm_epsilon", KEY_REAL, AT(layer_eps), false, 0, 1},

    {"rope.dimension_count", KEY_INT, AT(n_rot), false, 0, 1024},
    {"rope.dimension_sections", KEY_IGNORED, 0, false, 0, 0}, // of text all are the same
    {"n_deepstack_layers", KEY_IGNORED, 0, false, 0, 0},      // of pictures
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
    {"rope.scaling.finetuned", KEY_BOOL, AT(is_finetuned), false, 0, 1},

    {"attention.sliding_window", KEY_INT, AT(window), false, 0, 1 << 30},
    {"attention.sliding_window_pattern", KEY_IGNORED, 0, false, 0, 0}, // fxi_rules_window
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
    {"shortconv.l_cache", KEY_INT, AT(n_tap), false, 0, FXI_MAX_TAP},
    {"ssm.conv_kernel", KEY_INT, AT(ssm_tap), false, 0, FXI_MAX_TAP},
    {"ssm.inner_size", KEY_INT, AT(ssm_inner), false, 0, 1 << 17},
    {"ssm.state_size", KEY_INT, AT(ssm_state), false, 0, FXI_RECUR_MAX_KEY},
    {"ssm.time_step_rank", KEY_INT, AT(ssm_head), false, 0, 1 << 12},
    {"ssm.group_count", KEY_INT, AT(ssm_group), false, 0, 1 << 12},
    {"full_attention_interval", KEY_INT, AT(attention_every), false, 0, 1024},
    {RECURRENT_LAYERS, KEY_IGNORED, 0, false, 0, 0},          // fxi_rules_mixer
    {"rope.dimension_sections", KEY_IGNORED, 0, false, 0, 0}, // a text has one position
    {"attention.clamp_kqv", KEY_REAL, AT(clamp_kqv), false, ANY},
    {"attention.max_alibi_bias", KEY_REAL, AT(alibi), false, ANY},

    {"expert_count", KEY_INT, AT(n_expert), false, 0, 1 << 16},
    {"expert_used_count", KEY_INT, AT(n_used), false, 0, 1 << 16},
    {"expert_feed_forward_length", KEY_INT, AT(n_expert_ffn), false, 0, 1 << 20},
    {"expert_shared_feed_forward_length", KEY_INT, AT(n_shared_ffn), false, 0, 1 << 20},
    {"expert_weights_norm", KEY_BOOL, AT(sums_to_1), false, 0, 1},
    {"expert_weights_scale", KEY_REAL, AT(expert_scale), false, FROM_0},
    {"expert_gating_func", KEY_INT, AT(gating), false, 0, 100},
    {"expert_group_count", KEY_INT, AT(n_group), false, 0, 1 << 16},
    {"expert_group_used_count", KEY_INT, AT(n_group_used), false, 0, 1 << 16},
    {"expert_shared_count", KEY_IGNORED, 0, false, 0, 0}, // their tensors say it

    {"pooling_type", KEY_INT, AT(pooling), false, 0, 100},
    {"classifier.output_labels", KEY_IGNORED, 0, false, 0, 0}, // the head's tensor says how many
    {"dense_2_feat_in", KEY_IGNORED, 0, false, 0, 0},          // so do these tensors
    {"dense_2_feat_out", KEY_IGNORED, 0, false, 0, 0},
    {"dense_3_feat_in", KEY_IGNORED, 0, false, 0, 0},
    {"dense_3_feat_out", KEY_IGNORED, 0, false, 0, 0},
    {"pooling_normalize", KEY_BOOL, AT(normalizes), false, 0, 1},
    {"vocab_size", KEY_INT, AT(n_vocab), false, 0, 1 << 24},
    {"tensor_data_layout", KEY_IGNORED, 0, false, 0, 0},
    {"decoder_sparse_step", KEY_IGNORED, 0, false, 0, 0}, // the layers' tensors say it
    {"moe_every_n_layers", KEY_IGNORED, 0, false, 0, 0},
    {"interleave_moe_layer_step", KEY_IGNORED, 0, false, 0, 0},
    {"leading_dense_block_count", KEY_IGNORED, 0, false, 0, 0},
    {"nextn_predict_layers", KEY_INT, AT(n_nextn), false, 0, 1023},
};

#define N_KEY (sizeof arch_keys / sizeof *arch_keys)

// ---- one key -----------------------------------------------------------------------------------

// A key of the architecture; NULL: the file has no such key.
static const fxi_gguf_kv *find_arch_key(const fxi_loader *l, const char *key)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.*s.%s", (int)l->arch.n, l->arch.p, key);
    return fxi_gguf_find(l->g, name);
}

static fx_status missing_key(const fxi_loader *l, const char *key, fx_error *err)
{
    return fxi_fail(err, FX_EFORMAT, "%s: missing key '%.*s.%s'", fxi_gguf_name(l->g),
                    (int)l->arch.n, l->arch.p, key);
}

static fx_status refuse_key(const fxi_loader *l, const fxi_gguf_kv *kv, const char *why,
                            fx_error *err)
{
    return fxi_fail(err, FX_EFORMAT, "%s: key '%.*s': %s", fxi_gguf_name(l->g), (int)kv->key.n,
                    kv->key.p, why);
}

static bool is_real(fxi_gguf_type t)
{
    return t == FXI_GGUF_F32 || t == FXI_GGUF_F64;
}

static double number_at(const fxi_gguf_kv *kv, uint64_t i)
{
    return is_real(kv->elem_type) ? fxi_gguf_float_at(kv, i) : (double)fxi_gguf_int_at(kv, i);
}

// A number, or an array of equal ones: the same for all layers, or for those that are not 0.
static fx_status read_number(const fxi_loader *l, const fxi_gguf_kv *kv, bool skips_0, double *out,
                             fx_error *err)
{
    if (kv->elem_type == FXI_GGUF_STR || kv->elem_type == FXI_GGUF_ARRAY || !kv->n_elem)
        return refuse_key(l, kv, "is not a number", err);
    *out = number_at(kv, 0);
    for (uint64_t i = 1; i < kv->n_elem; i++) {
        const double v = number_at(kv, i);
        if (skips_0 && *out == 0) *out = v;
        if (v != *out && !(skips_0 && v == 0))
            return refuse_key(l, kv, "layers that differ in it are not supported", err);
    }
    return FX_OK;
}

static fx_status read_key(fxi_loader *l, const key_row *k, fx_error *err)
{
    void *dst = (char *)&l->keys + k->offset;
    char why[128];
    double v = 0;
    const fxi_gguf_kv *kv = find_arch_key(l, k->key);
    if (!kv && k->must) return missing_key(l, k->key, err);
    if (!kv || k->kind == KEY_IGNORED) return FX_OK;
    if (k->kind == KEY_TEXT) {
        const unsigned char *at = kv->value;
        if (kv->type != FXI_GGUF_STR) return refuse_key(l, kv, "is not a string", err);
        *(fxi_str *)dst = fxi_gguf_next_str(&at);
        return FX_OK;
    }
    const bool skips_0 = k->kind == KEY_LAYERS && l->family->mixer != FXI_MIX_ATTENTION;
    FX_TRY(read_number(l, kv, skips_0, &v, err));
    const bool is_bool = kv->elem_type == FXI_GGUF_BOOL, wants_real = k->kind == KEY_REAL;
    if (wants_real && is_bool) return refuse_key(l, kv, "is not a number", err);
    if (!wants_real && is_real(kv->elem_type)) return refuse_key(l, kv, "is not an integer", err);
    if (!wants_real && is_bool != (k->kind == KEY_BOOL))
        return refuse_key(l, kv, is_bool ? "is not an integer" : "is not true or false", err);
    if (!(v >= k->min && v <= k->max)) {
        snprintf(why, sizeof why,
                 wants_real ? "%g is not a number from %g to %g" : "%.0f is not from %.0f to %.0f",
                 v, k->min, k->max);
        return refuse_key(l, kv, why, err);
    }
    if (wants_real)
        *(float *)dst = (float)v;
    else
        *(int *)dst = (int)v;
    return FX_OK;
}

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

static fx_status refuse_unknown(const fxi_loader *l, fx_error *err)
{
    const fxi_gguf *g = l->g;
    const fxi_str arch = l->arch;
    for (uint64_t i = 0; i < fxi_gguf_n_kv(g); i++) {
        const fxi_gguf_kv *kv = fxi_gguf_kv_at(g, i);
        const size_t n = arch.n + 1; // of "ARCH."
        if (kv->key.n <= n || memcmp(kv->key.p, arch.p, arch.n) != 0 || kv->key.p[arch.n] != '.')
            continue;
        bool known = false;
        for (size_t k = 0; k < N_KEY && !known; k++)
            known = fxi_str_is((fxi_str){kv->key.p + n, kv->key.n - n}, arch_keys[k].key);
        if (!known && !says_nothing(kv))
            return fxi_fail(err, FX_EFORMAT, "%s: key '%s' is unknown, and may change the result",
                            fxi_gguf_name(g), fxi_show_text(kv->key).s);
    }
    return FX_OK;
}

// A key of recurrent layers that the family has not; NULL: there is none.
static const char *key_of_others(const fxi_loader *l)
{
    const fxi_keys *k = &l->keys;
    const fxi_mixer mixer = l->family->mixer;
    const bool has_states = mixer == FXI_MIX_DELTA || mixer == FXI_MIX_SSM;
    if (mixer != FXI_MIX_DELTA && k->attention_every) return "full_attention_interval";
    if (mixer != FXI_MIX_DELTA && find_arch_key(l, RECURRENT_LAYERS)) return RECURRENT_LAYERS;
    if (has_states) return NULL;
    return k->ssm_tap     ? "ssm.conv_kernel"
           : k->ssm_inner ? "ssm.inner_size"
           : k->ssm_state ? "ssm.state_size"
           : k->ssm_head  ? "ssm.time_step_rank"
           : k->ssm_group ? "ssm.group_count"
                          : NULL;
}

static fx_status read_arch_keys(fxi_loader *l, fx_error *err)
{
    fxi_keys *out = &l->keys;
    *out = (fxi_keys){.rms_eps = -1,
                      .layer_eps = -1,
                      .beta_fast = 32,
                      .beta_slow = 1,
                      .ext_factor = 1,
                      .is_causal = -1,
                      .norm_before = -1,
                      .is_finetuned = 1,
                      .yarn_truncates = -1,
                      .sums_to_1 = -1,
                      .normalizes = -1};
    for (size_t i = 0; i < N_KEY; i++) FX_TRY(read_key(l, &arch_keys[i], err));
    FX_TRY(fxi_gguf_str(l->g, ACTIVATION, false, &out->activation, err));
    FX_TRY(refuse_unknown(l, err));
    // Values that the blocks cannot compute with.
    const char *what = out->clamp_kqv != 0 ? "attention.clamp_kqv"
                       : out->alibi != 0   ? "attention.max_alibi_bias"
                                           : NULL;
    if (out->n_tap && l->family->mixer != FXI_MIX_CONV) what = "shortconv.l_cache";
    if (!what) what = key_of_others(l);
    if (!what) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: %s is not supported", fxi_gguf_name(l->g), what);
}

// ---- shape -------------------------------------------------------------------------------------

fxi_latent_sizes fxi_rules_latent(const fxi_loader *l)
{
    const fxi_keys *k = &l->keys;
    const int head = k->key_length_mla ? k->key_length_mla : k->key_length;
    return (fxi_latent_sizes){.q_lora = k->q_lora,
                              .n_lora = k->kv_lora,
                              .n_rope = k->n_rot,
                              .n_nope = head - k->n_rot,
                              .n_value =
                                  k->value_length_mla ? k->value_length_mla : k->value_length};
}

// All heads read one row. key_length and value_length are those of a head, or, in files that have
// key_length_mla and value_length_mla for that, those of the row.
static fx_status read_latent_heads(const fxi_loader *l, fxi_model_shape *s, fx_error *err)
{
    const fxi_keys *k = &l->keys;
    const fxi_latent_sizes n = fxi_rules_latent(l);
    if (!k->kv_lora) return missing_key(l, "attention.kv_lora_rank", err);
    if (!k->n_rot) return missing_key(l, "rope.dimension_count", err);
    if (!n.n_value) return missing_key(l, "attention.value_length_mla", err);
    if (n.n_nope < 1)
        return fxi_fail(
            err, FX_EFORMAT,
            "%s: attention.key_length_mla: %d numbers of a head, of which %d are rotated",
            fxi_gguf_name(l->g), n.n_nope + n.n_rope, n.n_rope);
    s->n_head = k->n_head;
    s->n_kv_head = 1;
    s->head_dim = n.n_lora + n.n_rope;
    if (k->key_length_mla && k->key_length && k->key_length != s->head_dim)
        return fxi_fail(err, FX_EFORMAT,
                        "%s: attention.key_length is %d, but kv_lora_rank and "
                        "rope.dimension_count are %d together",
                        fxi_gguf_name(l->g), k->key_length, s->head_dim);
    if (k->value_length_mla && k->value_length && k->value_length != n.n_lora)
        return fxi_fail(err, FX_EFORMAT, "%s: attention.value_length is %d, but kv_lora_rank is %d",
                        fxi_gguf_name(l->g), k->value_length, n.n_lora);
    const fxi_device *dev = l->m->dev;
    if (dev->ranks && dev->ranks->n > 1)
        return fxi_fail(err, FX_EINVAL, "%s: several devices cannot share out latent attention",
                        fxi_gguf_name(l->g));
    if (!dev->ranks && !dev->ops->latent_store)
        return fxi_fail(err, FX_EINVAL,
                        "%s: latent attention is not computed here: %s runs on the CPU only",
                        dev->name, fxi_gguf_name(l->g));
    return FX_OK;
}

static fx_status read_heads(const fxi_loader *l, fxi_model_shape *s, fx_error *err)
{
    const fxi_keys *k = &l->keys;
    if (l->family->flags & FXI_LATENT) return read_latent_heads(l, s, err);
    if (k->kv_lora || k->q_lora)
        return fxi_loading_fail(l, "latent attention (kv_lora_rank) is not part of this family",
                                err);
    s->n_head = k->n_head;
    s->n_kv_head = k->n_kv_head ? k->n_kv_head : k->n_head;
    s->head_dim = k->key_length ? k->key_length : k->dim / k->n_head;
    if (!k->key_length && k->dim % k->n_head)
        return fxi_loading_fail(l, "embedding_length is not a multiple of head_count", err);
    if (s->n_head % s->n_kv_head)
        return fxi_loading_fail(l, "attention.head_count is not a multiple of head_count_kv", err);
    if (s->head_dim > 1024) return fxi_loading_fail(l, "the head size is over 1024", err);
    if (k->value_length && k->value_length != s->head_dim)
        return fxi_loading_fail(l, "attention.key_length and value_length differ", err);
    return FX_OK;
}

// How the model embeds. Encoders whose file does not say it score pairs of texts, where they have a
// head for that, or pool the mean, as Sentence Transformers does then.
static fx_status read_pooling(const fxi_loader *l, fxi_model_shape *s, fx_error *err)
{
    const fxi_keys *k = &l->keys;
    const char *wanted = l->opt->pooling;
    s->has_unit_length = k->normalizes != 0;
    s->pooling = (fxi_pooling)k->pooling;
    const bool has_head =
        fxi_loader_find(l, (fxi_tensor_key){.name = "cls.output", .layer = -1}) != NULL;
    if (k->pooling > FXI_POOL_RANK)
        return fxi_loading_fail(l, "pooling_type is none of 0 to 4 (none, mean, first, last, rank)",
                                err);
    if (!k->pooling && !s->is_causal) s->pooling = has_head ? FXI_POOL_RANK : FXI_POOL_MEAN;
    if (wanted) FX_TRY(fxi_pooling_find(wanted, &s->pooling, err));
    s->generates = s->is_causal && s->pooling != FXI_POOL_RANK;
    return FX_OK;
}

static fx_status read_sizes(fxi_loader *l, fxi_model_shape *s, fx_error *err)
{
    const fxi_keys *k = &l->keys;
    const int n_block = k->n_layer - k->n_nextn;
    if (n_block < 1) return fxi_loading_fail(l, "nextn_predict_layers: no layer is left", err);
    for (int i = 0; i < n_block; i++) s->n_layer += !fxi_rules_feeds(l, i);
    if (fxi_rules_feeds(l, 0))
        return fxi_loading_fail(l, "the first block is a feed-forward block", err);
    s->dim = k->dim;
    s->n_ffn = k->n_ffn ? k->n_ffn : k->n_expert_ffn;
    s->train_ctx_tok = k->n_ctx;
    s->is_causal = k->is_causal < 0 ? !(l->family->flags & FXI_READS_ALL) : k->is_causal;
    FX_TRY(read_pooling(l, s, err));
    if (!s->n_ffn) return missing_key(l, "feed_forward_length", err);
    return read_heads(l, s, err);
}

// ---- rules -------------------------------------------------------------------------------------

static float or_1(float x)
{
    return x != 0 ? x : 1;
}

static void read_scales(const fxi_loader *l, fxi_rules *r)
{
    const fxi_keys *k = &l->keys;
    const fxi_model_shape *s = &l->m->model.shape;
    const float by_dim = l->family->flags & FXI_EMBD_SQRT_DIM ? sqrtf((float)s->dim) : 1;
    const bool is_square = l->family->square_layers == s->n_layer;
    const fxi_latent_sizes n = fxi_rules_latent(l);
    const float head = r->n_lora   ? (float)(n.n_nope + n.n_rope)
                       : is_square ? (float)s->dim / (float)s->n_head
                                   : (float)s->head_dim;
    r->attn_scale = k->attn_scale > 0 ? k->attn_scale : 1 / sqrtf(head);
    r->embd_scale = k->embd_scale != 0 ? k->embd_scale : by_dim;
    r->residual_scale = or_1(k->residual_scale);
    r->logit_scale = or_1(k->logit_scale);
    if (l->family->flags & FXI_LOGIT_DIVIDED) r->logit_scale = 1 / r->logit_scale;
    r->attn_cap = k->attn_cap;
    r->logit_cap = k->logit_cap;
    r->log_scale = k->log_scale;
    r->log_tok = k->log_tok ? k->log_tok : k->orig_ctx;
}

static fx_status read_activation(const fxi_loader *l, fxi_rules *r, fx_error *err)
{
    static const struct {
        const char *name;
        fxi_activation act;
    } known[] = {{"silu", FXI_ACT_SILU},
                 {"gelu", FXI_ACT_GELU_ERF},
                 {"gelu_tanh", FXI_ACT_GELU},
                 {"relu", FXI_ACT_RELU}};
    const fxi_str name = l->keys.activation;
    r->act = l->family->act;
    if (!name.n) return FX_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (fxi_str_is(name, known[i].name)) {
            r->act = known[i].act;
            return FX_OK;
        }
    return fxi_fail(err, FX_EFORMAT, "%s: the activation '%s' is unknown", fxi_gguf_name(l->g),
                    fxi_show_text(name).s);
}

// The shape of states, and of the rows of their layers.
static fx_status read_states(const fxi_loader *l, fxi_recurrence *r, fx_error *err)
{
    const fxi_keys *k = &l->keys;
    const struct {
        const char *key;
        int value;
    } must[] = {{"ssm.conv_kernel", k->ssm_tap},
                {"ssm.inner_size", k->ssm_inner},
                {"ssm.state_size", k->ssm_state},
                {"ssm.time_step_rank", k->ssm_head},
                {"ssm.group_count", k->ssm_group}};
    for (size_t i = 0; i < sizeof must / sizeof *must; i++)
        if (!must[i].value) return missing_key(l, must[i].key, err);
    if (k->ssm_inner % k->ssm_head)
        return fxi_loading_fail(l, "ssm.inner_size is not a multiple of ssm.time_step_rank", err);
    if (k->ssm_head % k->ssm_group)
        return fxi_loading_fail(l, "ssm.time_step_rank is not a multiple of ssm.group_count", err);
    const int n_keys = k->ssm_group * k->ssm_state;
    const bool is_delta = l->family->mixer == FXI_MIX_DELTA;
    *r = (fxi_recurrence){.row_tok = FXI_KV_STATE_TOK,
                          .n_head = k->ssm_head,
                          .n_group = k->ssm_group,
                          .n_key = k->ssm_state,
                          .n_value = k->ssm_inner / k->ssm_head,
                          .is_tiled = l->family->flags & FXI_TILED_HEADS,
                          .n_channel = 2 * n_keys + k->ssm_inner,
                          .n_state = k->ssm_inner * k->ssm_state};
    r->q_channel = is_delta ? 0 : k->ssm_inner + n_keys;
    r->k_channel = is_delta ? n_keys : k->ssm_inner;
    r->v_channel = is_delta ? 2 * n_keys : 0;
    r->key_at = r->n_channel;
    r->u_at = r->key_at + n_keys;
    r->g_at = r->u_at + k->ssm_inner;
    r->n_row = r->g_at + r->n_head;
    return FX_OK;
}

// What recurrent layers keep: a short convolution the rows that its taps reach.
static fx_status read_recurrence(const fxi_loader *l, fxi_recurrence *r, fx_error *err)
{
    bool some = false;
    for (int i = 0; i < l->keys.n_layer; i++)
        some |= !fxi_rules_feeds(l, i) && fxi_rules_mixer(l, i) != FXI_MIX_ATTENTION;
    if (!some) return FX_OK;
    if (l->family->mixer != FXI_MIX_CONV) return read_states(l, r, err);
    if (!l->keys.n_tap) return missing_key(l, "shortconv.l_cache", err);
    *r = (fxi_recurrence){.n_row = l->keys.dim, .row_tok = l->keys.n_tap};
    return FX_OK;
}

static fx_status check_groups(const fxi_loader *l, const fxi_router *r, fx_error *err)
{
    if (!r->n_group) return FX_OK;
    if (r->n_group > FXI_MAX_EXPERT_GROUP || r->n_expert % r->n_group)
        return fxi_fail(err, FX_EFORMAT,
                        "%s: %d experts are not of up to %d groups of as many each, but of %d",
                        fxi_gguf_name(l->g), r->n_expert, FXI_MAX_EXPERT_GROUP, r->n_group);
    if (r->n_group_used < 1 || r->n_group_used > r->n_group)
        return fxi_loading_fail(l, "expert_group_used_count is not from 1 to expert_group_count",
                                err);
    if (r->n_expert / r->n_group * r->n_group_used < r->n_used)
        return fxi_loading_fail(l, "expert_used_count is more than the chosen groups have", err);
    return FX_OK;
}

// The gating functions that files name: 0 (not said), 1 softmax, 2 sigmoid, 3 softmax of the
// chosen.
static fx_status read_experts(const fxi_loader *l, fxi_rules *rules, fx_error *err)
{
    const fxi_keys *k = &l->keys;
    const unsigned flags = l->family->flags;
    const bool by_family = (flags & FXI_SUMS_TO_1) || k->gating == 3;
    const bool is_sigmoid = k->gating ? k->gating == 2 : flags & FXI_SIGMOID;
    const bool sums_to_1 = k->sums_to_1 < 0 ? by_family : k->sums_to_1;
    fxi_router *r = &rules->router;
    *r = (fxi_router){.n_expert = k->n_expert,
                      .n_used = k->n_used,
                      .score = is_sigmoid ? FXI_ROUTE_SIGMOID : FXI_ROUTE_SOFTMAX,
                      .norm = sums_to_1 ? FXI_ROUTE_CHOSEN : FXI_ROUTE_ALL,
                      .n_group = k->n_group > 1 ? k->n_group : 0,
                      .n_group_used = k->n_group_used,
                      .scale = or_1(k->expert_scale)};
    rules->n_expert_ffn = k->n_expert_ffn ? k->n_expert_ffn : k->n_ffn;
    if (k->gating > 3)
        return fxi_loading_fail(l, "expert_gating_func is none of softmax (1, 3) and sigmoid (2)",
                                err);
    if (k->n_expert && (!k->n_used || k->n_used > k->n_expert))
        return fxi_loading_fail(l, "expert_used_count is not from 1 to expert_count", err);
    return check_groups(l, r, err);
}

// ---- parts of a model --------------------------------------------------------------------------

static fx_status not_shared_out(const fxi_loader *l, const char *what, int n, fx_error *err)
{
    return fxi_fail(err, FX_EINVAL, "%s: %d devices cannot share out %d %s", fxi_gguf_name(l->g),
                    l->cut.n_rank, n, what);
}

fx_status fxi_rules_cut(fxi_loader *l, fx_error *err)
{
    fxi_model_shape *s = &l->m->model.shape;
    const int n_rank = l->cut.n_rank;
    if (n_rank == 1) return FX_OK;
    if (l->m->rules.recurrence.n_row)
        return fxi_fail(err, FX_EINVAL, "%s: several devices cannot share out recurrent layers",
                        fxi_gguf_name(l->g));
    if (l->family->qk_norm == FXI_QK_ROW)
        return fxi_fail(err, FX_EINVAL,
                        "%s: several devices cannot share out a norm over the queries of all heads",
                        fxi_gguf_name(l->g));
    if (s->n_kv_head % n_rank && n_rank % s->n_kv_head)
        return not_shared_out(l, "KV heads", s->n_kv_head, err);
    if (s->n_head % n_rank) return not_shared_out(l, "heads", s->n_head, err);
    s->n_head /= n_rank;
    s->n_kv_head = s->n_kv_head > n_rank ? s->n_kv_head / n_rank : 1;
    return FX_OK;
}

fxi_head_range fxi_rules_heads(const fxi_loader *l)
{
    const int n = l->m->model.shape.n_head;
    return (fxi_head_range){n, n * l->cut.rank, n * l->cut.n_rank};
}

fxi_head_range fxi_rules_kv_heads(const fxi_loader *l)
{
    const fxi_keys *k = &l->keys;
    const int all = k->n_kv_head ? k->n_kv_head : k->n_head;
    const int first = all * l->cut.rank / l->cut.n_rank;
    return (fxi_head_range){l->m->model.shape.n_kv_head, first, all};
}

// ---- what differs from layer to layer ----------------------------------------------------------

// A key that says something of each layer: a flag for each or, if may_be_number, a number for all.
static fx_status check_flags(const fxi_loader *l, const fxi_gguf_kv *kv, bool may_be_number,
                             fx_error *err)
{
    const bool flags = kv && kv->type == FXI_GGUF_ARRAY && kv->elem_type != FXI_GGUF_STR &&
                       !is_real(kv->elem_type) && kv->n_elem >= (uint64_t)l->keys.n_layer;
    const bool number = kv && (kv->type == FXI_GGUF_U32 || kv->type == FXI_GGUF_I32);
    if (!kv || flags || (number && may_be_number)) return FX_OK;
    return refuse_key(l, kv, "has no flag for each layer", err);
}

static bool all_but_last_of(int every, int layer)
{
    return every == 0 || layer % every < every - 1;
}

// All but one of every so many layers have a window.
static bool is_windowed_of(const fxi_loader *l, int every, int layer)
{
    if (!(l->family->flags & FXI_FULL_FIRST)) return all_but_last_of(every, layer);
    return every == 0 || layer % every > 0;
}

bool fxi_rules_window(const fxi_loader *l, int layer)
{
    const fxi_gguf_kv *kv = find_arch_key(l, WINDOW_LAYERS);
    if (!l->keys.window) return false;
    if (!kv) return is_windowed_of(l, l->family->window_every, layer);
    if (kv->type == FXI_GGUF_ARRAY) return fxi_gguf_int_at(kv, (uint64_t)layer) != 0;
    const int64_t every = fxi_gguf_int_at(kv, 0);
    return is_windowed_of(l, every > 0 && every <= 1024 ? (int)every : 0, layer);
}

fxi_mixer fxi_rules_mixer(const fxi_loader *l, int layer)
{
    const bool by_place = l->family->mixer == FXI_MIX_DELTA;
    const fxi_gguf_kv *kv = find_arch_key(l, by_place ? RECURRENT_LAYERS : KV_HEADS);
    const int every = l->keys.attention_every ? l->keys.attention_every : 4;
    if (by_place &&
        (kv ? fxi_gguf_int_at(kv, (uint64_t)layer) != 0 : all_but_last_of(every, layer)))
        return l->family->mixer;
    if (by_place) return FXI_MIX_ATTENTION;
    const bool is_listed = kv && kv->type == FXI_GGUF_ARRAY && (uint64_t)layer < kv->n_elem;
    if (!is_listed || fxi_gguf_int_at(kv, (uint64_t)layer) != 0) return FXI_MIX_ATTENTION;
    return l->family->mixer;
}

bool fxi_rules_feeds(const fxi_loader *l, int block)
{
    const fxi_gguf_kv *kv = find_arch_key(l, FFN_LENGTH);
    return (l->family->flags & FXI_SPLIT_BLOCKS) && kv && kv->type == FXI_GGUF_ARRAY &&
           (uint64_t)block < kv->n_elem && fxi_gguf_int_at(kv, (uint64_t)block) != 0;
}

bool fxi_rules_rotates(const fxi_loader *l, int layer)
{
    const fxi_gguf_kv *said = fxi_gguf_find(l->g, ROPE_LAYERS);
    if (l->family->rope == FXI_ROPE_NONE) return false;
    if (l->family->flags & FXI_ROPE_SWITCH && !l->keys.is_finetuned) return false;
    if (said) return fxi_gguf_int_at(said, (uint64_t)layer) != 0;
    if ((l->family->flags & FXI_WINDOWS_ROTATE) && l->keys.window)
        return fxi_rules_window(l, layer);
    return all_but_last_of(l->family->no_rope_every, layer);
}

fx_status fxi_rules_read(fxi_loader *l, fx_error *err)
{
    fxi_rules *r = &l->m->rules;
    FX_TRY(read_arch_keys(l, err));
    FX_TRY(read_sizes(l, &l->m->model.shape, err));
    FX_TRY(check_flags(l, find_arch_key(l, WINDOW_LAYERS), true, err));
    FX_TRY(check_flags(l, find_arch_key(l, RECURRENT_LAYERS), false, err));
    FX_TRY(check_flags(l, fxi_gguf_find(l->g, ROPE_LAYERS), false, err));
    r->norm = l->family->norm;
    r->eps = r->norm == FXI_NORM_RMS ? l->keys.rms_eps : l->keys.layer_eps;
    if (r->eps < 0)
        return missing_key(l,
                           r->norm == FXI_NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                                   : "attention.layer_norm_epsilon",
                           err);
    FX_TRY(read_activation(l, r, err));
    FX_TRY(read_experts(l, r, err));
    r->n_lora = l->keys.kv_lora;
    FX_TRY(read_recurrence(l, &r->recurrence, err));
    read_scales(l, r);
    if (r->log_scale != 0 && !r->log_tok)
        return missing_key(l, "attention.temperature_length", err);
    r->is_parallel = (l->family->flags & FXI_PARALLEL) || l->keys.is_parallel;
    r->is_post_norm = (l->family->flags & FXI_POST_NORM) || !l->keys.norm_before;
    if (!l->keys.norm_before && !(l->family->flags & FXI_SMALL_OPT))
        return fxi_loading_fail(l, "do_layer_norm_before false is not supported", err);
    r->rotates_first = l->family->flags & FXI_ROTATES_FIRST;
    // Of what a token sees in both directions, the number is for both together.
    r->window =
        l->m->model.shape.is_causal || !l->keys.window ? l->keys.window : l->keys.window / 2 + 1;
    return FX_OK;
}
