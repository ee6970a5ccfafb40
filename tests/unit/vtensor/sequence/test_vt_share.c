// test_vt_share.c - what sharing costs and what it must not do: forks, matches, records and cuts,
// with exact counts of chunks and calls.
#include "assert_vt.h"
#include "suite.h"

#include <string.h>

#include "family.h"
#include "vtensor/core/manager.h"
#include "vtensor/tree/radix.h"

static family f;

enum { CHUNK_TOK = 32, N_PLANE = 3, PAIR_BYTES = 2 * CHUNK_TOK * 128 }; // a chunk of two planes

static void open_on(backend b, vt_layout layout)
{
    family_setup s = {.backend = b,
                      .layout = layout,
                      .n_plane = N_PLANE,
                      .row_bytes = layout == VT_LAYOUT_SPLIT ? 128 : 42, // packed tokens straddle
                      .slice_pages = 1,
                      .n_seq = 8,
                      .budget_chunks = UINT64_MAX,
                      .swap_chunks = 20,
                      .mapper = VT_MAPPER_OWNER};
    if (b == ON_CUDA) s.row_bytes *= 16;
    family_open(&f, &s, 11);
}

VT_FIXTURE(setup)
{
    open_on(ON_HOST, VT_LAYOUT_SPLIT);
}

VT_FIXTURE(teardown)
{
    family_verify(&f);
    family_close(&f);
}

// A device on which kernels run beside the caller.
VT_FIXTURE(on_device)
{
    open_on(ON_FAKE, VT_LAYOUT_SPLIT);
    vt_fake_set_async(f.inner, true);
}

// Releases it; what was recorded of it is not foreseen.
static void drop(uint32_t i)
{
    vt_seq_release(f.kin[i].s);
    f.kin[i].s = NULL;
}

static uint64_t created(void)
{
    return family_stats(&f).chunks_created;
}

FX_TEST_WITH(test_a_fork_of_whole_chunks_costs_a_call_a_plane_and_no_memory, setup, teardown)
{
    family_grown(&f, 0, 9 * CHUNK_TOK);
    vt_stats before = family_stats(&f);
    for (uint32_t i = 1; i < 6; i++) assert_ok(family_fork(&f, 0, i, f.kin[0].len_tok));
    vt_stats after = family_stats(&f);
    assert_int_equal(after.chunks_created, before.chunks_created);
    assert_int_equal(after.map_calls - before.map_calls, 5 * N_PLANE); // not for each of 9 chunks
    assert_int_equal(after.protect_calls - before.protect_calls, N_PLANE); // the parent's, once
    assert_int_equal(after.copied_chunks, before.copied_chunks);
    assert_int_equal(after.chunks_shared, 9);
    assert_int_equal(after.mappings, 6 * N_PLANE);
}

// Another call a plane, and a border between what is shared and what can be written.
FX_TEST_WITH(test_a_tail_costs_its_fork_a_chunk, setup, teardown)
{
    family_grown(&f, 0, 9 * CHUNK_TOK + 5);
    vt_stats before = family_stats(&f);
    for (uint32_t i = 1; i < 6; i++) assert_ok(family_fork(&f, 0, i, f.kin[0].len_tok));
    vt_stats after = family_stats(&f);
    assert_int_equal(after.chunks_created - before.chunks_created, 5);
    assert_int_equal(after.map_calls - before.map_calls, 5 * 2 * N_PLANE);
    assert_int_equal(after.copied_chunks - before.copied_chunks, 5);
    assert_int_equal(after.chunks_shared, 9);
    assert_int_equal(after.chunks_owned, 6);
    assert_int_equal(after.mappings, 6 * 2 * N_PLANE);
}

FX_TEST_WITH(test_a_child_has_a_tail_of_its_own_at_once, setup, teardown)
{
    family_grown(&f, 0, 2 * CHUNK_TOK + 5);
    for (uint32_t i = 1; i < 4; i++) {
        assert_ok(family_fork(&f, 0, i, f.kin[0].len_tok));
        assert_int_equal(family_stats(&f).copied_chunks, i);
    }
    assert_int_equal(created(), 2 + 4);
    for (uint32_t k = 0; k < 8; k++) { // then all of them grow in place
        uint64_t n_call = vt_fault_calls(f.fault);
        assert_ok(family_grow(&f, k % 4, 3));
        assert_int_equal(vt_fault_calls(f.fault), n_call);
        family_verify(&f);
    }
    assert_int_equal(family_stats(&f).copied_chunks, 3);
    assert_int_equal(created(), 2 + 4);
}

