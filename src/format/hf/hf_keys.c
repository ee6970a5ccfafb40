// hf_keys.c - the keys of a GGUF file from config.json: the numbers that every model has, what its
// family adds, and rotary embedding.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/hf/hf_folder.h"
#include "format/show.h"

static void write_u32(const fxi_folder *f, const char *name, uint32_t v)
{
    fxi_gguf_write_u32(f->w, FXI_HF_ARCH_KEY(f, name), v);
}

static void write_f32(const fxi_folder *f, const char *name, double v)
{
    fxi_gguf_write_f32(f->w, FXI_HF_ARCH_KEY(f, name), (float)v);
}

static void write_str(const fxi_folder *f, const char *name, const char *v)
{
    fxi_gguf_write_str(f->w, FXI_HF_ARCH_KEY(f, name), v);
}

static void write_bool(const fxi_folder *f, const char *name, bool v)
{
    fxi_gguf_write_bool(f->w, FXI_HF_ARCH_KEY(f, name), v);
}

// ---- rotary embedding ---------------------------------------------------------------------------

typedef struct rope_reader {
    fxi_folder *f;
    fxi_members p;  // rope_scaling or rope_parameters; root NULL: none
    uint32_t n_rot; // rotated numbers of a head
    double theta;
} rope_reader;

static fx_status need_positive(const rope_reader *r, const char *key, double v)
{
    return v > 0 ? FX_OK : fxi_members_fail(&r->p, key, "%g is not positive", v);
}

static fx_status need_factor(const rope_reader *r, double *factor)
{
    FX_TRY(fxi_members_f64(&r->p, "factor", true, factor));
    return need_positive(r, "factor", *factor);
}

// The context that the model was first trained with.
static fx_status read_original(const rope_reader *r, uint32_t *out)
{
    *out = r->f->ctx_tok;
    FX_TRY(fxi_members_u32(&r->f->config, "original_max_position_embeddings", false, out));
    FX_TRY(fxi_members_u32(&r->p, "original_max_position_embeddings", false, out));
    return need_positive(r, "original_max_position_embeddings", *out);
}

// ---- kinds of scaling --------------------------------------------------------------------------

// linear, dynamic
static fx_status write_factor(rope_reader *r, const char *type)
{
    double factor;
    FX_TRY(need_factor(r, &factor));
    write_str(r->f, "rope.scaling.type", type);
    write_f32(r->f, "rope.scaling.factor", factor);
    if (!strcmp(type, "dynamic"))
        write_u32(r->f, "rope.scaling.original_context_length", r->f->ctx_tok);
    return FX_OK;
}

// YaRN's scale of attention for a factor (Peng et al.: YaRN, 2023).
static double yarn_scale(double factor, double weight)
{
    return factor <= 1 ? 1 : 1 + 0.1 * weight * log(factor);
}

// What cos and sin are multiplied with.
static fx_status read_yarn_attention(const rope_reader *r, double factor, double *out)
{
    double mscale = 0, all_dim = 0;
    *out = yarn_scale(factor, 1);
    FX_TRY(fxi_members_f64(&r->p, "mscale", false, &mscale));
    FX_TRY(fxi_members_f64(&r->p, "mscale_all_dim", false, &all_dim));
    if (mscale != 0 && all_dim != 0)
        *out = yarn_scale(factor, mscale) / yarn_scale(factor, all_dim);
    return fxi_members_f64(&r->p, "attention_factor", false, out);
}

static fx_status write_yarn(rope_reader *r, const char *type)
{
    double factor, attention, fast = 32, slow = 1;
    uint32_t original;
    bool truncate = true;
    FX_TRY(need_factor(r, &factor));
    FX_TRY(read_original(r, &original));
    FX_TRY(read_yarn_attention(r, factor, &attention));
    FX_TRY(fxi_members_f64(&r->p, "beta_fast", false, &fast));
    FX_TRY(fxi_members_f64(&r->p, "beta_slow", false, &slow));
    FX_TRY(fxi_members_bool(&r->p, "truncate", &truncate));
    write_str(r->f, "rope.scaling.type", type);
    write_f32(r->f, "rope.scaling.factor", factor);
    write_u32(r->f, "rope.scaling.original_context_length", original);
    write_f32(r->f, "rope.scaling.yarn_beta_fast", fast);
    write_f32(r->f, "rope.scaling.yarn_beta_slow", slow);
    if (attention != yarn_scale(factor, 1))
        write_f32(r->f, "rope.scaling.attn_factor", attention / yarn_scale(factor, 1));
    if (fxi_members_get(&r->p, "truncate"))
        write_bool(r->f, "rope.scaling.yarn_truncate", truncate);
    return FX_OK;
}

