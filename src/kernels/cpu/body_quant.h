// body_quant.h - linear layers with weights of block types, once for every vector unit (cpu.h).
// Needs: a vec*.h; the register tile, Q_TOK x Q_PANELS, and Q_CASES(X), X(n) for n from 1 to Q_TOK; and the integer
// products:
//   vq                        16 sums of i32
//   vq_set1(p)                *p in each
//   vq_w                      [16][4] codes, loaded by vq_load(p, wide); wide: codes of 8 bits, others have at most 6
//   vq_dot(acc, w, x, wide)   adds to each of 16 sums the products of its 4 codes with the 4 activations in x; of wide
//                             codes Q8_ZERO_LEFT is what is still to be subtracted: 128 or 0
//   vq_as_f32(acc)            its bits, taken for floats
//
// k is cut into blocks of Q_K_BLOCK. The codes of Q_PANELS panels and one block are spread to bytes once (codes of 8
// bits stay where they are) and their scales to f32; both stay in the first-level cache while the tokens pass, as tiles
// of T tokens x P panels. For every run of numbers that share a scale its integer sums are complete in registers, then
// go once, scaled, into the float sums. Between blocks a float sum rests in y, which loses nothing.
//
// Integer to float costs nothing: a sum starts at the bits of the float F = 1.5 x 2^23, so that F + s stands there as a
// float in the end. fma(F + s, dw, -F x dw) is dw x s rounded once, for F x dw is exact.
#include <string.h>

#include "kernels/cpu/panel_io.h"
#include "kernels/linear.h"

#define Q_K_BLOCK   512
#define Q_MAX_BLOCK (Q_K_BLOCK / FXI_Q_BLOCK)
#define Q_MAX_SUB   (Q_K_BLOCK / 16)
#define Q_MAX_TOK   256 // tokens whose sums are prepared together
#define Q_PANEL_OUT 32  // up to so many tokens all of a panel is read before the next

#define Q_MAGIC_BITS 0x4b400000
#define Q_MAGIC      12582912.0f

enum { Q_DW, Q_OFFSET, Q_MIN, Q_N_SCALE }; // dw, -F x dw, min

typedef struct q_scales {
    float v[Q_MAX_SUB][Q_N_SCALE][FXI_PANEL];
} q_scales;

// A token's activations of one block of k, together, so that a tile needs few addresses.
typedef struct q_token {
    int8_t q[Q_K_BLOCK];
    float d[Q_MAX_BLOCK];
    int32_t start[Q_MAX_SUB]; // what integer sums start from
    float dsum[Q_MAX_SUB];    // dx x (float)sum
} q_token;

// What one tile works on: one block of k.
typedef struct q_tile {
    const uint8_t *code; // [n_block][8][16][4]; the next panel code_stride behind it
    size_t code_stride;
    const q_scales *scale; // [P]
    int n_block;
    const q_token *tok; // [T]
    bool first;         // sums start from zero, otherwise from y
    float *y;           // [T][ldy], outputs from the first panel's first on
    size_t ldy;
    int n_out; // outputs from there on; the last panel may be cut by it
    const char
        *ahead; // codes to ask for on the way: so many lines of each panel for each block of 32
    size_t ahead_stride;
    int ahead_lines;
} q_tile;

ALWAYS_INLINE int32_t four_bytes(const int8_t *q)
{
    int32_t x;
    memcpy(&x, q, sizeof x);
    return x;
}

// T, P and what else is const in what follows are constants at every call, so that loops unroll and
// sums live in registers: N vectors of codes in a run of numbers that share a scale (8 or 4); have runs minima;
// codes of 8 bits or shorter ones.

