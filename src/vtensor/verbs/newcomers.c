// newcomers.c - memory for sequences that have not come yet: a few idle spans are mapped and wiped
// as far as new sequences go of late, so that each of the next ones finds what it begins with, and
// makes no system call.
//
// How far follows from those that came (vti_newcomers). Some share nothing, others a recorded
// prompt, and what is mapped where that goes would be in its way. So as many spans as were asked
// for of late are ready from position 0 on, the others behind the tokens that are shared. What is
// ready stays below spare_low_bytes. It comes from the pool and what the budget has left; else from
// what idle spans have beyond that, and then from prefixes, a portion in each step.
#include "verbs.h"

enum {
    READY_SPANS = 8,
    READY_AT_ONCE = 256, // chunks that a step plans for a lane
};

// ---- What newcomers need

// A value that follows what is seen: fast in one direction, slowly in the other.
static uint32_t follow_fast(uint32_t value, uint32_t seen, bool upwards)
{
    const int64_t more = (int64_t)seen - value;
    const int64_t part = (more > 0) == upwards ? 2 : 16;
    return (uint32_t)(value + (more + (more > 0 ? part - 1 : 1 - part)) / part);
}

static bool shares_chunks(const vt_manager *m, uint32_t hit_tok)
{
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        if (vti_group_whole(&m->geo.group[g], hit_tok) > 0) return true;
    return false;
}

// What is too much costs little: the end follows long sequences, the beginning short hits.
void vti_newcomer_note(vt_manager *m, uint32_t hit_tok, uint32_t n_tok)
{
    vti_newcomers *all = &m->newcomers;
    if (n_tok == 0) return;
    const bool shares = shares_chunks(m, hit_tok);
    const bool is_first = all->whole.n_tok == 0 && all->sharing.n_tok == 0;
    const int32_t seen = shares ? 256 : 0, was = (int32_t)all->n_sharing;
    all->n_sharing = (uint32_t)(is_first ? seen : was + (seen - was) / 16);
    vti_newcomer *c = shares ? &all->sharing : &all->whole;
    c->hit_tok = c->n_tok == 0 ? hit_tok : follow_fast(c->hit_tok, hit_tok, false);
    c->n_tok = c->n_tok == 0 ? n_tok : follow_fast(c->n_tok, n_tok, true);
}

// Positions [*first, *end) of a lane. As long as nobody has come, all of it.
static void ready_range(const vt_manager *m, const vti_newcomer *c, uint32_t group, uint32_t *first,
                        uint32_t *end)
{
    const vti_lane_geo *gr = &m->geo.group[group];
    const uint32_t n_tok = c->n_tok > 0 && c->n_tok < m->geo.max_tok ? c->n_tok : m->geo.max_tok;
    *end = vti_group_chunks(gr, n_tok);
    *first = vti_group_whole(gr, c->hit_tok < n_tok ? c->hit_tok : n_tok);
}

static uint64_t span_need(const vt_manager *m, const vti_newcomer *c)
{
    uint64_t n = 0;
    for (uint32_t g = 0, first, end; g < m->geo.n_group; g++) {
        ready_range(m, c, g, &first, &end);
        n += (uint64_t)(end - first) * m->geo.group[g].chunk_bytes;
    }
    return n;
}

static uint64_t most_need(const vt_manager *m)
{
    const vti_newcomers *all = &m->newcomers;
    if (all->sharing.n_tok == 0) return span_need(m, &all->whole);
    uint64_t whole = all->whole.n_tok > 0 ? span_need(m, &all->whole) : 0;
    uint64_t sharing = span_need(m, &all->sharing);
    return whole > sharing ? whole : sharing;
}

// Whether a shared prompt would find something in its way, or will.
static bool has_front(const vt_manager *m, const vti_span *sp)
{
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        const vti_lane *l = &sp->lane[g];
        const bool is_coming = l->is_lent && l->job.kind == VTI_JOB_BACK && l->job.first == 0;
        if (vti_group_whole(&m->geo.group[g], m->newcomers.sharing.hit_tok) == 0) continue;
        if (is_coming || vti_lane_at(l, 0) != VTI_NO_CHUNK) return true;
    }
    return false;
}

// Whom a span is for. A front that is there stays; of the spans without one, *n_whole get one.
static const vti_newcomer *whom_for(const vt_manager *m, const vti_span *sp, uint32_t *n_whole)
{
    const vti_newcomers *all = &m->newcomers;
    if (all->sharing.n_tok == 0) return &all->whole;
    if (all->whole.n_tok == 0) return &all->sharing;
    if (has_front(m, sp)) return &all->whole;
    if (*n_whole == 0) return &all->sharing;
    --*n_whole;
    return &all->whole;
}

// Of the newest n_span idle spans, how many are still to get a front.
static uint32_t count_missing_fronts(const vt_manager *m, uint32_t n_span)
{
    uint32_t n_whole = n_span - n_span * m->newcomers.n_sharing / 256, n = 0;
    const vti_span *sp = m->vset.in[VTI_SPAN_IDLE].newest;
    for (; n < n_span && sp; n++, sp = sp->older) n_whole -= n_whole > 0 && has_front(m, sp);
    return n_whole;
}

// ---- Making it ready

// How many chunks of a class can be had without taking them from a span or a prefix.
static uint64_t chunks_free(const vt_manager *m, uint32_t cls)
{
    const vti_class *c = &m->pset.cls[cls];
    const uint64_t left = vti_has_surplus(m) ? 0 : vti_budget_left(m);
    return c->n_pool + left / c->chunk_bytes;
}

