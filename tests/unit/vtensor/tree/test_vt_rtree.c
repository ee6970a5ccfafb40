// test_vt_rtree.c - rTree case by case: what each kind of push leaves, domains, lookups that change
// nothing, every allocation failing once, and trees that are wide or deep.
#include "unit/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "rtree_letters.h"

// ---- Push

static void test_nothing_is_a_root(void **state)
{
    (void)state;
    assert_ptr_equal(push("", 'A'), d->root);
    assert_tree("");
    assert_int_equal(match("abc").n_tok, 0);
    assert_ptr_equal(match("abc").node, d->root);
}

static void test_the_first_is_a_leaf(void **state)
{
    (void)state;
    vti_node *n = push("abcde", 'A');
    assert_tree("abcde[A0 A1 A2]");
    vti_rtree_stats st = vti_rtree_look(t);
    assert_int_equal(st.n_node, 1);
    assert_int_equal(st.n_tok, 5);
    assert_int_equal(st.n_domain, 1);
    assert_ptr_equal(match("abcdef").node, n);
}

static void test_case_1_what_is_there_stays(void **state)
{
    (void)state;
    vti_node *n = push("abcdef", 'A');
    assert_ptr_equal(push("abcdef", 'B'), n);
    assert_tree("abcdef[A0 A1 A2]");
}

static void test_case_2_cut_inside_a_chunk(void **state)
{
    (void)state;
    vti_node *low = push("abcdef", 'A');
    vti_node *up = push("abc", 'B');
    assert_tree("abc[A0 A1](def[A1 A2])");
    assert_ptr_equal(match("abc").node, up);
    assert_ptr_equal(match("abcdef").node, low);
    assert_int_equal(n_node('A', 1), 2);
    assert_int_equal(vti_rtree_look(t).n_tok, 6);
}

static void test_case_2_cut_between_chunks(void **state)
{
    (void)state;
    (void)push("abcdef", 'A');
    (void)push("ab", 'B');
    assert_tree("ab[A0](cdef[A1 A2])");
    (void)push("abcd", 'B');
    assert_tree("ab[A0](cd[A1](ef[A2]))");
}

static void test_case_2_cut_keeps_children_and_references(void **state)
{
    (void)state;
    vti_node *low = push("abcd", 'A');
    vti_rtree_ref(t, low);
    (void)push("abcdef", 'A');
    (void)push("abcdx", 'B');
    (void)push("a", 'C');
    assert_tree("a[A0](bcd[A0 A1](ef[A2] x[B2]))");
    assert_ptr_equal(match("abcd").node, low);
    vti_rtree_unref(t, low);
    verify();
}

static void test_case_3_goes_on_between_chunks(void **state)
{
    (void)state;
    (void)push("abcd", 'A');
    (void)push("abcdef", 'B');
    assert_tree("abcd[A0 A1](ef[B2])");
}

static void test_case_3_takes_a_superseded_tail_away(void **state)
{
    (void)state;
    (void)push("abc", 'A');
    (void)push("abcdef", 'B');
    assert_tree("abc[A0 B1](def[B1 B2])");
    assert_int_equal(vti_pset_state(&ps, 0, 1), VT_CHUNK_SPARE);
    (void)push("abcxy", 'C'); // B1 is the other child's as well
    assert_tree("abc[A0 B1](def[B1 B2] xy[C1 C2])");
}

static void test_case_3_leaves_a_tail_to_the_sequence_that_holds_it(void **state)
{
    (void)state;
    vti_pset_user_hold(&ps, 0, 1);
    (void)push("abc", 'A');
    assert_int_equal(vti_pset_state(&ps, 0, 1), VT_CHUNK_SHARED);
    (void)push("abcdef", 'B');
    assert_tree("abc[A0 B1](def[B1 B2])");
    assert_int_equal(vti_pset_state(&ps, 0, 1), VT_CHUNK_OWNED);
    vti_pset_user_drop(&ps, 0, 1);
}

