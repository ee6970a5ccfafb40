// vmm_cuda_copy.c - what moves bytes on the GPU: fetch, copy_each and zero, at once in a stream of
// the backend or queued in the user's first stream; and the swap in host memory.
//
// Windows. A slice is copied from a window: addresses of the backend where it is mapped meanwhile.
//
//          take                   end, or it could not be mapped
//   idle ----------> in use -------------------------------------> idle
//                    ^  | fly
//                    |  '-----> flying
//                    '------------ its ticket has passed
//
// A queued copy reads its window after the call has returned, so the window flies until a ticket
// that was given after the copy has passed. The list begins with the idle windows, and has those
// that fly by their tickets; the first is asked, without waiting. If it cannot be used again, a new
// one is reserved: there are as many as copies were ever queued at once. A ticket serves all
// windows that flew since the one before; the manager gives most of them, and after MAX_OPEN
// windows without one, it is given here.
//
// A window that has flown stays mapped until it is taken, and holds the memory of its chunk, so
// destroy empties the windows of the chunk first; the caller of destroy knows that the copies from
// it are done.
//
// A window belongs to the thread that took it out of the list. If it cannot be unmapped, it becomes
// idle nevertheless, and the next thread that takes it tries again.
//
// Swap. It is ordinary host memory, reached through a ring of pinned buffers:
//
//   out    device --(copy)--> stage 0 --(sum, memcpy)--> swap
//                  --(copy)--> stage 1 --(sum, memcpy)--> swap     one is filled while the other
//   in     swap --(memcpy, sum)--> stage 0 --(copy)--> device      is emptied
//
// The copies run in a stream of the backend, concurrently with the user's work: the manager has
// seen the ticket pass after which nothing writes these bytes (or, on the way back, uses them). The
// thread that swaps waits for its own copies only. Buffers are small, so that the two halves
// overlap within a slice.
//
// Pinned memory is withdrawn from the whole machine, and pinning is slow: only the buffers are
// pinned, once, when the swap is opened. The swap itself is one private mapping: pages come with
// the first write, and drop returns them.
#include "vmm_cuda.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// ---- Windows

enum { MAX_OPEN = 16 };

static vt_status empty_window(vti_cuda *c, vti_cuda_window *w)
{
    if (w->mapped_bytes == 0) return VT_OK;
    VT_TRY(vti_cuda_unmap(c, w->addr, w->mapped_bytes));
    w->mapped_bytes = 0;
    return VT_OK;
}

static void put_idle(vti_cuda *c, vti_cuda_window *w)
{
    vti_cuda_windows *ws = &c->windows;
    pthread_mutex_lock(&c->mu);
    w->ticket = 0;
    w->next = ws->first;
    if (!w->next) ws->last = &w->next;
    ws->first = w;
    pthread_mutex_unlock(&c->mu);
}

// Pre: mu is held. `at` is a link of the list.
static vti_cuda_window *unlink_window(vti_cuda_windows *ws, vti_cuda_window **at)
{
    vti_cuda_window *w = *at;
    *at = w->next;
    if (!w->next) ws->last = at;
    return w;
}

// The first of the list; NULL: something may still read there, or there is none.
static vti_cuda_window *take_front_window(vti_cuda *c)
{
    vti_cuda_windows *ws = &c->windows;
    bool is_passed = false;
    pthread_mutex_lock(&c->mu);
    const uint64_t ticket = ws->first ? ws->first->ticket : UINT64_MAX;
    const bool is_given = ticket <= c->fence.last;
    pthread_mutex_unlock(&c->mu);
    if (!is_given || vti_cuda_fence_passed(c, ticket, false, &is_passed) != VT_OK || !is_passed)
        return NULL;
    pthread_mutex_lock(&c->mu); // the other thread may have taken it
    const bool is_there = ws->first && ws->first->ticket <= ticket;
    vti_cuda_window *w = is_there ? unlink_window(ws, &ws->first) : NULL;
    pthread_mutex_unlock(&c->mu);
    return w;
}

static vt_status make_window(vti_cuda *c, vti_cuda_window **window)
{
    vti_cuda_window *w = calloc(1, sizeof *w);
    if (!w) return VT_EDEVICE;
    vt_status st = vti_cuda_reserve(c, c->windows.each_bytes, &w->addr);
    if (st == VT_OK)
        *window = w;
    else
        free(w);
    return st;
}

