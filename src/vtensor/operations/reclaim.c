// reclaim.c - makes room: free chunks go where they are needed, or back to the system, and
// prefixes are evicted.
//
// Memory is taken in this order:
//   1. the pool, and what the budget has left, unless idle spans keep more than spare_high;
//   2. mapped-free chunks of idle spans, the longest idle first, the last positions first, except
//      what is ready for new sequences;
//   3. the free chunks of other classes, which are destroyed;
//   4. prefixes that no sequence uses, the least valuable block first;
//   5. what is ready for new sequences;
//   6. mapped-free chunks of other live spans, beyond the end of their sequence.
// Nothing is taken before it is known that all of it suffices (check_room).
#include "operations.h"

#include <assert.h>
#include <stdlib.h>

// ---- Gauges

static uint64_t bytes_in_use(const vt_manager *m)
{
    return vti_pset_created_bytes(&m->pset) + m->reserved_bytes;
}

static uint64_t bytes_beyond(uint64_t bytes, uint64_t keep_bytes)
{
    return bytes > keep_bytes ? bytes - keep_bytes : 0;
}

uint64_t vti_excess_bytes(const vt_manager *m, uint64_t budget_bytes)
{
    return bytes_beyond(bytes_in_use(m), budget_bytes);
}

uint64_t vti_over_budget(const vt_manager *m)
{
    return vti_excess_bytes(m, m->budget_bytes);
}

uint64_t vti_budget_left(const vt_manager *m)
{
    uint64_t used = bytes_in_use(m);
    uint64_t most = used > m->budget_bytes ? m->ceiling_bytes : m->budget_bytes;
    if (most > m->system_bytes) most = m->system_bytes;
    return bytes_beyond(most, used);
}

bool vti_system_note_full(vt_manager *m)
{
    uint64_t used = bytes_in_use(m);
    bool is_news = used < m->system_bytes;
    if (is_news) m->system_bytes = used;
    return is_news;
}

uint64_t vti_spare_for_arrivals(const vt_manager *m)
{
    return vti_pset_bytes(&m->pset, VTI_POOLED) + m->vset.mapped_free_bytes[VTI_SPAN_IDLE];
}

static bool room_suffices(vt_manager *m, const vti_span *sp, uint64_t bytes)
{
    uint64_t live = m->vset.mapped_free_bytes[VTI_SPAN_LIVE];
    if (sp && sp->state == VTI_SPAN_LIVE) live -= vti_span_mapped_free_bytes(&m->vset, sp);
    uint64_t over = vti_over_budget(m), left = over > 0 ? 0 : vti_budget_left(m);
    return bytes + over <=
           left + vti_spare_for_arrivals(m) + vti_pset_bytes(&m->pset, VTI_EVICTABLE) + live;
}

static bool room_may_come(const vt_manager *m)
{
    if (vti_spans_retired(m) > 0 || m->n_source > 0) return true;
    for (const vti_move *mv = m->moves; mv; mv = mv->older)
        if (mv->phase <= VTI_MOVE_UNMAP && !mv->seq->span->is_lost) return true;
    for (uint32_t i = 0; i < m->vset.n_due; i++) {
        const vti_span *sp = vti_vset_due(&m->vset, i);
        if (sp->state != VTI_SPAN_LIVE || sp->is_lost) continue;
        for (uint32_t g = 0; g < m->geo.n_group; g++)
            if (vti_lane_waits(&sp->lane[g])) return true;
    }
    return false;
}

vt_status vti_room_shortage(const vt_manager *m)
{
    return room_may_come(m) ? VT_BUSY : VT_NOSPACE;
}

// Whether `bytes` more can be had by taking all that extend may take. Errors: VT_NOSPACE, VT_BUSY.
static vt_status check_room(vt_manager *m, const vti_span *sp, uint64_t bytes)
{
    if (room_suffices(m, sp, bytes)) return VT_OK;
    vti_sources_release(m, false);
    (void)vti_spans_reap(m, VTI_REAP_NOW);
    vti_spans_clear(m, false);
    if (room_suffices(m, sp, bytes)) return VT_OK;
    vti_jobs_settle(m);
    vti_quarantine_retry(m);
    if (room_suffices(m, sp, bytes)) return VT_OK;
    return vti_room_shortage(m);
}

// ---- Warm chunks

