// cuda_format.h - single numbers and fragments of packed weights (cuda_pack.h).
#ifndef FXI_KERNELS_CUDA_FORMAT_H
#define FXI_KERNELS_CUDA_FORMAT_H

#include "kernels/cuda/cuda_device.h"

// A block type, as fxi_qformat and fxi_qpanel describe it. n 0: it is not made of blocks.
typedef struct code_format {
    int n, sub;
    int lo, hi; // bits of the planes
    int zero;
    bool has_min, nibbles, is_bf16; // as in fxi_qpanel; d is bf16
    int table;                      // 0: codes are values; 1: of IQ4, 2: of E2M1
} code_format;

FXI_DEVICE constexpr code_format format_of(int type)
{
    switch (type) {
    case FXI_Q4_0: return {32, 32, 4, 0, 8, false, false, false, 0};
    case FXI_Q4_1: return {32, 32, 4, 0, 0, true, false, false, 0};
    case FXI_Q5_0: return {32, 32, 4, 1, 16, false, false, false, 0};
    case FXI_Q5_1: return {32, 32, 4, 1, 0, true, false, false, 0};
    case FXI_Q8_0: return {32, 32, 8, 0, 0, false, false, false, 0}; // signed
    case FXI_Q2_K: return {256, 16, 2, 0, 0, true, true, false, 0};
    case FXI_Q3_K: return {256, 16, 2, 1, 4, false, false, false, 0};
    case FXI_Q4_K: return {256, 32, 4, 0, 0, true, false, false, 0};
    case FXI_Q5_K: return {256, 32, 4, 1, 0, true, false, false, 0};
    case FXI_Q6_K: return {256, 16, 4, 2, 32, false, false, false, 0};
    case FXI_IQ4_NL: return {32, 32, 4, 0, 128, false, false, false, 1};
    case FXI_IQ4_XS: return {256, 32, 4, 0, 128, false, false, false, 1};
    case FXI_MXFP4: return {32, 32, 4, 0, 12, false, false, true, 2};
    default: return {0, 0, 0, 0, 0, false, false, false, 0};
    }
}

FXI_DEVICE constexpr int format_tile_bytes(const code_format &f)
{
    return 64 * (f.lo + f.hi);
}

// Of the scales of n numbers along k.
FXI_DEVICE constexpr int format_scale_bytes(const code_format &f)
{
    const int n_sub = f.n == 32 ? 0 : f.n / f.sub;
    return (f.has_min ? 64 : 32) + n_sub * 16 * (f.has_min && !f.nibbles ? 2 : 1);
}

FXI_DEVICE constexpr size_t format_panel_bytes(const code_format &f, int n_in)
{
    const size_t used = (size_t)(n_in / 32) * (size_t)format_tile_bytes(f) +
                        (size_t)(n_in / f.n) * (size_t)format_scale_bytes(f);
    return (used + 255) / 256 * 256;
}

// The tables of base/number/qblock.c minus their zeros, as four little-endian words. No arrays: an
// index that is known only at run time would put them on the stack.
FXI_DEVICE constexpr uint32_t table_word(int table, int i)
{
    const bool is_iq4 = table == 1;
    return i == 0   ? (is_iq4 ? 0xbfad9881u : 0x03020100u)
           : i == 1 ? (is_iq4 ? 0xf6eaddcfu : 0x0c080604u)
           : i == 2 ? (is_iq4 ? 0x26190d01u : 0xfdfeff00u)
                    : (is_iq4 ? 0x71594535u : 0xf4f8fafcu);
}

// ---- fragments ---------------------------------------------------------------------------------

// The unsigned codes of one plane of `bits` of a lane, as four words of four. at: the tile's plane
template <int bits> FXI_DEVICE void plane_load(const uint8_t *at, int lane, uint32_t w[4])
{
    if (bits == 8) {
        const uint4 v = ptx_load16_once(at + lane * 16);
        w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
    } else if (bits == 4) {
        const uint32_t *v = (const uint32_t *)(at + lane * 8);
        const uint32_t v0 = v[0], v1 = v[1];
        w[0] = v0 & 0x0f0f0f0f, w[2] = v0 >> 4 & 0x0f0f0f0f;
        w[1] = v1 & 0x0f0f0f0f, w[3] = v1 >> 4 & 0x0f0f0f0f;
    } else if (bits == 2) {
        const uint32_t v = *(const uint32_t *)(at + lane * 4);
        for (int i = 0; i < 4; i++) w[i] = v >> 2 * i & 0x03030303;
    } else {
        const uint32_t v = *(const uint16_t *)(at + lane * 2);
        for (int i = 0; i < 4; i++) {
            const uint32_t four = v >> i & 0x1111;                       // bits 0, 4, 8, 12
            const uint32_t two = (four & 0x0011) | (four & 0x1100) << 8; // 0, 4, 16, 20
            w[i] = (two | two << 4) & 0x01010101;                        // 0, 8, 16, 24
        }
    }
}

