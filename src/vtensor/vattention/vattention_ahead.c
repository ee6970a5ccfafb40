// vattention_ahead.c - which requests lose memory, and the second half of step_async: what the
// worker does while the kernels run.
//
// Requests lose memory in this order:
//   1. inactive requests, the longest inactive first: the device is most likely done with it, and
//      the most recent one is the most likely to suit the next request
//   2. active ones, from the highest reqid down, what they have beyond n_keep
//
// Groups are taken from the end of what is mapped: a request keeps a prefix, which its next user
// finds ready. They become spare; only a smaller budget and vt_va_trim destroy them. What the
// device is done with is taken first, and waiting for the device comes last.
//
// The look-ahead:
//
//   urgent job        1. if the budget has no room for 2: what others can spare
//                     2. what is missing for the next token of every active request
//   background job    3. tokens 2 to 9 ahead, up to eager_groups groups, from free room only
//                     4. the next request: the inactive one that alloc_reqid would choose for a
//                        long prompt is wiped, and gets up to next_groups groups from free room
//                     5. if less than low_percent of the budget is free then: what inactive
//                        requests hold, the longest inactive first, until high_percent is free. The
//                        next request keeps what 4 gives
//
//   owner    plan     goals: a request, and how many groups of it are to be mapped
//   worker   job_step a slice of the first goal that is not reached
//   owner    settle   waits for the urgent job, takes the other one back after its slice
//
// The worker waits for no device: it skips a goal whose fence is not passed. So there may be less
// room than planned; growing ends where the room ends. What is missing is mapped by the next step.
#include "vattention_internal.h"

#include <assert.h>
#include <stdlib.h>

#include "vtensor/core/common.h"

// ---- Which requests lose memory

void vti_va_keep_needed(vt_va *va)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++) va->req[i].n_keep = va->req[i].n_need;
}

uint64_t vti_va_lost(const vti_va_req *r, uint32_t n_keep)
{
    if (r->n_torn == 0) return 0;
    return r->n_torn + (r->n_mapped > n_keep ? r->n_mapped - n_keep : 0);
}

uint32_t vti_va_best_fit(const vt_va *va, uint32_t need)
{
    uint32_t best = va->geo.max_batch;
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        const vti_va_req *a = &va->req[i], *b = &va->req[best];
        if (a->is_active || a->n_torn > 0) continue;
        // If both hold enough, the smaller one; otherwise the one that holds more.
        if (best == va->geo.max_batch ||
            (a->n_mapped >= need && b->n_mapped >= need ? a->n_mapped < b->n_mapped
                                                        : a->n_mapped > b->n_mapped))
            best = i;
    }
    return best;
}

static bool has_excess(const vti_va_req *r)
{
    return r->n_torn == 0 && r->n_mapped > r->n_keep;
}

// Where a walk over those that lose memory stands: all zero at first.
typedef struct victim_walk {
    uint64_t freed_at; // of the last inactive one
    uint32_t n_active; // active ones looked at so far, from the highest reqid down
} victim_walk;

// The next one that has more than n_keep; max_batch: there is none.
static uint32_t next_victim(const vt_va *va, victim_walk *w)
{
    const uint32_t n = va->geo.max_batch;
    uint32_t found = n;
    for (uint32_t i = 0; i < n && w->n_active == 0; i++) {
        const vti_va_req *r = &va->req[i];
        if (r->is_active || !has_excess(r) || r->freed_at <= w->freed_at) continue;
        if (found == n || r->freed_at < va->req[found].freed_at) found = i;
    }
    if (found < n) {
        w->freed_at = va->req[found].freed_at;
        return found;
    }
    while (w->n_active < n) {
        const uint32_t i = n - ++w->n_active;
        if (va->req[i].is_active && has_excess(&va->req[i])) return i;
    }
    return n;
}

