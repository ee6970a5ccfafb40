// span.c - what a span holds, where its next chunks come from, and who gets it when its sequence
// ends.
//
//   hold, alias, drop   positions [0, n_owned): chunks with tokens, its own or others'
//   back, shed          warm chunks behind them
//   home                the region that new chunks are taken from
//   retire, reap, take  from one sequence to the next
//
// Memory is wiped when a span is taken, or by the mapper before, not at release: what is given back
// to the system before anybody takes the span again need not be wiped, and release stays cheap. It
// must be then and not at extend, since from create on the new owner can read all that is mapped
// under its span.
#include "internal.h"

static bool is_free(const vt_manager *m, uint32_t region, uint32_t position)
{
    vt_chunk_state st = vti_pset_state(&m->pset, region, position);
    return st == VT_CHUNK_ABSENT || st == VT_CHUNK_SPARE;
}

// ---- Warm chunks

// The last warm stretch within [first, end): its positions are [*from, answer). 0: none.
static uint32_t warm_stretch(const vti_span *sp, uint32_t first, uint32_t end, uint32_t *from)
{
    if (first < sp->n_owned) first = sp->n_owned;
    if (end > sp->n_end) end = sp->n_end;
    while (end > first && sp->at[end - 1] == VTI_NO_REGION) end--;
    if (end <= first) return 0;
    *from = end - 1;
    while (*from > first && sp->at[*from - 1] != VTI_NO_REGION) (*from)--;
    return end;
}

// Gives warm chunks of [first, end) back to the system, the last ones first, max_n at most.
vt_status vti_span_shed(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end, uint32_t max_n)
{
    vti_job_settle(m, sp);
    VT_TRY(vti_mend(m, sp));
    if (sp->needs_fence) VT_TRY(vti_mark(m, sp));
    uint32_t from;
    while (max_n > 0 && (end = warm_stretch(sp, first, end, &from)) > 0) {
        if (end - from > max_n) from = end - max_n;
        max_n -= end - from;
        VT_TRY(vti_job_now(m, sp, VTI_JOB_SHED, from, end - from));
    }
    return VT_OK;
}

// The same with an idle span's last stretch, by the mapper. Answers how many chunks that are.
uint32_t vti_span_shed_beside(vt_manager *m, vti_span *sp, uint64_t max_n)
{
    uint32_t from, end;
    assert(sp->state == VTI_SPAN_IDLE);
    if (sp->is_lent || sp->tear.n > 0 || (end = warm_stretch(sp, 0, UINT32_MAX, &from)) == 0)
        return 0;
    if (end - from > max_n) from = end - (uint32_t)max_n;
    vt_status st = vti_job_post(m, sp, VTI_JOB_SHED, from, end - from, VTI_RETURN);
    return st == VT_OK ? end - from : 0;
}

// Places from `first` on where nothing is mapped and the home has no chunk, up to `end`.
static uint32_t absent_stretch(const vt_manager *m, const vti_span *sp, uint32_t first,
                               uint32_t end)
{
    uint32_t p = first;
    while (p < end && sp->at[p] == VTI_NO_REGION &&
           vti_pset_state(&m->pset, sp->home, p) == VT_CHUNK_ABSENT)
        p++;
    return p - first;
}

// A spare chunk that is mapped nowhere may hold anything: it is not used again.
static vt_status drop_unmapped(vt_manager *m, vti_span *sp, uint32_t position)
{
    bool spare = vti_pset_state(&m->pset, sp->home, position) == VT_CHUNK_SPARE;
    return spare ? vti_pfree(m, sp->home, position, 1) : VT_OK;
}

// Where the system itself is short, all spare chunks and then all idle prefixes go back to it
// before VT_NOSPACE is answered.
static vt_status back_now(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n)
{
    vt_status st = vti_job_now(m, sp, VTI_JOB_BACK, first, n);
    for (int effort = 0; st == VT_NOSPACE && effort < 2; effort++) {
        VT_TRY(vti_mend(m, sp));
        if (effort == 1) vti_evict_for(m, UINT64_MAX);
        uint64_t elsewhere = vti_spare(m, sp);
        if (elsewhere == 0) continue;
        VT_TRY(vti_reclaim(m, elsewhere, sp));
        st = vti_job_now(m, sp, VTI_JOB_BACK, first, n);
    }
    return st;
}

// How many places from `first` on a job may back at once: *n, 1 at least, not beyond `end`.
// Pre: nothing is mapped at `first`.
vt_status vti_span_stretch(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end, uint32_t *n)
{
    vti_job_settle(m, sp);
    VT_TRY(vti_mend(m, sp));
    VT_TRY(vti_span_home(m, sp, first, end));
    VT_TRY(drop_unmapped(m, sp, first));
    *n = absent_stretch(m, sp, first, end);
    return VT_OK;
}

