// seq_life.c - creating and releasing a sequence, what is recorded when it ends, and the getters.
//
// Until a sequence is released it may write to its tail, so the tail cannot have another holder.
// The tokens that a record could not share yet are kept, and recorded when the sequence ends: then
// the tree becomes a holder of the chunk itself, and nothing is copied.
#include "sequence.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

vt_status vti_seq_make(vt_manager *m, uint32_t expect_tok, uint32_t alias_tok, vt_seq **out)
{
    *out = NULL;
    if (m->n_seq == m->geo.max_seq) return VT_NOSPANS;
    vti_jobs_take(m);
    vt_seq *s = calloc(1, sizeof *s);
    if (!s) return VT_ENOMEM;
    vti_span *sp;
    vt_status st = vti_span_take(m, expect_tok, alias_tok, &sp);
    if (st != VT_OK) {
        free(s);
        return st;
    }
    *s = (vt_seq){.m = m, .span = sp};
    sp->seq = s;
    m->n_seq++;
    *out = s;
    return VT_OK;
}

vt_status vt_seq_create(vt_manager *m, uint32_t expect_tok, vt_seq **out)
{
    VT_TRY(vti_tally_answer(m, vti_seq_make(m, expect_tok, 0, out)));
    vti_arrival_note(m, 0, expect_tok);
    return VT_OK;
}

VTI_HOT uint64_t vti_seq_live_bytes(const vt_seq *s)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < s->m->geo.n_group; g++) {
        const vti_lane_geo *gr = &s->m->geo.group[g];
        size_t all = vti_group_bytes(gr, s->len_tok),
               gone = s->span->lane[g].front * gr->slice_bytes;
        if (all > gone) n += gr->n_view * (all - gone);
    }
    return n;
}

// Bytes beyond the length in its tails, which are never shared.
VTI_HOT uint64_t vti_seq_slack_bytes(const vt_seq *s)
{
    uint64_t n = 0;
    if (vti_seq_is_away(s)) return 0;
    for (uint32_t g = 0; g < s->m->geo.n_group; g++) {
        const vti_lane_geo *gr = &s->m->geo.group[g];
        size_t all = vti_group_bytes(gr, s->len_tok);
        if (all > 0) n += gr->n_view * (s->span->lane[g].n_owned * gr->slice_bytes - all);
    }
    return n;
}

VTI_HOT void vti_seq_count_slack(vt_seq *s)
{
    s->m->slack_bytes -= s->slack_bytes;
    s->slack_bytes = vti_seq_slack_bytes(s);
    s->m->slack_bytes += s->slack_bytes;
}

VTI_HOT void vti_seq_set_len(vt_seq *s, uint32_t len_tok)
{
    vt_manager *m = s->m;
    s->len_tok = len_tok;
    m->live_bytes -= s->live_bytes;
    s->live_bytes = vti_seq_live_bytes(s);
    m->live_bytes += s->live_bytes;
    if (m->live_bytes > m->count.peak_live_bytes) m->count.peak_live_bytes = m->live_bytes;
    vti_seq_count_slack(s);
    vti_span_set_due(&m->vset, s->span);
}

// A prefix counts as used while a sequence references it: its idle time begins when that ends.
void vti_seq_set_node(vt_seq *s, vti_node *node)
{
    vti_radix *t = s->m->radix;
    if (node) vti_radix_ref(t, node);
    if (s->node) {
        vti_radix_touch(t, s->node);
        vti_radix_unref(t, s->node);
    }
    s->node = node;
    s->path_tok = node ? vti_node_end(node) : 0;
}

// ---- Pending: what a record could not share yet

void vti_pending_drop(vti_pending *p)
{
    if (p->domain) vt_domain_close(p->domain);
    free(p->tok);
    *p = (vti_pending){0};
}

