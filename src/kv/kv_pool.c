// kv_pool.c - see kv_pool.h.
//
// The chunks are the smallest that the backend can map, in one run; the last ones are scratch.
// Where the backend copies by fetch alone, a copy whose source and target lie in one chunk goes
// through the first of them.
#include "kv/kv_pool.h"

#include <assert.h>
#include <stdlib.h>

#include "kv/kv_managers.h"

#define SLICE 0 // a chunk has one

// ---- the memory of a device --------------------------------------------------------------------

static uint64_t n_all_chunk(const fxi_kv_pool *p)
{
    return p->n_chunk + p->n_scratch;
}

static uint64_t rank_bytes(const fxi_kv_pool *p)
{
    return n_all_chunk(p) * p->chunk_bytes;
}

uint64_t fxi_kv_pool_mapped_bytes(const fxi_kv_pool *p)
{
    return rank_bytes(p) * (uint64_t)p->n_rank;
}

static void leave_addresses(const fxi_kv_pool *p, const fxi_kv_pool_rank *r)
{
    vt_status st = r->vmm->ops->unreserve(r->vmm, r->addr, rank_bytes(p));
    (void)st; // the process's end returns them
}

static void leave_memory(const fxi_kv_pool *p, const fxi_kv_pool_rank *r)
{
    vt_status st = r->vmm->ops->destroy(r->vmm, 0, n_all_chunk(p));
    (void)st;
}

static vt_status back_rank(const fxi_kv_pool *p, fxi_kv_pool_rank *r)
{
    const vt_vmm_ops *ops = r->vmm->ops;
    vt_status st = ops->reserve(r->vmm, rank_bytes(p), &r->addr);
    if (st != VT_OK) return st;
    st = ops->create(r->vmm, 0, n_all_chunk(p));
    if (st == VT_OK) {
        st = ops->map(r->vmm, r->addr, SLICE, 0, n_all_chunk(p), VT_VMM_WRITE);
        if (st == VT_OK) return VT_OK;
        leave_memory(p, r);
    }
    leave_addresses(p, r);
    return st;
}

static void unback_rank(const fxi_kv_pool *p, const fxi_kv_pool_rank *r)
{
    if (r->vmm->ops->unmap(r->vmm, r->addr, rank_bytes(p)) != VT_OK) return;
    leave_memory(p, r);
    leave_addresses(p, r);
}

// ---- life --------------------------------------------------------------------------------------

// What all ranks have, by the granularity of the first.
static vt_status divide_budget(fxi_kv_pool *p, const fxi_kv_pool_spec *spec, size_t granularity)
{
    const uint64_t n = (uint64_t)fxi_kv_n_device(spec->shape);
    p->chunk_bytes = granularity;
    const uint64_t n_all = spec->shape->budget_bytes / n / p->chunk_bytes;
    p->n_scratch = 1 + (spec->scratch_bytes + p->chunk_bytes - 1) / p->chunk_bytes;
    if (n_all <= p->n_scratch) return VT_NOSPACE;
    p->n_chunk = n_all - p->n_scratch;
    p->size_bytes = (size_t)(p->n_chunk * p->chunk_bytes);
    if (spec->scratch_bytes)
        p->swap_bytes = spec->shape->swap_bytes / n / p->chunk_bytes * p->chunk_bytes;
    return VT_OK;
}

static vt_status set_up_rank(fxi_kv_pool *p, const fxi_kv_pool_spec *spec, fxi_kv_pool_rank *r)
{
    const vt_vmm_ops *ops = r->vmm->ops;
    const size_t granularity = ops->granularity(r->vmm);
    vt_status st = p->n_rank ? VT_OK : divide_budget(p, spec, granularity);
    if (st == VT_OK && granularity != p->chunk_bytes) st = VT_EINVAL;
    const vt_vmm_geometry geo = {1, {{1, p->chunk_bytes, n_all_chunk(p)}}};
    if (st == VT_OK) st = ops->configure(r->vmm, &geo);
    if (st == VT_OK) st = back_rank(p, r);
    if (st != VT_OK || !p->swap_bytes) return st;
    st = ops->swap_open(r->vmm, spec->shape->swap_dir, p->swap_bytes);
    if (st != VT_OK) unback_rank(p, r);
    return st;
}

// The memory that the caller gives for rank k, or NULL.
static vt_vmm *given_memory(const fxi_kv_shape *shape, int k)
{
    return shape->n_rank ? shape->rank_vmm[k] : shape->vmm;
}

