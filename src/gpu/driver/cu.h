// cu.h - an open GPU: its context, its two streams, and the driver's calls with errors as lines.
//
// Kernels run in the compute stream in the order of their launches. The copy stream takes uploads
// of weights; events order the two. Nothing is ordered against the default stream.
//
// A call that the driver refuses leaves one line: the device, the operation, and the driver's name
// for the error ("cuda:0: cuMemAlloc of 4096 bytes: CUDA_ERROR_OUT_OF_MEMORY"). Its status is
// FX_ENOMEM where memory of the device or pinned memory is short, FX_EINTERNAL otherwise. A kernel
// that fails is reported by a later call, usually a wait; the context is then of no more use.
//
// Threads: one at a time. Every call from fxi_cu_memory on is made between fxi_cu_enter and
// fxi_cu_leave of the same thread.
#ifndef FXI_GPU_CU_H
#define FXI_GPU_CU_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"
#include "vtensor/backend/cuda/cuda_driver.h"

enum { FXI_CU_LABEL_BYTES = 16, FXI_CU_NAME_BYTES = 96 };

typedef struct fxi_cu {
    vti_cu_driver api;
    char label[FXI_CU_LABEL_BYTES]; // "cuda:0"
    char name[FXI_CU_NAME_BYTES];   // for people: "NVIDIA H100 80GB HBM3"
    vti_cu_device device;
    vti_cu_context context; // the primary context, retained; NULL: not open
    vti_cu_stream compute, copy;
    int ordinal;
    int driver_version; // 1000 x major + 10 x minor of CUDA
    int cc;             // compute capability, 10 x major + minor
    int n_sm;
    int max_shared_bytes; // of a block
} fxi_cu;

// ---- the device ---------------------------------------------------------------------------------

// Opens a device. Errors: FX_EINVAL: no driver, no such device, or one that these kernels cannot
// run on (compute capability below 8.0, no virtual memory management); FX_EINTERNAL, FX_ENOMEM: the
// driver failed. *cu is then closed.
fx_status fxi_cu_open(fxi_cu *cu, int ordinal, fx_error *err);
// Also one that is not open. Pre: everything made with it is freed.
void fxi_cu_close(fxi_cu *cu);

// The context becomes the current one of the calling thread; leave puts back what was, and returns
// st: FX_TRY(fxi_cu_enter(cu, err)); return fxi_cu_leave(cu, fxi_cu_wait(cu, stream, err));
fx_status fxi_cu_enter(fxi_cu *cu, fx_error *err);
fx_status fxi_cu_leave(fxi_cu *cu, fx_status st);

// FX_OK, or the error of an operation, which a printf-style text names.
__attribute__((format(printf, 4, 5))) fx_status fxi_cu_done(const fxi_cu *cu, vti_cu_result r,
                                                            fx_error *err, const char *fmt, ...);

// ---- memory -------------------------------------------------------------------------------------

fx_status fxi_cu_memory(fxi_cu *cu, uint64_t *free_bytes, uint64_t *total_bytes, fx_error *err);

// Memory of the device, aligned to 256 bytes. NULL may be freed.
fx_status fxi_cu_alloc(fxi_cu *cu, size_t size_bytes, void **at, fx_error *err);
void fxi_cu_free(fxi_cu *cu, void *at);
// Host memory that the device copies from and to directly. NULL may be freed.
fx_status fxi_cu_pin(fxi_cu *cu, size_t size_bytes, void **bytes, fx_error *err);
void fxi_cu_unpin(fxi_cu *cu, void *bytes);

// In the order of the stream; host memory is pinned and stays until the copy is done. Zero bytes
// are no call.
fx_status fxi_cu_upload(fxi_cu *cu, vti_cu_stream s, void *dst, const void *src, size_t size_bytes,
                        fx_error *err);
fx_status fxi_cu_download(fxi_cu *cu, vti_cu_stream s, void *dst, const void *src,
                          size_t size_bytes, fx_error *err);
// Rows that follow each other on the device; on the host each begins pitch_bytes after the one
// before.
fx_status fxi_cu_download_rows(fxi_cu *cu, vti_cu_stream s, void *dst, size_t pitch_bytes,
                               const void *src, size_t row_bytes, size_t n_row, fx_error *err);

// ---- streams ------------------------------------------------------------------------------------

fx_status fxi_cu_wait(fxi_cu *cu, vti_cu_stream s, fx_error *err); // sleeps until it is idle
fx_status fxi_cu_is_idle(fxi_cu *cu, vti_cu_stream s, bool *is_idle, fx_error *err);

// Events mark the work given to a stream so far. NULL may be freed.
fx_status fxi_cu_event_make(fxi_cu *cu, vti_cu_event *event, fx_error *err);
void fxi_cu_event_free(fxi_cu *cu, vti_cu_event event);
fx_status fxi_cu_event_mark(fxi_cu *cu, vti_cu_event event, vti_cu_stream s, fx_error *err);
// The calling thread waits for the mark.
fx_status fxi_cu_event_wait(fxi_cu *cu, vti_cu_event event, fx_error *err);

// ---- modules ------------------------------------------------------------------------------------

// Kernels of an image that nvcc made. Errors: also FX_EINVAL: the driver does not take the image.
fx_status fxi_cu_module_load(fxi_cu *cu, const void *image, vti_cu_module *out, fx_error *err);
void fxi_cu_module_free(fxi_cu *cu, vti_cu_module module); // NULL is allowed
// *out is NULL if the module has no kernel of that name.
fx_status fxi_cu_module_find(fxi_cu *cu, vti_cu_module module, const char *name,
                             vti_cu_function *out, fx_error *err);
// A kernel may then use so many bytes of dynamic shared memory; needed above 48 KiB.
fx_status fxi_cu_allow_shared(fxi_cu *cu, vti_cu_function f, int size_bytes, fx_error *err);

// A launch. args is the kernel's only parameter, a struct, which the driver copies.
typedef struct fxi_cu_launch {
    vti_cu_function function;
    const char *name; // for errors
    unsigned grid[3], block[3], shared_bytes;
    const void *args;
} fxi_cu_launch;

// In the compute stream.
fx_status fxi_cu_run(fxi_cu *cu, const fxi_cu_launch *l, fx_error *err);

// ---- graphs -------------------------------------------------------------------------------------

// Launches that run one after the other, given to the device in one call.
typedef struct fxi_cu_chain {
    vti_cu_graph graph; // NULL: not begun
    vti_cu_node last;   // NULL: none yet
    vti_cu_exec exec;   // NULL: not finished
    int n_node;
} fxi_cu_chain;

fx_status fxi_cu_chain_begin(fxi_cu *cu, fxi_cu_chain *c, fx_error *err);
fx_status fxi_cu_chain_add(fxi_cu *cu, fxi_cu_chain *c, const fxi_cu_launch *l, fx_error *err);
fx_status fxi_cu_chain_finish(fxi_cu *cu, fxi_cu_chain *c, fx_error *err);
fx_status fxi_cu_chain_run(fxi_cu *cu, const fxi_cu_chain *c, fx_error *err); // compute stream
void fxi_cu_chain_free(fxi_cu *cu, fxi_cu_chain *c); // in any state; *c is all zero then

#endif