// Four signed numbers for four codes.
template <int type> FXI_DEVICE uint32_t code_values(uint32_t code)
{
    constexpr code_format f = format_of(type);
    if (f.table) {
        const uint32_t at =
            (code & 0xf) | (code >> 4 & 0xf0) | (code >> 8 & 0xf00) | (code >> 12 & 0xf000);
        const uint32_t low =
            __byte_perm(table_word(f.table, 0), table_word(f.table, 1), at & 0x7777);
        const uint32_t high =
            __byte_perm(table_word(f.table, 2), table_word(f.table, 3), at & 0x7777);
        const uint32_t is_high = (code >> 3 & 0x01010101) * 0xff;
        return (low & ~is_high) | (high & is_high);
    }
    if (!f.zero) return code;
    return ((code | 0x80808080) - (uint32_t)f.zero * 0x01010101) ^ 0x80808080;
}

// The 16 numbers (value - zero) of a lane of a tile, as mma.m16n8k32 wants its first operand.
template <int type> FXI_DEVICE void tile_load(const uint8_t *at, int lane, uint32_t w[4])
{
    constexpr code_format f = format_of(type);
    plane_load<f.lo>(at, lane, w);
    if (f.hi) {
        uint32_t high[4];
        plane_load<f.hi ? f.hi : 1>(at + 64 * f.lo, lane, high);
        for (int i = 0; i < 4; i++) w[i] |= high[i] << f.lo;
    }
    for (int i = 0; i < 4; i++) w[i] = code_values<type>(w[i]);
}

// ---- scales ------------------------------------------------------------------------------------

typedef struct run_scale {
    float scale, min; // a number is scale x value + min
} run_scale;

FXI_DEVICE float half_load(const uint8_t *at, int i)
{
    return ptx_f32_of_f16(((const uint16_t *)at)[i]);
}

// Of row r of a panel, for the run that has number k of a group. at: the group's scales
FXI_DEVICE run_scale scale_load(const code_format &f, const uint8_t *at, int r, int k)
{
    const float d = f.is_bf16 ? ptx_f32_of_bf16(((const uint16_t *)at)[r]) : half_load(at, r);
    const float m = f.has_min ? half_load(at, 16 + r) : 0;
    const run_scale plain = {d, m};
    if (f.n == 32) return plain;
    const int step = 16 * (f.has_min && !f.nibbles ? 2 : 1);
    const uint8_t *sub = at + (f.has_min ? 64 : 32) + k / f.sub * step;
    if (f.nibbles) {
        const run_scale s = {d * (float)(sub[r] & 15), -(m * (float)(sub[r] >> 4))};
        return s;
    }
    const run_scale s = {d * (float)(int8_t)sub[r], f.has_min ? -(m * (float)sub[16 + r]) : 0};
    return s;
}

// ---- single numbers ----------------------------------------------------------------------------

FXI_DEVICE float scaled_code(const code_format &f, const run_scale &s, int code)
{
    const int value = f.table     ? (int8_t)(table_word(f.table, code / 4) >> code % 4 * 8)
                      : f.lo == 8 ? (int8_t)code
                                  : code - f.zero;
    const float v = s.scale * (float)value;
    return f.has_min ? v + s.min : v;
}

FXI_DEVICE int packed_bits(const uint8_t *plane, int bits, int r, int k)
{
    const int w = r / 8 + k / 16 * 2, j = k % 4;
    const uint8_t *lane = plane + (r % 8 * 4 + k % 16 / 4) * 2 * bits;
    const int at = bits == 8   ? 32 * w + 8 * j
                   : bits == 4 ? 32 * (w % 2) + 8 * j + w / 2 * 4
                   : bits == 2 ? 8 * j + 2 * w
                               : 4 * j + w;
    return lane[at / 8] >> at % 8 & ((1 << bits) - 1);
}

FXI_DEVICE float packed_block_number(const code_format &f, const fxi_cuda_matrix &m, int row, int k)
{
    const uint8_t *panel =
        (const uint8_t *)m.data + (size_t)(row / 16) * format_panel_bytes(f, m.n_in);
    const uint8_t *tile = panel + (size_t)(k / 32) * (size_t)format_tile_bytes(f);
    const uint8_t *scales = panel + (size_t)(m.n_in / 32) * (size_t)format_tile_bytes(f) +
                            (size_t)(k / f.n) * (size_t)format_scale_bytes(f);
    int code = packed_bits(tile, f.lo, row % 16, k % 32);
    if (f.hi) code |= packed_bits(tile + 64 * f.lo, f.hi, row % 16, k % 32) << f.lo;
    return scaled_code(f, scale_load(f, scales, row % 16, k % f.n), code);
}

// Number i of 16 x 32 tiles: where it lies.
FXI_DEVICE size_t float_place(int n_in, int row, int k)
{
    const size_t n_tile = (size_t)((n_in + 31) / 32);
    return ((size_t)(row / 16) * n_tile + (size_t)(k / 32)) * 512 +
           (size_t)(row % 16 * 32 + k % 32);
}

// Number k of a row of a matrix, as f32.
FXI_DEVICE float table_number(const fxi_cuda_matrix &m, int row, int k)
{
    const code_format f = format_of(m.type);
    return f.n ? packed_block_number(f, m, row, k)
               : float_number(m.type, m.data, float_place(m.n_in, row, k));
}

#endif
