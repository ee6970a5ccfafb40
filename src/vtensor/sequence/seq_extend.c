// seq_extend.c - extend: every lane gets the chunks that the new length needs.
//
// Chunks that were prepared become the sequence's at once, the others after they are taken and
// mapped. What may be dirty of the new rows is wiped, in the order of the device's work. A window
// then gives up what no token from the old length on needs.
//
// A failure changes nothing that can be seen: what was backed until then stays, mapped-free, except
// for what could not be wiped.
#include "sequence.h"

static uint32_t need_of(const vt_seq *s, uint32_t group, uint32_t len_tok)
{
    return vti_group_chunks(&s->m->geo.group[group], len_tok);
}

static uint32_t unmapped_in(const vt_seq *s, uint32_t group, uint32_t len_tok)
{
    const vti_lane *l = &s->span->lane[group];
    return vti_lane_count_unmapped(l, l->n_owned, need_of(s, group, len_tok));
}

static uint64_t unmapped_bytes(const vt_seq *s, uint32_t len_tok)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < s->m->geo.n_group; g++)
        n += unmapped_in(s, g, len_tok) * (uint64_t)s->m->geo.group[g].chunk_bytes;
    return n;
}

vt_status vti_seq_room(vt_seq *s, uint32_t len_tok)
{
    return vti_span_room(s->m, s->span, unmapped_bytes(s, len_tok), len_tok);
}

// ---- A tail that is shared, after a truncate into a chunk that others hold

// Maps one chunk at a position inside the tokens, from which another one was unmapped.
static vt_status map_inside(vt_seq *s, uint32_t group, uint32_t p, uint32_t chunk, vt_vmm_use use)
{
    s->span->lane[group].plan[0] = vti_plan_of(s->m, chunk);
    return vti_job_now(s->m, s->span, group, &(vti_job_spec){VTI_JOB_BACK, p, 1, use, 0});
}

// The tail goes into a chunk of the sequence's own in place of the shared one, which has no rows
// beyond the tail: there the copy is wiped, since another tenant may have had it. If that cannot be
// mapped again, the sequence is lost.
static vt_status replace_tail(vt_seq *s, uint32_t group)
{
    vt_manager *m = s->m;
    const vti_lane_geo *gr = &m->geo.group[group];
    vti_lane *l = &s->span->lane[group];
    const size_t tail_bytes = vti_group_tail_bytes(gr, s->len_tok);
    const uint32_t p = vti_group_whole(gr, s->len_tok);
    uint32_t copy;
    VT_TRY(vti_source_reserve(m));
    VT_TRY(vti_runs_make(m, s->span, 2 * (uint64_t)gr->n_view));
    VT_TRY(vti_chunk_make(m, group, &copy));
    const uint32_t shared = l->at[p], n_ro = l->n_ro;
    const vt_vmm_use alias = n_ro > p ? VT_VMM_READ : VT_VMM_ALIAS;
    const size_t dirty_end = l->dirty_end, begin = p * gr->slice_bytes;
    vt_status st = vti_job_now(m, s->span, group, &(vti_job_spec){VTI_JOB_UNMAP, p, 1, 0, 0});
    if (st != VT_OK) {
        vti_pset_place(&m->pset, copy, VTI_IN_POOL);
        return st;
    }
    vti_pset_user_hold(&m->pset, shared);
    if (n_ro > p) vti_lane_set_ro(&m->vset, s->span, group, p);
    if (l->guard_end > p) l->guard_end = p;
    st = map_inside(s, group, p, copy, VT_VMM_WRITE);
    if (st == VT_OK) {
        st = vti_lane_fetch(m, s->span, group, p, shared, tail_bytes);
        vti_source_hold(m, shared);
        if (st == VT_OK)
            st = vti_lane_zero(m, s->span, group, begin + tail_bytes, begin + gr->slice_bytes);
        if (st != VT_OK) vti_span_quarantine(m, s->span);
    } else if (s->span->is_lost || map_inside(s, group, p, shared, alias) != VT_OK) {
        vti_span_quarantine(m, s->span);
    } else if (n_ro > p) {
        vti_lane_set_ro(&m->vset, s->span, group, p + 1);
    }
    if (vti_lane_at(l, p) != VTI_NO_CHUNK) l->dirty_end = dirty_end;
    vti_pset_user_drop(&m->pset, shared, VTI_IN_POOL, false);
    return st;
}

// By the contract of extend, no later work reads the sequence until it does.
static VTI_COLD vt_status device_lets_go(vt_seq *s)
{
    bool is_passed;
    if (!s->tail_asked) VT_TRY(vti_fence_take(s->m, s->span));
    vt_status st = vti_fence_passed(s->m, s->span->fence, false, &is_passed);
    if (st == VT_OK && !is_passed) st = VT_BUSY;
    s->tail_asked = st == VT_BUSY;
    return st;
}

