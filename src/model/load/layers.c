// layers.c - the tensors of a model, layer after layer, checked against its rules; what a forward
// pass costs.
#include <stdio.h>
#include <string.h>

#include "model/load/loading.h"

// ---- parts: matrices with biases, feed-forward blocks ------------------------------------------

// This device's part of the n_ffn numbers between the halves of a feed-forward block, as the blocks
// of the second half's type allow. FX_EINVAL: there are too few.
static fx_status cut_ffn(const fxi_loader *l, fxi_tensor_key down, int n_ffn, int *first,
                         int *count, fx_error *err)
{
    enum { EVEN_UNIT = 32 }; // of floats, where there are enough
    const fxi_gguf_tensor *t = fxi_loader_find(l, down);
    int unit = t ? (int)t->type->block_elems : 1;
    if (unit == 1 && n_ffn / l->cut.n_rank >= EVEN_UNIT) unit = EVEN_UNIT;
    fxi_cut_range(l->cut, n_ffn, unit, first, count);
    if (*count > 0) return FX_OK;
    return fxi_fail(err, FX_EINVAL,
                    "%s: %d devices cannot share out the %d numbers of a feed-forward block",
                    fxi_gguf_name(l->g), l->cut.n_rank, n_ffn);
}

// This device's part of a feed-forward block of n_ffn numbers; name: of gate, up and down. Without
// a tensor of the gate, up's has the gate's rows before its own.
static fx_status load_ffn(fxi_loader *l, int layer, const char *const name[3], int n_ffn,
                          fxi_ffn *out, fx_error *err)
{
    const int dim = l->m->model.shape.dim;
    const bool gated = l->family->flags & FXI_GATED, fused = !fxi_has_weight(l, name[0], layer);
    const fxi_tensor_key down = fxi_weight_key(name[2], layer);
    int first, n;
    FX_TRY(cut_ffn(l, down, n_ffn, &first, &n, err));
    fxi_part_of m = {.key = fxi_weight_key(name[gated && !fused ? 0 : 1], layer),
                     .n_in = dim,
                     .n_out = n,
                     .n_row = gated && fused ? 2 * n_ffn : n_ffn,
                     .row0 = first};
    if (gated) FX_TRY(fxi_load_affine(l, &m, &out->gate, err));
    m.key.name = name[1];
    if (gated && fused) m.row0 += n_ffn;
    FX_TRY(fxi_load_affine(l, &m, &out->up, err));
    m = (fxi_part_of){
        .key = down, .n_in = n, .n_out = dim, .n_col = n < n_ffn ? n_ffn : 0, .col0 = first};
    return fxi_load_affine(l, &m, &out->down, err);
}

static fx_status load_stream_norm(fxi_loader *l, const char *name, int layer, fxi_rownorm *out,
                                  fx_error *err)
{
    const int dim = l->m->model.shape.dim;
    const fxi_part_of m = {.key = fxi_weight_key(name, layer), .n_out = dim};
    return fxi_load_norm(l, &m, dim, out, err);
}

// ---- norms of a layer --------------------------------------------------------------------------

static fx_status load_embd_norm(fxi_loader *l, fxi_layer *first, fx_error *err)
{
    FX_TRY(load_stream_norm(l, "token_embd_norm", -1, &first->attn_in, err));
    first->attn_in.replaces = true;
    return FX_OK;
}

// A norm after the feed-forward block is what the next layer reads, or the model's last norm.
static fx_status load_post_norms(fxi_loader *l, int i, fxi_layer *out, fx_error *err)
{
    fxi_transformer *m = l->m;
    const fxi_family *f = l->family;
    const bool is_last = i == m->model.shape.n_layer - 1;
    if (!i && (f->flags & FXI_EMBD_NORM)) FX_TRY(load_embd_norm(l, out, err));
    fxi_rownorm *after = is_last ? &m->out_norm : &out[1].attn_in;
    FX_TRY(load_stream_norm(l, f->attn_out ? f->attn_out : f->attn_in, i, &out->ffn_in, err));
    FX_TRY(load_stream_norm(l, f->ffn_out ? f->ffn_out : f->ffn_in, i, after, err));
    out->ffn_in.replaces = after->replaces = true;
    return FX_OK;
}

