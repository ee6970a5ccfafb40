// share.c - VTS, what several sequences have in common: fork, match, record, and how long it stays.
//
//   fork     the chunks of the first len_tok tokens are mapped into a new span; the tail chunk too,
//            and whoever grows first copies it (seq.c)
//   match    the whole chunks of the longest recorded prefix are mapped into a new span; the chunk
//            that it fills in part is copied
//   record   the tree becomes another holder of the sequence's chunks; nothing is copied before the
//            sequence grows
//
// Where a sequence and the tree need a chunk each, the sequence gets the one that continues its run
// if it can, and the tree the other. So a conversation that is recorded, matched and goes on, turn
// after turn, is one run in each view still.
#include "internal.h"

// ---- Fork

static vt_status fork_into(vt_seq *s, uint32_t len_tok, vt_seq *child)
{
    const vti_geo *g = &s->m->geo;
    VT_TRY(vti_mend(s->m, s->span));
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
    return vti_answer(s->m, seq_fork(s, len_tok, out));
}

// ---- A tail that the tree holds too

// The prefixes that hold the chunk mapped at a position get a copy of its first size_bytes instead,
// in an attic. Pre: they are of the path that ends in `node`; there is room for a chunk.
static vt_status to_attic(vt_manager *m, const vti_span *sp, vti_node *node, uint32_t position,
                          size_t size_bytes)
{
    uint32_t attic, region = sp->at[position];
    VT_TRY(vti_pset_attic(&m->pset, position, &attic));
    VT_TRY(vti_palloc(m, attic, position, 1));
    vt_status st = vti_store(m, sp, position, attic, size_bytes);
    if (st != VT_OK) {
        (void)vti_pfree(m, attic, position, 1);
        return st;
    }
    vti_rtree_rename(m->rtree, node, position, region, attic);
    return VT_OK;
}

// Whether the prefixes that hold a chunk are all of the path that ends in `node`, and n_user spans
// hold it.
static bool held_by_path(const vt_manager *m, const vti_node *node, uint32_t position,
                         uint32_t region, uint32_t n_user)
{
    vti_chunk c = vti_pset_chunk(&m->pset, region, position);
    return node && c.n_user == n_user &&
           vti_rtree_names(m->rtree, node, position, region) == c.n_node;
}

// Where the sequence shares its tail chunk with prefixes of its own path alone, these get a copy,
// and the chunk is the sequence's. *is_kept: so it is now. Pre: there is room for a chunk.
vt_status vti_seq_keep_tail(vt_seq *s, bool *is_kept)
{
    vt_manager *m = s->m;
    uint32_t p = s->span->n_owned - 1;
    *is_kept = held_by_path(m, s->node, p, s->span->at[p], 1);
    if (!*is_kept) return VT_OK;
    // Rows beyond the length may be a longer prefix's.
    size_t size_bytes =
        s->tail_stale ? m->geo.slice_bytes : vti_geo_tail_bytes(&m->geo, s->len_tok);
    return to_attic(m, s->span, s->node, p, size_bytes);
}

// ---- Match

uint32_t vt_match(const vt_domain *d, const uint32_t *tok, uint32_t n_tok)
{
    return vti_rtree_match(d, tok, n_tok).n_tok;
}

// The rows of a prefix that fill their last chunk in part, into a chunk of the sequence's own.
static vt_status copy_tail(vt_seq *s, uint32_t n_hit, uint32_t region)
{
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    uint32_t p = sp->n_owned;
    VT_TRY(vti_seq_backing(s, n_hit));
    return vti_fetch(m, sp, p, region, vti_geo_tail_bytes(&m->geo, n_hit));
}

// Whether a conversation can go on where it ended: in the tail chunk itself, with its region for a
// home.
static bool can_go_on(const vt_seq *s, uint32_t region)
{
    const vt_manager *m = s->m;
    uint32_t p = s->span->n_owned, next = p + 1;
    bool has_place =
        next == m->geo.chunks_per_span || vti_pset_state(&m->pset, region, next) == VT_CHUNK_ABSENT;
    return m->pset.region[region].home_of == VTI_NO_SPAN && has_place &&
           s->span->at[p] == VTI_NO_REGION && held_by_path(m, s->node, p, region, 0);
}

