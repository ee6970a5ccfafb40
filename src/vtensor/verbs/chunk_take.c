// chunk_take.c - where the chunk for a position comes from. It is taken out of the structure and
// goes into the lane's plan, from which a BACK job maps it.
//
// The best chunk is the neighbour of the one before, or the home's at this position: it continues a
// run. It is taken from the pool, or made anew. Where mappings have no limit, any chunk of the pool
// is as good. Where they have, and half of them are in use, a chunk of the pool is destroyed so
// that the neighbour can be made: it costs two calls more, but no mapping.
#include "verbs.h"

#include <assert.h>

#include "vtensor/common/try.h"

static bool runs_are_scarce(const vt_manager *m)
{
    return m->vset.n_run + m->runs_reserved > m->max_runs / 2;
}

static bool is_free_name(const vt_manager *m, uint32_t chunk)
{
    vti_chunk c = vti_pset_chunk(&m->pset, chunk);
    bool is_unheld = !c.is_created || vti_chunk_state(&c) == VT_CHUNK_SPARE;
    return is_unheld && c.place == VTI_IN_POOL;
}

// The name in the lane's home, which is opened anew if that one is taken. VTI_NO_CHUNK: none is
// left.
static vt_status name_at_home(vt_manager *m, vti_span *sp, uint32_t group, uint32_t position,
                              uint32_t *name)
{
    vti_lane *l = &sp->lane[group];
    if (l->home == VTI_NO_CHUNK || !is_free_name(m, l->home + position)) {
        if (l->home != VTI_NO_CHUNK) vti_pset_home_close(&m->pset, l->home);
        l->home = VTI_NO_CHUNK;
        vt_status st = vti_pset_home_open(&m->pset, m->geo.group[group].cls, &l->home);
        if (st == VT_ENOMEM) return st;
    }
    *name = l->home != VTI_NO_CHUNK ? l->home + position : VTI_NO_CHUNK;
    return VT_OK;
}

// The name that continues the run, if no other lane's home is in the way.
static vt_status wanted_name(vt_manager *m, vti_span *sp, uint32_t group, uint32_t position,
                             uint32_t before, uint32_t *name)
{
    uint32_t next = before == VTI_NO_CHUNK ? VTI_NO_CHUNK : before + 1;
    bool continues = next != VTI_NO_CHUNK && vti_pset_continues(&m->pset, before, next) &&
                     vti_pset_class(&m->pset, next) == m->geo.group[group].cls &&
                     is_free_name(m, next);
    if (continues && (!vti_pset_is_home(&m->pset, next) ||
                      vti_pset_region_first(&m->pset, next) == sp->lane[group].home)) {
        *name = next;
        return VT_OK;
    }
    return name_at_home(m, sp, group, position, name);
}

static void plan_pooled(vt_manager *m, uint32_t chunk, vti_plan *out)
{
    bool is_dirty = vti_pset_chunk(&m->pset, chunk).is_dirty;
    vti_pset_take(&m->pset, chunk);
    *out = (vti_plan){.chunk = chunk, .drop = VTI_NO_CHUNK, .is_dirty = is_dirty};
}

// `drop` makes room for it, or VTI_NO_CHUNK.
static vt_status plan_absent(vt_manager *m, uint32_t cls, uint32_t chunk, uint32_t drop,
                             vti_plan *out)
{
    VT_TRY(vti_pset_reserve(&m->pset, chunk));
    *out = (vti_plan){.chunk = chunk, .drop = drop, .is_absent = true, .is_dirty = !m->zeroed};
    if (drop != VTI_NO_CHUNK)
        vti_pset_take(&m->pset, drop);
    else
        m->reserved_bytes += m->pset.cls[cls].chunk_bytes;
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
static vt_status plan_from(vt_manager *m, uint32_t group, uint32_t want, vti_plan *out)
{
    uint32_t cls = m->geo.group[group].cls;
    const vti_class *c = &m->pset.cls[cls];
    bool has_room = vti_budget_left(m) >= c->chunk_bytes;
    bool want_is_absent = want != VTI_NO_CHUNK && !vti_pset_chunk(&m->pset, want).is_created;
    if (want_is_absent && has_room && (makes_anew(m, group) || c->n_pool == 0))
        return plan_absent(m, cls, want, VTI_NO_CHUNK, out);
    if (c->n_pool == 0) return VT_NOSPACE;
    if (want_is_absent && runs_are_scarce(m) && !m->system_is_full)
        return plan_absent(m, cls, want, c->pool, out);
    plan_pooled(m, c->pool, out);
    return VT_OK;
}

static vt_status plan_chunk(vt_manager *m, vti_span *sp, uint32_t group, uint32_t position,
                            uint32_t before, uint32_t i, vti_haste haste)
{
    uint32_t cls = m->geo.group[group].cls;
    vti_plan *out = &sp->lane[group].plan[i];
    uint32_t want;
    VT_TRY(wanted_name(m, sp, group, position, before, &want));
    if (want != VTI_NO_CHUNK && vti_pset_chunk(&m->pset, want).is_created) {
        plan_pooled(m, want, out);
        return VT_OK;
    }
    VT_TRY(vti_room_make(m, sp, cls, haste));
    if (want != VTI_NO_CHUNK && !is_free_name(m, want)) want = VTI_NO_CHUNK;
    return plan_from(m, group, want, out);
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
    uint32_t before = first > 0 ? l->at[first - 1] : VTI_NO_CHUNK, i = 0;
    vt_status st = VT_OK;
    assert(!l->is_lent);
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
static vt_status name_for_copy(vt_manager *m, uint32_t cls, uint32_t *chunk)
{
    uint32_t *next = &m->copy_home[cls];
    while (*next != VTI_NO_CHUNK && vti_pset_chunk(&m->pset, *next).is_created) {
        uint32_t was = (*next)++;
        if (vti_pset_continues(&m->pset, was, *next) &&
            vti_pset_region_first(&m->pset, was) == vti_pset_region_first(&m->pset, *next))
            continue;
        vti_pset_home_close(&m->pset, vti_pset_region_first(&m->pset, was));
        *next = VTI_NO_CHUNK;
    }
    if (*next == VTI_NO_CHUNK) VT_TRY(vti_pset_home_open(&m->pset, cls, next));
    *chunk = *next;
    return VT_OK;
}

static vt_status create_named(vt_manager *m, uint32_t chunk)
{
    m->tally.calls.create_calls++;
    VT_TRY(vti_pset_reserve(&m->pset, chunk));
    vt_status st = vti_tally_backend(m, m->vmm->ops->create(m->vmm, chunk, 1));
    if (st != VT_OK) {
        vti_pset_unreserve(&m->pset, chunk);
        return st;
    }
    vti_pset_create(&m->pset, chunk, !m->zeroed);
    vti_tally_peaks(m);
    return VT_OK;
}

vt_status vti_chunk_make(vt_manager *m, uint32_t group, uint32_t *chunk)
{
    uint32_t cls = m->geo.group[group].cls;
    VT_TRY(vti_room_make(m, NULL, cls, VTI_NOW));
    *chunk = m->pset.cls[cls].pool;
    if (*chunk != VTI_NO_CHUNK) {
        vti_pset_take(&m->pset, *chunk);
        return VT_OK;
    }
    VT_TRY(name_for_copy(m, cls, chunk));
    return create_named(m, *chunk);
}
