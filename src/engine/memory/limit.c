// limit.c - the limits of memory cgroups, looked at again while the engine runs.
//
// The budget fits them when the engine opens. Later other processes of the group take memory, or
// somebody lowers a limit, and the system ends whoever holds most. So the budget in effect stays
// below what the cache holds and the group has left, less a reserve for all else that the process
// allocates between two looks. What was requested comes back with the memory: in steps of half a
// reserve, so that the budget does not follow every breath of the group. Memory goes back bit by
// bit beside the steps; at once if half of the reserve is gone, since a pause is better than the
// end.
//
// Only of a cache on the host whose budget can change. A look reads some files per cgroup.
#include "base/system/memory.h" // defines: fxi_group_left_bytes
#include "engine/memory/room.h"

enum { LOOK_MS = 250, RESERVE_SHARE = 16 };

#define MOST_RESERVE_BYTES ((uint64_t)512 << 20)

static bool is_in_groups(const fx_engine *eng)
{
    return eng->is_on_host && !eng->vmm && fxi_kv_can(eng->kv, FXI_KV_ELASTIC);
}

static uint64_t reserve_bytes(const fx_engine *eng)
{
    const uint64_t share = eng->budget_bytes / RESERVE_SHARE;
    return share < MOST_RESERVE_BYTES ? share : MOST_RESERVE_BYTES;
}

void fxi_limit_look(fx_engine *eng)
{
    const uint64_t now_ms = fxi_now_ms(eng), reserve = reserve_bytes(eng);
    if (now_ms < eng->limit_look_ms + LOOK_MS || !is_in_groups(eng)) return;
    eng->limit_look_ms = now_ms;
    const uint64_t left = fxi_group_left_bytes(eng->root);
    eng->limit_is_near = left < reserve / 2;
    fxi_kv_stats st;
    fxi_kv_get_stats(eng->kv, &st);
    const uint64_t whole = left == UINT64_MAX ? left : st.mapped_bytes + left;
    const uint64_t most = whole == UINT64_MAX ? whole : whole - (whole < reserve ? whole : reserve);
    if (most <= eng->limit_bytes || most - eng->limit_bytes > reserve / 2) eng->limit_bytes = most;
}

int fxi_limit_wait_ms(const fx_engine *eng)
{
    return eng->limit_bytes == UINT64_MAX ? 0 : 2 * LOOK_MS;
}
