// rng.c - Philox 4x32-10.
#include "base/number/rng.h"

static void philox_round(uint32_t c[4], const uint32_t k[2])
{
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
    uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t hi0 = (uint32_t)(p0 >> 32), hi1 = (uint32_t)(p1 >> 32);
    uint32_t next[4] = {hi1 ^ c[1] ^ k[0], (uint32_t)p1, hi0 ^ c[3] ^ k[1], (uint32_t)p0};
    for (int i = 0; i < 4; i++) c[i] = next[i];
}

void fxi_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k[2] = {key[0], key[1]};
    for (int i = 0; i < 4; i++) out[i] = counter[i];
    for (int round = 0; round < 10; round++) {
        philox_round(out, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
}

uint64_t fxi_rng_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream,
                                 (uint32_t)(stream >> 32)};
    uint32_t out[4];
    fxi_philox(key, counter, out);
    return (uint64_t)out[1] << 32 | out[0];
}

double fxi_rng_unit(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (double)(fxi_rng_u64(seed, stream, index) >> 11) * 0x1p-53;
}
