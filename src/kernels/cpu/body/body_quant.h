// body_quant.h - linear layers with weights of block types. Written once for every vector unit
// (cpu.h).
// Needs: cpu.h; a vec*.h; LINEAR_QUANT, the name of the function that is defined; the register
// tile, Q_TOK x Q_PANELS, and Q_CASES(X), which is X(n) for n from 1 to Q_TOK; Q_SMALL_SUMS, how
// many sums of a small batch fit in registers twice, Q_SMALL_MAX_PANELS, the most panels it is
// multiplied with at a time, and Q_SMALL_MAX_TOK, 4 or 8, the most tokens that are; and the
// integer products of a vec*.h's sums (vq):
//   vq_w                      [16][4] codes: vq_codes(v, wide) of a vector of bytes; wide: codes of
//                             8 bits, others have at most 6
//   vq_dot(acc, w, x, wide)   adds to each of 16 sums the products of its 4 codes with the 4
//                             activations in x; of wide codes Q8_ZERO_LEFT (128 or 0) is still to
//                             be subtracted
//
// Small batches: body_quant_small.h. Larger: body_quant_tile.h, with k cut into blocks of
// Q_K_BLOCK; between blocks float sums are kept in y, which is exact.
//
// Converting integers to float costs nothing: a sum starts at the bits of the float F = 1.5 x 2^23,
// so that in the end its bits, read as a float, are F + s. fma(F + s, dw, -F x dw) is dw x s
// rounded once, because F x dw is exact.
#include "kernels/cpu/body/body_quant_small.h"
#include "kernels/cpu/body/body_quant_tile.h"

#define Q_MAX_TOK 384 // blocks of activations that are prepared together

// Up to this many tokens, weights are read from Q_MAX_PANELS panels at a time, which is faster from
// memory; with more, from one tile's panels, which stay in the first-level cache.
#define Q_WIDE_TOK   24
#define Q_MAX_PANELS 4

// ---- the types ---------------------------------------------------------------------------------

typedef struct q_type {
    q_tile_fn *tile;
    void (*unpack_codes)(const uint8_t *code, int n_block, uint8_t *out); // NULL: codes are bytes
    void (*unpack_scales)(const uint8_t *at, size_t bytes, int n_group, q_scales *out);
    // n_tok: 1, 2, 4 or small_most; n_panel: Q_SMALL_PANELS(n_tok) or 1
    void (*small)(int n_tok, int n_panel, const q_small *c);
    int small_most;
} q_type;

// NAME, bits of the two planes, vectors that share a scale, type of 256, has minima, table of
// values, tile
#define Q_TYPES(X)                                        \
    X(Q8_0, 8, 0, 8, 0, 0, NULL, q_tile_wide)             \
    X(Q4_0, 4, 0, 8, 0, 0, NULL, q_tile_32)               \
    X(Q4_1, 4, 0, 8, 0, 1, NULL, q_tile_32_min)           \
    X(Q5_0, 4, 1, 8, 0, 0, NULL, q_tile_32)               \
    X(Q5_1, 4, 1, 8, 0, 1, NULL, q_tile_32_min)           \
    X(Q2_K, 2, 0, 4, 1, 1, NULL, q_tile_16_min)           \
    X(Q3_K, 2, 1, 4, 1, 0, NULL, q_tile_16)               \
    X(Q4_K, 4, 0, 8, 1, 1, NULL, q_tile_32_min)           \
    X(Q5_K, 4, 1, 8, 1, 1, NULL, q_tile_32_min)           \
    X(Q6_K, 4, 2, 4, 1, 0, NULL, q_tile_16)               \
    X(IQ4_NL, 4, 0, 8, 0, 0, fxi_iq4_values, q_tile_wide) \
    X(IQ4_XS, 4, 0, 8, 1, 0, fxi_iq4_values, q_tile_wide) \
    X(MXFP4, 4, 0, 8, 0, 0, fxi_e2m1_values, q_tile_32)

#define Q_SMALL_CASE(T, LO, HI, N, BIG, HAS_MIN, VALUE)                              \
    if ((T) <= Q_SMALL_MOST(N, HAS_MIN) && n_tok == (T)) {                           \
        if (n_panel == 1)                                                            \
            q_small_panels(T, 1, LO, HI, N, BIG, HAS_MIN, VALUE, c);                 \
        else                                                                         \
            q_small_panels(T, Q_SMALL_PANELS(T), LO, HI, N, BIG, HAS_MIN, VALUE, c); \
    }