// Llama 3.1's: low frequencies are divided by the factor, those between are blended.
static fx_status write_llama3(rope_reader *r, const char *type)
{
    (void)type;
    double factor, low = 1, high = 4;
    uint32_t original;
    FX_TRY(need_factor(r, &factor));
    FX_TRY(fxi_members_f64(&r->p, "low_freq_factor", false, &low));
    FX_TRY(fxi_members_f64(&r->p, "high_freq_factor", false, &high));
    FX_TRY(read_original(r, &original));
    if (!(low > 0 && high > low))
        return fxi_members_fail(&r->p, "high_freq_factor", "not above low_freq_factor");
    const uint32_t n = r->n_rot / 2;
    float *v = malloc(n * sizeof *v);
    if (!v) return fxi_fail_memory(r->f->err);
    for (uint32_t i = 0; i < n; i++) {
        const double wave = 2 * M_PI * pow(r->theta, 2.0 * i / r->n_rot), turns = original / wave;
        const double blend = (turns - low) / (high - low);
        v[i] = (float)(turns > high  ? 1
                       : turns < low ? factor
                                     : 1 / ((1 - blend) / factor + blend));
    }
    return fxi_hf_plan_vector(r->f, "rope_freqs.weight", v, n);
}

static fx_status write_factors(rope_reader *r, const char *key, const char *name)
{
    const fxi_json *list = fxi_members_get(&r->p, key);
    const uint32_t n = r->n_rot / 2;
    if (fxi_json_array_size(list) != n) return fxi_members_fail(&r->p, key, "not a list of %u", n);
    for (uint32_t i = 0; i < n; i++)
        if (!(fxi_json_number(fxi_json_at(list, i)) > 0))
            return fxi_members_fail(&r->p, key, "number %u is not positive", i);
    float *v = malloc(n * sizeof *v);
    if (!v) return fxi_fail_memory(r->f->err);
    for (uint32_t i = 0; i < n; i++) v[i] = (float)fxi_json_number(fxi_json_at(list, i));
    return fxi_hf_plan_vector(r->f, name, v, n);
}

static fx_status write_longrope(rope_reader *r, const char *type)
{
    (void)type; // "su" is an older name
    uint32_t original;
    FX_TRY(read_original(r, &original));
    double factor = (double)r->f->ctx_tok / original;
    FX_TRY(fxi_members_f64(&r->p, "factor", false, &factor));
    double attention = factor <= 1 ? 1 : sqrt(1 + log(factor) / log(original));
    FX_TRY(fxi_members_f64(&r->p, "attention_factor", false, &attention));
    write_str(r->f, "rope.scaling.type", "longrope");
    write_u32(r->f, "rope.scaling.original_context_length", original);
    write_f32(r->f, "rope.scaling.attn_factor", attention);
    FX_TRY(write_factors(r, "long_factor", "rope_factors_long.weight"));
    return write_factors(r, "short_factor", "rope_factors_short.weight");
}

static const struct rope_kind {
    const char *name;
    fx_status (*write)(rope_reader *r, const char *type); // NULL: nothing to write
} rope_kinds[] = {
    {"default", NULL},      {"linear", write_factor}, {"dynamic", write_factor},
    {"yarn", write_yarn},   {"llama3", write_llama3}, {"longrope", write_longrope},
    {"su", write_longrope},
};

static fx_status write_scaling(rope_reader *r)
{
    fxi_str type = fxi_str_of("default");
    if (!r->p.root) return FX_OK;
    FX_TRY(fxi_members_str(&r->p, "type", false, &type));
    FX_TRY(fxi_members_str(&r->p, "rope_type", false, &type));
    for (size_t i = 0; i < sizeof rope_kinds / sizeof *rope_kinds; i++)
        if (fxi_str_is(type, rope_kinds[i].name))
            return rope_kinds[i].write ? rope_kinds[i].write(r, rope_kinds[i].name) : FX_OK;
    return fxi_members_fail(&r->p, "rope_type", "'%s' is not supported", fxi_show_text(type).s);
}

