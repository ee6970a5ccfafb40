// look_ahead.c - prefetching: prepare for one sequence, and vt_step, which looks ahead for all.
//
// A span has one job at a time. A request beyond that job is kept in ahead_tok and posted when the
// job is taken back: in the next vt_step, or in vt_seq_wait.
//
// The deadline of a job is a step, counted from the first; the most urgent first:
//   below VTI_SOON       growth of a sequence: the step in which its chunks are used up
//   VTI_SOON             unmapping what a released sequence shared
//   VTI_REFILL, _WIPE    spare chunks for the next sequence, and wiping those of the last
//   VTI_RETURN           spare chunks beyond the high mark
#include "sequence.h"

#include "vtensor/common/try.h"

// The first position in [n_owned, n_chunk) where nothing is mapped; n_chunk: none.
static uint32_t first_cold(const vti_span *sp, uint32_t n_chunk)
{
    uint32_t p = sp->n_owned;
    while (p < n_chunk && sp->at[p] != VTI_NO_REGION) p++;
    return p < n_chunk ? p : n_chunk;
}

static vt_status post_back(vt_manager *m, vti_span *sp, uint32_t end, uint64_t deadline)
{
    uint32_t first = first_cold(sp, end), n;
    if (first == end) return VT_OK;
    VT_TRY(vti_span_stretch(m, sp, first, end, &n));
    VT_TRY(vti_room_from_idle(m, sp, n));
    if (!vti_runs_fit(m, 1)) return VT_NOSPACE;
    return vti_job_post(m, sp, VTI_JOB_BACK, first, n, deadline);
}

// A queued job is posted again if it must be more urgent.
static vt_status post_ahead(vt_seq *s, uint32_t deadline)
{
    vt_manager *m = s->m;
    uint64_t due = m->n_step + deadline;
    if (s->span->is_lent && s->span->job.base.deadline <= due) return VT_OK;
    if (!vti_job_cancel(m, s->span)) return VT_OK; // it is running
    return post_back(m, s->span, vti_geo_chunks(&m->geo, s->ahead_tok), due);
}

static vt_status seq_prepare(vt_seq *s, uint32_t len_tok, uint32_t deadline)
{
    vt_manager *m = s->m;
    if (s->swapped) return VT_EINVAL;
    if (len_tok > m->geo.max_tok) len_tok = m->geo.max_tok;
    vti_jobs_take(m);
    vt_status earlier = s->ahead;
    s->ahead = VT_OK;
    if (earlier != VT_OK) return earlier;
    if (len_tok > s->ahead_tok || !s->span->is_lent) s->ahead_tok = len_tok;
    return post_ahead(s, deadline);
}

vt_status vt_seq_prepare(vt_seq *s, uint32_t len_tok, uint32_t deadline)
{
    return vti_tally_answer(s->m, seq_prepare(s, len_tok, deadline));
}

static vt_status seq_wait(vt_seq *s)
{
    vt_manager *m = s->m;
    do {
        VT_TRY(vti_job_finish(m, s->span));
        vt_status st = s->ahead;
        s->ahead = VT_OK;
        VT_TRY(st);
        VT_TRY(post_ahead(s, 0));
    } while (s->span->is_lent);
    return VT_OK;
}

vt_status vt_seq_wait(vt_seq *s)
{
    return s->swapped ? VT_OK : vti_tally_answer(s->m, seq_wait(s));
}

// Errors are ignored: extend will try again.
static void look_ahead(vt_seq *s, uint32_t n_more, uint32_t deadline)
{
    uint64_t len_tok = (uint64_t)s->len_tok + n_more;
    if (len_tok > s->m->geo.max_tok) len_tok = s->m->geo.max_tok;
    (void)seq_prepare(s, (uint32_t)len_tok, deadline);
}

static uint32_t tokens_left(const vt_seq *s)
{
    const vti_span *sp = s->span;
    uint32_t ready = vti_geo_tokens(&s->m->geo, first_cold(sp, s->m->geo.chunks_per_span));
    return ready > s->len_tok ? ready - s->len_tok : 0;
}

static void ahead_next(vt_seq *s, uint32_t n_tok)
{
    bool now = tokens_left(s) == 0;
    look_ahead(s, now ? 1 : 1 + n_tok, now ? 1 : 2);
}

static void ahead_slack(vt_seq *s, uint32_t n_tok)
{
    uint32_t left = tokens_left(s);
    if (left < n_tok) look_ahead(s, n_tok, left + 1);
}

static void for_each_seq(vt_manager *m, uint32_t n_tok, void (*fn)(vt_seq *, uint32_t))
{
    for (uint32_t i = 0; i < m->vset.n_span; i++) {
        vt_seq *s = m->vset.span[i]->seq;
        if (s && !s->swapped) fn(s, n_tok);
    }
}

static vti_span *idle_for_refill(vt_manager *m)
{
    for (vti_span *sp = m->vset.idle.newest; sp; sp = sp->older)
        if (!sp->is_lent && first_cold(sp, m->geo.chunks_per_span) < m->geo.chunks_per_span)
            return sp;
    vti_span *fresh = NULL;
    return vti_span_alloc(m, &fresh) == VT_OK ? fresh : NULL;
}

// Makes spare chunks for the next sequence, up to the low mark.
static void refill_spare(vt_manager *m)
{
    uint64_t have = m->pset.n_in[VT_CHUNK_SPARE] + m->n_reserved;
    uint64_t used = vti_pset_created(&m->pset) + m->n_reserved;
    if (have >= m->spare_low_chunks || used >= m->budget_chunks) return;
    uint64_t want = m->spare_low_chunks - have, room = m->budget_chunks - used;
    vti_span *sp = idle_for_refill(m);
    if (!sp) return;
    if (want > room) want = room;
    uint64_t end = first_cold(sp, m->geo.chunks_per_span) + want;
    if (end > m->geo.chunks_per_span) end = m->geo.chunks_per_span;
    (void)post_back(m, sp, (uint32_t)end, VTI_REFILL);
}

static void wipe_idle(vt_manager *m)
{
    uint32_t first, n;
    for (vti_span *sp = m->vset.idle.newest; sp; sp = sp->older)
        if (!sp->is_lent && sp->tear.n == 0 && vti_span_dirty(sp, &first, &n))
            (void)vti_job_post(m, sp, VTI_JOB_ZERO, first, n, VTI_WIPE);
}

void vt_tick(vt_manager *m, uint64_t now_ms)
{
    if (now_ms > m->now_ms) m->now_ms = now_ms;
    vti_rtree_tick(m->rtree, m->now_ms);
}

vt_status vt_step(vt_manager *m, vt_ahead policy, uint32_t n_tok, uint64_t now_ms)
{
    static void (*const look[])(vt_seq *, uint32_t) = {
        [VT_AHEAD_NEXT] = ahead_next,
        [VT_AHEAD_SLACK] = ahead_slack,
    };
    vt_tick(m, now_ms);
    m->n_step++;
    vti_jobs_take(m);
    vt_status st = vti_spans_reap(m, VTI_REAP_TRY);
    if (policy != VT_AHEAD_NONE) for_each_seq(m, n_tok, look[policy]);
    refill_spare(m);
    vti_spare_return_excess(m);
    wipe_idle(m);
    return vti_tally_answer(m, st);
}

void vt_work(vt_manager *m, uint32_t max_jobs, uint32_t *n_left)
{
    for (uint32_t i = 0; m->mapper && i < max_jobs && vti_mapper_work(m->mapper); i++) {
    }
    vti_jobs_take(m);
    if (n_left) *n_left = m->n_lent;
}
