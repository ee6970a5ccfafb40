// test_vt_trace.c - long random traces of all operations together against the reference of
// family.h, on every backend, in both layouts, with and without a mapper thread, with budgets,
// mappings and swaps that are too small. First with a backend that works, where VT_NOSPACE is the
// only error; then with one whose calls fail at random, also those that undo, where any status may
// be answered but nothing may be lost, mixed up or read by others. Where nothing is shared, every
// answer is predicted. A sequence that is lost, since undoing failed too, is released; a manager
// with two spans in quarantine is closed, which returns all of their memory, and opened anew.
//
// VT_TEST_SEED and VT_TEST_STEPS (environment) repeat a failure or make the run longer.
#include "suite.h"
#include "unit/cmocka_all.h"

#include <stdlib.h>

#include "assert_vt.h"
#include "family.h"

static family f;

static void run_trace(const family_setup *setup, uint64_t seed, uint64_t n_step, bool faulty)
{
    family_open(&f, setup, seed);
    for (uint64_t k = 0; k < n_step; k++) {
        if (setup->plain) { // the system may have room again
            assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, f.now_ms));
            vt_work(f.m, UINT32_MAX, NULL);
        }
        if (faulty && k % 4 > 0)
            vt_fault_arm_random(f.fault, seed ^ (k << 20), 3 + (uint32_t)(k % 12));
        family_step(&f, faulty);
        if (k % 4 == 0) family_verify(&f);
        if (family_stats(&f).quarantined_spans < 2) continue;
        family_close(&f);
        family_open(&f, setup, seed + k);
    }
    family_verify(&f);
    family_close(&f);
}

#define COMMON .n_seq = 8, .slice_pages = 1

static const family_setup setups[] = {
    {.name = "roomy", COMMON, .n_plane = 3, .row_bytes = 100, .budget_chunks = UINT64_MAX},
    {.name = "tight",
     COMMON,
     .n_plane = 2,
     .row_bytes = 128,
     .budget_chunks = 24,
     .high_chunks = 6,
     .swap_chunks = 12},
    {.name = "straddling",
     COMMON,
     .n_plane = 4,
     .row_bytes = 96,
     .budget_chunks = 60,
     .low_chunks = 5,
     .swap_chunks = 200},
    {.name = "few mappings",
     COMMON,
     .n_plane = 2,
     .row_bytes = 200,
     .budget_chunks = 80,
     .max_runs = 21},
    {.name = "long chunks",
     .n_seq = 5,
     .slice_pages = 2,
     .n_plane = 2,
     .row_bytes = 60,
     .budget_chunks = 14,
     .low_chunks = 2,
     .high_chunks = 3,
     .swap_chunks = 3},
    // no whole number of tokens fits a chunk
    {.name = "plain, tight",
     .plain = true,
     .n_seq = 5,
     .slice_pages = 2,
     .n_plane = 4,
     .row_bytes = 384,
     .budget_chunks = 14},
    {.name = "plain, small rows",
     COMMON,
     .plain = true,
     .n_plane = 3,
     .row_bytes = 100,
     .budget_chunks = 40,
     .high_chunks = 6},
    {.name = "plain, nothing spare",
     .plain = true,
     .n_seq = 4,
     .slice_pages = 1,
     .n_plane = 6,
     .row_bytes = 50,
     .budget_chunks = 9,
     .high_chunks = UINT64_MAX},
    {.name = "plain, few mappings",
     .plain = true,
     .n_seq = 6,
     .slice_pages = 8,
     .n_plane = 2,
     .row_bytes = 512,
     .budget_chunks = UINT64_MAX,
     .high_chunks = 3,
     .max_runs = 9},
};

enum { ROOMY = 0, TIGHT = 1, N_SETUP = sizeof setups / sizeof setups[0] };

// Rows that are as long for the stand-in's pages as they are for the host's.
static family_setup on(backend b, bool device, vt_layout layout, const family_setup *from)
{
    family_setup s = *from;
    s.backend = b;
    s.layout = layout;
    if (b == ON_CUDA) s.row_bytes *= 8;
    if (b != ON_FAKE) s.max_runs = 0;
    s.device = device;
    s.mapper = VT_MAPPER_OWNER; // so that the seed says all; test_vt_soak has the thread
    return s;
}

typedef struct trace_case {
    const char *name;
    backend b;
    bool device, faulty;
    uint64_t n_step;
    int n_seed; // 0: all setups, with VT_TEST_SEED; else of one setup alone, 1000 apart,
    int setup;
    uint64_t first_seed;
} trace_case;

static void run_setup(const trace_case *run, int k, uint64_t seed)
{
    if (setups[k].plain && (run->device || run->b == ON_CUDA)) return;
    for (int layout = VT_LAYOUT_SPLIT; layout <= VT_LAYOUT_PACKED; layout++) {
        family_setup s = on(run->b, run->device, (vt_layout)layout, &setups[k]);
        print_message("%s, layout %d, seed %llu\n", s.name, layout, (unsigned long long)seed);
        run_trace(&s, seed + (uint64_t)k, env_or("VT_TEST_STEPS", run->n_step), run->faulty);
    }
}

static void test_trace_against_reference(void **state)
{
    const trace_case *run = *state;
    const int n_seed = run->n_seed * (suite_is_long() ? 20 : 1);
    for (int k = 0; k < N_SETUP && n_seed == 0; k++)
        run_setup(run, k, env_or("VT_TEST_SEED", 20240715));
    for (int i = 0; i < n_seed; i++)
        run_setup(run, run->setup, run->first_seed + 1000 * (uint64_t)i);
}

// The last two: memory that waits for the device; and a span that is lost while room is made for a
// copy of its tail.
static const trace_case runs[] = {
    {"host", ON_HOST, false, false, 400, 0, 0, 0},
    {"fake", ON_FAKE, false, false, 1500, 0, 0, 0},
    {"cuda", ON_CUDA, false, false, 120, 0, 0, 0},
    {"device", ON_FAKE, true, false, 1000, 0, 0, 0},
    {"faulty host", ON_HOST, false, true, 400, 0, 0, 0},
    {"faulty fake", ON_FAKE, false, true, 1500, 0, 0, 0},
    {"faulty cuda", ON_CUDA, false, true, 120, 0, 0, 0},
    {"faulty device", ON_FAKE, true, true, 1000, 0, 0, 0},
    {"device, tight", ON_FAKE, true, false, 1000, 15, TIGHT, 0},
    {"faulty fake, roomy", ON_FAKE, false, true, 1500, 1, ROOMY, 424000},
};

FX_SUITE(test_vt_trace)
{
    return RUN_CASES(test_vt_trace, test_trace_against_reference, runs);
}
