// host_batch.c - a batch as rows, and as blocks of attention.
#include "model/host/host.h"

void fxi_host_rows(fxi_host *h, fxi_row_fn *fn)
{
    fxi_compute_rows(&h->compute, h->n_row, fn, h);
}

void fxi_host_quant(const fxi_host *h, const float *x, int n_elem, int row)
{
    const fxi_host_buffers *s = &h->s;
    size_t at = (size_t)row * (size_t)n_elem;
    h->compute.k->quant_q8(x, n_elem, s->act_q + at, s->act_d + at / FXI_Q8_0_ELEMS,
                           s->act_sum + at / 16);
}

void fxi_host_norm(const fxi_host *h, const fxi_rownorm *norm, const float *x, int n_run, float *y)
{
    const fxi_rules *r = &h->m->rules;
    const fxi_kernels *k = h->compute.k;
    for (int i = 0; i < n_run; i++) {
        const size_t at = (size_t)i * (size_t)norm->n, w = (size_t)i * (size_t)norm->step;
        if (r->norm == FXI_NORM_RMS)
            k->rms_norm(x + at, norm->w + w, norm->n, r->eps, y + at);
        else
            k->layer_norm(x + at, norm->w + w, norm->b ? norm->b + w : NULL, norm->n, r->eps,
                          y + at);
    }
}

// ---- the batch ---------------------------------------------------------------------------------

// Records the sequence and position of each row, and divides the sequences' tokens into blocks of
// attention. Returns the number of blocks.
static int index_batch(fxi_host *h, int kv_group, fxi_attn_block *block)
{
    const fxi_batch *batch = h->batch;
    const fxi_model_shape *shape = &h->m->model.shape;
    const int most = fxi_compute_attn_block_tok(&h->compute, batch->n_tok, shape->n_kv_head);
    int row = 0, n_block = 0;
    for (int i = 0; i < batch->n_seq; i++) {
        const fxi_batch_seq *seq = &batch->seq[i];
        for (int t = 0; t < seq->n_tok; t++) {
            h->s.tok_seq[row + t] = seq;
            h->s.tok_pos[row + t] = seq->pos + t;
        }
        for (int t = 0; t < seq->n_tok; t += most) {
            int left = seq->n_tok - t;
            block[n_block++] = (fxi_attn_block){
                .view = seq->views.group[kv_group],
                .row = row + t,
                .n_tok = left < most ? left : most,
                .pos = seq->pos + t,
                .n_pos = shape->is_causal ? 0 : seq->pos + seq->n_tok,
            };
        }
        row += seq->n_tok;
    }
    return n_block;
}

// The parameters of attention that all layers share.
static fxi_attn_pass make_attn_pass(fxi_host *h, bool windowed)
{
    const fxi_transformer *m = h->m;
    const fxi_model_shape *s = &m->model.shape;
    const int kv_group = windowed ? s->kv.n_group - 1 : 0;
    fxi_attn_pass a = {
        .n_block = index_batch(h, kv_group, h->s.block[windowed]),
        .n_head = s->n_head,
        .n_kv_head = s->n_kv_head,
        .head_dim = s->head_dim,
        .ctx_tok = m->ctx_tok,
        .window = windowed ? m->rules.window : 0,
        .kv_type = m->model.kv_type,
        .scale = m->rules.attn_scale,
        .softcap = m->rules.attn_cap,
        .q = h->s.q,
        .out = h->s.att,
        .scratch = h->s.attn,
    };
    fxi_compute_attn_plan(&h->compute, &a, h->s.block[windowed]);
    return a;
}

fx_status fxi_host_begin(fxi_device *d, const fxi_batch *batch, float *logits, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    h->batch = batch;
    h->logits = logits;
    h->n_row = batch->n_tok;
    h->x_row = NULL;
    h->holds = false;
    for (int w = 0; w <= (h->m->rules.window > 0); w++) h->attn[w] = make_attn_pass(h, w);
    return FX_OK;
}

// ---- rows that are wanted ---------------------------------------------------------------------

// Limits attention to the remaining rows: each block begins at the first of them.
static void keep_attn_rows(fxi_host *h, fxi_attn_pass *attn, fxi_attn_block *block)
{
    int n = 0, next = 0;
    for (int i = 0; i < attn->n_block; i++) {
        fxi_attn_block b = block[i];
        while (next < h->n_row && h->x_row[next] < b.row) next++;
        const int skip = next < h->n_row ? h->x_row[next] - b.row : b.n_tok;
        if (skip >= b.n_tok) continue;
        block[n++] = (fxi_attn_block){.view = b.view,
                                      .row = b.row + skip,
                                      .n_tok = b.n_tok - skip,
                                      .pos = b.pos + skip,
                                      .n_pos = b.n_pos};
    }
    attn->n_block = n;
    fxi_compute_attn_plan(&h->compute, attn, block);
}

fx_status fxi_host_keep_rows(fxi_device *d, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    const bool w = h->m->layer[h->m->model.shape.n_layer - 1].is_windowed;
    int n_logit;
    h->n_row = fxi_batch_wanted(h->batch, h->s.wanted, &n_logit);
    h->x_row = h->s.wanted;
    keep_attn_rows(h, &h->attn[w], h->s.block[w]);
    return FX_OK;
}
