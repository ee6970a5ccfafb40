// strings.c - bytes and strings: a growing buffer, byte runs, base64, UTF-8.
#include "base/text/base64.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "base/text/utf8.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// ---- a growable buffer, which doubles its memory -----------------------------------------------

size_t fxi_buf_cap_for(size_t n_bytes)
{
    size_t cap = 64;
    while (cap < n_bytes + 1) cap *= 2;
    return cap;
}

bool fxi_buf_reserve(fxi_buf *b, size_t more_bytes)
{
    if (more_bytes > SIZE_MAX / 2 - b->n - 1) return false;
    size_t need = b->n + more_bytes + 1;
    if (need <= b->cap) return true;
    size_t cap = fxi_buf_cap_for(need - 1);
    char *p = realloc(b->p, cap);
    if (!p) return false;
    b->p = p;
    b->cap = cap;
    b->p[b->n] = 0;
    return true;
}

bool fxi_buf_add(fxi_buf *b, const void *src, size_t n_bytes)
{
    if (!fxi_buf_reserve(b, n_bytes)) return false;
    if (n_bytes) memcpy(b->p + b->n, src, n_bytes);
    b->n += n_bytes;
    b->p[b->n] = 0;
    return true;
}

bool fxi_buf_str(fxi_buf *b, const char *s)
{
    return fxi_buf_add(b, s, strlen(s));
}

bool fxi_buf_fmt(fxi_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    bool ok = n >= 0 && fxi_buf_reserve(b, (size_t)n);
    if (ok) {
        vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
    va_end(ap);
    return ok;
}

void fxi_buf_drop_front(fxi_buf *b, size_t n_bytes)
{
    if (!n_bytes) return;
    memmove(b->p, b->p + n_bytes, b->n - n_bytes + 1);
    b->n -= n_bytes;
}

void fxi_buf_clear(fxi_buf *b)
{
    b->n = 0;
    if (b->p) b->p[0] = 0;
}

void fxi_buf_free(fxi_buf *b)
{
    free(b->p);
    *b = (fxi_buf){0};
}

// ---- byte runs: compared, hashed, cut into lines -----------------------------------------------

bool fxi_list_has(const char *list, const char *separators, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list ? list : ""; *p; p += strspn(p, separators)) {
        const size_t len = strcspn(p, separators);
        if (len == n && !strncasecmp(p, word, n)) return true;
        p += len;
    }
    return false;
}

uint64_t fxi_str_hash(fxi_str s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < s.n; i++) h = (h ^ (unsigned char)s.p[i]) * 0x100000001b3u;
    return h;
}

int fxi_str_compare(fxi_str a, fxi_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

bool fxi_str_is(fxi_str s, const char *text)
{
    return s.n == strlen(text) && !memcmp(s.p, text, s.n);
}

bool fxi_str_ends_in(fxi_str s, const char *end)
{
    const size_t n = strlen(end);
    return s.n >= n && (!n || !memcmp(s.p + s.n - n, end, n));
}

bool fxi_str_is_any(fxi_str s, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fxi_str_is(s, list[i])) return true;
    return false;
}

bool fxi_str_is_plain(fxi_str s, const char *more)
{
    for (size_t i = 0; i < s.n; i++) {
        const char c = s.p[i], low = (char)(c | 0x20);
        const bool is_alnum = (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9');
        if (!is_alnum && (!c || !strchr(more, c))) return false;
    }
    return true;
}

bool fxi_str_next_line(fxi_str *rest, fxi_str *line)
{
    if (rest->n == 0) return false;
    const char *end = memchr(rest->p, '\n', rest->n);
    *line = (fxi_str){rest->p, end ? (size_t)(end - rest->p) : rest->n};
    const size_t taken = line->n + (end != NULL);
    rest->p += taken;
    rest->n -= taken;
    if (line->n > 0 && line->p[line->n - 1] == '\r') line->n--;
    return true;
}

// ---- base64: four characters to three bytes, strictly, and back --------------------------------

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

bool fxi_base64_add(fxi_buf *b, const void *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = bytes;
    if (!fxi_buf_reserve(b, (n + 2) / 3 * 4)) return false;
    for (size_t i = 0; i < n; i += 3) { // up to three bytes as four characters
        const size_t n_byte = n - i < 3 ? n - i : 3;
        uint32_t bits = 0;
        for (size_t k = 0; k < n_byte; k++) bits |= (uint32_t)p[i + k] << (16 - 8 * k);
        for (size_t k = 0; k < 4; k++)
            b->p[b->n++] = k <= n_byte ? digits[bits >> (18 - 6 * k) & 63] : '=';
    }
    b->p[b->n] = 0;
    return true;
}

// ---- UTF-8: a sequence's first two bytes decide what RFC 3629 excludes -------------------------

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
