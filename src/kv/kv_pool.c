// kv_pool.c - see kv_pool.h.
//
// The chunks are the smallest that the backend can map, in one run; the last ones are scratch.
#include "kv/kv_pool.h"

#include <assert.h>
#include <stdlib.h>

#include "kv/kv_managers.h"

#define SLICE 0 // a chunk has one

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

// ---- life --------------------------------------------------------------------------------------

// Undoes the first n_done steps of back_rank. What fails is returned by the end of the process.
static void unback_rank(const fxi_kv_pool *p, const fxi_kv_pool_rank *r, int n_done)
{
    vt_vmm *vmm = r->vmm;
    vt_status st = n_done > 2 ? vmm->ops->unmap(vmm, r->addr, rank_bytes(p)) : VT_OK;
    if (st != VT_OK) return;
    if (n_done > 1) st = vmm->ops->destroy(vmm, 0, n_all_chunk(p));
    st = vmm->ops->unreserve(vmm, r->addr, rank_bytes(p));
    (void)st;
}

static vt_status back_rank(const fxi_kv_pool *p, const fxi_kv_shape *shape, fxi_kv_pool_rank *r)
{
    const vt_vmm_ops *ops = r->vmm->ops;
    int n_done = 1;
    vt_status st = ops->reserve(r->vmm, rank_bytes(p), &r->addr);
    if (st != VT_OK) return st;
    st = ops->create(r->vmm, 0, n_all_chunk(p));
    if (st == VT_OK) {
        n_done++;
        st = ops->map(r->vmm, r->addr, SLICE, 0, n_all_chunk(p), VT_VMM_WRITE);
    }
    if (st == VT_OK) {
        n_done++;
        if (p->swap_bytes) st = ops->swap_open(r->vmm, shape->swap_dir, p->swap_bytes);
    }
    if (st != VT_OK) unback_rank(p, r, n_done);
    return st;
}

// What all ranks have, by the granularity of the first.
static vt_status divide_budget(fxi_kv_pool *p, const fxi_kv_shape *shape, size_t scratch_bytes,
                               size_t granularity)
{
    const uint64_t n = (uint64_t)fxi_kv_n_device(shape);
    p->chunk_bytes = granularity;
    const uint64_t n_all = shape->budget_bytes / n / p->chunk_bytes;
    p->n_scratch = (scratch_bytes + p->chunk_bytes - 1) / p->chunk_bytes;
    if (n_all <= p->n_scratch) return VT_NOSPACE;
    p->n_chunk = n_all - p->n_scratch;
    p->size_bytes = (size_t)(p->n_chunk * p->chunk_bytes);
    if (scratch_bytes) p->swap_bytes = shape->swap_bytes / n / p->chunk_bytes * p->chunk_bytes;
    return VT_OK;
}

static vt_status open_rank(fxi_kv_pool *p, const fxi_kv_shape *shape, size_t scratch_bytes)
{
    vt_vmm *const given = fxi_kv_given_memory(shape, p->n_rank);
    fxi_kv_pool_rank *r = &p->rank[p->n_rank];
    *r = (fxi_kv_pool_rank){.vmm = given, .is_given = given != NULL};
    vt_status st = given ? VT_OK : vt_vmm_host_open(&r->vmm);
    if (st != VT_OK) return st;
    const size_t granularity = r->vmm->ops->granularity(r->vmm);
    if (!p->n_rank)
        st = divide_budget(p, shape, scratch_bytes, granularity);
    else if (granularity != p->chunk_bytes)
        st = VT_EINVAL;
    const vt_vmm_geometry geo = {1, {{1, p->chunk_bytes, n_all_chunk(p)}}};
    if (st == VT_OK) st = r->vmm->ops->configure(r->vmm, &geo);
    if (st == VT_OK) st = back_rank(p, shape, r);
    if (st == VT_OK)
        p->n_rank++;
    else if (!given)
        r->vmm->ops->close(r->vmm);
    return st;
}

fx_status fxi_kv_pool_open(fxi_kv_pool *p, const fxi_kv_shape *shape, size_t scratch_bytes,
                           fx_error *err)
{
    const int max_copy = fxi_kv_n_plane(&shape->layout);
    *p = (fxi_kv_pool){.layout = fxi_kv_part_of(shape),
                       .listed = calloc((size_t)max_copy + 1, sizeof *p->listed),
                       .placed = calloc((size_t)max_copy + 1, sizeof *p->placed),
                       .max_copy = max_copy};
    vt_status st = p->listed && p->placed ? VT_OK : VT_ENOMEM;
    while (st == VT_OK && p->n_rank < fxi_kv_n_device(shape))
        st = open_rank(p, shape, scratch_bytes);
    if (st == VT_OK) return FX_OK;
    fxi_kv_pool_close(p);
    const char *trouble = vt_vmm_host_trouble();
    if (st == VT_EINVAL)
        return fxi_fail(err, FX_EINVAL, "KV cache: the devices have memory pages of two sizes");
    if (trouble) return fxi_fail(err, fxi_kv_status_of(st), "KV cache: %s", trouble);
    return fxi_fail(err, fxi_kv_status_of(st), "KV cache: the pool of %llu bytes, %llu of swap: %s",
                    (unsigned long long)shape->budget_bytes, (unsigned long long)shape->swap_bytes,
                    st == VT_NOSPACE ? "there is not enough memory" : "the system failed");
}

