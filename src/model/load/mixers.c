// mixers.c - the tensors of what mixes the tokens of a sequence in a layer: attention with heads of
// their own or latent ones, short convolutions, and states.
#include "model/load/loading.h"

// How many rows of each head of queries and keys get another order.
static int turned_rows(const fxi_loader *l)
{
    return l->family->rope == FXI_ROPE_HALVES ? 2 * l->m->rope[0].n_pair : 0;
}

// The norm of queries or keys.
static fx_status load_head_norm(fxi_loader *l, const char *name, int i, fxi_head_range heads,
                                fxi_rownorm *out, fx_error *err)
{
    const int head_dim = l->m->model.shape.head_dim;
    fxi_part_of m = {.key = fxi_weight_key(name, i),
                     .n_out = head_dim,
                     .head_dim = head_dim,
                     .n_rot = turned_rows(l)};
    const fxi_qk_norm kind = l->family->qk_norm;
    const bool may_lack = kind == FXI_QK_MAYBE || kind == FXI_QK_HEAD_MAYBE;
    if (kind == FXI_QK_NONE || (may_lack && !fxi_has_weight(l, name, i))) return FX_OK;
    if (kind == FXI_QK_ROW) m.n_out = heads.n * head_dim;
    if (kind == FXI_QK_MAYBE) {
        m.n_slice = heads.n;
        m.n_all_slice = heads.all;
        m.slice0 = heads.first;
    }
    return fxi_load_norm(l, &m, kind == FXI_QK_ROW ? m.n_out : head_dim, out, err);
}

// ---- attention ---------------------------------------------------------------------------------

// The rows of queries, keys or values. If one tensor has all three, these begin after `before`
// heads.
typedef struct heads_of {
    const char *name;
    fxi_head_range heads;
    int before;
    int n_rot;
    fxi_affine *dst;
    int n_part, part; // a head has this many times its rows, and these are that part of them
} heads_of;

static fx_status load_heads(fxi_loader *l, int i, const heads_of *h, fx_error *err)
{
    const fxi_model_shape *s = &l->m->model.shape;
    const bool fused = fxi_has_weight(l, "attn_qkv", i);
    const int n_kv = fxi_rules_kv_heads(l).all;
    const int all = fused ? fxi_rules_heads(l).all + 2 * n_kv : h->heads.all;
    const int first = ((fused ? h->before : 0) + h->heads.first) * h->n_part + h->part;
    const fxi_part_of m = {.key = fxi_weight_key(fused ? "attn_qkv" : h->name, i),
                           .n_in = s->dim,
                           .n_out = h->heads.n * s->head_dim,
                           .n_row = all * h->n_part * s->head_dim,
                           .row0 = first * s->head_dim,
                           .head_dim = s->head_dim,
                           .n_rot = h->n_rot,
                           .head_step = h->n_part > 1 ? h->n_part * s->head_dim : 0};
    return fxi_load_affine(l, &m, h->dst, err);
}

static fx_status load_attention(fxi_loader *l, int i, fxi_layer *out, fx_error *err)
{
    const fxi_model_shape *s = &l->m->model.shape;
    const fxi_head_range q = fxi_rules_heads(l), kv = fxi_rules_kv_heads(l);
    const int n_rot = turned_rows(l), n_part = l->family->flags & FXI_GATED_HEADS ? 2 : 1;
    const heads_of all[] = {{"attn_q", q, 0, n_rot, &out->q, n_part, 0},
                            {"attn_k", kv, q.all, n_rot, &out->k, 1, 0},
                            {"attn_v", kv, q.all + kv.all, 0, &out->v, 1, 0},
                            {"attn_q", q, 0, 0, &out->gate, 2, 1}};
    for (int h = 0; h < 2 + n_part; h++) FX_TRY(load_heads(l, i, &all[h], err));
    FX_TRY(load_head_norm(l, "attn_q_norm", i, q, &out->q_norm, err));
    FX_TRY(load_head_norm(l, "attn_k_norm", i, kv, &out->k_norm, err));
    const fxi_part_of sinks = {
        .key = fxi_weight_key("attn_sinks", i), .n_out = q.n, .n_row = q.all, .row0 = q.first};
    if (l->family->flags & FXI_SINKS) FX_TRY(fxi_load_vector(l, &sinks, &out->sink, err));
    const int n_in = q.n * s->head_dim;
    const fxi_part_of o = {.key = fxi_weight_key("attn_output", i),
                           .n_in = n_in,
                           .n_out = s->dim,
                           .n_col = q.n < q.all ? q.all * s->head_dim : 0,
                           .col0 = q.first * s->head_dim};
    return fxi_load_affine(l, &o, &out->o, err);
}

