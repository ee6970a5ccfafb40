// test_vt_model.c - long random traces of operations against the reference of world.h, on both
// backends and in both layouts, with row sizes for which tokens straddle chunks. First with a
// backend that works, where every answer is predicted; then with one whose calls fail at random,
// also those that undo, where any status may be answered but nothing may be lost, mixed up or read
// by others. A sequence that is lost, since undoing failed too, is released; a manager with two
// spans in quarantine is closed, which returns all of their memory, and opened anew.
//
// VT_TEST_SEED and VT_TEST_STEPS (environment) repeat a failure or make the run longer.
#include "assert_vt.h"
#include "suite.h"

#include <stdlib.h>

#include "world.h"

// Mostly a little more, sometimes a lot, sometimes less or too much.
static uint32_t draw_len(world *w, uint32_t len_tok)
{
    uint32_t max_tok = w->setup.max_tok;
    switch (world_draw(w, 8)) {
    case 0: return (uint32_t)world_draw(w, max_tok + 1);
    case 1: return max_tok + (uint32_t)world_draw(w, 3);
    case 2: return len_tok / 2;
    default: return len_tok + (uint32_t)world_draw(w, 24);
    }
}

static void step_new(world *w, uint32_t which, bool faulty)
{
    vt_status st = world_create(w, which);
    if (!faulty) assert_status(VT_OK, st);
}

// Its memory and mappings are missing elsewhere.
static bool has_quarantine(const world *w)
{
    return world_stats(w).quarantined_spans > 0;
}

// After failures a sequence may be mapped in more runs than one, or lack what is in quarantine.
static bool is_scattered(const world *w, vt_status st)
{
    return has_quarantine(w) || (st == VT_NOMAPS && w->setup.max_runs > 0);
}

static void step_extend(world *w, uint32_t which, bool faulty)
{
    uint32_t len_tok = draw_len(w, w->seq[which].len_tok);
    vt_status want = world_foresee(w, which, len_tok);
    vt_status st = world_extend(w, which, len_tok);
    if (!faulty || ((st == VT_OK || st == VT_EINVAL) && !has_quarantine(w)))
        assert_status(want, st);
    else
        assert_true(vt_fault_fired(w->fault) > 0 || st == want || is_scattered(w, st));
}

static void step_trim(world *w, bool faulty)
{
    vt_stats before = world_stats(w);
    uint64_t freed, keep = world_draw(w, before.chunks_spare + 2) * before.chunk_bytes;
    vt_status st = vt_trim(w->m, keep, &freed);
    vt_stats after = world_stats(w);
    assert_int_equal(before.mapped_bytes - after.mapped_bytes, freed);
    if (!faulty) assert_status(VT_OK, st);
    if (st == VT_OK && !has_quarantine(w))
        assert_true(after.chunks_spare * after.chunk_bytes <= keep);
}

// What is too much goes back to the system in portions: unmapped in one step, destroyed in another.
static void step_release(world *w, uint32_t which, bool faulty)
{
    world_release(w, which);
    uint64_t most = w->setup.spare_chunks;
    for (int k = 0; k < 20 && world_spare(w) > most; k++) {
        vt_status st = vt_step(w->m, VT_AHEAD_NONE, 0, 0);
        if (!faulty) assert_ok(st);
        vt_work(w->m, UINT32_MAX, NULL);
    }
    if (!faulty) assert_true(world_spare(w) <= most);
}

static void step(world *w, bool faulty)
{
    uint32_t which = (uint32_t)world_draw(w, w->setup.max_seq);
    uint64_t what = world_draw(w, 32);
    if (what == 0)
        step_trim(w, faulty);
    else if (w->seq[which].s && vt_seq_is_lost(w->seq[which].s))
        world_release(w, which);
    else if (!w->seq[which].s)
        step_new(w, which, faulty);
    else if (what < 4)
        step_release(w, which, faulty);
    else if (what < 20)
        step_extend(w, which, faulty);
    else
        world_write(w, which);
}

