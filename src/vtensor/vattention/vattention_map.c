// vattention_map.c - the groups of a request: mapped, wiped and unmapped, run by run.
//
//   grow_run    take the groups, map them in every view, wipe them     failed: unmap them again
//   shed_run    unmap the last ones from every view                    failed: map them again
//
// Groups need no wiping if they were created zeroed for this. If the second half fails too, the
// request is torn.
#include "vattention_internal.h"
#include "vtensor/core/common.h"

vti_va_actor vti_va_owner(vt_va *va)
{
    return (vti_va_actor){.order = VT_VMM_QUEUED, .count = &va->count};
}

// ---- The device's work

vt_status vti_va_take_fence(vt_va *va, uint64_t *ticket)
{
    vti_va_actor owner = vti_va_owner(va);
    return vti_va_note(&owner, va->vmm->ops->fence(va->vmm, ticket));
}

vt_status vti_va_is_passed(vt_va *va, const vti_va_actor *by, uint64_t fence, bool wait,
                           bool *is_passed)
{
    *is_passed = true;
    if (fence == 0) return VT_OK;
    VT_TRY(vti_va_note(by, va->vmm->ops->passed(va->vmm, fence, false, is_passed)));
    if (*is_passed || !wait) return VT_OK;
    by->count->device_waits++;
    return vti_va_note(by, va->vmm->ops->passed(va->vmm, fence, true, is_passed));
}

// Wipes that the owner has queued are done.
static vt_status finish_wipes(vt_va *va, const vti_va_actor *by)
{
    uint64_t ticket;
    bool is_passed;
    if (by->order == VT_VMM_NOW) return VT_OK;
    VT_TRY(vti_va_take_fence(va, &ticket));
    return vti_va_is_passed(va, by, ticket, true, &is_passed);
}

// ---- Views

static uintptr_t addr_of(const vt_va *va, uint32_t view, uint32_t req, uint32_t at)
{
    const vti_va_geo *g = &va->geo;
    return va->addr + view * g->view_stride + req * g->request_stride + at * g->page_bytes;
}

static vt_status map_view(vt_va *va, const vti_va_actor *by, const vti_va_run *run, uint32_t view)
{
    uintptr_t addr = addr_of(va, view, run->req, run->first);
    by->count->map_calls++;
    return vti_va_note(by, va->vmm->ops->map(va->vmm, addr, view, run->name, run->n, VT_VMM_WRITE));
}

static vt_status unmap_view(vt_va *va, const vti_va_actor *by, const vti_va_run *run, uint32_t view)
{
    uintptr_t addr = addr_of(va, view, run->req, run->first);
    by->count->unmap_calls++;
    return vti_va_note(by, va->vmm->ops->unmap(va->vmm, addr, run->n * va->geo.page_bytes));
}

// From views [0, *n_view) to views [0, target). On an error *n_view says how far it came.
static vt_status move_views(vt_va *va, const vti_va_actor *by, const vti_va_run *run,
                            uint32_t *n_view, uint32_t target)
{
    for (; *n_view < target; (*n_view)++) VT_TRY(map_view(va, by, run, *n_view));
    for (; *n_view > target; (*n_view)--) VT_TRY(unmap_view(va, by, run, *n_view - 1));
    return VT_OK;
}

static vt_status wipe_views(vt_va *va, const vti_va_actor *by, uint32_t req, uint32_t first,
                            uint32_t n)
{
    if (by->order == VT_VMM_QUEUED) va->req[req].has_queued = true;
    for (uint32_t v = 0; v < va->geo.n_view; v++) {
        uintptr_t addr = addr_of(va, v, req, first);
        size_t size_bytes = n * va->geo.page_bytes;
        VT_TRY(vti_va_note(by, va->vmm->ops->zero(va->vmm, addr, size_bytes, by->order)));
    }
    by->count->wiped_groups += n;
    return VT_OK;
}

// ---- Runs

static void attach_run(vt_va *va, const vti_va_run *run)
{
    for (uint32_t i = 0; i < run->n; i++) va->req[run->req].name[run->first + i] = run->name + i;
    vti_va_set_state(va, run, VTI_VA_MAPPED);
    va->n_spare -= run->n;
    va->n_run += !vti_va_continues(va, run->req, run->first, run->name);
}