#define Q_TYPE_FNS(NAME, LO, HI, N, BIG, HAS_MIN, VALUE, TILE)                                    \
    static void unpack_codes_##NAME(const uint8_t *code, int n_block, uint8_t *out)               \
    {                                                                                             \
        unpack_codes(LO, HI, VALUE, code, n_block, out);                                          \
    }                                                                                             \
    static void unpack_scales_##NAME(const uint8_t *at, size_t bytes, int n_group, q_scales *out) \
    {                                                                                             \
        unpack_scales(LO, HI, N, BIG, HAS_MIN, VALUE, at, bytes, n_group, out);                   \
    }                                                                                             \
    static void q_small_##NAME(int n_tok, int n_panel, const q_small *c)                          \
    {                                                                                             \
        Q_SMALL_CASE(1, LO, HI, N, BIG, HAS_MIN, VALUE)                                           \
        Q_SMALL_CASE(2, LO, HI, N, BIG, HAS_MIN, VALUE)                                           \
        Q_SMALL_CASE(4, LO, HI, N, BIG, HAS_MIN, VALUE)                                           \
        Q_SMALL_CASE(8, LO, HI, N, BIG, HAS_MIN, VALUE)                                           \
    }

Q_TYPES(Q_TYPE_FNS)

#define Q_TYPE_ROW(NAME, LO, HI, N, BIG, HAS_MIN, VALUE, TILE)              \
    [FXI_##NAME] = {.tile = TILE,                                           \
                    .unpack_codes = (LO) == 8 ? NULL : unpack_codes_##NAME, \
                    .unpack_scales = unpack_scales_##NAME,                  \
                    .small = q_small_##NAME,                                \
                    .small_most = Q_SMALL_MOST(N, HAS_MIN)},

static const q_type q_types[FXI_DTYPE_END] = {Q_TYPES(Q_TYPE_ROW)};

// ---- a whole layer -----------------------------------------------------------------------------

// The operands of one call.
typedef struct q_layer {
    const fxi_linear *w;
    fxi_qpanel panel;
    const uint8_t *data; // of panel 0
    size_t panel_bytes;
    const q_type *type;
    const fxi_act *a;
    float *y;
    size_t ldy;
    int panel1;
} q_layer;

// Prepared activations and weights. If all blocks of k of all tokens fit, they are prepared once
// and panels are read one after the other, in memory order. Otherwise one block of k is prepared
// for as many tokens as fit and multiplied with all panels.
typedef struct q_work {
    _Alignas(64) uint8_t code[Q_MAX_PANELS][Q_MAX_BLOCK * 8 * 64];
    _Alignas(64) q_scales scale[Q_MAX_PANELS];
    _Alignas(64) q_token tok[Q_MAX_TOK]; // [blocks of k][n_slot]
    bool all;                            // tok holds every block of k
    int t0, n_tok;                       // the tokens in tok
    int n_slot;                          // n_tok and, after the last token, copies of it
} q_work;

// A step of a call: a block of k and some panels.
typedef struct q_place {
    int k0, n_k;
    int p, n_panel;
} q_place;

// Prepares one token. q, d, sum: its activations from the block of k on. n_k and sub, the numbers
// that share a scale, are constants for whole blocks of k.
ALWAYS_INLINE void prepare_block(int zero, const int sub, const int n_k, const int8_t *q,
                                 const float *d, const int32_t *sum, q_token *out)
{
    memcpy(out->q, q, (size_t)n_k);
    memcpy(out->d, d, (size_t)(n_k / FXI_Q_BLOCK) * sizeof *d);
    int32_t total[Q_MAX_SUB];
    for (int s = 0; s < n_k / sub; s++) total[s] = sub == 16 ? sum[s] : sum[2 * s] + sum[2 * s + 1];
    for (int s = 0; s < n_k / sub; s++) out->start[s] = Q_MAGIC_BITS - zero * total[s];
    for (int s = 0; s < n_k / sub; s++)
        out->dsum[s] = out->d[s * sub / FXI_Q_BLOCK] * (float)total[s];
}

