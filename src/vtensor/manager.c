// manager.c - the life of a manager.
#include "internal.h"

#include <stdlib.h>

vt_config vt_config_default(void)
{
    return (vt_config){.spare_bytes = UINT64_MAX};
}

static vt_status manager_sizes(vt_manager *m, const vt_config *cfg)
{
    VT_TRY(vti_geo_init(&m->geo, cfg, m->vmm->ops->granularity(m->vmm)));
    m->budget_bytes = cfg->budget_bytes;
    m->budget_chunks = cfg->budget_bytes / m->geo.chunk_bytes;
    m->spare_chunks = cfg->spare_bytes / m->geo.chunk_bytes;
    return m->budget_chunks > 0 ? VT_OK : VT_NOSPACE;
}

static vt_status backend_configure(vt_manager *m)
{
    const vti_geo *g = &m->geo;
    vt_vmm_geometry vg = {.n_slice = g->n_view,
                          .slice_bytes = g->slice_bytes,
                          .n_index = (uint64_t)g->max_seq * g->chunks_per_span};
    VT_TRY(m->vmm->ops->configure(m->vmm, &vg));
    m->max_runs = m->vmm->ops->max_runs(m->vmm);
    return VT_OK;
}

// The backend is told last, so that it is untouched when anything fails.
static vt_status manager_make(const vt_config *cfg, vt_vmm *vmm, vt_manager **out)
{
    vt_manager *m = calloc(1, sizeof *m);
    if (!m) return VT_ENOMEM;
    m->vmm = vmm;
    vt_status st = manager_sizes(m, cfg);
    if (st != VT_OK) goto fail_sizes;
    st = vti_pset_init(&m->pset, m->geo.max_seq, m->geo.chunks_per_span);
    if (st != VT_OK) goto fail_sizes;
    st = vti_vset_init(&m->vset, m->geo.max_seq, m->geo.n_view);
    if (st != VT_OK) goto fail_vset;
    st = backend_configure(m);
    if (st != VT_OK) goto fail_backend;
    *out = m;
    return VT_OK;

fail_backend:
    vti_vset_free(&m->vset);
fail_vset:
    vti_pset_free(&m->pset);
fail_sizes:
    free(m);
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

void vt_manager_destroy(vt_manager *m)
{
    if (!m) return;
    vti_vset *vs = &m->vset;
    for (uint32_t i = 0; i < vs->n_span; i++) vt_seq_release(vs->span[i]->seq);
    while (vs->n_span > 0) {
        vti_span *last = vs->span[vs->n_span - 1];
        vti_vset_wake(vs, last);
        vti_vfree(m, last);
    }
    vti_vset_free(vs);
    vti_pset_free(&m->pset);
    m->vmm->ops->close(m->vmm);
    free(m);
}