// Makes warm chunks from `first` on, *n of them, 1 at least and not beyond `end`.
vt_status vti_span_back(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end, uint32_t *n)
{
    VT_TRY(vti_span_stretch(m, sp, first, end, n));
    VT_TRY(vti_make_room(m, sp, end, *n));
    VT_TRY(vti_make_runs(m, sp, vti_span_runs_if(&m->vset, sp, first, *n, sp->home)));
    return back_now(m, sp, first, *n);
}

// ---- Home

static vt_status home_leave(vt_manager *m, vti_span *sp)
{
    if (sp->home == VTI_NO_REGION) return VT_OK;
    VT_TRY(vti_span_shed(m, sp, 0, UINT32_MAX, UINT32_MAX));
    vti_pset_leave(&m->pset, sp->home);
    sp->home = VTI_NO_REGION;
    return VT_OK;
}

// Prefixes are evicted where they hold all regions there may be.
static vt_status home_open(vt_manager *m, vti_span *sp)
{
    vt_status st;
    while ((st = vti_pset_open(&m->pset, sp->id, &sp->home)) == VT_NOSPACE) {
        uint64_t had = vti_pset_created(&m->pset);
        vti_evict_for(m, 1);
        VT_TRY(vti_sweep(m));
        if (vti_pset_created(&m->pset) == had) break;
    }
    if (st != VT_OK) sp->home = VTI_NO_REGION;
    return st;
}

static bool all_free(const vt_manager *m, uint32_t region, uint32_t first, uint32_t end)
{
    for (uint32_t p = first; p < end; p++)
        if (!is_free(m, region, p)) return false;
    return true;
}

// Whether the region of the chunk before can be the home from `first` on.
static bool adoptable(const vt_manager *m, const vti_span *sp, uint32_t first, uint32_t end)
{
    if (first == 0 || sp->at[first - 1] == VTI_NO_REGION) return false;
    uint32_t region = sp->at[first - 1];
    return m->pset.region[region].home_of == VTI_NO_SPAN && all_free(m, region, first, end);
}

// A home that has nothing yet is given up for one that continues the last run.
static bool home_serves(const vt_manager *m, const vti_span *sp, uint32_t first, uint32_t end)
{
    if (sp->home == VTI_NO_REGION || !all_free(m, sp->home, first, end)) return false;
    return vti_pset_region_created(&m->pset, sp->home) > 0 || !adoptable(m, sp, first, end);
}

// Sees to it that the home has nobody's chunks at [first, end).
vt_status vti_span_home(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end)
{
    if (home_serves(m, sp, first, end)) return VT_OK;
    VT_TRY(home_leave(m, sp));
    if (!adoptable(m, sp, first, end)) return home_open(m, sp);
    sp->home = sp->at[first - 1];
    vti_pset_adopt(&m->pset, sp->home, sp->id);
    return VT_OK;
}

// ---- Holding

// The chunks mapped at [first, first + n) hold tokens from now on. Pre: first = n_owned.
void vti_span_hold(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n)
{
    assert(first == sp->n_owned);
    for (uint32_t p = first; p < first + n; p++) vti_pset_user_hold(&m->pset, sp->at[p], p);
    sp->n_owned += n;
}

// The span becomes one more holder of chunks. Pre: nothing is mapped there; first = n_owned.
vt_status vti_span_share(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n, uint32_t region,
                         vt_vmm_use use)
{
    VT_TRY(vti_make_runs(m, sp, vti_span_runs_if(&m->vset, sp, first, n, region)));
    VT_TRY(vti_map(m, sp, first, n, region, use));
    vti_span_hold(m, sp, first, n);
    return VT_OK;
}

// Shares the chunks that at[0 .. n) names. On failure some are shared already. Pre: nothing is held
// yet; no eviction can take these chunks away.
vt_status vti_span_alias(vt_manager *m, vti_span *sp, const uint32_t *at, uint32_t n)
{
    assert(sp->n_owned == 0);
    if (n == 0) return VT_OK;
    VT_TRY(vti_span_shed(m, sp, 0, n, UINT32_MAX));
    for (uint32_t p = 0, run; p < n; p += run) {
        run = vti_run(at, p, n);
        VT_TRY(vti_span_share(m, sp, p, run, at[p], VT_VMM_ALIAS));
    }
    return VT_OK;
}

static vt_status copy_in_place(vt_manager *m, vti_span *sp, uint32_t position, size_t size_bytes)
{
    uint32_t from = sp->at[position];
    VT_TRY(vti_map(m, sp, position, 1, sp->home, VT_VMM_WRITE));
    vt_status st = vti_fetch(m, sp, position, from, size_bytes);
    if (st != VT_OK) vti_map_back(m, sp, position, from);
    return st;
}

