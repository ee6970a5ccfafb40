// kv_look.c - see kv_look.h.
#include "unit/kv/support/kv_look.h"

#include "unit/cmocka_all.h"
#include "unit/kv/support/kv_nodes.h"

#include <stdio.h>
#include <string.h>

enum { N_PLACE = 16384, MAX_GROUP = 8, MAX_AT = 1024 };

typedef struct seen_chunk {
    uint64_t name;
    bool is_shown, is_taken; // taken: the place in the table
    fxi_kv_chunk_state state;
    int group;
    const fxi_kv_seq *of; // a sequence that has it; NULL: none so far
} seen_chunk;

typedef struct kv_look {
    const kv_world *w;
    bool is_exact; // over libvtensor
    int n_group;
    uint64_t chunk_bytes[MAX_GROUP];
    int device[MAX_GROUP];
    uint64_t bytes[FXI_KV_N_CHUNK_STATE];
    seen_chunk chunk[N_PLACE]; // by a hash of the name
    int n_chunk;
    bool has[KV_WORLD_MAX_SEQ][MAX_GROUP][MAX_AT];
    bool is_told[KV_WORLD_MAX_SEQ];
    int seq, last_group, last_at; // of the last segment; seq -1: none
    char wrong[128];              // what was found first, while it was painted
} kv_look;

static kv_look look; // too large for a stack

#define EXPECT(holds, what)                                                                  \
    do {                                                                                     \
        if (!(holds) && !look.wrong[0]) snprintf(look.wrong, sizeof look.wrong, "%s", what); \
    } while (0)

static void see_group(void *ud, uint64_t chunk_bytes, int chunk_tok, int device)
{
    (void)ud;
    (void)chunk_tok;
    assert_in_range(look.n_group, 0, MAX_GROUP - 1);
    look.chunk_bytes[look.n_group] = chunk_bytes;
    look.device[look.n_group++] = device;
}

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

static void see_one_chunk(int group, uint64_t chunk, fxi_kv_chunk_state state)
{
    seen_chunk *c = chunk_of(chunk);
    EXPECT(group >= 0 && group < look.n_group, "a chunk of no group");
    EXPECT(!c->is_shown, "a chunk is shown twice");
    EXPECT((state == FXI_KV_CHUNK_SWAPPED) == (chunk >= FXI_KV_SWAP_CHUNK),
           "a chunk has not the name of its state");
    c->is_shown = true;
    c->state = state;
    c->group = group;
    look.bytes[state] += look.chunk_bytes[group];
}

static void see_chunk(void *ud, int group, uint64_t chunk, uint32_t n, fxi_kv_chunk_state state)
{
    (void)ud;
    for (uint32_t i = 0; i < n; i++) see_one_chunk(group, chunk + i, state);
}

static int number_of(const fxi_kv_seq *s)
{
    for (int i = 0; i < KV_WORLD_MAX_SEQ; i++)
        if (look.w->seq[i].kv == s) return i;
    return -1;
}

static void see_order(int seq, int group, int at)
{
    EXPECT(seq == look.seq || !look.is_told[seq], "a sequence is shown in two parts");
    EXPECT(seq != look.seq || group > look.last_group ||
               (group == look.last_group && at > look.last_at),
           "segments are not in order");
    look.is_told[seq] = true;
    look.seq = seq;
    look.last_group = group;
    look.last_at = at;
}

static void see_position(const fxi_kv_seq *s, int group, int at, uint64_t chunk)
{
    seen_chunk *c = chunk_of(chunk);
    const int seq = number_of(s);
    if (seq < 0 && !look.is_exact) return; // memory that waits for the next one
    EXPECT(seq >= 0, "a segment of no sequence");
    EXPECT(c->is_shown, "a segment by a chunk that is not shown");
    EXPECT(!c->of || c->of == s || c->state == FXI_KV_CHUNK_SHARED ||
               c->state == FXI_KV_CHUNK_SWAPPED,
           "a chunk of two sequences is not shared");
    EXPECT(at >= 0 && at < MAX_AT && look.device[c->group] == look.device[group],
           "a segment by another device's chunk");
    if (look.wrong[0]) return;
    see_order(seq, group, at);
    c->of = s;
    look.has[seq][group][at] = true;
}

