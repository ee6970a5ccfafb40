// test_secret.c - the keyed hash: what counts, keys that differ, and a key
// where the system has no random bytes.
#include "unit/cmocka_all.h"

#include <stdbool.h>
#include <sys/random.h>

#include "base/keyed/hash.h"

static bool has_random = true;

ssize_t __real_getrandom(void *p, size_t n, unsigned flags);
ssize_t __wrap_getrandom(void *p, size_t n, unsigned flags);

ssize_t __wrap_getrandom(void *p, size_t n, unsigned flags)
{
    return has_random ? __real_getrandom(p, n, flags) : -1;
}

FX_TEST(test_every_byte_and_the_length_count)
{
    const fxi_secret s = {{1, 2}};
    unsigned char text[24] = {0};
    for (size_t n = 1; n <= sizeof text; n++) {
        const uint64_t zero = fxi_secret_hash(s, text, n);
        assert_int_not_equal(zero, fxi_secret_hash(s, text, n - 1));
        text[n - 1] = 1;
        assert_int_not_equal(zero, fxi_secret_hash(s, text, n));
        text[n - 1] = 0;
    }
}

FX_TEST(test_keys_differ)
{
    const fxi_secret a = fxi_secret_make(), b = fxi_secret_make();
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_int_not_equal(fxi_secret_hash(a, "abc", 3), fxi_secret_hash(b, "abc", 3));
}

FX_TEST(test_a_key_without_random_bytes_of_the_system)
{
    has_random = false;
    const fxi_secret a = fxi_secret_make();
    has_random = true;
    assert_true(a.key[0] != 0 && a.key[1] != 0);
}

// What collides under one key, as if its owner had told it, is spread by the next.
FX_TEST(test_collisions_under_one_key_are_none_under_another)
{
    enum { N = 4096, N_BUCKET = 256 };
    for (int turn = 0; turn < 8; turn++) {
        const fxi_secret a = fxi_secret_make(), b = fxi_secret_make();
        int n_in[N_BUCKET] = {0}, n = 0, most = 0;
        for (uint64_t x = 0; n < N; x++) {
            if (fxi_secret_mix(a, x >> 10, (x & 1023) << 32) % N_BUCKET != 0) continue;
            n_in[fxi_secret_mix(b, x >> 10, (x & 1023) << 32) % N_BUCKET]++;
            n++;
        }
        for (int i = 0; i < N_BUCKET; i++) most = n_in[i] > most ? n_in[i] : most;
        assert_true(most <= 8 * N / N_BUCKET);
    }
}

FX_RUN(test_secret)
