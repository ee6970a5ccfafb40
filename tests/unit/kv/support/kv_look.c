// kv_look.c - see kv_look.h.
#include "unit/kv/support/kv_look.h"

#include "kv/kv_snapshot.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

enum { N_PLACE = 16384, MAX_GROUP = 12, MAX_AT = 1024 };

typedef struct seen_chunk {
    uint64_t name;
    bool is_shown, is_taken; // taken: the place in the table
    unsigned state;
    int group;
    const fxi_kv_seq *of; // a sequence that has it; NULL: none so far
} seen_chunk;

typedef struct kv_look {
    const kv_world *w;
    bool is_exact; // over libvtensor
    int n_group;
    uint64_t chunk_bytes[MAX_GROUP];
    int device[MAX_GROUP];
    uint64_t bytes[FX_N_CHUNK_STATE];
    seen_chunk chunk[N_PLACE]; // by a hash of the name
    int n_chunk;
    bool has[KV_WORLD_MAX_SEQ][MAX_GROUP][MAX_AT];
    uint64_t node_bytes;
    int seq, last_group, last_at; // of the last segment; seq -1: none
    char wrong[128];              // what was found first
} kv_look;

static kv_look look; // too large for a stack

#define EXPECT(holds, what)                                                                  \
    do {                                                                                     \
        if (!(holds) && !look.wrong[0]) snprintf(look.wrong, sizeof look.wrong, "%s", what); \
    } while (0)

static seen_chunk *chunk_of(uint64_t name)
{
    uint64_t i = name * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    while (look.chunk[i % N_PLACE].is_taken && look.chunk[i % N_PLACE].name != name) i++;
    seen_chunk *c = &look.chunk[i % N_PLACE];
    if (!c->is_taken) assert_true(++look.n_chunk < N_PLACE);
    c->is_taken = true;
    c->name = name;
    return c;
}

static void see_one_chunk(int group, uint64_t chunk, unsigned state)
{
    seen_chunk *c = chunk_of(chunk);
    EXPECT(group >= 0 && group < look.n_group, "a chunk of no group");
    EXPECT(!c->is_shown, "a chunk is shown twice");
    EXPECT((state == FX_CHUNK_swapped) == (chunk >= FX_SWAP_CHUNK),
           "a chunk has not the name of its state");
    c->is_shown = true;
    c->state = state;
    c->group = group;
    look.bytes[state] += look.chunk_bytes[group];
}

// seq: its number in the world.
static void see_position(int seq, int group, int at, uint64_t chunk)
{
    seen_chunk *c = chunk_of(chunk);
    const fxi_kv_seq *s = look.w->seq[seq].kv;
    EXPECT(c->is_shown, "a segment by a chunk that is not shown");
    EXPECT(!c->of || c->of == s || c->state == FX_CHUNK_shared || c->state == FX_CHUNK_swapped,
           "a chunk of two sequences is not shared");
    EXPECT(at >= 0 && at < MAX_AT && look.device[c->group] == look.device[group],
           "a segment by another device's chunk");
    if (look.wrong[0]) return;
    EXPECT(seq != look.seq || group > look.last_group ||
               (group == look.last_group && at > look.last_at),
           "segments are not in order");
    look.seq = seq;
    look.last_group = group;
    look.last_at = at;
    c->of = s;
    look.has[seq][group][at] = true;
}

// A parent comes before its children, unless it has been evicted.
static void see_nodes(const fxi_kv_snapshot *s)
{
    const fx_prefix_node *node = (const fx_prefix_node *)(const void *)s->node.p;
    const size_t n = s->node.n / sizeof *node;
    look.node_bytes = 0;
    EXPECT(n == s->n_all_node, "nodes are missing");
    for (size_t i = 0; i < n; i++) {
        EXPECT(!i || node[i].id > node[i - 1].id, "nodes are not in order");
        EXPECT(node[i].parent < node[i].id, "a node is older than its parent");
        EXPECT(node[i].n_tok && node[i].held_bytes, "a node holds nothing");
        look.node_bytes += node[i].held_bytes;
    }
}

static void see_all(const fxi_kv_snapshot *s, const int *number)
{
    const fx_chunk_run *chunk = (const fx_chunk_run *)(const void *)s->chunk.p;
    const fx_segment_run *run = (const fx_segment_run *)(const void *)s->segment.p;
    look.n_group = (int)s->n_group;
    assert_in_range(look.n_group, 0, MAX_GROUP);
    for (int g = 0; g < look.n_group; g++) {
        look.chunk_bytes[g] = s->group[g].chunk_bytes;
        look.device[g] = (int)s->group[g].device;
    }
    uint64_t n_chunk[FX_N_CHUNK_STATE] = {0};
    for (size_t i = 0; i < s->chunk.n / sizeof *chunk; i++)
        for (uint32_t k = 0; k < chunk[i].n; k++) {
            see_one_chunk(chunk[i].group, chunk[i].first + k, chunk[i].state);
            n_chunk[chunk[i].state]++;
        }
    assert_memory_equal(n_chunk, s->n_chunk, sizeof n_chunk);
    for (int i = 0; i < s->n_seq; i++)
        for (uint32_t r = 0; r < s->n_run[i]; r++, run++)
            for (uint32_t k = 0; k < run->n; k++)
                see_position(number[i], (int)run->group, (int)(run->at + k), run->chunk + k);
    see_nodes(s);
}

