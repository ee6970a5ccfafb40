// check.c - vt_check: the invariants of internal.h, by their numbers, proved from the structures
// up; nothing is taken from a counter that could be counted again. Each function answers the first
// broken one in words, or NULL.
#include "internal.h"

typedef struct census {
    uint64_t n_in[VTI_N_CHUNK_STATE];
    uint64_t n_run;
    uint64_t n_tok;
    uint32_t n_seq;
} census;

#define HOLDS(cond, what)         \
    do {                          \
        if (!(cond)) return what; \
    } while (0)

// 1
static const char *check_region(const vti_pset *ps, const vti_region *r, census *c)
{
    uint32_t n_in[VTI_N_CHUNK_STATE] = {0};
    for (uint32_t i = 0; i < ps->chunks_per_region; i++) {
        HOLDS(r->state[i] < VTI_N_CHUNK_STATE, "a chunk has no known state");
        HOLDS(i == 0 || r->state[i] <= r->state[i - 1], "a region is not OWNED, SPARE, FREE");
        n_in[r->state[i]]++;
    }
    for (int st = 0; st < VTI_N_CHUNK_STATE; st++) {
        HOLDS(n_in[st] == r->n_in[st], "a region's counts are not those of its chunks");
        c->n_in[st] += n_in[st];
    }
    return NULL;
}

// 2
static const char *check_regions(const vt_manager *m, census *c)
{
    uint32_t n_open = 0;
    for (uint32_t i = 0; i < m->pset.n_region; i++) {
        const vti_region *r = &m->pset.region[i];
        if (!r->open) continue;
        n_open++;
        HOLDS(r->span < m->vset.n_span, "a region belongs to no span");
        HOLDS(m->vset.span[r->span]->region == i, "a region's span uses another region");
        const char *broken = check_region(&m->pset, r, c);
        if (broken) return broken;
    }
    HOLDS(n_open == m->vset.n_span, "regions in use are not as many as spans");
    return NULL;
}

// 3, 6
static const char *check_maps(const vt_manager *m, const vti_span *sp, census *c)
{
    const vti_region *r = &m->pset.region[sp->region];
    HOLDS(sp->n_owned == r->n_in[VTI_CHUNK_OWNED], "a span owns other chunks than its region says");
    HOLDS(sp->n_dirty <= vti_created(m, sp), "a span is dirty beyond its chunks");
    for (uint32_t v = 0; v < m->geo.n_view; v++) {
        HOLDS(sp->n_mapped[v] >= sp->n_owned, "an owned chunk is not mapped");
        HOLDS(sp->n_mapped[v] <= vti_created(m, sp), "a chunk is mapped that is not created");
        c->n_run += sp->n_mapped[v] > 0;
    }
    return NULL;
}

// 4
static const char *check_user(const vt_manager *m, const vti_span *sp, census *c)
{
    const vt_seq *s = sp->seq;
    HOLDS(s || sp->n_owned == 0, "an idle span owns chunks");
    HOLDS(!s || (!sp->newer && !sp->older && m->vset.newest != sp),
          "a live span is listed as idle");
    if (!s) return NULL;
    HOLDS(s->m == m && s->span == sp, "a sequence does not know its span");
    HOLDS(s->len_tok <= m->geo.max_tok, "a sequence is longer than max_tok");
    HOLDS(sp->n_owned == vti_geo_chunks(&m->geo, s->len_tok), "a sequence owns not what it needs");
    c->n_seq++;
    c->n_tok += s->len_tok;
    return NULL;
}

static const char *check_spans(const vt_manager *m, census *c)
{
    for (uint32_t i = 0; i < m->vset.n_span; i++) {
        const vti_span *sp = m->vset.span[i];
        HOLDS(sp->id == i, "a span has another id");
        HOLDS(m->pset.region[sp->region].open, "a span has no region");
        const char *broken = check_maps(m, sp, c);
        if (!broken) broken = check_user(m, sp, c);
        if (broken) return broken;
    }
    return NULL;
}

// 4
static const char *check_idle(const vti_vset *vs)
{
    uint32_t n = 0;
    const vti_span *newer = NULL;
    for (const vti_span *sp = vs->newest; sp && n <= vs->n_idle; newer = sp, sp = sp->older, n++)
        HOLDS(!sp->seq && sp->newer == newer, "the idle list is tangled");
    HOLDS(n == vs->n_idle && vs->oldest == newer, "the idle list has another length");
    return NULL;
}

// 4 to 7
static const char *check_sums(const vt_manager *m, const census *c)
{
    for (int st = 0; st < VTI_N_CHUNK_STATE; st++)
        HOLDS(c->n_in[st] == m->pset.n_in[st], "the chunks' counts are not the regions' sums");
    HOLDS(c->n_seq == m->n_seq, "the sequences are counted wrongly");
    HOLDS(c->n_seq + m->vset.n_idle == m->vset.n_span, "a span is neither live nor idle");
    HOLDS(vti_pset_created(&m->pset) <= m->budget_chunks, "more is created than the budget allows");
    HOLDS(c->n_run == m->vset.n_run, "the mappings are counted wrongly");
    HOLDS(c->n_run <= m->max_runs, "more is mapped than the backend allows");
    HOLDS(c->n_tok == m->live_tok, "the live tokens are counted wrongly");
    HOLDS(m->tally.peak_tok >= c->n_tok, "the peak of live tokens is too low");
    HOLDS(m->tally.peak_chunks >= vti_pset_created(&m->pset), "the peak of chunks is too low");
    return NULL;
}

// 5
static vt_status check_resident(const vt_manager *m, const char **broken)
{
    uint64_t size_bytes;
    VT_TRY(m->vmm->ops->resident(m->vmm, &size_bytes));
    if (size_bytes != vti_pset_created(&m->pset) * m->geo.chunk_bytes)
        *broken = "the system holds other memory than was created";
    return VT_OK;
}

vt_status vt_check(const vt_manager *m, const char **what)
{
    census c = {0};
    vt_status st = VT_OK;
    const char *broken = check_regions(m, &c);
    if (!broken) broken = check_spans(m, &c);
    if (!broken) broken = check_idle(&m->vset);
    if (!broken) broken = check_sums(m, &c);
    if (!broken) st = check_resident(m, &broken);
    if (what) *what = broken;
    return broken ? VT_EINVAL : st;
}