static void test_case_3_keeps_a_tail_that_another_domain_holds(void **state)
{
    (void)state;
    vt_domain *other;
    vti_node *n;
    assert_int_equal(vti_rtree_open(t, "e", 1, &other), VT_OK);
    assert_int_equal(try_push(other, "abc", 'A', &n), VT_OK);
    (void)push("abc", 'A');
    (void)push("abcdef", 'B');
    assert_tree("abc[A0 A1](def[B1 B2])");
    assert_string_equal(tree_of(other), "abc[A0 A1]");
    // The chunk of def's side is superseded, that of abc's not.
    (void)push("abcd", 'B');
    assert_tree("abc[A0 A1](d[B1](ef[B2]))");
}

static void test_case_3_supersedes_all_the_way_up(void **state)
{
    (void)state;
    tree_close();
    tree_open(1, 8);
    (void)push("a", 'A');
    (void)push("ab", 'B');
    (void)push("abc", 'C');
    assert_tree("a[C0](b[C0](c[C0]))");
    (void)push("ax", 'D'); // C0 is held beside
    assert_tree("a[C0](b[C0](c[C0]) x[D0])");
    (void)push("axy", 'E');
    assert_tree("a[C0](b[C0](c[C0]) x[E0](y[E0]))");
    (void)push("abcdefghij", 'F'); // a and b and c end in the chunk that is left, x does not matter
    assert_tree("a[F0](b[F0](c[F0](defghij[F0 F1])) x[E0](y[E0]))");
}

static void test_case_4_cut_and_leaf(void **state)
{
    (void)state;
    vti_node *n = push("abcdef", 'A');
    (void)push("abcx", 'B');
    assert_tree("abc[A0 A1](def[A1 A2] x[B1])");
    assert_ptr_equal(match("abcd").node, n);
    (void)push("abcdyz", 'C');
    assert_tree("abc[A0 A1](d[A1](ef[A2] yz[C2]) x[B1])");
    (void)push("q", 'D');
    assert_tree("abc[A0 A1](d[A1](ef[A2] yz[C2]) x[B1]) q[D0]");
}

static void test_tokens_that_straddle_chunks(void **state)
{
    (void)state;
    tree_close();
    tree_open(2, 3); // a token and a half: b lies in both 0 and 1
    (void)push("abcd", 'A');
    assert_tree("abcd[A0 A1 A2]");
    (void)push("abx", 'B');
    assert_tree("ab[A0 A1](cd[A1 A2] x[B1])");
    (void)push("a", 'C');
    assert_tree("a[A0](b[A0 A1](cd[A1 A2] x[B1]))");
    tree_close();
    tree_open(4, 2); // half a token
    (void)push("abc", 'A');
    (void)push("ax", 'B');
    assert_tree("a[A0 A1](bc[A2 A3 A4 A5] x[B2 B3])");
}

static void test_regions_are_the_deepest_nodes(void **state)
{
    (void)state;
    uint32_t at[4] = {9, 9, 9, 9};
    (void)push("abcdef", 'A');
    (void)push("abcxyz", 'B');
    vti_rtree_regions(t, match("abcxy"), at);
    assert_memory_equal(at, ((uint32_t[]){0, 1, 1, 9}), sizeof at);
    vti_rtree_regions(t, match("abc"), at);
    assert_memory_equal(at, ((uint32_t[]){0, 0, 1, 9}), sizeof at);
    vti_rtree_regions(t, match("abcdef"), at);
    assert_memory_equal(at, ((uint32_t[]){0, 0, 0, 9}), sizeof at);
    at[0] = 9;
    vti_rtree_regions(t, match("q"), at);
    assert_int_equal(at[0], 9);
}

static void test_tokens_are_32_bits(void **state)
{
    (void)state;
    uint32_t at[N_POSITION] = {0};
    const uint32_t tok[] = {UINT32_MAX, 0, UINT32_MAX - 1};
    vti_node *n;
    assert_int_equal(vti_rtree_push(t, d, tok, 3, at, &n), VT_OK);
    assert_int_equal(vti_rtree_match(d, tok, 3).n_tok, 3);
    const uint32_t other[] = {UINT32_MAX, 1};
    assert_int_equal(vti_rtree_match(d, other, 2).n_tok, 1);
}

