// qblock.c - the layout of each block format on disk, and the quantisation of numbers.
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

#include <math.h>
#include <string.h>

typedef struct bit_plane {
    int at;         // first byte in the block
    int width, run; // as above
    int shift;      // the integer's bits begin here; width 0: no such plane
} bit_plane;

// How the scales of a _K type are packed.
typedef enum scale_packing {
    NO_SCALES,
    HALVES, // Q2_K, 16 bytes: sc in the low half, mn in the high one
    PAIRS,  // Q4_K and Q5_K, 12 bytes: 8 pairs of 6 bits. The first four of each lie in the low
            // bits of bytes 0-3 (sc) and 4-7 (mn); of the last four the low 4 bits lie in bytes
            // 8-11 (sc below mn), and the high 2 above the first four
    BIASED, // Q3_K and IQ4_XS: sc + SCALE_BIAS, in two planes
    BYTES,  // Q6_K, 16 bytes
} scale_packing;

enum { SCALE_BIAS = 32 };

typedef struct block_layout {
    int n;                     // codes
    int d_at, m_at;            // m_at: -1 if the type has none
    bit_plane planes[2];       // of the codes
    scale_packing pack;        // of the scales,
    int sc_at;                 // whose first byte this is
    int n_sc;                  // BIASED: how many there are,
    const bit_plane *sc_plane; // and where [2], from sc_at on
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

// b: where the scales are.
static inline __attribute__((always_inline)) void get_packed(const block_layout *l,
                                                             const uint8_t *b, fxi_qblock *out)
{
    uint8_t v[16] = {0};
    switch (l->pack) {
    case NO_SCALES: break;
    case HALVES:
        for (int j = 0; j < 16; j++) {
            out->sc[j] = (int8_t)(b[j] & 15);
            out->mn[j] = b[j] >> 4;
        }
        break;
    case PAIRS:
        for (int j = 0; j < 4; j++) {
            out->sc[j] = (int8_t)(b[j] & 63);
            out->mn[j] = b[4 + j] & 63;
            out->sc[4 + j] = (int8_t)((b[8 + j] & 15) | b[j] >> 6 << 4);
            out->mn[4 + j] = (uint8_t)(b[8 + j] >> 4 | b[4 + j] >> 6 << 4);
        }
        break;
    case BIASED:
        for (int i = 0; i < 2; i++) get_plane(b, &l->sc_plane[i], l->n_sc, v);
        for (int j = 0; j < l->n_sc; j++) out->sc[j] = (int8_t)(v[j] - SCALE_BIAS);
        break;
    case BYTES: memcpy(out->sc, b, sizeof out->sc); break;
    }
}

// The bytes at b are 0 before.
static void put_packed(const block_layout *l, const fxi_qblock *in, uint8_t *b)
{
    uint8_t v[16] = {0};
    switch (l->pack) {
    case NO_SCALES: break;
    case HALVES:
        for (int j = 0; j < 16; j++) b[j] = (uint8_t)((in->sc[j] & 15) | in->mn[j] << 4);
        break;
    case PAIRS:
        for (int j = 0; j < 4; j++) {
            int sc = in->sc[4 + j], mn = in->mn[4 + j];
            b[j] = (uint8_t)((in->sc[j] & 63) | sc >> 4 << 6);
            b[4 + j] = (uint8_t)((in->mn[j] & 63) | mn >> 4 << 6);
            b[8 + j] = (uint8_t)((sc & 15) | mn << 4);
        }
        break;
    case BIASED:
        for (int j = 0; j < l->n_sc; j++) v[j] = (uint8_t)(in->sc[j] + SCALE_BIAS);
        for (int i = 0; i < 2; i++) put_plane(b, &l->sc_plane[i], l->n_sc, v);
        break;
    case BYTES: memcpy(b, in->sc, sizeof in->sc); break;
    }
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
    get_packed(l, b + l->sc_at, out);
    get_plane(b, &l->planes[0], l->n, out->code);
    if (l->planes[1].width) get_plane(b, &l->planes[1], l->n, out->code);
}

static void write_block(const block_layout *l, const fxi_qblock *in, size_t n_bytes, void *block)
{
    uint8_t *b = memset(block, 0, n_bytes);
    put_u16(b + l->d_at, in->d);
    if (l->m_at >= 0) put_u16(b + l->m_at, in->m);
    put_packed(l, in, b + l->sc_at);
    for (int i = 0; i < 2; i++)
        if (l->planes[i].width) put_plane(b, &l->planes[i], l->n, in->code);
}

static const bit_plane q3_k_scales[2] = {{0, 4, 8, 0}, {8, 2, 4, 4}};
static const bit_plane iq4_xs_scales[2] = {{2, 4, 1, 0}, {0, 2, 1, 4}};

// clang-format off
//                                   n    d   m  planes of codes                    scales    at   n
static const block_layout q4_0   = { 32,   0, -1, {{2, 4, 16, 0}},                   NO_SCALES, 0,   0,  NULL};
static const block_layout q4_1   = { 32,   0,  2, {{4, 4, 16, 0}},                   NO_SCALES, 0,   0,  NULL};
static const block_layout q5_0   = { 32,   0, -1, {{6, 4, 16, 0}, {2, 1, 1, 4}},     NO_SCALES, 0,   0,  NULL};
static const block_layout q5_1   = { 32,   0,  2, {{8, 4, 16, 0}, {4, 1, 1, 4}},     NO_SCALES, 0,   0,  NULL};
static const block_layout q2_k   = {256,  80, 82, {{16, 2, 32, 0}},                  HALVES,    0,   0,  NULL};
static const block_layout q3_k   = {256, 108, -1, {{32, 2, 32, 0}, {0, 1, 32, 2}},   BIASED,    96,  16, q3_k_scales};
static const block_layout q4_k   = {256,   0,  2, {{16, 4, 32, 0}},                  PAIRS,     4,   0,  NULL};
static const block_layout q5_k   = {256,   0,  2, {{48, 4, 32, 0}, {16, 1, 32, 4}},  PAIRS,     4,   0,  NULL};
static const block_layout q6_k   = {256, 208, -1, {{0, 4, 64, 0}, {128, 2, 32, 4}},  BYTES,     192, 0,  NULL};
static const block_layout iq4_xs = {256,   0, -1, {{8, 4, 16, 0}},                   BIASED,    2,   8,  iq4_xs_scales};
// clang-format on

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
static const bit_plane mxfp4_codes = {1, 4, 16, 0};

static void mxfp4_read(const void *block, fxi_qblock *out)
{
    const uint8_t *b = block;
    begin_block(out, (uint16_t)(b[0] < 2 ? 0x20 << b[0] : (b[0] - 1) << 7), 32);
    get_plane(b, &mxfp4_codes, 32, out->code);
}

static void mxfp4_write(const fxi_qblock *in, void *block)
{
    uint8_t *b = memset(block, 0, 17);
    b[0] = (uint8_t)(in->d < 0x80 ? in->d >> 6 : (in->d >> 7) + 1);
    put_plane(b, &mxfp4_codes, 32, in->code);
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

// ---- quantising --------------------------------------------------------------------------------
//
// Numbers become blocks: scales and codes with a small squared error.
//
// First each run of numbers that share a scale is fitted, as if its scale (and offset) were stored
// exactly: steps slightly wider and narrower than the range requires are tried; for the codes of
// each, least squares gives the best scale and offset, and the best trial wins. Then scales and
// offsets are rounded to what the type stores, and the codes are computed again with those.
//
// Types whose codes stand for values of a table are fitted in the same way, with the nearest value
// in place of the nearest integer. MXFP4's scale is a power of two: the better of two is taken.
//
// Sums run in LANES lanes, so the compiler may vectorise them and the result is the same on every
// machine.

enum { LANES = 4, MAX_SUB = 32, MAX_RUN = 16 };

#define F16_MAX 65504.0f

// Beyond every type's range, and small enough that sums of its squares do not overflow.
#define LARGEST 0x1p30f

// A range below this is 0 for every type: the finest step of an f16 scale is 2^-24.
#define NOTHING 0x1p-40f

typedef struct run_fit { // of a run: x ~ scale x (code - zero) + min
    float scale, min;
} run_fit;

static float clamp_to(float x, float lo, float hi)
{
    x = x > lo ? x : lo;
    return x < hi ? x : hi;
}

// To the nearest whole number, halves to even. Pre: |x| < 2^22.
static float round_even(float x)
{
    return (x + 0x1.8p23f) - 0x1.8p23f;
}

static float add_lanes(const float v[LANES])
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}

// The nearest f16, but finite, and 0 only for 0: too wide a step is better than none.
static uint16_t to_f16(float x)
{
    uint16_t h = fxi_f32_to_f16(clamp_to(x, -F16_MAX, F16_MAX));
    return x != 0 && !(h & 0x7fff) ? h | 1 : h;
}

// ---- one run -----------------------------------------------------------------------------------

// Trials go from N_TRIAL quarters of a code below the full range to as many above.
enum { N_TRIAL = 4 };
#define TRIAL_STEP 0.25f
#define VALUE_STEP 0.02f // of a table's range

typedef struct run_sums { // over a run; q: its codes less zero, x: its numbers
    float q, qq, qx;
} run_sums;

// The codes of x [n] with steps of 1 / inv, none below lo or above hi. n: a multiple of LANES.
static run_sums try_step(const float *x, int n, float inv, float lo, float hi)
{
    float c[MAX_SUB], q[LANES] = {0}, qq[LANES] = {0}, qx[LANES] = {0};
    for (int i = 0; i < n; i++) c[i] = round_even(clamp_to(x[i] * inv, lo, hi));
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < LANES; l++) q[l] += c[i + l];
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < LANES; l++) qq[l] += c[i + l] * c[i + l];
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < LANES; l++) qx[l] += c[i + l] * x[i + l];
    return (run_sums){add_lanes(q), add_lanes(qq), add_lanes(qx)};
}

