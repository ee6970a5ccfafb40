// strays.c - spare chunks that are mapped nowhere: evictions leave them, and calls whose undoing
// failed. They may hold any bytes, so they are not used again but destroyed.
#include "verbs.h"

#include "vtensor/common/try.h"

static bool is_mapped(const vti_span *home, uint32_t region, uint32_t position)
{
    const vti_tear *t = &home->tear;
    bool torn = t->n > 0 && position >= t->first && position < t->first + t->n;
    return torn || home->at[position] == region;
}

static bool is_stray(const vt_manager *m, uint32_t region, uint32_t position)
{
    if (vti_pset_state(&m->pset, region, position) != VT_CHUNK_SPARE) return false;
    if (!vti_pset_is_home(&m->pset, region)) return true;
    return !is_mapped(m->vset.span[m->pset.region[region].home_of], region, position);
}

static vt_status sweep_region(vt_manager *m, uint32_t region)
{
    uint32_t end = m->geo.chunks_per_span;
    for (uint32_t p = 0, n; p < end; p += n + 1) {
        for (n = 0; p + n < end && is_stray(m, region, p + n); n++) {
        }
        if (n > 0) VT_TRY(vti_chunks_free(m, region, p, n));
    }
    return VT_OK;
}

static uint32_t region_warm(const vt_manager *m, uint32_t region)
{
    bool is_home = vti_pset_is_home(&m->pset, region);
    return is_home ? m->vset.span[m->pset.region[region].home_of]->n_warm : 0;
}

static uint64_t count_stray(const vt_manager *m)
{
    uint64_t n = m->pset.n_in[VT_CHUNK_SPARE];
    for (uint32_t i = 0; n > 0 && i < m->vset.n_span; i++) n -= m->vset.span[i]->n_warm;
    return n;
}

vt_status vti_strays_free(vt_manager *m)
{
    vt_status st = VT_OK;
    if (count_stray(m) == 0) return VT_OK;
    for (uint32_t r = 0; r < m->pset.n_region; r++) {
        if (m->pset.region[r].n_in[VT_CHUNK_SPARE] == region_warm(m, r)) continue;
        vt_status swept = sweep_region(m, r);
        if (swept != VT_OK) st = swept;
    }
    return st;
}

// A spare chunk that is mapped nowhere may hold anything: it is not used again.
vt_status vti_stray_free_at(vt_manager *m, vti_span *sp, uint32_t position)
{
    bool spare = vti_pset_state(&m->pset, sp->home, position) == VT_CHUNK_SPARE;
    return spare ? vti_chunks_free(m, sp->home, position, 1) : VT_OK;
}