FX_TEST_WITH(test_whole_chunks_leave_nothing_to_copy, setup, teardown)
{
    family_grown(&f, 0, 2 * CHUNK_TOK);
    assert_ok(family_fork(&f, 0, 1, 2 * CHUNK_TOK));
    assert_ok(family_grow(&f, 0, 7));
    assert_ok(family_grow(&f, 1, 7));
    assert_int_equal(family_stats(&f).copied_chunks, 0);
    assert_int_equal(created(), 2 + 2);
}

FX_TEST_WITH(test_a_child_of_the_middle_sees_no_rows_beyond, setup, teardown)
{
    family_grown(&f, 0, CHUNK_TOK + 20);
    assert_ok(family_fork(&f, 0, 1, CHUNK_TOK + 6)); // six rows of the tail, and zeroes
    assert_ok(family_grow(&f, 1, 4));
    family_release(&f, 0);
    assert_ok(family_grow(&f, 1, 10));
    assert_int_equal(family_stats(&f).copied_chunks, 1);
}

FX_TEST_WITH(test_releases_in_any_order_keep_the_others, setup, teardown)
{
    for (uint32_t order = 0; order < 6; order++) {
        static const uint32_t who[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                           {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
        family_grown(&f, 0, 3 * CHUNK_TOK + 9);
        assert_ok(family_fork(&f, 0, 1, 2 * CHUNK_TOK + 1));
        assert_ok(family_fork(&f, 1, 2, CHUNK_TOK + 30));
        assert_ok(family_grow(&f, 1, 40));
        for (int k = 0; k < 3; k++) {
            family_release(&f, who[order][k]);
            family_verify(&f);
        }
    }
    assert_int_equal(family_stats(&f).chunks_owned + family_stats(&f).chunks_shared, 0);
}

// While the first one lives, its tail is its own.
FX_TEST_WITH(test_n_requests_with_one_prompt_hold_it_once, setup, teardown)
{
    enum { PROMPT = 5 * CHUNK_TOK + 11 };
    uint32_t prompt[PROMPT];
    family_grown(&f, 0, PROMPT);
    memcpy(prompt, f.kin[0].tok, sizeof prompt);
    assert_ok(family_record(&f, 0, PROMPT, NULL));
    for (uint32_t i = 2; i < f.setup.n_seq; i += 2) { // of the same domain
        assert_ok(family_match(&f, i, prompt, PROMPT));
        assert_int_equal(f.kin[i].len_tok, 5 * CHUNK_TOK);
        assert_ok(family_grow(&f, i, 4));
    }
    family_verify(&f);
    assert_int_equal(created(), 6 + 3); // the prompt, and a tail for each of the three
    family_release(&f, 0);
    assert_ok(family_match(&f, 0, prompt, PROMPT));
    assert_int_equal(f.kin[0].len_tok, PROMPT);
    assert_int_equal(created(), 6 + 3 + 1);
}

FX_TEST_WITH(test_hits_of_every_length_equal_a_cold_run, setup, teardown)
{
    enum { N = 2 * CHUNK_TOK + 1 };
    for (int k = 0; k < 4; k++) {
        static const backend on[] = {ON_HOST, ON_HOST, ON_CUDA, ON_FAKE};
        family_close(&f);
        open_on(on[k], k % 2 ? VT_LAYOUT_PACKED : VT_LAYOUT_SPLIT);
        uint32_t prompt[N];
        family_grown(&f, 0, N);
        memcpy(prompt, f.kin[0].tok, sizeof prompt);
        assert_ok(family_record(&f, 0, N, NULL));
        family_release(&f, 0);
        for (uint32_t n = 0; n <= N; n++) {
            assert_ok(family_match(&f, 2, prompt, n)); // the bytes are compared there
            assert_int_equal(f.kin[2].len_tok, n);
            assert_ok(family_grow(&f, 2, 3)); // and what follows is zero before it is written
            family_verify(&f);
            family_release(&f, 2);
        }
    }
}

// The tail of a turn is copied for the next, so a run ends there.
FX_TEST_WITH(test_a_conversation_costs_a_run_a_turn_at_most, setup, teardown)
{
    uint32_t prompt[FAMILY_MAX_TOK], n_tok = 0;
    uint64_t n_run = 0;
    for (int turn = 0; turn < 8; turn++) {
        assert_ok(family_match(&f, 0, prompt, n_tok));
        assert_int_equal(f.kin[0].len_tok, n_tok);
        assert_ok(family_grow(&f, 0, 19));
        assert_ok(family_record(&f, 0, f.kin[0].len_tok, NULL)); // the prompt, then the answer
        for (int k = 0; k < 18; k++) assert_ok(family_grow(&f, 0, 1));
        n_run = family_stats(&f).mappings / N_PLANE;
        assert_ok(family_record(&f, 0, f.kin[0].len_tok, NULL));
        n_tok = f.kin[0].len_tok;
        memcpy(prompt, f.kin[0].tok, sizeof prompt);
        family_release(&f, 0);
        family_verify(&f);
        assert_true(n_run <= (uint64_t)turn + 2);
    }
    vt_stats st = family_stats(&f);
    assert_int_equal(st.chunks_cached, (n_tok + CHUNK_TOK - 1) / CHUNK_TOK); // no tail twice
    assert_int_equal(st.chunks_created, st.chunks_cached + st.chunks_spare);
}

FX_TEST_WITH(test_domains_do_not_mix, setup, teardown)
{
    uint32_t prompt[50];
    family_grown(&f, 0, 50);
    memcpy(prompt, f.kin[0].tok, sizeof prompt);
    assert_ok(family_record(&f, 0, 50, NULL));
    assert_int_equal(vt_match(f.domain[0], prompt, 50), CHUNK_TOK);
    family_release(&f, 0);
    assert_int_equal(vt_match(f.domain[0], prompt, 50), 50);
    assert_int_equal(vt_match(f.domain[1], prompt, 50), 0);
    assert_ok(family_match(&f, 1, prompt, 50)); // odd places are of the other domain
    assert_int_equal(f.kin[1].len_tok, 0);
}

// From every token of what is recorded, to its end; where it parts, on the branch recorded last.
FX_TEST_WITH(test_what_followed_is_told, setup, teardown)
{
    enum { LONG = 3 * CHUNK_TOK + 7, PARTS = CHUNK_TOK + 5 };
    uint32_t one[LONG], other[LONG], out[LONG];
    for (uint32_t i = 0; i < LONG; i++) one[i] = other[i] = 500 + i;
    for (uint32_t i = PARTS; i < LONG; i++) other[i] += 1000;
    const uint32_t *const both[] = {one, other};
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(family_create(&f, 0, 0));
        assert_ok(vt_seq_extend(f.kin[0].s, LONG));
        assert_ok(vt_seq_record(f.kin[0].s, f.domain[0], both[i], LONG, NULL));
        drop(0);
        for (uint32_t n = 0; n <= LONG; n++) {
            assert_int_equal(vt_prefix_continue(f.domain[0], both[i], n, out, LONG), LONG - n);
            assert_memory_equal(out, both[i] + n, (LONG - n) * sizeof *out);
        }
    }
    assert_int_equal(vt_prefix_continue(f.domain[0], one, PARTS + 1, out, 3), 3);
    assert_memory_equal(out, one + PARTS + 1, 3 * sizeof *out);
    assert_int_equal(vt_prefix_continue(f.domain[1], one, 0, out, LONG), 0);
    assert_int_equal(vt_prefix_continue(f.domain[0], one + 1, 5, out, LONG), 0);
    assert_int_equal(vt_prefix_continue(f.domain[0], one, 5, out, 0), 0);
}

FX_TEST_WITH(test_a_prefix_outlives_its_domains_handle, setup, teardown)
{
    static const char key[] = "a model";
    vt_domain *d;
    family_grown(&f, 0, 40);
    assert_ok(vt_domain_open(f.m, key, sizeof key, &d));
    assert_ok(vt_seq_record(f.kin[0].s, d, f.kin[0].tok, 40, NULL));
    vt_domain_close(d);
    assert_ok(vt_domain_open(f.m, key, sizeof key, &d));
    assert_int_equal(vt_match(d, f.kin[0].tok, 40), CHUNK_TOK);
    family_release(&f, 0);
    assert_int_equal(vt_match(d, f.kin[0].tok, 40), 40);
    vt_domain_forget(d);
    assert_int_equal(vt_match(d, f.kin[0].tok, 40), 0);
    vt_domain_close(d);
    family_verify(&f);
}

FX_TEST_WITH(test_prefixes_give_way_to_sequences_and_pins_do_not, setup, teardown)
{
    assert_ok(vt_set_budget(f.m, 12 * f.chunk_bytes));
    for (uint32_t i = 0; i < 6; i += 2) {
        vt_retention keep = {.pinned = i == 0, .priority = i == 2 ? 1 : 0};
        family_grown(&f, i, 3 * CHUNK_TOK);
        f.kin[i].tok[0] = 100 + i; // nothing in common; the rows are not looked at again
        assert_ok(vt_seq_record(f.kin[i].s, f.domain[0], f.kin[i].tok, 3 * CHUNK_TOK, &keep));
        drop(i);
    }
    assert_int_equal(family_stats(&f).chunks_cached, 9);
    family_grown(&f, 1, 6 * CHUNK_TOK); // three are free, three are needed: the plain one goes
    assert_int_equal(vt_match(f.domain[0], f.kin[4].tok, 90), 0);
    assert_int_equal(vt_match(f.domain[0], f.kin[2].tok, 90), 90);
    assert_int_equal(family_cut(&f, 1, 6 * CHUNK_TOK), VT_OK);
    assert_ok(family_grow(&f, 1, 3 * CHUNK_TOK)); // then the one with the priority
    assert_int_equal(vt_match(f.domain[0], f.kin[2].tok, 90), 0);
    assert_int_equal(vt_seq_extend(f.kin[1].s, 10 * CHUNK_TOK), VT_NOSPACE); // never the pinned one
    assert_int_equal(vt_match(f.domain[0], f.kin[0].tok, 90), 90);
    assert_int_equal(vt_set_budget(f.m, 11 * f.chunk_bytes), VT_NOSPACE);
    vt_retention none = {0};
    uint32_t n_hit;
    assert_ok(vt_retain(f.domain[0], f.kin[0].tok, 3 * CHUNK_TOK, &none, &n_hit));
    assert_int_equal(n_hit, 3 * CHUNK_TOK);
    assert_ok(vt_set_budget(f.m, 10 * f.chunk_bytes)); // two blocks go
    assert_int_equal(vt_match(f.domain[0], f.kin[0].tok, 90), CHUNK_TOK);
}

FX_TEST_WITH(test_a_pin_holds_what_it_names_and_no_more, setup, teardown)
{
    vt_retention pin = {.pinned = true};
    uint32_t n_hit;
    family_grown(&f, 0, 6 * CHUNK_TOK);
    assert_ok(family_record(&f, 0, 6 * CHUNK_TOK, NULL));
    assert_ok(vt_retain(f.domain[0], f.kin[0].tok, 2 * CHUNK_TOK, &pin, &n_hit));
    assert_int_equal(n_hit, 2 * CHUNK_TOK);
    drop(0);
    assert_ok(vt_evict(f.m, UINT64_MAX, NULL));
    assert_int_equal(vt_match(f.domain[0], f.kin[0].tok, 6 * CHUNK_TOK), 2 * CHUNK_TOK);
    assert_int_equal(family_stats(&f).chunks_cached, 2);
}

FX_TEST_WITH(test_what_was_let_go_of_first_goes_first, setup, teardown)
{
    for (uint32_t i = 0; i < 4; i += 2) {
        family_grown(&f, i, 2 * CHUNK_TOK);
        f.kin[i].tok[0] = 100 + i; // nothing in common
        assert_ok(vt_seq_record(f.kin[i].s, f.domain[0], f.kin[i].tok, 2 * CHUNK_TOK, NULL));
    }
    vt_seq_release(f.kin[2].s); // recorded last
    vt_seq_release(f.kin[0].s);
    f.kin[0].s = f.kin[2].s = NULL;
    assert_ok(vt_evict(f.m, 1, NULL)); // from its end
    assert_int_equal(vt_match(f.domain[0], f.kin[2].tok, 2 * CHUNK_TOK), CHUNK_TOK);
    assert_ok(vt_evict(f.m, 1, NULL));
    assert_int_equal(vt_match(f.domain[0], f.kin[2].tok, 2 * CHUNK_TOK), 0);
    assert_int_equal(vt_match(f.domain[0], f.kin[0].tok, 2 * CHUNK_TOK), 2 * CHUNK_TOK);
}

static void step_at(uint64_t now_ms)
{
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, now_ms));
}

