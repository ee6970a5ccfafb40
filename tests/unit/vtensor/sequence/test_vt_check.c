// test_vt_check.c - vt_check finds what is broken: each invariant and each count is broken by hand,
// found, told in its words, and restored. (The prefix tree's own: tree/test_vt_radix.c.)
#include "assert_vt.h"
#include "suite.h"

#include "family.h"
#include "vtensor/core/manager.h"

static family f;

static vt_domain *d;

// Span 0: live, four chunks, three of them recorded and guarded. Span 1: live, empty, a warm chunk.
// Spans 2 and 3: idle, two warm chunks each. Span 4: live and swapped out, a chunk; what it had is
// in the pool. Span 5: idle, empty; it has left two cached chunks.
VT_FIXTURE(setup)
{
    static uint32_t tok[100], other[64] = {1};
    family_setup s = {.backend = ON_FAKE,
                      .slice_pages = 1,
                      .n_plane = 2,
                      .row_bytes = 128,
                      .n_seq = 6,
                      .budget_chunks = 13,
                      .mapper = VT_MAPPER_OWNER,
                      .max_runs = 100,
                      .swap_chunks = 4};
    static const uint32_t n_chunk[] = {4, 0, 2, 2, 1, 2};
    family_open(&f, &s, 1);
    for (uint32_t i = 0; i < 6; i++) family_grown(&f, i, 32 * n_chunk[i]);
    assert_ok(vt_domain_open(f.m, "d", 1, &d));
    assert_ok(vt_seq_record(f.kin[0].s, d, tok, 100, NULL));
    assert_ok(vt_seq_record(f.kin[5].s, d, other, 64, NULL));
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0)); // guards
    for (uint32_t i = 2; i < 4; i++) family_release(&f, i);
    family_release(&f, 5);
    assert_ok(vt_seq_prepare(f.kin[1].s, 32, 1));
    vt_work(f.m, UINT32_MAX, NULL);
    assert_ok(swap_out_now(f.kin[4].s));
    assert_ok(vt_check(f.m, NULL));
}

VT_FIXTURE(teardown)
{
    assert_ok(vt_check(f.m, NULL));
    vt_domain_close(d);
    family_close(&f);
}

// ---- What is broken

#define SPAN(i) (f.m->vset.span[i])
#define LANE(i) (SPAN(i)->lane[0])
#define SEQ(i)  (SPAN(i)->seq)
#define CLASS   (f.m->pset.cls[0])
#define CLASS_BLOCK(b, i) \
    ((b).block[(i) / VTI_BLOCK_RECORDS] + (i) % VTI_BLOCK_RECORDS * (b).record_bytes)

static vti_chunk *record_of(uint32_t chunk)
{
    vti_page *page = (vti_page *)CLASS_BLOCK(f.m->pset.pages, chunk / VTI_PAGE_CHUNKS);
    return &page->chunk[chunk % VTI_PAGE_CHUNKS];
}

static vti_region *region_of(uint32_t region)
{
    return (vti_region *)CLASS_BLOCK(CLASS.regions, region);
}

static vti_chunk *cached(void)
{
    for (uint32_t i = 0; i < vti_pset_end(&f.m->pset); i++)
        if (vti_pset_state(&f.m->pset, i) == VT_CHUNK_CACHED) return record_of(i);
    fail_msg("no chunk is cached");
    return NULL;
}

// In the page of others.
static vti_chunk *absent(void)
{
    return record_of(LANE(3).at[0] + 2);
}

static void swap_spans(vti_span **a, vti_span **b)
{
    vti_span *t = *a;
    *a = *b;
    *b = t;
}

// Each breaks something with by = 1 and repairs it with by = -1.
#define BREAK(name, what, type, n)                  \
    static void name(int by)                        \
    {                                               \
        (what) = (type)((what) + (type)(by * (n))); \
    }

#define FLIP(name, what)            \
    static void name(int by)        \
    {                               \
        (void)by, (what) = !(what); \
    }

