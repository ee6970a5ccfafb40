// sizes.h - arithmetic on sizes that finds an overflow.
#ifndef VTI_SIZES_H
#define VTI_SIZES_H

#include <stdbool.h>
#include <stddef.h>

// false: it overflows.
bool vti_size_mul(size_t a, size_t b, size_t *out);
bool vti_size_round_up(size_t a, size_t unit, size_t *out);

// The bytes of a slice: those asked for, or for 0 the smallest multiple of the granularity that
// holds 32 tokens. false: not a multiple of the granularity, or it overflows.
bool vti_slice_choose(size_t asked_bytes, size_t tok_bytes, size_t granularity,
                      size_t *slice_bytes);

#endif
