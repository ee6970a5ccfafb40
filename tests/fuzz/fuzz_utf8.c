// fuzz_utf8.c - any bytes: the UTF-8 functions against a decoder that works out code points.
#include <string.h>

#include "base/text/utf8.h"
#include "fuzz.h"

FUZZ_TARGET(fuzz_utf8);

// Bytes of the valid sequence at s, 0 if there is none.
static size_t decode(const uint8_t *s, size_t n)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = s[0] < 0x80       ? 1
                 : s[0] >> 5 == 6  ? 2
                 : s[0] >> 4 == 14 ? 3
                 : s[0] >> 3 == 30 ? 4
                                   : 0;
    if (!len || len > n) return 0;
    uint32_t c = len == 1 ? s[0] : s[0] & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (s[i] >> 6 != 2) return 0;
        c = c << 6 | (s[i] & 63u);
    }
    bool fine = c >= smallest[len] && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
    return fine ? len : 0;
}

static size_t first_bad(const uint8_t *s, size_t n)
{
    size_t i = 0;
    for (size_t len; i < n && (len = decode(s + i, n - i)); i += len) continue;
    return i;
}

// Whether these n bytes, too short for a sequence, can still become one.
static bool can_become_valid(const uint8_t *s, size_t n)
{
    uint8_t whole[4] = {0};
    memcpy(whole, s, n);
    for (unsigned second = 0x80; second < 0xC0; second++) {
        if (n < 2) whole[1] = (uint8_t)second;
        for (size_t i = n < 2 ? 2 : n; i < 4; i++) whole[i] = 0x80;
        size_t len = decode(whole, 4);
        if (len > n) return true;
    }
    return false;
}

static size_t complete(const uint8_t *s, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++)
        if (can_become_valid(s + n - back, back)) return n - back;
    return n;
}

int fuzz_utf8_run(const uint8_t *data, size_t n_bytes)
{
    const char *s = (const char *)data;
    FUZZ_CHECK(fxi_utf8_check(s, n_bytes) == first_bad(data, n_bytes));
    FUZZ_CHECK(fxi_utf8_complete(s, n_bytes) == complete(data, n_bytes));
    for (size_t i = 0; i < n_bytes; i++) {
        size_t len = decode(data + i, n_bytes - i);
        FUZZ_CHECK(!len || (size_t)fxi_utf8_len(data[i]) == len);
    }
    return 0;
}

FUZZ_SEEDS(fuzz_utf8, "a\xC3\xA9\xE2\x82\xAC", "\xF0\x9F\xA6\x99z", "\xED\x9F\xBF\xEE\x80\x80",
           "\xF4\x8F\xBF\xBF\xE0\xA0\x80", "\xF0\x90\x80\x80\xC2\x80", "")
