// hf_rope.c - rotary embedding: rope_theta and rope_scaling (or rope_parameters, as newer configs
// have it) to keys, and to vectors of divisors where GGUF has those.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/hf/hf_folder.h"
#include "format/show.h"

typedef struct rope_reader {
    fxi_folder *f;
    fxi_config p;   // rope_scaling or rope_parameters; root NULL: none
    uint32_t n_rot; // rotated numbers of a head
    double theta;
} rope_reader;

static void put_f32(const rope_reader *r, const char *name, double v)
{
    char key[FXI_HF_KEY_BYTES];
    fxi_gguf_write_f32(r->f->w, fxi_hf_arch_key(r->f, name, key), (float)v);
}

static void put_u32(const rope_reader *r, const char *name, uint32_t v)
{
    char key[FXI_HF_KEY_BYTES];
    fxi_gguf_write_u32(r->f->w, fxi_hf_arch_key(r->f, name, key), v);
}

static void put_scaling_type(const rope_reader *r, const char *type)
{
    char key[FXI_HF_KEY_BYTES];
    fxi_gguf_write_str(r->f->w, fxi_hf_arch_key(r->f, "rope.scaling.type", key), type);
}

static fx_status number_of(const rope_reader *r, const char *key, bool must, double *out)
{
    return fxi_config_f64(&r->p, key, must, out, r->f->err);
}

static fx_status need_positive(const rope_reader *r, const char *key, double v)
{
    return v > 0 ? FX_OK : fxi_config_fail(&r->p, key, r->f->err, "%g is not positive", v);
}

static fx_status need_factor(const rope_reader *r, double *factor)
{
    FX_TRY(number_of(r, "factor", true, factor));
    return need_positive(r, "factor", *factor);
}

// The context that the model was first trained with.
static fx_status read_original(const rope_reader *r, uint32_t *out)
{
    *out = r->f->ctx_tok;
    FX_TRY(
        fxi_config_u32(&r->f->config, "original_max_position_embeddings", false, out, r->f->err));
    FX_TRY(fxi_config_u32(&r->p, "original_max_position_embeddings", false, out, r->f->err));
    return need_positive(r, "original_max_position_embeddings", *out);
}

// ---- kinds of scaling --------------------------------------------------------------------------

static fx_status write_no_scaling(rope_reader *r)
{
    (void)r;
    return FX_OK;
}

static fx_status write_linear(rope_reader *r)
{
    double factor;
    FX_TRY(need_factor(r, &factor));
    put_scaling_type(r, "linear");
    put_f32(r, "rope.scaling.factor", factor);
    return FX_OK;
}

static fx_status write_dynamic(rope_reader *r)
{
    double factor;
    FX_TRY(need_factor(r, &factor));
    put_scaling_type(r, "dynamic");
    put_f32(r, "rope.scaling.factor", factor);
    put_u32(r, "rope.scaling.original_context_length", r->f->ctx_tok);
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
    FX_TRY(number_of(r, "mscale", false, &mscale));
    FX_TRY(number_of(r, "mscale_all_dim", false, &all_dim));
    if (mscale != 0 && all_dim != 0)
        *out = yarn_scale(factor, mscale) / yarn_scale(factor, all_dim);
    return number_of(r, "attention_factor", false, out);
}

static fx_status write_yarn(rope_reader *r)
{
    double factor, attention, fast = 32, slow = 1;
    uint32_t original;
    bool truncate = true;
    char key[FXI_HF_KEY_BYTES];
    FX_TRY(need_factor(r, &factor));
    FX_TRY(read_original(r, &original));
    FX_TRY(read_yarn_attention(r, factor, &attention));
    FX_TRY(number_of(r, "beta_fast", false, &fast));
    FX_TRY(number_of(r, "beta_slow", false, &slow));
    FX_TRY(fxi_config_bool(&r->p, "truncate", &truncate, r->f->err));
    put_scaling_type(r, "yarn");
    put_f32(r, "rope.scaling.factor", factor);
    put_u32(r, "rope.scaling.original_context_length", original);
    put_f32(r, "rope.scaling.yarn_beta_fast", fast);
    put_f32(r, "rope.scaling.yarn_beta_slow", slow);
    if (attention != yarn_scale(factor, 1))
        put_f32(r, "rope.scaling.attn_factor", attention / yarn_scale(factor, 1));
    if (fxi_config_get(&r->p, "truncate"))
        fxi_gguf_write_bool(r->f->w, fxi_hf_arch_key(r->f, "rope.scaling.yarn_truncate", key),
                            truncate);
    return FX_OK;
}

// Llama 3.1's: low frequencies are divided by the factor, those between are blended.
static fx_status write_llama3(rope_reader *r)
{
    double factor, low = 1, high = 4;
    uint32_t original;
    FX_TRY(need_factor(r, &factor));
    FX_TRY(number_of(r, "low_freq_factor", false, &low));
    FX_TRY(number_of(r, "high_freq_factor", false, &high));
    FX_TRY(read_original(r, &original));
    if (!(low > 0 && high > low))
        return fxi_config_fail(&r->p, "high_freq_factor", r->f->err, "not above low_freq_factor");
    const uint32_t n = r->n_rot / 2;
    float *v = malloc(n * sizeof *v);
    if (!v) return fxi_fail(r->f->err, FX_ENOMEM, "%s: no memory", r->f->path);
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
    const json_t *list = fxi_config_get(&r->p, key);
    const uint32_t n = r->n_rot / 2;
    if (json_array_size(list) != n)
        return fxi_config_fail(&r->p, key, r->f->err, "not a list of %u", n);
    for (uint32_t i = 0; i < n; i++)
        if (!(json_number_value(json_array_get(list, i)) > 0))
            return fxi_config_fail(&r->p, key, r->f->err, "number %u is not positive", i);
    float *v = malloc(n * sizeof *v);
    if (!v) return fxi_fail(r->f->err, FX_ENOMEM, "%s: no memory", r->f->path);
    for (uint32_t i = 0; i < n; i++) v[i] = (float)json_number_value(json_array_get(list, i));
    return fxi_hf_plan_vector(r->f, name, v, n);
}

