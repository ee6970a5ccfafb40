// test_vt_pset.c - pSet and the geometry: structure alone.
#include "unit/cmocka_all.h"

#include "vtensor/structure/manager.h"

enum { PAGE = 4096 };

static vti_pset ps;

static int setup(void **state)
{
    (void)state;
    vti_pset_init(&ps, 3, 10);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    vti_pset_free(&ps);
    return 0;
}

static void test_regions_are_taken_lowest_first(void **state)
{
    (void)state;
    uint32_t r[4];
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(vti_pset_open(&ps, 7 + i, &r[i]), VT_OK);
        assert_int_equal(r[i], i);
        assert_int_equal(ps.region[i].home_of, 7 + i);
    }
    assert_int_equal(vti_pset_open(&ps, 1, &r[3]), VT_NOSPACE);
    assert_int_equal(ps.n_in[VT_CHUNK_ABSENT], 30);
    vti_pset_leave(&ps, 1);
    assert_int_equal(vti_pset_open(&ps, 5, &r[3]), VT_OK);
    assert_int_equal(r[3], 1);
}

static void test_a_region_with_chunks_is_in_use_though_nobody_lives_there(void **state)
{
    (void)state;
    uint32_t r;
    assert_int_equal(vti_pset_open(&ps, 0, &r), VT_OK);
    vti_pset_create(&ps, r, 4, 2);
    vti_pset_leave(&ps, r);
    assert_false(vti_pset_is_home(&ps, r));
    assert_int_equal(vti_pset_open(&ps, 1, &r), VT_OK);
    assert_int_equal(r, 1);
    vti_pset_adopt(&ps, 0, 2);
    assert_true(vti_pset_is_home(&ps, 0));
    vti_pset_leave(&ps, 0);
    vti_pset_destroy(&ps, 0, 4, 2);
    assert_int_equal(vti_pset_open(&ps, 3, &r), VT_OK);
    assert_int_equal(r, 0);
}

static void test_attics_are_filled_before_another_is_opened(void **state)
{
    (void)state;
    uint32_t a, b;
    assert_int_equal(vti_pset_tree_region(&ps, 5, &a), VT_OK);
    vti_pset_create(&ps, a, 5, 1);
    assert_false(vti_pset_is_home(&ps, a));
    assert_int_equal(vti_pset_tree_region(&ps, 6, &b), VT_OK);
    assert_int_equal(a, b);
    assert_int_equal(vti_pset_tree_region(&ps, 5, &b), VT_OK);
    assert_int_not_equal(a, b);
    vti_pset_destroy(&ps, a, 5, 1); // empty, it is a region like any other
    assert_int_equal(ps.region[a].home_of, VTI_NO_SPAN);
}

static void test_neighbours_in_a_region_have_neighbouring_indices(void **state)
{
    (void)state;
    assert_int_equal(vti_pset_index(&ps, 0, 9), 9);
    assert_int_equal(vti_pset_index(&ps, 1, 0), 10);
    assert_int_equal(vti_pset_index(&ps, 2, 3), 23);
}

static void test_states_are_counted_by_region_and_in_all(void **state)
{
    (void)state;
    uint32_t a, b;
    assert_int_equal(vti_pset_open(&ps, 0, &a), VT_OK);
    assert_int_equal(vti_pset_open(&ps, 1, &b), VT_OK);
    vti_pset_create(&ps, a, 0, 6);
    vti_pset_create(&ps, b, 0, 10);
    for (uint32_t p = 0; p < 4; p++) vti_pset_user_hold(&ps, a, p);
    assert_int_equal(vti_pset_region_created(&ps, a), 6);
    assert_int_equal(vti_pset_region_created(&ps, b), 10);
    assert_int_equal(vti_pset_created(&ps), 16);
    assert_int_equal(ps.n_in[VT_CHUNK_OWNED], 4);
    assert_int_equal(ps.n_in[VT_CHUNK_SPARE], 12);
    assert_int_equal(ps.region[a].n_in[VT_CHUNK_SPARE], 2);
    assert_int_equal(vti_pset_state(&ps, a, 6), VT_CHUNK_ABSENT);
    for (uint32_t p = 0; p < 4; p++) vti_pset_user_drop(&ps, a, p);
    vti_pset_destroy(&ps, a, 0, 6);
    assert_int_equal(vti_pset_created(&ps), 10);
}

static void test_the_state_follows_from_the_holders(void **state)
{
    (void)state;
    uint32_t r;
    assert_int_equal(vti_pset_open(&ps, 0, &r), VT_OK);
    vti_pset_create(&ps, r, 3, 1);
    assert_int_equal(vti_pset_state(&ps, r, 3), VT_CHUNK_SPARE);
    vti_pset_user_hold(&ps, r, 3);
    assert_int_equal(vti_pset_state(&ps, r, 3), VT_CHUNK_OWNED);
    vti_pset_user_hold(&ps, r, 3);
    assert_int_equal(vti_pset_state(&ps, r, 3), VT_CHUNK_SHARED);
    vti_pset_user_drop(&ps, r, 3);
    vti_pset_node_hold(&ps, r, 3);
    assert_int_equal(vti_pset_state(&ps, r, 3), VT_CHUNK_SHARED);
    vti_pset_user_drop(&ps, r, 3);
    assert_int_equal(vti_pset_state(&ps, r, 3), VT_CHUNK_CACHED);
    vti_pset_node_hold(&ps, r, 3);
    vti_pset_node_drop(&ps, r, 3);
    assert_int_equal(vti_pset_state(&ps, r, 3), VT_CHUNK_CACHED);
    vti_pset_node_drop(&ps, r, 3);
    assert_int_equal(vti_pset_state(&ps, r, 3), VT_CHUNK_SPARE);
}

