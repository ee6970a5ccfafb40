// lane_job.c - backend work as plain data, so that the owner and the mapper thread do it in the
// same way.
//
//   owner:   fill_job      what is to be done; mappings are reserved for it, chunks were taken
//   either:  run_step      backend calls only, a view of a portion at a time
//   owner:   commit_job    the structure follows
//
// vti_job_now does all three. vti_job_post leaves the middle one to the mapper: until vti_jobs_take
// or vti_job_settle has committed the job, its lane is in flight, and the owner does not touch it.
//
// A job of a vti_copy goes the same way; its owner looks at the outcome itself (seq_swap.c).
//
// A portion is done in all views, or in none: a failure, which ends the job, is undone. What was
// done before stays. If the undo fails as well, the span is quarantined (fence.c).
//
// A plan lists chunks that were taken out of the structure for a lane. A job maps them, or they go
// back where they were.
#include "operations.h"

#include <assert.h>

// ---- Plans

vti_plan vti_plan_of(const vt_manager *m, uint32_t chunk)
{
    return (vti_plan){
        .chunk = chunk, .name = vti_pset_index(&m->pset, chunk), .drop = VTI_NO_CHUNK};
}

// A planned chunk that is not mapped: it exists, or not. is_spare: it was, or is to be created.
static void give_back_planned(vt_manager *m, uint32_t cls, const vti_plan *p, bool is_made,
                              bool is_spare)
{
    const uint64_t chunk_bytes = m->pset.cls[cls].chunk_bytes;
    if (p->is_absent) m->reserved_bytes -= chunk_bytes;
    if (p->drop != VTI_NO_CHUNK) {
        m->reserved_bytes += chunk_bytes;
        if (p->is_dropped)
            vti_pset_destroy(&m->pset, p->drop);
        else
            vti_pset_place(&m->pset, p->drop, VTI_IN_POOL);
    }
    if (is_made)
        vti_pset_create(&m->pset, p->chunk, !m->zeroed);
    else if (p->is_absent)
        vti_pset_unreserve(&m->pset, p->chunk);
    if (is_made || (!p->is_absent && is_spare)) vti_pset_place(&m->pset, p->chunk, VTI_IN_POOL);
}

void vti_plan_drop(vt_manager *m, uint32_t cls, const vti_plan *plan, uint32_t from, uint32_t to)
{
    for (uint32_t i = to; i-- > from;) give_back_planned(m, cls, &plan[i], false, true);
}

uint64_t vti_plan_runs(const vt_manager *m, const vti_span *sp, uint32_t group, uint32_t first,
                       const vti_plan *plan, uint32_t n)
{
    const vti_lane *l = &sp->lane[group];
    // Below n_ro the access differs.
    uint32_t before = first > l->n_ro ? vti_lane_at(l, first - 1) : VTI_NO_CHUNK;
    uint64_t n_run = 0; // what follows begins a run already
    for (uint32_t i = 0; i < n; before = plan[i++].chunk)
        n_run += !vti_pset_continues(&m->pset, before, plan[i].chunk);
    return n_run * m->geo.group[group].n_view;
}

enum { MAP_AT_ONCE = 64 }; // chunks

// What run_step works with. Fields of the manager that never change, and the job.
typedef struct job_run {
    const vt_manager *m;
    const vti_lane_geo *gr; // NULL: DESTROY
    vti_lane_job *job;
    uint32_t begin, end; // the portion
} job_run;

static vt_status note_call(job_run *r, uint64_t *counter, vt_status st)
{
    (*counter)++;
    return vti_calls_count(&r->job->calls, st);
}

// ---- Calls of a portion in one view

static uint32_t plan_run(const job_run *r, uint32_t i)
{
    const vti_plan *plan = r->job->plan;
    uint32_t n = 1;
    while (i + n < r->end && plan[i + n].is_read == plan[i].is_read &&
           plan[i + n].name == plan[i].name + n)
        n++;
    return n;
}

