// vmm_cuda_memory.c - memory of the GPU: handles for the slices of chunks, addresses, and mapping;
// and how a call of this backend enters the driver: the current context, the thread's capture mode,
// and the streams of the backend itself.
//
// While some thread captures a stream into a graph, the driver forbids others to make "potentially
// unsafe" calls, such as allocating, and breaks the capture if they do; which calls these are is
// not documented. A thread in relaxed mode may make them. So every call of this backend runs in
// relaxed mode, which concerns the calling thread alone, and then restores the mode it found.
//
// There are far more indices than chunks, so the created chunks are in a search tree. A record does
// not move: it may be used without the lock while no thread destroys that chunk.
#include "vmm_cuda.h"

#include <search.h>
#include <stdlib.h>
#include <unistd.h>

// ---- Entering the driver

bool vti_cuda_is_foreign(const vti_cuda *c)
{
    return getpid() != c->pid;
}

vt_status vti_cuda_enter(vti_cuda *c, vti_cuda_scope *scope)
{
    vti_cu_context now = NULL;
    if (vti_cuda_is_foreign(c) || c->cu.ctx_get_current(&now) != VTI_CU_SUCCESS) return VT_EDEVICE;
    scope->pushed = now != c->context;
    if (scope->pushed && c->cu.ctx_push_current(c->context) != VTI_CU_SUCCESS) return VT_EDEVICE;
    scope->mode = VTI_CU_CAPTURE_MODE_RELAXED;
    if (c->cu.exchange_capture_mode(&scope->mode) == VTI_CU_SUCCESS) return VT_OK;
    if (scope->pushed) (void)c->cu.ctx_pop_current(&now);
    return VT_EDEVICE;
}

vt_status vti_cuda_leave(vti_cuda *c, const vti_cuda_scope *scope, vt_status st)
{
    vti_cu_capture_mode mode = scope->mode;
    vti_cu_context ours;
    (void)c->cu.exchange_capture_mode(&mode);
    if (scope->pushed) (void)c->cu.ctx_pop_current(&ours);
    return st;
}

vt_status vti_cuda_status(vti_cu_result r)
{
    if (r == VTI_CU_SUCCESS) return VT_OK;
    return r == VTI_CU_OUT_OF_MEMORY ? VT_NOSPACE : VT_EDEVICE;
}

vt_status vti_cuda_hard(vt_status st)
{
    return st == VT_NOSPACE ? VT_EDEVICE : st;
}

// The default stream answers with an error while a stream that it is ordered with is captured.
bool vti_cuda_runs(vti_cuda *c, vti_cu_stream stream)
{
    vti_cu_capture_status status = VTI_CU_CAPTURE_NONE;
    return c->cu.stream_is_capturing(stream, &status) == VTI_CU_SUCCESS &&
           status == VTI_CU_CAPTURE_NONE;
}

// ---- Chunks

static int by_index(const void *a, const void *b)
{
    const uint64_t x = ((const vti_cuda_chunk *)a)->index, y = ((const vti_cuda_chunk *)b)->index;
    return (x > y) - (x < y);
}

vti_cuda_chunk *vti_cuda_chunk_find(vti_cuda *c, uint64_t index)
{
    const vti_cuda_chunk key = {.index = index};
    pthread_mutex_lock(&c->mu);
    vti_cuda_chunk *const *at = tfind(&key, &c->chunks, by_index);
    vti_cuda_chunk *chunk = at ? *at : NULL;
    pthread_mutex_unlock(&c->mu);
    assert(chunk);
    return chunk;
}

vti_cu_prop vti_cuda_prop(const vti_cuda *c)
{
    return (vti_cu_prop){
        .type = VTI_CU_ALLOCATION_PINNED,
        .location = {.type = VTI_CU_LOCATION_DEVICE, .id = c->device},
    };
}

const vt_vmm_class *vti_cuda_class(const vti_cuda *c, uint64_t index)
{
    uint32_t k = 0;
    while (index >= c->first_index[k + 1]) k++;
    return &c->cls[k];
}

void vti_cuda_assert_class(const vti_cuda *c, uint64_t index, uint64_t n)
{
    uint64_t end = c->first_index[c->n_class];
    assert(n > 0 && index < end && n <= end - index);
    assert(vti_cuda_class(c, index) == vti_cuda_class(c, index + n - 1));
    (void)c, (void)index, (void)n, (void)end;
}

// Gives each slice that has none a handle; those before a failing one keep theirs.
static vt_status fill_chunk(vti_cuda *c, vti_cuda_chunk *chunk)
{
    vti_cu_prop prop = vti_cuda_prop(c);
    for (uint32_t s = 0; s < chunk->cls->n_slice; s++) {
        vti_cuda_slice *slice = &chunk->slice[s];
        if (slice->exists) continue;
        vti_cu_result r = c->cu.mem_create(&slice->handle, chunk->cls->slice_bytes, &prop, 0);
        VT_TRY(vti_cuda_status(r));
        slice->exists = true;
        c->resident_bytes += chunk->cls->slice_bytes;
    }
    return VT_OK;
}

