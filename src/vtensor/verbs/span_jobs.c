// span_jobs.c - work on spare chunks as plain data, so that the owner and the mapper thread do it
// in the same way.
//
//   owner:   fill_job      what is to be done; chunks and runs are reserved for it
//   either:  run_job       backend calls only; a failure is undone if possible, and reported
//   owner:   commit_job    the structure follows
//
// vti_job_now does all three. vti_job_post leaves the middle one to the mapper: until vti_jobs_take
// or vti_job_settle has committed the job, its range of the span is lent, and the owner does not
// touch it.
#include "verbs.h"

#include <assert.h>

#include "vtensor/common/backing.h"
#include "vtensor/common/try.h"

static vti_backing backing_of(const vti_geo *g, vt_vmm *vmm, vti_span_job *job)
{
    return (vti_backing){
        .vmm = vmm,
        .n_view_all = g->n_view,
        .view_stride = g->view_stride,
        .slice_bytes = g->slice_bytes,
        .addr = job->addr,
        .index = job->index,
        .n = job->n,
        .fence = job->fence,
        .created = &job->created,
        .n_view = &job->n_view,
        .calls = &job->calls,
    };
}

static vt_status back_run(const vti_geo *g, vt_vmm *vmm, vti_span_job *job)
{
    vti_backing b = backing_of(g, vmm, job);
    return vti_backing_make(&b);
}

static vt_status shed_run(const vti_geo *g, vt_vmm *vmm, vti_span_job *job)
{
    vti_backing b = backing_of(g, vmm, job);
    return vti_backing_drop(&b);
}

static vt_status unmap_run(const vti_geo *g, vt_vmm *vmm, vti_span_job *job)
{
    vti_backing b = backing_of(g, vmm, job);
    return vti_backing_unmap(&b);
}

static vt_status zero_run(const vti_geo *g, vt_vmm *vmm, vti_span_job *job)
{
    for (uint32_t v = 0; v < g->n_view; v++) {
        uintptr_t addr = job->addr + v * g->view_stride;
        VT_TRY(vti_calls_count(&job->calls, vmm->ops->zero(vmm, addr, job->n * g->slice_bytes)));
    }
    return VT_OK;
}

// ctx: the manager; only fields that never change are read.
static bool run_job(void *ctx, vti_job *base)
{
    static vt_status (*const run[])(const vti_geo *, vt_vmm *, vti_span_job *) = {
        [VTI_JOB_BACK] = back_run,
        [VTI_JOB_SHED] = shed_run,
        [VTI_JOB_ZERO] = zero_run,
        [VTI_JOB_UNMAP] = unmap_run,
    };
    const vt_manager *m = ctx;
    vti_span_job *job = (vti_span_job *)base;
    job->st = run[job->kind](&m->geo, m->vmm, job);
}

static void fill_job(vt_manager *m, vti_span *sp, vti_job_kind kind, uint32_t first, uint32_t n)
{
    bool back = kind == VTI_JOB_BACK;
    assert(!sp->is_lent && n > 0);
    uint32_t region = kind == VTI_JOB_UNMAP ? sp->at[first] : sp->home;
    sp->job = (vti_span_job){
        .kind = kind,
        .span = sp->id,
        .generation = sp->generation,
        .region = region,
        .first = first,
        .n = n,
        .addr = vti_span_addr(&m->geo, sp, 0, first),
        .index = vti_pset_index(&m->pset, region, first),
        .fence = sp->fence,
        .created = !back,
        .n_view = back ? 0 : m->geo.n_view,
    };
    if (kind == VTI_JOB_SHED) m->n_leaving += n;
    if (!back) return;
    m->n_reserved += n;
    m->runs_reserved++; // at most one
}

static void unreserve_job(vt_manager *m, const vti_span_job *job)
{
    if (job->kind == VTI_JOB_SHED) m->n_leaving -= job->n;
    if (job->kind != VTI_JOB_BACK) return;
    m->n_reserved -= job->n;
    m->runs_reserved--;
}

static void note_tear_of(vti_span *sp, const vti_span_job *job)
{
    assert(sp->tear.n == 0);
    sp->tear = (vti_tear){job->first, job->n, job->region, job->n_view};
}

static void commit_back(vt_manager *m, vti_span *sp, const vti_span_job *job)
{
    if (job->created) vti_pset_create(&m->pset, job->region, job->first, job->n);
    if (job->n_view == m->geo.n_view) {
        vti_span_set(&m->vset, sp, job->first, job->n, job->region);
        sp->n_warm += job->n;
    } else if (job->n_view > 0) {
        note_tear_of(sp, job);
    }
    uint64_t now = vti_pset_created(&m->pset);
    if (now > m->tally.peak_chunks) m->tally.peak_chunks = now;
}

static void commit_shed(vt_manager *m, vti_span *sp, const vti_span_job *job)
{
    if (job->n_view == m->geo.n_view) return;
    vti_span_set(&m->vset, sp, job->first, job->n, VTI_NO_REGION);
    sp->n_warm -= job->n;
    if (job->n_view > 0) note_tear_of(sp, job);
    if (!job->created) vti_pset_destroy(&m->pset, job->region, job->first, job->n);
}

