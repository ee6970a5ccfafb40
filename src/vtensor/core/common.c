// common.c - see common.h; and the checksum of the swap, vt_vmm_checksum of vmm.h.
#include "common.h"

#include <endian.h>
#include <string.h>

enum { DEFAULT_SLICE_TOK = 32 };

// ---- Counting calls, and comparing with the system

void vti_calls_add(vti_calls *to, const vti_calls *from)
{
    to->create_calls += from->create_calls;
    to->destroy_calls += from->destroy_calls;
    to->map_calls += from->map_calls;
    to->unmap_calls += from->unmap_calls;
    to->protect_calls += from->protect_calls;
    to->device_errors += from->device_errors;
}

vt_status vti_claim_check(vt_vmm *vmm, const vti_claim *claim, const char **broken)
{
    uint64_t resident_bytes, mapped_bytes, n_mapping;
    VT_TRY(vmm->ops->resident(vmm, &resident_bytes));
    VT_TRY(vmm->ops->mapped(vmm, &mapped_bytes, &n_mapping));
    bool merges = vmm->ops->max_runs(vmm) < UINT64_MAX; // else the system may split runs
    if (resident_bytes != claim->resident_bytes)
        *broken = "the system holds more or less memory than was created";
    else if (!claim->is_torn && mapped_bytes != claim->mapped_bytes)
        *broken = "the system maps more or fewer bytes than expected";
    else if (!claim->is_torn && merges && n_mapping > claim->n_run)
        *broken = "the system has more mappings than there are runs";
    return VT_OK;
}

// ---- Sizes

bool vti_size_round_up(size_t a, size_t unit, size_t *out)
{
    size_t more;
    if (__builtin_add_overflow(a, unit - 1, &more)) return false;
    *out = more - more % unit;
    return true;
}

void vti_struct_out(void *dst, const void *src, size_t has, size_t room)
{
    size_t n = has < room ? has : room, head = sizeof(size_t);
    if (n > head) memcpy((char *)dst + head, (const char *)src + head, n - head);
}

bool vti_slice_choose(size_t asked_bytes, size_t tok_bytes, size_t granularity, size_t *slice_bytes)
{
    size_t least;
    *slice_bytes = asked_bytes;
    if (asked_bytes > 0) return asked_bytes % granularity == 0;
    return !__builtin_mul_overflow(tok_bytes, DEFAULT_SLICE_TOK, &least) &&
           vti_size_round_up(least, granularity, slice_bytes);
}

// ---- The checksum of the swap
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

uint64_t vt_vmm_checksum(uint64_t sum, const void *bytes, size_t size_bytes)
{
    const uint8_t *p = bytes;
    const uint8_t *end = p + size_bytes;
    for (; end - p >= 32; p += 32)
        sum = sum * K4 + (word_at(p) * K3 + word_at(p + 8) * K2) +
              (word_at(p + 16) * K1 + word_at(p + 24));
    for (; end - p >= 8; p += 8) sum = sum * K1 + word_at(p);
    if (p == end) return sum;
    uint8_t padded[8] = {0};
    memcpy(padded, p, (size_t)(end - p));
    return (sum * K1 + word_at(padded)) * K1 + scramble_word((uint64_t)(end - p));
}
