// gpu_feed.c - the first half of a feed-forward block on the device.
#include "gpu/device/gpu_impl.h"

fx_status fxi_gpu_ffn(fxi_device *d, const fxi_ffn *f, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const bool gated = f->gate.w.data != NULL;
    if (gated) FX_TRY(fxi_gpu_matmul(g, &f->gate.w, &g->s.h, g->s.gate, err));
    FX_TRY(fxi_gpu_matmul(g, &f->up.w, &g->s.h, g->s.up, err));
    const fxi_cuda_join_args args = {
        .act = (int32_t)g->plan->rules.act,
        .gate = gated ? g->s.gate : NULL,
        .up = g->s.up,
        .gate_bias = f->gate.b,
        .up_bias = f->up.b,
        .n_row = g->pass.n_row,
        .live = fxi_gpu_live_rows(g),
        .n = f->up.w.n_out,
        .out = fxi_gpu_forms(g, &g->s.mid, (uint64_t)1 << f->down.w.type),
    };
    return fxi_gpu_launch(g, FXI_CUDA_JOIN, &args, err);
}
