// test_vt_vset.c - vSet: spans, the idle list, the count of runs, addresses. Structure alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "vtensor/internal.h"

enum { N_SPAN = 4, N_VIEW = 3 };

static vti_vset vs;
static vti_span *sp[N_SPAN];

static int setup(void **state)
{
    (void)state;
    if (vti_vset_init(&vs, N_SPAN, N_VIEW) != VT_OK) return -1;
    for (int i = 0; i < N_SPAN; i++)
        if (vti_vset_push(&vs, &sp[i]) != VT_OK) return -1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    while (vs.n_span > 0) vti_vset_pop(&vs);
    vti_vset_free(&vs);
    return 0;
}

static void spans_are_numbered_and_bounded(void **state)
{
    (void)state;
    vti_span *more = NULL;
    for (uint32_t i = 0; i < N_SPAN; i++) assert_int_equal(sp[i]->id, i);
    assert_int_equal(vti_vset_push(&vs, &more), VT_NOSPACE);
    assert_null(more);
    vti_vset_pop(&vs);
    assert_int_equal(vti_vset_push(&vs, &more), VT_OK);
    assert_int_equal(more->id, N_SPAN - 1);
}

static void expect_idle(const int *ids, uint32_t n)
{
    const vti_span *it = vs.newest, *newer = NULL;
    assert_int_equal(vs.n_idle, n);
    for (uint32_t i = 0; i < n; i++, newer = it, it = it->older) {
        assert_ptr_equal(it, sp[ids[i]]);
        assert_ptr_equal(it->newer, newer);
    }
    assert_null(it);
    assert_ptr_equal(vs.oldest, newer);
}

static void the_idle_list_is_ordered_by_release(void **state)
{
    (void)state;
    expect_idle(NULL, 0);
    for (int i = 0; i < N_SPAN; i++) vti_vset_idle(&vs, sp[i]);
    expect_idle((int[]){3, 2, 1, 0}, 4);
    vti_vset_wake(&vs, sp[2]); // from the middle
    expect_idle((int[]){3, 1, 0}, 3);
    vti_vset_wake(&vs, sp[3]); // the newest
    expect_idle((int[]){1, 0}, 2);
    vti_vset_wake(&vs, sp[0]); // the oldest
    expect_idle((int[]){1}, 1);
    vti_vset_idle(&vs, sp[2]);
    expect_idle((int[]){2, 1}, 2);
    vti_vset_wake(&vs, sp[1]);
    vti_vset_wake(&vs, sp[2]);
    expect_idle(NULL, 0);
}

static void runs_are_counted(void **state)
{
    (void)state;
    vti_vset_set_mapped(&vs, sp[0], 0, 5);
    vti_vset_set_mapped(&vs, sp[0], 1, 2);
    vti_vset_set_mapped(&vs, sp[3], 2, 1);
    assert_int_equal(vs.n_run, 3);
    assert_int_equal(vti_span_even(sp[0], N_VIEW), 0);
    vti_vset_set_mapped(&vs, sp[0], 2, 9);
    vti_vset_set_mapped(&vs, sp[0], 0, 6); // a run that grows is one still
    assert_int_equal(vs.n_run, 4);
    assert_int_equal(vti_span_even(sp[0], N_VIEW), 2);
    vti_vset_set_mapped(&vs, sp[0], 1, 0);
    assert_int_equal(vs.n_run, 3);
    vti_vset_pop(&vs); // takes the runs of span 3 along
    assert_int_equal(vs.n_run, 2);
}

static void addresses_stay_between_the_guards(void **state)
{
    (void)state;
    vti_geo g;
    vt_config c = vt_config_default();
    c.n_plane = N_VIEW;
    c.row_bytes = 1000;
    c.max_tok = 50;
    c.max_seq = 1;
    c.budget_bytes = 1 << 20;
    assert_int_equal(vti_geo_init(&g, &c, 4096), VT_OK);
    sp[0]->addr = (uintptr_t)1 << 30;
    uintptr_t end = sp[0]->addr;
    for (uint32_t v = 0; v < N_VIEW; v++) {
        assert_int_equal(vti_span_addr(&g, sp[0], v, 0), end + g.guard_bytes);
        end = vti_span_addr(&g, sp[0], v, g.chunks_per_span);
        assert_int_equal(end - vti_span_addr(&g, sp[0], v, 0), g.chunks_per_span * g.slice_bytes);
    }
    assert_int_equal(end + g.guard_bytes, sp[0]->addr + g.span_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(spans_are_numbered_and_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(the_idle_list_is_ordered_by_release, setup, teardown),
        cmocka_unit_test_setup_teardown(runs_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(addresses_stay_between_the_guards, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
