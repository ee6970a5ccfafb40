// test_vt_shape_soak.c - the owner and the mapper thread together, over windows, groups of several
// shapes and recurrent state (shapes.h), on every backend, whose calls take a random time; in every
// fourth round calls fail.
//
// Environment: VT_SOAK_STEPS is the number of operations (5600 if not set), rounded up to whole
// rounds of 200 with one setup; VT_TEST_SEED and VT_TEST_ROUND are where it begins.
#include "assert_vt.h"

#include "env_or.h"
#include "shapes.h"

enum { ROUND_STEPS = 200, DEFAULT_STEPS = 28 * ROUND_STEPS };

static uint64_t seed, round_now;

static void run_round(uint64_t round)
{
    bool faulty = round % 4 == 3;
    shapes_open(&shapes_all[round % SHAPE_N_SETUP], (shape_where)(round / 2 % SHAPE_N_WHERE),
                (vt_layout)(round % 2), VT_MAPPER_THREAD, seed + round);
    vt_fault_set_delay(shapes_fault(), seed + round, 5u << (round % 6));
    for (uint64_t k = 0; k < ROUND_STEPS; k++) {
        if (faulty && k % 4 > 0)
            vt_fault_arm_random(shapes_fault(), (seed + round) ^ (k << 20), 5 + (uint32_t)(k % 12));
        shapes_step(faulty);
        if (k % 8 == 0) shapes_look();
        if (k % 64 == 0) shapes_verify();
    }
    shapes_verify();
    shapes_close();
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
