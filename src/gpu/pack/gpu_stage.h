// gpu_stage.h - what goes between host and device in large pieces passes through two pinned
// buffers: while the device copies from one, the host fills the other.
//
// So loading a model needs 2 x FXI_GPU_STAGE_BYTES of host memory beside the file, however large it
// is. Uploads run in the copy stream; fxi_gpu_stage_drain waits for them. All calls are made
// between fxi_cu_enter and fxi_cu_leave.
#ifndef FXI_GPU_STAGE_H
#define FXI_GPU_STAGE_H

#include "base/system/pool.h"
#include "gpu/driver/cu.h"
#include "kernels/kernels.h"

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
