// test_vt_cuda.c - the GPU backend, call by call, on the stand-in for NVIDIA's driver: it keeps its
// contract and the driver's rules, and leaves nothing behind.
#include <string.h>
#include <unistd.h>

#include "cuda_rig.h"

// The system can read there (without dying of it when it cannot).
static bool is_readable(uintptr_t addr)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    bool readable = write(ends[1], (const void *)addr, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return readable;
}

static void test_tells_what_it_is(void **state)
{
    (void)state;
    assert_string_equal(vmm->ops->name, "cuda");
    assert_int_equal(vmm->ops->granularity(vmm), STANDIN_GRANULARITY);
    assert_true(vmm->ops->max_runs(vmm) == UINT64_MAX);
}

static void test_memory_comes_and_goes(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 3, 5));
    assert_ok(vmm->ops->create(vmm, FAR, 2));
    assert_int_equal(resident(), 7 * N_SLICE * SLICE);
    assert_int_equal(standin_look().memory_bytes, resident());
    assert_ok(vmm->ops->destroy(vmm, 4, 3));
    assert_int_equal(standin_look().memory_bytes, 4 * N_SLICE * SLICE);
    assert_ok(vmm->ops->destroy(vmm, 3, 1));
    assert_ok(vmm->ops->destroy(vmm, 7, 1));
    assert_ok(vmm->ops->destroy(vmm, FAR, 2));
    assert_int_equal(resident(), 0);
}

// More chunks than the table has buckets at first, strewn over the indices.
static void test_many_chunks_are_found_again(void **state)
{
    (void)state;
    enum { N = 150 };
    const uint64_t step = N_INDEX / N;
    for (uint64_t i = 0; i < N; i++) assert_ok(vmm->ops->create(vmm, i * step, 1));
    for (uint64_t i = 0; i < N; i++) {
        assert_ok(map(0, 2, i * step, 1));
        memset((void *)place(0), (int)i, SLICE);
        assert_ok(unmap(0, 1));
    }
    for (uint64_t i = 0; i < N; i++) {
        assert_ok(map(1, 2, i * step, 1));
        assert_bytes(place(1), (int)i, SLICE);
        assert_ok(unmap(1, 1));
        assert_ok(vmm->ops->destroy(vmm, i * step, 1));
    }
}

static void test_fresh_memory_is_wiped_once(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 0, 4));
    assert_ok(map(0, 1, 1, 1));
    assert_bytes(place(0), 0, SLICE);
    memset((void *)place(0), 'x', SLICE);
    uint64_t before = standin_calls("cuMemsetD8Async");
    assert_ok(map(4, 1, 0, 4)); // chunk 1 is in use: one memset in front of it and one behind
    assert_int_equal(standin_calls("cuMemsetD8Async") - before, 2);
    assert_bytes(place(4), 0, SLICE);
    assert_bytes(place(5), 'x', SLICE);
    assert_bytes(place(6), 0, 2 * SLICE);
    assert_ok(unmap(0, 1));
    assert_ok(unmap(4, 4));
    assert_ok(map(4, 1, 0, 4));
    assert_int_equal(standin_calls("cuMemsetD8Async") - before, 2);
    assert_ok(unmap(4, 4));
    assert_ok(vmm->ops->destroy(vmm, 0, 4));
}

static void test_bytes_belong_to_chunk_and_slice(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, FAR, 2));
    for (int s = 0; s < N_SLICE; s++) {
        assert_ok(map(2 * s, (uint32_t)s, FAR, 2));
        memset((void *)place(2 * s), 'a' + s, SLICE);
        memset((void *)place(2 * s + 1), 'A' + s, SLICE);
    }
    assert_int_equal(n_mapping(), 2 * N_SLICE);
    assert_ok(unmap(0, 2 * N_SLICE));
    assert_int_equal(n_mapping(), 0);
    for (int s = 0; s < N_SLICE; s++) { // the other way round
        assert_ok(map(8, (uint32_t)s, FAR + 1, 1));
        assert_ok(map(9, (uint32_t)s, FAR, 1));
        assert_bytes(place(8), 'A' + s, SLICE);
        assert_bytes(place(9), 'a' + s, SLICE);
        assert_ok(unmap(8, 2));
    }
    assert_ok(vmm->ops->destroy(vmm, FAR, 2));
}

