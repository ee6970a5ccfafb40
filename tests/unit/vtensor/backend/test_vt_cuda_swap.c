// test_vt_cuda_swap.c - the swap of the GPU backend on the stand-in for NVIDIA's driver: through a
// ring of two pinned buffers, to ordinary memory and back.
//
// The linker sends mmap of the library here, to find that memory and to refuse it. (The stand-in's
// own calls go to the system, but the linker wants to see the symbol because of them.)
//
// The long range has seven pieces, the last not full: three rounds of the ring and a half. With
// FX_TEST_LONG 41.
#include <sys/mman.h>

#include "cuda_rig.h"
#include "suite.h"

static unsigned char *swap_bytes; // what the library mapped last
static bool no_memory;

void *__real_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset);
__attribute__((visibility("default"))) void *__wrap_mmap(void *addr, size_t length, int prot,
                                                         int flags, int fd, off_t offset);

void *__wrap_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
    if (no_memory) return MAP_FAILED;
    void *bytes = __real_mmap(addr, length, prot, flags, fd, offset);
    swap_bytes = bytes;
    return bytes;
}

// A range of the device that is moved in many pieces; the swap is twice as long.
#define STAGE  ((size_t)512 << 10)
#define N_LONG ((uint64_t)(suite_is_long() ? 108 : 18))
#define LONG   (N_LONG * WIDE)

static uintptr_t long_at;

VT_FIXTURE(long_setup)
{
    rig_setup_run();
    assert_ok(vmm->ops->reserve(vmm, LONG, &long_at));
    assert_ok(vmm->ops->create(vmm, BROAD, N_LONG));
    assert_ok(vmm->ops->map(vmm, long_at, 0, BROAD, N_LONG, VT_VMM_WRITE));
    assert_ok(vmm->ops->swap_open(vmm, NULL, 2 * LONG));
}

VT_FIXTURE(long_teardown)
{
    standin_fail(NULL, 0, 0, 0);
    assert_ok(vmm->ops->unmap(vmm, long_at, LONG));
    assert_ok(vmm->ops->destroy(vmm, BROAD, N_LONG));
    assert_ok(vmm->ops->unreserve(vmm, long_at, LONG));
    rig_teardown_run();
}

// No two stages, and no two patterns, have the same bytes.
static void write_pattern(unsigned which)
{
    uint64_t *word = (uint64_t *)long_at, x = which + 1;
    for (size_t i = 0; i < LONG / sizeof *word; i++) {
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        word[i] = x;
    }
}

static uint64_t sum_of_device(void)
{
    return vt_vmm_checksum(0, (const void *)long_at, LONG);
}

static vt_status write_long(uint64_t *sum)
{
    return vmm->ops->swap_write(vmm, 0, long_at, LONG, sum);
}

static vt_status read_long(uint64_t *sum)
{
    return vmm->ops->swap_read(vmm, long_at, 0, LONG, sum);
}

FX_TEST_WITH(test_long_ranges_go_round_the_ring, long_setup, long_teardown)
{
    uint64_t out[2], in;
    for (unsigned i = 0; i < 2; i++) {
        write_pattern(i);
        assert_ok(vmm->ops->swap_write(vmm, i * LONG, long_at, LONG, &out[i]));
        assert_true(out[i] == sum_of_device());
        assert_true(out[i] == vt_vmm_checksum(0, swap_bytes + i * LONG, LONG));
    }
    assert_true(out[0] != out[1]);
    for (int i = 1; i >= 0; i--) {
        memset((void *)long_at, 1, LONG);
        assert_ok(vmm->ops->swap_read(vmm, long_at, (size_t)i * LONG, LONG, &in));
        assert_true(in == out[i] && sum_of_device() == out[i]);
    }
}

// However much is swapped, and however often.
FX_TEST_WITH(test_little_memory_is_pinned_and_only_once, long_setup, long_teardown)
{
    uint64_t sum;
    for (int i = 0; i < 3; i++) {
        assert_ok(write_long(&sum));
        assert_ok(read_long(&sum));
    }
    assert_int_equal(standin_look().n_pinned, 2);
    assert_int_equal(standin_look().pinned_bytes, 2 * STAGE);
    assert_int_equal(standin_calls("cuMemHostAlloc"), 2);
    vmm->ops->swap_drop(vmm, 0, LONG);
    assert_int_equal(standin_calls("cuMemFreeHost"), 0);
}

FX_TEST_WITH(test_a_small_swap_pins_no_more_than_twice_its_size, rig_setup, rig_teardown)
{
    assert_ok(vmm->ops->swap_open(vmm, NULL, SLICE));
    assert_int_equal(standin_look().pinned_bytes, 2 * SLICE);
}

// While one piece is worked on, the next is on its way: it was started before the first was waited
// for.
FX_TEST_WITH(test_transfers_overlap_with_the_work_of_the_host, long_setup, long_teardown)
{
    uint64_t sum;
    uint64_t copies = standin_calls("cuMemcpyDtoHAsync_v2");
    standin_fail("cuEventSynchronize", 0, 1, STANDIN_UNKNOWN);
    assert_int_equal(write_long(&sum), VT_EDEVICE);
    assert_int_equal(standin_calls("cuMemcpyDtoHAsync_v2") - copies, 2);
    copies = standin_calls("cuMemcpyHtoDAsync_v2");
    standin_fail("cuEventSynchronize", 0, 1, STANDIN_UNKNOWN);
    assert_int_equal(read_long(&sum), VT_EDEVICE);
    assert_int_equal(standin_calls("cuMemcpyHtoDAsync_v2") - copies, 2);
}

