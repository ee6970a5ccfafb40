// test_vt_radix_evict.c - what prefixes are worth: which are evicted and when, which are not, what
// quotas keep, what is released beside, and how many chunks may be evicted.
#include "assert_vt.h"
#include "suite.h"

#include <string.h>

#include "radix_letters.h"

// The leaf that goes next, by its last letter; '-' if there is none.
static char next_leaf(uint64_t now_ms)
{
    t->now_ms = now_ms;
    vti_priority_expire(t);
    const vti_heap *h = &t->heap[VTI_BY_PRIORITY];
    return h->n > 0 ? last_letter(h->at[1]) : '-';
}

// Evicts until nothing is left and writes what went: leaves by their last letters, "*" for what a
// node held beside.
static const char *evict_all(uint64_t now_ms)
{
    static char order[64];
    size_t n = 0;
    for (;; n++) {
        char leaf = next_leaf(now_ms);
        uint64_t n_node = t->n_node, could = n_evictable();
        if (!vti_radix_evict(t)) break;
        verify();
        assert_true(n < sizeof order - 1);
        order[n] = t->n_node < n_node ? leaf : '*';
        assert_true(n_evictable() <= could);
    }
    order[n] = 0;
    assert_int_equal(n_evictable(), 0); // whatever could be evicted has been
    return order;
}

FX_TEST_WITH(test_unused_the_longest_goes_first, tree_setup, tree_teardown)
{
    (void)push("1", 'A');
    vti_node *two = push("2", 'B');
    (void)push("3", 'C');
    (void)push("4", 'D');
    vti_radix_touch(t, two);
    (void)push("1", 'E');
    assert_string_equal(evict_all(0), "3421");
}

FX_TEST_WITH(test_blocks_go_from_the_end_of_a_path, tree_setup, tree_teardown)
{
    (void)push("abcd", 'A');
    vti_node *f = push("abef", 'B');
    (void)push("xy", 'C');
    assert_string_equal((vti_radix_evict(t), tree_of(d)), "ab[B0](ef[B1]) xy[C0]");
    vti_radix_touch(t, f);
    assert_string_equal(evict_all(0), "yfb"); // ab is worth what ef was
}

FX_TEST_WITH(test_a_chunk_at_a_time_is_freed, tree_setup, tree_teardown)
{
    (void)push("abcdefgh", 'A');
    for (uint64_t n = 4; n > 0; n--) {
        assert_int_equal(n_in(VT_CHUNK_CACHED), n);
        assert_true(vti_radix_evict(t));
        assert_int_equal(n_in(VT_CHUNK_CACHED), n - 1);
    }
    assert_false(vti_radix_evict(t));
    assert_int_equal(t->n_evicted, 4);
}

FX_TEST_WITH(test_low_priority_goes_first, tree_setup, tree_teardown)
{
    retain(push("1", 'A'), 2, false, 0, 0);
    retain(push("2", 'B'), 0, false, 0, 0);
    retain(push("3", 'C'), VT_MAX_PRIORITY, false, 0, 0);
    retain(push("4", 'D'), 2, false, 0, 0);
    retain(push("5", 'E'), 1, false, 0, 0);
    (void)push("6", 'F');
    assert_string_equal(evict_all(0), "265143");
}

FX_TEST_WITH(test_a_parent_inherits_what_is_worth_more, tree_setup, tree_teardown)
{
    vti_node *c = push("abc", 'A');
    (void)push("x", 'C');
    retain(push("y", 'D'), 3, false, 0, 0);
    retain(c, 5, false, 0, 0);
    retain(c->parent, 1, false, 0, 0);
    assert_string_equal(evict_all(0), "xycb");
    c = push("abc", 'A');
    retain(c, 2, false, 0, 0);
    retain(c->parent, 4, false, 0, 0);
    retain(push("y", 'D'), 3, false, 0, 0);
    assert_string_equal(evict_all(0), "cyb");
}

FX_TEST_WITH(test_worth_can_be_taken_back, tree_setup, tree_teardown)
{
    vti_node *c = push("abc", 'A');
    (void)push("x", 'C');
    (void)push("y", 'D');
    retain(c, 5, true, 0, 0);
    assert_string_equal(evict_all(0), "xy");
    retain(c, 0, false, 0, 0);
    (void)push("x", 'C');
    assert_string_equal(evict_all(0), "cbx");
}

FX_TEST_WITH(test_pins_hold_what_is_above_them, tree_setup, tree_teardown)
{
    vti_node *d_ = push("abcd", 'A');
    (void)push("abx", 'C');
    retain(d_, 0, true, 0, 0);
    assert_string_equal(evict_all(UINT64_MAX), "x");
    assert_tree("ab[C0](cd[A1])");
    assert_int_equal(t->pinned_bytes, 4);
}

