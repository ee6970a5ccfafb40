// kv_chunks.c - see kv_chunks.h.
#include "kv/kv_chunks.h"

// Tokens that a slice holds at least, unless the caller says how many.
#define SPLIT_SLICE_TOK  32
#define PACKED_SLICE_TOK 8

// Runs of a sequence in each view: what it shares and what it writes; further, what it has recorded
// and may not write, and what an admission leaves for one more.
#define LEAST_RUNS 2
#define USUAL_RUNS 4

#define LARGE_PAGE_BYTES (64u << 10)

// ---- sizes -------------------------------------------------------------------------------------

// Pre: view_planes divides the group's planes, or is as many or more.
static int views_of(const fxi_kv_group *g, int view_planes)
{
    return view_planes < g->n_plane ? g->n_plane / view_planes : 1;
}

static int most_planes(const fxi_kv_layout *l)
{
    int most = 0;
    for (int g = 0; g < l->n_group; g++)
        if (l->group[g].n_plane > most) most = l->group[g].n_plane;
    return most;
}

// Views of a sequence; 0: with so many planes each, some would lack a plane, or part a layer.
static uint64_t count_views(const fxi_kv_layout *l, int view_planes)
{
    uint64_t n = 0;
    if (view_planes > 1 && view_planes % 2) return 0;
    for (int g = 0; g < l->n_group; g++) {
        const int n_plane = l->group[g].n_plane;
        if (view_planes < n_plane && n_plane % view_planes) return 0;
        n += (uint64_t)views_of(&l->group[g], view_planes);
    }
    return n;
}

// The fewest planes in a view with which all sequences that run have n_run mappings each; all, if
// there are none such.
static int least_view_planes(const fxi_kv_shape *shape, uint64_t max_runs, uint64_t n_run)
{
    const uint64_t n_seq = (uint64_t)(shape->run_seq ? shape->run_seq : shape->max_seq);
    const uint64_t n_rank = (uint64_t)fxi_kv_n_device(shape);
    const int most = most_planes(&shape->layout);
    for (int k = 1; k < most; k++) {
        const uint64_t n = count_views(&shape->layout, k);
        if (n && n <= max_runs / n_run / n_seq / n_rank) return k;
    }
    return most;
}

// Chunks are as small as the memory's granularity and the least tokens of a slice allow. States are
// padded, so that each begins with a chunk.
static fxi_chunk_shape shape_of(const fxi_kv_group *g, int view_planes, int slice_tok,
                                size_t granularity)
{
    const int n_view = views_of(g, view_planes);
    const size_t row_bytes = (size_t)(g->n_plane / n_view) * g->row_bytes;
    const size_t least = g->is_state ? row_bytes : (size_t)slice_tok * row_bytes;
    const size_t slice_bytes = (least + granularity - 1) / granularity * granularity;
    return (fxi_chunk_shape){.row_bytes = row_bytes,
                             .row_tok = g->is_state ? FXI_KV_STATE_TOK : 1,
                             .slice_bytes = slice_bytes,
                             .chunk_bytes = slice_bytes * (size_t)n_view,
                             .window_tok = g->is_state ? FXI_KV_STATE_TOK : g->window_tok};
}

