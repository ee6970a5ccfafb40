// hf_states.c - recurrent layers with states: their keys, and what their tensors become.
//
// GGUF has the rows of all queries, then those of all keys, values and gates; folders of Qwen3-Next
// have the four of each group of heads together. In files of Qwen3.5 the heads of values lie in
// another order: the first heads of all groups, the second ones, and so on. Of Mamba-2, GGUF has
// A and D as slices of one number, and the norm as a slice for each group.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/hf/hf_folder.h"

typedef struct states_shape {
    uint32_t n_group, per; // groups of heads, heads of values of each
    uint32_t n_key, n_value;
} states_shape;

// A member that Granite and Nemotron-H name differently.
static fx_status read_either(const fxi_folder *f, const char *granite, const char *nemotron,
                             uint32_t *out)
{
    const bool is_split = f->family->flags & FXI_HF_SPLIT;
    return fxi_members_u32(&f->config, is_split ? nemotron : granite, true, out);
}

static fx_status read_mamba_shape(const fxi_folder *f, states_shape *out)
{
    uint32_t n_head, width;
    FX_TRY(read_either(f, "mamba_n_groups", "n_groups", &out->n_group));
    FX_TRY(read_either(f, "mamba_n_heads", "mamba_num_heads", &n_head));
    FX_TRY(read_either(f, "mamba_d_state", "ssm_state_size", &out->n_key));
    FX_TRY(read_either(f, "mamba_expand", "mamba_head_dim", &width));
    const uint64_t n_inner = (uint64_t)width * (f->family->flags & FXI_HF_SPLIT ? n_head : f->dim);
    if (!out->n_group || !n_head || n_head % out->n_group || !n_inner || n_inner % n_head)
        return fxi_members_fail(&f->config, "mamba_n_heads",
                                "%u heads for %u groups and %" PRIu64 " numbers", n_head,
                                out->n_group, n_inner);
    out->per = n_head / out->n_group;
    out->n_value = (uint32_t)(n_inner / n_head);
    return FX_OK;
}

static fx_status read_shape(const fxi_folder *f, states_shape *out)
{
    uint32_t n_head;
    if (f->family->flags & FXI_HF_MAMBA) return read_mamba_shape(f, out);
    FX_TRY(fxi_members_u32(&f->config, "linear_num_key_heads", true, &out->n_group));
    FX_TRY(fxi_members_u32(&f->config, "linear_num_value_heads", true, &n_head));
    FX_TRY(fxi_members_u32(&f->config, "linear_key_head_dim", true, &out->n_key));
    FX_TRY(fxi_members_u32(&f->config, "linear_value_head_dim", true, &out->n_value));
    if (!out->n_group || !out->n_key || !out->n_value || !n_head || n_head % out->n_group)
        return fxi_members_fail(&f->config, "linear_num_value_heads",
                                "%u heads of %u numbers for %u keys of %u numbers", n_head,
                                out->n_value, out->n_group, out->n_key);
    out->per = n_head / out->n_group;
    return FX_OK;
}

static uint64_t n_values(const states_shape *s)
{
    return (uint64_t)s->n_group * s->per * s->n_value;
}

static uint64_t n_keys(const states_shape *s)
{
    return (uint64_t)s->n_group * s->n_key;
}

// ---- views -------------------------------------------------------------------------------------

static void add_view(fxi_recipe *r, fxi_recipe_view v)
{
    r->view[r->n_view++] = v;
}

// Rows [from, from + n) of each group of `all` rows.
static void add_groups(fxi_recipe *r, const states_shape *s, uint64_t from, uint64_t n,
                       uint64_t all)
{
    add_view(r, (fxi_recipe_view){
                    .n = n * s->n_group, .from = from, .n1 = 1, .n2 = n, .step = {all, 0, 1}});
}

// The rows of values, of `size` for a head: head j of group 0, 1, .., for j = 0, 1, ..
static void add_tiled(fxi_recipe *r, const states_shape *s, uint64_t from, uint64_t size)
{
    add_view(r, (fxi_recipe_view){.n = s->n_group * s->per * size,
                                  .from = from,
                                  .n1 = s->n_group,
                                  .n2 = size,
                                  .step = {size, s->per * size, 1}});
}

static fx_status need_rows(const fxi_folder *f, const fxi_recipe *r, uint64_t n)
{
    const uint64_t has = r->n_dim == 1 ? r->ne[0] : r->ne[1];
    if (has == n) return FX_OK;
    return fxi_st_fail(f->err, r->src->t, "%" PRIu64 " rows, expected %" PRIu64, has, n);
}

// ---- tensors -----------------------------------------------------------------------------------

// in_proj_qkvz: queries, keys and values, or the gates.
static fx_status plan_grouped(const fxi_folder *f, fxi_recipe *r, const states_shape *s, bool gates)
{
    const uint64_t values = (uint64_t)s->per * s->n_value, all = 2 * s->n_key + 2 * values;
    FX_TRY(need_rows(f, r, all * s->n_group));
    if (gates) {
        add_groups(r, s, 2 * s->n_key + values, values, all);
    } else {
        add_groups(r, s, 0, s->n_key, all);
        add_groups(r, s, s->n_key, s->n_key, all);
        add_groups(r, s, 2 * s->n_key, values, all);
    }
    r->ne[1] = gates ? n_values(s) : 2 * n_keys(s) + n_values(s);
    return FX_OK;
}

