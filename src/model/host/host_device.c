// host_device.c - the host as a device: its table, and memory for weights.
//
// Weights lie in an arena of huge pages, packed in panels for the kernels of this machine
// (kernels/linear.c); threads of the pool pack and copy.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number/qblock.h"
#include "base/system/memory.h"
#include "model/host/host.h"

#define COPY_BYTES ((size_t)64 << 10) // of a task

// ---- memory ------------------------------------------------------------------------------------

static void host_memory(fxi_device *d, fxi_device_memory *out)
{
    (void)d;
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    *out =
        (fxi_device_memory){.free_bytes = fxi_free_memory_bytes(""),
                            .total_bytes = pages > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0,
                            .is_host = true};
}

// Memory for results: a block each, so that tools see who writes behind it.
typedef struct fxi_host_result {
    _Alignas(64) struct fxi_host_result *next;
} fxi_host_result;

static fx_status host_is_full(size_t size_bytes, fx_error *err)
{
    return fxi_fail(err, FX_ENOMEM, "cpu: no memory for %zu bytes", size_bytes);
}

static fx_status host_take_host(fxi_device *d, size_t size_bytes, void **out, fx_error *err)
{
    fxi_host *h = fxi_host_of(d);
    fxi_host_result *r = aligned_alloc(64, sizeof *r + (size_bytes + 63) / 64 * 64);
    if (!r) return host_is_full(size_bytes, err);
    r->next = h->results;
    h->results = r;
    *out = r + 1;
    return FX_OK;
}

static void free_results(fxi_host_result *r)
{
    while (r) {
        fxi_host_result *next = r->next;
        free(r);
        r = next;
    }
}

static fx_status host_take(fxi_device *d, size_t size_bytes, uint64_t more_bytes, void **out,
                           fx_error *err)
{
    *out = fxi_arena_take(&fxi_host_of(d)->weights, size_bytes, more_bytes);
    return *out ? FX_OK : host_is_full(size_bytes, err);
}

// ---- weights -----------------------------------------------------------------------------------

typedef struct copy_job {
    char *dst;
    const char *src;
    size_t size_bytes;
} copy_job;

static void copy_task(void *arg, int task)
{
    const copy_job *job = arg;
    const size_t from = (size_t)task * COPY_BYTES, rest = job->size_bytes - from;
    memcpy(job->dst + from, job->src + from, rest < COPY_BYTES ? rest : COPY_BYTES);
}

static fx_status host_upload(fxi_device *d, void *dst, const void *src, size_t size_bytes,
                             fx_error *err)
{
    (void)err;
    copy_job job = {dst, src, size_bytes};
    fxi_pool_run(fxi_host_of(d)->compute.pool, copy_task, &job,
                 (int)((size_bytes + COPY_BYTES - 1) / COPY_BYTES));
    return FX_OK;
}

static fx_status host_take_linear(fxi_device *d, fxi_linear *w, int n, uint64_t more_bytes,
                                  fx_error *err)
{
    const int group = fxi_linear_reads_q8(w) ? 0 : fxi_linear_best_group(fxi_host_of(d)->compute.k);
    for (int i = 0; i < n; i++) w[i].group = group;
    const size_t one = fxi_linear_bytes(w);
    void *data;
    FX_TRY(host_take(d, (size_t)n * one, more_bytes, &data, err));
    for (int i = 0; i < n; i++) w[i].data = (char *)data + (size_t)i * one;
    return FX_OK;
}

enum { PACK_PANELS = 4 }; // of a task: panels that share lines go to one thread

typedef struct pack_job {
    fxi_linear part; // what is put
    const void *rows;
} pack_job;

static void pack_task(void *arg, int task)
{
    const pack_job *job = arg;
    const int n_panel = fxi_linear_n_panel(job->part.n_out), first = task * PACK_PANELS;
    for (int p = first; p < first + PACK_PANELS && p < n_panel; p++)
        fxi_linear_pack_panel(&job->part, job->rows, p);
}

static fx_status host_put_linear(fxi_device *d, const fxi_linear *w, int row0, int n_row,
                                 const void *rows, fx_error *err)
{
    (void)err;
    pack_job job = {fxi_linear_part(w, row0, n_row), rows};
    fxi_pool_run(fxi_host_of(d)->compute.pool, pack_task, &job,
                 (fxi_linear_n_panel(n_row) + PACK_PANELS - 1) / PACK_PANELS);
    return FX_OK;
}

static fx_status host_view_rows(fxi_device *d, const fxi_linear *w, int row0, int n_row,
                                fxi_linear *out, fx_error *err)
{
    (void)d, (void)err;
    *out = fxi_linear_part(w, row0, n_row);
    return FX_OK;
}

// ---- the device --------------------------------------------------------------------------------

static fx_status host_open_vmm(fxi_device *d, struct vt_vmm **out, fx_error *err)
{
    (void)d, (void)err;
    *out = NULL;
    return FX_OK;
}

// Nothing runs beside the caller.
static fx_status host_done(fxi_device *d, fx_error *err)
{
    (void)d, (void)err;
    return FX_OK;
}

static void close_host(fxi_device *d)
{
    fxi_host *h = fxi_host_of(d);
    fxi_host_buffers_free(&h->s);
    fxi_arena_free(&h->weights);
    free_results(h->results);
    free(h);
}

static const fxi_device_ops host_ops = {
    .close = close_host,
    .memory = host_memory,
    .open_vmm = host_open_vmm,
    .take_host = host_take_host,
    .take = host_take,
    .upload = host_upload,
    .take_linear = host_take_linear,
    .put_linear = host_put_linear,
    .view_rows = host_view_rows,
    .prepare = fxi_host_prepare,
    .begin = fxi_host_begin,
    .embed = fxi_host_embed,
    .add_norm = fxi_host_add_norm,
    .linear = fxi_host_linear,
    .rope_store = fxi_host_rope_store,
    .keep_rows = fxi_host_keep_rows,
    .attention = fxi_host_attention,
    .ffn = fxi_host_ffn,
    .experts = fxi_host_experts,
    .rows = fxi_host_return_rows,
    .logits = fxi_host_logits,
    .best = fxi_host_best,
    .submit = host_done,
    .wait = host_done,
};

static uint64_t find_q8_types(void)
{
    uint64_t types = 0;
    for (int t = 0; t < FXI_DTYPE_END; t++)
        if (fxi_qformat_find((fxi_dtype)t)) types |= (uint64_t)1 << t;
    return types;
}

fx_status fxi_host_device_open(fxi_pool *pool, const char *kernel_path, fxi_device **out,
                               fx_error *err)
{
    *out = NULL;
    const fxi_kernels *k = fxi_kernels_get(kernel_path);
    if (!k)
        return fxi_fail(err, FX_EINVAL, "kernel path '%s' is unknown or not run by this machine",
                        kernel_path);
    fxi_host *h = calloc(1, sizeof *h);
    if (!h) return fxi_fail(err, FX_ENOMEM, "cpu: no memory");
    h->dev = (fxi_device){.ops = &host_ops, .name = "cpu", .path = k->name};
    h->compute = (fxi_compute){k, pool};
    h->q8_types = find_q8_types();
    *out = &h->dev;
    return FX_OK;
}
