// stream.c - the stand-in's streams and events; see standin.h.
//
// A stream is a queue of operations, done in order and as late as possible. An event remembers how
// many operations its stream had when it was recorded, and is complete once as many are done.
// Operations after a running kernel wait for it, and those after a wait for an event wait for what
// the event remembered then.
#include "state.h"

#include "emulator/emu_library.h"

#include <stdlib.h>
#include <string.h>

typedef struct op {
    struct op *next;
    bool runs;           // a kernel that is not ended
    bool writes;         // fill, or copy where src is not 0
    vti_cu_stream after; // NULL: waits for no other stream
    uint64_t after_target;
    const _Atomic uint32_t *word; // NULL: waits for no value
    uint32_t least;
    uintptr_t dst, src;
    bool host_dst, host_src;
    unsigned char value;
    size_t size_bytes;
    standin_work *work; // NULL: no launch
    standin_task task;  // run NULL: none
} op;

struct CUstream_st {
    struct CUstream_st *next;
    bool blocking, captured, broken; // broken: its capture
    int device;                      // -1: of every one
    op *head, **tail;
    uint64_t n_given, n_done;
};

struct CUevent_st {
    struct CUevent_st *next;
    vti_cu_stream stream; // NULL: never recorded
    uint64_t target;
    bool captured; // it was recorded in a stream that was being captured
};

static struct CUstream_st default_stream = {.tail = &default_stream.head, .device = -1};
static vti_cu_stream streams;
static vti_cu_event events;
static pthread_cond_t kernel_ended = PTHREAD_COND_INITIALIZER;
static pthread_cond_t waiter_came = PTHREAD_COND_INITIALIZER;
static int n_waiting;

static vti_cu_stream *link_of(vti_cu_stream stream)
{
    for (vti_cu_stream *at = &streams; *at; at = &(*at)->next)
        if (*at == stream) return at;
    return NULL;
}

static vti_cu_event *link_of_event(vti_cu_event event)
{
    for (vti_cu_event *at = &events; *at; at = &(*at)->next)
        if (*at == event) return at;
    return NULL;
}

// NULL where there is no such stream.
static vti_cu_stream stream_of(vti_cu_stream stream)
{
    if (!stream) return &default_stream;
    return link_of(stream) ? stream : NULL;
}

// The default stream is ordered with all that block, so it suffers from their captures.
static bool is_captured(const struct CUstream_st *s)
{
    if (s != &default_stream) return s->captured;
    for (vti_cu_stream other = streams; other; other = other->next)
        if (other->captured && other->blocking) return true;
    return false;
}

bool standin_captures(void)
{
    for (vti_cu_stream s = streams; s; s = s->next)
        if (s->captured) return true;
    return false;
}

void standin_break_captures(void)
{
    for (vti_cu_stream s = streams; s; s = s->next) s->broken |= s->captured;
}

static bool is_reachable(uintptr_t at, bool on_host, size_t size_bytes)
{
    if (on_host) return standin_is_pinned((void *)at, size_bytes);
    return standin_is_open(at, size_bytes);
}

static bool may_run(const op *o)
{
    if (!is_reachable(o->dst, o->host_dst, o->size_bytes)) return false;
    return !o->src || is_reachable(o->src, o->host_src, o->size_bytes);
}

static void perform_transfer(const op *o)
{
    if (!may_run(o)) {
        (void)standin_breach("work on memory that is not there when it runs");
        return;
    }
    standin_device_open(-1);
    if (o->src)
        memmove((void *)o->dst, (const void *)o->src, o->size_bytes);
    else
        memset((void *)o->dst, o->value, o->size_bytes);
    standin_device_close();
    if (!o->host_dst) standin_kernel_memory(o->dst, o->size_bytes, EMU_MEMORY_WRITTEN);
}

static bool may_task(const standin_task *t)
{
    for (size_t i = 0; i < sizeof t->range / sizeof *t->range; i++)
        if (t->range[i].size_bytes && !standin_is_open(t->range[i].at, t->range[i].size_bytes))
            return false;
    return true;
}

