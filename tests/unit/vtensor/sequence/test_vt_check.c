// test_vt_check.c - vt_check finds what is broken: each invariant is broken by hand, found, and
// restored.

#include "assert_vt.h"
#include "vtensor/structure/manager.h"
#include "world.h"

static world w;

static vt_domain *d;
static uint32_t was_home, was_chunk, was_warm, warm_twice; // before anything is broken

// Span 0: live, four chunks, recorded. Span 1: live, empty. Span 2 and 3: idle, two warm chunks
// each. Span 4: live and swapped out, a chunk.
static int setup(void **state)
{
    (void)state;
    static uint32_t tok[100];
    world_setup s = {.n_plane = 2,
                     .row_bytes = 128,
                     .max_tok = 320,
                     .max_seq = 6,
                     .budget_chunks = 12,
                     .spare_chunks = UINT64_MAX,
                     .swap_chunks = 4};
    world_open(&w, &s, 1);
    static const uint32_t n_chunk[] = {4, 0, 2, 2, 1};
    for (uint32_t i = 0; i < 5; i++) {
        assert_ok(world_create(&w, i));
        assert_ok(world_extend(&w, i, 32 * n_chunk[i]));
    }
    world_release(&w, 2);
    world_release(&w, 3);
    assert_ok(vt_domain_open(w.m, "d", 1, &d));
    assert_ok(vt_seq_record(w.seq[0].s, d, tok, 100, NULL));
    assert_ok(vt_seq_swap_out(w.seq[4].s));
    assert_ok(vt_check(w.m, NULL));
    was_home = w.m->vset.span[2]->lane[0].home;
    was_chunk = w.m->vset.span[0]->lane[0].at[1];
    warm_twice = w.m->vset.span[2]->lane[0].at[0];
    was_warm = w.m->vset.span[3]->lane[0].at[0];
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_ok(vt_check(w.m, NULL));
    vt_domain_close(d);
    world_close(&w);
    return 0;
}

// Each breaks something with by = 1 and repairs it with by = -1.
#define BREAK(name, what, type, n)                  \
    static void name(int by)                        \
    {                                               \
        (what) = (type)((what) + (type)(by * (n))); \
    }

#define FLIP(name, what)     \
    static void name(int by) \
    {                        \
        (void)by;            \
        (what) = !(what);    \
    }

// Lane 0 of a span, and the record of the chunk that it maps at a position.
#define LANE(i) (w.m->vset.span[i]->lane[0])

static vti_chunk *chunk_at(uint32_t span, uint32_t position)
{
    const vti_class *c = &w.m->pset.cls[0];
    uint32_t i = LANE(span).at[position] - c->first;
    return &c->region[i / c->len].chunk[i % c->len];
}

// A chunk that span 2 has a name for, but no memory.
static vti_chunk *absent_chunk(void)
{
    const vti_class *c = &w.m->pset.cls[0];
    uint32_t i = LANE(2).home - c->first + 5;
    return &c->region[i / c->len].chunk[i % c->len];
}

BREAK(users, chunk_at(0, 1)->n_user, uint32_t, 1)
BREAK(users_of_warm, chunk_at(2, 1)->n_user, uint32_t, 1)
BREAK(nodes, chunk_at(0, 1)->n_node, uint32_t, 1)
BREAK(kept, chunk_at(0, 1)->n_kept, uint32_t, -1)
BREAK(node_of_absent, absent_chunk()->n_node, uint32_t, 1)
BREAK(reserved_name, absent_chunk()->place, uint8_t, VTI_WITH_JOB)
FLIP(memory_for_none, absent_chunk()->is_created)
FLIP(none_for_memory, chunk_at(2, 1)->is_created)
BREAK(warm_with_job, chunk_at(2, 1)->place, uint8_t, 1)
BREAK(warm_in_pool, chunk_at(2, 1)->place, uint8_t, -1)
BREAK(pset_count, w.m->pset.cls[0].n_in[VT_CHUNK_SPARE], uint64_t, -1)
BREAK(pset_count_shared, w.m->pset.cls[0].n_in[VT_CHUNK_SHARED], uint64_t, 1)
BREAK(pool_count, w.m->pset.cls[0].n_pool, uint64_t, 1)
BREAK(pool_list, w.m->pset.cls[0].pool, uint32_t, 3)
BREAK(evictable_count, w.m->pset.cls[0].n_evictable, uint64_t, 1)
FLIP(home_of_nobody, w.m->pset.cls[0].region[LANE(2).home / w.m->pset.cls[0].len].is_home)
BREAK(span_of_another_home, LANE(2).home, uint32_t, LANE(0).home - was_home)
BREAK(span_id, w.m->vset.span[1]->id, uint32_t, 1)
BREAK(span_state, w.m->vset.span[1]->state, vti_span_state, 3)
BREAK(span_lost, w.m->vset.span[1]->state, vti_span_state, 2)
BREAK(owned_too_many, LANE(0).n_owned, uint32_t, 1)
BREAK(owned_by_idle, LANE(2).n_owned, uint32_t, 1)
BREAK(held_by_idle, LANE(2).held1, uint32_t, 1)
BREAK(front_without_window, LANE(0).front, uint32_t, 1)
BREAK(held_too_few, LANE(0).held1, uint32_t, -1)
BREAK(held_too_late, LANE(0).held0, uint32_t, 1)
BREAK(warm_count, LANE(2).n_warm, uint32_t, 1)
BREAK(warm_bytes, w.m->vset.n_warm_bytes[VTI_SPAN_IDLE], uint64_t, 1)
BREAK(end_of_map, LANE(2).n_end, uint32_t, 1)
BREAK(end_too_soon, LANE(2).n_end, uint32_t, -1)
BREAK(dirty_beyond, LANE(2).dirty_end, size_t, 1 << 20)
BREAK(owned_not_mapped, LANE(0).at[1], uint32_t, VTI_NO_CHUNK - was_chunk)
BREAK(maps_nothing_known, LANE(0).at[1], uint32_t, 1 << 20)
BREAK(mapped_not_created, LANE(2).at[5], uint32_t, LANE(2).home + 5 - VTI_NO_CHUNK)
BREAK(mapped_twice, LANE(3).at[0], uint32_t, warm_twice - was_warm)
BREAK(warm_read_only, LANE(2).n_ro, uint32_t, 1)

