// test_vt_soak.c - the owner and the mapper thread together: random traces of all operations on
// every backend, whose calls take a random time, so that the owner meets jobs in every state; now
// and then calls fail. What sequences hold is read while the mapper works, and every 64 operations
// all of it is verified.
//
// Environment: VT_SOAK_STEPS is the number of operations (12500, about three seconds, if not set;
// 2500000 take about ten minutes with AddressSanitizer); it is rounded up to whole rounds of 250
// operations with one setup. VT_TEST_SEED and VT_TEST_ROUND are where it begins. A deadlock ends in
// CTest's time limit.
#include "unit/cmocka_all.h"

#include <stdlib.h>

#include "env_or.h"
#include "family.h"

enum { ROUND_STEPS = 250, DEFAULT_STEPS = 12500 };

static family f;
static uint64_t seed, round_now;

static family_setup draw_setup(uint64_t round)
{
    family_setup s = {.backend = (backend)(round % N_BACKEND),
                      .layout = (vt_layout)(round / N_BACKEND % 2),
                      .n_plane = 2 + (uint32_t)(round % 2),
                      .row_bytes = round % 5 ? 100 : 128,
                      .slice_pages = 1,
                      .n_seq = FAMILY_MAX_SEQ,
                      .budget_chunks = round % 4 ? 20 + round % 50 : UINT64_MAX,
                      .low_chunks = round % 3 * 4,
                      .high_chunks = round % 5 < 2 ? 9 : 0,
                      .swap_chunks = round % 7 ? 30 : 3,
                      .mapper = VT_MAPPER_THREAD,
                      .device = round % N_BACKEND == ON_FAKE && round % 2};
    if (s.backend == ON_CUDA) s.row_bytes *= 8;
    if (s.low_chunks > s.budget_chunks) s.low_chunks = 0;
    return s;
}

static void run_round(uint64_t round)
{
    family_setup s = draw_setup(round);
    family_open(&f, &s, seed + round);
    bool faulty = round % 4 == 3;
    vt_fault_set_delay(f.fault, seed + round, 5u << (round % 6));
    for (uint64_t k = 0; k < ROUND_STEPS; k++) {
        if (faulty && k % 4 > 0)
            vt_fault_arm_random(f.fault, (seed + round) ^ (k << 20), 5 + (uint32_t)(k % 12));
        family_step(&f, faulty);
        if (k % 8 == 0) family_look(&f);
        if (k % 64 == 0) family_verify(&f);
    }
    family_verify(&f);
    family_close(&f);
}

static void test_owner_and_mapper_together(void **state)
{
    (void)state;
    uint64_t n_step = env_or("VT_SOAK_STEPS", DEFAULT_STEPS);
    seed = env_or("VT_TEST_SEED", 1);
    round_now = env_or("VT_TEST_ROUND", 0);
    for (uint64_t done = 0; done < n_step; done += ROUND_STEPS) run_round(round_now++);
}

// Which round failed.
static int print_round(void **state)
{
    (void)state;
    print_message("seed %llu, round %llu\n", (unsigned long long)seed,
                  (unsigned long long)round_now);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_owner_and_mapper_together, print_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
