// vmm_cuda.c - the backend on a GPU: the driver's virtual memory management.
//
//   vmm_cuda.c          addresses: reserve, map, unmap, zero, fetch; opening and closing
//   vmm_cuda_chunk.c    physical memory: create, destroy, and the table of chunks
//   vmm_cuda_context.c  the current context, and the driver's results
//   vmm_cuda_fence.c    fence, passed
//   vmm_cuda_swap.c     the swap in pinned host memory
//   cuda_driver.c       loads libcuda.so.1
//
//   reserve    cuMemAddressReserve
//   create     cuMemCreate, a handle for each slice
//   map        cuMemMap for each handle, cuMemSetAccess once for the run; fresh handles are wiped
//   unmap      cuMemUnmap once for the run
//   fetch      maps the slice in a window, copies, unmaps it; store does the same
//   destroy    cuMemRelease for each handle
//
// What the driver's documentation requires, and how it is met:
// - Sizes of handles and addresses of mappings are multiples of the granularity that the driver
//   reports for this kind of memory. A handle is mapped from offset 0 and unmapped whole, so a
//   slice is a handle. One cuMemUnmap may end many neighbouring mappings, and one cuMemSetAccess
//   may open them.
// - A mapping cannot be touched before its access is set, and loses the access when it is unmapped.
// - The memory of a handle lives until the handle is released and no longer mapped. It is not
//   promised to be zero: a handle is wiped when it is first mapped, before map returns.
// - Two addresses of one handle are not coherent while a write through one of them runs: a kernel
//   that runs during the write may read old bytes through the other address. Only whole operations
//   in stream order see each other. The manager lets no kernel write to an address that others read
//   (shared chunks are read-only), and fetch waits for the user's stream before it reads through
//   its window.
// - Unmapping does not reliably wait for kernels: that is what fences are for.
//
// Order on the device: wiping, zero and copies run in a stream of our own that is not ordered
// against the user's, and each call waits for them. fetch, store and swap_write read bytes that
// queued kernels may still write, so they wait for the user's stream first. zero, swap_read and the
// destination of fetch do not: nothing may use the bytes there any longer, as for unmap. None of
// these calls may be made while the user's stream is being captured into a graph.
//
// Threads: the context that was current at open is made current for each call, in any thread. `mu`
// guards the table of chunks and the fences and is never held across a call of the driver. A flag
// and a condition hand the window for fetch and store from thread to thread.
#include "vmm_cuda.h"

#include <stdlib.h>

static size_t cuda_granularity(vt_vmm *vmm)
{
    return vti_cuda_of(vmm)->granularity;
}

// The driver reports no limit.
static uint64_t cuda_max_runs(vt_vmm *vmm)
{
    (void)vmm;
    return UINT64_MAX;
}

static vt_status reserve_now(vti_cuda *c, size_t size_bytes, vti_cu_ptr *addr)
{
    return vti_cuda_status(c->cu.mem_address_reserve(addr, size_bytes, c->granularity, 0, 0));
}

static vt_status cuda_reserve(vt_vmm *vmm, size_t size_bytes, uintptr_t *addr)
{
    vti_cuda *c = vti_cuda_of(vmm);
    assert(size_bytes > 0 && size_bytes % c->granularity == 0);
    bool pushed;
    VT_TRY(vti_cuda_enter(c, &pushed));
    vti_cu_ptr at = 0;
    vt_status st = reserve_now(c, size_bytes, &at);
    if (st == VT_OK) *addr = (uintptr_t)at;
    return vti_cuda_leave(c, pushed, st);
}

static vt_status cuda_unreserve(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    vti_cuda *c = vti_cuda_of(vmm);
    bool pushed;
    VT_TRY(vti_cuda_enter(c, &pushed));
    vt_status st = vti_cuda_status(c->cu.mem_address_free(addr, size_bytes));
    return vti_cuda_leave(c, pushed, vti_cuda_hard(st));
}

static vt_status cuda_configure(vt_vmm *vmm, const vt_vmm_geometry *geo)
{
    vti_cuda *c = vti_cuda_of(vmm);
    assert(geo->n_slice > 0 && geo->n_index > 0 && geo->slice_bytes > 0);
    assert(geo->slice_bytes % c->granularity == 0);
    bool pushed;
    VT_TRY(vti_cuda_enter(c, &pushed));
    vt_status st = reserve_now(c, geo->slice_bytes, &c->window);
    if (st == VT_OK) c->geo = *geo;
    return vti_cuda_leave(c, pushed, st);
}