// Recorded at 1000, let go of at 1003, matched at 1503, let go of again at once, evicted at 2003.
FX_TEST_WITH(test_prefixes_have_ages, setup, teardown)
{
    vt_prefix_ages a;
    step_at(1000);
    family_grown(&f, 0, CHUNK_TOK);
    assert_ok(family_record(&f, 0, CHUNK_TOK, NULL));
    step_at(1003);
    drop(0);
    step_at(1503);
    assert_ok(family_match(&f, 2, f.kin[0].tok, CHUNK_TOK));
    drop(2);
    step_at(2003);
    assert_ok(vt_evict(f.m, UINT64_MAX, NULL));
    vt_get_prefix_ages(f.m, &a);
    assert_int_equal(a.reuse.count[9], 1); // 257 .. 512 ms
    assert_int_equal(a.reuse.sum_ms, 500);
    assert_int_equal(a.life.count[10], 1);
    assert_int_equal(a.life.sum_ms, 1003);
    assert_int_equal(a.idle.count[9], 1);
    assert_int_equal(a.idle.sum_ms, 500);
}

FX_TEST_WITH(test_pins_may_hold_half_of_the_budget, setup, teardown)
{
    vt_retention pin = {.pinned = true};
    assert_ok(vt_set_budget(f.m, 8 * f.chunk_bytes));
    family_grown(&f, 0, 5 * CHUNK_TOK);
    assert_status(VT_NOPINS, family_record(&f, 0, 5 * CHUNK_TOK, &pin));
    assert_int_equal(vt_match(f.domain[0], f.kin[0].tok, 5 * CHUNK_TOK), 0); // all or nothing
    assert_int_equal(family_stats(&f).prefix_nodes, 0);
    assert_ok(family_record(&f, 0, 4 * CHUNK_TOK, &pin));
}

