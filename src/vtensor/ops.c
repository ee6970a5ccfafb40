// ops.c - the VTO verbs: vAlloc, vFree, pAlloc, pFree, Map, Unmap, and fetch and store behind a
// copy. Each is the backend's calls and the structure in step with them. (rPush and rPrefixMatch
// are rtree.c's.)
//
// Map and Unmap are one thing: `place` says what region a range of a span is to show, and `mend`
// makes every view show it:
//
//            place(range, B)             views 0 1 2 3
//   at:  A  ->  B                               A A A A      unmap from the last view down
//                                               A . . .      (a failure here: put A back)
//                                               . . . .
//                                               B B . .      map from the first view up
//                                               B B B B      (a failure here: put A back)
//
// While this goes on the span has a tear: views [0, n_view) show tear.region, the others nothing. A
// tear stays only where putting back fails too; then `at` says what is to be, and whoever wants to
// change the map of that span mends it first.
//
// What takes several such steps and may fail in between lifts the runs one by one: unmapped, but
// held.
#include "internal.h"

vt_status vti_valloc(vt_manager *m, vti_span **out)
{
    vti_span *sp;
    VT_TRY(vti_vset_push(&m->vset, &sp));
    vt_status st = vti_met(m, m->vmm->ops->reserve(m->vmm, m->geo.span_bytes, &sp->addr));
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
    VT_TRY(vti_unmap(m, sp, 0, sp->n_end));
    return vti_met(m, m->vmm->ops->unreserve(m->vmm, sp->addr, m->geo.span_bytes));
}

// Spans are freed with their manager only. What the backend refuses twice to let go of stays the
// system's until the process ends: addresses are not given back where something may be mapped.
void vti_vfree(vt_manager *m, vti_span *sp)
{
    assert(sp->id == m->vset.n_span - 1 && sp->state != VTI_SPAN_LIVE);
    if (vfree_try(m, sp) != VT_OK) (void)vfree_try(m, sp);
    vti_vset_unlist(&m->vset, sp);
    vti_vset_pop(&m->vset);
}

vt_status vti_palloc(vt_manager *m, uint32_t region, uint32_t first, uint32_t n)
{
    m->tally.calls.create_calls++;
    uint64_t index = vti_pset_index(&m->pset, region, first);
    VT_TRY(vti_met(m, m->vmm->ops->create(m->vmm, index, n)));
    vti_pset_create(&m->pset, region, first, n);
    uint64_t now = vti_pset_created(&m->pset);
    if (now > m->tally.peak_chunks) m->tally.peak_chunks = now;
    return VT_OK;
}

static vt_status view_unmap(vt_manager *m, const vti_span *sp, uint32_t view)
{
    const vti_tear *t = &sp->tear;
    uintptr_t addr = vti_span_addr(&m->geo, sp, view, t->first);
    m->tally.calls.unmap_calls++;
    return vti_met(m, m->vmm->ops->unmap(m->vmm, addr, t->n * m->geo.slice_bytes));
}

static vt_status view_map(vt_manager *m, const vti_span *sp, uint32_t view, vt_vmm_use use)
{
    const vti_tear *t = &sp->tear;
    uintptr_t addr = vti_span_addr(&m->geo, sp, view, t->first);
    uint64_t index = vti_pset_index(&m->pset, t->region, t->first);
    m->tally.calls.map_calls++;
    return vti_met(m, m->vmm->ops->map(m->vmm, addr, view, index, t->n, use));
}

// Makes every view of the tear show what `at` says.
static vt_status mend_as(vt_manager *m, vti_span *sp, vt_vmm_use use)
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

// Sees to it that no tear shows chunks that nobody holds any more: they are to be destroyed.
vt_status vti_untangle(vt_manager *m, uint32_t region, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < m->vset.n_span; i++)
        if (tear_shows(&m->vset.span[i]->tear, region, first, n))
            VT_TRY(mend_as(m, m->vset.span[i], VT_VMM_WRITE));
    return VT_OK;
}

vt_status vti_pfree(vt_manager *m, uint32_t region, uint32_t first, uint32_t n)
{
    VT_TRY(vti_untangle(m, region, first, n));
    m->tally.calls.destroy_calls++;
    uint64_t index = vti_pset_index(&m->pset, region, first);
    VT_TRY(vti_met(m, m->vmm->ops->destroy(m->vmm, index, n)));
    vti_pset_destroy(&m->pset, region, first, n);
    return VT_OK;
}

// Behind the work that may use what the span lets go of now.
vt_status vti_mark(vt_manager *m, vti_span *sp)
{
    VT_TRY(vti_met(m, m->vmm->ops->fence(m->vmm, &sp->fence)));
    sp->needs_fence = false;
    return VT_OK;
}

vt_status vti_await_mark(vt_manager *m, const vti_span *sp)
{
    bool is_passed;
    if (sp->fence == 0) return VT_OK;
    return vti_met(m, m->vmm->ops->passed(m->vmm, sp->fence, true, &is_passed));
}