// The span gets a chunk of its own for a shared one that it holds, with the first size_bytes of
// each view. Pre: the home's place is free (vti_span_home) and there is room for a chunk.
vt_status vti_span_unshare(vt_manager *m, vti_span *sp, uint32_t position, size_t size_bytes)
{
    uint32_t from = sp->at[position];
    VT_TRY(drop_unmapped(m, sp, position));
    VT_TRY(vti_make_runs(m, sp, vti_span_runs_if(&m->vset, sp, position, 1, sp->home)));
    VT_TRY(vti_palloc(m, sp->home, position, 1));
    vt_status st = copy_in_place(m, sp, position, size_bytes);
    if (st != VT_OK) {
        if (sp->tear.n == 0) (void)vti_pfree(m, sp->home, position, 1);
        return st;
    }
    vti_pset_user_hold(&m->pset, sp->home, position);
    vti_pset_user_drop(&m->pset, from, position);
    return VT_OK;
}

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

// Where the run begins that ends at `end` and goes on no further than `keep`, of chunks that do not
// stay.
static uint32_t leaving_run(const vt_manager *m, const vti_span *sp, uint32_t keep, uint32_t end)
{
    uint32_t first = end - 1, region = sp->at[first];
    while (first > keep && sp->at[first - 1] == region && !stays_warm(m, sp, first - 1)) first--;
    return first;
}

// The last run in [keep, *end) that does not stay; false: none. *end is where it begins.
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

static vt_status lift_leaving(vt_manager *m, vti_span *sp, uint32_t keep)
{
    uint32_t end = sp->n_owned, n;
    while (next_leaving(m, sp, keep, &end, &n)) VT_TRY(vti_lift(m, sp, end, n));
    return VT_OK;
}

static vt_status lift_all(vt_manager *m, vti_span *sp, uint32_t first)
{
    for (uint32_t p = first, n; p < sp->n_owned; p += n) {
        n = vti_run(sp->at, p, sp->n_owned);
        if (sp->at[p] != VTI_NO_REGION) VT_TRY(vti_lift(m, sp, p, n));
    }
    return VT_OK;
}

// n_owned: none does.
static uint32_t first_leaving(const vt_manager *m, const vti_span *sp, uint32_t keep)
{
    uint32_t end = sp->n_owned, first = end, n;
    while (next_leaving(m, sp, keep, &end, &n)) first = end;
    return first;
}

// A live span keeps no warm chunks behind a hole: it would have a run more than before. (Shedding
// mends, and then what was lifted is to be lifted again.)
static vt_status lift_for(vt_manager *m, vti_span *sp, uint32_t keep)
{
    if (sp->state != VTI_SPAN_LIVE) return lift_leaving(m, sp, keep);
    if (first_leaving(m, sp, keep) == sp->n_owned) return VT_OK;
    VT_TRY(vti_span_shed(m, sp, 0, UINT32_MAX, UINT32_MAX));
    return lift_all(m, sp, first_leaving(m, sp, keep));
}