static void run_trace(const world_setup *setup, uint64_t seed, uint64_t n_step, bool faulty)
{
    static world w;
    world_open(&w, setup, seed);
    for (uint64_t i = 0; i < n_step; i++) {
        assert_ok(vt_step(w.m, VT_AHEAD_NONE, 0, i)); // the system may have room again
        vt_work(w.m, UINT32_MAX, NULL);
        if (faulty) vt_fault_arm_random(w.fault, seed ^ (i << 20), 4 + (uint32_t)(i % 16));
        step(&w, faulty);
        vt_fault_disarm(w.fault);
        if (i % 4 == 0) world_verify(&w);
        if (world_stats(&w).quarantined_spans < 2) continue;
        world_close(&w);
        world_open(&w, setup, seed + i);
    }
    world_verify(&w);
    vt_seq *one_too_many;
    for (uint32_t i = 0; i < setup->max_seq; i++)
        if (!w.seq[i].s) assert_status(VT_OK, world_create(&w, i));
    assert_status(VT_NOSPANS, vt_seq_create(w.m, 0, &one_too_many));
    assert_null(one_too_many);
    world_close(&w);
}

static const world_setup setups[] = {
    // heads of 8 x 96 x 2 bytes: no whole number of tokens fits a page
    {.n_plane = 4,
     .row_bytes = 1536,
     .max_tok = 150,
     .max_seq = 5,
     .budget_chunks = 14,
     .spare_chunks = UINT64_MAX},
    {.n_plane = 3,
     .row_bytes = 100,
     .max_tok = 400,
     .max_seq = 8,
     .budget_chunks = 40,
     .spare_chunks = 6},
    {.n_plane = 6,
     .row_bytes = 6,
     .max_tok = 3000,
     .max_seq = 4,
     .budget_chunks = 9,
     .spare_chunks = 0},
    {.n_plane = 2,
     .row_bytes = 512,
     .max_tok = 200,
     .max_seq = 6,
     .spare_chunks = 3,
     .max_runs = 9},
};

enum { N_SETUP = sizeof setups / sizeof setups[0] };

static void run_all(vt_layout layout, bool host, bool faulty, uint64_t n_step)
{
    uint64_t seed = env_or("VT_TEST_SEED", 20240715);
    n_step = env_or("VT_TEST_STEPS", n_step);
    print_message("seed %llu, %llu steps\n", (unsigned long long)seed, (unsigned long long)n_step);
    for (int i = 0; i < N_SETUP; i++) {
        world_setup setup = setups[i];
        setup.layout = layout;
        setup.host = host;
        if (host) setup.max_runs = 0; // the host's limit is the system's
        run_trace(&setup, seed + (uint64_t)i, n_step, faulty);
    }
}

typedef struct model_case {
    const char *name;
    vt_layout layout;
    bool host, faulty;
    uint64_t n_step;
} model_case;

static void test_trace_against_reference(void **state)
{
    const model_case *run = *state;
    run_all(run->layout, run->host, run->faulty, run->n_step);
}

static const model_case runs[] = {
    {"host, split", VT_LAYOUT_SPLIT, true, false, 1000},
    {"host, packed", VT_LAYOUT_PACKED, true, false, 1000},
    {"fake, split", VT_LAYOUT_SPLIT, false, false, 2500},
    {"fake, packed", VT_LAYOUT_PACKED, false, false, 2500},
    {"faulty host, split", VT_LAYOUT_SPLIT, true, true, 800},
    {"faulty host, packed", VT_LAYOUT_PACKED, true, true, 800},
    {"faulty fake, split", VT_LAYOUT_SPLIT, false, true, 2500},
    {"faulty fake, packed", VT_LAYOUT_PACKED, false, true, 2500},
};

enum { N_RUN = sizeof runs / sizeof runs[0] };

#define RUN(test, i) cmocka_unit_test_prestate(test, (void *)&runs[i])

FX_SUITE(test_vt_model)
{
    struct CMUnitTest tests[] = {
        RUN(test_trace_against_reference, 0), RUN(test_trace_against_reference, 1),
        RUN(test_trace_against_reference, 2), RUN(test_trace_against_reference, 3),
        RUN(test_trace_against_reference, 4), RUN(test_trace_against_reference, 5),
        RUN(test_trace_against_reference, 6), RUN(test_trace_against_reference, 7),
    };
    for (size_t i = 0; i < N_RUN; i++) tests[i].name = runs[i].name;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
