// sizes.h - arithmetic on sizes that detects overflow.
#ifndef VTI_SIZES_H
#define VTI_SIZES_H

#include <stdbool.h>
#include <stddef.h>

// False: the result overflows.
bool vti_size_mul(size_t a, size_t b, size_t *out);
bool vti_size_round_up(size_t a, size_t unit, size_t *out);

// Copies a public struct of `has` bytes that begins with its size, as far as the caller's `room`
// bytes go, and leaves that size as the caller set it.
void vti_struct_out(void *dst, const void *src, size_t has, size_t room);

// The bytes of a slice: asked_bytes, or if that is 0 the smallest multiple of the granularity that
// holds 32 tokens. False: asked_bytes is not a multiple of the granularity, or the result
// overflows.
bool vti_slice_choose(size_t asked_bytes, size_t tok_bytes, size_t granularity,
                      size_t *slice_bytes);

#endif
