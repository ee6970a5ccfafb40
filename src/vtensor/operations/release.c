// release.c - deferred release: a lane gives up positions, which are the end of a sequence that is
// truncated, what a window has passed, or everything once the sequence is released.
//
//   leave    what is the lane's alone and could be written stays mapped, free and dirty; the rest
//            waits: it stays mapped and held until the device is done
//   clear    the device is done: unmap what waits
//   retire   the sequence has ended: leave everything
//   reap     clear a retired span; then it is idle
//
//   held0      front            n_owned        held1           n_end
//     | waits    | holds tokens   | waits        | mapped-free   |
//
// Nothing here waits for the device. Tickets pass in order, so the oldest retired span is asked
// first, and the others only if it has passed.
#include "operations.h"

bool vti_lane_waits(const vti_lane *l)
{
    return l->held0 < l->front || l->n_owned < l->held1;
}

// Gives up held positions at the end that need not wait.
static void leave_end(vt_manager *m, vti_span *sp, uint32_t group, uint32_t end)
{
    vti_lane *l = &sp->lane[group];
    for (; l->held1 > end && l->held1 > l->held0 && !l->needs_zeroing; l->held1--) {
        uint32_t p = l->held1 - 1, chunk = vti_lane_at(l, p);
        if (chunk == VTI_NO_CHUNK) continue;
        bool may_stay = p >= l->n_ro && vti_pset_state(&m->pset, chunk) == VT_CHUNK_OWNED;
        if (!may_stay) return;
        vti_pset_user_drop(&m->pset, chunk, VTI_IN_LANE, true);
        vti_lane_count_mapped_free(&m->vset, sp, group, 1);
    }
}

// Once nothing waits at an end, the held range is what holds tokens.
static void shrink_held(vt_manager *m, vti_span *sp, uint32_t group)
{
    vti_lane *l = &sp->lane[group];
    while (l->held1 > l->n_owned && l->held1 > l->held0 &&
           vti_lane_at(l, l->held1 - 1) == VTI_NO_CHUNK)
        l->held1--;
    while (l->held0 < l->front && l->held0 < l->held1 && vti_lane_at(l, l->held0) == VTI_NO_CHUNK)
        l->held0++;
    if (l->held1 <= l->n_owned) l->needs_zeroing = false;
    if (l->held0 == l->held1) l->held0 = l->held1 = l->n_owned;
    if (l->held0 < l->front && l->held0 == l->n_owned) l->held0 = l->front;
    if (!vti_lane_waits(l) && l->n_ro > l->n_owned)
        vti_lane_set_ro(&m->vset, sp, group, l->n_owned);
}

// Positions [first, end) held tokens until now.
static void give_up(vt_manager *m, const vti_lane *l, uint32_t first, uint32_t end)
{
    for (uint32_t p = first; p < end; p++)
        if (vti_lane_at(l, p) != VTI_NO_CHUNK) vti_pset_user_leave(&m->pset, l->at[p]);
}

void vti_lane_leave(vt_manager *m, vti_span *sp, uint32_t group, uint32_t front, uint32_t end)
{
    vti_lane *l = &sp->lane[group];
    const uint32_t had_front = l->front, had_end = l->n_owned;
    if (end < l->n_owned) l->n_owned = end;
    l->front = front < l->n_owned ? front : l->n_owned;
    if (!sp->is_lost) {
        give_up(m, l, had_front, l->front);
        give_up(m, l, l->n_owned > had_front ? l->n_owned : had_front, had_end);
    }
    if (l->guard_end > l->n_owned) l->guard_end = l->n_owned;
    size_t mapped = l->n_end * m->geo.group[group].slice_bytes;
    if (l->dirty_end > mapped) l->dirty_end = mapped;
    if (sp->is_lost) return;
    leave_end(m, sp, group, end);
    shrink_held(m, sp, group);
}

// The last mapped stretch that waits: its first position. 0 positions: none. Warm chunks after it
// go along: beyond a gap they would be a run more.
static uint32_t waiting_stretch(const vti_lane *l, uint32_t *first)
{
    bool at_end = l->held1 > l->n_owned;
    uint32_t end = at_end ? l->held1 : l->front;
    uint32_t least = at_end && l->n_owned > l->held0 ? l->n_owned : l->held0;
    if (!vti_lane_waits(l)) return 0;
    if (end > l->held1) end = l->held1;
    while (at_end && vti_lane_at(l, end) != VTI_NO_CHUNK) end++;
    while (end > least && vti_lane_at(l, end - 1) == VTI_NO_CHUNK) end--;
    *first = end;
    while (*first > least && l->at[*first - 1] != VTI_NO_CHUNK) (*first)--;
    return end - *first;
}

vt_status vti_lane_clear(vt_manager *m, vti_span *sp, uint32_t group, bool post)
{
    vti_lane *l = &sp->lane[group];
    uint32_t n;
    vti_job_spec spec = {VTI_JOB_UNMAP, 0, 0, 0, VTI_SOON};
    if (!vti_lane_waits(l)) return VT_OK;
    if (sp->is_lost) return VT_EDEVICE;
    if (post && l->job.in_flight) return VT_BUSY;
    VT_TRY(vti_span_is_quiet(m, sp));
    if (l->job.in_flight) { // taking it back may queue some wiping, or quarantine the span
        vti_job_settle(m, &sp->lane[group].job);
        VT_TRY(sp->is_lost ? VT_EDEVICE : vti_span_is_quiet(m, sp));
    }
    while ((n = waiting_stretch(l, &spec.first)) > 0) {
        spec.n = n;
        if (post && m->mapper_kind == VT_MAPPER_THREAD)
            return vti_job_post(m, sp, group, &spec) == VT_OK ? VT_BUSY : VT_NOSPACE;
        VT_TRY(vti_job_now(m, sp, group, &spec));
        shrink_held(m, sp, group);
    }
    shrink_held(m, sp, group);
    return VT_OK;
}