// The last stretch of mapped-free chunks, at most n: its length and *first position; 0: none.
static uint32_t mapped_free_stretch(const vti_lane *l, uint32_t n, uint32_t *first)
{
    uint32_t end = l->n_end;
    *first = end;
    while (*first > l->held1 && end - *first < n && l->at[*first - 1] != VTI_NO_CHUNK) (*first)--;
    return end - *first;
}

// A job that is taken back may have queued some wiping, so the device is asked after that.
static vt_status mapped_free_unmap(vt_manager *m, vti_span *sp, uint32_t group, uint32_t n)
{
    uint32_t first;
    vti_job_settle(m, &sp->lane[group].job);
    VT_TRY(vti_span_is_quiet(m, sp));
    if (sp->state == VTI_SPAN_QUARANTINED ||
        (n = mapped_free_stretch(&sp->lane[group], n, &first)) == 0)
        return VT_OK;
    return vti_job_now(m, sp, group, &(vti_job_spec){VTI_JOB_UNMAP, first, n, 0, 0});
}

// Takes mapped-free chunks of one lane of the span that has some of the class (UINT32_MAX: any) and
// a job, or none. False: none has, or the device failed.
static bool span_unmap_one(vt_manager *m, vti_span *sp, uint32_t cls, uint32_t n_chunk,
                           bool in_flight)
{
    const vti_span_state state = sp->state;
    if (vti_span_is_quiet(m, sp) != VT_OK) return false;
    for (uint32_t g = m->geo.n_group; g-- > 0 && sp->state == state;) {
        const vti_lane *l = &sp->lane[g];
        const uint32_t had = l->n_mapped_free;
        const uint64_t pooled = vti_pset_bytes(&m->pset, VTI_POOLED);
        if (had == 0 || l->job.in_flight != in_flight) continue;
        if (cls != UINT32_MAX && m->geo.group[g].cls != cls) continue;
        if (mapped_free_unmap(m, sp, g, n_chunk) == VT_OK && l->n_mapped_free < had) return true;
        if (vti_pset_bytes(&m->pset, VTI_POOLED) > pooled) return true; // from the job
    }
    return false;
}

// Of the longest idle span that has some. A job that is taken back in the middle of a portion must
// be run to the end of it, so lanes that have one come last.
static bool idle_unmap_one(vt_manager *m, uint32_t cls, uint32_t n_chunk)
{
    for (int in_flight = 0; in_flight < 2; in_flight++)
        for (vti_span *sp = m->vset.idle_mapped.oldest, *newer; sp; sp = newer) {
            newer = sp->mapped_newer;
            if (span_unmap_one(m, sp, cls, n_chunk, in_flight)) return true;
        }
    return false;
}

// What other live sequences have prepared, if no kernel can still read there.
static bool live_unmap_one(vt_manager *m, const vti_span *except, uint32_t n_chunk)
{
    for (int in_flight = 0; in_flight < 2; in_flight++)
        for (vti_span *sp = m->vset.in[VTI_SPAN_LIVE].newest; sp; sp = sp->older) {
            if (sp == except || sp->is_lost || vti_span_mapped_free_bytes(&m->vset, sp) == 0)
                continue;
            if (span_unmap_one(m, sp, UINT32_MAX, n_chunk, in_flight)) return true;
        }
    return false;
}

// As many as the bytes hold; at least one.
static uint32_t chunks_in(const vt_manager *m, uint32_t group, uint64_t bytes)
{
    uint64_t n = bytes / m->geo.group[group].chunk_bytes;
    if (n > VTI_RETURN_AT_ONCE) return VTI_RETURN_AT_ONCE;
    return n > 1 ? (uint32_t)n : 1;
}

uint32_t vti_mapped_free_post(vt_manager *m, vti_span *sp, uint32_t group, uint32_t n,
                              uint64_t deadline)
{
    vti_job_spec spec = {.kind = VTI_JOB_UNMAP, .deadline = deadline};
    if (sp->lane[group].job.in_flight || vti_span_is_quiet(m, sp) != VT_OK) return 0;
    spec.n = mapped_free_stretch(&sp->lane[group], n, &spec.first);
    return spec.n > 0 && vti_job_post(m, sp, group, &spec) == VT_OK ? spec.n : 0;
}

