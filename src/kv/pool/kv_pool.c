// kv_pool.c - see kv_pool.h.
//
// The chunks are the smallest that the backend can map, in one run; the last ones are scratch.
// Where the backend copies by fetch alone, a copy whose source and target lie in one chunk goes
// through them.
#include "kv/pool/kv_pool.h"

#include <assert.h>
#include <stdlib.h>

#include "kv/kv_status.h"

#define SLICE 0 // a chunk has one

// ---- life --------------------------------------------------------------------------------------

static uint64_t n_all_chunk(const fxi_kv_pool *p)
{
    return p->n_chunk + p->n_scratch;
}

uint64_t fxi_kv_pool_mapped_bytes(const fxi_kv_pool *p)
{
    return n_all_chunk(p) * p->chunk_bytes;
}

static vt_status configure_pool(fxi_kv_pool *p, const fxi_kv_pool_spec *spec)
{
    p->chunk_bytes = p->vmm->ops->granularity(p->vmm);
    const uint64_t n_all = spec->budget_bytes / p->chunk_bytes;
    p->n_scratch = 1 + (spec->scratch_bytes ? (spec->scratch_bytes - 1) / p->chunk_bytes : 0);
    if (n_all <= p->n_scratch) return VT_NOSPACE;
    p->n_chunk = n_all - p->n_scratch;
    p->size_bytes = (size_t)(p->n_chunk * p->chunk_bytes);
    const vt_vmm_geometry geo = {1, {{1, p->chunk_bytes, n_all_chunk(p)}}};
    return p->vmm->ops->configure(p->vmm, &geo);
}

static void leave_addresses(fxi_kv_pool *p)
{
    vt_status st = p->vmm->ops->unreserve(p->vmm, p->addr, fxi_kv_pool_mapped_bytes(p));
    (void)st; // the process's end returns them
}

static void leave_memory(fxi_kv_pool *p)
{
    vt_status st = p->vmm->ops->destroy(p->vmm, 0, n_all_chunk(p));
    (void)st;
}

static vt_status back_pool(fxi_kv_pool *p)
{
    const vt_vmm_ops *ops = p->vmm->ops;
    vt_status st = ops->reserve(p->vmm, fxi_kv_pool_mapped_bytes(p), &p->addr);
    if (st != VT_OK) return st;
    st = ops->create(p->vmm, 0, n_all_chunk(p));
    if (st == VT_OK) {
        st = ops->map(p->vmm, p->addr, SLICE, 0, n_all_chunk(p), VT_VMM_WRITE);
        if (st == VT_OK) return VT_OK;
        leave_memory(p);
    }
    leave_addresses(p);
    return st;
}

static void unback_pool(fxi_kv_pool *p)
{
    if (p->vmm->ops->unmap(p->vmm, p->addr, fxi_kv_pool_mapped_bytes(p)) != VT_OK) return;
    leave_memory(p);
    leave_addresses(p);
}

static vt_status open_on(fxi_kv_pool *p, const fxi_kv_pool_spec *spec)
{
    p->most_copies = spec->most_copies;
    p->copy = calloc((size_t)spec->most_copies + 1, sizeof *p->copy);
    vt_status st = p->copy ? configure_pool(p, spec) : VT_ENOMEM;
    if (st == VT_OK) st = back_pool(p);
    if (st != VT_OK || !spec->swap_bytes) return st;
    st = p->vmm->ops->swap_open(p->vmm, spec->swap_dir, spec->swap_bytes);
    if (st != VT_OK) unback_pool(p);
    return st;
}

fx_status fxi_kv_pool_open(fxi_kv_pool *p, const fxi_kv_pool_spec *spec, fx_error *err)
{
    *p = (fxi_kv_pool){.vmm = spec->vmm};
    vt_status st = p->vmm ? VT_OK : vt_vmm_host_open(&p->vmm);
    if (st == VT_OK) {
        st = open_on(p, spec);
        if (st != VT_OK) free(p->copy);
        if (st != VT_OK && !spec->vmm) p->vmm->ops->close(p->vmm);
    }
    if (st == VT_OK) return FX_OK;
    const char *trouble = vt_vmm_host_trouble();
    if (trouble) return fxi_fail(err, fxi_kv_status_of(st), "KV cache: %s", trouble);
    return fxi_fail(err, fxi_kv_status_of(st), "KV cache: the pool of %llu bytes, %llu of swap: %s",
                    (unsigned long long)spec->budget_bytes, (unsigned long long)spec->swap_bytes,
                    st == VT_NOSPACE ? "there is not so much memory" : "the system failed");
}

