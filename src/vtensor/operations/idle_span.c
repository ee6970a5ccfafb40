// idle_span.c - idle spans: allocating and freeing them, the one that a new sequence gets, and the
// memory made ready in them for sequences to come.
//
// A span is wiped when it is taken, or earlier by the mapper, but not at release: chunks that go
// elsewhere in between need no wiping there, and release stays cheap. It cannot wait until extend,
// since the new owner can read everything mapped under its span from the start.
//
// A few idle spans are mapped and wiped as far as recent sequences went, so that each of the
// next ones finds what it begins with, and makes no system call. How far follows from those that
// came (vti_arrivals). Some share nothing, others a recorded prompt, and what is mapped where that
// goes would be in its way. So as many spans as were asked for recently are ready from position 0
// on, the others from the end of the shared tokens on. What is ready stays below spare_low_bytes.
// It comes from the pool and what the budget has left; else from what idle spans have beyond that,
// and then from prefixes, a portion in each step.
#include "operations.h"

#include <assert.h>

vt_status vti_span_alloc(vt_manager *m, vti_span **out)
{
    vti_span *sp;
    VT_TRY(vti_vset_push(&m->vset, &sp));
    vt_status st = vti_tally_backend(m, m->vmm->ops->reserve(m->vmm, m->geo.span_bytes, &sp->addr));
    if (st != VT_OK) {
        vti_vset_pop(&m->vset);
        return st;
    }
    *out = sp;
    return VT_OK;
}

// ---- Free

// Spans are freed with their manager only. If the backend cannot unmap, the addresses stay reserved
// until the process ends, since something is still mapped there.
void vti_span_free(vt_manager *m, vti_span *sp)
{
    assert(sp->id == m->vset.n_span - 1 && sp->state != VTI_SPAN_LIVE);
    vt_status st = sp->is_lost ? vti_quarantine_clear(m, sp) : VT_OK;
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        if (sp->lane[g].region != VTI_NO_CHUNK)
            vti_pset_region_close(&m->pset, m->geo.group[g].cls, sp->lane[g].region);
    for (int attempt = 0; attempt < 2 && st == VT_OK; attempt++) // a failure may be temporary
        if (vti_tally_backend(m, m->vmm->ops->unreserve(m->vmm, sp->addr, m->geo.span_bytes)) ==
            VT_OK)
            break;
    vti_vset_pop(&m->vset);
}

// ---- Take

// Compares first the chunks to be made and those in the way, then the surplus; where released spans
// keep more than they may, all of these count alike.
static uint64_t fit_cost(const vt_manager *m, const vti_span *sp, uint32_t expect_tok,
                         uint32_t alias_tok)
{
    uint64_t cost = 0;
    const int first = vti_has_surplus(m) ? 0 : 32;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        const vti_lane *l = &sp->lane[g];
        uint32_t n_alias = vti_group_whole(&m->geo.group[g], alias_tok);
        uint32_t end = vti_group_chunks(&m->geo.group[g], expect_tok);
        uint32_t need = end > n_alias ? end - n_alias : 0;
        uint32_t beyond = l->n_end > n_alias ? l->n_end - n_alias : 0;
        uint32_t in_way = l->n_mapped_free > beyond ? l->n_mapped_free - beyond : 0; // at least
        uint32_t lacking = need > 0 ? vti_lane_count_unmapped(l, n_alias, end) : 0;
        uint32_t surplus = l->n_mapped_free - in_way - (need - lacking);
        cost += ((uint64_t)(lacking + in_way) << first) + surplus;
    }
    return cost;
}

// A new sequence looks at so many idle spans, the newest. What older ones keep is not lost: extend
// takes mapped-free chunks from idle spans, the longest idle first.
enum { MAX_LOOK = 32 };

// The best fit, and among equals the newest. If nothing is known: the newest with free chunks.
static vti_span *best_idle_span(vt_manager *m, uint32_t expect_tok, uint32_t alias_tok)
{
    vti_span *best = NULL;
    uint64_t least = UINT64_MAX;
    uint32_t n_look = 0;
    vti_span *sp = m->vset.in[VTI_SPAN_IDLE].newest;
    for (; sp && n_look < MAX_LOOK && (least > 0 || expect_tok == 0); sp = sp->older) {
        if (vti_span_in_flight(&m->vset, sp) || vti_span_is_quiet(m, sp) != VT_OK) continue;
        if (expect_tok == 0 && sp->lane[0].n_mapped_free > 0) return sp;
        n_look++;
        uint64_t cost = fit_cost(m, sp, expect_tok, alias_tok);
        if (best && cost >= least) continue;
        best = sp;
        least = cost;
    }
    return best;
}

