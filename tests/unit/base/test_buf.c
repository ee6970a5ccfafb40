// test_buf.c - the byte buffer: text stays terminated, contents survive growth, sizes that overflow
// are refused.
#include <string.h>

#include "base/text/buf.h"
#include "unit/cmocka_all.h"

FX_TEST(test_empty_is_valid)
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

FX_TEST(test_text_stays_terminated)
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

FX_TEST(test_grows_across_sizes)
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

FX_RUN(test_buf)
