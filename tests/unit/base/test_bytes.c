// test_bytes.c - bytes and characters: the buffer, whose text stays terminated and whose contents
// survive growth; base64, and every kind of text that is refused; characters as UTF-8.
#include <string.h>

#include "base/text/base64.h"
#include "base/text/buf.h"
#include "base/text/utf8.h"
#include "unit/cmocka_all.h"

// ---- the buffer ---------------------------------------------------------------------------------

FX_TEST(test_an_empty_buffer_is_valid)
{
    fxi_buf b = {0};
    fxi_buf_drop_front(&b, 0);
    fxi_buf_clear(&b);
    assert_true(fxi_buf_add(&b, NULL, 0));
    assert_string_equal(b.p, "");
    fxi_buf_free(&b);
    assert_null(b.p);
    fxi_buf_free(&b);
}

FX_TEST(test_bytes_stays_terminated)
{
    fxi_buf b = {0};
    assert_true(fxi_buf_str(&b, "ab"));
    assert_true(fxi_buf_fmt(&b, "%d-%s", 12, "x"));
    assert_string_equal(b.p, "ab12-x");
    assert_int_equal(b.n, 6);
    fxi_buf_drop_front(&b, 2);
    assert_string_equal(b.p, "12-x");
    fxi_buf_drop_front(&b, 4);
    assert_string_equal(b.p, "");
    fxi_buf_clear(&b);
    assert_true(fxi_buf_str(&b, "again"));
    assert_string_equal(b.p, "again");
    fxi_buf_free(&b);
}

FX_TEST(test_a_buffer_grows_across_sizes)
{
    fxi_buf b = {0};
    for (int i = 0; i < 5000; i++) assert_true(fxi_buf_fmt(&b, "%c", 'a' + i % 26));
    assert_int_equal(b.n, 5000);
    assert_int_equal(strlen(b.p), 5000);
    for (int i = 0; i < 5000; i++) assert_int_equal(b.p[i], 'a' + i % 26);
    char big[300];
    memset(big, 'z', sizeof big);
    assert_true(fxi_buf_fmt(&b, "%.*s", (int)sizeof big, big));
    assert_memory_equal(b.p + 5000, big, sizeof big);
    fxi_buf_free(&b);
}

FX_TEST(test_impossible_sizes_change_nothing)
{
    fxi_buf b = {0};
    assert_true(fxi_buf_str(&b, "kept"));
    assert_false(fxi_buf_reserve(&b, SIZE_MAX));
    assert_false(fxi_buf_reserve(&b, SIZE_MAX / 2 - 4));
    assert_string_equal(b.p, "kept");
    assert_int_equal(b.n, 4);
    fxi_buf_free(&b);
}

// ---- base64 -------------------------------------------------------------------------------------

static void expect_decoded(const char *text, const char *bytes, size_t n)
{
    unsigned char out[64];
    size_t n_out = 99;
    assert_true(fxi_base64_room(strlen(text)) <= sizeof out);
    assert_true(fxi_base64_decode(text, strlen(text), out, &n_out));
    assert_int_equal(n_out, n);
    assert_memory_equal(out, bytes, n);
}

FX_TEST(test_base64_is_decoded)
{
    expect_decoded("", "", 0);
    expect_decoded("Zg==", "f", 1);
    expect_decoded("Zm8=", "fo", 2);
    expect_decoded("Zm9v", "foo", 3);
    expect_decoded("Zm9vYmFy", "foobar", 6);
    expect_decoded("AP+/+w==", "\0\xFF\xBF\xFB", 4);
}

FX_TEST(test_what_is_no_base64_is_refused)
{
    static const char *const bad[] = {"Z",    "Zg",   "Zg=",      "====",     "Z===", "Zm=v",
                                      "Zh==", "Zm9=", "Zg==Zg==", "Zm 9vYmF", "Zm9-", "Zm9_"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        unsigned char out[16];
        size_t n;
        assert_false(fxi_base64_decode(bad[i], strlen(bad[i]), out, &n));
    }
}

// ---- UTF-8 --------------------------------------------------------------------------------------

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

FX_RUN(test_bytes)
