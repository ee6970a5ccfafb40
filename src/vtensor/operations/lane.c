// lane.c - a lane gets chunks: new ones, backed after its tokens ahead of the length, or those of
// others, which it shares; and what it does with its bytes: copies, wiping, and guards.
//
// Where the chunk for a position comes from. It is taken out of the structure and goes into the
// lane's plan, from which a BACK job maps it. The best chunk is the neighbour of the one before, or
// the one of the preferred region for this position: it continues a run. It is taken from the pool,
// or made anew. Where mappings have no limit, any chunk of the pool is as good. Where they have,
// and half of them are in use, a chunk of the pool is destroyed so that the neighbour can be made:
// it costs two calls more, but no mapping.
#include "operations.h"

#include <assert.h>

// ---- Bytes, in every view

enum { LEFT_FOR_GROWTH = 8 }; // a guard parts a run, but never one of the last 1/8 of them

vt_status vti_lane_fetch(vt_manager *m, const vti_span *sp, uint32_t group, uint32_t position,
                         uint32_t chunk, size_t size_bytes)
{
    uint64_t index = vti_pset_index(&m->pset, chunk);
    for (uint32_t v = 0; v < m->geo.group[group].n_view; v++) {
        uintptr_t dst = vti_lane_addr(&m->geo, sp, group, v, position);
        VT_TRY(vti_tally_backend(
            m, m->vmm->ops->fetch(m->vmm, dst, v, index, 0, size_bytes, VT_VMM_QUEUED)));
    }
    m->count.copied_chunks++;
    return VT_OK;
}

vt_status vti_lane_store(vt_manager *m, const vti_span *sp, uint32_t group, uint32_t position,
                         uint32_t chunk)
{
    uint64_t index = vti_pset_index(&m->pset, chunk);
    size_t slice_bytes = m->geo.group[group].slice_bytes;
    for (uint32_t v = 0; v < m->geo.group[group].n_view; v++) {
        uintptr_t src = vti_lane_addr(&m->geo, sp, group, v, position);
        VT_TRY(vti_tally_backend(m, m->vmm->ops->store(m->vmm, v, index, 0, src, slice_bytes)));
    }
    m->count.copied_chunks++;
    return VT_OK;
}

vt_status vti_lane_zero(vt_manager *m, const vti_span *sp, uint32_t group, size_t from, size_t to)
{
    for (uint32_t v = 0; v < m->geo.group[group].n_view && from < to; v++) {
        uintptr_t addr = vti_lane_addr(&m->geo, sp, group, v, 0) + from;
        VT_TRY(vti_tally_backend(m, m->vmm->ops->zero(m->vmm, addr, to - from, VT_VMM_QUEUED)));
    }
    return VT_OK;
}

// ---- Access

#define NO_TICKET UINT64_MAX // one is to be taken

// Changes the mapped stretches of [first, end) in one view.
static vt_status view_protect(vt_manager *m, const vti_span *sp, uint32_t group, uint32_t view,
                              uint32_t first, uint32_t end, vt_vmm_use use)
{
    const vti_lane *l = &sp->lane[group];
    for (uint32_t p = first, n; p < end; p += n + (n == 0)) {
        for (n = 0; p + n < end && vti_lane_at(l, p + n) != VTI_NO_CHUNK; n++) {
        }
        if (n == 0) continue;
        uintptr_t addr = vti_lane_addr(&m->geo, sp, group, view, p);
        m->calls.protect_calls++;
        VT_TRY(vti_tally_backend(
            m, m->vmm->ops->protect(m->vmm, addr, n * m->geo.group[group].slice_bytes, use)));
    }
    return VT_OK;
}

// If a view fails, the others are changed back.
static vt_status lane_protect(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                              uint32_t end, vt_vmm_use use)
{
    vt_vmm_use was = use == VT_VMM_WRITE ? VT_VMM_READ : VT_VMM_WRITE;
    vt_status st = VT_OK, undone = VT_OK;
    uint32_t v = 0;
    while (v < m->geo.group[group].n_view && st == VT_OK)
        st = view_protect(m, sp, group, v++, first, end, use);
    while (st != VT_OK && undone == VT_OK && v-- > 0)
        undone = view_protect(m, sp, group, v, first, end, was);
    if (undone != VT_OK) vti_span_quarantine(m, sp);
    return st;
}

