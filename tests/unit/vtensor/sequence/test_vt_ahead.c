// test_vt_ahead.c - prefetching: prepare and wait, the two policies of vt_step, the low and high
// marks of spare chunks, and wiping. Without a thread, where the test decides when each job runs;
// and with the mapper thread, held at a gate where order matters.

#include "assert_vt.h"
#include "suite.h"

#include <sched.h>
#include <string.h>

#include "family.h"
#include "standin/standin.h"
#include "vtensor/core/manager.h"

enum { CHUNK_TOK = 32, N_PLANE = 2 };

static family f;

static const family_setup plain = {.n_plane = N_PLANE,
                                   .row_bytes = 128,
                                   .slice_pages = 1,
                                   .n_seq = 4,
                                   .budget_chunks = 16,
                                   .mapper = VT_MAPPER_OWNER};

static void open_as(backend b, vt_mapper mapper, uint64_t high_chunks)
{
    family_setup s = plain;
    s.backend = b;
    s.mapper = mapper;
    s.high_chunks = high_chunks;
    if (b == ON_CUDA) s.row_bytes *= 16;
    family_open(&f, &s, 3);
}

static void open_with_low(uint64_t low_chunks, uint64_t budget_chunks)
{
    family_setup s = plain;
    s.low_chunks = low_chunks;
    s.budget_chunks = budget_chunks;
    family_open(&f, &s, 3);
}

VT_FIXTURE(owner)
{
    open_as(ON_HOST, VT_MAPPER_OWNER, 0);
}

VT_FIXTURE(threaded)
{
    open_as(ON_HOST, VT_MAPPER_THREAD, 0);
}

VT_FIXTURE(threaded_with_high)
{
    open_as(ON_HOST, VT_MAPPER_THREAD, 2);
}

VT_FIXTURE(on_fake)
{
    open_as(ON_FAKE, VT_MAPPER_THREAD, 0);
}

VT_FIXTURE(on_cuda)
{
    open_as(ON_CUDA, VT_MAPPER_OWNER, 0);
}

VT_FIXTURE(with_marks)
{
    open_with_low(3, 8);
}

VT_FIXTURE(ready_for_three)
{
    open_with_low(6, 16);
}

VT_FIXTURE(teardown)
{
    vt_fault_disarm(f.fault);
    family_verify(&f);
    family_close(&f);
}

static uint32_t work(uint32_t max_jobs)
{
    uint32_t n_left;
    vt_work(f.m, max_jobs, &n_left);
    return n_left;
}

FX_TEST_WITH(test_what_is_prepared_costs_no_call, owner, teardown)
{
    family_grown(&f, 0, 10);
    assert_ok(vt_seq_prepare(f.kin[0].s, 3 * CHUNK_TOK, 4));
    assert_int_equal(vt_seq_backed(f.kin[0].s), CHUNK_TOK); // asked for, and nothing done yet
    assert_int_equal(work(UINT32_MAX), 0);
    assert_int_equal(vt_seq_backed(f.kin[0].s), 3 * CHUNK_TOK);
    uint64_t n_call = vt_fault_calls(f.fault);
    for (uint32_t t = 10; t < 3 * CHUNK_TOK; t++) assert_ok(family_grow(&f, 0, 1));
    assert_int_equal(vt_fault_calls(f.fault), n_call);
    assert_int_equal(family_stats(&f).ready_hits, 2);
    assert_int_equal(family_stats(&f).ready_misses, 1);
    assert_int_equal(family_stats(&f).jobs, 1);
}

FX_TEST_WITH(test_the_nearest_deadline_comes_first, owner, teardown)
{
    for (uint32_t i = 0; i < 3; i++) family_grown(&f, i, 10);
    static const uint32_t deadline[] = {7, 2, 5};
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(vt_seq_prepare(f.kin[i].s, 2 * CHUNK_TOK, deadline[i]));
    assert_int_equal(work(1), 2);
    assert_int_equal(vt_seq_backed(f.kin[1].s), 2 * CHUNK_TOK);
    assert_int_equal(work(1), 1);
    assert_int_equal(vt_seq_backed(f.kin[2].s), 2 * CHUNK_TOK);
    assert_int_equal(vt_seq_backed(f.kin[0].s), CHUNK_TOK);
}

