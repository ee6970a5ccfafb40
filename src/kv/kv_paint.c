// kv_paint.c - pictures of libvtensor's managers: from a snapshot of each.
//
// Every manager of a team names its chunks from 0 on. In the picture of the team, ranks take turns
// of NAME_BLOCK names each: chunks 0 .. NAME_BLOCK - 1 of rank 0, then those of rank 1, and so on,
// then the next of rank 0. So names stay small, each chunk keeps its own, and neighbours remain
// neighbours.
#include "kv/kv_paint.h"
#include "kv/kv_status.h"

#include <stdlib.h>

#define NAME_BLOCK 1024

// Where a sequence is among the spans of a snapshot.
typedef struct seq_place {
    const vt_seq *seq;
    uint32_t span;
} seq_place;

typedef struct seen_rank {
    vt_snapshot *snap;
    seq_place *place; // [n_place] by address; of teams
    size_t n_place;
    uint32_t rank, n_rank;
} seen_rank;

typedef struct seen_team {
    const fxi_kv_painter *to;
    uint32_t n;
    seen_rank rank[FXI_MAX_RANK];
} seen_team;

// ---- what a rank shows -------------------------------------------------------------------------

static uint64_t name_in_team(const seen_rank *r, uint64_t index)
{
    const uint64_t block = index / NAME_BLOCK * r->n_rank + r->rank;
    return block * NAME_BLOCK + index % NAME_BLOCK;
}

static uint64_t painted_name(const seen_rank *r, uint64_t at)
{
    return at & VT_AT_SWAP ? FXI_KV_SWAP_CHUNK | name_in_team(r, at & ~VT_AT_SWAP)
                           : name_in_team(r, at);
}

static int painted_group(const seen_rank *r, uint32_t group)
{
    return (int)(r->rank * r->snap->n_group + group);
}

static void paint_shapes(const seen_rank *r, const fxi_kv_chunks *c, const fxi_kv_painter *to)
{
    for (int g = 0; g < c->n_group; g++)
        to->group(to->ud, c->chunk[g].chunk_bytes,
                  (int)(c->chunk[g].slice_bytes / c->chunk[g].tok_bytes), (int)r->rank);
}

static void paint_chunks(const seen_rank *r, const fxi_kv_painter *to)
{
    static const fxi_kv_chunk_state states[VT_N_CHUNK_STATE] = {
        [VT_CHUNK_SPARE] = FXI_KV_CHUNK_SPARE,
        [VT_CHUNK_CACHED] = FXI_KV_CHUNK_CACHED,
        [VT_CHUNK_OWNED] = FXI_KV_CHUNK_OWNED,
        [VT_CHUNK_SHARED] = FXI_KV_CHUNK_SHARED,
    };
    for (const vt_chunk_info *c = r->snap->chunk; c < r->snap->chunk + r->snap->n_chunk; c++)
        to->chunk(to->ud, painted_group(r, c->group), painted_name(r, c->index), states[c->state]);
}

typedef void place_fn(const fxi_kv_painter *to, const fxi_kv_seq *s, int group, int at,
                      uint64_t chunk);

// Calls fn for every position of a span at which there is something.
static void each_position(const seen_rank *r, uint32_t span, const fxi_kv_seq *s,
                          const fxi_kv_painter *to, place_fn *fn)
{
    const vt_snapshot *snap = r->snap;
    const uint64_t *at = snap->at + (size_t)span * snap->n_position;
    for (uint32_t g = 0; g < snap->n_group; at += snap->group_position[g++])
        for (uint32_t p = 0; p < snap->group_position[g]; p++)
            if (at[p] != VT_AT_NOTHING)
                fn(to, s, painted_group(r, g), (int)p, painted_name(r, at[p]));
}

static void paint_if_swapped(const fxi_kv_painter *to, const fxi_kv_seq *s, int group, int at,
                             uint64_t chunk)
{
    (void)s;
    (void)at;
    if (chunk >= FXI_KV_SWAP_CHUNK) to->chunk(to->ud, group, chunk, FXI_KV_CHUNK_SWAPPED);
}

static void paint_segment(const fxi_kv_painter *to, const fxi_kv_seq *s, int group, int at,
                          uint64_t chunk)
{
    to->segment(to->ud, s, group, at, chunk);
}

// Positions of all live spans; sequences are those of the manager.
static void each_span(const seen_rank *r, const fxi_kv_painter *to, place_fn *fn)
{
    for (uint32_t i = 0; i < r->snap->n_span; i++)
        if (r->snap->span[i].seq)
            each_position(r, i, (const fxi_kv_seq *)r->snap->span[i].seq, to, fn);
}

