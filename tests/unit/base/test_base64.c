// test_base64.c - decoding base64, and every kind of text that is refused.
#include <string.h>

#include "base/text/base64.h"
#include "unit/cmocka_all.h"

static void expect(const char *text, const char *bytes, size_t n)
{
    unsigned char out[64];
    size_t n_out = 99;
    assert_true(fxi_base64_room(strlen(text)) <= sizeof out);
    assert_true(fxi_base64_decode(text, strlen(text), out, &n_out));
    assert_int_equal(n_out, n);
    assert_memory_equal(out, bytes, n);
}

FX_TEST(test_decode)
{
    expect("", "", 0);
    expect("Zg==", "f", 1);
    expect("Zm8=", "fo", 2);
    expect("Zm9v", "foo", 3);
    expect("Zm9vYmFy", "foobar", 6);
    expect("AP+/+w==", "\0\xFF\xBF\xFB", 4);
}

FX_TEST(test_refuse)
{
    static const char *const bad[] = {"Z",    "Zg",   "Zg=",      "====",     "Z===", "Zm=v",
                                      "Zh==", "Zm9=", "Zg==Zg==", "Zm 9vYmF", "Zm9-", "Zm9_"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        unsigned char out[16];
        size_t n;
        assert_false(fxi_base64_decode(bad[i], strlen(bad[i]), out, &n));
    }
}

FX_RUN(test_base64)
