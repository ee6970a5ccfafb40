// test_step_cost.c - what a step is expected to take: by its rows, by what it reads, and by how
// fast the machine is now.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "engine/draft/step_cost.h"

#include <math.h>

static void expect_near(double x, double want, double part)
{
    if (fabs(x - want) > part * want) fail_msg("%.1f, not %.1f", x, want);
}

static void note_plain(fxi_step_cost *c, int n_row, double n_read, double us)
{
    fxi_cost_note(c, n_row, n_read, us, false);
}

static void test_steps_between_measured_ones(void **state)
{
    (void)state;
    fxi_step_cost c = {0};
    assert_true(fxi_cost_of(&c, 4, 0) == 0);
    note_plain(&c, 2, 0, 100);
    note_plain(&c, 6, 0, 140);
    assert_true(fxi_cost_of(&c, 2, 0) == 100 && fxi_cost_of(&c, 6, 0) == 140);
    assert_true(fxi_cost_of(&c, 4, 0) == 120);
    assert_true(fxi_cost_of(&c, 1, 0) == 100);
    assert_true(fxi_cost_of(&c, 10, 0) == 180);
    fxi_cost_note_prompt(&c, 506, 5140); // a row more than 6 takes 10
    assert_true(fxi_cost_of(&c, 10, 0) == 180);
    fxi_cost_note_prompt(&c, 506, 25140);
    assert_true(fxi_cost_of(&c, 10, 0) == 220);
    assert_true(fxi_cost_of(&c, FXI_COST_ROWS + 50, 0) == 140 + 20 * (FXI_COST_ROWS + 44));
    expect_near(fxi_cost_prompt_row(&c), 10140 / 506.0, 1e-9);
}

// 100 us a row and 0.5 us a token: three answers that read 1000 to 3000 tokens teach it.
static double steps_of(double n_row, double n_read)
{
    return 100 * n_row + 0.5 * n_read;
}

static void learn_reading(fxi_step_cost *c, int n_row)
{
    for (int answer = 0; answer < 3; answer++)
        for (int i = 0; i < 200; i++)
            note_plain(c, n_row, 1000 + 10 * i, steps_of(n_row, 1000 + 10 * i));
}

static void test_what_is_read_takes_time(void **state)
{
    (void)state;
    fxi_step_cost c = {0};
    learn_reading(&c, 4);
    for (double n_read = 1000; n_read <= 6000; n_read += 1000)
        expect_near(fxi_cost_of(&c, 4, n_read), steps_of(4, n_read), 0.03);
    note_plain(&c, 8, 2000, steps_of(8, 2000));
    expect_near(fxi_cost_of(&c, 8, 4000), steps_of(8, 4000), 0.03);
    expect_near(fxi_cost_of(&c, 6, 4000), steps_of(6, 4000), 0.05);
}

// A machine that becomes slower does so for steps of all rows.
static void test_speed_is_of_all_steps(void **state)
{
    (void)state;
    fxi_step_cost c = {0};
    for (int i = 0; i < 50; i++) {
        note_plain(&c, 1, 100, 1000);
        fxi_cost_note(&c, 4, 400, 1200, true);
    }
    for (int i = 0; i < 50; i++) note_plain(&c, 1, 100, 1500);
    expect_near(fxi_cost_of(&c, 1, 100), 1500, 0.01);
    expect_near(fxi_cost_of(&c, 4, 400), 1800, 0.1);
    for (int i = 0; i < 50; i++) fxi_cost_note(&c, 4, 400, 9000, true); // says nothing of the speed
    expect_near(fxi_cost_of(&c, 1, 100), 1500, 0.01);
}

static void test_a_hitch_changes_little(void **state)
{
    (void)state;
    fxi_step_cost c = {0};
    for (int i = 0; i < 50; i++) note_plain(&c, 2, 100, 1000);
    assert_true(fxi_cost_without_hitch(&c, 2, 100, 1e6) == 2000);
    note_plain(&c, 2, 100, 1e6);
    assert_true(fxi_cost_of(&c, 2, 100) < 1100);
}

static void test_what_was_measured_lately_is_sure(void **state)
{
    (void)state;
    fxi_step_cost c = {0};
    assert_false(fxi_cost_is_sure(&c, 1, 100));
    note_plain(&c, 1, 100, 1000);
    assert_true(fxi_cost_is_sure(&c, 1, 101));
    assert_false(fxi_cost_is_sure(&c, 1, 200)); // reads twice as much
    assert_false(fxi_cost_is_sure(&c, 2, 101));
    for (int most = 1; most <= 64; most *= 2) {
        int n = 0;
        for (; fxi_cost_is_sure(&c, 1, 100); n++) fxi_cost_note(&c, 2, 200, 1100, true);
        assert_int_equal(n, most < 32 ? most : 32);
        note_plain(&c, 1, 100, 1000);
        fxi_cost_trust(&c, true);
    }
    fxi_cost_trust(&c, false);
    assert_int_equal(c.most_since, 8);
    assert_int_equal(fxi_cost_most_more(&c, 1), 10); // steps of 2 rows were measured
    note_plain(&c, 16, 1600, 4000);
    note_plain(&c, 18, 1800, 4200);
    assert_true(fxi_cost_is_sure(&c, 17, 1700));
    assert_false(fxi_cost_is_sure(&c, FXI_COST_ROWS + 1, 1800));
}

static void test_what_a_row_takes_at_least(void **state)
{
    (void)state;
    fxi_step_cost c = {0};
    for (int i = 0; i < 200; i++) note_plain(&c, 1 + i % 8, 0, 5000 + 100 * (1 + i % 8));
    expect_near(fxi_cost_least(&c, 4), 0.5 * 4 * 100, 0.1);
}

FX_SUITE(test_step_cost)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_between_measured_ones),
        cmocka_unit_test(test_what_is_read_takes_time),
        cmocka_unit_test(test_speed_is_of_all_steps),
        cmocka_unit_test(test_a_hitch_changes_little),
        cmocka_unit_test(test_what_was_measured_lately_is_sure),
        cmocka_unit_test(test_what_a_row_takes_at_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