static void see_segment(void *ud, const fxi_kv_seq *s, int group, int at, uint64_t chunk,
                        uint32_t n)
{
    (void)ud;
    for (uint32_t i = 0; i < n; i++) see_position(s, group, at + (int)i, chunk + i);
}

// ---- what must be there ------------------------------------------------------------------------

// Of all devices. What is mapped is shown, but for what a pool keeps beside its blocks.
static void verify_bytes(const fxi_kv_stats *st)
{
    uint64_t sum = 0;
    assert_int_equal(look.bytes[FXI_KV_CHUNK_CACHED], st->cached_bytes);
    if (fxi_kv_can(look.w->kv, FXI_KV_FORK))
        assert_int_equal(look.bytes[FXI_KV_CHUNK_SHARED], st->shared_bytes);
    for (int i = 0; i < FXI_KV_CHUNK_SWAPPED; i++) sum += look.bytes[i];
    if (fxi_kv_can(look.w->kv, FXI_KV_ELASTIC)) assert_int_equal(sum, st->mapped_bytes);
    if (!look.is_exact) return;
    assert_int_equal(sum, st->mapped_bytes);
    assert_int_equal(look.bytes[FXI_KV_CHUNK_SPARE], st->spare_bytes);
}

// Each has as many groups as the others.
static void verify_devices(int n_device)
{
    assert_int_equal(look.n_group % n_device, 0);
    for (int k = 0; k < look.n_group; k++)
        assert_int_equal(look.device[k], k / (look.n_group / n_device));
}

// Chunks hold a device's part of the rows of a group, one behind the other.
static void verify_positions(int i, int n_device)
{
    const kv_world_seq *s = &look.w->seq[i];
    const fxi_kv_views v = fxi_kv_get_views(look.w->kv, s->kv);
    for (int k = 0; k < look.n_group; k++) {
        const int g = k % look.w->layout.n_group;
        const fxi_kv_group *of = &look.w->layout.group[g];
        const uint64_t tok_bytes = (uint64_t)of->n_plane * of->row_bytes / (uint64_t)n_device;
        const uint64_t from = (uint64_t)v.group[g].first_tok * tok_bytes / look.chunk_bytes[k];
        const uint64_t end = (uint64_t)s->len_tok * tok_bytes;
        for (uint64_t at = from; at * look.chunk_bytes[k] < end; at++)
            if (!look.has[i][k][at])
                fail_msg("sequence %d of %d tokens: nothing at %d of group %d", i, s->len_tok,
                         (int)at, k);
    }
}

void kv_look_verify(const kv_world *w)
{
    const fxi_kv_painter painter = {.group = see_group,
                                    .chunk = see_chunk,
                                    .segment = see_segment,
                                    .nodes_anew = kv_nodes_anew,
                                    .gone_node = kv_nodes_gone,
                                    .node = kv_nodes_learn};
    const int n_device = kv_world_n_rank ? kv_world_n_rank : 1;
    fxi_kv_stats st;
    memset(&look, 0, sizeof look);
    look.w = w;
    look.seq = -1;
    look.is_exact = !strcmp(w->kv->ops->name, "vtensor");
    assert_int_equal(fxi_kv_paint(w->kv, &painter), FX_OK);
    if (look.wrong[0]) fail_msg("%s: the picture: %s", w->kv->ops->name, look.wrong);
    const uint64_t node_bytes = kv_nodes_held_bytes();
    kv_nodes_verify(w->kv);
    fxi_kv_get_stats(w->kv, &st);
    verify_devices(n_device);
    if (!st.retired_bytes) verify_bytes(&st);
    if (!look.is_exact) return;
    assert_int_equal(look.n_group, w->layout.n_group * n_device);
    if (n_device == 1) assert_true(node_bytes >= st.cached_bytes); // others evict on their own
    for (int i = 0; i < KV_WORLD_MAX_SEQ; i++)
        if (w->seq[i].kv && !w->seq[i].is_moving) verify_positions(i, n_device);
}
