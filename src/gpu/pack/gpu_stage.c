// gpu_stage.c - see gpu_stage.h.
#include "gpu/pack/gpu_stage.h"

#include <string.h>

#include "kernels/cuda/cuda_pack.h"

// ---- the buffers -------------------------------------------------------------------------------

void fxi_gpu_stage_free(fxi_cu *cu, fxi_gpu_stage *s)
{
    for (int i = 0; i < 2; i++) {
        fxi_cu_unpin(cu, s->buffer[i]);
        fxi_cu_event_free(cu, s->done[i]);
    }
    *s = (fxi_gpu_stage){0};
}

fx_status fxi_gpu_stage_drain(fxi_cu *cu, fxi_gpu_stage *s, fx_error *err)
{
    return s->size_bytes ? fxi_cu_wait(cu, cu->copy, err) : FX_OK;
}

static fx_status pin_buffers(fxi_cu *cu, fxi_gpu_stage *s, size_t size_bytes, fx_error *err)
{
    for (int i = 0; i < 2; i++) {
        void *bytes;
        FX_TRY(fxi_cu_pin(cu, size_bytes, &bytes, err));
        s->buffer[i] = bytes;
        FX_TRY(fxi_cu_event_make(cu, &s->done[i], err));
        FX_TRY(fxi_cu_event_mark(cu, s->done[i], cu->copy, err));
    }
    s->size_bytes = size_bytes;
    return FX_OK;
}

// Makes the buffers hold `least` bytes at least.
static fx_status reserve_buffers(fxi_cu *cu, fxi_gpu_stage *s, size_t least, fx_error *err)
{
    if (s->size_bytes >= least && s->size_bytes) return FX_OK;
    FX_TRY(fxi_gpu_stage_drain(cu, s, err));
    fxi_gpu_stage_free(cu, s);
    fx_status st =
        pin_buffers(cu, s, least > FXI_GPU_STAGE_BYTES ? least : FXI_GPU_STAGE_BYTES, err);
    if (st != FX_OK) fxi_gpu_stage_free(cu, s);
    return st;
}

// Waits until the device has read the buffer that is filled next.
static fx_status await_buffer(fxi_cu *cu, fxi_gpu_stage *s, char **buffer, fx_error *err)
{
    *buffer = s->buffer[s->next];
    return fxi_cu_event_wait(cu, s->done[s->next], err);
}

static fx_status send_buffer(fxi_cu *cu, fxi_gpu_stage *s, void *dst, size_t size_bytes,
                             fx_error *err)
{
    const int i = s->next;
    FX_TRY(fxi_cu_upload(cu, cu->copy, dst, s->buffer[i], size_bytes, err));
    s->next = 1 - i;
    return fxi_cu_event_mark(cu, s->done[i], cu->copy, err);
}

// ---- bytes -------------------------------------------------------------------------------------

fx_status fxi_gpu_stage_upload(fxi_cu *cu, fxi_gpu_stage *s, void *dst, const void *src,
                               size_t size_bytes, fx_error *err)
{
    FX_TRY(reserve_buffers(cu, s, 1, err));
    for (size_t at = 0; at < size_bytes; at += s->size_bytes) {
        const size_t left = size_bytes - at, n = left < s->size_bytes ? left : s->size_bytes;
        char *buffer;
        FX_TRY(await_buffer(cu, s, &buffer, err));
        memcpy(buffer, (const char *)src + at, n);
        FX_TRY(send_buffer(cu, s, (char *)dst + at, n, err));
    }
    return FX_OK;
}

fx_status fxi_gpu_stage_download(fxi_cu *cu, fxi_gpu_stage *s, void *dst, const void *src,
                                 size_t size_bytes, fx_error *err)
{
    FX_TRY(reserve_buffers(cu, s, 1, err));
    for (size_t at = 0; at < size_bytes; at += s->size_bytes) {
        const size_t left = size_bytes - at, n = left < s->size_bytes ? left : s->size_bytes;
        FX_TRY(fxi_cu_download(cu, cu->compute, s->buffer[0], (const char *)src + at, n, err));
        FX_TRY(fxi_cu_wait(cu, cu->compute, err));
        memcpy((char *)dst + at, s->buffer[0], n);
    }
    return FX_OK;
}

// ---- matrices ----------------------------------------------------------------------------------

typedef struct stage_job {
    fxi_dtype type;
    int n_in, n_row;
    size_t row_bytes, panel_bytes;
    const char *rows;
    int panel0; // of the first task
    char *dst;  // of panel0
} stage_job;

static void pack_panel(void *arg, int task)
{
    const stage_job *job = arg;
    const int row0 = (job->panel0 + task) * FXI_PANEL, left = job->n_row - row0;
    fxi_cuda_pack_rows(job->type, job->n_in, left < FXI_PANEL ? left : FXI_PANEL,
                       job->rows + (size_t)row0 * job->row_bytes,
                       job->dst + (size_t)task * job->panel_bytes);
}

static size_t gguf_row_bytes(fxi_dtype type, int n_in)
{
    const fxi_dtype_info *t = fxi_dtype_find(type);
    return (size_t)n_in / t->block_elems * t->block_bytes;
}

fx_status fxi_gpu_stage_pack(fxi_cu *cu, fxi_gpu_stage *s, fxi_pool *pool, fxi_dtype type, int n_in,
                             int n_row, const void *rows, void *dst, fx_error *err)
{
    const int n_panel = fxi_linear_n_panel(n_row);
    stage_job job = {.type = type,
                     .n_in = n_in,
                     .n_row = n_row,
                     .row_bytes = gguf_row_bytes(type, n_in),
                     .rows = rows,
                     .panel_bytes = fxi_cuda_panel_bytes(type, n_in)};
    FX_TRY(reserve_buffers(cu, s, job.panel_bytes, err));
    const size_t most = s->size_bytes / job.panel_bytes;
    while (job.panel0 < n_panel) {
        const int left = n_panel - job.panel0, n = (size_t)left < most ? left : (int)most;
        FX_TRY(await_buffer(cu, s, &job.dst, err));
        fxi_pool_run(pool, pack_panel, &job, n);
        const size_t at = (size_t)job.panel0 * job.panel_bytes;
        FX_TRY(send_buffer(cu, s, (char *)dst + at, (size_t)n * job.panel_bytes, err));
        job.panel0 += n;
    }
    return FX_OK;
}
