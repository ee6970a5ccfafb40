// test_vt_fuzz.c - random calls of three tenants, and every byte that is mapped for a sequence
// compared behind each of them, those that failed above all: within its length it is what was
// written, beyond it is zero or the tenant's own. A seed draws a setup (layout, groups with windows
// and states, slices, budget, swap, mapper, a limit on mappings, a backend whose calls fail) and
// the calls.
//
// The environment makes it longer or repeats a failure: FX_TEST_LONG (five times as many seeds),
// VT_FUZZ_SEED (the first), VT_FUZZ_WORLDS (how many seeds), VT_FUZZ_CALLS (of each), VT_FUZZ_S
// (seconds: seeds until they have passed, each told, since a sanitizer may end the program).
#include "assert_vt.h"
#include "suite.h"

#include <stdio.h>
#include <time.h>

#include "fuzz_world.h"

enum { N_WORLD = 20, N_CALL = 400, CHECK_EACH = 64 };

static void run_world(uint64_t seed, uint64_t n_call)
{
    static fuzz_world w;
    const char *what = NULL;
    fuzz_open(&w, seed);
    for (uint64_t k = 0; k < n_call; k++) {
        fuzz_step(&w);
        if (k % CHECK_EACH == 0 && vt_check(w.m, &what) != VT_OK)
            fuzz_fail(&w, what ? what : "vt_check cannot tell", FUZZ_N_SEQ);
    }
    fuzz_close(&w);
}

FX_TEST(test_every_byte_of_every_sequence)
{
    uint64_t seed = env_or("VT_FUZZ_SEED", 1),
             n_world = env_or("VT_FUZZ_WORLDS", suite_is_long() ? 5 * N_WORLD : N_WORLD);
    uint64_t n_call = env_or("VT_FUZZ_CALLS", N_CALL), n_s = env_or("VT_FUZZ_S", 0);
    time_t end = time(NULL) + (time_t)n_s;
    for (uint64_t k = 0; n_s > 0 ? time(NULL) < end : k < n_world; k++) {
        if (n_s > 0) fprintf(stderr, "seed %llu\n", (unsigned long long)(seed + k));
        run_world(seed + k, n_call);
    }
}

// Seeds that found something once.
FX_TEST(test_worlds_that_went_wrong)
{
    static const uint64_t seed[] = {
        1026,    1492, // a tail that is shared no longer once room is made for its copy
        3000376,       // prefixes evicted in vain where the system has no memory for another size
        3000396,       // a state that was copied in part, in a chunk that went on as clean
        3002095,       // a record of a lane that no window ever needed
    };
    for (size_t i = 0; i < sizeof seed / sizeof *seed; i++) run_world(seed[i], N_CALL);
}

FX_RUN(test_vt_fuzz)
