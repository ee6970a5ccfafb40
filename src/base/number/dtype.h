// dtype.h - the number formats of tensors, numbered as in GGUF, and which of them the engine
// computes with.
//
// A tensor's row consists of blocks of `block_elems` numbers in `block_bytes` bytes. The table has
// every type of the format, so sizes in a file can be checked even if the engine cannot run it.
#ifndef FXI_BASE_DTYPE_H
#define FXI_BASE_DTYPE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum fxi_dtype { // GGUF's numbers
    FXI_F32 = 0,
    FXI_F16 = 1,
    FXI_Q4_0 = 2,
    FXI_Q4_1 = 3,
    FXI_Q5_0 = 6,
    FXI_Q5_1 = 7,
    FXI_Q8_0 = 8,
    FXI_Q2_K = 10,
    FXI_Q3_K = 11,
    FXI_Q4_K = 12,
    FXI_Q5_K = 13,
    FXI_Q6_K = 14,
    FXI_IQ4_NL = 20,
    FXI_IQ4_XS = 23,
    FXI_BF16 = 30,
    FXI_MXFP4 = 39,
    FXI_DTYPE_END // one past the last type that runs
} fxi_dtype;

typedef struct fxi_dtype_info {
    uint32_t id;          // GGUF's number
    const char *name;     // "Q8_0"
    uint32_t block_elems; // numbers per block
    uint32_t block_bytes; // bytes per block
    bool runs;            // the engine computes with weights of this type
} fxi_dtype_info;

// NULL: GGUF does not (or no longer) define this number.
const fxi_dtype_info *fxi_dtype_find(uint32_t id);
// By name, in upper or lower case ("q8_0"); NULL: unknown.
const fxi_dtype_info *fxi_dtype_by_name(const char *name);

#define FXI_Q8_0_ELEMS 32

// Q8_0: 32 numbers share a scale: x[i] = d * q[i].
typedef struct fxi_block_q8_0 {
    uint16_t d; // f16
    int8_t q[FXI_Q8_0_ELEMS];
} fxi_block_q8_0;

static_assert(sizeof(fxi_block_q8_0) == 34, "Q8_0 is 34 bytes on disk");

// One number. To 32 bits is exact; to 16 bits rounds to nearest, ties to even. inf and NaN are
// kept.
float fxi_f16_to_f32(uint16_t h);
uint16_t fxi_f32_to_f16(float f);
static inline float fxi_bf16_to_f32(uint16_t h)
{
    const uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint16_t fxi_f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    const uint32_t nan = u >> 16 | 0x40, rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

// rows.c: one row of n_elem numbers, at any address. Pre: type is an fxi_dtype, n_elem a multiple
// of its block_elems. To f32, every product is rounded once, in the order that the format's
// description gives. From f32, numbers must be finite; block types choose scales for a small
// squared error (qblock.h), the same bits on every machine.
void fxi_row_to_f32(fxi_dtype type, const void *src, size_t n_elem, float *dst);
void fxi_row_from_f32(fxi_dtype type, const float *src, size_t n_elem, void *dst);

#endif
