// walk.c - the calls beside the block: every chunk and every position once, in runs that cannot be
// longer.
#include "assert_vt.h"

#include "walk.h"

typedef struct walk {
    const vt_snapshot *snap;
    uint64_t n_chunk; // so far
    uint64_t end;     // behind the last run of chunks,
    uint32_t group;   // which was of these
    vt_chunk_state state;
    const uint64_t *at; // of the sequence's span
    uint32_t n_at;      // positions so far
    uint32_t end_group, end_position;
    uint64_t end_at;
    uint32_t n_seq;
} walk;

static void see_chunks(void *ud, uint64_t first, uint64_t n, uint32_t group, vt_chunk_state state)
{
    walk *w = ud;
    assert_false(first == w->end && group == w->group && state == w->state);
    for (uint64_t i = 0; i < n; i++) {
        assert_true(w->n_chunk < w->snap->n_chunk);
        const vt_chunk_info *c = &w->snap->chunk[w->n_chunk++];
        assert_int_equal(c->index, first + i);
        assert_int_equal(c->group, group);
        assert_int_equal(c->state, state);
    }
    w->end = first + n;
    w->group = group;
    w->state = state;
}

static uint32_t first_of(const vt_snapshot *snap, uint32_t group)
{
    uint32_t first = 0;
    for (uint32_t g = 0; g < group; g++) first += snap->group_position[g];
    return first;
}

static void see_positions(void *ud, uint32_t group, uint32_t position, uint64_t at, uint32_t n)
{
    walk *w = ud;
    const uint64_t *is = w->at + first_of(w->snap, group) + position;
    assert_true(group >= w->end_group && (group > w->end_group || position >= w->end_position));
    assert_false(group == w->end_group && position == w->end_position && at == w->end_at);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(is[i], at + i);
    w->n_at += n;
    w->end_group = group;
    w->end_position = position + n;
    w->end_at = at + n;
}

static void see_seq(void *ud, const vt_seq *s)
{
    walk *w = ud;
    uint32_t span = 0, n_at = 0;
    while (span < w->snap->n_span && w->snap->span[span].seq != s) span++;
    assert_true(span < w->snap->n_span);
    w->at = w->snap->at + (size_t)span * w->snap->n_position;
    w->n_at = w->end_group = w->end_position = 0;
    w->end_at = VT_AT_NOTHING;
    for (uint32_t p = 0; p < w->snap->n_position; p++) n_at += w->at[p] != VT_AT_NOTHING;
    vt_seq_map(s, see_positions, w);
    assert_int_equal(w->n_at, n_at);
    w->n_seq++;
}

void walk_verify(const vt_manager *m, const vt_snapshot *snap)
{
    walk w = {.snap = snap, .end = UINT64_MAX};
    uint32_t n_seq = 0;
    vt_chunk_each(m, see_chunks, &w);
    assert_int_equal(w.n_chunk, snap->n_chunk);
    vt_seq_each(m, see_seq, &w);
    for (uint32_t i = 0; i < snap->n_span; i++) n_seq += snap->span[i].seq != NULL;
    assert_int_equal(w.n_seq, n_seq);
}
