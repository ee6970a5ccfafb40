// seq.c - VTS, what a scheduler calls: create, extend, release.
//
//   create    an idle span, wiped, or a new one; no chunk becomes the sequence's yet
//   extend    chunks [n_owned, needed) become the sequence's: warm ones at once, the others after
//             vti_back has created and mapped them
//   release   all of them become spare and stay mapped under the span, which becomes idle; then
//             the longest idle give back what is beyond spare_bytes
//
// Memory is wiped at create, not at release: what is given back to the system before anybody takes
// the span again need not be wiped, and release stays cheap. It must be then and not at extend,
// since from create on the new owner can read all that is mapped under its span.
#include "internal.h"

#include <stdlib.h>

// What an undo that failed has left mapped in some views only is given back; the rest is wiped.
static vt_status span_clean(vt_manager *m, vti_span *sp)
{
    VT_TRY(vti_shed(m, sp, vti_span_even(sp, m->geo.n_view)));
    return vti_zero(m, sp);
}

// The newest idle span that is warm and can be cleaned, else one without chunks, else a new one.
// A span that cannot be cleaned is handed to nobody.
static vt_status span_take(vt_manager *m, vti_span **out)
{
    vt_status st = VT_NOSPACE;
    vti_span *cold = NULL, *sp = m->vset.newest;
    for (; sp; sp = sp->older) {
        bool warm = vti_created(m, sp) > 0;
        if (warm && (st = span_clean(m, sp)) == VT_OK) break;
        if (!warm && !cold) cold = sp;
    }
    if (!sp) sp = cold;
    if (!sp) return m->vset.n_span < m->vset.n_max ? vti_valloc(m, out) : st;
    vti_vset_wake(&m->vset, sp);
    *out = sp;
    return VT_OK;
}

static vt_status seq_make(vt_manager *m, vt_seq **out)
{
    vt_seq *s = calloc(1, sizeof *s);
    if (!s) return VT_ENOMEM;
    vti_span *sp;
    vt_status st = span_take(m, &sp);
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

vt_status vt_seq_create(vt_manager *m, vt_seq **out)
{
    *out = NULL;
    return vti_answer(m, seq_make(m, out));
}

// Where the system itself is short, all spare chunks go back to it before VT_NOSPACE is answered.
static vt_status span_back(vt_manager *m, vti_span *sp, uint32_t upto)
{
    VT_TRY(vti_make_room(m, sp, upto));
    vt_status st = vti_back(m, sp, upto);
    uint64_t elsewhere = vti_spare(m, sp);
    if (st != VT_NOSPACE || elsewhere == 0) return st;
    VT_TRY(vti_reclaim(m, elsewhere, sp));
    return vti_back(m, sp, upto);
}

static vt_status seq_grow(vt_seq *s, uint32_t len_tok)
{
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    if (len_tok > m->geo.max_tok) return VT_EINVAL;
    uint32_t need = vti_geo_chunks(&m->geo, len_tok);
    if (need > sp->n_owned) {
        VT_TRY(span_back(m, sp, need));
        vti_pset_move(&m->pset, sp->region, sp->n_owned, need - sp->n_owned, VTI_CHUNK_SPARE,
                      VTI_CHUNK_OWNED);
        sp->n_owned = need;
    }
    m->live_tok += len_tok - s->len_tok;
    s->len_tok = len_tok;
    if (m->live_tok > m->tally.peak_tok) m->tally.peak_tok = m->live_tok;
    return VT_OK;
}

vt_status vt_seq_extend(vt_seq *s, uint32_t len_tok)
{
    if (len_tok <= s->len_tok) return VT_OK;
    return vti_answer(s->m, seq_grow(s, len_tok));
}

void vt_seq_release(vt_seq *s)
{
    if (!s) return;
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    vti_pset_move(&m->pset, sp->region, 0, sp->n_owned, VTI_CHUNK_OWNED, VTI_CHUNK_SPARE);
    sp->n_dirty = sp->n_owned;
    sp->n_owned = 0;
    sp->seq = NULL;
    vti_vset_idle(&m->vset, sp);
    m->live_tok -= s->len_tok;
    m->n_seq--;
    free(s);
    // What the device will not take back stays spare and counted; the next release tries again.
    uint64_t spare = vti_spare(m, NULL);
    if (spare > m->spare_chunks) (void)vti_reclaim(m, spare - m->spare_chunks, NULL);
}

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

uint32_t vt_seq_backed(const vt_seq *s)
{
    return vti_geo_tokens(&s->m->geo, s->span->n_owned);
}

uint64_t vt_bytes_for(const vt_manager *m, uint32_t len_tok)
{
    if (len_tok > m->geo.max_tok) len_tok = m->geo.max_tok;
    return (uint64_t)vti_geo_chunks(&m->geo, len_tok) * m->geo.chunk_bytes;
}
