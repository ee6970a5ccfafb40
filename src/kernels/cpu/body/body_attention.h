// body_attention.h - attention over a cache, once for every vector unit (cpu.h).
// Needs: body_tile.h; the tile of few rows, FEW_TOK x FEW_PANELS, with FEW_CASES(X).
//
// One call walks the positions once for all of its query rows, segment by segment. A KV head has
// n_tok tokens x group heads of them. Of a segment all heads' scores come first, then their
// weights, then the products with values, so that rows are read whole and in the order in which
// they lie in memory, and asked for ahead in that order (body_ask.h).
//
// Both products of a segment run on the tiles of body_tile.h, over 64 positions at a time that are
// widened to f32 once for all rows:
//
//     scores   rows of q            x  keys, transposed: panels [head_dim][16 positions]
//     acc      rows of weights      x  values: panels [64 positions][16 numbers of the head]
//
// Where rows are few and the cache has 16 bits, widening would cost more than it saves: keys are
// transposed as they are, values are read where they lie, up to a segment of them at a time, and
// both are widened within the products.
//
// All rows of a segment have as many positions as the last of them sees. What others do not see has
// weight 0, which leaves acc as it is but for the sign of a zero, and the merge makes zeros +0.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/cpu/body/body_kv.h"
#include "kernels/cpu/body/body_prefetch.h"
#include "kernels/cpu/body/body_tile.h"

typedef struct walk {
    const fxi_attn *a;
    const kv_kind *kind;
    bool halves;      // the cache's numbers are read as they are
    int n_row, n_vec; // of one KV head
    int value_tile;   // positions whose values are taken together
    float *tile;      // KV_TILE positions, as f32 or, of keys, as they are
    // Of the call's first KV head; others behind it.
    float *q0;     // [n_row][head_dim] times scale
    float *s0;     // [n_row][FXI_ATTN_SEGMENT] scores, then weights
    float *seg0;   // [n_row] parts: of a segment
    float *whole0; // [n_row] parts: of all segments so far
    // Of the KV head whose turn it is.
    float *q, *s, *seg, *whole;
    size_t head_bytes; // where it begins in a row
    float *part;       // with the caller; NULL: parts of a segment are here
    ask_list *ask;
} walk;

enum { PART_M, PART_L, PART_ACC = FXI_ATTN_PART_ACC };

static size_t part_floats(const walk *w)
{
    return PART_ACC + 16 * (size_t)w->n_vec;
}

// How many of the n positions from pos on the row sees; rows of later tokens see more.
static int row_sees(const walk *w, int row, int pos, int n)
{
    int sees = w->a->pos + row / w->a->group + 1 - pos;
    return sees < n ? sees : n;
}

// ---- keys and values as panels -----------------------------------------------------------------

static const char *kv_row(const walk *w, int plane, int pos)
{
    return fxi_kv_row(&w->a->view, plane, pos) + w->head_bytes;
}

// The keys of n <= KV_TILE positions from pos on, as panels of [head_dim][16].
static void tile_keys(const walk *w, int pos, int n)
{
    const fxi_attn *a = w->a;
    float *dst = w->tile;
    for (int i = 0; i < n; i += 16, dst += 16 * a->head_dim)
        w->kind->key_panel(kv_row(w, 2 * a->layer, pos + i), a->view.tok_stride_bytes,
                           min_int(n - i, 16), a->head_dim, dst);
}

// Their values, as panels of [KV_TILE][16].
static void tile_values(const walk *w, int pos, int n)
{
    const fxi_attn *a = w->a;
    float *dst = w->tile;
    for (int i = 0; i < n; i += 16, dst += 16 * 16)
        w->kind->value_panels(kv_row(w, 2 * a->layer + 1, pos + i), a->view.tok_stride_bytes,
                              min_int(n - i, 16), a->head_dim, dst);
}

// ---- products ----------------------------------------------------------------------------------