static uintptr_t addr_of(const job_run *r, uint32_t view, uint32_t i)
{
    return r->job->addr + view * r->gr->view_stride + i * r->gr->slice_bytes;
}

static vt_status unmap_some(job_run *r, uint32_t view, uint32_t n)
{
    const vt_vmm_ops *ops = r->m->vmm->ops;
    if (n == 0) return VT_OK;
    return note_call(r, &r->job->calls.unmap_calls,
                     ops->unmap(r->m->vmm, addr_of(r, view, r->begin), n * r->gr->slice_bytes));
}

// Maps what follows from plan[i] on with the same access, as much as one call takes: a run of
// neighbours, or what map_each takes.
static vt_status map_batch(job_run *r, uint32_t view, uint32_t i, uint32_t *n)
{
    const vt_vmm_ops *ops = r->m->vmm->ops;
    const vti_plan *plan = r->job->plan;
    const vt_vmm_use use = plan[i].is_read ? VT_VMM_READ : r->job->use;
    const uintptr_t addr = addr_of(r, view, i);
    *n = plan_run(r, i);
    if (!ops->map_each) return ops->map(r->m->vmm, addr, view, plan[i].name, *n, use);
    uint64_t index[MAP_AT_ONCE];
    for (*n = 0; *n < MAP_AT_ONCE && i + *n < r->end; ++*n) {
        if (plan[i + *n].is_read != plan[i].is_read) break;
        index[*n] = plan[i + *n].name;
    }
    return ops->map_each(r->m->vmm, addr, view, index, *n, use);
}

// *n_mapped: of the portion.
static vt_status map_some(job_run *r, uint32_t view, uint32_t *n_mapped)
{
    *n_mapped = 0;
    for (uint32_t i = r->begin, n; i < r->end; i += n) {
        VT_TRY(note_call(r, &r->job->calls.map_calls, map_batch(r, view, i, &n)));
        *n_mapped += n;
    }
    return VT_OK;
}

static vt_status wipe_some(job_run *r, uint32_t view)
{
    const vt_vmm_ops *ops = r->m->vmm->ops;
    for (uint32_t i = r->begin, n; i < r->end; i += n + (n == 0)) {
        for (n = 0; i + n < r->end && r->job->plan[i + n].is_dirty; n++) {
        }
        if (n == 0) continue;
        size_t size_bytes = n * r->gr->slice_bytes;
        VT_TRY(vti_calls_count(
            &r->job->calls, ops->zero(r->m->vmm, addr_of(r, view, i), size_bytes, r->job->order)));
    }
    return VT_OK;
}

// ---- Steps. False: the job has ended.

static bool fail_job(job_run *r, vt_status st, bool is_undone)
{
    r->job->st = st;
    r->job->is_stuck = !is_undone;
    return false;
}

static bool view_done(job_run *r)
{
    if (++r->job->n_view == r->gr->n_view) {
        r->job->n_done = r->end;
        r->job->n_view = 0;
    }
    return r->job->n_done < r->job->n;
}

// Creates the next run of chunks that are absent; the ones they replace are destroyed first.
static bool create_step(job_run *r, bool *is_ready)
{
    const vt_vmm_ops *ops = r->m->vmm->ops;
    vti_lane_job *job = r->job;
    uint32_t i = job->n_created;
    while (i < r->end && !job->plan[i].is_absent) i++;
    uint32_t n = i < r->end ? 1 : 0;
    *is_ready = n == 0;
    if (i > job->n_created) job->n_created = i;
    if (n == 0) return true;
    if (job->plan[i].drop != VTI_NO_CHUNK && !job->plan[i].is_dropped) {
        vt_status st = note_call(r, &job->calls.destroy_calls,
                                 ops->destroy(r->m->vmm, job->plan[i].drop_name, 1));
        if (st != VT_OK) return fail_job(r, st, true);
        job->plan[i].is_dropped = true;
    }
    while (i + n < r->end && job->plan[i + n].is_absent && job->plan[i + n].drop == VTI_NO_CHUNK &&
           job->plan[i + n].name == job->plan[i].name + n)
        n++;
    for (;; n /= 2) { // if there is no room for all of it, as much as there is room for
        vt_status st =
            note_call(r, &job->calls.create_calls, ops->create(r->m->vmm, job->plan[i].name, n));
        if (st == VT_OK) break;
        if (st != VT_NOSPACE || n == 1) return fail_job(r, st, true);
    }
    job->n_created = i + n;
    return true;
}