// The integer sums of one run, from vector g0 of block b on.
ALWAYS_INLINE void q_run_dot(const int T, const int P, const int N, const bool wide,
                             const q_tile *c, int b, int g0, vq acc[Q_TOK][Q_PANELS])
{
    const uint8_t *code = c->code + (size_t)b * 8 * 64;
    const int8_t *q = c->tok->q + (size_t)b * FXI_Q_BLOCK;
#pragma GCC unroll 8
    for (int i = 0; i < N; i++) {
        const int g = g0 + i;
        vq_w w[Q_PANELS];
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            w[p] = vq_load(code + (size_t)p * c->code_stride + g * 64, wide);
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) {
            int32_t x = four_bytes(q + (size_t)t * sizeof *c->tok + 4 * g);
#pragma GCC unroll 4
            for (int p = 0; p < P; p++) acc[t][p] = vq_dot(acc[t][p], w[p], x, wide);
        }
    }
}

// One run: number s of the block of k, from vector g0 of block b on.
ALWAYS_INLINE void q_run(const int T, const int P, const int N, const bool has_min, const bool wide,
                         const q_tile *c, int b, int s, int g0, v16 acc[Q_TOK][Q_PANELS])
{
    vq isum[Q_TOK][Q_PANELS];
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) isum[t][p] = vq_set1(&c->tok[t].start[s]);
    q_run_dot(T, P, N, wide, c, b, g0, isum);
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) {
        v16 dx = v16_set1(c->tok[t].d[b]);
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) {
            const float(*sc)[FXI_PANEL] = c->scale[p].v[s];
            v16 v = v16_fma(vq_as_f32(isum[t][p]), v16_load(sc[Q_DW]), v16_load(sc[Q_OFFSET]));
            acc[t][p] = v16_fma(v, dx, acc[t][p]);
            if (has_min)
                acc[t][p] = v16_fma(v16_load(sc[Q_MIN]), v16_set1(c->tok[t].dsum[s]), acc[t][p]);
        }
    }
}

ALWAYS_INLINE void q_ahead(const int P, const q_tile *c, int b)
{
    const char *at = c->ahead + (size_t)b * (size_t)c->ahead_lines * 64;
    for (int i = 0; i < c->ahead_lines; i++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) __builtin_prefetch(at + (size_t)p * c->ahead_stride + i * 64);
}

ALWAYS_INLINE void q_tile_run(const int T, const int P, const int N, const bool has_min,
                              const bool wide, const q_tile *c)
{
    v16 acc[Q_TOK][Q_PANELS];
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) {
            const float *y = c->y + (size_t)t * c->ldy + p * FXI_PANEL;
            acc[t][p] = c->first ? v16_zero() : panel_load(y, c->n_out - p * FXI_PANEL);
        }
    for (int b = 0; b < c->n_block; b++) {
        q_ahead(P, c, b);
#pragma GCC unroll 2
        for (int g = 0; g < 8; g += N) q_run(T, P, N, has_min, wide, c, b, (8 * b + g) / N, g, acc);
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++)
            panel_store(c->y + (size_t)t * c->ldy + p * FXI_PANEL, acc[t][p],
                        c->n_out - p * FXI_PANEL);
}

// A tile of n_tok tokens (1 to Q_TOK) x n_panel panels (Q_PANELS or 1).
typedef void q_tile_fn(int n_tok, int n_panel, const q_tile *c);

#define Q_CASE(T)                                         \
    case T:                                               \
        if (n_panel == 1)                                 \
            q_tile_run(T, 1, N, has_min, wide, c);        \
        else                                              \
            q_tile_run(T, Q_PANELS, N, has_min, wide, c); \
        break;

ALWAYS_INLINE void q_tile_any(const int N, const bool has_min, const bool wide, int n_tok,
                              int n_panel, const q_tile *c)
{
    switch (n_tok) {
        Q_CASES(Q_CASE)
    }
}

#define Q_TILE_FN(name, N, has_min, wide)                     \
    static void name(int n_tok, int n_panel, const q_tile *c) \
    {                                                         \
        q_tile_any(N, has_min, wide, n_tok, n_panel, c);      \
    }

Q_TILE_FN(q_tile_wide, 8, false, true)
Q_TILE_FN(q_tile_32, 8, false, false)
Q_TILE_FN(q_tile_32_min, 8, true, false)
Q_TILE_FN(q_tile_16, 4, false, false)
Q_TILE_FN(q_tile_16_min, 4, true, false)

