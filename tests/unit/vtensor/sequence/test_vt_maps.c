// test_vt_maps.c - a manager on the host compared with the system's list of mappings: how many
// there are, where reading faults, and what happens at the limit.
#include "assert_vt.h"
#include "suite.h"

#include <sys/mman.h>

#include "maps.h"
#include "world.h"

enum { PAGE = 4096, N_SEQ = 32, N_PLANE = 6 };

#ifdef __SANITIZE_THREAD__
enum { HAS_SHADOW = true }; // ThreadSanitizer maps for itself what it sees mapped
#else
enum { HAS_SHADOW = false };
#endif

static world w;

static void open_on_host(vt_layout layout)
{
    world_setup setup = {.host = true,
                         .layout = layout,
                         .n_plane = N_PLANE,
                         .row_bytes = 192,
                         .max_tok = 500,
                         .max_seq = N_SEQ,
                         .spare_chunks = UINT64_MAX};
    world_open(&w, &setup, 3);
}

// Chunk by chunk, in turn: the worst case for a pool that knows no neighbours.
static void grow_interleaved(uint64_t n_view)
{
    for (uint32_t i = 0; i < N_SEQ; i++) assert_ok(world_create(&w, i));
    for (uint32_t len_tok = 20; len_tok <= 500; len_tok += 20) {
        for (uint32_t i = 0; i < N_SEQ; i++) assert_ok(world_extend(&w, i, len_tok));
        assert_int_equal(world_stats(&w).mappings, N_SEQ * n_view);
    }
    assert_int_equal(maps_of_memfd(), N_SEQ * n_view);
    world_verify(&w);
}

static void test_growing_sequences_cost_a_run_a_plane(void **state)
{
    (void)state;
    open_on_host(VT_LAYOUT_SPLIT);
    uint64_t before = maps_in_all();
    grow_interleaved(N_PLANE);
    // A run and the reserved addresses behind it; the guard before it all; the reference's memory.
    uint64_t most = before + 2 * N_SEQ * N_PLANE + N_SEQ + N_SEQ + 64, now = maps_in_all();
    world_close(&w);
    if (!HAS_SHADOW) assert_true(now <= most);
    assert_int_equal(maps_of_memfd(), 0);
}

static void test_packed_sequences_cost_one_run(void **state)
{
    (void)state;
    open_on_host(VT_LAYOUT_PACKED);
    grow_interleaved(1);
    world_close(&w);
}

static void test_recycled_spans_cost_no_more(void **state)
{
    (void)state;
    open_on_host(VT_LAYOUT_SPLIT);
    for (int round = 0; round < 40; round++) {
        uint32_t which = (uint32_t)world_draw(&w, N_SEQ);
        if (w.seq[which].s) world_release(&w, which);
        assert_ok(world_create(&w, which));
        assert_ok(world_extend(&w, which, (uint32_t)world_draw(&w, 500)));
        if (round % 8 == 0) assert_ok(vt_trim(w.m, 0, NULL));
    }
    assert_int_equal(maps_of_memfd(), world_stats(&w).mappings);
    world_verify(&w);
    world_close(&w);
}

static void test_reading_beyond_what_is_backed_faults(void **state)
{
    (void)state;
    open_on_host(VT_LAYOUT_SPLIT);
    assert_ok(world_create(&w, 0));
    assert_ok(world_create(&w, 1));
    assert_ok(world_extend(&w, 0, 100)); // 100 x 192 bytes lie in three slices of two pages
    assert_ok(world_extend(&w, 1, 500)); // the whole span, to the guard
    for (uint32_t p = 0; p < N_PLANE; p++) {
        const char *a = vt_seq_plane(w.seq[0].s, p), *b = vt_seq_plane(w.seq[1].s, p);
        assert_false(read_faults(a + 6 * PAGE - 1));
        assert_true(read_faults(a + 6 * PAGE));
        assert_true(read_faults(a - 1)); // token -1
        assert_false(read_faults(b + 24 * PAGE - 1));
        assert_true(read_faults(b + 24 * PAGE));
    }
    world_close(&w);
}

