// seq_share.c - fork and match: a new sequence that shares the chunks of another one, or of a
// recorded prefix.
//
//   fork     maps the chunks of the first len_tok tokens, the tail chunk too; the first of the two
//            to grow copies it (seq_tail.c)
//   match    maps the whole chunks of the longest recorded prefix, and copies the last one if the
//            prefix fills only part of it
#include "sequence.h"

#include "vtensor/common/try.h"

static vt_status fork_into(vt_seq *s, uint32_t len_tok, vt_seq *child)
{
    const vti_geo *g = &s->m->geo;
    VT_TRY(vti_span_repair(s->m, s->span));
    VT_TRY(vti_span_alias(s->m, child->span, s->span->at, vti_geo_chunks(g, len_tok)));
    child->tail_stale =
        vti_geo_tail_bytes(g, len_tok) > 0 && (len_tok < s->len_tok || s->tail_stale);
    vti_seq_set_len(child, len_tok);
    vti_seq_set_node(child, s->node);
    return VT_OK;
}

static vt_status seq_fork(vt_seq *s, uint32_t len_tok, vt_seq **out)
{
    vt_manager *m = s->m;
    if (len_tok > s->len_tok || s->swapped) return VT_EINVAL;
    VT_TRY(vti_seq_make(m, 0, vti_geo_chunks(&m->geo, len_tok), out));
    vt_status st = fork_into(s, len_tok, *out);
    if (st == VT_OK) return VT_OK;
    vt_seq_release(*out);
    *out = NULL;
    return st;
}

vt_status vt_seq_fork(vt_seq *s, uint32_t len_tok, vt_seq **out)
{
    *out = NULL;
    return vti_tally_answer(s->m, seq_fork(s, len_tok, out));
}

// ---- Match

uint32_t vt_match(const vt_domain *d, const uint32_t *tok, uint32_t n_tok)
{
    return vti_rtree_match(d, tok, n_tok).n_tok;
}

// Copies the rows of the prefix's partly filled last chunk into a chunk of the sequence's own.
static vt_status copy_tail(vt_seq *s, uint32_t n_hit, uint32_t region)
{
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    uint32_t p = sp->n_owned;
    VT_TRY(vti_seq_grow(s, n_hit));
    return vti_span_fetch(m, sp, p, region, vti_geo_tail_bytes(&m->geo, n_hit));
}

// Whether a conversation can continue in the tail chunk itself, with the chunk's region as home.
static bool can_continue_tail(const vt_seq *s, uint32_t region)
{
    const vt_manager *m = s->m;
    uint32_t p = s->span->n_owned, next = p + 1;
    bool has_place =
        next == m->geo.chunks_per_span || vti_pset_state(&m->pset, region, next) == VT_CHUNK_ABSENT;
    return m->pset.region[region].home_of == VTI_NO_SPAN && has_place &&
           s->span->at[p] == VTI_NO_REGION && vti_tail_held_by_path(m, s->node, p, region, 0);
}

// The reverse of copy_tail: the sequence gets the chunk, the tree the copy. Rows of longer prefixes
// in the chunk are wiped.
static vt_status take_tail(vt_seq *s, uint32_t n_hit, uint32_t region)
{
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    uint32_t p = sp->n_owned;
    VT_TRY(vti_room_make(m, sp, p + 1, 1));
    VT_TRY(vti_span_share(m, sp, p, 1, region, VT_VMM_WRITE));
    VT_TRY(vti_tail_copy_to_tree(m, sp, s->node, p, m->geo.slice_bytes));
    return vti_span_zero(m, sp, p, vti_geo_tail_bytes(&m->geo, n_hit));
}

static vt_status share_tail(vt_seq *s, uint32_t n_hit, uint32_t region)
{
    return can_continue_tail(s, region) ? take_tail(s, n_hit, region) : copy_tail(s, n_hit, region);
}

static vt_status take_prefix(vt_seq *s, vti_prefix hit)
{
    vt_manager *m = s->m;
    uint32_t n_whole = vti_geo_whole(&m->geo, hit.n_tok);
    vti_rtree_regions(m->rtree, hit, m->scratch);
    VT_TRY(vti_span_alias(m, s->span, m->scratch, n_whole));
    if (vti_geo_tail_bytes(&m->geo, hit.n_tok) > 0)
        VT_TRY(share_tail(s, hit.n_tok, m->scratch[n_whole]));
    vti_seq_set_len(s, hit.n_tok);
    return VT_OK;
}

// The node is referenced and kept whole first, so that making room for the tail takes nothing from
// the path.
static vt_status match_into(vt_seq *s, vti_prefix hit)
{
    vti_rtree_note_reuse(s->m->rtree, hit.node);
    vti_seq_set_node(s, hit.node);
    vti_rtree_keep_whole(s->m->rtree, hit.node);
    vt_status st = take_prefix(s, hit);
    vti_rtree_keep_whole(s->m->rtree, NULL);
    return st;
}

static vt_status seq_match(vt_manager *m, vti_prefix hit, uint32_t expect_tok, vt_seq **out)
{
    VT_TRY(vti_seq_make(m, expect_tok, vti_geo_whole(&m->geo, hit.n_tok), out));
    vt_status st = hit.n_tok > 0 ? match_into(*out, hit) : VT_OK;
    if (st == VT_OK) return VT_OK;
    vt_seq_release(*out);
    *out = NULL;
    return st;
}

vt_status vt_seq_match(vt_domain *d, const uint32_t *tok, uint32_t n_tok, uint32_t expect_tok,
                       vt_seq **out, uint32_t *n_hit)
{
    vt_manager *m = vti_domain_owner(d);
    *out = NULL;
    *n_hit = 0;
    if (n_tok > m->geo.max_tok) return VT_EINVAL;
    vti_prefix hit = vti_rtree_match(d, tok, n_tok);
    VT_TRY(vti_tally_answer(m, seq_match(m, hit, expect_tok > n_tok ? expect_tok : n_tok, out)));
    *n_hit = hit.n_tok;
    m->tally.match_calls++;
    m->tally.match_tok += n_tok;
    m->tally.hit_tok += hit.n_tok;
    return VT_OK;
}
