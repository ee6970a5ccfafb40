// vmm_cuda_window.c - windows: addresses of our own where a slice is mapped while it is copied.
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
// whoever destroys a chunk knows that the copies from it are done.
//
// A window belongs to the thread that took it out of the lists. If it cannot be unmapped, it
// becomes idle nevertheless, and whoever takes it tries again.
#include "vmm_cuda.h"

#include <stdlib.h>

enum {
    MAX_OPEN = 16,
    LANDINGS = 2 // windows that one call takes out of the air
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

void vti_cuda_window_end(vti_cuda *c, vti_cuda_window *w)
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

// The ticket of the oldest flying window; 0: nothing flies, or its ticket is not given yet.
static uint64_t first_ticket(vti_cuda *c)
{
    pthread_mutex_lock(&c->mu);
    const vti_cuda_window *w = c->windows.first;
    uint64_t ticket = w && w->ticket <= c->fence.last ? w->ticket : 0;
    pthread_mutex_unlock(&c->mu);
    return ticket;
}

// A flying window whose ticket is at most this one; NULL: there is none.
static vti_cuda_window *take_landed(vti_cuda *c, uint64_t ticket)
{
    pthread_mutex_lock(&c->mu);
    vti_cuda_windows *ws = &c->windows;
    bool landed = ws->first && ws->first->ticket <= ticket;
    vti_cuda_window *w = landed ? unlink_flying(ws, &ws->first) : NULL;
    pthread_mutex_unlock(&c->mu);
    return w;
}

static vti_cuda_window *land_window(vti_cuda *c)
{
    uint64_t ticket = first_ticket(c);
    bool is_passed = false;
    if (ticket == 0 || vti_cuda_fence_passed(c, ticket, false, &is_passed) != VT_OK) return NULL;
    return is_passed ? take_landed(c, ticket) : NULL;
}

static void land_windows(vti_cuda *c)
{
    for (int i = 0; i < LANDINGS; i++) {
        vti_cuda_window *w = land_window(c);
        if (!w) return;
        vti_cuda_window_end(c, w);
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

vt_status vti_cuda_window_begin(vti_cuda *c, uint32_t slice, uint64_t index,
                                vti_cuda_window **window)
{
    VT_TRY(take_window(c, window));
    vti_cuda_window *w = *window;
    vt_status st = vti_cuda_map(c, w->addr, slice, index, 1);
    if (st == VT_OK) {
        w->mapped_bytes = vti_cuda_class(c, index)->slice_bytes;
        w->index = index;
    } else {
        put_idle(c, w);
    }
    return st;
}

// The next ticket is given after the copy was queued, so it covers the copy.
static bool append_flying(vti_cuda *c, vti_cuda_window *w)
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
    return is_due;
}

void vti_cuda_window_fly(vti_cuda *c, vti_cuda_window *w)
{
    if (!append_flying(c, w)) return;
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

static void await_flying(vti_cuda *c)
{
    bool is_passed;
    if (!c->windows.first) return;
    (void)!vti_cuda_fence_passed(c, vti_cuda_fence_take(c), true, &is_passed);
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
    await_flying(c);
    close_windows(c, c->windows.first);
    close_windows(c, c->windows.idle);
    c->windows = (vti_cuda_windows){0};
}