static void prepare_token(const fxi_qpanel *p, const int8_t *q, const float *d, const int32_t *sum,
                          int n_k, q_token *out)
{
    const int zero = p->f->zero == 128 ? Q8_ZERO_LEFT : p->f->zero;
    if (n_k < Q_K_BLOCK)
        prepare_block(zero, p->f->sub, n_k, q, d, sum, out);
    else if (p->f->sub == 16)
        prepare_block(zero, 16, Q_K_BLOCK, q, d, sum, out);
    else
        prepare_block(zero, FXI_Q_BLOCK, Q_K_BLOCK, q, d, sum, out);
}

static int k_left(const q_layer *l, int k0)
{
    return l->w->n_in - k0 < Q_K_BLOCK ? l->w->n_in - k0 : Q_K_BLOCK;
}

// Prefetches what prepare_token reads of a token: rows are too far apart for the hardware to do it.
static void prefetch_token(const int8_t *q, const float *d, const int32_t *sum, int n_k)
{
    for (int i = 0; i < n_k; i += 64) __builtin_prefetch(q + i);
    __builtin_prefetch(d);
    for (int i = 0; i < n_k / 16; i += 16) __builtin_prefetch(sum + i);
}

static void prepare_tokens(const q_layer *l, const q_work *work, int k0, q_token *out)
{
    enum { PREFETCH_TOK = 4 };
    const size_t n_in = (size_t)l->w->n_in;
    for (int i = 0; i < work->n_tok; i++) {
        size_t at = (size_t)(work->t0 + i) * n_in + (size_t)k0, next = at + PREFETCH_TOK * n_in;
        if (i + PREFETCH_TOK < work->n_tok)
            prefetch_token(l->a->q + next, l->a->d + next / FXI_Q_BLOCK, l->a->sum + next / 16,
                           k_left(l, k0));
        prepare_token(&l->panel, l->a->q + at, l->a->d + at / FXI_Q_BLOCK, l->a->sum + at / 16,
                      k_left(l, k0), out + i);
    }
    for (int i = work->n_tok; i < work->n_slot; i++) out[i] = out[work->n_tok - 1];
}

static const uint8_t *codes_at(const q_layer *l, int p, int k)
{
    return l->data + (size_t)p * l->panel_bytes + fxi_qpanel_code_at(&l->panel, k / FXI_Q_BLOCK);
}

static const uint8_t *scales_at(const q_layer *l, int p, int k)
{
    return l->data + (size_t)p * l->panel_bytes +
           fxi_qpanel_scale_at(&l->panel, l->w->n_in, k / l->panel.f->n);
}

static void prepare_panels(const q_layer *l, q_work *work, q_place at)
{
    for (int i = 0; i < at.n_panel; i++) {
        if (l->type->unpack_codes)
            l->type->unpack_codes(codes_at(l, at.p + i, at.k0), at.n_k / FXI_Q_BLOCK,
                                  work->code[i]);
        l->type->unpack_scales(scales_at(l, at.p + i, at.k0), l->panel.scale_bytes,
                               at.n_k / l->panel.f->n, &work->scale[i]);
    }
}

// What is read after `at`: the panels' next block of k, or the next panels.
static q_place place_next(const q_layer *l, const q_work *work, q_place at)
{
    if (work->all && at.k0 + at.n_k < l->w->n_in)
        at.k0 += at.n_k;
    else {
        at.p += at.n_panel;
        if (work->all) at.k0 = 0;
    }
    return at;
}

// Prefetches the next place's scales and tells the tile where its codes are, if there is one.
static void set_prefetch(const q_layer *l, q_place next, q_tile *c)
{
    if (next.p + next.n_panel > l->panel1) return;
    const size_t bytes = (size_t)(next.n_k / l->panel.f->n) * l->panel.scale_bytes;
    const uint8_t *scales = scales_at(l, next.p, next.k0);
    for (int i = 0; i < next.n_panel; i++, scales += l->panel_bytes)
        for (size_t b = 0; b < bytes; b += 64) __builtin_prefetch(scales + b);
    c->prefetch = (const char *)codes_at(l, next.p, next.k0);
    c->prefetch_stride = l->panel_bytes;
}

// Tokens of the next tile: full tiles, except that the last two divide the rest evenly.
static int tile_tokens(int left)
{
    return left >= 2 * Q_TOK || left <= Q_TOK ? (left < Q_TOK ? left : Q_TOK) : (left + 1) / 2;
}