// A portion of one idle span's, for use elsewhere: one at a time.
static void unmap_idle_ahead(vt_manager *m, const vti_span *except)
{
    for (vti_span *sp = m->vset.idle_mapped.oldest; sp; sp = sp->mapped_newer)
        for (uint32_t g = m->geo.n_group; g-- > 0;) {
            if (sp->lane[g].job.in_flight) return;
            if (sp == except) continue;
            if (vti_mapped_free_post(m, sp, g, chunks_in(m, g, VTI_PORTION_BYTES), VTI_SOON) > 0)
                return;
        }
}

// What the lane itself has mapped beyond a position, after a gap.
vt_status vti_surplus_unmap(vt_manager *m, vti_span *sp, uint32_t group, uint32_t end)
{
    const vti_lane *l = &sp->lane[group];
    uint32_t first, least = end > l->held1 ? end : l->held1;
    if (l->n_end <= least || l->n_mapped_free == 0) return VT_OK;
    VT_TRY(vti_span_is_quiet(m, sp));
    for (uint32_t n;
         l->n_end > least && (n = mapped_free_stretch(l, l->n_end - least, &first)) > 0;)
        VT_TRY(mapped_free_unmap(m, sp, group, n));
    return VT_OK;
}

vt_status vti_span_room(vt_manager *m, vti_span *sp, uint64_t bytes, uint32_t len_tok)
{
    vt_status st = check_room(m, sp, bytes);
    if (st == VT_OK) return VT_OK;
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        VT_TRY(vti_surplus_unmap(m, sp, g, vti_group_chunks(&m->geo.group[g], len_tok)));
    return check_room(m, sp, bytes);
}

// ---- Prefixes

void vti_prefixes_evict(vt_manager *m, uint64_t bytes)
{
    uint64_t goal = vti_pset_bytes(&m->pset, VTI_POOLED) + bytes;
    if (goal < bytes) goal = UINT64_MAX;
    while (vti_pset_bytes(&m->pset, VTI_POOLED) < goal && vti_radix_evict(m->radix)) {
    }
}

// ---- The pool

static int by_name(const void *a, const void *b)
{
    const vti_plan *x = a, *y = b;
    return (x->name > y->name) - (x->name < y->name);
}

// Plans to destroy up to n chunks of a class's pool, neighbours in one call.
static uint32_t plan_destroy(vt_manager *m, uint32_t cls, uint32_t n)
{
    uint32_t n_plan = 0;
    while (n_plan < n && n_plan < VTI_RETURN_AT_ONCE && m->pset.cls[cls].n_in[VTI_POOLED] > 0) {
        uint32_t chunk = m->pset.cls[cls].pool;
        vti_pset_place(&m->pset, chunk, VTI_WITH_JOB);
        m->job_plan[n_plan++] = vti_plan_of(m, chunk);
    }
    qsort(m->job_plan, n_plan, sizeof *m->job_plan, by_name);
    return n_plan;
}

static vt_status pool_destroy(vt_manager *m, uint32_t cls, uint32_t n)
{
    if (m->job.in_flight) vti_jobs_settle(m);
    uint32_t n_plan = plan_destroy(m, cls, n);
    return n_plan > 0 ? vti_destroy_now(m, n_plan) : VT_OK;
}

static uint32_t pooled_class(const vt_manager *m, uint32_t except)
{
    uint32_t c = 0;
    while (c < m->pset.n_class && (c == except || m->pset.cls[c].n_in[VTI_POOLED] == 0)) c++;
    return c;
}

bool vti_has_surplus(const vt_manager *m)
{
    const uint64_t *warm = m->vset.mapped_free_bytes;
    const uint64_t bytes = warm[VTI_SPAN_IDLE] + warm[VTI_SPAN_LIVE];
    return m->max_runs == UINT64_MAX && bytes > m->spare_high_bytes;
}

