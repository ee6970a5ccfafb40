// test_vt_geometry.c - sizes: groups, classes, windows and states; what is out of range; and, for
// many shapes, positions and tokens against plain arithmetic on bytes.
#include "assert_vt.h"
#include "suite.h"

#include "vtensor/core/geometry.h"

enum { PAGE = 4096 };

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

static vt_config config_of(const vt_group *group, uint32_t n_group)
{
    vt_config c = config();
    c.group = group;
    c.n_group = n_group;
    c.n_plane = 0; // ignored
    c.row_bytes = 0;
    return c;
}

// ---- One group

FX_TEST(test_sizes_split)
{
    vti_geo g;
    vt_config c = config();
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    const vti_lane_geo *gr = &g.group[0];
    assert_int_equal(g.n_group, 1);
    assert_int_equal(gr->slice_bytes, 12 * PAGE); // 32 x 1536 is 12 pages
    assert_int_equal(gr->n_view, 4);
    assert_int_equal(gr->chunk_bytes, 4 * gr->slice_bytes);
    assert_int_equal(gr->n_position, 4);          // 100 x 1536 is 37.5 pages
    assert_int_equal(gr->guard_bytes, 12 * PAGE); // whole slices
    assert_int_equal(gr->view_stride, 48 * PAGE + 12 * PAGE);
    assert_int_equal(gr->plane_stride, gr->view_stride);
    assert_int_equal(gr->lane_offset, 12 * PAGE);
    assert_int_equal(g.span_bytes, 12 * PAGE + 4 * gr->view_stride + 12 * PAGE);
    assert_int_equal(g.block_tok, 32);
    assert_int_equal(vti_group_chunks(gr, 0), 0);
    assert_int_equal(vti_group_chunks(gr, 1), 1);
    assert_int_equal(vti_group_chunks(gr, 32), 1);
    assert_int_equal(vti_group_chunks(gr, 33), 2);
    assert_int_equal(vti_group_whole(gr, 33), 1);
    assert_int_equal(vti_group_tail_bytes(gr, 33), 1536);
    assert_int_equal(vti_group_tail_bytes(gr, 64), 0);
    assert_int_equal(vti_group_tokens(gr, 3), 96);
}

FX_TEST(test_sizes_packed)
{
    vti_geo g;
    vt_config c = config();
    c.layout = VT_LAYOUT_PACKED;
    c.slice_bytes = PAGE;
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    const vti_lane_geo *gr = &g.group[0];
    assert_int_equal(gr->n_view, 1);
    assert_int_equal(gr->stride_bytes, 4 * 1536);
    assert_int_equal(gr->plane_stride, 1536);
    assert_int_equal(gr->chunk_bytes, PAGE);
    assert_int_equal(gr->guard_bytes, 2 * PAGE); // a token is a page and a half
    assert_int_equal(vti_group_chunks(gr, 1), 2);
    assert_int_equal(vti_group_chunks(gr, 2), 3); // the second straddles
    assert_int_equal(vti_group_tokens(gr, 1), 0);
    assert_int_equal(vti_group_tokens(gr, 3), 2);
    assert_int_equal(g.block_tok, 1); // not even one fits a chunk
}

// Five planes, at most four in a view: three and two, so that one row is unused and not three.
FX_TEST(test_sizes_of_shared_views)
{
    vti_geo g;
    vt_config c = config();
    c.n_plane = 5;
    c.view_planes = 4;
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    const vti_lane_geo *gr = &g.group[0];
    assert_int_equal(gr->view_planes, 3);
    assert_int_equal(gr->n_view, 2);
    assert_int_equal(gr->stride_bytes, 3 * 1536);
    assert_int_equal(gr->slice_bytes, 36 * PAGE); // 32 tokens of three planes
    assert_int_equal(gr->chunk_bytes, 2 * gr->slice_bytes);
    assert_int_equal(gr->plane_stride, 1536);
    assert_int_equal(vti_group_plane_at(gr, 0), 0);
    assert_int_equal(vti_group_plane_at(gr, 2), 2 * 1536);
    assert_int_equal(vti_group_plane_at(gr, 3), gr->view_stride);
    assert_int_equal(vti_group_plane_at(gr, 4), gr->view_stride + 1536);
    c.view_planes = 1;
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    assert_int_equal(g.group[0].n_view, 5);
    c.view_planes = UINT64_MAX; // as if packed
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    assert_int_equal(g.group[0].n_view, 1);
}

FX_TEST(test_a_block_is_no_longer_than_a_sequence)
{
    vti_geo g;
    vt_config c = config();
    c.max_tok = 7;
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    assert_int_equal(g.block_tok, 7);
    static const vt_group state_only[] = {{VT_GROUP_STATE, 1, 100, 0, 0}};
    c = config_of(state_only, 1);
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    assert_int_equal(g.block_tok, 32);
    c.max_tok = 7;
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    assert_int_equal(g.block_tok, 7);
}

// ---- Several

