// vattention.c - the calls of vattention.h, each all or nothing. The design and the invariants are
// in vattention_internal.h.
//
// A step:
//
//   check lengths | settle | plan: need, sums | fence | make room | grow | commit lengths
//   nothing is changed yet ------------------------|  unneeded memory moves     | undone on failure
//
// The plan decides VT_NOSPACE from sums, before anything is touched: what active requests were
// given and what they need now (n_keep) must fit the budget; everything else can be taken. The
// lengths, and with them what a later step may take, change last, when nothing can fail any more.
#include "vattention_internal.h"

#include <stdlib.h>

#include "vtensor/common/sizes.h"
#include "vtensor/common/try.h"

enum { DEFAULT_EAGER_GROUPS = 2 };

// ---- Geometry: every product is checked

// One stride between requests, for kernels and for mappings.
static bool lay_out_tensors(vti_va_geo *g)
{
    size_t used, tensor;
    if (!vti_size_mul(g->tok_stride, g->max_tok, &used) ||
        !vti_size_round_up(used, g->page_bytes, &g->request_stride) ||
        g->request_stride / g->page_bytes > UINT32_MAX)
        return false;
    g->groups_per_request = (uint32_t)(g->request_stride / g->page_bytes);
    return vti_size_mul(g->request_stride, g->max_batch, &tensor) &&
           !__builtin_add_overflow(tensor, g->page_bytes, &g->view_stride) &&
           vti_size_mul(g->view_stride, g->n_view, &g->reserved_bytes) &&
           g->reserved_bytes <= PTRDIFF_MAX &&
           vti_size_mul(g->page_bytes, g->n_view, &g->group_bytes);
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
    bool fits = vti_size_mul(c->row_bytes, c->megacache ? c->n_plane : 1, &g->tok_stride) &&
                vti_slice_choose(c->page_bytes, g->tok_stride, granularity, &g->page_bytes) &&
                lay_out_tensors(g);
    return fits ? VT_OK : VT_EINVAL;
}

// ---- Life

// Each request is one mapping in each view, however it grew.
static vt_status reserve_addresses(vt_va *va)
{
    const vti_va_geo *g = &va->geo;
    vt_vmm_geometry vg = {.n_slice = g->n_view,
                          .slice_bytes = g->page_bytes,
                          .n_index = (uint64_t)g->max_batch * g->groups_per_request};
    VT_TRY(va->vmm->ops->configure(va->vmm, &vg));
    if ((uint64_t)g->max_batch * g->n_view > va->vmm->ops->max_runs(va->vmm)) return VT_NOSPACE;
    return va->vmm->ops->reserve(va->vmm, g->reserved_bytes, &va->addr);
}

static vt_status allocate_tables(vt_va *va)
{
    va->req = calloc(va->geo.max_batch, sizeof *va->req);
    va->job.run = calloc(va->geo.max_batch, VTI_VA_RUNS_PER_REQUEST * sizeof *va->job.run);
    return va->req && va->job.run ? VT_OK : VT_ENOMEM;
}

static void va_free(vt_va *va)
{
    free(va->job.run);
    free(va->req);
    free(va);
}

static uint32_t eager_groups_of(const vt_va_config *cfg)
{
    if (cfg->eager_groups == VT_VA_EAGER_NONE) return 0;
    return cfg->eager_groups > 0 ? cfg->eager_groups : DEFAULT_EAGER_GROUPS;
}