static void read_all(const vt_seq *s, uint32_t n_plane)
{
    static volatile char sum;
    for (uint32_t p = 0; p < n_plane; p++) {
        const char *at = vt_seq_plane(s, p);
        for (size_t i = 0; i < vt_seq_len(s) * vt_seq_stride(s); i += PAGE) sum += at[i];
    }
}

// Rss counts a page once for each mapping, Pss its share in each: all of them make the page.
static void test_shared_memory_is_there_once(void **state)
{
    (void)state;
    enum { N_FORK = 3, WHOLE = 384 }; // tokens that fill nine chunks to the end
    vt_seq *child[N_FORK];
    open_on_host(VT_LAYOUT_SPLIT);
    assert_ok(world_create(&w, 0));
    assert_ok(world_extend(&w, 0, WHOLE));
    uint64_t size_bytes = world_stats(&w).mapped_bytes;
    assert_int_equal(smaps_of_memfd("\nSize:"), size_bytes);
    assert_int_equal(smaps_of_memfd("\nRss:"), size_bytes);
    for (int i = 0; i < N_FORK; i++) {
        assert_ok(vt_seq_fork(w.seq[0].s, WHOLE, &child[i]));
        read_all(child[i], N_PLANE);
    }
    assert_int_equal(world_stats(&w).mapped_bytes, size_bytes);
    assert_int_equal(smaps_of_memfd("\nRss:"), (1 + N_FORK) * size_bytes);
    uint64_t rounded_off = 1024 * maps_of_memfd();
    assert_in_range(smaps_of_memfd("\nPss:"), size_bytes - rounded_off, size_bytes);
    assert_int_equal(read_only_maps_of_memfd(), (1 + N_FORK) * N_PLANE); // the parent's too
    for (int i = 0; i < N_FORK; i++) vt_seq_release(child[i]);
    assert_ok(vt_step(w.m, VT_AHEAD_NONE, 0, 0));
    assert_int_equal(smaps_of_memfd("\nRss:"), size_bytes);
    world_close(&w);
}

// Takes mappings until the system has no more. Nothing else may need one until they are given back.
static size_t use_up_mappings(char *at, size_t n_page)
{
    size_t n = 0;
    for (; n < n_page; n += 2)
        if (mprotect(at + n * PAGE, PAGE, PROT_READ) != 0) break;
    return n;
}

static vt_status extend_with_no_mapping_left(uint32_t which, uint32_t len_tok)
{
    size_t n_page = 4 * max_map_count();
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *at = mmap(NULL, n_page * PAGE, PROT_NONE, flags, -1, 0);
    assert_true(at != MAP_FAILED);
    size_t used = use_up_mappings(at, n_page);
    vt_status st = vt_seq_extend(w.seq[which].s, len_tok);
    munmap(at, n_page * PAGE);
    assert_true(used < n_page);
    return st;
}

// The system's own limit, below the one that the backend keeps to.
static void test_without_mappings_left_the_answer_says_so(void **state)
{
    (void)state;
    if (HAS_SHADOW || max_map_count() > 1 << 18) skip();
    open_on_host(VT_LAYOUT_SPLIT);
    for (uint32_t i = 0; i < 3; i++) assert_ok(world_create(&w, i));
    assert_ok(world_extend(&w, 0, 100));
    world_write(&w, 0);
    assert_status(VT_NOMAPS, extend_with_no_mapping_left(1, 50));
    world_verify(&w);
    assert_ok(world_extend(&w, 1, 50));
    world_verify(&w);
    world_close(&w);
}

FX_SUITE(test_vt_maps)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growing_sequences_cost_a_run_a_plane),
        cmocka_unit_test(test_packed_sequences_cost_one_run),
        cmocka_unit_test(test_recycled_spans_cost_no_more),
        cmocka_unit_test(test_reading_beyond_what_is_backed_faults),
        cmocka_unit_test(test_shared_memory_is_there_once),
        cmocka_unit_test(test_without_mappings_left_the_answer_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
