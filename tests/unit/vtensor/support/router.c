// router.c - see router.h.
#include "assert_vt.h"

#include <string.h>

#include "router.h"

typedef struct known {
    uint64_t id, parent_id, domain_id;
    uint32_t start_tok, n_tok, lacks;
} known;

static struct {
    vt_manager *m;
    uint32_t n_group;
    vt_group group[VT_MAX_GROUP];
    known node[ROUTER_MAX_NODE];
    uint32_t n_node;
    uint64_t next, n_window_evicted;
    const vt_domain *d; // that is walked
    uint32_t n_walked;  // of its nodes
    vt_prefix_info at[ROUTER_MAX_NODE];
    uint32_t tok[ROUTER_MAX_TOK];
} r;

void router_open(vt_manager *m, uint32_t n_group, const vt_group *group)
{
    memset(&r, 0, sizeof r);
    r.m = m;
    r.n_group = n_group;
    memcpy(r.group, group, n_group * sizeof *group);
}

static known *find_known(uint64_t id)
{
    for (uint32_t i = 0; i < r.n_node; i++)
        if (r.node[i].id == id) return &r.node[i];
    return NULL;
}

// ---- Events

static void on_recorded(const vt_event *e)
{
    known *k = find_known(e->id);
    if (k) assert_true(e->n_tok > k->n_tok);
    if (!k) assert_true(r.n_node < ROUTER_MAX_NODE);
    if (!k) k = &r.node[r.n_node++];
    if (e->parent_id != 0) assert_non_null(find_known(e->parent_id));
    *k = (known){e->id, e->parent_id, e->domain_id, e->start_tok, e->n_tok, e->lacks};
}

static void on_evicted(const vt_event *e)
{
    known *k = find_known(e->id);
    assert_non_null(k);
    *k = r.node[--r.n_node];
}

static void on_forked(const vt_event *e)
{
    if (e->id != 0) assert_non_null(find_known(e->id));
}

static void on_lacking(const vt_event *e)
{
    known *k = find_known(e->id);
    assert_non_null(k);
    r.n_window_evicted += e->kind == VT_EVENT_WINDOW_EVICTED;
    if (e->kind == VT_EVENT_WINDOW_RECORDED) assert_true((e->lacks & ~k->lacks) == 0);
    if (e->kind == VT_EVENT_WINDOW_RECORDED) assert_true(e->lacks != k->lacks);
    assert_int_equal(e->start_tok, k->start_tok);
    k->lacks = e->lacks;
}

void router_follow(void)
{
    static void (*const on[])(const vt_event *) = {
        [VT_EVENT_RECORDED] = on_recorded,       [VT_EVENT_EVICTED] = on_evicted,
        [VT_EVENT_FORKED] = on_forked,           [VT_EVENT_WINDOW_EVICTED] = on_lacking,
        [VT_EVENT_WINDOW_RECORDED] = on_lacking,
    };
    vt_event e;
    while (vt_events_take(r.m, &e, 1) == 1) {
        assert_int_equal(e.number, r.next++);
        on[e.kind](&e);
    }
}

// ---- The truth

static bool collect_node(void *ud, const vt_prefix_info *node)
{
    (void)ud;
    assert_true(r.n_walked < ROUTER_MAX_NODE);
    r.at[r.n_walked++] = *node;
    return true;
}

static const vt_prefix_info *parent_of(const vt_prefix_info *n)
{
    for (uint32_t i = 0; i < r.n_walked; i++)
        if (r.at[i].id == n->parent_id) return &r.at[i];
    return NULL;
}

// Whether what a router knows makes it sure that a match can end with the block.
static bool surely_begins(const vt_prefix_info *n)
{
    uint32_t end = n->start_tok + n->n_tok;
    if (n->lacks != 0) return false;
    for (const vt_prefix_info *up = parent_of(n); up; up = parent_of(up))
        for (uint32_t g = 0; g < r.n_group; g++) {
            const uint32_t own = r.group[g].kind == VT_GROUP_BLOCKS ? 0 : 1;
            bool in_window = up->start_tok + up->n_tok + r.group[g].window_tok > end + own;
            if (r.group[g].window_tok > 0 && in_window && (up->lacks >> g & 1)) return false;
        }
    return true;
}

static void verify_node(const vt_prefix_info *n)
{
    const known *k = find_known(n->id);
    uint32_t end = n->start_tok + n->n_tok;
    assert_non_null(k);
    assert_int_equal(k->parent_id, n->parent_id);
    assert_int_equal(k->start_tok, n->start_tok);
    assert_int_equal(k->n_tok, n->n_tok);
    assert_int_equal(k->lacks, n->lacks);
    assert_int_equal(k->domain_id, vt_domain_id(r.d));
    assert_true(end <= ROUTER_MAX_TOK);
    for (const vt_prefix_info *up = n; up; up = parent_of(up))
        memcpy(r.tok + up->start_tok, up->tok, up->n_tok * sizeof *up->tok);
    uint32_t n_hit = vt_match(r.d, r.tok, end);
    if (n->lacks != 0) assert_true(n_hit < end);
    if (surely_begins(n)) assert_int_equal(n_hit, end);
}

void router_verify(const vt_domain *d)
{
    vt_stats st;
    vt_domain_stats of_domain = {.struct_bytes = sizeof of_domain};
    router_follow();
    r.d = d;
    r.n_walked = 0;
    vt_prefix_each(d, collect_node, NULL);
    for (uint32_t i = 0; i < r.n_walked; i++) verify_node(&r.at[i]);
    assert_int_equal(r.n_walked, r.n_node);
    vt_get_stats(r.m, &st);
    vt_domain_get_stats(d, &of_domain);
    assert_int_equal(st.window_evicted, r.n_window_evicted);
    assert_int_equal(of_domain.evicted_windows, r.n_window_evicted);
}