// Posts what is cold in [first, end), as far as there is memory for it. Returns the bytes for which
// there is none.
static uint64_t lane_prepare(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                             uint32_t end)
{
    const vti_lane_geo *gr = &m->geo.group[group];
    const vti_lane *l = &sp->lane[group];
    const uint32_t n_cold = l->is_lent ? 0 : vti_lane_count_cold(l, first, end);
    const uint64_t n_free = chunks_free(m, gr->cls);
    if (n_cold == 0) return 0;
    first = vti_lane_first_cold(l, first, end);
    if (end - first > n_free) end = first + (uint32_t)n_free;
    if (end - first > READY_AT_ONCE) end = first + READY_AT_ONCE;
    if (end > first) (void)vti_lane_back_ahead(m, sp, group, first, end, VTI_REFILL);
    return n_cold > n_free ? (n_cold - n_free) * gr->chunk_bytes : 0;
}

// Where not all fits, each lane gets a share.
static uint64_t span_prepare(vt_manager *m, vti_span *sp, const vti_newcomer *c, uint64_t *left)
{
    const bool fits = span_need(m, c) <= *left;
    uint64_t lacking = 0;
    for (uint32_t g = 0, first, end; g < m->geo.n_group; g++) {
        const uint64_t chunk_bytes = m->geo.group[g].chunk_bytes;
        const uint64_t most = *left / (fits ? 1 : m->geo.n_group - g) / chunk_bytes;
        ready_range(m, c, g, &first, &end);
        if (end - first > most) end = first + (uint32_t)most;
        *left -= (end - first) * chunk_bytes;
        lacking += lane_prepare(m, sp, g, first, end);
    }
    return lacking;
}

static uint64_t spans_prepare(vt_manager *m, uint32_t n_span, uint64_t most)
{
    uint64_t left = most, lacking = 0;
    uint32_t n_whole = count_missing_fronts(m, n_span);
    vti_span *sp = m->vset.in[VTI_SPAN_IDLE].newest;
    for (uint32_t n = 0; n < n_span && sp; n++, sp = sp->older)
        lacking += span_prepare(m, sp, whom_for(m, sp, &n_whole), &left);
    m->ready_bytes = most - left;
    return lacking;
}

// ---- Where the memory comes from

// Lets the mapper take a portion of what a lane has mapped from a position on.
static bool surplus_post(vt_manager *m, vti_span *sp, uint32_t group, uint32_t least)
{
    const vti_lane *l = &sp->lane[group];
    const uint64_t most = VTI_PORTION_BYTES / m->geo.group[group].chunk_bytes + 1;
    uint32_t first = l->n_end;
    if (l->is_lent || first <= least || vti_span_is_quiet(m, sp) != VT_OK) return false;
    while (first > least && l->n_end - first < most && l->at[first - 1] != VTI_NO_CHUNK) first--;
    const vti_order_form form = {VTI_JOB_UNMAP, first, l->n_end - first, 0, VTI_REFILL};
    return vti_job_post(m, sp, group, &form) == VT_OK;
}

// Of those that are to be ready, what is for longer sequences. False: there is none.
static bool surplus_take_ready(vt_manager *m, uint32_t n_span)
{
    uint32_t n = 0, n_whole = count_missing_fronts(m, n_span);
    vti_span *sp = m->vset.in[VTI_SPAN_IDLE].newest;
    for (; n < n_span && sp; n++, sp = sp->older) {
        const vti_newcomer *c = whom_for(m, sp, &n_whole);
        for (uint32_t g = 0, first, end; g < m->geo.n_group; g++) {
            ready_range(m, c, g, &first, &end);
            if (surplus_post(m, sp, g, end)) return true;
        }
    }
    return false;
}

static bool is_among_newest(const vt_manager *m, const vti_span *sp, uint32_t n_span)
{
    const vti_span *it = m->vset.in[VTI_SPAN_IDLE].newest;
    for (uint32_t n = 0; n < n_span && it; n++, it = it->older)
        if (it == sp) return true;
    return false;
}

// Of the others, all.
static bool surplus_take_other(vt_manager *m, uint32_t n_span)
{
    for (vti_span *sp = m->vset.warm_idle.oldest; sp; sp = sp->warm_newer)
        for (uint32_t g = 0; g < m->geo.n_group && !is_among_newest(m, sp, n_span); g++)
            if (surplus_post(m, sp, g, 0)) return true;
    return false;
}

// How many spans the memory makes ready; at least a part of one.
static uint32_t count_spans(uint64_t bytes, uint64_t need)
{
    const uint64_t n = bytes / need;
    return n > READY_SPANS ? READY_SPANS : n > 1 ? (uint32_t)n : 1;
}

// Where mappings are scarce, they are for those that live. What goes back to the system is not made
// anew meanwhile.
void vti_newcomers_prepare(vt_manager *m)
{
    const uint64_t low = m->spare_low_bytes, high = m->spare_high_bytes, need = most_need(m);
    const uint64_t most = m->giving.is_on ? 0 : low < high ? low : high;
    vti_span *fresh;
    m->ready_bytes = 0;
    if (most == 0 || need == 0 || !vti_runs_fit(m, m->max_runs / 2)) return;
    if (vti_over_budget(m) > 0) return;
    const uint32_t n_span = count_spans(most, need);
    while (m->vset.in[VTI_SPAN_IDLE].n < n_span && vti_span_alloc(m, &fresh) == VT_OK) {
    }
    const uint64_t lacking = spans_prepare(m, n_span, most);
    if (lacking == 0 || surplus_take_ready(m, n_span) || surplus_take_other(m, n_span)) return;
    if (vti_spare_for_newcomers(m) + m->reserved_bytes >= most) return; // of another shape
    vti_prefixes_evict(m, lacking < VTI_PORTION_BYTES ? lacking : VTI_PORTION_BYTES);
    (void)spans_prepare(m, n_span, most);
}