// ---- codes to bytes ----------------------------------------------------------------------------

// One block of 32 along k: [8][16][4] bytes from a plane of `lo` bits and one of `hi`. lo, hi: constants.
ALWAYS_INLINE void spread_block(const int lo, const int hi, const uint8_t *restrict src,
                                uint8_t *restrict dst)
{
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 64; i++) {
            int code = src[g % lo * 64 + i] >> g / lo * lo & ((1 << lo) - 1);
            if (hi) code |= (src[(lo + g % hi) * 64 + i] >> g / hi * hi & ((1 << hi) - 1)) << lo;
            dst[g * 64 + i] = (uint8_t)code;
        }
}

typedef void spread_fn(const uint8_t *src, int n_block, uint8_t *dst);

#define SPREAD_FN(lo, hi)                                                         \
    static void spread_##lo##_##hi(const uint8_t *src, int n_block, uint8_t *dst) \
    {                                                                             \
        for (int b = 0; b < n_block; b++)                                         \
            spread_block(lo, hi, src + b * 64 * (lo + hi), dst + b * 8 * 64);     \
    }

SPREAD_FN(2, 0)
SPREAD_FN(2, 1)
SPREAD_FN(4, 0)
SPREAD_FN(4, 1)
SPREAD_FN(4, 2)

// ---- scales to f32 -----------------------------------------------------------------------------

static void scale_put(float v[Q_N_SCALE][FXI_PANEL], v16 dw, v16 min)
{
    v16_store(v[Q_DW], dw);
    v16_store(v[Q_OFFSET], v16_mul(dw, v16_set1(-Q_MAGIC)));
    v16_store(v[Q_MIN], min);
}

// The scales of n groups. at: the first one's
typedef void scales_fn(const uint8_t *at, int n, q_scales *out);

ALWAYS_INLINE const uint16_t *halves(const uint8_t *at)
{
    return (const uint16_t *)(const void *)at;
}

// Types of 32.
ALWAYS_INLINE void scales_of_32(const bool has_min, const uint8_t *at, int n, q_scales *out)
{
    for (int g = 0; g < n; g++, at += (has_min ? 4 : 2) * FXI_PANEL)
        scale_put(out->v[g], v16_from_f16(halves(at)),
                  has_min ? v16_from_f16(halves(at) + FXI_PANEL) : v16_zero());
}

static void scales_32(const uint8_t *at, int n, q_scales *out)
{
    scales_of_32(false, at, n, out);
}

static void scales_32_min(const uint8_t *at, int n, q_scales *out)
{
    scales_of_32(true, at, n, out);
}

// Types of 256 without minima: sixteen runs.
static void scales_256(const uint8_t *at, int n, q_scales *out)
{
    for (int g = 0; g < n; g++) {
        v16 d = v16_from_f16(halves(at));
        at += 2 * FXI_PANEL;
        for (int s = 0; s < 16; s++, at += FXI_PANEL)
            scale_put(out->v[16 * g + s], v16_mul(d, v16_from_i8((const int8_t *)at)), v16_zero());
    }
}

// With minima: eight runs.
static void scales_256_min(const uint8_t *at, int n, q_scales *out)
{
    for (int g = 0; g < n; g++) {
        v16 d = v16_from_f16(halves(at)),
            m = v16_sub(v16_zero(), v16_from_f16(halves(at) + FXI_PANEL));
        at += 4 * FXI_PANEL;
        for (int s = 0; s < 8; s++, at += 2 * FXI_PANEL)
            scale_put(out->v[8 * g + s], v16_mul(d, v16_from_i8((const int8_t *)at)),
                      v16_mul(m, v16_from_i8((const int8_t *)at + FXI_PANEL)));
    }
}