// Wipes the mapped-free chunks. Positions that aliases will cover need no wiping: they go away.
static vt_status span_wipe(vt_manager *m, vti_span *sp, uint32_t alias_tok)
{
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        vti_lane *l = &sp->lane[g];
        uint32_t end = vti_group_whole(&m->geo.group[g], alias_tok);
        size_t slice_bytes = m->geo.group[g].slice_bytes;
        for (uint32_t p = end, n; p * slice_bytes < l->dirty_end; p += n + (n == 0)) {
            for (n = 0; vti_lane_at(l, p + n) != VTI_NO_CHUNK; n++) {
            }
            size_t to = (p + n) * slice_bytes;
            sp->needs_fence |= n > 0;
            if (n > 0)
                VT_TRY(vti_lane_zero(m, sp, g, p * slice_bytes,
                                     to < l->dirty_end ? to : l->dirty_end));
        }
        size_t kept = end * slice_bytes;
        if (l->dirty_end > kept) l->dirty_end = kept;
    }
    return VT_OK;
}

static vt_status idle_or_new(vt_manager *m, uint32_t expect_tok, uint32_t alias_tok, vti_span **out)
{
    *out = best_idle_span(m, expect_tok, alias_tok);
    if (*out) return VT_OK;
    if (m->vset.n_span < m->vset.n_max) return vti_span_alloc(m, out);
    if (!vti_span_reap_oldest(m)) {
        vti_jobs_settle(m);
        (void)vti_spans_reap(m, VTI_REAP_NOW);
        vti_quarantine_retry(m);
    }
    *out = best_idle_span(m, expect_tok, alias_tok);
    return *out ? VT_OK : VT_BUSY;
}

vt_status vti_span_take(vt_manager *m, uint32_t expect_tok, uint32_t alias_tok, vti_span **out)
{
    vti_span *sp;
    if (expect_tok > m->geo.max_tok) expect_tok = m->geo.max_tok;
    (void)vti_spans_reap(m, VTI_REAP_POST);
    do {
        VT_TRY(idle_or_new(m, expect_tok, alias_tok, &sp));
        // Where spans keep more than they may, this one keeps what the sequence is to need.
        const bool drops = expect_tok > 0 && vti_has_surplus(m);
        for (uint32_t g = 0; drops && g < m->geo.n_group; g++)
            if (sp->state == VTI_SPAN_IDLE)
                (void)vti_surplus_unmap(m, sp, g, vti_group_chunks(&m->geo.group[g], expect_tok));
    } while (sp->state != VTI_SPAN_IDLE); // the device failed, and the span is quarantined
    VT_TRY(span_wipe(m, sp, alias_tok));
    vti_vset_move(&m->vset, sp, VTI_SPAN_LIVE);
    sp->generation++;
    *out = sp;
    return VT_OK;
}

enum {
    READY_SPANS = 8,
    READY_AT_ONCE = 256, // chunks that a step plans for a lane
};

// ---- What new sequences begin with

// Moves a value towards what is seen: fast in one direction, slowly in the other.
static uint32_t follow_fast(uint32_t value, uint32_t seen, bool upwards)
{
    const int64_t more = (int64_t)seen - value;
    const int64_t part = (more > 0) == upwards ? 2 : 16;
    return (uint32_t)(value + (more + (more > 0 ? part - 1 : 1 - part)) / part);
}

// Preparing too much costs little: the end follows long sequences, the beginning short hits.
void vti_arrival_note(vt_manager *m, uint32_t hit_tok, uint32_t n_tok)
{
    vti_arrivals *all = &m->arrivals;
    if (n_tok == 0) return;
    bool shares = false;
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        shares |= vti_group_whole(&m->geo.group[g], hit_tok) > 0;
    const bool is_first = all->whole.n_tok == 0 && all->sharing.n_tok == 0;
    const int32_t seen = shares ? 256 : 0, was = (int32_t)all->n_sharing;
    all->n_sharing = (uint32_t)(is_first ? seen : was + (seen - was) / 16);
    vti_arrival *c = shares ? &all->sharing : &all->whole;
    c->hit_tok = c->n_tok == 0 ? hit_tok : follow_fast(c->hit_tok, hit_tok, false);
    c->n_tok = c->n_tok == 0 ? n_tok : follow_fast(c->n_tok, n_tok, true);
}

// Positions [*first, *end) of a lane; all of it before the first sequence has come.
static void ready_range(const vt_manager *m, const vti_arrival *c, uint32_t group, uint32_t *first,
                        uint32_t *end)
{
    const vti_lane_geo *gr = &m->geo.group[group];
    const uint32_t n_tok = c->n_tok > 0 && c->n_tok < m->geo.max_tok ? c->n_tok : m->geo.max_tok;
    *end = vti_group_chunks(gr, n_tok);
    *first = vti_group_whole(gr, c->hit_tok < n_tok ? c->hit_tok : n_tok);
}

static uint64_t span_need(const vt_manager *m, const vti_arrival *c)
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
    const vti_arrivals *all = &m->arrivals;
    if (all->sharing.n_tok == 0) return span_need(m, &all->whole);
    uint64_t whole = all->whole.n_tok > 0 ? span_need(m, &all->whole) : 0;
    uint64_t sharing = span_need(m, &all->sharing);
    return whole > sharing ? whole : sharing;
}

// Whether something is in the way of a shared prompt, or will be.
static bool has_front(const vt_manager *m, const vti_span *sp)
{
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        const vti_lane *l = &sp->lane[g];
        const bool is_coming = l->job.in_flight && l->job.kind == VTI_JOB_BACK && l->job.first == 0;
        if (vti_group_whole(&m->geo.group[g], m->arrivals.sharing.hit_tok) == 0) continue;
        if (is_coming || vti_lane_at(l, 0) != VTI_NO_CHUNK) return true;
    }
    return false;
}

