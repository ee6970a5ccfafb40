// test_keyed.c - a search tree: things in order as they are added and removed at random, equals in
// the order of their arrival, and flat whatever the order of the keys; and ids by hash: all with
// the same hash are found, and none after the table is cleared.
#include "unit/cmocka_all.h"

#include "base/keyed/hash.h"
#include "base/keyed/treap.h"

#include <stdlib.h>

enum { N = 3000 };

typedef struct thing {
    int key, arrival;
    fxi_treap_node at;
} thing;

static thing things[N];
static uint64_t n_compared;

static thing *thing_at(fxi_treap_node *n)
{
    return FXI_TREAP_OF(n, thing, at);
}

static bool by_key(const fxi_treap_node *a, const fxi_treap_node *b)
{
    n_compared++;
    return FXI_TREAP_OF(a, thing, at)->key < FXI_TREAP_OF(b, thing, at)->key;
}

static void assert_in_order(const fxi_treap *t, int n)
{
    thing *before = NULL;
    int n_seen = 0;
    for (fxi_treap_node *i = fxi_treap_first(t); i; i = fxi_treap_next(i), n_seen++) {
        thing *x = thing_at(i);
        assert_ptr_equal(thing_at(fxi_treap_prev(i)), before);
        assert_true(!before || before->key < x->key ||
                    (before->key == x->key && before->arrival < x->arrival));
        before = x;
    }
    assert_int_equal(n_seen, n);
    assert_ptr_equal(thing_at(fxi_treap_last(t)), before);
}

FX_TEST(test_things_stay_in_order)
{
    fxi_treap t = {.before = by_key, .seed = 3};
    int n = 0;
    srand(1);
    for (int i = 0; i < 20 * N; i++) {
        thing *x = &things[rand() % N];
        const bool is_in = fxi_treap_has(&x->at);
        x->arrival = is_in ? x->arrival : i;
        if (!is_in) x->key = rand() % 500;
        (is_in ? fxi_treap_remove : fxi_treap_add)(&t, &x->at);
        n += is_in ? -1 : 1;
        if (i % 1000 == 0) assert_in_order(&t, n);
    }
    for (int i = 0; i < N; i++)
        if (fxi_treap_has(&things[i].at)) fxi_treap_remove(&t, &things[i].at);
    assert_null(t.root);
    assert_null(fxi_treap_first(&t));
    assert_null(fxi_treap_last(&t));
}

FX_TEST(test_the_first_that_is_not_before_is_found)
{
    fxi_treap t = {.before = by_key, .seed = 9};
    thing even[100] = {0};
    for (int i = 0; i < 100; i++) {
        even[i].key = 2 * (i * 37 % 100);
        fxi_treap_add(&t, &even[i].at);
    }
    for (int key = -1; key < 200; key++) {
        const thing probe = {.key = key};
        thing *x = thing_at(fxi_treap_find(&t, &probe.at));
        assert_true(key > 198 ? !x : x->key == (key + 1) / 2 * 2);
    }
}

// Keys that ascend, descend and alternate.
FX_TEST(test_no_order_of_keys_makes_it_deep)
{
    for (int how = 0; how < 3; how++) {
        fxi_treap t = {.before = by_key, .seed = (uint64_t)how};
        n_compared = 0;
        for (int i = 0; i < N; i++) {
            things[i] = (thing){.key = how == 0 ? i : how == 1 ? -i : i % 2 ? i : -i};
            fxi_treap_add(&t, &things[i].at);
        }
        assert_true(n_compared < (how == 0 ? 1ull : 40ull) * N); // each goes after all others
        n_compared = 0;
        for (int i = 0; i < N; i++)
            assert_ptr_equal(fxi_treap_find(&t, &things[i].at), &things[i].at);
        assert_true(n_compared < 40ull * N);
        for (int i = 0; i < N; i++) fxi_treap_remove(&t, &things[i].at);
    }
}

// ---- ids by hash --------------------------------------------------------------------------------

enum { N_ID = 5000, N_HASH = 700 };

// Many ids share a hash, and hashes are next to each other.
FX_TEST(test_every_id_is_found_by_its_hash)
{
    fxi_hash_index x = {0};
    size_t probe = 0;
    assert_int_equal(fxi_hash_index_next(&x, 1, &probe), 0);
    for (uint32_t id = 1; id <= N_ID; id++) assert_true(fxi_hash_index_add(&x, id, id % N_HASH));
    assert_int_equal(x.n, N_ID);
    assert_true(x.n_slot >= 2 * x.n && fxi_hash_index_n_bytes(&x) >= x.n_slot * 8);
    for (uint32_t hash = 0; hash < N_HASH; hash++) {
        uint32_t id, n = 0;
        probe = 0;
        for (; (id = fxi_hash_index_next(&x, hash, &probe)); n++)
            assert_int_equal(id % N_HASH, hash);
        assert_int_equal(n, N_ID / N_HASH + (hash && hash <= N_ID % N_HASH));
    }
    fxi_hash_index_clear(&x);
    probe = 0;
    assert_int_equal(fxi_hash_index_next(&x, 5, &probe), 0);
    fxi_hash_index_free(&x);
    assert_int_equal(x.n_slot, 0);
}

FX_RUN(test_keyed)