// With minima in the same bytes: sixteen runs.
static void scales_256_nibbles(const uint8_t *at, int n, q_scales *out)
{
    for (int g = 0; g < n; g++) {
        v16 d = v16_from_f16(halves(at)),
            m = v16_sub(v16_zero(), v16_from_f16(halves(at) + FXI_PANEL));
        at += 4 * FXI_PANEL;
        for (int s = 0; s < 16; s++, at += FXI_PANEL)
            scale_put(out->v[16 * g + s], v16_mul(d, v16_from_u4(at, 0)),
                      v16_mul(m, v16_from_u4(at, 4)));
    }
}

// ---- a whole layer -----------------------------------------------------------------------------

static const struct q_type {
    q_tile_fn *tile;
    scales_fn *scales;
    spread_fn *spread; // NULL: codes are bytes
} q_types[FXI_DTYPE_END] = {
    [FXI_Q8_0] = {q_tile_wide, scales_32, NULL},
    [FXI_Q4_0] = {q_tile_32, scales_32, spread_4_0},
    [FXI_Q4_1] = {q_tile_32_min, scales_32_min, spread_4_0},
    [FXI_Q5_0] = {q_tile_32, scales_32, spread_4_1},
    [FXI_Q5_1] = {q_tile_32_min, scales_32_min, spread_4_1},
    [FXI_Q2_K] = {q_tile_16_min, scales_256_nibbles, spread_2_0},
    [FXI_Q3_K] = {q_tile_16, scales_256, spread_2_1},
    [FXI_Q4_K] = {q_tile_32_min, scales_256_min, spread_4_0},
    [FXI_Q5_K] = {q_tile_32_min, scales_256_min, spread_4_1},
    [FXI_Q6_K] = {q_tile_16, scales_256, spread_4_2},
};

// One call.
typedef struct q_layer {
    const fxi_linear *w;
    fxi_qpanel panel;
    const struct q_type *type;
    const fxi_act *a;
    float *y;
    size_t ldy;
    int panel1;
} q_layer;

// What is made of activations and weights for one block of k, tokens t0 .. t0 + n_tok - 1.
typedef struct q_work {
    _Alignas(64) uint8_t code[Q_PANELS][Q_MAX_BLOCK * 8 * 64];
    _Alignas(64) q_scales scale[Q_PANELS];
    _Alignas(64) q_token tok[Q_MAX_TOK];
    int t0, n_tok, k0, n_k;
} q_work;

// q, d, sum: of one token from the block of k on
static void prepare_token(const fxi_qpanel *p, const int8_t *q, const float *d, const int32_t *sum,
                          int n_k, q_token *out)
{
    const int zero = p->f->bits == 8 ? Q8_ZERO_LEFT : p->f->zero;
    memcpy(out->q, q, (size_t)n_k);
    memcpy(out->d, d, (size_t)(n_k / FXI_Q_BLOCK) * sizeof *d);
    if (p->f->sub == 16)
        for (int s = 0; s < n_k / 16; s++) {
            out->start[s] = Q_MAGIC_BITS - zero * sum[s];
            out->dsum[s] = d[s / 2] * (float)sum[s];
        }
    else
        for (int s = 0; s < n_k / 32; s++) {
            int32_t both = sum[2 * s] + sum[2 * s + 1];
            out->start[s] = Q_MAGIC_BITS - zero * both;
            out->dsum[s] = d[s] * (float)both;
        }
}

static void prepare_tokens(const q_layer *l, q_work *work)
{
    for (int i = 0; i < work->n_tok; i++) {
        size_t at = (size_t)(work->t0 + i) * (size_t)l->w->n_in + (size_t)work->k0;
        prepare_token(&l->panel, l->a->q + at, l->a->d + at / FXI_Q_BLOCK, l->a->sum + at / 16,
                      work->n_k, &work->tok[i]);
    }
}

static const uint8_t *codes_at(const q_layer *l, int p, int k)
{
    return (const uint8_t *)fxi_linear_panel(l->w, p) +
           fxi_qpanel_code_at(&l->panel, k / FXI_Q_BLOCK);
}

