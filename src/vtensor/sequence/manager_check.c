// manager_check.c - vt_check: proves the invariants of manager.h, whose numbers the comments give,
// from the structures up: whatever can be counted again is not taken from a counter. Each function
// returns the first broken invariant as text, or NULL.
#include "sequence.h"

#include <stdlib.h>

// How often a chunk is held and mapped, as counted.
typedef struct chunk_census {
    uint32_t n_user, n_gone, n_node, n_kept, n_mapped_free;
} chunk_census;

typedef struct manager_census {
    const vt_manager *m;
    chunk_census *held;                  // by number
    uint32_t *n_preferred[VT_MAX_GROUP]; // by class and region: lanes that prefer it
    uint64_t n_run, live_bytes, slack_bytes, mapped_bytes, mapped_free_bytes[VTI_N_SPAN_STATE];
    uint64_t n_run_moving; // reserved by sequences on their way
    uint64_t swapped_bytes;
    uint32_t n_live, n_swapped, n_lost, n_due, n_idle_mapped, n_in_state[VTI_N_SPAN_STATE];
} manager_census;

static chunk_census *held_at(manager_census *c, uint32_t chunk)
{
    return chunk < vti_pset_end(&c->m->pset) ? &c->held[chunk] : NULL;
}

// 3: what is mapped at a position.
static const char *check_mapped(manager_census *c, const vti_span *sp, uint32_t group,
                                uint32_t position)
{
    const vti_lane *l = &sp->lane[group];
    const vti_lane_geo *gr = &c->m->geo.group[group];
    uint32_t chunk = l->at[position];
    if (chunk == VTI_NO_CHUNK) return NULL;
    chunk_census *held = held_at(c, chunk);
    HOLDS(held && vti_pset_class(&c->m->pset, chunk) == gr->cls,
          "a lane maps a chunk that does not exist");
    vti_chunk is = vti_pset_chunk(&c->m->pset, chunk);
    HOLDS(is.is_created, "a mapped chunk has no memory");
    c->mapped_bytes += gr->chunk_bytes;
    if (vti_lane_run_begins(&c->m->vset, l, position)) c->n_run += gr->n_view;
    if (position >= l->held0 && position < l->held1) {
        held->n_user++;
        held->n_gone += vti_lane_has_left(sp, l, position);
        return NULL;
    }
    HOLDS(position >= l->held1, "a lane maps a chunk before those it holds");
    HOLDS(vti_chunk_state(&is) == VT_CHUNK_SPARE && is.place == VTI_IN_LANE,
          "a mapped-free chunk is not spare");
    HOLDS(held->n_mapped_free++ == 0, "a mapped-free chunk is mapped twice");
    HOLDS(position >= l->n_ro, "a mapped-free chunk is mapped for reading only");
    return NULL;
}

// 3, 6
static const char *check_map(manager_census *c, const vti_span *sp, uint32_t group)
{
    const vti_lane *l = &sp->lane[group];
    const vti_lane_geo *gr = &c->m->geo.group[group];
    uint64_t had_run = c->n_run;
    uint32_t n_mapped_free = 0;
    HOLDS(l->n_end <= l->n_room && l->n_room <= 2 * gr->n_position + 8,
          "the room of a lane's map is wrong");
    for (uint32_t p = l->n_end; p < l->n_room; p++)
        HOLDS(l->at[p] == VTI_NO_CHUNK, "a lane maps beyond its end");
    for (uint32_t p = 0; p < l->n_end; p++) {
        HOLDS_ALL(check_mapped(c, sp, group, p));
        n_mapped_free += l->at[p] != VTI_NO_CHUNK && (p < l->held0 || p >= l->held1);
    }
    HOLDS(n_mapped_free == l->n_mapped_free, "the count of mapped-free chunks is wrong");
    for (uint32_t p = l->solid0; p < l->solid1; p++)
        HOLDS(vti_lane_at(l, p) != VTI_NO_CHUNK, "a lane has a gap where it should have none");
    HOLDS(c->n_run - had_run == (uint64_t)l->n_run * gr->n_view, "a lane's count of runs is wrong");
    HOLDS(l->n_end == 0 || l->at[l->n_end - 1] != VTI_NO_CHUNK,
          "a lane's end is not at its last mapped chunk");
    HOLDS(l->dirty_end <= l->n_end * gr->slice_bytes, "a lane is dirty beyond its end");
    c->mapped_free_bytes[sp->state] += n_mapped_free * (uint64_t)gr->chunk_bytes;
    return NULL;
}

