// host_buffers.c - the buffers of a pass, allocated once for the largest batch.
#include <stdlib.h>

#include "model/host/host.h"

// What the layers of a model need of their inputs.
typedef struct needs {
    size_t mid_f32, mid_q8; // numbers of down's inputs, in the form that some layer reads
    bool parallel, experts, ex_f32, ex_q8;
} needs;

static void need_mid(needs *n, const fxi_linear *down, size_t rows)
{
    size_t *dst = fxi_linear_reads_q8(down) ? &n->mid_q8 : &n->mid_f32;
    const size_t elems = rows * (size_t)down->n_in;
    if (down->data && elems > *dst) *dst = elems;
}

static void need_experts(const fxi_transformer *m, needs *n, const fxi_experts *x, size_t n_tok)
{
    const fxi_linear *in[] = {x->gate.w, x->up.w};
    n->experts = true;
    for (int i = 0; i < 2; i++)
        if (in[i]) *(fxi_linear_reads_q8(in[i]) ? &n->ex_q8 : &n->ex_f32) = true;
    need_mid(n, &x->down.w[0], n_tok * (size_t)m->rules.n_used);
    need_mid(n, &x->shared.down.w, n_tok);
}

static needs count_needs(const fxi_transformer *m, size_t n_tok)
{
    needs n = {.parallel = m->rules.is_parallel};
    for (int i = 0; i < m->model.shape.n_layer; i++) {
        const fxi_layer *l = &m->layer[i];
        need_mid(&n, &l->ffn.down.w, n_tok);
        if (l->experts) need_experts(m, &n, l->experts, n_tok);
    }
    return n;
}

typedef struct buffer {
    void **dst;
    size_t n, elem_bytes;
} buffer;

static fx_status alloc_buffers(const buffer *list, size_t n, int n_tok, fx_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!list[i].n) continue;
        *list[i].dst = aligned_alloc(64, (list[i].n * list[i].elem_bytes + 63) / 64 * 64 + 64);
        if (!*list[i].dst)
            return fxi_fail(err, FX_ENOMEM, "cpu: no memory for a batch of %d tokens", n_tok);
    }
    return FX_OK;
}

static fx_status alloc_expert_buffers(fxi_host *h, const needs *need, int n_tok, fx_error *err)
{
    fxi_host_buffers *b = &h->s;
    const fxi_transformer *m = h->m;
    const size_t n = (size_t)n_tok, dim = (size_t)m->model.shape.dim,
                 n_place = n * (size_t)m->rules.n_used, n_expert = (size_t)m->rules.n_expert;
    const size_t n_f32 = need->ex_f32 ? n_place * dim : 0, n_q8 = need->ex_q8 ? n_place * dim : 0;
    const buffer list[] = {
        {(void **)&b->router, n * n_expert, sizeof(float)},
        {(void **)&b->share, n_place, sizeof(float)},
        {(void **)&b->sh_gate, n, sizeof(float)},
        {(void **)&b->chosen, n_place, sizeof(int)},
        {(void **)&b->place, n_place, sizeof(int)},
        {(void **)&b->place_row, n_place, sizeof(int)},
        {(void **)&b->expert0, n_expert + 1, sizeof(int)},
        {(void **)&b->ex, n_f32, sizeof(float)},
        {(void **)&b->ex_q, n_q8, 1},
        {(void **)&b->ex_d, n_q8 / 32, sizeof(float)},
        {(void **)&b->ex_sum, n_q8 / 16, sizeof(int32_t)},
        {(void **)&b->ex_out, n_place * dim, sizeof(float)},
        {(void **)&b->sh_out, m->rules.n_shared_ffn ? n * dim : 0, sizeof(float)},
        {(void **)&b->part, n_expert, sizeof(fxi_ffn_part)},
        {(void **)&b->job, n_expert, sizeof(fxi_linear_job)},
    };
    return need->experts ? alloc_buffers(list, sizeof list / sizeof *list, n_tok, err) : FX_OK;
}