// Rows of all queries, keys and values, or the channels of their convolution.
static fx_status plan_channels(const fxi_folder *f, fxi_recipe *r, const states_shape *s)
{
    const uint64_t before = 2 * n_keys(s);
    FX_TRY(need_rows(f, r, before + n_values(s)));
    add_view(r, (fxi_recipe_view){.n = before, .n1 = 1, .n2 = before, .step = {0, 0, 1}});
    add_tiled(r, s, before, s->n_value);
    return FX_OK;
}

// Columns of all values.
static fx_status plan_columns(const fxi_folder *f, fxi_recipe *r, const states_shape *s)
{
    const uint64_t n_head = (uint64_t)s->n_group * s->per;
    if (r->n_dim != 2 || r->ne[0] != n_values(s))
        return fxi_st_fail(f->err, r->src->t, "%" PRIu64 " columns, expected %" PRIu64, r->ne[0],
                           n_values(s));
    r->run = s->n_value;
    add_view(r, (fxi_recipe_view){
                    .n = UINT64_MAX, .n1 = s->per, .n2 = s->n_group, .step = {n_head, 1, s->per}});
    return FX_OK;
}

// One row or number for each `size` of a head's values.
static fx_status plan_heads(const fxi_folder *f, fxi_recipe *r, const states_shape *s,
                            uint64_t size)
{
    FX_TRY(need_rows(f, r, s->n_group * s->per * size));
    if (r->n_dim == 1) r->run = 1;
    add_tiled(r, s, 0, size);
    return FX_OK;
}

// A_log: the decay is -e^x, in the order that the recipe's view says.
static fx_status plan_decay(const fxi_folder *f, fxi_recipe *r, const states_shape *s, bool tiled)
{
    const fxi_st_tensor *t = r->src->t;
    const uint64_t n = (uint64_t)s->n_group * s->per;
    const fxi_dtype type = fxi_recipe_type_of(t);
    FX_TRY(need_rows(f, r, n));
    if (type == FXI_DTYPE_END || t->type == FXI_ST_F8_E4M3)
        return fxi_st_fail(f->err, t, "weights of type %s are not supported", t->type_name);
    float *v = malloc(n * sizeof *v);
    if (!v) return fxi_fail_memory(f->err);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t from = tiled ? i % s->n_group * s->per + i / s->n_group : i;
        fxi_row_to_f32(type, t->data + from * t->elem_bytes, 1, &v[i]);
        v[i] = -expf(v[i]);
    }
    r->values = v;
    return FX_OK;
}

// Vectors as slices of n numbers.
static fx_status plan_slices(const fxi_folder *f, fxi_recipe *r, uint64_t n, uint64_t n_slice)
{
    FX_TRY(need_rows(f, r, n * n_slice));
    r->n_dim = 2;
    r->ne[0] = r->run = n;
    r->ne[1] = n_slice;
    return FX_OK;
}

// [n][1][taps] to [n][taps]
static void flatten_taps(fxi_recipe *r)
{
    if (r->n_dim != 3 || r->ne[1] != 1) return;
    r->ne[1] = r->ne[2];
    r->ne[2] = 1;
    r->n_dim = 2;
}

fx_status fxi_hf_plan_states(const fxi_folder *f, fxi_recipe *r, const fxi_hf_match *m)
{
    states_shape s;
    const bool tiled = f->family->flags & FXI_HF_TILED;
    FX_TRY(read_shape(f, &s));
    if (strstr(r->name, "ssm_conv1d")) flatten_taps(r);
    if (m->how == FXI_HF_GROUPED_QKV) return plan_grouped(f, r, &s, false);
    if (m->how == FXI_HF_GROUPED_Z) return plan_grouped(f, r, &s, true);
    if (m->how == FXI_HF_DECAY) FX_TRY(plan_decay(f, r, &s, tiled));
    if (m->how == FXI_HF_SLICES && strstr(r->name, "ssm_norm"))
        return plan_slices(f, r, n_values(&s) / s.n_group, s.n_group);
    if (m->how == FXI_HF_SLICES || (m->how == FXI_HF_DECAY && f->family->flags & FXI_HF_MAMBA))
        return plan_slices(f, r, 1, s.n_group * s.per);
    if (!tiled || m->how == FXI_HF_DECAY) return FX_OK;
    if (m->how == FXI_HF_CHANNELS) return plan_channels(f, r, &s);
    if (m->how == FXI_HF_COLUMNS) return plan_columns(f, r, &s);
    return plan_heads(f, r, &s, m->how == FXI_HF_VALUES ? s.n_value : 1);
}

// ---- keys --------------------------------------------------------------------------------------

enum { MAX_LAYER = 1024 };

typedef enum layer_kind { ATTENDS, RECURS, FEEDS } layer_kind;