static vt_status unmap_now(vti_cuda *c, vti_cu_ptr addr, size_t size_bytes)
{
    vti_cu_result r = c->cu.mem_unmap(addr, size_bytes);
    if (addr == c->window) c->window_stuck = r != VTI_CU_SUCCESS;
    return r == VTI_CU_SUCCESS ? VT_OK : VT_EDEVICE;
}

static vti_cuda_slice *slice_at(vti_cuda *c, uint32_t slice, uint64_t index)
{
    return &vti_cuda_chunk_find(c, index)->slice[slice];
}

// How many slices from number i on are fresh, without a gap.
static uint64_t count_fresh(vti_cuda *c, uint32_t slice, uint64_t index, uint64_t n, uint64_t i)
{
    uint64_t first = i;
    while (i < n && slice_at(c, slice, index + i)->memory == VTI_CUDA_FRESH) i++;
    return i - first;
}

// Starts a memset for each run of fresh slices; *n_fresh: how many slices.
static vt_status start_wiping(vti_cuda *c, vti_cu_ptr addr, uint32_t slice, uint64_t index,
                              uint64_t n, uint64_t *n_fresh)
{
    size_t each = c->geo.slice_bytes;
    *n_fresh = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t run = count_fresh(c, slice, index, n, i);
        if (run == 0) continue;
        vti_cu_result r = c->cu.memset_async(addr + i * each, 0, run * each, c->own_stream);
        VT_TRY(vti_cuda_status(r));
        *n_fresh += run;
        i += run;
    }
    return VT_OK;
}

// Even if it fails, no memset runs afterwards: the caller will unmap.
static vt_status wipe_fresh(vti_cuda *c, vti_cu_ptr addr, uint32_t slice, uint64_t index,
                            uint64_t n)
{
    uint64_t n_fresh;
    vt_status st = start_wiping(c, addr, slice, index, n, &n_fresh);
    if (n_fresh == 0) return st;
    VT_TRY(vti_cuda_finish(c, st));
    for (uint64_t i = 0; i < n; i++) slice_at(c, slice, index + i)->memory = VTI_CUDA_WIPED;
    return VT_OK;
}

static vt_status open_access(vti_cuda *c, vti_cu_ptr addr, size_t size_bytes)
{
    vti_cu_access access = {
        .location = {.type = VTI_CU_LOCATION_DEVICE, .id = c->device},
        .flags = VTI_CU_ACCESS_READWRITE,
    };
    return vti_cuda_status(c->cu.mem_set_access(addr, size_bytes, &access, 1));
}

static vt_status map_now(vti_cuda *c, vti_cu_ptr addr, uint32_t slice, uint64_t index, uint64_t n)
{
    size_t each = c->geo.slice_bytes;
    vt_status st = VT_OK;
    uint64_t i = 0;
    for (; i < n && st == VT_OK; i += st == VT_OK) {
        const vti_cuda_slice *s = slice_at(c, slice, index + i);
        if (s->memory == VTI_CUDA_NONE) // lost: it could be neither destroyed nor created again
            st = VT_EDEVICE;
        else
            st = vti_cuda_status(c->cu.mem_map(addr + i * each, each, 0, s->handle, 0));
    }
    if (st == VT_OK) st = open_access(c, addr, n * each);
    if (st == VT_OK) st = wipe_fresh(c, addr, slice, index, n);
    if (st != VT_OK && i > 0) (void)unmap_now(c, addr, i * each);
    return st;
}

// On a GPU every page is present once it is mapped, so `use` makes no difference.
static vt_status cuda_map(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n,
                          vt_vmm_use use)
{
    vti_cuda *c = vti_cuda_of(vmm);
    (void)use;
    assert(n > 0 && slice < c->geo.n_slice && addr % c->granularity == 0);
    assert(index < c->geo.n_index && n <= c->geo.n_index - index);
    bool pushed;
    VT_TRY(vti_cuda_enter(c, &pushed));
    vt_status st = map_now(c, addr, slice, index, n);
    if (st == VT_OK) c->n_mapped += n;
    return vti_cuda_leave(c, pushed, st);
}