static fx_status load_layer_norms(fxi_loader *l, int i, fxi_layer *out, fx_error *err)
{
    const fxi_family *f = l->family;
    if (l->m->rules.is_post_norm) return load_post_norms(l, i, out, err);
    const struct {
        const char *name, *other; // of the two before, in parallel models
        fxi_rownorm *dst;
    } all[] = {{f->attn_in, f->ffn_in, &out->attn_in},
               {f->attn_out, NULL, &out->attn_out},
               {f->ffn_in, f->attn_in, &out->ffn_in},
               {f->ffn_out, NULL, &out->ffn_out}};
    const bool of_embd = !i && f->flags & FXI_EMBD_NORM;
    if (of_embd) FX_TRY(load_embd_norm(l, out, err));
    for (size_t n = of_embd; n < sizeof all / sizeof *all; n++) {
        const bool borrows =
            l->m->rules.is_parallel && all[n].other && !fxi_has_weight(l, all[n].name, i);
        if (all[n].name && !borrows) FX_TRY(load_stream_norm(l, all[n].name, i, all[n].dst, err));
    }
    if (!out->attn_in.w && f->attn_in) out->attn_in = out->ffn_in;
    if (!out->ffn_in.w && f->ffn_in) out->ffn_in = out->attn_in;
    if (!out->attn_in.w && f->attn_in)
        return load_stream_norm(l, f->attn_in, i, &out->attn_in, err);
    return FX_OK;
}

// ---- experts -----------------------------------------------------------------------------------
//
// Files hold an expert's matrices in three ways: all experts in one tensor of slices, a tensor per
// expert, or gate and up together in one tensor of slices.

typedef struct expert_part {
    const char *slices; // the tensor of slices
    const char *single; // a tensor per expert
    int gate_up;        // which part of "ffn_gate_up_exps" it is; -1: none, it is the second half
    fxi_expert_linear *dst;
} expert_part;

// This device's part [first, first + n) of the numbers between the halves of an expert: the rows of
// a first half, or the columns of a second one. The first device has the bias after the sum of a
// second half, so that the sum of all has it once.
static fx_status load_expert_part(fxi_loader *l, int layer, const expert_part *e, int first, int n,
                                  fx_error *err)
{
    const int n_expert = l->m->rules.router.n_expert, n_ffn = l->m->rules.n_expert_ffn,
              dim = l->m->model.shape.dim;
    const bool fused = e->gate_up >= 0 && fxi_has_weight(l, "ffn_gate_up_exps", layer);
    fxi_part_of m = {.n_in = dim, .n_out = n, .n_row = n_ffn, .row0 = first};
    if (e->gate_up < 0)
        m = (fxi_part_of){.n_in = n, .n_out = dim, .n_col = n < n_ffn ? n_ffn : 0, .col0 = first};
    char single0[64];
    void *w;
    FX_TRY(fxi_load_zeros(l, (size_t)n_expert * sizeof *e->dst->w, &w, err));
    e->dst->w = w;
    snprintf(single0, sizeof single0, "%s.0", e->single);
    if (!fused && fxi_has_weight(l, single0, layer)) {
        m.key = fxi_weight_key(e->single, layer);
        return fxi_load_singles(l, &m, e->dst->w, n_expert, err);
    }
    m.key = fxi_weight_key(fused ? "ffn_gate_up_exps" : e->slices, layer);
    m.n_slice = n_expert;
    if (fused) m.row0 += e->gate_up * m.n_row, m.n_row *= 2;
    FX_TRY(fxi_load_linear(l, &m, e->dst->w, err));
    return m.n_row || !l->cut.rank ? fxi_load_bias(l, &m, &e->dst->b, err) : FX_OK;
}

// The expert that every token goes through, where the file has one.
static fx_status load_shared(fxi_loader *l, int layer, fxi_experts *out, fx_error *err)
{
    static const char *const names[] = {"ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"};
    const fxi_gguf_tensor *up = fxi_loader_find(l, fxi_weight_key(names[1], layer));
    const fxi_tensor_key gate = fxi_weight_key("ffn_gate_inp_shexp", layer);
    if (!up) return FX_OK;
    if (up->ne[1] < 1 || up->ne[1] > 1 << 20)
        return fxi_loading_fail(l, "the shared expert has an implausible number of rows", err);
    const int n_ffn = (int)up->ne[1];
    if (n_ffn > l->m->rules.n_shared_ffn) l->m->rules.n_shared_ffn = n_ffn;
    FX_TRY(load_ffn(l, layer, names, n_ffn, &out->shared, err));
    if (l->cut.rank) out->shared.down.b = NULL;
    if (!fxi_loader_find(l, gate)) return FX_OK;
    const fxi_part_of m = {.key = gate, .n_in = l->m->model.shape.dim, .n_out = 1};
    return fxi_load_linear(l, &m, &out->sh_gate, err);
}