// Without an offset. The number farthest from 0 gets the lowest code: there is one more of these.
static run_fit fit_scale(const fxi_qformat *f, const float *x)
{
    float peak = 0, zero = (float)f->zero, best = 0;
    for (int i = 0; i < f->sub; i++) peak = fabsf(x[i]) > fabsf(peak) ? x[i] : peak;
    run_fit r = {0, 0};
    if (fabsf(peak) < NOTHING) return r;
    for (int k = -N_TRIAL; k <= N_TRIAL; k++) {
        float inv = -(zero + (float)k * TRIAL_STEP) / peak;
        run_sums s = try_step(x, f->sub, inv, -zero, zero - 1);
        float gain = s.qx * (s.qx / s.qq); // sum x^2 less the squared error
        if (gain > best) best = gain, r.scale = s.qx / s.qq;
    }
    return r;
}

// Least squares of u ~ scale x q + offset, offset <= top. sum_u: of u [n].
static run_fit solve_least_squares(const run_sums *s, float n, float sum_u, float top)
{
    float det = n * s->qq - s->q * s->q;
    run_fit r = {0, sum_u / n};
    if (det > 0) {
        r.scale = (n * s->qx - s->q * sum_u) / det;
        r.min = (sum_u - r.scale * s->q) / n;
    }
    if (r.min > top) {
        r.min = top;
        r.scale = s->qq > 0 ? (s->qx - top * s->q) / s->qq : 0;
    }
    return r;
}

