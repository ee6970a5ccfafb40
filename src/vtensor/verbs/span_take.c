// span_take.c - the span for a new sequence: the idle one that fits best, or a new one.
//
// A span is wiped when it is taken, or earlier by the mapper, but not at release: chunks that
// return to the system in between need no wiping, and release stays cheap. It cannot wait until
// extend, since the new owner can read everything mapped under its span from the start.
#include "verbs.h"

#include "vtensor/common/try.h"

// What a sequence wants of its span: n_alias aliased chunks, then `need` chunks of its own.
typedef struct span_want {
    uint32_t n_alias, need;
} span_want;

// Counts first the chunks to be made and those in the way, then the surplus. (Warm chunks mostly
// end where the map ends and have no gaps.)
static uint64_t fit_cost(const vti_span *sp, span_want want)
{
    uint32_t beyond = sp->n_end > want.n_alias ? sp->n_end - want.n_alias : 0;
    uint32_t useful = sp->n_warm < beyond ? sp->n_warm : beyond;
    uint32_t lacking = want.need > useful ? want.need - useful : 0;
    uint32_t surplus = useful > want.need ? useful - want.need : 0;
    uint64_t in_the_way = sp->n_warm - useful;
    return ((lacking + in_the_way) << 32) + surplus;
}

// The best fit, and among equals the newest. If the need is unknown: the newest that is warm.
static vti_span *best_idle_span(const vt_manager *m, span_want want)
{
    vti_span *best = NULL;
    bool unknown = want.need == 0 && want.n_alias == 0;
    for (vti_span *sp = m->vset.idle.newest; sp; sp = sp->older) {
        if (sp->passed_over || sp->is_lent) continue;
        if (unknown && sp->n_warm > 0) return sp;
        if (!best || fit_cost(sp, want) < fit_cost(best, want)) best = sp;
    }
    return best;
}

// Positions that aliases will cover need no wiping.
static vt_status make_span_fit(vt_manager *m, vti_span *sp, uint32_t n_alias)
{
    if (n_alias > 0) VT_TRY(vti_span_shed(m, sp, 0, n_alias, UINT32_MAX));
    return vti_span_clean(m, sp);
}

// The best idle span that can be wiped. A span that cannot be wiped is not handed out.
static vti_span *get_idle_span(vt_manager *m, span_want want, vt_status *st)
{
    vti_span *sp;
    while ((sp = best_idle_span(m, want)) != NULL) {
        *st = make_span_fit(m, sp, want.n_alias);
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
    span_want want = {n_alias, need > n_alias ? need - n_alias : 0};
    (void)vti_spans_reap(m, VTI_REAP_TRY);
    vti_span *sp = get_idle_span(m, want, &st);
    if (!sp && m->vset.n_span < m->vset.n_max) {
        VT_TRY(vti_span_alloc(m, &sp));
    } else if (!sp) { // spans that the mapper works on, or that the device may still read
        vti_jobs_settle(m);
        (void)vti_spans_reap(m, VTI_REAP_WAIT);
        sp = get_idle_span(m, want, &st);
    }
    if (!sp) return st;
    vti_vset_move(&m->vset, sp, VTI_SPAN_LIVE);
    sp->generation++;
    *out = sp;
    return VT_OK;
}
