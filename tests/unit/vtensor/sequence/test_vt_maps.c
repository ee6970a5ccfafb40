// test_vt_maps.c - a manager on the host compared with the system's list of mappings: how many
// there are, where reading faults, and what happens at the limit.
#include "assert_vt.h"
#include "suite.h"

#include <sys/mman.h>

#include "family.h"
#include "maps.h"

enum { PAGE = 4096, N_SEQ = 32, N_PLANE = 6 };

#ifdef __SANITIZE_THREAD__
enum { HAS_SHADOW = true }; // ThreadSanitizer maps for itself what it sees mapped
#else
enum { HAS_SHADOW = false };
#endif

static family f;

static void open_on_host(vt_layout layout)
{
    family_setup setup = {.backend = ON_HOST,
                          .slice_pages = 2,
                          .layout = layout,
                          .n_plane = N_PLANE,
                          .row_bytes = 256,
                          .n_seq = N_SEQ,
                          .budget_chunks = UINT64_MAX,
                          .mapper = VT_MAPPER_OWNER,
                          .plain = true};
    family_open(&f, &setup, 3);
}

// Chunk by chunk, in turn: the worst case for a pool that knows no neighbours.
static void grow_interleaved(uint64_t n_view)
{
    for (uint32_t i = 0; i < N_SEQ; i++) assert_ok(family_create(&f, i, 0));
    for (uint32_t len_tok = 16; len_tok <= FAMILY_MAX_TOK; len_tok += 16) {
        for (uint32_t i = 0; i < N_SEQ; i++) assert_ok(family_extend(&f, i, len_tok));
        assert_int_equal(family_stats(&f).mappings, N_SEQ * n_view);
    }
    assert_int_equal(maps_of_memfd(), N_SEQ * n_view);
    family_verify(&f);
}

FX_TEST(test_growing_sequences_cost_a_run_a_plane)
{
    open_on_host(VT_LAYOUT_SPLIT);
    uint64_t before = maps_in_all();
    grow_interleaved(N_PLANE);
    // A run and the reserved addresses behind it; the guard before it all; the reference's memory.
    uint64_t most = before + 2 * N_SEQ * N_PLANE + N_SEQ + N_SEQ + 64, now = maps_in_all();
    family_close(&f);
    if (!HAS_SHADOW) assert_true(now <= most);
    assert_int_equal(maps_of_memfd(), 0);
}

FX_TEST(test_packed_sequences_cost_one_run)
{
    open_on_host(VT_LAYOUT_PACKED);
    grow_interleaved(1);
    family_close(&f);
}

FX_TEST(test_recycled_spans_cost_no_more)
{
    open_on_host(VT_LAYOUT_SPLIT);
    for (int round = 0; round < 40; round++) {
        uint32_t which = (uint32_t)family_draw(&f, N_SEQ);
        if (f.kin[which].s) family_release(&f, which);
        assert_ok(family_create(&f, which, 0));
        assert_ok(family_extend(&f, which, (uint32_t)family_draw(&f, FAMILY_MAX_TOK)));
        if (round % 8 == 0) assert_ok(vt_trim(f.m, 0, NULL));
    }
    assert_int_equal(maps_of_memfd(), family_stats(&f).mappings);
    family_verify(&f);
    family_close(&f);
}

FX_TEST(test_reading_beyond_what_is_backed_faults)
{
    open_on_host(VT_LAYOUT_SPLIT);
    assert_ok(family_create(&f, 0, 0));
    assert_ok(family_create(&f, 1, 0));
    assert_ok(family_extend(&f, 0, 80)); // 80 x 256 bytes lie in three slices of two pages
    assert_ok(family_extend(&f, 1, FAMILY_MAX_TOK)); // the whole span, to the guard
    for (uint32_t p = 0; p < N_PLANE; p++) {
        const char *a = vt_seq_plane(f.kin[0].s, p), *b = vt_seq_plane(f.kin[1].s, p);
        assert_false(read_faults(a + 6 * PAGE - 1));
        assert_true(read_faults(a + 6 * PAGE));
        assert_true(read_faults(a - 1)); // token -1
        assert_false(read_faults(b + 20 * PAGE - 1));
        assert_true(read_faults(b + 20 * PAGE));
    }
    family_close(&f);
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
FX_TEST(test_shared_memory_is_there_once)
{
    enum { N_FORK = 3, WHOLE = 288 }; // tokens that fill nine chunks to the end
    vt_seq *child[N_FORK];
    open_on_host(VT_LAYOUT_SPLIT);
    assert_ok(family_create(&f, 0, 0));
    assert_ok(family_extend(&f, 0, WHOLE));
    uint64_t size_bytes = family_stats(&f).mapped_bytes;
    assert_int_equal(smaps_of_memfd("\nSize:"), size_bytes);
    assert_int_equal(smaps_of_memfd("\nRss:"), size_bytes);
    for (int i = 0; i < N_FORK; i++) {
        assert_ok(vt_seq_fork(f.kin[0].s, WHOLE, &child[i]));
        read_all(child[i], N_PLANE);
    }
    assert_int_equal(family_stats(&f).mapped_bytes, size_bytes);
    assert_int_equal(smaps_of_memfd("\nRss:"), (1 + N_FORK) * size_bytes);
    uint64_t rounded_off = 1024 * maps_of_memfd();
    assert_in_range(smaps_of_memfd("\nPss:"), size_bytes - rounded_off, size_bytes);
    assert_int_equal(read_only_maps_of_memfd(), (1 + N_FORK) * N_PLANE); // the parent's too
    for (int i = 0; i < N_FORK; i++) vt_seq_release(child[i]);
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0));
    assert_int_equal(smaps_of_memfd("\nRss:"), size_bytes);
    family_close(&f);
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
    vt_status st = vt_seq_extend(f.kin[which].s, len_tok);
    munmap(at, n_page * PAGE);
    assert_true(used < n_page);
    return st;
}

// The system's own limit, below the one that the backend keeps to.
FX_TEST(test_without_mappings_left_the_answer_says_so)
{
    if (HAS_SHADOW || max_map_count() > 1 << 18) skip();
    open_on_host(VT_LAYOUT_SPLIT);
    for (uint32_t i = 0; i < 3; i++) assert_ok(family_create(&f, i, 0));
    assert_ok(family_extend(&f, 0, 100));
    assert_status(VT_NOMAPS, extend_with_no_mapping_left(1, 50));
    family_verify(&f);
    assert_ok(family_extend(&f, 1, 50));
    family_verify(&f);
    family_close(&f);
}

FX_RUN(test_vt_maps)
