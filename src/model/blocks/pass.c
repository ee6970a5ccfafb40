// pass.c - a batch as rows, and as blocks of attention.
#include "model/blocks/pass.h"

void fxi_pass_rows(fxi_pass *p, fxi_row_fn *fn)
{
    fxi_compute_rows(&p->m->compute, p->n_row, fn, p);
}

void fxi_pass_quant(const fxi_pass *p, const float *x, int n_elem, int row)
{
    const fxi_scratch *s = &p->m->s;
    size_t at = (size_t)row * (size_t)n_elem;
    p->m->model.k->quant_q8(x, n_elem, s->act_q + at, s->act_d + at / FXI_Q8_0_ELEMS,
                            s->act_sum + at / 16);
}

void fxi_pass_norm(const fxi_pass *p, const fxi_rownorm *norm, const float *x, int n_run, float *y)
{
    const fxi_transformer *m = p->m;
    for (int i = 0; i < n_run; i++) {
        const size_t at = (size_t)i * (size_t)norm->n, w = (size_t)i * (size_t)norm->step;
        if (m->rules.norm == FXI_NORM_RMS)
            m->model.k->rms_norm(x + at, norm->w + w, norm->n, m->rules.eps, y + at);
        else
            m->model.k->layer_norm(x + at, norm->w + w, norm->b ? norm->b + w : NULL, norm->n,
                                   m->rules.eps, y + at);
    }
}

// ---- the batch ---------------------------------------------------------------------------------

// Records the sequence and position of each row, and divides the sequences' tokens into blocks of
// attention. Returns the number of blocks.
static int index_batch(fxi_transformer *m, const fxi_batch *batch, int kv_group,
                       fxi_attn_block *block)
{
    const int most =
        fxi_compute_attn_block_tok(&m->compute, batch->n_tok, m->model.shape.n_kv_head);
    int row = 0, n_block = 0;
    for (int i = 0; i < batch->n_seq; i++) {
        const fxi_batch_seq *seq = &batch->seq[i];
        for (int t = 0; t < seq->n_tok; t++) {
            m->s.tok_seq[row + t] = seq;
            m->s.tok_pos[row + t] = seq->pos + t;
        }
        for (int t = 0; t < seq->n_tok; t += most) {
            int left = seq->n_tok - t;
            block[n_block++] = (fxi_attn_block){
                .view = seq->views.group[kv_group],
                .row = row + t,
                .n_tok = left < most ? left : most,
                .pos = seq->pos + t,
                .n_pos = m->model.shape.is_causal ? 0 : seq->pos + seq->n_tok,
            };
        }
        row += seq->n_tok;
    }
    return n_block;
}

// The parameters of attention that all layers share.
static fxi_attn_pass make_attn_pass(fxi_transformer *m, const fxi_batch *batch, bool windowed)
{
    const fxi_model_shape *s = &m->model.shape;
    const int kv_group = windowed ? s->kv.n_group - 1 : 0;
    fxi_attn_pass a = {
        .n_block = index_batch(m, batch, kv_group, m->s.block[windowed]),
        .n_head = s->n_head,
        .n_kv_head = s->n_kv_head,
        .head_dim = s->head_dim,
        .ctx_tok = m->ctx_tok,
        .window = windowed ? m->rules.window : 0,
        .kv_type = m->model.kv_type,
        .scale = m->rules.attn_scale,
        .softcap = m->rules.attn_cap,
        .q = m->s.q,
        .out = m->s.att,
        .scratch = m->s.attn,
    };
    fxi_compute_attn_plan(&m->compute, &a, m->s.block[windowed]);
    return a;
}

static void reach_angles(fxi_transformer *m, const fxi_batch *batch)
{
    for (int r = 0; r < 2; r++)
        for (int i = 0; m->rope[r].n_pair && i < batch->n_seq; i++)
            fxi_rope_reach(&m->compute, &m->rope[r], batch->seq[i].pos, batch->seq[i].n_tok);
}

void fxi_pass_index(fxi_pass *p)
{
    p->n_row = p->batch->n_tok;
    reach_angles(p->m, p->batch);
    for (int w = 0; w <= (p->m->rules.window > 0); w++)
        p->attn[w] = make_attn_pass(p->m, p->batch, w);
}

// ---- rows that are wanted ---------------------------------------------------------------------

// Limits attention to the remaining rows: each block begins at the first of them.
static void keep_attn_rows(fxi_pass *p, fxi_attn_pass *attn, fxi_attn_block *block)
{
    int n = 0, next = 0;
    for (int i = 0; i < attn->n_block; i++) {
        fxi_attn_block b = block[i];
        while (next < p->n_row && p->x_row[next] < b.row) next++;
        const int skip = next < p->n_row ? p->x_row[next] - b.row : b.n_tok;
        if (skip >= b.n_tok) continue;
        block[n++] = (fxi_attn_block){.view = b.view,
                                      .row = b.row + skip,
                                      .n_tok = b.n_tok - skip,
                                      .pos = b.pos + skip,
                                      .n_pos = b.n_pos};
    }
    attn->n_block = n;
    fxi_compute_attn_plan(&p->m->compute, attn, block);
}

void fxi_pass_keep_wanted(fxi_pass *p)
{
    const bool w = p->layer->is_windowed;
    int *list = p->m->s.logit_row, n = 0, row = 0;
    for (int i = 0; i < p->batch->n_seq; i++) {
        row += p->batch->seq[i].n_tok;
        for (int k = p->batch->seq[i].n_logit; k > 0; k--) list[n++] = row - k;
        if (!p->batch->seq[i].embeds) p->n_logit = n;
    }
    p->n_row = n;
    p->x_row = list;
    keep_attn_rows(p, &p->attn[w], p->m->s.block[w]);
}
