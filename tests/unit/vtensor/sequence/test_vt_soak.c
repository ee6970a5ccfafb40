// test_vt_soak.c - the soak (soak.h): random traces of all operations on every backend, over
// sequences that share (family.h), and over windows, groups of several shapes and recurrent state
// (shapes.h). A round is 250 operations of the first, or 200 of the second; the rounds of a run
// take about three seconds, and VT_SOAK_STEPS=2500000 about twenty minutes with AddressSanitizer.
#include "suite.h"

#include "assert_vt.h"
#include "family.h"
#include "shapes.h"
#include "soak.h"
#include "unit/cmocka_all.h"

static family f;

static family_setup draw_setup(uint64_t round)
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

static void open_family_round(uint64_t round, uint64_t seed)
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

static void open_shapes_round(uint64_t round, uint64_t seed)
{
    shapes_open(&shapes_all[round % SHAPE_N_SETUP], (shape_where)(round / 2 % SHAPE_N_WHERE),
                (vt_layout)(round % 2), VT_MAPPER_THREAD, seed);
}

FX_SUITE(test_vt_soak)
{
    static soak families = {
        250,        25 * 250,      open_family_round, fault_of_round, manager_of_round,
        step_round, look_at_round, verify_round,      close_round};
    static soak shapes = {200,         28 * 200,    open_shapes_round, shapes_fault, shapes_manager,
                          shapes_step, shapes_look, shapes_verify,     shapes_close};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(test_owner_and_mapper_together, NULL,
                                                 soak_print_round, &families),
        cmocka_unit_test_prestate_setup_teardown(test_owner_and_mapper_together, NULL,
                                                 soak_print_round, &shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
