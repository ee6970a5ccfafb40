// test_vt_pset.c - pSet and the sizes it is made for: structure alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "vtensor/internal.h"

enum { PAGE = 4096 };

static vti_pset ps;

static int setup(void **state)
{
    (void)state;
    return vti_pset_init(&ps, 3, 10) == VT_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    vti_pset_free(&ps);
    return 0;
}

static void regions_are_taken_lowest_first(void **state)
{
    (void)state;
    uint32_t r[4];
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(vti_pset_open(&ps, 7 + i, &r[i]), VT_OK);
        assert_int_equal(r[i], i);
        assert_int_equal(ps.region[i].span, 7 + i);
    }
    assert_int_equal(vti_pset_open(&ps, 1, &r[3]), VT_NOSPACE);
    assert_int_equal(ps.n_in[VTI_CHUNK_FREE], 30);
    vti_pset_close(&ps, 1);
    assert_int_equal(ps.n_in[VTI_CHUNK_FREE], 20);
    assert_int_equal(vti_pset_open(&ps, 5, &r[3]), VT_OK);
    assert_int_equal(r[3], 1);
}

static void neighbours_in_a_region_have_neighbouring_indices(void **state)
{
    (void)state;
    assert_int_equal(vti_pset_index(&ps, 0, 9), 9);
    assert_int_equal(vti_pset_index(&ps, 1, 0), 10);
    assert_int_equal(vti_pset_index(&ps, 2, 3), 23);
}

static void states_are_counted_by_region_and_in_all(void **state)
{
    (void)state;
    uint32_t a, b;
    assert_int_equal(vti_pset_open(&ps, 0, &a), VT_OK);
    assert_int_equal(vti_pset_open(&ps, 1, &b), VT_OK);
    vti_pset_move(&ps, a, 0, 6, VTI_CHUNK_FREE, VTI_CHUNK_SPARE);
    vti_pset_move(&ps, a, 0, 4, VTI_CHUNK_SPARE, VTI_CHUNK_OWNED);
    vti_pset_move(&ps, b, 0, 10, VTI_CHUNK_FREE, VTI_CHUNK_SPARE);
    assert_int_equal(vti_pset_region_created(&ps, a), 6);
    assert_int_equal(vti_pset_region_created(&ps, b), 10);
    assert_int_equal(vti_pset_created(&ps), 16);
    assert_int_equal(ps.n_in[VTI_CHUNK_OWNED], 4);
    assert_int_equal(ps.region[a].state[3], VTI_CHUNK_OWNED);
    assert_int_equal(ps.region[a].state[4], VTI_CHUNK_SPARE);
    assert_int_equal(ps.region[a].state[6], VTI_CHUNK_FREE);
    vti_pset_move(&ps, a, 0, 4, VTI_CHUNK_OWNED, VTI_CHUNK_SPARE);
    vti_pset_move(&ps, a, 0, 6, VTI_CHUNK_SPARE, VTI_CHUNK_FREE);
    vti_pset_close(&ps, a);
    assert_int_equal(vti_pset_created(&ps), 10);
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

static void sizes_split(void **state)
{
    (void)state;
    vti_geo g;
    vt_config c = config();
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    assert_int_equal(g.slice_bytes, 12 * PAGE); // 32 x 1536 is 12 pages
    assert_int_equal(g.n_view, 4);
    assert_int_equal(g.chunk_bytes, 4 * g.slice_bytes);
    assert_int_equal(g.chunks_per_span, 4); // 100 x 1536 is 37.5 pages
    assert_int_equal(g.guard_bytes, PAGE);
    assert_int_equal(g.plane_stride, 48 * PAGE + PAGE);
    assert_int_equal(g.span_bytes, PAGE + 4 * g.plane_stride);
    assert_int_equal(vti_geo_chunks(&g, 0), 0);
    assert_int_equal(vti_geo_chunks(&g, 1), 1);
    assert_int_equal(vti_geo_chunks(&g, 32), 1);
    assert_int_equal(vti_geo_chunks(&g, 33), 2);
    assert_int_equal(vti_geo_tokens(&g, 3), 96);
    assert_int_equal(vti_geo_tokens(&g, 4), 100); // 128 would fit
}

static void sizes_packed(void **state)
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

static void sizes_out_of_range_are_refused(void **state)
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
        cmocka_unit_test_setup_teardown(regions_are_taken_lowest_first, setup, teardown),
        cmocka_unit_test_setup_teardown(neighbours_in_a_region_have_neighbouring_indices, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(states_are_counted_by_region_and_in_all, setup, teardown),
        cmocka_unit_test(sizes_split),
        cmocka_unit_test(sizes_packed),
        cmocka_unit_test(sizes_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
