// stats.c - what the manager says about itself. Gauges are computed from the structure when asked,
// so that they cannot drift from it; only counters and peaks are kept.
#include "internal.h"

vt_status vti_answer(vt_manager *m, vt_status st)
{
    m->tally.nospace += st == VT_NOSPACE;
    return st;
}

static uint64_t live_bytes(const vt_manager *m, uint64_t n_tok)
{
    const vti_geo *g = &m->geo;
    uint64_t views = g->n_view; // stride_bytes holds all planes where there is one view
    return n_tok * views * g->stride_bytes;
}

void vt_get_stats(const vt_manager *m, vt_stats *out)
{
    const vti_tally *t = &m->tally;
    uint64_t chunk = m->geo.chunk_bytes;
    uint64_t owned = m->pset.n_in[VTI_CHUNK_OWNED];
    uint64_t live = live_bytes(m, m->live_tok);
    *out = (vt_stats){
        .budget_bytes = m->budget_bytes,
        .chunk_bytes = chunk,
        .chunks_created = vti_pset_created(&m->pset),
        .chunks_owned = owned,
        .chunks_spare = m->pset.n_in[VTI_CHUNK_SPARE],
        .mapped_bytes = vti_pset_created(&m->pset) * chunk,
        .live_bytes = live,
        .slack_bytes = owned * chunk - live,
        .peak_mapped_bytes = t->peak_chunks * chunk,
        .peak_live_bytes = live_bytes(m, t->peak_tok),
        .seqs = m->n_seq,
        .mappings = m->vset.n_run,
        .max_mappings = m->max_runs,
        .map_calls = t->map_calls,
        .unmap_calls = t->unmap_calls,
        .create_calls = t->create_calls,
        .destroy_calls = t->destroy_calls,
        .nospace = t->nospace,
        .device_errors = t->device_errors,
    };
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
