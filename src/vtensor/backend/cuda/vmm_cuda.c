// vmm_cuda.c - the backend on a GPU: the driver's virtual memory management.
//
//   vmm_cuda.c          opening and closing, and the other calls of the port
//   vmm_cuda_memory.c   entering the driver; chunks, addresses, mapping
//   vmm_cuda_copy.c     fetch, copy_each, zero, and the swap
//   vmm_cuda_fence.c    tickets
//   cuda_driver.c       loads libcuda.so.1
//
//   reserve    cuMemAddressReserve
//   create     cuMemCreate, a handle for each slice; its bytes are not promised to be zero
//   map        cuMemMap for each handle, cuMemSetAccess once for the run; so does map_each
//   unmap      cuMemUnmap once for the run
//   fetch      maps the slice in a window and copies from there
//   copy_each  cuMemcpyDtoDAsync for each copy, one wait for all
//   destroy    cuMemRelease for each handle
//
// What the driver's documentation requires, and how it is met:
// - Sizes of handles and addresses of mappings are multiples of the granularity that the driver
//   reports for this kind of memory. A handle is mapped from offset 0 and unmapped whole, so a
//   slice is a handle. One cuMemUnmap may end many neighbouring mappings, and one cuMemSetAccess
//   may open them.
// - A mapping cannot be touched before its access is set, and loses the access when it is unmapped.
// - The memory of a handle lives until the handle is released and no longer mapped.
// - Two addresses of one handle are not coherent while a write through one of them runs: a kernel
//   that runs during the write may read old bytes through the other address. Only whole operations
//   in stream order see each other. Nothing writes to an address that others read (rows of shared
//   chunks are read-only by contract), and a queued fetch is such an operation.
// - Unmapping does not reliably wait for kernels: that is what fences are for.
//
// Access is set once, when a slice is mapped, and never changed: can_protect is false. The driver
// has read-only access (CU_MEM_ACCESS_FLAGS_PROT_READ), and a stray write through it ends the
// context; but cuMemSetAccess on a mapping that a kernel reads ends it, too
// (CUDA_ERROR_ILLEGAL_ADDRESS; seen on an H200 with driver 580.159.04), and a sequence that is read
// all the time would never let its rows be guarded.
//
// A child of fork(2) has no context: there every call that needs the driver is VT_EDEVICE, and
// close does nothing.
//
// Order on the device:
// - What is VT_VMM_QUEUED goes into the first of the user's streams and is not waited for. If that
//   stream is being captured into a graph, the call would become a part of the graph; it is
//   refused with VT_EDEVICE before anything changes.
// - What is VT_VMM_NOW goes into a stream of the backend, which is not ordered against the user's,
//   and is waited for there. There is a stream for each of the two threads that call a backend, so
//   that neither waits for the other.
// - swap_write reads bytes that queued kernels may still write, so it waits for a ticket first.
// - All other calls wait for nothing. The documentation of cuMemUnmap leaves open whether it
//   waits inside the driver.
//
// Threads: the context that was current at open is made current for each call, in any thread. `mu`
// guards the tables and is never held across a call of the driver; `marking` is held while a mark
// is set, which does not wait either.
#include "vmm_cuda.h"

#include <stdlib.h>
#include <unistd.h>

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

static bool cuda_can_protect(vt_vmm *vmm)
{
    (void)vmm;
    return false;
}

static bool cuda_creates_zeroed(vt_vmm *vmm)
{
    (void)vmm;
    return false;
}

static vt_status cuda_configure(vt_vmm *vmm, const vt_vmm_geometry *geo)
{
    vti_cuda *c = vti_cuda_of(vmm);
    assert(geo->n_class > 0 && geo->n_class <= VT_VMM_MAX_CLASS);
    c->n_class = geo->n_class;
    for (uint32_t k = 0; k < geo->n_class; k++) {
        const vt_vmm_class *cls = &geo->cls[k];
        assert(cls->n_slice > 0 && cls->n_index > 0 && cls->slice_bytes > 0);
        assert(cls->slice_bytes % c->granularity == 0);
        c->cls[k] = *cls;
        c->first_index[k + 1] = c->first_index[k] + cls->n_index;
        if (c->windows.each_bytes < cls->slice_bytes) c->windows.each_bytes = cls->slice_bytes;
    }
    return VT_OK;
}

