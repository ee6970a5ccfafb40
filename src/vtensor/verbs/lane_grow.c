// lane_grow.c - a lane gets chunks: new ones, backed warm after its tokens, or those of others,
// which it shares.
#include "verbs.h"

#include <assert.h>

#include "vtensor/core/common.h"

// The first cold stretch of [*first, end): its length, 0: there is none.
static uint32_t cold_stretch(const vti_lane *l, uint32_t *first, uint32_t end)
{
    *first = vti_lane_first_cold(l, *first, end);
    uint32_t n = 0;
    while (*first + n < end && vti_lane_at(l, *first + n) == VTI_NO_CHUNK) n++;
    return n;
}

// If the system itself has no memory left, what is missing comes from chunks that exist.
static vt_status back_stretch(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                              uint32_t n)
{
    vti_order_form form = {VTI_JOB_BACK, first, n, VT_VMM_WRITE, 0};
    VT_TRY(vti_plan_make(m, sp, group, first, &form.n, VTI_NOW));
    vt_status st = vti_job_now(m, sp, group, &form);
    return st == VT_NOSPACE && vti_system_note_full(m) ? VT_OK : st;
}

vt_status vti_lane_back(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first, uint32_t end)
{
    vti_lane_settle(m, sp, group);
    if (sp->is_lost) return VT_EDEVICE;
    vt_status st = VT_OK;
    for (uint32_t n; st == VT_OK && (n = cold_stretch(&sp->lane[group], &first, end)) > 0;)
        st = back_stretch(m, sp, group, first, n);
    if (sp->lane[group].is_foul && vti_lane_clear(m, sp, group, false) == VT_EDEVICE)
        vti_span_quarantine(m, sp); // nobody may read what could not be wiped
    return st;
}

vt_status vti_lane_back_ahead(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                              uint32_t end, uint64_t deadline)
{
    vti_lane *l = &sp->lane[group];
    if (l->is_lent) return VT_OK;
    vti_order_form form = {VTI_JOB_BACK, first, 0, VT_VMM_WRITE, deadline};
    form.n = cold_stretch(l, &form.first, end);
    if (form.n == 0) return VT_OK;
    VT_TRY(vti_plan_make(m, sp, group, form.first, &form.n, VTI_AHEAD));
    vt_status st = vti_job_post(m, sp, group, &form);
    if (st != VT_OK) vti_plan_drop(m, m->geo.group[group].cls, l->plan, 0, form.n);
    return st;
}

VTI_HOT void vti_lane_hold(vt_manager *m, vti_span *sp, uint32_t group, uint32_t end)
{
    vti_lane *l = &sp->lane[group];
    assert(l->held1 == l->n_owned && end > l->n_owned);
    for (uint32_t p = l->n_owned; p < end; p++) vti_pset_user_hold(&m->pset, l->at[p]);
    vti_lane_count_warm(&m->vset, sp, group, -(int32_t)(end - l->n_owned));
    if (l->held0 == l->held1) l->held0 = l->front;
    l->n_owned = l->held1 = end;
}

// ---- Sharing

// Warm chunks that are in the way go to the pool.
static vt_status clear_way(vt_manager *m, vti_span *sp, uint32_t group, uint32_t end)
{
    const vti_lane *l = &sp->lane[group];
    for (uint32_t p = 0, n; p < end && p < l->n_end; p += n) {
        for (n = 0; p + n < end && vti_lane_at(l, p + n) != VTI_NO_CHUNK; n++) {
        }
        if (n > 0) VT_TRY(vti_job_now(m, sp, group, &(vti_order_form){VTI_JOB_UNMAP, p, n, 0, 0}));
        n += n == 0;
    }
    return VT_OK;
}

vt_status vti_lane_alias(vt_manager *m, vti_span *sp, uint32_t group, const uint32_t *at,
                         uint32_t first, uint32_t end)
{
    vti_lane *l = &sp->lane[group];
    assert(l->n_owned == 0 && l->held1 == 0);
    vti_lane_settle(m, sp, group);
    VT_TRY(clear_way(m, sp, group, end));
    l->dirty_end = 0; // what is beyond was wiped
    l->front = l->held0 = l->held1 = l->n_owned = first;
    if (first == end) return VT_OK;
    VT_TRY(vti_lane_make_job_room(l, first, end - first));
    for (uint32_t p = first; p < end; p++) l->plan[p - first] = vti_plan_of(m, at[p]);
    VT_TRY(vti_runs_make(m, sp, vti_plan_runs(m, sp, group, first, l->plan, end - first)));
    vt_vmm_use use = m->guards ? VT_VMM_READ : VT_VMM_ALIAS;
    l->n_owned = end; // what is held is not given up
    vt_status st =
        vti_job_now(m, sp, group, &(vti_order_form){VTI_JOB_BACK, first, end - first, use, 0});
    if (st != VT_OK && !sp->is_lost) l->n_owned = first;
    VT_TRY(st);
    l->guard_end = m->guards ? end : 0;
    vti_lane_set_ro(&m->vset, sp, group, l->guard_end);
    return VT_OK;
}
