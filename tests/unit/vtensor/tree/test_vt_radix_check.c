// test_vt_radix_check.c - what goes wrong: a planted bug for each invariant of the tree, which
// vti_radix_check must name, and every allocation failing once.
#include "assert_vt.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

#include "radix_letters.h"

// A window of three beside all rows.
VT_FIXTURE(window_setup)
{
    static const letter_group group[] = {{VT_GROUP_TOKENS, 1, 2, 0}, {VT_GROUP_TOKENS, 1, 1, 3}};
    tree_open(group, 2, 4);
}

// ---- Planted bugs

static void says(const char *words)
{
    const char *wrong = vti_radix_check(t, NULL, NULL);
    assert_non_null(wrong);
    assert_string_equal(words, wrong);
}

#define SPOIL(field, value, words)        \
    do {                                  \
        __typeof__(field) was_ = (field); \
        (field) = (value);                \
        says("radix tree: " words);       \
        (field) = was_;                   \
        verify();                         \
    } while (0)

static void spoil_nodes(vti_node *x, vti_node *y, vti_node *q, vt_domain *other)
{
    vti_node *ab = x->parent;
    SPOIL(x->n_tok, 3, "a node of a wrong size");
    SPOIL(q->n_tok, 0, "children out of order");
    SPOIL(x->parent, q, "a child of another parent");
    SPOIL(x->domain, other, "a node of another domain");
    SPOIL(x->start, 3, "a gap between node and parent");
    SPOIL(ab->n_tok, 1, "a part of a block has children");
    SPOIL(x->room[0], 'z', "children out of order");
    SPOIL(y->n_tok, 2, "a wrong sum over the nodes of a domain");
    SPOIL(ab->n_child, 3, "a wrong count of children");
    SPOIL(x->n_guard, 1, "a wrong count of guards");
    SPOIL(y->n_ref, 0, "a wrong count of guards");
    SPOIL(q->n_guard, 1, "a wrong count of guards");
    SPOIL(q->n_pin, 1, "a wrong count of pins");
    SPOIL(x->has_windows, true, "a node that does not say what it holds");
    SPOIL(x->id, t->n_id + 1, "a list of nodes out of order");
    SPOIL(x->used, t->clock + 1, "a node that was used later than now");
    SPOIL(q->keep.until_ms, 5, "a node that is not in its heap");
    SPOIL(q->place[VTI_BY_PRIORITY], 0, "a node that is not in its heap");
    SPOIL(y->place[VTI_IN_DOMAIN], 1, "a node that is not in its heap");
    SPOIL(q->place[VTI_BY_PRIORITY], x->place[VTI_BY_PRIORITY],
          "a node at a wrong place of a heap");
    SPOIL(x->keep.priority, 0, "a heap out of order");
    SPOIL(q->used, 0, "a heap out of order");
}

FX_TEST_WITH(test_broken_invariants_are_found, tree_setup, tree_teardown)
{
    (void)push("r", 'E');
    vti_node *x = push("abx", 'A'), *y = push("aby", 'C'), *q = push("q", 'D'), *k;
    vt_domain *other;
    assert_int_equal(vti_radix_open(t, "other", 5, &other), VT_OK);
    assert_int_equal(try_push(other, "k", 'F', 0, &k), VT_OK);
    retain(x, 1, false, 5, 0);
    vti_radix_ref(t, y);
    spoil_nodes(x, y, q, other);
    SPOIL(d->root->n_tok, 1, "a root that is not valid");
    SPOIL(d->root->domain, other, "a root that is not valid");
    SPOIL(d->key_bytes, 9, "a domain that is not found");
    SPOIL(d->id, 99, "a domain that is not found");
    SPOIL(other->root->child, NULL, "a wrong count of children");
    SPOIL(d->stats.prefix_tok, 0, "a wrong sum over the nodes of a domain");
    SPOIL(d->held_bytes, 0, "a wrong sum over the nodes of a domain");
    SPOIL(d->heap.n, d->heap.n - 1, "a node at a wrong place of a heap");
    SPOIL(t->n_tok, 0, "a wrong sum over the nodes");
    SPOIL(t->n_node, 0, "a wrong sum over the nodes");
    SPOIL(t->n_domain, 1, "a wrong sum over the nodes");
    SPOIL(t->pinned_bytes, 1, "a wrong sum of pinned bytes");
    vti_node *z = t->heap[VTI_BY_END].at[1];
    t->heap[VTI_BY_END].n = 0;
    says("radix tree: a node at a wrong place of a heap");
    t->heap[VTI_BY_END].n = 1;
    assert_ptr_equal(z, x);
    vti_radix_unref(t, y);
}