#define ROW_CASE(T)                                       \
    case T:                                               \
        if (n_panel == 1)                                 \
            tile_run_asking(load, T, 1, true, ldk, c);    \
        else                                              \
            tile_run_asking(load, T, MOST, true, ldk, c); \
        break;

// One tile of few rows, and one of more. n_panel: MOST or 1.
ALWAYS_INLINE void tile_few_rows(load_fn *load, size_t ldk, int n_row, int n_panel, const tile *c)
{
    enum { MOST = FEW_PANELS };
    switch (n_row) {
        FEW_CASES(ROW_CASE)
    }
}

ALWAYS_INLINE void tile_rows(load_fn *load, size_t ldk, int n_row, int n_panel, const tile *c)
{
    enum { MOST = TILE_PANELS };
    switch (n_row) {
        TILE_CASES(ROW_CASE)
    }
}

#undef ROW_CASE

// n_row rows, at most TILE_TOK, x n_panel panels.
ALWAYS_INLINE void product_rows(load_fn *load, size_t ldk, tile c, int n_row, int n_panel,
                                ask_list *ask)
{
    bool few = n_row <= FEW_TOK;
    int most = few ? FEW_PANELS : TILE_PANELS;
    for (int p = 0, n; p < n_panel; p += n) {
        n = n_panel - p >= most ? most : 1;
        ask_with(ask, &c);
        if (few)
            tile_few_rows(load, ldk, n_row, n, &c);
        else
            tile_rows(load, ldk, n_row, n, &c);
        c.panel += (size_t)n * c.panel_bytes;
        c.y += n * FXI_PANEL;
        c.n_out -= n * FXI_PANEL;
    }
}

static void product_f32(tile c, int n_row, int n_panel, ask_list *ask)
{
    product_rows(tile_load_f32, FXI_PANEL, c, n_row, n_panel, ask);
}

static void product_f16(tile c, int n_row, int n_panel, ask_list *ask)
{
    product_rows(tile_load_f16, c.ldk, c, n_row, n_panel, ask);
}

static void product_bf16(tile c, int n_row, int n_panel, ask_list *ask)
{
    product_rows(tile_load_bf16, c.ldk, c, n_row, n_panel, ask);
}

// n_row rows x n_panel panels; rows are shared out evenly among as few tiles as there can be.
static void product(tile c, int n_row, int n_panel, ask_list *ask)
{
    int n_tile = (n_row + TILE_TOK - 1) / TILE_TOK;
    for (int i = 0, n; i < n_tile; i++, n_row -= n) {
        n = n_row / (n_tile - i);
        product_f32(c, n, n_panel, ask);
        c.x += (size_t)n * c.ldx;
        c.y += (size_t)n * c.ldy;
    }
}

// Keys as they are, transposed: [head_dim][16] for each 16 positions.
static void scores_halves(const walk *w, tile c, int n_row, int pos, int n)
{
    const fxi_attn *a = w->a;
    uint16_t *dst = (uint16_t *)(void *)w->tile;
    c.panel_bytes = 16 * (size_t)a->head_dim * sizeof *dst;
    c.ldk = FXI_PANEL;
    for (int i = 0; i < n; i += 16, dst += 16 * a->head_dim)
        key_panel_halves(kv_row(w, 2 * a->layer, pos + i), a->view.tok_stride_bytes,
                         min_int(n - i, 16), a->head_dim, dst);
    w->kind->halves(c, n_row, (n + 15) / 16, w->ask);
}

// Values where they lie, rows that are neighbours together.
static void weighted_halves(const walk *w, tile c, int n_row, int pos, int n)
{
    const fxi_kv_view *v = &w->a->view;
    int block = v->table ? 1 << v->block_shift : n;
    c.panel_bytes = 16 * sizeof(uint16_t);
    c.ldk = v->tok_stride_bytes / sizeof(uint16_t);
    for (int left = n; left; left -= c.n_k) {
        int together = v->table ? block - (pos & (block - 1)) : n;
        c.n_k = left < together ? left : together;
        c.panel = kv_row(w, 2 * w->a->layer + 1, pos);
        w->kind->halves(c, n_row, w->n_vec, w->ask);
        c.first = false;
        c.x += c.n_k;
        pos += c.n_k;
    }
}