// ---- base and size -----------------------------------------------------------------------------

static fx_status read_n_rot(rope_reader *r)
{
    static const char *const names[] = {"rotary_pct", "rotary_emb_fraction",
                                        "partial_rotary_factor"};
    double part = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        FX_TRY(fxi_members_f64(&r->f->config, names[i], false, &part));
    if (r->p.root) FX_TRY(fxi_members_f64(&r->p, "partial_rotary_factor", false, &part));
    r->n_rot = part > 0 && part <= 1 ? (uint32_t)(r->f->head_dim * part) : 0;
    if (r->n_rot >= 2 && r->n_rot % 2 == 0) return FX_OK;
    return fxi_members_fail(&r->f->config, "partial_rotary_factor",
                            "%g of %u numbers cannot be rotated in pairs", part, r->f->head_dim);
}

// Gemma 3 and ModernBERT: layers with a window have a base of their own and no scaling.
static fx_status write_local_theta(const rope_reader *r, const fxi_members *all)
{
    double theta = 10000;
    static const char *const archs[] = {"gemma3", "gemma-embedding", "modern-bert"};
    if (!fxi_str_is_any(fxi_str_of(r->f->family->arch), archs, sizeof archs / sizeof *archs))
        return FX_OK;
    FX_TRY(fxi_members_f64(&r->f->config, "rope_local_base_freq", false, &theta));
    FX_TRY(fxi_members_f64(&r->f->config, "local_rope_theta", false, &theta));
    const fxi_members local = fxi_members_part(all, "sliding_attention");
    if (local.root) FX_TRY(fxi_members_f64(&local, "rope_theta", false, &theta));
    write_f32(r->f, "rope.freq_base_swa", theta);
    return FX_OK;
}

static fx_status write_temperature(const rope_reader *r)
{
    double beta = 0;
    uint32_t original;
    if (!r->p.root || !fxi_members_get(&r->p, "llama_4_scaling_beta")) return FX_OK;
    FX_TRY(fxi_members_f64(&r->p, "llama_4_scaling_beta", true, &beta));
    FX_TRY(read_original(r, &original));
    write_f32(r->f, "attention.temperature_scale", beta);
    write_u32(r->f, "attention.temperature_length", original);
    return FX_OK;
}

static fx_status write_rope(fxi_folder *f)
{
    rope_reader r = {.f = f};
    if (f->family->flags & FXI_HF_NO_ROPE) return FX_OK;
    fxi_members all = fxi_members_part(&f->config, "rope_parameters");
    if (!all.root) all = fxi_members_part(&f->config, "rope_scaling");
    const fxi_members full = fxi_members_part(&all, "full_attention");
    r.p = full.root ? full : all;
    static const char *const names[] = {"rotary_emb_base", "rope_theta", "global_rope_theta"};
    r.theta = 10000;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        FX_TRY(fxi_members_f64(&r.f->config, names[i], false, &r.theta));
    if (r.p.root) FX_TRY(fxi_members_f64(&r.p, "rope_theta", false, &r.theta));
    if (!(r.theta > 0))
        return fxi_members_fail(&r.f->config, "rope_theta", "%g is not positive", r.theta);
    FX_TRY(read_n_rot(&r));
    write_u32(r.f, "rope.dimension_count", r.n_rot);
    write_f32(r.f, "rope.freq_base", r.theta);
    FX_TRY(write_local_theta(&r, &all));
    FX_TRY(write_temperature(&r));
    return write_scaling(&r);
}

// ---- numbers -----------------------------------------------------------------------------------

