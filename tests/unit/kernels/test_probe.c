// test_probe.c - the loops that measure the machine answer positive numbers, which the tasks of the
// probe rely on; and the figures follow from the clock and the number of threads.
#include "kernels/probe.h"
#include "kernels_test.h"
#include "suite.h"

enum { N_FLOAT = 4096, N_ROUND = 1000 };

FX_TEST(test_loops_answer_positive_numbers)
{
    const fxi_probe_loops *loops = fxi_probe_loops_get();
    float *ones = guarded_new(N_FLOAT * sizeof *ones);
    for (int i = 0; i < N_FLOAT; i++) ones[i] = 1;
    const float read = loops->read(ones, N_FLOAT), fma = loops->fma(1, N_ROUND);
    guarded_free(ones);
    assert_true(read > 0 && isfinite(read));
    assert_true(fma > 0 && isfinite(fma));
    for (int i = 0; loops->int8 && i < FXI_PROBE_N_RUN; i++) {
        const float sum = loops->int8[i].run(0, N_ROUND);
        assert_true(sum > 0 && isfinite(sum));
    }
}

// A clock that goes on by a millisecond whenever it is asked.
static double tick(void)
{
    static int n_ms;
    return ++n_ms * 1e-3;
}

static void near(double got, double want)
{
    assert_true(fabs(got - want) <= 1e-2 * want);
}

// Each try takes a millisecond, so one of 3 ms has 3000 rounds.
static void check_figures(int n_thread)
{
    const fxi_probe_loops *loops = fxi_probe_loops_get();
    const double rounds_per_ns = n_thread * 3000 / 1e6;
    fxi_pool *pool;
    fxi_probe found;
    assert_int_equal(fxi_pool_create(n_thread, &pool, NULL), FX_OK);
    assert_int_equal(fxi_probe_machine(pool, tick, &found, NULL), FX_OK);
    fxi_pool_destroy(pool);
    near(found.read_gb_s, (256 << 20) / 1e6);
    near(found.fma_gflop_s, rounds_per_ns * loops->fma_flop);
    for (int i = 0; i < FXI_PROBE_N_RUN; i++)
        near(found.int8_gop_s[i], loops->int8 ? rounds_per_ns * loops->int8[i].op : 0);
}

FX_TEST(test_figures_follow_the_clock)
{
    check_figures(1);
    check_figures(2);
}

FX_RUN(test_probe)
