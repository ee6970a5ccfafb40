// test_vt_swap.c - swapping: what goes out and what stays, that every byte comes back, and what
// happens if the swap or the budget is full, or the bytes in the swap have changed.

#include "assert_vt.h"
#include "suite.h"

#include <string.h>

#include "family.h"
#include "maps.h"

enum { CHUNK_TOK = 32, N_PLANE = 2 };

static family f;

static void open_on(backend b, vt_layout layout, uint64_t budget_chunks, uint64_t swap_chunks)
{
    family_setup s = {.backend = b,
                      .layout = layout,
                      .n_plane = N_PLANE,
                      .row_bytes = layout == VT_LAYOUT_SPLIT ? 128 : 64,
                      .slice_pages = 1,
                      .n_seq = 4,
                      .budget_chunks = budget_chunks,
                      .swap_chunks = swap_chunks,
                      .mapper = VT_MAPPER_OWNER};
    if (b == ON_CUDA) s.row_bytes *= 16;
    family_open(&f, &s, 9);
}

VT_FIXTURE(setup)
{
    open_on(ON_HOST, VT_LAYOUT_SPLIT, 12, 6);
}

VT_FIXTURE(teardown)
{
    family_verify(&f);
    family_close(&f);
}

static vt_status out(uint32_t i)
{
    return swap_out_now(f.kin[i].s);
}

static vt_status in(uint32_t i)
{
    return swap_in_now(f.kin[i].s);
}

// What a failed operation may not change.
static vt_stats gauges(void)
{
    vt_stats st = family_stats(&f);
    st.shortages = st.map_calls = st.unmap_calls = st.create_calls = st.destroy_calls = 0;
    st.protect_calls = 0;
    st.device_errors = st.swap_corrupt = st.jobs = st.job_failures = 0;
    return st;
}

static void assert_gauges(const vt_stats *want)
{
    vt_stats is = gauges();
    assert_memory_equal(&is, want, sizeof is);
}

static void out_and_in_on(backend b, vt_layout layout)
{
    open_on(b, layout, 12, 6);
    family_grown(&f, 0, 5 * CHUNK_TOK + 7);
    char *base = vt_seq_plane(f.kin[0].s, 1);
    assert_ok(out(0));
    assert_true(vt_seq_is_swapped(f.kin[0].s));
    assert_int_equal(vt_seq_len(f.kin[0].s), 5 * CHUNK_TOK + 7);
    vt_stats st = family_stats(&f);
    assert_int_equal(st.chunks_swapped, 6);
    assert_int_equal(st.chunks_owned, 0);
    assert_int_equal(st.chunks_spare, 6); // the memory is others' now
    assert_int_equal(st.swapped_bytes, 6 * f.chunk_bytes);
    assert_int_equal(st.swap_out_chunks, 6);
    assert_ok(vt_trim(f.m, 0, NULL)); // or the system's
    assert_int_equal(family_stats(&f).mapped_bytes, 0);
    family_verify(&f);
    assert_ok(in(0));
    assert_false(vt_seq_is_swapped(f.kin[0].s));
    assert_ptr_equal(vt_seq_plane(f.kin[0].s, 1), base);
    assert_int_equal(family_stats(&f).chunks_owned, 6);
    assert_int_equal(family_stats(&f).chunks_swapped, 0);
    assert_int_equal(family_stats(&f).swap_in_chunks, 6);
    family_verify(&f);
    assert_ok(family_grow(&f, 0, 40)); // what is behind is zero
    family_verify(&f);
    family_close(&f);
}

FX_TEST(test_what_was_written_comes_back)
{
    for (int b = ON_HOST; b < N_BACKEND; b++)
        for (int layout = VT_LAYOUT_SPLIT; layout <= VT_LAYOUT_PACKED; layout++)
            out_and_in_on((backend)b, (vt_layout)layout);
}

