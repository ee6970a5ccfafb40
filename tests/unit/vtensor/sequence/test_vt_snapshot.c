// test_vt_snapshot.c - vt_snapshot shows every chunk with its state and holders, and what each span
// maps.

#include "assert_vt.h"
#include "family.h"
#include "suite.h"
#include "walk.h"

enum { CHUNK_TOK = 32, N_PLANE = 2 };

static family f;
static vt_snapshot *snap;

// Span 0: four chunks, three recorded. Span 1: a fork of two of them. Span 2: swapped out. Span 3:
// idle, two warm. Three that were swapped out are mapped nowhere.
VT_FIXTURE(setup)
{
    family_setup s = {.n_plane = N_PLANE,
                      .row_bytes = 128,
                      .slice_pages = 1,
                      .n_seq = 4,
                      .budget_chunks = 20,
                      .swap_chunks = 4,
                      .mapper = VT_MAPPER_OWNER};
    family_open(&f, &s, 1);
    static const uint32_t n_chunk[] = {4, 0, 3, 2};
    for (uint32_t i = 0; i < 4; i++) {
        if (i == 1) continue;
        assert_ok(family_create(&f, i, 0));
        assert_ok(family_grow(&f, i, n_chunk[i] * CHUNK_TOK));
    }
    assert_ok(family_fork(&f, 0, 1, 2 * CHUNK_TOK));
    assert_ok(family_record(&f, 0, 3 * CHUNK_TOK, NULL));
    assert_ok(swap_out_now(f.kin[2].s));
    family_release(&f, 3);
    assert_ok(vt_snapshot_take(f.m, &snap));
}

VT_FIXTURE(teardown)
{
    vt_snapshot_free(snap);
    vt_snapshot_free(NULL);
    family_verify(&f);
    family_close(&f);
}

static const vt_span_info *span_of(uint32_t i)
{
    for (uint32_t k = 0; k < snap->n_span; k++)
        if (snap->span[k].seq == f.kin[i].s) return &snap->span[k];
    fail_msg("sequence %u is not in the picture", i);
    return NULL;
}

static uint64_t at(const vt_span_info *sp, uint32_t position)
{
    return snap->at[(size_t)(sp - snap->span) * snap->n_position + position];
}

static const vt_chunk_info *chunk(uint64_t index)
{
    for (uint64_t k = 0; k < snap->n_chunk; k++)
        if (snap->chunk[k].index == index) return &snap->chunk[k];
    fail_msg("chunk %llu is not in the picture", (unsigned long long)index);
    return NULL;
}

FX_TEST(test_chunks_are_counted_by_state)
{
    uint64_t n[VT_N_CHUNK_STATE] = {0};
    for (uint64_t k = 0; k < snap->n_chunk; k++) n[snap->chunk[k].state]++;
    assert_int_equal(snap->n_chunk, family_stats(&f).chunks_created);
    assert_int_equal(n[VT_CHUNK_SHARED], 3);
    assert_int_equal(n[VT_CHUNK_OWNED], 1);
    assert_int_equal(n[VT_CHUNK_SPARE], 2 + 3);
    assert_int_equal(n[VT_CHUNK_CACHED] + n[VT_CHUNK_ABSENT], 0);
}

FX_TEST(test_holders_are_shown)
{
    const vt_span_info *a = span_of(0), *b = span_of(1);
    static const uint32_t n_seq[] = {2, 2, 1, 1}, n_node[] = {1, 1, 1, 0};
    for (uint32_t p = 0; p < 4; p++) {
        assert_int_equal(chunk(at(a, p))->n_seq, n_seq[p]);
        assert_int_equal(chunk(at(a, p))->n_node, n_node[p]);
    }
    assert_int_equal(at(b, 0), at(a, 0));
    assert_int_equal(at(b, 1), at(a, 1));
    assert_int_equal(at(b, 2), UINT64_MAX);
}

FX_TEST(test_spans_are_shown)
{
    const vt_span_info *a = span_of(0), *c = span_of(2);
    assert_int_equal(snap->n_span, 4);
    assert_true(a->is_live && !a->is_swapped);
    assert_ptr_equal(a->plane0, vt_seq_plane(f.kin[0].s, 0));
    assert_int_equal(snap->n_group, 1);
    assert_int_equal(snap->group_position[0], snap->n_position);
    assert_int_equal(a->len_tok, 4 * CHUNK_TOK);
    assert_int_equal(a->n_chunk, 4);
    assert_int_equal(a->n_mapped, 4);
    assert_int_equal(a->n_run, 2); // three for reading only, and its own
    assert_true(c->is_live && c->is_swapped);
    assert_int_equal(c->n_mapped, 0);
    uint32_t n_idle = 0, n_mapped_free = 0;
    for (uint32_t k = 0; k < snap->n_span; k++) {
        n_idle += !snap->span[k].is_live;
        n_mapped_free += snap->span[k].is_live ? 0 : snap->span[k].n_mapped;
    }
    assert_int_equal(n_idle, 1);
    assert_int_equal(n_mapped_free, 2);
}

// Each chunk of a sequence that is out has a slot of its own; beyond its tokens there is nothing.
FX_TEST(test_what_is_in_the_swap_is_shown)
{
    const vt_span_info *c = span_of(2);
    uint32_t n_seen[4] = {0};
    for (uint32_t p = 0; p < 3; p++) {
        assert_true(at(c, p) != VT_AT_NOTHING && (at(c, p) & VT_AT_SWAP));
        assert_in_range(at(c, p) & ~VT_AT_SWAP, 0, 3);
        assert_int_equal(n_seen[at(c, p) & ~VT_AT_SWAP]++, 0);
    }
    for (uint32_t p = 3; p < snap->n_position; p++) assert_true(at(c, p) == VT_AT_NOTHING);
}

FX_TEST(test_calls_show_the_same)
{
    walk_verify(f.m, snap);
}

FX_RUN_EACH(test_vt_snapshot, setup, teardown)