// Once each call of the driver has failed, and a second try has gone well.
static void fail_each_call(vt_status (*run)(uint64_t *), uint64_t good_sum, int result)
{
    bool fired = true;
    for (uint64_t i = 0; fired; i++) {
        uint64_t sum = 0;
        standin_fail(NULL, i, 1, result);
        vt_status st = run(&sum);
        fired = standin_fired() > 0;
        standin_fail(NULL, 0, 0, 0);
        assert_true(st == VT_OK || (fired && st == VT_EDEVICE));
        if (st != VT_OK) assert_ok(run(&sum));
        assert_true(sum == good_sum);
        assert_int_equal(standin_look().n_breach, 0);
    }
}

FX_TEST_WITH(test_every_call_of_a_long_move_may_fail, long_setup, long_teardown)
{
    write_pattern(7);
    uint64_t good_sum = sum_of_device();
    fail_each_call(write_long, good_sum, STANDIN_OUT_OF_MEMORY);
    memset((void *)long_at, 1, LONG);
    fail_each_call(read_long, good_sum, STANDIN_UNKNOWN);
    assert_true(sum_of_device() == good_sum);
}

// Two neighbours that end within a granule: one goes, the other stays.
FX_TEST_WITH(test_a_swapped_range_may_end_anywhere, rig_setup, rig_teardown)
{
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
    memset((void *)base, 1, SLICE);
    assert_ok(vmm->ops->swap_read(vmm, base, 2 * gran, gran + 13, &in));
    assert_true(in == out[1]);
    assert_bytes(base, 'q', gran + 13);
    assert_bytes(base + gran + 13, 1, gran - 13);
    assert_ok(vmm->ops->swap_read(vmm, base, 0, gran + 13, &in));
    assert_true(in != out[0]);
    assert_bytes(base, 0, gran + 13); // gone
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
}

static size_t pages_in_swap(size_t size_bytes)
{
    static unsigned char is_present[4096];
    const size_t page = 4096;
    size_t n = 0;
    assert_true(size_bytes / page <= sizeof is_present);
    assert_int_equal(mincore(swap_bytes, size_bytes, is_present), 0);
    for (size_t i = 0; i < size_bytes / page; i++) n += is_present[i] & 1;
    return n;
}

// Memory comes with what is written, and goes with what is dropped, also after a failure.
FX_TEST_WITH(test_what_is_dropped_returns_to_the_system, long_setup, long_teardown)
{
    uint64_t sum;
    assert_int_equal(pages_in_swap(STAGE), 0);
    assert_ok(vmm->ops->swap_write(vmm, SLICE, long_at, SLICE, &sum));
    assert_true(pages_in_swap(STAGE) >= SLICE / 4096);
    vmm->ops->swap_drop(vmm, SLICE, SLICE);
    assert_int_equal(pages_in_swap(STAGE), 0);
    standin_fail("cuStreamSynchronize", 0, 1, STANDIN_UNKNOWN);
    assert_int_equal(vmm->ops->swap_write(vmm, SLICE, long_at, SLICE, &sum), VT_EDEVICE);
    assert_int_equal(pages_in_swap(STAGE), 0);
}

FX_TEST_WITH(test_a_bit_that_turns_in_the_swap_is_seen, long_setup, long_teardown)
{
    uint64_t out, in;
    write_pattern(3);
    assert_ok(write_long(&out));
    swap_bytes[LONG / 2] ^= 4;
    assert_ok(read_long(&in));
    assert_true(in != out);
}

// The kernel that wrote what is swapped out has ended, and another runs elsewhere: both copies
// would wait for ever if they waited for it.
FX_TEST_WITH(test_swapping_waits_for_no_kernel, rig_setup, rig_teardown)
{
    uint64_t sum;
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_ok(vmm->ops->swap_open(vmm, NULL, SLICE));
    assert_ok(map(0, 0, 0, 1));
    assert_ok(map(4, 0, 1, 1));
    standin_launch(NULL, place(0), 'm', SLICE);
    standin_end_kernels(NULL, 1);
    standin_settle();
    standin_launch(NULL, 0, 0, 0);
    assert_ok(vmm->ops->swap_write(vmm, 0, place(0), SLICE, &sum));
    assert_ok(vmm->ops->swap_read(vmm, place(4), 0, SLICE, &sum));
    assert_bytes(place(4), 'm', SLICE);
    standin_end_kernels(NULL, 1);
    assert_ok(unmap(0, 1));
    assert_ok(unmap(4, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

FX_TEST_WITH(test_a_swap_may_find_no_memory, rig_setup, rig_teardown)
{
    standin_limit_pinned(STAGE);
    assert_int_equal(vmm->ops->swap_open(vmm, NULL, 2 * LONG), VT_NOSPACE);
    assert_int_equal(standin_look().n_pinned, 0);
    standin_limit_pinned(UINT64_MAX);
    no_memory = true;
    assert_int_equal(vmm->ops->swap_open(vmm, NULL, 2 * LONG), VT_NOSPACE);
    no_memory = false;
    assert_int_equal(standin_look().n_pinned, 0);
    assert_ok(vmm->ops->swap_open(vmm, NULL, SLICE));
}

FX_RUN(test_vt_cuda_swap)