static fx_status load_experts(fxi_loader *l, int layer, fxi_experts *out, fx_error *err)
{
    const expert_part parts[] = {{"ffn_gate_exps", "ffn_gate", 0, &out->gate},
                                 {"ffn_up_exps", "ffn_up", 1, &out->up},
                                 {"ffn_down_exps", "ffn_down", -1, &out->down}};
    const fxi_part_of router = {.key = fxi_weight_key("ffn_gate_inp", layer),
                                .n_in = l->m->model.shape.dim,
                                .n_out = l->m->rules.router.n_expert};
    const bool slices = fxi_has_weight(l, "ffn_down_exps", layer);
    const fxi_tensor_key down = fxi_weight_key(slices ? "ffn_down_exps" : "ffn_down.0", layer);
    int first, n;
    FX_TRY(cut_ffn(l, down, l->m->rules.n_expert_ffn, &first, &n, err));
    const fxi_part_of choice = {.key = {"exp_probs_b", layer, true}, .n_out = router.n_out};
    FX_TRY(fxi_load_affine(l, &router, &out->router, err));
    if (fxi_loader_find(l, choice.key)) FX_TRY(fxi_load_vector(l, &choice, &out->choice_bias, err));
    for (size_t i = l->family->flags & FXI_GATED ? 0 : 1; i < sizeof parts / sizeof *parts; i++)
        FX_TRY(load_expert_part(l, layer, &parts[i], first, n, err));
    return load_shared(l, layer, out, err);
}

// ---- feed-forward ------------------------------------------------------------------------------

static fx_status load_feed(fxi_loader *l, int i, fxi_layer *out, fx_error *err)
{
    static const char *const names[] = {"ffn_gate", "ffn_up", "ffn_down"};
    void *experts;
    if (!l->m->rules.router.n_expert || !fxi_has_weight(l, "ffn_gate_inp", i)) {
        if (l->m->rules.router.n_expert &&
            !fxi_has_weight(l, "ffn_down", i)) // a layer has one or the other
            return fxi_fail(err, FX_EFORMAT,
                            "%s: tensor 'blk.%d.ffn_gate_inp.weight' of the experts is missing",
                            fxi_gguf_name(l->g), i);
        return load_ffn(l, i, names, l->m->model.shape.n_ffn, &out->ffn, err);
    }
    FX_TRY(fxi_load_zeros(l, sizeof *out->experts, &experts, err));
    out->experts = experts;
    return load_experts(l, i, out->experts, err);
}

// A feed-forward block that is a block of its own in the file, as the end of the layer before it.
static fx_status load_feed_block(fxi_loader *l, int block, fxi_layer *out, fx_error *err)
{
    if (out->ffn_in.w)
        return fxi_fail(err, FX_EFORMAT, "%s: block %d: two feed-forward blocks, one after another",
                        fxi_gguf_name(l->g), block);
    FX_TRY(load_stream_norm(l, l->family->attn_in, block, &out->ffn_in, err));
    return load_feed(l, block, out, err);
}

// ---- around the layers -------------------------------------------------------------------------

static fx_status load_positions(fxi_loader *l, fx_error *err)
{
    const fxi_tensor_key key = fxi_weight_key("position_embd", -1);
    const fxi_gguf_tensor *t = fxi_loader_find(l, key);
    if (!(l->family->flags & FXI_LEARNED_POSITIONS)) return FX_OK;
    if (!t) return fxi_loading_fail(l, "tensor 'position_embd.weight' is missing", err);
    if (t->ne[1] < (uint64_t)l->m->ctx_tok || t->ne[1] > 1 << 24)
        return fxi_fail(err, FX_EINVAL,
                        "%s: a context of %d tokens needs as many learned positions; the model has "
                        "%llu",
                        fxi_gguf_name(l->g), l->m->ctx_tok, (unsigned long long)t->ne[1]);
    const fxi_part_of m = {.key = key, .n_in = l->m->model.shape.dim, .n_out = (int)t->ne[1]};
    return fxi_load_linear(l, &m, &l->m->positions, err);
}

