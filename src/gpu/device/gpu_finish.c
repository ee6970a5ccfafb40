// gpu_finish.c - the end of a pass: results to the host, the wait, and what a failure means.
#include "gpu/device/gpu_impl.h"

void fxi_gpu_return_rows(fxi_gpu *g, fxi_gpu_result rows)
{
    fxi_gpu_pass *p = &g->pass;
    if (rows.dst && rows.n_row && rows.row_bytes) p->result[p->n_result++] = rows;
}

void fxi_gpu_return(fxi_gpu *g, void *dst, const void *src, size_t size_bytes)
{
    fxi_gpu_return_rows(g, (fxi_gpu_result){dst, src, 1, size_bytes, size_bytes});
}

// What is pinned for one device is so for all: their addresses are one space.
static bool is_pinned(const fxi_gpu *g, const fxi_gpu_result *r)
{
    const size_t size_bytes = (r->n_row - 1) * r->pitch_bytes + r->row_bytes;
    if (fxi_gpu_pinned_has(&g->pinned, r->dst, size_bytes)) return true;
    return g->first_pinned && fxi_gpu_pinned_has(g->first_pinned, r->dst, size_bytes);
}

static fx_status download_result(fxi_gpu *g, const fxi_gpu_result *r, fx_error *err)
{
    if (r->n_row == 1 || r->pitch_bytes == r->row_bytes)
        return fxi_cu_download(&g->cu, g->cu.compute, r->dst, r->src, r->n_row * r->row_bytes, err);
    return fxi_cu_download_rows(&g->cu, g->cu.compute, r->dst, r->pitch_bytes, r->src, r->row_bytes,
                                r->n_row, err);
}

static fx_status run_pass(fxi_gpu *g, fx_error *err)
{
    const fxi_gpu_pass *p = &g->pass;
    FX_TRY(fxi_gpu_graph_run(g, err));
    for (int i = 0; i < p->n_result; i++)
        if (is_pinned(g, &p->result[i])) FX_TRY(download_result(g, &p->result[i], err));
    return FX_OK;
}

fx_status fxi_gpu_submit(fxi_device *d, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st = run_pass(g, err);
    fxi_cu_leave(&g->cu);
    return fxi_gpu_failed(g, st, err);
}

static fx_status stage_rows(fxi_gpu *g, const fxi_gpu_result *r, fx_error *err)
{
    for (size_t i = 0; i < r->n_row; i++)
        FX_TRY(fxi_gpu_stage_download(&g->cu, &g->stage, (char *)r->dst + i * r->pitch_bytes,
                                      (const char *)r->src + i * r->row_bytes, r->row_bytes, err));
    return FX_OK;
}

static fx_status fetch_results(fxi_gpu *g, fx_error *err)
{
    const fxi_gpu_pass *p = &g->pass;
    for (int i = 0; i < p->n_result; i++)
        if (!is_pinned(g, &p->result[i])) FX_TRY(stage_rows(g, &p->result[i], err));
    return fxi_cu_wait(&g->cu, g->cu.compute, err);
}

fx_status fxi_gpu_wait(fxi_device *d, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st = fetch_results(g, err);
    fxi_cu_leave(&g->cu);
    g->pass.n_result = 0;
    return fxi_gpu_failed(g, st, err);
}

// A context whose kernel failed answers every later call with the same error, so a wait tells.
fx_status fxi_gpu_failed(fxi_gpu *g, fx_status st, const fx_error *err)
{
    fx_error why;
    if (st == FX_OK || g->lost.status != FX_OK) return st;
    fxi_gpu_graph_drop(g);
    bool lost = fxi_cu_enter(&g->cu, &why) != FX_OK;
    if (!lost) {
        lost = fxi_cu_wait(&g->cu, g->cu.compute, &why) != FX_OK;
        fxi_cu_leave(&g->cu);
    }
    if (lost) g->lost = err ? *err : why;
    return st;
}