static vt_status open_rank(fxi_kv_pool *p, const fxi_kv_pool_spec *spec)
{
    vt_vmm *const given = given_memory(spec->shape, p->n_rank);
    fxi_kv_pool_rank *r = &p->rank[p->n_rank];
    r->vmm = given;
    vt_status st = given ? VT_OK : vt_vmm_host_open(&r->vmm);
    if (st != VT_OK) return st;
    st = set_up_rank(p, spec, r);
    if (st == VT_OK)
        p->n_rank++;
    else if (!given)
        r->vmm->ops->close(r->vmm);
    return st;
}

static fx_status pool_fails(const fxi_kv_shape *shape, vt_status st, fx_error *err)
{
    const char *trouble = vt_vmm_host_trouble();
    if (st == VT_EINVAL)
        return fxi_fail(err, FX_EINVAL, "KV cache: the devices have memory pages of two sizes");
    if (trouble) return fxi_fail(err, fxi_kv_status_of(st), "KV cache: %s", trouble);
    return fxi_fail(err, fxi_kv_status_of(st), "KV cache: the pool of %llu bytes, %llu of swap: %s",
                    (unsigned long long)shape->budget_bytes, (unsigned long long)shape->swap_bytes,
                    st == VT_NOSPACE ? "there is not enough memory" : "the system failed");
}

fx_status fxi_kv_pool_open(fxi_kv_pool *p, const fxi_kv_pool_spec *spec, fx_error *err)
{
    *p = (fxi_kv_pool){.n_rank = 0};
    vt_status st = fxi_kv_copies_open(&p->copies, spec->most_copies) ? VT_OK : VT_ENOMEM;
    while (st == VT_OK && p->n_rank < fxi_kv_n_device(spec->shape)) st = open_rank(p, spec);
    if (st == VT_OK) return FX_OK;
    fxi_kv_pool_forsake(p, spec->shape);
    return pool_fails(spec->shape, st, err);
}

static vt_status mark_rank(const fxi_kv_pool_rank *r, uint64_t *ticket)
{
    return r->vmm->ops->fence(r->vmm, ticket);
}

static vt_status await_rank(const fxi_kv_pool_rank *r, uint64_t ticket)
{
    bool is_passed;
    return r->vmm->ops->passed(r->vmm, ticket, true, &is_passed);
}

static void settle_rank(const fxi_kv_pool_rank *r)
{
    uint64_t ticket;
    vt_status st = mark_rank(r, &ticket);
    if (st == VT_OK) st = await_rank(r, ticket);
    (void)st; // what it still does is lost
}

