// test_vt_vset.c - vSet: spans and the lists of their states, the runs that lanes map, warm bytes,
// addresses. Structure alone; random lanes are counted anew.
#include "assert_vt.h"
#include "failing_calloc.h"
#include "suite.h"

#include <string.h>

#include "vtensor/core/vset.h"

enum { N_SPAN = 4, PAGE = 4096 };

static vti_geo geo;
static vti_pset ps;
static vti_vset vs;
static vti_span *sp[N_SPAN];

// Group 0: three views, 13 positions; group 1: one view, a position for each of 50 tokens.
static void make_geometry(void)
{
    static const vt_group group[] = {{VT_GROUP_TOKENS, 3, 1000, 0, PAGE},
                                     {VT_GROUP_TOKENS, 1, PAGE, 8, PAGE}};
    vt_config c = vt_config_default();
    c.max_tok = 50;
    c.max_seq = 2;
    c.budget_bytes = 1 << 20;
    c.group = group;
    c.n_group = 2;
    assert_int_equal(vti_geo_init(&geo, &c, PAGE), VT_OK);
    assert_int_equal(geo.group[0].n_position, 13);
    assert_int_equal(geo.group[1].n_position, 50);
}

VT_FIXTURE(setup)
{
    make_geometry();
    vti_pset_init(&ps, &geo);
    assert_ok(vti_vset_init(&vs, &geo, &ps, N_SPAN));
    for (int i = 0; i < N_SPAN; i++) assert_ok(vti_vset_push(&vs, &sp[i]));
}

VT_FIXTURE(teardown)
{
    n_alloc_left = UINT64_MAX;
    while (vs.n_span > 0) vti_vset_pop(&vs);
    assert_int_equal(vs.n_run, 0);
    for (int st = 0; st < VTI_N_SPAN_STATE; st++) assert_int_equal(vs.mapped_free_bytes[st], 0);
    vti_vset_free(&vs);
    vti_pset_free(&ps);
}

// The chunk with this index among those of its class, reserved at first: lanes only compare names.
static uint32_t chunk_at(uint32_t cls, uint32_t index)
{
    const vti_name name = {index / geo.region_len[cls], index % geo.region_len[cls]};
    uint32_t region = 0, chunk;
    while (ps.cls[cls].regions.n <= name.region)
        assert_int_equal(vti_pset_region_open(&ps, cls, &region), VT_OK);
    chunk = vti_pset_find(&ps, cls, name);
    if (chunk == VTI_NO_CHUNK || vti_pset_chunk(&ps, chunk).place != VTI_WITH_JOB)
        assert_int_equal(vti_pset_reserve(&ps, cls, name, &chunk), VT_OK);
    return chunk;
}

static void set_chunk(int span, uint32_t group, uint32_t position, uint32_t chunk)
{
    assert_int_equal(vti_lane_make_room(&sp[span]->lane[group], position + 1), VT_OK);
    vti_lane_set(&vs, sp[span], group, position, chunk);
}

// ---- Spans and lists

FX_TEST(test_spans_are_numbered_and_bounded)
{
    vti_span *more = NULL;
    for (uint32_t i = 0; i < N_SPAN; i++) {
        assert_int_equal(sp[i]->id, i);
        for (uint32_t g = 0; g < 2; g++) {
            assert_int_equal(sp[i]->lane[g].region, VTI_NO_CHUNK);
            assert_int_equal(vti_lane_count_unmapped(&sp[i]->lane[g], 0, 13), 13);
        }
    }
    assert_int_equal(vti_vset_push(&vs, &more), VT_NOSPANS);
    assert_null(more);
    vti_vset_pop(&vs);
    n_alloc_left = 0;
    assert_int_equal(vti_vset_push(&vs, &more), VT_ENOMEM);
    n_alloc_left = UINT64_MAX;
    assert_int_equal(vs.in[VTI_SPAN_IDLE].n, N_SPAN - 1);
    assert_int_equal(vti_vset_push(&vs, &more), VT_OK);
    assert_int_equal(more->id, N_SPAN - 1);
    vti_vset none;
    n_alloc_left = 0;
    assert_int_equal(vti_vset_init(&none, &geo, &ps, 3), VT_ENOMEM);
}