static fx_status write_longrope(rope_reader *r)
{
    uint32_t original;
    FX_TRY(read_original(r, &original));
    double factor = (double)r->f->ctx_tok / original;
    FX_TRY(number_of(r, "factor", false, &factor));
    double attention = factor <= 1 ? 1 : sqrt(1 + log(factor) / log(original));
    FX_TRY(number_of(r, "attention_factor", false, &attention));
    put_scaling_type(r, "longrope");
    put_u32(r, "rope.scaling.original_context_length", original);
    put_f32(r, "rope.scaling.attn_factor", attention);
    FX_TRY(write_factors(r, "long_factor", "rope_factors_long.weight"));
    return write_factors(r, "short_factor", "rope_factors_short.weight");
}

static const struct rope_kind {
    const char *name;
    fx_status (*write)(rope_reader *r);
} rope_kinds[] = {
    {"default", write_no_scaling}, {"linear", write_linear}, {"dynamic", write_dynamic},
    {"yarn", write_yarn},          {"llama3", write_llama3}, {"longrope", write_longrope},
    {"su", write_longrope},
};

static fx_status write_scaling(rope_reader *r)
{
    const char *type = "default";
    if (!r->p.root) return FX_OK;
    FX_TRY(fxi_config_str(&r->p, "type", false, &type, r->f->err));
    FX_TRY(fxi_config_str(&r->p, "rope_type", false, &type, r->f->err));
    for (size_t i = 0; i < sizeof rope_kinds / sizeof *rope_kinds; i++)
        if (!strcmp(rope_kinds[i].name, type)) return rope_kinds[i].write(r);
    return fxi_config_fail(&r->p, "rope_type", r->f->err, "'%s' is not supported",
                           fxi_show_text(type, strlen(type)).s);
}

// ---- base and size -----------------------------------------------------------------------------

static fx_status read_theta(rope_reader *r)
{
    static const char *const names[] = {"rotary_emb_base", "rope_theta"};
    r->theta = 10000;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        FX_TRY(fxi_config_f64(&r->f->config, names[i], false, &r->theta, r->f->err));
    if (r->p.root) FX_TRY(number_of(r, "rope_theta", false, &r->theta));
    return r->theta > 0 ? FX_OK
                        : fxi_config_fail(&r->f->config, "rope_theta", r->f->err,
                                          "%g is not positive", r->theta);
}

static fx_status read_n_rot(rope_reader *r)
{
    static const char *const names[] = {"rotary_pct", "rotary_emb_fraction",
                                        "partial_rotary_factor"};
    double part = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        FX_TRY(fxi_config_f64(&r->f->config, names[i], false, &part, r->f->err));
    if (r->p.root) FX_TRY(number_of(r, "partial_rotary_factor", false, &part));
    r->n_rot = part > 0 && part <= 1 ? (uint32_t)(r->f->head_dim * part) : 0;
    if (r->n_rot >= 2 && r->n_rot % 2 == 0) return FX_OK;
    return fxi_config_fail(&r->f->config, "partial_rotary_factor", r->f->err,
                           "%g of %u numbers cannot be rotated in pairs", part, r->f->head_dim);
}

// Gemma 3: layers with a window have a base of their own and no scaling.
static fx_status write_local_theta(const rope_reader *r, const fxi_config *all)
{
    double theta = 10000;
    if (strcmp(r->f->family->arch, "gemma3")) return FX_OK;
    FX_TRY(fxi_config_f64(&r->f->config, "rope_local_base_freq", false, &theta, r->f->err));
    const fxi_config local = fxi_config_part(all, "sliding_attention", "sliding_attention.");
    if (local.root) FX_TRY(fxi_config_f64(&local, "rope_theta", false, &theta, r->f->err));
    put_f32(r, "rope.freq_base_swa", theta);
    return FX_OK;
}

static fx_status write_temperature(const rope_reader *r)
{
    double beta = 0;
    uint32_t original;
    char key[FXI_HF_KEY_BYTES];
    if (!r->p.root || !fxi_config_get(&r->p, "llama_4_scaling_beta")) return FX_OK;
    FX_TRY(number_of(r, "llama_4_scaling_beta", true, &beta));
    FX_TRY(read_original(r, &original));
    fxi_gguf_write_f32(r->f->w, fxi_hf_arch_key(r->f, "attention.temperature_scale", key),
                       (float)beta);
    fxi_gguf_write_u32(r->f->w, fxi_hf_arch_key(r->f, "attention.temperature_length", key),
                       original);
    return FX_OK;
}

fx_status fxi_hf_write_rope(fxi_folder *f)
{
    rope_reader r = {.f = f};
    if (f->family->flags & FXI_HF_NO_ROPE) return FX_OK;
    fxi_config all = fxi_config_part(&f->config, "rope_parameters", "rope_parameters.");
    if (!all.root) all = fxi_config_part(&f->config, "rope_scaling", "rope_scaling.");
    const fxi_config full = fxi_config_part(&all, "full_attention", "full_attention.");
    r.p = full.root ? full : all;
    FX_TRY(read_theta(&r));
    FX_TRY(read_n_rot(&r));
    put_u32(&r, "rope.dimension_count", r.n_rot);
    put_f32(&r, "rope.freq_base", r.theta);
    FX_TRY(write_local_theta(&r, &all));
    FX_TRY(write_temperature(&r));
    return write_scaling(&r);
}
