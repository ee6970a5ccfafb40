// vattention_ahead.c - the second half of step_async: memory for the next tokens, mapped while the
// kernels run.
//
//   owner   plan      1. what is missing for the next token of every active request
//                     2. if the budget has no room for that: what others can spare (each_victim)
//                     3. tokens 2 to 9 ahead, up to eager_groups groups, from free room only
//   owner   post      the list [sheds | next tokens | further ones] is lent
//   worker  job_run   does the runs in this order, up to the first failure
//   owner   settle    waits, and commits the runs that were tried
//
// A job stays within the budget because of its order: it backs what the room allowed, and what its
// own sheds, done before, have returned. The owner changes no mapping until it has settled, so
// nobody else uses that room.
#include "vattention_internal.h"

#include <assert.h>

enum { FURTHEST_TOK = 9 };

// The budget of the plan.
typedef struct va_plan {
    uint64_t n_short;  // groups still to be shed
    uint64_t n_credit; // groups that may still be backed
} va_plan;

static void job_run(void *ctx, vti_job *base)
{
    const vt_va *va = ctx;
    vti_va_job *job = (vti_va_job *)base;
    job->st = VT_OK;
    while (job->n_done < job->n_run && job->st == VT_OK)
        job->st = vti_va_run_do(va, &job->run[job->n_done++], &job->tally);
}

vt_status vti_va_worker_start(vt_va *va)
{
    if (va->mapper) return VT_OK;
    return vti_mapper_start(1, true, job_run, va, &va->mapper);
}

static void lend_run(vt_va *va, vti_va_run run)
{
    assert(run.n > 0 && va->job.n_run < VTI_VA_RUNS_PER_REQUEST * (size_t)va->geo.max_batch);
    va->job.run[va->job.n_run++] = run;
}

// Groups that the request needs with n_more more tokens.
static uint32_t need_with(const vt_va *va, const vti_va_req *r, uint32_t n_more)
{
    uint32_t left = va->geo.max_tok - r->len_tok;
    return vti_va_groups_for(&va->geo, r->len_tok + (n_more < left ? n_more : left));
}

// A torn request is left to the next step, which repairs it.
static bool looks_ahead(const vti_va_req *r)
{
    return r->is_active && r->tear.n == 0;
}

static uint64_t plan_next_token(vt_va *va)
{
    uint64_t n_missing = 0;
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        vti_va_req *r = &va->req[i];
        r->n_keep = r->is_active ? need_with(va, r, 1) : 0;
        if (looks_ahead(r) && r->n_keep > r->n_mapped) n_missing += r->n_keep - r->n_mapped;
    }
    return n_missing;
}

static bool lend_shed(vt_va *va, uint32_t reqid, void *ctx)
{
    va_plan *p = ctx;
    const vti_va_req *r = &va->req[reqid];
    if (p->n_short == 0) return false;
    if (r->tear.n > 0) return true;
    uint32_t n = r->n_mapped - r->n_keep;
    if (n > p->n_short) n = (uint32_t)p->n_short;
    lend_run(va, vti_va_shed_run(va, reqid, r->n_mapped - n));
    p->n_short -= n;
    p->n_credit += n;
    return true;
}

static void lend_next_token(vt_va *va, va_plan *p)
{
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        vti_va_req *r = &va->req[i];
        r->n_want = r->n_mapped;
        if (!looks_ahead(r) || r->n_keep <= r->n_mapped || p->n_credit == 0) continue;
        uint32_t n = r->n_keep - r->n_mapped;
        if (n > p->n_credit) n = (uint32_t)p->n_credit;
        lend_run(va, vti_va_back_run(i, r->n_mapped, n));
        r->n_want += n;
        p->n_credit -= n;
    }
}

// Plans what each request lacks for n_more tokens, from *left groups.
static void want_further(vt_va *va, uint32_t n_more, uint64_t *left)
{
    for (uint32_t i = 0; *left > 0 && i < va->geo.max_batch; i++) {
        vti_va_req *r = &va->req[i];
        uint32_t need = looks_ahead(r) ? need_with(va, r, n_more) : 0;
        if (need <= r->n_want) continue;
        uint32_t n = need - r->n_want;
        if (n > *left) n = (uint32_t)*left;
        r->n_want += n;
        *left -= n;
    }
}

// Credit is left only if all next tokens have their groups and nothing was shed for them.
static void lend_further(vt_va *va, const va_plan *p)
{
    uint64_t left = va->eager_groups < p->n_credit ? va->eager_groups : p->n_credit;
    for (uint32_t i = 0; i < va->geo.max_batch; i++) va->req[i].n_had = va->req[i].n_want;
    for (uint32_t ahead = 2; ahead <= FURTHEST_TOK && left > 0; ahead++)
        want_further(va, ahead, &left);
    for (uint32_t i = 0; i < va->geo.max_batch; i++) {
        const vti_va_req *r = &va->req[i];
        if (r->n_want > r->n_had) lend_run(va, vti_va_back_run(i, r->n_had, r->n_want - r->n_had));
    }
}

static void post_job(vt_va *va)
{
    va->job.n_done = 0;
    va->job.tally = (vti_calls){0};
    va->job_is_out = vti_mapper_post(va->mapper, &va->job.base);
    assert(va->job_is_out);
}

void vti_va_look_ahead(vt_va *va)
{
    uint64_t n_missing = plan_next_token(va);
    uint64_t room = va->budget_groups - va->n_created;
    va_plan p = {.n_short = n_missing > room ? n_missing - room : 0, .n_credit = room};
    va->job.n_run = 0;
    vti_va_each_victim(va, lend_shed, &p);
    lend_next_token(va, &p);
    lend_further(va, &p);
    if (va->job.n_run > 0) post_job(va);
}

void vti_va_settle(vt_va *va)
{
    vti_va_job *job = &va->job;
    if (!va->job_is_out) return;
    vti_mapper_wait(va->mapper, &job->base);
    va->job_is_out = false;
    for (uint32_t k = 0; k < job->n_done; k++) {
        const vti_va_run *run = &job->run[k];
        vti_va_run_commit(va, run);
        if (run->back && run->n_view == va->geo.n_view) va->count.ahead_groups += run->n;
    }
    vti_calls_add(&va->tally, &job->tally);
    va->count.ahead_jobs++;
    va->count.ahead_failures += job->st != VT_OK;
}
