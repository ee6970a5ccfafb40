// base64.h - base64 (RFC 4648, section 4), in both directions.
#ifndef FXI_BASE_BASE64_H
#define FXI_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"

// Appends the text of bytes[0..n), padded. False: out of memory.
bool fxi_base64_add(fxi_buf *b, const void *bytes, size_t n);

// The most bytes that fxi_base64_decode writes for n characters.
size_t fxi_base64_room(size_t n);

// Decodes s[0..n) into dst; *n_bytes is the length of the result. False: a character outside the
// alphabet, an impossible length, unused bits that are not zero, or "=" anywhere but at the end.
bool fxi_base64_decode(const char *s, size_t n, unsigned char *dst, size_t *n_bytes);

#endif