static void expect_list(vti_span_state st, const int *ids, uint32_t n)
{
    const vti_span_list *l = &vs.in[st];
    const vti_span *it = l->newest, *newer = NULL;
    assert_int_equal(l->n, n);
    for (uint32_t i = 0; i < n; i++, newer = it, it = it->older) {
        assert_ptr_equal(it, sp[ids[i]]);
        assert_ptr_equal(it->newer, newer);
        assert_int_equal(it->state, st);
    }
    assert_null(it);
    assert_ptr_equal(l->oldest, newer);
}

FX_TEST(test_lists_are_ordered_by_time_of_entry)
{
    expect_list(VTI_SPAN_IDLE, (int[]){3, 2, 1, 0}, 4);
    vti_vset_move(&vs, sp[2], VTI_SPAN_LIVE); // from the middle
    expect_list(VTI_SPAN_IDLE, (int[]){3, 1, 0}, 3);
    vti_vset_move(&vs, sp[3], VTI_SPAN_LIVE); // the newest
    expect_list(VTI_SPAN_IDLE, (int[]){1, 0}, 2);
    vti_vset_move(&vs, sp[0], VTI_SPAN_LIVE); // the oldest
    expect_list(VTI_SPAN_IDLE, (int[]){1}, 1);
    expect_list(VTI_SPAN_LIVE, (int[]){0, 3, 2}, 3);
    vti_vset_move(&vs, sp[2], VTI_SPAN_RETIRED);
    vti_vset_move(&vs, sp[3], VTI_SPAN_RETIRED);
    expect_list(VTI_SPAN_RETIRED, (int[]){3, 2}, 2);
    vti_vset_move(&vs, sp[3], VTI_SPAN_CLEARING);
    vti_vset_move(&vs, sp[3], VTI_SPAN_RETIRED); // again: before those that have not waited yet
    expect_list(VTI_SPAN_RETIRED, (int[]){2, 3}, 2);
    expect_list(VTI_SPAN_CLEARING, NULL, 0);
    vti_vset_move(&vs, sp[2], VTI_SPAN_IDLE);
    expect_list(VTI_SPAN_IDLE, (int[]){2, 1}, 2);
    vti_vset_move(&vs, sp[0], VTI_SPAN_QUARANTINED);
    expect_list(VTI_SPAN_LIVE, NULL, 0);
    expect_list(VTI_SPAN_QUARANTINED, (int[]){0}, 1);
}

FX_TEST(test_warm_bytes_go_with_their_span)
{
    size_t a = geo.group[0].chunk_bytes, b = geo.group[1].chunk_bytes;
    vti_lane_count_mapped_free(&vs, sp[0], 0, 3);
    vti_lane_count_mapped_free(&vs, sp[0], 1, 2);
    vti_lane_count_mapped_free(&vs, sp[1], 1, 5);
    assert_int_equal(vs.mapped_free_bytes[VTI_SPAN_IDLE], 3 * a + 7 * b);
    assert_ptr_equal(vs.idle_mapped.oldest, sp[0]);
    assert_ptr_equal(vs.idle_mapped.newest, sp[1]);
    assert_int_equal(vs.idle_mapped.n, 2);
    vti_vset_move(&vs, sp[0], VTI_SPAN_LIVE);
    assert_int_equal(vs.mapped_free_bytes[VTI_SPAN_IDLE], 5 * b);
    assert_int_equal(vs.mapped_free_bytes[VTI_SPAN_LIVE], 3 * a + 2 * b);
    vti_lane_count_mapped_free(&vs, sp[0], 0, -2);
    assert_int_equal(vs.mapped_free_bytes[VTI_SPAN_LIVE], a + 2 * b);
}

// ---- Runs

static void set(int span, uint32_t group, uint32_t position, uint32_t chunk, int more)
{
    uint64_t had = vs.n_run;
    set_chunk(span, group, position, chunk);
    assert_int_equal(vs.n_run - had, (uint64_t)((int64_t)more * geo.group[group].n_view));
}

