// model.c - loads a transformer, runs it, and reports what it is.
//
// A forward pass runs the layers one after the other, as plan.h states them, in the steps of a
// device (device.h). If several devices share the model, each half of a layer is done by all of
// them and ends with the sum of what they have computed. At the end each has the logits of a part
// of the vocabulary, and the best token of all is chosen here.
#include "model/model.h"

#include "model/device.h"
#include "model/load/loading.h"

typedef struct pass {
    const fxi_transformer *m;
    fxi_device *dev;
    int n_row, n_logit;    // rows that are wanted; of them, the first ones want logits
    fxi_branch_end branch; // what is left to do with h; has_begun: there is one
    bool has_begun;
    fx_error *err;
} pass;

// ---- steps -------------------------------------------------------------------------------------

static uint64_t type_bit(const fxi_linear *w) // of what reads h next
{
    return w && w->data ? (uint64_t)1 << w->type : 0;
}

// x = the embedding, or x += the last branch; h = norm(x).
static fx_status next_norm(pass *p, const fxi_rownorm *norm, uint64_t read_by)
{
    const fxi_next_norm next = {norm, read_by};
    p->branch.next = next;
    if (p->has_begun) return p->dev->ops->add_norm(p->dev, &p->branch, p->err);
    p->has_begun = true;
    return p->dev->ops->embed(p->dev, &next, p->err);
}

static fx_status run_linear(pass *p, fxi_operand a, const fxi_linear *w)
{
    const fxi_device_linear job = {w, FXI_OPERAND_H};
    return p->dev->ops->linear(p->dev, a, &job, 1, p->err);
}

// What a device does in layer i up to the end of attention or of a recurrence, and from there on.
// Each end leaves in h what the branch adds to x, or this device's addend of it.
typedef fx_status layer_half(pass *p, int i);

// After the K and V of the last layer, only the rows that are wanted are computed.
static fx_status run_attention(pass *p, int i)
{
    const fxi_layer *l = &p->m->layer[i];
    const fxi_device_ops *ops = p->dev->ops;
    const fxi_device_linear job[] = {{&l->q.w, FXI_OPERAND_Q},
                                     {&l->k.w, FXI_OPERAND_K},
                                     {&l->v.w, FXI_OPERAND_V},
                                     {&l->gate.w, FXI_OPERAND_GATE}};
    FX_TRY(next_norm(p, &l->attn_in,
                     type_bit(&l->q.w) | type_bit(&l->k.w) | type_bit(&l->v.w) |
                         type_bit(&l->gate.w)));
    const bool recurs = l->mixer != FXI_MIX_ATTENTION;
    FX_TRY(ops->linear(p->dev, FXI_OPERAND_H, job, l->gate.w.data ? 4 : 3, p->err));
    FX_TRY((recurs ? ops->recur_store : ops->rope_store)(p->dev, l, p->err));
    if (i == p->m->model.shape.n_layer - 1) {
        if (!p->n_row) return FX_OK;
        FX_TRY(ops->keep_rows(p->dev, p->err));
    }
    FX_TRY((recurs ? ops->recur : ops->attention)(p->dev, l, p->err));
    p->branch = (fxi_branch_end){.bias = l->o.b, .norm = &l->attn_out};
    return run_linear(p, FXI_OPERAND_ATT, &l->o.w);
}

// In parallel layers the branch of attention is held until the end of this one.
static fx_status run_feed(pass *p, int i)
{
    const fxi_layer *l = &p->m->layer[i];
    const fxi_experts *e = l->experts;
    const fxi_ffn *f = e ? &e->shared : &l->ffn;
    uint64_t read_by = type_bit(&f->up.w) | type_bit(&f->gate.w);
    if (!e && !f->up.w.data) return FX_OK; // a layer without one: its other branch ends later
    if (e)
        read_by |= type_bit(&e->router.w) | type_bit(e->up.w) | type_bit(e->gate.w) |
                   type_bit(&e->sh_gate);
    p->branch.holds = p->m->rules.is_parallel;
    FX_TRY(next_norm(p, &l->ffn_in, read_by));
    p->branch = (fxi_branch_end){.bias = e ? NULL : f->down.b, .norm = &l->ffn_out};
    if (e) return p->dev->ops->experts(p->dev, e, p->err);
    FX_TRY(p->dev->ops->ffn(p->dev, f, p->err));
    return run_linear(p, FXI_OPERAND_MID, &f->down.w);
}