// Whether the device is done with what the request does not need. Its fence is taken now if wipes
// were queued since.
static vt_status finish_request(vt_va *va, uint32_t reqid, bool wait, bool *is_passed)
{
    vti_va_req *r = &va->req[reqid];
    if (r->has_queued) VT_TRY(vti_va_take_fence(va, &r->fence));
    r->has_queued = false;
    VT_TRY(vti_va_is_passed(va, &va->owner, r->fence, wait, is_passed));
    if (*is_passed) r->fence = 0;
    return VT_OK;
}

// Until at most `most` groups are in use.
static vt_status shrink_to(vt_va *va, uint32_t reqid, uint64_t most, bool wait)
{
    const vti_va_req *r = &va->req[reqid];
    uint64_t excess = vti_va_used(va) - most;
    uint32_t spare = r->n_mapped - r->n_keep;
    bool is_passed;
    VT_TRY(finish_request(va, reqid, wait, &is_passed));
    if (!is_passed) return VT_OK;
    if (excess < spare) spare = (uint32_t)excess;
    return vti_va_shrink(va, &va->owner, reqid, r->n_mapped - spare);
}

// A request whose memory cannot be taken is skipped, and others lose more.
vt_status vti_va_make_room(vt_va *va, uint64_t most)
{
    vt_status last = VT_NOSPACE; // failure
    for (int pass = 0; pass < 2; pass++) {
        victim_walk w = {0};
        for (uint32_t i; vti_va_used(va) > most && (i = next_victim(va, &w)) < va->geo.max_batch;) {
            const vt_status st = shrink_to(va, i, most, pass > 0);
            if (st != VT_OK) last = st;
        }
    }
    return vti_va_used(va) <= most ? VT_OK : last;
}

void vti_va_sweep(vt_va *va)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        bool is_passed;
        if (va->req[i].is_active || va->req[i].n_torn > 0 || va->req[i].n_mapped == 0) continue;
        if (finish_request(va, i, false, &is_passed) == VT_OK && is_passed)
            (void)vti_va_shrink(va, &va->owner, i, 0);
    }
}

vt_status vti_va_mend(vt_va *va)
{
    vt_status st = VT_OK;
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        bool is_passed = false;
        if (va->req[i].n_torn == 0) continue;
        vt_status one = finish_request(va, i, false, &is_passed);
        if (one == VT_OK && is_passed) one = vti_va_unmap_torn(va, &va->owner, i);
        if (one != VT_OK) st = VT_EDEVICE;
    }
    return st;
}

// ---- The look-ahead

enum { FURTHEST_TOK = 9 };

// ---- The worker's part

static vt_status pursue_slice(vt_va *va, const vti_va_actor *by, const vti_va_goal *goal)
{
    const uint32_t n = va->req[goal->req].n_mapped, slice = va->geo.slice_groups;
    switch (goal->kind) {
    case VTI_VA_GROW:
        if (n >= goal->n_group || vti_va_room(va) == 0) return VT_OK;
        return vti_va_grow_run(va, by, goal->req,
                               goal->n_group - n < slice ? goal->n_group - n : slice);
    case VTI_VA_SHED:
        if (n <= goal->n_group) return VT_OK;
        return vti_va_shed_run(va, by, goal->req,
                               n - goal->n_group < slice ? goal->n_group : n - slice);
    default: return vti_va_wipe(va, by, goal->req, slice);
    }
}

// True: the step has done something. False: the goal is reached, out of reach, or *st is an error.
static bool pursue_goal(vt_va *va, vti_va_job *job, const vti_va_goal *goal)
{
    const vti_va_req *r = &va->req[goal->req];
    vti_va_actor worker = {.order = VT_VMM_NOW, .count = &job->count};
    uint32_t n_mapped = r->n_mapped, n_dirty = r->n_dirty;
    bool is_passed;
    job->st = vti_va_is_passed(va, &worker, goal->fence, false, &is_passed);
    if (job->st == VT_OK && is_passed) job->st = pursue_slice(va, &worker, goal);
    if (job->st != VT_OK) return false;
    if (goal->counter)
        *goal->counter += r->n_mapped > n_mapped ? r->n_mapped - n_mapped : n_mapped - r->n_mapped;
    return r->n_mapped != n_mapped || r->n_dirty != n_dirty;
}

