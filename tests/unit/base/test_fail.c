// test_fail.c - texts of errors: whole characters whatever is cut off, prefixes, what errno means.
#include "unit/cmocka_all.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/utf8.h"

enum { ROOM = FX_ERROR_TEXT_BYTES - 1 }; // for a text's bytes

static const char *const characters[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};

// n times 'x'.
static const char *many_x(size_t n)
{
    static char text[2 * FX_ERROR_TEXT_BYTES];
    memset(text, 'x', n);
    text[n] = 0;
    return text;
}

FX_TEST(test_long_texts_end_with_a_character)
{
    for (size_t c = 0; c < sizeof characters / sizeof *characters; c++) {
        const size_t len = strlen(characters[c]);
        for (size_t n = ROOM - len; n <= ROOM; n++) {
            fx_error err;
            const bool fits = n + len <= ROOM;
            assert_int_equal(fxi_fail(&err, FX_EIO, "%s%sx", many_x(n), characters[c]), FX_EIO);
            assert_int_equal(strlen(err.text), fits ? n + len : n);
            assert_int_equal(fxi_utf8_check(err.text, strlen(err.text)), strlen(err.text));
            assert_int_equal(err.status, FX_EIO);
        }
    }
}

FX_TEST(test_prefixes_cut_whole_characters)
{
    for (size_t n = ROOM - 8; n <= ROOM; n++) {
        fx_error err;
        (void)fxi_fail(&err, FX_EFORMAT, "%s%s", many_x(n - 6), "\xF0\x9F\x98\x80");
        assert_int_equal(fxi_fail_in(&err, "%s", "m\xC3\xA9"), FX_EFORMAT);
        assert_memory_equal(err.text, "m\xC3\xA9: x", 6);
        assert_int_equal(fxi_utf8_check(err.text, strlen(err.text)), strlen(err.text));
        assert_int_equal(strlen(err.text), n + 3 <= ROOM ? n + 3 : n - 1);
    }
}

// A file's name need not be UTF-8: it is shown as it is.
FX_TEST(test_other_bytes_stay)
{
    fx_error err;
    (void)fxi_fail(&err, FX_EIO, "caf\xE9: gone, \xC3");
    assert_string_equal(err.text, "caf\xE9: gone, \xC3");
    (void)fxi_fail(&err, FX_EIO, "\x80\x80%s\x80\x80", many_x(ROOM - 3));
    assert_int_equal(strlen(err.text), ROOM);
}

FX_TEST(test_parts_end_with_a_character)
{
    fx_error err;
    for (int max = 0; max < 8; max++) {
        static const int whole[] = {0, 1, 1, 3, 3, 3, 6, 7};
        assert_int_equal(fxi_utf8_within("a\xC3\xA9\xE2\x82\xAC"
                                         "b",
                                         max),
                         whole[max]);
    }
    (void)fxi_fail(&err, FX_EINVAL, "'%.*s'", FXI_UTF8_HEAD("ab\xC3\xA9", 3));
    assert_string_equal(err.text, "'ab'");
}

FX_TEST(test_errno_says_no_memory)
{
    assert_int_equal(fxi_errno_status(ENOMEM), FX_ENOMEM);
    assert_int_equal(fxi_errno_status(ENOENT), FX_EIO);
}

FX_RUN(test_fail)
