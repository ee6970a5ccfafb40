// seq_share.c - sharing: a new sequence that begins with the chunks of another one (fork) or of a
// recorded prefix (match), and recording, which makes the tree another holder of chunks.
//
// Fork and match. Whole chunks are mapped, for reading only. The tail, and a state, are copied into
// chunks of the new sequence's own, at positions where nothing is mapped yet: the copy is queued in
// the order of the device's work, and no call waits. Where mappings are limited, a matched sequence
// takes the tree's own tail if that continues its run, and the tree gets the copy: so a
// conversation of many turns stays one run.
//
// Record. While the sequence lives, only blocks whose chunks it has filled to the end are shared;
// what follows them is kept for the release (seq_life.c). A record continues from the node where
// the last one ended, so that a prompt recorded bit by bit costs what it is long.
#include "sequence.h"

// The chunks of group g that the new sequence begins with: at[p].
typedef struct share_source {
    const uint32_t *at[VT_MAX_GROUP];
    uint32_t n_tok;
    vti_node *last; // NULL: they belong to a sequence. Else to the tree, with the tail in this node
} share_source;

// Copies the chunks of a lane that are not aliased: the tail, or all of a state.
static vt_status copy_lane(vt_seq *s, const share_source *from, uint32_t group, uint32_t first)
{
    vt_manager *m = s->m;
    const vti_lane_geo *gr = &m->geo.group[group];
    size_t all = vti_group_bytes(gr, from->n_tok), had = first * gr->slice_bytes;
    size_t left = all > had ? all - had : 0;
    for (uint32_t p = first; left > 0; p++) {
        size_t n = left < gr->slice_bytes ? left : gr->slice_bytes;
        VT_TRY(vti_source_reserve(m));
        vt_status st = vti_lane_fetch(m, s->span, group, p, from->at[group][p], n);
        if (from->last) vti_source_hold(m, from->at[group][p]);
        VT_TRY(st);
        left -= n;
    }
    return VT_OK;
}

// Whether the tail of a prefix, which its node alone holds, comes after the aliased chunks.
static bool can_take_tail(const vt_seq *s, const share_source *from, uint32_t group)
{
    const vt_manager *m = s->m;
    const vti_lane_geo *gr = &m->geo.group[group];
    const vti_lane *l = &s->span->lane[group];
    uint32_t p = vti_group_whole(gr, from->n_tok);
    if (!from->last || !m->vmm->ops->store || m->max_runs == UINT64_MAX || gr->is_state)
        return false;
    if (vti_group_tail_bytes(gr, from->n_tok) == 0 || l->n_owned != p || p <= l->front)
        return false;
    vti_chunk c = vti_pset_chunk(&m->pset, from->at[group][p]);
    bool is_alone = c.n_user == 1 && c.n_node == 1; // the user is the match itself
    return is_alone && vti_pset_continues(&m->pset, l->at[p - 1], from->at[group][p]);
}

// The sequence gets the tail, the tree a copy. What making room for that took from the node is left
// alone: it is copied, as where the tail cannot be taken.
static vt_status take_tail(vt_seq *s, const share_source *from, uint32_t group)
{
    vt_manager *m = s->m;
    const vti_lane_geo *gr = &m->geo.group[group];
    const uint32_t p = vti_group_whole(gr, from->n_tok);
    uint32_t copy;
    VT_TRY(vti_surplus_unmap(m, s->span, group, p)); // mapped-free chunks of an earlier sequence
    VT_TRY(vti_chunk_make(m, group, &copy));
    if (!can_take_tail(s, from, group)) {
        vti_chunk_drop(m, copy);
        return VT_OK;
    }
    vt_status st = vti_lane_share(m, s->span, group, from->at[group], p, p + 1, VT_VMM_ALIAS);
    if (st == VT_OK) st = vti_lane_store(m, s->span, group, p, copy);
    if (st != VT_OK) {
        vti_chunk_drop(m, copy);
        return st;
    }
    vti_radix_replace(m->radix, from->last, group, p, copy);
    size_t end = (p + 1) * gr->slice_bytes; // rows of longer prefixes
    return vti_lane_zero(m, s->span, group, vti_group_bytes(gr, from->n_tok), end);
}

