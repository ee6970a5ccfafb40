// seq_tail.c - makes a partly filled last chunk writable before rows are added to it: a chunk that
// others share is copied, stale rows are wiped.
//
// Where the sequence and the tree need a chunk each, the sequence keeps the one that continues its
// run and the tree gets the copy, if the prefixes that hold the chunk all lie on the sequence's own
// path. So a conversation that is recorded, matched and continued turn after turn stays one run in
// each view.
#include "sequence.h"

#include "vtensor/common/try.h"

// ---- A tail that the tree holds too

vt_status vti_tail_copy_to_tree(vt_manager *m, const vti_span *sp, vti_node *node,
                                uint32_t position, size_t size_bytes)
{
    uint32_t copy, region = sp->at[position];
    VT_TRY(vti_pset_tree_region(&m->pset, position, &copy));
    VT_TRY(vti_chunks_alloc(m, copy, position, 1));
    vt_status st = vti_span_store(m, sp, position, copy, size_bytes);
    if (st != VT_OK) {
        (void)vti_chunks_free(m, copy, position, 1);
        return st;
    }
    vti_rtree_rename(m->rtree, node, position, region, copy);
    return VT_OK;
}

bool vti_tail_held_by_path(const vt_manager *m, const vti_node *node, uint32_t position,
                           uint32_t region, uint32_t n_user)
{
    vti_chunk c = vti_pset_chunk(&m->pset, region, position);
    return node && c.n_user == n_user &&
           vti_rtree_names(m->rtree, node, position, region) == c.n_node;
}

// If the sequence shares its tail chunk with prefixes of its own path alone, they get a copy and
// the sequence keeps the chunk. *is_kept: it did. Pre: there is room for a chunk.
static vt_status keep_tail(vt_seq *s, bool *is_kept)
{
    vt_manager *m = s->m;
    uint32_t p = s->span->n_owned - 1;
    *is_kept = vti_tail_held_by_path(m, s->node, p, s->span->at[p], 1);
    if (!*is_kept) return VT_OK;
    // Rows beyond the length may belong to a longer prefix.
    size_t size_bytes =
        s->tail_stale ? m->geo.slice_bytes : vti_geo_tail_bytes(&m->geo, s->len_tok);
    return vti_tail_copy_to_tree(m, s->span, s->node, p, size_bytes);
}

// ---- A tail that is to be written

size_t vti_tail_blocked(const vt_seq *s)
{
    const vti_span *sp = s->span;
    size_t tail_bytes = vti_geo_tail_bytes(&s->m->geo, s->len_tok);
    if (tail_bytes == 0) return 0;
    uint32_t p = sp->n_owned - 1;
    if (sp->at[p] == VTI_NO_REGION) return 0; // swapped out, so it was not shared
    bool shared = vti_pset_state(&s->m->pset, sp->at[p], p) == VT_CHUNK_SHARED;
    return shared || s->tail_stale ? tail_bytes : 0;
}

static bool tail_is_shared(const vt_seq *s)
{
    const vti_span *sp = s->span;
    uint32_t p = sp->n_owned - 1;
    return vti_pset_state(&s->m->pset, sp->at[p], p) == VT_CHUNK_SHARED;
}

// Called if there is no room for a copy. If only the sequence's own prefix shares the tail, cuts
// that prefix shorter. True: the tail is no longer shared.
static bool cut_own_prefix(vt_seq *s)
{
    const vti_span *sp = s->span;
    uint32_t p = sp->n_owned - 1;
    if (vti_pset_chunk(&s->m->pset, sp->at[p], p).n_user > 1) return false;
    s->m->tally.prefix_evicted++;
    return vti_rtree_cut_tail(s->m->rtree, s->node, p);
}

// Either the sequence or the tree gets a new chunk, whichever is easier to serve. Room is made for
// all chunks of the extend first, so that a later step does not fail.
static vt_status tail_unshare(vt_seq *s, size_t tail_bytes, uint32_t n_chunk)
{
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    uint32_t p = sp->n_owned - 1, end = n_chunk > p ? n_chunk : p + 1;
    bool is_kept;
    vt_status st = vti_room_make(m, sp, end, 1 + vti_span_cold_chunks(sp, n_chunk));
    if (st == VT_NOSPACE && cut_own_prefix(s))
        st = vti_room_make(m, sp, end, vti_span_cold_chunks(sp, n_chunk));
    VT_TRY(st);
    if (!tail_is_shared(s)) return VT_OK; // making room has ended the sharing
    VT_TRY(keep_tail(s, &is_kept));
    if (is_kept) return VT_OK;
    VT_TRY(vti_span_home(m, sp, p, end));
    // a new home has no warm chunks
    VT_TRY(vti_room_make(m, sp, end, 1 + vti_span_cold_chunks(sp, n_chunk)));
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
    (void)vti_spans_reap(m, VTI_REAP_NOW); // one may have been the last other holder
    if (tail_is_shared(s)) VT_TRY(tail_unshare(s, tail_bytes, n_chunk));
    if (s->tail_stale) {
        VT_TRY(vti_span_await_fence(m, sp));
        VT_TRY(vti_span_zero(m, sp, sp->n_owned - 1, tail_bytes));
    }
    s->tail_stale = false;
    return VT_OK;
}
