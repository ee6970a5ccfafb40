// vattention.c - the calls of vattention.h, each all or nothing. The design and the invariants are
// in vattention_internal.h.
//
// A step:
//
//   check lengths | settle | plan: need, sums | fence | make room | grow | commit lengths
//   nothing is changed yet ------------------------|  unneeded memory moves
//   prepare -----------------------------------------------------------| commit
//
// The plan decides VT_NOSPACE from sums, before anything is touched: what active requests were
// given and what they need now (n_keep) must fit the budget; everything else can be taken. The
// lengths, and with them what a later step may take, change last, when nothing can fail any more.
// What a step has mapped before it fails stays, beyond what the lengths need.
//
// If the system has less memory than the budget allows, the step takes as much from others as it
// misses and tries once more.
#include "vattention_internal.h"
#include "vtensor/core/common.h"

#include <stdlib.h>
#include <unistd.h>

enum { DEFAULT_EAGER_GROUPS = 2, DEFAULT_NEXT_GROUPS = 4 };
enum { DEFAULT_LOW_PERCENT = 10, DEFAULT_HIGH_PERCENT = 15 };
enum { SLICE_BYTES = 4 << 20 };

// ---- Geometry: every product is checked

// One stride between requests, for kernels and for mappings.
static bool lay_out_tensors(vti_va_geo *g)
{
    size_t used, tensor;
    if (__builtin_mul_overflow(g->tok_stride, g->max_tok, &used) ||
        !vti_size_round_up(used, g->page_bytes, &g->request_stride) ||
        g->request_stride / g->page_bytes > UINT32_MAX / 2 / g->max_batch)
        return false;
    g->groups_per_request = (uint32_t)(g->request_stride / g->page_bytes);
    g->n_preferred = g->max_batch * g->groups_per_request;
    return !__builtin_mul_overflow(g->request_stride, g->max_batch, &tensor) &&
           !__builtin_add_overflow(tensor, g->page_bytes, &g->view_stride) &&
           !__builtin_mul_overflow(g->view_stride, g->n_view, &g->reserved_bytes) &&
           g->reserved_bytes <= PTRDIFF_MAX &&
           !__builtin_mul_overflow(g->page_bytes, g->n_view, &g->group_bytes);
}

static vt_status va_geo_init(vti_va_geo *g, const vt_va_config *c, size_t granularity)
{
    if (c->n_plane == 0 || c->row_bytes == 0 || c->max_tok == 0 || c->max_batch == 0)
        return VT_EINVAL;
    *g = (vti_va_geo){.n_plane = c->n_plane,
                      .n_view = c->megacache ? 1 : c->n_plane,
                      .max_tok = c->max_tok,
                      .max_batch = c->max_batch,
                      .row_bytes = c->row_bytes};
    bool fits =
        !__builtin_mul_overflow(c->row_bytes, c->megacache ? c->n_plane : 1, &g->tok_stride) &&
        vti_slice_choose(c->page_bytes, g->tok_stride, granularity, &g->page_bytes) &&
        lay_out_tensors(g);
    if (!fits) return VT_EINVAL;
    g->slice_groups = g->group_bytes < SLICE_BYTES ? (uint32_t)(SLICE_BYTES / g->group_bytes) : 1;
    return VT_OK;
}

// ---- Life

// At least one run for each request.
static vt_status reserve_addresses(vt_va *va)
{
    const vti_va_geo *g = &va->geo;
    const vt_vmm_ops *ops = va->vmm->ops;
    vt_vmm_geometry vg = {.n_class = 1,
                          .cls = {{g->n_view, g->page_bytes, 2 * (uint64_t)g->n_preferred}}};
    VT_TRY(ops->configure(va->vmm, &vg));
    uint64_t max_runs = ops->max_runs(va->vmm);
    if (max_runs / g->n_view < g->max_batch) return VT_NOMAPS;
    va->max_jump = max_runs == UINT64_MAX ? max_runs : max_runs / g->n_view - g->max_batch;
    va->creates_zeroed = ops->creates_zeroed(va->vmm);
    return ops->reserve(va->vmm, g->reserved_bytes, &va->addr);
}