FX_TEST(test_groups_follow_one_another)
{
    static const vt_group group[] = {{VT_GROUP_TOKENS, 2, 1024, 0, PAGE},
                                     {VT_GROUP_STATE, 3, 5000, 0, 0},
                                     {VT_GROUP_TOKENS, 1, 512, 16, 2 * PAGE}};
    vti_geo g;
    vt_config c = config_of(group, 3);
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    assert_int_equal(g.n_plane, 6);
    assert_true(g.has_state);
    assert_int_equal(g.block_tok, 4); // of the first group of rows
    static const uint32_t group_of[] = {0, 0, 1, 1, 1, 2};
    for (uint32_t p = 0; p < 6; p++)
        assert_ptr_equal(vti_geo_group_of(&g, p), &g.group[group_of[p]]);
    size_t end = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const vti_lane_geo *gr = &g.group[i];
        assert_in_range(gr->lane_offset - end, gr->guard_bytes,
                        gr->guard_bytes + gr->slice_bytes - 1);
        assert_int_equal(gr->lane_offset % gr->slice_bytes, 0);
        end = gr->lane_offset + gr->n_view * gr->view_stride;
    }
    assert_int_equal(g.span_bytes, end + g.group[2].guard_bytes);
}

FX_TEST(test_a_state_is_all_or_nothing)
{
    static const vt_group one[] = {{VT_GROUP_STATE, 2, 5000, 0, 0}};
    static const vt_group sliced[] = {{VT_GROUP_STATE, 2, 5000, 0, PAGE}};
    vti_geo g;
    vt_config c = config_of(one, 1);
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    assert_int_equal(g.group[0].slice_bytes, 2 * PAGE); // one chunk
    assert_int_equal(g.group[0].n_position, 1);
    c = config_of(sliced, 1);
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    const vti_lane_geo *gr = &g.group[0];
    assert_int_equal(gr->n_position, 2);
    assert_int_equal(vti_group_chunks(gr, 0), 0);
    assert_int_equal(vti_group_chunks(gr, 1), 2);
    assert_int_equal(vti_group_chunks(gr, 100), 2);
    assert_int_equal(vti_group_whole(gr, 100), 0); // never shared
    assert_int_equal(vti_group_bytes(gr, 100), 5000);
    assert_int_equal(vti_group_tail_bytes(gr, 100), 5000 - PAGE);
    assert_int_equal(vti_group_tokens(gr, 1), 0);
    assert_int_equal(vti_group_tokens(gr, 2), UINT32_MAX);
    assert_int_equal(vti_group_passed(gr, 100), 0);
}

FX_TEST(test_groups_of_one_shape_share_a_class)
{
    static const vt_group group[] = {
        {VT_GROUP_TOKENS, 2, 1024, 0, PAGE}, // class 0
        {VT_GROUP_TOKENS, 2, 512, 8, PAGE},  // other rows in the same chunks
        {VT_GROUP_TOKENS, 1, 1024, 0, PAGE}, // one slice
        {VT_GROUP_STATE, 2, PAGE, 0, 0},     // class 0 again
        {VT_GROUP_TOKENS, 2, 1024, 0, 2 * PAGE},
    };
    static const uint32_t cls[] = {0, 0, 1, 0, 2};
    vti_geo g;
    vt_config c = config_of(group, 5);
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    for (uint32_t i = 0; i < 5; i++) assert_int_equal(g.group[i].cls, cls[i]);
    assert_int_equal(g.vmm.n_class, 3);
    assert_int_equal(g.region_len[0], 25); // the longest of its lanes
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(g.vmm.cls[i].n_index % g.region_len[i], 0);
        assert_true(g.vmm.cls[i].n_index / g.region_len[i] >= 3 * 5); // a home for each lane
    }
    assert_int_equal(g.vmm.cls[2].slice_bytes, 2 * PAGE);
    c.layout = VT_LAYOUT_PACKED; // one slice each; a state of two pages needs two in one slice
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    assert_int_equal(g.vmm.n_class, 2);
    assert_int_equal(g.group[2].cls, 0);
    assert_int_equal(g.group[3].cls, 1);
    assert_int_equal(g.group[4].cls, 1);
}

// ---- Windows

FX_TEST(test_a_window_passes_whole_chunks)
{
    static const vt_group group[] = {{VT_GROUP_TOKENS, 1, 1024, 6, PAGE}}; // chunks of 4 tokens
    vti_geo g;
    vt_config c = config_of(group, 1);
    assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
    const vti_lane_geo *gr = &g.group[0];
    for (uint32_t len = 0; len <= 5; len++) assert_int_equal(vti_group_front_tok(gr, len), 0);
    assert_int_equal(vti_group_front_tok(gr, 6), 1); // token 6 sees 1 to 6
    assert_int_equal(vti_group_passed(gr, 8), 0);
    assert_int_equal(vti_group_passed(gr, 9), 1); // token 9 sees 4 to 9
    assert_int_equal(vti_group_passed(gr, 12), 1);
    assert_int_equal(vti_group_passed(gr, 13), 2);
}