// What was asked for long ago is not late for ever, and may be asked for again, with more haste.
FX_TEST_WITH(test_deadlines_come_nearer, owner, teardown)
{
    for (uint32_t i = 0; i < 3; i++) family_grown(&f, i, 0);
    assert_ok(vt_seq_prepare(f.kin[0].s, CHUNK_TOK, 5));
    assert_ok(vt_seq_prepare(f.kin[1].s, CHUNK_TOK, 9));
    for (int k = 0; k < 4; k++) assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0));
    assert_ok(vt_seq_prepare(f.kin[2].s, CHUNK_TOK, 2)); // one step after the first
    (void)work(1);
    assert_int_equal(vt_seq_backed(f.kin[0].s), CHUNK_TOK);
    assert_ok(vt_seq_prepare(f.kin[1].s, CHUNK_TOK, 1));
    (void)work(1);
    assert_int_equal(vt_seq_backed(f.kin[1].s), CHUNK_TOK);
    assert_int_equal(vt_seq_backed(f.kin[2].s), 0);
    (void)work(UINT32_MAX);
}

FX_TEST_WITH(test_extend_does_not_wait_for_what_has_not_begun, owner, teardown)
{
    family_grown(&f, 0, 10);
    assert_ok(vt_seq_prepare(f.kin[0].s, 4 * CHUNK_TOK, 9));
    assert_ok(family_grow(&f, 0, 30)); // takes the job back
    assert_int_equal(work(UINT32_MAX), 0);
    assert_int_equal(family_stats(&f).jobs, 0);
    assert_int_equal(family_stats(&f).chunks_created, 2);
}

FX_TEST_WITH(test_a_failure_is_told_to_who_waits, owner, teardown)
{
    family_grown(&f, 0, 10);
    assert_ok(vt_seq_prepare(f.kin[0].s, 2 * CHUNK_TOK, 1));
    vt_fault_arm(f.fault, 0, 0, VT_EDEVICE);
    (void)work(UINT32_MAX);
    assert_int_equal(vt_seq_wait(f.kin[0].s), VT_EDEVICE);
    assert_ok(vt_seq_wait(f.kin[0].s)); // once; and now it is made
    assert_int_equal(vt_seq_backed(f.kin[0].s), 2 * CHUNK_TOK);
    assert_int_equal(family_stats(&f).job_failures, 1);
}

FX_TEST_WITH(test_a_failure_is_told_to_who_asks_again, owner, teardown)
{
    family_grown(&f, 0, 10);
    assert_ok(vt_seq_prepare(f.kin[0].s, 2 * CHUNK_TOK, 1));
    vt_fault_arm(f.fault, 0, 0, VT_EDEVICE);
    (void)work(UINT32_MAX);
    assert_int_equal(vt_seq_prepare(f.kin[0].s, 2 * CHUNK_TOK, 1), VT_EDEVICE);
    assert_ok(vt_seq_prepare(f.kin[0].s, 2 * CHUNK_TOK, 1)); // once
    assert_int_equal(work(UINT32_MAX), 0);
    assert_int_equal(vt_seq_backed(f.kin[0].s), 2 * CHUNK_TOK);
}

// As if the job had come back late, to who lives in the span now.
FX_TEST_WITH(test_a_failure_is_not_told_to_another, owner, teardown)
{
    family_grown(&f, 0, 10);
    assert_ok(vt_seq_prepare(f.kin[0].s, 2 * CHUNK_TOK, 1));
    f.kin[0].s->span->generation++;
    vt_fault_arm(f.fault, 0, 0, VT_EDEVICE);
    (void)work(UINT32_MAX);
    assert_int_equal(vt_fault_fired(f.fault), 1);
    assert_ok(vt_seq_prepare(f.kin[0].s, 2 * CHUNK_TOK, 1));
    assert_int_equal(work(UINT32_MAX), 0);
}

