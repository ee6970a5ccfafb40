// manager_stats.c - the statistics. Gauges are computed from the structure on request, so that they
// cannot drift from it; only counters and peaks are kept.
#include "sequence.h"

static uint64_t live_bytes(const vt_manager *m, uint64_t n_tok)
{
    const vti_geo *g = &m->geo;
    uint64_t views = g->n_view; // with one view, stride_bytes covers all planes
    return n_tok * views * g->stride_bytes;
}

// Bytes beyond the sequences' lengths in their tails; a shared tail counts once per sequence.
static uint64_t slack_bytes(const vt_manager *m)
{
    const vti_geo *g = &m->geo;
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->vset.n_span; i++) {
        const vt_seq *s = m->vset.span[i]->seq;
        size_t tail = s ? vti_geo_tail_bytes(g, s->len_tok) : 0;
        if (tail > 0 && !s->swapped) n += g->n_view * (g->slice_bytes - tail);
    }
    return n;
}

void vt_get_stats(const vt_manager *m, vt_stats *out)
{
    const vti_tally *t = &m->tally;
    const uint64_t *n_in = m->pset.n_in;
    uint64_t chunk = m->geo.chunk_bytes, created = vti_pset_created(&m->pset);
    vti_rtree_stats tree = vti_rtree_look(m->rtree);
    *out = (vt_stats){
        .budget_bytes = m->budget_bytes,
        .chunk_bytes = chunk,
        .chunks_created = created,
        .chunks_owned = n_in[VT_CHUNK_OWNED],
        .chunks_shared = n_in[VT_CHUNK_SHARED],
        .chunks_cached = n_in[VT_CHUNK_CACHED],
        .chunks_spare = n_in[VT_CHUNK_SPARE],
        .chunks_swapped = m->swap.n_slot - m->swap.n_free,
        .mapped_bytes = created * chunk,
        .live_bytes = live_bytes(m, m->live_tok),
        .slack_bytes = slack_bytes(m),
        .peak_mapped_bytes = t->peak_chunks * chunk,
        .peak_live_bytes = live_bytes(m, t->peak_tok),
        .seqs = m->n_seq,
        .mappings = m->vset.n_run * m->geo.n_view,
        .max_mappings = m->max_runs,
        .map_calls = t->calls.map_calls,
        .unmap_calls = t->calls.unmap_calls,
        .create_calls = t->calls.create_calls,
        .destroy_calls = t->calls.destroy_calls,
        .nospace = t->nospace,
        .device_errors = t->calls.device_errors,
        .prefix_nodes = tree.n_node,
        .prefix_tok = tree.n_tok,
        .prefix_evicted = t->prefix_evicted,
        .match_calls = t->match_calls,
        .match_tok = t->match_tok,
        .hit_tok = t->hit_tok,
        .copied_chunks = t->copied_chunks,
        .ready_hits = t->ready_hits,
        .ready_misses = t->ready_misses,
        .jobs = t->jobs,
        .job_failures = t->job_failures,
        .swap_bytes = m->swap.size_bytes,
        .swap_out_chunks = t->swap_out_chunks,
        .swap_in_chunks = t->swap_in_chunks,
        .swap_corrupt = t->swap_corrupt,
    };
}

void vt_get_prefix_ages(const vt_manager *m, vt_prefix_ages *out)
{
    *out = *vti_rtree_ages(m->rtree);
}

const char *vt_status_name(vt_status st)
{
    static const char *const name[] = {
        [VT_OK] = "VT_OK",         [VT_NOSPACE] = "VT_NOSPACE", [VT_EDEVICE] = "VT_EDEVICE",
        [VT_EINVAL] = "VT_EINVAL", [VT_ENOMEM] = "VT_ENOMEM",
    };
    unsigned i = (unsigned)st;
    return i < sizeof name / sizeof name[0] ? name[i] : "VT_?";
}