// ---- latent attention --------------------------------------------------------------------------
//
// The matrices that a head's keys and values are made of lie in two tensors of slices, one for
// each, that of the keys transposed; or, in older files, in one tensor, a head's rows for keys
// before those for values.

#define LATENT_EPS 1e-6f // of the norms inside attention, whatever the others have

static fx_status load_latent_norm(fxi_loader *l, const char *name, int i, int n, fxi_rownorm *out,
                                  fx_error *err)
{
    const fxi_part_of m = {.key = fxi_weight_key(name, i), .n_out = n};
    FX_TRY(fxi_load_norm(l, &m, n, out, err));
    out->eps = LATENT_EPS;
    return FX_OK;
}

static fx_status load_joined_heads(fxi_loader *l, int i, const fxi_latent_sizes *n, int n_head,
                                   fxi_latent *out, fx_error *err)
{
    fxi_part_of m = {.key = fxi_weight_key("attn_kv_b", i),
                     .n_in = n->n_lora,
                     .n_row = n_head * (n->n_nope + n->n_value)};
    for (int h = 0; h < n_head; h++) {
        m.row0 = h * (n->n_nope + n->n_value);
        m.n_out = n->n_nope;
        FX_TRY(fxi_load_transpose(l, &m, &out->k_up[h], err));
        m.row0 += n->n_nope;
        m.n_out = n->n_value;
        FX_TRY(fxi_load_linear(l, &m, &out->v_up[h], err));
    }
    return FX_OK;
}

static fx_status load_latent_heads(fxi_loader *l, int i, const fxi_latent_sizes *n, fxi_latent *out,
                                   fx_error *err)
{
    const int n_head = l->m->model.shape.n_head;
    void *w;
    FX_TRY(fxi_load_zeros(l, 2 * (size_t)n_head * sizeof *out->k_up, &w, err));
    out->k_up = w;
    out->v_up = out->k_up + n_head;
    if (fxi_has_weight(l, "attn_kv_b", i)) return load_joined_heads(l, i, n, n_head, out, err);
    const fxi_part_of k = {.key = fxi_weight_key("attn_k_b", i),
                           .n_in = n->n_nope,
                           .n_out = n->n_lora,
                           .n_slice = n_head},
                      v = {.key = fxi_weight_key("attn_v_b", i),
                           .n_in = n->n_lora,
                           .n_out = n->n_value,
                           .n_slice = n_head};
    FX_TRY(fxi_load_linear(l, &k, out->k_up, err));
    return fxi_load_linear(l, &v, out->v_up, err);
}

static fx_status load_latent(fxi_loader *l, int i, fxi_layer *out, fx_error *err)
{
    const fxi_model_shape *s = &l->m->model.shape;
    const fxi_latent_sizes n = fxi_rules_latent(l);
    const fxi_part_of q_a = {.key = fxi_weight_key("attn_q_a", i),
                             .n_in = s->dim,
                             .n_out = n.q_lora},
                      q = {.key = fxi_weight_key(n.q_lora ? "attn_q_b" : "attn_q", i),
                           .n_in = n.q_lora ? n.q_lora : s->dim,
                           .n_out = s->n_head * (n.n_nope + n.n_rope)},
                      k = {.key = fxi_weight_key("attn_kv_a_mqa", i),
                           .n_in = s->dim,
                           .n_out = s->head_dim},
                      o = {.key = fxi_weight_key("attn_output", i),
                           .n_in = s->n_head * n.n_value,
                           .n_out = s->dim};
    void *latent;
    FX_TRY(fxi_load_zeros(l, sizeof *out->latent, &latent, err));
    out->latent = latent;
    if (n.q_lora) {
        FX_TRY(fxi_load_affine(l, &q_a, &out->latent->q_a, err));
        FX_TRY(load_latent_norm(l, "attn_q_a_norm", i, n.q_lora, &out->latent->q_a_norm, err));
    }
    FX_TRY(fxi_load_affine(l, &q, &out->q, err));
    FX_TRY(fxi_load_affine(l, &k, &out->k, err));
    FX_TRY(load_latent_norm(l, "attn_kv_a_norm", i, n.n_lora, &out->k_norm, err));
    FX_TRY(load_latent_heads(l, i, &n, out->latent, err));
    return fxi_load_affine(l, &o, &out->o, err);
}