// A number and the members that may hold it; the first that is there counts.
static const struct shape_number {
    const char *names[4];
    size_t offset; // in fxi_folder
    bool must;
    uint32_t max;
} shape_numbers[] = {
    {{"num_hidden_layers", "n_layer"}, offsetof(fxi_folder, n_layer), true, 1024},
    {{"hidden_size", "n_embd"}, offsetof(fxi_folder, dim), true, 1 << 17},
    {{"num_attention_heads", "n_head"}, offsetof(fxi_folder, n_head), true, 4096},
    {{"num_kv_heads", "num_key_value_heads"}, offsetof(fxi_folder, n_kv_head), false, 4096},
    {{"head_dim"}, offsetof(fxi_folder, head_dim), false, 1024},
    {{"num_local_experts", "num_experts"}, offsetof(fxi_folder, n_expert), false, 4096},
    {{"max_trained_positions", "max_position_embeddings", "n_positions"}, // nomic_bert's first
     offsetof(fxi_folder, ctx_tok),
     false,
     1 << 24},
};

static fx_status read_shape_number(fxi_folder *f, const struct shape_number *n)
{
    uint32_t *out = (uint32_t *)(void *)((char *)f + n->offset);
    for (size_t i = 0; i < 4 && n->names[i]; i++) {
        if (!fxi_members_get(&f->config, n->names[i])) continue;
        FX_TRY(fxi_members_u32(&f->config, n->names[i], true, out));
        if (*out <= n->max && (*out || !n->must)) return FX_OK;
        return fxi_members_fail(&f->config, n->names[i], "%u is out of range (1 to %u)", *out,
                                n->max);
    }
    return n->must ? fxi_members_fail(&f->config, n->names[0], "missing") : FX_OK;
}

// Positions start after the padding position; earlier ones are left out of the file.
static fx_status cut_positions(fxi_folder *f)
{
    uint32_t pad = 1;
    if (!(f->family->flags & FXI_HF_FROM_POSITION_2)) return FX_OK;
    FX_TRY(fxi_members_u32(&f->config, "pad_token_id", false, &pad));
    if (pad != 1 || f->ctx_tok < 3)
        return fxi_members_fail(&f->config, "pad_token_id", "only 1 is supported");
    f->ctx_tok -= 2;
    return FX_OK;
}

// 71 heads share one KV head in Falcon: heads need not be a power of two.
static fx_status check_shape_numbers(fxi_folder *f)
{
    if (!f->n_kv_head) f->n_kv_head = f->n_head;
    if (!strcmp(f->family->arch, "falcon")) { // one KV head, unless its newer layout says how many
        bool newer = false, multi = true;
        FX_TRY(fxi_members_bool(&f->config, "new_decoder_architecture", &newer));
        FX_TRY(fxi_members_bool(&f->config, "multi_query", &multi));
        if (!newer) f->n_kv_head = multi ? 1 : f->n_head;
    }
    if (!f->head_dim && f->dim % f->n_head)
        return fxi_members_fail(&f->config, "hidden_size", "%u is not a multiple of %u heads",
                                f->dim, f->n_head);
    if (!f->head_dim) f->head_dim = f->dim / f->n_head;
    if (f->n_head % f->n_kv_head)
        return fxi_members_fail(&f->config, "num_key_value_heads",
                                "%u heads are not a multiple of %u KV heads", f->n_head,
                                f->n_kv_head);
    if (!f->ctx_tok) f->ctx_tok = 2048; // Falcon's, which its config does not say
    return cut_positions(f);
}

static fx_status read_tie(fxi_folder *f)
{
    const bool given = fxi_members_get(&f->config, "tie_word_embeddings") != NULL;
    const bool untied_head = fxi_hf_files_find(&f->files, "lm_head.weight") ||
                             fxi_hf_files_find(&f->files, "language_model.lm_head.weight") ||
                             fxi_hf_files_find(&f->files, "embed_out.weight");
    f->tied = false;
    FX_TRY(fxi_members_bool(&f->config, "tie_word_embeddings", &f->tied));
    if (f->tied || untied_head || !given || !fxi_hf_files_find(&f->files, "model.norm.weight"))
        return FX_OK;
    return fxi_members_fail(&f->config, "tie_word_embeddings",
                            "false, but there is no tensor lm_head.weight");
}

