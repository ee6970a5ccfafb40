// manager.c - the manager as a whole: creating and destroying it; its memory as the owner controls
// it (vt_settle, vt_trim, vt_evict, vt_set_budget at once, vt_give_back and vt_aim_budget mostly in
// later steps); and its statistics.
//
// Statistics are sums that are kept as things change, and vt_check proves them. Only what a failing
// device has put out of use is counted on request. Other threads see a copy that each vt_step
// leaves.
#include "sequence.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- Creating

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

// manager_free frees all of this, even if only part of it was allocated.
static vt_status manager_structure(vt_manager *m, const vt_config *cfg)
{
    vti_pset_init(&m->pset, &m->geo);
    for (uint32_t c = 0; c < VT_MAX_GROUP; c++) m->copy_name[c].region = VTI_NO_CHUNK;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        m->scratch[g] = calloc(m->geo.group[g].n_position, sizeof(uint32_t));
        if (!m->scratch[g]) return VT_ENOMEM;
    }
    m->job_plan = calloc(VTI_RETURN_AT_ONCE, sizeof *m->job_plan);
    if (!m->job_plan) return VT_ENOMEM;
    // More spans than sequences: those that ended may still be in use by the device.
    uint32_t max_seq = m->geo.max_seq, n_span = max_seq < UINT32_MAX / 2 ? 2 * max_seq : UINT32_MAX;
    VT_TRY(vti_vset_init(&m->vset, &m->geo, &m->pset, n_span));
    VT_TRY(vti_radix_new(&m->geo, &m->pset, m, cfg->n_event, &m->radix));
    return vti_swap_init(m, cfg);
}

