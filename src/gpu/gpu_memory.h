// gpu_memory.h - memory of a device that is taken piece by piece and freed as a whole: a model's
// weights, or the operands of a pass.
//
// Pieces are cut from few large allocations, each of which the driver rounds up to 2 MiB. Nothing
// is freed before all is.
#ifndef FXI_GPU_MEMORY_H
#define FXI_GPU_MEMORY_H

#include "base/system/pool.h"
#include "gpu/driver/cu.h"
#include "kernels/kernels.h"

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

// ---- transfers ----------------------------------------------------------------------------------

// What goes between host and device in large pieces passes through two pinned buffers: while the
// device copies from one, the host fills the other. So loading a model needs 2 x
// FXI_GPU_STAGE_BYTES of host memory next to the file, however large it is. Uploads run in the copy
// stream; fxi_gpu_stage_drain waits for them. All calls are made between fxi_cu_enter and
// fxi_cu_leave.
enum { FXI_GPU_STAGE_BYTES = 8 << 20 };

typedef struct fxi_gpu_stage { // all zero: nothing is allocated yet
    char *buffer[2];           // pinned
    size_t size_bytes;         // of each
    vti_cu_event done[2];      // of the last copy from it
    int next;                  // the one that is filled next
} fxi_gpu_stage;

void fxi_gpu_stage_free(fxi_cu *cu, fxi_gpu_stage *s); // waits for nothing; *s is all zero then

// Copies to the device; src may be reused when the call returns. Errors: as cu.h.
fx_status fxi_gpu_stage_upload(fxi_cu *cu, fxi_gpu_stage *s, void *dst, const void *src,
                               size_t size_bytes, fx_error *err);

// Packs n_row rows of a matrix, [n_row][n_in] numbers in GGUF's layout, into the panels that begin
// at dst (kernels/cuda/cuda_pack.h), on the pool's threads. n_row is a multiple of FXI_PANEL, or
// the rows are the matrix's last. rows may be reused when the call returns.
fx_status fxi_gpu_stage_pack(fxi_cu *cu, fxi_gpu_stage *s, fxi_pool *pool, fxi_dtype type, int n_in,
                             int n_row, const void *rows, void *dst, fx_error *err);

// Waits until the device has all that was given to it.
fx_status fxi_gpu_stage_drain(fxi_cu *cu, fxi_gpu_stage *s, fx_error *err);

// Copies from the device, to memory that need not be pinned, after what the compute stream was
// given; waits for it. Pre: drained.
fx_status fxi_gpu_stage_download(fxi_cu *cu, fxi_gpu_stage *s, void *dst, const void *src,
                                 size_t size_bytes, fx_error *err);

#endif