static vt_status allocate_tables(vt_va *va)
{
    const vti_va_geo *g = &va->geo;
    va->req = calloc(g->max_batch, sizeof *va->req);
    va->name = calloc(g->n_preferred, sizeof *va->name);
    va->state = calloc(g->n_preferred, 2);
    if (!va->req || !va->name || !va->state) return VT_ENOMEM;
    for (uint32_t i = 0; i < g->max_batch; i++) {
        va->req[i].name = va->name + (size_t)i * g->groups_per_request;
        va->req[i].freed_at = ++va->n_free;
    }
    return vti_va_make_jobs(va);
}

static void va_free(vt_va *va)
{
    vti_va_free_jobs(va);
    free(va->state);
    free(va->name);
    free(va->req);
    free(va);
}

static uint32_t value_or(uint32_t value, uint32_t default_value)
{
    if (value == VT_VA_NONE) return 0;
    return value > 0 ? value : default_value;
}

static bool set_options(vt_va *va, const vt_va_config *cfg)
{
    va->deferred = true;
    va->eager_groups = value_or(cfg->eager_groups, DEFAULT_EAGER_GROUPS);
    va->next_groups = value_or(cfg->next_groups, DEFAULT_NEXT_GROUPS);
    va->low_percent = value_or(cfg->low_percent, DEFAULT_LOW_PERCENT);
    uint32_t least =
        va->low_percent > DEFAULT_HIGH_PERCENT ? va->low_percent : DEFAULT_HIGH_PERCENT;
    va->high_percent = value_or(cfg->high_percent, least);
    return va->low_percent == 0 || (va->low_percent <= va->high_percent && va->high_percent <= 100);
}

static vt_status va_make(const vt_va_config *cfg, vt_vmm *vmm, vt_va **out)
{
    vt_va *va = calloc(1, sizeof *va);
    if (!va) return VT_ENOMEM;
    va->vmm = vmm;
    va->pid = getpid();
    va->owner = (vti_va_actor){.order = VT_VMM_QUEUED, .count = &va->count};
    vt_status st = set_options(va, cfg) ? VT_OK : VT_EINVAL;
    if (st == VT_OK) st = va_geo_init(&va->geo, cfg, vmm->ops->granularity(vmm));
    if (st == VT_OK) st = allocate_tables(va);
    if (st == VT_OK) st = reserve_addresses(va);
    if (st == VT_OK) va->budget_groups = cfg->budget_bytes / va->geo.group_bytes;
    if (st == VT_OK && cfg->makes_at_start) {
        st = vti_va_create_all(va, &va->owner);
        if (st != VT_OK) (void)vmm->ops->unreserve(vmm, va->addr, va->geo.reserved_bytes);
    }
    if (st != VT_OK) {
        va_free(va);
        return st;
    }
    *out = va;
    return VT_OK;
}

vt_status vt_va_init(const vt_va_config *cfg, vt_va **out)
{
    *out = NULL;
    vt_vmm *vmm = cfg->vmm;
    if (!vmm) VT_TRY(vt_vmm_host_open(&vmm));
    vt_status st = va_make(cfg, vmm, out);
    if (st != VT_OK && !cfg->vmm) vmm->ops->close(vmm);
    return st;
}

// Tries everything twice: a failure of the device may be temporary. False: some memory is left, and
// its addresses with it, until the process ends.
static bool return_memory(vt_va *va)
{
    if (vti_va_device_await(va) != VT_OK && vti_va_device_await(va) != VT_OK) return false;
    for (int attempt = 0; attempt < 2 && va->n_created > 0; attempt++) {
        for (uint32_t i = 0; i < va->geo.max_batch; i++) {
            (void)vti_va_unmap_torn(va, &va->owner, i);
            (void)vti_va_shrink(va, &va->owner, i, 0);
        }
        (void)vti_va_destroy_spares(va, &va->owner, va->n_spare);
    }
    return vti_va_used(va) == 0;
}

void vt_va_cleanup(vt_va *va)
{
    if (!va) return;
    vt_vmm *vmm = va->vmm;
    if (va->pid != getpid()) { // a child: no thread is here, and the memory is the parent's
        (void)vmm->ops->unreserve(vmm, va->addr, va->geo.reserved_bytes);
        vmm->ops->close(vmm);
        return;
    }
    vti_va_settle(va, false);
    vti_mapper_stop(va->mapper);
    if (return_memory(va) && vmm->ops->unreserve(vmm, va->addr, va->geo.reserved_bytes) != VT_OK)
        (void)vmm->ops->unreserve(vmm, va->addr, va->geo.reserved_bytes);
    va_free(va);
    vmm->ops->close(vmm);
}

// ---- Addresses