// With an offset, which is at most `top`.
static run_fit fit_range(const fxi_qformat *f, const float *x, float top)
{
    float lo = x[0] < top ? x[0] : top, hi = lo, u[MAX_SUB], n = (float)f->sub;
    for (int i = 0; i < f->sub; i++) lo = x[i] < lo ? x[i] : lo, hi = x[i] > hi ? x[i] : hi;
    run_fit best = {0, lo};
    if (hi - lo < NOTHING) return best;
    float max_code = (float)((1 << f->bits) - 1), best_gain = 0, lanes[LANES] = {0};
    for (int i = 0; i < f->sub; i++) lanes[i % LANES] += u[i] = x[i] - lo; // smaller than x
    float sum_u = add_lanes(lanes);
    for (int k = -N_TRIAL; k <= N_TRIAL; k++) {
        float inv = (max_code + (float)k * TRIAL_STEP) / (hi - lo);
        run_sums s = try_step(u, f->sub, inv, 0, max_code);
        run_fit r = solve_least_squares(&s, n, sum_u, top - lo);
        float gain = 2 * (r.scale * s.qx + r.min * sum_u - r.scale * r.min * s.q) -
                     r.scale * r.scale * s.qq - n * r.min * r.min;
        if (gain > best_gain) best_gain = gain, best = (run_fit){r.scale, lo + r.min};
    }
    return best;
}

