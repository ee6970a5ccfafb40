// mixture.c - which tensor gets which type.
//
// The rules are llama.cpp's, so that files of one name hold the same types, whichever program wrote
// them: mixtures give more bits to tensors whose errors cost most (the output, the values, the
// second matrix of the feed-forward), in the first and last eighth of the layers and in every third
// of those between. Vectors, norms, routers and positions keep their types.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "format/quantize/quantize_impl.h"

struct fxi_mixture {
    const char *name;
    fxi_dtype base;
    uint32_t file_type;   // llama.cpp's number
    fxi_dtype more, some; // of tensors that get more bits, and of fused q, k and v; base: none does
};

static const fxi_mixture mixtures[] = {
    {"F32", FXI_F32, 0, FXI_F32, FXI_F32},        {"F16", FXI_F16, 1, FXI_F16, FXI_F16},
    {"BF16", FXI_BF16, 32, FXI_BF16, FXI_BF16},   {"Q8_0", FXI_Q8_0, 7, FXI_Q8_0, FXI_Q8_0},
    {"Q4_0", FXI_Q4_0, 2, FXI_Q4_0, FXI_Q4_0},    {"Q4_1", FXI_Q4_1, 3, FXI_Q4_1, FXI_Q4_1},
    {"Q5_0", FXI_Q5_0, 8, FXI_Q5_0, FXI_Q5_0},    {"Q5_1", FXI_Q5_1, 9, FXI_Q5_1, FXI_Q5_1},
    {"Q4_K_M", FXI_Q4_K, 15, FXI_Q6_K, FXI_Q5_K}, {"Q5_K_M", FXI_Q5_K, 17, FXI_Q6_K, FXI_Q6_K},
    {"Q6_K", FXI_Q6_K, 18, FXI_Q6_K, FXI_Q6_K},
};

const fxi_mixture *fxi_mixture_find(const char *name)
{
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++)
        if (!strcasecmp(mixtures[i].name, name)) return &mixtures[i];
    return NULL;
}

const char *fxi_mixture_names(void)
{
    return "f32, f16, bf16, q8_0, q6_k, q5_k_m, q5_1, q5_0, q4_k_m, q4_1, q4_0";
}

uint32_t fxi_mixture_file_type(const fxi_mixture *m)
{
    return m->file_type;
}

// ---- the model ---------------------------------------------------------------------------------

static uint32_t mixture_number(const fxi_gguf *g, fxi_str arch, const char *name,
                               uint32_t otherwise)
{
    char key[128];
    uint32_t v = otherwise;
    snprintf(key, sizeof key, "%.*s.%s", arch.n < 64 ? (int)arch.n : 64, arch.p, name);
    return fxi_gguf_u32(g, key, false, &v, NULL) == FX_OK ? v : otherwise;
}

void fxi_mixture_look_at(const fxi_gguf *g, bool has_imatrix, fxi_mixture_model *out)
{
    *out = (fxi_mixture_model){.arch = {"", 0}, .has_imatrix = has_imatrix};
    (void)fxi_gguf_str(g, "general.architecture", false, &out->arch, NULL);
    out->n_layer = mixture_number(g, out->arch, "block_count", 0);
    out->n_head = mixture_number(g, out->arch, "attention.head_count", 0);
    out->n_kv_head = mixture_number(g, out->arch, "attention.head_count_kv", out->n_head);
    out->n_expert = mixture_number(g, out->arch, "expert_count", 0);
    out->has_output = fxi_gguf_find_tensor(g, "output.weight") != NULL;
}

// ---- one tensor --------------------------------------------------------------------------------

static bool name_has(const fxi_gguf_tensor *t, const char *part)
{
    return memmem(t->name.p, t->name.n, part, strlen(part)) != NULL;
}

static bool is_kept(const fxi_gguf_tensor *t)
{
    static const char *const part[] = {"_norm.weight", "ffn_gate_inp", "position_embd.weight",
                                       "token_types.weight", "attn_sinks"};
    if (t->n_dim < 2 || t->name.n < 7 || memcmp(t->name.p + t->name.n - 7, ".weight", 7) != 0)
        return true;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (name_has(t, part[i])) return true;
    return false;
}

static uint32_t tensor_layer(const fxi_gguf_tensor *t)
{
    return t->name.n > 4 && !memcmp(t->name.p, "blk.", 4)
               ? (uint32_t)strtoul(t->name.p + 4, NULL, 10)
               : 0;
}

static bool needs_more_bits(uint32_t layer, uint32_t n_layer)
{
    const uint32_t eighth = n_layer / 8;
    return layer < eighth || layer >= 7 * n_layer / 8 || (layer - eighth) % 3 == 2;
}

static bool is_falcon(const fxi_mixture_model *model)
{
    return fxi_str_is(model->arch, "falcon");
}

// The values' matrix is small and its errors are costly, most of all where 8 experts or 8 heads
// share it.
static fxi_dtype values_type(const fxi_mixture *m, const fxi_mixture_model *model, uint32_t layer)
{
    if (model->n_expert == 8) return FXI_Q8_0;
    if (m->more != m->base && needs_more_bits(layer, model->n_layer)) return m->more;
    const bool of_70b = model->n_layer == 80 && model->n_head != model->n_kv_head;
    return of_70b && m->base == FXI_Q4_K ? FXI_Q5_K : m->base;
}

static fxi_dtype down_type(const fxi_mixture *m, const fxi_mixture_model *model, uint32_t layer)
{
    const bool more = needs_more_bits(layer, model->n_layer);
    if (model->has_imatrix && layer < model->n_layer / 8 && !is_falcon(model)) {
        if (m->base == FXI_Q4_0) return FXI_Q4_1;
        if (m->base == FXI_Q5_0) return FXI_Q5_1;
    }
    if (m->more == m->base) return m->base;
    if (is_falcon(model) && m->base == FXI_Q4_K)
        return layer < model->n_layer / 16 ? FXI_Q6_K : more ? FXI_Q5_K : FXI_Q4_K;
    return more ? m->more : m->base;
}

static fxi_dtype wanted_type(const fxi_mixture *m, const fxi_mixture_model *model,
                             const fxi_gguf_tensor *t)
{
    const uint32_t layer = tensor_layer(t);
    if (fxi_str_is(t->name, model->has_output ? "output.weight" : "token_embd.weight")) {
        if (is_falcon(model) || t->ne[0] % 256) return FXI_Q8_0;
        return m->base == FXI_Q8_0 ? FXI_Q8_0 : FXI_Q6_K;
    }
    if (name_has(t, ".attn_v.weight")) return values_type(m, model, layer);
    if (name_has(t, ".attn_k.weight") && model->n_expert == 8) return FXI_Q8_0;
    if (name_has(t, ".attn_qkv.weight")) return m->some;
    if (name_has(t, ".ffn_down")) return down_type(m, model, layer);
    if (name_has(t, ".attn_output.weight") && model->n_expert == 8 && m->base == FXI_Q4_K)
        return FXI_Q5_K;
    return m->base;
}

// Rows that are no multiple of a block get a type of smaller blocks.
static const fxi_dtype_info *fitting_type(fxi_dtype type, uint64_t n_col)
{
    static const struct {
        fxi_dtype from, to;
    } instead[] = {{FXI_Q4_K, FXI_Q5_0}, {FXI_Q5_K, FXI_Q5_1}, {FXI_Q6_K, FXI_Q8_0}};
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
    if (fxi_dtype_find(m->base)->block_elems == 1) return fxi_dtype_find(m->base); // F32, F16, BF16
    return fitting_type(wanted_type(m, model, t), t->ne[0]);
}
