// span_take.c - the span for a new sequence: the idle one that fits best, or a new one.
//
// A span is wiped when it is taken, or before by the mapper, but not at release: chunks that go back
// to the system meanwhile need no wiping, and release stays cheap. It cannot wait until extend,
// since the new owner can read everything mapped under its span from the start.
#include "verbs.h"

#include "vtensor/common/try.h"

// What a sequence that aliases n_alias chunks and then needs `need` of its own finds in a span.
typedef struct span_want {
    uint32_t n_alias, need;
} span_want;

// Chunks to make and chunks to clear out of the way; then chunks too many. (Warm chunks mostly end
// where the map ends and have no gaps.)
static uint64_t fit_cost(const vti_span *sp, span_want f)
{
    uint32_t behind = sp->n_end > f.n_alias ? sp->n_end - f.n_alias : 0;
    uint32_t useful = sp->n_warm < behind ? sp->n_warm : behind;
    uint32_t lacking = f.need > useful ? f.need - useful : 0;
    uint32_t surplus = useful > f.need ? useful - f.need : 0;
    uint64_t in_the_way = sp->n_warm - useful;
    return ((lacking + in_the_way) << 32) + surplus;
}

// The best fit; of equal ones the newest. Where nothing is known of the need: the newest that is
// warm.
static vti_span *best_idle_span(const vt_manager *m, span_want f)
{
    vti_span *best = NULL;
    bool unknown = f.need == 0 && f.n_alias == 0;
    for (vti_span *sp = m->vset.idle.newest; sp; sp = sp->older) {
        if (sp->passed_over || sp->is_lent) continue;
        if (unknown && sp->n_warm > 0) return sp;
        if (!best || fit_cost(sp, f) < fit_cost(best, f)) best = sp;
    }
    return best;
}

// What aliases will cover need not be wiped.
static vt_status make_span_fit(vt_manager *m, vti_span *sp, uint32_t n_alias)
{
    if (n_alias > 0) VT_TRY(vti_span_shed(m, sp, 0, n_alias, UINT32_MAX));
    return vti_span_clean(m, sp);
}

// The best idle span that can be cleaned; one that cannot is handed to nobody.
static vti_span *get_idle_span(vt_manager *m, span_want f, vt_status *st)
{
    vti_span *sp;
    while ((sp = best_idle_span(m, f)) != NULL) {
        *st = make_span_fit(m, sp, f.n_alias);
        if (*st == VT_OK) break;
        sp->passed_over = true;
    }
    for (vti_span *it = m->vset.idle.newest; it; it = it->older) it->passed_over = false;
    return sp;
}

vt_status vti_span_take(vt_manager *m, uint32_t expect_tok, uint32_t n_alias, vti_span **out)
{
    vt_status st = VT_NOSPACE;
    if (expect_tok > m->geo.max_tok) expect_tok = m->geo.max_tok;
    uint32_t need = vti_geo_chunks(&m->geo, expect_tok);
    span_want f = {n_alias, need > n_alias ? need - n_alias : 0};
    (void)vti_spans_reap(m, VTI_REAP_TRY);
    vti_span *sp = get_idle_span(m, f, &st);
    if (!sp && m->vset.n_span < m->vset.n_max) {
        VT_TRY(vti_span_alloc(m, &sp));
    } else if (!sp) { // spans that the mapper works on, or that the device may still read
        vti_jobs_settle(m);
        (void)vti_spans_reap(m, VTI_REAP_WAIT);
        sp = get_idle_span(m, f, &st);
    }
    if (!sp) return st;
    vti_vset_move(&m->vset, sp, VTI_SPAN_LIVE);
    sp->generation++;
    *out = sp;
    return VT_OK;
}