// What the portion has mapped is unmapped: the views below n_view, and n positions in view n_view.
static bool undo_back(job_run *r, vt_status st, uint32_t n)
{
    vt_status undone = unmap_some(r, r->job->n_view, n);
    if (undone == VT_OK) n = 0;
    while (undone == VT_OK && r->job->n_view > 0) {
        undone = unmap_some(r, r->job->n_view - 1, r->end - r->begin);
        if (undone == VT_OK) r->job->n_view--;
    }
    r->job->n_left = n;
    return fail_job(r, st, undone == VT_OK);
}

// The portion is mapped in all views: then it is wiped, view by view. If queued wiping fails, some
// of it may be queued already, so nothing can be unmapped now: the chunks stay mapped, and dirty,
// and vti_lane_back unmaps them later. Nothing does so for a job that was taken back.
static bool wipe_mapped(job_run *r)
{
    vti_lane_job *job = r->job;
    const uint32_t n_view = r->gr->n_view;
    vt_status st = wipe_some(r, job->n_view - n_view);
    if (st == VT_OK && ++job->n_view < 2 * n_view) return true;
    if (st != VT_OK && (job->order == VT_VMM_NOW || job->is_claimed)) {
        job->n_view = n_view;
        return job->order == VT_VMM_NOW ? undo_back(r, st, 0) : fail_job(r, st, false);
    }
    for (uint32_t i = r->begin; i < r->end && st == VT_OK; i++) job->plan[i].is_dirty = false;
    job->n_done = r->end;
    job->n_view = 0;
    return st == VT_OK ? job->n_done < job->n : fail_job(r, st, true);
}

static bool back_step(job_run *r)
{
    bool is_ready;
    uint32_t n;
    if (r->job->n_view >= r->gr->n_view) return wipe_mapped(r);
    if (!create_step(r, &is_ready)) return false;
    if (!is_ready) return true;
    vt_status st = map_some(r, r->job->n_view, &n);
    if (st == VT_NOSPACE) st = VT_NOMAPS;
    if (st != VT_OK) return undo_back(r, st, n);
    r->job->n_view++;
    return true;
}

static bool unmap_step(job_run *r)
{
    uint32_t n = 0;
    vt_status st = unmap_some(r, r->job->n_view, r->end - r->begin), undone = VT_OK;
    if (st == VT_OK) return view_done(r);
    while (undone == VT_OK && r->job->n_view > 0) {
        undone = map_some(r, r->job->n_view - 1, &n);
        if (undone == VT_OK) r->job->n_view--;
    }
    r->job->n_left = n;
    return fail_job(r, st, undone == VT_OK);
}

static bool wipe_step(job_run *r)
{
    vt_status st = wipe_some(r, r->job->n_view);
    if (st == VT_OK) return view_done(r);
    r->job->n_view = 0;
    return fail_job(r, st, true);
}

static bool destroy_step(job_run *r)
{
    const vt_vmm_ops *ops = r->m->vmm->ops;
    uint32_t n = plan_run(r, r->begin);
    vt_status st = note_call(r, &r->job->calls.destroy_calls,
                             ops->destroy(r->m->vmm, r->job->plan[r->begin].name, n));
    if (st != VT_OK) return fail_job(r, st, true);
    r->job->n_done += n;
    return r->job->n_done < r->job->n;
}