vt_status vti_pending_set(vt_seq *s, vt_domain *d, uint32_t first, const uint32_t *tok,
                          uint32_t n_tok, const vt_retention *keep)
{
    size_t n = n_tok - first;
    uint32_t *copy = n > 0 ? malloc(n * sizeof *copy) : NULL;
    if (n > 0 && !copy) return VT_ENOMEM;
    d->n_open++;
    vti_pending_drop(&s->pending);
    if (n == 0) {
        vt_domain_close(d);
        return VT_OK;
    }
    memcpy(copy, tok + first, n * sizeof *copy);
    s->pending =
        (vti_pending){.domain = d, .epoch = d->epoch, .first = first, .n_tok = n_tok, .tok = copy};
    s->pending.has_keep = keep != NULL;
    if (keep) s->pending.keep = *keep;
    return VT_OK;
}

static void record_now(vt_seq *s)
{
    vt_manager *m = s->m;
    const vti_pending *p = &s->pending;
    const uint32_t *at[VT_MAX_GROUP];
    vti_node *from = p->first == 0 ? p->domain->root : s->node, *node;
    bool is_there = from && from->domain && vti_node_end(from) == p->first;
    if (!is_there) return;
    for (uint32_t g = 0; g < m->geo.n_group; g++) at[g] = s->span->lane[g].at;
    vti_push push = {.from = from,
                     .tok = p->tok,
                     .start = p->first,
                     .end = p->n_tok,
                     .at = at,
                     .has_state = p->n_tok == s->len_tok};
    if (vti_radix_push(m->radix, &push, &node) != VT_OK) return;
    if (p->has_keep) (void)vti_radix_retain(m->radix, node, &p->keep, m->budget_bytes / 2);
}

// A chunk that is not mapped now has no rows to share.
static bool all_is_mapped(const vt_seq *s)
{
    for (uint32_t g = 0; g < s->m->geo.n_group; g++) {
        const vti_lane *l = &s->span->lane[g];
        if (vti_lane_count_unmapped(l, l->front, l->n_owned) > 0) return false;
    }
    return !s->span->is_lost && !vti_seq_is_away(s);
}

// ---- Release

void vti_move_end(vt_seq *s)
{
    vti_move *mv = s->move;
    *(mv->newer ? &mv->newer->older : &s->m->moves) = mv->older;
    if (mv->older) mv->older->newer = mv->newer;
    free(mv);
    s->move = NULL;
    vti_seq_count_slack(s);
    vti_span_set_due(&s->m->vset, s->span);
}

void vt_seq_release(vt_seq *s)
{
    if (!s) return;
    vt_manager *m = s->m;
    vti_jobs_take(m);
    const vti_pending *p = &s->pending;
    bool is_wanted = p->domain && p->epoch == p->domain->epoch;
    if (is_wanted && p->n_tok > p->first && all_is_mapped(s)) record_now(s);
    vti_pending_drop(&s->pending);
    if (s->move) { // nothing copies its rows any longer, and its lanes are its own
        vti_job_settle(m, &s->move->copy.job);
        vti_span_settle(m, s->span);
        m->runs_reserved -= s->move->n_run;
        vti_move_end(s);
    }
    vti_seq_set_len(s, 0);
    vti_seq_set_node(s, NULL);
    vti_swap_forget(s);
    vti_span_retire(m, s->span);
    m->n_seq--;
    free(s);
    vti_spare_return_ahead(m);
}

// ---- Getters

void *vt_seq_plane(const vt_seq *s, uint32_t plane)
{
    const vti_geo *g = &s->m->geo;
    assert(plane < g->n_plane);
    const vti_lane_geo *gr = vti_geo_group_of(g, plane);
    uintptr_t base = vti_lane_addr(g, s->span, (uint32_t)(gr - g->group), 0, 0);
    return (void *)(base + vti_group_plane_at(gr, plane));
}

size_t vt_seq_stride(const vt_seq *s)
{
    return s->m->geo.group[0].stride_bytes;
}

size_t vt_seq_plane_stride(const vt_seq *s)
{
    return s->m->geo.group[0].plane_stride;
}

size_t vt_plane_stride(const vt_manager *m, uint32_t plane)
{
    const vti_lane_geo *gr = vti_geo_group_of(&m->geo, plane);
    return gr->is_state ? 0 : gr->stride_bytes;
}

