// test_vt_radix.c - rTree case by case: what each kind of push leaves, lookups exact to the token,
// windows and states, domains, enumeration and events, and trees that are wide or deep.
#include "assert_vt.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

#include "radix_letters.h"
#include "vtensor/core/manager.h"

// ---- Blocks

FX_TEST_WITH(test_nothing_is_a_root, tree_setup, tree_teardown)
{
    assert_ptr_equal(push("", 'A'), d->root);
    assert_tree("");
    assert_int_equal(match("abc").n_tok, 0);
    assert_ptr_equal(match("abc").node, d->root);
}

FX_TEST_WITH(test_a_path_has_a_node_for_each_block, tree_setup, tree_teardown)
{
    vti_node *n = push("abcde", 'A');
    assert_tree("ab[A0](cd[A1](e[A2]))");
    assert_int_equal(t->n_node, 3);
    assert_int_equal(t->n_tok, 5);
    assert_int_equal(t->n_domain, 1);
    assert_int_equal(vti_node_end(n), 5);
    assert_ptr_equal(match("abcdef").last, n);
}

FX_TEST_WITH(test_lookups_are_exact_to_the_token, tree_setup4, tree_teardown)
{
    (void)push("abcdefgh", 'A');
    (void)push("abcxyz", 'B');
    assert_tree("abcd[A0 A1](efgh[A2 A3]) abcx[B0 B1](yz[B2])");
    static const char *const words[] = {"",      "b",     "a",     "abc",   "abcq",     "abcd",
                                        "abcde", "abcdx", "abcxy", "abcxq", "abcdefghi"};
    static const uint32_t n_hit[] = {0, 0, 1, 3, 3, 4, 5, 4, 5, 4, 8};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vti_prefix hit = match(words[i]);
        assert_int_equal(hit.n_tok, n_hit[i]);
        assert_int_equal(vti_node_end(hit.node), hit.n_tok - hit.n_tok % 4); // whole blocks
        assert_in_range(hit.n_tok, hit.last->start, vti_node_end(hit.last));
    }
    assert_string_equal(chunks_of(match("abcxy"), 0), "B0 B1 B2");
    assert_string_equal(chunks_of(match("abcde"), 0), "A0 A1 A2");
    assert_string_equal(chunks_of(match("q"), 0), "");
}

FX_TEST_WITH(test_a_leaf_is_lengthened, tree_setup4, tree_teardown)
{
    vti_node *n = push("ab", 'A');
    assert_ptr_equal(push("abc", 'B'), n);
    assert_tree("abc[B0 B1]"); // no sequence uses what was there
    assert_ptr_equal(push("abcdef", 'C')->parent, n);
    assert_int_equal(t->n_tok, 6);
    assert_int_equal(t->n_node, 2);
    assert_ptr_equal(push("abc", 'D'), n); // longer already
}

FX_TEST_WITH(test_a_longer_leaf_is_enough, tree_setup4, tree_teardown)
{
    vti_node *n = push("abcd", 'A');
    assert_ptr_equal(push("abc", 'B'), n);
    assert_tree("abcd[A0 A1]");
    (void)push("abx", 'C'); // a block of its own
    assert_tree("abcd[A0 A1] abx[C0 C1]");
    (void)push("abxy", 'D');
    assert_string_equal(chunks_of(match("abxy"), 0), "D0 D1");
}

FX_TEST_WITH(test_a_lengthened_tail_replaces_the_chunk_that_lacks_rows, tree_setup4, tree_teardown)
{
    vti_pset_user_hold(&ps, chunk_named(0, 'A', 0));
    vti_pset_user_hold(&ps, chunk_named(0, 'A', 1));
    (void)push("abc", 'A');
    (void)push("abcd", 'B');
    assert_tree("abcd[A0 B1]"); // A0 is full and in use; A1 has no row for d
    assert_int_equal(vti_pset_state(&ps, chunk_named(0, 'A', 1)), VT_CHUNK_OWNED);
    vti_pset_user_drop(&ps, chunk_named(0, 'A', 0), VTI_IN_POOL, false);
    vti_pset_user_drop(&ps, chunk_named(0, 'A', 1), VTI_IN_POOL, false);
}