static fx_status load_token_type(fxi_loader *l, fx_error *err)
{
    const int dim = l->m->model.shape.dim;
    const fxi_tensor_key key = fxi_weight_key("token_types", -1);
    const fxi_gguf_tensor *t = fxi_loader_find(l, key);
    if (!(l->family->flags & FXI_TOKEN_TYPES) || !t) return FX_OK;
    if (t->ne[1] < 1 || t->ne[1] > 1 << 16)
        return fxi_loading_fail(l, "tensor 'token_types.weight' has an implausible number of rows",
                                err);
    const int n = t->ne[1] > 1 ? 2 : 1;
    const fxi_part_of first = {
        .key = key, .n_out = dim, .n_slice = n, .n_all_slice = (int)t->ne[1]};
    l->m->n_token_type = n;
    return fxi_load_vector(l, &first, &l->m->token_type, err);
}

// ---- the head that scores pairs of texts -------------------------------------------------------

static fx_status keep_numbers(fxi_loader *l, const fxi_part_of *m, const float **out, fx_error *err)
{
    const size_t n_bytes = (size_t)m->n_out * (size_t)(m->n_slice ? m->n_slice : 1) * sizeof **out;
    const float *v;
    void *kept;
    FX_TRY(fxi_read_vector(l, m, &v, err));
    FX_TRY(fxi_load_zeros(l, n_bytes, &kept, err));
    *out = memcpy(kept, v, n_bytes);
    return FX_OK;
}

// What two rows make of the row that they are multiplied with, softmax, is the sigmoid of their
// difference: the first one's share.
static fx_status load_head_out(fxi_loader *l, fxi_tensor_key key, int n_label, const float **out,
                               fx_error *err)
{
    const int dim = l->m->model.shape.dim;
    const float *row;
    void *data;
    if (n_label == 1) return keep_numbers(l, &(fxi_part_of){.key = key, .n_out = dim}, out, err);
    FX_TRY(fxi_read_vector(l, &(fxi_part_of){.key = key, .n_out = dim, .n_slice = 2}, &row, err));
    FX_TRY(fxi_load_zeros(l, (size_t)dim * sizeof **out, &data, err));
    float *difference = data;
    for (int i = 0; i < dim; i++) difference[i] = row[i] - row[dim + i];
    *out = data;
    return FX_OK;
}

// "cls" is the dense layer, "cls.output" the last one. A file may lack the first and biases. A
// model that generates and scores has the output's rows of "yes" and "no" there.
static fx_status load_head(fxi_loader *l, fx_error *err)
{
    fxi_model_shape *s = &l->m->model.shape;
    const fxi_tensor_key dense = {.name = "cls", .layer = -1},
                         dense_b = {.name = "cls", .layer = -1, .is_bias = true};
    const fxi_tensor_key out = {.name = "cls.output", .layer = -1},
                         out_b = {.name = "cls.output", .layer = -1, .is_bias = true};
    const fxi_gguf_tensor *t = fxi_loader_find(l, out);
    void *data;
    if (s->pooling != FXI_POOL_RANK && !t) return FX_OK;
    if (!t) return fxi_loading_fail(l, "tensor 'cls.output.weight' is missing", err);
    const bool may_be_two = s->is_causal && t->ne[1] == 2;
    if ((t->ne[1] != 1 && !may_be_two) || t->ne[2] != 1)
        return fxi_loading_fail(
            l, "tensor 'cls.output.weight' has several labels: only a head of one score is known",
            err);
    FX_TRY(fxi_load_zeros(l, sizeof *s->head, &data, err));
    fxi_score_head *h = data;
    s->head = h;
    const float *bias = NULL;
    FX_TRY(load_head_out(l, out, (int)t->ne[1], &h->out, err));
    if (fxi_loader_find(l, out_b) && !may_be_two)
        FX_TRY(fxi_read_vector(l, &(fxi_part_of){.key = out_b, .n_out = 1}, &bias, err));
    if (bias) h->out_b = *bias;
    FX_TRY(fxi_gguf_bool(l->g, "flexinfer.raw_scores", false, &h->is_raw, err));
    if (!fxi_loader_find(l, dense)) return FX_OK;
    const fxi_part_of rows = {.key = dense, .n_out = s->dim, .n_slice = s->dim};
    FX_TRY(keep_numbers(l, &rows, &h->dense, err));
    if (fxi_loader_find(l, dense_b))
        return keep_numbers(l, &(fxi_part_of){.key = dense_b, .n_out = s->dim}, &h->dense_b, err);
    FX_TRY(fxi_load_zeros(l, (size_t)s->dim * sizeof(float), &data, err));
    h->dense_b = data;
    return FX_OK;
}

