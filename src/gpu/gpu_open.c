// gpu_open.c - a GPU as a device of models: its table, how it is opened and closed.
#include "gpu/gpu_impl.h"
#include "vtensor/vmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- names -------------------------------------------------------------------------------------

bool fxi_gpu_is_name(const char *name)
{
    return strcmp(name, "cuda") == 0 || strncmp(name, "cuda:", 5) == 0;
}

static fx_status read_ordinal(const char *name, int *out, fx_error *err)
{
    const char *digits = name + 5;
    *out = 0;
    if (strcmp(name, "cuda") == 0) return FX_OK;
    const size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 4 || digits[n])
        return fxi_fail(err, FX_EINVAL, "device '%.40s' is not cuda:N with a number N", name);
    *out = atoi(digits);
    return FX_OK;
}

typedef struct gpu_math {
    const char *name, *old_name;
    fxi_cuda_math kernels;
} gpu_math;

static fx_status read_math(const char *name, const gpu_math **out, fx_error *err)
{
    static const gpu_math known[] = {{"batch-invariant", "law", FXI_CUDA_BATCH_INVARIANT},
                                     {"cpu-exact", "exact", FXI_CUDA_CPU_EXACT}};
    *out = &known[0];
    if (!name) return FX_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        *out = &known[i];
        if (strcmp(name, known[i].name) == 0 || strcmp(name, known[i].old_name) == 0) return FX_OK;
    }
    return fxi_fail(err, FX_EINVAL,
                    "GPU arithmetic '%.40s' is neither batch-invariant nor cpu-exact", name);
}

// ---- the table ---------------------------------------------------------------------------------

// What lies on the host is freed even if the context cannot be entered any more; the driver's calls
// are then refused, and the end of the context frees what is its own.
static void close_gpu(fxi_device *d)
{
    fxi_gpu *g = fxi_gpu_of(d);
    if (g->cu.context) {
        const bool entered = fxi_cu_enter(&g->cu, NULL) == FX_OK;
        (void)fxi_cu_wait(&g->cu, g->cu.compute, NULL);
        (void)fxi_cu_wait(&g->cu, g->cu.copy, NULL);
        fxi_gpu_graphs_free(g);
        fxi_gpu_tables_free(g);
        fxi_gpu_stage_free(&g->cu, &g->stage);
        fxi_gpu_pinned_free(&g->cu, &g->pinned);
        fxi_gpu_heap_free(&g->cu, &g->scratch);
        fxi_gpu_heap_free(&g->cu, &g->weights);
        fxi_gpu_kernels_free(g);
        if (entered) fxi_cu_leave(&g->cu, FX_OK);
    }
    fxi_cu_close(&g->cu);
    free(g);
}

static void read_memory(fxi_device *d, fxi_device_memory *out)
{
    fxi_gpu *g = fxi_gpu_of(d);
    *out = (fxi_device_memory){0};
    if (fxi_cu_enter(&g->cu, NULL) != FX_OK) return;
    const fx_status st = fxi_cu_memory(&g->cu, &out->free_bytes, &out->total_bytes, NULL);
    fxi_cu_leave(&g->cu, st);
}

static fx_status open_memory(fxi_device *d, struct vt_vmm **out, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const vt_vmm_cuda_config cfg = {.device = g->cu.ordinal, .stream = g->cu.compute};
    const char *why = NULL;
    *out = NULL;
    FX_TRY(fxi_cu_enter(&g->cu, err));
    const vt_status st = vt_vmm_cuda_open(&cfg, out, &why);
    fxi_cu_leave(&g->cu, FX_OK);
    if (st == VT_OK) return FX_OK;
    return fxi_fail(err, st == VT_ENOMEM ? FX_ENOMEM : FX_EINTERNAL, "%s: %s", g->cu.label,
                    why ? why : "no memory for caches can be opened");
}

static bool check_lost(const fxi_device *d)
{
    return ((const fxi_gpu *)d)->lost.status != FX_OK;
}

static const fxi_device_ops gpu_ops = {
    .close = close_gpu,
    .memory = read_memory,
    .open_vmm = open_memory,
    .take_host = fxi_gpu_take_host,
    .is_lost = check_lost,
    .take = fxi_gpu_take,
    .upload = fxi_gpu_upload,
    .take_linear = fxi_gpu_take_linear,
    .put_linear = fxi_gpu_put_linear,
    .view_rows = fxi_gpu_view_rows,
    .prepare = fxi_gpu_prepare,
    .begin = fxi_gpu_begin,
    .embed = fxi_gpu_embed,
    .add_norm = fxi_gpu_add_norm,
    .linear = fxi_gpu_linear,
    .rope_store = fxi_gpu_rope_store,
    .keep_rows = fxi_gpu_keep_rows,
    .attention = fxi_gpu_attention,
    .ffn = fxi_gpu_ffn,
    .experts = fxi_gpu_experts,
    .rows = fxi_gpu_rows,
    .logits = fxi_gpu_logits,
    .best = fxi_gpu_best,
    .submit = fxi_gpu_submit,
    .wait = fxi_gpu_wait,
};

// ---- open --------------------------------------------------------------------------------------

fx_status fxi_gpu_open(const fxi_gpu_options *opt, fxi_device **out, fx_error *err)
{
    int ordinal;
    const gpu_math *math;
    *out = NULL;
    FX_TRY(read_ordinal(opt->name, &ordinal, err));
    FX_TRY(read_math(opt->math, &math, err));
    fxi_gpu *g = calloc(1, sizeof *g);
    if (!g) return fxi_fail(err, FX_ENOMEM, "%s: no host memory", opt->name);
    *g = (fxi_gpu){.device = {.ops = &gpu_ops,
                              .name = g->cu.label,
                              .path = g->path,
                              .prefers_best = true}, // fewer bytes to the host
                   .math = math->kernels,
                   .pool = opt->pool,
                   .no_graphs = opt->no_graphs};
    fx_status st = fxi_cu_open(&g->cu, ordinal, err);
    snprintf(g->path, sizeof g->path, "sm_%d %s", g->cu.cc, math->name);
    if (st == FX_OK) st = fxi_cu_enter(&g->cu, err);
    if (st == FX_OK) st = fxi_cu_leave(&g->cu, fxi_gpu_kernels_load(g, err));
    if (st == FX_OK)
        *out = &g->device;
    else
        close_gpu(&g->device);
    return st;
}