FX_TEST_WITH(test_too_few_mappings_are_told_and_no_harm, setup, teardown)
{
    family_close(&f);
    family_setup s = {.backend = ON_FAKE,
                      .n_plane = N_PLANE,
                      .row_bytes = 128,
                      .slice_pages = 1,
                      .n_seq = 6,
                      .budget_chunks = UINT64_MAX,
                      .max_runs = 4 * N_PLANE,
                      .mapper = VT_MAPPER_OWNER};
    family_open(&f, &s, 1);
    family_grown(&f, 0, 40);
    assert_ok(family_fork(&f, 0, 1, 40)); // each: a run that is shared, and a tail
    assert_int_equal(family_stats(&f).mappings, 4 * N_PLANE);
    assert_status(VT_NOMAPS, family_fork(&f, 0, 2, 40));
    assert_ok(family_create(&f, 2, 0));
    assert_status(VT_NOMAPS, vt_seq_extend(f.kin[2].s, 1));
    family_verify(&f);
    family_release(&f, 1);
    assert_ok(family_grow(&f, 2, 1));
    family_verify(&f);
}

static void finish_all(void)
{
    uint64_t ticket;
    assert_ok(f.inner->ops->fence(f.inner, &ticket));
    vt_fake_finish(f.inner, ticket);
}

