// gpu_memory.c - memory of the device and of the host, and the steps of a device's table that place
// a model.
#include "gpu/gpu_impl.h"
#include "kernels/cuda/cuda_pack.h"

#include <stdlib.h>
#include <string.h>

struct fxi_gpu_pin {
    struct fxi_gpu_pin *next;
    char *bytes;
    size_t size_bytes;
};

static fx_status no_host_memory(const fxi_cu *cu, fx_error *err)
{
    return fxi_fail(err, FX_ENOMEM, "%s: no host memory", cu->label);
}

// ---- of the device -----------------------------------------------------------------------------

static fx_status alloc_slab(fxi_cu *cu, fxi_gpu_heap *h, size_t least, size_t most, fx_error *err)
{
    fxi_gpu_slab *slab = malloc(sizeof *slab);
    if (!slab) return no_host_memory(cu, err);
    size_t size_bytes = most;
    void *at = NULL;
    fx_status st = fxi_cu_alloc(cu, size_bytes, &at, err);
    if (st == FX_ENOMEM && most > least) st = fxi_cu_alloc(cu, size_bytes = least, &at, err);
    if (st != FX_OK) {
        free(slab);
        return st;
    }
    *slab = (fxi_gpu_slab){h->newest, at, size_bytes};
    h->newest = slab;
    h->at = slab->at;
    h->end = h->at + size_bytes;
    h->size_bytes += size_bytes;
    return FX_OK;
}

fx_status fxi_gpu_heap_take(fxi_cu *cu, fxi_gpu_heap *h, size_t size_bytes, uint64_t more_bytes,
                            void **out, fx_error *err)
{
    const size_t units = size_bytes ? (size_bytes + FXI_GPU_ALIGN - 1) / FXI_GPU_ALIGN : 1;
    const size_t piece = units * FXI_GPU_ALIGN;
    // The estimate, and what rounding its pieces may add.
    const uint64_t all = piece + more_bytes + more_bytes / 32;
    const bool is_odd = all < piece || all > SIZE_MAX / 2;
    *out = NULL;
    if (size_bytes > SIZE_MAX / 4)
        return fxi_fail(err, FX_ENOMEM, "%s: no memory for %zu bytes", cu->label, size_bytes);
    if (h->counts) {
        h->size_bytes += piece;
        return FX_OK;
    }
    if (piece > (size_t)(h->end - h->at))
        FX_TRY(alloc_slab(cu, h, piece, is_odd ? piece : (size_t)all, err));
    *out = h->at;
    h->at += piece;
    return FX_OK;
}

void fxi_gpu_heap_free(fxi_cu *cu, fxi_gpu_heap *h)
{
    while (h->newest) {
        fxi_gpu_slab *slab = h->newest;
        h->newest = slab->next;
        fxi_cu_free(cu, slab->at);
        free(slab);
    }
    *h = (fxi_gpu_heap){0};
}

// ---- of the host -------------------------------------------------------------------------------

fx_status fxi_gpu_pinned_take(fxi_cu *cu, fxi_gpu_pinned *h, size_t size_bytes, void **out,
                              fx_error *err)
{
    *out = NULL;
    struct fxi_gpu_pin *pin = malloc(sizeof *pin);
    if (!pin) return no_host_memory(cu, err);
    pin->size_bytes = size_bytes ? size_bytes : 1;
    fx_status st = fxi_cu_pin(cu, pin->size_bytes, out, err);
    if (st != FX_OK) {
        free(pin);
        return st;
    }
    pin->bytes = *out;
    pin->next = h->newest;
    h->newest = pin;
    return FX_OK;
}

bool fxi_gpu_pinned_has(const fxi_gpu_pinned *h, const void *bytes, size_t size_bytes)
{
    for (const struct fxi_gpu_pin *pin = h->newest; pin; pin = pin->next) {
        const size_t at = (size_t)((const char *)bytes - pin->bytes);
        if ((const char *)bytes >= pin->bytes && at <= pin->size_bytes &&
            size_bytes <= pin->size_bytes - at)
            return true;
    }
    return false;
}

void fxi_gpu_pinned_free(fxi_cu *cu, fxi_gpu_pinned *h)
{
    while (h->newest) {
        struct fxi_gpu_pin *pin = h->newest;
        h->newest = pin->next;
        fxi_cu_unpin(cu, pin->bytes);
        free(pin);
    }
}

// ---- transfers through two pinned buffers ------------------------------------------------------

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

// Makes the buffers hold `least` bytes at least.
static fx_status reserve_buffers(fxi_cu *cu, fxi_gpu_stage *s, size_t least, fx_error *err)
{
    if (s->size_bytes >= least && s->size_bytes) return FX_OK;
    FX_TRY(fxi_gpu_stage_drain(cu, s, err));
    fxi_gpu_stage_free(cu, s);
    const size_t size_bytes = least > FXI_GPU_STAGE_BYTES ? least : FXI_GPU_STAGE_BYTES;
    fx_status st = FX_OK;
    for (int i = 0; i < 2 && st == FX_OK; i++) {
        void *bytes;
        st = fxi_cu_pin(cu, size_bytes, &bytes, err);
        s->buffer[i] = bytes;
        if (st == FX_OK) st = fxi_cu_event_make(cu, &s->done[i], err);
        if (st == FX_OK) st = fxi_cu_event_mark(cu, s->done[i], cu->copy, err);
    }
    if (st != FX_OK)
        fxi_gpu_stage_free(cu, s);
    else
        s->size_bytes = size_bytes;
    return st;
}

