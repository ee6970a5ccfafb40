// ops.c - the VTO verbs: vAlloc, vFree, pAlloc, pFree, Map, Unmap. Each is one call of the backend
// with the pSet and the vSet brought in step behind it, and nothing changed where the call fails.
// vti_back and vti_shed put them together.
//
// The verbs name chunks by count from position 0, not by range: "so many are to be created",
// "so many are to stay mapped in this view". So a verb that finds its work done does nothing, and
// what a failed undo left behind (chunks created but not mapped, or mapped in some views only)
// is taken up by the next vti_back or vti_shed of that span without a case of its own.
#include "internal.h"

// Every answer of the backend passes here.
static vt_status met(vt_manager *m, vt_status st)
{
    m->tally.device_errors += st == VT_EDEVICE;
    return st;
}

uint32_t vti_created(const vt_manager *m, const vti_span *sp)
{
    return vti_pset_region_created(&m->pset, sp->region);
}

vt_status vti_valloc(vt_manager *m, vti_span **out)
{
    vti_span *sp;
    VT_TRY(vti_vset_push(&m->vset, &sp));
    vt_status st = vti_pset_open(&m->pset, sp->id, &sp->region);
    if (st != VT_OK) goto fail_span;
    st = met(m, m->vmm->ops->reserve(m->vmm, m->geo.span_bytes, &sp->addr));
    if (st != VT_OK) goto fail_region;
    *out = sp;
    return VT_OK;

fail_region:
    vti_pset_close(&m->pset, sp->region);
fail_span:
    vti_vset_pop(&m->vset);
    return st;
}

static vt_status vfree_try(vt_manager *m, vti_span *sp)
{
    VT_TRY(vti_shed(m, sp, 0));
    return met(m, m->vmm->ops->unreserve(m->vmm, sp->addr, m->geo.span_bytes));
}

// Spans are freed with their manager only. What the backend refuses twice to let go of stays the
// system's until the process ends: addresses are not given back where something may be mapped.
void vti_vfree(vt_manager *m, vti_span *sp)
{
    assert(sp->id == m->vset.n_span - 1 && !sp->seq);
    bool gone = vfree_try(m, sp) == VT_OK || vfree_try(m, sp) == VT_OK;
    if (gone) vti_pset_close(&m->pset, sp->region);
    vti_vset_pop(&m->vset);
}

vt_status vti_palloc(vt_manager *m, vti_span *sp, uint32_t upto)
{
    uint32_t have = vti_created(m, sp);
    if (have >= upto) return VT_OK;
    m->tally.create_calls++;
    uint64_t index = vti_pset_index(&m->pset, sp->region, have);
    VT_TRY(met(m, m->vmm->ops->create(m->vmm, index, upto - have)));
    vti_pset_move(&m->pset, sp->region, have, upto - have, VTI_CHUNK_FREE, VTI_CHUNK_SPARE);
    uint64_t now = vti_pset_created(&m->pset);
    if (now > m->tally.peak_chunks) m->tally.peak_chunks = now;
    return VT_OK;
}

vt_status vti_pfree(vt_manager *m, vti_span *sp, uint32_t keep)
{
    uint32_t have = vti_created(m, sp);
    if (have <= keep) return VT_OK;
    m->tally.destroy_calls++;
    uint64_t index = vti_pset_index(&m->pset, sp->region, keep);
    VT_TRY(met(m, m->vmm->ops->destroy(m->vmm, index, have - keep)));
    vti_pset_move(&m->pset, sp->region, keep, have - keep, VTI_CHUNK_SPARE, VTI_CHUNK_FREE);
    if (sp->n_dirty > keep) sp->n_dirty = keep;
    return VT_OK;
}

vt_status vti_map(vt_manager *m, vti_span *sp, uint32_t view, uint32_t upto)
{
    uint32_t have = sp->n_mapped[view];
    if (have >= upto) return VT_OK;
    m->tally.map_calls++;
    uint64_t index = vti_pset_index(&m->pset, sp->region, have);
    uintptr_t addr = vti_span_addr(&m->geo, sp, view, have);
    VT_TRY(met(m, m->vmm->ops->map(m->vmm, addr, view, index, upto - have)));
    vti_vset_set_mapped(&m->vset, sp, view, upto);
    return VT_OK;
}

vt_status vti_unmap(vt_manager *m, vti_span *sp, uint32_t view, uint32_t keep)
{
    uint32_t have = sp->n_mapped[view];
    if (have <= keep) return VT_OK;
    m->tally.unmap_calls++;
    uintptr_t addr = vti_span_addr(&m->geo, sp, view, keep);
    VT_TRY(met(m, m->vmm->ops->unmap(m->vmm, addr, (have - keep) * m->geo.slice_bytes)));
    vti_vset_set_mapped(&m->vset, sp, view, keep);
    return VT_OK;
}

// Wipes what the last sequence of an idle span owned. Through the mapping that is there: a quarter
// of the cost of giving the memory back and taking it anew.
// Pre: the dirty chunks are mapped in every view.
vt_status vti_zero(vt_manager *m, vti_span *sp)
{
    if (sp->n_dirty == 0) return VT_OK;
    assert(sp->n_dirty <= vti_span_even(sp, m->geo.n_view));
    size_t size_bytes = sp->n_dirty * m->geo.slice_bytes;
    for (uint32_t v = 0; v < m->geo.n_view; v++) {
        uintptr_t addr = vti_span_addr(&m->geo, sp, v, 0);
        VT_TRY(met(m, m->vmm->ops->zero(m->vmm, addr, size_bytes)));
    }
    sp->n_dirty = 0;
    return VT_OK;
}

vt_status vti_back(vt_manager *m, vti_span *sp, uint32_t upto)
{
    uint32_t had = vti_created(m, sp);
    vt_status st = vti_palloc(m, sp, upto);
    for (uint32_t v = 0; st == VT_OK && v < m->geo.n_view; v++) st = vti_map(m, sp, v, upto);
    // What cannot be undone stays: spare, zero and counted, and the next vti_back uses it.
    if (st != VT_OK) (void)vti_shed(m, sp, had);
    return st;
}

vt_status vti_shed(vt_manager *m, vti_span *sp, uint32_t keep)
{
    assert(keep >= sp->n_owned);
    for (uint32_t v = 0; v < m->geo.n_view; v++) VT_TRY(vti_unmap(m, sp, v, keep));
    return vti_pfree(m, sp, keep);
}
