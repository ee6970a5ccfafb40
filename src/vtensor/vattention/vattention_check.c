// vattention_check.c - vt_va_check, which proves the invariants of vattention_internal.h, whose
// numbers the comments give, and the statistics: gauges are computed on request, so that they
// cannot drift; only counters are kept.
#include "vattention_internal.h"

#include "vtensor/common/claim.h"
#include "vtensor/common/try.h"

typedef struct va_census {
    uint64_t n_created;
    uint64_t n_page;    // mapped, over all views
    uint64_t n_mapping; // at most
} va_census;

// 1
static const char *check_extent(const vti_va_geo *g, const vti_va_req *r)
{
    HOLDS(r->n_dirty <= r->n_mapped, "more groups may be dirty than are mapped");
    HOLDS(r->n_mapped <= g->groups_per_request && r->tear.n <= g->groups_per_request - r->n_mapped,
          "a request has more groups than it has room for");
    HOLDS(r->tear.n_view < g->n_view && (r->tear.n > 0 || r->tear.n_view == 0),
          "a tear is mapped in every view, or in some but has no groups");
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

static const char *check_requests(const vt_va *va, va_census *c)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        const vti_va_req *r = &va->req[i];
        const char *broken = check_extent(&va->geo, r);
        if (!broken) broken = check_need(&va->geo, r);
        if (broken) return broken;
        c->n_created += r->n_mapped + r->tear.n;
        c->n_page += (uint64_t)r->n_mapped * va->geo.n_view + (uint64_t)r->tear.n * r->tear.n_view;
        c->n_mapping += r->n_mapped > 0 ? va->geo.n_view : r->tear.n_view;
    }
    return NULL;
}

// 3, 5
static const char *check_sums(const vt_va *va, const va_census *c)
{
    HOLDS(c->n_created == va->n_created, "the count of groups is wrong");
    HOLDS(c->n_created <= va->budget_groups, "more groups exist than the budget allows");
    HOLDS(!va->job_is_out, "a job is still with the worker");
    return NULL;
}

// 4
static vt_status check_system(const vt_va *va, const va_census *c, const char **broken)
{
    vti_claim claim = {.resident_bytes = c->n_created * va->geo.group_bytes,
                       .mapped_bytes = c->n_page * va->geo.page_bytes,
                       .n_run = c->n_mapping};
    return vti_claim_check(va->vmm, &claim, broken);
}

vt_status vt_va_check(vt_va *va, const char **what)
{
    va_census c = {0};
    vt_status st = VT_OK;
    vti_va_settle(va);
    const char *broken = check_requests(va, &c);
    if (!broken) broken = check_sums(va, &c);
    if (!broken) st = check_system(va, &c, &broken);
    if (what) *what = broken;
    return broken ? VT_EINVAL : st;
}

// ---- Statistics

static void add_request(const vt_va *va, const vti_va_req *r, vt_va_stats *s)
{
    uint64_t needed = r->n_mapped < r->n_need ? r->n_mapped : r->n_need;
    s->groups_active += needed;
    *(r->is_active ? &s->groups_surplus : &s->groups_idle) += r->n_mapped - needed;
    s->groups_torn += r->tear.n;
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
    out->create_calls = va->tally.create_calls;
    out->destroy_calls = va->tally.destroy_calls;
    out->map_calls = va->tally.map_calls;
    out->unmap_calls = va->tally.unmap_calls;
    out->device_errors = va->tally.device_errors;
    for (uint32_t i = 0; i < va->geo.max_batch; i++) add_request(va, &va->req[i], out);
}

vt_va_request vt_va_look(const vt_va *va, uint32_t reqid)
{
    if (reqid >= va->geo.max_batch) return (vt_va_request){0};
    const vti_va_req *r = &va->req[reqid];
    return (vt_va_request){
        .is_active = r->is_active,
        .len_tok = r->len_tok,
        .n_need = r->n_need,
        .n_mapped = r->n_mapped,
    };
}
