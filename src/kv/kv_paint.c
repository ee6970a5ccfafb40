// kv_paint.c - pictures of libvtensor's managers.
//
// Every manager of a team names its chunks from 0 on. In the picture of the team, ranks take turns
// of NAME_BLOCK names each: chunks 0 .. NAME_BLOCK - 1 of rank 0, then those of rank 1, and so on,
// then the next of rank 0. So names stay small, each chunk keeps its own, and neighbours remain
// neighbours.
#include "kv/kv_paint.h"

#define NAME_BLOCK 1024

typedef struct seen_rank {
    const fxi_kv_painter *to;
    const fxi_kv_chunks *chunks;
    uint32_t rank, n_rank;
    const fxi_kv_seq *seq; // whose map is shown
} seen_rank;

// ---- what a rank shows -------------------------------------------------------------------------

static int painted_group(const seen_rank *r, uint32_t group)
{
    return (int)(r->rank * (uint32_t)r->chunks->n_group + group);
}

static void paint_shapes(const seen_rank *r)
{
    const fxi_kv_chunks *c = r->chunks;
    for (int g = 0; g < c->n_group; g++)
        r->to->group(r->to->ud, c->chunk[g].chunk_bytes,
                     (int)(c->chunk[g].slice_bytes / c->chunk[g].tok_bytes), (int)r->rank);
}

uint64_t fxi_kv_rank_name(uint64_t index, uint32_t k, uint32_t n)
{
    return (index / NAME_BLOCK * n + k) * NAME_BLOCK + index % NAME_BLOCK;
}

// The name of a chunk in the team, and how many of n neighbours keep that: *n.
static uint64_t painted_name(const seen_rank *r, uint64_t at, uint32_t *n)
{
    const uint64_t index = at & ~VT_AT_SWAP;
    const uint64_t left = NAME_BLOCK - index % NAME_BLOCK;
    if (r->n_rank > 1 && *n > left) *n = (uint32_t)left;
    return (at & VT_AT_SWAP ? FXI_KV_SWAP_CHUNK : 0) | fxi_kv_rank_name(index, r->rank, r->n_rank);
}

static void paint_run(const seen_rank *r, uint32_t group, uint64_t at, uint64_t n,
                      fxi_kv_chunk_state state)
{
    while (n) {
        uint32_t part = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
        const uint64_t name = painted_name(r, at, &part);
        r->to->chunk(r->to->ud, painted_group(r, group), name, part, state);
        at += part;
        n -= part;
    }
}

static void paint_chunks(void *ud, uint64_t first, uint64_t n, uint32_t group, vt_chunk_state state)
{
    static const fxi_kv_chunk_state states[VT_N_CHUNK_STATE] = {
        [VT_CHUNK_SPARE] = FXI_KV_CHUNK_SPARE,
        [VT_CHUNK_CACHED] = FXI_KV_CHUNK_CACHED,
        [VT_CHUNK_OWNED] = FXI_KV_CHUNK_OWNED,
        [VT_CHUNK_SHARED] = FXI_KV_CHUNK_SHARED,
    };
    paint_run(ud, group, first, n, states[state]);
}

static void paint_if_swapped(void *ud, uint32_t group, uint32_t position, uint64_t at, uint32_t n)
{
    (void)position;
    if (at & VT_AT_SWAP) paint_run(ud, group, at, n, FXI_KV_CHUNK_SWAPPED);
}

static void paint_swapped(void *ud, const vt_seq *s)
{
    vt_seq_map(s, paint_if_swapped, ud);
}

static void paint_segments(void *ud, uint32_t group, uint32_t position, uint64_t at, uint32_t n)
{
    const seen_rank *r = ud;
    while (n) {
        uint32_t part = n;
        const uint64_t name = painted_name(r, at, &part);
        r->to->segment(r->to->ud, r->seq, painted_group(r, group), (int)position, name, part);
        position += part;
        at += part;
        n -= part;
    }
}

static void paint_seq(void *ud, const vt_seq *s)
{
    seen_rank *r = ud;
    r->seq = (const fxi_kv_seq *)s;
    vt_seq_map(s, paint_segments, r);
}

static void paint_all_chunks(seen_rank *r, const vt_manager *m)
{
    vt_chunk_each(m, paint_chunks, r);
    vt_seq_each(m, paint_swapped, r);
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
    seen_rank r = {.to = to, .chunks = c, .n_rank = 1};
    paint_shapes(&r);
    paint_all_chunks(&r, m);
    vt_seq_each(m, paint_seq, &r);
    paint_prefixes(m, 1, to);
    return FX_OK;
}

// ---- a team ------------------------------------------------------------------------------------

typedef struct seen_team {
    uint32_t n;
    seen_rank rank[FXI_MAX_RANK];
} seen_team;

static bool paint_team_seq(void *ud, vt_team_seq *s)
{
    seen_team *t = ud;
    for (uint32_t k = 0; k < t->n; k++) {
        t->rank[k].seq = (const fxi_kv_seq *)s;
        vt_seq_map(vt_team_seq_rank(s, k), paint_segments, &t->rank[k]);
    }
    return true;
}

fx_status fxi_chunks_paint_team(const fxi_kv_chunks *c, const vt_team *t, const fxi_kv_painter *to)
{
    seen_team seen = {.n = vt_team_n_rank(t)};
    for (uint32_t k = 0; k < seen.n; k++) {
        seen.rank[k] = (seen_rank){.to = to, .chunks = c, .rank = k, .n_rank = seen.n};
        paint_shapes(&seen.rank[k]);
    }
    for (uint32_t k = 0; k < seen.n; k++) paint_all_chunks(&seen.rank[k], vt_team_manager(t, k));
    vt_team_seq_each(t, paint_team_seq, &seen);
    paint_prefixes(vt_team_manager(t, 0), seen.n, to);
    return FX_OK;
}
