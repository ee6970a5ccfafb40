// span_fence.c - waiting for the device: a span's fence is a ticket after the work that may use
// what the span releases.
#include "verbs.h"

#include "vtensor/common/try.h"

// Takes a ticket after the work that may use what the span releases now.
vt_status vti_span_fence(vt_manager *m, vti_span *sp)
{
    VT_TRY(vti_tally_backend(m, m->vmm->ops->fence(m->vmm, &sp->fence)));
    sp->needs_fence = false;
    return VT_OK;
}

vt_status vti_span_await_fence(vt_manager *m, const vti_span *sp)
{
    bool is_passed;
    if (sp->fence == 0) return VT_OK;
    return vti_tally_backend(m, m->vmm->ops->passed(m->vmm, sp->fence, true, &is_passed));
}

// Work on a live span may have been submitted at any time, so a new ticket is taken; the other
// spans have had no work since their ticket.
vt_status vti_span_quiesce(vt_manager *m, vti_span *sp)
{
    if (sp->state == VTI_SPAN_LIVE) VT_TRY(vti_span_fence(m, sp));
    return vti_span_await_fence(m, sp);
}