FX_TEST_WITH(test_a_kernel_that_runs_keeps_its_addresses, on_device, teardown)
{
    family_grown(&f, 0, 3 * CHUNK_TOK + 3);
    assert_ok(family_fork(&f, 0, 1, 3 * CHUNK_TOK + 3));
    vt_fake_run(f.inner, (uintptr_t)vt_seq_plane(f.kin[1].s, 0), 3 * 4096); // reads its keys
    vt_stats before = family_stats(&f);
    family_release(&f, 1);
    assert_int_equal(family_stats(&f).unmap_calls, before.unmap_calls); // not yet
    assert_int_equal(family_stats(&f).chunks_shared, before.chunks_shared);
    finish_all();
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 1));
    assert_true(family_stats(&f).unmap_calls > before.unmap_calls);
    assert_int_equal(family_stats(&f).chunks_shared, 0);
    vt_fake_run(f.inner, (uintptr_t)vt_seq_plane(f.kin[0].s, 0), 3 * 4096);
    assert_ok(swap_out_now(f.kin[0].s)); // waits for it
    assert_ok(swap_in_now(f.kin[0].s));
}

// A sequence that becomes shorter leaves rows that a kernel may read still: they are neither
// unmapped nor wiped before it ends. (The fake notes it.) Wiping in the order of the device's work
// needs no wait.
FX_TEST_WITH(test_what_is_cut_off_waits_for_the_kernels, on_device, teardown)
{
    family_grown(&f, 0, 4 * CHUNK_TOK);
    vt_fake_run(f.inner, (uintptr_t)vt_seq_plane(f.kin[0].s, 0), 4 * 4096);
    assert_ok(family_cut(&f, 0, CHUNK_TOK + 5));
    assert_ok(vt_trim(f.m, 0, NULL));
    assert_int_equal(created(), 4); // it runs still
    finish_all();
    assert_ok(vt_trim(f.m, 0, NULL));
    assert_int_equal(created(), 2);
    vt_fake_run(f.inner, (uintptr_t)vt_seq_plane(f.kin[0].s, 0), 2 * 4096 - 1);
    assert_ok(family_cut(&f, 0, 3));
    assert_ok(family_grow(&f, 0, 2 * CHUNK_TOK - 3)); // wipes a tail and a warm chunk
    assert_int_equal(vt_fake_look(f.inner).n_wait, 0);
    finish_all();
}

// Where the device does not say what it has done, nothing is unmapped until it does.
FX_TEST_WITH(test_a_mark_that_cannot_be_made_is_made_later, on_device, teardown)
{
    family_grown(&f, 0, 3 * CHUNK_TOK);
    assert_ok(family_fork(&f, 0, 1, 3 * CHUNK_TOK));
    vt_fake_run(f.inner, (uintptr_t)vt_seq_plane(f.kin[1].s, 0), 3 * 4096);
    uint64_t unmap_calls = family_stats(&f).unmap_calls;
    vt_fault_arm(f.fault, 0, 2, VT_EDEVICE);
    family_release(&f, 1);
    vt_fault_disarm(f.fault);
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 1));
    assert_int_equal(family_stats(&f).unmap_calls, unmap_calls);
    finish_all();
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 2));
    assert_int_equal(family_stats(&f).unmap_calls, unmap_calls + N_PLANE);
}

