// test_rng.c - known answers of Philox 4x32-10 as published with Random123 (kat_vectors), and that
// a draw depends on nothing else.

#include "base/number/rng.h"
#include "unit/cmocka_all.h"

FX_TEST(test_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof kat / sizeof kat[0]; i++) {
        uint32_t out[4];
        fxi_philox(kat[i].key, kat[i].counter, out);
        assert_memory_equal(out, kat[i].out, sizeof out);
    }
}

FX_TEST(test_every_argument_counts)
{
    uint64_t base = fxi_rng_u64(1, 2, 3);
    assert_int_equal(base, fxi_rng_u64(1, 2, 3));
    for (int bit = 0; bit < 64; bit++) {
        uint64_t flip = (uint64_t)1 << bit;
        assert_int_not_equal(base, fxi_rng_u64(1 ^ flip, 2, 3));
        assert_int_not_equal(base, fxi_rng_u64(1, 2 ^ flip, 3));
        assert_int_not_equal(base, fxi_rng_u64(1, 2, 3 ^ flip));
    }
}

FX_TEST(test_unit_is_uniform)
{
    enum { N = 100000, BINS = 10 };
    int bin[BINS] = {0};
    for (int i = 0; i < N; i++) {
        double u = fxi_rng_unit(7, 1, (uint64_t)i);
        assert_true(u >= 0 && u < 1);
        bin[(int)(u * BINS)]++;
    }
    for (int b = 0; b < BINS; b++) assert_in_range(bin[b], 9600, 10400); // 4 sigma is 380
}

FX_RUN(test_rng)