static fx_status read_quantization(fxi_folder *f)
{
    static const char *const known[] = {"fp8", "mxfp4", "compressed-tensors"};
    static const char *const packed[] = {"gptq", "awq"};
    const fxi_members q = fxi_members_part(&f->whole.all, "quantization_config");
    fxi_str method = {0};
    if (!q.root) return FX_OK;
    FX_TRY(fxi_members_str(&q, "quant_method", true, &method));
    if (fxi_str_is_any(method, packed, sizeof packed / sizeof *packed)) {
        fxi_packed_form form;
        FX_TRY(fxi_packed_form_read(&q, method, &form));
        return fxi_packed_find(&f->files, &form, &f->packed, f->err);
    }
    if (fxi_str_is_any(method, known, sizeof known / sizeof *known)) return FX_OK;
    return fxi_members_fail(&q, "quant_method",
                            "'%s' is not supported (gptq, awq, fp8, mxfp4, compressed-tensors)",
                            fxi_show_text(method).s);
}

fx_status fxi_hf_read_numbers(fxi_folder *f)
{
    FX_TRY(read_quantization(f));
    for (size_t i = 0; i < sizeof shape_numbers / sizeof *shape_numbers; i++)
        FX_TRY(read_shape_number(f, &shape_numbers[i]));
    FX_TRY(check_shape_numbers(f));
    return read_tie(f);
}

// ---- what is not supported ---------------------------------------------------------------------

static fx_status check_neutral(const fxi_folder *f, const fxi_hf_neutral *n)
{
    for (; n && n->key; n++) {
        const fxi_json *v = fxi_members_get(&f->config, n->key);
        const char *text =
            fxi_json_is_bool(v) ? fxi_json_is_true(v) ? "true" : "false" : fxi_json_text(v);
        if (v && (!text || strcmp(text, n->value) != 0))
            return fxi_members_fail(&f->config, n->key, "only %s is supported", n->value);
    }
    return FX_OK;
}

static const struct act_name {
    const char *config, *key; // config.json's word; flexinfer.activation
} act_names[] = {
    {"silu", "silu"},           {"swish", "silu"},          {"gelu", "gelu"},
    {"gelu_new", "gelu_tanh"},  {"gelu_fast", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"},
    {"gelu_tanh", "gelu_tanh"}, {"relu", "relu"},
};

static const char *act_of(fxi_str config)
{
    for (size_t i = 0; i < sizeof act_names / sizeof *act_names; i++)
        if (fxi_str_is(config, act_names[i].config)) return act_names[i].key;
    return NULL;
}

// Writes flexinfer.activation where it is not the architecture's.
static fx_status write_activation(const fxi_folder *f)
{
    static const char *const member[] = {"hidden_act", "hidden_activation", "activation_function"};
    if (!f->family->act) return FX_OK;
    const fxi_str usual = fxi_str_of(f->family->act);
    fxi_str act = usual;
    for (size_t i = 0; i < sizeof member / sizeof *member; i++) {
        FX_TRY(fxi_members_str(&f->config, member[i], false, &act));
        if (!act_of(act))
            return fxi_members_fail(&f->config, member[i], "'%s' is not supported",
                                    fxi_show_text(act).s);
    }
    if (strcmp(act_of(act), act_of(usual)))
        fxi_gguf_write_str(f->w, "flexinfer.activation", act_of(act));
    return FX_OK;
}

// ---- windows -----------------------------------------------------------------------------------

enum { MAX_LAYER = 1024 };

// layer_types: the layers that see a window.
static fx_status read_layer_types(const fxi_folder *f, const fxi_json *types, uint8_t *windowed)
{
    if (fxi_json_array_size(types) != f->n_layer)
        return fxi_members_fail(&f->config, "layer_types", "not a list of %u", f->n_layer);
    for (uint32_t i = 0; i < f->n_layer; i++) {
        const char *type = fxi_json_text(fxi_json_at(types, i));
        windowed[i] = type && !strcmp(type, "sliding_attention");
        if (windowed[i] || (type && !strcmp(type, "full_attention"))) continue;
        return fxi_members_fail(&f->config, "layer_types", "layer %u: '%s' is not supported", i,
                                type ? fxi_show_text(fxi_str_of(type)).s : "");
    }
    return FX_OK;
}

static fx_status guess_windows(const fxi_folder *f, uint8_t *windowed)
{
    uint32_t first = f->n_layer, step = strcmp(f->family->model_type, "gemma3_text") ? 2 : 6;
    if (!strcmp(f->family->model_type, "olmo3")) step = 4;
    const bool full_first = !strcmp(f->family->arch, "modern-bert");
    if (full_first) step = 3;
    FX_TRY(fxi_members_u32(&f->config, "max_window_layers", false, &first));
    FX_TRY(fxi_members_u32(&f->config, "sliding_window_pattern", false, &step));
    FX_TRY(fxi_members_u32(&f->config, "global_attn_every_n_layers", false, &step));
    const uint32_t full = full_first ? 0 : step - 1; // of every `step` layers
    for (uint32_t i = 0; i < f->n_layer; i++)
        windowed[i] = f->family->window == FXI_HF_EVERY ||
                      (f->family->window == FXI_HF_FROM_LAYER && i >= first) ||
                      (f->family->window == FXI_HF_PATTERN && step && i % step != full);
    return FX_OK;
}

static fx_status write_windows(const fxi_folder *f)
{
    uint8_t windowed[MAX_LAYER] = {0};
    uint32_t window = 0;
    bool used = f->family->window != FXI_HF_NO_WINDOW;
    if (f->family->window == FXI_HF_FROM_LAYER) used = false; // unless config.json says so
    FX_TRY(fxi_members_bool(&f->config, "use_sliding_window", &used));
    FX_TRY(fxi_members_u32(&f->config, "sliding_window", false, &window));
    FX_TRY(fxi_members_u32(&f->config, "local_attention", false, &window));
    const fxi_json *types = fxi_members_get(&f->config, "layer_types");
    if (!window || (!used && !types)) return FX_OK;
    FX_TRY(types ? read_layer_types(f, types, windowed) : guess_windows(f, windowed));
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_layer; i++) n += windowed[i];
    if (n) write_u32(f, "attention.sliding_window", window);
    if (n && (n < f->n_layer || f->family->window == FXI_HF_PATTERN))
        fxi_gguf_write_array(f->w, FXI_HF_ARCH_KEY(f, "attention.sliding_window_pattern"),
                             FXI_GGUF_BOOL, windowed, f->n_layer);
    return FX_OK;
}

