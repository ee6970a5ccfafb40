// seq.c - VTS, what a scheduler calls for one sequence: create, extend, truncate, release.
//
//   create    an idle span, wiped, or a new one; no chunk becomes the sequence's yet
//   extend    a shared tail is copied first, or its stale rows wiped; then warm chunks become the
//             sequence's at once, the others after they were created and mapped
//   truncate  chunks that nobody else holds stay warm behind the new end, the others are unmapped
//   release   the same with all of them, once the device has done with it; then the longest idle
//             give back what is beyond spare_high_bytes
#include "internal.h"

#include <stdlib.h>

vt_status vti_seq_make(vt_manager *m, uint32_t expect_tok, uint32_t n_alias, vt_seq **out)
{
    *out = NULL;
    vti_jobs_take(m);
    vt_seq *s = calloc(1, sizeof *s);
    if (!s) return VT_ENOMEM;
    vti_span *sp;
    vt_status st = vti_span_take(m, expect_tok, n_alias, &sp);
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
    return vti_answer(m, vti_seq_make(m, expect_tok, 0, out));
}

void vti_seq_set_len(vt_seq *s, uint32_t len_tok)
{
    vt_manager *m = s->m;
    m->live_tok = m->live_tok - s->len_tok + len_tok;
    s->len_tok = len_tok;
    if (m->live_tok > m->tally.peak_tok) m->tally.peak_tok = m->live_tok;
}

// A prefix is used for as long as somebody holds it, so its idle time begins where this ends.
void vti_seq_set_node(vt_seq *s, vti_node *node)
{
    vti_rtree *t = s->m->rtree;
    if (node) vti_rtree_ref(t, node);
    if (s->node) {
        vti_rtree_touch(t, s->node);
        vti_rtree_unref(t, s->node);
    }
    s->node = node;
}

static bool is_torn(const vti_span *sp)
{
    return sp->n_lifted > 0 || (sp->tear.n > 0 && sp->tear.first < sp->n_owned);
}

// ---- Extend

// Bytes of the tail chunk in each view, if the sequence may not write behind them as it is; 0: it
// may.
static size_t tail_in_the_way(const vt_seq *s)
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

// Chunks that warm ones do not cover on the way to n_chunk.
static uint32_t cold_chunks(const vti_span *sp, uint32_t n_chunk)
{
    uint32_t n = 0;
    for (uint32_t p = sp->n_owned; p < n_chunk; p++) n += sp->at[p] == VTI_NO_REGION;
    return n;
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
    vt_status st = vti_make_room(m, sp, end, 1 + cold_chunks(sp, n_chunk));
    if (st == VT_NOSPACE && tail_is_given_up(s))
        st = vti_make_room(m, sp, end, cold_chunks(sp, n_chunk));
    VT_TRY(st);
    if (!tail_is_shared(s)) return VT_OK; // room has come from those who shared it
    VT_TRY(vti_seq_keep_tail(s, &is_kept));
    if (is_kept) return VT_OK;
    VT_TRY(vti_span_home(m, sp, p, end));
    VT_TRY(vti_make_room(m, sp, end, 1 + cold_chunks(sp, n_chunk))); // a new home has no warm ones
    VT_TRY(vti_span_unshare(m, sp, p, tail_bytes));
    s->tail_stale = false;
    return VT_OK;
}

static vt_status tail_free(vt_seq *s, size_t tail_bytes, uint32_t n_chunk)
{
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    vti_job_settle(m, sp);
    VT_TRY(vti_mend(m, sp));
    (void)vti_retired_reap(m, VTI_REAP_NOW); // one of them may have been the last other holder
    if (tail_is_shared(s)) VT_TRY(tail_unshare(s, tail_bytes, n_chunk));
    if (s->tail_stale) {
        VT_TRY(vti_await_mark(m, sp));
        VT_TRY(vti_zero(m, sp, sp->n_owned - 1, tail_bytes));
    }
    s->tail_stale = false;
    return VT_OK;
}

// The warm stretch from n_owned on becomes the sequence's.
static vt_status take_warm(vt_manager *m, vti_span *sp, uint32_t n_chunk)
{
    uint32_t first = sp->n_owned, p = first;
    while (p < n_chunk && sp->at[p] != VTI_NO_REGION) p++;
    if (first < sp->n_dirty) VT_TRY(vti_await_mark(m, sp));
    for (uint32_t dirty = first; dirty < p && dirty < sp->n_dirty; dirty++)
        VT_TRY(vti_zero(m, sp, dirty, 0));
    sp->n_warm -= p - first;
    vti_span_hold(m, sp, first, p - first);
    return VT_OK;
}

static vt_status chunks_add(vt_manager *m, vti_span *sp, uint32_t n_chunk)
{
    if (cold_chunks(sp, n_chunk) > 0) {
        vti_job_settle(m, sp);
        VT_TRY(vti_span_home(m, sp, sp->n_owned, n_chunk)); // for all, so that all can be given up
        VT_TRY(vti_make_room(m, sp, n_chunk, cold_chunks(sp, n_chunk)));
    }
    VT_TRY(take_warm(m, sp, n_chunk));
    for (uint32_t n; sp->n_owned < n_chunk;) {
        VT_TRY(vti_span_back(m, sp, sp->n_owned, n_chunk, &n));
        VT_TRY(take_warm(m, sp, n_chunk));
    }
    return VT_OK;
}

