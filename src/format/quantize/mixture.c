// mixture.c - mixtures of types by name, and the type that each tensor of a model gets in one.
//
// The rules are llama.cpp's, so that files of one name hold the same types, whichever program wrote
// them: mixtures give more bits to tensors whose errors cost most (the output, the values, the
// second matrix of the feed-forward), in layers at both ends and in every third of those between.
// Vectors, norms, routers and positions keep their types.
#include "format/quantize/quantize_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// ---- the table ----------------------------------------------------------------------------------

// Types by layer: of the first sixteenth, of the rest of the first eighth, of those others that get
// more bits, and of all others.
typedef struct layer_types {
    fxi_dtype sixteenth, eighth, spread, rest;
} layer_types;

// What other types than the base's tensors have.
typedef struct mixing {
    uint32_t n_first; // layers whose values have the type `first`; `values` are those of the others
    fxi_dtype first;
    layer_types values, down, falcon_down;
    fxi_dtype out, falcon_out, expert_out; // the attention's output: of Falcon, with 8 experts
    fxi_dtype qkv;                         // fused q, k and v
} mixing;

#define EVERY(t)   \
    {              \
        t, t, t, t \
    }
#define SPREAD(t, rest) \
    {                   \
        t, t, t, rest   \
    }

// clang-format off
static const mixing
    q3_k_s = {0, 0, EVERY(FXI_Q3_K), EVERY(FXI_Q3_K), EVERY(FXI_Q3_K),
              FXI_Q3_K, FXI_Q3_K, FXI_Q5_K, FXI_Q3_K},
    q3_k_m = {2, FXI_Q5_K, EVERY(FXI_Q4_K), {FXI_Q5_K, FXI_Q4_K, FXI_Q4_K, FXI_Q4_K},
              {FXI_Q5_K, FXI_Q4_K, FXI_Q4_K, FXI_Q3_K}, FXI_Q4_K, FXI_Q3_K, FXI_Q5_K, FXI_Q4_K},
    q3_k_l = {0, 0, EVERY(FXI_Q5_K), EVERY(FXI_Q5_K), EVERY(FXI_Q4_K),
              FXI_Q5_K, FXI_Q4_K, FXI_Q3_K, FXI_Q4_K},
    q4_k_s = {4, FXI_Q5_K, EVERY(FXI_Q4_K), {FXI_Q5_K, FXI_Q5_K, FXI_Q4_K, FXI_Q4_K},
              EVERY(FXI_Q4_K), FXI_Q4_K, FXI_Q4_K, FXI_Q5_K, FXI_Q4_K},
    q4_k_m = {0, 0, SPREAD(FXI_Q6_K, FXI_Q4_K), SPREAD(FXI_Q6_K, FXI_Q4_K),
              {FXI_Q6_K, FXI_Q5_K, FXI_Q5_K, FXI_Q4_K}, FXI_Q4_K, FXI_Q4_K, FXI_Q5_K, FXI_Q5_K},
    q5_k_m = {0, 0, SPREAD(FXI_Q6_K, FXI_Q5_K), SPREAD(FXI_Q6_K, FXI_Q5_K),
              SPREAD(FXI_Q6_K, FXI_Q5_K), FXI_Q5_K, FXI_Q5_K, FXI_Q5_K, FXI_Q6_K};
// clang-format on

struct fxi_mixture {
    const char *name;
    uint32_t file_type;   // llama.cpp's number, general.file_type
    bool is_written;      // the others are known by name alone
    fxi_dtype base;       // of most tensors
    const mixing *others; // NULL: the base is the type of all but the output
};

