// test_vt_pset.c - pSet: names, regions and pages, the states that follow from the holders, the
// pool, and the counters of what may be evicted or is given up. Structure alone; random holders are
// counted anew.
#include "assert_vt.h"
#include "failing_calloc.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

#include "vtensor/core/pset.h"

enum { N_CLASS = 2, LEN = 10, LEN_B = 4, MAX_REGION = 3, N_A = LEN * MAX_REGION };

static vti_pset ps;

// Class 0 has 30 names, class 1 has 12.
VT_FIXTURE(setup)
{
    vti_geo g = {.region_len = {LEN, LEN_B}};
    g.vmm.n_class = N_CLASS;
    g.vmm.cls[0] = (vt_vmm_class){2, 4096, (uint64_t)LEN * MAX_REGION};
    g.vmm.cls[1] = (vt_vmm_class){1, 512, (uint64_t)LEN_B * MAX_REGION};
    vti_pset_init(&ps, &g);
}

VT_FIXTURE(teardown)
{
    n_alloc_left = UINT64_MAX;
    vti_pset_free(&ps);
}

static uint32_t home(uint32_t cls)
{
    uint32_t region = VTI_NO_CHUNK;
    assert_int_equal(vti_pset_region_open(&ps, cls, &region), VT_OK);
    assert_true(vti_pset_is_preferred(&ps, cls, region));
    return region;
}

// All regions there are, in use by nobody.
static void make_regions(uint32_t cls)
{
    if (ps.cls[cls].regions.n > 0) return;
    for (uint32_t i = 0; i < MAX_REGION; i++) (void)home(cls);
    for (uint32_t i = 0; i < MAX_REGION; i++) vti_pset_region_close(&ps, cls, i);
}

static vti_name name_of(uint32_t cls, uint32_t index)
{
    return (vti_name){index / (cls ? LEN_B : LEN), index % (cls ? LEN_B : LEN)};
}

static uint32_t reserved(uint32_t cls, uint32_t index)
{
    uint32_t chunk = VTI_NO_CHUNK;
    make_regions(cls);
    assert_int_equal(vti_pset_reserve(&ps, cls, name_of(cls, index), &chunk), VT_OK);
    assert_int_equal(vti_pset_find(&ps, cls, name_of(cls, index)), chunk);
    return chunk;
}

static uint32_t made(uint32_t cls, uint32_t index)
{
    uint32_t chunk = reserved(cls, index);
    vti_pset_create(&ps, chunk, false);
    return chunk;
}

static uint32_t pooled(uint32_t cls, uint32_t index)
{
    uint32_t chunk = made(cls, index);
    vti_pset_place(&ps, chunk, VTI_IN_POOL);
    return chunk;
}

// ---- Names, regions and pages

FX_TEST(test_neighbours_are_those_of_the_backend)
{
    uint32_t a[12], b = made(1, 0), last = made(0, N_A - 1);
    for (uint32_t i = 0; i < 12; i++) a[i] = made(0, 11 - i); // in any order
    for (uint32_t i = 0; i < 12; i++) assert_int_equal(vti_pset_index(&ps, a[i]), 11 - i);
    for (uint32_t i = 1; i < 12; i++) // over pages, and the end of a region
        assert_true(vti_pset_continues(&ps, a[i], a[i - 1]));
    assert_false(vti_pset_continues(&ps, a[3], a[1]));
    assert_false(vti_pset_continues(&ps, a[1], a[2]));
    assert_false(vti_pset_continues(&ps, VTI_NO_CHUNK, a[11]));
    assert_int_equal(vti_pset_index(&ps, last) + 1, vti_pset_index(&ps, b));
    assert_false(vti_pset_continues(&ps, last, b)); // of another shape
    assert_int_equal(vti_pset_class(&ps, last), 0);
    assert_int_equal(vti_pset_class(&ps, b), 1);
    assert_int_equal(vti_pset_name(&ps, a[0]).region, 1);
    assert_int_equal(vti_pset_name(&ps, a[0]).offset, 1);
}