// The last norm: logits of the first rows that are wanted, the other rows as they are.
static fx_status finish_rows(pass *p, bool wants_rows, bool wants_best)
{
    const int n_embd = wants_rows ? p->n_row - p->n_logit : 0;
    const int n_logit = p->m->output.w.data ? p->n_logit : 0;
    if (!n_embd && !n_logit) return FX_OK;
    const fxi_linear *reader = p->m->embd_out.data ? &p->m->embd_out : &p->m->output.w;
    FX_TRY(next_norm(p, &p->m->out_norm, n_logit ? type_bit(reader) : 0));
    if (n_embd) FX_TRY(p->dev->ops->rows(p->dev, n_embd, p->err));
    if (!n_logit) return FX_OK;
    FX_TRY(p->dev->ops->logits(p->dev, n_logit, p->err));
    return wants_best ? p->dev->ops->best(p->dev, n_logit, p->err) : FX_OK;
}

// ---- a pass on all devices ---------------------------------------------------------------------

// The devices that compute the model: one, or several that each have a part.
typedef struct crew {
    pass on[FXI_MAX_RANK];
    int n;
    fxi_device *all; // all of them; NULL: one has the whole model
    fx_error *err;
} crew;

// The batch of device k of several, with the addresses of its part of the caches; what each finds
// best is compared when all have (wait_decoder).
static const fxi_batch *rank_batch(fxi_model_ranks *r, int k, const fxi_batch *batch)
{
    fxi_batch *own = &r->batch[k];
    *own = *batch;
    own->best = batch->best ? r->best[k] : NULL;
    own->best_logit = batch->best ? r->best_logit[k] : NULL;
    if (!k) return own;
    fxi_batch_seq *seq = r->seq + (size_t)(k - 1) * (size_t)r->max_seq;
    for (int i = 0; i < batch->n_seq; i++) {
        seq[i] = batch->seq[i];
        for (int g = 0; g < FXI_KV_MAX_GROUP; g++)
            seq[i].views.group[g].base = batch->seq[i].views.rank_base[k - 1][g];
    }
    own->seq = seq;
    own->rows = NULL;
    return own;
}

static fx_status begin_all(crew *c, fxi_transformer *m, const fxi_batch *batch, float *logits)
{
    int n_logit;
    const int n_row = fxi_batch_wanted(batch, NULL, &n_logit);
    c->n = c->all ? m->ranks.n : 1;
    m->ranks.all = batch;
    for (int k = 0; k < c->n; k++) {
        fxi_transformer *part = c->all ? m->ranks.part[k] : m;
        c->on[k] =
            (pass){.m = part, .dev = part->dev, .n_row = n_row, .n_logit = n_logit, .err = c->err};
        for (int r = 0; r < 2; r++)
            for (int i = 0; part->rope[r].n_pair && i < batch->n_seq; i++)
                fxi_rope_reach(part->model.pool, &part->rope[r], batch->seq[i].pos,
                               batch->seq[i].n_tok);
        float *dst = logits && part->output.w.data ? logits + part->vocab0 : NULL;
        FX_TRY(part->dev->ops->begin(part->dev, c->all ? rank_batch(&m->ranks, k, batch) : batch,
                                     dst, c->err));
    }
    return FX_OK;
}

static fx_status run_layers(crew *c)
{
    static layer_half *const halves[] = {run_attention, run_feed};
    const int n_layer = c->on[0].m->model.shape.n_layer;
    for (int i = 0; i < n_layer; i++)
        for (int h = 0; h < 2; h++) {
            for (int k = 0; k < c->n; k++) FX_TRY(halves[h](&c->on[k], i));
            if (i == n_layer - 1 && !c->on[0].n_row) return FX_OK;
            if (c->all) FX_TRY(c->all->ranks->sum(c->all, c->err));
        }
    return FX_OK;
}