// What a span is for. A front that is there stays; *n_whole of the spans without one get one.
static const vti_arrival *whom_for(const vt_manager *m, const vti_span *sp, uint32_t *n_whole)
{
    const vti_arrivals *all = &m->arrivals;
    if (all->sharing.n_tok == 0) return &all->whole;
    if (all->whole.n_tok == 0) return &all->sharing;
    if (has_front(m, sp)) return &all->whole;
    if (*n_whole == 0) return &all->sharing;
    --*n_whole;
    return &all->whole;
}

// How many of the newest n_span idle spans are still to get a front.
static uint32_t count_missing_fronts(const vt_manager *m, uint32_t n_span)
{
    uint32_t n_whole = n_span - n_span * m->arrivals.n_sharing / 256, n = 0;
    const vti_span *sp = m->vset.in[VTI_SPAN_IDLE].newest;
    for (; n < n_span && sp; n++, sp = sp->older) n_whole -= n_whole > 0 && has_front(m, sp);
    return n_whole;
}

// ---- Making spans ready

// Posts what is unmapped in [first, end), as far as there is memory for it. Returns the bytes for
// which there is none.
static uint64_t lane_prepare(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                             uint32_t end)
{
    const vti_lane_geo *gr = &m->geo.group[group];
    const vti_lane *l = &sp->lane[group];
    const uint32_t n_unmapped = l->job.in_flight ? 0 : vti_lane_count_unmapped(l, first, end);
    // Chunks that can be had without taking them from a span or a prefix.
    const uint64_t budget = vti_has_surplus(m) ? 0 : vti_budget_left(m);
    const uint64_t n_free = m->pset.cls[gr->cls].n_in[VTI_POOLED] + budget / gr->chunk_bytes;
    if (n_unmapped == 0) return 0;
    first = vti_lane_first_unmapped(l, first, end);
    if (end - first > n_free) end = first + (uint32_t)n_free;
    if (end - first > READY_AT_ONCE) end = first + READY_AT_ONCE;
    if (end > first) (void)vti_lane_back_ahead(m, sp, group, first, end, VTI_REFILL);
    return n_unmapped > n_free ? (n_unmapped - n_free) * gr->chunk_bytes : 0;
}

// Where not all fits, each lane gets a share.
static uint64_t span_prepare(vt_manager *m, vti_span *sp, const vti_arrival *c, uint64_t *left)
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
    const uint32_t portion = vti_portion_chunks(m, m->geo.group[group].cls);
    const uint32_t end = sp->lane[group].n_end, n = end > least ? end - least : 0;
    return n > 0 && vti_mapped_free_post(m, sp, group, n < portion ? n : portion, VTI_REFILL) > 0;
}

// Takes what the spans that are to be ready have for longer sequences. False: there is none.
static bool surplus_take_ready(vt_manager *m, uint32_t n_span)
{
    uint32_t n = 0, n_whole = count_missing_fronts(m, n_span);
    vti_span *sp = m->vset.in[VTI_SPAN_IDLE].newest;
    for (; n < n_span && sp; n++, sp = sp->older) {
        const vti_arrival *c = whom_for(m, sp, &n_whole);
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

// Takes all that the other spans have.
static bool surplus_take_other(vt_manager *m, uint32_t n_span)
{
    for (vti_span *sp = m->vset.idle_mapped.oldest; sp; sp = sp->mapped_newer)
        for (uint32_t g = 0; g < m->geo.n_group && !is_among_newest(m, sp, n_span); g++)
            if (surplus_post(m, sp, g, 0)) return true;
    return false;
}

// Where mappings are scarce, they are for those that live. What goes back to the system is not made
// anew meanwhile.
void vti_arrivals_prepare(vt_manager *m)
{
    const uint64_t low = m->spare_low_bytes, high = m->spare_high_bytes, need = most_need(m);
    const uint64_t most = m->giving.is_on ? 0 : low < high ? low : high;
    vti_span *fresh;
    m->ready_bytes = 0;
    if (most == 0 || need == 0 || !vti_runs_fit(m, m->max_runs / 2)) return;
    if (vti_over_budget(m) > 0) return;
    uint32_t n_span = most / need < READY_SPANS ? (uint32_t)(most / need) : READY_SPANS;
    if (n_span == 0) n_span = 1; // a part of one
    while (m->vset.in[VTI_SPAN_IDLE].n < n_span && vti_span_alloc(m, &fresh) == VT_OK) {
    }
    const uint64_t lacking = spans_prepare(m, n_span, most);
    if (lacking == 0 || surplus_take_ready(m, n_span) || surplus_take_other(m, n_span)) return;
    if (vti_spare_for_arrivals(m) + m->reserved_bytes >= most) return; // of another shape
    vti_prefixes_evict(m, lacking < VTI_PORTION_BYTES ? lacking : VTI_PORTION_BYTES);
    (void)spans_prepare(m, n_span, most);
}