void vti_lane_guard(vt_manager *m, vti_span *sp, uint32_t group, uint32_t end)
{
    vti_lane *l = &sp->lane[group];
    if (!m->guards || end <= l->n_ro || end <= l->guard_end) return;
    l->guard_end = end;
    sp->guard_fence = NO_TICKET;
    vti_span_set_due(&m->vset, sp);
}

// What fails is tried again in the next step.
void vti_span_guard(vt_manager *m, vti_span *sp)
{
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        if (sp->lane[g].guard_end <= sp->lane[g].n_ro || sp->lane[g].job.in_flight || sp->is_lost)
            continue;
        bool is_passed; // the work that may write there
        if (sp->guard_fence == NO_TICKET &&
            vti_tally_backend(m, m->vmm->ops->fence(m->vmm, &sp->guard_fence)) != VT_OK)
            return;
        if (vti_fence_passed(m, sp->guard_fence, false, &is_passed) != VT_OK || !is_passed) return;
        vti_lane *l = &sp->lane[g];
        if (!vti_runs_fit(m, m->geo.group[g].n_view + m->max_runs / LEFT_FOR_GROWTH)) continue;
        if (lane_protect(m, sp, g, l->n_ro, l->guard_end, VT_VMM_READ) == VT_OK)
            vti_lane_set_ro(&m->vset, sp, g, l->guard_end);
    }
}

vt_status vti_lane_guard_again(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                               uint32_t end)
{
    uint32_t n_ro = sp->lane[group].n_ro;
    if (end > n_ro) end = n_ro;
    return first < end ? lane_protect(m, sp, group, first, end, VT_VMM_READ) : VT_OK;
}

VTI_HOT vt_status vti_lane_unguard(vt_manager *m, vti_span *sp, uint32_t group, uint32_t begin)
{
    vti_lane *l = &sp->lane[group];
    if (l->guard_end > begin) l->guard_end = begin;
    if (!VTI_RARE(begin < l->n_ro)) return VT_OK;
    if (!vti_lane_run_begins(&m->vset, l, begin)) // else no run is parted
        VT_TRY(vti_runs_make(m, sp, m->geo.group[group].n_view));
    VT_TRY(lane_protect(m, sp, group, begin, l->n_ro, VT_VMM_WRITE));
    vti_lane_set_ro(&m->vset, sp, group, begin);
    return VT_OK;
}

// Where mappings have run out: the last guarded run can be written again, so that what follows may
// continue it, and is guarded again when there are some. False: there is none, or the device has
// failed.
static bool lane_unguard_run(vt_manager *m, vti_span *sp, uint32_t group)
{
    vti_lane *l = &sp->lane[group];
    if (!m->guards || l->n_ro == 0 || l->at[l->n_ro - 1] == VTI_NO_CHUNK) return false;
    uint32_t begin = l->n_ro - 1, end = l->n_ro;
    while (!vti_lane_run_begins(&m->vset, l, begin)) begin--;
    if (vti_lane_unguard(m, sp, group, begin) != VT_OK) return false;
    vti_lane_guard(m, sp, group, end);
    return true;
}

// ---- Where chunks come from

// The name that a chunk is to have, and the chunk that has it.
typedef struct wanted {
    vti_name name;  // region VTI_NO_CHUNK: none is left
    uint32_t chunk; // VTI_NO_CHUNK: none has it
} wanted;

static bool runs_are_scarce(const vt_manager *m)
{
    return m->vset.n_run + m->runs_reserved > m->max_runs / 2;
}

// Whether the name can be taken: no chunk has it, or one of the pool.
static bool name_is_free(const vt_manager *m, uint32_t cls, wanted *w)
{
    w->chunk = vti_pset_find(&m->pset, cls, w->name);
    if (w->chunk == VTI_NO_CHUNK) return true;
    vti_chunk c = vti_pset_chunk(&m->pset, w->chunk);
    bool is_unheld = !c.is_created || vti_chunk_state(&c) == VT_CHUNK_SPARE;
    bool is_free = is_unheld && c.place == VTI_IN_POOL;
    if (!c.is_created) w->chunk = VTI_NO_CHUNK;
    return is_free;
}