static vt_config config(void)
{
    vt_config c = vt_config_default();
    c.n_plane = 4;
    c.row_bytes = 1536;
    c.max_tok = 100;
    c.max_seq = 3;
    c.budget_bytes = 1 << 30;
    return c;
}

static void test_sizes_split(void **state)
{
    (void)state;
    vti_geo g;
    vt_config c = config();
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    assert_int_equal(g.slice_bytes, 12 * PAGE); // 32 x 1536 is 12 pages
    assert_int_equal(g.n_view, 4);
    assert_int_equal(g.chunk_bytes, 4 * g.slice_bytes);
    assert_int_equal(g.chunks_per_span, 4);     // 100 x 1536 is 37.5 pages
    assert_int_equal(g.guard_bytes, 12 * PAGE); // whole slices
    assert_int_equal(g.plane_stride, 48 * PAGE + 12 * PAGE);
    assert_int_equal(g.span_bytes, 12 * PAGE + 4 * g.plane_stride);
    assert_int_equal(vti_geo_chunks(&g, 0), 0);
    assert_int_equal(vti_geo_chunks(&g, 1), 1);
    assert_int_equal(vti_geo_chunks(&g, 32), 1);
    assert_int_equal(vti_geo_chunks(&g, 33), 2);
    assert_int_equal(vti_geo_whole(&g, 33), 1);
    assert_int_equal(vti_geo_tail_bytes(&g, 33), 1536);
    assert_int_equal(vti_geo_tail_bytes(&g, 64), 0);
    assert_int_equal(vti_geo_tokens(&g, 3), 96);
    assert_int_equal(vti_geo_tokens(&g, 4), 100); // 128 would fit
}

static void test_sizes_packed(void **state)
{
    (void)state;
    vti_geo g;
    vt_config c = config();
    c.layout = VT_LAYOUT_PACKED;
    c.slice_bytes = PAGE;
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    assert_int_equal(g.n_view, 1);
    assert_int_equal(g.stride_bytes, 4 * 1536);
    assert_int_equal(g.plane_stride, 1536);
    assert_int_equal(g.chunk_bytes, PAGE);
    assert_int_equal(g.guard_bytes, 2 * PAGE); // a token is a page and a half
    assert_int_equal(vti_geo_chunks(&g, 1), 2);
    assert_int_equal(vti_geo_chunks(&g, 2), 3); // the second straddles
    assert_int_equal(vti_geo_tokens(&g, 1), 0);
    assert_int_equal(vti_geo_tokens(&g, 3), 2);
}

typedef void (*spoil)(vt_config *c);

static void no_plane(vt_config *c)
{
    c->n_plane = 0;
}
static void no_row(vt_config *c)
{
    c->row_bytes = 0;
}
static void no_tok(vt_config *c)
{
    c->max_tok = 0;
}
static void no_seq(vt_config *c)
{
    c->max_seq = 0;
}
static void no_budget(vt_config *c)
{
    c->budget_bytes = 0;
}
static void odd_layout(vt_config *c)
{
    c->layout = (vt_layout)7;
}
static void odd_slice(vt_config *c)
{
    c->slice_bytes = PAGE + 512;
}
static void huge_row(vt_config *c)
{
    c->row_bytes = SIZE_MAX / 16;
}
static void huge_row_alone(vt_config *c)
{
    c->row_bytes = SIZE_MAX;
}
static void huge_slice(vt_config *c)
{
    c->slice_bytes = (size_t)1 << 62;
}
static void huge_slice_alone(vt_config *c)
{
    c->slice_bytes = SIZE_MAX - (PAGE - 1);
}
static void too_many_bytes(vt_config *c)
{
    c->max_seq = UINT32_MAX, c->max_tok = UINT32_MAX;
}
static void too_many_planes(vt_config *c)
{
    c->n_plane = UINT32_MAX, c->row_bytes = (size_t)1 << 40;
}
static void too_many_chunks(vt_config *c)
{
    c->row_bytes = 2 * PAGE, c->slice_bytes = PAGE, c->max_tok = UINT32_MAX;
}

static void test_sizes_out_of_range_are_refused(void **state)
{
    (void)state;
    static const spoil spoils[] = {
        no_plane,         no_row,         no_tok,          no_seq,          no_budget,
        odd_layout,       odd_slice,      huge_row,        huge_row_alone,  huge_slice,
        huge_slice_alone, too_many_bytes, too_many_planes, too_many_chunks,
    };
    for (size_t i = 0; i < sizeof spoils / sizeof spoils[0]; i++)
        for (int layout = VT_LAYOUT_SPLIT; layout <= VT_LAYOUT_PACKED; layout++) {
            vti_geo g;
            vt_config c = config();
            c.layout = (vt_layout)layout;
            spoils[i](&c);
            if (vti_geo_init(&g, &c, PAGE) != VT_EINVAL)
                fail_msg("spoil %zu, layout %d", i, layout);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_regions_are_taken_lowest_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_neighbours_in_a_region_have_neighbouring_indices,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_states_are_counted_by_region_and_in_all, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_a_region_with_chunks_is_in_use_though_nobody_lives_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_attics_are_filled_before_another_is_opened, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_the_state_follows_from_the_holders, setup, teardown),
        cmocka_unit_test(test_sizes_split),
        cmocka_unit_test(test_sizes_packed),
        cmocka_unit_test(test_sizes_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