// 9: what an entry of the list says of memory.
static const char *check_swapped(const vt_seq *s, const vti_swapped *e)
{
    const vti_lane *l = &s->span->lane[e->group];
    bool is_mapped = vti_lane_at(l, e->position) != VTI_NO_CHUNK;
    bool rests = !s->move || s->move->phase == VTI_MOVE_DONE;
    bool leaves = s->move && s->move->phase <= VTI_MOVE_UNMAP;
    HOLDS(e->position >= l->front && e->position < l->n_owned,
          "the swap has a chunk that its sequence does not own");
    HOLDS(!rests || !is_mapped, "what is in the swap of a sequence at rest is mapped");
    HOLDS(e->is_out || (leaves && (is_mapped || s->move->phase != VTI_MOVE_FENCE)),
          "rows are neither in memory nor in the swap");
    return NULL;
}

// 9
static const char *check_move(const vt_seq *s)
{
    const vti_move *mv = s->move;
    if (mv && mv->phase == VTI_MOVE_DONE)
        HOLDS(mv->n_run == 0, "a sequence that has arrived reserves mappings");
    if (mv) {
        HOLDS(!mv->copy.job.in_flight, "a copy is still with the mapper");
        HOLDS(s->n_swapped > 0 || mv->phase == VTI_MOVE_DONE, "a sequence moves without chunks");
    }
    for (uint32_t i = 0; i < s->n_swapped; i++) HOLDS_ALL(check_swapped(s, &s->swapped[i]));
    return NULL;
}

static bool in_swap(const vt_seq *s, uint32_t group, uint32_t position)
{
    for (uint32_t i = 0; i < s->n_swapped; i++)
        if (s->swapped[i].group == group && s->swapped[i].position == position) return true;
    return false;
}

// 4, 11: what a sequence holds in a lane.
static const char *check_lane(const manager_census *c, const vti_span *sp, uint32_t group)
{
    const vt_manager *m = c->m;
    const vti_lane_geo *gr = &m->geo.group[group];
    const vti_lane *l = &sp->lane[group];
    const vt_seq *s = sp->seq;
    HOLDS(l->n_owned == vti_group_chunks(gr, s->len_tok),
          "a sequence does not own exactly the chunks it needs");
    HOLDS(l->front <= vti_group_passed(gr, s->len_tok) && (gr->window_tok > 0 || l->front == 0),
          "a lane has given up rows that are needed");
    HOLDS(l->held0 <= l->front && l->held1 >= l->n_owned, "a lane does not hold what it owns");
    HOLDS(m->guards || l->guard_end == 0, "a guard waits where nothing is guarded");
    for (uint32_t p = l->front; p < l->n_owned; p++) {
        uint32_t chunk = vti_lane_at(l, p);
        HOLDS(chunk != VTI_NO_CHUNK || in_swap(s, group, p),
              "an owned chunk is not mapped or swapped out");
        bool is_shared =
            chunk != VTI_NO_CHUNK && vti_pset_state(&m->pset, chunk) == VT_CHUNK_SHARED;
        bool is_tail = !gr->is_state && p >= vti_group_whole(gr, s->len_tok);
        HOLDS(!is_shared || p < l->n_ro || p < l->guard_end || !m->guards || is_tail,
              "a shared chunk can be written");
        HOLDS(!is_shared || !gr->is_state, "a state is shared");
    }
    return NULL;
}

