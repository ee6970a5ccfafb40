// manager_budget.c - vt_settle, vt_trim, vt_evict and vt_set_budget: the owner's control over the
// memory of the whole manager; vt_give_back and vt_aim_budget, which leave most of it to vt_step.
#include "sequence.h"

#include "vtensor/core/common.h"

static void settle_all(vt_manager *m)
{
    vti_jobs_settle(m);
    vti_loans_return(m, false);
    (void)vti_spans_reap(m, VTI_REAP_NOW);
    vti_quarantine_retry(m);
    vti_spans_clear(m, false);
}

static vt_status await_live(vt_manager *m)
{
    for (vti_span *sp = m->vset.in[VTI_SPAN_LIVE].oldest; sp; sp = sp->newer)
        VT_TRY(vti_span_await(m, sp));
    return VT_OK;
}

static vt_status settle_device(vt_manager *m)
{
    vti_jobs_settle(m);
    vti_loans_return(m, true);
    VT_TRY(vti_spans_reap(m, VTI_REAP_WAIT));
    VT_TRY(await_live(m));
    vti_quarantine_await(m);
    vti_spans_clear(m, false);
    vti_moves_go_on(m);
    return VT_OK;
}

vt_status vt_settle(vt_manager *m)
{
    return vti_tally_answer(m, settle_device(m));
}

static uint64_t freed_since(const vt_manager *m, uint64_t had)
{
    uint64_t has = vti_pset_created_bytes(&m->pset);
    return had > has ? had - has : 0;
}

static uint64_t all_spare(const vt_manager *m)
{
    return vti_spare_for_newcomers(m) + m->vset.n_warm_bytes[VTI_SPAN_LIVE];
}

vt_status vt_trim(vt_manager *m, uint64_t keep_bytes, uint64_t *freed_bytes)
{
    uint64_t had = vti_pset_created_bytes(&m->pset);
    settle_all(m);
    uint64_t spare = all_spare(m);
    vt_status st = spare > keep_bytes ? vti_spare_return(m, spare - keep_bytes) : VT_OK;
    vti_slots_drop_now(m);
    if (freed_bytes) *freed_bytes = freed_since(m, had);
    return vti_tally_answer(m, st);
}

// A retired span may still hold chunks of a prefix, so it is reaped first.
vt_status vt_evict(vt_manager *m, uint64_t want_bytes, uint64_t *freed_bytes)
{
    uint64_t had = vti_pset_created_bytes(&m->pset);
    settle_all(m);
    uint64_t pooled = vti_pset_pool_bytes(&m->pset);
    vti_prefixes_evict(m, want_bytes);
    uint64_t evicted = vti_pset_pool_bytes(&m->pset) - pooled;
    vt_status st = evicted > 0 ? vti_spare_return(m, evicted) : VT_OK;
    if (freed_bytes) *freed_bytes = freed_since(m, had);
    return vti_tally_answer(m, st);
}

static uint64_t excess_bytes(const vt_manager *m, uint64_t budget_bytes)
{
    uint64_t used = vti_pset_created_bytes(&m->pset) + m->reserved_bytes;
    return used > budget_bytes ? used - budget_bytes : 0;
}

// Whole chunks may have to go for less.
static vt_status shrink_to(vt_manager *m, uint64_t budget_bytes)
{
    uint64_t over = excess_bytes(m, budget_bytes);
    if (over > all_spare(m) + vti_pset_evictable_bytes(&m->pset))
        return vti_room_may_come(m) ? VT_BUSY : VT_NOSPACE;
    while (over > 0) {
        uint64_t had = over, spare = all_spare(m);
        if (over > spare) vti_prefixes_evict(m, over - spare);
        VT_TRY(vti_spare_return(m, over));
        over = excess_bytes(m, budget_bytes);
        if (over == had) return VT_BUSY; // the device still uses the rest
    }
    return VT_OK;
}

static uint64_t share_of(const vt_manager *m, uint64_t bytes, uint64_t budget_bytes)
{
    if (bytes >= m->first_budget_bytes) return bytes;
    return (uint64_t)((unsigned __int128)bytes * budget_bytes / m->first_budget_bytes);
}

// spare_high keeps its share of the budget, and spare_low does not keep more than that.
static void take_marks(vt_manager *m)
{
    uint64_t low = share_of(m, m->first_spare_low_bytes, m->budget_bytes);
    m->spare_low_bytes = low < m->first_spare_low_bytes ? low : m->first_spare_low_bytes;
    m->spare_high_bytes = share_of(m, m->first_spare_high_bytes, m->budget_bytes);
    if (m->spare_high_bytes < m->spare_low_bytes) m->spare_high_bytes = m->spare_low_bytes;
}

static bool holds_chunks(const vt_manager *m, uint64_t budget_bytes)
{
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        if (budget_bytes < m->geo.group[g].chunk_bytes) return false;
    return true;
}

static void take_budget(vt_manager *m, uint64_t budget_bytes)
{
    m->budget_bytes = budget_bytes;
    m->ceiling_bytes = budget_bytes + vti_over_budget(m);
    take_marks(m);
}

static vt_status set_budget(vt_manager *m, uint64_t budget_bytes)
{
    if (!holds_chunks(m, budget_bytes)) return VT_EINVAL;
    if (excess_bytes(m, budget_bytes) > 0) {
        settle_all(m);
        VT_TRY(shrink_to(m, budget_bytes));
    }
    take_budget(m, budget_bytes);
    return VT_OK;
}

vt_status vt_set_budget(vt_manager *m, uint64_t budget_bytes)
{
    return vti_tally_answer(m, set_budget(m, budget_bytes));
}

// ---- Bit by bit

static vt_status aim_budget(vt_manager *m, uint64_t budget_bytes)
{
    if (!holds_chunks(m, budget_bytes)) return VT_EINVAL;
    vti_jobs_take(m);
    if (!vti_can_return(m, excess_bytes(m, budget_bytes))) {
        settle_all(m);
        if (!vti_can_return(m, excess_bytes(m, budget_bytes)))
            return vti_room_may_come(m) ? VT_BUSY : VT_NOSPACE;
    }
    if (budget_bytes == m->budget_bytes) return VT_OK; // it is under way
    take_budget(m, budget_bytes);
    vti_giving_go_on(m);
    return VT_OK;
}

vt_status vt_aim_budget(vt_manager *m, uint64_t budget_bytes)
{
    return vti_tally_answer(m, aim_budget(m, budget_bytes));
}

void vt_give_back(vt_manager *m, uint64_t keep_bytes, bool forget)
{
    vti_giving *g = &m->giving;
    vti_jobs_take(m);
    if (!g->is_on || keep_bytes < g->keep_bytes) g->keep_bytes = keep_bytes;
    g->recent_bytes = 0;
    g->forgets |= forget;
    g->is_on = true;
    g->n_retired = vti_spans_retired(m);
    vti_giving_go_on(m);
}
