// gpu_heap.h - memory of a device that is taken piece by piece and freed as a whole: a model's
// weights, or the operands of a pass.
//
// Pieces are cut from few large allocations, each of which the driver rounds up to 2 MiB. Nothing
// is freed before all is.
#ifndef FXI_GPU_HEAP_H
#define FXI_GPU_HEAP_H

#include "gpu/driver/cu.h"

enum { FXI_GPU_ALIGN = 256 }; // bytes, of every piece

typedef struct fxi_gpu_slab {
    struct fxi_gpu_slab *next;
    char *at; // of the device
    size_t size_bytes;
} fxi_gpu_slab;

typedef struct fxi_gpu_heap {    // all zero: empty
    struct fxi_gpu_slab *newest; // of the allocations
    char *at, *end;              // what is left of it
    uint64_t size_bytes;         // of all
    bool counts;                 // nothing is taken: size_bytes adds up what would be
} fxi_gpu_heap;

// Takes size_bytes of any content. If a new allocation is needed, it has room for more_bytes
// beyond, an estimate of what the next calls will take, unless the device has not so much memory.
// Pre: entered (cu.h). Errors: FX_ENOMEM, FX_EINTERNAL.
fx_status fxi_gpu_heap_take(fxi_cu *cu, fxi_gpu_heap *h, size_t size_bytes, uint64_t more_bytes,
                            void **out, fx_error *err);
void fxi_gpu_heap_free(fxi_cu *cu, fxi_gpu_heap *h); // all of it; *h is empty then

// The same of pinned host memory, each piece an allocation of its own, aligned to 64 at least.
typedef struct fxi_gpu_pinned {
    struct fxi_gpu_pin *newest;
} fxi_gpu_pinned;

fx_status fxi_gpu_pinned_take(fxi_cu *cu, fxi_gpu_pinned *h, size_t size_bytes, void **out,
                              fx_error *err);
// Whether the device copies to and from these bytes directly.
bool fxi_gpu_pinned_has(const fxi_gpu_pinned *h, const void *bytes, size_t size_bytes);
void fxi_gpu_pinned_free(fxi_cu *cu, fxi_gpu_pinned *h);

#endif
