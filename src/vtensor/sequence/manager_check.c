// manager_check.c - vt_check: proves the invariants of manager.h, whose numbers the comments give,
// from the structures up: whatever can be counted again is not taken from a counter. Each function
// returns the first broken invariant as text, or NULL.
#include "sequence.h"

#include <stdlib.h>

#include "vtensor/common/claim.h"
#include "vtensor/common/try.h"

typedef struct manager_census {
    const vt_manager *m;
    vti_chunk *held; // [n_region, chunks_per_region] holders as counted
    uint64_t n_in[VT_N_CHUNK_STATE];
    uint64_t n_run, n_tok, n_swapped, n_torn, n_mapped;
    uint32_t n_live, n_in_state[VTI_SPAN_RETIRED + 1];
} manager_census;

static vti_chunk *held_at(manager_census *c, uint32_t region, uint32_t position)
{
    return &c->held[(size_t)region * c->m->geo.chunks_per_span + position];
}

// 3, 6: what is mapped at a position.
static const char *check_mapped(manager_census *c, const vti_span *sp, uint32_t position)
{
    const vt_manager *m = c->m;
    uint32_t region = sp->at[position];
    if (region == VTI_NO_REGION) return NULL;
    HOLDS(region < m->pset.n_region, "a span maps a region that does not exist");
    vt_chunk_state st = vti_pset_state(&m->pset, region, position);
    HOLDS(st != VT_CHUNK_ABSENT, "a mapped chunk has no memory");
    HOLDS(position < sp->n_end, "a span maps beyond its end");
    c->n_mapped++;
    c->n_run += position == 0 || sp->at[position - 1] != region;
    if (position < sp->n_owned) {
        held_at(c, region, position)->n_user++;
        return NULL;
    }
    HOLDS(st == VT_CHUNK_SPARE && region == sp->home,
          "a warm chunk is not a spare chunk of the home");
    return NULL;
}

static const char *check_detached(manager_census *c, const vti_span *sp, uint32_t position,
                                  uint32_t *n)
{
    uint32_t region = sp->detached[position];
    if (region == VTI_NO_REGION) return NULL;
    HOLDS(position < sp->n_owned && sp->at[position] == VTI_NO_REGION,
          "a detached chunk is mapped, or not held");
    held_at(c, region, position)->n_user++;
    (*n)++;
    return NULL;
}

// 2, 3, 6
static const char *check_map(manager_census *c, const vti_span *sp)
{
    uint64_t had_run = c->n_run;
    uint32_t n_warm = 0, n_detached = 0;
    for (uint32_t p = 0; p < c->m->geo.chunks_per_span; p++) {
        const char *broken = check_mapped(c, sp, p);
        if (!broken) broken = check_detached(c, sp, p, &n_detached);
        if (broken) return broken;
        n_warm += p >= sp->n_owned && sp->at[p] != VTI_NO_REGION;
    }
    HOLDS(n_warm == sp->n_warm, "the count of warm chunks is wrong");
    HOLDS(n_detached == sp->n_detached, "the count of detached chunks is wrong");
    HOLDS(c->n_run - had_run == sp->n_run, "a span's count of runs is wrong");
    HOLDS(sp->n_end == 0 || sp->at[sp->n_end - 1] != VTI_NO_REGION,
          "a span's end is not at its last mapped chunk");
    HOLDS(sp->home == VTI_NO_REGION || c->m->pset.region[sp->home].home_of == sp->id,
          "a span's home belongs to another span");
    c->n_torn += sp->tear.n > 0 || sp->n_detached > 0;
    return NULL;
}

static bool in_swap(const vt_seq *s, uint32_t position)
{
    for (uint32_t i = 0; i < s->n_swapped; i++)
        if (s->swapped[i].position == position) return true;
    return false;
}