// A matrix of the host's, [n_out][n_in], whose sizes the file states.
static fx_status read_dense(fxi_loader *l, const char *name, int n_in, const float **out,
                            int *n_out, fx_error *err)
{
    const fxi_tensor_key key = fxi_weight_key(name, -1);
    const fxi_gguf_tensor *t = fxi_loader_find(l, key);
    if (!t || t->ne[1] < 1 || t->ne[1] > 1 << 17)
        return fxi_fail(err, FX_EFORMAT, "%s: tensor '%s.weight' is %s", fxi_gguf_name(l->g), name,
                        t ? "of an implausible size" : "missing");
    *n_out = (int)t->ne[1];
    return keep_numbers(l, &(fxi_part_of){.key = key, .n_out = n_in, .n_slice = *n_out}, out, err);
}

// Two matrices without anything between them are one: their product, rounded once.
static fx_status load_dense(fxi_loader *l, fx_error *err)
{
    fxi_model_shape *s = &l->m->model.shape;
    const float *first, *second;
    void *data, *room;
    int n_mid, n_out;
    const size_t dim = (size_t)s->dim;
    if (!(l->family->flags & FXI_DENSE) || !fxi_has_weight(l, "dense_2", -1)) return FX_OK;
    FX_TRY(read_dense(l, "dense_2", s->dim, &first, &n_mid, err));
    FX_TRY(read_dense(l, "dense_3", n_mid, &second, &n_out, err));
    if (n_out != s->dim)
        return fxi_fail(err, FX_EFORMAT, "%s: 'dense_3.weight' gives %d numbers, the model has %d",
                        fxi_gguf_name(l->g), n_out, s->dim);
    FX_TRY(fxi_load_zeros(l, dim * dim * sizeof(float), &data, err));
    FX_TRY(fxi_load_zeros(l, dim * sizeof(double), &room, err));
    float *product = data;
    double *row = room;
    for (size_t o = 0; o < dim && !l->is_dry; o++, product += dim) {
        memset(row, 0, dim * sizeof *row);
        for (size_t k = 0; k < (size_t)n_mid; k++)
            for (size_t i = 0; i < dim; i++)
                row[i] += (double)second[o * (size_t)n_mid + k] * (double)first[k * dim + i];
        for (size_t i = 0; i < dim; i++) product[i] = (float)row[i];
    }
    s->dense = data;
    return FX_OK;
}

// Where embeddings are of another width than x. What is pooled would have to be narrowed, too.
static fx_status load_projections(fxi_loader *l, int width, fx_error *err)
{
    fxi_transformer *m = l->m;
    const int dim = m->model.shape.dim;
    const fxi_part_of in = {.key = fxi_weight_key("project_in", -1), .n_in = width, .n_out = dim},
                      out = {.key = fxi_weight_key("project_out", -1), .n_in = dim, .n_out = width};
    if (width == dim || !(l->family->flags & FXI_SMALL_OPT)) return FX_OK;
    if (m->model.shape.pooling != FXI_POOL_NONE || !m->model.shape.generates)
        return fxi_loading_fail(l, "pooling of a model with project_out is not supported", err);
    FX_TRY(fxi_load_linear(l, &in, &m->embd_in, err));
    return fxi_load_linear(l, &out, &m->embd_out, err);
}

// This rank's rows of the output matrix: whole panels, as many as others have. A vocabulary too
// small for that is the first rank's.
static void cut_vocabulary(const fxi_loader *l, int *first, int *count)
{
    const int n_vocab = l->m->model.shape.n_vocab, n_rank = l->cut.n_rank;
    fxi_cut_range(l->cut, n_vocab, FXI_PANEL, first, count);
    if (n_vocab >= n_rank * FXI_PANEL) return;
    *first = 0;
    *count = l->cut.rank ? 0 : n_vocab;
}