static void perform_task(const standin_task *t)
{
    if (!may_task(t)) {
        (void)standin_breach("a library's work on memory that is not there when it runs");
        return;
    }
    standin_device_open(-1);
    t->run(t->arg);
    standin_device_close();
    for (size_t i = 0; i < sizeof t->range / sizeof *t->range; i++)
        if (t->range[i].writes)
            standin_kernel_memory(t->range[i].at, t->range[i].size_bytes, EMU_MEMORY_WRITTEN);
}

static void perform(const op *o, int device)
{
    if (standin_is_broken()) return;
    if (o->work) standin_work_run(o->work, device);
    if (o->writes) perform_transfer(o);
    if (o->task.run) perform_task(&o->task);
}

static void pop(vti_cu_stream s)
{
    op *o = s->head;
    s->head = o->next;
    if (!s->head) s->tail = &s->head;
    s->n_done++;
    standin_work_free(o->work);
    free(o->task.arg);
    free(o);
}

static bool has_kernel(const struct CUstream_st *s)
{
    for (const op *o = s->head; o; o = o->next)
        if (o->runs) return true;
    return false;
}

static bool overlaps(vti_cu_ptr a, size_t a_bytes, vti_cu_ptr b, size_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

static bool task_touches(const standin_task *t, vti_cu_ptr addr, size_t size_bytes)
{
    for (size_t i = 0; i < sizeof t->range / sizeof *t->range; i++)
        if (overlaps(t->range[i].at, t->range[i].size_bytes, addr, size_bytes)) return true;
    return false;
}

static bool touches(const op *o, vti_cu_ptr addr, size_t size_bytes)
{
    if (o->task.run) return task_touches(&o->task, addr, size_bytes);
    if (!o->writes) return false;
    if (!o->host_dst && overlaps(o->dst, o->size_bytes, addr, size_bytes)) return true;
    if (!o->src || o->host_src) return false;
    return overlaps(o->src, o->size_bytes, addr, size_bytes);
}

static bool stream_touches(const struct CUstream_st *s, vti_cu_ptr addr, size_t size_bytes)
{
    for (const op *o = s->head; o; o = o->next)
        if (touches(o, addr, size_bytes)) return true;
    return false;
}

bool standin_works_at(vti_cu_ptr addr, size_t size_bytes)
{
    if (stream_touches(&default_stream, addr, size_bytes)) return true;
    for (vti_cu_stream s = streams; s; s = s->next)
        if (stream_touches(s, addr, size_bytes)) return true;
    return false;
}

static bool is_done(vti_cu_stream s, uint64_t target);

static bool is_held_up(const op *o)
{
    return o->runs || (o->after && !is_done(o->after, o->after_target)) ||
           (o->word && *o->word < o->least);
}

// Does work until so much of the stream's is done. An operation waits for older ones alone, so that
// streams which wait for each other in turn come to an end.
static void progress(vti_cu_stream s, uint64_t target)
{
    if (s->blocking && has_kernel(&default_stream)) return;
    standin_device_keep();
    while (s->n_done < target && !is_held_up(s->head)) {
        perform(s->head, s->device);
        pop(s);
    }
    standin_device_rest();
}

// The work of a stream is over when the stream is destroyed.
static bool is_done(vti_cu_stream s, uint64_t target)
{
    if (s != &default_stream && !link_of(s)) return true;
    progress(s, target);
    return s->n_done >= target;
}

void standin_finish_all(void)
{
    progress(&default_stream, default_stream.n_given);
    for (vti_cu_stream s = streams; s; s = s->next) progress(s, s->n_given);
}

void standin_settle(void)
{
    pthread_mutex_lock(&standin_mu);
    standin_finish_all();
    pthread_mutex_unlock(&standin_mu);
}

static void wait_for(vti_cu_stream s, uint64_t target)
{
    while (!is_done(s, target)) {
        n_waiting++;
        pthread_cond_broadcast(&waiter_came);
        pthread_cond_wait(&kernel_ended, &standin_mu);
        n_waiting--;
    }
}

static void throw_away(vti_cu_stream s)
{
    while (s->head) pop(s);
}

void standin_stream_reset(void)
{
    throw_away(&default_stream);
    for (vti_cu_stream s = streams, next; s; s = next) {
        next = s->next;
        throw_away(s);
        free(s);
    }
    for (vti_cu_event e = events, next; e; e = next) {
        next = e->next;
        free(e);
    }
    streams = NULL;
    events = NULL;
}

void standin_stream_look(standin_report *r)
{
    for (vti_cu_stream s = streams; s; s = s->next) r->n_stream++;
    for (vti_cu_event e = events; e; e = e->next) r->n_event++;
}

static vti_cu_result give(vti_cu_stream stream, const op *what)
{
    vti_cu_stream s = stream_of(stream);
    if (!s) return standin_breach("work for a stream that is none");
    if (is_captured(s)) return standin_breach("work for a stream that is being captured");
    op *o = malloc(sizeof *o);
    if (!o) return VTI_CU_OUT_OF_MEMORY;
    *o = *what;
    o->next = NULL;
    *s->tail = o;
    s->tail = &o->next;
    s->n_given++;
    return VTI_CU_SUCCESS;
}

static vti_cu_result give_checked(vti_cu_stream stream, op what)
{
    what.writes = true;
    if (what.size_bytes == 0 || !may_run(&what))
        return standin_breach("work on memory that is not there");
    return give(stream, &what);
}

int standin_stream_device(vti_cu_stream stream)
{
    const struct CUstream_st *s = stream_of(stream);
    return s ? s->device : -1;
}

// Whether the stream is of the device whose context is current, as kernels want it.
static bool is_here(vti_cu_stream stream)
{
    const int device = standin_stream_device(stream);
    return device < 0 || device == standin_current_device();
}

vti_cu_result standin_give_work(vti_cu_stream stream, standin_work *w)
{
    op o = {.work = w};
    vti_cu_result r = is_here(stream) ? give(stream, &o)
                                      : standin_breach("a launch in a stream of another device");
    if (r != VTI_CU_SUCCESS) standin_work_free(w);
    return r;
}

vti_cu_result standin_give_task(vti_cu_stream stream, const standin_task *t)
{
    const op o = {.task = *t};
    vti_cu_result r = may_task(t) ? give(stream, &o)
                                  : standin_breach("a library's work on memory that is not there");
    if (r != VTI_CU_SUCCESS) free(t->arg);
    return r;
}

vti_cu_result standin_give_order(vti_cu_stream stream, vti_cu_stream after)
{
    const vti_cu_stream s = stream_of(after);
    const op o = {.after = s, .after_target = s ? s->n_given : 0};
    return give(stream, &o);
}

void standin_launch(void *stream, uintptr_t dst, unsigned char value, size_t size_bytes)
{
    op o = {.runs = true, .writes = size_bytes > 0, .dst = dst, .value = value};
    o.size_bytes = size_bytes;
    pthread_mutex_lock(&standin_mu);
    (void)give(stream, &o);
    pthread_mutex_unlock(&standin_mu);
}

void standin_end_kernels(void *stream, int n)
{
    pthread_mutex_lock(&standin_mu);
    vti_cu_stream s = stream_of(stream);
    for (op *o = s ? s->head : NULL; o && n > 0; o = o->next) {
        n -= o->runs;
        o->runs = false;
    }
    pthread_cond_broadcast(&kernel_ended);
    pthread_mutex_unlock(&standin_mu);
}

void standin_await_waiter(void)
{
    pthread_mutex_lock(&standin_mu);
    while (n_waiting == 0) pthread_cond_wait(&waiter_came, &standin_mu);
    pthread_mutex_unlock(&standin_mu);
}

static vti_cu_result make_stream(vti_cu_stream *stream, bool blocking)
{
    vti_cu_stream s = calloc(1, sizeof *s);
    if (!s) return VTI_CU_OUT_OF_MEMORY;
    s->tail = &s->head;
    s->blocking = blocking;
    s->device = standin_current_device();
    s->next = streams;
    *stream = streams = s;
    return VTI_CU_SUCCESS;
}

static vti_cu_result end_stream(vti_cu_stream stream)
{
    vti_cu_stream *at = link_of(stream);
    if (!at) return standin_breach("a stream destroyed that is none");
    progress(stream, stream->n_given);
    throw_away(stream);
    *at = stream->next;
    free(stream);
    return VTI_CU_SUCCESS;
}

vti_cu_result cuStreamCreate(vti_cu_stream *stream, unsigned flags)
{
    STANDIN_BEGIN(F_stream_create);
    return standin_end(make_stream(stream, (flags & VTI_CU_STREAM_NON_BLOCKING) == 0));
}

vti_cu_result cuStreamDestroy_v2(vti_cu_stream stream)
{
    STANDIN_BEGIN(F_stream_destroy);
    return standin_end(end_stream(stream));
}

void *standin_new_stream(bool blocking)
{
    vti_cu_stream s = NULL;
    pthread_mutex_lock(&standin_mu);
    (void)make_stream(&s, blocking);
    pthread_mutex_unlock(&standin_mu);
    return s;
}

void standin_drop_stream(void *stream)
{
    pthread_mutex_lock(&standin_mu);
    (void)end_stream(stream);
    pthread_mutex_unlock(&standin_mu);
}

static vti_cu_result capture(vti_cu_stream stream, bool on)
{
    if (!link_of(stream) || stream->captured == on) return standin_breach("an odd capture");
    bool broken = stream->broken;
    stream->captured = on;
    stream->broken = false;
    return broken ? CU_CAPTURE_INVALIDATED : VTI_CU_SUCCESS;
}

void standin_capture(void *stream, bool on)
{
    pthread_mutex_lock(&standin_mu);
    (void)capture(stream, on);
    pthread_mutex_unlock(&standin_mu);
}

vti_cu_result cuStreamBeginCapture_v2(vti_cu_stream stream, vti_cu_capture_mode mode)
{
    STANDIN_BEGIN(F_stream_begin_capture);
    if (mode != VTI_CU_CAPTURE_MODE_GLOBAL) return standin_end(standin_breach("an odd capture"));
    return standin_end(capture(stream, true));
}

// A graph is its stream's address, and nothing else.
vti_cu_result cuStreamEndCapture(vti_cu_stream stream, void **graph)
{
    STANDIN_BEGIN(F_stream_end_capture);
    vti_cu_result r = capture(stream, false);
    *graph = r == VTI_CU_SUCCESS ? stream : NULL;
    return standin_end(r);
}

// The word is pinned memory; nobody is told when it changes, so nothing may wait for it.
vti_cu_result cuStreamWaitValue32_v2(vti_cu_stream stream, vti_cu_ptr addr, uint32_t value,
                                     unsigned flags)
{
    STANDIN_BEGIN(F_stream_wait_value);
    op o = {.word = (const _Atomic uint32_t *)(uintptr_t)addr, .least = value};
    if (flags != 0 || !standin_is_pinned((const void *)(uintptr_t)addr, sizeof value))
        return standin_end(standin_breach("an odd wait for a value"));
    return standin_end(give(stream, &o));
}

vti_cu_result cuStreamIsCapturing(vti_cu_stream stream, vti_cu_capture_status *status)
{
    STANDIN_BEGIN(F_stream_is_capturing);
    vti_cu_stream s = stream_of(stream);
    if (!s) return standin_end(standin_breach("a stream asked that is none"));
    if (!stream && is_captured(s)) return standin_end(CU_CAPTURE_IMPLICIT);
    *status = s->captured;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuStreamQuery(vti_cu_stream stream)
{
    STANDIN_BEGIN(F_stream_query);
    vti_cu_stream s = stream_of(stream);
    if (!s) return standin_end(standin_breach("a stream asked that is none"));
    if (is_captured(s)) return standin_end(standin_breach("a stream asked during its capture"));
    return standin_end(is_done(s, s->n_given) ? VTI_CU_SUCCESS : VTI_CU_NOT_READY);
}

// The mutex is taken twice where the call is to fail, which changes nothing for one caller.
vti_cu_result cuStreamSynchronize(vti_cu_stream stream)
{
    vti_cu_result begun = standin_begin(F_stream_synchronize);
    if (begun != VTI_CU_SUCCESS) pthread_mutex_lock(&standin_mu);
    vti_cu_stream s = stream_of(stream);
    if (s && !is_captured(s))
        wait_for(s, s->n_given);
    else
        begun = standin_breach("a wait for a stream that is none, or is being captured");
    return standin_end(begun);
}

static vti_cu_result make_event(vti_cu_event *event)
{
    vti_cu_event e = calloc(1, sizeof *e);
    if (!e) return VTI_CU_OUT_OF_MEMORY;
    e->next = events;
    *event = events = e;
    return VTI_CU_SUCCESS;
}

static vti_cu_result end_event(vti_cu_event event)
{
    vti_cu_event *at = link_of_event(event);
    if (!at) return standin_breach("an event destroyed that is none");
    *at = event->next;
    free(event);
    return VTI_CU_SUCCESS;
}

static vti_cu_result record(vti_cu_event event, vti_cu_stream stream)
{
    vti_cu_stream s = stream_of(stream);
    if (!s || !link_of_event(event)) return CU_INVALID_HANDLE;
    if (!stream && is_captured(s)) return standin_breach("an event in a stream that is unusable");
    event->stream = s;
    event->target = s->n_given;
    event->captured = s->captured;
    return VTI_CU_SUCCESS;
}

void *standin_new_event(void *stream)
{
    vti_cu_event e = NULL;
    pthread_mutex_lock(&standin_mu);
    if (make_event(&e) == VTI_CU_SUCCESS) (void)record(e, stream);
    pthread_mutex_unlock(&standin_mu);
    return e;
}

void standin_drop_event(void *event)
{
    pthread_mutex_lock(&standin_mu);
    (void)end_event(event);
    pthread_mutex_unlock(&standin_mu);
}

vti_cu_result cuEventCreate(vti_cu_event *event, unsigned flags)
{
    STANDIN_BEGIN(F_event_create);
    if (flags != (VTI_CU_EVENT_BLOCKING_SYNC | VTI_CU_EVENT_DISABLE_TIMING))
        return standin_end(standin_breach("an event whose waiter would spin"));
    return standin_end(make_event(event));
}

vti_cu_result cuEventDestroy_v2(vti_cu_event event)
{
    STANDIN_BEGIN(F_event_destroy);
    return standin_end(end_event(event));
}

vti_cu_result cuEventRecord(vti_cu_event event, vti_cu_stream stream)
{
    STANDIN_BEGIN(F_event_record);
    return standin_end(record(event, stream));
}

static vti_cu_result odd_event(vti_cu_event event)
{
    if (!link_of_event(event)) return CU_INVALID_HANDLE;
    if (!event->captured) return VTI_CU_SUCCESS;
    (void)standin_breach("the use of an event that belongs to a graph");
    return CU_CAPTURED_EVENT;
}

vti_cu_result cuEventQuery(vti_cu_event event)
{
    STANDIN_BEGIN(F_event_query);
    vti_cu_result r = odd_event(event);
    if (r != VTI_CU_SUCCESS) return standin_end(r);
    bool done = !event->stream || is_done(event->stream, event->target);
    return standin_end(done ? VTI_CU_SUCCESS : VTI_CU_NOT_READY);
}

vti_cu_result cuEventSynchronize(vti_cu_event event)
{
    vti_cu_result begun = standin_begin(F_event_synchronize);
    if (begun != VTI_CU_SUCCESS) pthread_mutex_lock(&standin_mu);
    vti_cu_result r = odd_event(event);
    if (r != VTI_CU_SUCCESS) return standin_end(r);
    if (event->stream) wait_for(event->stream, event->target);
    return standin_end(begun);
}

vti_cu_result cuStreamWaitEvent(vti_cu_stream stream, vti_cu_event event, unsigned flags)
{
    STANDIN_BEGIN(F_stream_wait_event);
    if (flags != 0) return standin_end(standin_breach("a wait with odd flags"));
    vti_cu_result r = odd_event(event);
    if (r != VTI_CU_SUCCESS || !event->stream) return standin_end(r);
    op o = {.after = event->stream, .after_target = event->target};
    return standin_end(give(stream, &o));
}

vti_cu_result cuCtxSynchronize(void)
{
    STANDIN_BEGIN(F_ctx_synchronize);
    wait_for(&default_stream, default_stream.n_given);
    for (vti_cu_stream s = streams; s; s = s->next) wait_for(s, s->n_given);
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuMemsetD8Async(vti_cu_ptr dst, unsigned char value, size_t size_bytes,
                              vti_cu_stream stream)
{
    STANDIN_BEGIN(F_memset_async);
    op o = {.dst = dst, .value = value, .size_bytes = size_bytes};
    return standin_end(give_checked(stream, o));
}

vti_cu_result cuMemcpyDtoDAsync_v2(vti_cu_ptr dst, vti_cu_ptr src, size_t size_bytes,
                                   vti_cu_stream stream)
{
    STANDIN_BEGIN(F_memcpy_dtod_async);
    op o = {.dst = dst, .src = src, .size_bytes = size_bytes};
    return standin_end(give_checked(stream, o));
}

vti_cu_result cuMemcpyDtoHAsync_v2(void *dst, vti_cu_ptr src, size_t size_bytes,
                                   vti_cu_stream stream)
{
    STANDIN_BEGIN(F_memcpy_dtoh_async);
    op o = {.dst = (uintptr_t)dst, .host_dst = true, .src = src, .size_bytes = size_bytes};
    return standin_end(give_checked(stream, o));
}

static bool odd_rows(const vti_cu_copy_2d *c)
{
    return c->src_type != VTI_CU_MEMORY_DEVICE || c->dst_type != VTI_CU_MEMORY_HOST ||
           c->src_x | c->src_y | c->dst_x | c->dst_y || !c->height ||
           c->src_pitch < c->width_bytes || c->dst_pitch < c->width_bytes;
}

// From the device to the host, row by row.
vti_cu_result cuMemcpy2DAsync_v2(const vti_cu_copy_2d *copy, vti_cu_stream stream)
{
    STANDIN_BEGIN(F_memcpy_2d_async);
    vti_cu_result r = VTI_CU_SUCCESS;
    if (odd_rows(copy)) return standin_end(standin_breach("odd rows of a copy"));
    for (size_t i = 0; i < copy->height && r == VTI_CU_SUCCESS; i++) {
        op o = {.dst = (uintptr_t)copy->dst_host + i * copy->dst_pitch,
                .host_dst = true,
                .src = copy->src_device + i * copy->src_pitch,
                .size_bytes = copy->width_bytes};
        r = give_checked(stream, o);
    }
    return standin_end(r);
}

vti_cu_result cuMemcpyHtoDAsync_v2(vti_cu_ptr dst, const void *src, size_t size_bytes,
                                   vti_cu_stream stream)
{
    STANDIN_BEGIN(F_memcpy_htod_async);
    op o = {.dst = dst, .src = (uintptr_t)src, .host_src = true, .size_bytes = size_bytes};
    return standin_end(give_checked(stream, o));
}

// The two below take any host memory and wait for the default stream, as the driver's do.
vti_cu_result cuMemcpyDtoH_v2(void *dst, vti_cu_ptr src, size_t size_bytes)
{
    STANDIN_BEGIN(F_memcpy_dtoh);
    wait_for(&default_stream, default_stream.n_given);
    if (!standin_is_open(src, size_bytes))
        return standin_end(standin_breach("a copy from memory that is not there"));
    standin_device_open(-1);
    memcpy(dst, (const void *)(uintptr_t)src, size_bytes);
    standin_device_close();
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuMemcpyHtoD_v2(vti_cu_ptr dst, const void *src, size_t size_bytes)
{
    STANDIN_BEGIN(F_memcpy_htod);
    wait_for(&default_stream, default_stream.n_given);
    if (!standin_is_open(dst, size_bytes))
        return standin_end(standin_breach("a copy to memory that is not there"));
    standin_device_open(-1);
    memcpy((void *)(uintptr_t)dst, src, size_bytes);
    standin_device_close();
    standin_kernel_memory(dst, size_bytes, EMU_MEMORY_WRITTEN);
    return standin_end(VTI_CU_SUCCESS);
}