FX_TEST_WITH(test_worth_ends_at_its_time, tree_setup, tree_teardown)
{
    retain(push("1", 'A'), 0, true, 100, 0);
    retain(push("2", 'B'), 7, false, 50, 0);
    retain(push("3", 'C'), 1, false, 0, 0);
    retain(push("4", 'D'), 2, false, 40, 40); // has ended
    (void)push("5", 'E');
    assert_int_equal(next_leaf(49), '4');
    assert_int_equal(next_leaf(50), '2');
    assert_string_equal(evict_all(99), "2453");
    assert_int_equal(next_leaf(99), '-');
    t->now_ms = 100;
    vti_priority_expire(t);
    assert_int_equal(n_evictable(), 1);
    assert_string_equal(evict_all(100), "1");
}

FX_TEST_WITH(test_what_ends_earlier_is_not_inherited, tree_setup, tree_teardown)
{
    vti_node *c = push("abc", 'A'), *b = c->parent;
    retain(c, 5, false, 10, 0);
    retain(b, 3, false, 0, 0);
    assert_true(vti_radix_evict(t));
    verify();
    assert_int_equal(b->keep.priority, 3); // else it would be plain from 10 on
    assert_int_equal(b->keep.until_ms, 0);
}

FX_TEST_WITH(test_the_later_end_is_inherited, tree_setup, tree_teardown)
{
    for (int later = 0; later < 2; later++) {
        vti_node *c = push("abc", 'A'), *b = c->parent;
        retain(c, 3, false, later ? 0 : 10, 0);
        retain(b, 3, false, 20, 0);
        assert_true(vti_radix_evict(t));
        verify();
        assert_int_equal(b->keep.until_ms, later ? 0 : 20);
        assert_true(vti_radix_evict(t));
    }
}

FX_TEST_WITH(test_references_hold, tree_setup, tree_teardown)
{
    vti_node *c = push("abc", 'A'), *b = c->parent;
    (void)push("x", 'C');
    vti_radix_ref(t, c);
    vti_radix_ref(t, c);
    vti_radix_ref(t, b);
    verify();
    assert_string_equal(evict_all(0), "x");
    vti_radix_unref(t, c);
    assert_false(vti_radix_evict(t));
    vti_radix_unref(t, c);
    assert_string_equal(evict_all(0), "c");
    vti_radix_unref(t, b);
    assert_string_equal(evict_all(0), "b");
}

FX_TEST_WITH(test_pins_hold_so_many_bytes_at_most, tree_setup, tree_teardown)
{
    vt_retention pin = {.pinned = true, .until_ms = 10}, high = {.priority = 7};
    vti_node *f = push("abcdef", 'A'), *z = push("abcdyz", 'B');
    assert_tree("ab[B0](cd[B1](ef[A2] yz[B2]))"); // two bytes to a chunk
    assert_int_equal(vti_radix_retain(t, f, &high, 0), VT_OK);
    assert_int_equal(vti_radix_retain(t, f, &pin, 5), VT_NOPINS);
    assert_int_equal(f->keep.priority, 7);
    assert_int_equal(vti_radix_retain(t, f, &pin, 6), VT_OK);
    assert_int_equal(vti_radix_retain(t, f, &pin, 6), VT_OK);
    assert_int_equal(vti_radix_retain(t, z, &pin, 7), VT_NOPINS);
    assert_int_equal(vti_radix_retain(t, z, &high, 0), VT_OK);
    assert_int_equal(vti_radix_retain(t, z, &pin, 8), VT_OK); // what is above counts once
    verify();
    assert_int_equal(t->pinned_bytes, 8);
    assert_int_equal(n_evictable(), 0);
    assert_int_equal(vti_radix_retain(t, d->root, &pin, 0), VT_OK); // nothing to pin
    vt_retention ended = {.pinned = true, .until_ms = 3};
    t->now_ms = 3;
    assert_int_equal(vti_radix_retain(t, z, &ended, 0), VT_OK);
    assert_int_equal(t->pinned_bytes, 6);
    vti_node *q = push("q", 'C');
    t->now_ms = 9;
    assert_int_equal(vti_radix_retain(t, q, &pin, 7), VT_NOPINS);
    pin.until_ms = 20;
    t->now_ms = 10;
    assert_int_equal(vti_radix_retain(t, q, &pin, 2), VT_OK); // the others have ended
    verify();
    assert_int_equal(n_evictable(), 4);
}

