// fence.c - what the device has finished: tickets and the sources of copies in flight; and spans
// that a failure of the device has left in no known state.
//
// Quarantine. A job has failed, and undoing it has failed as well: in a portion of a lane, some
// views map the chunks and others do not. The span is not used meanwhile. It holds whatever it
// maps, so that none of that memory gets another holder while an address still shows it; it is
// counted. If a sequence lives in the span, it is lost. Once it is gone, later steps try to unmap
// everything, each from where the last one failed; then the span is idle again. A lane whose job is
// in flight is held when the job comes back.
//
// What the portion maps is known from the job (lane_job.c): after BACK the views below n_view, and
// n_left positions in view n_view; after UNMAP the views from n_view on, and n_left positions in
// the one before.
#include "operations.h"

#include <stdlib.h>

vt_status vti_fence_take(vt_manager *m, vti_span *sp)
{
    VT_TRY(vti_tally_backend(m, m->vmm->ops->fence(m->vmm, &sp->fence)));
    sp->needs_fence = false;
    return VT_OK;
}

vt_status vti_fence_passed(vt_manager *m, uint64_t ticket, bool wait, bool *is_passed)
{
    *is_passed = true;
    if (ticket == 0) return VT_OK;
    return vti_tally_backend(m, m->vmm->ops->passed(m->vmm, ticket, wait, is_passed));
}

vt_status vti_span_is_quiet(vt_manager *m, vti_span *sp)
{
    bool is_passed;
    if (sp->needs_fence) VT_TRY(vti_fence_take(m, sp));
    VT_TRY(vti_fence_passed(m, sp->fence, false, &is_passed));
    return is_passed ? VT_OK : VT_BUSY;
}

vt_status vti_span_await(vt_manager *m, vti_span *sp)
{
    if (sp->needs_fence) VT_TRY(vti_fence_take(m, sp));
    return vti_fence_await(m, sp->fence);
}

vt_status vti_live_spans_await(vt_manager *m)
{
    for (vti_span *sp = m->vset.in[VTI_SPAN_LIVE].oldest; sp; sp = sp->newer)
        VT_TRY(vti_span_await(m, sp));
    return VT_OK;
}

vt_status vti_fence_await(vt_manager *m, uint64_t ticket)
{
    bool is_passed;
    return vti_fence_passed(m, ticket, true, &is_passed);
}

// ---- Sources of copies in flight

vt_status vti_source_reserve(vt_manager *m)
{
    if (m->n_source < m->cap_source) return VT_OK;
    uint32_t cap = m->cap_source > 0 ? 2 * m->cap_source : 64;
    vti_source *source = calloc(cap, sizeof *source);
    if (!source) return VT_ENOMEM;
    for (uint32_t i = 0; i < m->n_source; i++)
        source[i] = m->source[(m->first_source + i) % m->cap_source];
    free(m->source);
    m->source = source;
    m->first_source = 0;
    m->cap_source = cap;
    return VT_OK;
}

// If no ticket can be taken, the source is released with the next one that can.
void vti_source_hold(vt_manager *m, uint32_t chunk)
{
    uint64_t ticket;
    if (vti_tally_backend(m, m->vmm->ops->fence(m->vmm, &ticket)) != VT_OK) ticket = UINT64_MAX;
    if (ticket == 0) return;
    vti_pset_user_hold(&m->pset, chunk);
    vti_pset_user_leave(&m->pset, chunk);
    m->source[(m->first_source + m->n_source++) % m->cap_source] = (vti_source){ticket, chunk};
}

void vti_sources_release(vt_manager *m, bool wait)
{
    while (m->n_source > 0) {
        bool is_over;
        vti_source *l = &m->source[m->first_source];
        if (l->ticket == UINT64_MAX &&
            vti_tally_backend(m, m->vmm->ops->fence(m->vmm, &l->ticket)) != VT_OK)
            return;
        if (vti_fence_passed(m, l->ticket, wait, &is_over) != VT_OK || !is_over) return;
        vti_pset_user_drop(&m->pset, l->chunk, VTI_IN_POOL, true);
        m->first_source = (m->first_source + 1) % m->cap_source;
        m->n_source--;
    }
}

// ---- Quarantine

void vti_quarantine_hold(vt_manager *m, vti_span *sp, uint32_t group)
{
    vti_lane *l = &sp->lane[group];
    for (uint32_t p = 0; p < l->n_end; p++) {
        bool is_held = p >= l->held0 && p < l->held1;
        if (!is_held && l->at[p] != VTI_NO_CHUNK) vti_pset_user_hold(&m->pset, l->at[p]);
    }
    vti_lane_count_mapped_free(&m->vset, sp, group, -(int32_t)l->n_mapped_free);
    l->held0 = 0;
    if (l->n_end > l->held1) l->held1 = l->n_end;
}

