// kv_collect.c - snapshots of libvtensor's managers.
//
// Every manager of a team names its chunks from 0 on. In the snapshot of the team, ranks take turns
// of NAME_BLOCK names each: chunks 0 .. NAME_BLOCK - 1 of rank 0, then those of rank 1, and so on,
// then the next of rank 0. So names stay small, each chunk keeps its own, and neighbours remain
// neighbours.
#include "kv/kv_collect.h"

#define NAME_BLOCK 1024

// One manager, as a rank of n_rank.
typedef struct rank_view {
    fxi_kv_snapshot *to;
    const fxi_kv_chunks *chunks;
    const vt_manager *m;
    uint32_t rank, n_rank;
    int seq; // whose segments are added: to->seq[seq]
} rank_view;

static int group_in_team(const rank_view *r, uint32_t group)
{
    return (int)(r->rank * (uint32_t)r->chunks->n_group + group);
}

uint64_t fxi_kv_rank_name(uint64_t index, uint32_t k, uint32_t n)
{
    return (index / NAME_BLOCK * n + k) * NAME_BLOCK + index % NAME_BLOCK;
}

// The name of a chunk in the team. *n, of as many neighbours, becomes how many keep that.
static uint64_t name_in_team(const rank_view *r, uint64_t at, uint32_t *n)
{
    const uint64_t index = at & ~VT_AT_SWAP;
    const uint64_t left = NAME_BLOCK - index % NAME_BLOCK;
    if (r->n_rank > 1 && *n > left) *n = (uint32_t)left;
    return (at & VT_AT_SWAP ? FX_SWAP_CHUNK : 0) | fxi_kv_rank_name(index, r->rank, r->n_rank);
}

static void add_chunk_run(const rank_view *r, uint32_t group, uint64_t at, uint64_t n,
                          unsigned state)
{
    while (n) {
        uint32_t part = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
        const uint64_t name = name_in_team(r, at, &part);
        fxi_kv_snapshot_add_chunks(r->to, group_in_team(r, group), name, part, state);
        at += part;
        n -= part;
    }
}

static void collect_chunks(void *ud, uint64_t first, uint64_t n, uint32_t group,
                           vt_chunk_state state)
{
    static const unsigned states[VT_N_CHUNK_STATE] = {
        [VT_CHUNK_SPARE] = FX_CHUNK_spare,
        [VT_CHUNK_CACHED] = FX_CHUNK_cached,
        [VT_CHUNK_OWNED] = FX_CHUNK_owned,
        [VT_CHUNK_SHARED] = FX_CHUNK_shared,
    };
    add_chunk_run(ud, group, first, n, states[state]);
}

static void collect_if_swapped(void *ud, uint32_t group, uint32_t position, uint64_t at, uint32_t n)
{
    (void)position;
    if (at & VT_AT_SWAP) add_chunk_run(ud, group, at, n, FX_CHUNK_swapped);
}

static void collect_swapped(void *ud, const vt_seq *s)
{
    vt_seq_map(s, collect_if_swapped, ud);
}

static void collect_segments(void *ud, uint32_t group, uint32_t position, uint64_t at, uint32_t n)
{
    const rank_view *r = ud;
    while (n) {
        uint32_t part = n;
        const uint64_t name = name_in_team(r, at, &part);
        fxi_kv_snapshot_add_segments(r->to, r->seq, group_in_team(r, group), position, name, part);
        position += part;
        at += part;
        n -= part;
    }
}

static void collect_rank(rank_view *r)
{
    const fxi_kv_chunks *c = r->chunks;
    vt_stats st;
    for (int g = 0; g < c->n_group; g++)
        fxi_kv_snapshot_add_group(r->to, c->chunk[g].chunk_bytes,
                                  (int)(c->chunk[g].slice_bytes / c->chunk[g].tok_bytes),
                                  (int)r->rank);
    vt_chunk_each(r->m, collect_chunks, r);
    vt_get_stats(r->m, &st);
    if (st.swapped_bytes) vt_seq_each(r->m, collect_swapped, r);
}

// ---- the prefixes of a manager -----------------------------------------------------------------

typedef struct node_view {
    fxi_kv_snapshot *to;
    uint64_t n_rank, domain;
    bool has_room;
} node_view;

static bool collect_node(void *ud, const vt_prefix_info *node)
{
    node_view *v = ud;
    const fx_prefix_node row = {.id = node->id,
                                .parent = node->parent_id,
                                .domain = v->domain,
                                .held_bytes = node->held_bytes * v->n_rank,
                                .n_tok = node->n_tok,
                                .n_seq = node->n_seq};
    v->has_room = fxi_kv_snapshot_add_node(v->to, &row);
    return v->has_room;
}

static bool collect_domain(void *ud, vt_domain *d, const void *key, size_t key_bytes)
{
    (void)key, (void)key_bytes;
    node_view *v = ud;
    v->domain = vt_domain_id(d);
    vt_prefix_each_newest(d, collect_node, v);
    return v->has_room;
}

static void collect_prefixes(vt_manager *m, uint32_t n_rank, fxi_kv_snapshot *to)
{
    node_view v = {.to = to, .n_rank = n_rank, .has_room = true};
    vt_stats st;
    vt_get_stats(m, &st);
    to->n_all_node = st.prefix_nodes;
    vt_domain_each(m, collect_domain, &v);
}

// ---- one manager, or a team --------------------------------------------------------------------

void fxi_chunks_collect(const fxi_kv_chunks *c, vt_manager *m, fxi_kv_snapshot *to)
{
    rank_view r = {.to = to, .chunks = c, .m = m, .n_rank = 1};
    collect_rank(&r);
    for (r.seq = 0; r.seq < to->n_seq; r.seq++)
        vt_seq_map((const vt_seq *)to->seq[r.seq], collect_segments, &r);
    collect_prefixes(m, 1, to);
}

void fxi_chunks_collect_team(const fxi_kv_chunks *c, const vt_team *t, fxi_kv_snapshot *to)
{
    const uint32_t n = vt_team_n_rank(t);
    rank_view rank[FXI_MAX_RANK];
    for (uint32_t k = 0; k < n; k++) {
        rank[k] =
            (rank_view){.to = to, .chunks = c, .m = vt_team_manager(t, k), .rank = k, .n_rank = n};
        collect_rank(&rank[k]);
    }
    for (int i = 0; i < to->n_seq; i++)
        for (uint32_t k = 0; k < n; k++) {
            rank[k].seq = i;
            vt_seq_map(vt_team_seq_rank((const vt_team_seq *)to->seq[i], k), collect_segments,
                       &rank[k]);
        }
    collect_prefixes(vt_team_manager(t, 0), n, to);
}