FX_TEST_WITH(test_evictable_counts_chunks_that_would_be_free, tree_setup, tree_teardown)
{
    vti_node *f = push("abcdef", 'A');
    assert_int_equal(n_evictable(), 3);
    vti_node *x = push("abcdx", 'B');
    assert_int_equal(n_evictable(), 4);
    vti_radix_ref(t, x);
    assert_int_equal(n_evictable(), 1); // A2: ab and cd stay
    vti_pset_user_hold(&ps, chunk_named(0, 'A', 2));
    assert_int_equal(n_evictable(), 0);
    vti_radix_unref(t, x);
    assert_int_equal(n_evictable(), 3);
    vti_pset_user_drop(&ps, chunk_named(0, 'A', 2), VTI_IN_POOL, false);
    retain(f, 0, true, 0, 0);
    assert_int_equal(n_evictable(), 1); // B2
    retain(f, 0, false, 0, 0);
    assert_int_equal(n_evictable(), 4);
    assert_int_equal(strlen(evict_all(0)), 4);
    assert_int_equal(n_in(VT_CHUNK_CACHED), 0);
}

// ---- Quotas

FX_TEST_WITH(test_a_quota_evicts_its_own_first, tree_setup, tree_teardown)
{
    vt_domain *e;
    vti_node *n;
    assert_int_equal(vti_radix_open(t, "e", 1, &e), VT_OK);
    assert_int_equal(try_push(e, "abcd", 'A', 0, &n), VT_OK);
    vt_domain_set_quota(d, 6);
    (void)push("ab", 'B');
    (void)push("cdef", 'C');
    assert_tree("ab[B0] cd[C0](ef[C1])");
    (void)push("gh", 'D'); // the oldest goes
    assert_tree("cd[C0](ef[C1]) gh[D0]");
    assert_int_equal(stats_of_domain(d).held_bytes, 6);
    assert_string_equal(tree_of(e), "ab[A0](cd[A1])");
    vt_domain_set_quota(d, 3);
    verify();
    assert_tree("gh[D0]");
    assert_int_equal(stats_of_domain(d).evicted_nodes, 3);
}

FX_TEST_WITH(test_what_does_not_fit_a_quota_is_not_recorded, tree_setup, tree_teardown)
{
    vt_domain_set_quota(d, 5);
    vti_node *n = push("abcdefgh", 'A');
    assert_tree("ab[A0](cd[A1])");
    assert_int_equal(vti_node_end(n), 4);
    vti_radix_ref(t, n);
    assert_ptr_equal(push("xy", 'B'), d->root); // what is in use does not give way
    assert_tree("ab[A0](cd[A1])");
    vti_radix_unref(t, n);
    vt_domain_set_quota(d, 0);
    assert_tree("");
    assert_ptr_equal(push("a", 'A'), d->root);
    vt_domain_set_quota(d, UINT64_MAX);
    (void)push("a", 'A');
    assert_tree("a[A0]");
}

FX_TEST_WITH(test_a_closed_domain_may_have_no_quota_left, tree_setup, tree_teardown)
{
    vt_domain *e;
    vti_node *n;
    assert_int_equal(vti_radix_open(t, "e", 1, &e), VT_OK);
    assert_int_equal(try_push(e, "ab", 'A', 0, &n), VT_OK);
    vt_domain_set_quota(e, 0);
    assert_string_equal(tree_of(e), "");
    vt_domain_close(e);
    assert_int_equal(t->n_domain, 1);
}

// ---- Beside

// Group 0: all rows; group 1: a window of three. A row to a chunk, blocks of two.
VT_FIXTURE(window_setup)
{
    static const letter_group group[] = {{VT_GROUP_TOKENS, 1, 1, 0}, {VT_GROUP_TOKENS, 1, 1, 3}};
    tree_open(group, 2, 2);
}

FX_TEST_WITH(test_windows_that_nobody_needs_go_before_leaves, window_setup, tree_teardown)
{
    (void)push("abcdefgh", 'A'); // row 8 sees g and h
    assert_int_equal(n_evictable(), 16);
    (void)push("x", 'B');
    assert_true(vti_radix_evict(t));
    assert_tree("ab[A0 A1|A0 A1](cd[A2 A3|A2 A3](ef[A4 A5|- -](gh[A6 A7|A6 A7]))) x[B0|B0]");
    assert_int_equal(match("abcdef").n_tok, 4); // of those used together the last goes first
    assert_true(vti_radix_evict(t) && vti_radix_evict(t));
    verify();
    assert_int_equal(t->n_window, 3);
    assert_int_equal(match("abcdefgh").n_tok, 8);
    assert_int_equal(match("abcdef").n_tok, 0);
    assert_string_equal(evict_all(0), "hfdbx");
}