// The output matrix is the embedding, which every rank has.
static fx_status tie_output(fxi_loader *l, fx_error *err)
{
    fxi_transformer *m = l->m;
    int n;
    cut_vocabulary(l, &m->vocab0, &n);
    if (n) m->output.w = m->embd;
    if (!n || n == m->embd.n_out || l->is_dry) return FX_OK;
    return m->dev->ops->view_rows(m->dev, &m->embd, m->vocab0, n, &m->output.w, err);
}

static fx_status load_embedding(fxi_loader *l, fx_error *err)
{
    const fxi_tensor_key embd = fxi_weight_key("token_embd", -1),
                         output = fxi_weight_key("output", -1);
    const fxi_gguf_tensor *t = fxi_loader_find(l, embd);
    fxi_transformer *m = l->m;
    fxi_model_shape *s = &m->model.shape;
    if (!t) return fxi_loading_fail(l, "tensor 'token_embd.weight' is missing", err);
    if (t->ne[1] < 1 || t->ne[1] > 1 << 24)
        return fxi_loading_fail(l, "tensor 'token_embd.weight' has an implausible number of rows",
                                err);
    s->n_vocab = (int)t->ne[1];
    const bool may_differ =
        l->family->flags & FXI_SMALL_OPT && t->ne[0] >= 1 && t->ne[0] <= 1 << 17;
    const int width = may_differ ? (int)t->ne[0] : s->dim;
    FX_TRY(load_projections(l, width, err));
    fxi_part_of out = {.key = embd, .n_in = width, .n_out = s->n_vocab};
    FX_TRY(fxi_load_linear(l, &out, &m->embd, err));
    if (!s->generates) return FX_OK;
    if (!fxi_loader_find(l, output)) return tie_output(l, err);
    out.key = output;
    out.n_row = out.n_out;
    cut_vocabulary(l, &m->vocab0, &out.n_out);
    out.row0 = m->vocab0;
    return out.n_out ? fxi_load_affine(l, &out, &m->output, err) : FX_OK;
}

// Layers of attention without a window are the first group of the cache, those with one the next. A
// latent layer has one plane.
static void lay_out_attention(fxi_transformer *m)
{
    fxi_kv_layout *kv = &m->model.shape.kv;
    const fxi_model_shape *s = &m->model.shape;
    const size_t row_bytes = fxi_kv_bytes(m->model.kv_type, s->n_kv_head * s->head_dim);
    const int window = m->rules.window < m->ctx_tok ? m->rules.window : 0;
    const int n_own = m->rules.n_lora ? 1 : 2; // planes of a layer
    for (int w = 0; w < 2; w++) {
        fxi_kv_group g = {.row_bytes = row_bytes, .window_tok = w ? window : 0};
        for (int i = 0; i < m->model.shape.n_layer; i++) {
            fxi_layer *l = &m->layer[i];
            if (l->mixer != FXI_MIX_ATTENTION || (l->is_windowed && window) != w) continue;
            l->kv_group = m->attn_group[l->is_windowed] = kv->n_group;
            l->kv_layer = g.n_plane / n_own;
            g.n_plane += n_own;
        }
        if (g.n_plane) kv->group[kv->n_group++] = g;
    }
}

// Of recurrent layers, the rows of tokens are a group, and the states another.
static void lay_out_recurrence(fxi_transformer *m)
{
    const fxi_recurrence *r = &m->rules.recurrence;
    fxi_kv_layout *kv = &m->model.shape.kv;
    fxi_kv_group rows = {.row_bytes = (size_t)r->n_row * sizeof(float),
                         .window_tok = r->row_tok < m->ctx_tok ? r->row_tok : 0,
                         .is_passing = true};
    for (int i = 0; i < m->model.shape.n_layer; i++) {
        fxi_layer *l = &m->layer[i];
        if (l->mixer == FXI_MIX_ATTENTION) continue;
        l->kv_group = kv->n_group;
        l->state_group = kv->n_group + 1;
        l->kv_layer = rows.n_plane++;
    }
    if (!rows.n_plane) return;
    kv->group[kv->n_group++] = rows;
    m->model.shape.passing_tok = r->row_tok;
    if (r->n_state)
        kv->group[kv->n_group++] = (fxi_kv_group){.n_plane = rows.n_plane,
                                                  .row_bytes = (size_t)r->n_state * sizeof(float),
                                                  .is_state = true};
}