// Whether the tail is in a chunk that new rows will share: at *p.
static bool has_tail(const vt_seq *s, uint32_t group, uint32_t *p)
{
    const vti_lane_geo *gr = &s->m->geo.group[group];
    if (gr->is_state || vti_group_tail_bytes(gr, s->len_tok) == 0) return false;
    *p = vti_group_whole(gr, s->len_tok);
    return *p >= s->span->lane[group].front;
}

static bool is_owned(const vt_seq *s, uint32_t group, uint32_t p)
{
    return vti_pset_state(&s->m->pset, s->span->lane[group].at[p]) == VT_CHUNK_OWNED;
}

// Room for the copies of shared tails and for all that is unmapped is asked for together, before a
// prefix is evicted for the first of them.
static VTI_COLD vt_status replace_tails(vt_seq *s, uint32_t len_tok)
{
    vt_manager *m = s->m;
    uint64_t bytes = 0;
    VT_TRY(device_lets_go(s));
    vti_span_settle(m, s->span);
    if (s->span->is_lost) return VT_EDEVICE;
    for (uint32_t g = 0, p; g < m->geo.n_group; g++)
        if (has_tail(s, g, &p) && !is_owned(s, g, p)) bytes += m->geo.group[g].chunk_bytes;
    VT_TRY(vti_span_room(m, s->span, bytes + unmapped_bytes(s, len_tok), len_tok));
    for (uint32_t g = 0, p; g < m->geo.n_group; g++)
        if (has_tail(s, g, &p)) // making room may have taken the other holders away
            VT_TRY(is_owned(s, g, p) ? vti_lane_unguard(m, s->span, g, p) : replace_tail(s, g));
    return VT_OK;
}

// ---- Growing

// Nothing is missing, or is where it could not be wiped.
static bool is_backed(const vt_seq *s, uint32_t len_tok)
{
    for (uint32_t g = 0; g < s->m->geo.n_group; g++)
        if (s->span->lane[g].needs_zeroing) return false;
    return unmapped_bytes(s, len_tok) == 0;
}

// Takes back jobs in flight, and backs what they have not.
static vt_status back_now(vt_seq *s, uint32_t len_tok)
{
    vt_manager *m = s->m;
    vti_jobs_take(m);
    if (is_backed(s, len_tok)) return VT_OK;
    vti_span_settle(m, s->span);
    for (uint32_t g = 0; g < m->geo.n_group; g++) VT_TRY(vti_lane_clear(m, s->span, g, false));
    VT_TRY(vti_seq_room(s, len_tok));
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        if (unmapped_in(s, g, len_tok) > 0)
            VT_TRY(vti_lane_back(m, s->span, g, s->span->lane[g].n_owned, need_of(s, g, len_tok)));
    return VT_OK;
}

static VTI_COLD vt_status back_unmapped(vt_seq *s, uint32_t len_tok)
{
    const bool was_held = vti_mapper_begins_nothing(s->m, true);
    vt_status st = back_now(s, len_tok);
    (void)vti_mapper_begins_nothing(s->m, was_held);
    return st;
}

// The new rows read as zero. A sequence of length 0 may begin with chunks that it shares.
static vt_status wipe_new(vt_seq *s, uint32_t group, uint32_t len_tok)
{
    const vti_lane_geo *gr = &s->m->geo.group[group];
    vti_lane *l = &s->span->lane[group];
    size_t from = vti_group_bytes(gr, s->len_tok), to = vti_group_bytes(gr, len_tok);
    if (s->len_tok == 0) from = l->n_owned * gr->slice_bytes;
    if (!VTI_RARE(from < l->dirty_end && from < to)) return VT_OK;
    size_t end = vti_group_chunks(gr, len_tok) * gr->slice_bytes; // not beyond the tail
    if (end > l->dirty_end) end = l->dirty_end;
    vt_status st = vti_lane_zero(s->m, s->span, group, from, end);
    if (st == VT_OK && end == l->dirty_end) l->dirty_end = 0;
    if (st != VT_OK) s->span->needs_fence = true; // some views may be queued, and stay mapped
    return st;
}

// The lane holds nothing beyond its tokens, and the tail can be written where it is, unless it is
// shared.
static vt_status lane_make_ready(vt_seq *s, uint32_t group, bool *is_shared)
{
    const vti_lane *l = &s->span->lane[group];
    uint32_t p;
    if (VTI_RARE(l->held1 > l->n_owned)) VT_TRY(vti_lane_clear(s->m, s->span, group, false));
    if (!has_tail(s, group, &p)) return VT_OK;
    if (is_owned(s, group, p)) return vti_lane_unguard(s->m, s->span, group, p);
    *is_shared = true;
    return VT_OK;
}

