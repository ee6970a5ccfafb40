// cuda_format.h - single numbers and fragments of packed weights (cuda_pack.h), and single numbers
// of rows in GGUF's layout (base/number/qblock.c).
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

FXI_DEVICE float float_number(int type, const void *data, size_t i)
{
    if (type == FXI_F32) return ((const float *)data)[i];
    const uint16_t h = ((const uint16_t *)data)[i];
    return type == FXI_F16 ? ptx_f32_of_f16(h) : ptx_f32_of_bf16(h);
}

// Number i of 16 x 32 tiles: where it lies.
FXI_DEVICE size_t float_place(int n_in, int row, int k)
{
    const size_t n_tile = (size_t)((n_in + 31) / 32);
    return ((size_t)(row / 16) * n_tile + (size_t)(k / 32)) * 512 +
           (size_t)(row % 16 * 32 + k % 32);
}

// ---- rows in GGUF's layout ---------------------------------------------------------------------

// The planes of a block's codes, as qblock.c describes them.
typedef struct file_plane {
    int at, width, run, shift;
} file_plane;

// How the scales of a block are stored.
typedef enum scale_kind {
    SCALE_NONE,
    SCALE_HALVES, // Q2_K
    SCALE_BIASED, // Q3_K
    SCALE_PAIRS,  // Q4_K, Q5_K
    SCALE_BYTES,  // Q6_K
    SCALE_EIGHT   // IQ4_XS
} scale_kind;

typedef struct file_block {
    int bytes, d_at, m_at, sc_at;
    scale_kind kind;
    file_plane lo, hi; // width 0: no such plane
} file_block;

FXI_DEVICE constexpr file_block file_block_of(int type)
{
    switch (type) {
    case FXI_Q4_1: return {20, 0, 2, 0, SCALE_NONE, {4, 4, 16, 0}, {}};
    case FXI_Q5_0: return {22, 0, 0, 0, SCALE_NONE, {6, 4, 16, 0}, {2, 1, 1, 4}};
    case FXI_Q5_1: return {24, 0, 2, 0, SCALE_NONE, {8, 4, 16, 0}, {4, 1, 1, 4}};
    case FXI_Q8_0: return {34, 0, 0, 0, SCALE_NONE, {2, 8, 1, 0}, {}};
    case FXI_Q2_K: return {84, 80, 82, 0, SCALE_HALVES, {16, 2, 32, 0}, {}};
    case FXI_Q3_K: return {110, 108, 0, 96, SCALE_BIASED, {32, 2, 32, 0}, {0, 1, 32, 2}};
    case FXI_Q4_K: return {144, 0, 2, 4, SCALE_PAIRS, {16, 4, 32, 0}, {}};
    case FXI_Q5_K: return {176, 0, 2, 4, SCALE_PAIRS, {48, 4, 32, 0}, {16, 1, 32, 4}};
    case FXI_Q6_K: return {210, 208, 0, 192, SCALE_BYTES, {0, 4, 64, 0}, {128, 2, 32, 4}};
    case FXI_IQ4_XS: return {136, 0, 0, 2, SCALE_EIGHT, {8, 4, 16, 0}, {}};
    case FXI_MXFP4: return {17, 0, 0, 0, SCALE_NONE, {1, 4, 16, 0}, {}};
    default: return {18, 0, 0, 0, SCALE_NONE, {2, 4, 16, 0}, {}}; // Q4_0, IQ4_NL
    }
}

FXI_DEVICE int file_bits(const uint8_t *block, const file_plane &p, int i)
{
    const int span = p.run * (8 / p.width), in = i % span;
    const int byte = p.at + i / span * p.run + in % p.run;
    return (block[byte] >> in / p.run * p.width & ((1 << p.width) - 1)) << p.shift;
}

FXI_DEVICE float file_half(const uint8_t *b)
{
    return ptx_f32_of_f16((uint16_t)(b[0] | b[1] << 8));
}

// The scale and offset of run j. b: the block's scales
FXI_DEVICE void file_scales(scale_kind kind, const uint8_t *b, int j, int *sc, int *mn)
{
    *mn = 0;
    if (kind == SCALE_HALVES) {
        *sc = b[j] & 15, *mn = b[j] >> 4;
    } else if (kind == SCALE_BIASED) {
        const file_plane lo = {0, 4, 8, 0}, hi = {8, 2, 4, 4};
        *sc = (file_bits(b, lo, j) | file_bits(b, hi, j)) - 32;
    } else if (kind == SCALE_EIGHT) {
        const file_plane lo = {2, 4, 1, 0}, hi = {0, 2, 1, 4};
        *sc = (file_bits(b, lo, j) | file_bits(b, hi, j)) - 32;
    } else if (kind == SCALE_BYTES) {
        *sc = (int8_t)b[j];
    } else if (j < 4) {
        *sc = b[j] & 63, *mn = b[4 + j] & 63;
    } else {
        *sc = (b[4 + j] & 15) | b[j - 4] >> 6 << 4, *mn = b[4 + j] >> 4 | b[j] >> 6 << 4;
    }
}

FXI_DEVICE float file_block_number(int type, const uint8_t *row, int i)
{
    const code_format f = format_of(type);
    const file_block b = file_block_of(type);
    const uint8_t *block = row + (size_t)(i / f.n) * (size_t)b.bytes;
    const int k = i % f.n;
    run_scale s = {0, 0};
    if (f.is_bf16)
        s.scale =
            ptx_f32_of_bf16((uint16_t)(block[0] < 2 ? 0x20 << block[0] : (block[0] - 1) << 7));
    else
        s.scale = file_half(block + b.d_at);
    if (f.has_min) s.min = file_half(block + b.m_at);
    if (b.kind != SCALE_NONE) {
        int sc, mn;
        file_scales(b.kind, block + b.sc_at, k / f.sub, &sc, &mn);
        s.scale *= (float)sc;
        s.min = -(s.min * (float)mn);
    }
    int code = file_bits(block, b.lo, k);
    if (b.hi.width) code |= file_bits(block, b.hi, k);
    return scaled_code(f, s, code);
}

// ---- tables ------------------------------------------------------------------------------------

// Number k of a row of a table, as f32.
FXI_DEVICE float table_number(const fxi_cuda_matrix &m, int row, int k)
{
    const code_format f = format_of(m.type);
    const uint8_t *at = (const uint8_t *)m.data + (size_t)row * m.row_bytes;
    if (m.row_bytes)
        return f.n ? file_block_number(m.type, at, k) : float_number(m.type, at, (size_t)k);
    return f.n ? packed_block_number(f, m, row, k)
               : float_number(m.type, m.data, float_place(m.n_in, row, k));
}

#endif
