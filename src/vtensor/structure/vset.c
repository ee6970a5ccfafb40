// vset.c - vSet: the spans of addresses, all of one size, what each maps, and which are idle. It
// only records facts; the verbs make them true.
//
// Spans are made one by one as sequences need them, and recycled until the manager is destroyed.
// The lists of the idle and the retired are ordered by the time of release:
//
//   newest <-> ... <-> oldest
//     |                  |
//     |                  reclaim takes the chunks of the longest idle first
//     among spans that fit equally well, the next sequence gets the newest: its memory is most
//     likely in a cache
#include "vset.h"

#include <assert.h>
#include <stdlib.h>

#include "pset.h"

vt_status vti_vset_init(vti_vset *vs, uint32_t n_max, uint32_t n_position)
{
    *vs = (vti_vset){.n_max = n_max, .n_position = n_position};
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
    size_t n_entry = 2 * (size_t)vs->n_position;
    vti_span *sp = calloc(1, sizeof *sp + n_entry * sizeof sp->at[0]);
    if (!sp) return VT_ENOMEM;
    sp->id = vs->n_span;
    sp->home = VTI_NO_REGION;
    sp->detached = sp->at + vs->n_position;
    for (size_t i = 0; i < n_entry; i++) sp->at[i] = VTI_NO_REGION;
    vs->span[vs->n_span++] = sp;
    *out = sp;
    return VT_OK;
}

void vti_vset_pop(vti_vset *vs)
{
    assert(vs->n_span > 0);
    vti_span *sp = vs->span[--vs->n_span];
    vs->n_run -= sp->n_run;
    vs->span[vs->n_span] = NULL;
    free(sp);
}

static vti_span_list *list_of(vti_vset *vs, vti_span_state state)
{
    if (state == VTI_SPAN_LIVE) return NULL;
    return state == VTI_SPAN_IDLE ? &vs->idle : &vs->retired;
}

static void list_add(vti_span_list *l, vti_span *sp)
{
    assert(!sp->newer && !sp->older && l->newest != sp);
    sp->older = l->newest;
    if (l->newest)
        l->newest->newer = sp;
    else
        l->oldest = sp;
    l->newest = sp;
    l->n++;
}

static void list_remove(vti_span_list *l, vti_span *sp)
{
    if (sp->newer)
        sp->newer->older = sp->older;
    else
        l->newest = sp->older;
    if (sp->older)
        sp->older->newer = sp->newer;
    else
        l->oldest = sp->newer;
    sp->newer = sp->older = NULL;
    l->n--;
}

void vti_vset_list(vti_vset *vs, vti_span *sp)
{
    sp->state = VTI_SPAN_IDLE;
    list_add(&vs->idle, sp);
}

void vti_vset_unlist(vti_vset *vs, vti_span *sp)
{
    vti_span_list *l = list_of(vs, sp->state);
    if (l) list_remove(l, sp);
}

void vti_vset_move(vti_vset *vs, vti_span *sp, vti_span_state to)
{
    vti_vset_unlist(vs, sp);
    sp->state = to;
    vti_span_list *l = list_of(vs, to);
    if (l) list_add(l, sp);
}

static bool run_begins(uint32_t before, uint32_t region)
{
    return region != VTI_NO_REGION && region != before;
}

int32_t vti_span_runs_if(const vti_vset *vs, const vti_span *sp, uint32_t first, uint32_t n,
                         uint32_t region)
{
    uint32_t end = first + n, was = 0, is = 0,
             before = first > 0 ? sp->at[first - 1] : VTI_NO_REGION;
    for (uint32_t p = first; p < end; p++)
        was += run_begins(p == first ? before : sp->at[p - 1], sp->at[p]);
    is += run_begins(before, region);
    if (end < vs->n_position) {
        was += run_begins(sp->at[end - 1], sp->at[end]);
        is += run_begins(region, sp->at[end]);
    }
    return (int32_t)is - (int32_t)was;
}

void vti_span_set(vti_vset *vs, vti_span *sp, uint32_t first, uint32_t n, uint32_t region)
{
    assert(n > 0 && first < vs->n_position && n <= vs->n_position - first);
    int32_t more = vti_span_runs_if(vs, sp, first, n, region);
    for (uint32_t p = first; p < first + n; p++) sp->at[p] = region;
    sp->n_run = (uint32_t)((int64_t)sp->n_run + more);
    vs->n_run = (uint64_t)((int64_t)vs->n_run + more);
    if (region != VTI_NO_REGION && first + n > sp->n_end) sp->n_end = first + n;
    while (sp->n_end > 0 && sp->at[sp->n_end - 1] == VTI_NO_REGION) sp->n_end--;
}

uint32_t vti_run_length(const uint32_t *at, uint32_t first, uint32_t end)
{
    uint32_t p = first + 1;
    while (p < end && at[p] == at[first]) p++;
    return p - first;
}

uintptr_t vti_span_addr(const vti_geo *g, const vti_span *sp, uint32_t view, uint32_t position)
{
    assert(view < g->n_view && position <= g->chunks_per_span);
    return sp->addr + g->guard_bytes + view * g->view_stride + position * g->slice_bytes;
}

uint32_t vti_span_cold_chunks(const vti_span *sp, uint32_t n_chunk)
{
    uint32_t n = 0;
    for (uint32_t p = sp->n_owned; p < n_chunk; p++) n += sp->at[p] == VTI_NO_REGION;
    return n;
}