// The name after `before`, unless it is in the preferred region of another lane.
static bool continue_run(const vt_manager *m, const vti_lane *l, uint32_t cls, uint32_t before,
                         wanted *w)
{
    if (before == VTI_NO_CHUNK) return false;
    w->name = vti_pset_name(&m->pset, before);
    if (++w->name.offset == m->pset.cls[cls].len) return false;
    if (w->name.region != l->region && vti_pset_is_preferred(&m->pset, cls, w->name.region))
        return false;
    return name_is_free(m, cls, w);
}

static vt_status find_wanted(vt_manager *m, vti_span *sp, uint32_t group, uint32_t position,
                             uint32_t before, wanted *w)
{
    vti_lane *l = &sp->lane[group];
    uint32_t cls = m->geo.group[group].cls;
    if (continue_run(m, l, cls, before, w)) return VT_OK;
    if (l->region != VTI_NO_CHUNK && position >= l->region_first) {
        w->name = (vti_name){l->region, position - l->region_first};
        if (name_is_free(m, cls, w)) return VT_OK;
    }
    if (l->region != VTI_NO_CHUNK) vti_pset_region_close(&m->pset, cls, l->region);
    l->region = VTI_NO_CHUNK;
    vt_status st = vti_pset_region_open(&m->pset, cls, &l->region);
    l->region_first = position;
    *w = (wanted){{l->region, 0}, VTI_NO_CHUNK};
    return st == VT_NOSPACE ? VT_OK : st;
}

static void plan_pooled(vt_manager *m, uint32_t chunk, vti_plan *out)
{
    bool is_dirty = vti_pset_chunk(&m->pset, chunk).is_dirty;
    vti_pset_place(&m->pset, chunk, VTI_WITH_JOB);
    *out = vti_plan_of(m, chunk);
    out->is_dirty = is_dirty;
}

// `drop` makes room for it, or VTI_NO_CHUNK.
static vt_status plan_absent(vt_manager *m, uint32_t cls, vti_name name, uint32_t drop,
                             vti_plan *out)
{
    uint32_t chunk;
    VT_TRY(vti_pset_reserve(&m->pset, cls, name, &chunk));
    *out = vti_plan_of(m, chunk);
    out->is_absent = true;
    out->is_dirty = !m->zeroed;
    if (drop == VTI_NO_CHUNK) {
        m->reserved_bytes += m->pset.cls[cls].chunk_bytes;
        return VT_OK;
    }
    out->drop = drop;
    out->drop_name = vti_pset_index(&m->pset, drop);
    vti_pset_place(&m->pset, drop, VTI_WITH_JOB);
    return VT_OK;
}

static vt_status plan_chunk(vt_manager *m, vti_span *sp, uint32_t group, uint32_t position,
                            uint32_t before, uint32_t i, vti_haste haste)
{
    const uint32_t cls = m->geo.group[group].cls;
    const vti_class *c = &m->pset.cls[cls];
    vti_plan *out = &sp->lane[group].plan[i];
    wanted w;
    VT_TRY(find_wanted(m, sp, group, position, before, &w));
    if (w.chunk == VTI_NO_CHUNK) {
        VT_TRY(vti_room_make(m, sp, cls, haste)); // it may change which chunk has the name
        bool is_none = w.name.region == VTI_NO_CHUNK;
        if (!is_none && !name_is_free(m, cls, &w)) w.name.region = VTI_NO_CHUNK;
    }
    if (w.chunk != VTI_NO_CHUNK) {
        plan_pooled(m, w.chunk, out);
        return VT_OK;
    }
    // A chunk is made anew for the sake of a run although the pool has one. A window gives up as
    // much as it takes, and in the same order, so its chunks go round.
    bool makes_anew =
        m->max_runs != UINT64_MAX && (m->geo.group[group].window_tok == 0 || runs_are_scarce(m));
    bool has_room = vti_budget_left(m) >= c->chunk_bytes, can_make = w.name.region != VTI_NO_CHUNK;
    if (can_make && has_room && (makes_anew || c->n_in[VTI_POOLED] == 0))
        return plan_absent(m, cls, w.name, VTI_NO_CHUNK, out);
    if (c->n_in[VTI_POOLED] == 0) return VT_NOSPACE;
    if (can_make && runs_are_scarce(m) && m->system_bytes == UINT64_MAX)
        return plan_absent(m, cls, w.name, c->pool, out);
    plan_pooled(m, c->pool, out);
    return VT_OK;
}

