// reclaim.c - makes room in the budget and among the mappings: spare chunks go back to the system,
// prefixes are evicted.
//
// Memory is taken in this order:
//   1. stray chunks (strays.c);
//   2. warm chunks of idle spans, the longest idle first;
//   3. warm chunks of live spans, beyond the end of their sequence; then of retired spans, after
//      waiting for the device;
//   4. prefixes that no sequence uses, the least valuable first (their chunks become stray);
//   5. the ends of prefixes in use that no sequence holds (rtree_cut.c).
// A span loses its last chunks first, so that a prefix of its positions stays mapped. A span whose
// chunks cannot be freed is skipped: they stay spare and counted.
#include "verbs.h"

#include "vtensor/common/try.h"

uint64_t vti_spare_count(const vt_manager *m, const vti_span *except)
{
    return m->pset.n_in[VT_CHUNK_SPARE] - (except ? except->n_warm : 0);
}

// ---- Warm chunks

static vti_span *next_in_state(const vti_vset *vs, vti_span_state state, uint32_t id)
{
    for (; id < vs->n_span; id++)
        if (vs->span[id]->state == state) return vs->span[id];
    return NULL;
}

// The next span in the order above; the first for NULL.
static vti_span *next_holder(const vti_vset *vs, const vti_span *sp)
{
    vti_span *next = NULL;
    if (!sp || sp->state == VTI_SPAN_IDLE) next = sp ? sp->newer : vs->idle.oldest;
    if (!next && (!sp || sp->state != VTI_SPAN_RETIRED))
        next = next_in_state(vs, VTI_SPAN_LIVE, sp && sp->state == VTI_SPAN_LIVE ? sp->id + 1 : 0);
    bool among = sp && sp->state == VTI_SPAN_RETIRED;
    return next ? next : next_in_state(vs, VTI_SPAN_RETIRED, among ? sp->id + 1 : 0);
}

// Repairs all spans: chunks that a tear left mapped in some views become stray.
static vt_status repair_all(vt_manager *m)
{
    vt_status st = VT_OK;
    for (uint32_t i = 0; i < m->vset.n_span; i++) {
        vti_span *sp = m->vset.span[i];
        vt_status repaired = sp->is_lent ? VT_OK : vti_span_repair(m, sp);
        if (repaired != VT_OK) st = repaired;
    }
    return st;
}

// Sheds up to max_n warm chunks of a span; *n_freed grows by their number. (A job that ends
// meanwhile may add some.)
static vt_status shed_counted(vt_manager *m, vti_span *sp, uint64_t max_n, uint64_t *n_freed)
{
    vti_job_settle(m, sp);
    uint64_t had = vti_pset_created(&m->pset);
    uint32_t n = max_n < UINT32_MAX ? (uint32_t)max_n : UINT32_MAX;
    vt_status st = vti_span_shed(m, sp, 0, UINT32_MAX, n);
    *n_freed += had - vti_pset_created(&m->pset);
    return st;
}

static vt_status sweep_counted(vt_manager *m, uint64_t *n_freed)
{
    uint64_t had = vti_pset_created(&m->pset);
    vt_status st = repair_all(m), swept = vti_strays_free(m);
    *n_freed += had - vti_pset_created(&m->pset);
    return swept != VT_OK ? swept : st;
}

vt_status vti_spare_reclaim(vt_manager *m, uint64_t n_chunk, const vti_span *except)
{
    uint64_t n_freed = 0;
    vt_status st = sweep_counted(m, &n_freed);
    for (vti_span *sp = NULL; n_freed < n_chunk && (sp = next_holder(&m->vset, sp));) {
        if (sp == except || sp->n_warm == 0) continue;
        vt_status shed = shed_counted(m, sp, n_chunk - n_freed, &n_freed);
        if (shed != VT_OK) st = shed;
    }
    if (n_freed >= n_chunk) return VT_OK;
    return st != VT_OK ? st : VT_NOSPACE;
}

// The mapper does it, if there is one. Chunks that cannot be freed stay spare and counted; the next
// release or step tries again.
void vti_spare_return_excess(vt_manager *m)
{
    uint64_t spare = vti_spare_count(m, NULL), stays = m->spare_high_chunks + m->n_leaving;
    if (spare <= stays) return;
    uint64_t excess = spare - stays;
    if (m->mapper_kind == VT_MAPPER_OWNER) {
        (void)vti_spare_reclaim(m, excess, NULL);
        return;
    }
    for (vti_span *sp = m->vset.idle.oldest; sp && excess > 0; sp = sp->newer)
        excess -= vti_span_shed_async(m, sp, excess);
}

// ---- Prefixes

void vti_prefixes_evict(vt_manager *m, uint64_t n_chunk)
{
    uint64_t goal = m->pset.n_in[VT_CHUNK_SPARE] + n_chunk;
    if (goal < n_chunk) goal = UINT64_MAX;
    vti_node *leaf;
    while (m->pset.n_in[VT_CHUNK_SPARE] < goal &&
           (leaf = vti_rtree_victim(m->rtree, m->now_ms)) != NULL) {
        vti_rtree_note_eviction(m->rtree, leaf);
        vti_rtree_drop(m->rtree, leaf);
        m->tally.prefix_evicted++;
    }
}

