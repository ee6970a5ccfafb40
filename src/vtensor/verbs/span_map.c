// span_map.c - Map and Unmap, which are one operation: place_region says which region a range of a
// span is to show, and repair_tear makes every view show it.
//
//            place_region(range, B)      views 0 1 2 3
//   at:  A  ->  B                               A A A A      unmap from the last view down
//                                               A . . .      (a failure here: map A again)
//                                               . . . .
//                                               B B . .      map from the first view up
//                                               B B B B      (a failure here: map A again)
//
// Meanwhile the span has a tear: views [0, n_view) show tear.region, the others nothing. A tear
// outlives the call only if undoing fails too. Then `at` says what should be mapped, and the next
// change to the map of that span repairs it first.
//
// An operation of several such steps that may fail in between detaches the runs one by one:
// unmapped, but still held, so that they can be mapped again.
#include "verbs.h"

#include <assert.h>

#include "vtensor/common/try.h"

static vt_status view_unmap(vt_manager *m, const vti_span *sp, uint32_t view)
{
    const vti_tear *t = &sp->tear;
    uintptr_t addr = vti_span_addr(&m->geo, sp, view, t->first);
    m->tally.calls.unmap_calls++;
    return vti_tally_backend(m, m->vmm->ops->unmap(m->vmm, addr, t->n * m->geo.slice_bytes));
}

static vt_status view_map(vt_manager *m, const vti_span *sp, uint32_t view, vt_vmm_use use)
{
    const vti_tear *t = &sp->tear;
    uintptr_t addr = vti_span_addr(&m->geo, sp, view, t->first);
    uint64_t index = vti_pset_index(&m->pset, t->region, t->first);
    m->tally.calls.map_calls++;
    return vti_tally_backend(m, m->vmm->ops->map(m->vmm, addr, view, index, t->n, use));
}

// Makes every view of the tear show what `at` says.
static vt_status repair_tear(vt_manager *m, vti_span *sp, vt_vmm_use use)
{
    vti_tear *t = &sp->tear;
    if (t->n == 0) return VT_OK;
    uint32_t want = sp->at[t->first];
    for (; t->region != want && t->n_view > 0; t->n_view--)
        VT_TRY(view_unmap(m, sp, t->n_view - 1));
    t->region = want;
    for (; want != VTI_NO_REGION && t->n_view < m->geo.n_view; t->n_view++)
        VT_TRY(view_map(m, sp, t->n_view, use));
    t->n = 0;
    return VT_OK;
}

static bool tear_shows(const vti_tear *t, uint32_t region, uint32_t first, uint32_t n)
{
    return t->n > 0 && t->region == region && t->first < first + n && first < t->first + t->n;
}

vt_status vti_tears_repair(vt_manager *m, uint32_t region, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < m->vset.n_span; i++)
        if (tear_shows(&m->vset.span[i]->tear, region, first, n))
            VT_TRY(repair_tear(m, m->vset.span[i], VT_VMM_WRITE));
    return VT_OK;
}

// Pre: the range shows one region, or nothing, throughout.
static vt_status place_region(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n,
                              uint32_t region, vt_vmm_use use)
{
    assert(!sp->is_lent);
    VT_TRY(repair_tear(m, sp, VT_VMM_WRITE));
    uint32_t was = sp->at[first];
    if (was != VTI_NO_REGION) VT_TRY(vti_span_quiesce(m, sp));
    sp->tear = (vti_tear){first, n, was, was == VTI_NO_REGION ? 0 : m->geo.n_view};
    vti_span_set(&m->vset, sp, first, n, region);
    vt_status st = repair_tear(m, sp, use);
    if (st == VT_OK) return VT_OK;
    vti_span_set(&m->vset, sp, first, n, was);
    (void)repair_tear(m, sp, VT_VMM_WRITE);
    return st;
}

vt_status vti_span_map(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n, uint32_t region,
                       vt_vmm_use use)
{
    return place_region(m, sp, first, n, region, use);
}

void vti_span_map_back(vt_manager *m, vti_span *sp, uint32_t position, uint32_t region)
{
    assert(sp->tear.n == 0);
    sp->tear = (vti_tear){position, 1, sp->at[position], m->geo.n_view};
    vti_span_set(&m->vset, sp, position, 1, region);
    (void)repair_tear(m, sp, VT_VMM_ALIAS);
}

vt_status vti_span_unmap(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n)
{
    for (uint32_t p = first, run; p < first + n; p += run) {
        run = vti_run_length(sp->at, p, first + n);
        if (sp->at[p] == VTI_NO_REGION) continue;
        VT_TRY(place_region(m, sp, p, run, VTI_NO_REGION, VT_VMM_ALIAS));
    }
    return VT_OK;
}

static void set_detached(vti_span *sp, uint32_t first, uint32_t n, uint32_t region)
{
    for (uint32_t p = first; p < first + n; p++) sp->detached[p] = region;
    sp->n_detached += region != VTI_NO_REGION ? n : -n;
}

vt_status vti_span_detach(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n)
{
    uint32_t region = sp->at[first];
    VT_TRY(vti_span_unmap(m, sp, first, n));
    set_detached(sp, first, n, region);
    return VT_OK;
}

void vti_span_drop_detached(vt_manager *m, vti_span *sp, uint32_t first)
{
    for (uint32_t p = first; sp->n_detached > 0 && p < sp->n_owned; p++) {
        if (sp->detached[p] == VTI_NO_REGION) continue;
        vti_pset_user_drop(&m->pset, sp->detached[p], p);
        set_detached(sp, p, 1, VTI_NO_REGION);
    }
}

vt_status vti_span_repair(vt_manager *m, vti_span *sp)
{
    VT_TRY(repair_tear(m, sp, VT_VMM_WRITE));
    for (uint32_t p = 0, run; sp->n_detached > 0; p += run) {
        run = vti_run_length(sp->detached, p, sp->n_owned);
        if (sp->detached[p] == VTI_NO_REGION) continue;
        VT_TRY(vti_span_map(m, sp, p, run, sp->detached[p], VT_VMM_ALIAS));
        set_detached(sp, p, run, VTI_NO_REGION);
    }
    return VT_OK;
}