void *vt_va_tensor(const vt_va *va, uint32_t plane)
{
    const vti_va_geo *g = &va->geo;
    if (plane >= g->n_plane) return NULL;
    return (void *)(va->addr + plane * (g->n_view > 1 ? g->view_stride : g->row_bytes));
}

size_t vt_va_request_stride(const vt_va *va)
{
    return va->geo.request_stride;
}

size_t vt_va_token_stride(const vt_va *va)
{
    return va->geo.tok_stride;
}

// ---- Requests

static vt_status tally_answer(vt_va *va, vt_status st)
{
    va->count.nospace += st == VT_NOSPACE;
    return st;
}

vt_status vt_va_alloc_reqid(vt_va *va, uint32_t len_tok, uint32_t *reqid)
{
    if (len_tok > va->geo.max_tok) return VT_EINVAL;
    vti_va_settle(va, false);
    uint32_t need = vti_va_groups_for(&va->geo, len_tok);
    uint32_t i = vti_va_best_fit(va, need);
    if (i == va->geo.max_batch) return VT_NOSPANS;
    VT_TRY(vti_va_wipe(va, &va->owner, i, UINT32_MAX));
    vti_va_req *r = &va->req[i];
    r->is_active = true;
    r->len_tok = len_tok;
    r->n_need = need;
    r->n_given = 0;
    va->count.allocs++;
    va->count.reused_groups += r->n_mapped < need ? r->n_mapped : need;
    *reqid = i;
    return VT_OK;
}

vt_status vt_va_free_reqid(vt_va *va, uint32_t reqid)
{
    uint64_t ticket;
    if (reqid >= va->geo.max_batch || !va->req[reqid].is_active) return VT_EINVAL;
    VT_TRY(vti_va_take_fence(va, &ticket));
    vti_va_req *r = &va->req[reqid];
    r->is_active = r->has_queued = false;
    r->len_tok = r->n_need = r->n_given = 0;
    r->fence = ticket;
    r->freed_at = ++va->n_free;
    if (va->deferred) return VT_OK;
    vti_va_settle(va, false);
    vti_va_sweep(va);
    return VT_OK;
}

// ---- Steps

typedef struct va_sums {
    uint64_t n_keep; // groups that active requests have been given or need now, and lost ones
    uint64_t n_more; // groups to be mapped
    bool any_fence;  // a request needs less than it was given, or has queued wipes
} va_sums;

static va_sums plan_step(vt_va *va, const uint32_t *len_tok)
{
    va_sums s = {0};
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        vti_va_req *r = &va->req[i];
        r->want_tok = len_tok[i];
        r->n_want = vti_va_groups_for(&va->geo, len_tok[i]);
        r->n_keep = r->n_want > r->n_given ? r->n_want : r->n_given;
        s.n_keep += r->n_keep + vti_va_lost(r, r->n_keep);
        s.n_more += r->n_want > r->n_mapped ? r->n_want - r->n_mapped : 0;
        s.any_fence |= r->n_want < r->n_given || r->has_queued;
    }
    return s;
}

static vt_status grow_batch(vt_va *va)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++)
        VT_TRY(vti_va_grow(va, &va->owner, i, va->req[i].n_want));
    return VT_OK;
}

// The system has no memory for new groups. Nothing is taken in vain.
static vt_status grow_from_others(vt_va *va)
{
    uint64_t n_more = 0, n_kept = 0;
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        const vti_va_req *r = &va->req[i];
        n_more += r->n_want > r->n_mapped ? r->n_want - r->n_mapped : 0;
        n_kept += r->n_mapped < r->n_keep ? r->n_mapped : r->n_keep;
        n_kept += vti_va_lost(r, r->n_keep);
    }
    if (n_kept + n_more > va->n_created) return VT_NOSPACE;
    VT_TRY(vti_va_make_room(va, va->n_created - n_more));
    return grow_batch(va);
}

static vt_status prepare_batch(vt_va *va, const uint32_t *len_tok)
{
    va_sums s = plan_step(va, len_tok);
    if (s.n_keep > va->budget_groups) return VT_NOSPACE;
    va->step_fence = 0;
    if (s.any_fence) VT_TRY(vti_va_take_fence(va, &va->step_fence));
    for (uint32_t i = 0; i < va->geo.max_batch; i++) { // one ticket for all wipes queued before
        vti_va_req *r = &va->req[i];
        if (r->has_queued) r->fence = va->step_fence;
        r->has_queued = false;
    }
    VT_TRY(vti_va_make_room(va, va->budget_groups - s.n_more));
    vt_status st = grow_batch(va);
    if (st == VT_NOSPACE) st = grow_from_others(va);
    VT_TRY(st);
    va->count.sync_groups += s.n_more;
    return VT_OK;
}

