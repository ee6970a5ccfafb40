// body_quant.h - linear layers with weights of block types, once for every vector unit (cpu.h).
// Needs: a vec*.h; the register tile, Q_TOK x Q_PANELS, and Q_CASES(X), X(n) for n from 1 to Q_TOK;
// Q_ONE_PANELS, how many panels one token meets at a time; and the integer products:
//   vq                        16 sums of i32
//   vq_set1(p)                *p in each
//   vq_w                      [16][4] codes: vq_codes(v, wide) of a vector of bytes; wide: codes of 8 bits, others
//                             have at most 6
//   vq_dot(acc, w, x, wide)   adds to each of 16 sums the products of its 4 codes with the 4 activations in x; of wide
//                             codes Q8_ZERO_LEFT is what is still to be subtracted: 128 or 0
//   vq_as_f32(acc)            its bits, taken for floats
//
// One token: body_quant_one.h. More: body_quant_tile.h, with k cut into blocks of Q_K_BLOCK. Between blocks a float sum
// rests in y, which loses nothing.
//
// Integer to float costs nothing: a sum starts at the bits of the float F = 1.5 x 2^23, so that F + s stands there as a
// float in the end. fma(F + s, dw, -F x dw) is dw x s rounded once, for F x dw is exact.
#include "kernels/cpu/body_quant_one.h"
#include "kernels/cpu/body_quant_tile.h"

#define Q_MAX_TOK   256 // tokens whose sums are prepared together
#define Q_PANEL_OUT 32  // up to so many tokens all of a panel is read before the next

// ---- the types ---------------------------------------------------------------------------------

typedef struct q_type {
    q_tile_fn *tile;
    void (*spread)(const uint8_t *code, int n_block, uint8_t *spread); // NULL: codes are bytes
    void (*scales)(const uint8_t *at, size_t bytes, int n_group, q_scales *out);
    void (*one)(int n_panel, const q_one *c); // n_panel: Q_ONE_PANELS or 1
} q_type;

// NAME, bits of the planes, vectors that share a scale, type of 256, minima
#define Q_TYPES(X)         \
    X(Q8_0, 8, 0, 8, 0, 0) \
    X(Q4_0, 4, 0, 8, 0, 0) \
    X(Q4_1, 4, 0, 8, 0, 1) \
    X(Q5_0, 4, 1, 8, 0, 0) \
    X(Q5_1, 4, 1, 8, 0, 1) \
    X(Q2_K, 2, 0, 4, 1, 1) \
    X(Q3_K, 2, 1, 4, 1, 0) \
    X(Q4_K, 4, 0, 8, 1, 1) \
    X(Q5_K, 4, 1, 8, 1, 1) \
    X(Q6_K, 4, 2, 4, 1, 0)

#define Q_TYPE_FNS(NAME, LO, HI, N, BIG, HAS_MIN)                                          \
    static void spread_##NAME(const uint8_t *code, int n_block, uint8_t *spread)           \
    {                                                                                      \
        spread_codes(LO, HI, code, n_block, spread);                                       \
    }                                                                                      \
    static void scales_##NAME(const uint8_t *at, size_t bytes, int n_group, q_scales *out) \
    {                                                                                      \
        spread_scales(LO, HI, N, BIG, HAS_MIN, at, bytes, n_group, out);                   \
    }                                                                                      \
    static void one_##NAME(int n_panel, const q_one *c)                                    \
    {                                                                                      \
        if (n_panel == 1)                                                                  \
            one_panels(1, LO, HI, N, BIG, HAS_MIN, c);                                     \
        else                                                                               \
            one_panels(Q_ONE_PANELS, LO, HI, N, BIG, HAS_MIN, c);                          \
    }

Q_TYPES(Q_TYPE_FNS)

#define Q_TILE_OF(N, HAS_MIN) \
    ((N) == 8 ? (HAS_MIN) ? q_tile_32_min : q_tile_32 : (HAS_MIN) ? q_tile_16_min : q_tile_16)
#define Q_TYPE_ROW(NAME, LO, HI, N, BIG, HAS_MIN)                            \
    [FXI_##NAME] = {.tile = (LO) == 8 ? q_tile_wide : Q_TILE_OF(N, HAS_MIN), \
                    .spread = (LO) == 8 ? NULL : spread_##NAME,              \
                    .scales = scales_##NAME,                                 \
                    .one = one_##NAME},

static const q_type q_types[FXI_DTYPE_END] = {Q_TYPES(Q_TYPE_ROW)};

// ---- a whole layer -----------------------------------------------------------------------------

// One call.
typedef struct q_layer {
    const fxi_linear *w;
    fxi_qpanel panel;
    const q_type *type;
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
    l->type->scales(scales, q->scale_bytes, work->n_k / q->f->n, &work->scale[i]);
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

// One token: prepared once, all of k, then panel after panel.
static void run_one(const q_layer *l, q_work *work, int p0)
{
    const fxi_qpanel *q = &l->panel;
    q_one c = {.panel_bytes = fxi_linear_panel_bytes(l->w->type, l->w->n_in),
               .scale_bytes = q->scale_bytes,
               .tok = work->tok,
               .n_block = l->w->n_in / FXI_Q_BLOCK};
    for (int k = 0; k < l->w->n_in; k += Q_K_BLOCK)
        prepare_token(q, l->a->q + k, l->a->d + k / FXI_Q_BLOCK, l->a->sum + k / 16,
                      l->w->n_in - k < Q_K_BLOCK ? l->w->n_in - k : Q_K_BLOCK,
                      &work->tok[k / Q_K_BLOCK]);
    for (int p = p0, n; p < l->panel1; p += n) {
        n = l->panel1 - p >= Q_ONE_PANELS ? Q_ONE_PANELS : 1;
        c.code = codes_at(l, p, 0);
        c.scale = c.code + fxi_qpanel_scale_at(q, l->w->n_in, 0);
        c.next = p + n < l->panel1 ? codes_at(l, p + n, 0) : NULL;
        c.y = l->y + (size_t)p * FXI_PANEL;
        c.n_out = l->w->n_out - p * FXI_PANEL;
        l->type->one(n, &c);
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
    if (n_tok == 1 && w->n_in <= Q_MAX_TOK * Q_K_BLOCK) {
        run_one(&l, &work, panel0);
        return;
    }
    for (work.t0 = 0; work.t0 < n_tok; work.t0 += work.n_tok) {
        work.n_tok = n_tok - work.t0 < Q_MAX_TOK ? n_tok - work.t0 : Q_MAX_TOK;
        for (int p = panel0; p < panel1; p += step)
            run_blocks(&l, &work, p, panel1 - p < step ? panel1 : p + step);
    }
}