static bool run_step(void *ctx, vti_job *base)
{
    static bool (*const step[VTI_N_JOB_KIND])(job_run *) = {
        [VTI_JOB_BACK] = back_step,
        [VTI_JOB_UNMAP] = unmap_step,
        [VTI_JOB_WIPE] = wipe_step,
        [VTI_JOB_DESTROY] = destroy_step,
    };
    vti_lane_job *job = (vti_lane_job *)base;
    if (job->kind >= VTI_JOB_WRITE) return vti_copy_step(ctx, (vti_copy *)job);
    job_run r = {.m = ctx, .job = job, .begin = job->n_done, .end = job->n};
    r.gr = job->kind == VTI_JOB_DESTROY ? NULL : &r.m->geo.group[job->group];
    if (job->n - job->n_done > job->portion) r.end = job->n_done + job->portion;
    return step[job->kind](&r);
}

// ---- Filling

uint32_t vti_portion_chunks(const vt_manager *m, uint32_t cls)
{
    uint64_t n = VTI_PORTION_BYTES / m->pset.cls[cls].chunk_bytes;
    return n > 1 ? (uint32_t)n : 1;
}

static void fill_job(vt_manager *m, vti_span *sp, uint32_t group, const vti_job_spec *spec,
                     bool is_posted)
{
    vti_lane *l = &sp->lane[group];
    bool is_back = spec->kind == VTI_JOB_BACK;
    assert(!l->job.in_flight && spec->n > 0);
    for (uint32_t i = 0; i < spec->n && !is_back; i++) { // of UNMAP or WIPE: what is mapped now
        l->plan[i] = vti_plan_of(m, l->at[spec->first + i]);
        l->plan[i].is_dirty = true;
        l->plan[i].is_read = spec->first + i < l->n_ro;
    }
    l->job = (vti_lane_job){
        .base = {.deadline = spec->deadline, .is_long = spec->kind == VTI_JOB_UNMAP},
        .kind = spec->kind,
        .span = sp->id,
        .group = group,
        .generation = sp->generation,
        .first = spec->first,
        .n = spec->n,
        .portion = is_posted ? vti_portion_chunks(m, m->geo.group[group].cls) : spec->n,
        .plan = l->plan,
        .addr = vti_lane_addr(&m->geo, sp, group, 0, spec->first),
        .use = is_back ? spec->use : VT_VMM_WRITE,
        .order = is_posted ? VT_VMM_NOW : VT_VMM_QUEUED,
        .n_run = is_back ? vti_plan_runs(m, sp, group, spec->first, l->plan, spec->n) : 0,
    };
    m->runs_reserved += l->job.n_run;
}

// ---- Committing

static void drop_one(vt_manager *m, const vti_lane_job *job, uint32_t i)
{
    const vti_plan *p = &job->plan[i];
    give_back_planned(m, m->geo.group[job->group].cls, p, i < job->n_created && p->is_absent,
                      job->use == VT_VMM_WRITE);
}

static void commit_backed(vt_manager *m, vti_span *sp, const vti_lane_job *job, uint32_t i)
{
    vti_plan p = job->plan[i];
    vti_lane *l = &sp->lane[job->group];
    uint32_t position = job->first + i;
    bool is_inside = position >= l->held0 && position < l->held1; // it was swapped out, or replaced
    drop_one(m, job, i);
    vti_lane_set(&m->vset, sp, job->group, position, p.chunk);
    if (job->use != VT_VMM_WRITE) {
        vti_pset_user_hold(&m->pset, p.chunk);
        if (l->held0 == l->held1) l->held0 = position;
        if (position >= l->held1) l->held1 = position + 1;
        return;
    }
    size_t end = (position + 1) * m->geo.group[job->group].slice_bytes;
    if (!p.is_dirty)
        vti_pset_set_dirty(&m->pset, p.chunk, false);
    else if (end > l->dirty_end)
        l->dirty_end = end;
    if (is_inside) {
        vti_pset_user_hold(&m->pset, p.chunk);
        return;
    }
    vti_pset_place(&m->pset, p.chunk, VTI_IN_LANE);
    vti_lane_count_mapped_free(&m->vset, sp, job->group, 1);
}

