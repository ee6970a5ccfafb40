// rows.c - rows of numbers to and from f32. Block types go through fxi_qblock; Q8_0, the format of
// activations too, is written in one step, without a search for its scale.
#include <math.h>
#include <string.h>

#include "base/number/dtype.h"
#include "base/number/qblock.h"

static void f32_to_f32(const void *src, size_t n, float *dst)
{
    memcpy(dst, src, n * sizeof *dst);
}

static void f32_from_f32(const float *src, size_t n, void *dst)
{
    memcpy(dst, src, n * sizeof *src);
}

// Rows come from files: 16-bit numbers may be unaligned.
#define CODEC_16(name)                                                 \
    static void name##_to_f32(const void *src, size_t n, float *dst)   \
    {                                                                  \
        for (size_t i = 0; i < n; i++) {                               \
            uint16_t h;                                                \
            memcpy(&h, (const char *)src + 2 * i, 2);                  \
            dst[i] = fxi_##name##_to_f32(h);                           \
        }                                                              \
    }                                                                  \
    static void name##_from_f32(const float *src, size_t n, void *dst) \
    {                                                                  \
        for (size_t i = 0; i < n; i++) {                               \
            const uint16_t h = fxi_f32_to_##name(src[i]);              \
            memcpy((char *)dst + 2 * i, &h, 2);                        \
        }                                                              \
    }

CODEC_16(f16)
CODEC_16(bf16)

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
    void (*to_f32)(const void *src, size_t n, float *dst); // NULL: as a block
    void (*from_f32)(const float *src, size_t n, void *dst);
} codecs[] = {
    {FXI_F32, f32_to_f32, f32_from_f32},
    {FXI_F16, f16_to_f32, f16_from_f32},
    {FXI_BF16, bf16_to_f32, bf16_from_f32},
    {FXI_Q8_0, NULL, q8_0_from_f32},
};

// NULL: a type that is made of blocks without a codec of their own.
static const struct row_codec *codec_find(fxi_dtype type)
{
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++)
        if (codecs[i].type == type) return &codecs[i];
    return NULL;
}

void fxi_row_to_f32(fxi_dtype type, const void *src, size_t n_elem, float *dst)
{
    const struct row_codec *c = codec_find(type);
    if (c && c->to_f32) {
        c->to_f32(src, n_elem, dst);
        return;
    }
    const fxi_qformat *f = fxi_qformat_find(type);
    const size_t block_bytes = fxi_dtype_find(type)->block_bytes, n = (size_t)f->n;
    for (size_t b = 0; b < n_elem / n; b++) {
        fxi_qblock blk;
        f->read((const char *)src + b * block_bytes, &blk);
        fxi_qblock_to_f32(f, &blk, dst + b * n);
    }
}

void fxi_row_from_f32(fxi_dtype type, const float *src, size_t n_elem, void *dst)
{
    const struct row_codec *c = codec_find(type);
    if (c) {
        c->from_f32(src, n_elem, dst);
        return;
    }
    const fxi_qformat *f = fxi_qformat_find(type);
    const size_t block_bytes = fxi_dtype_find(type)->block_bytes, n = (size_t)f->n;
    for (size_t b = 0; b < n_elem / n; b++) {
        fxi_qblock blk;
        fxi_qblock_from_f32(f, src + b * n, &blk);
        f->write(&blk, (char *)dst + b * block_bytes);
    }
}
