// test_vt_check.c - vt_check finds what is broken: each invariant is broken by hand, found, and
// restored.

#include "assert_vt.h"
#include "vtensor/structure/manager.h"
#include "world.h"

static world w;

static vt_domain *d;

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

BREAK(users, w.m->pset.region[0].chunk[1].n_user, uint32_t, 1)
BREAK(nodes, w.m->pset.region[0].chunk[1].n_node, uint32_t, 1)
BREAK(node_of_absent, w.m->pset.region[1].chunk[7].n_node, uint32_t, 1)
BREAK(memory_for_none, w.m->pset.region[1].chunk[7].created, uint32_t, 1)
BREAK(none_for_memory, w.m->pset.region[2].chunk[1].created, uint32_t, 1)
BREAK(region_count, w.m->pset.region[2].n_in[VT_CHUNK_SPARE], uint32_t, 1)
BREAK(pset_count, w.m->pset.n_in[VT_CHUNK_ABSENT], uint64_t, -1)
BREAK(home_of_another, w.m->pset.region[0].home_of, uint32_t, 1)
BREAK(home_of_nobody, w.m->pset.region[0].home_of, uint32_t, 100)
BREAK(span_of_another_home, w.m->vset.span[2]->home, uint32_t, -1)
BREAK(span_id, w.m->vset.span[1]->id, uint32_t, 1)
BREAK(span_state, w.m->vset.span[1]->state, vti_span_state, 2)
BREAK(owned_too_many, w.m->vset.span[0]->n_owned, uint32_t, 1)
BREAK(owned_by_idle, w.m->vset.span[2]->n_owned, uint32_t, 1)
BREAK(warm_count, w.m->vset.span[2]->n_warm, uint32_t, 1)
BREAK(end_of_map, w.m->vset.span[2]->n_end, uint32_t, 1)
BREAK(end_too_soon, w.m->vset.span[2]->n_end, uint32_t, -1)
BREAK(owned_not_mapped, w.m->vset.span[0]->at[1], uint32_t, -1) // the region is 0: nothing
BREAK(maps_no_region, w.m->vset.span[0]->at[1], uint32_t, 50)
BREAK(mapped_not_created, w.m->vset.span[2]->at[5], uint32_t, w.m->vset.span[2]->home + 1)
BREAK(detached_and_mapped, w.m->vset.span[0]->detached[1], uint32_t, 1)
BREAK(detached_count, w.m->vset.span[0]->n_detached, uint32_t, 1)
BREAK(run_count, w.m->vset.n_run, uint64_t, 1)
BREAK(run_count_of_span, w.m->vset.span[0]->n_run, uint32_t, 1)
BREAK(idle_count, w.m->vset.idle.n, uint32_t, 1)
BREAK(idle_count_low, w.m->vset.idle.n, uint32_t, -1)
BREAK(retired_count, w.m->vset.retired.n, uint32_t, 1)
BREAK(seq_count, w.m->n_seq, uint32_t, 1)
BREAK(seq_length, w.m->vset.span[0]->seq->len_tok, uint32_t, -40)
BREAK(seq_too_long, w.m->vset.span[0]->seq->len_tok, uint32_t, 1000)
BREAK(live_count, w.m->live_tok, uint64_t, 1)
BREAK(live_peak, w.m->tally.peak_tok, uint64_t, -200)
BREAK(chunk_peak, w.m->tally.peak_chunks, uint64_t, -2)
BREAK(over_budget, w.m->budget_chunks, uint64_t, -5)
BREAK(over_max_runs, w.m->max_runs, uint64_t, 3) // no limit, and 3 more: a limit of 2
BREAK(reserved_chunks, w.m->n_reserved, uint64_t, 1)
BREAK(reserved_runs, w.m->runs_reserved, uint64_t, 1)
BREAK(leaving, w.m->n_leaving, uint64_t, 1)
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
    swap_spans(&w.m->vset.idle.newest, &w.m->vset.idle.oldest);
}

static void idle_tail(int by)
{
    (void)by;
    static vti_span *other;
    swap_spans(&w.m->vset.idle.oldest, &other);
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
    {nodes, "a chunk's count of nodes is wrong"},
    {node_of_absent, "a chunk's count of nodes is wrong"},
    {memory_for_none, "a region's counts do not match its chunks"},
    {none_for_memory, "a mapped chunk has no memory"},
    {region_count, "a region's counts do not match its chunks"},
    {pset_count, "the counts of chunks are not the sums over the regions"},
    {home_of_another, "a span's home belongs to another span"},
    {home_of_nobody, "a span's home belongs to another span"},
    {span_of_another_home, "a warm chunk is not a spare chunk of the home"},
    {span_id, "a span's id is not its index"},
    {span_state, "a span's state is unknown"},
    {owned_too_many, "a sequence does not own exactly the chunks it needs"},
    {owned_by_idle, "an idle span owns chunks"},
    {warm_count, "the count of warm chunks is wrong"},
    {end_of_map, "a span's end is not at its last mapped chunk"},
    {end_too_soon, "a span maps beyond its end"},
    {owned_not_mapped, "a span's count of runs is wrong"},
    {maps_no_region, "a span maps a region that does not exist"},
    {mapped_not_created, "a mapped chunk has no memory"},
    {detached_and_mapped, "a detached chunk is mapped, or not held"},
    {detached_count, "the count of detached chunks is wrong"},
    {run_count, "the count of mappings is wrong"},
    {run_count_of_span, "a span's count of runs is wrong"},
    {idle_count, "the length of a list of spans is wrong"},
    {idle_count_low, "the length of a list of spans is wrong"},
    {retired_count, "the length of a list of spans is wrong"},
    {seq_count, "the count of sequences is wrong"},
    {seq_length, "a sequence does not own exactly the chunks it needs"},
    {seq_too_long, "a sequence is longer than max_tok"},
    {live_count, "the count of live tokens is wrong"},
    {live_peak, "the peak of live tokens is too low"},
    {chunk_peak, "the peak of chunks is too low"},
    {over_budget, "more chunks are created than the budget allows"},
    {over_max_runs, "more runs are mapped than the backend allows"},
    {reserved_chunks, "a job has left a reservation"},
    {reserved_runs, "a job has left a reservation"},
    {leaving, "a job has left a reservation"},
    {slots, "the swap's slots do not add up"},
    {slot_free_twice, "a free slot of the swap is invalid or listed twice"},
    {slot_used_twice, "a used slot of the swap is invalid, free or used twice"},
    {swapped_elsewhere, "an owned chunk is not mapped, detached or swapped out"},
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