// A touch of the end is a use of the windows that are needed there.
FX_TEST_WITH(test_windows_in_use_are_as_used_as_the_end, window_setup, tree_teardown)
{
    vti_node *f = push("abcdef", 'A'); // e, f
    vti_node *e = push("abcdx", 'B');  // d, x: two blocks
    (void)push("q", 'C');
    vti_radix_touch(t, e);
    (void)f;
    assert_true(vti_radix_evict(t)); // ab's
    assert_true(vti_radix_evict(t)); // f, older than e and its window
    assert_tree("ab[B0 B1|- -](cd[B2 B3|B2 B3](x[B4|B4])) q[C0|C0]");
    assert_string_equal(evict_all(0), "qxdb");
    e = push("abcdx", 'B');
    (void)push("q", 'C');
    vti_radix_touch(t, e);
    assert_string_equal(evict_all(0), "*qxdb"); // cd's window outlives q
}

FX_TEST_WITH(test_what_sequences_hold_beside_stays, window_setup, tree_teardown)
{
    (void)push("abcd", 'A');
    (void)push("x", 'B');
    vti_pset_user_hold(&ps, chunk_named(1, 'A', 0));
    vti_pset_user_hold(&ps, chunk_named(1, 'A', 1));
    assert_true(vti_radix_evict(t)); // cd: ab's are in use, and count as used now
    assert_tree("ab[A0 A1|A0 A1] x[B0|B0]");
    verify();
    vti_pset_user_drop(&ps, chunk_named(1, 'A', 0), VTI_IN_POOL, false);
    vti_pset_user_drop(&ps, chunk_named(1, 'A', 1), VTI_IN_POOL, false);
}

// References guard the rows, but a window that no sequence holds may go.
FX_TEST_WITH(test_windows_of_referenced_nodes_may_go, window_setup, tree_teardown)
{
    vti_node *n = push("abcdef", 'A');
    vti_radix_ref(t, n);
    assert_int_equal(n_evictable(), 6);
    assert_string_equal(evict_all(0), "***");
    assert_tree("ab[A0 A1|- -](cd[A2 A3|- -](ef[A4 A5|- -]))");
    vti_radix_unref(t, n);
    verify();
}

FX_TEST_WITH(test_windows_of_pinned_paths_stay, window_setup, tree_teardown)
{
    vti_node *n = push("abcdef", 'A');
    retain(n, 0, true, 50, 0);
    (void)push("abx", 'B');
    assert_string_equal(evict_all(0), "x");
    assert_int_equal(match("abcdef").n_tok, 6);
    assert_int_equal(t->heap[VTI_BY_WINDOW].n, 0);
    vti_radix_ref(t, n);
    assert_string_equal(evict_all(50), "***"); // the pin has ended
    vti_radix_unref(t, n);
    retain(push("abcdef", 'C'), 0, true, 0, 50);
    vt_domain_forget(d);
    verify();
}

FX_TEST_WITH(test_high_priority_windows_stay_while_there_are_others, window_setup, tree_teardown)
{
    vti_node *n = push("abcd", 'A');
    retain(n->parent, 2, false, 0, 0);
    (void)push("x", 'B');
    assert_string_equal(evict_all(0), "dxb");
}

// ---- States

FX_TEST_WITH(test_states_are_held_beside, tree_setup, tree_teardown)
{
    static const letter_group group[] = {{VT_GROUP_TOKENS, 1, 2, 0}, {VT_GROUP_STATE, 3, 2, 0}};
    tree_close();
    tree_open(group, 2, 2);
    (void)push("ab", 'A');
    vti_node *n = push("abcd", 'B');
    (void)push("ab", 'C');
    assert_tree("ab[C0|C0 C1](cd[B1|B0 B1])");
    vti_radix_ref(t, n);
    assert_int_equal(n_evictable(), 4);
    assert_true(vti_radix_evict(t));
    assert_tree("ab[C0|C0 C1](cd[B1|- -])");
    assert_int_equal(match("abcd").n_tok, 2);
    assert_string_equal(evict_all(0), "*");
    assert_int_equal(match("abcd").n_tok, 0);
    vti_radix_unref(t, n);
}

// ---- Cost

// Nodes that are pinned are not looked at, and each of those in use once: it counts as used then.
FX_TEST_WITH(test_evicting_does_not_walk, window_setup, tree_teardown)
{
    enum { N = 15, N_PINNED = 5 };
    char word[] = "?bcd";
    for (char c = 'a'; c < 'a' + N; c++) {
        word[0] = c;
        vti_node *n = push(word, 'A');
        retain(n, 0, c % 3 == 0, 0, 0);
    }
    for (uint32_t p = 0; p < 4; p++) vti_pset_user_hold(&ps, chunk_named(1, 'A', p));
    uint64_t clock = t->clock;
    for (int i = 0; i < N - N_PINNED; i++) assert_true(vti_radix_evict(t));
    verify();
    assert_in_range(t->clock - clock, 0, N - N_PINNED);
    for (uint32_t p = 0; p < 4; p++)
        vti_pset_user_drop(&ps, chunk_named(1, 'A', p), VTI_IN_POOL, false);
}

FX_RUN(test_vt_radix_evict)
