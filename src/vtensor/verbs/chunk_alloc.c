// chunk_alloc.c - vAlloc and vFree of spans, pAlloc and pFree of chunks: each calls the backend and
// updates the structure.
#include "verbs.h"

#include <assert.h>

#include "vtensor/common/try.h"

vt_status vti_span_alloc(vt_manager *m, vti_span **out)
{
    vti_span *sp;
    VT_TRY(vti_vset_push(&m->vset, &sp));
    vt_status st = vti_tally_backend(m, m->vmm->ops->reserve(m->vmm, m->geo.span_bytes, &sp->addr));
    if (st != VT_OK) {
        vti_vset_pop(&m->vset);
        return st;
    }
    vti_vset_list(&m->vset, sp);
    *out = sp;
    return VT_OK;
}

static vt_status vfree_try(vt_manager *m, vti_span *sp)
{
    VT_TRY(vti_span_unmap(m, sp, 0, sp->n_end));
    return vti_tally_backend(m, m->vmm->ops->unreserve(m->vmm, sp->addr, m->geo.span_bytes));
}

// Spans are freed with their manager only. If the backend fails twice, the addresses stay reserved
// until the process ends, since something may still be mapped there.
void vti_span_free(vt_manager *m, vti_span *sp)
{
    assert(sp->id == m->vset.n_span - 1 && sp->state != VTI_SPAN_LIVE);
    if (vfree_try(m, sp) != VT_OK) (void)vfree_try(m, sp);
    vti_vset_unlist(&m->vset, sp);
    vti_vset_pop(&m->vset);
}

vt_status vti_chunks_alloc(vt_manager *m, uint32_t region, uint32_t first, uint32_t n)
{
    m->tally.calls.create_calls++;
    uint64_t index = vti_pset_index(&m->pset, region, first);
    VT_TRY(vti_tally_backend(m, m->vmm->ops->create(m->vmm, index, n)));
    vti_pset_create(&m->pset, region, first, n);
    uint64_t now = vti_pset_created(&m->pset);
    if (now > m->tally.peak_chunks) m->tally.peak_chunks = now;
    return VT_OK;
}

vt_status vti_chunks_free(vt_manager *m, uint32_t region, uint32_t first, uint32_t n)
{
    VT_TRY(vti_tears_repair(m, region, first, n));
    m->tally.calls.destroy_calls++;
    uint64_t index = vti_pset_index(&m->pset, region, first);
    VT_TRY(vti_tally_backend(m, m->vmm->ops->destroy(m->vmm, index, n)));
    vti_pset_destroy(&m->pset, region, first, n);
    return VT_OK;
}
