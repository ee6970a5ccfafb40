// lane_bytes.c - bytes of a lane, in every view: copies, wiping, and what may be written.
#include "verbs.h"
#include "vtensor/core/common.h"

enum { LEFT_FOR_GROWTH = 8 }; // a guard parts a run, but never one of the last 1/8 of them

vt_status vti_lane_fetch(vt_manager *m, const vti_span *sp, uint32_t group, uint32_t position,
                         uint32_t chunk, size_t size_bytes)
{
    uint64_t index = vti_pset_index(&m->pset, chunk);
    for (uint32_t v = 0; v < m->geo.group[group].n_view; v++) {
        uintptr_t dst = vti_lane_addr(&m->geo, sp, group, v, position);
        VT_TRY(vti_tally_backend(
            m, m->vmm->ops->fetch(m->vmm, dst, v, index, 0, size_bytes, VT_VMM_QUEUED)));
    }
    m->tally.copied_chunks++;
    return VT_OK;
}

vt_status vti_lane_store(vt_manager *m, const vti_span *sp, uint32_t group, uint32_t position,
                         uint32_t chunk)
{
    uint64_t index = vti_pset_index(&m->pset, chunk);
    size_t slice_bytes = m->geo.group[group].slice_bytes;
    for (uint32_t v = 0; v < m->geo.group[group].n_view; v++) {
        uintptr_t src = vti_lane_addr(&m->geo, sp, group, v, position);
        VT_TRY(vti_tally_backend(m, m->vmm->ops->store(m->vmm, v, index, 0, src, slice_bytes)));
    }
    m->tally.copied_chunks++;
    return VT_OK;
}

vt_status vti_lane_zero(vt_manager *m, const vti_span *sp, uint32_t group, size_t from, size_t to)
{
    for (uint32_t v = 0; v < m->geo.group[group].n_view && from < to; v++) {
        uintptr_t addr = vti_lane_addr(&m->geo, sp, group, v, 0) + from;
        VT_TRY(vti_tally_backend(m, m->vmm->ops->zero(m->vmm, addr, to - from, VT_VMM_QUEUED)));
    }
    return VT_OK;
}

// ---- Access

#define NO_TICKET UINT64_MAX // one is to be taken

// Changes the mapped stretches of [first, end) in one view.
static vt_status view_protect(vt_manager *m, const vti_span *sp, uint32_t group, uint32_t view,
                              uint32_t first, uint32_t end, vt_vmm_use use)
{
    const vti_lane *l = &sp->lane[group];
    for (uint32_t p = first, n; p < end; p += n) {
        for (n = 0; p + n < end && vti_lane_at(l, p + n) != VTI_NO_CHUNK; n++) {
        }
        if (n > 0) {
            uintptr_t addr = vti_lane_addr(&m->geo, sp, group, view, p);
            m->tally.calls.protect_calls++;
            VT_TRY(vti_tally_backend(
                m, m->vmm->ops->protect(m->vmm, addr, n * m->geo.group[group].slice_bytes, use)));
        }
        n += n == 0;
    }
    return VT_OK;
}

// If a view fails, the others are changed back.
static vt_status lane_protect(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                              uint32_t end, vt_vmm_use use)
{
    vt_vmm_use was = use == VT_VMM_WRITE ? VT_VMM_READ : VT_VMM_WRITE;
    vt_status st = VT_OK, undone = VT_OK;
    uint32_t v = 0;
    while (v < m->geo.group[group].n_view && st == VT_OK)
        st = view_protect(m, sp, group, v++, first, end, use);
    while (st != VT_OK && undone == VT_OK && v-- > 0)
        undone = view_protect(m, sp, group, v, first, end, was);
    if (undone != VT_OK) vti_span_quarantine(m, sp);
    return st;
}

void vti_lane_guard(vt_manager *m, vti_span *sp, uint32_t group, uint32_t end)
{
    vti_lane *l = &sp->lane[group];
    if (!m->guards || end <= l->n_ro || end <= l->guard_end) return;
    l->guard_end = end;
    sp->guard_fence = NO_TICKET;
    vti_span_stir(&m->vset, sp);
}

static bool writes_are_done(vt_manager *m, vti_span *sp)
{
    bool is_passed = false;
    if (sp->guard_fence == NO_TICKET &&
        vti_tally_backend(m, m->vmm->ops->fence(m->vmm, &sp->guard_fence)) != VT_OK)
        return false;
    return vti_fence_passed(m, sp->guard_fence, &is_passed) == VT_OK && is_passed;
}

static void guard_lane(vt_manager *m, vti_span *sp, uint32_t group)
{
    vti_lane *l = &sp->lane[group];
    if (!vti_runs_fit(m, m->geo.group[group].n_view + m->max_runs / LEFT_FOR_GROWTH)) return;
    if (lane_protect(m, sp, group, l->n_ro, l->guard_end, VT_VMM_READ) == VT_OK)
        vti_lane_set_ro(&m->vset, sp, group, l->guard_end);
}

// What fails is tried again in the next step.
void vti_span_guard(vt_manager *m, vti_span *sp)
{
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        if (sp->lane[g].guard_end <= sp->lane[g].n_ro || sp->lane[g].is_lent || sp->is_lost)
            continue;
        if (!writes_are_done(m, sp)) return;
        guard_lane(m, sp, g);
    }
}

vt_status vti_lane_guard_again(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                               uint32_t end)
{
    uint32_t n_ro = sp->lane[group].n_ro;
    if (end > n_ro) end = n_ro;
    return first < end ? lane_protect(m, sp, group, first, end, VT_VMM_READ) : VT_OK;
}

VTI_HOT vt_status vti_lane_unguard(vt_manager *m, vti_span *sp, uint32_t group, uint32_t begin)
{
    vti_lane *l = &sp->lane[group];
    if (l->guard_end > begin) l->guard_end = begin;
    if (!VTI_RARE(begin < l->n_ro)) return VT_OK;
    if (!vti_lane_run_begins(&m->vset, l, begin)) // else no run is parted
        VT_TRY(vti_runs_make(m, sp, m->geo.group[group].n_view));
    VT_TRY(lane_protect(m, sp, group, begin, l->n_ro, VT_VMM_WRITE));
    vti_lane_set_ro(&m->vset, sp, group, begin);
    return VT_OK;
}

bool vti_lane_unguard_run(vt_manager *m, vti_span *sp, uint32_t group)
{
    vti_lane *l = &sp->lane[group];
    if (!m->guards || l->n_ro == 0 || l->at[l->n_ro - 1] == VTI_NO_CHUNK) return false;
    uint32_t begin = l->n_ro - 1, end = l->n_ro;
    while (!vti_lane_run_begins(&m->vset, l, begin)) begin--;
    if (vti_lane_unguard(m, sp, group, begin) != VT_OK) return false;
    vti_lane_guard(m, sp, group, end);
    return true;
}
