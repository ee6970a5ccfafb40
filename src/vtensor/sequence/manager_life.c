// manager_life.c - creating and destroying a manager.
#include "sequence.h"

#include <stdlib.h>

#include "vtensor/common/try.h"

vt_config vt_config_default(void)
{
    return (vt_config){.spare_high_bytes = UINT64_MAX};
}

static vt_status manager_sizes(vt_manager *m, const vt_config *cfg)
{
    VT_TRY(vti_geo_init(&m->geo, cfg, m->vmm->ops->granularity(m->vmm)));
    uint64_t chunk = m->geo.chunk_bytes;
    if (cfg->spare_low_bytes > cfg->spare_high_bytes) return VT_EINVAL;
    m->mapper_kind = cfg->mapper;
    m->budget_bytes = cfg->budget_bytes;
    m->budget_chunks = cfg->budget_bytes / chunk;
    m->spare_low_chunks = cfg->spare_low_bytes / chunk + (cfg->spare_low_bytes % chunk != 0);
    m->spare_high_chunks = cfg->spare_high_bytes / chunk;
    return m->budget_chunks > 0 ? VT_OK : VT_NOSPACE;
}

// manager_free frees all of this, even if only part of it was allocated.
static vt_status manager_structure(vt_manager *m, const vt_config *cfg)
{
    const vti_geo *g = &m->geo;
    vti_pset_init(&m->pset, g->max_region, g->chunks_per_span);
    m->scratch = calloc(g->chunks_per_span, sizeof *m->scratch);
    if (!m->scratch) return VT_ENOMEM;
    VT_TRY(vti_vset_init(&m->vset, g->max_seq, g->chunks_per_span));
    VT_TRY(vti_rtree_new(g, &m->pset, m, &m->rtree));
    return vti_swap_init(&m->swap, cfg, g->chunk_bytes);
}

static void manager_free(vt_manager *m)
{
    vti_swap_free(&m->swap);
    vti_rtree_free(m->rtree);
    vti_vset_free(&m->vset);
    vti_pset_free(&m->pset);
    free(m->scratch);
    free(m);
}

static vt_status backend_configure(vt_manager *m)
{
    const vti_geo *g = &m->geo;
    vt_vmm_geometry vg = {.n_slice = g->n_view,
                          .slice_bytes = g->slice_bytes,
                          .n_index = (uint64_t)g->max_region * g->chunks_per_span};
    VT_TRY(m->vmm->ops->configure(m->vmm, &vg));
    m->max_runs = m->vmm->ops->max_runs(m->vmm);
    return VT_OK;
}

// The backend is configured last, so that it is untouched if anything fails.
static vt_status manager_make(const vt_config *cfg, vt_vmm *vmm, vt_manager **out)
{
    vt_manager *m = calloc(1, sizeof *m);
    if (!m) return VT_ENOMEM;
    m->vmm = vmm;
    vt_status st = manager_sizes(m, cfg);
    if (st == VT_OK) st = manager_structure(m, cfg);
    if (st == VT_OK) st = backend_configure(m);
    if (st == VT_OK)
        *out = m;
    else
        manager_free(m);
    return st;
}

vt_status vt_manager_create(const vt_config *cfg, vt_manager **out)
{
    *out = NULL;
    vt_vmm *vmm = cfg->vmm;
    if (!vmm) VT_TRY(vt_vmm_host_open(&vmm));
    vt_status st = manager_make(cfg, vmm, out);
    if (st != VT_OK && !cfg->vmm) vmm->ops->close(vmm);
    return st;
}

static void release_all(vt_manager *m)
{
    for (uint32_t i = 0; i < m->vset.n_span; i++) vt_seq_release(m->vset.span[i]->seq);
    (void)vti_spans_reap(m, VTI_REAP_WAIT);
}

// Tries twice: a failure of the device may be temporary.
static void return_memory(vt_manager *m)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        (void)vti_spans_reap(m, VTI_REAP_WAIT);
        uint64_t spare = vti_spare_count(m, NULL);
        if (spare > 0) (void)vti_spare_reclaim(m, spare, NULL);
    }
}

void vt_manager_destroy(vt_manager *m)
{
    if (!m) return;
    vti_jobs_settle(m);
    vti_mapper_stop(m->mapper);
    m->mapper = NULL;
    m->mapper_kind = VT_MAPPER_OWNER; // no new thread is started
    release_all(m);
    vti_rtree_free(m->rtree); // its chunks are spare now
    m->rtree = NULL;
    return_memory(m);
    while (m->vset.n_span > 0) vti_span_free(m, m->vset.span[m->vset.n_span - 1]);
    vt_vmm *vmm = m->vmm;
    manager_free(m);
    vmm->ops->close(vmm);
}