static bool job_step(void *ctx, vti_job *base)
{
    vti_va_job *job = (vti_va_job *)base;
    if (!pursue_goal(ctx, job, &job->goal[job->n_done])) job->n_done++;
    return job->st == VT_OK && job->n_done < job->n_goal;
}

vt_status vti_va_worker_start(vt_va *va)
{
    if (va->mapper) return VT_OK;
    return vti_mapper_start(VTI_VA_N_JOB, true, job_step, va, &va->mapper);
}

vt_status vti_va_make_jobs(vt_va *va)
{
    size_t n = (size_t)va->geo.max_batch * VTI_VA_GOALS_PER_REQUEST + VTI_VA_GOALS_FOR_NEXT;
    for (int k = 0; k < VTI_VA_N_JOB; k++) {
        va->job[k].base.deadline = (uint64_t)k;
        va->job[k].goal = calloc(n, sizeof *va->job[k].goal);
        if (!va->job[k].goal) return VT_ENOMEM;
    }
    return VT_OK;
}

void vti_va_free_jobs(vt_va *va)
{
    for (int k = 0; k < VTI_VA_N_JOB; k++) free(va->job[k].goal);
}

// ---- The plan. n_want of a request is what it will have mapped.

typedef struct va_plan {
    uint64_t n_short;       // groups still to be unmapped
    uint64_t n_room;        // groups that may still be mapped
    vti_va_job *job;        // that gets the goals
    uint64_t *shed_counter; // or NULL
} va_plan;

static void add_goal(const va_plan *p, vti_va_goal goal)
{
    p->job->goal[p->job->n_goal++] = goal;
}

// Groups that the request needs with n_more more tokens.
static uint32_t need_with(const vt_va *va, const vti_va_req *r, uint32_t n_more)
{
    uint32_t left = va->geo.max_tok - r->len_tok;
    return vti_va_groups_for(&va->geo, r->len_tok + (n_more < left ? n_more : left));
}

static bool looks_ahead(const vti_va_req *r)
{
    return r->is_active && r->n_torn == 0;
}

// Up to n_group groups, as far as *left goes.
static void want_groups(vti_va_req *r, uint32_t n_group, uint64_t *left)
{
    if (n_group <= r->n_want) return;
    uint32_t n = n_group - r->n_want;
    if (n > *left) n = (uint32_t)*left;
    r->n_want += n;
    *left -= n;
}

// Takes n_short groups from those that lose memory, or only from inactive ones.
static void plan_shed(vt_va *va, va_plan *p, bool takes_active)
{
    victim_walk w = {0};
    for (uint32_t i; p->n_short > 0 && (i = next_victim(va, &w)) < va->geo.max_batch;) {
        vti_va_req *r = &va->req[i];
        if (r->is_active && !takes_active) return;
        if (r->has_queued || r->n_want <= r->n_keep) continue;
        uint32_t n = r->n_want - r->n_keep;
        if (n > p->n_short) n = (uint32_t)p->n_short;
        r->n_want -= n;
        p->n_short -= n;
        p->n_room += n;
        add_goal(p, (vti_va_goal){.kind = VTI_VA_SHED,
                                  .req = i,
                                  .n_group = r->n_want,
                                  .fence = r->fence,
                                  .counter = p->shed_counter});
    }
}

static void plan_growth(vt_va *va, const va_plan *p, uint32_t reqid, uint64_t *counter)
{
    const vti_va_req *r = &va->req[reqid];
    add_goal(p, (vti_va_goal){
                    .kind = VTI_VA_GROW, .req = reqid, .n_group = r->n_want, .counter = counter});
}