// ---- keys --------------------------------------------------------------------------------------

static fx_status write_member(const fxi_folder *f, const fxi_hf_key *k)
{
    uint32_t u = 0;
    double d = 0;
    bool b = false;
    if (!fxi_members_get(&f->config, k->from)) return FX_OK;
    switch (k->value) {
    case FXI_HF_U32:
        FX_TRY(fxi_members_u32(&f->config, k->from, true, &u));
        write_u32(f, k->to, u);
        break;
    case FXI_HF_F32:
        FX_TRY(fxi_members_f64(&f->config, k->from, true, &d));
        write_f32(f, k->to, d);
        break;
    case FXI_HF_BOOL:
        FX_TRY(fxi_members_bool(&f->config, k->from, &b));
        write_bool(f, k->to, b);
        break;
    }
    return FX_OK;
}

static bool is_in_rows(const fxi_hf_key *k, const fxi_hf_key *end, const char *to,
                       const fxi_folder *f)
{
    for (; k && k != end && k->from; k++)
        if (!strcmp(k->to, to) && fxi_members_get(&f->config, k->from)) return true;
    return false;
}

// A key is written once: the family's row before the common one, the first of several names.
static fx_status write_members(const fxi_folder *f)
{
    for (const fxi_hf_key *k = f->family->keys; k && k->from; k++) FX_TRY(write_member(f, k));
    for (const fxi_hf_key *k = fxi_hf_common_keys; k->from; k++)
        if (!is_in_rows(f->family->keys, NULL, k->to, f) &&
            !is_in_rows(fxi_hf_common_keys, k, k->to, f))
            FX_TRY(write_member(f, k));
    return FX_OK;
}

static fx_status write_epsilon(const fxi_folder *f)
{
    static const char *const names[] = {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
                                        "norm_epsilon", "norm_eps"};
    double eps = 1e-5;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        FX_TRY(fxi_members_f64(&f->config, names[i], false, &eps));
    write_f32(f,
              f->family->flags & FXI_HF_LAYER_NORM ? "attention.layer_norm_epsilon"
                                                   : "attention.layer_norm_rms_epsilon",
              eps);
    return FX_OK;
}