static vt_status va_make(const vt_va_config *cfg, vt_vmm *vmm, vt_va **out)
{
    vt_va *va = calloc(1, sizeof *va);
    if (!va) return VT_ENOMEM;
    va->vmm = vmm;
    va->deferred = true;
    va->eager_groups = eager_groups_of(cfg);
    vt_status st = va_geo_init(&va->geo, cfg, vmm->ops->granularity(vmm));
    if (st == VT_OK) st = allocate_tables(va);
    if (st == VT_OK) st = reserve_addresses(va);
    if (st != VT_OK) {
        va_free(va);
        return st;
    }
    va->budget_groups = cfg->budget_bytes / va->geo.group_bytes;
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

static vt_status wait_for_device(vt_va *va)
{
    uint64_t ticket;
    bool is_passed;
    VT_TRY(vti_calls_count(&va->tally, va->vmm->ops->fence(va->vmm, &ticket)));
    return vti_va_is_passed(va, ticket, true, &is_passed);
}

// Tries everything twice: a failure of the device may be temporary. False: some memory is left, and
// its addresses with it, until the process ends.
static bool return_memory(vt_va *va)
{
    if (wait_for_device(va) != VT_OK && wait_for_device(va) != VT_OK) return false;
    for (int attempt = 0; attempt < 2 && va->n_created > 0; attempt++)
        for (uint32_t i = 0; i < va->geo.max_batch; i++) (void)vti_va_shrink(va, i, 0);
    for (uint32_t i = 0; i < va->geo.max_batch; i++)
        if (va->req[i].n_mapped > 0 || va->req[i].tear.n_view > 0) return false;
    return true;
}

void vt_va_cleanup(vt_va *va)
{
    if (!va) return;
    vt_vmm *vmm = va->vmm;
    vti_va_settle(va);
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

static bool is_active(const vt_va *va, uint32_t reqid)
{
    return reqid < va->geo.max_batch && va->req[reqid].is_active;
}

// If both hold enough, the smaller one; otherwise the one that holds more.
static bool fits_better(const vti_va_req *a, const vti_va_req *b, uint32_t need)
{
    if (a->n_mapped >= need && b->n_mapped >= need) return a->n_mapped < b->n_mapped;
    return a->n_mapped > b->n_mapped;
}

// max_batch: all are active.
static uint32_t best_fit_request(const vt_va *va, uint32_t need)
{
    uint32_t best = va->geo.max_batch;
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        if (va->req[i].is_active) continue;
        if (best == va->geo.max_batch || fits_better(&va->req[i], &va->req[best], need)) best = i;
    }
    return best;
}

static void activate_request(vt_va *va, uint32_t reqid, uint32_t len_tok, uint32_t need)
{
    vti_va_req *r = &va->req[reqid];
    r->is_active = true;
    r->len_tok = len_tok;
    r->n_need = need;
    r->n_given = 0;
    r->fence = 0;
    va->count.allocs++;
    va->count.reused_groups += r->n_mapped < need ? r->n_mapped : need;
}

// A tear may hold bytes of the previous request, so it is shed too.
vt_status vt_va_alloc_reqid(vt_va *va, uint32_t len_tok, uint32_t *reqid)
{
    if (len_tok > va->geo.max_tok) return VT_EINVAL;
    vti_va_settle(va);
    uint32_t need = vti_va_groups_for(&va->geo, len_tok);
    uint32_t i = best_fit_request(va, need);
    if (i == va->geo.max_batch) return tally_answer(va, VT_NOSPACE);
    VT_TRY(vti_va_repair(va, i));
    VT_TRY(vti_va_wipe(va, i));
    activate_request(va, i, len_tok, need);
    *reqid = i;
    return VT_OK;
}

static void deactivate_request(vt_va *va, uint32_t reqid, uint64_t fence)
{
    vti_va_req *r = &va->req[reqid];
    r->is_active = false;
    r->len_tok = r->n_need = r->n_given = 0;
    r->fence = fence;
    r->freed_at = ++va->n_free;
}

// A ticket after the work that uses the request; 0 if there can be none.
static vt_status fence_for(vt_va *va, const vti_va_req *r, uint64_t *ticket)
{
    *ticket = 0;
    if (r->n_dirty == 0) return VT_OK;
    return vti_calls_count(&va->tally, va->vmm->ops->fence(va->vmm, ticket));
}

vt_status vt_va_free_reqid(vt_va *va, uint32_t reqid)
{
    uint64_t ticket;
    bool is_passed;
    if (!is_active(va, reqid)) return VT_EINVAL;
    if (!va->deferred) vti_va_settle(va);
    VT_TRY(fence_for(va, &va->req[reqid], &ticket));
    if (!va->deferred) VT_TRY(vti_va_is_passed(va, ticket, true, &is_passed));
    deactivate_request(va, reqid, ticket);
    if (!va->deferred) (void)vti_va_shrink(va, reqid, 0);
    return VT_OK;
}

// ---- Steps

static vt_status check_step_lengths(const vt_va *va, const uint32_t *len_tok)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++)
        if (len_tok[i] > (va->req[i].is_active ? va->geo.max_tok : 0)) return VT_EINVAL;
    return VT_OK;
}