FX_TEST(test_runs_are_counted)
{
    const vti_lane *l = &sp[0]->lane[0];
    for (uint32_t p = 0; p < 5; p++)
        set(0, 0, p, chunk_at(0, 9 + p), p == 0); // over a region's end
    set(0, 0, 2, chunk_at(0, 100), 2);            // another in the middle
    set(0, 0, 2, VTI_NO_CHUNK, -1);
    set(0, 0, 2, chunk_at(0, 11), -1); // mended
    set(0, 0, 5, chunk_at(0, 15), 1);  // the neighbour but one
    set(0, 0, 12, chunk_at(0, 16), 1);
    assert_int_equal(l->n_end, 13);
    set(0, 0, 12, VTI_NO_CHUNK, -1);
    assert_int_equal(l->n_end, 6);
    assert_int_equal(l->n_run, 2);
    assert_int_equal(vti_lane_first_unmapped(l, 0, 13), 6);
    assert_int_equal(vti_lane_first_unmapped(l, 0, 4), 4);
    assert_int_equal(vti_lane_count_unmapped(l, 4, 13), 7);
    set(3, 1, 49, chunk_at(1, 1), 1); // the last position, of the other shape
    set(3, 1, 48, chunk_at(0, 0), 1);
    assert_int_equal(sp[3]->lane[1].n_run, 2); // of two shapes
    vti_vset_pop(&vs);                         // takes its runs along
    assert_int_equal(vs.n_run, 2 * 3);
}

FX_TEST(test_a_run_ends_where_the_access_changes)
{
    const vti_lane *l = &sp[0]->lane[0];
    for (uint32_t p = 0; p < 6; p++) set(0, 0, p, chunk_at(0, p), p == 0);
    vti_lane_set_ro(&vs, sp[0], 0, 3);
    assert_int_equal(l->n_run, 2);
    assert_true(vti_lane_run_begins(&vs, l, 3));
    assert_false(vti_lane_run_begins(&vs, l, 4));
    vti_lane_set_ro(&vs, sp[0], 0, 4);
    assert_int_equal(l->n_run, 2);
    assert_false(vti_lane_run_begins(&vs, l, 3));
    vti_lane_set_ro(&vs, sp[0], 0, 6); // at the end it cuts nothing
    assert_int_equal(l->n_run, 1);
    vti_lane_set_ro(&vs, sp[0], 0, 13);
    vti_lane_set_ro(&vs, sp[0], 0, 0);
    assert_int_equal(l->n_run, 1);
}

FX_TEST(test_a_lane_is_not_dirty_beyond_its_end)
{
    vti_lane *l = &sp[0]->lane[1];
    for (uint32_t p = 0; p < 4; p++) set(0, 1, p, chunk_at(1, p), p == 0);
    l->dirty_end = 4 * PAGE;
    set(0, 1, 3, VTI_NO_CHUNK, 0);
    assert_int_equal(l->dirty_end, 3 * PAGE);
    set(0, 1, 0, VTI_NO_CHUNK, 0); // a window has passed it
    assert_int_equal(l->dirty_end, 3 * PAGE);
    assert_int_equal(l->n_end, 3);
}

// Neighbours: the next name of the same class, with the same access.
static uint32_t count_runs_anew(const vti_lane *l)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < l->n_end; p++) {
        if (l->at[p] == VTI_NO_CHUNK) continue;
        bool goes_on = p > 0 && l->at[p - 1] != VTI_NO_CHUNK &&
                       vti_pset_index(&ps, l->at[p]) == vti_pset_index(&ps, l->at[p - 1]) + 1 &&
                       (p - 1 < l->n_ro) == (p < l->n_ro);
        n += !goes_on;
    }
    return n;
}