// Asks again, as an engine does in each step, until nothing more comes.
static void prepare_all(uint32_t i, uint32_t len_tok)
{
    for (int k = 0; k < 12; k++) {
        vt_status st = vt_seq_prepare(f.kin[i].s, len_tok, 1);
        assert_true(st == VT_OK || st == VT_NOSPACE);
        assert_int_equal(work(UINT32_MAX), 0);
    }
}

// First from idle spans, unmapped by the mapper; then from prefixes, as many as are needed; never
// what another sequence has prepared.
FX_TEST_WITH(test_prepare_works_on_a_full_budget, owner, teardown)
{
    family_grown(&f, 0, 6 * CHUNK_TOK);
    assert_ok(family_record(&f, 0, 6 * CHUNK_TOK, NULL));
    family_release(&f, 0);
    family_grown(&f, 1, 6 * CHUNK_TOK);
    family_grown(&f, 2, 2 * CHUNK_TOK);
    family_release(&f, 1); // six cached, six idle, two owned, two free
    prepare_all(2, 10 * CHUNK_TOK);
    assert_int_equal(vt_seq_backed(f.kin[2].s), 10 * CHUNK_TOK);
    assert_int_equal(family_stats(&f).chunks_cached, 6);
    assert_ok(family_create(&f, 3, 0));
    prepare_all(3, 2 * CHUNK_TOK);
    assert_int_equal(vt_seq_backed(f.kin[3].s), 2 * CHUNK_TOK);
    assert_int_equal(family_stats(&f).chunks_cached, 4); // two were needed
    prepare_all(3, 10 * CHUNK_TOK);
    assert_int_equal(vt_seq_backed(f.kin[3].s), 6 * CHUNK_TOK); // all but the other's
    assert_int_equal(vt_seq_backed(f.kin[2].s), 10 * CHUNK_TOK);
    uint64_t n_call = vt_fault_calls(f.fault);
    assert_ok(family_grow(&f, 2, 8 * CHUNK_TOK));
    assert_ok(family_grow(&f, 3, 6 * CHUNK_TOK));
    assert_int_equal(vt_fault_calls(f.fault), n_call);
}

FX_TEST_WITH(test_slack_asks_when_less_than_that_is_left, owner, teardown)
{
    family_grown(&f, 0, CHUNK_TOK - 9);
    family_grown(&f, 1, CHUNK_TOK - 2);
    assert_ok(vt_step(f.m, VT_AHEAD_SLACK, 8, 0));
    assert_int_equal(work(UINT32_MAX), 0);
    assert_int_equal(vt_seq_backed(f.kin[0].s), CHUNK_TOK); // nine left
    assert_int_equal(vt_seq_backed(f.kin[1].s), 2 * CHUNK_TOK);
}

FX_TEST_WITH(test_slack_serves_first_who_runs_out_first, owner, teardown)
{
    family_grown(&f, 0, CHUNK_TOK - 5);
    family_grown(&f, 1, CHUNK_TOK - 1);
    assert_ok(vt_step(f.m, VT_AHEAD_SLACK, 8, 0));
    assert_int_equal(work(1), 1);
    assert_int_equal(vt_seq_backed(f.kin[0].s), CHUNK_TOK);
    assert_int_equal(vt_seq_backed(f.kin[1].s), 2 * CHUNK_TOK);
}

FX_TEST_WITH(test_next_serves_everybodys_next_token_first, owner, teardown)
{
    family_grown(&f, 0, CHUNK_TOK - 1); // its next token fits; the ones behind do not
    family_grown(&f, 1, CHUNK_TOK);
    assert_ok(vt_step(f.m, VT_AHEAD_NEXT, 9, 0));
    assert_int_equal(work(1), 1);
    assert_int_equal(vt_seq_backed(f.kin[1].s), 2 * CHUNK_TOK);
    assert_int_equal(vt_seq_backed(f.kin[0].s), CHUNK_TOK);
    assert_int_equal(work(1), 0);
    assert_int_equal(vt_seq_backed(f.kin[0].s), 2 * CHUNK_TOK);
}