// Chunks that could not be wiped are not left where a sequence could read them: they wait with what
// is to be unmapped, and go to the pool, dirty. (An idle span is wiped when it is taken.)
static void hold_unzeroed(vt_manager *m, vti_span *sp, uint32_t group, uint32_t end)
{
    vti_lane *l = &sp->lane[group];
    if (l->held0 == l->held1) l->held0 = l->front;
    for (; l->held1 < end; l->held1++) {
        if (l->at[l->held1] == VTI_NO_CHUNK) continue;
        vti_pset_user_hold(&m->pset, l->at[l->held1]);
        vti_pset_user_leave(&m->pset, l->at[l->held1]);
        vti_lane_count_mapped_free(&m->vset, sp, group, -1);
    }
    l->needs_zeroing = true;
}

static void commit_back(vt_manager *m, vti_span *sp, const vti_lane_job *job)
{
    uint32_t stuck_end = job->is_stuck ? job->n_done + job->portion : job->n_done;
    m->runs_reserved -= job->n_run;
    for (uint32_t i = 0; i < job->n && i < stuck_end; i++) commit_backed(m, sp, job, i);
    for (uint32_t i = job->n; i-- > stuck_end;) drop_one(m, job, i);
    uint32_t n_unzeroed = job->use == VT_VMM_WRITE && !job->is_stuck ? job->n_done : 0;
    while (n_unzeroed > 0 && !job->plan[n_unzeroed - 1].is_dirty)
        n_unzeroed--; // up to the last one not wiped
    if (n_unzeroed > 0 && sp->state == VTI_SPAN_LIVE && !sp->is_lost)
        hold_unzeroed(m, sp, job->group, job->first + n_unzeroed);
    vti_tally_peaks(m);
}

static void commit_unmap(vt_manager *m, vti_span *sp, const vti_lane_job *job)
{
    vti_lane *l = &sp->lane[job->group];
    for (uint32_t i = job->n_done; i-- > 0;) {
        uint32_t position = job->first + i, chunk = l->at[position];
        bool is_held = position >= l->held0 && position < l->held1;
        bool has_left = vti_lane_has_left(sp, l, position);
        bool is_dirty = position * m->geo.group[job->group].slice_bytes < l->dirty_end;
        vti_lane_set(&m->vset, sp, job->group, position, VTI_NO_CHUNK);
        if (is_held) {
            vti_pset_user_drop(&m->pset, chunk, VTI_IN_POOL, has_left);
            continue;
        }
        vti_lane_count_mapped_free(&m->vset, sp, job->group, -1);
        vti_pset_place(&m->pset, chunk, VTI_IN_POOL);
        if (is_dirty) vti_pset_set_dirty(&m->pset, chunk, true);
    }
}

static void commit_job(vt_manager *m, vti_span *sp, uint32_t group)
{
    const vti_lane_job *job = &sp->lane[group].job;
    vti_calls_add(&m->calls, &job->calls);
    if (job->kind == VTI_JOB_BACK) commit_back(m, sp, job);
    if (job->kind == VTI_JOB_UNMAP) commit_unmap(m, sp, job);
    if (job->kind == VTI_JOB_WIPE && job->n_done == job->n)
        sp->lane[group].dirty_end = job->first * m->geo.group[group].slice_bytes;
    if (sp->is_lost) vti_quarantine_hold(m, sp, group);
    if (job->is_stuck) vti_span_quarantine(m, sp);
    vti_lane_end_plan(&sp->lane[group]);
    vti_span_set_due(&m->vset, sp);
}

static void commit_destroy(vt_manager *m)
{
    vti_lane_job *job = &m->job;
    vti_calls_add(&m->calls, &job->calls);
    for (uint32_t i = job->n; i-- > 0;)
        if (i < job->n_done)
            vti_pset_destroy(&m->pset, job->plan[i].chunk);
        else
            vti_pset_place(&m->pset, job->plan[i].chunk, VTI_IN_POOL);
}