static void detach_run(vt_va *va, const vti_va_run *run)
{
    vti_va_set_state(va, run, VTI_VA_SPARE);
    va->n_spare += run->n;
    va->n_run -= !vti_va_continues(va, run->req, run->first, run->name);
}

static void tear_request(vt_va *va, const vti_va_run *run, uint32_t n_view)
{
    va->req[run->req].torn_view = n_view;
    va->req[run->req].n_torn = run->n;
}

vt_status vti_va_grow_run(vt_va *va, const vti_va_actor *by, uint32_t req, uint32_t most)
{
    vti_va_req *r = &va->req[req];
    uint32_t n_view = 0, n_all = va->geo.n_view;
    vti_va_run run;
    if (r->n_torn > 0) return VT_EDEVICE;
    VT_TRY(vti_va_take_run(va, by, req, most, &run));
    vt_status st = move_views(va, by, &run, &n_view, n_all);
    if (st == VT_OK && !(run.is_fresh && va->creates_zeroed)) {
        st = wipe_views(va, by, req, run.first, run.n);
        if (st != VT_OK && finish_wipes(va, by) != VT_OK) n_all = 0; // cannot be unmapped
    }
    if (st != VT_OK && n_all > 0 && move_views(va, by, &run, &n_view, 0) == VT_OK) return st;
    attach_run(va, &run);
    if (st == VT_OK)
        r->n_mapped += run.n;
    else
        tear_request(va, &run, n_view);
    return st;
}

vt_status vti_va_grow(vt_va *va, const vti_va_actor *by, uint32_t req, uint32_t n_group)
{
    const vti_va_req *r = &va->req[req];
    while (r->n_mapped < n_group) VT_TRY(vti_va_grow_run(va, by, req, n_group - r->n_mapped));
    return VT_OK;
}

// The last mapped groups that are a run, without the first `least`.
static vti_va_run last_run(const vt_va *va, uint32_t req, uint32_t least)
{
    const vti_va_req *r = &va->req[req];
    uint32_t first = r->n_mapped - 1;
    while (first > least && vti_va_continues(va, req, first, r->name[first])) first--;
    return (vti_va_run){
        .req = req, .first = first, .n = r->n_mapped - first, .name = r->name[first]};
}

vt_status vti_va_shed_run(vt_va *va, const vti_va_actor *by, uint32_t req, uint32_t least)
{
    vti_va_req *r = &va->req[req];
    uint32_t n_view = va->geo.n_view;
    if (r->n_torn > 0) return VT_EDEVICE;
    vti_va_run run = last_run(va, req, least);
    vt_status st = move_views(va, by, &run, &n_view, 0);
    if (st != VT_OK && move_views(va, by, &run, &n_view, va->geo.n_view) == VT_OK) return st;
    r->n_mapped = run.first;
    if (r->n_dirty > run.first) r->n_dirty = run.first;
    if (st != VT_OK) {
        tear_request(va, &run, n_view);
        return st;
    }
    detach_run(va, &run);
    by->count->reclaimed_groups += run.n;
    return VT_OK;
}

vt_status vti_va_shrink(vt_va *va, const vti_va_actor *by, uint32_t req, uint32_t n_group)
{
    while (va->req[req].n_mapped > n_group) VT_TRY(vti_va_shed_run(va, by, req, n_group));
    return VT_OK;
}

// The last ones first, so that the count says what is left.
vt_status vti_va_wipe(vt_va *va, const vti_va_actor *by, uint32_t req, uint32_t most)
{
    vti_va_req *r = &va->req[req];
    uint32_t n = r->n_dirty < most ? r->n_dirty : most;
    if (n == 0) return VT_OK;
    VT_TRY(wipe_views(va, by, req, r->n_dirty - n, n));
    r->n_dirty -= n;
    return VT_OK;
}

vt_status vti_va_unmap_torn(vt_va *va, const vti_va_actor *by, uint32_t req)
{
    vti_va_req *r = &va->req[req];
    if (r->n_torn == 0) return VT_OK;
    vti_va_run run = {
        .req = req, .first = r->n_mapped, .n = r->n_torn, .name = r->name[r->n_mapped]};
    VT_TRY(move_views(va, by, &run, &r->torn_view, 0));
    detach_run(va, &run);
    r->n_torn = 0;
    return VT_OK;
}