fx_status fxi_layers_load(fxi_loader *l, fx_error *err)
{
    fxi_transformer *m = l->m;
    const int n_layer = m->model.shape.n_layer;
    const char *out_norm = l->family->out_norm ? l->family->out_norm : "output_norm";
    void *layers, *windows;
    FX_TRY(load_embedding(l, err));
    FX_TRY(load_positions(l, err));
    FX_TRY(load_token_type(l, err));
    FX_TRY(load_head(l, err));
    FX_TRY(load_dense(l, err));
    if (!m->rules.is_post_norm) FX_TRY(load_stream_norm(l, out_norm, -1, &m->out_norm, err));
    FX_TRY(fxi_load_zeros(l, (size_t)n_layer * sizeof *m->layer, &layers, err));
    FX_TRY(fxi_load_zeros(l, (size_t)n_layer * sizeof(int), &windows, err));
    m->layer = layers;
    m->model.shape.window_tok = windows;
    fxi_layer *out = m->layer;
    for (int i = 0; i < l->keys.n_layer - l->keys.n_nextn; i++) { // blocks of the file
        if (fxi_rules_feeds(l, i)) {
            FX_TRY(load_feed_block(l, i, out - 1, err));
            continue;
        }
        out->mixer = fxi_rules_mixer(l, i);
        out->is_windowed = fxi_rules_window(l, i);
        if (fxi_rules_rotates(l, i))
            out->rope = &m->rope[out->is_windowed && m->rope[1].n_pair ? 1 : 0];
        FX_TRY(load_layer_norms(l, i, out, err));
        FX_TRY(fxi_mixer_load(l, i, out, err));
        if (!(l->family->flags & FXI_SPLIT_BLOCKS)) FX_TRY(load_feed(l, i, out, err));
        ((int *)windows)[out - m->layer] = out->is_windowed ? m->rules.window : 0;
        out++;
    }
    lay_out_attention(m);
    lay_out_recurrence(m);
    return FX_OK;
}

// ---- what a pass costs: multiply-adds per token, and bytes of weights that it reads ------------

// Adds `share` of a layer's work; share < 1: of experts, of which a token goes through a few.
static void count_linear(fxi_model_shape *s, const fxi_linear *w, double share, uint64_t *n_mul)
{
    if (!w->data) return;
    fxi_linear read = *w;
    read.group = 0; // the room of panels that the last group lacks is not read
    *n_mul += (uint64_t)((double)w->n_in * w->n_out * share);
    s->pass_bytes += (uint64_t)((double)fxi_linear_bytes(&read) * share);
}

static void count_ffn(fxi_model_shape *s, const fxi_ffn *f, uint64_t *n_mul)
{
    count_linear(s, &f->gate.w, 1, n_mul);
    count_linear(s, &f->up.w, 1, n_mul);
    count_linear(s, &f->down.w, 1, n_mul);
}

// After the last K and V only the rows that want logits are computed.
void fxi_work_count(fxi_transformer *m)
{
    fxi_model_shape *s = &m->model.shape;
    for (int i = 0; i < s->n_layer; i++) {
        const fxi_layer *l = &m->layer[i];
        uint64_t *n_mul = i < s->n_layer - 1 ? &s->layer_mul : &s->output_mul;
        count_linear(s, &l->q.w, 1, &s->layer_mul);
        count_linear(s, &l->k.w, 1, &s->layer_mul);
        count_linear(s, &l->v.w, 1, &s->layer_mul);
        count_linear(s, &l->gate.w, 1, &s->layer_mul);
        count_linear(s, &l->o.w, 1, n_mul);
        if (l->latent) {
            count_linear(s, &l->latent->q_a.w, 1, &s->layer_mul);
            count_linear(s, l->latent->k_up, s->n_head, &s->layer_mul);
            count_linear(s, l->latent->v_up, s->n_head, n_mul);
        }
        count_ffn(s, &l->ffn, n_mul);
        const fxi_experts *x = l->experts;
        if (!x) continue;
        const fxi_linear *all[] = {x->gate.w, x->up.w, x->down.w};
        count_linear(s, &x->router.w, 1, n_mul);
        count_ffn(s, &x->shared, n_mul);
        for (size_t p = 0; p < sizeof all / sizeof *all; p++)
            if (all[p]) count_linear(s, all[p], m->rules.router.n_used, n_mul); // of one shape
    }
    count_linear(s, &m->embd_in, 1, &s->layer_mul);
    count_linear(s, &m->embd_out, 1, &s->output_mul);
    count_linear(s, &m->output.w, 1, &s->output_mul);
}
