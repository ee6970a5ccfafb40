// test_vt_rtree_evict.c - what prefixes are worth: which are evicted and when, which are not, and
// how many chunks that would free.
#include "unit/cmocka_all.h"

#include <string.h>

#include "rtree_letters.h"

// Evicts until nobody is left and writes who went, each by its last token.
static const char *evict_all(uint64_t now_ms)
{
    static char order[64];
    size_t n = 0;
    for (vti_node *v; (v = vti_rtree_victim(t, now_ms)); verify()) {
        assert_null(v->child[VTI_FRONT]);
        assert_true(n < sizeof order - 1);
        order[n++] = (char)v->tok[v->n_tok - 1];
        vti_rtree_drop(t, v);
    }
    order[n] = 0;
    return order;
}

static void test_unused_the_longest_goes_first(void **state)
{
    (void)state;
    (void)push("1", 'A');
    vti_node *two = push("2", 'B');
    (void)push("3", 'C');
    (void)push("4", 'D');
    vti_rtree_touch(t, two);
    (void)push("1", 'E');
    assert_string_equal(evict_all(0), "3421");
}

static void test_leaves_go_before_what_is_above_them(void **state)
{
    (void)state;
    (void)push("a", 'A');
    (void)push("ab", 'B');
    vti_node *c = push("ac", 'C');
    (void)push("x", 'D');
    (void)push("acd", 'E');
    vti_rtree_touch(t, c); // and a, but not d
    assert_string_equal(evict_all(0), "bxdca");
}

static void test_both_sides_of_a_cut_are_as_used_as_the_whole(void **state)
{
    (void)state;
    (void)push("abcd", 'A');
    (void)push("x", 'B');
    (void)push("ab", 'C'); // uses ab, not cd
    assert_string_equal(evict_all(0), "dxb");
}

static void test_low_priority_goes_first(void **state)
{
    (void)state;
    retain(push("1", 'A'), 2, false, 0, 0);
    retain(push("2", 'B'), 0, false, 0, 0);
    retain(push("3", 'C'), VT_MAX_PRIORITY, false, 0, 0);
    retain(push("4", 'D'), 2, false, 0, 0);
    retain(push("5", 'E'), 1, false, 0, 0);
    (void)push("6", 'F');
    assert_string_equal(evict_all(0), "265143");
}

static void test_a_parent_is_worth_what_its_child_was(void **state)
{
    (void)state;
    vti_node *b = push("ab", 'A'), *a = push("a", 'B');
    (void)push("x", 'C');
    retain(push("y", 'D'), 3, false, 0, 0);
    retain(b, 5, false, 0, 0);
    retain(a, 1, false, 0, 0);
    assert_string_equal(evict_all(0), "xyba");
    b = push("ab", 'A');
    a = push("a", 'B');
    retain(b, 5, false, 0, 0);
    retain(a, 1, false, 0, 0);
    vti_rtree_drop(t, b);
    retain(push("z", 'D'), 4, false, 0, 0);
    assert_string_equal(evict_all(0), "za");
    b = push("ab", 'A');
    a = push("a", 'B');
    retain(b, 2, false, 0, 0);
    retain(a, 4, false, 0, 0);
    retain(push("y", 'D'), 3, false, 0, 0);
    assert_string_equal(evict_all(0), "bya");
}

static void test_worth_can_be_taken_back(void **state)
{
    (void)state;
    vti_node *b = push("ab", 'A');
    (void)push("a", 'B');
    (void)push("x", 'C');
    (void)push("y", 'D');
    retain(b, 5, true, 0, 0);
    assert_string_equal(evict_all(0), "xy");
    retain(b, 0, false, 0, 0);
    (void)push("x", 'C');
    assert_string_equal(evict_all(0), "bax");
}

static void test_pins_hold_what_is_above_them(void **state)
{
    (void)state;
    vti_node *c = push("abc", 'A');
    (void)push("a", 'B');
    (void)push("ad", 'C');
    retain(c, 0, true, 0, 0);
    assert_string_equal(evict_all(UINT64_MAX), "d");
    assert_tree("a[A0](bc[A0 A1])");
}

static void test_worth_ends_at_its_time(void **state)
{
    (void)state;
    retain(push("1", 'A'), 0, true, 100, 0);
    retain(push("2", 'B'), 7, false, 50, 0);
    retain(push("3", 'C'), 1, false, 0, 0);
    retain(push("4", 'D'), 2, false, 40, 40); // has ended
    (void)push("5", 'E');
    assert_int_equal(vti_rtree_victim(t, 49)->tok[0], '4');
    assert_int_equal(vti_rtree_victim(t, 50)->tok[0], '2');
    assert_string_equal(evict_all(99), "2453");
    assert_null(vti_rtree_victim(t, 99));
    assert_int_equal(vti_rtree_evictable(t, 99), 0);
    assert_int_equal(vti_rtree_evictable(t, 100), 1);
    assert_string_equal(evict_all(100), "1");
}

static void test_what_ends_earlier_is_not_inherited(void **state)
{
    (void)state;
    vti_node *b = push("ab", 'A'), *a = push("a", 'B');
    retain(b, 5, false, 10, 0);
    retain(a, 3, false, 0, 0);
    vti_rtree_drop(t, b);
    verify();
    assert_int_equal(a->keep.priority, 3); // else it would be plain from 10 on
    assert_int_equal(a->keep.until_ms, 0);
    vti_rtree_drop(t, a);
}

