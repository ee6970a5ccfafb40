// vmm.h - the backend port of libvtensor: what a manager needs from the memory of a device.
//
// One contract for every function of the table:
//   - sizes, offsets and addresses are multiples of the granularity, counts are not zero, pointers
//     are not NULL, and what is written behind "Pre:" holds. Only a manager calls a backend, so
//     a breach is a bug of the library: asserted in debug builds;
//   - all or nothing: a call that does not return VT_OK has changed nothing, but for the bytes that
//     fetch, store and swap_read were to write, and those of the swap that swap_write was to;
//   - VT_NOSPACE: no memory, no addresses, no mapping or no room in the swap left, a normal answer
//     of configure, reserve, create, map, swap_open and swap_write, and of no other; VT_EDEVICE:
//     the system or driver failed otherwise;
//   - where bytes are written (zero, store, swap_read, the destination of fetch) nothing on the
//     device touches them any longer; what is read (fetch, store, swap_write) the call waits for
//     the device to have written;
//   - VT_ENOMEM: no host memory for bookkeeping, of configure, reserve, create and swap_open;
//   - a call may take long (it enters the system); it is never made with a lock of the manager
//     held;
//   - a backend may be called by the owner thread and the mapper thread at once, on different
//     chunks and addresses; only the owner calls configure, fence, resident, mapped, the swap_*
//     functions and close.
//
// Physical memory is named by chunks: `n_slice` slices of `slice_bytes` each, a slice for each
// plane (SPLIT layout), or one slice in all (PACKED). On the host the chunk with index i of slice s
// lies at one offset of one memfd; chunks whose indices are neighbours lie at neighbouring offsets
// in every plane, so that their mappings merge. Indices are names, not memory: there are far more
// of them than chunks are ever created.
#ifndef VTENSOR_VMM_H
#define VTENSOR_VMM_H

#include <stdbool.h>
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

// How the pages of a run are wanted.
typedef enum vt_vmm_use {
    VT_VMM_WRITE = 0, // to be written soon: present at once
    VT_VMM_ALIAS      // memory that others have mapped as well, to be read: as cheap as can be
} vt_vmm_use;

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
    // writable. A slice may be mapped at many addresses at once.
    // Pre: created; [addr, addr + n x slice_bytes) is reserved and unmapped.
    vt_status (*map)(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n,
                     vt_vmm_use use);

    // Unmaps [addr, addr + size_bytes), which goes back to reserved.
    // Pre: what was mapped there by one or several calls of map, whole slices; nothing that runs on
    // the device reads or writes there (see fence).
    vt_status (*unmap)(vt_vmm *vmm, uintptr_t addr, size_t size_bytes);

    // Copies size_bytes from byte `offset` of slice `slice` of chunk `index`, which need not be
    // mapped anywhere, to mapped bytes of other chunks. Any offset and size.
    // Pre: created; the bytes lie in the slice.
    vt_status (*fetch)(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index, size_t offset,
                       size_t size_bytes);

    // The other way: copies mapped bytes to byte `offset` of a slice that need not be mapped
    // anywhere. Any offset and size. Pre: created, and of another chunk than src; the bytes lie in
    // the slice.
    vt_status (*store)(vt_vmm *vmm, uint32_t slice, uint64_t index, size_t offset, uintptr_t src,
                       size_t size_bytes);

    // Makes mapped bytes read as zero. Any size and address.
    vt_status (*zero)(vt_vmm *vmm, uintptr_t addr, size_t size_bytes);

    // Marks the work that the device has been given so far: *ticket is larger with each call, 0
    // where nothing runs beside the caller (the host). `passed` says whether all work in front of
    // the mark is done, and with `wait` waits until it is (sleeping); ticket 0 is passed.
    vt_status (*fence)(vt_vmm *vmm, uint64_t *ticket);
    vt_status (*passed)(vt_vmm *vmm, uint64_t ticket, bool wait, bool *is_passed);

    // Physical bytes the system says lie under all chunks now (st_blocks of the memfd on the host).
    vt_status (*resident)(vt_vmm *vmm, uint64_t *size_bytes);

    // Bytes of addresses that are mapped to chunks now, and in how many mappings, as the system
    // says (/proc/self/maps on the host); as the backend has counted where the system does not
    // tell. Exact while no other thread maps. Where max_runs is a limit, a run is one mapping at
    // most; elsewhere it may be many (a GPU's driver has one for each handle).
    vt_status (*mapped)(vt_vmm *vmm, uint64_t *size_bytes, uint64_t *n_mapping);

    // A swap of size_bytes, opened at most once: on the host a file in the directory `dir`, deleted
    // while it is open; elsewhere pinned host memory, where dir is not used and may be NULL.
    vt_status (*swap_open)(vt_vmm *vmm, const char *dir, uint64_t size_bytes);

    // Mapped bytes to byte `offset` of the swap and back; *sum is a checksum (vt_vmm_checksum) of
    // the bytes as they were written, or as they were found. Any size.
    // Pre: swap_open; within its size.
    vt_status (*swap_write)(vt_vmm *vmm, uint64_t offset, uintptr_t src, size_t size_bytes,
                            uint64_t *sum);
    vt_status (*swap_read)(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                           uint64_t *sum);

    // The bytes of the swap are not needed any longer: their room goes back to the system where it
    // can.
    void (*swap_drop)(vt_vmm *vmm, uint64_t offset, size_t size_bytes);

    // Frees the backend itself. Pre: everything destroyed and unreserved, unless a failing call
    // made that impossible; what is left is then the system's until the process ends.
    void (*close)(vt_vmm *vmm);
} vt_vmm_ops;

// A backend begins with its table; what follows is its own.
struct vt_vmm {
    const vt_vmm_ops *ops;
};

// Host memory: one sparse memfd, mmap(MAP_SHARED | MAP_FIXED), populated where it will be written.
// Errors: VT_EDEVICE, VT_NOSPACE, VT_ENOMEM.
VT_API VT_NODISCARD vt_status vt_vmm_host_open(vt_vmm **out);

// The same on huge pages that the administrator has set aside (vm.nr_hugepages): the granularity is
// huge_page_bytes then, a size the system has (2 MiB, 1 GiB).
// Errors: as above; VT_EINVAL if the system has no pages of that size.
VT_API VT_NODISCARD vt_status vt_vmm_host_open_huge(size_t huge_page_bytes, vt_vmm **out);

// What the system's setting for transparent huge pages in shared memory means for the host backend:
// one line for a person, to be told once at start, or NULL where nothing is to be gained. Static.
VT_API const char *vt_vmm_host_advice(void);

// Memory of an NVIDIA GPU through the driver's virtual memory management (CUDA 11.2 and later);
// libcuda.so.1 is loaded at run time. Works in the context that is current in the calling thread.
typedef struct vt_vmm_cuda_config {
    int device;   // ordinal
    void *stream; // CUstream on which the kernels that read sequences run; NULL: the default stream
} vt_vmm_cuda_config;

// Errors: VT_EDEVICE (no libcuda, no current context, or a device without virtual memory
// management: *why says which; static, may be NULL), VT_ENOMEM.
VT_API VT_NODISCARD vt_status vt_vmm_cuda_open(const vt_vmm_cuda_config *cfg, vt_vmm **out,
                                               const char **why);

// The checksum of the swap: 64 bits, not cryptographic. Feed pieces in order, beginning with sum =
// 0. size_bytes of all pieces but the last must be multiples of 8.
VT_API uint64_t vt_vmm_checksum(uint64_t sum, const void *bytes, size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
