// vmm.h - the backend port of libvtensor: what a manager needs from the memory of a device.
//
// One contract for every function of the table:
//   - sizes, offsets and addresses are multiples of the granularity, counts are not zero, pointers
//     are not NULL, and what is written behind "Pre:" holds. Only a manager calls a backend, so
//     a breach is a bug of the library: asserted in debug builds;
//   - all or nothing: a call that does not return VT_OK has changed nothing;
//   - VT_NOSPACE: no memory, no addresses or no mapping left, a normal answer of configure,
//     reserve, create and map, and of no other; VT_EDEVICE: the system or driver failed otherwise;
//   - a call may take long (it enters the system); it is never made with a lock of the manager
//     held;
//   - a backend may be called by the owner thread and the mapper thread at once, on different
//     chunks and spans.
//
// Physical memory is named by chunks: `n_slice` slices of `slice_bytes` each, a slice for each
// plane (SPLIT layout), or one slice in all (PACKED). On the host the chunk with index i of slice s
// lies at one offset of one memfd; chunks whose indices are neighbours lie at neighbouring offsets
// in every plane, so that their mappings merge. Indices are names, not memory: there are far more
// of them than chunks are ever created.
#ifndef VTENSOR_VMM_H
#define VTENSOR_VMM_H

#include <stddef.h>
#include <stdint.h>

#include "vtensor/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vt_vmm vt_vmm;

// What a manager asks a backend to serve; fixed for the backend's life.
typedef struct vt_vmm_geometry {
    uint32_t n_slice;   // slices per chunk
    size_t slice_bytes; // bytes of a slice, a multiple of the granularity
    uint64_t n_index;   // chunk indices 0 .. n_index-1 may be created
} vt_vmm_geometry;

typedef struct vt_vmm_ops {
    const char *name; // "host", "cuda", "fake", "fault"

    // Smallest unit of mapping in bytes (a power of two). Never fails.
    size_t (*granularity)(vt_vmm *vmm);

    // Tells the geometry, once, before any other call below.
    vt_status (*configure)(vt_vmm *vmm, const vt_vmm_geometry *geo);

    // Most runs (neighbouring chunks mapped one after another) that may be mapped at once, so that
    // the manager can answer VT_NOSPACE before the system does. UINT64_MAX: no limit. Never fails.
    uint64_t (*max_runs)(vt_vmm *vmm);

    // Reserves `size_bytes` of addresses backed by nothing: reading there faults.
    vt_status (*reserve)(vt_vmm *vmm, size_t size_bytes, uintptr_t *addr);

    // Gives a reservation back. Pre: nothing in it is mapped.
    vt_status (*unreserve)(vt_vmm *vmm, uintptr_t addr, size_t size_bytes);

    // Backs the chunks [index, index + n) with zeroed physical memory. Pre: none is created.
    vt_status (*create)(vt_vmm *vmm, uint64_t index, uint64_t n);

    // Gives the physical memory of the chunks back to the system. Pre: created, mapped nowhere.
    vt_status (*destroy)(vt_vmm *vmm, uint64_t index, uint64_t n);

    // Maps slice `slice` of the chunks [index, index + n) at addr, one after another, readable and
    // writable, with their pages present.
    // Pre: created; [addr, addr + n x slice_bytes) is reserved and unmapped.
    vt_status (*map)(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n);

    // Unmaps [addr, addr + size_bytes), which goes back to reserved. Pre: mapped, whole slices.
    vt_status (*unmap)(vt_vmm *vmm, uintptr_t addr, size_t size_bytes);

    // Copies mapped bytes. Any size and address; dst and src do not overlap.
    vt_status (*copy)(vt_vmm *vmm, uintptr_t dst, uintptr_t src, size_t size_bytes);

    // Makes mapped bytes read as zero. Any size and address.
    vt_status (*zero)(vt_vmm *vmm, uintptr_t addr, size_t size_bytes);

    // Physical bytes the system says lie under all chunks now (st_blocks of the memfd on the host).
    vt_status (*resident)(vt_vmm *vmm, uint64_t *size_bytes);

    // Frees the backend itself. Pre: everything destroyed and unreserved, unless a failing call
    // made that impossible; what is left is then the system's until the process ends.
    void (*close)(vt_vmm *vmm);
} vt_vmm_ops;

// A backend begins with its table; what follows is its own.
struct vt_vmm {
    const vt_vmm_ops *ops;
};

// Host memory: one sparse memfd, mmap(MAP_SHARED | MAP_FIXED | MAP_POPULATE).
// Errors: VT_EDEVICE, VT_NOSPACE, VT_ENOMEM.
VT_API VT_NODISCARD vt_status vt_vmm_host_open(vt_vmm **out);

#ifdef __cplusplus
}
#endif
#endif