// ---- the prefixes ------------------------------------------------------------------------------

typedef struct node_painter {
    const fxi_kv_painter *to;
    uint64_t n_rank;
} node_painter;

static void paint_anew(void *ud)
{
    const node_painter *np = ud;
    np->to->nodes_anew(np->to->ud);
}

static void paint_gone(void *ud, uint64_t id)
{
    const node_painter *np = ud;
    np->to->gone_node(np->to->ud, id);
}

static void paint_node(void *ud, uint64_t domain_id, const vt_prefix_info *node)
{
    const node_painter *np = ud;
    const fxi_kv_node shown = {.id = node->id,
                               .parent_id = node->parent_id,
                               .domain_id = domain_id,
                               .held_bytes = node->held_bytes * np->n_rank,
                               .n_tok = (int)node->n_tok,
                               .n_seq = (int)node->n_seq};
    np->to->node(np->to->ud, &shown);
}

static void paint_prefixes(vt_manager *m, uint64_t n_rank, const fxi_kv_painter *to)
{
    node_painter np = {to, n_rank};
    const vt_prefix_watcher watcher = {&np, paint_anew, paint_gone, paint_node};
    vt_prefix_changes(m, &watcher);
}

fx_status fxi_chunks_paint(const fxi_kv_chunks *c, vt_manager *m, const fxi_kv_painter *to)
{
    seen_rank r = {.n_rank = 1};
    const vt_status st = vt_snapshot_take(m, &r.snap);
    if (st != VT_OK) return fxi_kv_status_of(st);
    paint_shapes(&r, c, to);
    paint_chunks(&r, to);
    each_span(&r, to, paint_if_swapped);
    each_span(&r, to, paint_segment);
    vt_snapshot_free(r.snap);
    paint_prefixes(m, 1, to);
    return FX_OK;
}

// ---- a team ------------------------------------------------------------------------------------

static int compare_seq_places(const void *a, const void *b)
{
    const seq_place *x = a, *y = b;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

static fx_status see_rank(seen_rank *r, const vt_manager *m)
{
    const vt_status st = vt_snapshot_take(m, &r->snap);
    if (st != VT_OK) return fxi_kv_status_of(st);
    r->place = malloc((r->snap->n_span + 1) * sizeof *r->place);
    if (!r->place) return FX_ENOMEM;
    for (uint32_t i = 0; i < r->snap->n_span; i++)
        if (r->snap->span[i].seq) r->place[r->n_place++] = (seq_place){r->snap->span[i].seq, i};
    qsort(r->place, r->n_place, sizeof *r->place, compare_seq_places);
    return FX_OK;
}

static fx_status see_team(seen_team *s, const vt_team *t)
{
    fx_status st = FX_OK;
    s->n = vt_team_n_rank(t);
    for (uint32_t k = 0; k < s->n && st == FX_OK; k++) {
        s->rank[k] = (seen_rank){.rank = k, .n_rank = s->n};
        st = see_rank(&s->rank[k], vt_team_manager(t, k));
    }
    return st;
}

static void forget_team(seen_team *s)
{
    for (uint32_t k = 0; k < s->n; k++) {
        vt_snapshot_free(s->rank[k].snap);
        free(s->rank[k].place);
    }
}

static bool paint_team_seq(void *ud, vt_team_seq *s)
{
    const seen_team *t = ud;
    for (uint32_t k = 0; k < t->n; k++) {
        const seen_rank *r = &t->rank[k];
        const seq_place key = {.seq = vt_team_seq_rank(s, k)};
        const seq_place *at = bsearch(&key, r->place, r->n_place, sizeof key, compare_seq_places);
        if (at) each_position(r, at->span, (const fxi_kv_seq *)s, t->to, paint_segment);
    }
    return true;
}

fx_status fxi_chunks_paint_team(const fxi_kv_chunks *c, const vt_team *t, const fxi_kv_painter *to)
{
    seen_team seen = {.to = to};
    const fx_status st = see_team(&seen, t);
    if (st == FX_OK) {
        for (uint32_t k = 0; k < seen.n; k++) paint_shapes(&seen.rank[k], c, to);
        for (uint32_t k = 0; k < seen.n; k++) {
            paint_chunks(&seen.rank[k], to);
            each_span(&seen.rank[k], to, paint_if_swapped);
        }
        vt_team_seq_each(t, paint_team_seq, &seen);
        paint_prefixes(vt_team_manager(t, 0), seen.n, to);
    }
    forget_team(&seen);
    return st;
}
