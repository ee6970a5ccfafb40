// chunk_take.c - where the chunk for a position comes from. It is taken out of the structure and
// goes into the lane's plan, from which a BACK job maps it.
//
// The best chunk is the neighbour of the one before, or the home's for this position: it continues
// a run. It is taken from the pool, or made anew. Where mappings have no limit, any chunk of the
// pool is as good. Where they have, and half of them are in use, a chunk of the pool is destroyed
// so that the neighbour can be made: it costs two calls more, but no mapping.
#include "verbs.h"

#include <assert.h>

#include "vtensor/core/common.h"

// The name that a chunk is to have, and the chunk that has it.
typedef struct wanted {
    vti_name name;  // region VTI_NO_CHUNK: none is left
    uint32_t chunk; // VTI_NO_CHUNK: none has it
} wanted;

static bool runs_are_scarce(const vt_manager *m)
{
    return m->vset.n_run + m->runs_reserved > m->max_runs / 2;
}

// Whether the name can be taken: nobody has it, or a chunk of the pool.
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

// The name after `before`, if no other lane's home is in the way.
static bool continue_run(const vt_manager *m, const vti_lane *l, uint32_t cls, uint32_t before,
                         wanted *w)
{
    if (before == VTI_NO_CHUNK) return false;
    w->name = vti_pset_name(&m->pset, before);
    if (++w->name.offset == m->pset.cls[cls].len) return false;
    if (w->name.region != l->home && vti_pset_is_home(&m->pset, cls, w->name.region)) return false;
    return name_is_free(m, cls, w);
}

// The name for a position in the lane's home, which begins with the first position that it was
// asked for.
static bool name_at_home(const vt_manager *m, const vti_lane *l, uint32_t cls, uint32_t position,
                         wanted *w)
{
    if (l->home == VTI_NO_CHUNK || position < l->home_first) return false;
    w->name = (vti_name){l->home, position - l->home_first};
    return name_is_free(m, cls, w);
}

static vt_status find_wanted(vt_manager *m, vti_span *sp, uint32_t group, uint32_t position,
                             uint32_t before, wanted *w)
{
    vti_lane *l = &sp->lane[group];
    uint32_t cls = m->geo.group[group].cls;
    if (continue_run(m, l, cls, before, w) || name_at_home(m, l, cls, position, w)) return VT_OK;
    if (l->home != VTI_NO_CHUNK) vti_pset_home_close(&m->pset, cls, l->home);
    l->home = VTI_NO_CHUNK;
    vt_status st = vti_pset_home_open(&m->pset, cls, &l->home);
    l->home_first = position;
    *w = (wanted){{l->home, 0}, VTI_NO_CHUNK};
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

// Whether a chunk is made anew for the sake of a run although the pool has one. A window gives up
// as much as it takes, and in the same order, so its chunks go round.
static bool makes_anew(const vt_manager *m, uint32_t group)
{
    if (m->max_runs == UINT64_MAX) return false;
    return m->geo.group[group].window_tok == 0 || runs_are_scarce(m);
}

// Pre: the pool has a chunk, or the budget room for one.
static vt_status plan_from(vt_manager *m, uint32_t group, const wanted *w, vti_plan *out)
{
    uint32_t cls = m->geo.group[group].cls;
    const vti_class *c = &m->pset.cls[cls];
    bool has_room = vti_budget_left(m) >= c->chunk_bytes;
    bool can_make = w->name.region != VTI_NO_CHUNK && w->chunk == VTI_NO_CHUNK;
    if (can_make && has_room && (makes_anew(m, group) || c->n_pool == 0))
        return plan_absent(m, cls, w->name, VTI_NO_CHUNK, out);
    if (c->n_pool == 0) return VT_NOSPACE;
    if (can_make && runs_are_scarce(m) && m->system_bytes == UINT64_MAX)
        return plan_absent(m, cls, w->name, c->pool, out);
    plan_pooled(m, c->pool, out);
    return VT_OK;
}

// Making room may have changed who has the name.
static vt_status plan_chunk(vt_manager *m, vti_span *sp, uint32_t group, uint32_t position,
                            uint32_t before, uint32_t i, vti_haste haste)
{
    uint32_t cls = m->geo.group[group].cls;
    vti_plan *out = &sp->lane[group].plan[i];
    wanted w;
    VT_TRY(find_wanted(m, sp, group, position, before, &w));
    if (w.chunk == VTI_NO_CHUNK) {
        VT_TRY(vti_room_make(m, sp, cls, haste));
        bool is_none = w.name.region == VTI_NO_CHUNK;
        if (!is_none && !name_is_free(m, cls, &w)) w.name.region = VTI_NO_CHUNK;
    }
    if (w.chunk == VTI_NO_CHUNK) return plan_from(m, group, &w, out);
    plan_pooled(m, w.chunk, out);
    return VT_OK;
}

// If there are no mappings for a new run behind what is guarded, the guard goes.
static vt_status runs_for_plan(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                               uint32_t n, vti_haste haste)
{
    const vti_lane *l = &sp->lane[group];
    uint64_t n_run = vti_plan_runs(m, sp, group, first, l->plan, n);
    if (vti_runs_fit(m, n_run)) return VT_OK;
    if (haste == VTI_AHEAD) return VT_NOMAPS;
    vt_status st = vti_runs_make(m, sp, n_run);
    if (st != VT_NOMAPS || first != l->n_ro || !vti_lane_unguard_run(m, sp, group)) return st;
    n_run = vti_plan_runs(m, sp, group, first, l->plan, n);
    return vti_runs_fit(m, n_run) ? VT_OK : VT_NOMAPS;
}

vt_status vti_plan_make(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first, uint32_t *n,
                        vti_haste haste)
{
    const vti_lane *l = &sp->lane[group];
    uint32_t cls = m->geo.group[group].cls;
    uint32_t before = first > 0 ? vti_lane_at(l, first - 1) : VTI_NO_CHUNK, i = 0;
    assert(!l->is_lent);
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

// A name beside those of the lanes.
static vt_status name_for_copy(vt_manager *m, uint32_t cls, vti_name *name)
{
    vti_name *next = &m->copy_name[cls];
    for (; next->region != VTI_NO_CHUNK; next->offset++) {
        wanted w = {*next, VTI_NO_CHUNK};
        if (next->offset == m->pset.cls[cls].len) {
            vti_pset_home_close(&m->pset, cls, next->region);
            next->region = VTI_NO_CHUNK;
            break;
        }
        if (name_is_free(m, cls, &w) && w.chunk == VTI_NO_CHUNK) break;
    }
    if (next->region == VTI_NO_CHUNK) {
        VT_TRY(vti_pset_home_open(&m->pset, cls, &next->region));
        next->offset = 0;
    }
    *name = *next;
    return VT_OK;
}

static vt_status create_beside(vt_manager *m, uint32_t cls, uint32_t *chunk)
{
    vti_name name;
    VT_TRY(name_for_copy(m, cls, &name));
    VT_TRY(vti_pset_reserve(&m->pset, cls, name, chunk));
    m->tally.calls.create_calls++;
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
    if (*chunk == VTI_NO_CHUNK) return create_beside(m, cls, chunk);
    vti_pset_place(&m->pset, *chunk, VTI_WITH_JOB);
    return VT_OK;
}

void vti_chunk_drop(vt_manager *m, uint32_t chunk)
{
    vti_pset_place(&m->pset, chunk, VTI_IN_POOL);
    vti_pset_soil(&m->pset, chunk);
}
