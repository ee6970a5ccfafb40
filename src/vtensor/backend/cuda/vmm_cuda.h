// vmm_cuda.h - what the files of the GPU backend share; the design is in vmm_cuda.c.
#ifndef VTI_VMM_CUDA_H
#define VTI_VMM_CUDA_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "vtensor/common/try.h"
#include "vtensor/vmm.h"

typedef enum vti_cuda_memory {
    VTI_CUDA_NONE = 0,
    VTI_CUDA_FRESH, // as the driver gave it: any bytes
    VTI_CUDA_WIPED  // zeroed once; written only through the manager since then
} vti_cuda_memory;

typedef struct vti_cuda_slice {
    vti_cu_handle handle;
    vti_cuda_memory memory;
} vti_cuda_slice;

// A chunk that is created. The record does not move until the chunk is destroyed, and only the
// thread that works on this chunk reads it.
typedef struct vti_cuda_chunk {
    uint64_t index;
    struct vti_cuda_chunk *next; // in its bucket
    vti_cuda_slice slice[];      // [n_slice]
} vti_cuda_chunk;

// The created chunks by index.
typedef struct vti_cuda_chunks {
    vti_cuda_chunk **bucket; // [n_bucket]; NULL: none yet
    size_t n_bucket;         // a power of two
    size_t n;
} vti_cuda_chunks;

enum { VTI_CUDA_N_MARK = 64 };

// A mark in the user's stream.
typedef struct vti_cuda_mark {
    vti_cu_event event; // NULL: never needed yet
    bool recorded;      // the event belongs to this slot's last ticket
} vti_cuda_mark;

// Tickets 1 .. last. The mark of ticket t is in slot t % N until ticket t + N takes its place.
typedef struct vti_cuda_fence {
    uint64_t last;
    uint64_t done; // all work before this ticket is done
    vti_cuda_mark mark[VTI_CUDA_N_MARK];
} vti_cuda_fence;

// A part of the swap that is allocated as one.
typedef struct vti_cuda_piece {
    unsigned char *bytes; // pinned; NULL: nothing is in use
    uint64_t used;        // a bit for each granule
} vti_cuda_piece;

typedef struct vti_cuda_swap {
    uint64_t size_bytes;
    size_t piece_bytes; // at most 64 granules
    uint64_t n_piece;
    vti_cuda_piece *piece; // [n_piece]; NULL: not open
} vti_cuda_swap;

typedef struct vti_cuda {
    vt_vmm vmm;
    vti_cu_driver cu;
    vti_cu_context context;
    vti_cu_stream user_stream; // of the kernels
    vti_cu_stream own_stream;  // of wiping and copying; NULL: not open
    int device;                // ordinal
    size_t granularity;
    vt_vmm_geometry geo;
    _Atomic uint64_t n_handle; // of physical memory
    _Atomic uint64_t n_mapped; // slices that calls of map have mapped

    // Where fetch and store map their slice; belongs to the thread that has set window_busy.
    vti_cu_ptr window;
    bool window_stuck; // could not be unmapped

    pthread_mutex_t mu; // guards what follows, and is not held across a call of the driver
    pthread_cond_t window_is_free;
    bool window_busy;
    vti_cuda_chunks chunks;
    vti_cuda_fence fence;

    vti_cuda_swap swap; // the owner thread's
} vti_cuda;

static inline vti_cuda *vti_cuda_of(vt_vmm *vmm)
{
    return (vti_cuda *)vmm;
}

// vmm_cuda_context.c
// The driver works in the context that is current in the calling thread. enter makes our context
// current; leave restores the previous one and returns st.
VT_NODISCARD vt_status vti_cuda_enter(vti_cuda *c, bool *pushed);
vt_status vti_cuda_leave(vti_cuda *c, bool pushed, vt_status st);

VT_NODISCARD vt_status vti_cuda_status(vti_cu_result r); // out of memory: VT_NOSPACE
VT_NODISCARD vt_status vti_cuda_hard(vt_status st);      // for calls that never return VT_NOSPACE

// Waits for all work in our own stream, whatever st is. Returns st, or if that is VT_OK the status
// of the wait.
VT_NODISCARD vt_status vti_cuda_finish(vti_cuda *c, vt_status st);

// vmm_cuda_chunk.c
vti_cu_prop vti_cuda_prop(const vti_cuda *c); // the kind of memory that is created
vti_cuda_chunk *vti_cuda_chunk_find(vti_cuda *c, uint64_t index); // Pre: created
vt_status vti_cuda_create(vt_vmm *vmm, uint64_t index, uint64_t n);
vt_status vti_cuda_destroy(vt_vmm *vmm, uint64_t index, uint64_t n);
void vti_cuda_chunks_close(vti_cuda *c); // releases whatever is left

// vmm_cuda_fence.c
vt_status vti_cuda_fence_set(vt_vmm *vmm, uint64_t *ticket);
vt_status vti_cuda_fence_passed(vt_vmm *vmm, uint64_t ticket, bool wait, bool *is_passed);
void vti_cuda_fence_close(vti_cuda *c);

// vmm_cuda_swap.c
vt_status vti_cuda_swap_open(vt_vmm *vmm, const char *dir, uint64_t size_bytes);
vt_status vti_cuda_swap_write(vt_vmm *vmm, uint64_t offset, uintptr_t src, size_t size_bytes,
                              uint64_t *sum);
vt_status vti_cuda_swap_read(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                             uint64_t *sum);
void vti_cuda_swap_drop(vt_vmm *vmm, uint64_t offset, size_t size_bytes);
void vti_cuda_swap_close(vti_cuda *c);

#endif
