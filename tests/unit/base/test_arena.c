// test_arena.c - pieces of an arena do not overlap, begin on cache lines, and are freed together
// (the address sanitizer detects leaks).
#include <string.h>

#include "base/system/regions.h"
#include "unit/cmocka_all.h"

static void take_and_check(fxi_arena *a, uint64_t more_bytes)
{
    static const size_t sizes[] = {1, 64, 0, 65, 1000, 100000, 3 << 20, 7, 4 << 20, 63, 20000};
    enum { N = sizeof sizes / sizeof *sizes };
    unsigned char *p[N];
    for (int i = 0; i < N; i++) {
        p[i] = fxi_arena_take(a, sizes[i], more_bytes);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 64, 0);
        memset(p[i], i + 1, sizes[i]);
    }
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < sizes[i]; k += k + 997 < sizes[i] ? 997 : 1)
            assert_int_equal(p[i][k], i + 1);
}

FX_TEST(test_pieces_are_apart)
{
    static const uint64_t more[] = {0, 5000, 1 << 20, 20 << 20};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        fxi_arena a = {0};
        take_and_check(&a, more[i]);
        take_and_check(&a, 0);
        fxi_arena_free(&a);
        assert_null(a.slab);
        take_and_check(&a, more[i]);
        fxi_arena_free(&a);
    }
}

// If the estimate is right, all pieces are adjacent.
FX_TEST(test_one_slab)
{
    fxi_arena a = {0};
    char *first = fxi_arena_take(&a, 100, 1000 * 128);
    for (int i = 1; i <= 1000; i++) assert_ptr_equal(fxi_arena_take(&a, 100, 0), first + 128 * i);
    fxi_arena_free(&a);
    fxi_arena_free(&a);
}

// If memory is short of an estimate, the piece alone is allocated.
FX_TEST(test_sizes_out_of_this_world)
{
    fxi_arena a = {0};
    assert_null(fxi_arena_take(&a, SIZE_MAX, 0));
    assert_null(fxi_arena_take(&a, SIZE_MAX - 63, UINT64_MAX));
    void *p = fxi_arena_take(&a, 1000, UINT64_MAX);
    assert_non_null(p);
    memset(p, 1, 1000);
    fxi_arena_free(&a);
}

FX_RUN(test_arena)
