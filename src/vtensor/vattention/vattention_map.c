// vattention_map.c - page groups: which exist by name, which one a position gets, and how the
// groups of a request are mapped, wiped and unmapped, run by run. The states and the order of
// preference are in vattention_internal.h.
//
//   grow_run    take the groups, map them in every view, wipe them     failed: unmap them again
//   shed_run    unmap the last ones from every view                    failed: map them again
//
// Groups need no wiping if they were created zeroed for this. If the second half fails too, the
// request is torn.
#include "vattention_internal.h"

#include <string.h>

#include "vtensor/core/common.h"

#define NO_NAME UINT32_MAX

uint32_t vti_va_groups_for(const vti_va_geo *g, uint32_t len_tok)
{
    size_t used = len_tok * g->tok_stride; // cannot overflow: max_tok x tok_stride does not
    return (uint32_t)((used + g->page_bytes - 1) / g->page_bytes);
}

vt_status vti_va_note(const vti_va_actor *by, vt_status st)
{
    by->count->device_errors += st == VT_EDEVICE;
    return st;
}

uint64_t vti_va_used(const vt_va *va)
{
    return va->n_created - va->n_spare;
}

uint64_t vti_va_room(const vt_va *va)
{
    return va->budget_groups - vti_va_used(va);
}

static void set_run_state(vt_va *va, const vti_va_run *run, vti_va_state state)
{
    memset(va->state + run->name, (int)state, run->n);
}

bool vti_va_continues(const vt_va *va, uint32_t req, uint32_t at, uint32_t name)
{
    return at > 0 && va->req[req].name[at - 1] + 1 == name;
}

// ---- Choosing

// The first name in that state within [first, end).
static uint32_t find_in_state(const vt_va *va, vti_va_state state, uint32_t first, uint32_t end)
{
    const uint8_t *at = memchr(va->state + first, (int)state, end - first);
    return at ? (uint32_t)(at - va->state) : NO_NAME;
}

static uint32_t find_preferred(const vt_va *va, vti_va_state state, uint32_t from)
{
    uint32_t name = find_in_state(va, state, from, va->geo.n_preferred);
    return name != NO_NAME ? name : find_in_state(va, state, 0, from);
}

// If no preferred name is spare, one is not created: at most n_preferred - 1 are mapped, since this
// position is not.
static uint32_t choose_name(const vt_va *va, uint32_t req, uint32_t at)
{
    uint32_t next = at > 0 ? va->req[req].name[at - 1] + 1 : NO_NAME; // continues the run
    if (next == va->geo.n_preferred) next = NO_NAME;
    uint32_t preferred = req * va->geo.groups_per_request + at, spare = NO_NAME;
    bool may_jump = va->n_run < va->max_jump;
    if (next != NO_NAME && va->state[next] == VTI_VA_SPARE) return next;
    if (may_jump && va->n_spare > 0) spare = find_preferred(va, VTI_VA_SPARE, preferred);
    if (spare != NO_NAME) return spare;
    if (next != NO_NAME && va->state[next] == VTI_VA_NONE) return next;
    return may_jump ? find_preferred(va, VTI_VA_NONE, preferred) : va->geo.n_preferred + preferred;
}

// How many names from that one on are in the same state and of the same kind.
static uint32_t run_length(const vt_va *va, uint32_t name, uint32_t most)
{
    uint32_t n = 1,
             end = name < va->geo.n_preferred ? va->geo.n_preferred : 2 * va->geo.n_preferred;
    while (n < most && name + n < end && va->state[name + n] == va->state[name]) n++;
    return n;
}

// ---- Creating and destroying

vt_status vti_va_destroy_spares(vt_va *va, const vti_va_actor *by, uint64_t n_group)
{
    const uint32_t n_preferred = va->geo.n_preferred;
    while (n_group > 0) {
        uint32_t name = find_in_state(va, VTI_VA_SPARE, n_preferred, 2 * n_preferred);
        if (name == NO_NAME) name = find_in_state(va, VTI_VA_SPARE, 0, n_preferred);
        uint32_t n = run_length(va, name, n_group < UINT32_MAX ? (uint32_t)n_group : UINT32_MAX);
        by->count->destroy_calls++;
        VT_TRY(vti_va_note(by, va->vmm->ops->destroy(va->vmm, name, n)));
        memset(va->state + name, VTI_VA_NONE, n);
        va->n_spare -= n;
        va->n_created -= n;
        n_group -= n;
    }
    return VT_OK;
}

