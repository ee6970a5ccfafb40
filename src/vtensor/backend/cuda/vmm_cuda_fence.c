// vmm_cuda_fence.c - tickets: marks after the work that the user has submitted, in a ring.
//
//   one stream:           stream --work--work--[mark]--
//
//   several, and events:  stream 0 --work--[relay]------------.
//                         stream 1 --work------[relay]-----.   .
//                         join    -----------------------(wait)(wait)--[mark]--
//
// All marks of one kind are in one stream, and those in `join` follow all earlier marks of the
// first stream; so marks are passed in the order of tickets, one event answers for all tickets up
// to its own, and asking for the oldest is enough. That is also why
//   - the ring may be short: when it is full, the newest mark is set again, further on;
//   - a mark may be set again while another thread still asks for its ticket before: the answer
//     comes later than it could, but is not wrong;
//   - a caller's event is needed for one call only: `join` waits for what was recorded in it then.
//
// A stream that is being captured into a graph runs nothing, and an event that is recorded in it
// belongs to the graph. So a stream is asked before and after the event is recorded, and if it was
// captured, no mark is set. Tickets without a mark, for this reason or because the driver failed,
// are not passed; a call that asks for one tries to set a mark for it. So fence never fails.
#include "vmm_cuda.h"

static vti_cu_result create_event(vti_cuda *c, vti_cu_event *event)
{
    enum { FLAGS = VTI_CU_EVENT_BLOCKING_SYNC | VTI_CU_EVENT_DISABLE_TIMING };
    vti_cu_result r = *event ? VTI_CU_SUCCESS : c->cu.event_create(event, FLAGS);
    if (r != VTI_CU_SUCCESS) *event = NULL;
    return r;
}

vt_status vti_cuda_fence_join(vti_cuda *c)
{
    vti_cuda_fence *f = &c->fence;
    if (f->join) return VT_OK;
    if (create_event(c, &f->relay) != VTI_CU_SUCCESS) return VT_EDEVICE;
    if (c->cu.stream_create(&f->join, VTI_CU_STREAM_NON_BLOCKING) == VTI_CU_SUCCESS) return VT_OK;
    f->join = NULL;
    return VT_EDEVICE;
}

vt_status vti_cuda_fence_await(vti_cuda *c, vti_cu_event event)
{
    pthread_mutex_lock(&c->marking);
    vt_status st = vti_cuda_fence_join(c);
    if (st == VT_OK && c->cu.stream_wait_event(c->fence.join, event, 0) != VTI_CU_SUCCESS)
        st = VT_EDEVICE;
    pthread_mutex_unlock(&c->marking);
    return st;
}

// False if the event was not recorded after the work of the stream.
static bool record_event(vti_cuda *c, vti_cu_event event, vti_cu_stream stream)
{
    return vti_cuda_runs(c, stream) && c->cu.event_record(event, stream) == VTI_CU_SUCCESS &&
           vti_cuda_runs(c, stream);
}

static bool record_mark(vti_cuda *c, vti_cu_event event)
{
    if (!c->fence.join) return record_event(c, event, c->stream[0]);
    for (uint32_t i = 0; i < c->n_stream; i++)
        if (!record_event(c, c->fence.relay, c->stream[i]) ||
            c->cu.stream_wait_event(c->fence.join, c->fence.relay, 0) != VTI_CU_SUCCESS)
            return false;
    return c->cu.event_record(event, c->fence.join) == VTI_CU_SUCCESS;
}

// Mark i covers the ticket now. It may be new, or not passed, or passed just now as it was before.
static void publish_mark(vti_cuda_fence *f, uint64_t i, uint64_t ticket)
{
    f->mark[i % VTI_CUDA_N_MARK].ticket = ticket;
    f->marked = ticket;
    if (f->head > i) f->head = i;
    if (f->tail == i) f->tail++;
}

// Mark i could not be set again, and where its event is now is not known: its tickets have none.
static void lose_mark(vti_cuda_fence *f, uint64_t i)
{
    if (i < f->head || i == f->tail) return; // it is passed, or was none
    f->tail = i;
    f->marked = i > f->head ? f->mark[(i - 1) % VTI_CUDA_N_MARK].ticket : f->done;
}

