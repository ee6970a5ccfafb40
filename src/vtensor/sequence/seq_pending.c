// seq_pending.c - what a record could not share yet. Until a sequence is released it may write to
// its tail, so the tail cannot have another holder. The tokens are kept, and recorded when the
// sequence ends: then the tree becomes a holder of the chunk itself, and nothing is copied.
#include "sequence.h"

#include <stdlib.h>
#include <string.h>

#include "vtensor/core/common.h"

void vti_pending_drop(vti_pending *p)
{
    if (p->domain) vti_rtree_close(p->domain);
    free(p->tok);
    *p = (vti_pending){0};
}

vt_status vti_pending_set(vt_seq *s, vt_domain *d, uint32_t first, const uint32_t *tok,
                          uint32_t n_tok, const vt_retention *keep)
{
    size_t n = n_tok - first;
    uint32_t *copy = n > 0 ? malloc(n * sizeof *copy) : NULL;
    if (n > 0 && !copy) return VT_ENOMEM;
    vti_domain_reopen(d);
    vti_pending_drop(&s->pending);
    if (n == 0) {
        vti_rtree_close(d);
        return VT_OK;
    }
    memcpy(copy, tok + first, n * sizeof *copy);
    s->pending = (vti_pending){
        .domain = d, .epoch = vti_domain_epoch(d), .first = first, .n_tok = n_tok, .tok = copy};
    s->pending.has_keep = keep != NULL;
    if (keep) s->pending.keep = *keep;
    return VT_OK;
}

// The node that the pending tokens follow; NULL: it is gone.
static vti_node *pending_from(const vt_seq *s)
{
    const vti_pending *p = &s->pending;
    if (p->first == 0) return vti_domain_root(p->domain);
    if (!s->node || vti_node_is_removed(s->node)) return NULL;
    return vti_node_end_tok(s->node) == p->first ? s->node : NULL;
}

static void record_now(vt_seq *s)
{
    vt_manager *m = s->m;
    const vti_pending *p = &s->pending;
    const uint32_t *at[VT_MAX_GROUP];
    vti_node *node;
    for (uint32_t g = 0; g < m->geo.n_group; g++) at[g] = s->span->lane[g].at;
    vti_push push = {.from = pending_from(s),
                     .tok = p->tok,
                     .start = p->first,
                     .end = p->n_tok,
                     .at = at,
                     .has_state = p->n_tok == s->len_tok};
    if (!push.from || vti_rtree_push(m->rtree, &push, &node) != VT_OK) return;
    if (p->has_keep)
        (void)vti_rtree_retain(m->rtree, node, &p->keep, m->budget_bytes / 2, m->now_ms);
}

// A chunk that is not mapped now has no rows to share.
static bool all_is_mapped(const vt_seq *s)
{
    for (uint32_t g = 0; g < s->m->geo.n_group; g++) {
        const vti_lane *l = &s->span->lane[g];
        if (vti_lane_count_cold(l, l->front, l->n_owned) > 0) return false;
    }
    return !s->span->is_lost && !vti_seq_is_away(s);
}

void vti_pending_record(vt_seq *s)
{
    vti_pending *p = &s->pending;
    bool is_wanted = p->domain && p->epoch == vti_domain_epoch(p->domain);
    if (is_wanted && p->n_tok > p->first && all_is_mapped(s)) record_now(s);
    vti_pending_drop(p);
}
