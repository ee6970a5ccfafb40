// utf8.h - strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
#ifndef FXI_BASE_UTF8_H
#define FXI_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

// Bytes of the sequence that begins with this byte; 0 for a byte that begins none.
int fxi_utf8_len(unsigned char first);

// n if s[0..n) is valid, otherwise the position of the first sequence that is not (a cut-off last
// one included).
size_t fxi_utf8_check(const char *s, size_t n);

// Bytes of the sequence at s[0..n), n > 0, that is not valid: of its longest beginning that could
// still have become valid, and at least one.
size_t fxi_utf8_broken(const char *s, size_t n);

// The length of s[0..n) without a last sequence that is valid so far but cut off: what may be sent
// while more bytes are to come. Bytes that can never become valid are not held back.
size_t fxi_utf8_complete(const char *s, size_t n);

// The character at s[0..n), n > 0, and how many bytes it has. Bytes that begin none, or one that is
// cut off, are a character each.
int32_t fxi_utf8_at(const char *s, size_t n, size_t *n_bytes);

#endif