// ---- Domains

static void test_domains_do_not_mix(void **state)
{
    (void)state;
    static const char *const keys[] = {"", "d\0", "dd", "D"};
    static const size_t key_bytes[] = {0, 2, 2, 1};
    vt_domain *other[4], *again;
    vti_node *n;
    (void)push("abc", 'A');
    for (int i = 0; i < 4; i++) {
        assert_int_equal(vti_rtree_open(t, keys[i], key_bytes[i], &other[i]), VT_OK);
        assert_int_equal(try_push(other[i], "ab", (char)('B' + i), &n), VT_OK);
        verify();
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(vti_rtree_open(t, keys[i], key_bytes[i], &again), VT_OK);
        assert_ptr_equal(again, other[i]);
        assert_int_equal(n_node((char)('B' + i), 0), 1);
    }
    assert_tree("abc[A0 A1]");
    assert_string_equal(tree_of(other[2]), "ab[D0]");
    assert_int_equal(vti_rtree_look(t).n_domain, 5);
}

static void test_many_domains_are_told_apart(void **state)
{
    (void)state;
    vt_domain *many[300], *again;
    for (uint32_t i = 0; i < 300; i++)
        assert_int_equal(vti_rtree_open(t, &i, sizeof i, &many[i]), VT_OK);
    verify();
    for (uint32_t i = 0; i < 300; i++) {
        assert_int_equal(vti_rtree_open(t, &i, sizeof i, &again), VT_OK);
        assert_ptr_equal(again, many[i]);
        vti_rtree_close(again);
        vti_rtree_close(again);
    }
    assert_int_equal(vti_rtree_look(t).n_domain, 1);
    verify();
}

static void test_a_domain_lives_while_open_or_not_empty(void **state)
{
    (void)state;
    vt_domain *e;
    vti_node *n;
    assert_null(vti_domain_owner(d));
    assert_int_equal(vti_rtree_open(t, "e", 1, &e), VT_OK);
    assert_int_equal(try_push(e, "ab", 'A', &n), VT_OK);
    vti_rtree_close(e);
    verify();
    assert_int_equal(vti_rtree_open(t, "e", 1, &e), VT_OK);
    assert_string_equal(tree_of(e), "ab[A0]");
    vti_rtree_close(e);
    assert_ptr_equal(vti_rtree_victim(t, 0), n);
    vti_rtree_drop(t, n);
    verify();
    assert_int_equal(vti_rtree_look(t).n_domain, 1);
    assert_int_equal(vti_rtree_open(t, "e", 1, &e), VT_OK);
    vti_rtree_ref(t, e->root);
    vti_rtree_close(e);
    verify();
    assert_int_equal(vti_rtree_look(t).n_domain, 2);
    vti_rtree_unref(t, e->root);
    assert_int_equal(vti_rtree_look(t).n_domain, 1);
}

static void test_forget_takes_all_but_what_is_referenced(void **state)
{
    (void)state;
    vt_domain *e;
    vti_node *used = push("abcdef", 'A'), *pinned = push("abx", 'B'), *kept;
    assert_int_equal(vti_rtree_open(t, "e", 1, &e), VT_OK);
    assert_int_equal(try_push(e, "abc", 'C', &kept), VT_OK);
    vti_rtree_ref(t, used);
    vti_rtree_ref(t, used);
    vt_retention pin = {.pinned = true, .until_ms = 7};
    assert_int_equal(vti_rtree_retain(t, pinned, &pin, 100, 0), VT_OK);
    assert_int_equal(vti_rtree_retain(t, used, &pin, 100, 0), VT_OK);
    vti_rtree_forget(d);
    verify();
    assert_tree("");
    assert_string_equal(tree_of(e), "abc[C0 C1]");
    assert_int_equal(n_node('A', 0), 0);
    assert_int_equal(vti_rtree_look(t).n_node, 1);
    (void)push("abcdef", 'D'); // not the forgotten one
    vti_rtree_touch(t, used);
    vti_rtree_ref(t, used);
    assert_int_equal(vti_rtree_retain(t, used, &pin, 0, 0), VT_OK);
    for (int i = 0; i < 3; i++) vti_rtree_unref(t, used);
    verify();
    assert_tree("abcdef[D0 D1 D2]");
}