FX_TEST_WITH(test_a_chunk_that_no_sequence_uses_is_replaced, tree_setup4, tree_teardown)
{
    vti_pset_user_hold(&ps, chunk_named(0, 'A', 1));
    (void)push("abcd", 'A');
    (void)push("abcd", 'B');
    assert_tree("abcd[B0 A1]");
    assert_int_equal(vti_pset_state(&ps, chunk_named(0, 'A', 0)), VT_CHUNK_SPARE);
    vti_pset_user_drop(&ps, chunk_named(0, 'A', 1), VTI_IN_POOL, false);
}

FX_TEST_WITH(test_tokens_that_straddle_chunks, tree_setup, tree_teardown)
{
    tree_close();
    tree_open(&(letter_group){VT_GROUP_TOKENS, 2, 3, 0}, 1, 1); // a token and a half
    (void)push("abcd", 'A');
    assert_tree("a[A0](b[A0 A1](c[A1](d[A2])))");
    (void)push("abx", 'B');
    assert_tree("a[B0](b[B0 B1](c[A1](d[A2]) x[B1]))");
    assert_string_equal(chunks_of(match("abc"), 0), "B0 A1"); // the deeper one's counts
    tree_close();
    tree_open(&(letter_group){VT_GROUP_TOKENS, 4, 2, 0}, 1, 1); // half a token
    (void)push("ab", 'A');
    assert_tree("a[A0 A1](b[A2 A3])");
}

FX_TEST_WITH(test_tokens_are_32_bits, tree_setup, tree_teardown)
{
    uint32_t chunk[N_POSITION];
    for (uint32_t p = 0; p < N_POSITION; p++) chunk[p] = chunk_named(0, 'A', p);
    const uint32_t *at[] = {chunk}, tok[] = {UINT32_MAX, 0, UINT32_MAX - 1};
    vti_push all = {d->root, tok, 0, 3, at, false};
    vti_node *n;
    assert_int_equal(vti_radix_push(t, &all, &n), VT_OK);
    assert_int_equal(vti_radix_match(d, tok, 3).n_tok, 3);
    const uint32_t other[] = {UINT32_MAX, 1};
    assert_int_equal(vti_radix_match(d, other, 2).n_tok, 1);
}

FX_TEST_WITH(test_a_push_goes_on_from_a_node, tree_setup4, tree_teardown)
{
    uint32_t chunk[N_POSITION];
    for (uint32_t p = 0; p < N_POSITION; p++) chunk[p] = chunk_named(0, 'B', p);
    const uint32_t *at[] = {chunk}, tok[] = {'e', 'f', 'g', 'h', 'i'};
    vti_node *from = push("abcd", 'A'), *n;
    vti_push rest = {from, tok, 4, 9, at, false};
    assert_int_equal(vti_radix_push(t, &rest, &n), VT_OK);
    verify();
    assert_tree("abcd[A0 A1](efgh[B2 B3](i[B4]))");
    assert_int_equal(n->start, 8);
}

// ---- Windows

// Group 0: all rows, two to a chunk; group 1: a window of three, one row to a chunk.
VT_FIXTURE(window_setup)
{
    static const letter_group group[] = {{VT_GROUP_TOKENS, 1, 2, 0}, {VT_GROUP_TOKENS, 1, 1, 3}};
    tree_open(group, 2, 4);
}