// ---- short convolutions ------------------------------------------------------------------------

// The file has a row of taps for each channel.
static fx_status load_taps(fxi_loader *l, const char *name, int i, int n_tap, int n_channel,
                           fxi_taps *out, fx_error *err)
{
    const fxi_part_of taps = {
        .key = fxi_weight_key(name, i), .n_out = n_tap, .n_slice = n_channel, .is_turned = true};
    const fxi_part_of b = {.key = {.name = name, .layer = i, .is_bias = true}, .n_out = n_channel};
    out->n_tap = n_tap;
    FX_TRY(fxi_load_vector(l, &taps, &out->w, err));
    return fxi_loader_find(l, b.key) ? fxi_load_vector(l, &b, &out->b, err) : FX_OK;
}

// The rows of in_proj are those of k, then q, then v.
static fx_status load_conv(fxi_loader *l, int i, fxi_layer *out, fx_error *err)
{
    const int dim = l->m->model.shape.dim;
    fxi_affine *const dst[] = {&out->k, &out->q, &out->v};
    fxi_part_of in = {
        .key = fxi_weight_key("shortconv.in_proj", i), .n_in = dim, .n_out = dim, .n_row = 3 * dim};
    const fxi_part_of o = {
        .key = fxi_weight_key("shortconv.out_proj", i), .n_in = dim, .n_out = dim};
    for (int part = 0; part < 3; part++, in.row0 += dim)
        FX_TRY(fxi_load_affine(l, &in, dst[part], err));
    FX_TRY(load_taps(l, "shortconv.conv", i, l->keys.n_tap, dim, &out->conv, err));
    return fxi_load_affine(l, &o, &out->o, err);
}

// ---- states ------------------------------------------------------------------------------------

// The factor and the decay of heads: a tensor each, or one that has both of each group, one after
// the other.
static fx_status load_head_rates(fxi_loader *l, int i, fxi_layer *out, fx_error *err)
{
    const fxi_recurrence *r = &l->m->rules.recurrence;
    const int per = r->n_head / r->n_group;
    const bool fused = fxi_has_weight(l, "ssm_ba", i);
    fxi_part_of m = {.n_in = l->m->model.shape.dim, .n_out = r->n_head};
    if (fused) m.n_row = 2 * r->n_head, m.head_dim = per, m.head_step = 2 * per;
    m.key = fxi_weight_key(fused ? "ssm_ba" : "ssm_beta", i);
    FX_TRY(fxi_load_affine(l, &m, &out->v, err));
    m.key = fxi_weight_key(fused ? "ssm_ba" : "ssm_alpha", i);
    if (fused) m.row0 = per;
    return fxi_load_affine(l, &m, &out->gate, err);
}

