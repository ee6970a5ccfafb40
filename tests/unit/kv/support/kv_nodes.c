// kv_nodes.c - lists of nodes, by id.
#include "unit/kv/support/kv_nodes.h"

#include "unit/cmocka_all.h"

#include <string.h>

enum { MAX_NODE = 8192, EACH = 4 };

typedef struct node_list {
    int n;
    fxi_kv_node node[MAX_NODE]; // by id
} node_list;

static node_list known, all; // all: those that are there
static int n_call, n_told;

// The number of nodes whose ids are less.
static int place_of(const node_list *l, uint64_t id)
{
    int low = 0, high = l->n;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (l->node[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool has_at(const node_list *l, int at, uint64_t id)
{
    return at < l->n && l->node[at].id == id;
}

static void put_node(node_list *l, const fxi_kv_node *node)
{
    const int at = place_of(l, node->id);
    if (!has_at(l, at, node->id)) {
        assert_true(l->n < MAX_NODE);
        memmove(&l->node[at + 1], &l->node[at], (size_t)(l->n++ - at) * sizeof *node);
    }
    l->node[at] = *node;
}

void kv_nodes_open(fxi_kv *kv)
{
    known.n = n_call = 0;
    fxi_kv_watch_nodes(kv, true);
}

void kv_nodes_anew(void *ud)
{
    (void)ud;
    known.n = 0;
}

void kv_nodes_gone(void *ud, uint64_t id)
{
    (void)ud;
    n_told++;
    const int at = place_of(&known, id);
    if (!has_at(&known, at, id)) return;
    memmove(&known.node[at], &known.node[at + 1], (size_t)(--known.n - at) * sizeof known.node[0]);
}

void kv_nodes_learn(void *ud, const fxi_kv_node *node)
{
    (void)ud;
    n_told++;
    put_node(&known, node);
}

uint64_t kv_nodes_held_bytes(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < known.n; i++) sum += known.node[i].held_bytes;
    return sum;
}

// ---- nodes alone -------------------------------------------------------------------------------

static void skip_group(void *ud, uint64_t chunk_bytes, int chunk_tok, int device)
{
    (void)ud, (void)chunk_bytes, (void)chunk_tok, (void)device;
}

static void skip_chunk(void *ud, int group, uint64_t chunk, uint32_t n, fxi_kv_chunk_state state)
{
    (void)ud, (void)group, (void)chunk, (void)n, (void)state;
}

static void skip_segment(void *ud, const fxi_kv_seq *s, int group, int at, uint64_t chunk,
                         uint32_t n)
{
    (void)ud, (void)s, (void)group, (void)at, (void)chunk, (void)n;
}

static void paint_nodes(fxi_kv *kv, void (*anew)(void *), void (*gone)(void *, uint64_t),
                        void (*node)(void *, const fxi_kv_node *))
{
    const fxi_kv_painter painter = {.group = skip_group,
                                    .chunk = skip_chunk,
                                    .segment = skip_segment,
                                    .nodes_anew = anew,
                                    .gone_node = gone,
                                    .node = node};
    assert_int_equal(fxi_kv_paint(kv, &painter), FX_OK);
}

int kv_nodes_take(fxi_kv *kv)
{
    n_told = 0;
    paint_nodes(kv, kv_nodes_anew, kv_nodes_gone, kv_nodes_learn);
    return n_told;
}

int kv_nodes_n_known(void)
{
    return known.n;
}

// ---- all of them -------------------------------------------------------------------------------

static void begin_all(void *ud)
{
    (void)ud;
    all.n = 0;
}

static void refuse_gone(void *ud, uint64_t id)
{
    (void)ud;
    fail_msg("node %d is gone for one who did not know it", (int)id);
}

static void note_all(void *ud, const fxi_kv_node *node)
{
    (void)ud;
    put_node(&all, node);
}

void kv_nodes_compare(fxi_kv *kv)
{
    all.n = 0;
    fxi_kv_watch_nodes(kv, false);
    paint_nodes(kv, begin_all, refuse_gone, note_all);
    fxi_kv_watch_nodes(kv, true);
    for (int i = 0; i < all.n; i++)
        if (i == known.n || memcmp(&known.node[i], &all.node[i], sizeof all.node[i]) != 0)
            fail_msg("%s: who watches was not told of node %d", kv->ops->name, (int)all.node[i].id);
    assert_int_equal(known.n, all.n); // none that is gone
}

void kv_nodes_verify(fxi_kv *kv)
{
    if (++n_call % EACH == 0) kv_nodes_compare(kv);
}