FX_TEST_WITH(test_a_window_needs_only_its_last_rows, window_setup, tree_teardown)
{
    (void)push_front("abcdefgh", 'A', 4);
    assert_tree("abcd[A0 A1|- - - -](efgh[A2 A3|A4 A5 A6 A7])");
    assert_int_equal(match("abcdefgh").n_tok, 8); // row 8 sees 6, 7
    assert_string_equal(chunks_of(match("abcdefgh"), 0), "A0 A1 A2 A3");
    assert_string_equal(chunks_of(match("abcdefgh"), 1), "- - - - - - A6 A7");
    assert_int_equal(match("abcdef").n_tok, 6); // sees 4, 5
    assert_int_equal(match("abcde").n_tok, 0);  // would see 3
    assert_int_equal(match("abcd").n_tok, 0);
}

FX_TEST_WITH(test_holes_after_the_end_do_not_matter, window_setup, tree_teardown)
{
    (void)push("abc", 'A');
    (void)push_front("abcdefgh", 'B', 8); // the pusher has given up all of them
    assert_tree("abcd[B0 B1|A0 A1 A2 -](efgh[B2 B3|- - - -])");
    assert_int_equal(match("abcq").n_tok, 3);
    assert_int_equal(match("abcd").n_tok, 0);
}

// Two rows to a chunk of the window: the tail of "abc" lacks the row of d.
FX_TEST_WITH(test_a_window_chunk_without_the_new_rows_goes, window_setup, tree_teardown)
{
    static const letter_group group[] = {{VT_GROUP_TOKENS, 1, 2, 0}, {VT_GROUP_TOKENS, 1, 2, 3}};
    tree_close();
    tree_open(group, 2, 4);
    (void)push("abc", 'A');
    (void)push_front("abcdefgh", 'B', 2);
    assert_tree("abcd[B0 B1|A0 -](efgh[B2 B3|B2 B3])");
    assert_int_equal(match("abcd").n_tok, 0); // it sees c and d
    assert_int_equal(match("abcdef").n_tok, 6);
}

// A window chunk lies over several blocks, and each node may have one of its own.
FX_TEST_WITH(test_the_deeper_chunk_mends_a_hole, window_setup, tree_teardown)
{
    static const letter_group group[] = {{VT_GROUP_TOKENS, 1, 1, 0}, {VT_GROUP_TOKENS, 2, 3, 2}};
    tree_close();
    tree_open(group, 2, 1);
    (void)push_front("ab", 'A', 8); // chunk 0: a and half of b; chunk 1: b and c
    assert_tree("a[A0|-](b[A1|- -])");
    (void)push_front("abc", 'B', 1);
    assert_int_equal(match("abc").n_tok, 3); // sees c, in chunk 1
    (void)push_front("ab", 'A', 8);
    vti_node *b = match("abc").last->parent;
    vti_holding h = vti_node_holding(t, b, 1);
    vti_node_set_chunk(t, b, &h, 1, VTI_NO_CHUNK);
    b->has_windows = false;
    vti_priority_settle(t, b);
    verify();
    assert_int_equal(match("abc").n_tok, 3); // the chunk of c's node has all rows
    assert_int_equal(match("ab").n_tok, 0);
}

FX_TEST_WITH(test_holes_are_filled_by_the_next, window_setup, tree_teardown)
{
    (void)push_front("abcdefgh", 'A', 8);
    assert_int_equal(match("abcdefgh").n_tok, 0);
    (void)push("abcd", 'B');
    assert_int_equal(match("abcdefgh").n_tok, 4);
    (void)push_front("abcdefgh", 'C', 6);
    assert_int_equal(match("abcdefgh").n_tok, 8);
    assert_string_equal(chunks_of(match("abcdefgh"), 1), "- - - - - - C6 C7");
}

// ---- States

VT_FIXTURE(state_setup)
{
    static const letter_group group[] = {{VT_GROUP_TOKENS, 1, 2, 0}, {VT_GROUP_STATE, 3, 2, 0}};
    tree_open(group, 2, 4);
}

