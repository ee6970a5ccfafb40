// utf8.h - strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
#ifndef FXI_BASE_UTF8_H
#define FXI_BASE_UTF8_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Bytes of ASCII that s[0..n) begins with.
static inline size_t fxi_utf8_ascii(const char *s, size_t n)
{
    size_t i = 0;
    for (uint64_t w; i + sizeof w <= n; i += sizeof w) {
        memcpy(&w, s + i, sizeof w);
        if (w & 0x8080808080808080u) break;
    }
    while (i < n && !(s[i] & 0x80)) i++;
    return i;
}

// The length of the sequence that begins with this byte; 0 for a byte that begins none.
int fxi_utf8_len(unsigned char first);

// n if s[0..n) is valid, otherwise the position of the first invalid sequence (a cut-off last one
// included).
size_t fxi_utf8_check(const char *s, size_t n);

// Writes the character `code` to out[0..4), which need not be NUL-terminated, and returns how many
// bytes it takes, 1 to 4. Pre: code <= 0x10FFFF, no surrogate.
size_t fxi_utf8_put(char *out, uint32_t code);

// Characters of s[0..n), which is valid.
size_t fxi_utf8_count(const char *s, size_t n);

// For an invalid sequence at s[0..n), n > 0: the length of its longest prefix that could still have
// become valid, at least 1.
size_t fxi_utf8_broken(const char *s, size_t n);

// The length of s[0..n) without a last sequence that is valid so far but cut off: what may be sent
// while more bytes are to come. Bytes that can never become valid are not held back.
size_t fxi_utf8_complete(const char *s, size_t n);

// How many bytes of s, at most max, are whole characters: a precision for "%.*s".
int fxi_utf8_within(const char *s, int max);
#define FXI_UTF8_HEAD(s, max) fxi_utf8_within((s), (max)), (s) // two arguments of a printf

// As vsnprintf, room_bytes > 0, but a text that is too long is cut at the end of a character. Bytes
// that are no UTF-8 stay as they are.
__attribute__((format(printf, 3, 0))) void fxi_utf8_vprint(char *out, size_t room_bytes,
                                                           const char *fmt, va_list ap);

// The character at s[0..n), n > 0, and its length. A byte that begins no sequence, or a cut-off
// one, is a character of its own.
int32_t fxi_utf8_at(const char *s, size_t n, size_t *n_bytes);

#endif
