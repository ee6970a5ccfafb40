// vmm_cuda.h - what the files of the GPU backend share; the design is in vmm_cuda.c.
#ifndef VTI_VMM_CUDA_H
#define VTI_VMM_CUDA_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuda_driver.h"
#include "vtensor/core/common.h"
#include "vtensor/vmm.h"

typedef struct vti_cuda_slice {
    vti_cu_handle handle;
    bool exists;
} vti_cuda_slice;

// A chunk that is created. The record does not move until the chunk is destroyed, and only the
// thread that works on this chunk reads it.
typedef struct vti_cuda_chunk {
    uint64_t index;
    const vt_vmm_class *cls;
    vti_cuda_slice slice[]; // [cls->n_slice]
} vti_cuda_chunk;

enum { VTI_CUDA_N_MARK = 64 };

// An event after the work that its tickets wait for.
typedef struct vti_cuda_mark {
    vti_cu_event event; // NULL: never needed yet
    uint64_t ticket;    // the last that it covers
} vti_cuda_mark;

// Tickets 1 .. last. The marks [head, tail) are not known to be passed; mark i is in slot i % N.
typedef struct vti_cuda_fence {
    uint64_t last;
    uint64_t marked; // tickets after this one wait for a mark that is still to be set
    uint64_t done;   // all work before this ticket is done
    uint64_t head, tail;
    vti_cuda_mark mark[VTI_CUDA_N_MARK];
    vti_cu_stream join; // waits for all streams and events; NULL: marks are set in the only stream
    vti_cu_event relay; // carries the order of a stream to `join`
} vti_cuda_fence;

// Addresses of our own where one slice is mapped to be read.
typedef struct vti_cuda_window {
    struct vti_cuda_window *next;
    vti_cu_ptr addr;
    size_t mapped_bytes; // 0: nothing is mapped
    uint64_t index;      // of the chunk that is mapped
    uint64_t ticket;     // once it has passed, nothing reads there any longer; 0: nothing does
} vti_cuda_window;

typedef struct vti_cuda_windows {
    size_t each_bytes;      // the longest slice
    vti_cuda_window *first; // by ticket
    vti_cuda_window **last; // the link at the end of a list that is not empty
    uint64_t open_ticket;   // the next ticket to be given, for the last n_open of them
    unsigned n_open;
} vti_cuda_windows;

enum { VTI_CUDA_N_STAGE = 2, VTI_CUDA_N_OWN = 2 };

// A pinned buffer through which the swap moves.
typedef struct vti_cuda_stage {
    unsigned char *bytes;
    vti_cu_event event; // after its last transfer
} vti_cuda_stage;

typedef struct vti_cuda_swap {
    unsigned char *bytes; // [size_bytes] ordinary memory; NULL: not open
    uint64_t size_bytes;
    size_t stage_bytes;
    vti_cuda_stage stage[VTI_CUDA_N_STAGE];
} vti_cuda_swap;

// A stream for what is done at once.
typedef struct vti_cuda_own {
    vti_cu_stream stream;
    unsigned n_user; // calls that use it now
} vti_cuda_own;

typedef struct vti_cuda {
    vt_vmm vmm;
    vti_cu_driver cu;
    pid_t pid; // that opened it
    vti_cu_context context;
    int device;            // ordinal
    vti_cu_stream *stream; // [n_stream] the user's; the first is the one that copies are queued in
    uint32_t n_stream;
    size_t granularity;
    uint32_t n_class; // 0: not configured yet
    vt_vmm_class cls[VT_VMM_MAX_CLASS];
    uint64_t first_index[VT_VMM_MAX_CLASS + 1]; // of each class, and the end
    _Atomic uint64_t resident_bytes;
    _Atomic uint64_t mapped_bytes; // by calls of map

    pthread_mutex_t marking; // held while a mark is set; taken before mu
    pthread_mutex_t mu;      // guards what follows, and is not held across a call of the driver
    vti_cuda_own own[VTI_CUDA_N_OWN];
    void *chunks; // [vti_cuda_chunk] that are created, by index: a tree of tsearch
    vti_cuda_windows windows;
    vti_cuda_fence fence; // but for join and relay, which `marking` guards

    vti_cuda_swap swap; // of the one thread that swaps
} vti_cuda;

static inline vti_cuda *vti_cuda_of(vt_vmm *vmm)
{
    return (vti_cuda *)vmm;
}