FX_TEST_WITH(test_a_state_is_that_of_the_end, state_setup, tree_teardown)
{
    (void)push("abcdef", 'A');
    assert_tree("abcd[A0 A1|- -](ef[A2|A0 A1])");
    assert_int_equal(match("abcdefgh").n_tok, 6);
    assert_string_equal(chunks_of(match("abcdef"), 1), "A0 A1");
    assert_int_equal(match("abcde").n_tok, 0);
    (void)push("abcd", 'B');
    assert_int_equal(match("abcde").n_tok, 4);
    assert_string_equal(chunks_of(match("abcde"), 1), "B0 B1");
}

FX_TEST_WITH(test_children_with_states_nest, state_setup, tree_teardown)
{
    (void)push("abc", 'A');
    (void)push("a", 'B');
    (void)push("abcd", 'C');
    (void)push("abq", 'D');
    assert_tree("a[B0|B0 B1] abc[A0 A1|A0 A1] abcd[C0 C1|C0 C1] abq[D0 D1|D0 D1]");
    static const char *const words[] = {"abcd", "abcx", "abx", "abqz", "abz", "ax", "b"};
    static const uint32_t n_hit[] = {4, 3, 1, 3, 1, 1, 0};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_int_equal(match(words[i]).n_tok, n_hit[i]);
    assert_ptr_equal(match("abcx").node, d->root); // no whole block
    assert_string_equal(chunks_of(match("abz"), 1), "B0 B1");
}

FX_TEST_WITH(test_without_a_state_nothing_can_begin, state_setup, tree_teardown)
{
    vti_node *n = push("abc", 'A');
    vti_node_drop_all(t, n, true);
    n->has_windows = false;
    vti_priority_settle(t, n);
    verify();
    assert_int_equal(match("abc").n_tok, 0);
    (void)push("a", 'B');
    assert_int_equal(match("abc").n_tok, 1); // the next shorter one
}

// ---- Domains

FX_TEST_WITH(test_domains_do_not_mix, tree_setup, tree_teardown)
{
    static const char *const keys[] = {"", "d\0", "dd", "D"};
    static const size_t key_bytes[] = {0, 2, 2, 1};
    vt_domain *other[4], *again;
    vti_node *n;
    (void)push("abc", 'A');
    for (int i = 0; i < 4; i++) {
        assert_int_equal(vti_radix_open(t, keys[i], key_bytes[i], &other[i]), VT_OK);
        assert_int_equal(try_push(other[i], "ab", (char)('B' + i), 0, &n), VT_OK);
        verify();
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(vti_radix_open(t, keys[i], key_bytes[i], &again), VT_OK);
        assert_ptr_equal(again, other[i]);
        assert_int_equal(vt_domain_id(again), 2 + i);
    }
    assert_tree("ab[A0](c[A1])");
    assert_string_equal(tree_of(other[2]), "ab[D0]");
    assert_int_equal(t->n_domain, 5);
    assert_ptr_equal(d->tree, t);
}

FX_TEST_WITH(test_many_domains_are_told_apart, tree_setup, tree_teardown)
{
    vt_domain *many[3000], *again;
    for (uint32_t i = 0; i < 3000; i++)
        assert_int_equal(vti_radix_open(t, &i, sizeof i, &many[i]), VT_OK);
    verify();
    for (uint32_t i = 0; i < 3000; i++) {
        assert_int_equal(vti_radix_open(t, &i, sizeof i, &again), VT_OK);
        assert_ptr_equal(again, many[i]);
        vt_domain_close(again);
        vt_domain_close(again);
    }
    assert_int_equal(t->n_domain, 1);
    verify();
}

