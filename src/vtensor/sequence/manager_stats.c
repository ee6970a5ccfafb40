// manager_stats.c - the statistics: sums that are kept as things change, and vt_check proves. Only
// what a failing device has put out of use is counted on request. Other threads see a copy that
// each vt_step leaves.
#include "sequence.h"

#include "vtensor/core/common.h"

static uint64_t held_in_span(const vt_manager *m, const vti_span *sp)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        for (uint32_t p = sp->lane[g].held0; p < sp->lane[g].held1; p++)
            if (vti_lane_at(&sp->lane[g], p) != VTI_NO_CHUNK) n += m->geo.group[g].chunk_bytes;
    return n;
}

static uint64_t quarantined_bytes(const vt_manager *m)
{
    uint64_t n = 0;
    for (uint32_t i = 0; m->vset.n_lost > 0 && i < m->vset.n_span; i++)
        if (m->vset.span[i]->is_lost) n += held_in_span(m, m->vset.span[i]);
    return n;
}

static uint64_t count_chunks(const vt_manager *m, vt_chunk_state state)
{
    uint64_t n = 0;
    for (uint32_t c = 0; c < m->pset.n_class; c++) n += m->pset.cls[c].n_in[state];
    return n;
}

static uint64_t sum_views(const vt_manager *m)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < m->geo.n_group; g++) n += m->geo.group[g].n_view;
    return n;
}

static vt_stats gauges_of(const vt_manager *m)
{
    const vti_pset *ps = &m->pset;
    vti_rtree_stats tree = vti_rtree_look(m->rtree);
    return (vt_stats){
        .budget_bytes = m->budget_bytes,
        .chunk_bytes = m->geo.group[0].chunk_bytes,
        .block_tok = m->geo.block_tok,
        .chunks_owned = count_chunks(m, VT_CHUNK_OWNED),
        .chunks_shared = count_chunks(m, VT_CHUNK_SHARED),
        .chunks_cached = count_chunks(m, VT_CHUNK_CACHED),
        .chunks_spare = count_chunks(m, VT_CHUNK_SPARE),
        .chunks_swapped = m->swap.n_slot - m->swap.n_free - m->swap.drop.job.n,
        .mapped_bytes = vti_pset_created_bytes(ps),
        .owned_bytes = vti_pset_bytes(ps, VT_CHUNK_OWNED),
        .shared_bytes = vti_pset_bytes(ps, VT_CHUNK_SHARED),
        .cached_bytes = vti_pset_bytes(ps, VT_CHUNK_CACHED),
        .spare_bytes = vti_pset_bytes(ps, VT_CHUNK_SPARE),
        .evictable_bytes = vti_pset_evictable_bytes(&m->pset),
        .quarantined_bytes = quarantined_bytes(m),
        .swapped_bytes = m->swap.used_bytes,
        .live_bytes = m->live_bytes,
        .slack_bytes = m->slack_bytes,
        .seqs = m->n_seq,
        .quarantined_spans = m->vset.n_lost,
        .mappings = m->vset.n_run,
        .max_mappings = m->max_runs,
        .prefix_nodes = tree.n_node,
        .prefix_tok = tree.n_tok,
        .prefix_evicted = tree.n_evicted,
        .window_evicted = tree.n_beside,
        .swap_bytes = m->swap.size_bytes,
        .coming_bytes = vti_coming_bytes(m),
        .leaving_bytes = vti_pset_leaving_bytes(ps),
        .views = sum_views(m),
        .returning_bytes = vti_returning_bytes(m),
    };
}

static void add_counters(const vt_manager *m, vt_stats *out)
{
    const vti_tally *t = &m->tally;
    out->peak_mapped_bytes = t->peak_bytes;
    out->peak_live_bytes = t->peak_live;
    out->map_calls = t->calls.map_calls;
    out->unmap_calls = t->calls.unmap_calls;
    out->protect_calls = t->calls.protect_calls;
    out->create_calls = t->calls.create_calls;
    out->destroy_calls = t->calls.destroy_calls;
    out->shortages = t->shortages;
    out->device_errors = t->calls.device_errors;
    out->match_calls = t->match_calls;
    out->match_tok = t->match_tok;
    out->hit_tok = t->hit_tok;
    out->copied_chunks = t->copied_chunks;
    out->ready_hits = t->ready_hits;
    out->ready_misses = t->ready_misses;
    out->jobs = t->jobs;
    out->job_failures = t->job_failures;
    out->swap_out_chunks = t->swap_out_chunks;
    out->swap_in_chunks = t->swap_in_chunks;
    out->swap_corrupt = t->swap_corrupt;
}

static vt_stats stats_of(const vt_manager *m)
{
    vt_stats st = gauges_of(m);
    st.chunks_created = st.chunks_owned + st.chunks_shared + st.chunks_cached + st.chunks_spare;
    add_counters(m, &st);
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
    const vt_prefix_ages *ages = vti_rtree_ages(m->rtree);
    vti_struct_out(out, ages, sizeof *ages, out->struct_bytes);
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
