// test_vt_pset.c - pSet: names and regions, the states that follow from the holders, the pool, and
// the counters of what may be evicted. Structure alone; random holders are counted anew.
#include "unit/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "vtensor/structure/pset.h"

enum { N_CLASS = 2, LEN = 10, LEN_B = 4, MAX_REGION = 3, FIRST_B = LEN * MAX_REGION };

static vti_pset ps;

// Class 0 has the chunks 0 .. 29, class 1 the chunks 30 .. 41.
static int setup(void **state)
{
    (void)state;
    vti_geo g = {.region_len = {LEN, LEN_B}};
    g.vmm.n_class = N_CLASS;
    g.vmm.cls[0] = (vt_vmm_class){2, 4096, (uint64_t)LEN * MAX_REGION};
    g.vmm.cls[1] = (vt_vmm_class){1, 512, (uint64_t)LEN_B * MAX_REGION};
    vti_pset_init(&ps, &g);
    return 0;
}

static uint64_t n_alloc_left = UINT64_MAX;

static int teardown(void **state)
{
    (void)state;
    n_alloc_left = UINT64_MAX;
    vti_pset_free(&ps);
    return 0;
}

// The linker sends all calls of calloc here.
void *__real_calloc(size_t n, size_t size_bytes);
void *__wrap_calloc(size_t n, size_t size_bytes);

void *__wrap_calloc(size_t n, size_t size_bytes)
{
    if (n_alloc_left == 0) return NULL;
    if (n_alloc_left != UINT64_MAX) n_alloc_left--;
    return __real_calloc(n, size_bytes);
}

static uint32_t home(uint32_t cls)
{
    uint32_t first = VTI_NO_CHUNK;
    assert_int_equal(vti_pset_home_open(&ps, cls, &first), VT_OK);
    assert_true(vti_pset_is_home(&ps, first));
    return first;
}

static void make(uint32_t chunk)
{
    assert_int_equal(vti_pset_reserve(&ps, chunk), VT_OK);
    vti_pset_create(&ps, chunk, false);
}

static void make_pooled(uint32_t chunk)
{
    make(chunk);
    vti_pset_place(&ps, chunk, VTI_IN_POOL);
}

// ---- Names and regions

static void test_classes_follow_one_another(void **state)
{
    (void)state;
    assert_int_equal(vti_pset_class(&ps, 0), 0);
    assert_int_equal(vti_pset_class(&ps, FIRST_B - 1), 0);
    assert_int_equal(vti_pset_class(&ps, FIRST_B), 1);
    assert_int_equal(vti_pset_class(&ps, FIRST_B + 11), 1);
    assert_true(vti_pset_continues(&ps, 4, 5));
    assert_true(vti_pset_continues(&ps, LEN - 1, LEN)); // over the end of a region
    assert_false(vti_pset_continues(&ps, 4, 6));
    assert_false(vti_pset_continues(&ps, 5, 4));
    assert_false(vti_pset_continues(&ps, FIRST_B - 1, FIRST_B)); // of another shape
    assert_false(vti_pset_continues(&ps, VTI_NO_CHUNK, 0));
    assert_int_equal(vti_pset_region_first(&ps, 17), 10);
    assert_int_equal(vti_pset_region_first(&ps, FIRST_B + 6), FIRST_B + 4);
}

static void test_names_that_were_never_used_are_absent(void **state)
{
    (void)state;
    assert_int_equal(vti_pset_state(&ps, 29), VT_CHUNK_ABSENT);
    assert_int_equal(vti_pset_region_created(&ps, 29), 0);
    assert_false(vti_pset_is_home(&ps, 29));
    assert_int_equal(vti_pset_reserve(&ps, 25), VT_OK); // in the last region
    assert_int_equal(vti_pset_chunk(&ps, 25).place, VTI_WITH_JOB);
    vti_pset_unreserve(&ps, 25);
    assert_int_equal(vti_pset_chunk(&ps, 25).place, VTI_IN_POOL);
    assert_int_equal(vti_pset_state(&ps, 25), VT_CHUNK_ABSENT);
}