FX_TEST(test_names_that_nobody_has_are_not_found)
{
    make_regions(0);
    assert_int_equal(vti_pset_find(&ps, 0, name_of(0, 29)), VTI_NO_CHUNK);
    assert_int_equal(vti_pset_region_used(&ps, 0, 2), 0);
    uint32_t chunk = reserved(0, 25);
    assert_int_equal(vti_pset_chunk(&ps, chunk).place, VTI_WITH_JOB);
    assert_int_equal(vti_pset_state(&ps, chunk), VT_CHUNK_ABSENT);
    assert_int_equal(vti_pset_region_used(&ps, 0, 2), 1);
    vti_pset_unreserve(&ps, chunk);
    assert_int_equal(vti_pset_find(&ps, 0, name_of(0, 25)), VTI_NO_CHUNK);
}

FX_TEST(test_every_region_is_a_home_once)
{
    uint32_t seen = 0, more = 77;
    for (uint32_t i = 0; i < MAX_REGION; i++) seen |= 1U << home(0);
    assert_int_equal(seen, 7);
    assert_int_equal(vti_pset_region_open(&ps, 0, &more), VT_NOSPACE);
    assert_int_equal(more, 77);
    (void)home(1); // each class has its own
    vti_pset_region_close(&ps, 0, 1);
    assert_int_equal(home(0), 1);
    assert_int_equal(vti_pset_region_open(&ps, 0, &more), VT_NOSPACE);
}

FX_TEST(test_a_region_with_chunks_is_in_use_though_nobody_lives_there)
{
    uint32_t more, chunk = made(0, 4);
    assert_int_equal(vti_pset_region_used(&ps, 0, 0), 1);
    assert_int_not_equal(home(0), 0);
    assert_int_not_equal(home(0), 0);
    assert_int_equal(vti_pset_region_open(&ps, 0, &more), VT_NOSPACE);
    vti_pset_destroy(&ps, chunk);
    assert_int_equal(home(0), 0);
}

// A job that is to create a chunk needs its name.
FX_TEST(test_a_region_with_reserved_names_is_in_use)
{
    uint32_t more, chunk = reserved(0, 12);
    assert_int_not_equal(home(0), 1);
    assert_int_not_equal(home(0), 1);
    assert_int_equal(vti_pset_region_open(&ps, 0, &more), VT_NOSPACE);
    vti_pset_unreserve(&ps, chunk);
    assert_int_equal(home(0), 1);
    vti_pset_region_close(&ps, 0, 1);
    chunk = made(0, 12);
    vti_pset_destroy(&ps, chunk); // it was counted once
    assert_int_equal(home(0), 1);
}

// However many names were used one after another.
FX_TEST(test_records_are_there_for_what_exists)
{
    for (int round = 0; round < 5; round++) {
        uint32_t chunk[2 * LEN];
        for (uint32_t i = 0; i < 2 * LEN; i++) chunk[i] = made(0, (uint32_t)round * 2 + i);
        for (uint32_t i = 0; i < 2 * LEN; i++) vti_pset_destroy(&ps, chunk[i]);
    }
    assert_in_range(ps.pages.n, 2 * LEN / VTI_PAGE_CHUNKS, 2 * LEN / VTI_PAGE_CHUNKS + 4);
}

FX_TEST(test_every_allocation_may_fail)
{
    for (int what = 0; what < 2; what++) {
        uint32_t region = 77, chunk = 77;
        vt_status st = VT_ENOMEM;
        uint64_t k = 0;
        for (; st == VT_ENOMEM; k++) {
            n_alloc_left = k;
            st = what == 0 ? vti_pset_region_open(&ps, 1, &region)
                           : vti_pset_reserve(&ps, 1, (vti_name){0, 1}, &chunk);
            n_alloc_left = UINT64_MAX;
            if (st != VT_OK) assert_int_equal(what == 0 ? region : chunk, 77);
        }
        assert_int_equal(st, VT_OK);
        assert_int_equal(k, 3); // the table of blocks, and a block
    }
    uint32_t chunk = vti_pset_find(&ps, 1, (vti_name){0, 1});
    assert_int_equal(vti_pset_chunk(&ps, chunk).place, VTI_WITH_JOB);
    vti_pset_unreserve(&ps, chunk);
    for (uint32_t i = 1; i < MAX_REGION; i++) (void)home(1); // none was lost
}