// The scores of rows from r0 on for n positions from pos on, into column `at` of s and on.
static void scores(const walk *w, int r0, int pos, int n, int at)
{
    const fxi_attn *a = w->a;
    int n_panel = (n + 15) / 16;
    tile c = {.panel = (const char *)w->tile,
              .panel_bytes = 16 * (size_t)a->head_dim * sizeof(float),
              .x = w->q + (size_t)r0 * (size_t)a->head_dim,
              .ldx = (size_t)a->head_dim,
              .n_k = a->head_dim,
              .first = true,
              .y = w->s + (size_t)r0 * FXI_ATTN_SEGMENT + at,
              .ldy = FXI_ATTN_SEGMENT,
              .n_out = 16 * n_panel};
    ask_begin(w->ask, n);
    if (w->halves) {
        scores_halves(w, c, w->n_row - r0, pos, n);
    } else {
        tile_keys(w, pos, n);
        product(c, w->n_row - r0, n_panel, w->ask);
    }
    ask_end(w->ask);
}

// Adds the values of n positions from pos on to acc, by the weights from column `at` of s on.
static void weighted(const walk *w, int r0, int pos, int n, int at)
{
    tile c = {.panel = (const char *)w->tile,
              .panel_bytes = 16 * KV_TILE * sizeof(float),
              .x = w->s + (size_t)r0 * FXI_ATTN_SEGMENT + at,
              .ldx = FXI_ATTN_SEGMENT,
              .n_k = n,
              .first = at == 0,
              .y = w->seg + (size_t)r0 * part_floats(w) + PART_ACC,
              .ldy = part_floats(w),
              .n_out = 16 * w->n_vec};
    ask_begin(w->ask, n);
    if (w->halves) {
        weighted_halves(w, c, w->n_row - r0, pos, n);
    } else {
        tile_values(w, pos, n);
        product(c, w->n_row - r0, w->n_vec, w->ask);
    }
    ask_end(w->ask);
}

// The largest of the n scores that a row sees, 1 to n_all of them, into its part. What is not seen
// becomes -inf.
static void row_max(float *s, int n, float *part)
{
    v16 low = v16_set1(-INFINITY), max = low;
    int whole = n / 16 * 16;
    if (n % 16) v16_store(s + whole, v16_first(n % 16, v16_load(s + whole), low));
    for (int i = 0; i < n; i += 16) max = v16_max(max, v16_load(s + i));
    part[PART_M] = v16_max_lane(max);
}

// Scores to weights, and their sum into the row's part; weights of what it does not see are 0.
static void row_weights(float *s, int n, int n_all, float *part)
{
    const v16 max = v16_set1(part[PART_M]);
    v16 sum = v16_zero();
    int i = 0;
    for (; i < n; i += 16) {
        v16 p = v16_exp(v16_sub(v16_load(s + i), max));
        v16_store(s + i, p);
        sum = v16_add(sum, p);
    }
    for (; i < n_all; i += 16) v16_store(s + i, v16_zero());
    part[PART_L] = v16_fold(sum);
}

// ---- the walk ----------------------------------------------------------------------------------

// Parts of neighbouring rows, of a segment, into their whole: 16 rows' e and es at once.
static void parts_merge(const float *seg, float *o, int n_row, size_t ld, int n_vec)
{
    float m[16] = {0}, down[16] = {0}, down_seg[16] = {0};
    for (int r = 0; r < n_row; r++) {
        const float ms = seg[r * ld + PART_M], mo = o[r * ld + PART_M];
        m[r] = ms > mo ? ms : mo;
        down[r] = mo - m[r];
        down_seg[r] = ms - m[r];
    }
    v16_store(down, v16_exp(v16_load(down)));
    v16_store(down_seg, v16_exp(v16_load(down_seg)));
    for (int r = 0; r < n_row; r++, seg += ld, o += ld) {
        const v16 e = v16_set1(down[r]), es = v16_set1(down_seg[r]);
        o[PART_M] = m[r];
        o[PART_L] = fmaf(seg[PART_L], down_seg[r], o[PART_L] * down[r]);
        for (int i = PART_ACC; i < PART_ACC + 16 * n_vec; i += 16) {
            v16 acc = v16_add(v16_load(seg + i), v16_zero());
            v16_store(o + i, v16_fma(acc, es, v16_mul(v16_load(o + i), e)));
        }
    }
}

