// host_feed.c - linear layers over the rows of a pass, and the first half of feed-forward blocks.
#include "model/host/host.h"

// ---- linear layers -----------------------------------------------------------------------------

// After keep_rows, the rows of attention that are left lie in q's buffer (host_attend.c).
static fxi_act read_operand(const fxi_host *h, fxi_operand a)
{
    if (a == FXI_OPERAND_MID) return fxi_host_mid(h);
    if (a == FXI_OPERAND_ATT) return fxi_host_act(h, h->x_row ? h->s.q : h->s.att);
    return fxi_host_act(h, h->s.h);
}

static float *written_operand(const fxi_host *h, fxi_operand y)
{
    float *const all[FXI_OPERAND_END] = {[FXI_OPERAND_H] = h->s.h,
                                         [FXI_OPERAND_Q] = h->s.q,
                                         [FXI_OPERAND_K] = h->s.k,
                                         [FXI_OPERAND_V] = h->s.v};
    return all[y];
}

fx_status fxi_host_linear(fxi_device *d, fxi_operand a, const fxi_device_linear *job, int n_job,
                          fx_error *err)
{
    (void)err;
    const fxi_host *h = fxi_host_of(d);
    const fxi_act act = read_operand(h, a);
    fxi_linear_job all[FXI_DEVICE_MAX_LINEAR];
    for (int i = 0; i < n_job; i++)
        all[i] = (fxi_linear_job){job[i].w, written_operand(h, job[i].y), 0, h->n_row};
    fxi_compute_linear(&h->compute, &act, all, n_job);
    return FX_OK;
}

// ---- feed-forward ------------------------------------------------------------------------------

void fxi_host_feed(fxi_host *h, const fxi_ffn *f, const fxi_act *a)
{
    const fxi_act mid = fxi_host_mid(h);
    const fxi_ffn_part part = {.gate = f->gate.w.data ? &f->gate.w : NULL,
                               .up = &f->up.w,
                               .gate_bias = f->gate.b,
                               .up_bias = f->up.b,
                               .n_tok = h->n_row};
    fxi_compute_ffn(&h->compute, &(fxi_ffn_pass){
                                     .a = a,
                                     .part = &part,
                                     .n_part = 1,
                                     .n_tok = h->n_row,
                                     .act = h->m->rules.act,
                                     .y = fxi_linear_reads_q8(&f->down.w) ? NULL : h->s.mid,
                                     .q8 = &mid,
                                     .scratch = h->s.ffn,
                                 });
}

fx_status fxi_host_ffn(fxi_device *d, const fxi_ffn *f, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    const fxi_act a = fxi_host_act(h, h->s.h);
    fxi_host_feed(h, f, &a);
    return FX_OK;
}
