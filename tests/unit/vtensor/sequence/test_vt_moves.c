// test_vt_moves.c - sequences on their way to the swap and back: memory comes free while they
// leave, the budget holds at every step, and a failure, a change of mind or the end of the sequence
// on the way loses nothing. No call waits for the device, and the owner moves no rows itself.
//
// Where the owner works itself, vt_work moves one slice at a time.
#include "assert_vt.h"
#include "suite.h"

#include <string.h>

#include "family.h"

enum { CHUNK_TOK = 32, N_PLANE = 2, N_CHUNK = 6 };

static family f;

static void open_with(backend b, vt_mapper mapper, uint64_t budget_chunks)
{
    family_setup s = {.backend = b,
                      .layout = VT_LAYOUT_SPLIT,
                      .n_plane = N_PLANE,
                      .row_bytes = 128,
                      .slice_pages = 1,
                      .n_seq = 4,
                      .budget_chunks = budget_chunks,
                      .swap_chunks = 2 * N_CHUNK,
                      .mapper = mapper};
    family_open(&f, &s, 3);
}

// A sequence that fills the budget, and one that would grow.
VT_FIXTURE(setup)
{
    open_with(ON_HOST, VT_MAPPER_OWNER, N_CHUNK);
    family_grown(&f, 0, N_CHUNK * CHUNK_TOK);
    assert_ok(family_create(&f, 1, 0));
}

VT_FIXTURE(teardown)
{
    family_verify(&f);
    family_close(&f);
}

static vt_seq *seq(uint32_t i)
{
    return f.kin[i].s;
}

static void work(uint32_t n)
{
    vt_work(f.m, n, NULL);
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, ++f.now_ms));
}

// What exists is within the budget, and every chunk is accounted for.
static void look(void)
{
    family_verify(&f);
    assert_true(family_stats(&f).mapped_bytes <= family_stats(&f).budget_bytes);
}

static void begin_out(void)
{
    assert_int_equal(vt_seq_swap_out(seq(0)), VT_BUSY);
    assert_true(vt_seq_is_swapped(seq(0)));
    assert_int_equal(family_stats(&f).coming_bytes, N_CHUNK * f.chunk_bytes);
}

// So that seq(1) has n chunks of the other's.
static void give(uint32_t n)
{
    begin_out();
    vt_work(f.m, n * N_PLANE, NULL);
    assert_ok(family_grow(&f, 1, n * CHUNK_TOK));
}

FX_TEST(test_memory_comes_while_it_is_written)
{
    assert_int_equal(family_grow(&f, 1, CHUNK_TOK), VT_NOSPACE);
    begin_out();
    assert_int_equal(family_grow(&f, 1, CHUNK_TOK), VT_BUSY);
    for (uint32_t n = 1; n <= N_CHUNK; n++) {
        vt_work(f.m, N_PLANE, NULL); // a chunk is written
        assert_ok(family_grow(&f, 1, CHUNK_TOK));
        assert_int_equal(vt_seq_swap_out(seq(0)), n < N_CHUNK ? VT_BUSY : VT_OK);
        vt_stats st = family_stats(&f);
        assert_int_equal(st.coming_bytes, (N_CHUNK - n) * f.chunk_bytes);
        assert_int_equal(st.mapped_bytes, st.budget_bytes);
    }
    look();
    family_release(&f, 1);
    assert_int_equal(vt_seq_swap_in(seq(0)), VT_BUSY);
    assert_ok(vt_seq_wait(seq(0)));
}

// Nobody asks for it: the mapper gives it up all the same, between two slices.
FX_TEST(test_memory_comes_unasked)
{
    begin_out();
    for (int k = 0; k < 3; k++) work(N_PLANE);
    assert_true(family_stats(&f).spare_bytes >= f.chunk_bytes);
    assert_true(family_stats(&f).coming_bytes > 0);
    assert_ok(vt_seq_wait(seq(0)));
    assert_int_equal(family_stats(&f).spare_bytes, N_CHUNK * f.chunk_bytes);
}

// The n-th slice that is written fails, as on a full disk.
static vt_status fail_at(uint32_t n_slice)
{
    vt_work(f.m, n_slice, NULL);
    vt_fault_arm(f.fault, 0, 0, VT_NOSPACE);
    vt_work(f.m, 1, NULL);
    vt_fault_disarm(f.fault);
    return vt_seq_wait(seq(0));
}

FX_TEST(test_a_full_disk_changes_nothing)
{
    for (uint32_t n_slice = 0; n_slice < N_CHUNK * N_PLANE; n_slice++) {
        begin_out();
        assert_int_equal(fail_at(n_slice), VT_NOSWAP);
        assert_false(vt_seq_is_swapped(seq(0)));
        assert_int_equal(family_stats(&f).swapped_bytes, 0);
        assert_int_equal(family_stats(&f).chunks_owned, N_CHUNK);
        look();
    }
}