BREAK(maps_no_region, LANE(0).at[1], uint32_t, 1 << 20)
FLIP(none_for_memory, record_of(LANE(2).at[1])->is_created)
BREAK(end_too_soon, LANE(2).n_end, uint32_t, -1)
BREAK(held_too_late, LANE(0).held0, uint32_t, 1)
BREAK(held_too_little, LANE(0).held1, uint32_t, -1)
BREAK(mapped_free_read_only, LANE(1).n_ro, uint32_t, 1)
BREAK(mapped_free_count, LANE(2).n_mapped_free, uint32_t, 1)
BREAK(run_count_of_lane, LANE(0).n_run, uint32_t, 1)
BREAK(end_of_map, LANE(2).n_end, uint32_t, 1)
BREAK(dirty_beyond, LANE(2).dirty_end, size_t, 1 << 20)
BREAK(owned_too_many, LANE(0).n_owned, uint32_t, 1)
BREAK(held_not_owned, LANE(4).held1, uint32_t, -1)
BREAK(swapped_elsewhere, SEQ(4)->swapped[0].position, uint32_t, 1)
BREAK(seq_too_long, SEQ(0)->len_tok, uint32_t, 1000)
BREAK(seq_live, SEQ(0)->live_bytes, uint64_t, 1)
BREAK(seq_slack, SEQ(0)->slack_bytes, uint64_t, 1)
BREAK(span_id, SPAN(1)->id, uint32_t, 1)
BREAK(span_state, SPAN(1)->state, vti_span_state, 7)
BREAK(waits_for_no_job, SPAN(2)->state, vti_span_state, VTI_SPAN_CLEARING)
BREAK(sound_in_quarantine, SPAN(2)->state, vti_span_state, VTI_SPAN_QUARANTINED)
FLIP(lent, LANE(2).job.in_flight)
BREAK(owned_by_idle, LANE(2).n_owned, uint32_t, 1)
BREAK(idle_count, f.m->vset.in[VTI_SPAN_IDLE].n, uint32_t, 1)
BREAK(idle_count_low, f.m->vset.in[VTI_SPAN_IDLE].n, uint32_t, -1)
BREAK(retired_count, f.m->vset.in[VTI_SPAN_RETIRED].n, uint32_t, 1)
BREAK(mapped_free_bytes, f.m->vset.mapped_free_bytes[VTI_SPAN_IDLE], uint64_t, 1)
FLIP(mapped_free_not_listed, SPAN(2)->is_listed_mapped)
BREAK(mapped_free_listed_count, f.m->vset.idle_mapped.n, uint32_t, 1)
BREAK(gap_not_known, LANE(2).solid1, uint32_t, 1)
BREAK(guard_forgotten, LANE(0).guard_end, uint32_t, 1)
BREAK(due_count, f.m->vset.n_due, uint32_t, 1)
FLIP(region_unmarked, region_of(LANE(0).region)->is_preferred)
BREAK(users, record_of(LANE(0).at[1])->n_user, uint32_t, 1)
BREAK(nodes, record_of(LANE(0).at[1])->n_node, uint32_t, 1)
BREAK(gone, record_of(LANE(0).at[1])->n_gone, uint32_t, 1)
BREAK(kept, cached()->n_kept, uint32_t, 1)
BREAK(users_of_absent, absent()->n_user, uint32_t, 1)
BREAK(name_reserved, absent()->place, uint32_t, VTI_WITH_JOB)
BREAK(chunk_with_job, record_of(CLASS.pool)->place, uint32_t, VTI_WITH_JOB)
BREAK(pooled_in_lane, record_of(CLASS.pool)->place, uint32_t, VTI_IN_LANE)
BREAK(state_count, CLASS.n_in[VT_CHUNK_SPARE], uint64_t, 1)
BREAK(pool_count, CLASS.n_in[VTI_POOLED], uint64_t, 1)
BREAK(leaving_count, CLASS.n_in[VTI_LEAVING], uint64_t, 1)
BREAK(evictable_count, CLASS.n_in[VTI_EVICTABLE], uint64_t, 1)
BREAK(seq_count, f.m->n_seq, uint32_t, 1)
BREAK(reserved_bytes, f.m->reserved_bytes, uint64_t, 1)
BREAK(reserved_runs, f.m->runs_reserved, uint64_t, 1)
BREAK(over_budget, f.m->ceiling_bytes, uint64_t, -20000)
BREAK(run_count, f.m->vset.n_run, uint64_t, 1)
BREAK(over_max_runs, f.m->max_runs, uint64_t, -99)
BREAK(live_count, f.m->live_bytes, uint64_t, 1)
BREAK(slack_count, f.m->slack_bytes, uint64_t, 1)
BREAK(lost_count, f.m->vset.n_lost, uint32_t, 1)
BREAK(live_peak, f.m->count.peak_live_bytes, uint64_t, -60000)
BREAK(bytes_peak, f.m->count.peak_mapped_bytes, uint64_t, -20000)
BREAK(slots, f.m->swap.n_free, uint32_t, -1)
BREAK(slot_free_twice, f.m->swap.free_slot[0], uint32_t, -1)
BREAK(slot_used_twice, SEQ(4)->swapped[0].slot, uint32_t, 1)