void fxi_kv_pool_forsake(fxi_kv_pool *p, const vt_vmm *theirs)
{
    (void)fxi_kv_pool_settle(p);
    unback_pool(p);
    free(p->copy);
    if (!theirs) p->vmm->ops->close(p->vmm);
}

void fxi_kv_pool_close(fxi_kv_pool *p)
{
    fxi_kv_pool_forsake(p, NULL);
}

// ---- copies ------------------------------------------------------------------------------------

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Copies from a chunk to other chunks. Pre: the bytes lie in the chunk.
static vt_status fetch_bytes(fxi_kv_pool *p, size_t to, size_t from, size_t size_bytes,
                             vt_vmm_order order)
{
    return p->vmm->ops->fetch(p->vmm, p->addr + to, SLICE, from / p->chunk_bytes,
                              from % p->chunk_bytes, size_bytes, order);
}

static vt_status copy_piece(fxi_kv_pool *p, size_t to, size_t from, size_t size_bytes,
                            vt_vmm_order order)
{
    const size_t chunk = from / p->chunk_bytes, scratch = p->size_bytes;
    const bool is_apart =
        to / p->chunk_bytes > chunk || (to + size_bytes - 1) / p->chunk_bytes < chunk;
    if (is_apart) return fetch_bytes(p, to, from, size_bytes, order);
    const vt_status st = fetch_bytes(p, scratch, from, size_bytes, order);
    return st == VT_OK ? fetch_bytes(p, to, scratch, size_bytes, order) : st;
}

static fx_status copy_pieces(fxi_kv_pool *p, size_t to, size_t from, size_t size_bytes,
                             vt_vmm_order order)
{
    while (size_bytes) {
        const size_t n = min_size(size_bytes, p->chunk_bytes - from % p->chunk_bytes);
        if (copy_piece(p, to, from, n, order) != VT_OK) return FX_EIO;
        to += n, from += n, size_bytes -= n;
    }
    return FX_OK;
}

void fxi_kv_pool_list(fxi_kv_pool *p, size_t to, size_t from, size_t size_bytes)
{
    assert(p->n_copy < p->most_copies);
    p->copy[p->n_copy++] = (vt_vmm_copy){p->addr + to, p->addr + from, size_bytes};
}

static fx_status copy_listed(fxi_kv_pool *p, vt_vmm_order order)
{
    const vt_vmm_ops *ops = p->vmm->ops;
    if (ops->copy_each)
        return ops->copy_each(p->vmm, p->copy, (uint64_t)p->n_copy, order) == VT_OK ? FX_OK
                                                                                    : FX_EIO;
    for (int i = 0; i < p->n_copy; i++) {
        const vt_vmm_copy *c = &p->copy[i];
        FX_TRY(copy_pieces(p, c->dst - p->addr, c->src - p->addr, c->size_bytes, order));
    }
    return FX_OK;
}

fx_status fxi_kv_pool_copy(fxi_kv_pool *p, vt_vmm_order order)
{
    const fx_status st = copy_listed(p, order);
    p->n_copy = 0;
    return st;
}

// ---- swap --------------------------------------------------------------------------------------

fx_status fxi_kv_pool_settle(fxi_kv_pool *p)
{
    uint64_t ticket;
    bool is_passed;
    if (p->vmm->ops->fence(p->vmm, &ticket) != VT_OK) return FX_EIO;
    return p->vmm->ops->passed(p->vmm, ticket, true, &is_passed) == VT_OK ? FX_OK : FX_EIO;
}

fx_status fxi_kv_pool_swap_out(fxi_kv_pool *p, uint64_t at, size_t size_bytes, uint64_t *sum)
{
    return fxi_kv_status_of(
        p->vmm->ops->swap_write(p->vmm, at, p->addr + p->size_bytes, size_bytes, sum));
}

fx_status fxi_kv_pool_swap_in(fxi_kv_pool *p, uint64_t at, size_t size_bytes, uint64_t *sum)
{
    return fxi_kv_status_of(
        p->vmm->ops->swap_read(p->vmm, p->addr + p->size_bytes, at, size_bytes, sum));
}

void fxi_kv_pool_swap_drop(fxi_kv_pool *p, uint64_t at, size_t size_bytes)
{
    p->vmm->ops->swap_drop(p->vmm, at, size_bytes);
}

bool fxi_kv_pool_is_resident(fxi_kv_pool *p)
{
    uint64_t size_bytes;
    return p->vmm->ops->resident(p->vmm, &size_bytes) == VT_OK &&
           size_bytes == fxi_kv_pool_mapped_bytes(p);
}