static void prepare_panel(const q_layer *l, q_work *work, int p, int i)
{
    const fxi_qpanel *q = &l->panel;
    const uint8_t *scales = (const uint8_t *)fxi_linear_panel(l->w, p) +
                            fxi_qpanel_scale_at(q, l->w->n_in, work->k0 / q->f->n);
    if (l->type->spread)
        l->type->spread(codes_at(l, p, work->k0), work->n_k / FXI_Q_BLOCK, work->code[i]);
    l->type->scales(scales, work->n_k / q->f->n, &work->scale[i]);
}

// Where the codes lie that are read after those of panel p: the next block of k, else the next panels'.
static void set_ahead(const q_layer *l, const q_work *work, int p, int n_panel, q_tile *c)
{
    const bool panel_ends = work->k0 + work->n_k >= l->w->n_in;
    const int next = panel_ends ? p + n_panel : p;
    c->ahead_stride = fxi_linear_panel_bytes(l->w->type, l->w->n_in);
    if (next < l->panel1)
        c->ahead = (const char *)codes_at(l, next, panel_ends ? 0 : work->k0 + work->n_k);
}

// Tokens are shared out evenly among as few tiles as there can be.
static void run_tiles(const q_layer *l, const q_work *work, q_tile c, int p, int n_panel)
{
    int n_tile = (work->n_tok + Q_TOK - 1) / Q_TOK;
    int left = (int)(l->panel.code_bytes / 64); // lines to ask for, for each block
    for (int i = 0, t = 0, n; i < n_tile; i++, t += n) {
        n = (work->n_tok - t) / (n_tile - i);
        c.tok = work->tok + t;
        c.y = l->y + (size_t)(work->t0 + t) * l->ldy + (size_t)p * FXI_PANEL;
        c.ahead_lines = c.ahead ? (left + n_tile - i - 1) / (n_tile - i) : 0;
        l->type->tile(n, n_panel, &c);
        c.ahead += c.ahead_lines * c.n_block * 64;
        left -= c.ahead_lines;
    }
}

static void run_panels(const q_layer *l, q_work *work, int p, int n_panel)
{
    q_tile c = {.scale = work->scale,
                .n_block = work->n_k / FXI_Q_BLOCK,
                .first = work->k0 == 0,
                .ldy = l->ldy,
                .n_out = l->w->n_out - p * FXI_PANEL};
    for (int i = 0; i < n_panel; i++) prepare_panel(l, work, p + i, i);
    c.code = l->type->spread ? work->code[0] : codes_at(l, p, work->k0);
    c.code_stride =
        l->type->spread ? sizeof work->code[0] : fxi_linear_panel_bytes(l->w->type, l->w->n_in);
    set_ahead(l, work, p, n_panel, &c);
    run_tiles(l, work, c, p, n_panel);
}

// All of k for the panels from p to end, for the tokens of work.
static void run_blocks(const q_layer *l, q_work *work, int p0, int end)
{
    for (work->k0 = 0; work->k0 < l->w->n_in; work->k0 += Q_K_BLOCK) {
        work->n_k = l->w->n_in - work->k0 < Q_K_BLOCK ? l->w->n_in - work->k0 : Q_K_BLOCK;
        prepare_tokens(l, work);
        for (int p = p0, n; p < end; p += n) {
            n = end - p >= Q_PANELS ? Q_PANELS : 1;
            run_panels(l, work, p, n);
        }
    }
}

static void linear_quant(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                         float *y, size_t ldy)
{
    const q_layer l = {.w = w,
                       .panel = fxi_qpanel_of(w->type),
                       .type = &q_types[w->type],
                       .a = a,
                       .y = y,
                       .ldy = ldy,
                       .panel1 = panel1};
    const int step = n_tok <= Q_PANEL_OUT ? Q_PANELS : panel1 - panel0;
    q_work work;
    for (work.t0 = 0; work.t0 < n_tok; work.t0 += work.n_tok) {
        work.n_tok = n_tok - work.t0 < Q_MAX_TOK ? n_tok - work.t0 : Q_MAX_TOK;
        for (int p = panel0; p < panel1; p += step)
            run_blocks(&l, &work, p, panel1 - p < step ? panel1 : p + step);
    }
}