static vt_status cuda_unmap(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    vti_cuda *c = vti_cuda_of(vmm);
    assert(size_bytes > 0 && size_bytes % c->geo.slice_bytes == 0);
    bool pushed;
    VT_TRY(vti_cuda_enter(c, &pushed));
    vt_status st = unmap_now(c, addr, size_bytes);
    if (st == VT_OK) c->n_mapped -= size_bytes / c->geo.slice_bytes;
    return vti_cuda_leave(c, pushed, st);
}

static void window_take(vti_cuda *c)
{
    pthread_mutex_lock(&c->mu);
    while (c->window_busy) pthread_cond_wait(&c->window_is_free, &c->mu);
    c->window_busy = true;
    pthread_mutex_unlock(&c->mu);
}

static void window_give(vti_cuda *c)
{
    pthread_mutex_lock(&c->mu);
    c->window_busy = false;
    pthread_cond_signal(&c->window_is_free);
    pthread_mutex_unlock(&c->mu);
}

// A copy through the window: bytes of one slice, in or out.
typedef struct window_copy {
    uint32_t slice;
    uint64_t index;
    size_t offset, size_bytes;
    vti_cu_ptr outside; // where the mapped bytes are
    bool in;            // from there into the slice
} window_copy;

static vt_status copy_by_window(vti_cuda *c, const window_copy *w)
{
    VT_TRY(vti_cuda_status(c->cu.stream_synchronize(c->user_stream)));
    vti_cu_ptr inside = c->window + w->offset;
    vti_cu_ptr dst = w->in ? inside : w->outside, src = w->in ? w->outside : inside;
    vti_cu_result r = c->cu.memcpy_dtod_async(dst, src, w->size_bytes, c->own_stream);
    return vti_cuda_finish(c, vti_cuda_status(r));
}

// If the copy is done and only unmapping the window fails, the call has succeeded; the next one
// unmaps the window first.
static vt_status pass_now(vti_cuda *c, const window_copy *w)
{
    if (c->window_stuck) VT_TRY(unmap_now(c, c->window, c->geo.slice_bytes));
    VT_TRY(map_now(c, c->window, w->slice, w->index, 1));
    vt_status st = copy_by_window(c, w);
    (void)unmap_now(c, c->window, c->geo.slice_bytes);
    return st;
}

static vt_status cuda_pass(vti_cuda *c, const window_copy *w)
{
    assert(w->slice < c->geo.n_slice && w->offset < c->geo.slice_bytes);
    assert(w->size_bytes > 0 && w->size_bytes <= c->geo.slice_bytes - w->offset);
    bool pushed;
    VT_TRY(vti_cuda_enter(c, &pushed));
    window_take(c);
    vt_status st = pass_now(c, w);
    window_give(c);
    return vti_cuda_leave(c, pushed, vti_cuda_hard(st));
}

static vt_status cuda_fetch(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index,
                            size_t offset, size_t size_bytes)
{
    window_copy w = {slice, index, offset, size_bytes, .outside = dst, .in = false};
    return cuda_pass(vti_cuda_of(vmm), &w);
}

static vt_status cuda_store(vt_vmm *vmm, uint32_t slice, uint64_t index, size_t offset,
                            uintptr_t src, size_t size_bytes)
{
    window_copy w = {slice, index, offset, size_bytes, .outside = src, .in = true};
    return cuda_pass(vti_cuda_of(vmm), &w);
}

static vt_status cuda_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    vti_cuda *c = vti_cuda_of(vmm);
    bool pushed;
    VT_TRY(vti_cuda_enter(c, &pushed));
    vt_status st = vti_cuda_status(c->cu.memset_async(addr, 0, size_bytes, c->own_stream));
    return vti_cuda_leave(c, pushed, vti_cuda_hard(vti_cuda_finish(c, st)));
}

static vt_status cuda_resident(vt_vmm *vmm, uint64_t *size_bytes)
{
    vti_cuda *c = vti_cuda_of(vmm);
    *size_bytes = c->n_handle * c->geo.slice_bytes;
    return VT_OK;
}

// For the driver, each mapped handle is a mapping.
static vt_status cuda_mapped(vt_vmm *vmm, uint64_t *size_bytes, uint64_t *n_mapping)
{
    vti_cuda *c = vti_cuda_of(vmm);
    *n_mapping = c->n_mapped;
    *size_bytes = *n_mapping * c->geo.slice_bytes;
    return VT_OK;
}

