// gpu_mixture.c - a mixture of experts on the device: which rows an expert gets is decided there,
// so that the host need not wait for the router.
//
//   route, place   each row's experts; places of all choices, expert after expert
//   gather         the rows to their places
//   linear, join   every expert over its range of places, in one launch per layer
//   combine        a row's places, and the shared expert's result, to one sum
#include "gpu/device/gpu_impl.h"

static int count_places(const fxi_gpu *g)
{
    return g->pass.n_row * g->plan->rules.n_used;
}

static const int32_t *live_places(const fxi_gpu *g)
{
    return fxi_gpu_live(g, g->pass.kept ? FXI_GPU_KEPT_PLACES : FXI_GPU_PLACES);
}

static fx_status choose_experts(fxi_gpu *g, const fxi_experts *x, fx_error *err)
{
    const fxi_rules *r = &g->plan->rules;
    const fxi_cuda_route_args route = {.logits = g->s.router,
                                       .bias = x->router.b,
                                       .n_row = g->pass.n_row,
                                       .n_expert = r->n_expert,
                                       .n_used = r->n_used,
                                       .norm = (int32_t)r->route,
                                       .scale = r->expert_scale,
                                       .live = fxi_gpu_live_rows(g),
                                       .chosen = g->s.chosen,
                                       .share = g->s.share};
    const fxi_cuda_place_args place = {.chosen = g->s.chosen,
                                       .n_row = g->pass.n_row,
                                       .n_expert = r->n_expert,
                                       .n_used = r->n_used,
                                       .live = fxi_gpu_live_rows(g),
                                       .place = g->s.place,
                                       .place_row = g->s.place_row,
                                       .place_expert = g->s.place_expert,
                                       .range = g->s.range};
    FX_TRY(fxi_gpu_matmul(g, &x->router.w, &g->s.h, g->s.router, err));
    if (x->sh_gate.data) FX_TRY(fxi_gpu_matmul(g, &x->sh_gate, &g->s.h, g->s.sh_gate, err));
    FX_TRY(fxi_gpu_launch(g, FXI_CUDA_ROUTE, &route, err));
    return fxi_gpu_launch(g, FXI_CUDA_PLACE, &place, err);
}

static uint64_t reader_types(const fxi_experts *x)
{
    const uint64_t up = (uint64_t)1 << x->up.w[0].type;
    return x->gate.w ? up | (uint64_t)1 << x->gate.w[0].type : up;
}

static fx_status gather_rows(fxi_gpu *g, const fxi_experts *x, fx_error *err)
{
    const uint64_t types = reader_types(x);
    const fxi_cuda_gather_args args = {.from = fxi_gpu_forms(g, &g->s.h, types),
                                       .to = fxi_gpu_forms(g, &g->s.ex, types),
                                       .place_row = g->s.place_row,
                                       .n_place = count_places(g),
                                       .live = live_places(g),
                                       .n = g->plan->model.shape.dim};
    return fxi_gpu_launch(g, FXI_CUDA_GATHER, &args, err);
}

// The same layer of all experts, each over its own range of places.
static fx_status multiply_all(fxi_gpu *g, const fxi_linear *w, const fxi_cuda_act *a, float *y,
                              fx_error *err)
{
    const int n_expert = g->plan->rules.n_expert;
    if (n_expert == 1) return fxi_gpu_matmul(g, w, a, y, err); // each row has one place, its own
    const size_t apart = (size_t)((char *)w[1].data - (char *)w[0].data);
    const fxi_cuda_linear_args args = {.w = fxi_gpu_matrix(w),
                                       .n_expert = n_expert,
                                       .expert_bytes = apart,
                                       .range = g->s.range,
                                       .a = *a,
                                       .n_row = count_places(g),
                                       .live = live_places(g),
                                       .y = y};
    return fxi_gpu_launch(g, fxi_cuda_linear_find(w->type, g->math, args.n_row), &args, err);
}

static fx_status run_experts(fxi_gpu *g, const fxi_experts *x, fx_error *err)
{
    if (x->gate.w) FX_TRY(multiply_all(g, x->gate.w, &g->s.ex, g->s.gate, err));
    FX_TRY(multiply_all(g, x->up.w, &g->s.ex, g->s.up, err));
    const fxi_cuda_join_args args = {
        .act = (int32_t)g->plan->rules.act,
        .gate = x->gate.w ? g->s.gate : NULL,
        .up = g->s.up,
        .gate_bias = x->gate.b,
        .up_bias = x->up.b,
        .row_expert = g->s.place_expert,
        .n_row = count_places(g),
        .live = live_places(g),
        .n = x->up.w[0].n_out,
        .out = fxi_gpu_forms(g, &g->s.mid, (uint64_t)1 << x->down.w[0].type),
    };
    FX_TRY(fxi_gpu_launch(g, FXI_CUDA_JOIN, &args, err));
    return multiply_all(g, x->down.w, &g->s.mid, g->s.ex_out, err);
}

static fx_status combine_rows(fxi_gpu *g, const fxi_experts *x, fx_error *err)
{
    const bool shared = x->shared.up.w.data != NULL;
    const fxi_cuda_combine_args args = {
        .ex = g->s.ex_out,
        .bias = x->down.b,
        .chosen = g->s.chosen,
        .place = g->s.place,
        .share = g->s.share,
        .shared = shared ? g->s.sh_out : NULL,
        .shared_bias = shared ? x->shared.down.b : NULL,
        .shared_gate = shared && x->sh_gate.data ? g->s.sh_gate : NULL,
        .n_row = g->pass.n_row,
        .live = fxi_gpu_live_rows(g),
        .dim = g->plan->model.shape.dim,
        .n_used = g->plan->rules.n_used,
        .y = g->s.h.x,
    };
    return fxi_gpu_launch(g, FXI_CUDA_COMBINE, &args, err);
}

fx_status fxi_gpu_experts(fxi_device *d, const fxi_experts *x, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    FX_TRY(choose_experts(g, x, err));
    if (x->shared.up.w.data) {
        FX_TRY(fxi_gpu_ffn(d, &x->shared, err));
        FX_TRY(fxi_gpu_matmul(g, &x->shared.down.w, &g->s.mid, g->s.sh_out, err));
    }
    FX_TRY(gather_rows(g, x, err));
    FX_TRY(run_experts(g, x, err));
    return combine_rows(g, x, err);
}
