// span_copy.c - bytes: copies between a span and a chunk that need not be mapped, and wiping. Each
// function does the same in every view.
#include "verbs.h"

#include "vtensor/common/try.h"

vt_status vti_span_fetch(vt_manager *m, vti_span *sp, uint32_t position, uint32_t from_region,
                         size_t size_bytes)
{
    uint64_t index = vti_pset_index(&m->pset, from_region, position);
    for (uint32_t v = 0; v < m->geo.n_view; v++) {
        uintptr_t dst = vti_span_addr(&m->geo, sp, v, position);
        VT_TRY(vti_tally_backend(m, m->vmm->ops->fetch(m->vmm, dst, v, index, 0, size_bytes)));
    }
    m->tally.copied_chunks++;
    return VT_OK;
}

vt_status vti_span_store(vt_manager *m, const vti_span *sp, uint32_t position, uint32_t to_region,
                         size_t size_bytes)
{
    uint64_t index = vti_pset_index(&m->pset, to_region, position);
    for (uint32_t v = 0; v < m->geo.n_view; v++) {
        uintptr_t src = vti_span_addr(&m->geo, sp, v, position);
        VT_TRY(vti_tally_backend(m, m->vmm->ops->store(m->vmm, v, index, 0, src, size_bytes)));
    }
    m->tally.copied_chunks++;
    return VT_OK;
}

vt_status vti_span_zero(vt_manager *m, vti_span *sp, uint32_t position, size_t offset)
{
    for (uint32_t v = 0; v < m->geo.n_view; v++) {
        uintptr_t addr = vti_span_addr(&m->geo, sp, v, position) + offset;
        VT_TRY(vti_tally_backend(m, m->vmm->ops->zero(m->vmm, addr, m->geo.slice_bytes - offset)));
    }
    return VT_OK;
}
