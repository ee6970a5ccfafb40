// vmm.h - the backend port of libvtensor: what a manager needs from the memory of a device.
//
// One contract for every function of the table:
//   - sizes, offsets and addresses are multiples of the granularity, counts are not zero, pointers
//     are not NULL, and what follows "Pre:" holds. Only a manager calls a backend, so a breach is a
//     bug of the library: asserted in debug builds;
//   - all or nothing: a call that does not return VT_OK has changed nothing, except for the bytes
//     that fetch, store, zero and swap_read should have written, and the bytes of the swap that
//     swap_write should have written;
//   - VT_NOSPACE (no memory, addresses, mappings or room in the swap left) is a normal answer of
//     configure, reserve, create, map, protect, swap_open and swap_write, and of no other call;
//     VT_EDEVICE: the system or driver failed otherwise;
//   - the bytes that fetch, copy_each, zero and swap_read write are not mapped VT_VMM_READ there;
//   - a call with an `order` runs either at once (VT_VMM_NOW: it is complete when the call returns,
//     and nothing on the device touches the bytes meanwhile) or in the order of the device's work
//     (VT_VMM_QUEUED: after the work submitted so far, before any submitted later; the call does
//     not wait for the device; if that is impossible because the user's stream is being captured
//     into a graph, it answers VT_EDEVICE and has changed nothing);
//   - no call waits for work that the user submitted to the device, but for passed with `wait`;
//   - VT_ENOMEM (no host memory for bookkeeping) comes only from configure, reserve, create and
//     swap_open;
//   - a call may take long (it enters the system); the manager holds no lock during it;
//   - the owner thread and the mapper thread may call a backend at the same time, on different
//     chunks and addresses; only the owner calls configure, fence, resident, mapped, close and the
//     calls that are VT_VMM_QUEUED. One of the two at a time calls swap_*. Calls of the mapper
//     thread do not disturb a capture of the user's stream into a graph.
//
// Physical memory is named by chunks. There are classes of chunks, one for each shape: a chunk of
// class c has n_slice[c] slices of slice_bytes[c]. Indices count through the classes: class c has
// n_index[c] of them, after those of class c - 1. On the host the chunk with index i of slice s
// lies at one offset of one memfd; chunks whose indices are neighbours lie at neighbouring offsets
// in every slice, so that their mappings merge. Indices are names, not memory: there are far more
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

enum { VT_VMM_MAX_CLASS = 16 };

typedef struct vt_vmm_class {
    uint32_t n_slice;   // slices per chunk
    size_t slice_bytes; // bytes of a slice, a multiple of the granularity
    uint64_t n_index;   // chunks that may be created
} vt_vmm_class;

// The sizes that a backend serves; fixed for its life.
typedef struct vt_vmm_geometry {
    uint32_t n_class;
    vt_vmm_class cls[VT_VMM_MAX_CLASS];
} vt_vmm_geometry;

// How the pages of a run will be used.
typedef enum vt_vmm_use {
    VT_VMM_WRITE = 0, // read and written soon: present at once
    VT_VMM_ALIAS,     // mapped elsewhere as well, and not written: mapped as cheaply as possible
    VT_VMM_READ       // the same, and a write faults, where can_protect
} vt_vmm_use;

// When a call takes effect; see above.
typedef enum vt_vmm_order { VT_VMM_NOW = 0, VT_VMM_QUEUED } vt_vmm_order;

// A copy of mapped bytes to other mapped bytes.
typedef struct vt_vmm_copy {
    uintptr_t dst, src;
    size_t size_bytes;
} vt_vmm_copy;