static void test_an_alias_shows_the_same_bytes(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 7, 2));
    assert_ok(map(0, 0, 7, 2));
    memset((void *)place(1), 'k', SLICE);
    assert_ok(vmm->ops->map(vmm, place(10), 0, 8, 1, VT_VMM_ALIAS));
    assert_bytes(place(10), 'k', SLICE);
    memset((void *)place(10), 'l', 100);
    assert_bytes(place(1), 'l', 100);
    assert_ok(unmap(0, 2));
    assert_bytes(place(10), 'l', 100);
    assert_ok(unmap(10, 1));
    assert_ok(vmm->ops->destroy(vmm, 7, 2));
}

static void test_access_is_set_once_for_a_run(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 0, 8));
    assert_ok(map(3, 0, 0, 8));
    assert_int_equal(standin_calls("cuMemMap"), 8);
    assert_int_equal(standin_calls("cuMemSetAccess"), 1);
    assert_ok(unmap(3, 8));
    assert_int_equal(standin_calls("cuMemUnmap"), 1);
    assert_int_equal(standin_calls("cuCtxPushCurrent_v2"), 0); // it is current already
    assert_ok(vmm->ops->destroy(vmm, 0, 8));
}

static void test_what_is_not_mapped_faults(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_false(is_readable(place(0)));
    assert_ok(map(0, 0, 0, 2));
    assert_true(is_readable(place(1)));
    assert_false(is_readable(place(2)));
    assert_ok(unmap(1, 1));
    assert_true(is_readable(place(0)));
    assert_false(is_readable(place(1)));
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

static void test_fetch_reads_what_is_mapped_nowhere(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 0, 3));
    assert_ok(map(0, 1, 0, 1));
    memset((void *)place(0), 's', SLICE);
    assert_ok(unmap(0, 1));
    assert_ok(map(5, 1, 1, 1));
    assert_ok(vmm->ops->fetch(vmm, place(5) + 7, 1, 0, 3, 1001));
    assert_bytes(place(5), 0, 7);
    assert_bytes(place(5) + 7, 's', 1001);
    assert_bytes(place(5) + 1008, 0, SLICE - 1008);
    assert_ok(vmm->ops->fetch(vmm, place(5), 2, 2, 0, SLICE)); // a chunk that was never mapped
    assert_bytes(place(5), 0, SLICE);
    assert_int_equal(n_mapping(), 1);
    assert_int_equal(standin_look().n_mapping, 1);
    assert_ok(unmap(5, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 3));
}

static void test_store_reaches_what_is_mapped_nowhere(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 0, 3));
    assert_ok(map(0, 1, 0, 1));
    memset((void *)place(0), 's', SLICE);
    standin_launch(NULL, place(0), 't', SLICE); // what a kernel writes is waited for
    standin_end_kernels(NULL, 1);
    assert_ok(vmm->ops->store(vmm, 2, 2, 7, place(0) + 1, 1001));
    assert_ok(map(5, 2, 2, 1));
    assert_bytes(place(5), 0, 7);
    assert_bytes(place(5) + 7, 't', 1001);
    assert_bytes(place(5) + 1008, 0, SLICE - 1008);
    assert_ok(unmap(5, 1));
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 3));
}