// If it is half unmapped, it will be mapped again.
static void commit_unmap(vt_manager *m, vti_span *sp, const vti_span_job *job)
{
    if (job->n_view > 0) {
        if (job->n_view < m->geo.n_view) note_tear_of(sp, job);
        return;
    }
    vti_span_set(&m->vset, sp, job->first, job->n, VTI_NO_REGION);
    for (uint32_t p = job->first; p < job->first + job->n; p++)
        vti_pset_user_drop(&m->pset, job->region, p);
}

static void commit_zero(vt_manager *m, vti_span *sp, const vti_span_job *job)
{
    (void)m;
    if (job->st == VT_OK) sp->n_dirty = job->first;
}

static void commit_job(vt_manager *m, vti_span *sp)
{
    static void (*const commit_kind[])(vt_manager *, vti_span *, const vti_span_job *) = {
        [VTI_JOB_BACK] = commit_back,
        [VTI_JOB_SHED] = commit_shed,
        [VTI_JOB_ZERO] = commit_zero,
        [VTI_JOB_UNMAP] = commit_unmap,
    };
    unreserve_job(m, &sp->job);
    vti_calls_add(&m->tally.calls, &sp->job.calls);
    commit_kind[sp->job.kind](m, sp, &sp->job);
}

vt_status vti_job_now(vt_manager *m, vti_span *sp, vti_job_kind kind, uint32_t first, uint32_t n)
{
    if (kind == VTI_JOB_SHED) VT_TRY(vti_tears_repair(m, sp->home, first, n));
    fill_job(m, sp, kind, first, n);
    run_job(m, &sp->job.base);
    commit_job(m, sp);
    return sp->job.st;
}

static vt_status mapper_get(vt_manager *m)
{
    enum { MAX_JOB = 256 };
    if (m->mapper) return VT_OK;
    return vti_mapper_start(MAX_JOB, m->mapper_kind == VT_MAPPER_THREAD, run_job, m, &m->mapper);
}

vt_status vti_job_post(vt_manager *m, vti_span *sp, vti_job_kind kind, uint32_t first, uint32_t n,
                       uint64_t deadline)
{
    VT_TRY(mapper_get(m));
    if (kind == VTI_JOB_SHED) VT_TRY(vti_tears_repair(m, sp->home, first, n));
    fill_job(m, sp, kind, first, n);
    sp->job.base.deadline = deadline;
    if (!vti_mapper_post(m->mapper, &sp->job.base)) {
        unreserve_job(m, &sp->job);
        return VT_NOSPACE;
    }
    sp->is_lent = true;
    m->n_lent++;
    return VT_OK;
}

// Commits a job that the mapper has returned. A failure is reported to the sequence that asked for
// it, if it is still alive.
static void commit_returned(vt_manager *m, vti_span *sp)
{
    sp->is_lent = false;
    m->n_lent--;
    commit_job(m, sp);
    m->tally.jobs++;
    m->tally.job_failures += sp->job.st != VT_OK;
    if (sp->seq && sp->generation == sp->job.generation && sp->job.st != VT_OK)
        sp->seq->ahead = sp->job.st;
}

void vti_jobs_take(vt_manager *m)
{
    vti_span_job *job;
    while (m->n_lent > 0 && (job = (vti_span_job *)vti_mapper_take(m->mapper)) != NULL)
        commit_returned(m, m->vset.span[job->span]);
}

bool vti_job_cancel(vt_manager *m, vti_span *sp)
{
    if (!sp->is_lent) return true;
    if (!vti_mapper_cancel(m->mapper, &sp->job.base)) return false;
    sp->is_lent = false;
    m->n_lent--;
    unreserve_job(m, &sp->job);
    return true;
}

static void job_wait(vt_manager *m, vti_span *sp)
{
    vti_mapper_wait(m->mapper, &sp->job.base);
    commit_returned(m, sp);
}

// A job that has not begun is done at once; waiting for it could mean waiting for others.
vt_status vti_job_finish(vt_manager *m, vti_span *sp)
{
    if (!sp->is_lent) return VT_OK;
    vti_job_kind kind = sp->job.kind; // these fields are constant while the job is posted
    uint32_t first = sp->job.first, n = sp->job.n;
    if (vti_job_cancel(m, sp)) return vti_job_now(m, sp, kind, first, n);
    job_wait(m, sp);
    return VT_OK; // the outcome was reported to the sequence
}

void vti_job_settle(vt_manager *m, vti_span *sp)
{
    if (!vti_job_cancel(m, sp)) job_wait(m, sp);
}

void vti_jobs_settle(vt_manager *m)
{
    for (uint32_t i = 0; m->n_lent > 0 && i < m->vset.n_span; i++)
        vti_job_settle(m, m->vset.span[i]);
}