VTI_HOT vt_status vti_seq_grow(vt_seq *s, uint32_t len_tok)
{
    vt_manager *m = s->m;
    uint32_t n_more = 0;
    bool is_shared = false;
    if (VTI_RARE(len_tok > m->geo.max_tok || vti_seq_is_away(s))) return VT_EINVAL;
    if (VTI_RARE(s->span->is_lost)) return VT_EDEVICE;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        VT_TRY(lane_make_ready(s, g, &is_shared));
        n_more += need_of(s, g, len_tok) > s->span->lane[g].n_owned;
    }
    if (VTI_RARE(is_shared)) VT_TRY(replace_tails(s, len_tok));
    bool is_ready = n_more == 0 || is_backed(s, len_tok);
    if (VTI_RARE(!is_ready)) VT_TRY(back_unmapped(s, len_tok));
    if (VTI_RARE(s->span->is_lost)) return VT_EDEVICE; // by a job that has come back meanwhile
    for (uint32_t g = 0; g < m->geo.n_group; g++) VT_TRY(wipe_new(s, g, len_tok));
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        if (need_of(s, g, len_tok) > s->span->lane[g].n_owned)
            vti_lane_hold(m, s->span, g, need_of(s, g, len_tok));
    if (n_more > 0) m->count.ready_hits += is_ready;
    if (n_more > 0) m->count.ready_misses += !is_ready;
    return VT_OK;
}

// Gives up what no token from the old length on attends to.
static void pass_windows(vt_seq *s)
{
    vt_manager *m = s->m;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        vti_lane *l = &s->span->lane[g];
        uint32_t passed = vti_group_passed(&m->geo.group[g], s->len_tok);
        if (!VTI_RARE(passed > l->front)) continue;
        vti_lane_leave(m, s->span, g, passed, l->n_owned);
        s->span->needs_fence = true;
    }
}

vt_status vti_seq_extend_begin(vt_seq *s, uint32_t len_tok)
{
    vt_status st = vti_seq_grow(s, len_tok);
    while (VTI_RARE(st == VT_BUSY) && vti_moves_yield(s->m)) st = vti_seq_grow(s, len_tok);
    return vti_tally_answer(s->m, st);
}

VTI_HOT void vti_seq_extend_end(vt_seq *s, uint32_t len_tok)
{
    pass_windows(s);
    vti_seq_set_len(s, len_tok);
}

VTI_HOT vt_status vt_seq_extend(vt_seq *s, uint32_t len_tok)
{
    if (len_tok <= s->len_tok && !vti_seq_is_away(s) && !s->span->is_lost) return VT_OK;
    if (len_tok < s->len_tok) len_tok = s->len_tok;
    const vt_status st = vti_seq_extend_begin(s, len_tok);
    if (st == VT_OK) vti_seq_extend_end(s, len_tok);
    return st;
}

vt_status vt_seq_extend_many(vt_seq *const *seq, const uint32_t *len_tok, uint32_t n,
                             uint32_t *n_done)
{
    vt_status st = VT_OK;
    uint32_t i = 0;
    while (i < n && (st = vt_seq_extend(seq[i], len_tok[i])) == VT_OK) i++;
    if (n_done) *n_done = i;
    return st;
}

// ---- Truncate

vt_status vti_seq_can_truncate(const vt_seq *s, uint32_t len_tok)
{
    if (vti_seq_is_away(s)) return VT_EINVAL;
    for (uint32_t g = 0; g < s->m->geo.n_group; g++) {
        const vti_lane_geo *gr = &s->m->geo.group[g];
        if (gr->is_state && len_tok > 0) return VT_EINVAL;
        if (s->span->lane[g].front > vti_group_passed(gr, len_tok)) return VT_EINVAL;
    }
    return s->span->is_lost ? VT_EDEVICE : VT_OK;
}

// Nothing is unmapped now: what others hold waits until the device is done with it.
static void cut_to(vt_seq *s, uint32_t len_tok)
{
    vt_manager *m = s->m;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        vti_lane *l = &s->span->lane[g];
        uint32_t end = vti_group_chunks(&m->geo.group[g], len_tok);
        size_t used = vti_group_bytes(&m->geo.group[g], s->len_tok);
        if (used > l->dirty_end) l->dirty_end = used;
        vti_lane_leave(m, s->span, g, l->front, end);
    }
    s->span->needs_fence = true;
    s->tail_asked = false;
    if (s->path_tok > len_tok) s->path_tok = len_tok;
    if (s->pending.n_tok > len_tok) s->pending.n_tok = len_tok;
    vti_seq_set_len(s, len_tok);
    for (uint32_t g = 0; g < m->geo.n_group; g++) (void)vti_lane_clear(m, s->span, g, false);
}

vt_status vti_seq_extend_cancel(vt_seq *s)
{
    if (s->span->is_lost) return VT_EDEVICE;
    cut_to(s, s->len_tok);
    return VT_OK;
}

vt_status vt_seq_truncate(vt_seq *s, uint32_t len_tok)
{
    if (len_tok >= s->len_tok) return VT_OK;
    vt_status st = vti_seq_can_truncate(s, len_tok);
    if (st == VT_OK) cut_to(s, len_tok);
    return vti_tally_answer(s->m, st);
}
