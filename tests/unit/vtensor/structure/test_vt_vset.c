// test_vt_vset.c - vSet: spans, the idle list, the count of runs, addresses. Structure alone.
#include "unit/cmocka_all.h"

#include "vtensor/structure/manager.h"

enum { N_SPAN = 4, N_VIEW = 3, N_POSITION = 10 };

static vti_vset vs;
static vti_span *sp[N_SPAN];

static int setup(void **state)
{
    (void)state;
    if (vti_vset_init(&vs, N_SPAN, N_POSITION) != VT_OK) return -1;
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

static void test_spans_are_numbered_and_bounded(void **state)
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

static void expect_list(const vti_span_list *l, const int *ids, uint32_t n)
{
    const vti_span *it = l->newest, *newer = NULL;
    assert_int_equal(l->n, n);
    for (uint32_t i = 0; i < n; i++, newer = it, it = it->older) {
        assert_ptr_equal(it, sp[ids[i]]);
        assert_ptr_equal(it->newer, newer);
    }
    assert_null(it);
    assert_ptr_equal(l->oldest, newer);
}

static void test_lists_are_ordered_by_release(void **state)
{
    (void)state;
    expect_list(&vs.idle, NULL, 0);
    for (int i = 0; i < N_SPAN; i++) vti_vset_list(&vs, sp[i]);
    expect_list(&vs.idle, (int[]){3, 2, 1, 0}, 4);
    vti_vset_move(&vs, sp[2], VTI_SPAN_LIVE); // from the middle
    expect_list(&vs.idle, (int[]){3, 1, 0}, 3);
    vti_vset_move(&vs, sp[3], VTI_SPAN_LIVE); // the newest
    expect_list(&vs.idle, (int[]){1, 0}, 2);
    vti_vset_move(&vs, sp[0], VTI_SPAN_LIVE); // the oldest
    expect_list(&vs.idle, (int[]){1}, 1);
    vti_vset_move(&vs, sp[2], VTI_SPAN_RETIRED);
    vti_vset_move(&vs, sp[3], VTI_SPAN_RETIRED);
    expect_list(&vs.retired, (int[]){3, 2}, 2);
    vti_vset_move(&vs, sp[2], VTI_SPAN_IDLE);
    expect_list(&vs.idle, (int[]){2, 1}, 2);
    expect_list(&vs.retired, (int[]){3}, 1);
}

static void set(uint32_t span, uint32_t first, uint32_t n, uint32_t region, int more)
{
    uint64_t had = vs.n_run;
    assert_int_equal(vti_span_runs_if(&vs, sp[span], first, n, region), more);
    vti_span_set(&vs, sp[span], first, n, region);
    assert_int_equal(vs.n_run - had, (uint64_t)(int64_t)more);
}

static void test_runs_are_counted(void **state)
{
    (void)state;
    set(0, 0, 5, 7, 1);
    set(0, 5, 2, 7, 0);              // a run that grows is one still
    set(0, 2, 1, 8, 2);              // another region in the middle
    set(0, 2, 1, VTI_NO_REGION, -1); // a hole
    set(0, 2, 1, 7, -1);             // mended
    set(0, 0, 7, 9, 0);
    set(3, 9, 1, 1, 1); // the last position
    assert_int_equal(sp[0]->n_end, 7);
    set(0, 3, 4, VTI_NO_REGION, 0);
    assert_int_equal(sp[0]->n_end, 3);
    assert_int_equal(vti_run_length(sp[0]->at, 0, N_POSITION), 3);
    assert_int_equal(vti_run_length(sp[0]->at, 3, N_POSITION), 7); // of nothing
    assert_int_equal(vs.n_run, 2);
    vti_vset_pop(&vs); // takes the run of span 3 along
    assert_int_equal(vs.n_run, 1);
}

static void test_addresses_stay_between_the_guards(void **state)
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
        cmocka_unit_test_setup_teardown(test_spans_are_numbered_and_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lists_are_ordered_by_release, setup, teardown),
        cmocka_unit_test_setup_teardown(test_runs_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_addresses_stay_between_the_guards, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
