// secret.c - see secret.h.
#include "base/keyed/secret.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <time.h>

fxi_secret fxi_secret_make(void)
{
    fxi_secret s;
    if (getrandom(&s, sizeof s, GRND_NONBLOCK) == (ssize_t)sizeof s) return s;
    const void *at_start = (const void *)getauxval(AT_RANDOM); // 16 bytes
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    s = (fxi_secret){{0}};
    if (at_start) memcpy(&s, at_start, sizeof s);
    s.key[0] ^= (uint64_t)(uintptr_t)&s;
    s.key[1] ^= (uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec;
    return s;
}

static uint64_t turn_word(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = turn_word(v[1], 13) ^ v[0];
    v[3] = turn_word(v[3], 16) ^ v[2];
    v[0] = turn_word(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = turn_word(v[1], 17) ^ v[2];
    v[3] = turn_word(v[3], 21) ^ v[0];
    v[2] = turn_word(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t fxi_secret_hash(fxi_secret secret, const void *p, size_t n)
{
    const unsigned char *at = p;
    uint64_t v[4] = {
        secret.key[0] ^ UINT64_C(0x736f6d6570736575), secret.key[1] ^ UINT64_C(0x646f72616e646f6d),
        secret.key[0] ^ UINT64_C(0x6c7967656e657261), secret.key[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t word, last = (uint64_t)n << 56;
    for (; n >= sizeof word; at += sizeof word, n -= sizeof word) {
        memcpy(&word, at, sizeof word);
        sip_word(v, word);
    }
    for (size_t i = 0; i < n; i++) last |= (uint64_t)at[i] << 8 * i;
    sip_word(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