// If there are no mappings for a new run after what is guarded, the guard goes.
static vt_status runs_for_plan(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                               uint32_t n, vti_haste haste)
{
    const vti_lane *l = &sp->lane[group];
    uint64_t n_run = vti_plan_runs(m, sp, group, first, l->plan, n);
    if (vti_runs_fit(m, n_run)) return VT_OK;
    if (haste == VTI_AHEAD) return VT_NOMAPS;
    vt_status st = vti_runs_make(m, sp, n_run);
    if (st != VT_NOMAPS || first != l->n_ro || !lane_unguard_run(m, sp, group)) return st;
    n_run = vti_plan_runs(m, sp, group, first, l->plan, n);
    return vti_runs_fit(m, n_run) ? VT_OK : VT_NOMAPS;
}

vt_status vti_plan_make(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first, uint32_t *n,
                        vti_haste haste)
{
    const vti_lane *l = &sp->lane[group];
    uint32_t cls = m->geo.group[group].cls;
    uint32_t before = first > 0 ? vti_lane_at(l, first - 1) : VTI_NO_CHUNK, i = 0;
    assert(!l->job.in_flight);
    vt_status st = vti_lane_make_job_room(&sp->lane[group], first, *n);
    for (; i < *n && st == VT_OK; i += st == VT_OK) {
        st = plan_chunk(m, sp, group, first + i, before, i, haste);
        before = l->plan[i].chunk;
    }
    if (st != VT_OK && haste == VTI_AHEAD && i > 0) st = VT_OK;
    if (st == VT_OK) st = runs_for_plan(m, sp, group, first, i, haste);
    *n = i;
    if (st != VT_OK) vti_plan_drop(m, cls, l->plan, 0, i);
    return st;
}

// ---- Chunks for copies

// With a name outside the regions of the lanes.
static vt_status create_for_copy(vt_manager *m, uint32_t cls, uint32_t *chunk)
{
    vti_name *next = &m->copy_name[cls];
    for (; next->region != VTI_NO_CHUNK; next->offset++) {
        wanted w = {*next, VTI_NO_CHUNK};
        if (next->offset == m->pset.cls[cls].len) {
            vti_pset_region_close(&m->pset, cls, next->region);
            next->region = VTI_NO_CHUNK;
            break;
        }
        if (name_is_free(m, cls, &w) && w.chunk == VTI_NO_CHUNK) break;
    }
    if (next->region == VTI_NO_CHUNK) {
        VT_TRY(vti_pset_region_open(&m->pset, cls, &next->region));
        next->offset = 0;
    }
    VT_TRY(vti_pset_reserve(&m->pset, cls, *next, chunk));
    m->calls.create_calls++;
    vt_status st =
        vti_tally_backend(m, m->vmm->ops->create(m->vmm, vti_pset_index(&m->pset, *chunk), 1));
    if (st != VT_OK) {
        vti_pset_unreserve(&m->pset, *chunk);
        return st;
    }
    vti_pset_create(&m->pset, *chunk, !m->zeroed);
    vti_tally_peaks(m);
    return VT_OK;
}

vt_status vti_chunk_make(vt_manager *m, uint32_t group, uint32_t *chunk)
{
    uint32_t cls = m->geo.group[group].cls;
    VT_TRY(vti_room_make(m, NULL, cls, VTI_NOW));
    *chunk = m->pset.cls[cls].pool;
    if (*chunk == VTI_NO_CHUNK) return create_for_copy(m, cls, chunk);
    vti_pset_place(&m->pset, *chunk, VTI_WITH_JOB);
    return VT_OK;
}

void vti_chunk_drop(vt_manager *m, uint32_t chunk)
{
    vti_pset_place(&m->pset, chunk, VTI_IN_POOL);
    vti_pset_set_dirty(&m->pset, chunk, true);
}

// ---- Backing

// The first unmapped stretch of [*first, end): its length; 0: there is none.
static uint32_t unmapped_stretch(const vti_lane *l, uint32_t *first, uint32_t end)
{
    *first = vti_lane_first_unmapped(l, *first, end);
    uint32_t n = 0;
    while (*first + n < end && vti_lane_at(l, *first + n) == VTI_NO_CHUNK) n++;
    return n;
}