static void test_a_tree_is_freed_with_references(void **state)
{
    (void)state;
    vti_rtree_ref(t, push("abc", 'A'));
    vti_rtree_forget(d);
    vti_rtree_ref(t, push("abc", 'B'));
    vti_rtree_ref(t, push("abd", 'B'));
    vti_rtree_ref(t, d->root);
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
    for (vti_node *n = t->top; n; n = vti_node_after(n, false)) {
        sum = fold(sum, n, sizeof *n);
        sum = fold(sum, n->tok, n->n_tok * sizeof n->tok[0]);
        sum = fold(sum, n->region, vti_node_positions(&geo, n) * sizeof n->region[0]);
    }
    return sum;
}

static void test_a_lookup_changes_nothing(void **state)
{
    (void)state;
    static const char *const words[] = {"", "a", "abc", "abcd", "abcxyz", "abq", "q"};
    uint32_t at[N_POSITION];
    (void)push("abcdef", 'A');
    (void)push("abcx", 'B');
    retain(push("xyz", 'C'), 1, false, 5, 0);
    uint64_t before = sum_of_all();
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vti_rtree_regions(t, match(words[i]), at);
        (void)vti_rtree_look(t);
        verify();
    }
    assert_true(before == sum_of_all());
}

// ---- Check

static void says(const char *words)
{
    assert_string_equal(words, vti_rtree_check(t, NULL, NULL));
}

#define SPOIL(field, value, words)        \
    do {                                  \
        __typeof__(field) was_ = (field); \
        (field) = (value);                \
        says("rtree: " words);            \
        (field) = was_;                   \
        verify();                         \
    } while (0)

static void test_broken_invariants_are_found(void **state)
{
    (void)state;
    vti_node *a = push("ab", 'A'), *x = push("abx", 'B'), *y = push("aby", 'C'),
             *q = push("q", 'D');
    vti_node *gone = push("z", 'E');
    vt_retention keep = {.priority = 1, .until_ms = 5};
    vt_domain *other;
    assert_int_equal(vti_rtree_open(t, "other", 5, &other), VT_OK);
    assert_int_equal(try_push(other, "k", 'F', &gone), VT_OK);
    vti_rtree_ref(t, gone);
    vti_rtree_forget(other);
    assert_int_equal(vti_rtree_retain(t, x, &keep, 0, 0), VT_OK);
    vti_rtree_ref(t, y); // in front of x
    SPOIL(x->parent, q, "a broken link");
    SPOIL(x->sibling[VTI_FRONT], NULL, "a broken link");
    SPOIL(a->child[VTI_BACK], y, "a broken list of children");
    SPOIL(x->n_guard, 1, "a wrong count of guards");
    SPOIL(y->n_ref, 0, "a wrong count of guards");
    SPOIL(q->keep.pinned, true, "a wrong count of guards");
    SPOIL(x->used, t->clock + 1, "a node was used after its parent");
    SPOIL(q->n_tok, 0, "an empty node");
    SPOIL(x->start, 3, "a gap between node and parent");
    SPOIL(x->domain, other, "a node of another domain");
    SPOIL(x->tok[0], 'y', "a node that is not found");
    SPOIL(d->root->start, 1, "a root that is not valid");
    SPOIL(d->key[0], 'e', "a domain that is not found");
    SPOIL(other->n_open, 0, "an empty domain that is not open");
    SPOIL(t->n_tok, 0, "a wrong sum over the nodes");
    SPOIL(t->n_hold, 0, "a wrong sum over the nodes");
    SPOIL(gone->n_ref, 0, "a forgotten node that is not valid");
    SPOIL(t->cap_seen, 1, "no room to count chunks");
    SPOIL(t->heap[VTI_BY_WORTH].cap, 3, "a heap without room");
    SPOIL(q->keep.until_ms, 5, "a node that is not in its heap");
    SPOIL(q->place[VTI_BY_WORTH], 0, "a node that is not in its heap");
    SPOIL(x->keep.priority, 0, "a heap out of order");
    vti_rtree_unref(t, gone);
}

