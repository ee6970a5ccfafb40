// span_life.c - vAlloc and vFree of spans, and the span for a new sequence: the idle one that fits
// best, or a new one.
//
// A span is wiped when it is taken, or earlier by the mapper, but not at release: chunks that go
// elsewhere in between need no wiping there, and release stays cheap. It cannot wait until extend,
// since the new owner can read everything mapped under its span from the start.
#include "verbs.h"

#include <assert.h>

#include "vtensor/core/common.h"

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

// Tries twice: a failure of the device may be temporary.
static void span_unreserve(vt_manager *m, const vti_span *sp)
{
    vt_status st = VT_EDEVICE;
    for (int attempt = 0; attempt < 2 && st != VT_OK; attempt++)
        st = vti_tally_backend(m, m->vmm->ops->unreserve(m->vmm, sp->addr, m->geo.span_bytes));
}

// Spans are freed with their manager only. If the backend cannot unmap, the addresses stay reserved
// until the process ends, since something is still mapped there.
void vti_span_free(vt_manager *m, vti_span *sp)
{
    assert(sp->id == m->vset.n_span - 1 && sp->state != VTI_SPAN_LIVE);
    vt_status st = sp->is_lost ? vti_quarantine_clear(m, sp) : VT_OK;
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        if (sp->lane[g].home != VTI_NO_CHUNK)
            vti_pset_home_close(&m->pset, m->geo.group[g].cls, sp->lane[g].home);
    if (st == VT_OK) span_unreserve(m, sp);
    vti_vset_pop(&m->vset);
}

// ---- Take

// Counts first the chunks to be made and those in the way, then the surplus; all alike where
// released spans keep more than they may.
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
        uint32_t in_way = l->n_warm > beyond ? l->n_warm - beyond : 0; // at least
        uint32_t lacking = need > 0 ? vti_lane_count_cold(l, n_alias, end) : 0;
        uint32_t surplus = l->n_warm - in_way - (need - lacking);
        cost += ((uint64_t)(lacking + in_way) << first) + surplus;
    }
    return cost;
}

// A new sequence looks at so many idle spans, the newest. What older ones keep is not lost: extend
// takes warm chunks from idle spans, the longest idle first.
enum { MAX_LOOK = 32 };

// The best fit, and among equals the newest. If nothing is known: the newest that is warm.
static vti_span *best_idle_span(vt_manager *m, uint32_t expect_tok, uint32_t alias_tok)
{
    vti_span *best = NULL;
    uint64_t least = UINT64_MAX;
    uint32_t n_look = 0;
    vti_span *sp = m->vset.in[VTI_SPAN_IDLE].newest;
    for (; sp && n_look < MAX_LOOK && (least > 0 || expect_tok == 0); sp = sp->older) {
        if (vti_span_is_lent(&m->vset, sp) || vti_span_is_quiet(m, sp) != VT_OK) continue;
        if (expect_tok == 0 && sp->lane[0].n_warm > 0) return sp;
        n_look++;
        uint64_t cost = fit_cost(m, sp, expect_tok, alias_tok);
        if (best && cost >= least) continue;
        best = sp;
        least = cost;
    }
    return best;
}

// Wipes what is warm. Positions that aliases will cover need no wiping: they go away.
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

// Where spans keep more than they may, this one keeps what the sequence is expected to need. False:
// the device failed, and the span is quarantined.
static bool drop_surplus(vt_manager *m, vti_span *sp, uint32_t expect_tok)
{
    if (expect_tok > 0 && vti_has_surplus(m))
        for (uint32_t g = 0; g < m->geo.n_group && sp->state == VTI_SPAN_IDLE; g++)
            (void)vti_surplus_unmap(m, sp, g, vti_group_chunks(&m->geo.group[g], expect_tok));
    return sp->state == VTI_SPAN_IDLE;
}

vt_status vti_span_take(vt_manager *m, uint32_t expect_tok, uint32_t alias_tok, vti_span **out)
{
    vti_span *sp;
    if (expect_tok > m->geo.max_tok) expect_tok = m->geo.max_tok;
    (void)vti_spans_reap(m, VTI_REAP_POST);
    do VT_TRY(idle_or_new(m, expect_tok, alias_tok, &sp));
    while (!drop_surplus(m, sp, expect_tok));
    VT_TRY(span_wipe(m, sp, alias_tok));
    vti_vset_move(&m->vset, sp, VTI_SPAN_LIVE);
    sp->generation++;
    *out = sp;
    return VT_OK;
}