// ---- States

FX_TEST(test_the_state_follows_from_the_holders)
{
    uint32_t c = reserved(0, 3);
    assert_int_equal(vti_pset_state(&ps, c), VT_CHUNK_ABSENT);
    vti_pset_create(&ps, c, false);
    assert_int_equal(vti_pset_state(&ps, c), VT_CHUNK_SPARE);
    vti_pset_user_hold(&ps, c);
    assert_int_equal(vti_pset_state(&ps, c), VT_CHUNK_OWNED);
    vti_pset_user_hold(&ps, c);
    assert_int_equal(vti_pset_state(&ps, c), VT_CHUNK_SHARED);
    vti_pset_user_drop(&ps, c, VTI_IN_POOL, false);
    vti_pset_node_hold(&ps, c, false);
    assert_int_equal(vti_pset_state(&ps, c), VT_CHUNK_SHARED);
    vti_pset_user_drop(&ps, c, VTI_IN_POOL, false);
    assert_int_equal(vti_pset_state(&ps, c), VT_CHUNK_CACHED);
    vti_pset_node_hold(&ps, c, true);
    vti_pset_node_drop(&ps, c, true);
    assert_int_equal(vti_pset_state(&ps, c), VT_CHUNK_CACHED);
    vti_pset_node_drop(&ps, c, false);
    assert_int_equal(vti_pset_state(&ps, c), VT_CHUNK_SPARE);
    assert_int_equal(ps.cls[0].pool, c);
    vti_pset_place(&ps, c, VTI_WITH_JOB);
    vti_pset_destroy(&ps, c);
    assert_int_equal(vti_pset_find(&ps, 0, name_of(0, 3)), VTI_NO_CHUNK);
}

FX_TEST(test_a_chunk_given_up_is_dirty)
{
    uint32_t a = made(0, 1), b = made(0, 2), c = reserved(0, 3);
    assert_false(vti_pset_chunk(&ps, a).is_dirty);
    vti_pset_user_hold(&ps, a);
    assert_false(vti_pset_chunk(&ps, a).is_dirty);
    vti_pset_user_drop(&ps, a, VTI_IN_LANE, false);
    assert_true(vti_pset_chunk(&ps, a).is_dirty);
    vti_pset_set_dirty(&ps, a, false);
    assert_false(vti_pset_chunk(&ps, a).is_dirty);
    vti_pset_set_dirty(&ps, a, true);
    assert_true(vti_pset_chunk(&ps, a).is_dirty);
    vti_pset_node_hold(&ps, b, false);
    vti_pset_node_drop(&ps, b, false);
    assert_true(vti_pset_chunk(&ps, b).is_dirty);
    vti_pset_create(&ps, c, true); // as the device made it
    assert_true(vti_pset_chunk(&ps, c).is_dirty);
}

FX_TEST(test_a_chunk_leaves_once_all_users_have_given_it_up)
{
    const vti_class *cls = &ps.cls[0];
    uint32_t c = made(0, 0);
    vti_pset_user_hold(&ps, c);
    vti_pset_user_hold(&ps, c);
    vti_pset_user_leave(&ps, c);
    assert_int_equal(cls->n_in[VTI_LEAVING], 0);
    vti_pset_user_leave(&ps, c);
    assert_int_equal(cls->n_in[VTI_LEAVING], 1);
    vti_pset_node_hold(&ps, c, false); // it will be cached
    assert_int_equal(cls->n_in[VTI_LEAVING], 1);
    vti_pset_user_stay(&ps, c);
    assert_int_equal(cls->n_in[VTI_LEAVING], 0);
    vti_pset_user_drop(&ps, c, VTI_IN_POOL, false);
    assert_int_equal(cls->n_in[VTI_LEAVING], 1);
    vti_pset_user_drop(&ps, c, VTI_IN_POOL, true);
    assert_int_equal(cls->n_in[VTI_LEAVING], 0);
    assert_int_equal(vti_pset_state(&ps, c), VT_CHUNK_CACHED);
}