static fx_status write_ffn_length(const fxi_folder *f)
{
    static const char *const names[] = {"intermediate_size", "n_inner", "ffn_dim",
                                        "ffn_hidden_size"};
    uint32_t n = f->family->flags & FXI_HF_FFN_4X ? 4 * f->dim : 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        FX_TRY(fxi_members_u32(&f->config, names[i], false, &n));
    if (!n) return fxi_members_fail(&f->config, names[0], "missing");
    write_u32(f, "feed_forward_length", n);
    return FX_OK;
}

// Gemma's scale of q x k; 1 / sqrt(head size) elsewhere unless a family's key says otherwise.
static fx_status write_gemma_scale(const fxi_folder *f)
{
    double scalar = 0;
    if (!fxi_members_get(&f->config, "query_pre_attn_scalar")) return FX_OK;
    FX_TRY(fxi_members_f64(&f->config, "query_pre_attn_scalar", true, &scalar));
    if (!(scalar > 0))
        return fxi_members_fail(&f->config, "query_pre_attn_scalar", "%g is not positive", scalar);
    write_f32(f, "attention.scale", 1 / sqrt(scalar));
    return FX_OK;
}

// The experts' size is the feed-forward's, in families that have no dense layers.
static fx_status write_expert_length(const fxi_folder *f)
{
    uint32_t n = 0;
    if (!f->n_expert || fxi_members_get(&f->config, "moe_intermediate_size") ||
        !strcmp(f->family->model_type, "gpt_oss") || !strcmp(f->family->arch, "llama"))
        return FX_OK;
    FX_TRY(fxi_members_u32(&f->config, "intermediate_size", true, &n));
    write_u32(f, "expert_feed_forward_length", n);
    return FX_OK;
}

// no_rope_layers: 1 where a layer has rotary embedding.
static fx_status write_no_rope_layers(const fxi_folder *f)
{
    uint8_t has[MAX_LAYER];
    const fxi_json *list = fxi_members_get(&f->config, "no_rope_layers");
    if (!list || strcmp(f->family->arch, "smollm3")) return FX_OK;
    if (fxi_json_array_size(list) != f->n_layer)
        return fxi_members_fail(&f->config, "no_rope_layers", "not a list of %u", f->n_layer);
    bool usual = true;
    for (uint32_t i = 0; i < f->n_layer; i++) {
        has[i] = fxi_json_number(fxi_json_at(list, i)) != 0;
        usual = usual && has[i] == (i % 4 != 3);
    }
    if (!usual)
        fxi_gguf_write_array(f->w, "flexinfer.no_rope_layer_step", FXI_GGUF_BOOL, has, f->n_layer);
    return FX_OK;
}

// ---- the whole ---------------------------------------------------------------------------------

static void write_shape(const fxi_folder *f)
{
    write_u32(f, "block_count", f->n_layer);
    write_u32(f, "context_length", f->ctx_tok);
    write_u32(f, "embedding_length", f->dim);
    write_u32(f, "attention.head_count", f->n_head);
    write_u32(f, "attention.head_count_kv", f->n_kv_head);
    if ((uint64_t)f->head_dim * f->n_head == f->dim && !fxi_members_get(&f->config, "head_dim"))
        return;
    write_u32(f, "attention.key_length", f->head_dim);
    write_u32(f, "attention.value_length", f->head_dim);
}

fx_status fxi_hf_write_keys(fxi_folder *f)
{
    FX_TRY(check_neutral(f, fxi_hf_common_neutral));
    FX_TRY(check_neutral(f, f->family->neutral));
    fxi_gguf_write_str(f->w, "general.architecture", f->family->arch);
    fxi_gguf_write_str(f->w, "general.type", "model");
    write_shape(f);
    FX_TRY(write_ffn_length(f));
    FX_TRY(write_epsilon(f));
    FX_TRY(write_members(f));
    FX_TRY(write_expert_length(f));
    FX_TRY(write_gemma_scale(f));
    FX_TRY(write_windows(f));
    FX_TRY(write_no_rope_layers(f));
    FX_TRY(write_activation(f));
    if (f->family->flags & FXI_HF_ENCODER) write_bool(f, "attention.causal", false);
    return write_rope(f);
}
