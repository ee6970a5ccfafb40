// test_vt_soak.c - the soak (soak.h) over sequences that share (family.h): random traces of all
// operations on every backend. A round is 250 operations; 50 rounds take about three seconds, and
// VT_SOAK_STEPS=2500000 about ten minutes with AddressSanitizer.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "family.h"
#include "soak.h"

static family f;

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

static void open_round(uint64_t round, uint64_t seed)
{
    family_setup s = draw_setup(round);
    family_open(&f, &s, seed);
}

static vt_vmm *fault_of_round(void)
{
    return f.fault;
}

static vt_manager *manager_of_round(void)
{
    return f.m;
}

static void step_round(bool faulty)
{
    family_step(&f, faulty);
}

static void look_at_round(void)
{
    family_look(&f);
}

static void verify_round(void)
{
    family_verify(&f);
}

static void close_round(void)
{
    family_close(&f);
}

FX_SUITE(test_vt_soak)
{
    static soak s = {250,        50 * 250,      open_round,   fault_of_round, manager_of_round,
                     step_round, look_at_round, verify_round, close_round};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(test_owner_and_mapper_together, NULL,
                                                 soak_print_round, &s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
