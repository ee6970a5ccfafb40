// span_grow.c - where the next chunks of a span come from: its home, the region of new chunks, and
// backing, which creates them and maps them, warm, after the tokens.
#include "verbs.h"

#include "vtensor/common/try.h"

static bool place_is_free(const vt_manager *m, uint32_t region, uint32_t position)
{
    vt_chunk_state st = vti_pset_state(&m->pset, region, position);
    return st == VT_CHUNK_ABSENT || st == VT_CHUNK_SPARE;
}

// How many positions from `first` on, up to `end`, have nothing mapped and no chunk in the home.
static uint32_t absent_stretch(const vt_manager *m, const vti_span *sp, uint32_t first,
                               uint32_t end)
{
    uint32_t p = first;
    while (p < end && sp->at[p] == VTI_NO_REGION &&
           vti_pset_state(&m->pset, sp->home, p) == VT_CHUNK_ABSENT)
        p++;
    return p - first;
}

// If the system itself is short of memory, all spare chunks and then all idle prefixes are returned
// to it before the answer is VT_NOSPACE.
static vt_status back_now(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n)
{
    vt_status st = vti_job_now(m, sp, VTI_JOB_BACK, first, n);
    for (int attempt = 0; st == VT_NOSPACE && attempt < 2; attempt++) {
        VT_TRY(vti_span_repair(m, sp));
        if (attempt == 1) vti_prefixes_evict(m, UINT64_MAX);
        uint64_t elsewhere = vti_spare_count(m, sp);
        if (elsewhere == 0) continue;
        VT_TRY(vti_spare_reclaim(m, elsewhere, sp));
        st = vti_job_now(m, sp, VTI_JOB_BACK, first, n);
    }
    return st;
}

// ---- Home

// If all regions are in use, prefixes that hold them are evicted.
static vt_status home_open(vt_manager *m, vti_span *sp)
{
    vt_status st;
    while ((st = vti_pset_open(&m->pset, sp->id, &sp->home)) == VT_NOSPACE) {
        uint64_t had = vti_pset_created(&m->pset);
        vti_prefixes_evict(m, 1);
        VT_TRY(vti_strays_free(m));
        if (vti_pset_created(&m->pset) == had) break;
    }
    if (st != VT_OK) sp->home = VTI_NO_REGION;
    return st;
}

static bool all_places_free(const vt_manager *m, uint32_t region, uint32_t first, uint32_t end)
{
    for (uint32_t p = first; p < end; p++)
        if (!place_is_free(m, region, p)) return false;
    return true;
}

// Whether the region of the previous chunk can be the home from `first` on.
static bool home_is_adoptable(const vt_manager *m, const vti_span *sp, uint32_t first, uint32_t end)
{
    if (first == 0 || sp->at[first - 1] == VTI_NO_REGION) return false;
    uint32_t region = sp->at[first - 1];
    return m->pset.region[region].home_of == VTI_NO_SPAN && all_places_free(m, region, first, end);
}

// An empty home is left for one that continues the last run.
static bool home_serves(const vt_manager *m, const vti_span *sp, uint32_t first, uint32_t end)
{
    if (sp->home == VTI_NO_REGION || !all_places_free(m, sp->home, first, end)) return false;
    return vti_pset_region_created(&m->pset, sp->home) > 0 || !home_is_adoptable(m, sp, first, end);
}

vt_status vti_span_home(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end)
{
    if (home_serves(m, sp, first, end)) return VT_OK;
    VT_TRY(vti_span_leave_home(m, sp));
    if (!home_is_adoptable(m, sp, first, end)) return home_open(m, sp);
    sp->home = sp->at[first - 1];
    vti_pset_adopt(&m->pset, sp->home, sp->id);
    return VT_OK;
}

// ---- Backing

vt_status vti_span_stretch(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end, uint32_t *n)
{
    vti_job_settle(m, sp);
    VT_TRY(vti_span_repair(m, sp));
    VT_TRY(vti_span_home(m, sp, first, end));
    VT_TRY(vti_stray_free_at(m, sp, first));
    *n = absent_stretch(m, sp, first, end);
    return VT_OK;
}

vt_status vti_span_back(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end, uint32_t *n)
{
    VT_TRY(vti_span_stretch(m, sp, first, end, n));
    VT_TRY(vti_room_make(m, sp, end, *n));
    VT_TRY(vti_runs_make(m, sp, vti_span_runs_if(&m->vset, sp, first, *n, sp->home)));
    return back_now(m, sp, first, *n);
}
