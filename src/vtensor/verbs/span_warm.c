// span_warm.c - the warm chunks of a span: spare ones that stay mapped after its tokens. They are
// shed (unmapped and destroyed) or wiped.
#include "verbs.h"

#include <assert.h>

#include "vtensor/common/try.h"

// The last warm stretch within [first, end): the positions from *from to the returned end. 0: none.
static uint32_t warm_stretch(const vti_span *sp, uint32_t first, uint32_t end, uint32_t *from)
{
    if (first < sp->n_owned) first = sp->n_owned;
    if (end > sp->n_end) end = sp->n_end;
    while (end > first && sp->at[end - 1] == VTI_NO_REGION) end--;
    if (end <= first) return 0;
    *from = end - 1;
    while (*from > first && sp->at[*from - 1] != VTI_NO_REGION) (*from)--;
    return end;
}

vt_status vti_span_shed(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end, uint32_t max_n)
{
    vti_job_settle(m, sp);
    VT_TRY(vti_span_repair(m, sp));
    if (sp->needs_fence) VT_TRY(vti_span_fence(m, sp));
    uint32_t from;
    while (max_n > 0 && (end = warm_stretch(sp, first, end, &from)) > 0) {
        if (end - from > max_n) from = end - max_n;
        max_n -= end - from;
        VT_TRY(vti_job_now(m, sp, VTI_JOB_SHED, from, end - from));
    }
    return VT_OK;
}

uint32_t vti_span_shed_async(vt_manager *m, vti_span *sp, uint64_t max_n)
{
    uint32_t from, end;
    assert(sp->state == VTI_SPAN_IDLE);
    if (sp->is_lent || sp->tear.n > 0 || (end = warm_stretch(sp, 0, UINT32_MAX, &from)) == 0)
        return 0;
    if (end - from > max_n) from = end - (uint32_t)max_n;
    vt_status st = vti_job_post(m, sp, VTI_JOB_SHED, from, end - from, VTI_RETURN);
    return st == VT_OK ? end - from : 0;
}

vt_status vti_span_leave_home(vt_manager *m, vti_span *sp)
{
    if (sp->home == VTI_NO_REGION) return VT_OK;
    VT_TRY(vti_span_shed(m, sp, 0, UINT32_MAX, UINT32_MAX));
    vti_pset_leave(&m->pset, sp->home);
    sp->home = VTI_NO_REGION;
    return VT_OK;
}

// ---- Wiping

bool vti_span_dirty(const vti_span *sp, uint32_t *first, uint32_t *n)
{
    uint32_t end = warm_stretch(sp, 0, sp->n_dirty, first);
    *n = end > 0 ? end - *first : 0;
    return end > 0;
}

vt_status vti_span_clean(vt_manager *m, vti_span *sp)
{
    vti_job_settle(m, sp);
    VT_TRY(vti_span_repair(m, sp));
    uint32_t first, n;
    while (vti_span_dirty(sp, &first, &n)) VT_TRY(vti_job_now(m, sp, VTI_JOB_ZERO, first, n));
    sp->n_dirty = 0;
    return VT_OK;
}