static void manager_free(vt_manager *m)
{
    vti_swap_free(&m->swap);
    vti_radix_free(m->radix);
    vti_vset_free(&m->vset);
    vti_pset_free(&m->pset);
    for (uint32_t g = 0; g < VT_MAX_GROUP; g++) free(m->scratch[g]);
    free(m->job_plan);
    free(m->source);
    pthread_mutex_destroy(&m->mu);
    free(m);
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
    if (st == VT_OK) st = vmm->ops->configure(vmm, &m->geo.vmm);
    if (st != VT_OK) {
        manager_free(m);
        return st;
    }
    m->max_runs = vmm->ops->max_runs(vmm);
    vti_stats_publish(m);
    *out = m;
    return VT_OK;
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

void vt_manager_destroy(vt_manager *m)
{
    if (!m) return;
    if (m->pid != getpid()) {
        // A child of the process that made it: the mapper's thread is not here, its lock may be
        // held forever, and the memory is the parent's. The child gives up its mappings and
        // descriptors, and its copy of the bookkeeping stays until it ends.
        for (uint32_t i = 0; i < m->vset.n_span; i++)
            (void)m->vmm->ops->unreserve(m->vmm, m->vset.span[i]->addr, m->geo.span_bytes);
        m->vmm->ops->close(m->vmm);
        return;
    }
    vti_copies_settle(m);
    vti_jobs_settle(m);
    m->spare_high_bytes = m->budget_bytes = UINT64_MAX; // release posts no more jobs
    m->giving = (vti_giving){0};
    for (uint32_t i = 0; i < m->vset.n_span; i++) vt_seq_release(m->vset.span[i]->seq);
    vti_jobs_settle(m);
    vti_sources_release(m, true);
    (void)vti_spans_reap(m, VTI_REAP_WAIT);
    vti_jobs_settle(m);
    vti_mapper_stop(m->mapper);
    m->mapper = NULL;
    m->mapper_kind = VT_MAPPER_OWNER; // no new thread is started
    vti_radix_free(m->radix);         // its chunks are in the pool now
    m->radix = NULL;
    for (int attempt = 0; attempt < 2; attempt++) { // a failure of the device may be temporary
        vti_sources_release(m, true);
        (void)vti_spans_reap(m, VTI_REAP_WAIT);
        for (uint32_t i = 0; i < m->vset.n_span; i++) (void)vti_span_await(m, m->vset.span[i]);
        (void)vti_spare_return(m, UINT64_MAX);
    }
    while (m->vset.n_span > 0) vti_span_free(m, m->vset.span[m->vset.n_span - 1]);
    for (uint32_t c = 0; c < m->pset.n_class; c++)
        if (m->copy_name[c].region != VTI_NO_CHUNK)
            vti_pset_region_close(&m->pset, c, m->copy_name[c].region);
    (void)vti_spare_return(m, UINT64_MAX); // of quarantined spans
    vt_vmm *vmm = m->vmm;
    manager_free(m);
    vmm->ops->close(vmm);
}

// ---- Memory

static void settle_all(vt_manager *m)
{
    vti_jobs_settle(m);
    vti_sources_release(m, false);
    (void)vti_spans_reap(m, VTI_REAP_NOW);
    vti_quarantine_retry(m);
    vti_spans_clear(m, false);
}

static vt_status settle_device(vt_manager *m)
{
    vti_jobs_settle(m);
    vti_sources_release(m, true);
    VT_TRY(vti_spans_reap(m, VTI_REAP_WAIT));
    VT_TRY(vti_live_spans_await(m));
    vti_quarantine_await(m);
    vti_spans_clear(m, false);
    vti_moves_continue(m);
    return VT_OK;
}

vt_status vt_settle(vt_manager *m)
{
    return vti_tally_answer(m, settle_device(m));
}

static uint64_t freed_since(const vt_manager *m, uint64_t had)
{
    uint64_t has = vti_pset_created_bytes(&m->pset);
    return had > has ? had - has : 0;
}

static uint64_t all_spare(const vt_manager *m)
{
    return vti_spare_for_arrivals(m) + m->vset.mapped_free_bytes[VTI_SPAN_LIVE];
}

vt_status vt_trim(vt_manager *m, uint64_t keep_bytes, uint64_t *freed_bytes)
{
    uint64_t had = vti_pset_created_bytes(&m->pset);
    settle_all(m);
    uint64_t spare = all_spare(m);
    vt_status st = spare > keep_bytes ? vti_spare_return(m, spare - keep_bytes) : VT_OK;
    vti_slots_drop_now(m);
    if (freed_bytes) *freed_bytes = freed_since(m, had);
    return vti_tally_answer(m, st);
}

// A retired span may still hold chunks of a prefix, so it is reaped first.
vt_status vt_evict(vt_manager *m, uint64_t want_bytes, uint64_t *freed_bytes)
{
    uint64_t had = vti_pset_created_bytes(&m->pset);
    settle_all(m);
    uint64_t pooled = vti_pset_bytes(&m->pset, VTI_POOLED);
    vti_prefixes_evict(m, want_bytes);
    uint64_t evicted = vti_pset_bytes(&m->pset, VTI_POOLED) - pooled;
    vt_status st = evicted > 0 ? vti_spare_return(m, evicted) : VT_OK;
    if (freed_bytes) *freed_bytes = freed_since(m, had);
    return vti_tally_answer(m, st);
}

// Whole chunks may have to go for less.
static vt_status shrink_to(vt_manager *m, uint64_t budget_bytes)
{
    uint64_t over = vti_excess_bytes(m, budget_bytes);
    if (over > all_spare(m) + vti_pset_bytes(&m->pset, VTI_EVICTABLE)) return vti_room_shortage(m);
    while (over > 0) {
        uint64_t had = over, spare = all_spare(m);
        if (over > spare) vti_prefixes_evict(m, over - spare);
        VT_TRY(vti_spare_return(m, over));
        over = vti_excess_bytes(m, budget_bytes);
        if (over == had) return VT_BUSY; // the device still uses the rest
    }
    return VT_OK;
}

static uint64_t share_of(const vt_manager *m, uint64_t bytes, uint64_t budget_bytes)
{
    if (bytes >= m->first_budget_bytes) return bytes;
    return (uint64_t)((unsigned __int128)bytes * budget_bytes / m->first_budget_bytes);
}

static bool holds_chunks(const vt_manager *m, uint64_t budget_bytes)
{
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        if (budget_bytes < m->geo.group[g].chunk_bytes) return false;
    return true;
}

// spare_high keeps its share of the budget, and spare_low is at most that.
static void take_budget(vt_manager *m, uint64_t budget_bytes)
{
    m->budget_bytes = budget_bytes;
    m->ceiling_bytes = budget_bytes + vti_over_budget(m);
    uint64_t low = share_of(m, m->first_spare_low_bytes, budget_bytes);
    m->spare_low_bytes = low < m->first_spare_low_bytes ? low : m->first_spare_low_bytes;
    m->spare_high_bytes = share_of(m, m->first_spare_high_bytes, budget_bytes);
    if (m->spare_high_bytes < m->spare_low_bytes) m->spare_high_bytes = m->spare_low_bytes;
}

static vt_status set_budget(vt_manager *m, uint64_t budget_bytes)
{
    if (!holds_chunks(m, budget_bytes)) return VT_EINVAL;
    if (vti_excess_bytes(m, budget_bytes) > 0) {
        settle_all(m);
        VT_TRY(shrink_to(m, budget_bytes));
    }
    take_budget(m, budget_bytes);
    return VT_OK;
}

vt_status vt_set_budget(vt_manager *m, uint64_t budget_bytes)
{
    return vti_tally_answer(m, set_budget(m, budget_bytes));
}

// ---- Memory, a little in each step

static vt_status aim_budget(vt_manager *m, uint64_t budget_bytes)
{
    if (!holds_chunks(m, budget_bytes)) return VT_EINVAL;
    vti_jobs_take(m);
    if (!vti_can_return(m, vti_excess_bytes(m, budget_bytes))) {
        settle_all(m);
        if (!vti_can_return(m, vti_excess_bytes(m, budget_bytes))) return vti_room_shortage(m);
    }
    if (budget_bytes == m->budget_bytes) return VT_OK; // it is under way
    take_budget(m, budget_bytes);
    vti_giving_continue(m);
    return VT_OK;
}

vt_status vt_aim_budget(vt_manager *m, uint64_t budget_bytes)
{
    return vti_tally_answer(m, aim_budget(m, budget_bytes));
}

void vt_give_back(vt_manager *m, uint64_t keep_bytes, bool forget)
{
    vti_giving *g = &m->giving;
    vti_jobs_take(m);
    if (!g->is_on || keep_bytes < g->keep_bytes) g->keep_bytes = keep_bytes;
    g->recent_bytes = 0;
    g->forgets |= forget;
    g->is_on = true;
    g->n_retired = vti_spans_retired(m);
    vti_giving_continue(m);
}

// ---- Statistics

static uint64_t quarantined_bytes(const vt_manager *m)
{
    uint64_t n = 0;
    for (uint32_t i = 0; m->vset.n_lost > 0 && i < m->vset.n_span; i++) {
        const vti_span *sp = m->vset.span[i];
        for (uint32_t g = 0; g < m->geo.n_group && sp->is_lost; g++)
            for (uint32_t p = sp->lane[g].held0; p < sp->lane[g].held1; p++)
                if (vti_lane_at(&sp->lane[g], p) != VTI_NO_CHUNK) n += m->geo.group[g].chunk_bytes;
    }
    return n;
}

static uint64_t count_chunks(const vt_manager *m, vt_chunk_state state)
{
    uint64_t n = 0;
    for (uint32_t c = 0; c < m->pset.n_class; c++) n += m->pset.cls[c].n_in[state];
    return n;
}

static vt_stats stats_of(const vt_manager *m)
{
    const vti_pset *ps = &m->pset;
    const vti_radix *tree = m->radix;
    vt_stats st = m->count;
    st.budget_bytes = m->budget_bytes;
    st.chunk_bytes = m->geo.group[0].chunk_bytes;
    st.block_tok = m->geo.block_tok;
    st.chunks_owned = count_chunks(m, VT_CHUNK_OWNED);
    st.chunks_shared = count_chunks(m, VT_CHUNK_SHARED);
    st.chunks_cached = count_chunks(m, VT_CHUNK_CACHED);
    st.chunks_spare = count_chunks(m, VT_CHUNK_SPARE);
    st.chunks_created = st.chunks_owned + st.chunks_shared + st.chunks_cached + st.chunks_spare;
    st.chunks_swapped = m->swap.n_slot - m->swap.n_free - m->swap.drop.job.n;
    st.mapped_bytes = vti_pset_created_bytes(ps);
    st.owned_bytes = vti_pset_bytes(ps, VT_CHUNK_OWNED);
    st.shared_bytes = vti_pset_bytes(ps, VT_CHUNK_SHARED);
    st.cached_bytes = vti_pset_bytes(ps, VT_CHUNK_CACHED);
    st.spare_bytes = vti_pset_bytes(ps, VT_CHUNK_SPARE);
    st.evictable_bytes = vti_pset_bytes(ps, VTI_EVICTABLE);
    st.quarantined_bytes = quarantined_bytes(m);
    st.swapped_bytes = m->swap.used_bytes;
    st.live_bytes = m->live_bytes;
    st.slack_bytes = m->slack_bytes;
    st.seqs = m->n_seq;
    st.quarantined_spans = m->vset.n_lost;
    st.mappings = m->vset.n_run;
    st.max_mappings = m->max_runs;
    st.prefix_nodes = tree->n_node;
    st.prefix_tok = tree->n_tok;
    st.prefix_evicted = tree->n_evicted;
    st.window_evicted = tree->n_window;
    st.swap_bytes = m->swap.size_bytes;
    st.coming_bytes = vti_coming_bytes(m);
    st.leaving_bytes = vti_pset_bytes(ps, VTI_LEAVING);
    st.returning_bytes = vti_returning_bytes(m);
    st.map_calls = m->calls.map_calls;
    st.unmap_calls = m->calls.unmap_calls;
    st.protect_calls = m->calls.protect_calls;
    st.create_calls = m->calls.create_calls;
    st.destroy_calls = m->calls.destroy_calls;
    st.device_errors = m->calls.device_errors;
    for (uint32_t g = 0; g < m->geo.n_group; g++) st.views += m->geo.group[g].n_view;
    return st;
}

void vt_stats_get(const vt_manager *m, vt_stats *out)
{
    vt_stats st = stats_of(m);
    vti_struct_out(out, &st, sizeof st, out->struct_bytes);
}

void vti_stats_publish(vt_manager *m)
{
    vt_stats st = stats_of(m);
    pthread_mutex_lock(&m->mu);
    m->published = st;
    pthread_mutex_unlock(&m->mu);
}

void vt_stats_read(vt_manager *m, vt_stats *out)
{
    pthread_mutex_lock(&m->mu);
    vt_stats st = m->published;
    pthread_mutex_unlock(&m->mu);
    vti_struct_out(out, &st, sizeof st, out->struct_bytes);
}

void vt_prefix_ages_get(const vt_manager *m, vt_prefix_ages *out)
{
    vti_struct_out(out, &m->radix->ages, sizeof m->radix->ages, out->struct_bytes);
}

const char *vt_status_name(vt_status st)
{
    static const char *const name[VT_N_STATUS] = {
        [VT_OK] = "VT_OK",           [VT_NOSPACE] = "VT_NOSPACE", [VT_EDEVICE] = "VT_EDEVICE",
        [VT_EINVAL] = "VT_EINVAL",   [VT_ENOMEM] = "VT_ENOMEM",   [VT_NOMAPS] = "VT_NOMAPS",
        [VT_NOSPANS] = "VT_NOSPANS", [VT_NOPINS] = "VT_NOPINS",   [VT_NOSWAP] = "VT_NOSWAP",
        [VT_BUSY] = "VT_BUSY",
    };
    unsigned i = (unsigned)st;
    return i < VT_N_STATUS ? name[i] : "VT_?";
}
