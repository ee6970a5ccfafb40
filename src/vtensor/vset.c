// vset.c - vSet: the spans of addresses, all of one size, and which of them are idle. Structure
// alone: it says what is so, the verbs of ops.c make it so.
//
// Spans are made one by one as sequences need them and recycled until the manager dies. The idle
// list is ordered by the time of release:
//
//   newest <-> ... <-> oldest
//     |                  |
//     |                  reclaim gives the chunks of the longest idle back first
//     the next sequence gets the newest that is warm: its memory is the likeliest to be in caches
#include "internal.h"

#include <stdlib.h>

vt_status vti_vset_init(vti_vset *vs, uint32_t n_max, uint32_t n_view)
{
    *vs = (vti_vset){.n_max = n_max, .n_view = n_view};
    vs->span = calloc(n_max, sizeof(vti_span *));
    return vs->span ? VT_OK : VT_ENOMEM;
}

void vti_vset_free(vti_vset *vs)
{
    assert(vs->n_span == 0);
    free(vs->span);
    *vs = (vti_vset){0};
}

vt_status vti_vset_push(vti_vset *vs, vti_span **out)
{
    if (vs->n_span == vs->n_max) return VT_NOSPACE;
    vti_span *sp = calloc(1, sizeof *sp + vs->n_view * sizeof sp->n_mapped[0]);
    if (!sp) return VT_ENOMEM;
    sp->id = vs->n_span;
    vs->span[vs->n_span++] = sp;
    *out = sp;
    return VT_OK;
}

void vti_vset_pop(vti_vset *vs)
{
    assert(vs->n_span > 0);
    vti_span *sp = vs->span[--vs->n_span];
    for (uint32_t v = 0; v < vs->n_view; v++) vti_vset_set_mapped(vs, sp, v, 0);
    vs->span[vs->n_span] = NULL;
    free(sp);
}

void vti_vset_idle(vti_vset *vs, vti_span *sp)
{
    assert(!sp->newer && !sp->older && vs->newest != sp);
    sp->older = vs->newest;
    if (vs->newest)
        vs->newest->newer = sp;
    else
        vs->oldest = sp;
    vs->newest = sp;
    vs->n_idle++;
}

void vti_vset_wake(vti_vset *vs, vti_span *sp)
{
    if (sp->newer)
        sp->newer->older = sp->older;
    else
        vs->newest = sp->older;
    if (sp->older)
        sp->older->newer = sp->newer;
    else
        vs->oldest = sp->newer;
    sp->newer = sp->older = NULL;
    vs->n_idle--;
}

void vti_vset_set_mapped(vti_vset *vs, vti_span *sp, uint32_t view, uint32_t n)
{
    assert(view < vs->n_view);
    vs->n_run -= sp->n_mapped[view] > 0;
    vs->n_run += n > 0;
    sp->n_mapped[view] = n;
}

uint32_t vti_span_even(const vti_span *sp, uint32_t n_view)
{
    uint32_t least = sp->n_mapped[0];
    for (uint32_t v = 1; v < n_view; v++)
        if (sp->n_mapped[v] < least) least = sp->n_mapped[v];
    return least;
}

uintptr_t vti_span_addr(const vti_geo *g, const vti_span *sp, uint32_t view, uint32_t position)
{
    assert(view < g->n_view && position <= g->chunks_per_span);
    return sp->addr + g->guard_bytes + view * g->view_stride + position * g->slice_bytes;
}