// A window that shows the slice. Errors: as of mapping; *window is NULL then.
static vt_status begin_window(vti_cuda *c, uint32_t slice, uint64_t index, vti_cuda_window **window)
{
    *window = NULL;
    vti_cuda_window *w = take_front_window(c);
    vt_status st = w ? empty_window(c, w) : make_window(c, &w);
    if (!w) return st;
    if (st == VT_OK) st = vti_cuda_map(c, w->addr, slice, index, NULL, 1);
    if (st != VT_OK) {
        put_idle(c, w);
        return st;
    }
    w->mapped_bytes = vti_cuda_class(c, index)->slice_bytes;
    w->index = index;
    *window = w;
    return VT_OK;
}

// The next ticket is given after the copy was queued, so it covers the copy.
static void fly_window(vti_cuda *c, vti_cuda_window *w)
{
    pthread_mutex_lock(&c->mu);
    vti_cuda_windows *ws = &c->windows;
    w->ticket = c->fence.last + 1;
    if (w->ticket != ws->open_ticket) ws->n_open = 0;
    ws->open_ticket = w->ticket;
    bool is_due = ++ws->n_open == MAX_OPEN;
    w->next = NULL;
    if (!ws->first) ws->last = &ws->first;
    *ws->last = w;
    ws->last = &w->next;
    pthread_mutex_unlock(&c->mu);
    if (!is_due) return;
    (void)vti_cuda_fence_take(c);
    vti_cuda_fence_mark(c);
}

// Takes out a window in which one of the chunks is mapped; NULL: there is none.
static vti_cuda_window *take_window_of(vti_cuda *c, uint64_t index, uint64_t n)
{
    pthread_mutex_lock(&c->mu);
    vti_cuda_window **at = &c->windows.first;
    while (*at && !((*at)->mapped_bytes > 0 && (*at)->index >= index && (*at)->index - index < n))
        at = &(*at)->next;
    vti_cuda_window *w = *at ? unlink_window(&c->windows, at) : NULL;
    pthread_mutex_unlock(&c->mu);
    return w;
}

vt_status vti_cuda_windows_leave(vti_cuda *c, uint64_t index, uint64_t n)
{
    vti_cuda_window *w;
    while ((w = take_window_of(c, index, n))) {
        vt_status st = empty_window(c, w);
        put_idle(c, w);
        VT_TRY(st);
    }
    return VT_OK;
}

void vti_cuda_windows_close(vti_cuda *c)
{
    bool is_passed;
    if (c->windows.first) (void)!vti_cuda_fence_passed(c, vti_cuda_fence_take(c), true, &is_passed);
    for (vti_cuda_window *w = c->windows.first, *next; w; w = next) {
        next = w->next;
        (void)!empty_window(c, w);
        (void)c->cu.mem_address_free(w->addr, c->windows.each_bytes);
        free(w);
    }
    c->windows = (vti_cuda_windows){0};
}

// ---- Copies

// What a call of the port does on the device.
typedef struct device_work {
    vti_cuda_scope scope;
    vt_vmm_order order;
    vti_cu_stream stream;
} device_work;

// NOW: in the stream of the backend that the fewest calls use. Errors: VT_EDEVICE, also where the
// user's stream is being captured; then there is nothing to finish.
static vt_status begin_work(vti_cuda *c, vt_vmm_order order, device_work *work)
{
    VT_TRY(vti_cuda_enter(c, &work->scope));
    work->order = order;
    work->stream = c->stream[0];
    if (order == VT_VMM_QUEUED)
        return vti_cuda_runs(c, work->stream) ? VT_OK : vti_cuda_leave(c, &work->scope, VT_EDEVICE);
    pthread_mutex_lock(&c->mu);
    vti_cuda_own *least = &c->own[0];
    for (int i = 1; i < VTI_CUDA_N_OWN; i++)
        if (c->own[i].n_user < least->n_user) least = &c->own[i];
    least->n_user++;
    work->stream = least->stream;
    pthread_mutex_unlock(&c->mu);
    return VT_OK;
}

// Waits for what is done at once, whatever st is. Returns st, or if that is VT_OK the status of the
// wait.
static vt_status finish_work(vti_cuda *c, const device_work *work, vt_status st)
{
    if (work->order == VT_VMM_QUEUED) return st;
    const vti_cu_result r = c->cu.stream_synchronize(work->stream);
    pthread_mutex_lock(&c->mu);
    for (int i = 0; i < VTI_CUDA_N_OWN; i++) c->own[i].n_user -= c->own[i].stream == work->stream;
    pthread_mutex_unlock(&c->mu);
    return st != VT_OK ? st : vti_cuda_status(r);
}

// Returns the status of the call, which is never VT_NOSPACE.
static vt_status leave_work(vti_cuda *c, const device_work *work, vt_status st)
{
    return vti_cuda_leave(c, &work->scope, vti_cuda_hard(st));
}

