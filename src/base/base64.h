// base64.h - the usual alphabet (RFC 4648, section 4), as files hold bytes as text.
#ifndef FXI_BASE_BASE64_H
#define FXI_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

// Bytes that fxi_base64_decode may write for n characters.
size_t fxi_base64_room(size_t n);

// Decodes s[0..n) into dst; *n_bytes is how many came out. False: a character of another alphabet,
// a length that no bytes have, bits that should be zero, or "=" anywhere but as padding at the end.
bool fxi_base64_decode(const char *s, size_t n, unsigned char *dst, size_t *n_bytes);

#endif