static void test_zero_takes_any_range(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_ok(map(0, 0, 0, 2));
    memset((void *)place(0), 'z', 2 * SLICE);
    assert_ok(vmm->ops->zero(vmm, place(1) - 5, 11));
    assert_bytes(place(0), 'z', SLICE - 5);
    assert_bytes(place(1) - 5, 0, 11);
    assert_bytes(place(1) + 6, 'z', SLICE - 6);
    assert_ok(unmap(0, 2));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

static vt_status fetch_first(void)
{
    return vmm->ops->fetch(vmm, place(4), 0, 0, 0, SLICE);
}

static vt_status swap_out_first(void)
{
    uint64_t sum;
    return vmm->ops->swap_write(vmm, 0, place(0), SLICE, &sum);
}

static vt_status map_third(void)
{
    return map(8, 0, 2, 1);
}

// A kernel still writes the source when fetch and swap_write are called.
static void test_copies_wait_for_the_kernels(void **state)
{
    (void)state;
    errand e;
    uint64_t sum;
    assert_ok(vmm->ops->create(vmm, 0, 3));
    assert_ok(vmm->ops->swap_open(vmm, NULL, SLICE));
    assert_ok(map(0, 0, 0, 1));
    assert_ok(map(4, 0, 1, 1));
    standin_launch(NULL, place(0), 'n', SLICE);
    send(&e, fetch_first);
    standin_await_waiter();
    standin_end_kernels(NULL, 1);
    meet(&e);
    assert_bytes(place(4), 'n', SLICE);
    standin_launch(NULL, place(0), 'm', SLICE);
    send(&e, swap_out_first);
    standin_await_waiter();
    standin_end_kernels(NULL, 1);
    meet(&e);
    assert_ok(vmm->ops->swap_read(vmm, place(4), 0, SLICE, &sum));
    assert_bytes(place(4), 'm', SLICE);
    assert_ok(unmap(0, 1));
    assert_ok(unmap(4, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 3));
}

// Mapping goes on, wiping included, while a step runs.
static void test_mapping_does_not_wait_for_kernels(void **state)
{
    (void)state;
    errand e;
    assert_ok(vmm->ops->create(vmm, 2, 1));
    standin_launch(NULL, 0, 0, 0);
    send(&e, map_third);
    meet(&e);
    assert_bytes(place(8), 0, SLICE);
    standin_end_kernels(NULL, 1);
    assert_ok(unmap(8, 1));
    assert_ok(vmm->ops->destroy(vmm, 2, 1));
}

// The context of another device is current; it is again afterwards.
static void test_a_foreign_context_comes_back(void **state)
{
    (void)state;
    standin_use_context(1);
    assert_ok(vmm->ops->create(vmm, 0, 1));
    assert_ok(map(0, 0, 0, 1));
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
    assert_int_equal(standin_context_depth(), 1);
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    uintptr_t addr;
    standin_limit_memory(4 * N_SLICE * SLICE + SLICE);
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_int_equal(vmm->ops->create(vmm, 2, 3), VT_NOSPACE);
    assert_int_equal(resident(), 2 * N_SLICE * SLICE);
    assert_int_equal(standin_look().memory_bytes, resident());
    assert_ok(vmm->ops->create(vmm, 2, 2));
    assert_ok(vmm->ops->destroy(vmm, 0, 4));
    standin_limit_addresses(0);
    assert_int_equal(vmm->ops->reserve(vmm, SLICE, &addr), VT_NOSPACE);
}

static void test_configure_may_find_no_addresses(void **state)
{
    (void)state;
    vt_vmm *first = vmm;
    vt_vmm_geometry geo = {.n_slice = 1, .slice_bytes = SLICE, .n_index = 8};
    assert_ok(open_vmm());
    standin_limit_addresses(0);
    assert_int_equal(vmm->ops->configure(vmm, &geo), VT_NOSPACE);
    vmm->ops->close(vmm);
    vmm = first;
}

static void test_a_fence_is_passed_when_its_work_is_done(void **state)
{
    (void)state;
    assert_true(passed(0, false));
    assert_true(passed(fence(), false)); // nothing was given
    standin_launch(NULL, 0, 0, 0);
    uint64_t first = fence();
    standin_launch(NULL, 0, 0, 0);
    uint64_t second = fence();
    assert_true(first < second);
    assert_false(passed(first, false));
    standin_end_kernels(NULL, 1);
    assert_false(passed(second, false));
    assert_true(passed(first, false));
    standin_end_kernels(NULL, 1);
    assert_true(passed(second, true));
    assert_true(passed(first, true));
}

static uint64_t awaited;

static vt_status await_ticket(void)
{
    bool is_passed = false;
    vt_status st = vmm->ops->passed(vmm, awaited, true, &is_passed);
    return st == VT_OK && !is_passed ? VT_EINVAL : st;
}

static void test_another_thread_sleeps_until_a_fence_is_passed(void **state)
{
    (void)state;
    errand e;
    standin_launch(NULL, 0, 0, 0);
    awaited = fence();
    standin_launch(NULL, 0, 0, 0);
    send(&e, await_ticket);
    standin_await_waiter();
    standin_end_kernels(NULL, 1);
    meet(&e);
    assert_false(passed(fence(), false));
    standin_end_kernels(NULL, 1);
}

// More fences than there are slots: an old one is answered for by the oldest that is left.
static void test_old_fences_are_not_forgotten(void **state)
{
    (void)state;
    enum { N = 200 };
    uint64_t ticket[N];
    for (int i = 0; i < N; i++) {
        standin_launch(NULL, 0, 0, 0);
        ticket[i] = fence();
    }
    assert_true(standin_look().n_event < N);
    assert_false(passed(ticket[0], false));
    standin_end_kernels(NULL, N - 1);
    assert_true(passed(ticket[0], false));
    assert_true(passed(ticket[N - 2], false));
    assert_false(passed(ticket[N - 1], false));
    standin_end_kernels(NULL, 1);
    assert_true(passed(ticket[N - 1], false));
}

static void test_a_fence_without_an_event_is_safe(void **state)
{
    (void)state;
    const char *const needed[] = {"cuEventCreate", "cuEventRecord"};
    for (int i = 0; i < 2; i++) {
        standin_launch(NULL, 0, 0, 0);
        standin_fail(needed[i], 0, 1, STANDIN_UNKNOWN);
        uint64_t lame = fence();
        assert_int_equal(standin_fired(), 1);
        assert_false(passed(lame, false)); // the whole stream answers
        standin_launch(NULL, 0, 0, 0);
        uint64_t sound = fence();
        standin_end_kernels(NULL, 1);
        assert_false(passed(lame, false)); // it cannot be told from the one behind it
        standin_end_kernels(NULL, 1);
        assert_true(passed(lame, i == 0));
        assert_true(passed(sound, false));
    }
    standin_launch(NULL, 0, 0, 0);
    standin_fail("cuEventRecord", 0, 1, STANDIN_UNKNOWN);
    awaited = fence();
    errand e;
    send(&e, await_ticket);
    standin_await_waiter();
    standin_end_kernels(NULL, 1);
    meet(&e);
    bool is_passed = false;
    standin_fail("cuEventQuery", 0, 1, STANDIN_UNKNOWN);
    assert_int_equal(vmm->ops->passed(vmm, fence(), false, &is_passed), VT_EDEVICE);
    assert_false(is_passed);
}

// Ranges of the swap over many pieces, in another order than they were written.
static void test_the_swap_gives_back_what_it_took(void **state)
{
    (void)state;
    enum { N = 20 };
    uint64_t out[3], in;
    const size_t bytes = N * SLICE; // 2.5 MiB; a piece is 4 MiB
    assert_ok(vmm->ops->create(vmm, 0, N));
    assert_ok(map(0, 0, 0, N));
    assert_ok(vmm->ops->swap_open(vmm, NULL, 3 * bytes));
    assert_int_equal(standin_look().n_pinned, 0);
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; k < bytes; k++) ((unsigned char *)base)[k] = (unsigned char)(k * 7 >> i);
        assert_ok(vmm->ops->swap_write(vmm, (size_t)i * bytes, base, bytes, &out[i]));
    }
    assert_int_equal(standin_look().n_pinned, 2);
    assert_true(out[0] != out[1] && out[1] != out[2]);
    for (int i = 2; i >= 0; i--) {
        memset((void *)base, 1, bytes);
        assert_ok(vmm->ops->swap_read(vmm, base, (size_t)i * bytes, bytes, &in));
        assert_true(in == out[i] && in == vt_vmm_checksum(0, (const void *)base, bytes));
        assert_int_equal(((unsigned char *)base)[bytes - 1], (unsigned char)((bytes - 1) * 7 >> i));
    }
    vmm->ops->swap_drop(vmm, 0, bytes);
    assert_int_equal(standin_look().n_pinned, 2);
    assert_int_equal(vmm->ops->swap_read(vmm, base, 0, bytes, &in), VT_EDEVICE); // gone
    vmm->ops->swap_drop(vmm, bytes, bytes);
    assert_int_equal(standin_look().n_pinned, 1);
    vmm->ops->swap_drop(vmm, 2 * bytes, bytes);
    assert_int_equal(standin_look().n_pinned, 0);
    assert_ok(unmap(0, N));
    assert_ok(vmm->ops->destroy(vmm, 0, N));
}