// Releases the chunk's handles, up to the first that cannot be released.
static vt_status empty_chunk(vti_cuda *c, vti_cuda_chunk *chunk)
{
    for (uint32_t s = 0; s < chunk->cls->n_slice; s++) {
        vti_cuda_slice *slice = &chunk->slice[s];
        if (!slice->exists) continue;
        if (c->cu.mem_release(slice->handle) != VTI_CU_SUCCESS) return VT_EDEVICE;
        slice->exists = false;
        c->resident_bytes -= chunk->cls->slice_bytes;
    }
    return VT_OK;
}

static void remove_chunk(vti_cuda *c, vti_cuda_chunk *chunk)
{
    (void)empty_chunk(c, chunk);
    pthread_mutex_lock(&c->mu);
    (void)tdelete(chunk, &c->chunks, by_index);
    pthread_mutex_unlock(&c->mu);
    free(chunk);
}

// No other thread asks for the chunk before it is created.
static vt_status make_chunk(vti_cuda *c, uint64_t index)
{
    const vt_vmm_class *cls = vti_cuda_class(c, index);
    vti_cuda_chunk *chunk = calloc(1, sizeof *chunk + cls->n_slice * sizeof(vti_cuda_slice));
    if (!chunk) return VT_ENOMEM;
    chunk->index = index;
    chunk->cls = cls;
    pthread_mutex_lock(&c->mu);
    const bool is_added = tsearch(chunk, &c->chunks, by_index) != NULL;
    pthread_mutex_unlock(&c->mu);
    if (!is_added) {
        free(chunk);
        return VT_ENOMEM;
    }
    const vt_status st = fill_chunk(c, chunk);
    if (st != VT_OK) remove_chunk(c, chunk);
    return st;
}

vt_status vti_cuda_create(vti_cuda *c, uint64_t index, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const vt_status st = make_chunk(c, index + i);
        if (st == VT_OK) continue;
        while (i-- > 0) remove_chunk(c, vti_cuda_chunk_find(c, index + i));
        return st;
    }
    return VT_OK;
}

// If a handle cannot be released, those that are gone are created again, with any bytes.
vt_status vti_cuda_destroy(vti_cuda *c, uint64_t index, uint64_t n)
{
    uint64_t i = 0;
    while (i < n && empty_chunk(c, vti_cuda_chunk_find(c, index + i)) == VT_OK) i++;
    if (i < n) {
        for (uint64_t k = 0; k <= i; k++) (void)!fill_chunk(c, vti_cuda_chunk_find(c, index + k));
        return VT_EDEVICE;
    }
    for (i = 0; i < n; i++) remove_chunk(c, vti_cuda_chunk_find(c, index + i));
    return VT_OK;
}

void vti_cuda_chunks_close(vti_cuda *c)
{
    while (c->chunks) remove_chunk(c, *(vti_cuda_chunk *const *)c->chunks); // the root
}

// ---- Addresses. A run is mapped handle by handle, and opened by one cuMemSetAccess.

vt_status vti_cuda_reserve(vti_cuda *c, size_t size_bytes, vti_cu_ptr *addr)
{
    return vti_cuda_status(c->cu.mem_address_reserve(addr, size_bytes, c->granularity, 0, 0));
}

vt_status vti_cuda_unmap(vti_cuda *c, vti_cu_ptr addr, size_t size_bytes)
{
    return c->cu.mem_unmap(addr, size_bytes) == VTI_CU_SUCCESS ? VT_OK : VT_EDEVICE;
}

static vt_status map_slice(vti_cuda *c, vti_cu_ptr addr, uint32_t slice, uint64_t index)
{
    const vti_cuda_slice *s = &vti_cuda_chunk_find(c, index)->slice[slice];
    if (!s->exists) return VT_EDEVICE; // lost: it could be neither destroyed nor created again
    const size_t size_bytes = vti_cuda_class(c, index)->slice_bytes;
    return vti_cuda_status(c->cu.mem_map(addr, size_bytes, 0, s->handle, 0));
}

vt_status vti_cuda_map(vti_cuda *c, vti_cu_ptr addr, uint32_t slice, uint64_t first,
                       const uint64_t *index, uint64_t n)
{
    const size_t each = vti_cuda_class(c, first)->slice_bytes;
    const vti_cu_access access = {
        .location = {.type = VTI_CU_LOCATION_DEVICE, .id = c->device},
        .flags = VTI_CU_ACCESS_READWRITE,
    };
    vt_status st = VT_OK;
    uint64_t i = 0;
    for (; i < n && st == VT_OK; i += st == VT_OK)
        st = map_slice(c, addr + i * each, slice, index ? index[i] : first + i);
    if (st == VT_OK) st = vti_cuda_status(c->cu.mem_set_access(addr, n * each, &access, 1));
    if (st != VT_OK && i > 0) (void)!vti_cuda_unmap(c, addr, i * each);
    return st;
}
