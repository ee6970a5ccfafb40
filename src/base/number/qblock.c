// qblock.c - the layout of each block format on disk.
//
// Nearly everything is made of planes. A plane keeps `width` bits of each of a row of integers; in
// `run` consecutive bytes, the lowest bits belong to the next `run` integers, the bits above to the
// `run` after those, and so on:
//
//     width 4, run 16:    byte 0 = integers 0 and 16, byte 1 = 1 and 17, .. byte 15 = 15 and 31
//     width 1, run 1:     byte 0 = integers 0 to 7, byte 1 = 8 to 15, ..
//
// An integer of 5 bits lies in a plane of its low 4 and a plane of its high 1.
#include "base/number/qblock.h"

#include <string.h>

typedef struct bit_plane {
    int at;         // first byte in the block
    int width, run; // as above
    int shift;      // the integer's bits begin here; width 0: no such plane
} bit_plane;

// How the scales of a _K type are packed. b: their first byte.
typedef struct scale_packing {
    void (*get)(const uint8_t *b, fxi_qblock *out);
    void (*put)(const fxi_qblock *in, uint8_t *b);
} scale_packing;

typedef struct block_layout {
    int n;                     // codes
    int d_at, m_at;            // m_at: -1 if the type has none
    int sc_at;                 // of the scales
    const scale_packing *pack; // of the scales; NULL: none
    bit_plane planes[2];       // of the codes
} block_layout;

static uint16_t get_u16(const uint8_t *b)
{
    uint16_t v;
    memcpy(&v, b, sizeof v);
    return v;
}

static void put_u16(uint8_t *b, uint16_t v)
{
    memcpy(b, &v, sizeof v);
}

// Sets the bits of 8 integers at v from 8 bytes at b, from bit `bit` on.
static void get_8_bytes(const uint8_t *b, int bit, uint8_t mask, int shift, uint8_t *v)
{
    uint64_t from, to;
    memcpy(&from, b, sizeof from);
    memcpy(&to, v, sizeof to);
    to |= (from >> bit & 0x0101010101010101u * mask) << shift;
    memcpy(v, &to, sizeof to);
}