// The bytes follow.
static void passed_too_much(int by)
{
    LANE(0).front += (uint32_t)by;
    SEQ(0)->live_bytes -= (uint64_t)by * CLASS.chunk_bytes;
}

static void seq_length(int by)
{
    SEQ(0)->len_tok -= (uint32_t)(by * 40);
    SEQ(0)->live_bytes -= (uint64_t)(by * 40) * 2 * 128;
}

static void mapped_free_twice(int by)
{
    static uint32_t was;
    if (by > 0) was = LANE(3).at[0];
    LANE(3).at[0] = by > 0 ? LANE(2).at[0] : was;
}

// The border is moved, so that the runs stay as many.
static void shared_writable(int by)
{
    static uint32_t guard_end;
    LANE(0).n_ro -= (uint32_t)by;
    if (by > 0) guard_end = LANE(0).guard_end;
    LANE(0).guard_end = by > 0 ? 0 : guard_end;
}

static void seq_elsewhere(int by)
{
    static vt_seq *s;
    if (by > 0) s = SEQ(1);
    s->span = SPAN(by > 0 ? 0 : 1);
}

static void idle_has_seq(int by)
{
    SPAN(2)->seq = by > 0 ? SEQ(0) : NULL;
}

static void region_of_another(int by)
{
    static uint32_t was;
    if (by > 0) was = LANE(2).region;
    LANE(2).region = by > 0 ? LANE(0).region : was;
}

static void due_is_another(int by)
{
    SPAN(0)->is_due = by > 0;
    SPAN(1)->is_due = by < 0;
}

static void memory_lost(int by)
{
    static vti_chunk *chunk;
    if (by > 0) chunk = cached();
    chunk->is_created = by < 0;
}

static void idle_ends(int by)
{
    (void)by;
    swap_spans(&f.m->vset.in[VTI_SPAN_IDLE].newest, &f.m->vset.in[VTI_SPAN_IDLE].oldest);
}

static void idle_tail(int by)
{
    (void)by;
    static vti_span *other;
    swap_spans(&f.m->vset.in[VTI_SPAN_IDLE].oldest, &other);
}

static void idle_links(int by)
{
    (void)by;
    swap_spans(&SPAN(2)->newer, &SPAN(2)->older);
}

static void memory_nobody_knows(int by)
{
    vt_vmm *in = f.inner;
    uint64_t far = CLASS.regions.n * CLASS.len + 5;
    if (by > 0)
        assert_ok(in->ops->create(in, far, 1));
    else
        assert_ok(in->ops->destroy(in, far, 1));
}

