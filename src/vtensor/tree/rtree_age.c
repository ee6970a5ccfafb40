// rtree_age.c - how long parts of prefixes live, lie idle, and wait for their next use.
#include "rtree_node.h"

static void age_count(vt_ages *a, uint64_t from_ms, uint64_t to_ms)
{
    uint64_t ms = to_ms - from_ms;
    int i = 0;
    while (i < VT_N_AGE && ms > (uint64_t)1 << i) i++;
    a->count[i]++;
    a->sum_ms += ms;
}

void vti_rtree_tick(vti_rtree *t, uint64_t now_ms)
{
    t->now_ms = now_ms;
}

void vti_rtree_note_eviction(vti_rtree *t, const vti_node *leaf)
{
    age_count(&t->ages.life, leaf->born_ms, t->now_ms);
    age_count(&t->ages.idle, leaf->used_ms, t->now_ms);
}

void vti_rtree_note_reuse(vti_rtree *t, const vti_node *n)
{
    if (!vti_node_is_root(n)) age_count(&t->ages.reuse, n->used_ms, t->now_ms);
}

const vt_prefix_ages *vti_rtree_ages(const vti_rtree *t)
{
    return &t->ages;
}
