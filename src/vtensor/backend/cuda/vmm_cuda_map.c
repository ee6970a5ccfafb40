// vmm_cuda_map.c - addresses of the GPU: reserving them, and mapping slices there.
//
// A run is mapped handle by handle, and its access is set at once, before anything can touch it.
#include "vmm_cuda.h"

vt_status vti_cuda_reserve(vti_cuda *c, size_t size_bytes, vti_cu_ptr *addr)
{
    return vti_cuda_status(c->cu.mem_address_reserve(addr, size_bytes, c->granularity, 0, 0));
}

static vt_status open_access(vti_cuda *c, vti_cu_ptr addr, size_t size_bytes)
{
    const vti_cu_access access = {
        .location = {.type = VTI_CU_LOCATION_DEVICE, .id = c->device},
        .flags = VTI_CU_ACCESS_READWRITE,
    };
    return vti_cuda_status(c->cu.mem_set_access(addr, size_bytes, &access, 1));
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

// The first n_mapped of n slices are mapped, with this status: opens all of them, or unmaps them.
static vt_status end_map(vti_cuda *c, vti_cu_ptr addr, size_t each, uint64_t n_mapped, vt_status st)
{
    if (st == VT_OK) st = open_access(c, addr, n_mapped * each);
    if (st != VT_OK && n_mapped > 0) (void)!vti_cuda_unmap(c, addr, n_mapped * each);
    return st;
}

vt_status vti_cuda_map(vti_cuda *c, vti_cu_ptr addr, uint32_t slice, uint64_t index, uint64_t n)
{
    const size_t each = vti_cuda_class(c, index)->slice_bytes;
    vt_status st = VT_OK;
    uint64_t i = 0;
    for (; i < n && st == VT_OK; i += st == VT_OK)
        st = map_slice(c, addr + i * each, slice, index + i);
    return end_map(c, addr, each, i, st);
}

vt_status vti_cuda_map_each(vti_cuda *c, vti_cu_ptr addr, uint32_t slice, const uint64_t *index,
                            uint64_t n)
{
    const size_t each = vti_cuda_class(c, index[0])->slice_bytes;
    vt_status st = VT_OK;
    uint64_t i = 0;
    for (; i < n && st == VT_OK; i += st == VT_OK)
        st = map_slice(c, addr + i * each, slice, index[i]);
    return end_map(c, addr, each, i, st);
}