FX_TEST_WITH(test_misuse_is_refused, setup, teardown)
{
    vt_seq *s = NULL;
    vt_retention odd = {.priority = VT_MAX_PRIORITY + 1};
    vt_domain *d;
    static char key[5000];
    family_grown(&f, 0, 40);
    assert_int_equal(vt_seq_fork(f.kin[0].s, 41, &s), VT_EINVAL);
    assert_null(s);
    assert_int_equal(family_record(&f, 0, 41, NULL), VT_EINVAL);
    assert_int_equal(family_record(&f, 0, 40, &odd), VT_EINVAL);
    assert_int_equal(vt_domain_open(f.m, key, sizeof key, &d), VT_EINVAL);
    assert_int_equal(vt_set_budget(f.m, f.chunk_bytes - 1), VT_EINVAL);
    assert_ok(swap_out_now(f.kin[0].s));
    assert_int_equal(vt_seq_extend(f.kin[0].s, 41), VT_EINVAL);
    assert_int_equal(vt_seq_truncate(f.kin[0].s, 4), VT_EINVAL);
    assert_int_equal(vt_seq_fork(f.kin[0].s, 4, &s), VT_EINVAL);
    assert_int_equal(family_record(&f, 0, 40, NULL), VT_EINVAL);
    assert_int_equal(vt_seq_prepare(f.kin[0].s, 80, 1), VT_EINVAL);
    assert_ok(swap_in_now(f.kin[0].s));
}

// ---- Ends of prefixes in use

// The budget is what the sequence takes alone: what it recorded is its own chunks, and what it then
// writes is not part of it.
FX_TEST_WITH(test_a_recorded_tail_costs_its_sequence_nothing, setup, teardown)
{
    uint32_t tok[FAMILY_MAX_TOK];
    assert_ok(vt_set_budget(f.m, 3 * f.chunk_bytes));
    family_grown(&f, 0, 2 * CHUNK_TOK + 5);
    assert_ok(family_record(&f, 0, f.kin[0].len_tok, NULL));
    assert_int_equal(vt_match(f.domain[0], f.kin[0].tok, f.kin[0].len_tok), 2 * CHUNK_TOK);
    assert_ok(family_grow(&f, 0, CHUNK_TOK - 5));
    assert_int_equal(created(), 3);
    assert_status(VT_NOSPACE, family_grow(&f, 0, 1));
    memcpy(tok, f.kin[0].tok, sizeof tok);
    family_release(&f, 0);
    assert_int_equal(vt_match(f.domain[0], tok, 3 * CHUNK_TOK), 2 * CHUNK_TOK + 5);
    assert_int_equal(created(), 3);
}

// What was pending is gone with the tokens: a record of more than is left means the rest.
FX_TEST_WITH(test_a_record_is_cut_with_its_sequence, setup, teardown)
{
    uint32_t tok[FAMILY_MAX_TOK];
    family_grown(&f, 0, 2 * CHUNK_TOK + 20);
    memcpy(tok, f.kin[0].tok, sizeof tok);
    assert_ok(family_record(&f, 0, 2 * CHUNK_TOK + 20, NULL));
    assert_ok(family_cut(&f, 0, 2 * CHUNK_TOK + 3));
    assert_ok(family_grow(&f, 0, 9)); // other tokens
    family_release(&f, 0);
    assert_int_equal(vt_match(f.domain[0], tok, 2 * CHUNK_TOK + 20), 2 * CHUNK_TOK + 3);
}

// A sequence uses the beginning of a long prefix; what is behind that goes when it must.
FX_TEST_WITH(test_what_is_behind_a_match_gives_way, setup, teardown)
{
    uint32_t tok[FAMILY_MAX_TOK];
    assert_ok(vt_set_budget(f.m, 8 * f.chunk_bytes));
    family_grown(&f, 0, 6 * CHUNK_TOK);
    memcpy(tok, f.kin[0].tok, sizeof tok);
    assert_ok(family_record(&f, 0, 6 * CHUNK_TOK, NULL));
    family_release(&f, 0);
    assert_ok(family_match(&f, 4, tok, CHUNK_TOK + 7));
    assert_int_equal(f.kin[4].len_tok, CHUNK_TOK + 7);
    family_grown(&f, 2, 4 * CHUNK_TOK);
    assert_true(vt_match(f.domain[0], tok, 6 * CHUNK_TOK) < 6 * CHUNK_TOK);
    assert_true(vt_match(f.domain[0], tok, 6 * CHUNK_TOK) >= CHUNK_TOK);
    assert_ok(family_grow(&f, 2, 2 * CHUNK_TOK)); // 2 + 6: everything else has gone
    assert_int_equal(vt_match(f.domain[0], tok, 6 * CHUNK_TOK), CHUNK_TOK);
    assert_int_equal(family_grow(&f, 2, 1), VT_NOSPACE);
}

