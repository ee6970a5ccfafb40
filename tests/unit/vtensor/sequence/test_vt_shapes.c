// test_vt_shapes.c - random traces over managers of several groups (shapes.h), in both layouts, on
// every backend, with and without faults.
//
// VT_TEST_SEED and VT_TEST_STEPS (environment) repeat a failure or make the run longer.
#include "assert_vt.h"
#include "suite.h"

#include "env_or.h"
#include "shapes.h"

static void run_trace(const shape_setup *sh, shape_where at, vt_layout layout, uint64_t n_step,
                      bool faulty)
{
    uint64_t seed = env_or("VT_TEST_SEED", 4711);
    n_step = env_or("VT_TEST_STEPS", n_step);
    print_message("%s, on %d, layout %d, seed %llu\n", sh->name, at, layout,
                  (unsigned long long)seed);
    shapes_open(sh, at, layout, VT_MAPPER_OWNER, seed);
    for (uint64_t k = 0; k < n_step; k++) {
        if (faulty && k % 4 > 0)
            vt_fault_arm_random(shapes_fault(), seed ^ (k << 20), 3 + (uint32_t)(k % 12));
        shapes_step(faulty);
        if (k % 4 == 0) shapes_verify();
    }
    shapes_verify();
    shapes_close();
}

static void run_shapes(shape_where at, uint64_t n_step, bool faulty)
{
    for (int k = 0; k < SHAPE_N_SETUP; k++)
        for (int layout = VT_LAYOUT_SPLIT; layout <= VT_LAYOUT_PACKED; layout++)
            run_trace(&shapes_all[k], at, (vt_layout)layout, n_step, faulty);
}

static void test_on_the_host(void **state)
{
    (void)state;
    run_shapes(SHAPE_ON_HOST, 250, false);
}

static void test_on_the_fake(void **state)
{
    (void)state;
    run_shapes(SHAPE_ON_FAKE, 600, false);
}

static void test_on_a_device(void **state)
{
    (void)state;
    run_shapes(SHAPE_ON_DEVICE, 500, false);
}

static void test_on_cuda(void **state)
{
    (void)state;
    run_shapes(SHAPE_ON_CUDA, 80, false);
}

static void test_on_a_faulty_host(void **state)
{
    (void)state;
    run_shapes(SHAPE_ON_HOST, 250, true);
}

static void test_on_a_faulty_fake(void **state)
{
    (void)state;
    run_shapes(SHAPE_ON_FAKE, 600, true);
}

static void test_on_a_faulty_device(void **state)
{
    (void)state;
    run_shapes(SHAPE_ON_DEVICE, 500, true);
}

static void test_on_a_faulty_cuda(void **state)
{
    (void)state;
    run_shapes(SHAPE_ON_CUDA, 80, true);
}

FX_SUITE(test_vt_shapes)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_on_the_host),        cmocka_unit_test(test_on_the_fake),
        cmocka_unit_test(test_on_a_device),        cmocka_unit_test(test_on_cuda),
        cmocka_unit_test(test_on_a_faulty_host),   cmocka_unit_test(test_on_a_faulty_fake),
        cmocka_unit_test(test_on_a_faulty_device), cmocka_unit_test(test_on_a_faulty_cuda),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
