// seq_life.c - creating and releasing a sequence, and the getters.
#include "sequence.h"

#include <assert.h>
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
    return vti_tally_answer(m, vti_seq_make(m, expect_tok, 0, out));
}

void vti_seq_set_len(vt_seq *s, uint32_t len_tok)
{
    vt_manager *m = s->m;
    m->live_tok = m->live_tok - s->len_tok + len_tok;
    s->len_tok = len_tok;
    if (m->live_tok > m->tally.peak_tok) m->tally.peak_tok = m->live_tok;
}

// A prefix counts as used while a sequence references it: its idle time begins when that ends.
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
    vti_spare_return_excess(m);
}

// ---- Getters

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
    return vti_span_is_torn(s->span);
}

uint32_t vt_seq_backed(const vt_seq *s)
{
    const vti_span *sp = s->span;
    if (s->swapped || sp->tear.n > 0 || vti_span_is_torn(sp) || vti_tail_blocked(s) > 0)
        return s->len_tok;
    uint32_t p = sp->n_owned;
    while (p < sp->n_end && sp->at[p] != VTI_NO_REGION && p >= sp->n_dirty) p++;
    return vti_geo_tokens(&s->m->geo, p);
}

uint64_t vt_bytes_for(const vt_manager *m, uint32_t len_tok)
{
    if (len_tok > m->geo.max_tok) len_tok = m->geo.max_tok;
    return (uint64_t)vti_geo_chunks(&m->geo, len_tok) * m->geo.chunk_bytes;
}