// ---- At once

static void run_to_end(vt_manager *m, vti_lane_job *job)
{
    while (run_step(m, &job->base)) {
    }
}

// Nothing is done in a span that is lost, as it may be by what made room for this job: its last job
// says what it maps.
static vt_status refuse_lost(vt_manager *m, vti_span *sp, uint32_t group, const vti_job_spec *spec)
{
    const vti_lane *l = &sp->lane[group];
    const bool is_spare = spec->use == VT_VMM_WRITE;
    for (uint32_t i = spec->kind == VTI_JOB_BACK ? spec->n : 0; i-- > 0;)
        give_back_planned(m, m->geo.group[group].cls, &l->plan[i], false, is_spare);
    return VT_EDEVICE;
}

// Where there is no memory for the list of what is unmapped or wiped, it is done in pieces. (For
// BACK the plan has been made.)
vt_status vti_job_now(vt_manager *m, vti_span *sp, uint32_t group, const vti_job_spec *spec)
{
    if (sp->is_lost) return refuse_lost(m, sp, group, spec);
    vti_job_spec part = *spec;
    const uint32_t end = spec->first + spec->n;
    for (; part.first < end; part.first += part.n) {
        part.n = end - part.first;
        if (vti_lane_make_plan(&sp->lane[group], part.n) != VT_OK) part.n = VTI_SHORT_PLAN;
        fill_job(m, sp, group, &part, false);
        sp->needs_fence |= part.kind != VTI_JOB_UNMAP; // wiping may be queued
        run_to_end(m, &sp->lane[group].job);
        commit_job(m, sp, group);
        VT_TRY(sp->lane[group].job.st);
    }
    return VT_OK;
}

static void fill_destroy(vt_manager *m, uint32_t n, bool is_posted)
{
    uint32_t cls = vti_pset_class(&m->pset, m->job_plan[0].chunk);
    m->job = (vti_lane_job){.base = {.deadline = VTI_RETURN, .is_long = true},
                            .kind = VTI_JOB_DESTROY,
                            .span = UINT32_MAX,
                            .n = n,
                            .portion = is_posted ? vti_portion_chunks(m, cls) : n,
                            .plan = m->job_plan};
}

vt_status vti_destroy_now(vt_manager *m, uint32_t n)
{
    assert(!m->job.in_flight && n > 0);
    fill_destroy(m, n, false);
    run_to_end(m, &m->job);
    commit_destroy(m);
    return m->job.st;
}

// ---- On the mapper thread

static vt_status mapper_get(vt_manager *m)
{
    if (m->mapper) return VT_OK;
    uint32_t max_job = m->vset.n_max < 256 ? 256 : m->vset.n_max;
    bool threaded = m->mapper_kind == VT_MAPPER_THREAD;
    return vti_mapper_start(max_job, threaded, run_step, m, &m->mapper);
}

static vt_status post_job(vt_manager *m, vti_lane_job *job)
{
    if (!vti_mapper_post(m->mapper, &job->base)) return VT_NOSPACE;
    job->in_flight = true;
    m->n_in_flight++;
    return VT_OK;
}

vt_status vti_job_post(vt_manager *m, vti_span *sp, uint32_t group, const vti_job_spec *spec)
{
    vti_lane *l = &sp->lane[group];
    VT_TRY(mapper_get(m));
    VT_TRY(vti_lane_make_plan(l, spec->n));
    fill_job(m, sp, group, spec, true);
    vt_status st = post_job(m, &l->job);
    if (st != VT_OK) m->runs_reserved -= l->job.n_run;
    return st;
}

bool vti_mapper_begins_nothing(vt_manager *m, bool hold)
{
    return m->mapper && vti_mapper_hold(m->mapper, hold);
}

vt_status vti_destroy_post(vt_manager *m, uint32_t n)
{
    VT_TRY(mapper_get(m));
    fill_destroy(m, n, true);
    return post_job(m, &m->job);
}