static void test_every_region_is_a_home_once(void **state)
{
    (void)state;
    uint32_t seen = 0, more = 77;
    for (uint32_t i = 0; i < MAX_REGION; i++) seen |= 1U << home(0) / LEN;
    assert_int_equal(seen, 7);
    assert_int_equal(vti_pset_home_open(&ps, 0, &more), VT_NOSPACE);
    assert_int_equal(more, 77);
    (void)home(1); // each class has its own
    vti_pset_home_close(&ps, 10);
    assert_int_equal(home(0), 10);
    assert_int_equal(vti_pset_home_open(&ps, 0, &more), VT_NOSPACE);
}

static void test_a_region_with_chunks_is_in_use_though_nobody_lives_there(void **state)
{
    (void)state;
    uint32_t a = home(0), more;
    make(a + 4);
    vti_pset_home_close(&ps, a);
    assert_false(vti_pset_is_home(&ps, a));
    assert_int_equal(vti_pset_region_created(&ps, a), 1);
    assert_int_not_equal(home(0), a);
    assert_int_not_equal(home(0), a);
    assert_int_equal(vti_pset_home_open(&ps, 0, &more), VT_NOSPACE);
    vti_pset_destroy(&ps, a + 4);
    assert_int_equal(home(0), a);
}

// A job that is to create a chunk needs its name.
static void test_a_region_with_reserved_names_is_in_use(void **state)
{
    (void)state;
    uint32_t more;
    assert_int_equal(vti_pset_reserve(&ps, 12), VT_OK);
    assert_int_not_equal(home(0), 10);
    assert_int_not_equal(home(0), 10);
    assert_int_equal(vti_pset_home_open(&ps, 0, &more), VT_NOSPACE);
    vti_pset_unreserve(&ps, 12);
    assert_int_equal(home(0), 10);
    vti_pset_home_close(&ps, 10);
    assert_int_equal(vti_pset_reserve(&ps, 12), VT_OK);
    vti_pset_create(&ps, 12, false);
    vti_pset_destroy(&ps, 12); // it was counted once
    assert_int_equal(home(0), 10);
}

// A run may go on into a region that no home has made.
static void test_regions_used_without_a_home_come_back(void **state)
{
    (void)state;
    uint32_t more;
    assert_int_equal(vti_pset_reserve(&ps, 25), VT_OK); // makes all three
    vti_pset_unreserve(&ps, 25);
    make(12); // the second is in use
    assert_int_not_equal(home(0), 10);
    assert_int_not_equal(home(0), 10);
    assert_int_equal(vti_pset_home_open(&ps, 0, &more), VT_NOSPACE);
    vti_pset_destroy(&ps, 12);
    assert_int_equal(home(0), 10);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    for (int what = 0; what < 2; what++) {
        uint32_t first = 77;
        vt_status st = VT_ENOMEM;
        uint64_t k = 0;
        for (; st == VT_ENOMEM; k++) {
            n_alloc_left = k;
            st = what == 0 ? vti_pset_home_open(&ps, 1, &first) : vti_pset_reserve(&ps, 15);
            n_alloc_left = UINT64_MAX;
            if (what == 0 && st != VT_OK) assert_int_equal(first, 77);
        }
        assert_int_equal(st, VT_OK);
        assert_int_equal(k, 3); // the table, and the chunks of a region
    }
    assert_int_equal(vti_pset_chunk(&ps, 15).place, VTI_WITH_JOB);
    vti_pset_unreserve(&ps, 15);
    for (uint32_t i = 0; i < MAX_REGION; i++) (void)home(0); // none was lost
    for (uint32_t i = 1; i < MAX_REGION; i++) (void)home(1);
}

// ---- States

static void test_the_state_follows_from_the_holders(void **state)
{
    (void)state;
    assert_int_equal(vti_pset_state(&ps, 3), VT_CHUNK_ABSENT);
    make(3);
    assert_int_equal(vti_pset_state(&ps, 3), VT_CHUNK_SPARE);
    vti_pset_user_hold(&ps, 3);
    assert_int_equal(vti_pset_state(&ps, 3), VT_CHUNK_OWNED);
    vti_pset_user_hold(&ps, 3);
    assert_int_equal(vti_pset_state(&ps, 3), VT_CHUNK_SHARED);
    vti_pset_user_drop(&ps, 3, VTI_IN_POOL);
    vti_pset_node_hold(&ps, 3, false);
    assert_int_equal(vti_pset_state(&ps, 3), VT_CHUNK_SHARED);
    vti_pset_user_drop(&ps, 3, VTI_IN_POOL);
    assert_int_equal(vti_pset_state(&ps, 3), VT_CHUNK_CACHED);
    vti_pset_node_hold(&ps, 3, true);
    vti_pset_node_drop(&ps, 3, true);
    assert_int_equal(vti_pset_state(&ps, 3), VT_CHUNK_CACHED);
    vti_pset_node_drop(&ps, 3, false);
    assert_int_equal(vti_pset_state(&ps, 3), VT_CHUNK_SPARE);
    assert_int_equal(ps.cls[0].pool, 3);
    vti_pset_take(&ps, 3);
    vti_pset_destroy(&ps, 3);
    assert_int_equal(vti_pset_state(&ps, 3), VT_CHUNK_ABSENT);
}