// 4: what a sequence holds.
static const char *check_seq(manager_census *c, const vti_span *sp)
{
    const vt_seq *s = sp->seq;
    HOLDS(s && s->m == c->m && s->span == sp, "a sequence and its span do not refer to each other");
    HOLDS(s->len_tok <= c->m->geo.max_tok, "a sequence is longer than max_tok");
    HOLDS(sp->n_owned == vti_geo_chunks(&c->m->geo, s->len_tok),
          "a sequence does not own exactly the chunks it needs");
    for (uint32_t p = 0; p < sp->n_owned; p++)
        HOLDS(sp->at[p] != VTI_NO_REGION || sp->detached[p] != VTI_NO_REGION || in_swap(s, p),
              "an owned chunk is not mapped, detached or swapped out");
    c->n_live++;
    c->n_tok += s->len_tok;
    c->n_swapped += s->n_swapped;
    return NULL;
}

// 4
static const char *check_span(manager_census *c, uint32_t id)
{
    const vti_span *sp = c->m->vset.span[id];
    HOLDS(sp->id == id, "a span's id is not its index");
    HOLDS(!sp->is_lent, "a job is still with the mapper");
    HOLDS(sp->state <= VTI_SPAN_RETIRED, "a span's state is unknown");
    HOLDS(sp->state == VTI_SPAN_LIVE || !sp->seq, "a span that is not live has a sequence");
    HOLDS(sp->state != VTI_SPAN_IDLE || sp->n_owned == 0, "an idle span owns chunks");
    c->n_in_state[sp->state]++;
    const char *broken = check_map(c, sp);
    if (!broken && sp->state == VTI_SPAN_LIVE) broken = check_seq(c, sp);
    return broken;
}

static const char *check_list(const vti_span_list *l, vti_span_state state, uint32_t n_span)
{
    uint32_t n = 0;
    const vti_span *newer = NULL;
    for (const vti_span *sp = l->newest; sp && n <= l->n; newer = sp, sp = sp->older, n++)
        HOLDS(sp->state == state && sp->newer == newer, "a list of spans is not linked correctly");
    HOLDS(n == l->n && l->oldest == newer && n == n_span, "the length of a list of spans is wrong");
    return NULL;
}

static const char *check_spans(manager_census *c)
{
    const vti_vset *vs = &c->m->vset;
    for (uint32_t i = 0; i < vs->n_span; i++) {
        const char *broken = check_span(c, i);
        if (broken) return broken;
    }
    const char *broken = check_list(&vs->idle, VTI_SPAN_IDLE, c->n_in_state[VTI_SPAN_IDLE]);
    if (broken) return broken;
    return check_list(&vs->retired, VTI_SPAN_RETIRED, c->n_in_state[VTI_SPAN_RETIRED]);
}

// 8
static void count_node(void *ctx, uint32_t region, uint32_t position)
{
    manager_census *c = ctx;
    if (region >= c->m->pset.n_region || position >= c->m->geo.chunks_per_span) return;
    vti_chunk *held = held_at(c, region, position);
    held->n_node = (held->n_node + 1) & 0x7fffffffu;
}

// 1, 2
static const char *check_region(manager_census *c, uint32_t region)
{
    const vti_region *r = &c->m->pset.region[region];
    uint32_t n_in[VT_N_CHUNK_STATE] = {0};
    HOLDS(!vti_pset_is_home(&c->m->pset, region) ||
              (r->home_of < c->m->vset.n_span && c->m->vset.span[r->home_of]->home == region),
          "a region is the home of a span with another home");
    for (uint32_t p = 0; p < c->m->geo.chunks_per_span; p++) {
        vti_chunk is = r->chunk[p], want = *held_at(c, region, p);
        HOLDS(is.n_user == want.n_user, "a chunk's count of users is wrong");
        HOLDS(is.n_node == want.n_node, "a chunk's count of nodes is wrong");
        HOLDS(is.created || (is.n_user == 0 && is.n_node == 0), "a chunk without memory is held");
        n_in[vti_pset_state(&c->m->pset, region, p)]++;
    }
    for (int st = 0; st < VT_N_CHUNK_STATE; st++) {
        HOLDS(n_in[st] == r->n_in[st], "a region's counts do not match its chunks");
        c->n_in[st] += n_in[st];
    }
    return NULL;
}