// Sends the buffer that was filled.
static fx_status send_buffer(fxi_cu *cu, fxi_gpu_stage *s, void *dst, size_t size_bytes,
                             fx_error *err)
{
    const int i = s->next;
    FX_TRY(fxi_cu_upload(cu, cu->copy, dst, s->buffer[i], size_bytes, err));
    s->next = 1 - i;
    return fxi_cu_event_mark(cu, s->done[i], cu->copy, err);
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

// ---- the device's table: memory for a model, and its weights on their way there -----------------

fx_status fxi_gpu_take(fxi_device *d, size_t size_bytes, uint64_t more_bytes, void **out,
                       fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    *out = NULL;
    FX_TRY(fxi_cu_enter(&g->cu, err));
    return fxi_cu_leave(&g->cu,
                        fxi_gpu_heap_take(&g->cu, &g->weights, size_bytes, more_bytes, out, err));
}

fx_status fxi_gpu_take_host(fxi_device *d, size_t size_bytes, void **out, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    *out = NULL;
    FX_TRY(fxi_cu_enter(&g->cu, err));
    return fxi_cu_leave(&g->cu, fxi_gpu_pinned_take(&g->cu, &g->pinned, size_bytes, out, err));
}

static fx_status upload_bytes(fxi_gpu *g, char *dst, const char *src, size_t size_bytes,
                              fx_error *err)
{
    fxi_gpu_stage *s = &g->stage;
    FX_TRY(reserve_buffers(&g->cu, s, 1, err));
    for (size_t at = 0; at < size_bytes; at += s->size_bytes) {
        const size_t left = size_bytes - at, n = left < s->size_bytes ? left : s->size_bytes;
        FX_TRY(fxi_cu_event_wait(&g->cu, s->done[s->next], err)); // the device has read the buffer
        memcpy(s->buffer[s->next], src + at, n);
        FX_TRY(send_buffer(&g->cu, s, dst + at, n, err));
    }
    return FX_OK;
}

fx_status fxi_gpu_upload(fxi_device *d, void *dst, const void *src, size_t size_bytes,
                         fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    FX_TRY(fxi_cu_enter(&g->cu, err));
    return fxi_cu_leave(&g->cu, upload_bytes(g, dst, src, size_bytes, err));
}

fx_status fxi_gpu_take_linear(fxi_device *d, fxi_linear *w, int n, uint64_t more_bytes,
                              fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const size_t each = fxi_cuda_matrix_bytes(w->type, w->n_in, w->n_out);
    if (!g->kernels.function[fxi_cuda_linear_find(w->type, g->math, 1)])
        return fxi_fail(err, FX_EINVAL, "%s: no kernel for weights of type %s", g->cu.label,
                        fxi_dtype_find(w->type)->name);
    void *at;
    FX_TRY(fxi_gpu_take(d, (size_t)n * each, more_bytes, &at, err));
    for (int i = 0; i < n; i++) w[i].data = (char *)at + (size_t)i * each;
    return FX_OK;
}

fx_status fxi_gpu_view_rows(fxi_device *d, const fxi_linear *w, int row0, int n_row,
                            fxi_linear *out, fx_error *err)
{
    const size_t panel = (size_t)(row0 / FXI_PANEL);
    (void)d, (void)err;
    *out = *w;
    out->n_out = n_row;
    out->data = (char *)w->data + panel * fxi_cuda_panel_bytes(w->type, w->n_in);
    return FX_OK;
}

typedef struct put_job {
    const fxi_linear *w;
    int n_row;
    const void *rows;
    size_t row_bytes, panel_bytes;
    int panel0; // of the first task
    char *dst;  // of panel0
} put_job;

static void pack_panel(void *arg, int task)
{
    const put_job *job = arg;
    const int row0 = (job->panel0 + task) * FXI_PANEL, left = job->n_row - row0;
    fxi_cuda_pack_rows(job->w->type, job->w->n_in, left < FXI_PANEL ? left : FXI_PANEL,
                       (const char *)job->rows + (size_t)row0 * job->row_bytes,
                       job->dst + (size_t)task * job->panel_bytes);
}

// Packs the job's rows on the pool's threads into the panels that begin at dst.
static fx_status pack_rows(fxi_gpu *g, put_job *job, char *dst, fx_error *err)
{
    const int n_panel = fxi_linear_n_panel(job->n_row);
    fxi_gpu_stage *s = &g->stage;
    FX_TRY(reserve_buffers(&g->cu, s, job->panel_bytes, err));
    const size_t most = s->size_bytes / job->panel_bytes;
    while (job->panel0 < n_panel) {
        const int left = n_panel - job->panel0, n = (size_t)left < most ? left : (int)most;
        FX_TRY(fxi_cu_event_wait(&g->cu, s->done[s->next], err));
        job->dst = s->buffer[s->next];
        fxi_pool_run(g->pool, pack_panel, job, n);
        const size_t at = (size_t)job->panel0 * job->panel_bytes;
        FX_TRY(send_buffer(&g->cu, s, dst + at, (size_t)n * job->panel_bytes, err));
        job->panel0 += n;
    }
    return FX_OK;
}

fx_status fxi_gpu_put_linear(fxi_device *d, const fxi_linear *w, int row0, int n_row,
                             const void *rows, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const fxi_dtype_info *t = fxi_dtype_find(w->type);
    put_job job = {.w = w,
                   .n_row = n_row,
                   .rows = rows,
                   .row_bytes = (size_t)w->n_in / t->block_elems * t->block_bytes,
                   .panel_bytes = fxi_cuda_panel_bytes(w->type, w->n_in)};
    char *dst = (char *)w->data + (size_t)(row0 / FXI_PANEL) * job.panel_bytes;
    FX_TRY(fxi_cu_enter(&g->cu, err));
    return fxi_cu_leave(&g->cu, pack_rows(g, &job, dst, err));
}
