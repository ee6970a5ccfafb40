// vattention_check.c - what can be seen of the manager: vt_va_check, which proves the invariants of
// vattention_internal.h, whose numbers the comments give; the statistics, whose gauges are computed
// on request, so that they cannot drift; and every page group that exists, and where it is.
#include "vattention_internal.h"

#include "vtensor/core/common.h"

typedef struct va_census {
    uint64_t n_used, n_spare; // names MAPPED and SPARE
    uint64_t n_run;
    uint64_t n_page; // mapped, over all views
} va_census;

// 1
static const char *check_extent(const vti_va_geo *g, const vti_va_req *r)
{
    HOLDS(r->n_dirty <= r->n_mapped, "more groups may be dirty than are mapped");
    HOLDS(r->n_mapped <= g->groups_per_request && r->n_torn <= g->groups_per_request - r->n_mapped,
          "a request has more groups than it has room for");
    HOLDS(r->torn_view <= g->n_view, "a request is torn in more views than there are");
    return NULL;
}

// 2
static const char *check_need(const vti_va_geo *g, const vti_va_req *r)
{
    HOLDS(r->len_tok <= g->max_tok, "a request is longer than max_tok");
    HOLDS(r->n_need == vti_va_groups_for(g, r->len_tok),
          "a request's need does not match its length");
    HOLDS(r->is_active || (r->len_tok == 0 && r->n_given == 0), "an inactive request has tokens");
    HOLDS(r->n_given <= r->n_need, "kernels were given more groups than are needed");
    HOLDS(r->n_given <= r->n_dirty, "groups that kernels were given count as clean");
    return NULL;
}

// 3. Names that were found become SEEN, so that none is found twice.
static const char *check_names(vt_va *va, uint32_t req, va_census *c)
{
    const vti_va_req *r = &va->req[req];
    for (uint32_t at = 0; at < r->n_mapped + r->n_torn; at++) {
        uint32_t name = r->name[at], preferred = req * va->geo.groups_per_request + at;
        HOLDS(name < 2 * va->geo.n_preferred, "a group has a name that does not exist");
        HOLDS(name < va->geo.n_preferred || name - va->geo.n_preferred == preferred,
              "a reserve name is used at another position");
        HOLDS(va->state[name] == VTI_VA_MAPPED, "a group is mapped twice, or not created");
        va->state[name] = VTI_VA_SEEN;
        c->n_run += !vti_va_continues(va, req, at, name);
    }
    return NULL;
}

static const char *check_requests(vt_va *va, va_census *c)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        const vti_va_req *r = &va->req[i];
        const char *broken = check_extent(&va->geo, r);
        if (!broken) broken = check_need(&va->geo, r);
        if (!broken) broken = check_names(va, i, c);
        if (broken) return broken;
        c->n_page += (uint64_t)r->n_mapped * va->geo.n_view + (uint64_t)r->n_torn * r->torn_view;
    }
    return NULL;
}

// 3. False: a name is MAPPED, but at no position.
static bool count_states(vt_va *va, va_census *c)
{
    bool all_seen = true;
    for (uint32_t name = 0; name < 2 * va->geo.n_preferred; name++) {
        all_seen &= va->state[name] != VTI_VA_MAPPED;
        c->n_spare += va->state[name] == VTI_VA_SPARE;
        c->n_used += va->state[name] == VTI_VA_SEEN;
        if (va->state[name] == VTI_VA_SEEN) va->state[name] = VTI_VA_MAPPED;
    }
    return all_seen;
}

// 3, 4, 6
static const char *check_sums(const vt_va *va, const va_census *c)
{
    HOLDS(c->n_spare == va->n_spare, "the count of spare groups is wrong");
    HOLDS(c->n_used + c->n_spare == va->n_created, "the count of groups is wrong");
    HOLDS(va->n_created <= va->budget_groups, "more groups exist than the budget allows");
    HOLDS(c->n_run == va->n_run, "the count of runs is wrong");
    HOLDS(va->n_run <= va->geo.max_batch || va->n_run - va->geo.max_batch <= va->max_jump,
          "there are more runs than the system has mappings for");
    HOLDS(!va->job[VTI_VA_URGENT].is_out && !va->job[VTI_VA_BACKGROUND].is_out,
          "a job is still with the worker");
    return NULL;
}