FX_TEST_WITH(test_an_empty_closed_domain_is_found, tree_setup, tree_teardown)
{
    vt_domain *other;
    assert_int_equal(vti_radix_open(t, "other", 5, &other), VT_OK);
    SPOIL(other->n_open, 0, "an empty domain that is not open");
}

FX_TEST_WITH(test_a_part_of_a_block_with_children_is_found, tree_setup, tree_teardown)
{
    vti_node *n = push("abcd", 'A')->parent;
    n->n_tok = 1, n->child->start = 1;
    says("radix tree: a part of a block has children");
    n->n_tok = 2, n->child->start = 2;
}

FX_TEST_WITH(test_a_child_that_begins_with_another_is_found, tree_setup4, tree_teardown)
{
    (void)push("abc", 'A');
    vti_node *x = push("abxy", 'B');
    x->room[2] = 'c', x->n_tok = 4;
    says("radix tree: a child that begins with another one");
    x->room[2] = 'x';
}

FX_TEST_WITH(test_wrong_reference_counts_are_seen, tree_setup, tree_teardown)
{
    vti_node *n = push("ab", 'A');
    vti_holding h = vti_node_holding(t, n, 0);
    h.chunk[0] = VTI_NO_CHUNK; // without telling the pSet
    says("radix tree: a wrong sum over the nodes of a domain");
    h.chunk[0] = chunk_named(0, 'A', 0);
}

FX_TEST_WITH(test_what_is_held_beside_is_checked, window_setup, tree_teardown)
{
    vti_node *n = push("abcdefgh", 'A')->parent;
    assert_int_not_equal(n->place[VTI_BY_WINDOW], 0);
    SPOIL(n->has_windows, false, "a node that does not say what it holds");
    SPOIL(n->place[VTI_BY_WINDOW], 0, "a node that is not in its heap");
    SPOIL(t->heap[VTI_BY_WINDOW].n, 0, "a node at a wrong place of a heap");
}

// ---- Allocations

typedef struct word {
    const char *before, *letters;
} word;

FX_TEST_WITH(test_every_allocation_of_a_push_may_fail, tree_setup4, tree_teardown)
{
    static const word words[] = {{"", "abc"},
                                 {"abc", "abcdefgh"},
                                 {"abcdef", "abc"},
                                 {"abc", "abcde"},
                                 {"abcd", "abx"},
                                 {"abcdefgh", "x"},
                                 {"abcde", "abcdefghijklmnopq"}};
    uint64_t n_failed = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vt_status st = VT_ENOMEM;
        for (uint64_t k = 0; st == VT_ENOMEM; k++, n_failed += st == VT_ENOMEM) {
            tree_close(), tree_setup4(NULL);
            vti_node *n;
            vt_event ev[64];
            (void)push(words[i].before, 'A');
            char *was = strdup(tree_of(d));
            uint64_t clock = t->clock;
            (void)vti_events_take(t->events, ev, 64);
            n_alloc_left = k;
            st = try_push(d, words[i].letters, 'B', 0, &n);
            n_alloc_left = UINT64_MAX;
            verify();
            if (st != VT_OK) {
                assert_tree(was);
                assert_int_equal(t->clock, clock);
                assert_int_equal(vti_events_take(t->events, ev, 64), 0);
            }
            free(was);
            (void)push(words[i].letters, 'B');
            assert_int_equal(match(words[i].letters).n_tok, strlen(words[i].letters));
        }
        assert_int_equal(st, VT_OK);
    }
    assert_true(n_failed > 10);
}

FX_TEST_WITH(test_every_allocation_of_opening_may_fail, tree_setup, tree_teardown)
{
    vti_radix *other;
    vt_domain *e = NULL;
    uint64_t k;
    vt_status st = VT_ENOMEM;
    for (k = 0; st == VT_ENOMEM; k++) {
        n_alloc_left = k;
        st = vti_radix_new(&geo, &ps, NULL, 4, &other);
        n_alloc_left = UINT64_MAX;
        assert_true((st == VT_OK) == !!other);
    }
    assert_int_equal(k, 3); // the tree and its events
    st = VT_ENOMEM;
    for (k = 0; st == VT_ENOMEM; k++) {
        n_alloc_left = k;
        st = vti_radix_open(other, "key", 3, &e);
        n_alloc_left = UINT64_MAX;
        assert_true((st == VT_OK) == !!e);
        assert_null(vti_radix_check(other, NULL, NULL));
    }
    assert_int_equal(k, 3); // the list of domains; then the domain and its root
    vti_radix_free(other);
    vti_radix_free(NULL);
}

FX_RUN(test_vt_radix_check)