FX_TEST(test_bytes_are_sums_over_the_classes)
{
    uint32_t a = made(0, 0), b = made(1, 0);
    (void)made(0, 1);
    vti_pset_user_hold(&ps, a);
    vti_pset_user_hold(&ps, b);
    assert_int_equal(vti_class_created(&ps.cls[0]), 2);
    assert_int_equal(vti_pset_created_bytes(&ps), 2 * 8192 + 512);
    assert_int_equal(vti_pset_bytes(&ps, VT_CHUNK_OWNED), 8192 + 512);
    assert_int_equal(vti_pset_bytes(&ps, VT_CHUNK_SPARE), 8192);
    assert_int_equal(vti_pset_bytes(&ps, VT_CHUNK_CACHED), 0);
}

// ---- The pool

static void expect_pool(uint32_t cls, const uint32_t *want, uint32_t n)
{
    uint32_t at = ps.cls[cls].pool, before = VTI_NO_CHUNK;
    assert_int_equal(ps.cls[cls].n_in[VTI_POOLED], n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(at, want[i]);
        assert_int_equal(vti_pset_chunk(&ps, at).prev, before);
        before = at;
        at = vti_pset_chunk(&ps, at).next;
    }
    assert_int_equal(at, VTI_NO_CHUNK);
}

FX_TEST(test_the_pool_is_last_in_first_out)
{
    expect_pool(0, NULL, 0);
    uint32_t c[5] = {made(0, 0)}; // with its job still
    expect_pool(0, NULL, 0);
    for (uint32_t i = 1; i < 5; i++) c[i] = pooled(0, i);
    uint32_t other = pooled(1, 1);
    expect_pool(0, (uint32_t[]){c[4], c[3], c[2], c[1]}, 4);
    expect_pool(1, &other, 1);
    vti_pset_place(&ps, c[3], VTI_WITH_JOB); // from the middle
    expect_pool(0, (uint32_t[]){c[4], c[2], c[1]}, 3);
    vti_pset_place(&ps, c[1], VTI_WITH_JOB); // the first that entered
    expect_pool(0, (uint32_t[]){c[4], c[2]}, 2);
    vti_pset_place(&ps, c[4], VTI_WITH_JOB); // the last
    expect_pool(0, &c[2], 1);
    vti_pset_user_hold(&ps, c[2]); // whoever holds it takes it out
    expect_pool(0, NULL, 0);
    vti_pset_user_drop(&ps, c[2], VTI_IN_LANE, false); // warm
    expect_pool(0, NULL, 0);
    vti_pset_place(&ps, c[2], VTI_IN_POOL);
    vti_pset_place(&ps, c[0], VTI_IN_POOL);
    expect_pool(0, (uint32_t[]){c[0], c[2]}, 2);
}

// ---- What may be evicted

FX_TEST(test_evictable_is_cached_and_not_kept)
{
    const vti_class *c = &ps.cls[0];
    uint32_t k = made(0, 5);
    vti_pset_node_hold(&ps, k, false);
    assert_int_equal(c->n_in[VTI_EVICTABLE], 1);
    vti_pset_node_hold(&ps, k, true);
    assert_int_equal(c->n_in[VTI_EVICTABLE], 0);
    vti_pset_node_keep(&ps, k, true); // the first node is guarded too
    vti_pset_node_drop(&ps, k, true);
    assert_int_equal(c->n_in[VTI_EVICTABLE], 0);
    vti_pset_node_keep(&ps, k, false);
    assert_int_equal(c->n_in[VTI_EVICTABLE], 1);
    vti_pset_user_hold(&ps, k);
    assert_int_equal(c->n_in[VTI_EVICTABLE], 0);
    vti_pset_user_drop(&ps, k, VTI_IN_POOL, false);
    assert_int_equal(c->n_in[VTI_EVICTABLE], 1);
    vti_pset_node_drop(&ps, k, false);
    assert_int_equal(c->n_in[VTI_EVICTABLE], 0);
}

// ---- Anything, counted anew

