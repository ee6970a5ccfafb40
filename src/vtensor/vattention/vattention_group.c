// vattention_group.c - page groups and the backend: runs, and the requests they belong to.
//
//   run_do       backend calls only, by the owner or the worker (backing.h). Afterwards
//                `created` and `n_view` of the run describe the state
//   run_commit   derives only from these two: mapped in all views, torn, or gone
//
// So a SHED that fails half-way and a BACK that cannot be undone end in the same state, and one
// more SHED repairs it.
#include "vattention_internal.h"

#include "vtensor/common/try.h"

uint32_t vti_va_groups_for(const vti_va_geo *g, uint32_t len_tok)
{
    size_t used = len_tok * g->tok_stride; // cannot overflow: max_tok x tok_stride does not
    return (uint32_t)((used + g->page_bytes - 1) / g->page_bytes);
}

static uintptr_t addr_of(const vt_va *va, uint32_t view, uint32_t reqid, uint32_t position)
{
    const vti_va_geo *g = &va->geo;
    return va->addr + view * g->view_stride + reqid * g->request_stride + position * g->page_bytes;
}

vti_va_run vti_va_back_run(uint32_t reqid, uint32_t first, uint32_t n)
{
    return (vti_va_run){.back = true, .req = reqid, .first = first, .n = n};
}

vti_va_run vti_va_shed_run(const vt_va *va, uint32_t reqid, uint32_t first)
{
    const vti_va_req *r = &va->req[reqid];
    return (vti_va_run){
        .req = reqid,
        .first = first,
        .n = r->n_mapped - first,
        .fence = first < r->n_dirty ? r->fence : 0,
        .created = true,
        .n_view = va->geo.n_view,
    };
}

vt_status vti_va_run_do(const vt_va *va, vti_va_run *run, vti_calls *t)
{
    vti_backing b = {
        .vmm = va->vmm,
        .n_view_all = va->geo.n_view,
        .view_stride = va->geo.view_stride,
        .slice_bytes = va->geo.page_bytes,
        .addr = addr_of(va, 0, run->req, run->first),
        .index = (uint64_t)run->req * va->geo.groups_per_request + run->first,
        .n = run->n,
        .fence = run->fence,
        .created = &run->created,
        .n_view = &run->n_view,
        .calls = t,
    };
    return run->back ? vti_backing_make(&b) : vti_backing_drop(&b);
}

// Groups of the request from the run's first position on, mapped or torn.
static uint32_t n_held(const vti_va_req *r, const vti_va_run *run)
{
    return r->n_mapped + r->tear.n - run->first;
}

void vti_va_run_commit(vt_va *va, const vti_va_run *run)
{
    vti_va_req *r = &va->req[run->req];
    bool whole = run->created && run->n_view == va->geo.n_view;
    va->n_created -= n_held(r, run);
    r->n_mapped = run->first + (whole ? run->n : 0);
    r->tear = run->created && !whole ? (vti_va_tear){run->n, run->n_view} : (vti_va_tear){0};
    va->n_created += n_held(r, run);
    if (r->n_dirty > r->n_mapped) r->n_dirty = r->n_mapped;
    if (!run->back && !run->created) va->count.reclaimed_groups += run->n;
}

static vt_status do_and_commit(vt_va *va, vti_va_run *run)
{
    vt_status st = vti_va_run_do(va, run, &va->tally);
    vti_va_run_commit(va, run);
    return st;
}

// No fence is needed: the groups were fresh, or their fence was passed before they were torn.
vt_status vti_va_repair(vt_va *va, uint32_t reqid)
{
    const vti_va_req *r = &va->req[reqid];
    if (r->tear.n == 0) return VT_OK;
    vti_va_run run = {
        .req = reqid,
        .first = r->n_mapped,
        .n = r->tear.n,
        .created = true,
        .n_view = r->tear.n_view,
    };
    return do_and_commit(va, &run);
}

vt_status vti_va_grow(vt_va *va, uint32_t reqid, uint32_t n_group)
{
    const vti_va_req *r = &va->req[reqid];
    if (r->n_mapped >= n_group) return VT_OK;
    VT_TRY(vti_va_repair(va, reqid));
    vti_va_run run = vti_va_back_run(reqid, r->n_mapped, n_group - r->n_mapped);
    return do_and_commit(va, &run);
}

vt_status vti_va_shrink(vt_va *va, uint32_t reqid, uint32_t n_group)
{
    VT_TRY(vti_va_repair(va, reqid));
    if (va->req[reqid].n_mapped <= n_group) return VT_OK;
    vti_va_run run = vti_va_shed_run(va, reqid, n_group);
    return do_and_commit(va, &run);
}

vt_status vti_va_is_passed(vt_va *va, uint64_t fence, bool wait, bool *is_passed)
{
    *is_passed = true;
    if (fence == 0) return VT_OK;
    return vti_calls_count(&va->tally, va->vmm->ops->passed(va->vmm, fence, wait, is_passed));
}

// Pre: inactive, nothing torn. After a failure all of it must still be wiped.
vt_status vti_va_wipe(vt_va *va, uint32_t reqid)
{
    vti_va_req *r = &va->req[reqid];
    bool is_passed;
    if (r->n_dirty == 0) return VT_OK;
    VT_TRY(vti_va_is_passed(va, r->fence, true, &is_passed));
    for (uint32_t v = 0; v < va->geo.n_view; v++) {
        size_t size_bytes = r->n_dirty * va->geo.page_bytes;
        uintptr_t addr = addr_of(va, v, reqid, 0);
        VT_TRY(vti_calls_count(&va->tally, va->vmm->ops->zero(va->vmm, addr, size_bytes)));
    }
    va->count.wiped_groups += r->n_dirty;
    r->n_dirty = 0;
    return VT_OK;
}