// ---- codes that stand for values ---------------------------------------------------------------

// The code of the nearest value, the lower code among equals.
static int nearest_code(const fxi_qformat *f, float x)
{
    int best = 0;
    for (int c = 1; c < 16; c++) {
        float off = fabsf((float)fxi_qformat_value(f, c) - x);
        if (off < fabsf((float)fxi_qformat_value(f, best) - x)) best = c;
    }
    return best;
}

static run_sums try_values(const fxi_qformat *f, const float *x, float inv)
{
    run_sums s = {0, 0, 0};
    for (int i = 0; i < f->sub; i++) {
        float v = (float)fxi_qformat_value(f, nearest_code(f, x[i] * inv));
        s.qq += v * v;
        s.qx += v * x[i];
    }
    return s;
}

// The number farthest from 0 gets about the largest value, of either sign.
static run_fit fit_values(const fxi_qformat *f, const float *x)
{
    float peak = 0, best = 0, top = (float)fxi_qformat_value(f, 15);
    float bottom = (float)fxi_qformat_value(f, 0);
    for (int i = 0; i < f->sub; i++) peak = fabsf(x[i]) > fabsf(peak) ? x[i] : peak;
    run_fit r = {0, 0};
    if (fabsf(peak) < NOTHING) return r;
    for (int k = -N_TRIAL; k <= N_TRIAL; k++)
        for (int end = 0; end < 2; end++) {
            float inv = (end ? top : bottom) * (1 + (float)k * VALUE_STEP) / peak;
            run_sums s = try_values(f, x, inv);
            float gain = s.qq > 0 ? s.qx * (s.qx / s.qq) : 0;
            if (gain > best) best = gain, r.scale = s.qx / s.qq;
        }
    return r;
}

// d of MXFP4: the power of two with which the largest number is at most the largest value, or half
// of that, which cuts the largest numbers off and is finer for the others.
static uint16_t fit_power(const fxi_qformat *f, const float *x)
{
    float peak = 0, best = INFINITY;
    int e0 = 0;
    uint16_t d = 0x20; // 2^-128, the smallest
    for (int i = 0; i < f->sub; i++) peak = fabsf(x[i]) > peak ? fabsf(x[i]) : peak;
    if (peak < NOTHING) return d;
    frexpf(peak / FXI_E2M1_ZERO, &e0); // peak <= 12 x 2^e0
    for (int e = e0 - 1; e <= e0; e++) {
        float scale = ldexpf(1, e), error = 0;
        for (int i = 0; i < f->sub; i++) {
            float v = (float)fxi_qformat_value(f, nearest_code(f, x[i] / scale));
            error += (v * scale - x[i]) * (v * scale - x[i]);
        }
        if (error < best) best = error, d = fxi_f32_to_bf16(scale);
    }
    return d;
}

