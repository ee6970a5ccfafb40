// test_vt_checksum.c - the checksum of the swap: its definition, and what it must find.
#include "assert_vt.h"
#include "suite.h"

#include <string.h>

#include "vtensor/vmm.h"

enum { SIZE = 4096 + 8 };

static uint8_t bytes[SIZE];

VT_FIXTURE(setup)
{
    for (size_t i = 0; i < SIZE; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 11);
}

static uint64_t spread(uint64_t word)
{
    uint64_t x = (word + 0x2545f4914f6cdd1d) * 0xd6e8feb86659fd93;
    return x ^ (x >> 32);
}

// As the comment of common.c defines it, byte by byte.
static uint64_t by_definition(const uint8_t *p, size_t size_bytes)
{
    uint64_t sum = 0, word = 0;
    for (size_t i = 0; i < size_bytes; i++) {
        word |= (uint64_t)p[i] << 8 * (i % 8);
        if (i % 8 < 7 && i + 1 < size_bytes) continue;
        sum = sum * 0x9e3779b97f4a7c1b + spread(word);
        word = 0;
    }
    return size_bytes % 8 == 0 ? sum : sum * 0x9e3779b97f4a7c1b + spread(size_bytes % 8);
}

FX_TEST(test_it_is_what_it_is_defined_to_be)
{
    for (size_t n = 0; n < 200; n++)
        for (size_t from = 0; from < 3; from++)
            assert_int_equal(vt_vmm_checksum(0, bytes + from, n), by_definition(bytes + from, n));
    assert_true(vt_vmm_checksum(0, "12345678", 8) == 0xd685ace1fca3732b);
}

FX_TEST(test_pieces_make_no_difference)
{
    uint64_t whole = vt_vmm_checksum(0, bytes, SIZE - 3);
    for (size_t a = 0; a <= 128; a += 8)
        for (size_t b = 0; b <= 128; b += 8) {
            uint64_t sum = vt_vmm_checksum(0, bytes, a);
            sum = vt_vmm_checksum(sum, bytes + a, b);
            assert_int_equal(vt_vmm_checksum(sum, bytes + a + b, SIZE - 3 - a - b), whole);
        }
}

FX_TEST(test_every_single_bit_counts)
{
    uint64_t sum = vt_vmm_checksum(0, bytes, SIZE - 5);
    for (size_t i = 0; i < 8 * (SIZE - 5); i++) {
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_int_not_equal(vt_vmm_checksum(0, bytes, SIZE - 5), sum);
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

FX_TEST(test_every_byte_and_its_values_count)
{
    uint64_t sum = vt_vmm_checksum(0, bytes, 71);
    for (size_t i = 0; i < 71; i++)
        for (int more = 1; more < 256; more++) {
            bytes[i] = (uint8_t)(bytes[i] + more);
            assert_int_not_equal(vt_vmm_checksum(0, bytes, 71), sum);
            bytes[i] = (uint8_t)(bytes[i] - more);
        }
}

FX_TEST(test_the_order_of_words_counts)
{
    uint64_t sum = vt_vmm_checksum(0, bytes, SIZE), a, b;
    for (size_t i = 0; i < SIZE; i += 8)
        for (size_t k = i + 8; k < SIZE; k += 40) {
            memcpy(&a, bytes + i, 8);
            memcpy(&b, bytes + k, 8);
            memcpy(bytes + i, &b, 8);
            memcpy(bytes + k, &a, 8);
            assert_true(a == b || vt_vmm_checksum(0, bytes, SIZE) != sum);
            memcpy(bytes + i, &a, 8);
            memcpy(bytes + k, &b, 8);
        }
}

FX_TEST(test_zeros_and_lengths_count)
{
    static const uint8_t zero[256];
    uint64_t seen[256];
    for (size_t n = 0; n < 256; n++) {
        seen[n] = vt_vmm_checksum(0, zero, n);
        for (size_t k = 0; k < n; k++) assert_int_not_equal(seen[k], seen[n]);
    }
}

FX_RUN_EACH(test_vt_checksum, setup, NULL)