// ---- Room

static uint64_t budget_shortfall(const vt_manager *m, uint64_t n_chunk)
{
    uint64_t want = vti_pset_created(&m->pset) + m->n_reserved + n_chunk;
    return want > m->budget_chunks ? want - m->budget_chunks : 0;
}

// Warm chunks of sp from position `end` on.
static uint32_t warm_from(const vti_span *sp, uint32_t end)
{
    uint32_t n = 0, p = sp ? (end > sp->n_owned ? end : sp->n_owned) : 0;
    for (; sp && p < sp->n_end; p++) n += sp->at[p] != VTI_NO_REGION;
    return n;
}

static bool can_free_chunks(vt_manager *m, const vti_span *sp, uint32_t end, uint64_t n_chunk)
{
    uint64_t has = vti_spare_count(m, sp) + warm_from(sp, end);
    if (n_chunk > has) has += vti_rtree_evictable(m->rtree, m->now_ms);
    if (n_chunk > has) has += vti_rtree_cuttable(m->rtree, m->now_ms);
    return n_chunk <= has;
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool cut_one_prefix(vt_manager *m)
{
    bool is_cut = vti_rtree_cut(m->rtree, m->now_ms);
    m->tally.prefix_evicted += is_cut;
    return is_cut;
}

// First evicts prefixes that no sequence uses, then cuts those in use.
static void shed_prefixes(vt_manager *m, uint64_t n_chunk)
{
    uint64_t goal = m->pset.n_in[VT_CHUNK_SPARE] + n_chunk;
    do vti_prefixes_evict(m, goal - least_of(goal, m->pset.n_in[VT_CHUNK_SPARE]));
    while (m->pset.n_in[VT_CHUNK_SPARE] < goal && cut_one_prefix(m));
}

// Takes others' spare chunks first, then those of sp from `end` on, then prefixes.
static vt_status reclaim_for_span(vt_manager *m, vti_span *sp, uint32_t end, uint64_t n_chunk)
{
    uint64_t n_other = least_of(n_chunk, vti_spare_count(m, sp));
    uint64_t n_own = least_of(n_chunk - n_other, warm_from(sp, end));
    shed_prefixes(m, n_chunk - n_other - n_own);
    VT_TRY(vti_spare_reclaim(m, n_chunk - n_own, sp));
    return n_own > 0 ? vti_span_shed(m, sp, end, UINT32_MAX, (uint32_t)n_own) : VT_OK;
}

vt_status vti_room_make(vt_manager *m, vti_span *sp, uint32_t end, uint64_t n_chunk)
{
    if (budget_shortfall(m, n_chunk) == 0) return VT_OK;
    vti_jobs_settle(m);
    (void)vti_spans_reap(m, VTI_REAP_NOW);
    if (!can_free_chunks(m, sp, end, budget_shortfall(m, n_chunk)))
        (void)vti_spans_reap(m, VTI_REAP_WAIT);
    uint64_t short_of = budget_shortfall(m, n_chunk);
    if (short_of == 0) return VT_OK;
    return can_free_chunks(m, sp, end, short_of) ? reclaim_for_span(m, sp, end, short_of)
                                                 : VT_NOSPACE;
}

vt_status vti_room_from_idle(vt_manager *m, const vti_span *sp, uint64_t n_chunk)
{
    uint64_t short_of = budget_shortfall(m, n_chunk), idle = 0;
    if (short_of == 0) return VT_OK;
    for (const vti_span *it = m->vset.idle.oldest; it; it = it->newer)
        if (it != sp) idle += it->n_warm;
    return short_of <= idle ? vti_spare_reclaim(m, short_of, sp) : VT_NOSPACE;
}

bool vti_runs_fit(const vt_manager *m, int64_t n_run)
{
    int64_t all = (int64_t)(m->vset.n_run + m->runs_reserved) + n_run;
    return n_run <= 0 || (uint64_t)all <= m->max_runs / m->geo.n_view;
}

// Only a span that sheds all its chunks frees runs.
vt_status vti_runs_make(vt_manager *m, const vti_span *sp, int64_t n_run)
{
    vt_status st = VT_NOSPACE;
    if (vti_runs_fit(m, n_run)) return VT_OK;
    vti_jobs_settle(m);
    (void)vti_spans_reap(m, VTI_REAP_NOW);
    for (vti_span *it = NULL; !vti_runs_fit(m, n_run);) {
        it = next_holder(&m->vset, it);
        if (!it) return st;
        if (it == sp || it->n_owned > 0) continue;
        vt_status shed = vti_span_shed(m, it, 0, UINT32_MAX, UINT32_MAX);
        if (shed != VT_OK) st = shed;
    }
    return VT_OK;
}
