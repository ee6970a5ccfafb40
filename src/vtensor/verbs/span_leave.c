// span_leave.c - a span releases chunks: the end of a sequence that is truncated, or everything
// once its sequence is released and the device is done with it.
//
//   drop     chunks of the home that nobody else holds stay mapped, as warm and dirty ones; the
//            others are unmapped
//   retire   the sequence has ended; the device may still read
//   reap     the device is done: drop everything, and the span is idle
#include "verbs.h"

#include "vtensor/common/try.h"

// Whether others hold chunks of the span's home.
static bool home_is_shared(const vt_manager *m, const vti_span *sp)
{
    for (uint32_t p = 0; sp->home != VTI_NO_REGION && p < m->geo.chunks_per_span; p++) {
        vti_chunk c = vti_pset_chunk(&m->pset, sp->home, p);
        uint32_t mine = p < sp->n_owned && sp->at[p] == sp->home;
        if (c.n_node > 0 || c.n_user > mine) return true;
    }
    return false;
}

static bool stays_warm(const vt_manager *m, const vti_span *sp, uint32_t position)
{
    uint32_t region = sp->at[position];
    return region != VTI_NO_REGION && region == sp->home &&
           vti_pset_state(&m->pset, region, position) == VT_CHUNK_OWNED;
}

// Where the run of chunks that do not stay begins, which ends at `end` and does not reach below
// `keep`.
static uint32_t leaving_run(const vt_manager *m, const vti_span *sp, uint32_t keep, uint32_t end)
{
    uint32_t first = end - 1, region = sp->at[first];
    while (first > keep && sp->at[first - 1] == region && !stays_warm(m, sp, first - 1)) first--;
    return first;
}

// The last run in [keep, *end) that does not stay; false: none. *end becomes its beginning.
static bool next_leaving(const vt_manager *m, const vti_span *sp, uint32_t keep, uint32_t *end,
                         uint32_t *n)
{
    uint32_t last = *end;
    while (last > keep && (stays_warm(m, sp, last - 1) || sp->at[last - 1] == VTI_NO_REGION))
        last--;
    if (last == keep) return false;
    *end = leaving_run(m, sp, keep, last);
    *n = last - *end;
    return true;
}

static vt_status detach_leaving(vt_manager *m, vti_span *sp, uint32_t keep)
{
    uint32_t end = sp->n_owned, n;
    while (next_leaving(m, sp, keep, &end, &n)) VT_TRY(vti_span_detach(m, sp, end, n));
    return VT_OK;
}

static vt_status detach_all(vt_manager *m, vti_span *sp, uint32_t first)
{
    for (uint32_t p = first, n; p < sp->n_owned; p += n) {
        n = vti_run_length(sp->at, p, sp->n_owned);
        if (sp->at[p] != VTI_NO_REGION) VT_TRY(vti_span_detach(m, sp, p, n));
    }
    return VT_OK;
}

// The first position that does not stay warm; n_owned: all do.
static uint32_t first_leaving(const vt_manager *m, const vti_span *sp, uint32_t keep)
{
    uint32_t end = sp->n_owned, first = end, n;
    while (next_leaving(m, sp, keep, &end, &n)) first = end;
    return first;
}

// A live span keeps no warm chunks beyond a hole: it would have one run more than before. (Shedding
// repairs the span, so it comes first.)
static vt_status detach_for(vt_manager *m, vti_span *sp, uint32_t keep)
{
    if (sp->state != VTI_SPAN_LIVE) return detach_leaving(m, sp, keep);
    if (first_leaving(m, sp, keep) == sp->n_owned) return VT_OK;
    VT_TRY(vti_span_shed(m, sp, 0, UINT32_MAX, UINT32_MAX));
    return detach_all(m, sp, first_leaving(m, sp, keep));
}

vt_status vti_span_drop(vt_manager *m, vti_span *sp, uint32_t keep)
{
    vti_job_settle(m, sp);
    vt_status st = detach_for(m, sp, keep);
    if (st != VT_OK) {
        (void)vti_span_repair(m, sp); // else torn
        return st;
    }
    vti_span_drop_detached(m, sp, keep);
    uint32_t end = sp->n_owned;
    for (uint32_t p = keep; p < end; p++) {
        if (sp->at[p] == VTI_NO_REGION) continue;
        vti_pset_user_drop(&m->pset, sp->at[p], p);
        sp->n_warm++;
    }
    if (end > sp->n_dirty) sp->n_dirty = end;
    sp->n_owned = keep;
    return VT_OK;
}

// ---- Retire and reap

static vt_status device_is_done(vt_manager *m, vti_span *sp, bool wait, bool *is_done)
{
    *is_done = true;
    if (sp->needs_fence) VT_TRY(vti_span_fence(m, sp));
    if (sp->fence == 0) return VT_OK;
    return vti_tally_backend(m, m->vmm->ops->passed(m->vmm, sp->fence, wait, is_done));
}

// Leaves unmapping a run that others hold to the mapper, since a long run takes long.
static bool unmap_async(vt_manager *m, vti_span *sp)
{
    uint32_t end = sp->n_owned, n;
    return m->mapper_kind == VT_MAPPER_THREAD && sp->tear.n == 0 && sp->n_detached == 0 &&
           next_leaving(m, sp, 0, &end, &n) &&
           vti_job_post(m, sp, VTI_JOB_UNMAP, end, n, VTI_SOON) == VT_OK;
}

// A home whose chunks others hold is left to them.
static vt_status reap_now(vt_manager *m, vti_span *sp)
{
    bool shared = home_is_shared(m, sp);
    VT_TRY(vti_span_drop(m, sp, 0));
    if (shared) VT_TRY(vti_span_leave_home(m, sp));
    sp->fence = 0;
    vti_vset_move(&m->vset, sp, VTI_SPAN_IDLE);
    return VT_OK;
}

// Cancels the span's job, which is no longer needed, or waits for it. False: with VTI_REAP_TRY, it
// is running, or it is an unmapping.
static bool job_is_quiet(vt_manager *m, vti_span *sp, vti_reap how)
{
    if (how == VTI_REAP_TRY)
        return !sp->is_lent || (sp->job.kind != VTI_JOB_UNMAP && vti_job_cancel(m, sp));
    vti_job_settle(m, sp);
    return true;
}

static vt_status span_reap(vt_manager *m, vti_span *sp, vti_reap how)
{
    bool is_done;
    if (!job_is_quiet(m, sp, how)) return VT_OK;
    VT_TRY(device_is_done(m, sp, how == VTI_REAP_WAIT, &is_done));
    if (!is_done || (how == VTI_REAP_TRY && unmap_async(m, sp))) return VT_OK;
    return reap_now(m, sp);
}

// If the device fails, a span stays retired and is tried again later.
vt_status vti_spans_reap(vt_manager *m, vti_reap how)
{
    vt_status st = VT_OK;
    for (vti_span *sp = m->vset.retired.oldest, *newer; sp; sp = newer) {
        newer = sp->newer;
        vt_status reaped = span_reap(m, sp, how);
        if (reaped != VT_OK) st = reaped;
    }
    vt_status swept = vti_strays_free(m);
    return st != VT_OK ? st : swept;
}

void vti_span_retire(vt_manager *m, vti_span *sp)
{
    sp->seq = NULL;
    sp->needs_fence = true;
    (void)vti_span_fence(m, sp);
    vti_vset_move(&m->vset, sp, VTI_SPAN_RETIRED);
    (void)vti_spans_reap(m, VTI_REAP_TRY);
}
