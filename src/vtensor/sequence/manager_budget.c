// manager_budget.c - vt_trim, vt_evict and vt_set_budget: the owner's control over the memory of
// the whole manager.
#include "sequence.h"

static uint64_t freed_since(const vt_manager *m, uint64_t had)
{
    uint64_t has = vti_pset_created(&m->pset);
    return had > has ? (had - has) * m->geo.chunk_bytes : 0;
}

vt_status vt_trim(vt_manager *m, uint64_t keep_bytes, uint64_t *freed_bytes)
{
    vti_jobs_settle(m);
    uint64_t had = vti_pset_created(&m->pset);
    (void)vti_spans_reap(m, VTI_REAP_NOW);
    uint64_t keep = keep_bytes / m->geo.chunk_bytes;
    uint64_t spare = vti_spare_count(m, NULL);
    vt_status st = spare > keep ? vti_spare_reclaim(m, spare - keep, NULL) : VT_OK;
    if (freed_bytes) *freed_bytes = freed_since(m, had);
    return vti_tally_answer(m, st);
}

// A retired span may still hold chunks of a prefix, so it is reaped first.
vt_status vt_evict(vt_manager *m, uint64_t want_bytes, uint64_t *freed_bytes)
{
    vti_jobs_settle(m);
    uint64_t had = vti_pset_created(&m->pset), chunk = m->geo.chunk_bytes;
    (void)vti_spans_reap(m, VTI_REAP_NOW);
    vti_prefixes_evict(m, want_bytes / chunk + (want_bytes % chunk != 0));
    vt_status st = vti_strays_free(m);
    if (freed_bytes) *freed_bytes = freed_since(m, had);
    return vti_tally_answer(m, st);
}

static vt_status set_budget(vt_manager *m, uint64_t budget_bytes)
{
    uint64_t was_chunks = m->budget_chunks;
    if (budget_bytes < m->geo.chunk_bytes) return VT_EINVAL;
    m->budget_chunks = budget_bytes / m->geo.chunk_bytes;
    vt_status st = vti_room_make(m, NULL, 0, 0);
    if (st == VT_OK)
        m->budget_bytes = budget_bytes;
    else
        m->budget_chunks = was_chunks;
    return st;
}

vt_status vt_set_budget(vt_manager *m, uint64_t budget_bytes)
{
    return vti_tally_answer(m, set_budget(m, budget_bytes));
}