// Idle spans that have no more than is ready for new sequences are left alone at first.
vt_status vti_room_make(vt_manager *m, const vti_span *sp, uint32_t cls, vti_haste haste)
{
    const vti_class *c = &m->pset.cls[cls];
    uint64_t n_error = m->calls.device_errors;
    for (bool takes_ready = false; c->n_in[VTI_POOLED] == 0;) {
        const bool has_room = vti_budget_left(m) >= c->chunk_bytes;
        if (has_room && !vti_has_surplus(m)) break;
        const uint64_t kept = takes_ready ? 0 : m->ready_bytes;
        const bool takes_idle = m->vset.mapped_free_bytes[VTI_SPAN_IDLE] > kept;
        if (haste == VTI_AHEAD && takes_idle) {
            unmap_idle_ahead(m, sp);
            return VT_NOSPACE;
        }
        if (takes_idle && idle_unmap_one(m, cls, 1)) continue;
        if (has_room) break;
        const uint32_t other = pooled_class(m, cls);
        if (other < m->pset.n_class && pool_destroy(m, other, 1) == VT_OK) continue;
        if (takes_idle && idle_unmap_one(m, UINT32_MAX, 1)) continue;
        if (vti_radix_evict(m->radix)) continue;
        if (!takes_ready) {
            takes_ready = true;
            continue;
        }
        if (haste == VTI_AHEAD) return VT_NOSPACE;
        if (live_unmap_one(m, sp, 1)) continue;
        if (m->calls.device_errors > n_error) return VT_EDEVICE;
        // Mapped-free chunks of other spans could not be unmapped: the device may still read there.
        const uint64_t own = sp ? vti_span_mapped_free_bytes(&m->vset, sp) : 0;
        const uint64_t *warm = m->vset.mapped_free_bytes;
        return warm[VTI_SPAN_IDLE] + warm[VTI_SPAN_LIVE] > own ? VT_BUSY : vti_room_shortage(m);
    }
    return VT_OK;
}

// ---- Back to the system