// n tokens x all panels of the place. Prefetches meanwhile, for each block, `lines` lines of the
// next place's codes, starting `skip` lines into them.
static void run_tile(const q_layer *l, const q_work *work, q_place at, int n, int lines, int skip,
                     q_tile c)
{
    for (int i = 0, m; i < at.n_panel; i += m) {
        m = at.n_panel - i >= Q_PANELS ? Q_PANELS : 1;
        q_tile pair = c;
        pair.scale = work->scale + i;
        pair.code = c.code + (size_t)i * c.code_stride;
        pair.y = c.y + i * FXI_PANEL;
        pair.n_out = c.n_out - i * FXI_PANEL;
        pair.prefetch_lines = c.prefetch ? lines : 0;
        if (c.prefetch)
            pair.prefetch = c.prefetch + (size_t)i * c.prefetch_stride + (size_t)skip * 64;
        l->type->tile(n, m, &pair);
    }
}

// tok: the prepared tokens of this block of k
static void run_tiles(const q_layer *l, const q_work *work, const q_token *tok, q_place at,
                      q_tile c)
{
    int n_tile = (work->n_tok + Q_TOK - 1) / Q_TOK;
    int left = (int)(l->panel.code_bytes / 64), skip = 0; // lines to prefetch for each block
    for (int t = 0, n; t < work->n_tok; t += n, n_tile--) {
        n = tile_tokens(work->n_tok - t);
        int lines = (left + n_tile - 1) / n_tile;
        c.tok = tok + t;
        c.y = l->y + (size_t)(work->t0 + t) * l->ldy + (size_t)at.p * FXI_PANEL;
        run_tile(l, work, at, n, lines, skip, c);
        skip += lines * c.n_block;
        left -= lines;
    }
}

static void run_place(const q_layer *l, q_work *work, const q_token *tok, q_place at)
{
    q_tile c = {.n_block = at.n_k / FXI_Q_BLOCK,
                .first = at.k0 == 0,
                .ldy = l->ldy,
                .n_out = l->w->n_out - at.p * FXI_PANEL};
    prepare_panels(l, work, at);
    c.code = l->type->unpack_codes ? work->code[0] : codes_at(l, at.p, at.k0);
    c.code_stride = l->type->unpack_codes ? sizeof work->code[0] : l->panel_bytes;
    set_prefetch(l, place_next(l, work, at), &c);
    run_tiles(l, work, tok, at, c);
}

static int n_panel_at(const q_layer *l, const q_work *work, int p)
{
    int most = work->n_tok <= Q_WIDE_TOK ? Q_MAX_PANELS : Q_PANELS;
    return l->panel1 - p < most ? l->panel1 - p : most;
}

// Prepares all blocks of k, then computes panel after panel.
static void run_panels(const q_layer *l, q_work *work, int p0)
{
    for (int k = 0; k < l->w->n_in; k += Q_K_BLOCK)
        prepare_tokens(l, work, k, work->tok + k / Q_K_BLOCK * work->n_slot);
    for (int p = p0; p < l->panel1; p += n_panel_at(l, work, p))
        for (int k = 0; k < l->w->n_in; k += Q_K_BLOCK)
            run_place(l, work, work->tok + k / Q_K_BLOCK * work->n_slot,
                      (q_place){k, k_left(l, k), p, n_panel_at(l, work, p)});
}

// Prepares and computes block after block of k.
static void run_blocks(const q_layer *l, q_work *work, int p0)
{
    for (int k = 0; k < l->w->n_in; k += Q_K_BLOCK) {
        prepare_tokens(l, work, k, work->tok);
        for (int p = p0; p < l->panel1; p += n_panel_at(l, work, p))
            run_place(l, work, work->tok, (q_place){k, k_left(l, k), p, n_panel_at(l, work, p)});
    }
}

// What is prefetched after the m panels from p on: those that come next, if the call has more.
static void small_ahead(const q_layer *l, int p, int m, q_small *c)
{
    const ptrdiff_t next = (ptrdiff_t)((size_t)m * l->panel_bytes);
    const size_t n_group = (size_t)(l->w->n_in / l->panel.f->n);
    c->code_jump = next - (ptrdiff_t)((size_t)c->n_block * l->panel.code_bytes);
    c->scale_jump = next - (ptrdiff_t)(n_group * l->panel.scale_bytes);
    c->last_far = (p + m < l->panel1 ? 2 : 1) * c->n_block - 1;
}