static void test_a_chunk_given_up_is_dirty(void **state)
{
    (void)state;
    make(1), make(2);
    assert_false(vti_pset_chunk(&ps, 1).is_dirty);
    vti_pset_user_hold(&ps, 1);
    assert_false(vti_pset_chunk(&ps, 1).is_dirty);
    vti_pset_user_drop(&ps, 1, VTI_IN_LANE);
    assert_true(vti_pset_chunk(&ps, 1).is_dirty);
    vti_pset_set_clean(&ps, 1);
    assert_false(vti_pset_chunk(&ps, 1).is_dirty);
    vti_pset_soil(&ps, 1);
    assert_true(vti_pset_chunk(&ps, 1).is_dirty);
    vti_pset_node_hold(&ps, 2, false);
    vti_pset_node_drop(&ps, 2, false);
    assert_true(vti_pset_chunk(&ps, 2).is_dirty);
    assert_int_equal(vti_pset_reserve(&ps, 3), VT_OK);
    vti_pset_create(&ps, 3, true); // as the device made it
    assert_true(vti_pset_chunk(&ps, 3).is_dirty);
}

static void test_bytes_are_sums_over_the_classes(void **state)
{
    (void)state;
    make(0), make(1), make(FIRST_B);
    vti_pset_user_hold(&ps, 0);
    vti_pset_user_hold(&ps, FIRST_B);
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
    assert_int_equal(ps.cls[cls].n_pool, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(at, want[i]);
        assert_int_equal(vti_pset_chunk(&ps, at).prev, before);
        before = at;
        at = vti_pset_chunk(&ps, at).next;
    }
    assert_int_equal(at, VTI_NO_CHUNK);
}

static void test_the_pool_is_last_in_first_out(void **state)
{
    (void)state;
    expect_pool(0, NULL, 0);
    make(0); // with its job still
    expect_pool(0, NULL, 0);
    for (uint32_t i = 1; i < 5; i++) make_pooled(i);
    make_pooled(FIRST_B + 1);
    expect_pool(0, (uint32_t[]){4, 3, 2, 1}, 4);
    expect_pool(1, (uint32_t[]){FIRST_B + 1}, 1);
    vti_pset_take(&ps, 3); // from the middle
    expect_pool(0, (uint32_t[]){4, 2, 1}, 3);
    vti_pset_take(&ps, 1); // the first that entered
    expect_pool(0, (uint32_t[]){4, 2}, 2);
    vti_pset_take(&ps, 4); // the last
    expect_pool(0, (uint32_t[]){2}, 1);
    vti_pset_user_hold(&ps, 2); // whoever holds it takes it out
    expect_pool(0, NULL, 0);
    vti_pset_user_drop(&ps, 2, VTI_IN_LANE); // warm
    expect_pool(0, NULL, 0);
    vti_pset_place(&ps, 2, VTI_IN_POOL);
    vti_pset_place(&ps, 0, VTI_IN_POOL);
    expect_pool(0, (uint32_t[]){0, 2}, 2);
}

// ---- What may be evicted

static void test_evictable_is_cached_and_not_kept(void **state)
{
    (void)state;
    const vti_class *c = &ps.cls[0];
    make(5);
    vti_pset_node_hold(&ps, 5, false);
    assert_int_equal(c->n_evictable, 1);
    vti_pset_node_hold(&ps, 5, true);
    assert_int_equal(c->n_evictable, 0);
    vti_pset_node_keep(&ps, 5, true); // the first node is guarded too
    vti_pset_node_drop(&ps, 5, true);
    assert_int_equal(c->n_evictable, 0);
    vti_pset_node_keep(&ps, 5, false);
    assert_int_equal(c->n_evictable, 1);
    vti_pset_user_hold(&ps, 5);
    assert_int_equal(c->n_evictable, 0);
    vti_pset_user_drop(&ps, 5, VTI_IN_POOL);
    assert_int_equal(c->n_evictable, 1);
    vti_pset_node_drop(&ps, 5, false);
    assert_int_equal(c->n_evictable, 0);
}

