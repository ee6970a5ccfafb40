// vmm_cuda_copy.c - what copies and wipes on the device: fetch, copy_each and zero, at once in a
// stream of our own, or queued in the user's first stream.
#include "vmm_cuda.h"

// A copy through a window.
typedef struct fetch_copy {
    vti_cu_ptr dst;
    size_t offset, size_bytes; // of the slice
} fetch_copy;

static vt_status copy_from_window(vti_cuda *c, const vti_cuda_window *w, const fetch_copy *copy,
                                  vti_cu_stream stream)
{
    vti_cu_ptr src = w->addr + copy->offset;
    vti_cu_result r = c->cu.memcpy_dtod_async(copy->dst, src, copy->size_bytes, stream);
    return vti_cuda_status(r);
}

static vt_status copy_queued(vti_cuda *c, vti_cuda_window *w, const fetch_copy *copy)
{
    vt_status st = copy_from_window(c, w, copy, c->stream[0]);
    if (st == VT_OK)
        vti_cuda_window_fly(c, w);
    else
        vti_cuda_window_end(c, w);
    return st;
}

static vt_status copy_now(vti_cuda *c, vti_cuda_window *w, const fetch_copy *copy)
{
    vti_cu_stream stream = vti_cuda_own_take(c);
    vt_status st = copy_from_window(c, w, copy, stream);
    st = vti_cuda_own_finish(c, stream, st);
    vti_cuda_window_end(c, w);
    return st;
}

static bool may_order(vti_cuda *c, vt_vmm_order order)
{
    return order == VT_VMM_NOW || vti_cuda_runs(c, c->stream[0]);
}

vt_status vti_cuda_fetch(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index, size_t offset,
                         size_t size_bytes, vt_vmm_order order)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_assert_class(c, index, 1);
    assert(slice < vti_cuda_class(c, index)->n_slice && size_bytes > 0);
    assert(offset < vti_cuda_class(c, index)->slice_bytes);
    assert(size_bytes <= vti_cuda_class(c, index)->slice_bytes - offset);
    fetch_copy copy = {dst, offset, size_bytes};
    vti_cuda_window *w = NULL;
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vt_status st = may_order(c, order) ? vti_cuda_window_begin(c, slice, index, &w) : VT_EDEVICE;
    if (st == VT_OK) st = order == VT_VMM_NOW ? copy_now(c, w, &copy) : copy_queued(c, w, &copy);
    return vti_cuda_leave(c, &scope, vti_cuda_hard(st));
}

static vt_status copy_all(vti_cuda *c, const vt_vmm_copy *copy, uint64_t n, vti_cu_stream stream)
{
    vti_cu_result r = VTI_CU_SUCCESS;
    for (uint64_t i = 0; i < n && r == VTI_CU_SUCCESS; i++)
        r = c->cu.memcpy_dtod_async(copy[i].dst, copy[i].src, copy[i].size_bytes, stream);
    return vti_cuda_status(r);
}

static vt_status copy_all_now(vti_cuda *c, const vt_vmm_copy *copy, uint64_t n)
{
    vti_cu_stream stream = vti_cuda_own_take(c);
    return vti_cuda_own_finish(c, stream, copy_all(c, copy, n, stream));
}

vt_status vti_cuda_copy_each(vt_vmm *vmm, const vt_vmm_copy *copy, uint64_t n, vt_vmm_order order)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vt_status st = VT_EDEVICE;
    if (may_order(c, order))
        st = order == VT_VMM_NOW ? copy_all_now(c, copy, n) : copy_all(c, copy, n, c->stream[0]);
    return vti_cuda_leave(c, &scope, vti_cuda_hard(st));
}

static vt_status zero_now(vti_cuda *c, vti_cu_ptr addr, size_t size_bytes)
{
    vti_cu_stream stream = vti_cuda_own_take(c);
    vti_cu_result r = c->cu.memset_async(addr, 0, size_bytes, stream);
    return vti_cuda_own_finish(c, stream, vti_cuda_status(r));
}

static vt_status zero_queued(vti_cuda *c, vti_cu_ptr addr, size_t size_bytes)
{
    return vti_cuda_status(c->cu.memset_async(addr, 0, size_bytes, c->stream[0]));
}

vt_status vti_cuda_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_order order)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vt_status st = VT_EDEVICE;
    if (may_order(c, order))
        st = order == VT_VMM_NOW ? zero_now(c, addr, size_bytes) : zero_queued(c, addr, size_bytes);
    return vti_cuda_leave(c, &scope, vti_cuda_hard(st));
}
