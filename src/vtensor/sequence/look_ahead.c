// look_ahead.c - prefetching: prepare for one sequence, and vt_step, which looks ahead for those of
// which something has changed, or for which work is left: the due spans.
//
// A lane has one job at a time. A request beyond that job is kept in ahead_tok and posted when the
// job is taken back: in the next vt_step that looks ahead, or in vt_seq_wait.
//
// The deadline of a job is a step, counted from the first; the most urgent first:
//   below VTI_SOON       growth of a sequence: the step in which its chunks are used up
//   VTI_SOON             unmapping what is to be used elsewhere, or what has other holders
//   VTI_SWAP             what goes to the swap or comes back, slice by slice
//   VTI_REFILL, _WIPE    free chunks for the next sequence, and wiping those of the last
//   VTI_RETURN           free chunks beyond the high mark
#include "sequence.h"

// Posts what is unmapped up to ahead_tok, a job for each lane that has none. While the budget is
// exceeded, what is spare is to go back to the system.
static vt_status post_ahead(vt_seq *s, uint64_t due)
{
    vt_manager *m = s->m;
    vt_status st = VT_OK;
    if (s->span->is_lost) return VT_EDEVICE;
    if (vti_over_budget(m) > 0) return VT_NOSPACE;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        const vti_lane *l = &s->span->lane[g];
        uint32_t end = vti_group_chunks(&m->geo.group[g], s->ahead_tok);
        if (l->job.in_flight && l->job.base.deadline > due)
            vti_job_settle(m, &s->span->lane[g].job);
        if (l->held1 > l->n_owned || end <= l->n_owned) continue;
        vt_status posted = vti_lane_back_ahead(m, s->span, g, l->n_owned, end, due);
        if (posted != VT_OK) st = posted;
    }
    return st;
}

static vt_status seq_prepare(vt_seq *s, uint32_t len_tok, uint32_t deadline)
{
    vt_manager *m = s->m;
    if (vti_seq_is_away(s)) return VT_EINVAL;
    if (len_tok > m->geo.max_tok) len_tok = m->geo.max_tok;
    vti_jobs_take(m);
    vt_status earlier = s->ahead;
    s->ahead = VT_OK;
    if (earlier != VT_OK) return earlier;
    if (len_tok > s->ahead_tok || s->ahead_tok <= s->len_tok) s->ahead_tok = len_tok;
    return post_ahead(s, m->n_step + deadline);
}

vt_status vt_seq_prepare(vt_seq *s, uint32_t len_tok, uint32_t deadline)
{
    vti_span_set_due(&s->m->vset, s->span);
    return vti_tally_answer(s->m, seq_prepare(s, len_tok, deadline));
}

// Does at once what is left of the prepare of each lane.
static vt_status seq_wait(vt_seq *s)
{
    vt_manager *m = s->m;
    if (s->tail_asked) VT_TRY(vti_fence_await(m, s->span->fence));
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        const vti_lane *l = &s->span->lane[g];
        uint32_t end = vti_group_chunks(&m->geo.group[g], s->ahead_tok);
        vti_job_settle(m, &s->span->lane[g].job);
        vt_status st = s->ahead;
        s->ahead = VT_OK;
        VT_TRY(st);
        if (l->n_owned < l->held1) {
            VT_TRY(vti_span_await(m, s->span));
            VT_TRY(vti_lane_clear(m, s->span, g, false));
        }
        if (end > l->n_owned) VT_TRY(vti_lane_back(m, s->span, g, l->n_owned, end));
    }
    return VT_OK;
}

vt_status vt_seq_wait(vt_seq *s)
{
    if (s->move) return vti_tally_answer(s->m, vti_move_wait(s));
    return s->swapped ? VT_OK : vti_tally_answer(s->m, seq_wait(s));
}

// ---- Steps

// Prepares what the policy asks for. Errors are ignored: extend will try again.
static void look_ahead(vt_seq *s, vt_ahead policy, uint32_t n_tok)
{
    if (policy == VT_AHEAD_NONE) return;
    const uint32_t mapped_tok = vti_seq_mapped_tok(s);
    const uint32_t left = mapped_tok > s->len_tok ? mapped_tok - s->len_tok : 0;
    uint64_t len_tok = (uint64_t)s->len_tok + n_tok;
    uint32_t deadline = left + 1;
    if (policy == VT_AHEAD_NEXT) {
        len_tok = s->len_tok + UINT64_C(1) + (left > 0 ? n_tok : 0);
        deadline = left > 0 ? 2 : 1;
    } else if (left >= n_tok) {
        return;
    }
    if (len_tok > s->m->geo.max_tok) len_tok = s->m->geo.max_tok;
    (void)seq_prepare(s, (uint32_t)len_tok, deadline);
}

// Up to which token the policy of the last step prepares a sequence in the end.
static uint32_t reach_ahead(const vt_manager *m, const vt_seq *s)
{
    uint64_t end_tok = 0;
    if (m->ahead == VT_AHEAD_SLACK) end_tok = (uint64_t)s->len_tok + m->ahead_tok;
    if (m->ahead == VT_AHEAD_NEXT) end_tok = (uint64_t)s->len_tok + 1 + m->ahead_tok;
    if (m->ahead == VT_AHEAD_NEXT && end_tok < s->ahead_tok) end_tok = s->ahead_tok;
    return end_tok < m->geo.max_tok ? (uint32_t)end_tok : m->geo.max_tok;
}