FX_TEST_WITH(test_a_domain_lives_while_open_or_not_empty, tree_setup, tree_teardown)
{
    vt_domain *e;
    vti_node *n;
    assert_null(d->tree->owner);
    assert_int_equal(vti_radix_open(t, "e", 1, &e), VT_OK);
    assert_int_equal(try_push(e, "ab", 'A', 0, &n), VT_OK);
    vt_domain_close(e);
    verify();
    assert_int_equal(vti_radix_open(t, "e", 1, &e), VT_OK);
    assert_string_equal(tree_of(e), "ab[A0]");
    vt_domain_close(e);
    assert_true(vti_radix_evict(t));
    verify();
    assert_int_equal(t->n_domain, 1);
    assert_int_equal(vti_radix_open(t, "e", 1, &e), VT_OK);
    vti_radix_ref(t, e->root);
    vt_domain_close(e);
    verify();
    assert_int_equal(t->n_domain, 2);
    vti_radix_unref(t, e->root);
    assert_int_equal(t->n_domain, 1);
}

FX_TEST_WITH(test_forget_takes_all_but_what_is_referenced, tree_setup, tree_teardown)
{
    vt_domain *e;
    vti_node *used = push("abcdef", 'A'), *pinned = push("abx", 'B'), *kept;
    assert_int_equal(vti_radix_open(t, "e", 1, &e), VT_OK);
    assert_int_equal(try_push(e, "abc", 'C', 0, &kept), VT_OK);
    vti_radix_ref(t, used);
    vti_radix_ref(t, used);
    vt_retention pin = {.pinned = true, .until_ms = 7};
    assert_int_equal(vti_radix_retain(t, pinned, &pin, 100), VT_OK);
    assert_int_equal(vti_radix_retain(t, used, &pin, 100), VT_OK);
    assert_int_equal(d->epoch, 0);
    vt_domain_forget(d);
    verify();
    assert_int_equal(d->epoch, 1);
    assert_tree("");
    assert_string_equal(tree_of(e), "ab[C0](c[C1])");
    assert_true(!used->domain);
    assert_int_equal(n_in(VT_CHUNK_CACHED), 2);
    (void)push("abcdef", 'D'); // not the forgotten one
    vti_radix_touch(t, used);
    vti_radix_ref(t, used);
    assert_int_equal(vti_radix_retain(t, used, &pin, 0), VT_OK);
    for (int i = 0; i < 3; i++) vti_radix_unref(t, used);
    verify();
    assert_tree("ab[D0](cd[D1](ef[D2]))");
}

// ---- Lookups change nothing