// ---- what must be there ------------------------------------------------------------------------

// Of all devices. What is mapped is shown, but for what a pool keeps beside its blocks.
static void verify_bytes(const fxi_kv_stats *st)
{
    uint64_t sum = 0;
    assert_int_equal(look.bytes[FX_CHUNK_cached], st->cached_bytes);
    if (fxi_kv_can(look.w->kv, FXI_KV_FORK))
        assert_int_equal(look.bytes[FX_CHUNK_shared], st->shared_bytes);
    for (int i = 0; i < FX_CHUNK_swapped; i++) sum += look.bytes[i];
    if (fxi_kv_can(look.w->kv, FXI_KV_ELASTIC)) assert_int_equal(sum, st->mapped_bytes);
    if (!look.is_exact) return;
    assert_int_equal(sum, st->mapped_bytes);
    assert_int_equal(look.bytes[FX_CHUNK_spare], st->spare_bytes);
}

// Chunks hold a device's part of the rows of a group, one behind the other.
static void verify_positions(int i, int n_device)
{
    const kv_world_seq *s = &look.w->seq[i];
    const fxi_kv_views v = fxi_kv_get_views(look.w->kv, s->kv);
    for (int k = 0; k < look.n_group; k++) {
        const int g = k % look.w->layout.n_group;
        const fxi_kv_group *of = &look.w->layout.group[g];
        // States are padded: what lies between two says how much room one has.
        const fxi_kv_view *view = &v.group[g];
        const bool is_packed = view->plane_stride_bytes < view->tok_stride_bytes;
        const int row_tok = of->is_state ? FXI_KV_STATE_TOK : 1;
        const uint64_t row_bytes =
            of->is_state ? view->tok_stride_bytes * (uint64_t)(is_packed ? 1 : of->n_plane)
                         : (uint64_t)of->n_plane * of->row_bytes / (uint64_t)n_device;
        const uint64_t first = (uint64_t)(v.group[g].first_tok / row_tok);
        const uint64_t from = first * row_bytes / look.chunk_bytes[k];
        const uint64_t end = (uint64_t)(s->len_tok / row_tok) * row_bytes;
        for (uint64_t at = from; at * look.chunk_bytes[k] < end; at++)
            if (!look.has[i][k][at])
                fail_msg("sequence %d of %d tokens: nothing at %d of group %d", i, s->len_tok,
                         (int)at, k);
    }
}

static void collect_world(const kv_world *w)
{
    const fxi_kv_seq *seq[KV_WORLD_MAX_SEQ];
    uint32_t n_run[KV_WORLD_MAX_SEQ] = {0};
    int number[KV_WORLD_MAX_SEQ];
    fxi_kv_snapshot s = {.seq = seq, .n_run = n_run};
    for (int i = 0; i < KV_WORLD_MAX_SEQ; i++) {
        if (!w->seq[i].kv) continue;
        seq[s.n_seq] = w->seq[i].kv;
        number[s.n_seq++] = i;
    }
    fxi_kv_collect(w->kv, &s);
    assert_false(s.has_failed);
    fxi_kv_snapshot_sort(&s);
    see_all(&s, number);
    fxi_kv_snapshot_free(&s);
}

void kv_look_verify(const kv_world *w)
{
    const int n_device = kv_world_n_rank ? kv_world_n_rank : 1;
    fxi_kv_stats st;
    memset(&look, 0, sizeof look);
    look.w = w;
    look.seq = -1;
    look.is_exact = !strcmp(w->kv->ops->name, "vtensor");
    collect_world(w);
    if (look.wrong[0]) fail_msg("%s: the snapshot: %s", w->kv->ops->name, look.wrong);
    fxi_kv_get_stats(w->kv, &st);
    // Each has as many groups as the others.
    assert_int_equal(look.n_group % n_device, 0);
    for (int k = 0; k < look.n_group; k++)
        assert_int_equal(look.device[k], k / (look.n_group / n_device));
    if (!st.retired_bytes) verify_bytes(&st);
    if (!look.is_exact) return;
    assert_int_equal(look.n_group, w->layout.n_group * n_device);
    if (n_device == 1) assert_true(look.node_bytes >= st.cached_bytes); // others evict on their own
    for (int i = 0; i < KV_WORLD_MAX_SEQ; i++)
        if (w->seq[i].kv && !w->seq[i].is_moving) verify_positions(i, n_device);
}
