// test_vt_shape_soak.c - the soak (soak.h) over windows, groups of several shapes and recurrent
// state (shapes.h), on every backend. A round is 200 operations.
#include "assert_vt.h"
#include "suite.h"

#include "shapes.h"
#include "soak.h"

static void open_round(uint64_t round, uint64_t seed)
{
    shapes_open(&shapes_all[round % SHAPE_N_SETUP], (shape_where)(round / 2 % SHAPE_N_WHERE),
                (vt_layout)(round % 2), VT_MAPPER_THREAD, seed);
}

FX_SUITE(test_vt_shape_soak)
{
    static soak s = {200,         28 * 200,    open_round,    shapes_fault, shapes_manager,
                     shapes_step, shapes_look, shapes_verify, shapes_close};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(test_owner_and_mapper_together, NULL,
                                                 soak_print_round, &s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
