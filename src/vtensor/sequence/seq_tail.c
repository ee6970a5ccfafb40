// seq_tail.c - the last chunk of a sequence where it is filled in part, before rows are written
// behind them: a chunk that others share is copied, stale rows are wiped.
//
// Where the sequence and the tree need a chunk each, the sequence keeps the one that continues its
// run and the tree gets the copy, if the prefixes that hold the chunk all lie on the sequence's own
// path. So a conversation that is recorded, matched and goes on, turn after turn, stays one run in
// each view.
#include "sequence.h"

#include "vtensor/common/try.h"

// ---- A tail that the tree holds too

// The prefixes that hold the chunk mapped at a position get a copy of its first size_bytes instead,
// in an attic. Pre: they are of the path that ends in `node`; there is room for a chunk.
vt_status vti_tail_copy_to_tree(vt_manager *m, const vti_span *sp, vti_node *node,
                                uint32_t position, size_t size_bytes)
{
    uint32_t attic, region = sp->at[position];
    VT_TRY(vti_pset_tree_region(&m->pset, position, &attic));
    VT_TRY(vti_chunks_alloc(m, attic, position, 1));
    vt_status st = vti_span_store(m, sp, position, attic, size_bytes);
    if (st != VT_OK) {
        (void)vti_chunks_free(m, attic, position, 1);
        return st;
    }
    vti_rtree_rename(m->rtree, node, position, region, attic);
    return VT_OK;
}

// Whether the prefixes that hold a chunk are all of the path that ends in `node`, and n_user spans
// hold it.
bool vti_tail_held_by_path(const vt_manager *m, const vti_node *node, uint32_t position,
                           uint32_t region, uint32_t n_user)
{
    vti_chunk c = vti_pset_chunk(&m->pset, region, position);
    return node && c.n_user == n_user &&
           vti_rtree_names(m->rtree, node, position, region) == c.n_node;
}

// Where the sequence shares its tail chunk with prefixes of its own path alone, these get a copy,
// and the chunk is the sequence's. *is_kept: so it is now. Pre: there is room for a chunk.
static vt_status keep_tail(vt_seq *s, bool *is_kept)
{
    vt_manager *m = s->m;
    uint32_t p = s->span->n_owned - 1;
    *is_kept = vti_tail_held_by_path(m, s->node, p, s->span->at[p], 1);
    if (!*is_kept) return VT_OK;
    // Rows beyond the length may be a longer prefix's.
    size_t size_bytes =
        s->tail_stale ? m->geo.slice_bytes : vti_geo_tail_bytes(&m->geo, s->len_tok);
    return vti_tail_copy_to_tree(m, s->span, s->node, p, size_bytes);
}

// ---- A tail that is to be written

// Bytes of the tail chunk in each view, if the sequence may not write behind them as it is; 0: it
// may.
size_t vti_tail_blocked(const vt_seq *s)
{
    const vti_span *sp = s->span;
    size_t tail_bytes = vti_geo_tail_bytes(&s->m->geo, s->len_tok);
    if (tail_bytes == 0) return 0;
    uint32_t p = sp->n_owned - 1;
    if (sp->at[p] == VTI_NO_REGION) return 0; // in the swap, so it was its own
    bool shared = vti_pset_state(&s->m->pset, sp->at[p], p) == VT_CHUNK_SHARED;
    return shared || s->tail_stale ? tail_bytes : 0;
}

static bool tail_is_shared(const vt_seq *s)
{
    const vti_span *sp = s->span;
    uint32_t p = sp->n_owned - 1;
    return vti_pset_state(&s->m->pset, sp->at[p], p) == VT_CHUNK_SHARED;
}

// With no room for a copy: whether only the sequence's own prefix shared the tail, which is shorter
// now.
static bool tail_is_given_up(vt_seq *s)
{
    const vti_span *sp = s->span;
    uint32_t p = sp->n_owned - 1;
    if (vti_pset_chunk(&s->m->pset, sp->at[p], p).n_user > 1) return false;
    s->m->tally.prefix_evicted++;
    return vti_rtree_give_up(s->m->rtree, s->node, p);
}

// A chunk for the sequence or for the tree, whoever is easier to serve. Room is made for all that
// is coming, so that what is done first is not done in vain.
static vt_status tail_unshare(vt_seq *s, size_t tail_bytes, uint32_t n_chunk)
{
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    uint32_t p = sp->n_owned - 1, end = n_chunk > p ? n_chunk : p + 1;
    bool is_kept;
    vt_status st = vti_room_make(m, sp, end, 1 + vti_span_cold_chunks(sp, n_chunk));
    if (st == VT_NOSPACE && tail_is_given_up(s))
        st = vti_room_make(m, sp, end, vti_span_cold_chunks(sp, n_chunk));
    VT_TRY(st);
    if (!tail_is_shared(s)) return VT_OK; // room has come from those who shared it
    VT_TRY(keep_tail(s, &is_kept));
    if (is_kept) return VT_OK;
    VT_TRY(vti_span_home(m, sp, p, end));
    VT_TRY(vti_room_make(m, sp, end,
                         1 + vti_span_cold_chunks(sp, n_chunk))); // a new home has no warm ones
    VT_TRY(vti_span_unshare(m, sp, p, tail_bytes));
    s->tail_stale = false;
    return VT_OK;
}

vt_status vti_tail_make_writable(vt_seq *s, size_t tail_bytes, uint32_t n_chunk)
{
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    vti_job_settle(m, sp);
    VT_TRY(vti_span_repair(m, sp));
    (void)vti_spans_reap(m, VTI_REAP_NOW); // one of them may have been the last other holder
    if (tail_is_shared(s)) VT_TRY(tail_unshare(s, tail_bytes, n_chunk));
    if (s->tail_stale) {
        VT_TRY(vti_span_await_fence(m, sp));
        VT_TRY(vti_span_zero(m, sp, sp->n_owned - 1, tail_bytes));
    }
    s->tail_stale = false;
    return VT_OK;
}