static void test_the_later_end_is_inherited(void **state)
{
    (void)state;
    for (int later = 0; later < 2; later++) {
        vti_node *b = push("ab", 'A'), *a = push("a", 'B');
        retain(b, 3, false, later ? 0 : 10, 0);
        retain(a, 3, false, 20, 0);
        vti_rtree_drop(t, b);
        verify();
        assert_int_equal(a->keep.until_ms, later ? 0 : 20);
        vti_rtree_drop(t, a);
    }
}

static void test_references_hold(void **state)
{
    (void)state;
    vti_node *c = push("abc", 'A');
    vti_node *a = push("a", 'B');
    (void)push("x", 'C');
    vti_rtree_ref(t, c);
    vti_rtree_ref(t, c);
    vti_rtree_ref(t, a);
    assert_string_equal(evict_all(0), "x");
    vti_rtree_unref(t, c);
    assert_null(vti_rtree_victim(t, 0));
    vti_rtree_unref(t, c);
    assert_string_equal(evict_all(0), "c");
    vti_rtree_unref(t, a);
    assert_string_equal(evict_all(0), "a");
}

static void test_pins_hold_so_many_chunks_at_most(void **state)
{
    (void)state;
    vt_retention pin = {.pinned = true, .until_ms = 10}, high = {.priority = 7};
    vti_node *def = push("abcdef", 'A'), *x = push("abcxyz", 'B');
    assert_tree("abc[A0 A1](def[A1 A2] xyz[B1 B2])");
    assert_int_equal(vti_rtree_retain(t, def, &high, 0, 0), VT_OK);
    assert_int_equal(vti_rtree_retain(t, def, &pin, 2, 0), VT_NOSPACE);
    assert_int_equal(def->keep.priority, 7);
    assert_int_equal(vti_rtree_retain(t, def, &pin, 3, 0), VT_OK); // A1 counts once
    assert_int_equal(vti_rtree_retain(t, def, &pin, 3, 0), VT_OK);
    assert_int_equal(vti_rtree_retain(t, x, &pin, 4, 0), VT_NOSPACE);
    assert_int_equal(vti_rtree_retain(t, x, &high, 0, 0), VT_OK);
    assert_int_equal(vti_rtree_retain(t, x, &pin, 5, 0), VT_OK);
    verify();
    assert_int_equal(vti_rtree_retain(t, d->root, &pin, 0, 0), VT_OK); // nothing to pin
    vt_retention ended = {.pinned = true, .until_ms = 3};
    assert_int_equal(vti_rtree_retain(t, x, &ended, 0, 3), VT_OK);
    assert_int_equal(vti_rtree_retain(t, x, &pin, 5, 3), VT_OK);
    vti_node *q = push("q", 'C');
    assert_int_equal(vti_rtree_retain(t, q, &pin, 1, 9), VT_NOSPACE);
    pin.until_ms = 20;
    assert_int_equal(vti_rtree_retain(t, q, &pin, 1, 10), VT_OK); // the others have ended
    verify();
    assert_int_equal(vti_rtree_evictable(t, 10), 5);
}

static void test_evictable_counts_chunks_that_would_be_free(void **state)
{
    (void)state;
    vti_node *def = push("abcdef", 'A');
    assert_int_equal(vti_rtree_evictable(t, 0), 3);
    vti_node *x = push("abcx", 'B');
    assert_int_equal(vti_rtree_evictable(t, 0), 4); // A1 once
    vti_rtree_ref(t, x);
    assert_int_equal(vti_rtree_evictable(t, 0), 1); // A2: abc stays, with A0 and A1
    vti_pset_user_hold(&ps, 0, 2);
    assert_int_equal(vti_rtree_evictable(t, 0), 0);
    vti_rtree_unref(t, x);
    assert_int_equal(vti_rtree_evictable(t, 0), 3);
    vti_pset_user_drop(&ps, 0, 2);
    retain(def, 0, true, 0, 0);
    assert_int_equal(vti_rtree_evictable(t, 0), 1); // B1
    retain(def, 0, false, 0, 0);
    assert_int_equal(vti_rtree_evictable(t, 0), 4);
    uint64_t n_cached = ps.n_in[VT_CHUNK_CACHED];
    assert_int_equal(strlen(evict_all(0)), 3);
    assert_int_equal(n_cached - ps.n_in[VT_CHUNK_CACHED], 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(test_unused_the_longest_goes_first),
        TREE_TEST(test_leaves_go_before_what_is_above_them),
        TREE_TEST(test_both_sides_of_a_cut_are_as_used_as_the_whole),
        TREE_TEST(test_low_priority_goes_first),
        TREE_TEST(test_a_parent_is_worth_what_its_child_was),
        TREE_TEST(test_worth_can_be_taken_back),
        TREE_TEST(test_pins_hold_what_is_above_them),
        TREE_TEST(test_worth_ends_at_its_time),
        TREE_TEST(test_what_ends_earlier_is_not_inherited),
        TREE_TEST(test_the_later_end_is_inherited),
        TREE_TEST(test_references_hold),
        TREE_TEST(test_pins_hold_so_many_chunks_at_most),
        TREE_TEST(test_evictable_counts_chunks_that_would_be_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