FX_TEST_WITH(test_a_step_fills_up_to_the_low_mark, with_marks, teardown)
{
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0));
    assert_int_equal(work(UINT32_MAX), 0);
    assert_int_equal(family_stats(&f).chunks_spare, 3);
    uint64_t n_call = vt_fault_calls(f.fault);
    family_grown(&f, 0, 3 * CHUNK_TOK); // finds them
    assert_int_equal(vt_fault_calls(f.fault), n_call);
    for (int k = 0; k < 5; k++) {
        assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0));
        (void)work(UINT32_MAX);
    }
    assert_int_equal(family_stats(&f).chunks_spare, 3); // and no more
    family_grown(&f, 1, 4 * CHUNK_TOK);
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0));
    (void)work(UINT32_MAX);
    assert_int_equal(family_stats(&f).chunks_created, 8); // nor beyond the budget
}

static void take_step(void)
{
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0));
    (void)work(UINT32_MAX);
}

static void seq_arrive(uint32_t i, uint32_t n_tok)
{
    assert_ok(family_create(&f, i, n_tok));
    assert_ok(family_grow(&f, i, n_tok));
}

// One came with two chunks: between two steps, each of the next three finds as much.
FX_TEST_WITH(test_each_newcomer_finds_its_own, ready_for_three, teardown)
{
    seq_arrive(0, 2 * CHUNK_TOK);
    take_step();
    assert_int_equal(family_stats(&f).chunks_spare, 6);
    uint64_t n_call = vt_fault_calls(f.fault);
    for (uint32_t i = 1; i < 4; i++) seq_arrive(i, 2 * CHUNK_TOK);
    assert_int_equal(vt_fault_calls(f.fault), n_call);
    assert_int_equal(family_stats(&f).chunks_spare, 0);
}

// With the budget full, prefixes give way in time, and those that grow leave alone what is ready.
FX_TEST_WITH(test_newcomers_find_theirs_on_a_full_budget, ready_for_three, teardown)
{
    seq_arrive(0, 9 * CHUNK_TOK);
    assert_ok(family_record(&f, 0, 9 * CHUNK_TOK, NULL));
    family_release(&f, 0);
    for (uint32_t i = 0; i < 3; i++) seq_arrive(i, 2 * CHUNK_TOK + 1);
    for (uint32_t i = 1; i < 3; i++) family_release(&f, i);
    for (int k = 0; k < 40; k++) { // short ones come, until long ones are forgotten
        seq_arrive(1, CHUNK_TOK);
        family_release(&f, 1);
        take_step();
    }
    const uint64_t cached = family_stats(&f).chunks_cached;
    assert_int_equal(family_stats(&f).chunks_created, 16);
    assert_ok(family_grow(&f, 0, 6 * CHUNK_TOK));
    assert_true(family_stats(&f).chunks_cached < cached);
    for (int k = 0; k < 4; k++) take_step();
    uint64_t n_call = vt_fault_calls(f.fault);
    for (uint32_t i = 1; i < 4; i++) seq_arrive(i, CHUNK_TOK);
    assert_int_equal(vt_fault_calls(f.fault), n_call);
}

enum { PROMPT_TOK = 2 * CHUNK_TOK + CHUNK_TOK / 2 };

// A prompt, of which two chunks are recorded.
static void record_prompt(uint32_t tok[PROMPT_TOK])
{
    seq_arrive(0, 2 * CHUNK_TOK);
    assert_ok(family_record(&f, 0, 2 * CHUNK_TOK, NULL));
    memcpy(tok, f.kin[0].tok, PROMPT_TOK * sizeof *tok);
    family_release(&f, 0);
}

static void prompt_arrive(uint32_t i, const uint32_t tok[PROMPT_TOK])
{
    assert_ok(family_match(&f, i, tok, PROMPT_TOK));
    assert_int_equal(f.kin[i].len_tok, 2 * CHUNK_TOK);
    assert_ok(family_grow(&f, i, PROMPT_TOK - 2 * CHUNK_TOK));
}