// If the system itself has no memory left, what is missing comes from chunks that exist.
static vt_status back_stretch(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                              uint32_t n)
{
    vti_job_spec spec = {VTI_JOB_BACK, first, n, VT_VMM_WRITE, 0};
    VT_TRY(vti_plan_make(m, sp, group, first, &spec.n, VTI_NOW));
    vt_status st = vti_job_now(m, sp, group, &spec);
    return st == VT_NOSPACE && vti_system_note_full(m) ? VT_OK : st;
}

vt_status vti_lane_back(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first, uint32_t end)
{
    vti_job_settle(m, &sp->lane[group].job);
    if (sp->is_lost) return VT_EDEVICE;
    vt_status st = VT_OK;
    for (uint32_t n; st == VT_OK && (n = unmapped_stretch(&sp->lane[group], &first, end)) > 0;)
        st = back_stretch(m, sp, group, first, n);
    if (sp->lane[group].needs_zeroing && vti_lane_clear(m, sp, group, false) == VT_EDEVICE)
        vti_span_quarantine(m, sp); // what could not be wiped must not be read
    return st;
}

vt_status vti_lane_back_ahead(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                              uint32_t end, uint64_t deadline)
{
    vti_lane *l = &sp->lane[group];
    if (l->job.in_flight) return VT_OK;
    vti_job_spec spec = {VTI_JOB_BACK, first, 0, VT_VMM_WRITE, deadline};
    spec.n = unmapped_stretch(l, &spec.first, end);
    if (spec.n == 0) return VT_OK;
    VT_TRY(vti_plan_make(m, sp, group, spec.first, &spec.n, VTI_AHEAD));
    vt_status st = vti_job_post(m, sp, group, &spec);
    if (st != VT_OK) vti_plan_drop(m, m->geo.group[group].cls, l->plan, 0, spec.n);
    return st;
}

VTI_HOT void vti_lane_hold(vt_manager *m, vti_span *sp, uint32_t group, uint32_t end)
{
    vti_lane *l = &sp->lane[group];
    assert(l->held1 == l->n_owned && end > l->n_owned);
    for (uint32_t p = l->n_owned; p < end; p++) vti_pset_user_hold(&m->pset, l->at[p]);
    vti_lane_count_mapped_free(&m->vset, sp, group, -(int32_t)(end - l->n_owned));
    if (l->held0 == l->held1) l->held0 = l->front;
    l->n_owned = l->held1 = end;
}

// ---- Sharing

vt_status vti_lane_share(vt_manager *m, vti_span *sp, uint32_t group, const uint32_t *at,
                         uint32_t first, uint32_t end, vt_vmm_use use)
{
    vti_lane *l = &sp->lane[group];
    const vti_job_spec spec = {VTI_JOB_BACK, first, end - first, use, 0};
    const uint32_t had = l->n_owned;
    VT_TRY(vti_lane_make_job_room(l, first, spec.n));
    for (uint32_t p = first; p < end; p++) l->plan[p - first] = vti_plan_of(m, at[p]);
    VT_TRY(vti_runs_make(m, sp, vti_plan_runs(m, sp, group, first, l->plan, spec.n)));
    l->n_owned = end; // what is held is not given up
    vt_status st = vti_job_now(m, sp, group, &spec);
    if (st != VT_OK && !sp->is_lost) l->n_owned = had;
    return st;
}

vt_status vti_lane_alias(vt_manager *m, vti_span *sp, uint32_t group, const uint32_t *at,
                         uint32_t first, uint32_t end)
{
    vti_lane *l = &sp->lane[group];
    assert(l->n_owned == 0 && l->held1 == 0);
    vti_job_settle(m, &sp->lane[group].job);
    for (uint32_t p = 0, n; p < end && p < l->n_end; p += n + (n == 0)) { // free chunks in the way
        for (n = 0; p + n < end && vti_lane_at(l, p + n) != VTI_NO_CHUNK; n++) {
        }
        if (n > 0) VT_TRY(vti_job_now(m, sp, group, &(vti_job_spec){VTI_JOB_UNMAP, p, n, 0, 0}));
    }
    l->dirty_end = 0; // what is beyond was wiped
    l->front = l->held0 = l->held1 = l->n_owned = first;
    if (first == end) return VT_OK;
    VT_TRY(vti_lane_share(m, sp, group, at, first, end, m->guards ? VT_VMM_READ : VT_VMM_ALIAS));
    l->guard_end = m->guards ? end : 0;
    vti_lane_set_ro(&m->vset, sp, group, l->guard_end);
    return VT_OK;
}