typedef struct vt_vmm_ops {
    const char *name; // "host", "cuda", "fake", "fault"

    // Smallest unit of mapping in bytes (a power of two). Never fails.
    size_t (*granularity)(vt_vmm *vmm);

    // Sets the geometry, once, before any other call below but max_runs.
    vt_status (*configure)(vt_vmm *vmm, const vt_vmm_geometry *geo);

    // Most runs that may be mapped at once, so that the manager can answer VT_NOSPACE before the
    // system does. A run is mapped slices whose addresses follow each other, as their chunks'
    // indices do, with the same access: VT_VMM_READ, or one of the other two. So protect can part
    // a run in three. UINT64_MAX: no limit. Never fails.
    uint64_t (*max_runs)(vt_vmm *vmm);

    // Whether VT_VMM_READ and protect refuse writes. Never fails.
    bool (*can_protect)(vt_vmm *vmm);

    // Whether create backs chunks with zeroed memory. Never fails.
    bool (*creates_zeroed)(vt_vmm *vmm);

    // Reserves `size_bytes` of addresses backed by nothing: reading there faults.
    vt_status (*reserve)(vt_vmm *vmm, size_t size_bytes, uintptr_t *addr);

    // Returns a reservation to the system. Pre: nothing in it is mapped.
    vt_status (*unreserve)(vt_vmm *vmm, uintptr_t addr, size_t size_bytes);

    // Backs the chunks [index, index + n), which are of one class, with physical memory: zeroed if
    // creates_zeroed says so, otherwise with any bytes, which the manager wipes before a sequence
    // can read them. Pre: none is created.
    vt_status (*create)(vt_vmm *vmm, uint64_t index, uint64_t n);

    // Returns the physical memory of the chunks to the system. Pre: created, mapped nowhere.
    vt_status (*destroy)(vt_vmm *vmm, uint64_t index, uint64_t n);

    // Maps slice `slice` of the chunks [index, index + n), which are of one class, at addr, one
    // after another. A slice may be mapped at many addresses at once.
    // Pre: created; [addr, addr + n x slice_bytes) is reserved and unmapped.
    vt_status (*map)(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n,
                     vt_vmm_use use);

    // The same for n chunks of one class that need not be neighbours, index[0 .. n), in less time
    // than n calls of map. May be NULL: then there is nothing to save.
    vt_status (*map_each)(vt_vmm *vmm, uintptr_t addr, uint32_t slice, const uint64_t *index,
                          uint64_t n, vt_vmm_use use);

    // Changes what may be done with mapped slices: VT_VMM_WRITE or VT_VMM_READ. Makes no page
    // present. VT_NOSPACE: a run had to be parted and the system has no mapping left. NULL where
    // can_protect says no.
    // Pre: can_protect; whole slices, all mapped with the same access. Work on the device may read
    // there meanwhile, but not write.
    vt_status (*protect)(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_use use);

    // Unmaps [addr, addr + size_bytes), which goes back to reserved. Pre: whole slices, mapped by
    // one or several calls of map; nothing that runs on the device reads or writes there (see
    // fence).
    vt_status (*unmap)(vt_vmm *vmm, uintptr_t addr, size_t size_bytes);

    // Copies size_bytes from byte `offset` of slice `slice` of chunk `index`, which need not be
    // mapped anywhere, to mapped bytes of other chunks. Any offset and size.
    // Pre: created, and not destroyed before the copy is done; the bytes lie in the slice.
    vt_status (*fetch)(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index, size_t offset,
                       size_t size_bytes, vt_vmm_order order);

    // The other way, at once: copies mapped bytes to byte `offset` of a slice that need not be
    // mapped anywhere. Any offset and size. Called only where max_runs is a limit; NULL elsewhere.
    // Pre: created, and of another chunk than src; the bytes lie in the slice.
    vt_status (*store)(vt_vmm *vmm, uint32_t slice, uint64_t index, size_t offset, uintptr_t src,
                       size_t size_bytes);

    // Makes n copies as one piece of work, as a block of PagedAttention needs them that lies in a
    // place of its own for each plane. Any addresses and sizes. libvtensor never calls it:
    // NULL will do there; flexinfer's managers that reserve their memory need it.
    // Pre: no bytes are the target of one copy and of another, or the source of another.
    vt_status (*copy_each)(vt_vmm *vmm, const vt_vmm_copy *copy, uint64_t n, vt_vmm_order order);

    // Makes mapped bytes read as zero. Any size and address.
    vt_status (*zero)(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_order order);

    // Marks the end of the work submitted to the device so far, on all streams that the backend was
    // told of: *ticket grows with each call, or is 0 where nothing runs concurrently with the
    // caller (the host). Tickets pass in ascending order. `passed` says whether all work
    // before the mark is done, and with `wait` sleeps until it is. Ticket 0 has always passed.
    vt_status (*fence)(vt_vmm *vmm, uint64_t *ticket);
    vt_status (*passed)(vt_vmm *vmm, uint64_t ticket, bool wait, bool *is_passed);

    // Physical bytes of all chunks now, as the system reports them (st_blocks of the memfd on the
    // host).
    vt_status (*resident)(vt_vmm *vmm, uint64_t *size_bytes);

    // Bytes of addresses mapped to chunks now, and the number of mappings, as the system reports
    // them (/proc/self/maps on the host), or as the backend counts them where the system reports
    // nothing. Exact while no other thread maps. Where max_runs is a limit, a run is at most one
    // mapping; elsewhere it may be many (on a GPU one for each unit of the granularity).
    vt_status (*mapped)(vt_vmm *vmm, uint64_t *size_bytes, uint64_t *n_mapping);

    // Opens a swap of size_bytes, at most once. On the host: a file in the directory `dir`, deleted
    // while it is open. On a GPU: host memory; dir is not used and may be NULL.
    vt_status (*swap_open)(vt_vmm *vmm, const char *dir, uint64_t size_bytes);

    // Copies mapped bytes to byte `offset` of the swap, and back, at once; *sum is the checksum
    // (vt_vmm_checksum) of the bytes written, or found. Any size.
    // Pre: swap_open; within its size; nothing that runs on the device writes the bytes that
    // swap_write reads, or uses those that swap_read writes (see fence).
    vt_status (*swap_write)(vt_vmm *vmm, uint64_t offset, uintptr_t src, size_t size_bytes,
                            uint64_t *sum);
    vt_status (*swap_read)(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                           uint64_t *sum);

    // The bytes of the swap are no longer needed: their room returns to the system if possible.
    // They need not have been written.
    void (*swap_drop)(vt_vmm *vmm, uint64_t offset, size_t size_bytes);

    // Frees the backend itself. Pre: everything is destroyed and unreserved, unless a failing call
    // made that impossible; the rest is returned when the process ends.
    void (*close)(vt_vmm *vmm);
} vt_vmm_ops;