// Some share the prompt, others share nothing: once both have been seen, each finds what it begins
// with, and what it shares is mapped where nothing is in its way.
FX_TEST_WITH(test_who_shares_and_who_does_not_find_their_own, ready_for_three, teardown)
{
    uint32_t tok[PROMPT_TOK];
    record_prompt(tok);
    for (int k = 0; k < 20; k++) {
        prompt_arrive(0, tok);
        seq_arrive(1, CHUNK_TOK);
        assert_ok(family_record(&f, 1, CHUNK_TOK, NULL));
        family_release(&f, 0);
        family_release(&f, 1);
        take_step();
        take_step();
    }
    uint64_t n_call = vt_fault_calls(f.fault);
    seq_arrive(1, CHUNK_TOK);
    assert_int_equal(vt_fault_calls(f.fault), n_call);
    const vt_stats before = family_stats(&f);
    prompt_arrive(0, tok);
    const vt_stats after = family_stats(&f);
    assert_int_equal(after.map_calls - before.map_calls, N_PLANE);
    assert_int_equal(after.unmap_calls, before.unmap_calls);
}

FX_TEST_WITH(test_released_chunks_are_wiped_ahead, owner, teardown)
{
    family_grown(&f, 0, 3 * CHUNK_TOK);
    family_release(&f, 0);
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0));
    assert_int_equal(work(UINT32_MAX), 0);
    uint64_t n_call = vt_fault_calls(f.fault);
    family_grown(&f, 0, 3 * CHUNK_TOK); // which looks that they are zero
    assert_int_equal(vt_fault_calls(f.fault), n_call);
}

// Two released sequences; the job that wipes the older one is still on its way. Who needs memory
// takes that of the other, although it was used later, and does not take the job back.
FX_TEST_WITH(test_memory_comes_first_from_where_no_job_is_on_its_way, owner, teardown)
{
    family_grown(&f, 0, 8 * CHUNK_TOK);
    family_grown(&f, 1, 4 * CHUNK_TOK);
    family_grown(&f, 2, 4 * CHUNK_TOK);
    family_release(&f, 1);
    family_release(&f, 2);
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0));
    assert_int_equal(work(1), 1); // the newer one is wiped, the older one waits
    const vti_span *older = f.m->vset.in[VTI_SPAN_IDLE].oldest;
    assert_true(older->lane[0].job.in_flight);
    assert_ok(family_grow(&f, 0, 2 * CHUNK_TOK));
    assert_true(older->lane[0].job.in_flight);
    assert_int_equal(older->lane[0].n_mapped_free, 4);
    assert_int_equal(older->newer->lane[0].n_mapped_free, 2);
    assert_int_equal(work(9), 0);
}

FX_TEST_WITH(test_the_best_fit_is_handed_on, owner, teardown)
{
    static const uint32_t n_chunk[] = {6, 2, 4};
    for (uint32_t i = 0; i < 3; i++) family_grown(&f, i, n_chunk[i] * CHUNK_TOK);
    for (uint32_t i = 0; i < 3; i++) family_release(&f, i);
    assert_ok(family_create(&f, 0, 3 * CHUNK_TOK));
    assert_int_equal(vt_seq_backed(f.kin[0].s), 4 * CHUNK_TOK); // not six, and not the two
    assert_ok(family_create(&f, 1, 9 * CHUNK_TOK));
    assert_int_equal(vt_seq_backed(f.kin[1].s), 6 * CHUNK_TOK); // the most there is
    assert_ok(family_create(&f, 2, 0));
    assert_int_equal(vt_seq_backed(f.kin[2].s), 2 * CHUNK_TOK);
}

FX_TEST_WITH(test_the_thread_does_it_beside_the_owner, threaded, teardown)
{
    family_grown(&f, 0, 10);
    vt_fault_hold(f.fault, true);
    assert_ok(vt_seq_prepare(f.kin[0].s, 3 * CHUNK_TOK, 1));
    vt_fault_await_held(f.fault, 1); // the mapper is in a call; the owner goes on
    for (uint32_t t = 10; t < CHUNK_TOK; t++) assert_ok(family_grow(&f, 0, 1));
    vt_fault_hold(f.fault, false);
    assert_ok(vt_seq_wait(f.kin[0].s));
    assert_int_equal(vt_seq_backed(f.kin[0].s), 3 * CHUNK_TOK);
}