static uint64_t fold(uint64_t sum, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++) sum = (sum ^ b[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static uint64_t sum_of_all(void)
{
    uint64_t sum = fold(fold(0, t, sizeof *t), &ps, sizeof ps);
    sum = fold(sum, d, sizeof *d);
    for (vti_node *n = d->nodes.oldest; n; n = n->newer)
        sum = fold(sum, n, sizeof *n + geo.block_tok * sizeof n->room[0]);
    return sum;
}

static bool count_nodes(void *ud, const vt_prefix_info *node)
{
    (void)node;
    return ++*(uint32_t *)ud > 0;
}

FX_TEST_WITH(test_a_lookup_changes_nothing, tree_setup, tree_teardown)
{
    static const char *const words[] = {"", "a", "abc", "abcd", "abcxyz", "abq", "q"};
    uint32_t n_seen = 0;
    (void)push("abcdef", 'A');
    (void)push("abcx", 'B');
    retain(push("xyz", 'C'), 1, false, 5, 0);
    uint64_t before = sum_of_all();
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        (void)chunks_of(match(words[i]), 0);
        vt_prefix_each(d, count_nodes, &n_seen);
        verify();
    }
    assert_true(before == sum_of_all());
}

// ---- Enumeration and events

typedef struct walk_log {
    vt_prefix_info node[8];
    uint32_t n, max_n;
} walk_log;

static bool log_node(void *ud, const vt_prefix_info *node)
{
    walk_log *log = ud;
    log->node[log->n++] = *node;
    return log->n < log->max_n;
}

FX_TEST_WITH(test_nodes_are_enumerated_parents_first, tree_setup, tree_teardown)
{
    walk_log log = {.max_n = 8};
    retain(push("abcd", 'A'), 3, false, 9, 0);
    vti_node *x = push("abx", 'B');
    vti_radix_ref(t, x);
    vt_prefix_each(d, log_node, &log);
    assert_int_equal(log.n, 3);
    assert_int_equal(log.node[0].parent_id, 0);
    assert_int_equal(log.node[1].parent_id, log.node[0].id);
    assert_int_equal(log.node[2].parent_id, log.node[0].id);
    assert_int_equal(log.node[1].keep.priority, 3);
    assert_int_equal(log.node[2].n_seq, 1);
    assert_int_equal(log.node[2].start_tok, 2);
    assert_int_equal(log.node[2].n_tok, 1);
    assert_int_equal(log.node[2].tok[0], 'x');
    assert_int_equal(log.node[2].held_bytes, 2);
    log = (walk_log){.max_n = 2};
    vt_prefix_each(d, log_node, &log);
    assert_int_equal(log.n, 2); // it was told to stop
    vti_radix_unref(t, x);
}

static bool log_key(void *ud, vt_domain *of, const void *key, size_t key_bytes)
{
    char *text = ud;
    assert_true(vt_domain_id(of) > 0);
    strncat(text, key, key_bytes);
    return strlen(text) < 3;
}

FX_TEST_WITH(test_domains_are_enumerated, tree_setup, tree_teardown)
{
    char text[16] = "";
    vt_domain *e;
    vt_manager m = {.radix = t};
    assert_int_equal(vti_radix_open(t, "ef", 2, &e), VT_OK);
    vt_domain_each(&m, log_key, text);
    assert_string_equal(text, "def");
    assert_int_equal(vti_radix_open(t, "g", 1, &e), VT_OK);
    assert_int_equal(vti_radix_open(t, "h", 1, &e), VT_OK);
    text[0] = 0;
    vt_domain_each(&m, log_key, text);
    assert_string_equal(text, "dgh"); // and no further
}

static void expect_event(const vt_event *is, vt_event_kind kind, const vti_node *n, uint64_t parent)
{
    assert_int_equal(is->kind, kind);
    assert_int_equal(is->domain_id, vt_domain_id(d));
    if (n) assert_int_equal(is->id, n->id);
    assert_int_equal(is->parent_id, parent);
}

FX_TEST_WITH(test_events_say_what_can_be_matched, tree_setup, tree_teardown)
{
    vt_event ev[16];
    vti_node *c = push("abc", 'A'), *ab = c->parent;
    uint64_t ab_id = ab->id, c_id = c->id;
    (void)push("abcd", 'B'); // lengthened
    (void)push("abcd", 'C'); // known
    assert_int_equal(vti_events_take(t->events, ev, 16), 3);
    expect_event(&ev[0], VT_EVENT_RECORDED, ab, 0);
    expect_event(&ev[1], VT_EVENT_RECORDED, c, ab_id);
    expect_event(&ev[2], VT_EVENT_RECORDED, c, ab_id);
    assert_int_equal(ev[1].n_tok, 1);
    assert_int_equal(ev[2].start_tok, 2);
    assert_int_equal(ev[2].n_tok, 2);
    assert_true(vti_radix_evict(t));
    vt_domain_forget(d);
    assert_int_equal(vti_events_take(t->events, ev, 16), 2);
    expect_event(&ev[0], VT_EVENT_EVICTED, NULL, ab_id);
    assert_int_equal(ev[0].id, c_id);
    expect_event(&ev[1], VT_EVENT_EVICTED, NULL, 0);
    assert_int_equal(ev[1].id, ab_id);
}

FX_TEST_WITH(test_a_domain_counts, tree_setup, tree_teardown)
{
    (void)push("abcde", 'A');
    assert_true(vti_radix_evict(t));
    vt_domain_stats st = stats_of_domain(d);
    assert_int_equal(st.prefix_nodes, 2);
    assert_int_equal(st.prefix_tok, 4);
    assert_int_equal(st.held_bytes, 4);
    assert_int_equal(st.evicted_nodes, 1);
    assert_int_equal(st.quota_bytes, UINT64_MAX);
}

// ---- Many

static vti_node *push_tokens(const uint32_t *tok, uint32_t n_tok, uint32_t chunk)
{
    uint32_t chunks[N_POSITION];
    for (uint32_t p = 0; p < N_POSITION; p++) chunks[p] = chunk;
    const uint32_t *at[] = {chunks};
    vti_push all = {d->root, tok, 0, n_tok, at, false};
    vti_node *n = NULL;
    assert_int_equal(vti_radix_push(t, &all, &n), VT_OK);
    return n;
}

FX_TEST_WITH(test_ten_thousand_users_of_one_prompt, tree_setup4, tree_teardown)
{
    enum { N = 10000 };
    uint32_t tok[8] = {1, 2, 3, 4};
    vti_node *n = NULL;
    for (uint32_t i = 0; i < N; i++) {
        tok[4] = i * 7919; // no two alike
        n = push_tokens(tok, 8, 0);
    }
    verify();
    assert_int_equal(t->n_node, N + 1);
    for (uint32_t i = 0; i < N; i++) {
        tok[4] = i * 7919;
        assert_int_equal(vti_radix_match(d, tok, 8).n_tok, 8);
        tok[4] = i * 7919 + 1;
        assert_int_equal(vti_radix_match(d, tok, 8).n_tok, 4);
    }
    vti_radix_ref(t, n);
    for (uint32_t i = 0; i < N - 1; i++) {
        const vti_node *next = t->heap[VTI_BY_PRIORITY].at[1];
        assert_int_equal(next->room[0], i * 7919);
        assert_true(vti_radix_evict(t));
    }
    verify();
    assert_int_equal(t->n_node, 2);
    vti_radix_unref(t, n);
}

static uint32_t depth_of(const vti_node *n)
{
    if (!n) return 0;
    uint32_t left = depth_of(n->left), right = depth_of(n->right);
    return 1 + (left > right ? left : right);
}

// Fractions of multiples of the golden ratio are in the order of serial numbers that are multiplied
// by it: a tree whose weights are such products becomes a list.
FX_TEST_WITH(test_no_order_of_prompts_unbalances_the_tree, tree_setup, tree_teardown)
{
    enum { N = 4000 };
    for (uint64_t i = 1; i <= N; i++) {
        uint32_t tok[2] = {(uint32_t)(i * UINT64_C(0x9e3779b97f4a7c15) >> 32), 7};
        (void)push_tokens(tok, 2, chunk_named(0, 'A', 0));
    }
    assert_int_equal(d->root->n_child, N);
    assert_in_range(depth_of(d->root->child), 12, 60); // a random tree has about 30
}

FX_TEST_WITH(test_a_path_of_thousands_of_nodes, tree_setup4, tree_teardown)
{
    enum { N = 3000 };
    geo.max_tok = 4 * N; // every chunk is of position 0, so the pSet need not know
    geo.group[0].slice_bytes = 4 * N;
    uint32_t *tok = calloc(4 * N, sizeof *tok);
    vti_node *n = push_tokens(tok, 4 * N, chunk_named(0, 'A', 0));
    verify();
    assert_int_equal(t->n_node, N);
    assert_int_equal(vti_radix_match(d, tok, 4 * N).n_tok, 4 * N);
    vti_radix_ref(t, n);
    assert_int_equal(n_evictable(), 0);
    vti_radix_unref(t, n);
    assert_int_equal(n_evictable(), 1);
    vt_domain_forget(d);
    verify();
    free(tok);
}

FX_RUN(test_vt_radix)
