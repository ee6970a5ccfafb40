// test_hash_index.c - ids by hash: all with the same hash are found, and none after the table is
// cleared; characters as UTF-8.
#include "unit/cmocka_all.h"

#include "base/keyed/hash.h"
#include "base/text/utf8.h"

enum { N = 5000, N_HASH = 700 };

// Many ids share a hash, and hashes are next to each other.
FX_TEST(test_every_id_is_found_by_its_hash)
{
    fxi_hash_index x = {0};
    size_t probe = 0;
    assert_int_equal(fxi_hash_index_next(&x, 1, &probe), 0);
    for (uint32_t id = 1; id <= N; id++) assert_true(fxi_hash_index_add(&x, id, id % N_HASH));
    assert_int_equal(x.n, N);
    assert_true(x.n_slot >= 2 * x.n && fxi_hash_index_n_bytes(&x) >= x.n_slot * 8);
    for (uint32_t hash = 0; hash < N_HASH; hash++) {
        uint32_t id, n = 0;
        probe = 0;
        for (; (id = fxi_hash_index_next(&x, hash, &probe)); n++)
            assert_int_equal(id % N_HASH, hash);
        assert_int_equal(n, N / N_HASH + (hash && hash <= N % N_HASH));
    }
    fxi_hash_index_clear(&x);
    probe = 0;
    assert_int_equal(fxi_hash_index_next(&x, 5, &probe), 0);
    fxi_hash_index_free(&x);
    assert_int_equal(x.n_slot, 0);
}

FX_TEST(test_every_character_is_put_as_it_is_read)
{
    for (uint32_t c = 0; c <= 0x10FFFF; c += c < 0x900 ? 1 : 61) {
        char s[4];
        size_t n_read;
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        const size_t n = fxi_utf8_put(s, c);
        assert_int_equal(fxi_utf8_check(s, n), n);
        assert_int_equal(fxi_utf8_at(s, n, &n_read), c);
        assert_int_equal(n_read, n);
    }
}

FX_RUN(test_hash_index)
