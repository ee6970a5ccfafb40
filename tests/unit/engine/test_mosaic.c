// test_mosaic.c - the nodes of pictures in shared tiles: random changes beside a plain list, and
// what was shared before stays as it was.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "engine/picture/mosaic.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ID = 3000, N_ROUND = 200, N_KEPT = 8 };

static uint64_t seed = 7;

static uint32_t random_below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

typedef struct plain_list {
    uint32_t n_tok[MAX_ID]; // by id; 0: there is no such node
    const fx_node_block **block;
    size_t n_block;
} plain_list;

static void compare_lists(const plain_list *want)
{
    uint64_t id = 0;
    for (size_t b = 0; b < want->n_block; b++) {
        assert_in_range(want->block[b]->n, 1, FX_NODE_BLOCK);
        for (size_t i = 0; i < want->block[b]->n; i++) {
            const fx_prefix_node *n = &want->block[b]->node[i];
            assert_true(n->id >= id);
            while (id < n->id) assert_int_equal(want->n_tok[id++], 0);
            assert_int_equal(want->n_tok[n->id], n->n_tok);
            id = n->id + 1;
        }
    }
    while (id < MAX_ID) assert_int_equal(want->n_tok[id++], 0);
}

static size_t count_plain(const plain_list *l)
{
    size_t n = 0;
    for (int i = 0; i < MAX_ID; i++) n += l->n_tok[i] != 0;
    return n;
}

// New ones come in order at first; later some are gone, and come anywhere.
static void change_some(fxi_mosaic *m, plain_list *l, uint64_t *next)
{
    for (int k = 0; k < 60; k++) {
        const bool is_new = *next < MAX_ID && random_below(3);
        const uint64_t id = is_new ? (*next)++ : random_below(MAX_ID);
        if (is_new || random_below(3) == 0) {
            const fx_prefix_node n = {.id = id, .n_tok = 1 + random_below(9)};
            assert_true(fxi_mosaic_put(m, &n));
            l->n_tok[id] = n.n_tok;
        } else {
            assert_true(fxi_mosaic_drop(m, id));
            l->n_tok[id] = 0;
        }
    }
}

static void test_pictures_keep_their_nodes(void **state)
{
    (void)state;
    plain_list *kept = calloc(N_KEPT, sizeof *kept), *now = calloc(1, sizeof *now);
    fxi_mosaic m = {0};
    uint64_t next = 0;
    for (int r = 0; r < N_ROUND; r++) {
        plain_list *p = &kept[r % N_KEPT];
        change_some(&m, now, &next);
        fxi_blocks_unref(p->block, p->n_block);
        *p = *now;
        p->block = fxi_mosaic_share(&m);
        p->n_block = m.n;
        assert_int_equal(m.n_node, count_plain(now));
        for (int i = 0; i < N_KEPT && i <= r; i++) compare_lists(&kept[i]);
    }
    fxi_mosaic_clear(&m);
    for (int i = 0; i < N_KEPT; i++) {
        compare_lists(&kept[i]);
        fxi_blocks_unref(kept[i].block, kept[i].n_block);
    }
    free(kept);
    free(now);
}

// The same from whole lists: what is in the list is there, and a list that has hardly changed
// shares its tiles.
static void test_whole_lists_share_tiles(void **state)
{
    (void)state;
    plain_list *now = calloc(1, sizeof *now);
    fx_prefix_node *list = calloc(MAX_ID, sizeof *list);
    fxi_mosaic m = {0};
    for (int r = 0; r < N_ROUND; r++) {
        const size_t n_before = m.n;
        const fx_node_block **before = fxi_mosaic_share(&m);
        const bool is_odd = r % 2;
        size_t n = 0, n_new = 0;
        for (uint64_t id = 1; id < MAX_ID; id++) {
            if (!is_odd && random_below(4) == 0) now->n_tok[id] = random_below(3);
            if (now->n_tok[id]) list[n++] = (fx_prefix_node){.id = id, .n_tok = now->n_tok[id]};
        }
        if (is_odd) list[n / 2].n_tok = now->n_tok[list[n / 2].id] = 9 + (uint32_t)r; // one change
        assert_true(fxi_mosaic_set(&m, list, n));
        assert_int_equal(m.n_node, n);
        now->block = fxi_mosaic_share(&m);
        now->n_block = m.n;
        compare_lists(now);
        for (size_t i = 0; i < m.n; i++) n_new += i >= n_before || now->block[i] != before[i];
        if (is_odd) assert_int_equal(n_new, 1);
        fxi_blocks_unref(now->block, now->n_block);
        fxi_blocks_unref(before, n_before);
    }
    fxi_mosaic_clear(&m);
    free(list);
    free(now);
}

// A few changes among many nodes leave most blocks as they are, and eviction leaves no crumbs.
static void test_what_has_not_changed_is_shared(void **state)
{
    (void)state;
    enum { N = 100 * FX_NODE_BLOCK };
    fxi_mosaic m = {0};
    for (uint64_t id = 1; id <= N; id++)
        assert_true(fxi_mosaic_put(&m, &(fx_prefix_node){.id = id, .n_tok = 1}));
    assert_int_equal(m.n, 100);
    const size_t n_before = m.n;
    const fx_node_block **before = fxi_mosaic_share(&m);
    assert_true(fxi_mosaic_put(&m, &(fx_prefix_node){.id = 500, .n_tok = 2}));
    assert_true(fxi_mosaic_put(&m, &(fx_prefix_node){.id = 500, .n_tok = 2}));
    assert_true(fxi_mosaic_put(&m, &(fx_prefix_node){.id = 600, .n_tok = 1})); // as it was
    assert_true(fxi_mosaic_put(&m, &(fx_prefix_node){.id = N + 1, .n_tok = 2}));
    const size_t n_after = m.n;
    const fx_node_block **after = fxi_mosaic_share(&m);
    assert_int_equal(n_after, 101);
    size_t n_shared = 0;
    for (size_t i = 0; i < n_before; i++) n_shared += before[i] == after[i];
    assert_int_equal(n_shared, 99);
    for (uint64_t id = 1; id <= N; id++)
        if (id % 64) assert_true(fxi_mosaic_drop(&m, id));
    assert_int_equal(m.n_node, N / 64 + 1);
    assert_true(m.n <= 2 * (1 + m.n_node / (FX_NODE_BLOCK / 4)));
    fxi_blocks_unref(before, n_before);
    fxi_blocks_unref(after, n_after);
    fxi_mosaic_clear(&m);
}

FX_SUITE(test_mosaic)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures_keep_their_nodes),
        cmocka_unit_test(test_whole_lists_share_tiles),
        cmocka_unit_test(test_what_has_not_changed_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