vt_status vti_cuda_fetch(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index, size_t offset,
                         size_t size_bytes, vt_vmm_order order)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_assert_class(c, index, 1);
    assert(slice < vti_cuda_class(c, index)->n_slice && size_bytes > 0);
    assert(offset < vti_cuda_class(c, index)->slice_bytes);
    assert(size_bytes <= vti_cuda_class(c, index)->slice_bytes - offset);
    vti_cuda_window *w;
    device_work work;
    VT_TRY(begin_work(c, order, &work));
    vt_status st = begin_window(c, slice, index, &w);
    if (st == VT_OK)
        st = vti_cuda_status(
            c->cu.memcpy_dtod_async(dst, w->addr + offset, size_bytes, work.stream));
    st = finish_work(c, &work, st);
    if (w && st == VT_OK && order == VT_VMM_QUEUED) {
        fly_window(c, w);
    } else if (w) {
        (void)!empty_window(c, w);
        put_idle(c, w);
    }
    return leave_work(c, &work, st);
}

vt_status vti_cuda_copy_each(vt_vmm *vmm, const vt_vmm_copy *copy, uint64_t n, vt_vmm_order order)
{
    vti_cuda *c = vti_cuda_of(vmm);
    device_work work;
    VT_TRY(begin_work(c, order, &work));
    vti_cu_result r = VTI_CU_SUCCESS;
    for (uint64_t i = 0; i < n && r == VTI_CU_SUCCESS; i++)
        r = c->cu.memcpy_dtod_async(copy[i].dst, copy[i].src, copy[i].size_bytes, work.stream);
    return leave_work(c, &work, finish_work(c, &work, vti_cuda_status(r)));
}

vt_status vti_cuda_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_order order)
{
    vti_cuda *c = vti_cuda_of(vmm);
    device_work work;
    VT_TRY(begin_work(c, order, &work));
    const vti_cu_result r = c->cu.memset_async(addr, 0, size_bytes, work.stream);
    return leave_work(c, &work, finish_work(c, &work, vti_cuda_status(r)));
}

// ---- Swap

enum { STAGE_BYTES = 512 << 10, HUGE_PAGE_BYTES = 2 << 20 };

static void assert_in_range(const vti_cuda *c, uint64_t offset, size_t size_bytes)
{
    assert(c->swap.bytes && size_bytes > 0);
    assert(offset % c->granularity == 0);
    assert(offset < c->swap.size_bytes && size_bytes <= c->swap.size_bytes - offset);
    (void)c, (void)offset, (void)size_bytes;
}

static vt_status open_swap(vti_cuda *c, uint64_t size_bytes)
{
    enum { EVENT_FLAGS = VTI_CU_EVENT_BLOCKING_SYNC | VTI_CU_EVENT_DISABLE_TIMING };
    vti_cuda_swap *w = &c->swap;
    w->size_bytes = size_bytes;
    w->stage_bytes = size_bytes < STAGE_BYTES ? (size_t)size_bytes : STAGE_BYTES;
    void *bytes =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) return VT_NOSPACE;
    w->bytes = bytes;
    bool drops_whole = c->granularity % HUGE_PAGE_BYTES == 0; // huge pages, and not parts of them
    (void)madvise(bytes, size_bytes, drops_whole ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    for (int i = 0; i < VTI_CUDA_N_STAGE; i++) {
        VT_TRY(vti_cuda_status(c->cu.mem_host_alloc(&bytes, w->stage_bytes, 0)));
        w->stage[i].bytes = bytes;
        vti_cu_event event;
        VT_TRY(vti_cuda_status(c->cu.event_create(&event, EVENT_FLAGS)));
        w->stage[i].event = event;
    }
    return VT_OK;
}

vt_status vti_cuda_swap_open(vt_vmm *vmm, const char *dir, uint64_t size_bytes)
{
    vti_cuda *c = vti_cuda_of(vmm);
    (void)dir;
    assert(!c->swap.bytes && size_bytes > 0 && size_bytes % c->granularity == 0);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vt_status st = open_swap(c, size_bytes);
    if (st != VT_OK) vti_cuda_swap_close(c);
    return vti_cuda_leave(c, &scope, st);
}

static void drop_pages(vti_cuda *c, uint64_t offset, size_t size_bytes)
{
    size_t whole = (size_bytes - 1) / c->granularity * c->granularity + c->granularity;
    (void)madvise(c->swap.bytes + offset, whole, MADV_DONTNEED);
}

// One move of a range; piece i goes through stage i % N_STAGE.
typedef struct swap_move {
    vti_cu_stream stream;
    vti_cu_ptr device;
    unsigned char *host;
    size_t size_bytes;
    uint64_t sum;
} swap_move;