FX_TEST_WITH(test_rows_cannot_be_touched_meanwhile, setup, teardown)
{
    family_grown(&f, 0, 2 * CHUNK_TOK);
    char *row = (char *)vt_seq_plane(f.kin[0].s, 0) + CHUNK_TOK * vt_seq_stride(f.kin[0].s);
    assert_false(read_faults(row));
    assert_ok(out(0));
    assert_true(read_faults(row));
    assert_ok(in(0));
    assert_false(read_faults(row));
}

FX_TEST_WITH(test_shared_chunks_stay, setup, teardown)
{
    family_grown(&f, 0, 4 * CHUNK_TOK);
    assert_ok(family_fork(&f, 0, 1, 2 * CHUNK_TOK));
    assert_ok(family_grow(&f, 1, CHUNK_TOK));
    assert_ok(out(0));
    assert_int_equal(family_stats(&f).chunks_swapped, 2);
    assert_int_equal(family_stats(&f).chunks_shared, 2);
    assert_int_equal(family_stats(&f).chunks_owned, 1);
    family_verify(&f); // the child's bytes
    assert_ok(in(0));
}

FX_TEST_WITH(test_recorded_chunks_stay, setup, teardown)
{
    family_grown(&f, 0, 4 * CHUNK_TOK);
    assert_ok(family_record(&f, 0, 3 * CHUNK_TOK, NULL));
    assert_ok(out(0));
    assert_int_equal(family_stats(&f).chunks_swapped, 1);
    // They are in use: no eviction takes them from the sequence.
    assert_ok(vt_evict(f.m, UINT64_MAX, NULL));
    assert_ok(in(0));
}

FX_TEST_WITH(test_what_all_share_needs_no_swap, setup, teardown)
{
    family_grown(&f, 0, 2 * CHUNK_TOK);
    assert_ok(family_fork(&f, 0, 1, 2 * CHUNK_TOK));
    assert_ok(out(0));
    assert_false(vt_seq_is_swapped(f.kin[0].s));
    assert_int_equal(family_stats(&f).chunks_swapped, 0);
}

FX_TEST_WITH(test_out_again_gives_up_what_is_shared_no_longer, setup, teardown)
{
    family_grown(&f, 0, 4 * CHUNK_TOK);
    assert_ok(family_fork(&f, 0, 1, 2 * CHUNK_TOK));
    assert_ok(out(0));
    assert_ok(out(0)); // nothing new
    assert_int_equal(family_stats(&f).chunks_swapped, 2);
    family_release(&f, 1);
    assert_int_equal(family_stats(&f).chunks_owned, 2);
    assert_ok(out(0));
    assert_int_equal(family_stats(&f).chunks_swapped, 4);
    assert_int_equal(family_stats(&f).chunks_owned, 0);
    assert_ok(in(0));
    family_verify(&f);
}

FX_TEST_WITH(test_forks_swap_on_their_own, setup, teardown)
{
    family_grown(&f, 0, CHUNK_TOK + 9);
    assert_ok(family_fork(&f, 0, 1, CHUNK_TOK + 9));
    for (uint32_t i = 0; i < 2; i++) assert_ok(family_grow(&f, i, 20));
    for (uint32_t i = 0; i < 2; i++) assert_ok(out(i));
    for (uint32_t i = 0; i < 2; i++) assert_ok(in(1 - i));
    family_verify(&f);
    family_release(&f, 0);
    assert_ok(out(1)); // all of it is its own now
    assert_int_equal(family_stats(&f).chunks_swapped, 2);
    assert_ok(in(1));
}

FX_TEST_WITH(test_a_full_swap_is_no_space_and_no_harm, setup, teardown)
{
    family_grown(&f, 0, 4 * CHUNK_TOK);
    family_grown(&f, 1, 3 * CHUNK_TOK);
    assert_ok(out(0));
    vt_stats before = gauges();
    assert_int_equal(out(1), VT_NOSWAP);
    assert_false(vt_seq_is_swapped(f.kin[1].s));
    assert_gauges(&before);
    family_verify(&f);
    family_release(&f, 0); // its slots
    assert_ok(out(1));
    assert_ok(in(1));
}

