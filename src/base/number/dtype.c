// dtype.c - the table of number formats; f16, bf16 and rows of any format to and from f32.
#include "base/number/dtype.h"
#include "base/number/qblock.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <strings.h>

static const fxi_dtype_info dtypes[] = {
    {0, "F32", 1, 4, true},          {1, "F16", 1, 2, true},
    {2, "Q4_0", 32, 18, true},       {3, "Q4_1", 32, 20, true},
    {6, "Q5_0", 32, 22, true},       {7, "Q5_1", 32, 24, true},
    {8, "Q8_0", 32, 34, true},       {9, "Q8_1", 32, 36, false},
    {10, "Q2_K", 256, 84, true},     {11, "Q3_K", 256, 110, true},
    {12, "Q4_K", 256, 144, true},    {13, "Q5_K", 256, 176, true},
    {14, "Q6_K", 256, 210, true},    {15, "Q8_K", 256, 292, false},
    {16, "IQ2_XXS", 256, 66, false}, {17, "IQ2_XS", 256, 74, false},
    {18, "IQ3_XXS", 256, 98, false}, {19, "IQ1_S", 256, 50, false},
    {20, "IQ4_NL", 32, 18, true},    {21, "IQ3_S", 256, 110, false},
    {22, "IQ2_S", 256, 82, false},   {23, "IQ4_XS", 256, 136, true},
    {24, "I8", 1, 1, false},         {25, "I16", 1, 2, false},
    {26, "I32", 1, 4, false},        {27, "I64", 1, 8, false},
    {28, "F64", 1, 8, false},        {29, "IQ1_M", 256, 56, false},
    {30, "BF16", 1, 2, true},        {34, "TQ1_0", 256, 54, false},
    {35, "TQ2_0", 256, 66, false},   {39, "MXFP4", 32, 17, true},
};

#define N_DTYPE (sizeof dtypes / sizeof dtypes[0])

const fxi_dtype_info *fxi_dtype_find(uint32_t id)
{
    for (size_t i = 0; i < N_DTYPE; i++)
        if (dtypes[i].id == id) return &dtypes[i];
    return NULL;
}

const fxi_dtype_info *fxi_dtype_by_name(const char *name)
{
    for (size_t i = 0; i < N_DTYPE; i++)
        if (!strcasecmp(dtypes[i].name, name)) return &dtypes[i];
    return NULL;
}

static float float_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t bits_of_float(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

// u >> shift, rounded to nearest, ties to even. Pre: 1 <= shift <= 31.
static uint32_t shift_round(uint32_t u, int shift)
{
    uint32_t half = 1u << (shift - 1), rest = u & (2 * half - 1), q = u >> shift;
    return q + (rest > half || (rest == half && (q & 1)));
}

float fxi_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, mant = h & 0x3ff;
    if (exp == 31) return float_of_bits(sign | 0x7f800000 | (mant ? 0x400000 | mant << 13 : 0));
    if (exp == 0) { // zero and subnormal numbers: mant x 2^-24
        float f = (float)mant * 0x1p-24f;
        return sign ? -f : f;
    }
    return float_of_bits(sign | (exp + 112) << 23 | mant << 13);
}

uint16_t fxi_f32_to_f16(float f)
{
    uint32_t u = bits_of_float(f), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff, h;
    if (mag > 0x7f800000)
        h = 0x7e00 | (mag >> 13 & 0x3ff); // NaN
    else if (mag >= 0x47800000)
        h = 0x7c00; // 2^16 and more: inf
    else if (mag >= 0x38800000)
        h = shift_round(mag - (112u << 23), 13); // normal; a carry may reach inf, as it must
    else if (mag < 0x33000000)
        h = 0; // below half of the smallest subnormal number
    else
        h = shift_round((mag & 0x7fffff) | 0x800000, 126 - (int)(mag >> 23));
    return (uint16_t)(sign | h);
}

// ---- rows of numbers to and from f32 -----------------------------------------------------------
//
// Block types other than Q8_0 go through fxi_qblock.

static void f32_to_f32(const void *src, size_t n, float *dst)
{
    memcpy(dst, src, n * sizeof *dst);
}

static void f32_from_f32(const float *src, size_t n, void *dst)
{
    memcpy(dst, src, n * sizeof *src);
}

// Rows come from files: 16-bit numbers may be unaligned.
static void f16_to_f32(const void *src, size_t n, float *dst)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, (const char *)src + 2 * i, 2);
        dst[i] = fxi_f16_to_f32(h);
    }
}

static void f16_from_f32(const float *src, size_t n, void *dst)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h = fxi_f32_to_f16(src[i]);
        memcpy((char *)dst + 2 * i, &h, 2);
    }
}

