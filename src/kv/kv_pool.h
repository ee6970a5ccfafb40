// kv_pool.h - the memory of managers that allocate all of it at start: one range of addresses over
// a backend of libvtensor (vmm.h) that has copy_each, backed from the first byte to the last. One
// thread.
//
// It holds rows of tokens, at the same numbers in all planes:
//
//     group 0: plane 0 [n_row][row]  plane 1 [n_row][row] ...  group 1: ...
//
// Offsets count from the first byte. After the pool, within the budget, is scratch memory, through
// which bytes go to the swap and back: many pieces of the pool at once.
//
// Where several devices share a cache out, each RANK of the pool is such a range over memory of its
// own, with its part of every row at the same offset as the others. Every call is made on all of
// them; where it fails on one, it has failed. Sizes are those of one rank, unless they are said to
// be of all devices.
#ifndef FXI_KV_POOL_H
#define FXI_KV_POOL_H

#include "kv/kv.h"
#include "vtensor/vmm.h"

typedef struct fxi_kv_pool_rank {
    vt_vmm *vmm;
    bool is_given; // by the shape; otherwise owned
    uintptr_t addr;
} fxi_kv_pool_rank;

typedef struct fxi_kv_pool {
    int n_rank; // 1 at least
    fxi_kv_pool_rank rank[FXI_MAX_RANK];
    size_t chunk_bytes; // of the backends' granularity
    uint64_t n_chunk, n_scratch;
    size_t size_bytes;    // without scratch
    uint64_t swap_bytes;  // a multiple of chunk_bytes
    fxi_kv_layout layout; // of a rank
    uint64_t n_row;
    size_t region[FXI_KV_MAX_GROUP]; // first byte of each group
    vt_vmm_copy *listed;  // [max_copy] the copies of the next fxi_kv_pool_copy, by offsets
    vt_vmm_copy *placed;  // [max_copy] the same on one of the devices
    int n_copy, max_copy; // max_copy: all planes
} fxi_kv_pool;

// shape: budget, swap, devices and their memory. scratch_bytes: most that is swapped at once; 0:
// there is no swap. Errors, with a line in *err: FX_ENOSPACE (the budget holds no more than
// scratch, or the system has not so much memory), FX_EINVAL (devices whose memory pages differ),
// FX_ENOMEM, FX_EIO.
fx_status fxi_kv_pool_open(fxi_kv_pool *p, const fxi_kv_shape *shape, size_t scratch_bytes,
                           fx_error *err);
void fxi_kv_pool_close(fxi_kv_pool *p); // leaves the memory that the shape names open

// Of the budget: pool and scratch of all devices.
uint64_t fxi_kv_pool_mapped_bytes(const fxi_kv_pool *p);

// From now on the planes have n_row rows. Pre: they fit into size_bytes.
void fxi_kv_pool_divide(fxi_kv_pool *p, uint64_t n_row);
// Where a row begins.
size_t fxi_kv_pool_byte(const fxi_kv_pool *p, int group, int plane, uint64_t row);
// The views of planes from this row on, on each device.
void fxi_kv_pool_show(const fxi_kv_pool *p, uint64_t row, fxi_kv_views *out);

// Lists a copy of bytes that do not overlap, by offsets; scratch memory begins at size_bytes. Pre:
// fewer than max_copy are listed.
void fxi_kv_pool_list(fxi_kv_pool *p, size_t to, size_t from, size_t size_bytes);
// Makes all that are listed, in one call of each backend, and empties the list. At once only
// after fxi_kv_pool_settle. Errors: FX_EIO; the targets then hold anything.
fx_status fxi_kv_pool_copy(fxi_kv_pool *p, vt_vmm_order order);
// Queues copies of n_row rows of all planes, which do not overlap. Errors: as of copy.
fx_status fxi_kv_pool_copy_rows(fxi_kv_pool *p, uint64_t to, uint64_t from, int n_row);
// Waits until the devices have done what they have been given to do so far. Errors: FX_EIO.
fx_status fxi_kv_pool_settle(const fxi_kv_pool *p);

// Writes the first bytes of scratch memory to byte `at` of the swap, a multiple of chunk_bytes, or
// reads them back; sum[n_rank] are the checksums of what was written, or found. Errors: FX_EIO,
// FX_ENOSPACE (only out: the file system is full).
fx_status fxi_kv_pool_swap(const fxi_kv_pool *p, bool out, uint64_t at, size_t size_bytes,
                           uint64_t *sum);
void fxi_kv_pool_swap_drop(const fxi_kv_pool *p, uint64_t at, size_t size_bytes);

// For tests: whether the system holds as much as the pool has.
bool fxi_kv_pool_is_resident(const fxi_kv_pool *p);

#endif
