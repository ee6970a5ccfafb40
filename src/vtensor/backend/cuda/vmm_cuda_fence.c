// vmm_cuda_fence.c - fences in the user's stream: an event for each ticket, in a ring.
//
// Events of one stream complete in the order of their recording, so an event covers its own ticket
// and all before it. That is why
//   - the ring may be short: if a ticket's slot was reused, the oldest event that is left covers
//     it;
//   - a slot may be recorded again while another thread still queries its event for the ticket
//     before: the answer comes later than it could, but is not wrong;
//   - a ticket whose event could not be created or recorded does no harm: a later event covers it,
//     or else the whole stream is queried. So fence never fails.
#include "vmm_cuda.h"

// Takes the next ticket and its slot, whose event is invalid until it is recorded.
static vti_cuda_mark *take_ticket(vti_cuda *c, uint64_t *ticket)
{
    pthread_mutex_lock(&c->mu);
    *ticket = ++c->fence.last;
    vti_cuda_mark *mark = &c->fence.mark[*ticket % VTI_CUDA_N_MARK];
    mark->recorded = false;
    pthread_mutex_unlock(&c->mu);
    return mark;
}

static vti_cu_event record_event(vti_cuda *c, vti_cu_event event, bool *recorded)
{
    enum { FLAGS = VTI_CU_EVENT_BLOCKING_SYNC | VTI_CU_EVENT_DISABLE_TIMING };
    *recorded = false;
    if (!event && c->cu.event_create(&event, FLAGS) != VTI_CU_SUCCESS) return NULL;
    *recorded = c->cu.event_record(event, c->user_stream) == VTI_CU_SUCCESS;
    return event;
}

// Only the owner sets fences, so nobody else changes the slot between the two locks.
vt_status vti_cuda_fence_set(vt_vmm *vmm, uint64_t *ticket)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_mark *mark = take_ticket(c, ticket);
    bool pushed, recorded;
    if (vti_cuda_enter(c, &pushed) != VT_OK) return VT_OK;
    vti_cu_event event = record_event(c, mark->event, &recorded);
    pthread_mutex_lock(&c->mu);
    mark->event = event;
    mark->recorded = recorded;
    pthread_mutex_unlock(&c->mu);
    return vti_cuda_leave(c, pushed, VT_OK);
}

// What to query for a ticket.
typedef struct fence_witness {
    vti_cu_event event; // NULL: the whole stream
    uint64_t ticket;    // the last ticket that it covers
} fence_witness;

// The earliest recorded event at or after the ticket. Pre: mu is held.
static fence_witness find_witness(const vti_cuda_fence *f, uint64_t ticket)
{
    uint64_t oldest = f->last < VTI_CUDA_N_MARK ? 1 : f->last - VTI_CUDA_N_MARK + 1;
    for (uint64_t t = ticket > oldest ? ticket : oldest; t <= f->last; t++) {
        const vti_cuda_mark *mark = &f->mark[t % VTI_CUDA_N_MARK];
        if (mark->recorded) return (fence_witness){mark->event, t};
    }
    return (fence_witness){NULL, f->last};
}

static bool look_up_ticket(vti_cuda *c, uint64_t ticket, fence_witness *w)
{
    pthread_mutex_lock(&c->mu);
    assert(ticket <= c->fence.last);
    bool done = ticket <= c->fence.done;
    if (!done) *w = find_witness(&c->fence, ticket);
    pthread_mutex_unlock(&c->mu);
    return done;
}

static void note_ticket_done(vti_cuda *c, uint64_t ticket)
{
    pthread_mutex_lock(&c->mu);
    if (c->fence.done < ticket) c->fence.done = ticket;
    pthread_mutex_unlock(&c->mu);
}

static vti_cu_result ask_driver(vti_cuda *c, const fence_witness *w, bool wait)
{
    if (w->event) return wait ? c->cu.event_synchronize(w->event) : c->cu.event_query(w->event);
    return wait ? c->cu.stream_synchronize(c->user_stream) : c->cu.stream_query(c->user_stream);
}

vt_status vti_cuda_fence_passed(vt_vmm *vmm, uint64_t ticket, bool wait, bool *is_passed)
{
    vti_cuda *c = vti_cuda_of(vmm);
    fence_witness w;
    if (look_up_ticket(c, ticket, &w)) {
        *is_passed = true;
        return VT_OK;
    }
    bool pushed;
    VT_TRY(vti_cuda_enter(c, &pushed));
    vti_cu_result r = ask_driver(c, &w, wait);
    bool done = r == VTI_CU_SUCCESS;
    if (done) note_ticket_done(c, w.ticket);
    if (done || r == VTI_CU_NOT_READY) *is_passed = done;
    return vti_cuda_leave(c, pushed, done || r == VTI_CU_NOT_READY ? VT_OK : VT_EDEVICE);
}

void vti_cuda_fence_close(vti_cuda *c)
{
    for (int i = 0; i < VTI_CUDA_N_MARK; i++)
        if (c->fence.mark[i].event) (void)c->cu.event_destroy(c->fence.mark[i].event);
}