// ---- Anything, counted anew

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static void count_anew(void)
{
    for (uint32_t cls = 0; cls < N_CLASS; cls++) {
        const vti_class *c = &ps.cls[cls];
        uint64_t n_in[VT_N_CHUNK_STATE] = {0}, n_pool = 0, n_evictable = 0, n_listed = 0;
        for (uint32_t r = 0, i = c->first; r < MAX_REGION; r++) {
            uint32_t n_created = 0;
            for (uint32_t k = 0; k < c->len; k++, i++) {
                vti_chunk is = vti_pset_chunk(&ps, i);
                vt_chunk_state st = vti_chunk_state(&is);
                n_in[st]++;
                n_created += is.is_created;
                n_pool += st == VT_CHUNK_SPARE && is.place == VTI_IN_POOL;
                n_evictable += st == VT_CHUNK_CACHED && is.n_kept == 0;
            }
            assert_int_equal(vti_pset_region_created(&ps, i - 1), n_created);
        }
        for (uint32_t i = c->pool; i != VTI_NO_CHUNK; i = vti_pset_chunk(&ps, i).next) n_listed++;
        for (int st = VT_CHUNK_SPARE; st < VT_N_CHUNK_STATE; st++)
            assert_int_equal(c->n_in[st], n_in[st]);
        assert_int_equal(c->n_pool, n_pool);
        assert_int_equal(n_listed, n_pool);
        assert_int_equal(c->n_evictable, n_evictable);
    }
}

static void change_one(uint32_t i, uint64_t what, vti_place place)
{
    vti_chunk c = vti_pset_chunk(&ps, i);
    bool is_spare = vti_chunk_state(&c) == VT_CHUNK_SPARE;
    if (!c.is_created)
        make(i);
    else if (what == 0 && is_spare)
        vti_pset_destroy(&ps, i);
    else if (what == 1 && is_spare)
        vti_pset_place(&ps, i, place);
    else if (what == 2)
        vti_pset_user_hold(&ps, i);
    else if (what == 3 && c.n_user > 0)
        vti_pset_user_drop(&ps, i, place);
    else if (what == 4)
        vti_pset_node_hold(&ps, i, place != VTI_IN_POOL);
    else if (what == 5 && c.n_node > 0)
        vti_pset_node_drop(&ps, i, c.n_kept == c.n_node || (c.n_kept > 0 && place));
    else if (what == 6 && c.n_node > c.n_kept)
        vti_pset_node_keep(&ps, i, true);
    else if (what == 7 && c.n_kept > 0)
        vti_pset_node_keep(&ps, i, false);
}

static void test_whatever_happens_the_counters_are_the_sums(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int k = 0; k < 20000; k++) {
        change_one((uint32_t)next_random(&seed) % (FIRST_B + LEN_B * MAX_REGION),
                   next_random(&seed) % 8, (vti_place)(next_random(&seed) % 3));
        if (k % 16 == 0) count_anew();
    }
}

#define PSET_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PSET_TEST(test_classes_follow_one_another),
        PSET_TEST(test_names_that_were_never_used_are_absent),
        PSET_TEST(test_every_region_is_a_home_once),
        PSET_TEST(test_a_region_with_chunks_is_in_use_though_nobody_lives_there),
        PSET_TEST(test_a_region_with_reserved_names_is_in_use),
        PSET_TEST(test_regions_used_without_a_home_come_back),
        PSET_TEST(test_every_allocation_may_fail),
        PSET_TEST(test_the_state_follows_from_the_holders),
        PSET_TEST(test_a_chunk_given_up_is_dirty),
        PSET_TEST(test_bytes_are_sums_over_the_classes),
        PSET_TEST(test_the_pool_is_last_in_first_out),
        PSET_TEST(test_evictable_is_cached_and_not_kept),
        PSET_TEST(test_whatever_happens_the_counters_are_the_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