// What it gave up is in use: it stays where it is, in part in the swap, until there is room again.
FX_TEST(test_a_full_disk_after_others_took_its_memory)
{
    give(2);
    assert_int_equal(fail_at(1), VT_NOSWAP);
    assert_true(vt_seq_is_swapped(seq(0)));
    look();
    assert_int_equal(vt_seq_swap_in(seq(0)), VT_NOSPACE);
    family_release(&f, 1);
    assert_int_equal(vt_seq_swap_in(seq(0)), VT_BUSY);
    assert_ok(vt_seq_wait(seq(0)));
    assert_false(vt_seq_is_swapped(seq(0)));
    look();
}

FX_TEST(test_it_turns_round_on_the_way)
{
    for (uint32_t n_slice = 0; n_slice < N_CHUNK * N_PLANE; n_slice += 3) {
        begin_out();
        work(n_slice);
        vt_status st = vt_seq_swap_in(seq(0));
        assert_ok(st == VT_BUSY ? vt_seq_wait(seq(0)) : st);
        assert_false(vt_seq_is_swapped(seq(0)));
        look();
        begin_out();
        assert_ok(vt_seq_wait(seq(0)));
        st = vt_seq_swap_in(seq(0));
        assert_int_equal(st, VT_BUSY);
        work(n_slice);
        st = vt_seq_swap_out(seq(0));
        assert_ok(st == VT_BUSY ? vt_seq_wait(seq(0)) : st);
        assert_int_equal(family_stats(&f).chunks_swapped, N_CHUNK);
        look();
        assert_int_equal(vt_seq_swap_in(seq(0)), VT_BUSY);
        assert_ok(vt_seq_wait(seq(0)));
    }
}

// Released on the way: memory and slots are free.
FX_TEST(test_its_end_on_the_way)
{
    for (uint32_t n_slice = 0; n_slice < 3 * N_CHUNK * N_PLANE; n_slice++) {
        bool is_out = n_slice >= N_CHUNK * N_PLANE; // it comes back
        begin_out();
        if (is_out) assert_ok(vt_seq_wait(seq(0)));
        if (is_out) assert_int_equal(vt_seq_swap_in(seq(0)), VT_BUSY);
        work(is_out ? n_slice - N_CHUNK * N_PLANE : n_slice);
        family_release(&f, 0);
        assert_int_equal(family_stats(&f).swapped_bytes, 0);
        assert_int_equal(family_stats(&f).chunks_owned, 0);
        look();
        family_grown(&f, 0, N_CHUNK * CHUNK_TOK);
    }
}

// The rows may be in use by the device for ever: others go on, and so does this call.
FX_TEST(test_no_call_waits_for_the_device)
{
    family_close(&f);
    open_with(ON_FAKE, VT_MAPPER_OWNER, 2 * N_CHUNK);
    vt_fake_set_async(f.inner, true);
    family_grown(&f, 0, N_CHUNK * CHUNK_TOK);
    vt_fake_run_writing(f.inner, (uintptr_t)vt_seq_plane(seq(0), 0), N_CHUNK * 4096);
    assert_int_equal(vt_seq_swap_out(seq(0)), VT_BUSY);
    for (int k = 0; k < 20; k++) {
        work(8);
        assert_int_equal(vt_seq_swap_out(seq(0)), VT_BUSY);
    }
    assert_int_equal(family_stats(&f).swap_out_chunks, 0);
    family_grown(&f, 1, 3 * CHUNK_TOK);
    uint64_t ticket;
    assert_ok(f.inner->ops->fence(f.inner, &ticket));
    vt_fake_finish(f.inner, ticket);
    vt_status st;
    for (int k = 0; k < 200 && (st = vt_seq_swap_out(seq(0))) == VT_BUSY; k++) work(8);
    assert_ok(st);
    for (int k = 0; k < 200 && (st = vt_seq_swap_in(seq(0))) == VT_BUSY; k++) work(8);
    assert_ok(st);
    assert_int_equal(vt_fake_look(f.inner).n_wait, 0);
}

// The mapper's thread makes every call of the swap.
FX_TEST(test_the_owner_moves_no_rows)
{
    family_close(&f);
    open_with(ON_HOST, VT_MAPPER_THREAD, 2 * N_CHUNK);
    vt_fault_hold_swap(f.fault, true, true);
    family_grown(&f, 0, N_CHUNK * CHUNK_TOK);
    assert_int_equal(vt_seq_swap_out(seq(0)), VT_BUSY);
    vt_fault_await_held(f.fault, 1);
    for (uint32_t i = 1; i < 4; i++) family_grown(&f, i, CHUNK_TOK); // beside it
    for (int k = 0; k < 10; k++) work(0);
    assert_int_equal(vt_seq_swap_out(seq(0)), VT_BUSY);
    vt_fault_hold_swap(f.fault, false, true);
    assert_ok(vt_seq_wait(seq(0)));
    vt_status st = vt_seq_swap_in(seq(0));
    for (; st == VT_BUSY && vt_fault_held(f.fault) == 0; st = vt_seq_swap_in(seq(0))) work(0);
    assert_int_equal(st, VT_BUSY);
    assert_ok(family_grow(&f, 1, CHUNK_TOK));
    vt_fault_hold_swap(f.fault, false, false);
    assert_ok(vt_seq_wait(seq(0)));
    assert_int_equal(vt_fault_swap_here(f.fault), 0);
}

FX_RUN_EACH(test_vt_moves, setup, teardown)
