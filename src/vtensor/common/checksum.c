// checksum.c - the checksum of the swap.
//
// The bytes are cut into words of 8, least significant byte first. Each word w changes the sum:
//
//   sum = sum x K + f(w)        f(w) = x ^ (x >> 32)  with  x = (w + C) x M        all modulo 2^64
//
// Bytes left over at the end count as two more words: the bytes padded with zeros, and their
// number. K, C and M are the constants below. K and M are odd and f is a bijection, so a change of
// one word, and so of one bit or byte, always changes the sum. Any other change keeps the sum with
// a chance of 2^-32 at worst (two words swapped 8 GiB apart), mostly far less. C makes zeros count,
// so that a file that lost its bytes and reads as zeros is found too.
//
// Only the sum is carried from piece to piece. Four steps are done as one,
//
//   sum = sum x K^4 + f(w0) x K^3 + f(w1) x K^2 + f(w2) x K + f(w3)
//
// in which only one product depends on the step before: 8 GB/s on a core, more than disks deliver.
#include <endian.h>
#include <string.h>

#include "vtensor/vmm.h"

// 3 modulo 8: the period of its powers is the longest possible.
#define K1 UINT64_C(0x9e3779b97f4a7c1b)
#define K2 (K1 * K1)
#define K3 (K2 * K1)
#define K4 (K2 * K2)
#define M  UINT64_C(0xd6e8feb86659fd93)
#define C  UINT64_C(0x2545f4914f6cdd1d)

static inline uint64_t scramble_word(uint64_t word)
{
    uint64_t x = (word + C) * M;
    return x ^ (x >> 32);
}

static inline uint64_t word_at(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return scramble_word(le64toh(word));
}

static uint64_t add_tail(uint64_t sum, const uint8_t *p, size_t n_byte)
{
    uint8_t padded[8] = {0};
    memcpy(padded, p, n_byte);
    return (sum * K1 + word_at(padded)) * K1 + scramble_word(n_byte);
}

uint64_t vt_vmm_checksum(uint64_t sum, const void *bytes, size_t size_bytes)
{
    const uint8_t *p = bytes;
    const uint8_t *end = p + size_bytes;
    for (; end - p >= 32; p += 32)
        sum = sum * K4 + (word_at(p) * K3 + word_at(p + 8) * K2) +
              (word_at(p + 16) * K1 + word_at(p + 24));
    for (; end - p >= 8; p += 8) sum = sum * K1 + word_at(p);
    return p == end ? sum : add_tail(sum, p, (size_t)(end - p));
}