// Each of several devices has a part of the vocabulary; the first one alone returns other rows.
static fx_status give_steps(crew *c, fxi_transformer *m, const fxi_batch *batch, float *logits)
{
    FX_TRY(begin_all(c, m, batch, logits));
    FX_TRY(run_layers(c));
    for (int k = 0; c->on[0].n_row && k < c->n; k++)
        FX_TRY(finish_rows(&c->on[k], k == 0, batch->best != NULL));
    for (int k = 0; k < c->n; k++) FX_TRY(c->on[k].dev->ops->submit(c->on[k].dev, c->err));
    return FX_OK;
}

static fx_status submit_decoder(fxi_model *model, const fxi_batch *batch, float *logits,
                                fx_error *err)
{
    fxi_transformer *m = (fxi_transformer *)model;
    crew c = {.all = m->ranks.n ? m->dev : NULL, .err = err};
    const fx_status st = give_steps(&c, m, batch, logits);
    if (st != FX_OK && c.all) c.all->ranks->give_up(c.all);
    return st;
}

// Row i of the batch: the largest of the ranks' best, the first among equals; -1 if a logit is not
// finite.
static void join_best(const fxi_model_ranks *r, int i)
{
    int best = -1;
    float logit = 0;
    for (int k = 0; k < r->n && r->part[k]->output.w.data; k++) {
        const int own = r->best[k][i];
        if (own >= 0 && k && r->best_logit[k][i] <= logit) continue;
        logit = r->best_logit[k][i];
        best = own < 0 ? -1 : r->part[k]->vocab0 + own;
        if (best < 0) break;
    }
    r->all->best[i] = best;
    if (r->all->best_logit) r->all->best_logit[i] = logit;
}

static fx_status wait_decoder(fxi_model *model, fx_error *err)
{
    const fxi_transformer *m = (const fxi_transformer *)model;
    int n_logit;
    FX_TRY(m->dev->ops->wait(m->dev, err));
    if (!m->ranks.n || !m->ranks.all->best) return FX_OK;
    (void)fxi_batch_wanted(m->ranks.all, NULL, &n_logit);
    for (int i = 0; i < n_logit; i++) join_best(&m->ranks, i);
    return FX_OK;
}

// ---- the model ---------------------------------------------------------------------------------

static void free_decoder(fxi_model *m)
{
    fxi_transformer_free((fxi_transformer *)m);
}

static const fxi_model_ops decoder_ops = {free_decoder, submit_decoder, wait_decoder};

static fx_status finish_load(fx_status st, fxi_transformer *m, fxi_model **out)
{
    if (st != FX_OK) return st;
    m->model.ops = &decoder_ops;
    *out = &m->model;
    return FX_OK;
}

fx_status fxi_model_load(const fxi_gguf *g, const fxi_model_options *opt, fxi_model **out,
                         fx_error *err)
{
    const bool ranked = opt->device && opt->device->ranks;
    fxi_transformer *m = NULL;
    *out = NULL;
    const fx_status st = ranked ? fxi_ranks_load(g, opt, &m, err)
                                : fxi_transformer_load(g, opt, (fxi_cut){0, 1}, false, &m, err);
    return finish_load(st, m, out);
}

fx_status fxi_model_inspect(const fxi_gguf *g, const fxi_model_options *opt, fxi_model **out,
                            fx_error *err)
{
    fxi_transformer *m = NULL;
    *out = NULL;
    const fx_status st = fxi_transformer_load(g, opt, (fxi_cut){0, 1}, true, &m, err);
    return finish_load(st, m, out);
}

void fxi_model_free(fxi_model *m)
{
    if (m) m->ops->free(m);
}

fx_status fxi_model_submit(fxi_model *m, const fxi_batch *batch, float *logits, fx_error *err)
{
    return m->ops->submit(m, batch, logits, err);
}

fx_status fxi_model_wait(fxi_model *m, fx_error *err)
{
    return m->ops->wait ? m->ops->wait(m, err) : FX_OK;
}

fx_status fxi_model_forward(fxi_model *m, const fxi_batch *batch, float *logits, fx_error *err)
{
    FX_TRY(fxi_model_submit(m, batch, logits, err));
    return fxi_model_wait(m, err);
}