// By looking at each token.
static void expect_plain(const vti_lane_geo *gr, uint32_t max_tok)
{
    uint32_t w = gr->window_tok;
    for (uint32_t len = 0; len <= max_tok; len++) {
        uint64_t bytes = (uint64_t)len * gr->stride_bytes;
        uint32_t n_chunk = 0, n_whole = 0, passed = 0;
        while ((uint64_t)n_chunk * gr->slice_bytes < bytes) n_chunk++;
        while (((uint64_t)n_whole + 1) * gr->slice_bytes <= bytes) n_whole++;
        uint32_t front = 0; // the first token that token `len` sees
        while (w > 0 && front + w <= len) front++;
        while (((uint64_t)passed + 1) * gr->slice_bytes <= (uint64_t)front * gr->stride_bytes)
            passed++;
        assert_int_equal(vti_group_chunks(gr, len), n_chunk);
        assert_int_equal(vti_group_whole(gr, len), n_whole);
        assert_int_equal(vti_group_tail_bytes(gr, len), bytes - n_whole * gr->slice_bytes);
        assert_int_equal(vti_group_front_tok(gr, len), front);
        assert_int_equal(vti_group_passed(gr, len), passed);
        assert_true(vti_group_tokens(gr, n_whole) <= len);
        assert_true(n_chunk <= gr->n_position);
    }
}

FX_TEST(test_positions_are_plain_arithmetic)
{
    static const size_t row[] = {1, 100, 1000, PAGE, 5000, 3 * PAGE};
    static const uint32_t window[] = {0, 1, 2, 7, 31, 200};
    for (size_t r = 0; r < sizeof row / sizeof row[0]; r++)
        for (size_t w = 0; w < sizeof window / sizeof window[0]; w++)
            for (size_t slice = PAGE; slice <= 3 * PAGE; slice += PAGE) {
                vt_group group = {VT_GROUP_TOKENS, 2, row[r], window[w], slice};
                vti_geo g;
                vt_config c = config_of(&group, 1);
                assert_int_equal(vti_geo_init(&g, &c, PAGE), VT_OK);
                expect_plain(&g.group[0], 100);
            }
}

// ---- Out of range

static void refuse(const vt_config *with)
{
    for (int layout = VT_LAYOUT_SPLIT; layout <= VT_LAYOUT_PACKED; layout++) {
        vti_geo g;
        vt_config c = *with;
        if (c.layout == VT_LAYOUT_SPLIT) c.layout = (vt_layout)layout;
        assert_status(VT_EINVAL, vti_geo_init(&g, &c, PAGE));
    }
}

FX_TEST(test_sizes_out_of_range_are_refused)
{
    const vt_config good = config();
    vt_config c;
    c = good, c.n_plane = 0, refuse(&c);
    c = good, c.row_bytes = 0, refuse(&c);
    c = good, c.max_tok = 0, refuse(&c);
    c = good, c.max_seq = 0, refuse(&c);
    c = good, c.budget_bytes = 0, refuse(&c);
    c = good, c.layout = (vt_layout)7, refuse(&c);
    c = good, c.mapper = (vt_mapper)7, refuse(&c);
    c = good, c.slice_bytes = PAGE + 512, refuse(&c);
    c = good, c.row_bytes = SIZE_MAX / 16, refuse(&c);
    c = good, c.row_bytes = SIZE_MAX, refuse(&c);
    c = good, c.slice_bytes = (size_t)1 << 62, refuse(&c);
    c = good, c.slice_bytes = SIZE_MAX - (PAGE - 1), refuse(&c);
    c = good, c.max_seq = c.max_tok = UINT32_MAX, refuse(&c);
    c = good, c.n_plane = UINT32_MAX, c.row_bytes = (size_t)1 << 40, refuse(&c);
    c = good, c.row_bytes = 2 * PAGE, c.slice_bytes = PAGE, c.max_tok = UINT32_MAX, refuse(&c);
}

FX_TEST(test_groups_out_of_range_are_refused)
{
    static const vt_group bad[] = {
        {(vt_group_kind)9, 1, 64, 0, 0},         // of no kind
        {VT_GROUP_TOKENS, 0, 64, 0, 0},          // without planes
        {VT_GROUP_STATE, 1, 0, 0, 0},            // without rows
        {VT_GROUP_STATE, 1, 64, 4, 0},           // a window of a state
        {VT_GROUP_TOKENS, 1, 64, 0, 100},        // a slice of no whole pages
        {VT_GROUP_STATE, 1, SIZE_MAX - 10, 0, 0} // a huge state
    };
    vt_group many[VT_MAX_GROUP + 1];
    vt_config c = config();
    c.n_group = 1;
    refuse(&c);
    c.group = many;
    c.n_group = 2;
    for (int i = 0; i <= VT_MAX_GROUP; i++) many[i] = (vt_group){VT_GROUP_TOKENS, 1, 64, 0, 0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        many[1] = bad[i];
        refuse(&c);
    }
    many[1] = many[0];
    c.n_group = VT_MAX_GROUP + 1;
    refuse(&c);
}

FX_RUN(test_vt_geometry)