// Two neighbours that end within a granule: one goes, the other stays.
static void test_a_swapped_range_may_end_anywhere(void **state)
{
    (void)state;
    uint64_t out[2], in;
    const size_t gran = STANDIN_GRANULARITY;
    assert_ok(vmm->ops->create(vmm, 0, 1));
    assert_ok(map(0, 0, 0, 1));
    assert_ok(vmm->ops->swap_open(vmm, NULL, 2 * SLICE));
    for (int i = 0; i < 2; i++) {
        memset((void *)base, 'p' + i, SLICE);
        assert_ok(vmm->ops->swap_write(vmm, (size_t)i * 2 * gran, base, gran + 13, &out[i]));
    }
    vmm->ops->swap_drop(vmm, 0, gran + 13);
    assert_int_equal(standin_look().n_pinned, 1);
    memset((void *)base, 1, SLICE);
    assert_ok(vmm->ops->swap_read(vmm, base, 2 * gran, gran + 13, &in));
    assert_true(in == out[1]);
    assert_bytes(base, 'q', gran + 13);
    assert_bytes(base + gran + 13, 1, gran - 13);
    vmm->ops->swap_drop(vmm, 2 * gran, gran + 13);
    assert_int_equal(standin_look().n_pinned, 0);
    assert_ok(vmm->ops->swap_write(vmm, 0, base, 5, &out[0]));
    assert_ok(vmm->ops->swap_write(vmm, gran, base, gran, &out[1]));
    vmm->ops->swap_drop(vmm, gran, gran);
    assert_ok(vmm->ops->swap_read(vmm, base, 0, 5, &in));
    assert_true(in == out[0]);
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
}