static const fxi_mixture mixtures[] = {
    {"F32", 0, true, FXI_F32, NULL},         {"F16", 1, true, FXI_F16, NULL},
    {"BF16", 32, true, FXI_BF16, NULL},      {"Q8_0", 7, true, FXI_Q8_0, NULL},
    {"Q6_K", 18, true, FXI_Q6_K, NULL},      {"Q5_K_M", 17, true, FXI_Q5_K, &q5_k_m},
    {"Q5_K_S", 16, true, FXI_Q5_K, NULL},    {"Q5_1", 9, true, FXI_Q5_1, NULL},
    {"Q5_0", 8, true, FXI_Q5_0, NULL},       {"Q4_K_M", 15, true, FXI_Q4_K, &q4_k_m},
    {"Q4_K_S", 14, true, FXI_Q4_K, &q4_k_s}, {"Q4_1", 3, true, FXI_Q4_1, NULL},
    {"Q4_0", 2, true, FXI_Q4_0, NULL},       {"Q3_K_L", 13, true, FXI_Q3_K, &q3_k_l},
    {"Q3_K_M", 12, true, FXI_Q3_K, &q3_k_m}, {"Q3_K_S", 11, true, FXI_Q3_K, &q3_k_s},
    {.name = "Q2_K", .file_type = 10},       {.name = "Q2_K_S", .file_type = 21},
    {.name = "IQ4_NL", .file_type = 25},     {.name = "IQ4_XS", .file_type = 30},
    {.name = "MXFP4", .file_type = 38},
};

enum { N_MIXTURE = sizeof mixtures / sizeof *mixtures };

// "Q4_K" is Q4_K_M.
const fxi_mixture *fxi_mixture_find(const char *name)
{
    char medium[16];
    snprintf(medium, sizeof medium, "%.8s_M", name);
    for (size_t i = 0; i < N_MIXTURE; i++) {
        const fxi_mixture *m = &mixtures[i];
        if (m->is_written && (!strcasecmp(m->name, name) || !strcasecmp(m->name, medium))) return m;
    }
    return NULL;
}

const char *fxi_mixture_names(void)
{
    return "f32, f16, bf16, q8_0, q6_k, q5_k_m, q5_k_s, q5_1, q5_0, q4_k_m, q4_k_s, q4_1, q4_0, "
           "q3_k_l, q3_k_m, q3_k_s";
}

const char *fxi_file_type_name(const fxi_gguf *g)
{
    uint32_t number;
    if (!fxi_gguf_find(g, "general.file_type") ||
        fxi_gguf_u32(g, "general.file_type", false, &number, NULL) != FX_OK)
        return NULL;
    for (size_t i = 0; i < N_MIXTURE; i++)
        if (mixtures[i].file_type == number) return mixtures[i].name;
    return NULL;
}

uint32_t fxi_mixture_file_type(const fxi_mixture *m)
{
    return m->file_type;
}

bool fxi_mixture_is_rounded(const fxi_mixture *m)
{
    return fxi_dtype_find(m->base)->block_elems > 1;
}

// ---- what they depend on ------------------------------------------------------------------------

static uint32_t mixture_number(const fxi_gguf *g, fxi_str arch, const char *name,
                               uint32_t otherwise)
{
    char key[128];
    uint32_t v = otherwise;
    snprintf(key, sizeof key, "%.*s.%s", arch.n < 64 ? (int)arch.n : 64, arch.p, name);
    return fxi_gguf_u32(g, key, false, &v, NULL) == FX_OK ? v : otherwise;
}

void fxi_mixture_look(const fxi_gguf *g, bool has_imatrix, fxi_mixture_model *out)
{
    *out = (fxi_mixture_model){.arch = {"", 0}, .has_imatrix = has_imatrix};
    (void)fxi_gguf_str(g, "general.architecture", false, &out->arch, NULL);
    out->n_layer = mixture_number(g, out->arch, "block_count", 0);
    out->n_head = mixture_number(g, out->arch, "attention.head_count", 0);
    out->n_kv_head = mixture_number(g, out->arch, "attention.head_count_kv", out->n_head);
    out->n_expert = mixture_number(g, out->arch, "expert_count", 0);
    out->has_output = fxi_gguf_find_tensor(g, "output.weight") != NULL;
}

// ---- the type of one tensor ---------------------------------------------------------------------

static bool name_has(const fxi_gguf_tensor *t, const char *part)
{
    return memmem(t->name.p, t->name.n, part, strlen(part)) != NULL;
}

static bool is_kept(const fxi_gguf_tensor *t)
{
    static const char *const part[] = {"_norm.weight",       "ffn_gate_inp", "position_embd.weight",
                                       "token_types.weight", "attn_sinks",   "cls."};
    if (t->n_dim < 2 || !fxi_str_ends_in(t->name, ".weight")) return true;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (name_has(t, part[i])) return true;
    return false;
}

// Of the first eighth, of the last one, and every third between.
static bool needs_more_bits(uint32_t layer, uint32_t n_layer)
{
    const uint32_t eighth = n_layer / 8;
    return layer < eighth || layer >= 7 * n_layer / 8 || (layer - eighth) % 3 == 2;
}

