// rows.c - rows of numbers to and from f32. Block types go through fxi_qblock; Q8_0, the format of
// activations too, is written in one step, without a search for its scale.
#include <math.h>
#include <string.h>

#include "base/number/dtype.h"
#include "base/number/qblock.h"

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

// Rows come from files: their numbers may be unaligned.

void fxi_row_to_f32(fxi_dtype type, const void *src, size_t n_elem, float *dst)
{
    if (type == FXI_F32) {
        memcpy(dst, src, n_elem * sizeof *dst);
        return;
    }
    if (type == FXI_F16 || type == FXI_BF16) {
        for (size_t i = 0; i < n_elem; i++) {
            uint16_t h;
            memcpy(&h, (const char *)src + i * sizeof h, sizeof h);
            dst[i] = type == FXI_F16 ? fxi_f16_to_f32(h) : fxi_bf16_to_f32(h);
        }
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
    if (type == FXI_F32) {
        memcpy(dst, src, n_elem * sizeof *src);
        return;
    }
    if (type == FXI_F16 || type == FXI_BF16) {
        for (size_t i = 0; i < n_elem; i++) {
            const uint16_t h = type == FXI_F16 ? fxi_f32_to_f16(src[i]) : fxi_f32_to_bf16(src[i]);
            memcpy((char *)dst + i * sizeof h, &h, sizeof h);
        }
        return;
    }
    const fxi_qformat *f = fxi_qformat_find(type);
    const size_t block_bytes = fxi_dtype_find(type)->block_bytes, n = (size_t)f->n;
    for (size_t b = 0; b < n_elem / n; b++) {
        fxi_qblock blk;
        fxi_block_q8_0 q8_0;
        if (type == FXI_Q8_0) {
            q8_0 = q8_0_block(src + b * n);
            memcpy((char *)dst + b * block_bytes, &q8_0, sizeof q8_0);
        } else {
            fxi_qblock_from_f32(f, src + b * n, &blk);
            f->write(&blk, (char *)dst + b * block_bytes);
        }
    }
}