// ---- Allocations

typedef struct word {
    const char *before, *letters;
} word;

static void test_every_allocation_of_a_push_may_fail(void **state)
{
    (void)state;
    static const word words[] = {{"", "abc"},      {"abc", "abc"},  {"abcdef", "abc"},
                                 {"abc", "abcde"}, {"abcd", "abx"}, {"abcdefgh", "x"}};
    uint64_t n_failed = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vt_status st = VT_ENOMEM;
        for (uint64_t k = 0; st == VT_ENOMEM; k++, n_failed += st == VT_ENOMEM) {
            tree_close(), tree_open(1, 2);
            vti_node *n;
            (void)push(words[i].before, 'A');
            char *was = strdup(tree_of(d));
            uint64_t clock = t->clock;
            n_alloc_left = k;
            st = try_push(d, words[i].letters, 'B', &n);
            n_alloc_left = UINT64_MAX;
            verify();
            if (st != VT_OK) assert_tree(was);
            if (st != VT_OK) assert_int_equal(t->clock, clock);
            free(was);
            (void)push(words[i].letters, 'B');
            assert_int_equal(match(words[i].letters).n_tok, strlen(words[i].letters));
        }
        assert_int_equal(st, VT_OK);
    }
    assert_true(n_failed > 10);
}

static void test_every_allocation_of_a_growing_tree_may_fail(void **state)
{
    (void)state;
    uint32_t at[N_POSITION] = {0}, n_failed = 0;
    for (uint32_t i = 0; i < 200; i++) {
        vti_node *n;
        uint32_t tok[] = {i, 1, 2};
        uint64_t n_before = vti_rtree_look(t).n_node, k = 0;
        vt_status st;
        do {
            n_alloc_left = k++;
            st = vti_rtree_push(t, d, tok, 3, at, &n);
            n_alloc_left = UINT64_MAX;
            if (st != VT_OK) assert_int_equal(vti_rtree_look(t).n_node, n_before);
            n_failed += st != VT_OK;
        } while (st == VT_ENOMEM);
        assert_int_equal(st, VT_OK);
    }
    verify();
    assert_true(n_failed > 200);
}

static void test_every_allocation_of_opening_may_fail(void **state)
{
    (void)state;
    vti_rtree *other;
    vt_domain *e = NULL;
    uint64_t k;
    vt_status st = VT_ENOMEM;
    for (k = 0; st == VT_ENOMEM; k++) {
        n_alloc_left = k;
        st = vti_rtree_new(&geo, &ps, NULL, &other);
        n_alloc_left = UINT64_MAX;
        assert_true((st == VT_OK) == !!other);
    }
    assert_int_equal(k, 4);
    st = VT_ENOMEM;
    for (k = 0; st == VT_ENOMEM; k++) {
        n_alloc_left = k;
        st = vti_rtree_open(other, "key", 3, &e);
        n_alloc_left = UINT64_MAX;
        assert_true((st == VT_OK) == !!e);
        assert_null(vti_rtree_check(other, NULL, NULL));
    }
    assert_int_equal(k, 3); // the first has left its table, in which the domain is put
    vti_rtree_free(other);
    vti_rtree_free(NULL);
}

// ---- Many