static fx_status load_delta(fxi_loader *l, int i, fxi_layer *out, fx_error *err)
{
    const fxi_recurrence *r = &l->m->rules.recurrence;
    const int dim = l->m->model.shape.dim, n_inner = r->n_head * r->n_value;
    const fxi_part_of in = {.key = fxi_weight_key("attn_qkv", i),
                            .n_in = dim,
                            .n_out = r->n_channel},
                      z = {.key = fxi_weight_key("attn_gate", i), .n_in = dim, .n_out = n_inner},
                      o = {.key = fxi_weight_key("ssm_out", i), .n_in = n_inner, .n_out = dim},
                      norm = {.key = fxi_weight_key("ssm_norm", i), .n_out = r->n_value},
                      decay = {.key = {.name = "ssm_a", .layer = i, .is_bare = true},
                               .n_out = r->n_head},
                      dt = {.key = {.name = "ssm_dt", .layer = i, .is_bias = true},
                            .n_out = r->n_head};
    fxi_states *s = &out->states;
    FX_TRY(fxi_load_affine(l, &in, &out->k, err));
    FX_TRY(fxi_load_affine(l, &z, &out->q, err));
    FX_TRY(load_head_rates(l, i, out, err));
    FX_TRY(load_taps(l, "ssm_conv1d", i, l->keys.ssm_tap, r->n_channel, &out->conv, err));
    FX_TRY(fxi_load_vector(l, &decay, &s->decay, err));
    FX_TRY(fxi_load_vector(l, &dt, &s->dt, err));
    FX_TRY(fxi_load_norm(l, &norm, r->n_value, &s->norm, err));
    return fxi_load_affine(l, &o, &out->o, err);
}

// The rows of ssm_in are those of q, then k, then v. Numbers of heads are slices of one number, and
// the norm's weights slices of groups.
static fx_status load_ssm(fxi_loader *l, int i, fxi_layer *out, fx_error *err)
{
    const fxi_recurrence *r = &l->m->rules.recurrence;
    const int dim = l->m->model.shape.dim, n_inner = r->n_head * r->n_value;
    const struct {
        fxi_affine *dst;
        int n;
    } in[] = {{&out->q, n_inner}, {&out->k, r->n_channel}, {&out->v, r->n_head}};
    fxi_part_of m = {.key = fxi_weight_key("ssm_in", i),
                     .n_in = dim,
                     .n_row = n_inner + r->n_channel + r->n_head};
    const fxi_part_of o = {.key = fxi_weight_key("ssm_out", i), .n_in = n_inner, .n_out = dim},
                      norm = {.key = fxi_weight_key("ssm_norm", i),
                              .n_out = n_inner / r->n_group,
                              .n_slice = r->n_group},
                      decay = {.key = {.name = "ssm_a", .layer = i, .is_bare = true},
                               .n_out = 1,
                               .n_slice = r->n_head},
                      skip = {.key = {.name = "ssm_d", .layer = i, .is_bare = true},
                              .n_out = 1,
                              .n_slice = r->n_head},
                      dt = {.key = {.name = "ssm_dt", .layer = i, .is_bias = true},
                            .n_out = r->n_head};
    fxi_states *s = &out->states;
    for (int p = 0; p < 3; p++, m.row0 += m.n_out) {
        m.n_out = in[p].n;
        FX_TRY(fxi_load_affine(l, &m, in[p].dst, err));
    }
    FX_TRY(load_taps(l, "ssm_conv1d", i, l->keys.ssm_tap, r->n_channel, &out->conv, err));
    FX_TRY(fxi_load_vector(l, &decay, &s->decay, err));
    FX_TRY(fxi_load_vector(l, &skip, &s->skip, err));
    FX_TRY(fxi_load_vector(l, &dt, &s->dt, err));
    if (fxi_has_weight(l, "ssm_norm", i))
        FX_TRY(fxi_load_norm(l, &norm, n_inner / r->n_group, &s->norm, err));
    return fxi_load_affine(l, &o, &out->o, err);
}

// ---- all of them -------------------------------------------------------------------------------

fx_status fxi_mixer_load(fxi_loader *l, int i, fxi_layer *out, fx_error *err)
{
    static fx_status (*const load[])(fxi_loader *, int, fxi_layer *, fx_error *) = {
        [FXI_MIX_ATTENTION] = load_attention,
        [FXI_MIX_CONV] = load_conv,
        [FXI_MIX_DELTA] = load_delta,
        [FXI_MIX_SSM] = load_ssm,
    };
    return (l->m->rules.n_lora ? load_latent : load[out->mixer])(l, i, out, err);
}
