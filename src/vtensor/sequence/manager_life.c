// manager_life.c - creating and destroying a manager.
#include "sequence.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vtensor/core/common.h"

void vt_config_init(vt_config *cfg, size_t struct_bytes)
{
    memset(cfg, 0, struct_bytes);
    cfg->struct_bytes = struct_bytes;
    cfg->spare_high_bytes = UINT64_MAX;
}

// The caller's configuration may be of an older or a newer version: what it lacks is 0, and what it
// has beyond must be.
static vt_status config_take(const vt_config *from, vt_config *cfg)
{
    const size_t least = offsetof(vt_config, group);
    const unsigned char *more = (const unsigned char *)from;
    if (from->struct_bytes < least || from->struct_bytes > 4096) return VT_EINVAL;
    for (size_t i = sizeof *cfg; i < from->struct_bytes; i++)
        if (more[i] != 0) return VT_EINVAL;
    size_t n = from->struct_bytes < sizeof *cfg ? from->struct_bytes : sizeof *cfg;
    memset(cfg, 0, sizeof *cfg);
    memcpy(cfg, from, n);
    return VT_OK;
}

static vt_status manager_sizes(vt_manager *m, const vt_config *cfg)
{
    VT_TRY(vti_geo_init(&m->geo, cfg, m->vmm->ops->granularity(m->vmm)));
    if (cfg->spare_low_bytes > cfg->spare_high_bytes) return VT_EINVAL;
    m->mapper_kind = cfg->mapper;
    m->budget_bytes = m->ceiling_bytes = cfg->budget_bytes;
    m->system_bytes = UINT64_MAX;
    m->spare_low_bytes = m->first_spare_low_bytes = cfg->spare_low_bytes;
    m->spare_high_bytes = m->first_spare_high_bytes = cfg->spare_high_bytes;
    m->first_budget_bytes = cfg->budget_bytes;
    m->guards = !cfg->no_guard && m->vmm->ops->can_protect(m->vmm);
    m->zeroed = m->vmm->ops->creates_zeroed(m->vmm);
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        if (m->geo.group[g].chunk_bytes > cfg->budget_bytes) return VT_NOSPACE;
    return VT_OK;
}

static vt_status manager_scratch(vt_manager *m)
{
    for (uint32_t c = 0; c < VT_MAX_GROUP; c++) m->copy_name[c].region = VTI_NO_CHUNK;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        m->scratch[g] = calloc(m->geo.group[g].n_position, sizeof(uint32_t));
        if (!m->scratch[g]) return VT_ENOMEM;
    }
    m->n_job_plan = VTI_RETURN_AT_ONCE;
    m->job_plan = calloc(m->n_job_plan, sizeof *m->job_plan);
    return m->job_plan ? VT_OK : VT_ENOMEM;
}

// More spans than sequences: those that ended may still be in use by the device.
static uint32_t most_spans(const vti_geo *g)
{
    return g->max_seq < UINT32_MAX / 2 ? 2 * g->max_seq : UINT32_MAX;
}

// manager_free frees all of this, even if only part of it was allocated.
static vt_status manager_structure(vt_manager *m, const vt_config *cfg)
{
    vti_pset_init(&m->pset, &m->geo);
    VT_TRY(manager_scratch(m));
    if (cfg->n_event > 0) VT_TRY(vti_events_new(cfg->n_event, &m->events));
    VT_TRY(vti_vset_init(&m->vset, &m->geo, &m->pset, most_spans(&m->geo)));
    VT_TRY(vti_rtree_new(&m->geo, &m->pset, m, m->events, &m->rtree));
    return vti_swap_init(m, cfg);
}

static void manager_free(vt_manager *m)
{
    vti_swap_free(&m->swap);
    vti_rtree_free(m->rtree);
    vti_vset_free(&m->vset);
    vti_pset_free(&m->pset);
    vti_events_free(m->events);
    for (uint32_t g = 0; g < VT_MAX_GROUP; g++) free(m->scratch[g]);
    free(m->job_plan);
    free(m->loan);
    pthread_mutex_destroy(&m->mu);
    free(m);
}