vt_status vti_copy_post(vt_manager *m, vti_copy *c)
{
    VT_TRY(mapper_get(m));
    c->job.base.deadline = VTI_SWAP;
    c->job.base.is_long = true;
    return post_job(m, &c->job);
}

void vti_slots_drop_ahead(vt_manager *m)
{
    if (m->swap.drop.job.in_flight || !vti_slots_pick_stale(&m->swap)) return;
    if (vti_copy_post(m, &m->swap.drop) != VT_OK) vti_slots_put_picked(&m->swap);
}

void vti_slots_drop_now(vt_manager *m)
{
    vti_job_settle(m, &m->swap.drop.job);
    while (vti_slots_pick_stale(&m->swap)) {
        while (vti_copy_step(m, &m->swap.drop)) {
        }
        vti_slots_put_picked(&m->swap);
    }
}

// Commits a job that has come back. A failure is reported to the sequence that asked for it, if it
// is still alive.
static void commit_returned(vt_manager *m, vti_lane_job *job)
{
    bool has_run = job->n_done > 0 || job->n_created > 0 || job->n_view > 0 || job->st != VT_OK;
    job->in_flight = false;
    m->n_in_flight--;
    m->count.jobs += has_run; // or it was taken back before it began
    m->count.job_failures += job->st != VT_OK;
    if (job->st == VT_EDEVICE) m->giving.is_on = false; // it would be retried forever
    if (job->kind >= VTI_JOB_WRITE) {
        vti_calls_add(&m->calls, &job->calls);
        job->calls = (vti_calls){0}; // it may be continued
        if (job == &m->swap.drop.job) vti_slots_put_picked(&m->swap);
        return;
    }
    if (job == &m->job) {
        commit_destroy(m);
        return;
    }
    vti_span *sp = m->vset.span[job->span];
    if (sp->seq && sp->generation == job->generation && job->st != VT_OK) sp->seq->ahead = job->st;
    commit_job(m, sp, job->group);
    if (sp->state == VTI_SPAN_CLEARING && !vti_span_in_flight(&m->vset, sp))
        vti_vset_move(&m->vset, sp, VTI_SPAN_RETIRED);
}

void vti_jobs_take(vt_manager *m)
{
    vti_lane_job *job;
    while (m->n_in_flight > 0 && (job = (vti_lane_job *)vti_mapper_take(m->mapper)) != NULL)
        commit_returned(m, job);
}

// A job of a lane that is taken back in the middle of a portion is run to the end of it.
void vti_job_settle(vt_manager *m, vti_lane_job *job)
{
    if (!job->in_flight) return;
    if (!vti_mapper_claim(m->mapper, &job->base) && job->kind < VTI_JOB_WRITE) {
        job->order = VT_VMM_QUEUED;
        job->is_claimed = true;
        if (job != &m->job) m->vset.span[job->span]->needs_fence = true;
        while (job->n_view > 0 && run_step(m, &job->base)) {
        }
    }
    commit_returned(m, job);
}

void vti_job_await(vt_manager *m, vti_lane_job *job)
{
    if (!job->in_flight) return;
    vti_mapper_wait(m->mapper, &job->base);
    commit_returned(m, job);
}

void vti_span_settle(vt_manager *m, vti_span *sp)
{
    for (uint32_t g = 0; g < m->geo.n_group; g++) vti_job_settle(m, &sp->lane[g].job);
}

void vti_jobs_settle(vt_manager *m)
{
    vti_job_settle(m, &m->job);
    for (uint32_t i = 0; m->n_in_flight > 0 && i < m->vset.n_span; i++)
        vti_span_settle(m, m->vset.span[i]);
}

void vti_copies_settle(vt_manager *m)
{
    vti_job_settle(m, &m->swap.drop.job);
    for (vti_move *mv = m->moves; mv; mv = mv->older) vti_job_settle(m, &mv->copy.job);
}