// vmm_cuda_memory.c
// What a call changes in its thread, to be restored.
typedef struct vti_cuda_scope {
    bool pushed;
    vti_cu_capture_mode mode;
} vti_cuda_scope;

// Whether the process is a child of the one that opened the backend. A context does not survive
// fork(2): there enter answers VT_EDEVICE, and nothing is asked of the driver.
VT_NODISCARD bool vti_cuda_is_foreign(const vti_cuda *c);

// The driver works in the context that is current in the calling thread. enter makes our context
// current, and lets the calls that follow break no capture of a stream into a graph; leave puts
// both back and returns st.
VT_NODISCARD vt_status vti_cuda_enter(vti_cuda *c, vti_cuda_scope *scope);
vt_status vti_cuda_leave(vti_cuda *c, const vti_cuda_scope *scope, vt_status st);

VT_NODISCARD vt_status vti_cuda_status(vti_cu_result r); // out of memory: VT_NOSPACE
VT_NODISCARD vt_status vti_cuda_hard(vt_status st);      // for calls that never return VT_NOSPACE

// Whether work given to the stream would be run, and not captured into a graph.
VT_NODISCARD bool vti_cuda_runs(vti_cuda *c, vti_cu_stream stream);

vti_cu_prop vti_cuda_prop(const vti_cuda *c); // the kind of memory that is created
const vt_vmm_class *vti_cuda_class(const vti_cuda *c, uint64_t index);
void vti_cuda_assert_class(const vti_cuda *c, uint64_t index, uint64_t n); // all are of one
vti_cuda_chunk *vti_cuda_chunk_find(vti_cuda *c, uint64_t index);          // Pre: created
vt_status vti_cuda_create(vti_cuda *c, uint64_t index, uint64_t n);
vt_status vti_cuda_destroy(vti_cuda *c, uint64_t index, uint64_t n);
void vti_cuda_chunks_close(vti_cuda *c); // releases whatever is left

VT_NODISCARD vt_status vti_cuda_reserve(vti_cuda *c, size_t size_bytes, vti_cu_ptr *addr);
// Chunks `first` and those after it, or if index is given, chunks index[n], which it begins.
VT_NODISCARD vt_status vti_cuda_map(vti_cuda *c, vti_cu_ptr addr, uint32_t slice, uint64_t first,
                                    const uint64_t *index, uint64_t n);
VT_NODISCARD vt_status vti_cuda_unmap(vti_cuda *c, vti_cu_ptr addr, size_t size_bytes);

// vmm_cuda_fence.c
VT_NODISCARD vt_status vti_cuda_fence_join(vti_cuda *c); // marks are set in `join` from now on
// Later tickets wait for what is recorded in the event now.
VT_NODISCARD vt_status vti_cuda_fence_await(vti_cuda *c, vti_cu_event event);
uint64_t vti_cuda_fence_take(vti_cuda *c); // a new ticket; calls no driver
void vti_cuda_fence_mark(vti_cuda *c);     // after the work that all tickets wait for
VT_NODISCARD vt_status vti_cuda_fence_passed(vti_cuda *c, uint64_t ticket, bool wait,
                                             bool *is_passed);
void vti_cuda_fence_close(vti_cuda *c);

// vmm_cuda_copy.c
// Unmaps the chunks from all windows. Pre: copies from them are done.
VT_NODISCARD vt_status vti_cuda_windows_leave(vti_cuda *c, uint64_t index, uint64_t n);
void vti_cuda_windows_close(vti_cuda *c);
vt_status vti_cuda_fetch(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index, size_t offset,
                         size_t size_bytes, vt_vmm_order order);
vt_status vti_cuda_copy_each(vt_vmm *vmm, const vt_vmm_copy *copy, uint64_t n, vt_vmm_order order);
vt_status vti_cuda_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_order order);
vt_status vti_cuda_swap_open(vt_vmm *vmm, const char *dir, uint64_t size_bytes);
vt_status vti_cuda_swap_write(vt_vmm *vmm, uint64_t offset, uintptr_t src, size_t size_bytes,
                              uint64_t *sum);
vt_status vti_cuda_swap_read(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                             uint64_t *sum);
void vti_cuda_swap_drop(vt_vmm *vmm, uint64_t offset, size_t size_bytes);
void vti_cuda_swap_close(vti_cuda *c);

#endif