// Scores of the head's rows to weights.
static void head_weights(const walk *w, int r0, int pos, int n)
{
    const size_t ld = part_floats(w);
    for (int r = r0; r < w->n_row; r++)
        row_max(w->s + (size_t)r * FXI_ATTN_SEGMENT, row_sees(w, r, pos, n),
                w->seg + (size_t)r * ld);
    for (int r = r0; r < w->n_row; r++)
        row_weights(w->s + (size_t)r * FXI_ATTN_SEGMENT, row_sees(w, r, pos, n), n,
                    w->seg + (size_t)r * ld);
}

// dst = src * by
static void row_scale(const float *src, float by, int n, float *dst)
{
    v16 f = v16_set1(by);
    int i = 0;
    for (; i + 16 <= n; i += 16) v16_store(dst + i, v16_mul(v16_load(src + i), f));
    if (i < n) v16_store_n(dst + i, v16_mul(v16_load_n(src + i, n - i), f), n - i);
}

// Turns to KV head h of the call, for a segment.
static void walk_head(walk *w, int h, int segment)
{
    const fxi_attn *a = w->a;
    const size_t n_row = (size_t)w->n_row, row = (size_t)h * n_row, ld = part_floats(w);
    const size_t n_segment = (size_t)fxi_attn_n_segment(a->pos + a->n_tok);
    w->head_bytes = fxi_kv_bytes(a->kv_type, (a->kv_head + h) * a->head_dim);
    w->q = w->q0 + row * (size_t)a->head_dim;
    w->s = w->s0 + row * FXI_ATTN_SEGMENT;
    w->whole = w->whole0 + row * ld;
    w->seg = w->seg0 + row * ld;
    if (w->part) w->seg = w->part + ((size_t)h * n_segment + (size_t)segment) * n_row * ld;
}

// Where row r of head h begins in q and out.
static size_t head_at(const fxi_attn *a, int h, int r)
{
    int head = r / a->group * a->n_head + (a->kv_head + h) * a->group + r % a->group;
    return (size_t)head * (size_t)a->head_dim;
}

static void walk_queries(walk *w)
{
    const fxi_attn *a = w->a;
    for (int h = 0; h < a->n_kv_head; h++) {
        walk_head(w, h, 0);
        for (int r = 0; r < w->n_row; r++)
            row_scale(a->q + head_at(a, h, r), a->scale, a->head_dim,
                      w->q + (size_t)r * (size_t)a->head_dim);
    }
}

static void walk_begin(const walk *w)
{
    for (int r = 0; r < w->n_row * w->a->n_kv_head; r++) {
        float *o = w->whole0 + (size_t)r * part_floats(w);
        memset(o, 0, part_floats(w) * sizeof *o);
        o[PART_M] = -INFINITY;
    }
}

static void walk_end(walk *w)
{
    const fxi_attn *a = w->a;
    for (int h = 0; h < a->n_kv_head; h++) {
        walk_head(w, h, 0);
        for (int r = 0; r < w->n_row; r++) {
            const float *o = w->whole + (size_t)r * part_floats(w);
            row_scale(o + PART_ACC, 1 / o[PART_L], a->head_dim, a->out + head_at(a, h, r));
        }
    }
}