static void test_ten_thousand_users_of_one_prompt(void **state)
{
    (void)state;
    enum { N = 10000 };
    uint32_t at[N_POSITION] = {0}, tok[8] = {1, 2, 3, 4, 5};
    vti_node *n = NULL;
    for (uint32_t i = 0; i < N; i++) {
        tok[5] = i * 7919; // no two alike
        assert_int_equal(vti_rtree_push(t, d, tok, 8, at, &n), VT_OK);
    }
    verify();
    assert_int_equal(vti_rtree_look(t).n_node, N + 1);
    for (uint32_t i = 0; i < N; i++) {
        tok[5] = i * 7919;
        assert_int_equal(vti_rtree_match(d, tok, 8).n_tok, 8);
        tok[5] = i * 7919 + 1;
        assert_int_equal(vti_rtree_match(d, tok, 8).n_tok, 5);
    }
    vti_rtree_ref(t, n);
    for (uint32_t i = 0; i < N - 1; i++) {
        (void)vti_rtree_evictable(t, 0);
        n = vti_rtree_victim(t, 0);
        assert_int_equal(n->tok[0], i * 7919);
        vti_rtree_drop(t, n);
    }
    verify();
    assert_int_equal(vti_rtree_look(t).n_node, 2);
}

static void test_a_path_of_thousands_of_nodes(void **state)
{
    (void)state;
    enum { N = 3000 };
    vti_geo wide = {.stride_bytes = 1, .slice_bytes = 256, .max_tok = N};
    uint32_t *tok = calloc(N, sizeof *tok), at[N_POSITION] = {0};
    vti_rtree *deep;
    vt_domain *e;
    vti_node *n = NULL;
    assert_int_equal(vti_rtree_new(&wide, &ps, NULL, &deep), VT_OK);
    assert_int_equal(vti_rtree_open(deep, NULL, 0, &e), VT_OK);
    for (uint32_t i = 1; i <= N; i++) {
        at[(i - 1) / 256] = i % N_REGION; // a new tail each time
        assert_int_equal(vti_rtree_push(deep, e, tok, i, at, &n), VT_OK);
    }
    assert_null(vti_rtree_check(deep, NULL, NULL));
    assert_int_equal(vti_rtree_look(deep).n_node, N);
    assert_int_equal(vti_rtree_evictable(deep, 0), (N + 255) / 256);
    vti_rtree_ref(deep, n);
    assert_int_equal(vti_rtree_evictable(deep, 0), 0);
    vti_rtree_forget(e);
    vti_rtree_unref(deep, n);
    vti_rtree_free(deep);
    free(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(test_nothing_is_a_root),
        TREE_TEST(test_the_first_is_a_leaf),
        TREE_TEST(test_case_1_what_is_there_stays),
        TREE_TEST(test_case_2_cut_inside_a_chunk),
        TREE_TEST(test_case_2_cut_between_chunks),
        TREE_TEST(test_case_2_cut_keeps_children_and_references),
        TREE_TEST(test_case_3_goes_on_between_chunks),
        TREE_TEST(test_case_3_takes_a_superseded_tail_away),
        TREE_TEST(test_case_3_leaves_a_tail_to_the_sequence_that_holds_it),
        TREE_TEST(test_case_3_keeps_a_tail_that_another_domain_holds),
        TREE_TEST(test_case_3_supersedes_all_the_way_up),
        TREE_TEST(test_case_4_cut_and_leaf),
        TREE_TEST(test_tokens_that_straddle_chunks),
        TREE_TEST(test_regions_are_the_deepest_nodes),
        TREE_TEST(test_tokens_are_32_bits),
        TREE_TEST(test_domains_do_not_mix),
        TREE_TEST(test_many_domains_are_told_apart),
        TREE_TEST(test_a_domain_lives_while_open_or_not_empty),
        TREE_TEST(test_forget_takes_all_but_what_is_referenced),
        TREE_TEST(test_a_tree_is_freed_with_references),
        TREE_TEST(test_a_lookup_changes_nothing),
        TREE_TEST(test_broken_invariants_are_found),
        TREE_TEST(test_every_allocation_of_a_push_may_fail),
        TREE_TEST(test_every_allocation_of_a_growing_tree_may_fail),
        TREE_TEST(test_every_allocation_of_opening_may_fail),
        TREE_TEST(test_ten_thousand_users_of_one_prompt),
        TREE_TEST(test_a_path_of_thousands_of_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
