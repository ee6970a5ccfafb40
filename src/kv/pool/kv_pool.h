// kv_pool.h - the memory of managers that allocate all of it at start: one range of addresses over
// a backend of libvtensor (vmm.h), backed from the first byte to the last.
//
// Offsets count from the first byte. Behind the pool, within the budget, is scratch memory, through
// which bytes go to the swap and back: many pieces of the pool at once.
#ifndef FXI_KV_POOL_H
#define FXI_KV_POOL_H

#include "base/fail.h"
#include "vtensor/vmm.h"

typedef struct fxi_kv_pool {
    vt_vmm *vmm; // owned
    uintptr_t addr;
    size_t chunk_bytes; // of the backend's granularity
    uint64_t n_chunk, n_scratch;
    size_t size_bytes; // without scratch
    vt_vmm_copy *copy; // [most_copies] listed for the next call
    int n_copy, most_copies;
} fxi_kv_pool;

// What a pool is made of; the fields mean what they mean in fxi_kv_shape.
typedef struct fxi_kv_pool_spec {
    vt_vmm *vmm;
    uint64_t budget_bytes, swap_bytes;
    const char *swap_dir;
    size_t scratch_bytes; // most that is swapped at once; 0: nothing
    int most_copies;      // pieces that are copied in one call, at most
} fxi_kv_pool_spec;

// Errors, with a line in *err: FX_ENOSPACE (the budget holds no more than scratch, or the system
// has not so much memory), FX_ENOMEM, FX_EIO. spec->vmm then stays the caller's.
fx_status fxi_kv_pool_open(fxi_kv_pool *p, const fxi_kv_pool_spec *spec, fx_error *err);
void fxi_kv_pool_close(fxi_kv_pool *p);
// The same, but leaves the backend to the caller if `theirs` is not NULL: it is the pool's.
void fxi_kv_pool_forsake(fxi_kv_pool *p, const vt_vmm *theirs);

uint64_t fxi_kv_pool_mapped_bytes(const fxi_kv_pool *p); // of the budget: pool and scratch

// Where byte `at` of scratch memory is.
static inline size_t fxi_kv_pool_scratch(const fxi_kv_pool *p, size_t at)
{
    return p->size_bytes + at;
}

// Lists a copy of bytes that do not overlap. Pre: fewer than most_copies are listed.
void fxi_kv_pool_list(fxi_kv_pool *p, size_t to, size_t from, size_t size_bytes);
// Makes all that are listed, in one call of the backend if it can, and empties the list. At once
// only after fxi_kv_pool_settle. Errors: FX_EIO; the targets then hold anything.
fx_status fxi_kv_pool_copy(fxi_kv_pool *p, vt_vmm_order order);

// Waits for the device: before the calls below, and before copies that are made at once. Errors:
// FX_EIO.
fx_status fxi_kv_pool_settle(fxi_kv_pool *p);
// Writes the first bytes of scratch memory to byte `at` of the swap, a multiple of chunk_bytes, and
// reads them back; *sum is the checksum of what was written, or found. Errors: FX_EIO, FX_ENOSPACE
// (only out: the file system is full).
fx_status fxi_kv_pool_swap_out(fxi_kv_pool *p, uint64_t at, size_t size_bytes, uint64_t *sum);
fx_status fxi_kv_pool_swap_in(fxi_kv_pool *p, uint64_t at, size_t size_bytes, uint64_t *sum);
void fxi_kv_pool_swap_drop(fxi_kv_pool *p, uint64_t at, size_t size_bytes);

// For tests: whether the system holds as much as the pool has.
bool fxi_kv_pool_is_resident(fxi_kv_pool *p);

#endif
