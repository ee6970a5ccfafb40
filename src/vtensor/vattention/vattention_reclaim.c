// vattention_reclaim.c - which requests lose memory, and in which order.
//
//   1. inactive requests, the longest inactive first: the device is most likely done with it, and
//      the most recent one is the most likely to suit the next request
//   2. active ones, from the highest reqid down, what they have beyond n_keep
//
// Groups are taken from the end of what is mapped: a request keeps a prefix, which its next user
// finds ready. Torn groups are of no use and are taken first.
#include "vattention_internal.h"

void vti_va_keep_needed(vt_va *va)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++) va->req[i].n_keep = va->req[i].n_need;
}

// The inactive request with the lowest freed_at above `after`; max_batch: none.
static uint32_t next_idle(const vt_va *va, uint64_t after)
{
    uint32_t found = va->geo.max_batch;
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        const vti_va_req *r = &va->req[i];
        if (r->is_active || r->n_mapped == 0 || r->freed_at <= after) continue;
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
    for (uint32_t i = n; i-- > 0;) {
        const vti_va_req *r = &va->req[i];
        if (r->is_active && r->n_mapped > r->n_keep && !visit(va, i, ctx)) return;
    }
}

typedef struct va_goal {
    uint64_t most; // groups that may stay
    vt_status st;  // the last failure
} va_goal;

static void note_failure(va_goal *goal, vt_status st)
{
    if (st != VT_OK) goal->st = st;
}

static bool shrink_request(vt_va *va, uint32_t reqid, void *ctx)
{
    va_goal *goal = ctx;
    if (va->n_created <= goal->most) return false;
    const vti_va_req *r = &va->req[reqid];
    uint64_t excess = va->n_created - goal->most;
    uint32_t spare = r->n_mapped - r->n_keep;
    note_failure(goal, vti_va_shrink(va, reqid,
                                     excess < spare ? r->n_mapped - (uint32_t)excess : r->n_keep));
    return true;
}

static void repair_all(vt_va *va, va_goal *goal)
{
    for (uint32_t i = 0; i < va->geo.max_batch && va->n_created > goal->most; i++)
        note_failure(goal, vti_va_repair(va, i));
}

// A request whose memory cannot be taken is skipped, and others lose more.
vt_status vti_va_make_room(vt_va *va, uint64_t most)
{
    va_goal goal = {.most = most, .st = VT_OK};
    if (va->n_created <= most) return VT_OK;
    repair_all(va, &goal);
    vti_va_each_victim(va, shrink_request, &goal);
    return va->n_created <= most ? VT_OK : goal.st;
}

void vti_va_sweep(vt_va *va)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        const vti_va_req *r = &va->req[i];
        bool is_passed;
        if (r->is_active || r->n_mapped + r->tear.n == 0) continue;
        if (vti_va_is_passed(va, r->n_dirty > 0 ? r->fence : 0, false, &is_passed) == VT_OK &&
            is_passed)
            (void)vti_va_shrink(va, i, 0);
    }
}