vt_status vt_va_step_prepare(vt_va *va, const uint32_t *len_tok, bool eager_reclaim)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++)
        if (len_tok[i] > (va->req[i].is_active ? va->geo.max_tok : 0)) return VT_EINVAL;
    vti_va_settle(va, false);
    if (eager_reclaim || !va->deferred) vti_va_sweep(va);
    return tally_answer(va, prepare_batch(va, len_tok));
}

void vt_va_step_commit(vt_va *va)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        vti_va_req *r = &va->req[i];
        if (r->n_want < r->n_given) r->fence = va->step_fence;
        r->len_tok = r->want_tok;
        r->n_need = r->n_given = r->n_want;
        if (r->n_dirty < r->n_want) r->n_dirty = r->n_want;
    }
    va->count.steps++;
}

vt_status vt_va_step(vt_va *va, const uint32_t *len_tok, bool eager_reclaim)
{
    VT_TRY(vt_va_step_prepare(va, len_tok, eager_reclaim));
    vt_va_step_commit(va);
    return VT_OK;
}

vt_status vt_va_step_async(vt_va *va, const uint32_t *len_tok)
{
    VT_TRY(vti_va_worker_start(va));
    VT_TRY(vt_va_step(va, len_tok, false));
    vti_va_look_ahead(va);
    return VT_OK;
}

void vt_va_wait(vt_va *va)
{
    vti_va_settle(va, true);
}

// ---- Memory

// What active requests need, and what requests out of service hold in addition.
static uint64_t n_needed(const vt_va *va)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < va->geo.max_batch; i++)
        n += va->req[i].n_need + vti_va_lost(&va->req[i], va->req[i].n_need);
    return n;
}

vt_status vt_va_reserve_physical_pages(vt_va *va, uint64_t size_bytes)
{
    uint64_t n_group = size_bytes / va->geo.group_bytes;
    vti_va_settle(va, false);
    if (n_group < va->budget_groups && n_needed(va) > n_group) return tally_answer(va, VT_NOSPACE);
    vti_va_keep_needed(va);
    VT_TRY(vti_va_make_room(va, n_group));
    if (va->n_created > n_group)
        VT_TRY(vti_va_destroy_spares(va, &va->owner, va->n_created - n_group));
    va->budget_groups = n_group;
    return VT_OK;
}

vt_status vt_va_trim(vt_va *va)
{
    vti_va_settle(va, false);
    return vti_va_destroy_spares(va, &va->owner, va->n_spare);
}

vt_status vt_va_recover(vt_va *va)
{
    vti_va_settle(va, false);
    return vti_va_mend(va);
}

// After alloc_reqid and before the step that fails, requests may need more than the budget.
uint64_t vt_va_num_free_kvblocks(const vt_va *va)
{
    uint64_t n = n_needed(va);
    return n < va->budget_groups ? va->budget_groups - n : 0;
}

uint64_t vt_va_kvblocks_for(const vt_va *va, uint32_t len_tok)
{
    uint32_t most = va->geo.max_tok;
    return vti_va_groups_for(&va->geo, len_tok < most ? len_tok : most);
}

void vt_va_set_deferred_reclamation(vt_va *va, bool on)
{
    va->deferred = on;
}

// ---- The invariants

// The numbers in the comments are those of vattention_internal.h.

typedef struct va_census {
    uint64_t n_used, n_spare; // names MAPPED and SPARE
    uint64_t n_run;
    uint64_t n_page; // mapped, over all views
} va_census;

// 1, 2
static const char *check_request(const vti_va_geo *g, const vti_va_req *r)
{
    HOLDS(r->n_dirty <= r->n_mapped, "more groups may be dirty than are mapped");
    HOLDS(r->n_mapped <= g->groups_per_request && r->n_torn <= g->groups_per_request - r->n_mapped,
          "a request has more groups than it has room for");
    HOLDS(r->torn_view <= g->n_view, "a request is torn in more views than there are");
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
        HOLDS_ALL(check_request(&va->geo, r));
        HOLDS_ALL(check_names(va, i, c));
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

// ---- Statistics: gauges are computed on request, so that they cannot drift

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