static bool live_is_done(const vt_manager *m, const vti_span *sp)
{
    const vt_seq *s = sp->seq;
    const bool is_away = !s || vti_seq_is_away(s);
    if (sp->is_lost) return true;
    const uint32_t end_tok = is_away ? 0 : reach_ahead(m, s);
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        const vti_lane *l = &sp->lane[g];
        if (vti_lane_waits(l)) return false;
        if (is_away) continue; // it becomes due when it has come back
        if (l->guard_end > l->n_ro) return false;
        const uint32_t end = vti_group_chunks(&m->geo.group[g], end_tok);
        if (l->job.in_flight) continue; // it sets the span due when it comes back
        if (vti_lane_first_unmapped(l, l->n_owned, end) < end) return false;
    }
    return true;
}

bool vti_span_is_done(const vt_manager *m, const vti_span *sp)
{
    if (sp->state == VTI_SPAN_LIVE) return live_is_done(m, sp);
    for (uint32_t g = 0; sp->state == VTI_SPAN_IDLE && g < m->geo.n_group; g++)
        if (sp->lane[g].dirty_end > 0 && !sp->lane[g].job.in_flight) return false;
    return true;
}

// A span for which something is left to do stays due; while the budget is exceeded, that is what
// the policy would prepare. What spans in other states wait for is in the lists of those states
// (vti_spans_reap, vti_quarantine_retry).
static void look_at_due(vt_manager *m, vt_ahead policy, uint32_t n_tok)
{
    const vt_ahead can = vti_over_budget(m) > 0 ? VT_AHEAD_NONE : policy;
    if (policy != m->ahead || n_tok != m->ahead_tok)
        for (vti_span *sp = m->vset.in[VTI_SPAN_LIVE].oldest; sp; sp = sp->newer)
            vti_span_set_due(&m->vset, sp);
    m->ahead = policy;
    m->ahead_tok = n_tok;
    for (uint32_t n = m->vset.n_due; n > 0; n--) {
        vti_span *sp = vti_vset_take_due(&m->vset);
        m->looks++;
        if (vti_span_is_done(m, sp)) continue;
        if (sp->state == VTI_SPAN_LIVE && sp->seq && !vti_seq_is_away(sp->seq)) {
            vti_span_guard(m, sp);
            if (!sp->is_lost) look_ahead(sp->seq, can, n_tok);
        }
        if (!vti_span_is_done(m, sp)) vti_span_set_due(&m->vset, sp);
    }
}

// ---- Wiping

// The last dirty stretch of a lane, a portion at most: its length, 0: none.
static uint32_t dirty_stretch(const vt_manager *m, vti_lane *l, uint32_t group, uint32_t *first)
{
    size_t slice_bytes = m->geo.group[group].slice_bytes;
    uint64_t most = VTI_PORTION_BYTES / m->geo.group[group].chunk_bytes + 1;
    uint32_t end = (uint32_t)((l->dirty_end + slice_bytes - 1) / slice_bytes);
    while (end > 0 && vti_lane_at(l, end - 1) == VTI_NO_CHUNK) end--;
    if (end * slice_bytes < l->dirty_end) l->dirty_end = end * slice_bytes;
    *first = end;
    while (*first > 0 && end - *first < most && l->at[*first - 1] != VTI_NO_CHUNK) (*first)--;
    return end - *first;
}

// What is about to go back to the system need not be wiped. The last that became idle comes first:
// the next sequence gets it.
static void wipe_idle(vt_manager *m)
{
    if (m->giving.is_on || vti_over_budget(m) > 0) return;
    for (uint32_t i = m->vset.n_due; i-- > 0;) {
        vti_span *sp = vti_vset_due(&m->vset, i);
        for (uint32_t g = 0; sp->state == VTI_SPAN_IDLE && g < m->geo.n_group; g++) {
            vti_job_spec spec = {VTI_JOB_WIPE, 0, 0, 0, VTI_WIPE};
            if (sp->lane[g].job.in_flight || sp->lane[g].dirty_end == 0) continue;
            if (vti_span_is_quiet(m, sp) != VT_OK) break;
            spec.n = dirty_stretch(m, &sp->lane[g], g, &spec.first);
            if (spec.n > 0) (void)vti_job_post(m, sp, g, &spec);
        }
    }
}

void vt_tick(vt_manager *m, uint64_t now_ms)
{
    if (now_ms > m->radix->now_ms) m->radix->now_ms = now_ms;
}

vt_status vt_step(vt_manager *m, vt_ahead policy, uint32_t n_tok, uint64_t now_ms)
{
    if ((unsigned)policy > VT_AHEAD_SLACK) return VT_EINVAL;
    vt_tick(m, now_ms);
    m->n_step++;
    m->system_bytes = UINT64_MAX;
    vti_jobs_take(m);
    vti_sources_release(m, false);
    vti_moves_continue(m);
    vt_status st = vti_spans_reap(m, VTI_REAP_POST);
    vti_spans_clear(m, true);
    vti_quarantine_retry(m);
    look_at_due(m, policy, n_tok);
    vti_arrivals_prepare(m);
    vti_giving_continue(m);
    vti_slots_drop_ahead(m);
    wipe_idle(m);
    vti_stats_publish(m);
    return vti_tally_answer(m, st);
}

void vt_work(vt_manager *m, uint32_t max_jobs, uint32_t *n_left)
{
    for (uint32_t i = 0; m->mapper && i < max_jobs && vti_mapper_work(m->mapper); i++) {
    }
    vti_jobs_take(m);
    if (n_left) *n_left = m->n_in_flight;
}