fx_status fxi_host_prepare(fxi_device *d, const fxi_transformer *m, const fxi_pass_limits *most,
                           fx_error *err)
{
    fxi_host *h = fxi_host_of(d);
    const fxi_model_shape *s = &m->model.shape;
    fxi_host_buffers *b = &h->s;
    h->m = m;
    const size_t n = (size_t)most->max_tok, dim = (size_t)s->dim;
    const size_t n_q = (size_t)s->n_head * (size_t)s->head_dim,
                 n_kv = (size_t)s->n_kv_head * (size_t)s->head_dim;
    const size_t n_narrow = (size_t)m->embd_in.n_in, widest = dim > n_q ? dim : n_q;
    const size_t n_act = n * (widest > n_narrow ? widest : n_narrow),
                 n_logit = (size_t)most->max_logit, n_vocab = (size_t)m->output.w.n_out;
    const needs need = count_needs(m, n);
    const buffer list[] = {
        {(void **)&b->x, n * dim, sizeof(float)},
        {(void **)&b->h, n * dim, sizeof(float)},
        {(void **)&b->held, need.parallel ? n * dim : 0, sizeof(float)},
        {(void **)&b->narrow, n * n_narrow, sizeof(float)},
        {(void **)&b->q, n * n_q, sizeof(float)},
        {(void **)&b->att, n * n_q, sizeof(float)},
        {(void **)&b->k, n * n_kv, sizeof(float)},
        {(void **)&b->v, n * n_kv, sizeof(float)},
        {(void **)&b->attn,
         fxi_compute_attn_scratch(&h->compute, s->n_head, s->n_kv_head, s->head_dim, m->ctx_tok),
         sizeof(float)},
        {(void **)&b->ffn, fxi_compute_ffn_scratch(&h->compute), sizeof(float)},
        {(void **)&b->act_q, n_act, 1},
        {(void **)&b->act_d, n_act / 32 + n, sizeof(float)},
        {(void **)&b->act_sum, n_act / 16 + n, sizeof(int32_t)},
        {(void **)&b->mid, need.mid_f32, sizeof(float)},
        {(void **)&b->mid_q, need.mid_q8, 1},
        {(void **)&b->mid_d, need.mid_q8 / 32, sizeof(float)},
        {(void **)&b->mid_sum, need.mid_q8 / 16, sizeof(int32_t)},
        {(void **)&b->logits, n_logit * n_vocab, sizeof(float)}, // touched if nobody else has room
        {(void **)&b->tok_seq, n, sizeof(void *)},
        {(void **)&b->tok_pos, n, sizeof(int)},
        {(void **)&b->block[0], n, sizeof(fxi_attn_block)},
        {(void **)&b->block[1], m->rules.window ? n : 0, sizeof(fxi_attn_block)},
        {(void **)&b->wanted, n > n_logit ? n : n_logit, sizeof(int)},
    };
    FX_TRY(alloc_buffers(list, sizeof list / sizeof *list, most->max_tok, err));
    return alloc_expert_buffers(h, &need, most->max_tok, err);
}

void fxi_host_buffers_free(fxi_host_buffers *b)
{
    void *part[] = {
        b->x,        b->h,       b->held,   b->q,       b->att,       b->k,
        b->v,        b->attn,    b->ffn,    b->act_q,   b->act_d,     b->act_sum,
        b->mid,      b->mid_q,   b->mid_d,  b->mid_sum, b->tok_pos,   b->block[0],
        b->block[1], b->wanted,  b->router, b->share,   b->sh_gate,   b->chosen,
        b->place,    b->expert0, b->ex,     b->ex_q,    b->place_row, b->ex_d,
        b->ex_sum,   b->ex_out,  b->sh_out, b->part,    b->job,       (void *)b->tok_seq,
        b->narrow,   b->logits};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) free(part[i]);
}
