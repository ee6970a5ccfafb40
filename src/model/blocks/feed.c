// feed.c - the feed-forward branch of a layer without experts.
#include "model/blocks/pass.h"

static bool ffn_reads_q8(const fxi_ffn *f)
{
    return fxi_linear_reads_q8(&f->up.w) || (f->gate.w.data && fxi_linear_reads_q8(&f->gate.w));
}

bool fxi_feed_reads_q8(const fxi_layer *l)
{
    const fxi_experts *e = l->experts;
    if (!e) return ffn_reads_q8(&l->ffn);
    return fxi_linear_reads_q8(&e->router.w) || fxi_linear_reads_q8(&e->up.w[0]) ||
           (e->gate.w && fxi_linear_reads_q8(&e->gate.w[0])) ||
           (e->shared.up.w.data && ffn_reads_q8(&e->shared)) ||
           (e->sh_gate.data && fxi_linear_reads_q8(&e->sh_gate));
}

void fxi_feed_dense(fxi_pass *p, const fxi_ffn *f, const fxi_act *a, float *y)
{
    fxi_transformer *m = p->m;
    const fxi_act mid = {.x = m->s.mid, .q = m->s.mid_q, .d = m->s.mid_d, .sum = m->s.mid_sum};
    const fxi_ffn_part part = {.gate = f->gate.w.data ? &f->gate.w : NULL,
                               .up = &f->up.w,
                               .gate_bias = f->gate.b,
                               .up_bias = f->up.b,
                               .n_tok = p->n_row};
    fxi_compute_ffn(&m->compute, &(fxi_ffn_pass){
                                     .a = a,
                                     .part = &part,
                                     .n_part = 1,
                                     .n_tok = p->n_row,
                                     .act = m->rules.act,
                                     .y = fxi_linear_reads_q8(&f->down.w) ? NULL : m->s.mid,
                                     .q8 = &mid,
                                     .scratch = m->s.ffn,
                                 });
    fxi_compute_linear(&m->compute, &mid, &(fxi_linear_job){&f->down.w, y, 0, p->n_row}, 1);
}

void fxi_feed_run(fxi_pass *p)
{
    const fxi_layer *l = p->layer;
    const fxi_act h = fxi_pass_act(p, p->m->s.h);
    fxi_feed_dense(p, &l->ffn, &h, p->m->s.h);
    p->branch = (fxi_branch){l->ffn.down.b, &l->ffn_out};
}