// 4
static const char *check_seq(manager_census *c, const vti_span *sp)
{
    const vt_seq *s = sp->seq;
    HOLDS(s && s->m == c->m && s->span == sp, "a sequence and its span do not refer to each other");
    HOLDS(s->len_tok <= c->m->geo.max_tok, "a sequence is longer than max_tok");
    HOLDS(s->live_bytes == vti_seq_live_bytes(s), "a sequence's live bytes are wrong");
    for (uint32_t g = 0; g < c->m->geo.n_group && !sp->is_lost; g++)
        HOLDS_ALL(check_lane(c, sp, g));
    HOLDS(s->slack_bytes == vti_seq_slack_bytes(s), "a sequence's slack bytes are wrong");
    if (!sp->is_lost) HOLDS_ALL(check_move(s));
    if (s->move) c->n_run_moving += s->move->n_run;
    c->n_live++;
    c->live_bytes += s->live_bytes;
    c->slack_bytes += s->slack_bytes;
    c->n_swapped += s->n_swapped;
    for (uint32_t i = 0; i < s->n_swapped; i++)
        c->swapped_bytes += c->m->geo.group[s->swapped[i].group].chunk_bytes;
    return NULL;
}

// 4
static const char *check_span(manager_census *c, uint32_t id)
{
    const vti_span *sp = c->m->vset.span[id];
    HOLDS(sp->id == id, "a span's id is not its index");
    HOLDS(sp->state < VTI_N_SPAN_STATE, "a span's state is unknown");
    HOLDS(sp->state == VTI_SPAN_LIVE || !sp->seq, "a span that is not live has a sequence");
    HOLDS(sp->is_lost || sp->state != VTI_SPAN_QUARANTINED, "a sound span is in quarantine");
    HOLDS(sp->state != VTI_SPAN_CLEARING, "a span waits for a job that has come back");
    c->n_in_state[sp->state]++;
    c->n_lost += sp->is_lost;
    c->n_due += sp->is_due;
    const uint64_t had_mapped_free = c->mapped_free_bytes[VTI_SPAN_IDLE];
    for (uint32_t g = 0; g < c->m->geo.n_group; g++) {
        const vti_lane *l = &sp->lane[g];
        HOLDS(!l->job.in_flight, "a job is still with the mapper");
        HOLDS(sp->state != VTI_SPAN_IDLE || (l->held1 == 0 && l->n_owned == 0 && l->n_ro == 0),
              "an idle span holds chunks");
        HOLDS_ALL(check_map(c, sp, g));
    }
    const bool is_idle_mapped = c->mapped_free_bytes[VTI_SPAN_IDLE] > had_mapped_free;
    HOLDS(sp->is_listed_mapped == is_idle_mapped,
          "the list of idle spans with mapped chunks has others, or lacks one");
    c->n_idle_mapped += is_idle_mapped;
    return sp->state == VTI_SPAN_LIVE ? check_seq(c, sp) : NULL;
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

// 12
static const char *check_due(const manager_census *c)
{
    const vti_vset *vs = &c->m->vset;
    HOLDS(vs->n_due == c->n_due, "the count of due spans is wrong");
    for (uint32_t i = 0; i < vs->n_due; i++)
        HOLDS(vti_vset_due(vs, i)->is_due, "a span that is not due is in their list");
    for (uint32_t i = 0; i < vs->n_span; i++)
        HOLDS(vs->span[i]->is_due || vti_span_is_done(c->m, vs->span[i]), "a step forgets a span");
    return NULL;
}

static const char *check_idle_mapped(const manager_census *c)
{
    const vti_span_list *l = &c->m->vset.idle_mapped;
    uint32_t n = 0;
    const vti_span *newer = NULL;
    for (const vti_span *sp = l->newest; sp && n <= l->n; newer = sp, sp = sp->mapped_older, n++)
        HOLDS(sp->is_listed_mapped && sp->mapped_newer == newer,
              "the list of idle spans with mapped chunks is not linked correctly");
    HOLDS(n == l->n && l->oldest == newer && n == c->n_idle_mapped,
          "the length of the list of idle spans with mapped chunks is wrong");
    return NULL;
}

static const char *check_spans(manager_census *c)
{
    const vti_vset *vs = &c->m->vset;
    for (uint32_t i = 0; i < vs->n_span; i++) HOLDS_ALL(check_span(c, i));
    for (vti_span_state st = 0; st < VTI_N_SPAN_STATE; st++) {
        HOLDS_ALL(check_list(&vs->in[st], st, c->n_in_state[st]));
        HOLDS(c->mapped_free_bytes[st] == vs->mapped_free_bytes[st],
              "the count of mapped-free bytes is wrong");
    }
    HOLDS_ALL(check_idle_mapped(c));
    return check_due(c);
}

// 2
static const char *check_regions(const manager_census *c)
{
    const vt_manager *m = c->m;
    for (uint32_t i = 0; i < m->vset.n_span; i++)
        for (uint32_t g = 0; g < m->geo.n_group; g++) {
            uint32_t region = m->vset.span[i]->lane[g].region;
            uint32_t cls = m->geo.group[g].cls;
            HOLDS(region == VTI_NO_CHUNK || vti_pset_is_preferred(&m->pset, cls, region),
                  "a lane's preferred region is not marked as one");
            HOLDS(region == VTI_NO_CHUNK || c->n_preferred[cls][region]++ == 0,
                  "two lanes prefer one region");
        }
    return NULL;
}

// 8
static void count_node(void *ctx, uint32_t chunk, bool is_kept)
{
    chunk_census *held = held_at(ctx, chunk);
    if (!held) return;
    held->n_node++;
    held->n_kept += is_kept;
}

// 1
static const char *check_chunk(const chunk_census *want, const vti_chunk *is, uint64_t *n_in)
{
    vt_chunk_state st = vti_chunk_state(is);
    HOLDS(is->n_user == want->n_user, "a chunk's count of users is wrong");
    HOLDS(is->n_user == 0 || is->n_gone == want->n_gone,
          "a chunk's count of those that have given it up is wrong");
    HOLDS(is->n_node == want->n_node, "a chunk's count of nodes is wrong");
    HOLDS(is->n_node == 0 || is->n_kept == want->n_kept, "a chunk's count of kept nodes is wrong");
    HOLDS(is->is_created || (is->n_user == 0 && is->n_node == 0), "a chunk without memory is held");
    HOLDS(is->is_created || is->place == 0, "a job has left a name reserved");
    HOLDS(st != VT_CHUNK_SPARE || is->place != VTI_WITH_JOB, "a job has left a chunk");
    HOLDS(st != VT_CHUNK_SPARE || (is->place == VTI_IN_LANE) == (want->n_mapped_free == 1),
          "a spare chunk is not where it should be");
    n_in[st]++;
    n_in[VTI_POOLED] += st == VT_CHUNK_SPARE && is->place == VTI_IN_POOL;
    n_in[VTI_LEAVING] += is->n_user > 0 && want->n_gone == is->n_user;
    n_in[VTI_EVICTABLE] += st == VT_CHUNK_CACHED && is->n_kept == 0;
    return NULL;
}

// 1, 5
static const char *check_class(const manager_census *c, uint32_t cls)
{
    const vti_class *k = &c->m->pset.cls[cls];
    uint64_t n_in[VTI_N_COUNT] = {0}, n_pool = 0;
    for (uint32_t i = 0; i < vti_pset_end(&c->m->pset); i++) {
        const vti_chunk is = vti_pset_chunk(&c->m->pset, i);
        if (vti_pset_class(&c->m->pset, i) == cls) HOLDS_ALL(check_chunk(&c->held[i], &is, n_in));
    }
    for (uint32_t chunk = k->pool; chunk != VTI_NO_CHUNK && n_pool <= k->n_in[VTI_POOLED]; n_pool++)
        chunk = vti_pset_chunk(&c->m->pset, chunk).next;
    for (int st = VT_CHUNK_SPARE; st < VT_N_CHUNK_STATE; st++)
        HOLDS(n_in[st] == k->n_in[st], "the counts of chunks are not the sums over the chunks");
    HOLDS(n_in[VTI_POOLED] == k->n_in[VTI_POOLED] && n_pool == k->n_in[VTI_POOLED],
          "the count of the pool is wrong");
    HOLDS(n_in[VTI_LEAVING] == k->n_in[VTI_LEAVING], "the count of what is leaving is wrong");
    HOLDS(n_in[VTI_EVICTABLE] == k->n_in[VTI_EVICTABLE],
          "the count of what may be evicted is wrong");
    return NULL;
}

// 5, 6, 7
static const char *check_sums(const manager_census *c)
{
    const vt_manager *m = c->m;
    uint64_t created = vti_pset_created_bytes(&m->pset);
    HOLDS(c->n_live == m->n_seq, "the count of sequences is wrong");
    HOLDS(m->reserved_bytes == 0 && m->runs_reserved == c->n_run_moving && m->n_in_flight == 0 &&
              !m->job.in_flight && !m->swap.drop.job.in_flight,
          "a job has left a reservation");
    HOLDS(created <= m->ceiling_bytes && m->budget_bytes <= m->ceiling_bytes,
          "more is created than the budget allows");
    HOLDS(c->n_run == m->vset.n_run, "the count of mappings is wrong");
    HOLDS(c->n_run <= m->max_runs, "more runs are mapped than the backend allows");
    HOLDS(c->live_bytes == m->live_bytes, "the count of live bytes is wrong");
    HOLDS(c->slack_bytes == m->slack_bytes, "the count of slack bytes is wrong");
    HOLDS(c->n_lost == m->vset.n_lost, "the count of lost spans is wrong");
    HOLDS(m->count.peak_live_bytes >= c->live_bytes, "the peak of live bytes is too low");
    HOLDS(m->count.peak_mapped_bytes >= created, "the peak of created bytes is too low");
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
    HOLDS(c->n_swapped + sw->n_free == sw->n_slot && sw->drop.job.n == 0,
          "the swap's slots do not add up");
    HOLDS(sw->n_stale <= sw->n_free, "more slots are stale than free");
    HOLDS(c->swapped_bytes == sw->used_bytes, "the bytes in the swap are wrong");
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

static const char *check_structure(manager_census *c, uint8_t *taken)
{
    const vt_manager *m = c->m;
    HOLDS_ALL(check_spans(c));
    HOLDS_ALL(check_regions(c));
    HOLDS_ALL(vti_radix_check(m->radix, count_node, c));
    for (uint32_t i = 0; i < m->n_source; i++) {
        const vti_source *source = &m->source[(m->first_source + i) % m->cap_source];
        c->held[source->chunk].n_user++;
        c->held[source->chunk].n_gone++;
    }
    for (uint32_t k = 0; k < m->pset.n_class; k++) HOLDS_ALL(check_class(c, k));
    HOLDS_ALL(check_sums(c));
    return check_swap(c, taken);
}

static vt_status check_all(manager_census *c, uint8_t *taken, const char **broken)
{
    *broken = check_structure(c, taken);
    if (*broken) return VT_OK;
    const vti_claim claim = {.resident_bytes = vti_pset_created_bytes(&c->m->pset), // 5, 6
                             .mapped_bytes = c->mapped_bytes,
                             .n_run = c->n_run + c->n_run_moving,
                             .is_torn = c->n_lost > 0};
    return vti_claim_check(c->m->vmm, &claim, broken);
}

vt_status vt_check(vt_manager *m, const char **what)
{
    const char *broken = NULL;
    vti_jobs_settle(m);
    vti_copies_settle(m);
    manager_census c = {.m = m};
    const vti_pset *ps = &m->pset;
    uint8_t *taken = calloc((size_t)m->swap.n_slot + 1, 1);
    c.held = calloc((size_t)vti_pset_end(ps) + 1, sizeof *c.held);
    vt_status st = taken && c.held ? VT_OK : VT_ENOMEM;
    for (uint32_t k = 0; k < ps->n_class && st == VT_OK; k++) {
        c.n_preferred[k] = calloc((size_t)ps->cls[k].regions.n + 1, sizeof *c.n_preferred[k]);
        if (!c.n_preferred[k]) st = VT_ENOMEM;
    }
    if (st == VT_OK) st = check_all(&c, taken, &broken);
    free(c.held);
    for (uint32_t k = 0; k < VT_MAX_GROUP; k++) free(c.n_preferred[k]);
    free(taken);
    if (what) *what = broken;
    return broken ? VT_EINVAL : st;
}
