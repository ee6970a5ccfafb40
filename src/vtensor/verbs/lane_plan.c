// lane_plan.c - plans: chunks that were taken out of the structure for a lane. A job maps them, or
// they go back where they were.
#include "verbs.h"

vti_plan vti_plan_of(const vt_manager *m, uint32_t chunk)
{
    return (vti_plan){
        .chunk = chunk, .name = vti_pset_index(&m->pset, chunk), .drop = VTI_NO_CHUNK};
}

void vti_plan_drop(vt_manager *m, uint32_t cls, const vti_plan *plan, uint32_t from, uint32_t to)
{
    for (uint32_t i = to; i-- > from;) {
        const vti_plan *p = &plan[i];
        if (p->is_absent)
            vti_pset_unreserve(&m->pset, p->chunk);
        else
            vti_pset_place(&m->pset, p->chunk, VTI_IN_POOL);
        if (p->drop != VTI_NO_CHUNK)
            vti_pset_place(&m->pset, p->drop, VTI_IN_POOL);
        else if (p->is_absent)
            m->reserved_bytes -= m->pset.cls[cls].chunk_bytes;
    }
}

uint64_t vti_plan_runs(const vt_manager *m, const vti_span *sp, uint32_t group, uint32_t first,
                       const vti_plan *plan, uint32_t n)
{
    const vti_lane *l = &sp->lane[group];
    // Below n_ro the access differs.
    uint32_t before = first > l->n_ro ? vti_lane_at(l, first - 1) : VTI_NO_CHUNK;
    uint64_t n_run = 0; // what follows begins a run already
    for (uint32_t i = 0; i < n; before = plan[i++].chunk)
        n_run += !vti_pset_continues(&m->pset, before, plan[i].chunk);
    return n_run * m->geo.group[group].n_view;
}