// A walk from a segment on; its parts of segments go to, or come from, `part`, if that is not NULL.
// The call's scratch: see fxi_attn_scratch.
static walk walk_of(const fxi_attn *a, int segment, float *part, ask_list *ask)
{
    walk w = {.a = a,
              .kind = &kv_kinds[a->kv_type],
              .ask = ask,
              .part = part,
              .n_vec = (a->head_dim + 15) / 16,
              .n_row = a->n_tok * a->group};
    const size_t n_row = (size_t)w.n_row, n_all = n_row * (size_t)a->n_kv_head;
    w.halves = w.kind->halves && w.n_row <= TILE_TOK && a->head_dim % 32 == 0;
    w.tile = a->scratch;
    w.s0 = w.tile + KV_TILE * 16 * (size_t)w.n_vec;
    w.seg0 = w.s0 + n_all * FXI_ATTN_SEGMENT;
    w.whole0 = w.seg0 + n_all * part_floats(&w);
    w.q0 = w.whole0 + n_all * part_floats(&w);
    *ask = ask_open(a, segment, (size_t *)(void *)(w.q0 + n_all * 16 * (size_t)w.n_vec));
    w.value_tile = w.halves ? min_int(ask->block_rows, FXI_ATTN_SEGMENT) : KV_TILE;
    return w;
}

// The first row that sees position pos.
static int first_row(const walk *w, int pos)
{
    int tok = pos - w->a->pos;
    return tok > 0 ? tok * w->a->group : 0;
}

// Parts of the head's rows from r0 on into their wholes.
static void head_merge(const walk *w, int r0)
{
    const size_t ld = part_floats(w);
    for (int r = r0, n; r < w->n_row; r += n) {
        n = min_int(w->n_row - r, 16);
        parts_merge(w->seg + (size_t)r * ld, w->whole + (size_t)r * ld, n, ld, w->n_vec);
    }
}

static void walk_segment(walk *w, int segment)
{
    const int pos = segment * FXI_ATTN_SEGMENT, r0 = first_row(w, pos);
    const int n = min_int(w->a->pos + w->a->n_tok - pos, FXI_ATTN_SEGMENT);
    const int n_head = w->a->n_kv_head, step = w->value_tile;
    for (int i = 0; i < n; i += KV_TILE)
        for (int h = 0; h < n_head; h++) {
            walk_head(w, h, segment);
            scores(w, r0, pos + i, min_int(n - i, KV_TILE), i);
        }
    for (int h = 0; h < n_head; h++) {
        walk_head(w, h, segment);
        head_weights(w, r0, pos, n);
    }
    for (int i = 0; i < n; i += step)
        for (int h = 0; h < n_head; h++) {
            walk_head(w, h, segment);
            weighted(w, r0, pos + i, min_int(n - i, step), i);
        }
}

// The parts of a segment into the wholes of their heads.
static void merge_segment(walk *w, int segment)
{
    for (int h = 0; h < w->a->n_kv_head; h++) {
        walk_head(w, h, segment);
        head_merge(w, first_row(w, segment * FXI_ATTN_SEGMENT));
    }
}

static void attention(const fxi_attn *a)
{
    ask_list ask;
    walk w = walk_of(a, 0, NULL, &ask);
    walk_queries(&w);
    walk_begin(&w);
    for (int s = 0; s < fxi_attn_n_segment(a->pos + a->n_tok); s++) {
        walk_segment(&w, s);
        merge_segment(&w, s);
    }
    walk_end(&w);
}

static void attention_part(const fxi_attn *a, int segment0, int segment1, float *part)
{
    ask_list ask;
    walk w = walk_of(a, segment0, part, &ask);
    walk_queries(&w);
    for (int s = segment0; s < segment1; s++) walk_segment(&w, s);
}

static void attention_merge(const fxi_attn *a, const float *part)
{
    ask_list ask;
    walk w = walk_of(a, 0, (float *)part, &ask);
    walk_begin(&w);
    for (int s = 0; s < fxi_attn_n_segment(a->pos + a->n_tok); s++) merge_segment(&w, s);
    walk_end(&w);
}
