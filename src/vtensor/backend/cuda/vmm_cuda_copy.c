// vmm_cuda_copy.c - what moves bytes on the GPU: fetch, copy_each and zero, at once in a stream of
// the backend or queued in the user's first stream; and the swap in host memory.
//
// Windows. A slice is copied from a window: addresses of the backend where it is mapped meanwhile.
//
//          begin                  end, or no window could be mapped
//   idle ----------> in use ---------------------------------------> idle
//                       | fly                                          ^
//                       '-----> flying ---- its ticket has passed -----'
//
// A queued copy reads its window after the call has returned, so the window flies until a ticket
// that was given after the copy has passed. Tickets are asked without waiting, the oldest first. If
// no window is idle, a new one is reserved: there are as many as copies were ever queued at once.
// A ticket serves all windows that flew since the one before; the manager gives most of them, and
// after MAX_OPEN windows without one, it is given here.
//
// A flying window holds the memory of its chunk, so destroy empties the windows of the chunk first;
// the caller of destroy knows that the copies from it are done.
//
// A window belongs to the thread that took it out of the lists. If it cannot be unmapped, it
// becomes idle nevertheless, and the next thread that takes it tries again.
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

enum {
    MAX_OPEN = 16,
    LANDINGS = 2 // windows that one call makes idle
};

static vt_status empty_window(vti_cuda *c, vti_cuda_window *w)
{
    if (w->mapped_bytes == 0) return VT_OK;
    VT_TRY(vti_cuda_unmap(c, w->addr, w->mapped_bytes));
    w->mapped_bytes = 0;
    return VT_OK;
}

static void put_idle(vti_cuda *c, vti_cuda_window *w)
{
    pthread_mutex_lock(&c->mu);
    w->next = c->windows.idle;
    c->windows.idle = w;
    pthread_mutex_unlock(&c->mu);
}

static void end_window(vti_cuda *c, vti_cuda_window *w)
{
    (void)!empty_window(c, w);
    put_idle(c, w);
}

// Pre: mu is held. `at` is a link of the list of flying windows.
static vti_cuda_window *unlink_flying(vti_cuda_windows *ws, vti_cuda_window **at)
{
    vti_cuda_window *w = *at;
    *at = w->next;
    if (!w->next) ws->last = at;
    return w;
}