void fxi_kv_pool_close(fxi_kv_pool *p)
{
    (void)fxi_kv_pool_settle(p); // what a device still does is lost
    for (int k = 0; k < p->n_rank; k++) {
        unback_rank(p, &p->rank[k], 3);
        if (!p->rank[k].is_given) p->rank[k].vmm->ops->close(p->rank[k].vmm);
    }
    free(p->listed);
    free(p->placed);
}

// ---- rows --------------------------------------------------------------------------------------

void fxi_kv_pool_divide(fxi_kv_pool *p, uint64_t n_row)
{
    size_t at = 0;
    p->n_row = n_row;
    for (int g = 0; g < p->layout.n_group; g++) {
        const fxi_kv_group *gr = &p->layout.group[g];
        p->region[g] = at;
        at += (size_t)n_row * (size_t)gr->n_plane * gr->row_bytes;
    }
}

size_t fxi_kv_pool_byte(const fxi_kv_pool *p, int group, int plane, uint64_t row)
{
    const size_t row_bytes = p->layout.group[group].row_bytes;
    return p->region[group] + ((size_t)plane * (size_t)p->n_row + (size_t)row) * row_bytes;
}

void fxi_kv_pool_show(const fxi_kv_pool *p, uint64_t row, fxi_kv_views *out)
{
    for (int g = 0; g < p->layout.n_group; g++) {
        const size_t at = fxi_kv_pool_byte(p, g, 0, row);
        const size_t row_bytes = p->layout.group[g].row_bytes;
        out->group[g] = (fxi_kv_view){.base = (char *)p->rank[0].addr + at,
                                      .plane_stride_bytes = (size_t)p->n_row * row_bytes,
                                      .tok_stride_bytes = row_bytes};
        for (int k = 1; k < p->n_rank; k++) out->rank_base[k - 1][g] = (char *)p->rank[k].addr + at;
    }
}

// ---- copies ------------------------------------------------------------------------------------

void fxi_kv_pool_list(fxi_kv_pool *p, size_t to, size_t from, size_t size_bytes)
{
    assert(p->n_copy < p->max_copy);
    p->listed[p->n_copy++] = (vt_vmm_copy){to, from, size_bytes};
}

fx_status fxi_kv_pool_copy(fxi_kv_pool *p, vt_vmm_order order)
{
    vt_status st = VT_OK;
    for (int k = 0; k < p->n_rank && st == VT_OK; k++) {
        const fxi_kv_pool_rank *r = &p->rank[k];
        for (int i = 0; i < p->n_copy; i++) {
            const vt_vmm_copy *l = &p->listed[i];
            p->placed[i] = (vt_vmm_copy){r->addr + l->dst, r->addr + l->src, l->size_bytes};
        }
        st = r->vmm->ops->copy_each(r->vmm, p->placed, (uint64_t)p->n_copy, order);
    }
    p->n_copy = 0;
    return st == VT_OK ? FX_OK : FX_EIO;
}

fx_status fxi_kv_pool_copy_rows(fxi_kv_pool *p, uint64_t to, uint64_t from, int n_row)
{
    for (int g = 0; g < p->layout.n_group; g++)
        for (int plane = 0; plane < p->layout.group[g].n_plane; plane++)
            fxi_kv_pool_list(p, fxi_kv_pool_byte(p, g, plane, to),
                             fxi_kv_pool_byte(p, g, plane, from),
                             (size_t)n_row * p->layout.group[g].row_bytes);
    return fxi_kv_pool_copy(p, VT_VMM_QUEUED);
}

fx_status fxi_kv_pool_settle(const fxi_kv_pool *p)
{
    fx_status first = FX_OK;
    for (int k = 0; k < p->n_rank; k++) {
        vt_vmm *vmm = p->rank[k].vmm;
        uint64_t ticket;
        bool is_passed;
        vt_status st = vmm->ops->fence(vmm, &ticket);
        if (st == VT_OK) st = vmm->ops->passed(vmm, ticket, true, &is_passed);
        if (st != VT_OK) first = FX_EIO;
    }
    return first;
}

// ---- swap --------------------------------------------------------------------------------------

fx_status fxi_kv_pool_swap(const fxi_kv_pool *p, bool out, uint64_t at, size_t size_bytes,
                           uint64_t *sum)
{
    for (int k = 0; k < p->n_rank; k++) {
        vt_vmm *const vmm = p->rank[k].vmm;
        const uintptr_t scratch = p->rank[k].addr + p->size_bytes;
        FX_TRY(fxi_kv_status_of(out ? vmm->ops->swap_write(vmm, at, scratch, size_bytes, &sum[k])
                                    : vmm->ops->swap_read(vmm, scratch, at, size_bytes, &sum[k])));
    }
    return FX_OK;
}

void fxi_kv_pool_swap_drop(const fxi_kv_pool *p, uint64_t at, size_t size_bytes)
{
    for (int k = 0; k < p->n_rank; k++)
        p->rank[k].vmm->ops->swap_drop(p->rank[k].vmm, at, size_bytes);
}

bool fxi_kv_pool_is_resident(const fxi_kv_pool *p)
{
    for (int k = 0; k < p->n_rank; k++) {
        uint64_t size_bytes;
        vt_vmm *const vmm = p->rank[k].vmm;
        if (vmm->ops->resident(vmm, &size_bytes) != VT_OK || size_bytes != rank_bytes(p))
            return false;
    }
    return true;
}