static vt_status share_all(vt_seq *s, const share_source *from)
{
    vt_manager *m = s->m;
    uint32_t first[VT_MAX_GROUP];
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        const vti_lane_geo *gr = &m->geo.group[g];
        uint32_t front = vti_group_passed(gr, from->n_tok), end = vti_group_whole(gr, from->n_tok);
        VT_TRY(vti_lane_alias(m, s->span, g, from->at[g], front, end > front ? end : front));
    }
    // Room for all that is copied is asked for before a prefix is evicted for the first of it. A
    // tail that is taken needs a chunk as one that is copied does.
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        if (!can_take_tail(s, from, g)) continue;
        VT_TRY(vti_seq_room(s, from->n_tok));
        VT_TRY(take_tail(s, from, g));
    }
    for (uint32_t g = 0; g < m->geo.n_group; g++) first[g] = s->span->lane[g].n_owned;
    VT_TRY(vti_seq_grow(s, from->n_tok));
    vti_seq_set_len(s, from->n_tok);
    for (uint32_t g = 0; g < m->geo.n_group; g++) VT_TRY(copy_lane(s, from, g, first[g]));
    return VT_OK;
}

static vt_status begin_with(vt_seq *s, const share_source *from)
{
    const bool was_held = vti_mapper_begins_nothing(s->m, true);
    vt_status st = share_all(s, from);
    (void)vti_mapper_begins_nothing(s->m, was_held);
    return st;
}

// ---- Fork

vt_status vti_seq_can_fork(const vt_seq *s, uint32_t len_tok)
{
    const vti_geo *g = &s->m->geo;
    if (len_tok > s->len_tok || vti_seq_is_away(s)) return VT_EINVAL;
    if (g->has_state && len_tok < s->len_tok) return VT_EINVAL;
    for (uint32_t i = 0; i < g->n_group; i++)
        if (s->span->lane[i].front > vti_group_passed(&g->group[i], len_tok)) return VT_EINVAL;
    return s->span->is_lost ? VT_EDEVICE : VT_OK;
}

static vt_status seq_fork(vt_seq *s, uint32_t len_tok, vt_seq **out)
{
    vt_manager *m = s->m;
    share_source from = {.n_tok = len_tok};
    VT_TRY(vti_seq_can_fork(s, len_tok));
    VT_TRY(vti_seq_make(m, len_tok, len_tok, out));
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        from.at[g] = s->span->lane[g].at;
        vti_lane_guard(m, s->span, g, vti_group_whole(&m->geo.group[g], len_tok));
    }
    vti_span_guard(m, s->span);
    vt_status st = begin_with(*out, &from);
    if (st != VT_OK) {
        vt_seq_release(*out);
        *out = NULL;
        return st;
    }
    if (s->node) vti_seq_set_node(*out, vti_node_within(m->radix, s->node, len_tok));
    if ((*out)->path_tok > s->path_tok) (*out)->path_tok = s->path_tok;
    vti_radix_note_fork(m->radix, (*out)->node, len_tok);
    return VT_OK;
}

vt_status vt_seq_fork(vt_seq *s, uint32_t len_tok, vt_seq **out)
{
    *out = NULL;
    return vti_tally_answer(s->m, seq_fork(s, len_tok, out));
}

// ---- Match

uint32_t vt_match(const vt_domain *d, const uint32_t *tok, uint32_t n_tok)
{
    return vti_radix_match(d, tok, n_tok).n_tok;
}

// What is copied needs a holder until then: making room may take the windows and states of nodes.
static void hold_copied(vt_manager *m, const share_source *from, bool hold)
{
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        const vti_lane_geo *gr = &m->geo.group[g];
        uint32_t p = vti_group_whole(gr, from->n_tok), end = vti_group_chunks(gr, from->n_tok);
        if (p < vti_group_passed(gr, from->n_tok)) p = vti_group_passed(gr, from->n_tok);
        for (; p < end; p++) {
            if (hold)
                vti_pset_user_hold(&m->pset, from->at[g][p]);
            else
                vti_pset_user_drop(&m->pset, from->at[g][p], VTI_IN_POOL, false);
        }
    }
}