static size_t piece_bytes(const vti_cuda *c, const swap_move *m, size_t i)
{
    size_t left = m->size_bytes - i * c->swap.stage_bytes;
    return left < c->swap.stage_bytes ? left : c->swap.stage_bytes;
}

static vti_cuda_stage *stage_of(vti_cuda *c, size_t i)
{
    return &c->swap.stage[i % VTI_CUDA_N_STAGE];
}

static vt_status move_out(vti_cuda *c, swap_move *m)
{
    const size_t stage_bytes = c->swap.stage_bytes, n_piece = (m->size_bytes - 1) / stage_bytes + 1;
    for (size_t i = 0; i <= n_piece; i++) {
        if (i < n_piece) {
            const vti_cuda_stage *to = stage_of(c, i);
            const vti_cu_ptr src = m->device + i * stage_bytes;
            const size_t n = piece_bytes(c, m, i);
            VT_TRY(vti_cuda_status(c->cu.memcpy_dtoh_async(to->bytes, src, n, m->stream)));
            VT_TRY(vti_cuda_status(c->cu.event_record(to->event, m->stream)));
        }
        if (i == 0) continue;
        const vti_cuda_stage *from = stage_of(c, i - 1);
        const size_t n = piece_bytes(c, m, i - 1);
        VT_TRY(vti_cuda_status(c->cu.event_synchronize(from->event)));
        m->sum = vt_vmm_checksum(m->sum, from->bytes, n);
        memcpy(m->host + (i - 1) * stage_bytes, from->bytes, n);
    }
    return VT_OK;
}

static vt_status move_in(vti_cuda *c, swap_move *m)
{
    for (size_t i = 0; i * c->swap.stage_bytes < m->size_bytes; i++) {
        vti_cuda_stage *stage = stage_of(c, i); // last used for the piece N_STAGE before
        if (i >= VTI_CUDA_N_STAGE) VT_TRY(vti_cuda_status(c->cu.event_synchronize(stage->event)));
        size_t n = piece_bytes(c, m, i);
        memcpy(stage->bytes, m->host + i * c->swap.stage_bytes, n);
        m->sum = vt_vmm_checksum(m->sum, stage->bytes, n);
        vti_cu_ptr dst = m->device + i * c->swap.stage_bytes;
        VT_TRY(vti_cuda_status(c->cu.memcpy_htod_async(dst, stage->bytes, n, m->stream)));
        VT_TRY(vti_cuda_status(c->cu.event_record(stage->event, m->stream)));
    }
    return VT_OK;
}

// Nothing moves any longer when it returns. *sum: of the bytes that were moved.
static vt_status run_move(vti_cuda *c, vt_status (*move)(vti_cuda *, swap_move *),
                          vti_cu_ptr device, uint64_t offset, size_t size_bytes, uint64_t *sum)
{
    assert_in_range(c, offset, size_bytes);
    swap_move m = {.device = device, .host = c->swap.bytes + offset, .size_bytes = size_bytes};
    device_work work;
    VT_TRY(begin_work(c, VT_VMM_NOW, &work));
    m.stream = work.stream;
    const vt_status st = finish_work(c, &work, move(c, &m));
    if (st == VT_OK) *sum = m.sum;
    if (st != VT_OK && move == move_out) drop_pages(c, offset, size_bytes);
    return leave_work(c, &work, st);
}

vt_status vti_cuda_swap_write(vt_vmm *vmm, uint64_t offset, uintptr_t src, size_t size_bytes,
                              uint64_t *sum)
{
    return run_move(vti_cuda_of(vmm), move_out, src, offset, size_bytes, sum);
}

vt_status vti_cuda_swap_read(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                             uint64_t *sum)
{
    return run_move(vti_cuda_of(vmm), move_in, dst, offset, size_bytes, sum);
}

void vti_cuda_swap_drop(vt_vmm *vmm, uint64_t offset, size_t size_bytes)
{
    vti_cuda *c = vti_cuda_of(vmm);
    assert_in_range(c, offset, size_bytes);
    drop_pages(c, offset, size_bytes);
}

void vti_cuda_swap_close(vti_cuda *c)
{
    for (int i = 0; i < VTI_CUDA_N_STAGE; i++) {
        vti_cuda_stage *stage = &c->swap.stage[i];
        if (stage->event) (void)c->cu.event_destroy(stage->event);
        if (stage->bytes) (void)c->cu.mem_free_host(stage->bytes);
    }
    if (c->swap.bytes) munmap(c->swap.bytes, c->swap.size_bytes);
    c->swap = (vti_cuda_swap){0};
}
