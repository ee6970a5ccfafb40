// test_sim.c - many worlds (sim.h), one per seed. A failure prints its seed, its iteration and the
// check that failed.
//
//   FX_SIM_SEED=n test_sim                  runs that world again, exactly
//   FX_SIM_TURNS=n test_sim                 runs worlds until n iterations have passed
//   FX_SIM_FIRST=n                          from that seed on
//   FX_SIM_SEED=n FX_SIM_TURNS=m test_sim   one world, m iterations before it ends
//   FX_TEST_LONG=1 test_sim                 runs worlds until 300,000 iterations have passed
#include "suite.h"
#include "unit/cmocka_all.h"

#include "unit/engine/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>

#define TURNS 100000 // of the default run

static uint64_t env_or(const char *name, uint64_t other)
{
    const char *s = getenv(name);
    return s ? strtoull(s, NULL, 10) : other;
}

static void print_totals(const sim_totals *t, uint64_t n_seed)
{
    print_message("%llu worlds", (unsigned long long)n_seed);
#define PRINT(name) print_message(", " #name " %llu", (unsigned long long)t->name);
    SIM_TOTALS(PRINT)
#undef PRINT
    print_message("\n");
}

static void run_one(uint64_t seed, int n_iteration, sim_totals *t)
{
    char what[256];
    if (!sim_run(seed, n_iteration, false, t, what)) fail_msg("%s", what);
}

FX_TEST(test_worlds)
{
    sim_totals t = {0};
    const uint64_t n_iteration = env_or("FX_SIM_TURNS", 0), first = env_or("FX_SIM_FIRST", 1);
    if (getenv("FX_SIM_SEED")) {
        run_one(env_or("FX_SIM_SEED", 0), (int)n_iteration, &t);
        print_totals(&t, 1);
        return;
    }
    uint64_t seed = first;
    const uint64_t most = suite_is_long() ? 3 * TURNS : TURNS;
    while (t.iterations < (n_iteration ? n_iteration : most)) run_one(seed++, 0, &t);
    print_totals(&t, seed - first);
}

// Seeds that found something once.
FX_TEST(test_worlds_that_went_wrong)
{
    static const uint64_t seed[] = {
        3043, // two beams that came back to less memory than they hold, and back, for ever
        6096, // no room for a second choice beside what a request in the swap shares
        3342, // six beams that prepared what was to go back, used it and lost it, for ever
        3786, // no span but those that a failing device had left, which it could take back
    };
    sim_totals t = {0};
    for (size_t i = 0; i < sizeof seed / sizeof *seed; i++) run_one(seed[i], 0, &t);
}

// Wrong rows in the cache are found: in real memory, which odd seeds have.
FX_TEST(test_wrong_rows_are_found)
{
    sim_totals t = {0};
    char what[256];
    for (uint64_t seed = 1; seed < 12; seed += 2) assert_false(sim_run(seed, 0, true, &t, what));
}

FX_RUN(test_sim)