static fxi_dtype type_of_layer(const layer_types *t, uint32_t layer, uint32_t n_layer)
{
    if (layer < n_layer / 16) return t->sixteenth;
    if (layer < n_layer / 8) return t->eighth;
    return needs_more_bits(layer, n_layer) ? t->spread : t->rest;
}

static bool is_falcon(const fxi_mixture_model *model)
{
    return fxi_str_is(model->arch, "falcon");
}

// The values' matrix is small and its errors are costly, most of all where 8 experts or 8 heads
// share it.
static fxi_dtype values_type(const fxi_mixture *m, const fxi_mixture_model *model, uint32_t layer)
{
    const mixing *o = m->others;
    const bool of_70b = model->n_layer == 80 && model->n_head != model->n_kv_head;
    if (model->n_expert == 8) return FXI_Q8_0;
    const fxi_dtype type = !o                   ? m->base
                           : layer < o->n_first ? o->first
                                                : type_of_layer(&o->values, layer, model->n_layer);
    return of_70b && (type == FXI_Q3_K || type == FXI_Q4_K) ? FXI_Q5_K : type;
}

static fxi_dtype down_type(const fxi_mixture *m, const fxi_mixture_model *model, uint32_t layer)
{
    const mixing *o = m->others;
    if (o)
        return type_of_layer(is_falcon(model) ? &o->falcon_down : &o->down, layer, model->n_layer);
    if (model->has_imatrix && layer < model->n_layer / 8 && !is_falcon(model)) {
        if (m->base == FXI_Q4_0) return FXI_Q4_1;
        if (m->base == FXI_Q5_0) return FXI_Q5_1;
    }
    return m->base;
}

static fxi_dtype out_type(const fxi_mixture *m, const fxi_mixture_model *model)
{
    if (!m->others) return m->base;
    if (is_falcon(model)) return m->others->falcon_out;
    return model->n_expert == 8 ? m->others->expert_out : m->others->out;
}

static fxi_dtype wanted_type(const fxi_mixture *m, const fxi_mixture_model *model,
                             const fxi_gguf_tensor *t)
{
    const bool in_layer = t->name.n > 4 && !memcmp(t->name.p, "blk.", 4);
    const uint32_t layer = in_layer ? (uint32_t)strtoul(t->name.p + 4, NULL, 10) : 0;
    if (fxi_str_is(t->name, model->has_output ? "output.weight" : "token_embd.weight")) {
        if (is_falcon(model) || t->ne[0] % 256) return FXI_Q8_0;
        return m->base == FXI_Q8_0 ? FXI_Q8_0 : FXI_Q6_K;
    }
    if (name_has(t, ".attn_v.weight")) return values_type(m, model, layer);
    if (name_has(t, ".attn_k.weight") && model->n_expert == 8) return FXI_Q8_0;
    if (name_has(t, ".attn_qkv.weight")) return m->others ? m->others->qkv : m->base;
    if (name_has(t, ".ffn_down")) return down_type(m, model, layer);
    if (name_has(t, ".attn_output.weight")) return out_type(m, model);
    return m->base;
}

// Rows that are no multiple of a block get a type of smaller blocks.
static const fxi_dtype_info *fitting_type(fxi_dtype type, uint64_t n_col)
{
    static const struct {
        fxi_dtype from, to;
    } instead[] = {
        {FXI_Q3_K, FXI_IQ4_NL}, {FXI_Q4_K, FXI_Q5_0}, {FXI_Q5_K, FXI_Q5_1}, {FXI_Q6_K, FXI_Q8_0}};
    const fxi_dtype_info *info = fxi_dtype_find(type);
    for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
        if (instead[i].from == type && n_col % info->block_elems)
            return fitting_type(instead[i].to, n_col);
    return n_col % info->block_elems ? fxi_dtype_find(FXI_F16) : info;
}

const fxi_dtype_info *fxi_mixture_type(const fxi_mixture *m, const fxi_mixture_model *model,
                                       const fxi_gguf_tensor *t)
{
    if (!m || is_kept(t)) return t->type;
    if (!fxi_mixture_is_rounded(m)) return fxi_dtype_find(m->base); // F32, F16, BF16
    return fitting_type(wanted_type(m, model, t), t->ne[0]);
}