FX_TEST(test_whatever_is_mapped_the_runs_are_counted)
{
    uint64_t seed = 3;
    for (int k = 0; k < 20000; k++) {
        int it = (int)(next_random(&seed) % N_SPAN);
        uint32_t p = (uint32_t)next_random(&seed) % 13, what = (uint32_t)next_random(&seed) % 8;
        if (what == 0)
            vti_lane_set_ro(&vs, sp[it], 0, (uint32_t)next_random(&seed) % 14);
        else if (what < 3)
            set_chunk(it, 0, p, VTI_NO_CHUNK);
        else
            set_chunk(it, 0, p, chunk_at(0, 7 + p + (uint32_t)next_random(&seed) % 2));
        uint64_t n = 0;
        for (int i = 0; i < N_SPAN; i++) {
            uint32_t n_run = count_runs_anew(&sp[i]->lane[0]);
            assert_int_equal(sp[i]->lane[0].n_run, n_run);
            n += n_run;
        }
        assert_int_equal(vs.n_run, 3 * n);
    }
}

// ---- Room

FX_TEST(test_a_map_takes_room_only_as_far_as_chunks_are_mapped)
{
    vti_lane *l = &sp[0]->lane[1];
    assert_int_equal(l->n_room, 0);
    assert_int_equal(vti_lane_at(l, 49), VTI_NO_CHUNK);
    assert_int_equal(vti_lane_first_unmapped(l, 3, 50), 3);
    assert_int_equal(vti_lane_count_unmapped(l, 3, 50), 47);
    assert_int_equal(vti_lane_make_room(l, 3), VT_OK);
    assert_in_range(l->n_room, 3, 16);
    uint32_t n_room = l->n_room;
    assert_int_equal(vti_lane_make_room(l, 2), VT_OK);
    assert_int_equal(l->n_room, n_room);
    set(0, 1, 2, chunk_at(1, 0), 1);
    assert_int_equal(vti_lane_make_room(l, 400), VT_OK); // what is there stays
    assert_int_equal(vti_lane_at(l, 2), chunk_at(1, 0));
    vti_span_shrink(&vs, sp[0]);
    assert_in_range(l->n_room, 3, 64);
    assert_int_equal(vti_lane_at(l, 2), chunk_at(1, 0));
}

FX_TEST(test_a_long_plan_is_there_while_it_is_needed)
{
    vti_lane *l = &sp[0]->lane[0];
    assert_int_equal(vti_lane_make_plan(l, VTI_SHORT_PLAN), VT_OK);
    assert_ptr_equal(l->plan, l->short_plan);
    n_alloc_left = 0;
    assert_int_equal(vti_lane_make_plan(l, VTI_SHORT_PLAN + 1), VT_ENOMEM);
    assert_ptr_equal(l->plan, l->short_plan);
    n_alloc_left = UINT64_MAX;
    assert_int_equal(vti_lane_make_plan(l, 100), VT_OK);
    assert_int_equal(l->n_plan, 100);
    assert_ptr_not_equal(l->plan, l->short_plan);
    vti_lane_end_plan(l);
    assert_ptr_equal(l->plan, l->short_plan);
    assert_int_equal(l->n_plan, VTI_SHORT_PLAN);
}

// ---- Addresses

FX_TEST(test_addresses_stay_between_the_guards)
{
    uintptr_t end = sp[0]->addr = (uintptr_t)1 << 30;
    for (uint32_t g = 0; g < 2; g++) {
        const vti_lane_geo *gr = &geo.group[g];
        for (uint32_t v = 0; v < gr->n_view; v++) {
            uintptr_t begin = vti_lane_addr(&geo, sp[0], g, v, 0);
            assert_true(begin >= end + gr->stride_bytes); // a token out of bounds faults
            assert_int_equal(begin % gr->slice_bytes, sp[0]->addr % gr->slice_bytes);
            assert_int_equal(vti_lane_addr(&geo, sp[0], g, v, 5), begin + 5 * gr->slice_bytes);
            end = vti_lane_addr(&geo, sp[0], g, v, gr->n_position);
        }
    }
    assert_true(end + geo.group[1].guard_bytes <= sp[0]->addr + geo.span_bytes);
}

FX_RUN_EACH(test_vt_vset, setup, teardown)
