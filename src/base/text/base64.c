// base64.c - four characters to three bytes, strictly, and back.
#include "base/text/base64.h"

#include <stdint.h>

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

size_t fxi_base64_room(size_t n)
{
    return n / 4 * 3 + 3;
}

// The number of digits among four characters, the last of which may be padding; -1: bad padding.
static int digits_of(const char *four, bool last)
{
    if (four[3] != '=') return 4;
    if (!last) return -1;
    return four[2] == '=' ? 2 : 3;
}

bool fxi_base64_decode(const char *s, size_t n, unsigned char *dst, size_t *n_bytes)
{
    *n_bytes = 0;
    if (n % 4) return false;
    for (size_t i = 0; i < n; i += 4) {
        const int n_digit = digits_of(s + i, i + 4 == n);
        uint32_t bits = 0;
        for (int k = 0; k < n_digit; k++) {
            const int digit = digit_of(s[i + (size_t)k]);
            if (digit < 0) return false;
            bits |= (uint32_t)digit << (18 - 6 * k);
        }
        if (n_digit < 2) return false;
        for (int k = 0; k < n_digit - 1; k++)
            dst[(*n_bytes)++] = (unsigned char)(bits >> (16 - 8 * k));
        if (n_digit < 4 && bits & ((1u << (32 - 8 * n_digit)) - 1)) return false;
    }
    return true;
}

// Up to three bytes as four characters.
static void spell_group(const unsigned char *p, size_t n, char four[4])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint32_t bits =
        (uint32_t)p[0] << 16 | (n > 1 ? (uint32_t)p[1] << 8 : 0) | (n > 2 ? (uint32_t)p[2] : 0);
    for (size_t k = 0; k < 4; k++) four[k] = k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=';
}

bool fxi_base64_add(fxi_buf *b, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    if (!fxi_buf_reserve(b, (n + 2) / 3 * 4)) return false;
    for (size_t i = 0; i < n; i += 3) {
        char four[4];
        spell_group(p + i, n - i < 3 ? n - i : 3, four);
        if (!fxi_buf_add(b, four, 4)) return false;
    }
    return true;
}