void vti_span_quarantine(vt_manager *m, vti_span *sp)
{
    if (sp->is_lost) return;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        const vti_lane *l = &sp->lane[g];
        for (uint32_t p = l->held0; p < l->held1; p++) // it is no longer leaving
            if (vti_lane_has_left(sp, l, p) && vti_lane_at(l, p) != VTI_NO_CHUNK)
                vti_pset_user_stay(&m->pset, l->at[p]);
    }
    sp->is_lost = true;
    m->vset.n_lost++;
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        if (!sp->lane[g].job.in_flight) vti_quarantine_hold(m, sp, g);
    sp->needs_fence = true;
    sp->cleared = (vti_place_in_span){0};
    if (sp->state != VTI_SPAN_LIVE) vti_vset_move(&m->vset, sp, VTI_SPAN_QUARANTINED);
}

// ---- Clearing

// The stretch from p on that is alike: its length, and how much of it the view maps.
static uint32_t next_stretch(const vti_lane *l, uint32_t view, uint32_t p, uint32_t *n_mapped)
{
    const vti_lane_job *job = &l->job;
    uint32_t left = job->n - job->n_done, n = 1;
    uint32_t stuck0 = job->is_stuck ? job->first + job->n_done : UINT32_MAX;
    if (p == stuck0) {
        const bool is_back = job->kind == VTI_JOB_BACK;
        const uint32_t odd = is_back ? job->n_view : job->n_view - 1; // where the undo failed
        n = left < job->portion ? left : job->portion;
        *n_mapped = view == odd ? job->n_left : (view < odd) == is_back ? n : 0;
        return n;
    }
    bool is_mapped = vti_lane_at(l, p) != VTI_NO_CHUNK;
    while (p + n < l->n_end && p + n != stuck0 && (l->at[p + n] != VTI_NO_CHUNK) == is_mapped) n++;
    *n_mapped = is_mapped ? n : 0;
    return n;
}

static vt_status clear_view(vt_manager *m, vti_span *sp)
{
    vti_place_in_span *at = &sp->cleared;
    const vti_lane *l = &sp->lane[at->group];
    for (uint32_t n, n_mapped; at->position < l->n_end; at->position += n) {
        n = next_stretch(l, at->view, at->position, &n_mapped);
        if (n_mapped == 0) continue;
        uintptr_t addr = vti_lane_addr(&m->geo, sp, at->group, at->view, at->position);
        m->calls.unmap_calls++;
        VT_TRY(vti_tally_backend(
            m, m->vmm->ops->unmap(m->vmm, addr, n_mapped * m->geo.group[at->group].slice_bytes)));
    }
    at->position = 0;
    return VT_OK;
}

vt_status vti_quarantine_clear(vt_manager *m, vti_span *sp)
{
    for (; sp->cleared.group < m->geo.n_group; sp->cleared.group++, sp->cleared.view = 0)
        for (; sp->cleared.view < m->geo.group[sp->cleared.group].n_view; sp->cleared.view++)
            VT_TRY(clear_view(m, sp));
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        vti_lane *l = &sp->lane[g];
        for (uint32_t p = l->held0; p < l->held1; p++) {
            if (vti_lane_at(l, p) == VTI_NO_CHUNK) continue;
            vti_pset_user_drop(&m->pset, l->at[p], VTI_IN_POOL, false);
            vti_lane_set(&m->vset, sp, g, p, VTI_NO_CHUNK);
        }
        l->front = l->n_owned = l->held0 = l->held1 = l->guard_end = 0;
        l->dirty_end = 0;
        l->job.is_stuck = l->needs_zeroing = false;
        vti_lane_set_ro(&m->vset, sp, g, 0);
    }
    sp->is_lost = false;
    m->vset.n_lost--;
    return VT_OK;
}

void vti_quarantine_retry(vt_manager *m)
{
    for (vti_span *sp = m->vset.in[VTI_SPAN_QUARANTINED].oldest, *newer; sp; sp = newer) {
        newer = sp->newer;
        if (vti_span_in_flight(&m->vset, sp) || vti_span_is_quiet(m, sp) != VT_OK) continue;
        if (vti_quarantine_clear(m, sp) != VT_OK) continue;
        vti_vset_move(&m->vset, sp, VTI_SPAN_IDLE);
    }
}

void vti_quarantine_await(vt_manager *m)
{
    for (vti_span *sp = m->vset.in[VTI_SPAN_QUARANTINED].oldest; sp; sp = sp->newer)
        (void)vti_span_await(m, sp);
    vti_quarantine_retry(m);
}