size_t vt_plane_distance(const vt_manager *m, uint32_t plane)
{
    return vti_geo_group_of(&m->geo, plane)->plane_stride;
}

uint32_t vt_view_planes(const vt_manager *m, uint32_t plane)
{
    return vti_geo_group_of(&m->geo, plane)->view_planes;
}

size_t vt_view_distance(const vt_manager *m, uint32_t plane)
{
    return vti_geo_group_of(&m->geo, plane)->view_stride;
}

uint32_t vt_seq_front(const vt_seq *s, uint32_t plane)
{
    const vti_geo *g = &s->m->geo;
    const vti_lane_geo *gr = vti_geo_group_of(g, plane);
    size_t gone = s->span->lane[gr - g->group].front * gr->slice_bytes;
    size_t n_row = (gone + gr->stride_bytes - 1) / gr->stride_bytes;
    return gr->is_state ? 0 : (uint32_t)n_row * gr->row_tok;
}

uint32_t vt_seq_len(const vt_seq *s)
{
    return s->len_tok;
}

bool vt_seq_is_swapped(const vt_seq *s)
{
    return vti_seq_is_away(s);
}

bool vt_seq_is_lost(const vt_seq *s)
{
    return s->span->is_lost;
}

// Whether the next rows may be written as the lane is.
static bool lane_is_ready(const vt_seq *s, uint32_t group)
{
    const vti_lane_geo *gr = &s->m->geo.group[group];
    const vti_lane *l = &s->span->lane[group];
    uint32_t p = vti_group_whole(gr, s->len_tok);
    if (l->n_owned < l->held1 || vti_group_bytes(gr, s->len_tok) < l->dirty_end) return false;
    if (gr->is_state || vti_group_tail_bytes(gr, s->len_tok) == 0) return true;
    return l->n_ro <= p && vti_pset_state(&s->m->pset, l->at[p]) == VT_CHUNK_OWNED;
}

uint32_t vti_seq_mapped_tok(const vt_seq *s)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t g = 0; g < s->m->geo.n_group; g++) {
        const vti_lane *l = &s->span->lane[g];
        uint32_t end = l->n_end > l->n_owned ? l->n_end : l->n_owned;
        uint32_t p = vti_lane_first_unmapped(l, l->n_owned, end);
        uint32_t n_tok = vti_group_tokens(&s->m->geo.group[g], p);
        if (n_tok < least) least = n_tok;
    }
    return least;
}

uint32_t vt_seq_backed(const vt_seq *s)
{
    if (vti_seq_is_away(s) || s->span->is_lost) return s->len_tok;
    for (uint32_t g = 0; g < s->m->geo.n_group; g++)
        if (!lane_is_ready(s, g)) return s->len_tok;
    uint32_t least = vti_seq_mapped_tok(s);
    if (least > s->m->geo.max_tok) least = s->m->geo.max_tok;
    return least > s->len_tok ? least : s->len_tok;
}

uint64_t vt_bytes_for(const vt_manager *m, uint32_t len_tok)
{
    uint64_t n = 0;
    if (len_tok > m->geo.max_tok) len_tok = m->geo.max_tok;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        const vti_lane_geo *gr = &m->geo.group[g];
        n += (vti_group_chunks(gr, len_tok) - vti_group_passed(gr, len_tok)) *
             (uint64_t)gr->chunk_bytes;
    }
    return n;
}

uint64_t vt_held_bytes(const vt_manager *m)
{
    return vti_pset_bytes(&m->pset, VT_CHUNK_OWNED) + vti_pset_bytes(&m->pset, VT_CHUNK_SHARED);
}

uint64_t vt_mappings_for(const vt_manager *m, const vt_seq *s)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        const uint64_t n_run = s && !vti_seq_is_away(s) ? s->span->lane[g].n_run : 0;
        n += (n_run + 1 > 2 ? n_run + 1 : 2) * m->geo.group[g].n_view;
    }
    return n;
}