FX_TEST_WITH(test_a_full_budget_is_no_space_and_it_stays_out, setup, teardown)
{
    family_grown(&f, 0, 5 * CHUNK_TOK + 1);
    assert_ok(out(0));
    family_grown(&f, 1, 7 * CHUNK_TOK);
    vt_stats before = gauges();
    assert_int_equal(in(0), VT_NOSPACE);
    assert_true(vt_seq_is_swapped(f.kin[0].s));
    assert_gauges(&before);
    assert_ok(family_cut(&f, 1, 6 * CHUNK_TOK));
    assert_ok(in(0));
    family_verify(&f);
}

FX_TEST_WITH(test_prefixes_give_way_to_what_comes_back, setup, teardown)
{
    family_grown(&f, 0, 6 * CHUNK_TOK);
    assert_ok(out(0));
    family_grown(&f, 1, 8 * CHUNK_TOK);
    assert_ok(family_record(&f, 1, 8 * CHUNK_TOK, NULL));
    family_release(&f, 1);
    assert_int_equal(family_stats(&f).chunks_cached, 8);
    assert_ok(in(0));
    assert_true(family_stats(&f).chunks_cached <= 6);
}

FX_TEST_WITH(test_slots_are_used_again, setup, teardown)
{
    for (int k = 0; k < 40; k++) {
        family_grown(&f, 0, (1 + (uint32_t)k % 6) * CHUNK_TOK);
        assert_ok(out(0));
        if (k % 2) assert_ok(in(0));
        family_verify(&f);
        family_release(&f, 0);
        assert_int_equal(family_stats(&f).chunks_swapped, 0);
    }
}

FX_TEST_WITH(test_other_bytes_are_not_handed_out, setup, teardown)
{
    family_close(&f);
    open_on(ON_FAKE, VT_LAYOUT_SPLIT, 12, 6);
    family_grown(&f, 0, 3 * CHUNK_TOK);
    family_grown(&f, 1, CHUNK_TOK);
    assert_ok(out(0));
    vt_fake_corrupt(f.inner, f.chunk_bytes + 100); // of the second chunk
    vt_stats before = gauges();
    for (uint64_t k = 1; k <= 2; k++) {
        assert_int_equal(in(0), VT_EDEVICE);
        assert_true(vt_seq_is_swapped(f.kin[0].s));
        assert_int_equal(family_stats(&f).swap_corrupt, k);
        assert_gauges(&before);
        family_verify(&f);
    }
    assert_int_equal(vt_seq_extend(f.kin[0].s, 4 * CHUNK_TOK), VT_EINVAL);
    family_release(&f, 0); // that is all that can be done
    assert_int_equal(family_stats(&f).chunks_swapped, 0);
    assert_ok(out(1)); // and its slots serve another
    assert_ok(in(1));
}

FX_TEST_WITH(test_without_a_swap_it_is_misuse, setup, teardown)
{
    family_close(&f);
    open_on(ON_HOST, VT_LAYOUT_SPLIT, 12, 0);
    family_grown(&f, 0, CHUNK_TOK);
    assert_int_equal(out(0), VT_EINVAL);
    assert_ok(in(0));
}

FX_TEST_WITH(test_nothing_is_asked_ahead_for_who_is_out, setup, teardown)
{
    family_grown(&f, 0, CHUNK_TOK);
    assert_ok(vt_seq_prepare(f.kin[0].s, 3 * CHUNK_TOK, 1));
    assert_ok(out(0)); // takes the job back
    vt_work(f.m, UINT32_MAX, NULL);
    assert_ok(vt_step(f.m, VT_AHEAD_NEXT, 100, 1));
    vt_work(f.m, UINT32_MAX, NULL);
    assert_ok(vt_seq_wait(f.kin[0].s));
    assert_int_equal(family_stats(&f).chunks_owned, 0);
    assert_int_equal(family_stats(&f).chunks_spare, 1); // what it had
    assert_int_equal(vt_seq_backed(f.kin[0].s), CHUNK_TOK);
    assert_ok(in(0));
    assert_ok(vt_seq_wait(f.kin[0].s));
}

FX_RUN(test_vt_swap)
