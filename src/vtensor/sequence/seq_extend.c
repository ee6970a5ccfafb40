// seq_extend.c - extend and truncate.
//
//   extend    the tail is made writable first (seq_tail.c); then warm chunks become the sequence's
//             at once, the others after they are created and mapped
//   truncate  chunks that nobody else holds stay warm beyond the new end, the others are unmapped
#include "sequence.h"

#include "vtensor/common/try.h"

// The sequence takes over the warm stretch from n_owned on.
static vt_status take_warm(vt_manager *m, vti_span *sp, uint32_t n_chunk)
{
    uint32_t first = sp->n_owned, p = first;
    while (p < n_chunk && sp->at[p] != VTI_NO_REGION) p++;
    if (first < sp->n_dirty) VT_TRY(vti_span_await_fence(m, sp));
    for (uint32_t dirty = first; dirty < p && dirty < sp->n_dirty; dirty++)
        VT_TRY(vti_span_zero(m, sp, dirty, 0));
    sp->n_warm -= p - first;
    vti_span_hold(m, sp, first, p - first);
    return VT_OK;
}

static vt_status chunks_add(vt_manager *m, vti_span *sp, uint32_t n_chunk)
{
    if (vti_span_cold_chunks(sp, n_chunk) > 0) {
        vti_job_settle(m, sp);
        // one home for all of them, so that all can be undone
        VT_TRY(vti_span_home(m, sp, sp->n_owned, n_chunk));
        VT_TRY(vti_room_make(m, sp, n_chunk, vti_span_cold_chunks(sp, n_chunk)));
    }
    VT_TRY(take_warm(m, sp, n_chunk));
    for (uint32_t n; sp->n_owned < n_chunk;) {
        VT_TRY(vti_span_back(m, sp, sp->n_owned, n_chunk, &n));
        VT_TRY(take_warm(m, sp, n_chunk));
    }
    return VT_OK;
}

// The sequence gets all chunks up to n_chunk, or none: on a failure those just made return to the
// system.
static vt_status chunks_grow(vt_manager *m, vti_span *sp, uint32_t n_chunk)
{
    uint32_t had = sp->n_owned, cold = had;
    while (cold < n_chunk && sp->at[cold] != VTI_NO_REGION) cold++;
    vt_status st = chunks_add(m, sp, n_chunk);
    m->tally.ready_hits += st == VT_OK && cold == n_chunk;
    m->tally.ready_misses += st == VT_OK && cold != n_chunk;
    if (st == VT_OK) return VT_OK;
    uint32_t was_dirty = sp->n_dirty;
    (void)vti_span_drop(m, sp, had); // they stay warm: nothing is unmapped
    sp->n_dirty = was_dirty;
    (void)vti_span_shed(m, sp, cold, n_chunk, UINT32_MAX);
    return st;
}

vt_status vti_seq_grow(vt_seq *s, uint32_t len_tok)
{
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    if (len_tok > m->geo.max_tok || s->swapped) return VT_EINVAL;
    uint32_t need = vti_geo_chunks(&m->geo, len_tok);
    size_t tail_bytes = vti_tail_blocked(s);
    if (tail_bytes > 0) VT_TRY(vti_tail_make_writable(s, tail_bytes, need));
    if (need <= sp->n_owned) return VT_OK;
    if (vti_span_cold_chunks(sp, need) > 0) vti_jobs_take(m); // a job may have made them by now
    return chunks_grow(m, sp, need);
}

static vt_status extend_seq(vt_seq *s, uint32_t len_tok)
{
    VT_TRY(vti_span_repair(s->m, s->span));
    VT_TRY(vti_seq_grow(s, len_tok));
    vti_seq_set_len(s, len_tok);
    return VT_OK;
}

vt_status vt_seq_extend(vt_seq *s, uint32_t len_tok)
{
    if (len_tok <= s->len_tok && !s->swapped && !vti_span_is_torn(s->span)) return VT_OK;
    if (len_tok < s->len_tok) len_tok = s->len_tok;
    return vti_tally_answer(s->m, extend_seq(s, len_tok));
}

// ---- Truncate

static vt_status seq_cut(vt_seq *s, uint32_t len_tok)
{
    vt_manager *m = s->m;
    if (s->swapped) return VT_EINVAL;
    vti_jobs_take(m);
    VT_TRY(vti_span_fence(m, s->span));
    VT_TRY(vti_span_drop(m, s->span, vti_geo_chunks(&m->geo, len_tok)));
    s->tail_stale = vti_geo_tail_bytes(&m->geo, len_tok) > 0;
    vti_seq_set_len(s, len_tok);
    (void)vti_strays_free(m); // what cannot be freed stays spare and counted
    return VT_OK;
}

vt_status vt_seq_truncate(vt_seq *s, uint32_t len_tok)
{
    return len_tok >= s->len_tok ? VT_OK : vti_tally_answer(s->m, seq_cut(s, len_tok));
}