// Lets go of the positions from `keep` on. Chunks of its home that nobody else holds stay mapped,
// as warm and dirty ones; the others are unmapped.
vt_status vti_span_drop(vt_manager *m, vti_span *sp, uint32_t keep)
{
    vti_job_settle(m, sp);
    vt_status st = lift_for(m, sp, keep);
    if (st != VT_OK) {
        (void)vti_mend(m, sp); // else torn
        return st;
    }
    vti_lifted_drop(m, sp, keep);
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

// ---- From one sequence to the next

bool vti_span_dirty(const vti_span *sp, uint32_t *first, uint32_t *n)
{
    uint32_t end = warm_stretch(sp, 0, sp->n_dirty, first);
    *n = end > 0 ? end - *first : 0;
    return end > 0;
}

// Wipes the warm chunks.
vt_status vti_span_clean(vt_manager *m, vti_span *sp)
{
    vti_job_settle(m, sp);
    VT_TRY(vti_mend(m, sp));
    uint32_t first, n;
    while (vti_span_dirty(sp, &first, &n)) VT_TRY(vti_job_now(m, sp, VTI_JOB_ZERO, first, n));
    sp->n_dirty = 0;
    return VT_OK;
}

static vt_status device_done(vt_manager *m, vti_span *sp, bool wait, bool *is_done)
{
    *is_done = true;
    if (sp->needs_fence) VT_TRY(vti_mark(m, sp));
    if (sp->fence == 0) return VT_OK;
    return vti_met(m, m->vmm->ops->passed(m->vmm, sp->fence, wait, is_done));
}

// Has the mapper unmap a run that others hold: where there is much of it, that takes long.
static bool unmap_beside(vt_manager *m, vti_span *sp)
{
    uint32_t end = sp->n_owned, n;
    return m->mapper_kind == VT_MAPPER_THREAD && sp->tear.n == 0 && sp->n_lifted == 0 &&
           next_leaving(m, sp, 0, &end, &n) &&
           vti_job_post(m, sp, VTI_JOB_UNMAP, end, n, VTI_SOON) == VT_OK;
}

// A home of which others hold chunks is theirs from now on.
static vt_status reap_now(vt_manager *m, vti_span *sp)
{
    bool shared = home_is_shared(m, sp);
    VT_TRY(vti_span_drop(m, sp, 0));
    if (shared) VT_TRY(home_leave(m, sp));
    sp->fence = 0;
    vti_vset_move(&m->vset, sp, VTI_SPAN_IDLE);
    return VT_OK;
}

// What was asked for ahead is not needed any more.
static bool is_quiet(vt_manager *m, vti_span *sp, vti_reap how)
{
    if (how == VTI_REAP_TRY)
        return !sp->is_lent || (sp->job.kind != VTI_JOB_UNMAP && vti_job_cancel(m, sp));
    vti_job_settle(m, sp);
    return true;
}

static vt_status span_reap(vt_manager *m, vti_span *sp, vti_reap how)
{
    bool is_done;
    if (!is_quiet(m, sp, how)) return VT_OK;
    VT_TRY(device_done(m, sp, how == VTI_REAP_WAIT, &is_done));
    if (!is_done || (how == VTI_REAP_TRY && unmap_beside(m, sp))) return VT_OK;
    return reap_now(m, sp);
}

// A failing device leaves a span retired, and it is tried again.
vt_status vti_retired_reap(vt_manager *m, vti_reap how)
{
    vt_status st = VT_OK;
    for (vti_span *sp = m->vset.retired.oldest, *newer; sp; sp = newer) {
        newer = sp->newer;
        vt_status reaped = span_reap(m, sp, how);
        if (reaped != VT_OK) st = reaped;
    }
    vt_status swept = vti_sweep(m);
    return st != VT_OK ? st : swept;
}

void vti_span_retire(vt_manager *m, vti_span *sp)
{
    sp->seq = NULL;
    sp->needs_fence = true;
    (void)vti_mark(m, sp);
    vti_vset_move(&m->vset, sp, VTI_SPAN_RETIRED);
    (void)vti_retired_reap(m, VTI_REAP_TRY);
}

// What a sequence that aliases n_alias chunks and then needs `need` of its own finds in a span.
typedef struct fit {
    uint32_t n_alias, need;
} fit;

// Chunks to make and chunks to clear out of the way; then chunks too many. (Warm chunks mostly end
// where the map ends and have no gaps.)
static uint64_t misfit(const vti_span *sp, fit f)
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
static vti_span *best_idle(const vt_manager *m, fit f)
{
    vti_span *best = NULL;
    bool unknown = f.need == 0 && f.n_alias == 0;
    for (vti_span *sp = m->vset.idle.newest; sp; sp = sp->older) {
        if (sp->passed_over || sp->is_lent) continue;
        if (unknown && sp->n_warm > 0) return sp;
        if (!best || misfit(sp, f) < misfit(best, f)) best = sp;
    }
    return best;
}

// What aliases will cover need not be wiped.
static vt_status make_fit(vt_manager *m, vti_span *sp, uint32_t n_alias)
{
    if (n_alias > 0) VT_TRY(vti_span_shed(m, sp, 0, n_alias, UINT32_MAX));
    return vti_span_clean(m, sp);
}

// The best idle span that can be cleaned; one that cannot is handed to nobody.
static vti_span *idle_get(vt_manager *m, fit f, vt_status *st)
{
    vti_span *sp;
    while ((sp = best_idle(m, f)) != NULL) {
        *st = make_fit(m, sp, f.n_alias);
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
    fit f = {n_alias, need > n_alias ? need - n_alias : 0};
    (void)vti_retired_reap(m, VTI_REAP_TRY);
    vti_span *sp = idle_get(m, f, &st);
    if (!sp && m->vset.n_span < m->vset.n_max) {
        VT_TRY(vti_valloc(m, &sp));
    } else if (!sp) { // spans that the mapper works on, or that the device may still read
        vti_jobs_settle(m);
        (void)vti_retired_reap(m, VTI_REAP_WAIT);
        sp = idle_get(m, f, &st);
    }
    if (!sp) return st;
    vti_vset_move(&m->vset, sp, VTI_SPAN_LIVE);
    sp->generation++;
    *out = sp;
    return VT_OK;
}