// ---- Retire and reap

static vt_status span_reap(vt_manager *m, vti_span *sp, bool post)
{
    vt_status st = VT_OK;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        vt_status cleared = vti_lane_clear(m, sp, g, post);
        if (cleared != VT_OK) st = cleared;
    }
    if (st != VT_OK || sp->state != VTI_SPAN_RETIRED) return st;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        vti_lane *l = &sp->lane[g];
        l->front = l->held0 = l->held1 = l->guard_end = 0;
        vti_lane_set_ro(&m->vset, sp, g, 0);
        if (l->region == VTI_NO_CHUNK) continue;
        // A preferred region that holds chunks of others is given up.
        uint32_t cls = m->geo.group[g].cls, n_own = 0;
        for (uint32_t p = 0; p < l->n_end; p++)
            n_own +=
                l->at[p] != VTI_NO_CHUNK && vti_pset_name(&m->pset, l->at[p]).region == l->region;
        if (vti_pset_region_used(&m->pset, cls, l->region) == n_own) continue;
        vti_pset_region_close(&m->pset, cls, l->region);
        l->region = VTI_NO_CHUNK;
    }
    vti_span_shrink(&m->vset, sp);
    sp->fence = 0;
    vti_vset_move(&m->vset, sp, VTI_SPAN_IDLE);
    m->giving.n_retired -= m->giving.n_retired > 0;
    return VT_OK;
}

// A span with a lane in flight leaves the list until the lane comes back, so that no walk passes
// it.
static vt_status reap_ahead(vt_manager *m, vti_span *sp)
{
    vt_status st = VT_BUSY;
    if (!vti_span_in_flight(&m->vset, sp)) st = span_reap(m, sp, true);
    const bool waits = sp->state == VTI_SPAN_RETIRED && vti_span_in_flight(&m->vset, sp);
    if (waits) vti_vset_move(&m->vset, sp, VTI_SPAN_CLEARING);
    return st;
}

vt_status vti_spans_reap(vt_manager *m, vti_reap how)
{
    vt_status st = VT_OK;
    while (how != VTI_REAP_POST && m->vset.in[VTI_SPAN_CLEARING].oldest) // retires it again
        vti_span_settle(m, m->vset.in[VTI_SPAN_CLEARING].oldest);
    for (vti_span *sp = m->vset.in[VTI_SPAN_RETIRED].oldest, *newer; sp; sp = newer) {
        newer = sp->newer;
        if (how != VTI_REAP_POST) vti_span_settle(m, sp);
        vt_status reaped = how == VTI_REAP_WAIT ? vti_span_await(m, sp) : vti_span_is_quiet(m, sp);
        if (reaped == VT_BUSY) break; // and so are the newer ones
        if (reaped == VT_OK)
            reaped = how == VTI_REAP_POST ? reap_ahead(m, sp) : span_reap(m, sp, false);
        if (reaped != VT_OK && reaped != VT_BUSY) st = reaped;
    }
    // Mapped-free chunks of idle spans can be used elsewhere once the device has wiped them.
    for (vti_span *sp = m->vset.in[VTI_SPAN_IDLE].oldest; sp && how == VTI_REAP_WAIT;
         sp = sp->newer)
        (void)vti_span_await(m, sp);
    return st;
}

bool vti_span_reap_oldest(vt_manager *m)
{
    vti_span *sp = m->vset.in[VTI_SPAN_CLEARING].oldest;
    if (sp) vti_span_settle(m, sp);
    sp = m->vset.in[VTI_SPAN_RETIRED].oldest;
    if (!sp || vti_span_is_quiet(m, sp) != VT_OK) return false;
    vti_span_settle(m, sp);
    return span_reap(m, sp, false) == VT_OK && sp->state == VTI_SPAN_IDLE;
}

uint32_t vti_spans_retired(const vt_manager *m)
{
    return m->vset.in[VTI_SPAN_RETIRED].n + m->vset.in[VTI_SPAN_CLEARING].n;
}

void vti_span_retire(vt_manager *m, vti_span *sp)
{
    sp->seq = NULL;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        size_t used = sp->lane[g].n_owned * m->geo.group[g].slice_bytes;
        if (used > sp->lane[g].dirty_end) sp->lane[g].dirty_end = used;
        vti_lane_leave(m, sp, g, 0, 0);
    }
    if (sp->is_lost) {
        vti_vset_move(&m->vset, sp, VTI_SPAN_QUARANTINED);
        return;
    }
    sp->needs_fence = true;
    (void)vti_fence_take(m, sp);
    const uint64_t *warm = &m->vset.mapped_free_bytes[VTI_SPAN_RETIRED], had = *warm;
    vti_vset_move(&m->vset, sp, VTI_SPAN_RETIRED);
    m->giving.recent_bytes += *warm - had;
    (void)vti_spans_reap(m, VTI_REAP_POST);
}

void vti_spans_clear(vt_manager *m, bool post)
{
    for (uint32_t i = 0; i < m->vset.n_due; i++) {
        vti_span *sp = vti_vset_due(&m->vset, i);
        for (uint32_t g = 0; sp->state == VTI_SPAN_LIVE && g < m->geo.n_group; g++)
            if (vti_lane_waits(&sp->lane[g])) (void)vti_lane_clear(m, sp, g, post);
    }
}