static void close_device_side(vti_cuda *c)
{
    bool pushed = false;
    if (c->context) (void)!vti_cuda_enter(c, &pushed);
    if (c->own_stream) (void)c->cu.stream_synchronize(c->own_stream);
    if (c->window_stuck) (void)unmap_now(c, c->window, c->geo.slice_bytes);
    if (c->window) (void)c->cu.mem_address_free(c->window, c->geo.slice_bytes);
    vti_cuda_swap_close(c);
    vti_cuda_fence_close(c);
    vti_cuda_chunks_close(c);
    if (c->own_stream) (void)c->cu.stream_destroy(c->own_stream);
    (void)vti_cuda_leave(c, pushed, VT_OK);
}

// Also closes a backend whose opening has failed.
static void cuda_close(vt_vmm *vmm)
{
    vti_cuda *c = vti_cuda_of(vmm);
    close_device_side(c);
    vti_cu_unload(&c->cu);
    pthread_cond_destroy(&c->window_is_free);
    pthread_mutex_destroy(&c->mu);
    free(c);
}

static const vt_vmm_ops cuda_ops = {
    .name = "cuda",
    .granularity = cuda_granularity,
    .configure = cuda_configure,
    .max_runs = cuda_max_runs,
    .reserve = cuda_reserve,
    .unreserve = cuda_unreserve,
    .create = vti_cuda_create,
    .destroy = vti_cuda_destroy,
    .map = cuda_map,
    .unmap = cuda_unmap,
    .fetch = cuda_fetch,
    .store = cuda_store,
    .zero = cuda_zero,
    .fence = vti_cuda_fence_set,
    .passed = vti_cuda_fence_passed,
    .resident = cuda_resident,
    .mapped = cuda_mapped,
    .swap_open = vti_cuda_swap_open,
    .swap_write = vti_cuda_swap_write,
    .swap_read = vti_cuda_swap_read,
    .swap_drop = vti_cuda_swap_drop,
    .close = cuda_close,
};

static vt_status refuse_open(const char **why, const char *reason)
{
    *why = reason;
    return VT_EDEVICE;
}

// The context must belong to the configured device: memory and stream go together.
static vt_status find_device(vti_cuda *c, const char **why)
{
    vti_cu_context context = NULL;
    vti_cu_device device, current;
    int has_vmm = 0;
    if (c->cu.ctx_get_current(&context) != VTI_CU_SUCCESS || !context)
        return refuse_open(why, "no CUDA context is current in the calling thread");
    if (c->cu.device_get(&device, c->device) != VTI_CU_SUCCESS)
        return refuse_open(why, "there is no CUDA device with this number");
    if (c->cu.ctx_get_device(&current) != VTI_CU_SUCCESS || current != device)
        return refuse_open(why, "the current CUDA context belongs to another device");
    if (c->cu.device_get_attribute(&has_vmm, VTI_CU_ATTRIBUTE_VMM, device) != VTI_CU_SUCCESS ||
        !has_vmm)
        return refuse_open(why, "the CUDA device has no virtual memory management");
    c->context = context;
    return VT_OK;
}

static vt_status open_device(vti_cuda *c, const char **why)
{
    VT_TRY(vti_cu_load(&c->cu, why));
    VT_TRY(find_device(c, why));
    vti_cu_prop prop = vti_cuda_prop(c);
    if (c->cu.mem_get_granularity(&c->granularity, &prop, VTI_CU_GRANULARITY_MINIMUM) !=
            VTI_CU_SUCCESS ||
        c->granularity == 0)
        return refuse_open(why, "the CUDA driver does not report the granularity of its memory");
    if (c->cu.stream_create(&c->own_stream, VTI_CU_STREAM_NON_BLOCKING) != VTI_CU_SUCCESS) {
        c->own_stream = NULL;
        return refuse_open(why, "the CUDA driver cannot create a stream");
    }
    return VT_OK;
}

vt_status vt_vmm_cuda_open(const vt_vmm_cuda_config *cfg, vt_vmm **out, const char **why)
{
    const char *reason = NULL;
    *out = NULL;
    vti_cuda *c = calloc(1, sizeof *c);
    if (why) *why = NULL;
    if (!c) return VT_ENOMEM;
    c->vmm.ops = &cuda_ops;
    c->device = cfg->device;
    c->user_stream = cfg->stream;
    pthread_mutex_init(&c->mu, NULL);
    pthread_cond_init(&c->window_is_free, NULL);
    vt_status st = open_device(c, &reason);
    if (st == VT_OK)
        *out = &c->vmm;
    else
        cuda_close(&c->vmm);
    if (why) *why = reason;
    return st;
}