FX_TEST_WITH(test_a_release_does_not_wait_for_the_thread, threaded, teardown)
{
    family_grown(&f, 0, 10);
    family_grown(&f, 1, 10);
    vt_fault_hold(f.fault, true);
    assert_ok(vt_seq_prepare(f.kin[0].s, 3 * CHUNK_TOK, 1));
    vt_fault_await_held(f.fault, 1);
    family_release(&f, 0);
    assert_ok(family_grow(&f, 1, 3));
    vt_fault_hold(f.fault, false);
    assert_ok(family_create(&f, 0, 0));
}

FX_TEST_WITH(test_what_was_shared_is_unmapped_beside_the_owner, threaded, teardown)
{
    family_grown(&f, 0, 3 * CHUNK_TOK);
    assert_ok(vt_seq_prepare(f.kin[0].s, 4 * CHUNK_TOK, 1)); // starts the thread
    assert_ok(vt_seq_wait(f.kin[0].s));
    assert_ok(family_fork(&f, 0, 1, 3 * CHUNK_TOK));
    vt_fault_hold(f.fault, true);
    family_release(&f, 1);
    vt_fault_await_held(f.fault, 1);
    vt_fault_hold(f.fault, false);
    assert_ok(vt_trim(f.m, UINT64_MAX, NULL)); // waits for it
    assert_int_equal(family_stats(&f).chunks_shared, 0);
}

// The next ones that end, and sequences that begin, do not walk past those that the mapper has.
FX_TEST_WITH(test_retired_spans_with_a_job_step_aside, threaded, teardown)
{
    const vti_span_list *in = f.m->vset.in;
    family_grown(&f, 0, 3 * CHUNK_TOK);
    for (uint32_t i = 1; i < 4; i++) assert_ok(family_fork(&f, 0, i, 3 * CHUNK_TOK));
    assert_ok(vt_seq_prepare(f.kin[0].s, 4 * CHUNK_TOK, 1)); // starts the thread
    assert_ok(vt_seq_wait(f.kin[0].s));
    vt_fault_hold(f.fault, true);
    for (uint32_t i = 1; i < 4; i++) {
        family_release(&f, i);
        assert_int_equal(in[VTI_SPAN_RETIRED].n, 0);
        assert_int_equal(in[VTI_SPAN_CLEARING].n, i);
    }
    vt_fault_hold(f.fault, false);
    assert_ok(vt_settle(f.m));
    assert_int_equal(in[VTI_SPAN_CLEARING].n, 0);
    assert_int_equal(in[VTI_SPAN_IDLE].n, 3);
}

// A job is taken back in the middle of wiping; the rest of that is queued for the device. What lies
// there is unmapped after the device has done it.
FX_TEST_WITH(test_what_is_taken_back_is_wiped_before_it_is_unmapped, on_cuda, teardown)
{
    family_grown(&f, 0, CHUNK_TOK);
    assert_ok(family_fork(&f, 0, 1, CHUNK_TOK)); // so the first chunk waits when it is given up
    assert_ok(vt_seq_prepare(f.kin[0].s, 3 * CHUNK_TOK, 1));
    vti_lane_job *job = &f.kin[0].s->span->lane[0].job;
    job->base.is_long = true; // a step at a time
    while (job->n_view <= N_PLANE) assert_int_equal(work(1), 1);
    assert_ok(family_cut(&f, 0, 0));
    if (standin_look().n_breach > 0) fail_msg("%s", standin_look().breach);
    assert_false(vt_seq_is_lost(f.kin[0].s));
    assert_int_equal(family_stats(&f).chunks_shared, 0);
}