// The nodes are referenced first, so that making room for the tail takes nothing from the path.
static vt_status match_into(vt_seq *s, vti_prefix hit)
{
    vt_manager *m = s->m;
    share_source from = {.n_tok = hit.n_tok, .last = hit.last};
    vti_radix_note_reuse(m->radix, hit.last);
    vti_seq_set_node(s, vti_node_within(m->radix, hit.node, hit.n_tok));
    vti_radix_ref(m->radix, hit.last);
    vti_radix_chunks(m->radix, hit, m->scratch);
    for (uint32_t g = 0; g < m->geo.n_group; g++) from.at[g] = m->scratch[g];
    hold_copied(m, &from, true);
    vt_status st = begin_with(s, &from);
    hold_copied(m, &from, false);
    vti_radix_touch(m->radix, hit.last);
    vti_radix_unref(m->radix, hit.last);
    return st;
}

static vt_status seq_match(vt_manager *m, vti_prefix hit, uint32_t expect_tok, vt_seq **out)
{
    VT_TRY(vti_seq_make(m, expect_tok, hit.n_tok, out));
    vt_status st = hit.n_tok > 0 ? match_into(*out, hit) : VT_OK;
    if (st == VT_OK) return VT_OK;
    vt_seq_release(*out);
    *out = NULL;
    return st;
}

vt_status vt_seq_match(vt_domain *d, const uint32_t *tok, uint32_t n_tok, uint32_t expect_tok,
                       vt_seq **out, uint32_t *n_hit)
{
    vt_manager *m = d->tree->owner;
    *out = NULL;
    *n_hit = 0;
    if (n_tok > m->geo.max_tok) return VT_EINVAL;
    vti_prefix hit = vti_radix_match(d, tok, n_tok);
    VT_TRY(vti_tally_answer(m, seq_match(m, hit, expect_tok > n_tok ? expect_tok : n_tok, out)));
    *n_hit = hit.n_tok;
    vti_arrival_note(m, hit.n_tok, n_tok);
    m->count.match_calls++;
    m->count.match_tok += n_tok;
    m->count.hit_tok += hit.n_tok;
    d->stats.match_calls++;
    d->stats.match_tok += n_tok;
    d->stats.hit_tok += hit.n_tok;
    return VT_OK;
}

// ---- Retention and blocks

static vt_status retain_node(vt_manager *m, vti_node *node, const vt_retention *keep)
{
    return vti_radix_retain(m->radix, node, keep, m->budget_bytes / 2);
}

// How many of the first n_tok tokens are whole blocks in chunks that are full.
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

// Points at[] to copies of the states, in chunks of their own.
static vt_status copy_states(vt_seq *s, const uint32_t **at)
{
    vt_manager *m = s->m;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        if (!m->geo.group[g].is_state) continue;
        for (uint32_t p = 0; p < m->geo.group[g].n_position; p++) m->scratch[g][p] = VTI_NO_CHUNK;
        at[g] = m->scratch[g];
        for (uint32_t p = 0; p < m->geo.group[g].n_position; p++) {
            VT_TRY(vti_chunk_make(m, g, &m->scratch[g][p]));
            VT_TRY(vti_lane_store(m, s->span, g, p, m->scratch[g][p]));
        }
    }
    return VT_OK;
}

// ---- Record