static vt_status create_groups(vt_va *va, const vti_va_actor *by, const vti_va_run *run)
{
    uint64_t after = va->n_created + run->n;
    if (after > va->budget_groups) VT_TRY(vti_va_destroy_spares(va, by, after - va->budget_groups));
    by->count->create_calls++;
    VT_TRY(vti_va_note(by, va->vmm->ops->create(va->vmm, run->name, run->n)));
    set_run_state(va, run, VTI_VA_SPARE);
    va->n_created += run->n;
    va->n_spare += run->n;
    return VT_OK;
}

vt_status vti_va_create_all(vt_va *va, const vti_va_actor *by)
{
    const uint64_t most = va->budget_groups, n_preferred = va->geo.n_preferred;
    const vti_va_run run = {.name = 0, .n = (uint32_t)(most < n_preferred ? most : n_preferred)};
    return run.n > 0 ? create_groups(va, by, &run) : VT_OK;
}

static vt_status take_name_run(vt_va *va, const vti_va_actor *by, uint32_t req, uint32_t most,
                               vti_va_run *out)
{
    uint32_t at = va->req[req].n_mapped;
    uint64_t room = vti_va_room(va);
    if (room == 0) return VT_NOSPACE;
    uint32_t name = choose_name(va, req, at);
    *out = (vti_va_run){.req = req,
                        .first = at,
                        .n = run_length(va, name, most < room ? most : (uint32_t)room),
                        .name = name,
                        .is_fresh = va->state[name] == VTI_VA_NONE};
    return out->is_fresh ? create_groups(va, by, out) : VT_OK;
}

// ---- The device's work

vt_status vti_va_take_fence(vt_va *va, uint64_t *ticket)
{
    return vti_va_note(&va->owner, va->vmm->ops->fence(va->vmm, ticket));
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

vt_status vti_va_device_await(vt_va *va)
{
    uint64_t ticket;
    bool is_passed;
    VT_TRY(vti_va_take_fence(va, &ticket));
    return vti_va_is_passed(va, &va->owner, ticket, true, &is_passed);
}

// ---- Views

static uintptr_t addr_of(const vt_va *va, uint32_t view, uint32_t req, uint32_t at)
{
    const vti_va_geo *g = &va->geo;
    return va->addr + view * g->view_stride + req * g->request_stride + at * g->page_bytes;
}

// From views [0, *n_view) to views [0, target). On an error *n_view says how far it came.
static vt_status move_views(vt_va *va, const vti_va_actor *by, const vti_va_run *run,
                            uint32_t *n_view, uint32_t target)
{
    const vt_vmm_ops *ops = va->vmm->ops;
    for (; *n_view < target; (*n_view)++) {
        uintptr_t addr = addr_of(va, *n_view, run->req, run->first);
        by->count->map_calls++;
        VT_TRY(vti_va_note(by, ops->map(va->vmm, addr, *n_view, run->name, run->n, VT_VMM_WRITE)));
    }
    for (; *n_view > target; (*n_view)--) {
        uintptr_t addr = addr_of(va, *n_view - 1, run->req, run->first);
        by->count->unmap_calls++;
        VT_TRY(vti_va_note(by, ops->unmap(va->vmm, addr, run->n * va->geo.page_bytes)));
    }
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

static void detach_run(vt_va *va, const vti_va_run *run)
{
    set_run_state(va, run, VTI_VA_SPARE);
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
    VT_TRY(take_name_run(va, by, req, most, &run));
    vt_status st = move_views(va, by, &run, &n_view, n_all);
    if (st == VT_OK && !(run.is_fresh && va->creates_zeroed)) {
        st = wipe_views(va, by, req, run.first, run.n);
        // Wipes that the owner has queued must be done before anything is unmapped.
        if (st != VT_OK && by->order == VT_VMM_QUEUED && vti_va_device_await(va) != VT_OK)
            n_all = 0;
    }
    if (st != VT_OK && n_all > 0 && move_views(va, by, &run, &n_view, 0) == VT_OK) return st;
    for (uint32_t i = 0; i < run.n; i++) r->name[run.first + i] = run.name + i;
    set_run_state(va, &run, VTI_VA_MAPPED);
    va->n_spare -= run.n;
    va->n_run += !vti_va_continues(va, req, run.first, run.name);
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
