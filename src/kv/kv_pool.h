// kv_pool.h - the memory of managers that allocate all of it at start: one range of addresses over
// a backend of libvtensor (vmm.h), backed from the first byte to the last.
//
// Offsets count from the first byte. Behind the pool, within the budget, is scratch memory, through
// which bytes go to the swap and back: many pieces of the pool at once.
//
// Two threads may use a pool: one copies at once and calls what swaps, with copies of its own; the
// other, its owner, makes all other calls.
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
    vt_vmm *vmm; // owned
    uintptr_t addr;
} fxi_kv_pool_rank;

// Pieces that are copied by one call.
typedef struct fxi_kv_copies {
    vt_vmm_copy *listed; // [most] by offsets
    vt_vmm_copy *placed; // [most] the same on one of the devices
    int n, most;
} fxi_kv_copies;

typedef struct fxi_kv_pool {
    int n_rank; // 1 at least
    fxi_kv_pool_rank rank[FXI_MAX_RANK];
    size_t chunk_bytes; // of the backends' granularity
    uint64_t n_chunk, n_scratch;
    size_t size_bytes;    // without scratch
    uint64_t swap_bytes;  // a multiple of chunk_bytes
    fxi_kv_copies copies; // the owner's
} fxi_kv_pool;

// What a pool is made of.
typedef struct fxi_kv_pool_spec {
    const fxi_kv_shape *shape; // budget, swap, devices and their memory
    size_t scratch_bytes;      // most that is swapped at once; 0: there is no swap
    int most_copies;           // pieces that are copied in one call, at most
} fxi_kv_pool_spec;

// Errors, with a line in *err: FX_ENOSPACE (the budget holds no more than scratch, or the system
// has not so much memory), FX_EINVAL (devices whose memory pages differ), FX_ENOMEM, FX_EIO. The
// memory that the shape names then stays the caller's.
fx_status fxi_kv_pool_open(fxi_kv_pool *p, const fxi_kv_pool_spec *spec, fx_error *err);
void fxi_kv_pool_close(fxi_kv_pool *p);
// The same, but leaves the memory that the shape names to the caller.
void fxi_kv_pool_forsake(fxi_kv_pool *p, const fxi_kv_shape *shape);

// Of the budget: pool and scratch of all devices.
uint64_t fxi_kv_pool_mapped_bytes(const fxi_kv_pool *p);

// Where byte `at` of scratch memory is: after a chunk that the owner's copies use.
static inline size_t fxi_kv_pool_scratch(const fxi_kv_pool *p, size_t at)
{
    return p->size_bytes + p->chunk_bytes + at;
}

// Group g of *out begins at byte `at` of each device's pool.
static inline void fxi_kv_pool_show(const fxi_kv_pool *p, int g, size_t at, fxi_kv_views *out)
{
    out->group[g].base = (char *)p->rank[0].addr + at;
    for (int k = 1; k < p->n_rank; k++) out->rank_base[k - 1][g] = (char *)p->rank[k].addr + at;
}

bool fxi_kv_copies_open(fxi_kv_copies *c, int most); // false: no memory; close it all the same
void fxi_kv_copies_close(fxi_kv_copies *c);
// Lists a copy of bytes that do not overlap. Pre: fewer than `most` are listed.
void fxi_kv_copies_list(fxi_kv_copies *c, size_t to, size_t from, size_t size_bytes);

// Makes all that are listed, in one call of each backend that can, and empties the list. At once
// only after fxi_kv_pool_await, and to or from scratch memory. Errors: FX_EIO; the targets then
// hold anything.
fx_status fxi_kv_pool_copy(const fxi_kv_pool *p, fxi_kv_copies *c, vt_vmm_order order);

// Marks what the devices have been given to do so far: ticket[n_rank]. The owner's. Errors: FX_EIO.
fx_status fxi_kv_pool_mark(const fxi_kv_pool *p, uint64_t *ticket);
// Waits until they have done it. Errors: FX_EIO.
fx_status fxi_kv_pool_await(const fxi_kv_pool *p, const uint64_t *ticket);
// Writes the first bytes of scratch memory to byte `at` of the swap, a multiple of chunk_bytes, and
// reads them back; sum[n_rank] are the checksums of what was written, or found. Errors: FX_EIO,
// FX_ENOSPACE (only out: the file system is full).
fx_status fxi_kv_pool_swap_out(const fxi_kv_pool *p, uint64_t at, size_t size_bytes, uint64_t *sum);
fx_status fxi_kv_pool_swap_in(const fxi_kv_pool *p, uint64_t at, size_t size_bytes, uint64_t *sum);
void fxi_kv_pool_swap_drop(const fxi_kv_pool *p, uint64_t at, size_t size_bytes);

// For tests: whether the system holds as much as the pool has.
bool fxi_kv_pool_is_resident(fxi_kv_pool *p);

#endif