static void count_class(uint32_t cls)
{
    const vti_class *c = &ps.cls[cls];
    uint64_t n_in[VT_N_CHUNK_STATE] = {0}, n_pool = 0, n_evictable = 0, n_leaving = 0, n_listed = 0;
    uint32_t n_used[MAX_REGION] = {0};
    for (uint32_t i = 0; i < vti_pset_end(&ps); i++) {
        vti_chunk is = vti_pset_chunk(&ps, i);
        vt_chunk_state st = vti_chunk_state(&is);
        if (!is.is_created || vti_pset_class(&ps, i) != cls) continue;
        assert_int_equal(vti_pset_find(&ps, cls, vti_pset_name(&ps, i)), i);
        n_in[st]++;
        n_used[vti_pset_name(&ps, i).region]++;
        n_pool += st == VT_CHUNK_SPARE && is.place == VTI_IN_POOL;
        n_evictable += st == VT_CHUNK_CACHED && is.n_kept == 0;
        n_leaving += is.n_user > 0 && is.n_gone == is.n_user;
    }
    for (uint32_t r = 0; r < MAX_REGION; r++)
        assert_int_equal(vti_pset_region_used(&ps, cls, r), n_used[r]);
    for (uint32_t i = c->pool; i != VTI_NO_CHUNK; i = vti_pset_chunk(&ps, i).next) n_listed++;
    for (int st = VT_CHUNK_SPARE; st < VT_N_CHUNK_STATE; st++)
        assert_int_equal(c->n_in[st], n_in[st]);
    assert_int_equal(c->n_in[VTI_POOLED], n_pool);
    assert_int_equal(n_listed, n_pool);
    assert_int_equal(c->n_in[VTI_EVICTABLE], n_evictable);
    assert_int_equal(c->n_in[VTI_LEAVING], n_leaving);
}

static void change_holders(uint32_t i, uint64_t what, vti_place place)
{
    vti_chunk c = vti_pset_chunk(&ps, i);
    const bool was_pooled = vti_chunk_state(&c) == VT_CHUNK_SPARE;
    const uint32_t n_gone = was_pooled ? 0 : c.n_gone, n_kept = was_pooled ? 0 : c.n_kept;
    if (what == 2)
        vti_pset_user_hold(&ps, i);
    else if (what == 3 && c.n_user > 0)
        vti_pset_user_drop(&ps, i, place, n_gone == c.n_user || (n_gone > 0 && place));
    else if (what == 4)
        vti_pset_node_hold(&ps, i, place != VTI_IN_POOL);
    else if (what == 5 && c.n_node > 0)
        vti_pset_node_drop(&ps, i, n_kept == c.n_node || (n_kept > 0 && place));
    else if (what == 6 && c.n_node > n_kept)
        vti_pset_node_keep(&ps, i, true);
    else if (what == 7 && n_kept > 0)
        vti_pset_node_keep(&ps, i, false);
    else if (what == 8 && c.n_user > n_gone)
        vti_pset_user_leave(&ps, i);
    else if (what == 9 && n_gone > 0)
        vti_pset_user_stay(&ps, i);
}

static void change_one(uint32_t cls, uint32_t index, uint64_t what, vti_place place)
{
    uint32_t i = vti_pset_find(&ps, cls, name_of(cls, index));
    vti_chunk c = i != VTI_NO_CHUNK ? vti_pset_chunk(&ps, i) : (vti_chunk){.n_user = 0};
    bool is_spare = vti_chunk_state(&c) == VT_CHUNK_SPARE;
    if (!c.is_created)
        (void)made(cls, index);
    else if (what == 0 && is_spare)
        vti_pset_destroy(&ps, i);
    else if (what == 1 && is_spare)
        vti_pset_place(&ps, i, place);
    else
        change_holders(i, what, place);
}

FX_TEST(test_whatever_happens_the_counters_are_the_sums)
{
    uint64_t seed = 5;
    make_regions(0), make_regions(1);
    for (int k = 0; k < 20000; k++) {
        uint32_t cls = (uint32_t)next_random(&seed) % 2;
        change_one(cls, (uint32_t)next_random(&seed) % (cls ? LEN_B * MAX_REGION : N_A),
                   next_random(&seed) % 10, (vti_place)(next_random(&seed) % 3));
        if (k % 16 == 0) count_class(0), count_class(1);
    }
}

FX_RUN_EACH(test_vt_pset, setup, teardown)