// n tokens (1, 2, 4 or 8) of those prepared, from t on, x the panels from p to end.
static void run_small_tokens(const q_layer *l, const q_work *work, int t, int n, int p, int end)
{
    q_small c = {.panel_bytes = l->panel_bytes,
                 .scale_bytes = l->panel.scale_bytes,
                 .tok = work->tok + t,
                 .n_slot = work->n_slot,
                 .n_block = l->w->n_in / FXI_Q_BLOCK,
                 .n_store = min_int(work->n_tok - t, n),
                 .ldy = l->ldy};
    const int most = Q_SMALL_PANELS(n);
    for (int m; p < end; p += m) {
        m = end - p >= most ? most : 1;
        small_ahead(l, p, m, &c);
        c.code = codes_at(l, p, 0);
        c.scale = scales_at(l, p, 0);
        c.y = l->y + (size_t)(work->t0 + t) * l->ldy + (size_t)p * FXI_PANEL;
        c.n_out = l->w->n_out - p * FXI_PANEL;
        l->type->small(n, m, &c);
    }
}

// How many of the tokens that are left go over the weights next: 1, 2, 4 or 8, and copies of the
// last one if fewer are left, because a second pass costs more.
static int small_pass(const q_layer *l, int left)
{
    int n = 1;
    while (n < left && n < l->type->small_most) n *= 2;
    return n;
}

static int small_slots(const q_layer *l, int n_tok)
{
    int n = 0;
    while (n < n_tok) n += small_pass(l, n_tok - n);
    return n;
}

// A small batch: groups of panels, which later tokens find in the second-level cache.
static void run_small(const q_layer *l, q_work *work, int p0)
{
    for (int k = 0; k < l->w->n_in; k += Q_K_BLOCK)
        prepare_tokens(l, work, k, work->tok + k / Q_K_BLOCK * work->n_slot);
    for (int p = p0, end; p < l->panel1; p = end) {
        end = l->panel1 - p > Q_SMALL_MAX_PANELS ? p + Q_SMALL_MAX_PANELS : l->panel1;
        for (int t = 0, n; t < work->n_tok; t += n) {
            n = small_pass(l, work->n_tok - t);
            run_small_tokens(l, work, t, n, p, end);
        }
    }
}

// The most tokens of a small batch. Passes of eight tokens are faster than tiles, which unpack the
// codes of each panel first, until that is shared by many tokens. On Intel they wait longer for
// memory than tiles do, so these are faster earlier, and from nine tokens on where codes are bytes.
static int small_batch(const q_type *type)
{
    if (type->small_most < Q_SMALL_TOK) return Q_SMALL_TOK;
    if (!fxi_cpu_is_intel()) return 32;
    return type->unpack_codes ? 24 : Q_SMALL_TOK;
}

void LINEAR_QUANT(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                  float *y, size_t ldy)
{
    const q_layer l = {.w = w,
                       .panel = fxi_qpanel_of(w->type),
                       .data = fxi_linear_panel(w, 0),
                       .panel_bytes = fxi_linear_panel_bytes(w->type, w->n_in),
                       .type = &q_types[w->type],
                       .a = a,
                       .y = y,
                       .ldy = ldy,
                       .panel1 = panel1};
    const int64_t n_block = (w->n_in + Q_K_BLOCK - 1) / Q_K_BLOCK;
    const int n_slot = n_tok <= small_batch(l.type) ? small_slots(&l, n_tok) : Q_MAX_TOK + 1;
    const bool small = n_slot * n_block <= Q_MAX_TOK;
    q_work work;
    work.all = n_tok * n_block <= Q_MAX_TOK;
    for (work.t0 = 0; work.t0 < n_tok; work.t0 += work.n_tok) {
        work.n_tok = n_tok - work.t0 < Q_MAX_TOK ? n_tok - work.t0 : Q_MAX_TOK;
        work.n_slot = small ? n_slot : work.n_tok;
        (small ? run_small : work.all ? run_panels : run_blocks)(&l, &work, panel0);
    }
}
