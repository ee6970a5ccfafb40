// vattention_reclaim.c - which requests lose memory, and in which order.
//
//   1. inactive requests, the longest inactive first: the device is most likely done with it, and
//      the most recent one is the most likely to suit the next request
//   2. active ones, from the highest reqid down, what they have beyond n_keep
//
// Groups are taken from the end of what is mapped: a request keeps a prefix, which its next user
// finds ready. They become spare; only a smaller budget and vt_va_trim destroy them. Whoever needs
// room first takes what the device is done with, and waits only if that is not enough.
#include "vattention_internal.h"
#include "vtensor/core/common.h"

void vti_va_keep_needed(vt_va *va)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++) va->req[i].n_keep = va->req[i].n_need;
}

uint64_t vti_va_lost(const vti_va_req *r, uint32_t n_keep)
{
    if (r->n_torn == 0) return 0;
    return r->n_torn + (r->n_mapped > n_keep ? r->n_mapped - n_keep : 0);
}

// If both hold enough, the smaller one; otherwise the one that holds more.
static bool fits_better(const vti_va_req *a, const vti_va_req *b, uint32_t need)
{
    if (a->n_mapped >= need && b->n_mapped >= need) return a->n_mapped < b->n_mapped;
    return a->n_mapped > b->n_mapped;
}

uint32_t vti_va_best_fit(const vt_va *va, uint32_t need)
{
    uint32_t best = va->geo.max_batch;
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        if (va->req[i].is_active || va->req[i].n_torn > 0) continue;
        if (best == va->geo.max_batch || fits_better(&va->req[i], &va->req[best], need)) best = i;
    }
    return best;
}

static bool has_excess(const vti_va_req *r)
{
    return r->n_torn == 0 && r->n_mapped > r->n_keep;
}

// The inactive request with the lowest freed_at above `after`; max_batch: none.
static uint32_t next_idle(const vt_va *va, uint64_t after)
{
    uint32_t found = va->geo.max_batch;
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        const vti_va_req *r = &va->req[i];
        if (r->is_active || !has_excess(r) || r->freed_at <= after) continue;
        if (found == va->geo.max_batch || r->freed_at < va->req[found].freed_at) found = i;
    }
    return found;
}

void vti_va_each_victim(vt_va *va, bool (*visit)(vt_va *va, uint32_t reqid, void *ctx), void *ctx)
{
    uint32_t n = va->geo.max_batch;
    uint64_t after = 0;
    for (uint32_t i; (i = next_idle(va, after)) < n;) {
        after = va->req[i].freed_at;
        if (!visit(va, i, ctx)) return;
    }
    for (uint32_t i = n; i-- > 0;)
        if (va->req[i].is_active && has_excess(&va->req[i]) && !visit(va, i, ctx)) return;
}

// Whether the device is done with what the request does not need. Its fence is taken now if wipes
// were queued since.
static vt_status finish_request(vt_va *va, uint32_t reqid, bool wait, bool *is_passed)
{
    vti_va_req *r = &va->req[reqid];
    vti_va_actor owner = vti_va_owner(va);
    if (r->has_queued) VT_TRY(vti_va_take_fence(va, &r->fence));
    r->has_queued = false;
    VT_TRY(vti_va_is_passed(va, &owner, r->fence, wait, is_passed));
    if (*is_passed) r->fence = 0;
    return VT_OK;
}

typedef struct va_aim {
    uint64_t most; // groups that may stay in use
    bool wait;
    vt_status st; // the last failure
} va_aim;

static vt_status shrink_to(vt_va *va, uint32_t reqid, const va_aim *aim)
{
    const vti_va_req *r = &va->req[reqid];
    vti_va_actor owner = vti_va_owner(va);
    uint64_t excess = vti_va_used(va) - aim->most;
    uint32_t spare = r->n_mapped - r->n_keep;
    bool is_passed;
    VT_TRY(finish_request(va, reqid, aim->wait, &is_passed));
    if (!is_passed) return VT_OK;
    if (excess < spare) spare = (uint32_t)excess;
    return vti_va_shrink(va, &owner, reqid, r->n_mapped - spare);
}

static bool shrink_request(vt_va *va, uint32_t reqid, void *ctx)
{
    va_aim *aim = ctx;
    if (vti_va_used(va) <= aim->most) return false;
    vt_status st = shrink_to(va, reqid, aim);
    if (st != VT_OK) aim->st = st;
    return true;
}

// A request whose memory cannot be taken is skipped, and others lose more.
vt_status vti_va_make_room(vt_va *va, uint64_t most)
{
    va_aim aim = {.most = most, .st = VT_NOSPACE};
    for (int pass = 0; pass < 2 && vti_va_used(va) > most; pass++) {
        aim.wait = pass > 0;
        vti_va_each_victim(va, shrink_request, &aim);
    }
    return vti_va_used(va) <= most ? VT_OK : aim.st;
}

void vti_va_sweep(vt_va *va)
{
    vti_va_actor owner = vti_va_owner(va);
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        bool is_passed;
        if (va->req[i].is_active || va->req[i].n_torn > 0 || va->req[i].n_mapped == 0) continue;
        if (finish_request(va, i, false, &is_passed) == VT_OK && is_passed)
            (void)vti_va_shrink(va, &owner, i, 0);
    }
}

static vt_status mend_request(vt_va *va, uint32_t reqid)
{
    vti_va_actor owner = vti_va_owner(va);
    bool is_passed;
    VT_TRY(finish_request(va, reqid, false, &is_passed));
    return is_passed ? vti_va_unmap_torn(va, &owner, reqid) : VT_OK;
}

vt_status vti_va_mend(vt_va *va)
{
    vt_status st = VT_OK;
    for (uint32_t i = 0; i < va->geo.max_batch; i++)
        if (va->req[i].n_torn > 0 && mend_request(va, i) != VT_OK) st = VT_EDEVICE;
    return st;
}