// Flying windows whose tickets have passed become idle, the oldest first.
static void land_windows(vti_cuda *c)
{
    vti_cuda_windows *ws = &c->windows;
    for (int i = 0; i < LANDINGS; i++) {
        bool is_passed = false;
        pthread_mutex_lock(&c->mu);
        uint64_t ticket = ws->first ? ws->first->ticket : UINT64_MAX;
        bool is_given = ticket <= c->fence.last;
        pthread_mutex_unlock(&c->mu);
        if (!is_given || vti_cuda_fence_passed(c, ticket, false, &is_passed) != VT_OK || !is_passed)
            return;
        pthread_mutex_lock(&c->mu); // the other thread may have taken it
        bool has_landed = ws->first && ws->first->ticket <= ticket;
        vti_cuda_window *w = has_landed ? unlink_flying(ws, &ws->first) : NULL;
        pthread_mutex_unlock(&c->mu);
        if (!w) return;
        end_window(c, w);
    }
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

static vt_status take_window(vti_cuda *c, vti_cuda_window **window)
{
    land_windows(c);
    pthread_mutex_lock(&c->mu);
    vti_cuda_window *w = c->windows.idle;
    if (w) c->windows.idle = w->next;
    pthread_mutex_unlock(&c->mu);
    if (!w) return make_window(c, window);
    *window = w;
    vt_status st = empty_window(c, w);
    if (st != VT_OK) put_idle(c, w);
    return st;
}

static vt_status begin_window(vti_cuda *c, uint32_t slice, uint64_t index, vti_cuda_window **window)
{
    VT_TRY(take_window(c, window));
    vti_cuda_window *w = *window;
    vt_status st = vti_cuda_map(c, w->addr, slice, index, NULL, 1);
    if (st == VT_OK) {
        w->mapped_bytes = vti_cuda_class(c, index)->slice_bytes;
        w->index = index;
    } else {
        put_idle(c, w);
    }
    return st;
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

static bool shows_chunk(const vti_cuda_window *w, uint64_t index, uint64_t n)
{
    return w->mapped_bytes > 0 && w->index >= index && w->index - index < n;
}

// Takes out a window in which one of the chunks is mapped; NULL: there is none.
static vti_cuda_window *take_window_of(vti_cuda *c, uint64_t index, uint64_t n)
{
    pthread_mutex_lock(&c->mu);
    vti_cuda_windows *ws = &c->windows;
    vti_cuda_window **at = &ws->first, *w;
    while (*at && !shows_chunk(*at, index, n)) at = &(*at)->next;
    if (*at) {
        w = unlink_flying(ws, at);
    } else {
        at = &ws->idle;
        while (*at && !shows_chunk(*at, index, n)) at = &(*at)->next;
        w = *at;
        if (w) *at = w->next;
    }
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

static void close_windows(vti_cuda *c, vti_cuda_window *list)
{
    for (vti_cuda_window *next; list; list = next) {
        next = list->next;
        (void)!empty_window(c, list);
        (void)c->cu.mem_address_free(list->addr, c->windows.each_bytes);
        free(list);
    }
}

void vti_cuda_windows_close(vti_cuda *c)
{
    bool is_passed;
    if (c->windows.first) (void)!vti_cuda_fence_passed(c, vti_cuda_fence_take(c), true, &is_passed);
    close_windows(c, c->windows.first);
    close_windows(c, c->windows.idle);
    c->windows = (vti_cuda_windows){0};
}

// ---- Copies

static bool may_order(vti_cuda *c, vt_vmm_order order)
{
    return order == VT_VMM_NOW || vti_cuda_runs(c, c->stream[0]);
}

static vti_cu_stream take_stream(vti_cuda *c, vt_vmm_order order)
{
    return order == VT_VMM_NOW ? vti_cuda_own_take(c) : c->stream[0];
}

// Waits for what is done at once. Returns st, or the status of the wait.
static vt_status leave_stream(vti_cuda *c, vt_vmm_order order, vti_cu_stream stream, vt_status st)
{
    return order == VT_VMM_NOW ? vti_cuda_own_finish(c, stream, st) : st;
}

static vt_status copy_from_window(vti_cuda *c, vti_cuda_window *w, vti_cu_ptr dst, size_t offset,
                                  size_t size_bytes, vt_vmm_order order)
{
    vti_cu_stream stream = take_stream(c, order);
    vti_cu_result r = c->cu.memcpy_dtod_async(dst, w->addr + offset, size_bytes, stream);
    vt_status st = leave_stream(c, order, stream, vti_cuda_status(r));
    if (st == VT_OK && order == VT_VMM_QUEUED)
        fly_window(c, w);
    else
        end_window(c, w);
    return st;
}

vt_status vti_cuda_fetch(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index, size_t offset,
                         size_t size_bytes, vt_vmm_order order)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_assert_class(c, index, 1);
    assert(slice < vti_cuda_class(c, index)->n_slice && size_bytes > 0);
    assert(offset < vti_cuda_class(c, index)->slice_bytes);
    assert(size_bytes <= vti_cuda_class(c, index)->slice_bytes - offset);
    vti_cuda_window *w = NULL;
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vt_status st = may_order(c, order) ? begin_window(c, slice, index, &w) : VT_EDEVICE;
    if (st == VT_OK) st = copy_from_window(c, w, dst, offset, size_bytes, order);
    return vti_cuda_leave(c, &scope, vti_cuda_hard(st));
}

static vt_status copy_ranges(vti_cuda *c, const vt_vmm_copy *copy, uint64_t n, vt_vmm_order order)
{
    if (!may_order(c, order)) return VT_EDEVICE;
    vti_cu_stream stream = take_stream(c, order);
    vti_cu_result r = VTI_CU_SUCCESS;
    for (uint64_t i = 0; i < n && r == VTI_CU_SUCCESS; i++)
        r = c->cu.memcpy_dtod_async(copy[i].dst, copy[i].src, copy[i].size_bytes, stream);
    return leave_stream(c, order, stream, vti_cuda_status(r));
}

vt_status vti_cuda_copy_each(vt_vmm *vmm, const vt_vmm_copy *copy, uint64_t n, vt_vmm_order order)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    return vti_cuda_leave(c, &scope, vti_cuda_hard(copy_ranges(c, copy, n, order)));
}

static vt_status zero_range(vti_cuda *c, vti_cu_ptr addr, size_t size_bytes, vt_vmm_order order)
{
    if (!may_order(c, order)) return VT_EDEVICE;
    vti_cu_stream stream = take_stream(c, order);
    vti_cu_result r = c->cu.memset_async(addr, 0, size_bytes, stream);
    return leave_stream(c, order, stream, vti_cuda_status(r));
}

vt_status vti_cuda_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_order order)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    return vti_cuda_leave(c, &scope, vti_cuda_hard(zero_range(c, addr, size_bytes, order)));
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

static vt_status start_piece_out(vti_cuda *c, const swap_move *m, size_t i)
{
    vti_cuda_stage *stage = stage_of(c, i);
    vti_cu_ptr src = m->device + i * c->swap.stage_bytes;
    size_t n = piece_bytes(c, m, i);
    VT_TRY(vti_cuda_status(c->cu.memcpy_dtoh_async(stage->bytes, src, n, m->stream)));
    return vti_cuda_status(c->cu.event_record(stage->event, m->stream));
}

static vt_status finish_piece_out(vti_cuda *c, swap_move *m, size_t i)
{
    const vti_cuda_stage *stage = stage_of(c, i);
    VT_TRY(vti_cuda_status(c->cu.event_synchronize(stage->event)));
    m->sum = vt_vmm_checksum(m->sum, stage->bytes, piece_bytes(c, m, i));
    memcpy(m->host + i * c->swap.stage_bytes, stage->bytes, piece_bytes(c, m, i));
    return VT_OK;
}

static vt_status move_out(vti_cuda *c, swap_move *m)
{
    const size_t n = (m->size_bytes - 1) / c->swap.stage_bytes + 1;
    vt_status st = VT_OK;
    for (size_t i = 0; i <= n && st == VT_OK; i++) {
        if (i < n) st = start_piece_out(c, m, i);
        if (st == VT_OK && i > 0) st = finish_piece_out(c, m, i - 1);
    }
    return st;
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
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    m.stream = vti_cuda_own_take(c);
    vt_status st = vti_cuda_own_finish(c, m.stream, move(c, &m));
    if (st == VT_OK) *sum = m.sum;
    if (st != VT_OK && move == move_out) drop_pages(c, offset, size_bytes);
    return vti_cuda_leave(c, &scope, vti_cuda_hard(st));
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