static void mapping_nobody_knows(int by)
{
    static uintptr_t addr;
    vt_vmm *in = f.inner;
    size_t n = f.m->geo.group[0].slice_bytes;
    if (by > 0) {
        assert_ok(in->ops->reserve(in, n, &addr));
        assert_ok(
            in->ops->map(in, addr, 0, vti_pset_index(&f.m->pset, LANE(0).at[0]), 1, VT_VMM_ALIAS));
        return;
    }
    assert_ok(in->ops->unmap(in, addr, n));
    assert_ok(in->ops->unreserve(in, addr, n));
}

static void access_nobody_knows(int by)
{
    uintptr_t addr = vti_lane_addr(&f.m->geo, SPAN(2), 0, 0, 0);
    assert_ok(f.inner->ops->protect(f.inner, addr, f.m->geo.group[0].slice_bytes,
                                    by > 0 ? VT_VMM_READ : VT_VMM_WRITE));
}

// ---- What is said of it

typedef struct broken {
    void (*by)(int by);
    const char *words;
} broken;

static const broken breaks[] = {
    {maps_no_region, "a lane maps a chunk that does not exist"},
    {none_for_memory, "a mapped chunk has no memory"},
    {end_too_soon, "a lane maps beyond its end"},
    {held_too_late, "a lane maps a chunk before those it holds"},
    {held_too_little, "a mapped-free chunk is not spare"},
    {mapped_free_twice, "a mapped-free chunk is mapped twice"},
    {mapped_free_read_only, "a mapped-free chunk is mapped for reading only"},
    {mapped_free_count, "the count of mapped-free chunks is wrong"},
    {run_count_of_lane, "a lane's count of runs is wrong"},
    {end_of_map, "a lane's end is not at its last mapped chunk"},
    {dirty_beyond, "a lane is dirty beyond its end"},
    {owned_too_many, "a sequence does not own exactly the chunks it needs"},
    {seq_length, "a sequence does not own exactly the chunks it needs"},
    {passed_too_much, "a lane has given up rows that are needed"},
    {held_not_owned, "a lane does not hold what it owns"},
    {swapped_elsewhere, "an owned chunk is not mapped or swapped out"},
    {shared_writable, "a shared chunk can be written"},
    {seq_elsewhere, "a sequence and its span do not refer to each other"},
    {seq_too_long, "a sequence is longer than max_tok"},
    {seq_live, "a sequence's live bytes are wrong"},
    {seq_slack, "a sequence's slack bytes are wrong"},
    {span_id, "a span's id is not its index"},
    {span_state, "a span's state is unknown"},
    {idle_has_seq, "a span that is not live has a sequence"},
    {waits_for_no_job, "a span waits for a job that has come back"},
    {sound_in_quarantine, "a sound span is in quarantine"},
    {lent, "a job is still with the mapper"},
    {owned_by_idle, "an idle span holds chunks"},
    {idle_ends, "a list of spans is not linked correctly"},
    {idle_links, "a list of spans is not linked correctly"},
    {idle_tail, "the length of a list of spans is wrong"},
    {idle_count, "the length of a list of spans is wrong"},
    {idle_count_low, "the length of a list of spans is wrong"},
    {retired_count, "the length of a list of spans is wrong"},
    {mapped_free_bytes, "the count of mapped-free bytes is wrong"},
    {mapped_free_not_listed, "the list of idle spans with mapped chunks has others, or lacks one"},
    {mapped_free_listed_count, "the length of the list of idle spans with mapped chunks is wrong"},
    {gap_not_known, "a lane has a gap where it should have none"},
    {guard_forgotten, "a step forgets a span"},
    {due_count, "the count of due spans is wrong"},
    {due_is_another, "a span that is not due is in their list"},
    {region_unmarked, "a lane's preferred region is not marked as one"},
    {region_of_another, "two lanes prefer one region"},
    {users, "a chunk's count of users is wrong"},
    {users_of_absent, "a chunk's count of users is wrong"},
    {nodes, "a chunk's count of nodes is wrong"},
    {gone, "a chunk's count of those that have given it up is wrong"},
    {kept, "a chunk's count of kept nodes is wrong"},
    {memory_lost, "a chunk without memory is held"},
    {name_reserved, "a job has left a name reserved"},
    {chunk_with_job, "a job has left a chunk"},
    {pooled_in_lane, "a spare chunk is not where it should be"},
    {state_count, "the counts of chunks are not the sums over the chunks"},
    {pool_count, "the count of the pool is wrong"},
    {leaving_count, "the count of what is leaving is wrong"},
    {evictable_count, "the count of what may be evicted is wrong"},
    {seq_count, "the count of sequences is wrong"},
    {reserved_bytes, "a job has left a reservation"},
    {reserved_runs, "a job has left a reservation"},
    {over_budget, "more is created than the budget allows"},
    {run_count, "the count of mappings is wrong"},
    {over_max_runs, "more runs are mapped than the backend allows"},
    {live_count, "the count of live bytes is wrong"},
    {slack_count, "the count of slack bytes is wrong"},
    {lost_count, "the count of lost spans is wrong"},
    {live_peak, "the peak of live bytes is too low"},
    {bytes_peak, "the peak of created bytes is too low"},
    {slots, "the swap's slots do not add up"},
    {slot_free_twice, "a free slot of the swap is invalid or listed twice"},
    {slot_used_twice, "a used slot of the swap is invalid, free or used twice"},
    {memory_nobody_knows, "the system holds more or less memory than was created"},
    {mapping_nobody_knows, "the system maps more or fewer bytes than expected"},
    {access_nobody_knows, "the system has more mappings than there are runs"},
};

