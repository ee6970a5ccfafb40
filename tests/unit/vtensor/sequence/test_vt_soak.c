// test_vt_soak.c - the owner and the mapper thread together, for as long as wanted: rounds of
// random operations on a backend whose calls take a random time, so that the owner meets jobs in
// every state; over sequences that share (family.h), and over windows, groups of several shapes and
// recurrent state (shapes.h). Calls fail in every fourth round; in the others none may, be it only
// one whose failure no operation answers. What sequences hold is read every 8 operations, while the
// mapper works, and all of it is verified every 64.
//
// A round is 250 operations of the first, or 200 of the second; the rounds of a run take about
// three seconds, and VT_SOAK_STEPS=2500000 about twenty minutes with AddressSanitizer. Environment:
// VT_SOAK_STEPS is the number of operations, rounded up to whole rounds; VT_TEST_SEED and
// VT_TEST_ROUND are where it begins. VT_SOAK_STEPS=1 runs one round. A deadlock ends in CTest's
// time limit.
#include "suite.h"

#include "assert_vt.h"
#include "shapes.h"
#include "unit/cmocka_all.h"

static family f;
static uint64_t seed, round_now;

static family_setup draw_family(uint64_t round)
{
    family_setup s = {.backend = (backend)(round % N_BACKEND),
                      .layout = (vt_layout)(round / N_BACKEND % 2),
                      .n_plane = 2 + (uint32_t)(round % 2),
                      .row_bytes = round % 5 ? 100 : 128,
                      .slice_pages = 1,
                      .n_seq = 8,
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

static family_setup draw_shape(uint64_t round)
{
    return shape_setup(round % SHAPE_N_SETUP, (shape_where)(round / 2 % SHAPE_N_WHERE),
                       (vt_layout)(round % 2), VT_MAPPER_THREAD);
}

typedef struct soak {
    uint64_t round_steps;   // operations of a round, which has one setup
    uint64_t default_steps; // if VT_SOAK_STEPS is not set
    family_setup (*draw)(uint64_t round);
} soak;

static void verify_no_error(uint64_t step)
{
    vt_stats st = family_stats(&f);
    if (st.device_errors > 0 || st.quarantined_spans > 0 || st.swap_corrupt > 0)
        fail_msg("operation %llu: %llu device errors, %llu spans quarantined, %llu chunks corrupt",
                 (unsigned long long)step, (unsigned long long)st.device_errors,
                 (unsigned long long)st.quarantined_spans, (unsigned long long)st.swap_corrupt);
}

static void run_round(const soak *s)
{
    const bool faulty = round_now % 4 == 3;
    const family_setup setup = s->draw(round_now);
    family_open(&f, &setup, seed + round_now);
    vt_fault_set_delay(f.fault, seed + round_now, 5u << (round_now % 6));
    for (uint64_t k = 0; k < s->round_steps; k++) {
        if (faulty && k % 4 > 0)
            vt_fault_arm_random(f.fault, (seed + round_now) ^ (k << 20), 5 + (uint32_t)(k % 12));
        family_step(&f, faulty);
        if (!faulty) verify_no_error(k);
        if (k % 8 == 0) family_look(&f);
        if (k % 64 == 0) family_verify(&f);
    }
    family_verify(&f);
    family_close(&f);
}

static void test_owner_and_mapper_together(void **state)
{
    const soak *s = *state;
    uint64_t n_step = env_or("VT_SOAK_STEPS", s->default_steps);
    seed = env_or("VT_TEST_SEED", 1);
    round_now = env_or("VT_TEST_ROUND", 0);
    for (uint64_t done = 0; done < n_step; done += s->round_steps, round_now++) run_round(s);
}

static int print_round(void **state)
{
    (void)state;
    print_message("seed %llu, round %llu\n", (unsigned long long)seed,
                  (unsigned long long)round_now);
    return 0;
}

FX_SUITE(test_vt_soak)
{
    static soak families = {250, 25 * 250, draw_family}, shapes = {200, 28 * 200, draw_shape};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(test_owner_and_mapper_together, NULL, print_round,
                                                 &families),
        cmocka_unit_test_prestate_setup_teardown(test_owner_and_mapper_together, NULL, print_round,
                                                 &shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