// Published folders of Granite 4 name types otherwise than transformers does; Nemotron-H has a
// letter for each.
static bool find_layer_kind(const char *type, bool is_letter, uint8_t *out)
{
    static const struct {
        const char *name, *other;
        char letter;
    } kinds[] = {[ATTENDS] = {"full_attention", "attention", '*'},
                 [RECURS] = {"linear_attention", "mamba", 'M'},
                 [FEEDS] = {"mlp", "mlp", '-'}};
    for (uint8_t k = 0; type && k < 3; k++)
        if (is_letter ? *type == kinds[k].letter
                      : !strcmp(type, kinds[k].name) || !strcmp(type, kinds[k].other)) {
            *out = k;
            return true;
        }
    return false;
}

// The list of layers' types, a text with a letter for each, or an interval.
static fx_status read_layer_kinds(const fxi_folder *f, uint8_t *kind)
{
    uint32_t every = 4;
    fxi_str letters = {0};
    const bool is_split = f->family->flags & FXI_HF_SPLIT;
    const fxi_json *types =
        fxi_members_get(&f->config, is_split ? "layers_block_type" : "layer_types");
    if (is_split && !types)
        FX_TRY(fxi_members_str(&f->config, "hybrid_override_pattern", true, &letters));
    FX_TRY(fxi_members_u32(&f->config, "full_attention_interval", false, &every));
    if (f->n_layer > MAX_LAYER || (types && fxi_json_array_size(types) != f->n_layer) ||
        (letters.n && letters.n != f->n_layer))
        return fxi_members_fail(&f->config, "layer_types", "not a list of %u", f->n_layer);
    for (uint32_t i = 0; i < f->n_layer; i++) {
        const char *type = letters.n ? letters.p + i
                           : types   ? fxi_json_text(fxi_json_at(types, i))
                                     : NULL;
        kind[i] = every && (i + 1) % every ? RECURS : ATTENDS;
        if ((types || letters.n) &&
            (!find_layer_kind(type, letters.n > 0, &kind[i]) || (kind[i] == FEEDS && !is_split)))
            return fxi_members_fail(&f->config, "layer_types", "layer %u is of an unknown type", i);
    }
    return FX_OK;
}

// A limit that limits nothing: from 0 to infinity, as a number or as what else stands for it.
static fx_status check_time_step(const fxi_folder *f)
{
    const fxi_json *limit = fxi_members_get(&f->config, "time_step_limit");
    const fxi_json *most = fxi_json_at(limit, 1);
    const bool is_open = !fxi_json_is_number(most) || isinf(fxi_json_number(most));
    if (!limit ||
        (fxi_json_array_size(limit) == 2 && fxi_json_number(fxi_json_at(limit, 0)) == 0 && is_open))
        return FX_OK;
    return fxi_members_fail(&f->config, "time_step_limit", "only 0 to Infinity is supported");
}

// Mamba-2's layers have no KV heads, and may be beside attention without rotation.
static fx_status write_mamba(const fxi_folder *f, const uint8_t *kind)
{
    uint32_t heads[MAX_LAYER], widths[MAX_LAYER], n_ffn = 0;
    fxi_str positions = {0};
    FX_TRY(check_time_step(f));
    FX_TRY(fxi_members_str(&f->config, "position_embedding_type", false, &positions));
    FX_TRY(fxi_members_u32(&f->config, "intermediate_size", false, &n_ffn));
    for (uint32_t i = 0; i < f->n_layer; i++) {
        heads[i] = kind[i] == ATTENDS ? f->n_kv_head : 0;
        widths[i] = kind[i] == FEEDS ? n_ffn : 0;
    }
    if (f->family->flags & FXI_HF_SPLIT)
        fxi_gguf_write_array(f->w, FXI_HF_ARCH_KEY(f, "feed_forward_length"), FXI_GGUF_U32, widths,
                             f->n_layer);
    fxi_gguf_write_array(f->w, FXI_HF_ARCH_KEY(f, "attention.head_count_kv"), FXI_GGUF_U32, heads,
                         f->n_layer);
    fxi_gguf_write_bool(f->w, FXI_HF_ARCH_KEY(f, "rope.scaling.finetuned"),
                        fxi_str_is(positions, "rope"));
    return FX_OK;
}

fx_status fxi_hf_write_states(const fxi_folder *f)
{
    states_shape s;
    uint8_t kind[MAX_LAYER]; // RECURS is true, ATTENDS false
    if (!(f->family->flags & FXI_HF_STATES)) return FX_OK;
    FX_TRY(read_shape(f, &s));
    FX_TRY(read_layer_kinds(f, kind));
    fxi_gguf_write_u32(f->w, FXI_HF_ARCH_KEY(f, "ssm.inner_size"), (uint32_t)n_values(&s));
    if (f->family->flags & FXI_HF_MAMBA) return write_mamba(f, kind);
    fxi_gguf_write_array(f->w, FXI_HF_ARCH_KEY(f, "attention.recurrent_layers"), FXI_GGUF_BOOL,
                         kind, f->n_layer);
    return FX_OK;
}