static vt_status backend_configure(vt_manager *m)
{
    VT_TRY(m->vmm->ops->configure(m->vmm, &m->geo.vmm));
    m->max_runs = m->vmm->ops->max_runs(m->vmm);
    vti_stats_publish(m);
    return VT_OK;
}

// The backend is configured last, so that it is untouched if anything fails.
static vt_status manager_make(const vt_config *cfg, vt_vmm *vmm, vt_manager **out)
{
    vt_manager *m = calloc(1, sizeof *m);
    if (!m) return VT_ENOMEM;
    pthread_mutex_init(&m->mu, NULL);
    m->vmm = vmm;
    m->pid = getpid();
    vt_status st = manager_sizes(m, cfg);
    if (st == VT_OK) st = manager_structure(m, cfg);
    if (st == VT_OK) st = backend_configure(m);
    if (st == VT_OK)
        *out = m;
    else
        manager_free(m);
    return st;
}

vt_status vt_manager_create(const vt_config *from, vt_manager **out)
{
    vt_config cfg;
    *out = NULL;
    VT_TRY(config_take(from, &cfg));
    vt_vmm *vmm = cfg.vmm;
    if (!vmm) VT_TRY(vt_vmm_host_open(&vmm));
    vt_status st = manager_make(&cfg, vmm, out);
    if (st != VT_OK && !cfg.vmm) vmm->ops->close(vmm);
    return st;
}

static void release_all(vt_manager *m)
{
    for (uint32_t i = 0; i < m->vset.n_span; i++) vt_seq_release(m->vset.span[i]->seq);
    vti_jobs_settle(m);
    vti_loans_return(m, true);
    (void)vti_spans_reap(m, VTI_REAP_WAIT);
}

static void await_spans(vt_manager *m)
{
    for (uint32_t i = 0; i < m->vset.n_span; i++) {
        vti_span *sp = m->vset.span[i];
        if (sp->needs_fence) (void)vti_fence_take(m, sp);
        (void)vti_fence_await(m, sp->fence);
    }
}

// Tries twice: a failure of the device may be temporary.
static void return_memory(vt_manager *m)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        vti_loans_return(m, true);
        (void)vti_spans_reap(m, VTI_REAP_WAIT);
        await_spans(m);
        (void)vti_spare_return(m, UINT64_MAX);
    }
}

static void free_copy_homes(vt_manager *m)
{
    for (uint32_t c = 0; c < m->pset.n_class; c++)
        if (m->copy_name[c].region != VTI_NO_CHUNK)
            vti_pset_home_close(&m->pset, c, m->copy_name[c].region);
}

// In a child of the process that made it: the mapper's thread is not here, its lock may be held for
// ever, and the memory is the parent's. The child gives up its mappings and descriptors, and its
// copy of the bookkeeping stays until it ends.
static void leave_to_parent(vt_manager *m)
{
    for (uint32_t i = 0; i < m->vset.n_span; i++)
        (void)m->vmm->ops->unreserve(m->vmm, m->vset.span[i]->addr, m->geo.span_bytes);
    m->vmm->ops->close(m->vmm);
}

void vt_manager_destroy(vt_manager *m)
{
    if (!m) return;
    if (m->pid != getpid()) {
        leave_to_parent(m);
        return;
    }
    vti_copies_stop(m);
    vti_jobs_settle(m);
    m->spare_high_bytes = m->budget_bytes = UINT64_MAX; // release posts no more jobs
    m->giving = (vti_giving){0};
    release_all(m);
    vti_jobs_settle(m);
    vti_mapper_stop(m->mapper);
    m->mapper = NULL;
    m->mapper_kind = VT_MAPPER_OWNER; // no new thread is started
    vti_rtree_free(m->rtree);         // its chunks are in the pool now
    m->rtree = NULL;
    return_memory(m);
    while (m->vset.n_span > 0) vti_span_free(m, m->vset.span[m->vset.n_span - 1]);
    free_copy_homes(m);
    (void)vti_spare_return(m, UINT64_MAX); // of quarantined spans
    vt_vmm *vmm = m->vmm;
    manager_free(m);
    vmm->ops->close(vmm);
}
