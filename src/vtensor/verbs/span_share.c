// span_share.c - makes a span a holder of chunks: of its own, or of chunks that others hold too.
#include "verbs.h"

#include <assert.h>

#include "vtensor/common/try.h"

void vti_span_hold(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n)
{
    assert(first == sp->n_owned);
    for (uint32_t p = first; p < first + n; p++) vti_pset_user_hold(&m->pset, sp->at[p], p);
    sp->n_owned += n;
}

vt_status vti_span_share(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n, uint32_t region,
                         vt_vmm_use use)
{
    VT_TRY(vti_runs_make(m, sp, vti_span_runs_if(&m->vset, sp, first, n, region)));
    VT_TRY(vti_span_map(m, sp, first, n, region, use));
    vti_span_hold(m, sp, first, n);
    return VT_OK;
}

vt_status vti_span_alias(vt_manager *m, vti_span *sp, const uint32_t *at, uint32_t n)
{
    assert(sp->n_owned == 0);
    if (n == 0) return VT_OK;
    VT_TRY(vti_span_shed(m, sp, 0, n, UINT32_MAX));
    for (uint32_t p = 0, run; p < n; p += run) {
        run = vti_run_length(at, p, n);
        VT_TRY(vti_span_share(m, sp, p, run, at[p], VT_VMM_ALIAS));
    }
    return VT_OK;
}

static vt_status copy_in_place(vt_manager *m, vti_span *sp, uint32_t position, size_t size_bytes)
{
    uint32_t from = sp->at[position];
    VT_TRY(vti_span_map(m, sp, position, 1, sp->home, VT_VMM_WRITE));
    vt_status st = vti_span_fetch(m, sp, position, from, size_bytes);
    if (st != VT_OK) vti_span_map_back(m, sp, position, from);
    return st;
}

vt_status vti_span_unshare(vt_manager *m, vti_span *sp, uint32_t position, size_t size_bytes)
{
    uint32_t from = sp->at[position];
    VT_TRY(vti_stray_free_at(m, sp, position));
    VT_TRY(vti_runs_make(m, sp, vti_span_runs_if(&m->vset, sp, position, 1, sp->home)));
    VT_TRY(vti_chunks_alloc(m, sp->home, position, 1));
    vt_status st = copy_in_place(m, sp, position, size_bytes);
    if (st != VT_OK) {
        if (sp->tear.n == 0) (void)vti_chunks_free(m, sp->home, position, 1);
        return st;
    }
    vti_pset_user_hold(&m->pset, sp->home, position);
    vti_pset_user_drop(&m->pset, from, position);
    return VT_OK;
}