static void test_a_bit_that_turns_in_the_swap_is_seen(void **state)
{
    (void)state;
    uint64_t out, in, n_byte;
    assert_ok(vmm->ops->create(vmm, 0, 1));
    assert_ok(map(0, 0, 0, 1));
    assert_ok(vmm->ops->swap_open(vmm, NULL, SLICE));
    assert_ok(vmm->ops->swap_write(vmm, 0, base, SLICE, &out));
    unsigned char *bytes = standin_pinned(&n_byte);
    assert_true(n_byte >= SLICE);
    bytes[SLICE / 2] ^= 4;
    assert_ok(vmm->ops->swap_read(vmm, base, 0, SLICE, &in));
    assert_true(in != out);
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
}

static void test_pinned_memory_runs_out(void **state)
{
    (void)state;
    enum { N = 20 };
    uint64_t sum;
    assert_ok(vmm->ops->create(vmm, 0, N));
    assert_ok(map(0, 0, 0, N));
    assert_ok(vmm->ops->swap_open(vmm, NULL, 4 * N * SLICE));
    standin_limit_pinned(6 << 20); // one piece and a half
    assert_ok(vmm->ops->swap_write(vmm, 0, base, N * SLICE, &sum));
    assert_int_equal(vmm->ops->swap_write(vmm, N * SLICE, base, N * SLICE, &sum), VT_NOSPACE);
    assert_int_equal(standin_look().n_pinned, 1);
    vmm->ops->swap_drop(vmm, 0, N * SLICE);
    assert_int_equal(vmm->ops->swap_write(vmm, N * SLICE, base, N * SLICE, &sum), VT_NOSPACE);
    assert_int_equal(standin_look().n_pinned, 0); // what it had got is given back
    assert_ok(unmap(0, N));
    assert_ok(vmm->ops->destroy(vmm, 0, N));
}