static vt_status push_blocks(vt_seq *s, vti_node *from, const uint32_t *tok, uint32_t n_tok,
                             vti_node **node)
{
    vt_manager *m = s->m;
    const uint32_t *at[VT_MAX_GROUP];
    vt_status st = VT_OK;
    // The chunk at each position that n_tok tokens have, also where a window has left, or had none.
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        vti_lane *l = &s->span->lane[g];
        VT_TRY(vti_lane_make_room(l, vti_group_chunks(&m->geo.group[g], n_tok)));
        at[g] = l->at;
    }
    uint32_t start = vti_node_end(from);
    vti_push push = {.from = from, .tok = tok + start, .start = start, .end = n_tok, .at = at};
    push.has_state = m->geo.has_state && n_tok == s->len_tok && m->max_runs < UINT64_MAX;
    if (push.has_state) st = copy_states(s, at);
    if (st == VT_OK) st = vti_radix_push(m->radix, &push, node);
    for (uint32_t g = 0; push.has_state && g < m->geo.n_group; g++)
        for (uint32_t p = 0; m->geo.group[g].is_state && p < m->geo.group[g].n_position; p++) {
            uint32_t copy = m->scratch[g][p]; // goes to the pool if the tree did not take it
            if (copy != VTI_NO_CHUNK && vti_pset_state(&m->pset, copy) == VT_CHUNK_SPARE)
                vti_chunk_drop(m, copy);
        }
    return st;
}

static vt_status record_blocks(vt_seq *s, vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                               const vt_retention *keep)
{
    vti_node *node;
    if (n_tok == 0) {
        vti_seq_set_node(s, d->root);
        return VT_OK;
    }
    uint32_t n_same = s->path_tok < n_tok ? s->path_tok : n_tok;
    vti_node *from = vti_radix_resume(d, s->node, tok, n_same);
    uint64_t mark = s->m->radix->n_id;
    VT_TRY(push_blocks(s, from, tok, n_tok, &node));
    // The guards are set in the next vt_step: a sequence that ends before that needs none. They are
    // needed also if the record is undone: nodes that were there may have taken chunks.
    const vti_geo *geo = &s->m->geo;
    for (uint32_t g = 0; g < geo->n_group; g++)
        if (!geo->group[g].is_state)
            vti_lane_guard(s->m, s->span, g, vti_group_chunks(&geo->group[g], n_tok));
    vt_status st = keep ? retain_node(s->m, node, keep) : VT_OK;
    if (st != VT_OK) {
        vti_radix_undo_push(s->m->radix, node, from, mark);
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
    if (n_tok > s->len_tok || vti_seq_is_away(s) || d->tree->owner != m) return VT_EINVAL;
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
    vti_prefix hit = vti_radix_match(d, tok, n_tok);
    vti_pending_drop(&s->pending);
    if (retained && hit.n_tok > 0) (void)retain_node(s->m, hit.last, &plain);
}

vt_status vt_retain(vt_domain *d, const uint32_t *tok, uint32_t n_tok, const vt_retention *keep,
                    uint32_t *n_hit)
{
    vt_manager *m = d->tree->owner;
    vti_prefix hit = vti_radix_match(d, tok, n_tok);
    if (n_hit) *n_hit = hit.n_tok;
    if (keep->priority > VT_MAX_PRIORITY) return VT_EINVAL;
    if (hit.n_tok == 0) return VT_OK;
    vti_radix_touch(m->radix, hit.last);
    return vti_tally_answer(m, retain_node(m, hit.last, keep));
}

// ---- Domains

vt_status vt_domain_open(vt_manager *m, const void *key, size_t key_bytes, vt_domain **out)
{
    enum { MAX_KEY_BYTES = 4096 };
    *out = NULL;
    if (key_bytes > MAX_KEY_BYTES) return VT_EINVAL;
    return vti_radix_open(m->radix, key, key_bytes, out);
}

void vt_domain_each(vt_manager *m,
                    bool (*fn)(void *ud, vt_domain *d, const void *key, size_t key_bytes), void *ud)
{
    const vti_radix *t = m->radix;
    for (size_t i = 0; i < t->n_domain; i++)
        if (!fn(ud, t->domain[i], t->domain[i]->key, t->domain[i]->key_bytes)) return;
}

uint32_t vt_events_take(vt_manager *m, vt_event *out, uint32_t max_n)
{
    return vti_events_take(m->radix->events, out, max_n);
}