// Sets the bits of 8 integers at v from those of a byte, the lowest bit first.
static void get_8_bits(uint8_t byte, int shift, uint8_t *v)
{
    const uint64_t each = byte * 0x0101010101010101u & 0x8040201008040201u; // bit i of byte i
    uint64_t to;
    memcpy(&to, v, sizeof to);
    to |= ((each + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u) << shift;
    memcpy(v, &to, sizeof to);
}

// Sets the plane's bits of v [n]. Inlined, with read_block, into the reader of each format: what is
// constant in its layout makes the loops straight code, at twice the speed.
static inline __attribute__((always_inline)) void get_plane(const uint8_t *block,
                                                            const bit_plane *p, int n, uint8_t *v)
{
    const uint8_t *b = block + p->at, mask = (uint8_t)((1 << p->width) - 1);
    if (p->width == 1 && p->run == 1) {
        for (int i = 0; i < n; i += 8) get_8_bits(*b++, p->shift, v + i);
        return;
    }
    for (int i = 0; i < n; b += p->run)
        for (int bit = 0; bit < 8; bit += p->width, i += p->run) {
            int k = 0;
            for (; k + 8 <= p->run; k += 8) get_8_bytes(b + k, bit, mask, p->shift, v + i + k);
            for (; k < p->run; k++) v[i + k] |= (uint8_t)((b[k] >> bit & mask) << p->shift);
        }
}

// The plane's bytes are 0 before.
static void put_plane(uint8_t *block, const bit_plane *p, int n, const uint8_t *v)
{
    uint8_t *b = block + p->at, mask = (uint8_t)((1 << p->width) - 1);
    for (int i = 0; i < n; b += p->run)
        for (int bit = 0; bit < 8; bit += p->width, i += p->run)
            for (int k = 0; k < p->run; k++)
                b[k] |= (uint8_t)((v[i + k] >> p->shift & mask) << bit);
}

// d, and everything else 0, as far as blocks of n codes have it.
static void begin_block(fxi_qblock *out, uint16_t d, int n)
{
    out->d = d;
    out->m = 0;
    memset(out->sc, 0, sizeof out->sc);
    memset(out->mn, 0, sizeof out->mn);
    memset(out->code, 0, (size_t)n);
}

static inline __attribute__((always_inline)) void read_block(const block_layout *l,
                                                             const void *block, fxi_qblock *out)
{
    const uint8_t *b = block;
    begin_block(out, get_u16(b + l->d_at), l->n);
    if (l->m_at >= 0) out->m = get_u16(b + l->m_at);
    if (l->pack) l->pack->get(b + l->sc_at, out);
    get_plane(b, &l->planes[0], l->n, out->code);
    if (l->planes[1].width) get_plane(b, &l->planes[1], l->n, out->code);
}

static void write_block(const block_layout *l, const fxi_qblock *in, size_t n_bytes, void *block)
{
    uint8_t *b = memset(block, 0, n_bytes);
    put_u16(b + l->d_at, in->d);
    if (l->m_at >= 0) put_u16(b + l->m_at, in->m);
    if (l->pack) l->pack->put(in, b + l->sc_at);
    for (int i = 0; i < 2; i++)
        if (l->planes[i].width) put_plane(b, &l->planes[i], l->n, in->code);
}

// ---- scales ------------------------------------------------------------------------------------

// Q2_K, 16 bytes: sc in the low half, mn in the high one.
static void get_halves(const uint8_t *b, fxi_qblock *out)
{
    for (int j = 0; j < 16; j++) {
        out->sc[j] = (int8_t)(b[j] & 15);
        out->mn[j] = b[j] >> 4;
    }
}

static void put_halves(const fxi_qblock *in, uint8_t *b)
{
    for (int j = 0; j < 16; j++) b[j] = (uint8_t)((in->sc[j] & 15) | in->mn[j] << 4);
}

// Q3_K, 12 bytes: sc + 32 in two planes.
enum { Q3_K_BIAS = 32 };
static const bit_plane q3_k_scales[2] = {{0, 4, 8, 0}, {8, 2, 4, 4}};

static void get_biased(const uint8_t *b, fxi_qblock *out)
{
    uint8_t v[16] = {0};
    for (int i = 0; i < 2; i++) get_plane(b, &q3_k_scales[i], 16, v);
    for (int j = 0; j < 16; j++) out->sc[j] = (int8_t)(v[j] - Q3_K_BIAS);
}

static void put_biased(const fxi_qblock *in, uint8_t *b)
{
    uint8_t v[16];
    for (int j = 0; j < 16; j++) v[j] = (uint8_t)(in->sc[j] + Q3_K_BIAS);
    for (int i = 0; i < 2; i++) put_plane(b, &q3_k_scales[i], 16, v);
}

// Q4_K and Q5_K, 12 bytes: 8 pairs of 6 bits. The first four of each lie in the low bits of bytes
// 0-3 (sc) and 4-7 (mn); of the last four the low 4 bits lie in bytes 8-11 (sc below mn), and the
// high 2 above the first four.
static void get_pairs(const uint8_t *b, fxi_qblock *out)
{
    for (int j = 0; j < 4; j++) {
        out->sc[j] = (int8_t)(b[j] & 63);
        out->mn[j] = b[4 + j] & 63;
        out->sc[4 + j] = (int8_t)((b[8 + j] & 15) | b[j] >> 6 << 4);
        out->mn[4 + j] = (uint8_t)(b[8 + j] >> 4 | b[4 + j] >> 6 << 4);
    }
}

static void put_pairs(const fxi_qblock *in, uint8_t *b)
{
    for (int j = 0; j < 4; j++) {
        int sc = in->sc[4 + j], mn = in->mn[4 + j];
        b[j] = (uint8_t)((in->sc[j] & 63) | sc >> 4 << 6);
        b[4 + j] = (uint8_t)((in->mn[j] & 63) | mn >> 4 << 6);
        b[8 + j] = (uint8_t)((sc & 15) | mn << 4);
    }
}

// IQ4_XS, 6 bytes: sc + 32 in two planes.
enum { IQ4_XS_BIAS = 32 };
static const bit_plane iq4_xs_scales[2] = {{2, 4, 1, 0}, {0, 2, 1, 4}};

static void get_eight(const uint8_t *b, fxi_qblock *out)
{
    uint8_t v[8] = {0};
    for (int i = 0; i < 2; i++) get_plane(b, &iq4_xs_scales[i], 8, v);
    for (int j = 0; j < 8; j++) out->sc[j] = (int8_t)(v[j] - IQ4_XS_BIAS);
}

static void put_eight(const fxi_qblock *in, uint8_t *b)
{
    uint8_t v[8];
    for (int j = 0; j < 8; j++) v[j] = (uint8_t)(in->sc[j] + IQ4_XS_BIAS);
    for (int i = 0; i < 2; i++) put_plane(b, &iq4_xs_scales[i], 8, v);
}

// Q6_K, 16 bytes.
static void get_bytes(const uint8_t *b, fxi_qblock *out)
{
    memcpy(out->sc, b, sizeof out->sc);
}

static void put_bytes(const fxi_qblock *in, uint8_t *b)
{
    memcpy(b, in->sc, sizeof in->sc);
}

static const scale_packing halves = {get_halves, put_halves}, biased = {get_biased, put_biased},
                           pairs = {get_pairs, put_pairs}, bytes = {get_bytes, put_bytes},
                           eight = {get_eight, put_eight};

// ---- blocks ------------------------------------------------------------------------------------

//                          n    d    m   sc  packing    planes
static const block_layout q4_0 = {32, 0, -1, 0, NULL, {{2, 4, 16, 0}}};
static const block_layout q4_1 = {32, 0, 2, 0, NULL, {{4, 4, 16, 0}}};
static const block_layout q5_0 = {32, 0, -1, 0, NULL, {{6, 4, 16, 0}, {2, 1, 1, 4}}};
static const block_layout q5_1 = {32, 0, 2, 0, NULL, {{8, 4, 16, 0}, {4, 1, 1, 4}}};
static const block_layout q2_k = {256, 80, 82, 0, &halves, {{16, 2, 32, 0}}};
static const block_layout q3_k = {256, 108, -1, 96, &biased, {{32, 2, 32, 0}, {0, 1, 32, 2}}};
static const block_layout q4_k = {256, 0, 2, 4, &pairs, {{16, 4, 32, 0}}};
static const block_layout q5_k = {256, 0, 2, 4, &pairs, {{48, 4, 32, 0}, {16, 1, 32, 4}}};
static const block_layout iq4_xs = {256, 0, -1, 2, &eight, {{8, 4, 16, 0}}};
static const block_layout q6_k = {256, 208, -1, 192, &bytes, {{0, 4, 64, 0}, {128, 2, 32, 4}}};

#define CODEC(name, n_bytes)                                    \
    static void name##_read(const void *block, fxi_qblock *out) \
    {                                                           \
        read_block(&name, block, out);                          \
    }                                                           \
    static void name##_write(const fxi_qblock *in, void *block) \
    {                                                           \
        write_block(&name, in, n_bytes, block);                 \
    }

CODEC(q4_0, 18)
CODEC(q4_1, 20)
CODEC(q5_0, 22)
CODEC(q5_1, 24)
CODEC(q2_k, 84)
CODEC(q3_k, 110)
CODEC(q4_k, 144)
CODEC(q5_k, 176)
CODEC(q6_k, 210)
CODEC(iq4_xs, 136)

// Only Q8_0 stores signed integers.
static void q8_0_read(const void *block, fxi_qblock *out)
{
    const uint8_t *b = block;
    begin_block(out, get_u16(b), FXI_Q8_0_ELEMS);
    for (int i = 0; i < FXI_Q8_0_ELEMS; i++) out->code[i] = b[2 + i] ^ 0x80;
}

static void q8_0_write(const fxi_qblock *in, void *block)
{
    uint8_t *b = block;
    put_u16(b, in->d);
    for (int i = 0; i < FXI_Q8_0_ELEMS; i++) b[2 + i] = in->code[i] ^ 0x80;
}

// MXFP4's first byte is e of d = 2^(e - 128): half of what E8M0 means, because values are doubled.
// The bits of bf16 are 8 of exponent, at least 1 in normal numbers, above 7 of fraction.
static void mxfp4_read(const void *block, fxi_qblock *out)
{
    static const bit_plane codes = {1, 4, 16, 0};
    const uint8_t *b = block;
    begin_block(out, (uint16_t)(b[0] < 2 ? 0x20 << b[0] : (b[0] - 1) << 7), 32);
    get_plane(b, &codes, 32, out->code);
}

static void mxfp4_write(const fxi_qblock *in, void *block)
{
    static const bit_plane codes = {1, 4, 16, 0};
    uint8_t *b = memset(block, 0, 17);
    b[0] = (uint8_t)(in->d < 0x80 ? in->d >> 6 : (in->d >> 7) + 1);
    put_plane(b, &codes, 32, in->code);
}

const uint8_t fxi_iq4_values[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                    129, 141, 153, 166, 181, 197, 217, 241};
const uint8_t fxi_e2m1_values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

//   type       n    sub  bits zero  min   sc_min, sc_max
static const fxi_qformat formats[] = {
    {FXI_Q4_0, 32, 32, 4, 8, false, 0, 0, q4_0_read, q4_0_write, NULL, false},
    {FXI_Q4_1, 32, 32, 4, 0, true, 0, 0, q4_1_read, q4_1_write, NULL, false},
    {FXI_Q5_0, 32, 32, 5, 16, false, 0, 0, q5_0_read, q5_0_write, NULL, false},
    {FXI_Q5_1, 32, 32, 5, 0, true, 0, 0, q5_1_read, q5_1_write, NULL, false},
    {FXI_Q8_0, 32, 32, 8, 128, false, 0, 0, q8_0_read, q8_0_write, NULL, false},
    {FXI_Q2_K, 256, 16, 2, 0, true, 0, 15, q2_k_read, q2_k_write, NULL, false},
    {FXI_Q3_K, 256, 16, 3, 4, false, -32, 31, q3_k_read, q3_k_write, NULL, false},
    {FXI_Q4_K, 256, 32, 4, 0, true, 0, 63, q4_k_read, q4_k_write, NULL, false},
    {FXI_Q5_K, 256, 32, 5, 0, true, 0, 63, q5_k_read, q5_k_write, NULL, false},
    {FXI_Q6_K, 256, 16, 6, 32, false, -128, 127, q6_k_read, q6_k_write, NULL, false},
    {FXI_IQ4_NL, 32, 32, 4, FXI_IQ4_ZERO, false, 0, 0, q4_0_read, q4_0_write, fxi_iq4_values,
     false},
    {FXI_IQ4_XS, 256, 32, 4, FXI_IQ4_ZERO, false, -32, 31, iq4_xs_read, iq4_xs_write,
     fxi_iq4_values, false},
    {FXI_MXFP4, 32, 32, 4, FXI_E2M1_ZERO, false, 0, 0, mxfp4_read, mxfp4_write, fxi_e2m1_values,
     true},
};

const fxi_qformat *fxi_qformat_find(fxi_dtype type)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].type == type) return &formats[i];
    return NULL;
}

// ---- numbers -----------------------------------------------------------------------------------

float fxi_qformat_scale(const fxi_qformat *f, uint16_t d)
{
    return f->d_bf16 ? fxi_bf16_to_f32(d) : fxi_f16_to_f32(d);
}

// Products in this order, each rounded to f32, as in other programs.
void fxi_qblock_to_f32(const fxi_qformat *f, const fxi_qblock *in, float *dst)
{
    float d = fxi_qformat_scale(f, in->d), m = fxi_f16_to_f32(in->m);
    bool has_sc = f->sc_max > 0;
    for (int j = 0; j < f->n / f->sub; j++) {
        const uint8_t *code = in->code + j * f->sub;
        float scale = has_sc ? d * (float)in->sc[j] : d;
        float min = has_sc ? -(m * (float)in->mn[j]) : m;
        for (int i = 0; i < f->sub; i++) dst[i] = scale * (float)fxi_qformat_value(f, code[i]);
        for (int i = 0; f->has_min && i < f->sub; i++) dst[i] += min;
        dst += f->sub;
    }
}