// The prefix that is being matched is not cut while room is made for the copy of its tail.
FX_TEST_WITH(test_a_match_does_not_eat_its_own_tail, setup, teardown)
{
    uint32_t tok[FAMILY_MAX_TOK];
    assert_ok(vt_set_budget(f.m, 3 * f.chunk_bytes));
    family_grown(&f, 0, 3 * CHUNK_TOK);
    memcpy(tok, f.kin[0].tok, sizeof tok);
    assert_ok(family_record(&f, 0, 3 * CHUNK_TOK, NULL));
    family_release(&f, 0);
    vt_status st = family_match(&f, 4, tok, 2 * CHUNK_TOK + 9); // what it gets is looked at
    assert_true(st == VT_OK || st == VT_NOSPACE);
}

// Pinned to the token, once it is there to be pinned.
FX_TEST_WITH(test_a_pin_is_not_cut, setup, teardown)
{
    uint32_t tok[FAMILY_MAX_TOK];
    const vt_retention pin = {.pinned = true};
    assert_ok(vt_set_budget(f.m, 5 * f.chunk_bytes));
    family_grown(&f, 0, CHUNK_TOK + 5);
    memcpy(tok, f.kin[0].tok, sizeof tok);
    assert_ok(family_record(&f, 0, f.kin[0].len_tok, &pin));
    assert_ok(family_grow(&f, 0, 1));
    family_release(&f, 0);
    family_grown(&f, 1, 3 * CHUNK_TOK);
    assert_status(VT_NOSPACE, family_grow(&f, 1, 1));
    assert_int_equal(vt_match(f.domain[0], tok, CHUNK_TOK + 5), CHUNK_TOK + 5);
}

// Each has recorded all that it has, so that its one run is guarded; then there are no mappings.
// Who grows does so without one, and what is shared is guarded again when there are some.
FX_TEST(test_who_grows_at_the_limit_needs_no_mapping)
{
    enum { N = 4, TOK = 64, PLANES = 2 };
    vt_vmm *vmm = vt_fake_open();
    vt_fake_set_max_runs(vmm, 64);
    vt_config cfg = vt_config_default();
    cfg.n_plane = PLANES, cfg.row_bytes = 128, cfg.max_tok = 1024, cfg.max_seq = 64;
    cfg.budget_bytes = 64 << 20, cfg.vmm = vmm, cfg.mapper = VT_MAPPER_OWNER;
    vt_manager *m;
    vt_domain *d;
    vt_seq *s[N];
    uint32_t tok[TOK];
    assert_ok(vt_manager_create(&cfg, &m));
    assert_ok(vt_domain_open(m, "limit", 5, &d));
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t t = 0; t < TOK; t++) tok[t] = 1000 * i + t;
        assert_ok(vt_seq_create(m, 0, &s[i]));
        assert_ok(vt_seq_extend(s[i], TOK));
        assert_ok(vt_seq_record(s[i], d, tok, TOK, NULL));
    }
    assert_ok(vt_step(m, VT_AHEAD_NONE, 0, 0)); // guards
    const uint64_t max_runs = m->max_runs;
    vt_fake_set_max_runs(vmm, m->max_runs = N * PLANES);
    for (uint32_t len_tok = TOK + 1; len_tok < TOK + 70; len_tok++)
        for (uint32_t i = 0; i < N; i++) assert_ok(vt_seq_extend(s[i], len_tok));
    assert_ok(vt_step(m, VT_AHEAD_NONE, 0, 1));
    assert_ok(vt_check(m, NULL));
    assert_int_equal(m->vset.n_run, N * PLANES);
    vt_fake_set_max_runs(vmm, m->max_runs = max_runs);
    assert_ok(vt_step(m, VT_AHEAD_NONE, 0, 2));
    assert_int_equal(m->vset.n_run, 2 * N * PLANES); // guarded, and not
    assert_ok(vt_check(m, NULL));
    vt_domain_close(d);
    vt_manager_destroy(m);
}

