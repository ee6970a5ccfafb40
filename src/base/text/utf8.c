// utf8.c - checks and decodes UTF-8: a sequence's first two bytes decide what RFC 3629 excludes.
#include "base/text/utf8.h"

#include <stdbool.h>
#include <stdio.h>

int fxi_utf8_len(unsigned char first)
{
    if (first < 0x80) return 1;
    if (first < 0xC2) return 0; // continuation bytes, and overlong two-byte forms
    if (first < 0xE0) return 2;
    if (first < 0xF0) return 3;
    return first < 0xF5 ? 4 : 0;
}

// The second byte alone rules out overlong forms, surrogates and what is above U+10FFFF.
static bool second_fits(unsigned char first, unsigned char second)
{
    if (first == 0xE0) return second >= 0xA0 && second <= 0xBF;
    if (first == 0xED) return second >= 0x80 && second <= 0x9F;
    if (first == 0xF0) return second >= 0x90 && second <= 0xBF;
    if (first == 0xF4) return second >= 0x80 && second <= 0x8F;
    return second >= 0x80 && second <= 0xBF;
}

// The length of the longest valid prefix, in s[0..n), of the sequence that starts there; 0: none.
static size_t valid_prefix(const unsigned char *s, size_t n)
{
    size_t len = (size_t)fxi_utf8_len(s[0]);
    if (!len || n == 1 || len == 1) return len ? 1 : 0;
    if (!second_fits(s[0], s[1])) return 1;
    size_t i = 2;
    while (i < n && i < len && (s[i] & 0xC0) == 0x80) i++;
    return i;
}

size_t fxi_utf8_check(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t i = 0;
    while (i < n) {
        i += fxi_utf8_ascii(s + i, n - i);
        if (i == n) break;
        size_t len = (size_t)fxi_utf8_len(u[i]);
        if (!len || valid_prefix(u + i, n - i) < len) return i;
        i += len;
    }
    return n;
}

size_t fxi_utf8_put(char *out, uint32_t code)
{
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    const size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(lead[n] | code);
    return n;
}

size_t fxi_utf8_count(const char *s, size_t n)
{
    size_t n_char = 0;
    for (size_t i = 0; i < n; i++) n_char += (s[i] & 0xc0) != 0x80;
    return n_char;
}

size_t fxi_utf8_broken(const char *s, size_t n)
{
    size_t valid = valid_prefix((const unsigned char *)s, n);
    return valid ? valid : 1;
}

size_t fxi_utf8_complete(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        size_t at = n - back;
        size_t len = (size_t)fxi_utf8_len(u[at]);
        if ((u[at] & 0xC0) == 0x80) continue;
        bool cut_off = len > back && valid_prefix(u + at, back) == back;
        return cut_off ? at : n;
    }
    return n;
}

int fxi_utf8_within(const char *s, int max)
{
    return (int)fxi_utf8_complete(s, strnlen(s, (size_t)max));
}

void fxi_utf8_vprint(char *out, size_t room_bytes, const char *fmt, va_list ap)
{
    const int n = vsnprintf(out, room_bytes, fmt, ap);
    if (n < 0)
        out[0] = 0;
    else if ((size_t)n >= room_bytes)
        out[fxi_utf8_complete(out, room_bytes - 1)] = 0;
}

int32_t fxi_utf8_at(const char *s, size_t n, size_t *n_bytes)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t len = (size_t)fxi_utf8_len(p[0]);
    static const unsigned char mask[] = {0xFF, 0x7F, 0x1F, 0x0F, 0x07};
    if (!len || len > n) len = 1;
    int32_t cp = p[0] & mask[len];
    for (size_t i = 1; i < len; i++) cp = cp << 6 | (p[i] & 0x3F);
    *n_bytes = len;
    return cp;
}