typedef struct va_sums {
    uint64_t n_keep;  // groups that active requests have been given or need now
    uint64_t n_more;  // groups to be mapped
    bool shrinks_any; // a request that kernels may run on needs less than it was given
} va_sums;

static va_sums plan_step(vt_va *va, const uint32_t *len_tok)
{
    va_sums s = {0};
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        vti_va_req *r = &va->req[i];
        r->n_want = vti_va_groups_for(&va->geo, len_tok[i]);
        r->n_keep = r->n_want > r->n_given ? r->n_want : r->n_given;
        r->n_had = r->n_mapped;
        s.n_keep += r->n_keep;
        s.n_more += r->n_want > r->n_mapped ? r->n_want - r->n_mapped : 0;
        s.shrinks_any |= r->n_want < r->n_given;
    }
    return s;
}

// No kernel has seen what was mapped for the step.
static void undo_growth(vt_va *va, uint32_t n_req)
{
    for (uint32_t i = 0; i < n_req; i++)
        if (va->req[i].n_want > va->req[i].n_had) (void)vti_va_shrink(va, i, va->req[i].n_had);
}

static vt_status grow_batch(vt_va *va)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        vt_status st = vti_va_grow(va, i, va->req[i].n_want);
        if (st == VT_OK) continue;
        undo_growth(va, i + 1);
        return st;
    }
    return VT_OK;
}

static void commit_lengths(vt_va *va, const uint32_t *len_tok, uint64_t ticket)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        vti_va_req *r = &va->req[i];
        if (r->n_want < r->n_given) r->fence = ticket;
        r->len_tok = len_tok[i];
        r->n_need = r->n_given = r->n_want;
        if (r->n_dirty < r->n_want) r->n_dirty = r->n_want;
    }
}

static vt_status step_batch(vt_va *va, const uint32_t *len_tok)
{
    uint64_t ticket = 0;
    va_sums s = plan_step(va, len_tok);
    if (s.n_keep > va->budget_groups) return VT_NOSPACE;
    if (s.shrinks_any) VT_TRY(vti_calls_count(&va->tally, va->vmm->ops->fence(va->vmm, &ticket)));
    VT_TRY(vti_va_make_room(va, va->budget_groups - s.n_more));
    VT_TRY(grow_batch(va));
    commit_lengths(va, len_tok, ticket);
    va->count.steps++;
    va->count.sync_groups += s.n_more;
    return VT_OK;
}

vt_status vt_va_step(vt_va *va, const uint32_t *len_tok, bool eager_reclaim)
{
    VT_TRY(check_step_lengths(va, len_tok));
    vti_va_settle(va);
    if (eager_reclaim || !va->deferred) vti_va_sweep(va);
    return tally_answer(va, step_batch(va, len_tok));
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
    vti_va_settle(va);
}

// ---- Memory

static uint64_t n_needed(const vt_va *va)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < va->geo.max_batch; i++) n += va->req[i].n_need;
    return n;
}

vt_status vt_va_reserve_physical_pages(vt_va *va, uint64_t size_bytes)
{
    uint64_t n_group = size_bytes / va->geo.group_bytes;
    if (n_needed(va) > n_group) return tally_answer(va, VT_NOSPACE);
    vti_va_settle(va);
    vti_va_keep_needed(va);
    VT_TRY(vti_va_make_room(va, n_group));
    va->budget_groups = n_group;
    return VT_OK;
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