// A mark for all tickets that were taken. Pre: marking is held.
static void set_mark(vti_cuda *c)
{
    vti_cuda_fence *f = &c->fence;
    pthread_mutex_lock(&c->mu);
    uint64_t i = f->tail - f->head < VTI_CUDA_N_MARK ? f->tail : f->tail - 1;
    uint64_t ticket = f->last;
    vti_cu_event event = f->mark[i % VTI_CUDA_N_MARK].event;
    pthread_mutex_unlock(&c->mu);
    bool is_set = create_event(c, &event) == VTI_CU_SUCCESS && record_mark(c, event);
    pthread_mutex_lock(&c->mu);
    f->mark[i % VTI_CUDA_N_MARK].event = event;
    if (is_set)
        publish_mark(f, i, ticket);
    else
        lose_mark(f, i);
    pthread_mutex_unlock(&c->mu);
}

uint64_t vti_cuda_fence_take(vti_cuda *c)
{
    pthread_mutex_lock(&c->mu);
    uint64_t ticket = ++c->fence.last;
    pthread_mutex_unlock(&c->mu);
    return ticket;
}

void vti_cuda_fence_mark(vti_cuda *c)
{
    pthread_mutex_lock(&c->marking);
    set_mark(c);
    pthread_mutex_unlock(&c->marking);
}

// What is known of a ticket.
typedef enum ticket_state { TICKET_DONE, TICKET_MARKED, TICKET_BARE } ticket_state;

// *mark: a copy of the earliest that covers the ticket, if it is marked.
static ticket_state look_up_ticket(vti_cuda *c, uint64_t ticket, vti_cuda_mark *mark)
{
    const vti_cuda_fence *f = &c->fence;
    pthread_mutex_lock(&c->mu);
    assert(ticket <= f->last);
    ticket_state state = ticket > f->marked ? TICKET_BARE : TICKET_MARKED;
    if (ticket <= f->done) state = TICKET_DONE;
    if (state == TICKET_MARKED) {
        uint64_t i = f->head;
        while (f->mark[i % VTI_CUDA_N_MARK].ticket < ticket) i++;
        *mark = f->mark[i % VTI_CUDA_N_MARK];
    }
    pthread_mutex_unlock(&c->mu);
    return state;
}

vt_status vti_cuda_fence_passed(vti_cuda *c, uint64_t ticket, bool wait, bool *is_passed)
{
    vti_cuda_fence *f = &c->fence;
    vti_cuda_mark mark;
    ticket_state state = look_up_ticket(c, ticket, &mark);
    if (state == TICKET_BARE) {
        pthread_mutex_lock(&c->marking);
        if (look_up_ticket(c, ticket, &mark) == TICKET_BARE) set_mark(c);
        pthread_mutex_unlock(&c->marking);
        state = look_up_ticket(c, ticket, &mark);
    }
    *is_passed = state == TICKET_DONE;
    if (state == TICKET_DONE) return VT_OK;
    if (state == TICKET_BARE) return wait ? VT_EDEVICE : VT_OK;
    vti_cu_result r = wait ? c->cu.event_synchronize(mark.event) : c->cu.event_query(mark.event);
    *is_passed = r == VTI_CU_SUCCESS;
    if (!*is_passed) return r == VTI_CU_NOT_READY ? VT_OK : VT_EDEVICE;
    pthread_mutex_lock(&c->mu);
    if (f->done < mark.ticket) f->done = mark.ticket;
    while (f->head < f->tail && f->mark[f->head % VTI_CUDA_N_MARK].ticket <= f->done) f->head++;
    pthread_mutex_unlock(&c->mu);
    return VT_OK;
}

void vti_cuda_fence_close(vti_cuda *c)
{
    vti_cuda_fence *f = &c->fence;
    for (int i = 0; i < VTI_CUDA_N_MARK; i++)
        if (f->mark[i].event) (void)c->cu.event_destroy(f->mark[i].event);
    if (f->relay) (void)c->cu.event_destroy(f->relay);
    if (f->join) (void)c->cu.stream_destroy(f->join);
}
