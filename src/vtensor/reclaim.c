// reclaim.c - what becomes of spare chunks: kept warm for the next sequence, given back to the
// system when somebody needs their place in the budget, or when they are too many.
//
// Who holds spare chunks, in the order in which they are taken away:
//   1. idle spans, the longest idle first;
//   2. live spans that were handed more warm chunks than their sequence has grown into.
// Of a span the last chunks go first, so that what stays is a prefix still. A span that the device
// will not let go of is passed over: it stays as it is, spare and counted.
#include "internal.h"

static uint32_t spare_of(const vt_manager *m, const vti_span *sp)
{
    return vti_created(m, sp) - sp->n_owned;
}

uint64_t vti_spare(const vt_manager *m, const vti_span *besides)
{
    return m->pset.n_in[VTI_CHUNK_SPARE] - (besides ? spare_of(m, besides) : 0);
}

// The span behind sp in the order above; the first for NULL.
static vti_span *next_holder(const vti_vset *vs, const vti_span *sp)
{
    if (!sp && vs->oldest) return vs->oldest;
    if (sp && !sp->seq && sp->newer) return sp->newer;
    for (uint32_t i = sp && sp->seq ? sp->id + 1 : 0; i < vs->n_span; i++)
        if (vs->span[i]->seq) return vs->span[i];
    return NULL;
}

vt_status vti_reclaim(vt_manager *m, uint64_t n_chunk, const vti_span *besides)
{
    vt_status st = VT_OK;
    for (vti_span *sp = NULL; n_chunk > 0 && (sp = next_holder(&m->vset, sp));) {
        uint32_t n = spare_of(m, sp);
        if (sp == besides || n == 0) continue;
        if (n > n_chunk) n = (uint32_t)n_chunk;
        vt_status shed = vti_shed(m, sp, vti_created(m, sp) - n);
        if (shed == VT_OK)
            n_chunk -= n;
        else
            st = shed;
    }
    return n_chunk == 0 ? VT_OK : st;
}

// Where spare chunks cannot make up for what is asked, none is lost.
static vt_status room_in_budget(vt_manager *m, const vti_span *sp, uint32_t upto)
{
    uint64_t owned = m->pset.n_in[VTI_CHUNK_OWNED] + (upto - sp->n_owned);
    if (owned > m->budget_chunks) return VT_NOSPACE;
    uint32_t have = vti_created(m, sp);
    uint64_t created = vti_pset_created(&m->pset) + (upto > have ? upto - have : 0);
    return created > m->budget_chunks ? vti_reclaim(m, created - m->budget_chunks, sp) : VT_OK;
}

static uint32_t runs_to_come(const vt_manager *m, const vti_span *sp)
{
    uint32_t n = 0;
    for (uint32_t v = 0; v < m->geo.n_view; v++) n += sp->n_mapped[v] == 0;
    return n;
}

// Only a span that gives all its chunks back frees runs.
static vt_status room_in_runs(vt_manager *m, const vti_span *sp)
{
    vt_status st = VT_NOSPACE;
    uint64_t need = runs_to_come(m, sp);
    if (need > m->max_runs) return VT_NOSPACE;
    for (vti_span *it = NULL; m->vset.n_run > m->max_runs - need;) {
        it = next_holder(&m->vset, it);
        if (!it) return st;
        if (it == sp || it->n_owned > 0) continue;
        vt_status shed = vti_shed(m, it, 0);
        if (shed != VT_OK) st = shed;
    }
    return VT_OK;
}

// Makes room in the budget and among the mappings for sp to grow to `upto` chunks.
vt_status vti_make_room(vt_manager *m, const vti_span *sp, uint32_t upto)
{
    VT_TRY(room_in_budget(m, sp, upto));
    return room_in_runs(m, sp);
}

vt_status vt_trim(vt_manager *m, uint64_t keep_bytes, uint64_t *freed_bytes)
{
    uint64_t had = vti_pset_created(&m->pset);
    uint64_t keep = keep_bytes / m->geo.chunk_bytes;
    uint64_t spare = vti_spare(m, NULL);
    vt_status st = spare > keep ? vti_reclaim(m, spare - keep, NULL) : VT_OK;
    if (freed_bytes) *freed_bytes = (had - vti_pset_created(&m->pset)) * m->geo.chunk_bytes;
    return vti_answer(m, st);
}