// A backend is a struct that begins with this one.
struct vt_vmm {
    const vt_vmm_ops *ops;
};

// Opens a backend on host memory: one sparse memfd, mapped with mmap(MAP_SHARED | MAP_FIXED) and
// populated if it will be written. Errors: VT_EDEVICE, VT_NOSPACE, VT_ENOMEM.
VT_API VT_NODISCARD vt_status vt_vmm_host_open(vt_vmm **out);

// The same on huge pages that the administrator has reserved (vm.nr_hugepages). The granularity is
// then huge_page_bytes, a size that the system has (2 MiB, 1 GiB).
// Errors: as above; VT_EINVAL (the system has no pages of that size).
VT_API VT_NODISCARD vt_status vt_vmm_host_open_huge(size_t huge_page_bytes, vt_vmm **out);

// What of the system keeps the host backend from working: one line, or NULL if nothing is known.
// Ask after an open or a vt_manager_create has failed: a memfd that the system refuses, descriptors
// that are out, a limit on the length of files or on addresses. Static. Any thread.
VT_API const char *vt_vmm_host_trouble(void);

// Advice on the system's setting for transparent huge pages in shared memory: one line of text to
// show once at start, or NULL if no change would help. Static.
VT_API const char *vt_vmm_host_advice(void);

// A backend on the memory of an NVIDIA GPU, through the driver's virtual memory management (CUDA
// 11.2 and later). libcuda.so.1 is loaded at run time. It works in the context that is current in
// the thread that opens it.
//
// A ticket covers the streams that the backend was told of, and no others: the default stream
// (NULL) is not ordered with streams that were created non-blocking. While one of them is being
// captured into a graph, fence gives tickets that do not pass before the capture has ended, and
// waiting for one answers VT_EDEVICE.
typedef struct vt_vmm_cuda_config {
    int device;   // ordinal
    void *stream; // CUstream on which the kernels that read sequences run, and in whose order
                  // copies and wiping are queued; NULL: the default stream; not
                  // CU_STREAM_PER_THREAD, which is another stream in each thread
    void *const *beside; // [n_beside] CUstreams of other work that reads sequences; may be NULL
    int n_beside;
} vt_vmm_cuda_config;

// The streams must outlive the backend. Errors: VT_EDEVICE (no libcuda, no current context, or a
// device without virtual memory management; *why says which, a static string; why may be NULL),
// VT_ENOMEM. On error *out is NULL.
VT_API VT_NODISCARD vt_status vt_vmm_cuda_open(const vt_vmm_cuda_config *cfg, vt_vmm **out,
                                               const char **why);

// Work that is ordered by none of the streams: every later ticket waits for what was recorded in
// `event` (a CUevent, recorded outside any capture) until now. The event may be recorded again or
// destroyed once the call has returned. Owner thread. Errors: VT_EINVAL (not a CUDA backend),
// VT_EDEVICE.
VT_API VT_NODISCARD vt_status vt_vmm_cuda_await(vt_vmm *vmm, void *event);

// The checksum of the swap: 64 bits, not cryptographic. Call it for the pieces in order, first with
// sum = 0. size_bytes of every piece but the last must be a multiple of 8.
VT_API uint64_t vt_vmm_checksum(uint64_t sum, const void *bytes, size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