void fxi_kv_pool_forsake(fxi_kv_pool *p, const fxi_kv_shape *shape)
{
    for (int k = 0; k < p->n_rank; k++) {
        fxi_kv_pool_rank *r = &p->rank[k];
        settle_rank(r);
        unback_rank(p, r);
        if (!shape || !given_memory(shape, k)) r->vmm->ops->close(r->vmm);
    }
    fxi_kv_copies_close(&p->copies);
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
static vt_status fetch_bytes(const fxi_kv_pool *p, const fxi_kv_pool_rank *r, vt_vmm_copy c,
                             vt_vmm_order order)
{
    return r->vmm->ops->fetch(r->vmm, r->addr + c.dst, SLICE, c.src / p->chunk_bytes,
                              c.src % p->chunk_bytes, c.size_bytes, order);
}

static vt_status copy_piece(const fxi_kv_pool *p, const fxi_kv_pool_rank *r, vt_vmm_copy c,
                            vt_vmm_order order)
{
    const size_t chunk = c.src / p->chunk_bytes, scratch = p->size_bytes;
    const bool is_apart =
        c.dst / p->chunk_bytes > chunk || (c.dst + c.size_bytes - 1) / p->chunk_bytes < chunk;
    if (is_apart) return fetch_bytes(p, r, c, order);
    const vt_status st = fetch_bytes(p, r, (vt_vmm_copy){scratch, c.src, c.size_bytes}, order);
    c.src = scratch;
    return st == VT_OK ? fetch_bytes(p, r, c, order) : st;
}

static vt_status copy_pieces(const fxi_kv_pool *p, const fxi_kv_pool_rank *r, vt_vmm_copy c,
                             vt_vmm_order order)
{
    vt_status st = VT_OK;
    while (c.size_bytes && st == VT_OK) {
        const size_t n = min_size(c.size_bytes, p->chunk_bytes - c.src % p->chunk_bytes);
        st = copy_piece(p, r, (vt_vmm_copy){c.dst, c.src, n}, order);
        c.dst += n, c.src += n, c.size_bytes -= n;
    }
    return st;
}

bool fxi_kv_copies_open(fxi_kv_copies *c, int most)
{
    *c = (fxi_kv_copies){.most = most};
    c->listed = calloc((size_t)most + 1, sizeof *c->listed);
    c->placed = calloc((size_t)most + 1, sizeof *c->placed);
    return c->listed && c->placed;
}

void fxi_kv_copies_close(fxi_kv_copies *c)
{
    free(c->listed);
    free(c->placed);
}

void fxi_kv_copies_list(fxi_kv_copies *c, size_t to, size_t from, size_t size_bytes)
{
    assert(c->n < c->most);
    c->listed[c->n++] = (vt_vmm_copy){to, from, size_bytes};
}

static vt_status copy_on_rank(const fxi_kv_pool *p, const fxi_kv_pool_rank *r, fxi_kv_copies *c,
                              vt_vmm_order order)
{
    const vt_vmm_ops *ops = r->vmm->ops;
    vt_status st = VT_OK;
    for (int i = 0; i < c->n; i++) {
        const vt_vmm_copy *l = &c->listed[i];
        c->placed[i] = (vt_vmm_copy){r->addr + l->dst, r->addr + l->src, l->size_bytes};
    }
    if (ops->copy_each) return ops->copy_each(r->vmm, c->placed, (uint64_t)c->n, order);
    for (int i = 0; i < c->n && st == VT_OK; i++) st = copy_pieces(p, r, c->listed[i], order);
    return st;
}

fx_status fxi_kv_pool_copy(const fxi_kv_pool *p, fxi_kv_copies *c, vt_vmm_order order)
{
    vt_status st = VT_OK;
    for (int k = 0; k < p->n_rank && st == VT_OK; k++) st = copy_on_rank(p, &p->rank[k], c, order);
    c->n = 0;
    return st == VT_OK ? FX_OK : FX_EIO;
}

// ---- swap --------------------------------------------------------------------------------------

fx_status fxi_kv_pool_mark(const fxi_kv_pool *p, uint64_t *ticket)
{
    for (int k = 0; k < p->n_rank; k++)
        if (mark_rank(&p->rank[k], &ticket[k]) != VT_OK) return FX_EIO;
    return FX_OK;
}

fx_status fxi_kv_pool_await(const fxi_kv_pool *p, const uint64_t *ticket)
{
    for (int k = 0; k < p->n_rank; k++)
        if (await_rank(&p->rank[k], ticket[k]) != VT_OK) return FX_EIO;
    return FX_OK;
}

fx_status fxi_kv_pool_swap_out(const fxi_kv_pool *p, uint64_t at, size_t size_bytes, uint64_t *sum)
{
    const size_t scratch = fxi_kv_pool_scratch(p, 0);
    for (int k = 0; k < p->n_rank; k++) {
        const fxi_kv_pool_rank *r = &p->rank[k];
        FX_TRY(fxi_kv_status_of(
            r->vmm->ops->swap_write(r->vmm, at, r->addr + scratch, size_bytes, &sum[k])));
    }
    return FX_OK;
}

fx_status fxi_kv_pool_swap_in(const fxi_kv_pool *p, uint64_t at, size_t size_bytes, uint64_t *sum)
{
    const size_t scratch = fxi_kv_pool_scratch(p, 0);
    for (int k = 0; k < p->n_rank; k++) {
        const fxi_kv_pool_rank *r = &p->rank[k];
        FX_TRY(fxi_kv_status_of(
            r->vmm->ops->swap_read(r->vmm, r->addr + scratch, at, size_bytes, &sum[k])));
    }
    return FX_OK;
}

void fxi_kv_pool_swap_drop(const fxi_kv_pool *p, uint64_t at, size_t size_bytes)
{
    for (int k = 0; k < p->n_rank; k++)
        p->rank[k].vmm->ops->swap_drop(p->rank[k].vmm, at, size_bytes);
}

bool fxi_kv_pool_is_resident(fxi_kv_pool *p)
{
    for (int k = 0; k < p->n_rank; k++) {
        uint64_t size_bytes;
        vt_vmm *const vmm = p->rank[k].vmm;
        if (vmm->ops->resident(vmm, &size_bytes) != VT_OK || size_bytes != rank_bytes(p))
            return false;
    }
    return true;
}