static const char *check_regions(manager_census *c)
{
    for (uint32_t r = 0; r < c->m->pset.n_region; r++) {
        const char *broken = check_region(c, r);
        if (broken) return broken;
    }
    return NULL;
}

// 5, 6, 7
static const char *check_sums(const manager_census *c)
{
    const vt_manager *m = c->m;
    for (int st = 0; st < VT_N_CHUNK_STATE; st++)
        HOLDS(c->n_in[st] == m->pset.n_in[st],
              "the counts of chunks are not the sums over the regions");
    HOLDS(c->n_live == m->n_seq, "the count of sequences is wrong");
    HOLDS(m->n_reserved == 0 && m->runs_reserved == 0 && m->n_leaving == 0 && m->n_lent == 0,
          "a job has left a reservation");
    HOLDS(vti_pset_created(&m->pset) <= m->budget_chunks,
          "more chunks are created than the budget allows");
    HOLDS(c->n_run == m->vset.n_run, "the count of mappings is wrong");
    HOLDS(c->n_run * m->geo.n_view <= m->max_runs, "more runs are mapped than the backend allows");
    HOLDS(c->n_tok == m->live_tok, "the count of live tokens is wrong");
    HOLDS(m->tally.peak_tok >= c->n_tok, "the peak of live tokens is too low");
    HOLDS(m->tally.peak_chunks >= vti_pset_created(&m->pset), "the peak of chunks is too low");
    return NULL;
}

static bool slot_taken(uint8_t *taken, const vti_swap *sw, uint32_t slot)
{
    return slot >= sw->n_slot || taken[slot]++ > 0;
}

// 9
static const char *check_swap(manager_census *c, uint8_t *taken)
{
    const vti_swap *sw = &c->m->swap;
    HOLDS(c->n_swapped + sw->n_free == sw->n_slot, "the swap's slots do not add up");
    for (uint32_t i = 0; i < sw->n_free; i++)
        HOLDS(!slot_taken(taken, sw, sw->free_slot[i]),
              "a free slot of the swap is invalid or listed twice");
    for (uint32_t i = 0; i < c->m->vset.n_span; i++) {
        const vt_seq *s = c->m->vset.span[i]->seq;
        for (uint32_t k = 0; s && k < s->n_swapped; k++)
            HOLDS(!slot_taken(taken, sw, s->swapped[k].slot),
                  "a used slot of the swap is invalid, free or used twice");
    }
    return NULL;
}

// 5, 6: the comparison with the system.
static vt_status check_system(const manager_census *c, const char **broken)
{
    const vt_manager *m = c->m;
    vti_claim claim = {.resident_bytes = vti_pset_created(&m->pset) * m->geo.chunk_bytes,
                       .mapped_bytes = c->n_mapped * m->geo.chunk_bytes,
                       .n_run = c->n_run * m->geo.n_view,
                       .is_torn = c->n_torn > 0};
    return vti_claim_check(m->vmm, &claim, broken);
}

static vt_status check_all(manager_census *c, uint8_t *taken, const char **broken)
{
    *broken = check_spans(c);
    if (!*broken) *broken = vti_rtree_check(c->m->rtree, count_node, c);
    if (!*broken) *broken = check_regions(c);
    if (!*broken) *broken = check_sums(c);
    if (!*broken) *broken = check_swap(c, taken);
    return *broken ? VT_OK : check_system(c, broken);
}

vt_status vt_check(vt_manager *m, const char **what)
{
    const char *broken = NULL;
    vti_jobs_settle(m);
    size_t n_held = (size_t)m->pset.n_region * m->geo.chunks_per_span;
    manager_census c = {.m = m, .held = calloc(n_held + 1, sizeof *c.held)};
    uint8_t *taken = calloc((size_t)m->swap.n_slot + 1, 1);
    vt_status st = c.held && taken ? check_all(&c, taken, &broken) : VT_ENOMEM;
    free(taken);
    free(c.held);
    if (what) *what = broken;
    return broken ? VT_EINVAL : st;
}