static void plan_next_token(vt_va *va, va_plan *p)
{
    uint64_t n_missing = 0;
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        vti_va_req *r = &va->req[i];
        r->n_keep = r->is_active ? need_with(va, r, 1) : 0;
        r->n_want = r->n_mapped;
        if (looks_ahead(r) && r->n_keep > r->n_want) n_missing += r->n_keep - r->n_want;
    }
    p->n_short = n_missing > p->n_room ? n_missing - p->n_room : 0;
    plan_shed(va, p, true);
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        vti_va_req *r = &va->req[i];
        if (!looks_ahead(r) || r->n_keep <= r->n_want) continue;
        want_groups(r, r->n_keep, &p->n_room);
        plan_growth(va, p, i, &p->job->count.ahead_groups);
    }
}

static void plan_further(vt_va *va, va_plan *p)
{
    uint64_t left = va->eager_groups < p->n_room ? va->eager_groups : p->n_room, all = left;
    for (uint32_t ahead = 2; ahead <= FURTHEST_TOK && left > 0; ahead++)
        for (uint32_t i = 0; i < va->geo.max_batch; i++)
            if (looks_ahead(&va->req[i]))
                want_groups(&va->req[i], need_with(va, &va->req[i], ahead), &left);
    for (uint32_t i = 0; i < va->geo.max_batch && left < all; i++)
        if (looks_ahead(&va->req[i]) && va->req[i].n_want > va->req[i].n_mapped)
            plan_growth(va, p, i, &p->job->count.ahead_groups);
    p->n_room -= all - left;
}

static void plan_next_request(vt_va *va, va_plan *p)
{
    uint32_t most =
        va->next_groups < va->geo.groups_per_request ? va->next_groups : va->geo.groups_per_request;
    uint32_t next = vti_va_best_fit(va, UINT32_MAX);
    if (next == va->geo.max_batch || most == 0) return;
    vti_va_req *r = &va->req[next];
    r->n_keep = most;
    if (!r->has_queued)
        add_goal(p, (vti_va_goal){.kind = VTI_VA_WIPE, .req = next, .fence = r->fence});
    want_groups(r, most, &p->n_room);
    plan_growth(va, p, next, &p->job->count.next_groups);
}

static void plan_reclaim(vt_va *va, va_plan *p)
{
    uint64_t low = va->budget_groups / 100 * va->low_percent;
    uint64_t high = va->budget_groups / 100 * va->high_percent;
    low += va->budget_groups % 100 * va->low_percent / 100;
    high += va->budget_groups % 100 * va->high_percent / 100;
    p->n_short = p->n_room < low ? high - p->n_room : 0;
    p->shed_counter = &p->job->count.background_groups;
    plan_shed(va, p, false);
}

void vti_va_look_ahead(vt_va *va)
{
    va_plan p = {.n_room = vti_va_room(va), .job = &va->job[VTI_VA_URGENT]};
    for (int k = 0; k < VTI_VA_N_JOB; k++) va->job[k].n_goal = 0;
    plan_next_token(va, &p);
    p.job = &va->job[VTI_VA_BACKGROUND];
    plan_further(va, &p);
    plan_next_request(va, &p);
    plan_reclaim(va, &p);
    for (int k = 0; k < VTI_VA_N_JOB; k++) {
        vti_va_job *job = &va->job[k];
        job->n_done = 0;
        job->st = VT_OK;
        job->count = (vt_va_stats){0};
        job->is_out = job->n_goal > 0;
        bool is_posted = !job->is_out || vti_mapper_post(va->mapper, &job->base);
        assert(is_posted);
        (void)is_posted;
    }
}

// ---- Taking back

void vti_va_settle(vt_va *va, bool all)
{
    bool any = false;
    for (int k = VTI_VA_N_JOB; k-- > 0;) {
        vti_va_job *job = &va->job[k];
        if (!job->is_out) continue;
        if (all || k == VTI_VA_URGENT)
            vti_mapper_wait(va->mapper, &job->base);
        else
            (void)vti_mapper_claim(va->mapper, &job->base);
        job->is_out = false;
        any = true;
#define ADD_COUNT(name, help) va->count.name += job->count.name;
        VT_VA_STATS(ADD_COUNT)
#undef ADD_COUNT
        va->count.ahead_failures += job->st != VT_OK;
    }
    va->count.ahead_jobs += any;
}