static void check_break(const broken *b)
{
    const char *what = NULL;
    b->by(1);
    vt_status st = vt_check(f.m, &what);
    b->by(-1);
    if (st != VT_EINVAL || !what) fail_msg("\"%s\" is not found", b->words);
    assert_string_equal(what, b->words);
    if (vt_check(f.m, &what) != VT_OK) fail_msg("\"%s\" is not repaired: %s", b->words, what);
    assert_null(what);
}

FX_TEST_WITH(test_each_broken_invariant_is_found, setup, teardown)
{
    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) check_break(&breaks[i]);
}

FX_TEST(test_what_no_group_here_can_have_is_found)
{
    static const vt_group groups[] = {{.n_plane = 2, .row_bytes = 128},
                                      {.kind = VT_GROUP_STATE, .n_plane = 1, .row_bytes = 500}};
    vt_manager *m;
    vt_seq *s;
    const char *what;
    vt_config cfg = small_config();
    cfg.group = groups;
    cfg.n_group = 2;
    cfg.no_guard = true;
    assert_ok(vt_manager_create(&cfg, &m));
    assert_ok(vt_seq_create(m, 0, &s));
    assert_ok(vt_seq_extend(s, 10));
    vti_pset_node_hold(&m->pset, s->span->lane[1].at[0], false);
    assert_status(VT_EINVAL, vt_check(m, &what));
    assert_string_equal(what, "a state is shared");
    vti_pset_node_drop(&m->pset, s->span->lane[1].at[0], false);
    assert_ok(vt_check(m, &what));
    s->span->lane[0].guard_end = 1;
    assert_status(VT_EINVAL, vt_check(m, &what));
    assert_string_equal(what, "a guard waits where nothing is guarded");
    s->span->lane[0].guard_end = 0;
    vt_manager_destroy(m);
}

FX_TEST_WITH(test_a_backend_that_cannot_tell_is_no_broken_invariant, setup, teardown)
{
    const char *what = "";
    vt_fault_arm(f.fault, 0, 0, VT_EDEVICE);
    assert_int_equal(vt_check(f.m, &what), VT_EDEVICE);
    assert_null(what);
    vt_fault_disarm(f.fault);
}

FX_RUN(test_vt_check)
