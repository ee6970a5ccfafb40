// vattention_group.c - page groups by name: which exist, which one a position gets, and the calls
// that create and destroy them. The states and the order of preference are in
// vattention_internal.h.
#include <string.h>

#include "vattention_internal.h"
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

void vti_va_set_state(vt_va *va, const vti_va_run *run, vti_va_state state)
{
    memset(va->state + run->name, (int)state, run->n);
}

bool vti_va_continues(const vt_va *va, uint32_t req, uint32_t at, uint32_t name)
{
    return at > 0 && va->req[req].name[at - 1] + 1 == name;
}

// ---- Choosing

static uint32_t home_of(const vt_va *va, uint32_t req, uint32_t at)
{
    return req * va->geo.groups_per_request + at;
}

// The first name in that state within [first, end).
static uint32_t find_in_state(const vt_va *va, vti_va_state state, uint32_t first, uint32_t end)
{
    const uint8_t *at = memchr(va->state + first, (int)state, end - first);
    return at ? (uint32_t)(at - va->state) : NO_NAME;
}

static uint32_t find_home_name(const vt_va *va, vti_va_state state, uint32_t from)
{
    uint32_t name = find_in_state(va, state, from, va->geo.n_home);
    return name != NO_NAME ? name : find_in_state(va, state, 0, from);
}

// The name that continues the request's run.
static uint32_t next_name(const vt_va *va, uint32_t req, uint32_t at)
{
    uint32_t next = at > 0 ? va->req[req].name[at - 1] + 1 : va->geo.n_home;
    return next != va->geo.n_home ? next : NO_NAME;
}

// If no home name is spare, one is not created: at most n_home - 1 are mapped, for this position is
// not.
static uint32_t choose_name(const vt_va *va, uint32_t req, uint32_t at)
{
    uint32_t next = next_name(va, req, at), home = home_of(va, req, at), spare = NO_NAME;
    bool may_jump = va->n_run < va->max_jump;
    if (next != NO_NAME && va->state[next] == VTI_VA_SPARE) return next;
    if (may_jump && va->n_spare > 0) spare = find_home_name(va, VTI_VA_SPARE, home);
    if (spare != NO_NAME) return spare;
    if (next != NO_NAME && va->state[next] == VTI_VA_NONE) return next;
    return may_jump ? find_home_name(va, VTI_VA_NONE, home) : va->geo.n_home + home;
}

// How many names from that one on are in the same state and of the same kind.
static uint32_t run_length(const vt_va *va, uint32_t name, uint32_t most)
{
    uint32_t n = 1, end = name < va->geo.n_home ? va->geo.n_home : 2 * va->geo.n_home;
    while (n < most && name + n < end && va->state[name + n] == va->state[name]) n++;
    return n;
}

// ---- Creating and destroying

static vt_status destroy_first(vt_va *va, const vti_va_actor *by, uint32_t most, uint32_t *n)
{
    uint32_t name = find_in_state(va, VTI_VA_SPARE, va->geo.n_home, 2 * va->geo.n_home);
    if (name == NO_NAME) name = find_in_state(va, VTI_VA_SPARE, 0, va->geo.n_home);
    *n = run_length(va, name, most);
    by->count->destroy_calls++;
    VT_TRY(vti_va_note(by, va->vmm->ops->destroy(va->vmm, name, *n)));
    memset(va->state + name, VTI_VA_NONE, *n);
    va->n_spare -= *n;
    va->n_created -= *n;
    return VT_OK;
}

vt_status vti_va_destroy_spares(vt_va *va, const vti_va_actor *by, uint64_t n_group)
{
    while (n_group > 0) {
        uint32_t n, most = n_group < UINT32_MAX ? (uint32_t)n_group : UINT32_MAX;
        VT_TRY(destroy_first(va, by, most, &n));
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
    vti_va_set_state(va, run, VTI_VA_SPARE);
    va->n_created += run->n;
    va->n_spare += run->n;
    return VT_OK;
}

vt_status vti_va_create_all(vt_va *va, const vti_va_actor *by)
{
    const uint64_t most = va->budget_groups, n_home = va->geo.n_home;
    const vti_va_run run = {.name = 0, .n = (uint32_t)(most < n_home ? most : n_home)};
    return run.n > 0 ? create_groups(va, by, &run) : VT_OK;
}

vt_status vti_va_take_run(vt_va *va, const vti_va_actor *by, uint32_t req, uint32_t most,
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