vt_status vt_va_check(vt_va *va, const char **what)
{
    va_census c = {0};
    vt_status st = VT_OK;
    vti_va_settle(va, true);
    const char *broken = check_requests(va, &c);
    if (!count_states(va, &c) && !broken) broken = "a group is mapped nowhere, but not spare";
    if (!broken) broken = check_sums(va, &c);
    const vti_claim claim = {.resident_bytes = va->n_created * va->geo.group_bytes, // 5
                             .mapped_bytes = c.n_page * va->geo.page_bytes,
                             .n_run = c.n_run * va->geo.n_view};
    if (!broken) st = vti_claim_check(va->vmm, &claim, &broken);
    if (what) *what = broken;
    return broken ? VT_EINVAL : st;
}

// ---- Statistics

static void add_request(const vt_va *va, const vti_va_req *r, vt_va_stats *s)
{
    uint64_t n_all = r->n_mapped + r->n_torn, lost = vti_va_lost(r, r->n_need);
    s->groups_active += r->n_given;
    s->groups_lost += lost;
    s->requests_lost += lost > 0;
    *(r->is_active ? &s->groups_surplus : &s->groups_idle) += n_all - r->n_given - lost;
    s->requests_active += r->is_active;
    s->live_bytes += (uint64_t)r->len_tok * va->geo.row_bytes * va->geo.n_plane;
}

void vt_va_get_stats(const vt_va *va, vt_va_stats *out)
{
    *out = va->count;
    out->page_bytes = va->geo.page_bytes;
    out->group_bytes = va->geo.group_bytes;
    out->groups_budget = va->budget_groups;
    out->groups_created = va->n_created;
    out->groups_spare = va->n_spare;
    for (uint32_t i = 0; i < va->geo.max_batch; i++) add_request(va, &va->req[i], out);
}

vt_va_request vt_va_look(const vt_va *va, uint32_t reqid)
{
    if (reqid >= va->geo.max_batch) return (vt_va_request){0};
    const vti_va_req *r = &va->req[reqid];
    return (vt_va_request){.is_active = r->is_active,
                           .is_lost = r->n_torn > 0,
                           .len_tok = r->len_tok,
                           .n_need = r->n_need,
                           .n_given = r->n_given,
                           .n_mapped = r->n_mapped};
}

// ---- Page groups, one by one

static void walk_request(const vt_va *va, uint32_t reqid,
                         void (*fn)(void *ud, const vt_va_group *group), void *ud)
{
    const vti_va_req *r = &va->req[reqid];
    const uint32_t n = r->n_mapped + r->n_torn;
    for (uint32_t i = 0; i < n; i++) {
        const vt_va_group g = {r->name[i], reqid, i, i < r->n_given};
        fn(ud, &g);
    }
}

void vt_va_each_group(vt_va *va, void (*fn)(void *ud, const vt_va_group *group), void *ud)
{
    vti_va_settle(va, true);
    for (uint32_t i = 0; i < va->geo.max_batch; i++) walk_request(va, i, fn, ud);
    for (uint32_t name = 0; name < 2 * va->geo.n_preferred; name++) {
        if (va->state[name] != VTI_VA_SPARE) continue;
        const vt_va_group g = {.name = name, .reqid = UINT32_MAX};
        fn(ud, &g);
    }
}

void vt_va_each_group_of(vt_va *va, uint32_t reqid, void (*fn)(void *ud, const vt_va_group *group),
                         void *ud)
{
    vti_va_settle(va, true);
    if (reqid < va->geo.max_batch) walk_request(va, reqid, fn, ud);
}