static size_t common_divisor(size_t a, size_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

static size_t padded_state(const fxi_kv_group *g, size_t granularity)
{
    if (granularity >= LARGE_PAGE_BYTES) return g->row_bytes;
    return (g->row_bytes + granularity - 1) / granularity * granularity;
}

void fxi_chunks_plan(const fxi_kv_shape *shape, struct vt_vmm *vmm, fxi_kv_chunks *c)
{
    const size_t granularity = vmm->ops->granularity(vmm);
    fxi_kv_layout part = fxi_kv_part_of(shape); // this manager's
    uint32_t n_plane = 0;
    *c = (fxi_kv_chunks){.n_group = shape->layout.n_group};
    c->packing = granularity >= LARGE_PAGE_BYTES ? VT_LAYOUT_PACKED : VT_LAYOUT_SPLIT;
    c->view_planes = most_planes(&shape->layout);
    if (c->packing == VT_LAYOUT_SPLIT) {
        // The first plane that shares a view slows attention down, further ones do not: planes
        // share views only where they must, and then as many as the usual mappings need.
        const uint64_t max_runs = vmm->ops->max_runs(vmm);
        c->view_planes = least_view_planes(shape, max_runs, LEAST_RUNS);
        if (c->view_planes > 1) c->view_planes = least_view_planes(shape, max_runs, USUAL_RUNS);
    }
    const int preset = c->packing == VT_LAYOUT_PACKED ? PACKED_SLICE_TOK : SPLIT_SLICE_TOK;
    const int slice_tok = shape->block_tok ? shape->block_tok : preset;
    for (int g = 0; g < c->n_group; g++) {
        fxi_kv_group *own = &part.group[g];
        if (own->is_state) own->row_bytes = padded_state(own, granularity);
        c->chunk[g] = shape_of(own, c->view_planes, slice_tok, granularity);
        c->group[g] = (vt_group){.kind = own->is_state ? VT_GROUP_BLOCKS : VT_GROUP_TOKENS,
                                 .n_plane = (uint32_t)own->n_plane,
                                 .row_bytes = own->row_bytes,
                                 .window_tok = (uint32_t)c->chunk[g].window_tok,
                                 .slice_bytes = c->chunk[g].slice_bytes};
        c->plane0[g] = n_plane;
        n_plane += c->group[g].n_plane;
    }
    c->step_tok = shape->step_tok ? shape->step_tok : shape->ctx_tok;
    size_t whole = 1;
    for (int g = 0; g < c->n_group; g++) {
        const fxi_chunk_shape *s = &c->chunk[g];
        const size_t n_row = s->slice_bytes / common_divisor(s->slice_bytes, s->row_bytes);
        const size_t n = n_row * (size_t)s->row_tok;
        whole = whole / common_divisor(whole, n) * n;
    }
    c->whole_tok = whole < INT32_MAX ? (int)whole : INT32_MAX;
}

// ---- costs -------------------------------------------------------------------------------------

static uint64_t bytes_up_to(const fxi_chunk_shape *c, int len_tok)
{
    return len_tok > 0 ? (uint64_t)(len_tok / c->row_tok) * c->row_bytes : 0;
}

static uint64_t chunks_up_to(const fxi_chunk_shape *c, int len_tok)
{
    return (bytes_up_to(c, len_tok) + c->slice_bytes - 1) / c->slice_bytes;
}

// Chunks that tokens [0, len_tok) fill.
static uint64_t chunks_filled(const fxi_chunk_shape *c, int len_tok)
{
    return bytes_up_to(c, len_tok) / c->slice_bytes;
}

// The first token that a sequence of len_tok tokens still needs.
static int front_of(const fxi_chunk_shape *c, int len_tok)
{
    const int w = c->window_tok;
    if (c->row_tok > 1) return len_tok < w ? 0 : (len_tok / w - 1) * w;
    return w && len_tok >= w ? len_tok + 1 - w : 0;
}

// Most chunks that a sequence holds while it grows to end_tok: an extend begins with the window of
// the old length.
static uint64_t peak_chunks(const fxi_kv_chunks *k, const fxi_chunk_shape *c, int end_tok)
{
    const uint64_t all = chunks_up_to(c, end_tok);
    if (!c->window_tok) return all;
    const uint64_t some = chunks_up_to(c, c->window_tok + c->row_tok - 2 + k->step_tok) + 1;
    return some < all ? some : all;
}

// Chunks of a sequence of end_tok tokens that another one holds too, which has its first hit_tok.
static uint64_t shared_chunks(const fxi_chunk_shape *c, int end_tok, int hit_tok)
{
    const uint64_t from = chunks_filled(c, front_of(c, end_tok)), to = chunks_filled(c, hit_tok);
    return to > from ? to - from : 0;
}

// Each sequence of several may hold one chunk more while it gets a copy of a shared one.
static uint64_t group_cost(const fxi_kv_chunks *k, const fxi_chunk_shape *c,
                           const fxi_kv_need *need)
{
    const uint64_t n = (uint64_t)need->n_seq, whole = peak_chunks(k, c, need->end_tok);
    const uint64_t hit = shared_chunks(c, need->end_tok, need->hit_tok);
    if (n == 1) return whole - (hit < whole ? hit : whole);
    if (need->is_apart) return n * (whole + 1);
    const uint64_t shared = shared_chunks(c, need->end_tok, need->each.begin_tok);
    const uint64_t prompt = peak_chunks(k, c, need->each.begin_tok);
    return prompt + n * (whole - (shared < whole ? shared : whole) + 1);
}

uint64_t fxi_chunks_cost(const fxi_kv_chunks *k, const fxi_kv_need *need)
{
    uint64_t sum = 0;
    for (int g = 0; g < k->n_group; g++)
        sum += group_cost(k, &k->chunk[g], need) * k->chunk[g].chunk_bytes;
    return sum;
}

uint64_t fxi_chunks_gain(const fxi_kv_chunks *k, int len_tok, int n_recorded)
{
    uint64_t sum = 0;
    for (int g = 0; g < k->n_group; g++) {
        const fxi_chunk_shape *c = &k->chunk[g];
        const uint64_t passed = chunks_filled(c, front_of(c, len_tok));
        const uint64_t kept = chunks_filled(c, n_recorded), end = chunks_up_to(c, len_tok);
        const uint64_t from = kept > passed ? kept : passed;
        sum += end > from ? (end - from) * c->chunk_bytes : 0;
    }
    return sum;
}

uint64_t fxi_chunks_growth(const fxi_kv_chunks *k, int len_tok, int end_tok)
{
    uint64_t sum = 0;
    for (int g = 0; g < k->n_group; g++) {
        const fxi_chunk_shape *c = &k->chunk[g];
        const uint64_t has = chunks_up_to(c, len_tok) - chunks_filled(c, front_of(c, len_tok));
        const uint64_t wants = peak_chunks(k, c, end_tok);
        sum += wants > has ? (wants - has) * c->chunk_bytes : 0;
    }
    return sum;
}

// ---- snapshots ---------------------------------------------------------------------------------
//
// Every manager of a team names its chunks from 0 on. In the snapshot of the team, ranks take turns
// of NAME_BLOCK names each: chunks 0 .. NAME_BLOCK - 1 of rank 0, then those of rank 1, and so on,
// then the next of rank 0. So names stay small, each chunk keeps its own, and neighbours remain
// neighbours.

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

// A group's chunks are shown as so many tokens each.
static int chunk_tok(const fxi_chunk_shape *c)
{
    return (int)(c->slice_bytes / c->row_bytes) * c->row_tok;
}

static void collect_rank(rank_view *r)
{
    const fxi_kv_chunks *c = r->chunks;
    vt_stats st;
    for (int g = 0; g < c->n_group; g++)
        fxi_kv_snapshot_add_group(r->to, c->chunk[g].chunk_bytes, chunk_tok(&c->chunk[g]),
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

// ---- all managers ------------------------------------------------------------------------------

void fxi_chunks_collect(const fxi_kv_chunks *c, const vt_team *t, fxi_kv_snapshot *to)
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
    node_view v = {.to = to, .n_rank = n, .has_room = true};
    vt_stats st;
    vt_get_stats(rank[0].m, &st);
    to->n_all_node = st.prefix_nodes;
    vt_domain_each(vt_team_manager(t, 0), collect_domain, &v);
}
