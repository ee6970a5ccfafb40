// body_codes.h - unpacks the codes and scales of a panel of a block type with vectors (linear.c has
// the layout): what the kernels for small and for large batches share. See body_quant.h.
//
// Parameters that are const are constants at every call: LO and HI, the bits of a code's planes; N,
// how many vectors of codes share a scale (8 or 4); BIG, types of 256; HAS_MIN; VALUE, the table of
// the codes' values or NULL.
#ifndef FXI_KERNELS_BODY_CODES_H
#define FXI_KERNELS_BODY_CODES_H

#include <string.h>

#include "kernels/cpu/body/body_panel.h"
#include "kernels/linear.h"

#define Q_K_BLOCK   512
#define Q_MAX_BLOCK (Q_K_BLOCK / FXI_Q_BLOCK)
#define Q_MAX_SUB   (Q_K_BLOCK / 16)

#define Q_MAGIC_BITS 0x4b400000
#define Q_MAGIC      12582912.0f

// A token's activations of one block of k, side by side, so that a tile needs few addresses.
typedef struct q_token {
    int8_t q[Q_K_BLOCK];
    float d[Q_MAX_BLOCK];
    int32_t start[Q_MAX_SUB]; // start values of the integer sums
    float dsum[Q_MAX_SUB];    // dx x (float)sum
} q_token;

ALWAYS_INLINE int32_t four_bytes(const int8_t *q)
{
    int32_t x;
    memcpy(&x, q, sizeof x);
    return x;
}

// ---- codes -------------------------------------------------------------------------------------

// Whether values need all 8 bits of a byte.
#define Q_WIDE(LO, VALUE) ((LO) == 8 || (VALUE) == fxi_iq4_values)

// Vector g of the values of the block at `at`, [16][4] bytes.
ALWAYS_INLINE vb code_vector(const int LO, const int HI, const uint8_t *const VALUE,
                             const uint8_t *at, const int g)
{
    vb v = vb_load(at + g % LO * 64);
    if (LO < 8) v = vb_take(v, g / LO * LO, (1 << LO) - 1);
    if (!HI) return VALUE ? vb_lookup(VALUE, v) : v;
    vb hi = vb_load(at + (LO + g % (HI ? HI : 1)) * 64);
    return vb_or(v, vb_take(hi, g / (HI ? HI : 1) * HI - LO, ((1 << HI) - 1) << LO));
}

// ---- scales ------------------------------------------------------------------------------------

// A group of scales, of 32 or 256 numbers along k, begins with d and m.
typedef struct q_head {
    v16 d, m; // BIG types subtract the minimum: m is -m there
} q_head;

ALWAYS_INLINE q_head head_load(const bool BIG, const bool HAS_MIN, const uint8_t *const VALUE,
                               const uint8_t *at)
{
    const uint16_t *h = (const uint16_t *)(const void *)at;
    v16 m = HAS_MIN ? v16_from_f16(h + FXI_PANEL) : v16_zero();
    return (q_head){VALUE == fxi_e2m1_values ? v16_from_bf16(h) : v16_from_f16(h),
                    BIG ? v16_sub(v16_zero(), m) : m};
}

// dw and min of a run.
typedef struct q_scale {
    v16 dw, min;
} q_scale;

// Scale and minimum of run r of the group at `at`. Both share a byte in the 2-bit type.
ALWAYS_INLINE q_scale run_scale(const int LO, const int HI, const bool BIG, const bool HAS_MIN,
                                q_head head, const uint8_t *at, int r)
{
    if (!BIG) return (q_scale){head.d, head.m};
    const bool nibbles = LO + HI == 2;
    at += (HAS_MIN ? 4 : 2) * FXI_PANEL + r * (HAS_MIN && !nibbles ? 2 : 1) * FXI_PANEL;
    if (nibbles)
        return (q_scale){v16_mul(head.d, v16_from_u4(at, 0)), v16_mul(head.m, v16_from_u4(at, 4))};
    v16 dw = v16_mul(head.d, v16_from_i8((const int8_t *)at));
    return (q_scale){dw, HAS_MIN ? v16_mul(head.m, v16_from_i8((const int8_t *)at + FXI_PANEL))
                                 : v16_zero()};
}

// s x dw, where s is an integer sum that started at Q_MAGIC_BITS.
ALWAYS_INLINE v16 times_scale(vq s, v16 dw, v16 offset)
{
    return v16_fma(vq_as_f32(s), dw, offset);
}

ALWAYS_INLINE v16 scale_offset(v16 dw)
{
    return v16_mul(dw, v16_set1(-Q_MAGIC));
}

#endif