// The other way round than copy_tail: the sequence gets the chunk, the tree the copy. What is in it
// of longer prefixes is wiped.
static vt_status take_tail(vt_seq *s, uint32_t n_hit, uint32_t region)
{
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    uint32_t p = sp->n_owned;
    VT_TRY(vti_make_room(m, sp, p + 1, 1));
    VT_TRY(vti_span_share(m, sp, p, 1, region, VT_VMM_WRITE));
    VT_TRY(to_attic(m, sp, s->node, p, m->geo.slice_bytes));
    return vti_zero(m, sp, p, vti_geo_tail_bytes(&m->geo, n_hit));
}

static vt_status tail_of(vt_seq *s, uint32_t n_hit, uint32_t region)
{
    return can_go_on(s, region) ? take_tail(s, n_hit, region) : copy_tail(s, n_hit, region);
}

static vt_status take_prefix(vt_seq *s, vti_prefix hit)
{
    vt_manager *m = s->m;
    uint32_t n_whole = vti_geo_whole(&m->geo, hit.n_tok);
    vti_rtree_regions(m->rtree, hit, m->scratch);
    VT_TRY(vti_span_alias(m, s->span, m->scratch, n_whole));
    if (vti_geo_tail_bytes(&m->geo, hit.n_tok) > 0)
        VT_TRY(tail_of(s, hit.n_tok, m->scratch[n_whole]));
    vti_seq_set_len(s, hit.n_tok);
    return VT_OK;
}

// The node is referenced first, and kept whole: nothing of the path goes while room is made for the
// tail.
static vt_status match_into(vt_seq *s, vti_prefix hit)
{
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
    VT_TRY(vti_answer(m, seq_match(m, hit, expect_tok > n_tok ? expect_tok : n_tok, out)));
    *n_hit = hit.n_tok;
    m->tally.match_calls++;
    m->tally.match_tok += n_tok;
    m->tally.hit_tok += hit.n_tok;
    return VT_OK;
}

// ---- Record and retain

static vt_status retain(vt_manager *m, vti_node *node, const vt_retention *keep)
{
    return vti_rtree_retain(m->rtree, node, keep, m->budget_chunks / 2, m->now_ms);
}

static vt_status seq_record(vt_seq *s, vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                            const vt_retention *keep)
{
    vt_manager *m = s->m;
    vti_node *node;
    if (n_tok > s->len_tok || s->swapped || vti_domain_owner(d) != m) return VT_EINVAL;
    if (keep && keep->priority > VT_MAX_PRIORITY) return VT_EINVAL;
    if (n_tok == 0) return VT_OK;
    VT_TRY(vti_mend(m, s->span));
    bool is_new = vt_match(d, tok, n_tok) < n_tok;
    VT_TRY(vti_rtree_push(m->rtree, d, tok, n_tok, s->span->at, &node));
    vt_status st = keep ? retain(m, node, keep) : VT_OK;
    if (st == VT_OK)
        vti_seq_set_node(s, node);
    else if (is_new)
        vti_rtree_drop(m->rtree, node);
    (void)vti_sweep(m); // a tail that this one supersedes; else it stays spare and counted
    return st;
}

vt_status vt_seq_record(vt_seq *s, vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                        const vt_retention *keep)
{
    return vti_answer(s->m, seq_record(s, d, tok, n_tok, keep));
}

// The edge in which it ends is cut there: what is behind stays worth what it was.
static vt_status retain_path(vt_manager *m, vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                             const vt_retention *keep)
{
    vti_node *node;
    if (keep->priority > VT_MAX_PRIORITY) return VT_EINVAL;
    VT_TRY(vti_rtree_push(m->rtree, d, tok, n_tok, NULL, &node));
    return retain(m, node, keep);
}

vt_status vt_retain(vt_domain *d, const uint32_t *tok, uint32_t n_tok, const vt_retention *keep,
                    uint32_t *n_hit)
{
    vt_manager *m = vti_domain_owner(d);
    uint32_t n_known = vt_match(d, tok, n_tok);
    if (n_hit) *n_hit = n_known;
    return n_known == 0 ? VT_OK : vti_answer(m, retain_path(m, d, tok, n_known, keep));
}

// ---- Domains

vt_status vt_domain_open(vt_manager *m, const void *key, size_t key_bytes, vt_domain **out)
{
    enum { MAX_KEY_BYTES = 4096 };
    *out = NULL;
    if (key_bytes > MAX_KEY_BYTES) return VT_EINVAL;
    return vti_rtree_open(m->rtree, key, key_bytes, out);
}

void vt_domain_close(vt_domain *d)
{
    if (d) vti_rtree_close(d);
}

vt_status vt_domain_forget(vt_domain *d)
{
    vt_manager *m = vti_domain_owner(d);
    vti_rtree_forget(d);
    return vti_sweep(m);
}