// Nothing that the device still runs may read what is unmapped. Work on a live span may have been
// given to it at any time; on another none was since its ticket.
vt_status vti_quiesce(vt_manager *m, vti_span *sp)
{
    if (sp->state == VTI_SPAN_LIVE) VT_TRY(vti_mark(m, sp));
    return vti_await_mark(m, sp);
}

// Pre: the range shows one region, or nothing, throughout.
static vt_status place(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n, uint32_t region,
                       vt_vmm_use use)
{
    assert(!sp->is_lent);
    VT_TRY(mend_as(m, sp, VT_VMM_WRITE));
    uint32_t was = sp->at[first];
    if (was != VTI_NO_REGION) VT_TRY(vti_quiesce(m, sp));
    sp->tear = (vti_tear){first, n, was, was == VTI_NO_REGION ? 0 : m->geo.n_view};
    vti_span_set(&m->vset, sp, first, n, region);
    vt_status st = mend_as(m, sp, use);
    if (st == VT_OK) return VT_OK;
    vti_span_set(&m->vset, sp, first, n, was);
    (void)mend_as(m, sp, VT_VMM_WRITE);
    return st;
}

vt_status vti_map(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n, uint32_t region,
                  vt_vmm_use use)
{
    return place(m, sp, first, n, region, use);
}

// What was just mapped, and no kernel has read, gives way to what was there before: now, or when it
// is mended.
void vti_map_back(vt_manager *m, vti_span *sp, uint32_t position, uint32_t region)
{
    assert(sp->tear.n == 0);
    sp->tear = (vti_tear){position, 1, sp->at[position], m->geo.n_view};
    vti_span_set(&m->vset, sp, position, 1, region);
    (void)mend_as(m, sp, VT_VMM_ALIAS);
}

vt_status vti_unmap(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n)
{
    for (uint32_t p = first, run; p < first + n; p += run) {
        run = vti_run(sp->at, p, first + n);
        if (sp->at[p] == VTI_NO_REGION) continue;
        VT_TRY(place(m, sp, p, run, VTI_NO_REGION, VT_VMM_ALIAS));
    }
    return VT_OK;
}

static void set_lifted(vti_span *sp, uint32_t first, uint32_t n, uint32_t region)
{
    for (uint32_t p = first; p < first + n; p++) sp->lifted[p] = region;
    sp->n_lifted += region != VTI_NO_REGION ? n : -n;
}

// Unmaps a run that stays held, so that it can come back: vti_lifted_drop lets go of what was
// lifted, vti_mend maps it again.
vt_status vti_lift(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n)
{
    uint32_t region = sp->at[first];
    VT_TRY(vti_unmap(m, sp, first, n));
    set_lifted(sp, first, n, region);
    return VT_OK;
}

void vti_lifted_drop(vt_manager *m, vti_span *sp, uint32_t first)
{
    for (uint32_t p = first; sp->n_lifted > 0 && p < sp->n_owned; p++) {
        if (sp->lifted[p] == VTI_NO_REGION) continue;
        vti_pset_user_drop(&m->pset, sp->lifted[p], p);
        set_lifted(sp, p, 1, VTI_NO_REGION);
    }
}

vt_status vti_mend(vt_manager *m, vti_span *sp)
{
    VT_TRY(mend_as(m, sp, VT_VMM_WRITE));
    for (uint32_t p = 0, run; sp->n_lifted > 0; p += run) {
        run = vti_run(sp->lifted, p, sp->n_owned);
        if (sp->lifted[p] == VTI_NO_REGION) continue;
        VT_TRY(vti_map(m, sp, p, run, sp->lifted[p], VT_VMM_ALIAS));
        set_lifted(sp, p, run, VTI_NO_REGION);
    }
    return VT_OK;
}

vt_status vti_fetch(vt_manager *m, vti_span *sp, uint32_t position, uint32_t from_region,
                    size_t size_bytes)
{
    uint64_t index = vti_pset_index(&m->pset, from_region, position);
    for (uint32_t v = 0; v < m->geo.n_view; v++) {
        uintptr_t dst = vti_span_addr(&m->geo, sp, v, position);
        VT_TRY(vti_met(m, m->vmm->ops->fetch(m->vmm, dst, v, index, 0, size_bytes)));
    }
    m->tally.copied_chunks++;
    return VT_OK;
}

vt_status vti_store(vt_manager *m, const vti_span *sp, uint32_t position, uint32_t to_region,
                    size_t size_bytes)
{
    uint64_t index = vti_pset_index(&m->pset, to_region, position);
    for (uint32_t v = 0; v < m->geo.n_view; v++) {
        uintptr_t src = vti_span_addr(&m->geo, sp, v, position);
        VT_TRY(vti_met(m, m->vmm->ops->store(m->vmm, v, index, 0, src, size_bytes)));
    }
    m->tally.copied_chunks++;
    return VT_OK;
}

vt_status vti_zero(vt_manager *m, vti_span *sp, uint32_t position, size_t offset)
{
    for (uint32_t v = 0; v < m->geo.n_view; v++) {
        uintptr_t addr = vti_span_addr(&m->geo, sp, v, position) + offset;
        VT_TRY(vti_met(m, m->vmm->ops->zero(m->vmm, addr, m->geo.slice_bytes - offset)));
    }
    return VT_OK;
}
