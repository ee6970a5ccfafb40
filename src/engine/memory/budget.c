// budget.c - the budget of the KV cache: its minimum, and changing it while groups run. A smaller
// one is in effect once what sequences hold fits it; the rest goes back to the system bit by bit,
// in the manager's steps.
#include "base/system/memory.h" // defines: fxi_whole_memory_bytes
#include "engine/memory/room.h"

#define MIN_CTX_TOK 16 // a budget must hold that many tokens, or the whole context

int fxi_budget_least_tok(const fx_engine *eng)
{
    return eng->info.ctx_tok < MIN_CTX_TOK ? eng->info.ctx_tok : MIN_CTX_TOK;
}

uint64_t fxi_budget_least_bytes(const fx_engine *eng)
{
    return fxi_request_alone_bytes(eng, fxi_budget_least_tok(eng));
}

fx_status fxi_budget_check_machine(const fx_engine *eng, uint64_t bytes, fx_error *err)
{
    const uint64_t whole = eng->vmm ? UINT64_MAX : fxi_whole_memory_bytes("");
    if (bytes <= whole) return FX_OK;
    return fxi_fail(err, FX_EINVAL, "%llu bytes of KV memory; this machine or cgroup has %llu",
                    (unsigned long long)bytes, (unsigned long long)whole);
}

fx_status fxi_budget_check(const fx_engine *eng, uint64_t bytes, fx_error *err)
{
    if (bytes != eng->budget_bytes && !fxi_kv_can(eng->kv, FXI_KV_ELASTIC))
        return fxi_fail(err, FX_EINVAL, "the memory of the KV manager '%s' is fixed once it runs",
                        eng->kv->ops->name);
    const int n_tok = fxi_budget_least_tok(eng);
    const uint64_t least = fxi_budget_least_bytes(eng);
    if (bytes < least)
        return fxi_fail(err, FX_EINVAL, "%llu bytes of KV memory; the least is %llu, for %d tokens",
                        (unsigned long long)bytes, (unsigned long long)least, n_tok);
    return fxi_budget_check_machine(eng, bytes, err);
}

// Frees memory that sequences hold. False: it is on its way, or no sequence holds any.
static bool shed_last(fx_engine *eng)
{
    if (fxi_preempt_drop_late(eng)) return true;
    return !eng->n_leaving && fxi_preempt_last(eng, true);
}

// Memory that a failed device has put out of use may never come free.
static bool has_retired(const fx_engine *eng)
{
    fxi_kv_stats st;
    fxi_kv_get_stats(eng->kv, &st);
    return st.retired_bytes > 0;
}

uint64_t fxi_budget_wanted(const fx_engine *eng)
{
    if (eng->limit_bytes >= eng->budget_bytes) return eng->budget_bytes;
    const uint64_t least = fxi_budget_least_bytes(eng);
    return eng->limit_bytes > least ? eng->limit_bytes : least;
}

static fx_status set_or_aim(fx_engine *eng, uint64_t bytes)
{
    return (eng->limit_is_near ? fxi_kv_set_budget : fxi_kv_aim_budget)(eng->kv, bytes);
}

void fxi_budget_apply(fx_engine *eng)
{
    const uint64_t want = fxi_budget_wanted(eng);
    const bool is_new = want != eng->opt.kv_memory_bytes;
    eng->budget_waits = false;
    eng->budget_follows &= eng->returning_bytes > 0;
    if (!is_new && !eng->budget_follows) return;
    fx_status st;
    while ((st = set_or_aim(eng, want)) == FX_ENOSPACE && shed_last(eng)) {
    }
    eng->budget_waits = st == FX_ENOSPACE && !has_retired(eng);
    if (st != FX_OK || !is_new) return;
    eng->opt.kv_memory_bytes = want;
    eng->budget_follows = true;
    fxi_engine_note(eng, (fx_record){.kind = FX_RECORD_budget, .n = (uint32_t)(want / (1u << 20))});
    eng->n_freed++;
}