// Beyond the high mark memory goes back beside the owner, who is not kept waiting for it.
FX_TEST_WITH(test_the_thread_gives_back_what_is_too_much, threaded_with_high, teardown)
{
    family_grown(&f, 0, 5 * CHUNK_TOK);
    vt_fault_hold(f.fault, true);
    family_release(&f, 0); // answers although nothing can be unmapped
    vt_fault_await_held(f.fault, 1);
    assert_int_equal(family_stats(&f).chunks_spare, 5);
    vt_fault_hold(f.fault, false);
    for (int k = 0; k < 4; k++) { // unmapped, destroyed
        for (uint32_t n_left = 1; n_left > 0;) vt_work(f.m, 0, &n_left);
        assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0));
    }
    assert_int_equal(family_stats(&f).chunks_spare, 2);
    assert_int_equal(family_stats(&f).chunks_created, 2);
}

FX_TEST_WITH(test_a_failing_thread_leaves_nobody_waiting, threaded, teardown)
{
    family_grown(&f, 0, 10);
    vt_fault_arm(f.fault, 0, UINT64_MAX / 2, VT_EDEVICE);
    assert_ok(vt_seq_prepare(f.kin[0].s, 3 * CHUNK_TOK, 1));
    assert_int_equal(vt_seq_wait(f.kin[0].s), VT_EDEVICE);
    vt_fault_disarm(f.fault);
    assert_ok(family_grow(&f, 0, 80));
}

// A job that fails, and cannot be undone, comes back in the middle of an extend: the sequence is
// lost, and gets nothing.
FX_TEST_WITH(test_a_span_that_is_lost_beside_an_extend, threaded, teardown)
{
    family_grown(&f, 0, 10);
    vt_fault_arm(f.fault, 2, UINT64_MAX / 2, VT_EDEVICE); // create, map; map, and to unmap
    assert_ok(vt_seq_prepare(f.kin[0].s, 2 * CHUNK_TOK, 1));
    while (vti_mapper_pending(f.m->mapper) > 0) (void)sched_yield();
    vt_fault_disarm(f.fault);
    assert_false(vt_seq_is_lost(f.kin[0].s)); // nobody has looked yet
    assert_int_equal(vt_seq_extend(f.kin[0].s, 2 * CHUNK_TOK), VT_EDEVICE);
    assert_true(vt_seq_is_lost(f.kin[0].s));
    family_release(&f, 0);
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0));
    assert_int_equal(family_stats(&f).quarantined_spans, 0);
}

// The first sequence shares n_chunk chunks with another, and what it prepared has failed and could
// not be undone; nobody has looked yet. The fake refuses to unmap what is not mapped.
static void lose_unseen(uint32_t n_chunk)
{
    family_grown(&f, 0, n_chunk * CHUNK_TOK);
    assert_ok(family_fork(&f, 0, 1, n_chunk * CHUNK_TOK));
    vt_fault_arm(f.fault, 2, UINT64_MAX / 2, VT_EDEVICE); // create, map; map, and to unmap
    assert_ok(vt_seq_prepare(f.kin[0].s, (n_chunk + 1) * CHUNK_TOK, 1));
    while (vti_mapper_pending(f.m->mapper) > 0) (void)sched_yield();
    vt_fault_disarm(f.fault);
    assert_false(vt_seq_is_lost(f.kin[0].s));
}

static void expect_lost(void)
{
    assert_true(vt_seq_is_lost(f.kin[0].s));
    assert_int_equal(vt_check(f.m, NULL), VT_OK);
    family_release(&f, 0);
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0));
    assert_int_equal(family_stats(&f).quarantined_spans, 0);
}

FX_TEST_WITH(test_a_span_that_is_lost_beside_a_truncate, on_fake, teardown)
{
    lose_unseen(1);
    assert_ok(family_cut(&f, 0, 0)); // which would unmap what the other holds
    expect_lost();
}

FX_TEST_WITH(test_a_span_that_is_lost_beside_the_copy_of_a_tail, on_fake, teardown)
{
    lose_unseen(2);
    assert_ok(family_cut(&f, 0, CHUNK_TOK + 3));
    assert_int_equal(family_grow(&f, 0, 1), VT_EDEVICE);
    expect_lost();
}

FX_RUN(test_vt_ahead)
