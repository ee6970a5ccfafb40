// emu_clock.cpp - vector clocks, as far as a block needs them. Each thread's clock counts the
// synchronisations that it took part in.
//
//   floors     of each thread, the clock at the last barrier of the whole block: all know it
//   lanes      of each thread, what it knows of the lanes of its warp, by __syncwarp
//   parts      of each thread, what it knows of all others; only once a part of the block has had a
//              barrier of its own
#include "emu_check.h"

#include <algorithm>
#include <map>
#include <set>

static uint32_t serial = 1, first_of_launch = 2; // 1: the host
static unsigned n;
static uint32_t clocks[EMU_MAX_THREAD], floors[EMU_MAX_THREAD], warp_floors[EMU_MAX_THREAD];
static uint32_t lanes[EMU_MAX_THREAD][32];
static std::vector<uint32_t> parts; // [n][n]; empty: not needed yet

// Blocks that have published by an atomic of this address; those whose writes the block that runs
// knows; and its threads that have made a fence since their last atomic.
static std::map<uintptr_t, std::set<uint32_t>> published;
static std::set<uint32_t> acquired;
static std::set<unsigned> fenced;

void emu_clock_launch(void)
{
    first_of_launch = serial + 1;
    published.clear();
}

void emu_clock_block(unsigned n_thread)
{
    serial++;
    n = n_thread;
    for (unsigned i = 0; i < n; i++) clocks[i] = 1, floors[i] = warp_floors[i] = 0;
    memset(lanes, 0, n * sizeof lanes[0]);
    parts.clear();
    acquired.clear();
    fenced.clear();
}

static void tick(unsigned thread)
{
    if (clocks[thread] < EMU_MAX_CLOCK) clocks[thread]++;
}

// Of the threads that meet, each learns what any of them knows.
static void join_parts(const std::vector<unsigned> &joined)
{
    std::vector<uint32_t> all(n, 0);
    for (unsigned t : joined) {
        for (unsigned u = 0; u < n; u++) all[u] = std::max(all[u], parts[(size_t)t * n + u]);
        for (unsigned l = 0; l < 32 && (t & ~31u) + l < n; l++)
            all[(t & ~31u) + l] = std::max(all[(t & ~31u) + l], lanes[t][l]);
    }
    for (unsigned t : joined) all[t] = clocks[t];
    for (unsigned t : joined)
        std::copy(all.begin(), all.end(), parts.begin() + (long)((size_t)t * n));
}

void emu_clock_barrier(const std::vector<unsigned> &joined, bool all)
{
    if (!all && parts.empty()) parts.assign((size_t)n * n, 0);
    if (!all) join_parts(joined);
    for (unsigned t : joined) {
        if (all) floors[t] = clocks[t];
        tick(t);
    }
}

void emu_clock_warp(unsigned warp, unsigned mask, unsigned all_lanes)
{
    uint32_t joined[32] = {0};
    std::vector<unsigned> threads;
    for (unsigned i = 0; i < 32; i++) {
        if (!(mask >> i & 1)) continue;
        threads.push_back(32 * warp + i);
        for (unsigned l = 0; l < 32; l++) joined[l] = std::max(joined[l], lanes[32 * warp + i][l]);
    }
    if (!parts.empty()) join_parts(threads);
    for (unsigned t : threads) joined[t & 31] = clocks[t];
    for (unsigned t : threads) {
        memcpy(lanes[t], joined, sizeof joined);
        if (mask == all_lanes) warp_floors[t] = clocks[t];
        tick(t);
    }
}

void emu_clock_fence(unsigned thread)
{
    fenced.insert(thread);
}

void emu_clock_atomic(uintptr_t at, unsigned thread)
{
    std::set<uint32_t> &there = published[at];
    acquired.insert(there.begin(), there.end());
    if (fenced.erase(thread)) there.insert(serial);
}

uint32_t emu_clock_serial(void)
{
    return serial;
}

uint32_t emu_clock_now(unsigned thread)
{
    return clocks[thread];
}

bool emu_clock_same_launch(emu_stamp s)
{
    return s.serial >= first_of_launch;
}

bool emu_clock_before(emu_stamp s, unsigned thread)
{
    if (s.serial < first_of_launch) return true;
    if (s.serial != serial) return acquired.count(s.serial) != 0;
    const unsigned t = emu_stamp_thread(s);
    const uint32_t then = emu_stamp_clock(s);
    if (t == thread || then <= floors[t]) return true;
    if (t / 32 == thread / 32 && then <= lanes[thread][t & 31]) return true;
    return !parts.empty() && then <= parts[(size_t)thread * n + t];
}

// Of several readers only the last is known by name. The others read before it did, so what orders
// all of the warp, or of the block, since then orders them.
bool emu_clock_reads_before(emu_stamp s, unsigned thread)
{
    const unsigned kind = emu_stamp_flags(s), t = emu_stamp_thread(s);
    if (s.serial < first_of_launch) return true;
    if (s.serial != serial || kind == EMU_ONE) return emu_clock_before(s, thread);
    if (kind == EMU_BLOCKS) return false;
    if (emu_stamp_clock(s) <= floors[t]) return true;
    if (kind == EMU_LANES && t / 32 == thread / 32 && emu_stamp_clock(s) <= warp_floors[t])
        return true;
    return !parts.empty() && t != thread && emu_clock_before(s, thread);
}
