// quarantine.c - spans that could not be put back.
//
// A job has failed, and undoing it has failed as well: in a portion of a lane, some views map the
// chunks and others do not. The span is never used again. It holds whatever it maps, so that none of
// that memory gets another holder while an address still shows it; it is counted, and unmapped with
// the manager. If a sequence lives in the span, it is lost.
//
// What the portion maps is known from the job (lane_job.c): after BACK the views below n_view, and
// n_left positions in view n_view; after UNMAP the views from n_view on, and n_left positions in the
// one before.
#include "verbs.h"

// A lane holds all that it maps.
static void hold_all(vt_manager *m, vti_span *sp, uint32_t group)
{
    vti_lane *l = &sp->lane[group];
    for (uint32_t p = 0; p < l->n_end; p++) {
        bool is_held = p >= l->held0 && p < l->held1;
        if (!is_held && l->at[p] != VTI_NO_CHUNK) vti_pset_user_hold(&m->pset, l->at[p]);
    }
    vti_lane_count_warm(&m->vset, sp, group, -(int32_t)l->n_warm);
    l->held0 = 0;
    if (l->n_end > l->held1) l->held1 = l->n_end;
}

void vti_span_quarantine(vt_manager *m, vti_span *sp)
{
    if (sp->is_lost) return;
    sp->is_lost = true;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        vti_lane_settle(m, sp, g);
        hold_all(m, sp, g);
    }
    if (sp->state != VTI_SPAN_LIVE) vti_vset_move(&m->vset, sp, VTI_SPAN_QUARANTINED);
}