static void set_codes(const fxi_qformat *f, const float *x, run_fit r, uint8_t *code)
{
    float inv = r.scale != 0 ? 1 / r.scale : 0, lo = (float)-f->zero;
    float hi = lo + (float)((1 << f->bits) - 1);
    for (int i = 0; f->value && i < f->sub; i++) code[i] = (uint8_t)nearest_code(f, x[i] * inv);
    for (int i = 0; !f->value && i < f->sub; i++)
        code[i] = (uint8_t)((int)round_even(clamp_to((x[i] - r.min) * inv, lo, hi)) + f->zero);
}

// ---- blocks ------------------------------------------------------------------------------------

// Without an offset.
static run_fit fit_alone(const fxi_qformat *f, const float *x)
{
    return f->value ? fit_values(f, x) : fit_scale(f, x);
}

// Types of 32: one run.
static void fit_one(const fxi_qformat *f, const float *x, fxi_qblock *out)
{
    run_fit r = f->has_min ? fit_range(f, x, LARGEST) : fit_alone(f, x);
    out->d = f->d_bf16 ? fit_power(f, x) : to_f16(r.scale);
    out->m = fxi_f32_to_f16(clamp_to(r.min, -F16_MAX, F16_MAX));
    set_codes(f, x, (run_fit){fxi_qformat_scale(f, out->d), fxi_f16_to_f32(out->m)}, out->code);
}

// Writes v [n_run] as integer multiples, lo to hi, of a step, and returns the step as f16. The
// value farthest from 0 gets the outermost multiple or one less: the step is rounded away from 0,
// since values beyond the last multiple would be lost, and small f16 steps are coarse.
static uint16_t share_step(const float *v, int n_run, int lo, int hi, int *multiple)
{
    float peak = 0;
    for (int j = 0; j < n_run; j++) peak = fabsf(v[j]) > fabsf(peak) ? v[j] : peak;
    float want = peak / (float)(lo < 0 ? lo : hi);
    uint16_t h = to_f16(want);
    if (fabsf(fxi_f16_to_f32(h)) < fabsf(want) && fabsf(want) < F16_MAX) h++;
    float step = fxi_f16_to_f32(h);
    for (int j = 0; j < n_run; j++)
        multiple[j] = step != 0 ? (int)round_even(clamp_to(v[j] / step, (float)lo, (float)hi)) : 0;
    return h;
}

static void set_scales(const fxi_qformat *f, const run_fit *r, fxi_qblock *out)
{
    float scale[MAX_RUN] = {0}, depth[MAX_RUN] = {0};
    int sc[MAX_RUN], mn[MAX_RUN], n_run = f->n / f->sub;
    for (int j = 0; j < n_run; j++) scale[j] = r[j].scale, depth[j] = -r[j].min;
    out->d = share_step(scale, n_run, f->sc_min, f->sc_max, sc);
    for (int j = 0; j < n_run; j++) out->sc[j] = (int8_t)sc[j];
    if (!f->has_min) return;
    out->m = share_step(depth, n_run, 0, f->sc_max, mn);
    for (int j = 0; j < n_run; j++) out->mn[j] = (uint8_t)mn[j];
}

// Types of 256.
static void fit_runs(const fxi_qformat *f, const float *x, fxi_qblock *out)
{
    run_fit r[MAX_RUN];
    int n_run = f->n / f->sub;
    for (int j = 0; j < n_run; j++)
        r[j] = f->has_min ? fit_range(f, x + j * f->sub, 0) : fit_alone(f, x + j * f->sub);
    set_scales(f, r, out);
    float d = fxi_f16_to_f32(out->d), m = fxi_f16_to_f32(out->m);
    for (int j = 0; j < n_run; j++)
        set_codes(f, x + j * f->sub, (run_fit){d * (float)out->sc[j], -(m * (float)out->mn[j])},
                  out->code + j * f->sub);
}

void fxi_qblock_from_f32(const fxi_qformat *f, const float *x, fxi_qblock *out)
{
    float within[FXI_QBLOCK_MAX];
    for (int i = 0; i < f->n; i++) within[i] = clamp_to(x[i], -LARGEST, LARGEST);
    *out = (fxi_qblock){0};
    (f->sc_max > 0 ? fit_runs : fit_one)(f, within, out);
}