// The last position that is shared, of three.
static void shared_writable(int by)
{
    LANE(0).guard_end = by > 0 ? 2 : 3;
    vti_lane_set_ro(&w.m->vset, w.m->vset.span[0], 0, LANE(0).guard_end);
}

BREAK(run_count, w.m->vset.n_run, uint64_t, 1)
BREAK(run_count_of_lane, LANE(0).n_run, uint32_t, 1)
FLIP(lent, LANE(0).is_lent)
BREAK(idle_count, w.m->vset.in[VTI_SPAN_IDLE].n, uint32_t, 1)
BREAK(idle_count_low, w.m->vset.in[VTI_SPAN_IDLE].n, uint32_t, -1)
BREAK(retired_count, w.m->vset.in[VTI_SPAN_RETIRED].n, uint32_t, 1)
BREAK(seq_count, w.m->n_seq, uint32_t, 1)
BREAK(seq_length, w.m->vset.span[0]->seq->len_tok, uint32_t, -40)
BREAK(seq_too_long, w.m->vset.span[0]->seq->len_tok, uint32_t, 1000)
BREAK(seq_bytes, w.m->vset.span[0]->seq->live_bytes, uint64_t, 1)
BREAK(live_count, w.m->live_bytes, uint64_t, 1)
BREAK(live_peak, w.m->tally.peak_live, uint64_t, -(1 << 16))
BREAK(chunk_peak, w.m->tally.peak_bytes, uint64_t, -(1 << 16))
BREAK(over_budget, w.m->budget_bytes, uint64_t, -(1 << 16))
BREAK(over_max_runs, w.m->max_runs, uint64_t, 3) // no limit, and 3 more: a limit of 2
BREAK(reserved_bytes, w.m->reserved_bytes, uint64_t, 1)
BREAK(reserved_runs, w.m->runs_reserved, uint64_t, 1)
BREAK(lent_jobs, w.m->n_lent, uint32_t, 1)
BREAK(slots, w.m->swap.n_free, uint32_t, -1)
BREAK(slot_free_twice, w.m->swap.free_slot[0], uint32_t, -1)
BREAK(slot_used_twice, w.m->vset.span[4]->seq->swapped[0].slot, uint32_t, 1)
BREAK(swapped_elsewhere, w.m->vset.span[4]->seq->swapped[0].position, uint32_t, 1)

static void swap_spans(vti_span **a, vti_span **b)
{
    vti_span *t = *a;
    *a = *b;
    *b = t;
}

static void idle_ends(int by)
{
    (void)by;
    swap_spans(&w.m->vset.in[VTI_SPAN_IDLE].newest, &w.m->vset.in[VTI_SPAN_IDLE].oldest);
}

static void idle_tail(int by)
{
    (void)by;
    static vti_span *other;
    swap_spans(&w.m->vset.in[VTI_SPAN_IDLE].oldest, &other);
}

static void idle_links(int by)
{
    (void)by;
    swap_spans(&w.m->vset.span[2]->newer, &w.m->vset.span[2]->older);
}

static void seq_elsewhere(int by)
{
    w.m->vset.span[1]->seq->span = w.m->vset.span[by > 0 ? 0 : 1];
}

static void memory_nobody_knows(int by)
{
    vt_vmm *in = w.inner;
    if (by > 0)
        assert_ok(in->ops->create(in, 50, 1));
    else
        assert_ok(in->ops->destroy(in, 50, 1));
}