// Chunks up to n_chunk become the sequence's, or none do. Those made in vain go back to the system.
static vt_status chunks_grow(vt_manager *m, vti_span *sp, uint32_t n_chunk)
{
    uint32_t had = sp->n_owned, cold = had;
    while (cold < n_chunk && sp->at[cold] != VTI_NO_REGION) cold++;
    vt_status st = chunks_add(m, sp, n_chunk);
    m->tally.ready_hits += st == VT_OK && cold == n_chunk;
    m->tally.ready_misses += st == VT_OK && cold != n_chunk;
    if (st == VT_OK) return VT_OK;
    uint32_t was_dirty = sp->n_dirty;
    (void)vti_span_drop(m, sp, had); // of chunks just made, which stay warm: nothing is unmapped
    sp->n_dirty = was_dirty;
    (void)vti_span_shed(m, sp, cold, n_chunk, UINT32_MAX);
    return st;
}

vt_status vti_seq_backing(vt_seq *s, uint32_t len_tok)
{
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    if (len_tok > m->geo.max_tok || s->swapped) return VT_EINVAL;
    uint32_t need = vti_geo_chunks(&m->geo, len_tok);
    size_t tail_bytes = tail_in_the_way(s);
    if (tail_bytes > 0) VT_TRY(tail_free(s, tail_bytes, need));
    if (need <= sp->n_owned) return VT_OK;
    if (cold_chunks(sp, need) > 0) vti_jobs_take(m); // they may have been made by now
    return chunks_grow(m, sp, need);
}

static vt_status seq_grow(vt_seq *s, uint32_t len_tok)
{
    VT_TRY(vti_mend(s->m, s->span));
    VT_TRY(vti_seq_backing(s, len_tok));
    vti_seq_set_len(s, len_tok);
    return VT_OK;
}

vt_status vt_seq_extend(vt_seq *s, uint32_t len_tok)
{
    if (len_tok <= s->len_tok && !s->swapped && !is_torn(s->span)) return VT_OK;
    if (len_tok < s->len_tok) len_tok = s->len_tok;
    return vti_answer(s->m, seq_grow(s, len_tok));
}

// ---- Truncate

static vt_status seq_cut(vt_seq *s, uint32_t len_tok)
{
    vt_manager *m = s->m;
    if (s->swapped) return VT_EINVAL;
    vti_jobs_take(m);
    VT_TRY(vti_mark(m, s->span));
    VT_TRY(vti_span_drop(m, s->span, vti_geo_chunks(&m->geo, len_tok)));
    s->tail_stale = vti_geo_tail_bytes(&m->geo, len_tok) > 0;
    vti_seq_set_len(s, len_tok);
    (void)vti_sweep(m); // what the device will not take back now stays spare and counted
    return VT_OK;
}

vt_status vt_seq_truncate(vt_seq *s, uint32_t len_tok)
{
    return len_tok >= s->len_tok ? VT_OK : vti_answer(s->m, seq_cut(s, len_tok));
}

// ---- Release

void vt_seq_release(vt_seq *s)
{
    if (!s) return;
    vt_manager *m = s->m;
    vti_jobs_take(m);
    vti_seq_set_len(s, 0);
    vti_seq_set_node(s, NULL);
    vti_swap_forget(s);
    vti_span_retire(m, s->span);
    m->n_seq--;
    free(s);
    vti_return_excess(m);
}

// ---- Plain reads

void *vt_seq_plane(const vt_seq *s, uint32_t plane)
{
    assert(plane < s->m->geo.n_plane);
    return (void *)(vti_span_addr(&s->m->geo, s->span, 0, 0) + plane * s->m->geo.plane_stride);
}

size_t vt_seq_stride(const vt_seq *s)
{
    return s->m->geo.stride_bytes;
}

size_t vt_seq_plane_stride(const vt_seq *s)
{
    return s->m->geo.plane_stride;
}

uint32_t vt_seq_len(const vt_seq *s)
{
    return s->len_tok;
}

bool vt_seq_is_swapped(const vt_seq *s)
{
    return s->swapped != NULL;
}

bool vt_seq_is_torn(const vt_seq *s)
{
    return is_torn(s->span);
}

uint32_t vt_seq_backed(const vt_seq *s)
{
    const vti_span *sp = s->span;
    if (s->swapped || sp->tear.n > 0 || is_torn(sp) || tail_in_the_way(s) > 0) return s->len_tok;
    uint32_t p = sp->n_owned;
    while (p < sp->n_end && sp->at[p] != VTI_NO_REGION && p >= sp->n_dirty) p++;
    return vti_geo_tokens(&s->m->geo, p);
}

uint64_t vt_bytes_for(const vt_manager *m, uint32_t len_tok)
{
    if (len_tok > m->geo.max_tok) len_tok = m->geo.max_tok;
    return (uint64_t)vti_geo_chunks(&m->geo, len_tok) * m->geo.chunk_bytes;
}