static void bf16_to_f32(const void *src, size_t n, float *dst)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, (const char *)src + 2 * i, 2);
        dst[i] = fxi_bf16_to_f32(h);
    }
}

static void bf16_from_f32(const float *src, size_t n, void *dst)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h = fxi_f32_to_bf16(src[i]);
        memcpy((char *)dst + 2 * i, &h, 2);
    }
}

static void q8_0_to_f32(const void *src, size_t n, float *dst)
{
    for (size_t b = 0; b < n / FXI_Q8_0_ELEMS; b++) {
        fxi_block_q8_0 blk;
        memcpy(&blk, (const char *)src + b * sizeof blk, sizeof blk);
        float d = fxi_f16_to_f32(blk.d);
        for (int i = 0; i < FXI_Q8_0_ELEMS; i++) *dst++ = d * (float)blk.q[i];
    }
}

// To the nearest integer, halves away from zero. Pre: |x| < 2^22.
static float round_away(float x)
{
    int whole = (int)x;
    float rest = x - (float)whole; // exact
    return (float)(whole + (rest >= 0.5f) - (rest <= -0.5f));
}

// d = max|x| / 127 is stored as f16; the integers are computed with the unrounded d.
static fxi_block_q8_0 q8_0_block(const float *x)
{
    float amax = 0;
    for (int i = 0; i < FXI_Q8_0_ELEMS; i++) amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    float d = amax / 127;
    if (d >= 65520) d = 65504; // the largest f16; above it would be stored as inf
    fxi_block_q8_0 blk = {.d = fxi_f32_to_f16(d)};
    for (int i = 0; i < FXI_Q8_0_ELEMS; i++) {
        float q = d > 0 ? x[i] / d : 0; // |q| may pass 127 by a rounding
        blk.q[i] = (int8_t)round_away(q > 127 ? 127 : q < -127 ? -127 : q);
    }
    return blk;
}

static void q8_0_from_f32(const float *src, size_t n, void *dst)
{
    for (size_t b = 0; b < n / FXI_Q8_0_ELEMS; b++) {
        fxi_block_q8_0 blk = q8_0_block(src + b * FXI_Q8_0_ELEMS);
        memcpy((char *)dst + b * sizeof blk, &blk, sizeof blk);
    }
}

static const struct row_codec {
    fxi_dtype type;
    void (*to_f32)(const void *src, size_t n, float *dst);
    void (*from_f32)(const float *src, size_t n, void *dst);
} codecs[] = {
    {FXI_F32, f32_to_f32, f32_from_f32},
    {FXI_F16, f16_to_f32, f16_from_f32},
    {FXI_BF16, bf16_to_f32, bf16_from_f32},
    {FXI_Q8_0, q8_0_to_f32, q8_0_from_f32},
};

// NULL for block types without a codec of their own.
static const struct row_codec *codec_find(fxi_dtype type)
{
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++)
        if (codecs[i].type == type) return &codecs[i];
    return NULL;
}

// Pre: type is made of blocks.
static const fxi_qformat *format_find(fxi_dtype type)
{
    const fxi_qformat *f = fxi_qformat_find(type);
    assert(f);
    return f;
}

static void blocks_to_f32(fxi_dtype type, const void *src, size_t n, float *dst)
{
    const fxi_qformat *f = format_find(type);
    size_t block_bytes = fxi_dtype_find(type)->block_bytes, n_elem = (size_t)f->n;
    for (size_t b = 0; b < n / n_elem; b++) {
        fxi_qblock blk;
        f->read((const char *)src + b * block_bytes, &blk);
        fxi_qblock_to_f32(f, &blk, dst + b * n_elem);
    }
}

static void blocks_from_f32(fxi_dtype type, const float *src, size_t n, void *dst)
{
    const fxi_qformat *f = format_find(type);
    size_t block_bytes = fxi_dtype_find(type)->block_bytes, n_elem = (size_t)f->n;
    for (size_t b = 0; b < n / n_elem; b++) {
        fxi_qblock blk;
        fxi_qblock_from_f32(f, src + b * n_elem, &blk);
        f->write(&blk, (char *)dst + b * block_bytes);
    }
}

void fxi_row_to_f32(fxi_dtype type, const void *src, size_t n_elem, float *dst)
{
    const struct row_codec *c = codec_find(type);
    if (c)
        c->to_f32(src, n_elem, dst);
    else
        blocks_to_f32(type, src, n_elem, dst);
}

void fxi_row_from_f32(fxi_dtype type, const float *src, size_t n_elem, void *dst)
{
    const struct row_codec *c = codec_find(type);
    if (c)
        c->from_f32(src, n_elem, dst);
    else
        blocks_from_f32(type, src, n_elem, dst);
}