static void test_close_takes_what_is_left(void **state)
{
    (void)state;
    vt_vmm *first = vmm;
    vt_vmm_geometry geo = {.n_slice = 2, .slice_bytes = SLICE, .n_index = 100};
    assert_ok(open_vmm());
    assert_ok(vmm->ops->configure(vmm, &geo));
    assert_ok(vmm->ops->create(vmm, 90, 10));
    assert_ok(map(0, 0, 90, 1));
    assert_ok(vmm->ops->swap_open(vmm, NULL, SLICE));
    assert_ok(swap_out_first());
    (void)fence();
    assert_ok(unmap(0, 1));
    vmm->ops->close(vmm);
    vmm = first;
    standin_report r = standin_look();
    assert_int_equal(r.n_handle + r.n_pinned + r.n_event, 0);
    assert_int_equal(r.n_stream, 1);
    assert_int_equal(r.n_reservation, 2); // the window and `base` of the first
}

enum { N_ROUND = 60 };

// Half of the chunks and places belongs to each of two threads.
static vt_status work_on_half(int half)
{
    int at = half * N_PLACE / 2;
    uint64_t index = half ? FAR : 0;
    vt_status st = VT_OK;
    for (int i = 0; i < N_ROUND && st == VT_OK; i++) {
        st = vmm->ops->create(vmm, index, 2);
        if (st == VT_OK) st = map(at, 0, index, 2);
        if (st == VT_OK) st = vmm->ops->zero(vmm, place(at), 99);
        if (st == VT_OK) memset((void *)place(at), i, SLICE);
        if (st == VT_OK) st = vmm->ops->fetch(vmm, place(at + 1), 0, index, 0, SLICE);
        if (st == VT_OK && memcmp((void *)place(at), (void *)place(at + 1), SLICE) != 0)
            st = VT_EINVAL;
        if (st == VT_OK) st = unmap(at, 2);
        if (st == VT_OK) st = vmm->ops->destroy(vmm, index, 2);
    }
    return st;
}

static vt_status work_on_far_half(void)
{
    vt_status st = work_on_half(1);
    bool is_passed = false;
    if (st == VT_OK) st = vmm->ops->passed(vmm, awaited, true, &is_passed);
    return is_passed ? st : VT_EINVAL;
}

static void test_two_threads_work_at_once(void **state)
{
    (void)state;
    errand e;
    awaited = fence();
    send(&e, work_on_far_half);
    assert_ok(work_on_half(0));
    for (int i = 0; i < 100; i++) assert_true(passed(fence(), true));
    meet(&e);
    assert_int_equal(resident() + n_mapping(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STANDIN(test_tells_what_it_is),
        ON_STANDIN(test_memory_comes_and_goes),
        ON_STANDIN(test_many_chunks_are_found_again),
        ON_STANDIN(test_fresh_memory_is_wiped_once),
        ON_STANDIN(test_bytes_belong_to_chunk_and_slice),
        ON_STANDIN(test_an_alias_shows_the_same_bytes),
        ON_STANDIN(test_access_is_set_once_for_a_run),
        ON_STANDIN(test_what_is_not_mapped_faults),
        ON_STANDIN(test_fetch_reads_what_is_mapped_nowhere),
        ON_STANDIN(test_store_reaches_what_is_mapped_nowhere),
        ON_STANDIN(test_zero_takes_any_range),
        ON_STANDIN(test_copies_wait_for_the_kernels),
        ON_STANDIN(test_mapping_does_not_wait_for_kernels),
        ON_STANDIN(test_a_foreign_context_comes_back),
        ON_STANDIN(test_memory_runs_out),
        ON_STANDIN(test_configure_may_find_no_addresses),
        ON_STANDIN(test_a_fence_is_passed_when_its_work_is_done),
        ON_STANDIN(test_another_thread_sleeps_until_a_fence_is_passed),
        ON_STANDIN(test_old_fences_are_not_forgotten),
        ON_STANDIN(test_a_fence_without_an_event_is_safe),
        ON_STANDIN(test_the_swap_gives_back_what_it_took),
        ON_STANDIN(test_a_swapped_range_may_end_anywhere),
        ON_STANDIN(test_a_bit_that_turns_in_the_swap_is_seen),
        ON_STANDIN(test_pinned_memory_runs_out),
        ON_STANDIN(test_close_takes_what_is_left),
        ON_STANDIN(test_two_threads_work_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
