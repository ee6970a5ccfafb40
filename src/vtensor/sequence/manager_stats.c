// manager_stats.c - the statistics. Gauges are computed from the structure on request, so that they
// cannot drift from it; only counters and peaks are kept. Other threads see a copy that each
// vt_step leaves.
#include "sequence.h"

#include "vtensor/common/sizes.h"

static uint64_t tail_slack(const vt_manager *m, const vt_seq *s)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        const vti_lane_geo *gr = &m->geo.group[g];
        size_t tail = vti_group_tail_bytes(gr, s->len_tok);
        if (tail > 0) n += gr->n_view * (gr->slice_bytes - tail);
    }
    return n;
}

// Bytes beyond the sequences' lengths in their tails, which nobody shares.
static uint64_t slack_bytes(const vt_manager *m)
{
    uint64_t n = 0;
    for (const vti_span *sp = m->vset.in[VTI_SPAN_LIVE].oldest; sp; sp = sp->newer)
        if (sp->seq && !vti_seq_is_away(sp->seq)) n += tail_slack(m, sp->seq);
    return n;
}

static uint64_t held_in_span(const vt_manager *m, const vti_span *sp)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        for (uint32_t p = sp->lane[g].held0; p < sp->lane[g].held1; p++)
            if (sp->lane[g].at[p] != VTI_NO_CHUNK) n += m->geo.group[g].chunk_bytes;
    return n;
}

static uint64_t quarantined_bytes(const vt_manager *m)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->vset.n_span; i++)
        if (m->vset.span[i]->is_lost) n += held_in_span(m, m->vset.span[i]);
    return n;
}

// What a lost span holds is counted as quarantined.
static bool has_given_up(const vti_span *sp, uint32_t group, uint32_t position)
{
    const vti_lane *l = &sp->lane[group];
    return !sp->is_lost && position >= l->held0 && position < l->held1 &&
           (position < l->front || position >= l->n_owned);
}

// Loans of a chunk, from that one on.
static uint32_t count_loans(const vt_manager *m, uint32_t chunk, uint32_t from)
{
    uint32_t n = 0;
    for (uint32_t i = from; i < m->n_loan; i++)
        n += m->loan[(m->first_loan + i) % m->cap_loan].chunk == chunk;
    return n;
}

// Whether all who hold the chunk of a span at a position have given it up. Holds for the first of
// them only, so that the chunk is counted once. Who shares a chunk has it at the same position.
static bool is_leaving(const vt_manager *m, uint32_t span, uint32_t group, uint32_t position)
{
    const uint32_t chunk = m->vset.span[span]->lane[group].at[position];
    if (chunk == VTI_NO_CHUNK) return false;
    const uint32_t n_user = vti_pset_chunk(&m->pset, chunk).n_user;
    if (n_user == 1) return true; // this span's: no walk, since every step counts this
    uint32_t n = count_loans(m, chunk, 0);
    for (uint32_t i = span; i < m->vset.n_span; i++) {
        const vti_span *sp = m->vset.span[i];
        n += has_given_up(sp, group, position) && sp->lane[group].at[position] == chunk;
    }
    return n == n_user;
}

static uint64_t leaving_in_lane(const vt_manager *m, uint32_t span, uint32_t group)
{
    const vti_span *sp = m->vset.span[span];
    const vti_lane *l = &sp->lane[group];
    uint64_t n = 0;
    for (uint32_t p = l->held0; p < l->held1; p++) {
        if (p == l->front && l->n_owned > p) p = l->n_owned;
        n += has_given_up(sp, group, p) && is_leaving(m, span, group, p);
    }
    return n * m->geo.group[group].chunk_bytes;
}

// Chunks that no lane holds, but a copy that the device has not finished.
static uint64_t lent_bytes(const vt_manager *m)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->n_loan; i++) {
        const uint32_t chunk = m->loan[(m->first_loan + i) % m->cap_loan].chunk;
        const uint32_t n_user = vti_pset_chunk(&m->pset, chunk).n_user;
        if (n_user == 1 || count_loans(m, chunk, i) == n_user)
            n += m->pset.cls[vti_pset_class(&m->pset, chunk)].chunk_bytes;
    }
    return n;
}

// What sequences have given up, until the device is done with it and it is unmapped.
static uint64_t leaving_bytes(const vt_manager *m)
{
    uint64_t n = lent_bytes(m);
    for (uint32_t i = 0; i < m->vset.n_span; i++)
        for (uint32_t g = 0; g < m->geo.n_group; g++) n += leaving_in_lane(m, i, g);
    return n;
}

static uint64_t count_lost(const vt_manager *m)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->vset.n_span; i++) n += m->vset.span[i]->is_lost;
    return n;
}

static uint64_t count_chunks(const vt_manager *m, vt_chunk_state state)
{
    uint64_t n = 0;
    for (uint32_t c = 0; c < m->pset.n_class; c++) n += m->pset.cls[c].n_in[state];
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
        .evictable_bytes = vti_evictable_bytes(m),
        .quarantined_bytes = quarantined_bytes(m),
        .swapped_bytes = m->swap.used_bytes,
        .live_bytes = m->live_bytes,
        .slack_bytes = slack_bytes(m),
        .seqs = m->n_seq,
        .quarantined_spans = count_lost(m),
        .mappings = m->vset.n_run,
        .max_mappings = m->max_runs,
        .prefix_nodes = tree.n_node,
        .prefix_tok = tree.n_tok,
        .prefix_evicted = tree.n_evicted,
        .window_evicted = tree.n_beside,
        .swap_bytes = m->swap.size_bytes,
        .coming_bytes = vti_coming_bytes(m),
        .leaving_bytes = leaving_bytes(m),
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
