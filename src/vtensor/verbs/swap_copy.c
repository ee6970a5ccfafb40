// swap_copy.c - copies between memory and the swap, in steps of a slice: a job for growth waits for
// no more than that.
//
// Slice v of the chunk in slot i lies at i x slot_bytes + v x slice_bytes of the swap. The checksum
// of a chunk depends on each slice and on their order; it is compared when the chunk is read back.
// The device is done with what is copied, so nothing here waits for it.
#include "verbs.h"

#include "vtensor/core/common.h"

// Of the chunk that comes next.
static vt_status slice_move(const vt_manager *m, const vti_copy *c, uint64_t *sum)
{
    const vti_swapped *e = &c->list[c->job.n_done];
    uint32_t view = c->job.n_view;
    size_t slice_bytes = m->geo.group[e->group].slice_bytes;
    uint64_t offset = e->slot * m->swap.slot_bytes + view * slice_bytes;
    uintptr_t addr = vti_lane_addr(&m->geo, c->span, e->group, view, e->position);
    if (c->job.kind == VTI_JOB_READ)
        return m->vmm->ops->swap_read(m->vmm, addr, offset, slice_bytes, sum);
    vt_status st = m->vmm->ops->swap_write(m->vmm, offset, addr, slice_bytes, sum);
    return st == VT_NOSPACE ? VT_NOSWAP : st;
}

static bool copy_failed(vti_copy *c, vt_status st)
{
    c->job.st = st;
    return false;
}

// WRITE leaves out what is in the swap already, and READ what is still in memory.
static bool copy_is_due(const vti_copy *c)
{
    return c->list[c->job.n_done].is_out == (c->job.kind == VTI_JOB_READ);
}

static bool chunk_done(vti_copy *c)
{
    vti_swapped *e = &c->list[c->job.n_done];
    if (c->job.kind == VTI_JOB_WRITE) e->sum = c->sum;
    c->is_corrupt = e->sum != c->sum;
    if (c->is_corrupt) return copy_failed(c, VT_EDEVICE);
    c->sum = 0;
    c->job.n_view = 0;
    c->job.n_done++;
    atomic_store_explicit(&c->n_moved, c->job.n_done, memory_order_release);
    return c->job.n_done < c->job.n;
}

static bool copy_slice(const vt_manager *m, vti_copy *c)
{
    uint64_t one;
    while (c->job.n_done < c->job.n && !copy_is_due(c)) c->job.n_done++;
    if (c->job.n_done == c->job.n) return false;
    vt_status st = vti_calls_count(&c->job.calls, slice_move(m, c, &one));
    if (st != VT_OK) return copy_failed(c, st);
    c->sum = vt_vmm_checksum(c->sum, &one, sizeof one);
    if (++c->job.n_view < m->geo.group[c->list[c->job.n_done].group].n_view) return true;
    return chunk_done(c);
}

static bool drop_slot(const vt_manager *m, vti_copy *c)
{
    uint64_t offset = c->list[c->job.n_done].slot * m->swap.slot_bytes;
    m->vmm->ops->swap_drop(m->vmm, offset, m->swap.slot_bytes);
    return ++c->job.n_done < c->job.n;
}

bool vti_copy_step(const vt_manager *m, vti_copy *c)
{
    return c->job.kind == VTI_JOB_DROP ? drop_slot(m, c) : copy_slice(m, c);
}