static vt_status cuda_reserve(vt_vmm *vmm, size_t size_bytes, uintptr_t *addr)
{
    vti_cuda *c = vti_cuda_of(vmm);
    assert(size_bytes > 0 && size_bytes % c->granularity == 0);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vti_cu_ptr at = 0;
    vt_status st = vti_cuda_reserve(c, size_bytes, &at);
    if (st == VT_OK) *addr = (uintptr_t)at;
    return vti_cuda_leave(c, &scope, st);
}

static vt_status cuda_unreserve(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vt_status st = vti_cuda_status(c->cu.mem_address_free(addr, size_bytes));
    return vti_cuda_leave(c, &scope, vti_cuda_hard(st));
}

static vt_status cuda_create(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_assert_class(c, index, n);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    return vti_cuda_leave(c, &scope, vti_cuda_create(c, index, n));
}

static vt_status cuda_destroy(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_assert_class(c, index, n);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vt_status st = vti_cuda_windows_leave(c, index, n);
    if (st == VT_OK) st = vti_cuda_destroy(c, index, n);
    return vti_cuda_leave(c, &scope, st);
}

static vt_status map_chunks(vti_cuda *c, uintptr_t addr, uint32_t slice, uint64_t first,
                            const uint64_t *index, uint64_t n)
{
    const vt_vmm_class *cls = vti_cuda_class(c, first);
    assert(slice < cls->n_slice && addr % c->granularity == 0);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vt_status st = vti_cuda_map(c, addr, slice, first, index, n);
    if (st == VT_OK) c->mapped_bytes += n * cls->slice_bytes;
    return vti_cuda_leave(c, &scope, st);
}

static vt_status cuda_map(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n,
                          vt_vmm_use use)
{
    (void)use;
    vti_cuda_assert_class(vti_cuda_of(vmm), index, n);
    return map_chunks(vti_cuda_of(vmm), addr, slice, index, NULL, n);
}

static vt_status cuda_map_each(vt_vmm *vmm, uintptr_t addr, uint32_t slice, const uint64_t *index,
                               uint64_t n, vt_vmm_use use)
{
    (void)use;
    for (uint64_t i = 0; i < n; i++) vti_cuda_assert_class(vti_cuda_of(vmm), index[i], 1);
    return map_chunks(vti_cuda_of(vmm), addr, slice, index[0], index, n);
}

static vt_status cuda_unmap(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    vti_cuda *c = vti_cuda_of(vmm);
    assert(size_bytes > 0 && size_bytes % c->granularity == 0);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vt_status st = vti_cuda_unmap(c, addr, size_bytes);
    if (st == VT_OK) c->mapped_bytes -= size_bytes;
    return vti_cuda_leave(c, &scope, st);
}

// If the driver cannot be reached, the ticket waits for a later mark.
static vt_status cuda_fence(vt_vmm *vmm, uint64_t *ticket)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_scope scope;
    *ticket = vti_cuda_fence_take(c);
    if (vti_cuda_enter(c, &scope) != VT_OK) return VT_OK;
    vti_cuda_fence_mark(c);
    return vti_cuda_leave(c, &scope, VT_OK);
}

static vt_status cuda_passed(vt_vmm *vmm, uint64_t ticket, bool wait, bool *is_passed)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vt_status st = vti_cuda_fence_passed(c, ticket, wait, is_passed);
    return vti_cuda_leave(c, &scope, st);
}

static vt_status cuda_resident(vt_vmm *vmm, uint64_t *size_bytes)
{
    *size_bytes = vti_cuda_of(vmm)->resident_bytes;
    return VT_OK;
}

static vt_status cuda_mapped(vt_vmm *vmm, uint64_t *size_bytes, uint64_t *n_mapping)
{
    vti_cuda *c = vti_cuda_of(vmm);
    *size_bytes = c->mapped_bytes;
    *n_mapping = *size_bytes / c->granularity;
    return VT_OK;
}

