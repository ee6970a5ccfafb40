// watcher.c - a copy of the tree's nodes that is kept by what vt_prefix_changes tells.
#include "assert_vt.h"

#include "watcher.h"

enum { MAX_NODE = 8192 };

typedef struct known {
    uint64_t id, parent_id, domain_id, held_bytes;
    uint32_t n_tok, n_seq;
} known;

static vt_manager *watched;
static known node[MAX_NODE];
static int n_known, n_walked;
static uint64_t walked_domain;

static known *find_known(uint64_t id)
{
    for (int i = 0; i < n_known; i++)
        if (node[i].id == id) return &node[i];
    return NULL;
}

static known known_of(uint64_t domain_id, const vt_prefix_info *n)
{
    return (known){.id = n->id,
                   .parent_id = n->parent_id,
                   .domain_id = domain_id,
                   .held_bytes = n->held_bytes,
                   .n_tok = n->n_tok,
                   .n_seq = n->n_seq};
}

static void forget_known(void *ud)
{
    (void)ud;
    n_known = 0;
}

static void drop_known(void *ud, uint64_t id)
{
    (void)ud;
    known *k = find_known(id);
    if (k) *k = node[--n_known];
}

static void learn_node(void *ud, uint64_t domain_id, const vt_prefix_info *n)
{
    (void)ud;
    known *k = find_known(n->id);
    if (!k) {
        assert_true(n_known < MAX_NODE);
        k = &node[n_known++];
    }
    *k = known_of(domain_id, n);
}

static bool compare_node(void *ud, const vt_prefix_info *n)
{
    (void)ud;
    known *k = find_known(n->id);
    if (!k) fail_msg("the watcher was not told of node %d", (int)n->id);
    const known is = known_of(walked_domain, n);
    if (k->parent_id != is.parent_id || k->domain_id != is.domain_id ||
        k->held_bytes != is.held_bytes || k->n_tok != is.n_tok || k->n_seq != is.n_seq)
        fail_msg("the watcher was not told of a change of node %d", (int)n->id);
    n_walked++;
    return true;
}

static bool compare_domain(void *ud, vt_domain *d, const void *key, size_t key_bytes)
{
    (void)ud;
    (void)key;
    (void)key_bytes;
    walked_domain = vt_domain_id(d);
    vt_prefix_each(d, compare_node, NULL);
    return true;
}

void watcher_open(vt_manager *m)
{
    watched = m;
    n_known = 0;
    vt_prefix_watch(m, true);
}

void watcher_verify(void)
{
    const vt_prefix_watcher to = {NULL, forget_known, drop_known, learn_node};
    vt_prefix_changes(watched, &to);
    n_walked = 0;
    vt_domain_each(watched, compare_domain, NULL);
    assert_int_equal(n_walked, n_known); // none that is gone
}
