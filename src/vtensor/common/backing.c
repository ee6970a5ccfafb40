// backing.c - see backing.h.
#include "backing.h"

#include "try.h"

static uintptr_t addr_in(const vti_backing *b, uint32_t view)
{
    return b->addr + view * b->view_stride;
}

static vt_status map_views(const vti_backing *b)
{
    for (; *b->n_view < b->n_view_all; (*b->n_view)++) {
        uint32_t v = *b->n_view;
        b->calls->map_calls++;
        vt_status st = b->vmm->ops->map(b->vmm, addr_in(b, v), v, b->index, b->n, VT_VMM_WRITE);
        VT_TRY(vti_calls_count(b->calls, st));
    }
    return VT_OK;
}

vt_status vti_backing_unmap(const vti_backing *b)
{
    bool is_passed;
    if (b->fence > 0)
        VT_TRY(vti_calls_count(b->calls, b->vmm->ops->passed(b->vmm, b->fence, true, &is_passed)));
    for (; *b->n_view > 0; (*b->n_view)--) {
        b->calls->unmap_calls++;
        size_t size_bytes = b->n * b->slice_bytes;
        vt_status st = b->vmm->ops->unmap(b->vmm, addr_in(b, *b->n_view - 1), size_bytes);
        VT_TRY(vti_calls_count(b->calls, st));
    }
    return VT_OK;
}

vt_status vti_backing_drop(const vti_backing *b)
{
    VT_TRY(vti_backing_unmap(b));
    b->calls->destroy_calls++;
    VT_TRY(vti_calls_count(b->calls, b->vmm->ops->destroy(b->vmm, b->index, b->n)));
    *b->created = false;
    return VT_OK;
}

vt_status vti_backing_make(const vti_backing *b)
{
    b->calls->create_calls++;
    VT_TRY(vti_calls_count(b->calls, b->vmm->ops->create(b->vmm, b->index, b->n)));
    *b->created = true;
    vt_status st = map_views(b);
    if (st != VT_OK) (void)vti_backing_drop(b);
    return st;
}