// If our context cannot be made current, it may be so already.
static void close_device_side(vti_cuda *c)
{
    if (!c->context) return;
    vti_cuda_scope scope;
    bool entered = vti_cuda_enter(c, &scope) == VT_OK;
    vti_cuda_windows_close(c);
    vti_cuda_swap_close(c);
    vti_cuda_fence_close(c);
    vti_cuda_chunks_close(c);
    for (int i = 0; i < VTI_CUDA_N_OWN; i++)
        if (c->own[i].stream) (void)c->cu.stream_destroy(c->own[i].stream);
    if (entered) (void)vti_cuda_leave(c, &scope, VT_OK);
}

// Also closes a backend whose opening has failed. A child's copy stays until the child ends.
static void cuda_close(vt_vmm *vmm)
{
    vti_cuda *c = vti_cuda_of(vmm);
    if (vti_cuda_is_foreign(c)) return;
    close_device_side(c);
    vti_cu_unload(&c->cu);
    pthread_mutex_destroy(&c->marking);
    pthread_mutex_destroy(&c->mu);
    free(c->stream);
    free(c);
}

static const vt_vmm_ops cuda_ops = {
    .name = "cuda",
    .granularity = cuda_granularity,
    .configure = cuda_configure,
    .max_runs = cuda_max_runs,
    .can_protect = cuda_can_protect,
    .creates_zeroed = cuda_creates_zeroed,
    .reserve = cuda_reserve,
    .unreserve = cuda_unreserve,
    .create = cuda_create,
    .destroy = cuda_destroy,
    .map = cuda_map,
    .map_each = cuda_map_each,
    .unmap = cuda_unmap,
    .fetch = vti_cuda_fetch,
    .copy_each = vti_cuda_copy_each,
    .zero = vti_cuda_zero,
    .fence = cuda_fence,
    .passed = cuda_passed,
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

static vt_status open_streams(vti_cuda *c)
{
    for (int i = 0; i < VTI_CUDA_N_OWN; i++) {
        vti_cu_stream *stream = &c->own[i].stream;
        if (c->cu.stream_create(stream, VTI_CU_STREAM_NON_BLOCKING) == VTI_CU_SUCCESS) continue;
        *stream = NULL;
        return VT_EDEVICE;
    }
    return c->n_stream > 1 ? vti_cuda_fence_join(c) : VT_OK;
}

static vt_status open_device(vti_cuda *c, const char **why)
{
    VT_TRY(vti_cu_load(&c->cu, false, why));
    VT_TRY(find_device(c, why));
    vti_cu_prop prop = vti_cuda_prop(c);
    if (c->cu.mem_get_granularity(&c->granularity, &prop, VTI_CU_GRANULARITY_MINIMUM) !=
            VTI_CU_SUCCESS ||
        c->granularity == 0)
        return refuse_open(why, "the CUDA driver does not report the granularity of its memory");
    vti_cuda_scope scope;
    vt_status st = vti_cuda_enter(c, &scope);
    if (st == VT_OK) st = vti_cuda_leave(c, &scope, open_streams(c));
    return st == VT_OK ? st : refuse_open(why, "the CUDA driver cannot create a stream");
}

static vt_status copy_config(vti_cuda *c, const vt_vmm_cuda_config *cfg)
{
    c->device = cfg->device;
    c->n_stream = 1 + (uint32_t)cfg->n_beside;
    c->stream = calloc(c->n_stream, sizeof(vti_cu_stream));
    if (!c->stream) return VT_ENOMEM;
    c->stream[0] = cfg->stream;
    for (uint32_t i = 1; i < c->n_stream; i++) c->stream[i] = cfg->beside[i - 1];
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
    c->pid = getpid();
    pthread_mutex_init(&c->marking, NULL);
    pthread_mutex_init(&c->mu, NULL);
    vt_status st = copy_config(c, cfg);
    if (st == VT_OK) st = open_device(c, &reason);
    if (st == VT_OK)
        *out = &c->vmm;
    else
        cuda_close(&c->vmm);
    if (why) *why = reason;
    return st;
}

vt_status vt_vmm_cuda_await(vt_vmm *vmm, void *event)
{
    if (vmm->ops != &cuda_ops) return VT_EINVAL;
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    return vti_cuda_leave(c, &scope, vti_cuda_fence_await(c, event));
}