// Two groups, so many chunks, and a limit on mappings, at which a match may take a prefix's tail.
static vt_manager *open_limited(const vt_group groups[2], uint64_t n_chunk, vt_domain **d)
{
    vt_config cfg = vt_config_default();
    vt_manager *m;
    cfg.vmm = vt_fake_open();
    vt_fake_set_max_runs(cfg.vmm, 1000);
    cfg.group = groups, cfg.n_group = 2, cfg.max_tok = 256, cfg.max_seq = 8;
    cfg.budget_bytes = n_chunk * PAIR_BYTES, cfg.mapper = VT_MAPPER_OWNER;
    assert_ok(vt_manager_create(&cfg, &m));
    assert_ok(vt_domain_open(m, "d", 1, d));
    return m;
}

// Of a released sequence, grown at once.
static void record_prompt(vt_manager *m, vt_domain *d, const uint32_t *tok, uint32_t n_tok)
{
    vt_seq *s;
    assert_ok(vt_seq_create(m, 0, &s));
    assert_ok(vt_seq_extend(s, n_tok));
    assert_ok(vt_seq_record(s, d, tok, n_tok, NULL));
    vt_seq_release(s);
}

// The tails of two groups are wanted, and the only prefix that can give way has one chunk: where
// mappings are limited, the first group would take it before the second finds none.
FX_TEST(test_a_match_that_lacks_room_evicts_nothing)
{
    static const vt_group groups[] = {{.n_plane = 2, .row_bytes = 128},
                                      {.n_plane = 2, .row_bytes = 128, .window_tok = 16}};
    static const uint32_t older[2 * CHUNK_TOK] = {1}, wanted[CHUNK_TOK + 8] = {2};
    vt_domain *d;
    vt_seq *live, *s;
    uint32_t n_hit;
    vt_manager *m = open_limited(groups, 7, &d);
    record_prompt(m, d, older, 2 * CHUNK_TOK); // two chunks, and one of the window
    record_prompt(m, d, wanted, CHUNK_TOK + 8);
    assert_ok(vt_seq_create(m, 0, &live));
    assert_ok(vt_seq_extend(live, 1)); // in the place of the older one's end
    const vti_radix had = *m->radix;
    assert_status(VT_NOSPACE, vt_seq_match(d, wanted, CHUNK_TOK + 8, 0, &s, &n_hit));
    assert_int_equal(m->radix->n_node, had.n_node);
    assert_int_equal(m->radix->n_tok, had.n_tok);
    assert_int_equal(m->radix->n_evicted, had.n_evicted);
    assert_int_equal(m->radix->n_window, had.n_window);
    assert_int_equal(m->radix->n_domain, had.n_domain);
    assert_ok(vt_check(m, NULL));
    vt_seq_release(live);
    assert_ok(vt_seq_match(d, wanted, CHUNK_TOK + 8, 0, &s, &n_hit));
    assert_int_equal(n_hit, CHUNK_TOK + 8);
    vt_seq_release(s);
    vt_domain_close(d);
    vt_manager_destroy(m);
}

// Room for the copy of a window's tail is what the tail's own node holds beside it, and gives up.
FX_TEST(test_a_match_whose_node_gives_up_the_tail_copies_it)
{
    enum { TOK = 60, EARLY_TOK = 48 }; // of the second block the window's chunks 4 to 7
    static const vt_group groups[] = {
        {.n_plane = 2, .row_bytes = 128},
        {.n_plane = 2, .row_bytes = 512, .window_tok = 10, .slice_bytes = 4096}};
    static const uint32_t tok[TOK] = {1};
    vt_domain *d;
    vt_seq *live, *s;
    uint32_t n_hit;
    vt_manager *m = open_limited(groups, 20, &d);
    assert_ok(vt_seq_create(m, 0, &s));
    for (uint32_t n_tok = 4; n_tok <= EARLY_TOK; n_tok += 4) {
        assert_ok(vt_seq_extend(s, n_tok));
        assert_ok(vt_step(m, VT_AHEAD_NONE, 0, 0));
    }
    assert_ok(vt_seq_record(s, d, tok, EARLY_TOK, NULL));
    assert_ok(vt_trim(m, 0, NULL)); // so that the next ones are neighbours
    assert_ok(vt_seq_extend(s, TOK));
    assert_ok(vt_seq_record(s, d, tok, TOK, NULL));
    vt_seq_release(s);
    assert_ok(vt_seq_create(m, 0, &live));
    assert_ok(vt_seq_extend(live, 1));
    assert_ok(vt_set_budget(m, (6 + 2 + 1) * PAIR_BYTES)); // one is left, for the first group
    assert_ok(vt_seq_match(d, tok, TOK, 0, &s, &n_hit));
    assert_int_equal(n_hit, TOK);
    assert_int_equal(m->radix->n_window, 1);
    assert_ok(vt_check(m, NULL));
    vt_seq_release(s);
    vt_seq_release(live);
    vt_domain_close(d);
    vt_manager_destroy(m);
}

FX_RUN(test_vt_share)