static uint32_t count_for(uint64_t bytes, size_t chunk_bytes)
{
    uint64_t n = bytes / chunk_bytes + (bytes % chunk_bytes != 0);
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

vt_status vti_spare_return(vt_manager *m, uint64_t bytes)
{
    uint64_t had = vti_pset_created_bytes(&m->pset), freed = 0;
    uint64_t n_error = m->calls.device_errors;
    while (freed < bytes) {
        uint32_t cls = pooled_class(m, UINT32_MAX);
        if (cls < m->pset.n_class)
            VT_TRY(pool_destroy(m, cls, count_for(bytes - freed, m->pset.cls[cls].chunk_bytes)));
        else if (!idle_unmap_one(m, UINT32_MAX,
                                 count_for(bytes - freed, m->geo.group[0].chunk_bytes)) &&
                 !live_unmap_one(m, NULL, 1))
            return m->calls.device_errors > n_error ? VT_EDEVICE : VT_OK;
        freed = had - vti_pset_created_bytes(&m->pset);
    }
    return VT_OK;
}

// ---- Back to the system, a little in each step
//
// What the owner does in a step is bounded by counts, whatever the amount: it evicts some blocks,
// and plans some chunks that the mapper unmaps and some that it destroys. A lower budget holds at
// once for what is asked of the manager (room_suffices), and what is beyond it goes like this.

enum {
    EVICT_AT_ONCE = 256, // blocks
    LANES_AT_ONCE = 16,  // that the mapper unmaps in part
    LIVE_AT_ONCE = 4,    // chunks that the owner unmaps
};

// Spare memory that is to go: there is a limit on what is kept, and one on all that exists.
static uint64_t surplus_bytes(const vt_manager *m)
{
    uint64_t keep = m->spare_high_bytes, over = vti_over_budget(m);
    if (m->giving.is_on && m->giving.keep_bytes < keep) keep = m->giving.keep_bytes;
    uint64_t spare = bytes_beyond(vti_spare_for_arrivals(m), keep);
    return over > spare ? over : spare;
}

// From several idle spans, the longest idle first.
static void unmap_more_ahead(vt_manager *m, uint64_t bytes)
{
    uint32_t n_lane = 0, n_chunk = 0;
    for (vti_span *sp = m->vset.idle_mapped.oldest; sp; sp = sp->mapped_newer) {
        for (uint32_t g = m->geo.n_group; g-- > 0;) {
            if (n_lane == LANES_AT_ONCE || n_chunk >= VTI_RETURN_AT_ONCE || bytes == 0) return;
            uint32_t n = vti_mapped_free_post(m, sp, g, chunks_in(m, g, bytes), VTI_RETURN);
            bytes = bytes_beyond(bytes, n * (uint64_t)m->geo.group[g].chunk_bytes);
            n_lane += n > 0;
            n_chunk += n;
        }
    }
}

void vti_spare_return_ahead(vt_manager *m)
{
    uint64_t surplus = surplus_bytes(m), pooled = vti_pset_bytes(&m->pset, VTI_POOLED);
    if (surplus == 0 || m->job.in_flight) return;
    uint32_t cls = pooled_class(m, UINT32_MAX);
    if (cls < m->pset.n_class) {
        uint32_t n = plan_destroy(m, cls, count_for(surplus, m->pset.cls[cls].chunk_bytes));
        if (vti_destroy_post(m, n) != VT_OK) vti_plan_drop(m, cls, m->job_plan, 0, n);
    }
    if (pooled >= surplus) return;
    if (m->vset.mapped_free_bytes[VTI_SPAN_IDLE] > 0)
        unmap_more_ahead(m, surplus - pooled);
    else if (vti_over_budget(m) > pooled + vti_pset_bytes(&m->pset, VTI_EVICTABLE))
        // What live sequences have prepared is theirs to use at any time: the mapper never gets it.
        for (int i = 0; i < LIVE_AT_ONCE && live_unmap_one(m, NULL, 1); i++) continue;
}

static uint64_t idle_spare_bytes(const vt_manager *m)
{
    return vti_pset_bytes(&m->pset, VT_CHUNK_SPARE) - m->vset.mapped_free_bytes[VTI_SPAN_LIVE];
}

static void evict_some(vt_manager *m)
{
    for (uint32_t n = 0; n < EVICT_AT_ONCE; n++) {
        // What jobs have counts as spare.
        if (!m->giving.forgets && vti_over_budget(m) <= idle_spare_bytes(m)) return;
        if (vti_radix_evict(m->radix)) continue;
        m->giving.forgets = false;
        return;
    }
}

// Chunks that prefixes share with sequences are unmapped some time after those have ended.
static bool giving_is_done(const vt_manager *m)
{
    const vti_giving *g = &m->giving;
    if (g->forgets || (g->n_retired > 0 && vti_spans_retired(m) > 0)) return false;
    return bytes_beyond(idle_spare_bytes(m), g->keep_bytes) <= g->recent_bytes;
}

void vti_giving_continue(vt_manager *m)
{
    const uint64_t exists = m->budget_bytes + vti_over_budget(m);
    if (exists < m->ceiling_bytes) m->ceiling_bytes = exists; // what has gone is not made again
    evict_some(m);
    vti_spare_return_ahead(m);
    if (m->giving.is_on && giving_is_done(m)) m->giving = (vti_giving){0};
    m->giving.recent_bytes -= m->giving.recent_bytes / 4;
}

bool vti_can_return(const vt_manager *m, uint64_t bytes)
{
    return bytes <=
           vti_pset_bytes(&m->pset, VT_CHUNK_SPARE) + vti_pset_bytes(&m->pset, VTI_EVICTABLE);
}

uint64_t vti_returning_bytes(const vt_manager *m)
{
    uint64_t over = vti_over_budget(m), least = m->geo.group[0].chunk_bytes;
    if (!m->giving.is_on) return over;
    uint64_t goes = idle_spare_bytes(m);
    if (m->giving.forgets) goes += vti_pset_bytes(&m->pset, VTI_EVICTABLE);
    goes = bytes_beyond(goes, m->giving.keep_bytes);
    if (goes < least) goes = least; // it is not done
    return over > goes ? over : goes;
}

// ---- Mappings

bool vti_runs_fit(const vt_manager *m, uint64_t n_run)
{
    uint64_t used = m->vset.n_run + m->runs_reserved;
    return n_run <= m->max_runs && used <= m->max_runs - n_run;
}

// Spans give up the mappings of mapped-free chunks: idle ones, the longest idle first, then live
// ones.
vt_status vti_runs_make(vt_manager *m, const vti_span *sp, uint64_t n_run)
{
    if (vti_runs_fit(m, n_run)) return VT_OK;
    vti_jobs_settle(m);
    (void)vti_spans_reap(m, VTI_REAP_NOW);
    while (!vti_runs_fit(m, n_run) &&
           (idle_unmap_one(m, UINT32_MAX, UINT32_MAX) || live_unmap_one(m, sp, UINT32_MAX)))
        continue;
    return vti_runs_fit(m, n_run) ? VT_OK : VT_NOMAPS;
}