static const struct broken {
    void (*by)(int by);
    const char *words;
} breaks[] = {
    {users, "a chunk's count of users is wrong"},
    {users_of_warm, "a warm chunk is not spare"},
    {nodes, "a chunk's count of nodes is wrong"},
    {kept, "a chunk's count of kept nodes is wrong"},
    {node_of_absent, "a chunk's count of nodes is wrong"},
    {reserved_name, "a job has left a name reserved"},
    {memory_for_none, "the counts of chunks are not the sums over the regions"},
    {none_for_memory, "a mapped chunk has no memory"},
    {warm_with_job, "a warm chunk is not spare"},
    {warm_in_pool, "a warm chunk is not spare"},
    {pset_count, "the counts of chunks are not the sums over the regions"},
    {pset_count_shared, "the counts of chunks are not the sums over the regions"},
    {pool_count, "the count of the pool is wrong"},
    {pool_list, "the count of the pool is wrong"},
    {evictable_count, "the count of what may be evicted is wrong"},
    {home_of_nobody, "a lane's home is not marked as one"},
    {span_of_another_home, "two lanes have one home"},
    {span_id, "a span's id is not its index"},
    {span_state, "a span's state is unknown"},
    {span_lost, "a span that is not live has a sequence"},
    {owned_too_many, "a sequence does not own exactly the chunks it needs"},
    {owned_by_idle, "an idle span holds chunks"},
    {held_by_idle, "an idle span holds chunks"},
    {front_without_window, "a sequence's live bytes are wrong"},
    {held_too_few, "a warm chunk is not spare"},
    {held_too_late, "a lane maps a chunk before those it holds"},
    {warm_count, "the count of warm chunks is wrong"},
    {warm_bytes, "the count of warm bytes is wrong"},
    {end_of_map, "a lane's end is not at its last mapped chunk"},
    {end_too_soon, "a lane maps beyond its end"},
    {dirty_beyond, "a lane is dirty beyond its end"},
    {owned_not_mapped, "a lane's count of runs is wrong"},
    {maps_nothing_known, "a lane maps a chunk that does not exist"},
    {mapped_not_created, "a mapped chunk has no memory"},
    {mapped_twice, "a warm chunk is mapped twice"},
    {warm_read_only, "an idle span holds chunks"},
    {shared_writable, "a shared chunk can be written"},
    {run_count, "the count of mappings is wrong"},
    {run_count_of_lane, "a lane's count of runs is wrong"},
    {lent, "a job is still with the mapper"},
    {idle_count, "the length of a list of spans is wrong"},
    {idle_count_low, "the length of a list of spans is wrong"},
    {retired_count, "the length of a list of spans is wrong"},
    {seq_count, "the count of sequences is wrong"},
    {seq_length, "a sequence's live bytes are wrong"},
    {seq_too_long, "a sequence is longer than max_tok"},
    {seq_bytes, "a sequence's live bytes are wrong"},
    {live_count, "the count of live bytes is wrong"},
    {live_peak, "the peak of live bytes is too low"},
    {chunk_peak, "the peak of created bytes is too low"},
    {over_budget, "more is created than the budget allows"},
    {over_max_runs, "more runs are mapped than the backend allows"},
    {reserved_bytes, "a job has left a reservation"},
    {reserved_runs, "a job has left a reservation"},
    {lent_jobs, "a job has left a reservation"},
    {slots, "the swap's slots do not add up"},
    {slot_free_twice, "a free slot of the swap is invalid or listed twice"},
    {slot_used_twice, "a used slot of the swap is invalid, free or used twice"},
    {swapped_elsewhere, "an owned chunk is not mapped or swapped out"},
    {idle_ends, "a list of spans is not linked correctly"},
    {idle_tail, "the length of a list of spans is wrong"},
    {idle_links, "a list of spans is not linked correctly"},
    {seq_elsewhere, "a sequence and its span do not refer to each other"},
    {memory_nobody_knows, "the system holds more or less memory than was created"},
};

static void test_each_broken_invariant_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
        const char *what = NULL;
        breaks[i].by(1);
        vt_status st = vt_check(w.m, &what);
        breaks[i].by(-1);
        if (st != VT_EINVAL || !what) fail_msg("\"%s\" is not found", breaks[i].words);
        assert_string_equal(what, breaks[i].words);
        if (vt_check(w.m, &what) != VT_OK)
            fail_msg("\"%s\" is not repaired: %s", breaks[i].words, what);
        assert_null(what);
    }
}

static void test_a_backend_that_cannot_tell_is_no_broken_invariant(void **state)
{
    (void)state;
    const char *what = "";
    vt_fault_arm(w.fault, 0, 0, VT_EDEVICE);
    assert_int_equal(vt_check(w.m, &what), VT_EDEVICE);
    assert_null(what);
    vt_fault_disarm(w.fault);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_broken_invariant_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_backend_that_cannot_tell_is_no_broken_invariant,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
