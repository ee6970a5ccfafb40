// seq_record.c - record and retain. Recording makes the tree another holder of the sequence's
// chunks. While the sequence lives, only blocks whose chunks it has filled to the end are shared;
// what follows them is kept for the release (seq_pending.c). A record goes on from the node where
// the last one ended, so that a prompt recorded bit by bit costs what it is long.
#include "seq_undo.h"
#include "sequence.h"

#include "vtensor/core/common.h"

static vt_status retain_node(vt_manager *m, vti_node *node, const vt_retention *keep)
{
    return vti_rtree_retain(m->rtree, node, keep, m->budget_bytes / 2, m->now_ms);
}

// Of the first n_tok tokens, how many are whole blocks in chunks that are full.
static uint32_t whole_blocks(const vt_seq *s, uint32_t n_tok)
{
    const vti_geo *g = &s->m->geo;
    uint32_t n = n_tok - n_tok % g->block_tok;
    for (uint32_t i = 0; i < g->n_group && n > 0; i++) {
        const vti_lane_geo *gr = &g->group[i];
        if (gr->is_state) continue;
        uint32_t n_full = vti_group_whole(gr, s->len_tok);
        while (n > 0 && vti_group_chunks(gr, n) > n_full) n -= g->block_tok;
    }
    return n;
}

// ---- States

// Copies the state of group g into chunks of its own.
static vt_status copy_state(vt_seq *s, uint32_t group, uint32_t *copy)
{
    vt_manager *m = s->m;
    for (uint32_t p = 0; p < m->geo.group[group].n_position; p++) {
        VT_TRY(vti_chunk_make(m, group, &copy[p]));
        VT_TRY(vti_lane_store(m, s->span, group, p, copy[p]));
    }
    return VT_OK;
}

static void drop_copies(vt_manager *m, uint32_t group, const uint32_t *copy)
{
    for (uint32_t p = 0; p < m->geo.group[group].n_position; p++)
        if (copy[p] != VTI_NO_CHUNK && vti_pset_state(&m->pset, copy[p]) == VT_CHUNK_SPARE)
            vti_chunk_drop(m, copy[p]);
}

// Points at[] to copies of the states, if the record is of all tokens. *has_state: it does.
static vt_status copy_states(vt_seq *s, const uint32_t **at)
{
    vt_manager *m = s->m;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        if (!m->geo.group[g].is_state) continue;
        for (uint32_t p = 0; p < m->geo.group[g].n_position; p++) m->scratch[g][p] = VTI_NO_CHUNK;
        at[g] = m->scratch[g];
        VT_TRY(copy_state(s, g, m->scratch[g]));
    }
    return VT_OK;
}

// Copies that the tree did not take go to the pool.
static void settle_states(vt_manager *m)
{
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        if (m->geo.group[g].is_state) drop_copies(m, g, m->scratch[g]);
}

// ---- Record

// The chunk at each position that n_tok tokens have, also where a window has left, or had none.
static vt_status list_chunks(vt_seq *s, uint32_t n_tok, const uint32_t **at)
{
    for (uint32_t g = 0; g < s->m->geo.n_group; g++) {
        vti_lane *l = &s->span->lane[g];
        VT_TRY(vti_lane_make_room(l, vti_group_chunks(&s->m->geo.group[g], n_tok)));
        at[g] = l->at;
    }
    return VT_OK;
}

static vt_status push_blocks(vt_seq *s, vti_node *from, const uint32_t *tok, uint32_t n_tok,
                             vti_node **node)
{
    vt_manager *m = s->m;
    const uint32_t *at[VT_MAX_GROUP];
    vt_status st = VT_OK;
    VT_TRY(list_chunks(s, n_tok, at));
    uint32_t start = vti_node_end_tok(from);
    vti_push push = {from, tok + start, start, n_tok, at, false};
    push.has_state = m->geo.has_state && n_tok == s->len_tok && m->max_runs < UINT64_MAX;
    if (push.has_state) st = copy_states(s, at);
    if (st == VT_OK) st = vti_rtree_push(m->rtree, &push, node);
    if (push.has_state) settle_states(m);
    return st;
}

// In the next vt_step: a sequence that ends before that needs no guard.
static void guard_lanes(vt_seq *s, uint32_t n_tok)
{
    const vti_geo *g = &s->m->geo;
    for (uint32_t i = 0; i < g->n_group; i++)
        if (!g->group[i].is_state)
            vti_lane_guard(s->m, s->span, i, vti_group_chunks(&g->group[i], n_tok));
}

static vt_status record_blocks(vt_seq *s, vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                               const vt_retention *keep)
{
    vti_node *node;
    if (n_tok == 0) {
        vti_seq_set_node(s, vti_domain_root(d));
        return VT_OK;
    }
    uint32_t n_same = s->path_tok < n_tok ? s->path_tok : n_tok;
    vti_node *from = vti_rtree_resume(d, s->node, tok, n_same);
    uint64_t mark = vti_rtree_mark(s->m->rtree);
    VT_TRY(push_blocks(s, from, tok, n_tok, &node));
    guard_lanes(s, n_tok); // also if it is undone: nodes that were there may have taken chunks
    vt_status st = keep ? retain_node(s->m, node, keep) : VT_OK;
    if (st != VT_OK) {
        vti_rtree_undo_push(s->m->rtree, node, from, mark);
        return st;
    }
    vti_seq_set_node(s, node);
    return VT_OK;
}

// With a state the whole path is kept for the release, since the state belongs to its end.
static vt_status seq_record(vt_seq *s, vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                            const vt_retention *keep)
{
    vt_manager *m = s->m;
    if (n_tok > s->len_tok || vti_seq_is_away(s) || vti_domain_owner(d) != m) return VT_EINVAL;
    if (keep && keep->priority > VT_MAX_PRIORITY) return VT_EINVAL;
    if (s->span->is_lost) return VT_EDEVICE;
    if (n_tok == 0) return VT_OK;
    uint32_t n_now = whole_blocks(s, n_tok);
    VT_TRY(vti_pending_set(s, d, m->geo.has_state ? 0 : n_now, tok, n_tok, keep));
    vt_status st = record_blocks(s, d, tok, n_now, keep);
    if (st != VT_OK) vti_pending_drop(&s->pending);
    return st;
}

vt_status vt_seq_record(vt_seq *s, vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                        const vt_retention *keep)
{
    return vti_tally_answer(s->m, seq_record(s, d, tok, n_tok, keep));
}

void vti_seq_unrecord(vt_seq *s, vt_domain *d, const uint32_t *tok, uint32_t n_tok, bool retained)
{
    const vt_retention plain = {0};
    vti_prefix hit = vti_rtree_match(d, tok, n_tok);
    vti_pending_drop(&s->pending);
    if (retained && hit.n_tok > 0) (void)retain_node(s->m, hit.last, &plain);
}

vt_status vt_retain(vt_domain *d, const uint32_t *tok, uint32_t n_tok, const vt_retention *keep,
                    uint32_t *n_hit)
{
    vt_manager *m = vti_domain_owner(d);
    vti_prefix hit = vti_rtree_match(d, tok, n_tok);
    if (n_hit) *n_hit = hit.n_tok;
    if (keep->priority > VT_MAX_PRIORITY) return VT_EINVAL;
    if (hit.n_tok == 0) return VT_OK;
    vti_rtree_touch(m->rtree, hit.last);
    return vti_tally_answer(m, retain_node(m, hit.last, keep));
}
