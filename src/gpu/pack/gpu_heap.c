// gpu_heap.c - see gpu_heap.h.
#include "gpu/pack/gpu_heap.h"

#include <stdlib.h>

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

static size_t round_piece(size_t size_bytes)
{
    return (size_bytes + FXI_GPU_ALIGN - 1) / FXI_GPU_ALIGN * FXI_GPU_ALIGN;
}

// The estimate, and what rounding its pieces may add.
static size_t slab_bytes(size_t size_bytes, uint64_t more_bytes)
{
    const uint64_t all = size_bytes + more_bytes + more_bytes / 32;
    return all < size_bytes || all > SIZE_MAX / 2 ? size_bytes : (size_t)all;
}

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
    const size_t piece = round_piece(size_bytes ? size_bytes : 1);
    *out = NULL;
    if (size_bytes > SIZE_MAX / 4)
        return fxi_fail(err, FX_ENOMEM, "%s: no memory for %zu bytes", cu->label, size_bytes);
    if (h->counts) {
        h->size_bytes += piece;
        return FX_OK;
    }
    if (piece > (size_t)(h->end - h->at))
        FX_TRY(alloc_slab(cu, h, piece, slab_bytes(piece, more_bytes), err));
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
