// budget.c - the budget of the KV cache: its minimum, changing it while requests run, and the
// limits of memory cgroups.
//
// A smaller budget is in effect once what sequences hold fits it; the rest is returned to the
// system bit by bit, in the manager's steps.
//
// The budget fits the limits of memory cgroups when the engine opens. Later other processes of the
// cgroup take memory, or a limit is lowered, and the system kills the process that holds most.
// So the budget in effect stays below what the cache holds plus what the cgroup has left, less a
// reserve for everything else that the process allocates between two looks. What was requested
// comes back with the memory: in steps of half a reserve, so that the budget does not follow every
// small change. Memory is returned bit by bit while requests run, but at once if half of the
// reserve is gone, since a pause is better than being killed.
#include "base/system/memory.h" // defines: fxi_whole_memory_bytes, fxi_group_left_bytes
#include "engine/memory/kv_memory.h"

enum { MIN_CTX_TOK = 16 }; // a budget must hold that many tokens, or the whole context
enum { LOOK_MS = 250, RESERVE_SHARE = 16 };

#define MOST_RESERVE_BYTES ((uint64_t)512 << 20)

int fxi_budget_least_tok(const fxi_service *sv)
{
    return sv->info->ctx_tok < MIN_CTX_TOK ? sv->info->ctx_tok : MIN_CTX_TOK;
}

uint64_t fxi_budget_least_bytes(const fxi_service *sv)
{
    return fxi_request_alone_bytes(sv, fxi_budget_least_tok(sv));
}

fx_status fxi_budget_check_machine(const fxi_memory *m, uint64_t bytes, fx_error *err)
{
    const uint64_t whole = m->is_foreign ? UINT64_MAX : fxi_whole_memory_bytes("");
    if (bytes <= whole) return FX_OK;
    return fxi_fail(err, FX_EINVAL, "%llu bytes of KV memory; this machine or cgroup has %llu",
                    (unsigned long long)bytes, (unsigned long long)whole);
}

fx_status fxi_budget_check(const fxi_memory *m, uint64_t bytes, fx_error *err)
{
    const uint64_t least = fxi_budget_least_bytes(m->service);
    if (bytes != m->service->budget_bytes && !fxi_kv_can(m->kv, FXI_KV_ELASTIC))
        return fxi_fail(err, FX_EINVAL, "the memory of the KV manager '%s' is fixed once it runs",
                        m->kv->ops->name);
    if (bytes < least)
        return fxi_fail(err, FX_EINVAL, "%llu bytes of KV memory; the least is %llu, for %d tokens",
                        (unsigned long long)bytes, (unsigned long long)least,
                        fxi_budget_least_tok(m->service));
    return fxi_budget_check_machine(m, bytes, err);
}

uint64_t fxi_budget_wanted(const fxi_memory *m)
{
    const uint64_t requested = m->service->budget_bytes;
    if (m->limit_bytes >= requested) return requested;
    const uint64_t least = fxi_budget_least_bytes(m->service);
    return m->limit_bytes > least ? m->limit_bytes : least;
}

void fxi_budget_apply(fxi_memory *m)
{
    const uint64_t want = fxi_budget_wanted(m);
    const bool is_new = want != m->effective_bytes;
    m->budget_waits = false;
    m->budget_follows &= m->returning_bytes > 0;
    if (!is_new && !m->budget_follows) return;
    fx_status st;
    do st = (m->limit_is_near ? fxi_kv_set_budget : fxi_kv_aim_budget)(m->kv, want);
    while (st == FX_ENOSPACE && fxi_preempt_free(m, true));
    fxi_kv_stats kv;
    fxi_kv_get_stats(m->kv, &kv);
    // Memory that a failed device has put out of use may never come free.
    m->budget_waits = st == FX_ENOSPACE && !kv.retired_bytes;
    if (st != FX_OK || !is_new) return;
    m->effective_bytes = want;
    m->budget_follows = true;
    fxi_journal_note(m->journal,
                     (fx_record){.kind = FX_RECORD_budget, .n = (uint32_t)(want / (1u << 20))});
    m->sched->n_freed++;
}

void fxi_limit_look(fxi_memory *m)
{
    const uint64_t now_ms = fxi_journal_ms(m->journal);
    if (now_ms < m->limit_look_ms + LOOK_MS || !m->is_in_cgroup) return;
    const uint64_t share = m->service->budget_bytes / RESERVE_SHARE;
    const uint64_t reserve = share < MOST_RESERVE_BYTES ? share : MOST_RESERVE_BYTES;
    const uint64_t left = fxi_group_left_bytes(m->root);
    fxi_kv_stats kv;
    fxi_kv_get_stats(m->kv, &kv);
    const uint64_t whole = left == UINT64_MAX ? left : kv.mapped_bytes + left;
    const uint64_t most = whole == UINT64_MAX ? whole : whole - (whole < reserve ? whole : reserve);
    m->limit_look_ms = now_ms;
    m->limit_is_near = left < reserve / 2;
    if (most <= m->limit_bytes || most - m->limit_bytes > reserve / 2) m->limit_bytes = most;
}

int fxi_limit_wait_ms(const fxi_memory *m)
{
    return m->limit_bytes == UINT64_MAX ? 0 : 2 * LOOK_MS;
}
