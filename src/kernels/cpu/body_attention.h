// body_attention.h - attention over a cache, once for every vector unit (cpu.h).
// Needs: body_tile.h; the tile of few rows, FEW_TOK x FEW_PANELS, with FEW_CASES(X).
//
// One call walks the positions once for all of its query rows (n_tok tokens x group heads), segment
// by segment. Both products of a segment run on the tiles of body_tile.h, over 64 positions at a
// time that are widened to f32 once for all rows:
//
//     scores   rows of q            x  keys, transposed: panels [head_dim][16 positions]
//     acc      rows of weights      x  values: panels [64 positions][16 numbers of the head]
//
// All rows of a segment have as many positions as the last of them sees. What others do not see has
// weight 0, which leaves acc as it is but for the sign of a zero, and the merge makes zeros +0.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/cpu/body_kv.h"
#include "kernels/cpu/body_tile.h"

// Lines of memory that the walk comes to next, by strides that hardware does not foresee. They are
// asked for one by one while products run.
typedef struct ask_list {
    size_t *line; // [n] from base on
    const char *base;
    int n, next;
} ask_list;

typedef struct walk {
    const fxi_attn *a;
    const kv_kind *kind;
    float *tile;  // KV_TILE positions as f32
    float *q;     // [n_row][head_dim] times scale
    float *s;     // [n_row][FXI_ATTN_SEGMENT] scores, then weights
    float *seg;   // [n_row] parts: of a segment; here or with the caller
    float *whole; // [n_row] parts: of all segments so far
    int n_row, n_vec;
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

static const char *kv_row(const fxi_attn *a, int plane, int pos)
{
    return fxi_kv_row(&a->view, plane, pos) + fxi_kv_bytes(a->kv_type, a->kv_head * a->head_dim);
}

static int row_lines(const fxi_attn *a)
{
    return (int)(fxi_kv_bytes(a->kv_type, a->head_dim) + 63) / 64;
}

// Lines of 16 neighbouring rows of which the first begins at `at`.
static size_t *ask_rows(const fxi_attn *a, size_t at, size_t *line)
{
    int n = row_lines(a);
    for (int j = 0; j < 16; j++, at += a->view.tok_stride_bytes)
        for (int i = 0; i < n; i++) *line++ = at + 64 * (size_t)i;
    return line;
}

// The lines of a tile's rows, where they do not change from tile to tile.
static void ask_begin(const walk *w)
{
    size_t *line = w->ask->line;
    for (size_t j = 0; j < KV_TILE; j += 16)
        line = ask_rows(w->a, j * w->a->view.tok_stride_bytes, line);
}

// The same of n rows from pos on, where blocks are smaller than tiles.
static void ask_blocks(const walk *w, int plane, int pos, int n)
{
    size_t *line = w->ask->line;
    for (int j = 0; j < n; j += 16)
        line = ask_rows(w->a, (size_t)(kv_row(w->a, plane, pos + j) - w->ask->base), line);
}

// The rows of the tile that begins at pos come next, as far as the call sees.
static void ask_for(const walk *w, int plane, int pos)
{
    const fxi_attn *a = w->a;
    int left = a->pos + a->n_tok - pos, n = left < KV_TILE ? left : KV_TILE;
    w->ask->n = w->ask->next = 0;
    if (n <= 0) return;
    w->ask->base = kv_row(a, plane, pos);
    w->ask->n = n * row_lines(a);
    if (a->view.table && 1 << a->view.block_shift < KV_TILE) ask_blocks(w, plane, pos, n);
}

// The next n_k lines of the list for a tile, or, where there are fewer, one that is here already.
static void ask_with(ask_list *l, tile *c)
{
    static const size_t here = 0;
    bool enough = l->n - l->next >= c->n_k;
    c->ask_base = enough ? l->base : c->panel;
    c->ask = enough ? l->line + l->next : &here;
    c->ask_step = enough;
    if (enough) l->next += c->n_k;
}

// The keys of n <= KV_TILE positions from pos on, as panels of [head_dim][16].
static void tile_keys(const walk *w, int pos, int n)
{
    const fxi_attn *a = w->a;
    float *dst = w->tile;
    for (int i = 0; i < n; i += 16, dst += 16 * a->head_dim)
        w->kind->key_panel(kv_row(a, 2 * a->layer, pos + i), a->view.tok_stride_bytes,
                           n - i < 16 ? n - i : 16, a->head_dim, dst);
}

// Their values, as panels of [KV_TILE][16].
static void tile_values(const walk *w, int pos, int n)
{
    const fxi_attn *a = w->a;
    float *dst = w->tile;
    for (int i = 0; i < n; i += 16, dst += 16 * 16)
        w->kind->value_panels(kv_row(a, 2 * a->layer + 1, pos + i), a->view.tok_stride_bytes,
                              n - i < 16 ? n - i : 16, a->head_dim, dst);
}

// ---- products ----------------------------------------------------------------------------------

// One tile of few rows, and one of more. n_panel: FEW_PANELS or TILE_PANELS, or 1.
static void tile_few_rows(int n_row, int n_panel, const tile *c)
{
#define ROW_CASE(T)                                                 \
    case T:                                                         \
        if (n_panel == 1)                                           \
            tile_run_asking(tile_load_f32, T, 1, true, c);          \
        else                                                        \
            tile_run_asking(tile_load_f32, T, FEW_PANELS, true, c); \
        break;
    switch (n_row) {
        FEW_CASES(ROW_CASE)
    }
#undef ROW_CASE
}

static void tile_rows(int n_row, int n_panel, const tile *c)
{
#define ROW_CASE(T)                                                  \
    case T:                                                          \
        if (n_panel == 1)                                            \
            tile_run_asking(tile_load_f32, T, 1, true, c);           \
        else                                                         \
            tile_run_asking(tile_load_f32, T, TILE_PANELS, true, c); \
        break;
    switch (n_row) {
        TILE_CASES(ROW_CASE)
    }
#undef ROW_CASE
}

// n_row rows, at most TILE_TOK, x n_panel panels.
static void product_rows(tile c, int n_row, int n_panel, ask_list *ask)
{
    bool few = n_row <= FEW_TOK;
    int most = few ? FEW_PANELS : TILE_PANELS;
    for (int p = 0, n; p < n_panel; p += n) {
        n = n_panel - p >= most ? most : 1;
        ask_with(ask, &c);
        (few ? tile_few_rows : tile_rows)(n_row, n, &c);
        c.panel += (size_t)n * c.panel_bytes;
        c.y += n * FXI_PANEL;
        c.n_out -= n * FXI_PANEL;
    }
}

// n_row rows x n_panel panels; rows are shared out evenly among as few tiles as there can be.
static void product(tile c, int n_row, int n_panel, ask_list *ask)
{
    int n_tile = (n_row + TILE_TOK - 1) / TILE_TOK;
    for (int i = 0, n; i < n_tile; i++, n_row -= n) {
        n = n_row / (n_tile - i);
        product_rows(c, n, n_panel, ask);
        c.x += (size_t)n * c.ldx;
        c.y += (size_t)n * c.ldy;
    }
    for (; ask->next < ask->n; ask->next++) __builtin_prefetch(ask->base + ask->line[ask->next]);
}

// The scores of rows from r0 on for n positions from pos on, into column `at` of s and on.
static void scores(const walk *w, int r0, int pos, int n, int at)
{
    const fxi_attn *a = w->a;
    int n_panel = (n + 15) / 16;
    int last = at + KV_TILE == FXI_ATTN_SEGMENT; // then come the segment's values
    ask_for(w, 2 * a->layer + last, last ? pos - at : pos + KV_TILE);
    tile_keys(w, pos, n);
    product((tile){.panel = (const char *)w->tile,
                   .panel_bytes = 16 * (size_t)a->head_dim * sizeof(float),
                   .x = w->q + (size_t)r0 * (size_t)a->head_dim,
                   .ldx = (size_t)a->head_dim,
                   .n_k = a->head_dim,
                   .first = true,
                   .y = w->s + (size_t)r0 * FXI_ATTN_SEGMENT + at,
                   .ldy = FXI_ATTN_SEGMENT,
                   .n_out = 16 * n_panel},
            w->n_row - r0, n_panel, w->ask);
}

// Adds the values of n positions from pos on to acc, by the weights from column `at` of s on.
static void weighted(const walk *w, int r0, int pos, int n, int at)
{
    int last = at + KV_TILE == FXI_ATTN_SEGMENT; // then come the next segment's keys
    ask_for(w, 2 * w->a->layer + !last, pos + KV_TILE);
    tile_values(w, pos, n);
    product((tile){.panel = (const char *)w->tile,
                   .panel_bytes = 16 * KV_TILE * sizeof(float),
                   .x = w->s + (size_t)r0 * FXI_ATTN_SEGMENT + at,
                   .ldx = FXI_ATTN_SEGMENT,
                   .n_k = n,
                   .first = at == 0,
                   .y = w->seg + (size_t)r0 * part_floats(w) + PART_ACC,
                   .ldy = part_floats(w),
                   .n_out = 16 * w->n_vec},
            w->n_row - r0, w->n_vec, w->ask);
}

// Scores to weights: the row sees n of them, 1 to n_all; the others become 0.
static void weights(float *s, int n, int n_all, float *part)
{
    v16 low = v16_set1(-INFINITY), max = low, sum = v16_zero();
    int i = 0, end = (n_all + 15) / 16 * 16, whole = n / 16 * 16;
    if (n % 16) v16_store(s + whole, v16_first(n % 16, v16_load(s + whole), low));
    for (i = 0; i < n; i += 16) max = v16_max(max, v16_load(s + i));
    float m = v16_max_lane(max);
    max = v16_set1(m);
    for (i = 0; i < n; i += 16) {
        v16 p = v16_exp(v16_sub(v16_load(s + i), max));
        v16_store(s + i, p);
        sum = v16_add(sum, p);
    }
    for (; i < end; i += 16) v16_store(s + i, v16_zero());
    part[PART_M] = m;
    part[PART_L] = v16_fold(sum);
}

// ---- the walk ----------------------------------------------------------------------------------

// A segment into a whole.
static void part_merge(const float *seg, float *o, int n_vec)
{
    float m = seg[PART_M] > o[PART_M] ? seg[PART_M] : o[PART_M];
    v16 e = v16_exp(v16_set1(o[PART_M] - m)), es = v16_exp(v16_set1(seg[PART_M] - m));
    o[PART_M] = m;
    o[PART_L] = fmaf(seg[PART_L], v16_lane0(es), o[PART_L] * v16_lane0(e));
    for (int i = PART_ACC; i < PART_ACC + 16 * n_vec; i += 16) {
        v16 acc = v16_add(v16_load(seg + i), v16_zero());
        v16_store(o + i, v16_fma(acc, es, v16_mul(v16_load(o + i), e)));
    }
}

// The n positions of the segment that begins at pos; rows from r0 on see some of it.
static void segment_rows(const walk *w, int r0, int pos, int n)
{
    for (int i = 0; i < n; i += KV_TILE)
        scores(w, r0, pos + i, n - i < KV_TILE ? n - i : KV_TILE, i);
    for (int r = r0; r < w->n_row; r++)
        weights(w->s + (size_t)r * FXI_ATTN_SEGMENT, row_sees(w, r, pos, n), n,
                w->seg + (size_t)r * part_floats(w));
    for (int i = 0; i < n; i += KV_TILE)
        weighted(w, r0, pos + i, n - i < KV_TILE ? n - i : KV_TILE, i);
}

// Where row r begins in q and out.
static size_t head_at(const fxi_attn *a, int r)
{
    int head = r / a->group * a->n_head + a->kv_head * a->group + r % a->group;
    return (size_t)head * (size_t)a->head_dim;
}

// dst = src * by
static void row_scale(const float *src, float by, int n, float *dst)
{
    v16 f = v16_set1(by);
    int i = 0;
    for (; i + 16 <= n; i += 16) v16_store(dst + i, v16_mul(v16_load(src + i), f));
    if (i < n) v16_store_n(dst + i, v16_mul(v16_load_n(src + i, n - i), f), n - i);
}

static void walk_queries(const walk *w)
{
    const fxi_attn *a = w->a;
    for (int r = 0; r < w->n_row; r++)
        row_scale(a->q + head_at(a, r), a->scale, a->head_dim,
                  w->q + (size_t)r * (size_t)a->head_dim);
}

static void walk_begin(const walk *w)
{
    for (int r = 0; r < w->n_row; r++) {
        float *o = w->whole + (size_t)r * part_floats(w);
        memset(o, 0, part_floats(w) * sizeof *o);
        o[PART_M] = -INFINITY;
    }
}

static void walk_end(const walk *w)
{
    const fxi_attn *a = w->a;
    for (int r = 0; r < w->n_row; r++) {
        const float *o = w->whole + (size_t)r * part_floats(w);
        row_scale(o + PART_ACC, 1 / o[PART_L], a->head_dim, a->out + head_at(a, r));
    }
}

static walk walk_of(const fxi_attn *a, ask_list *ask)
{
    walk w = {.a = a,
              .kind = &kv_kinds[a->kv_type],
              .ask = ask,
              .n_vec = (a->head_dim + 15) / 16,
              .n_row = a->n_tok * a->group};
    size_t n_row = (size_t)w.n_row;
    w.tile = a->scratch;
    w.s = w.tile + KV_TILE * 16 * (size_t)w.n_vec;
    w.seg = w.s + n_row * FXI_ATTN_SEGMENT;
    w.whole = w.seg + n_row * part_floats(&w);
    ask->line = (size_t *)(void *)(w.whole + n_row * part_floats(&w));
    w.q = w.whole + n_row * part_floats(&w) + KV_TILE * 2 * (size_t)w.n_vec;
    return w;
}

// The first row that sees position pos.
static int first_row(const walk *w, int pos)
{
    int tok = pos - w->a->pos;
    return tok > 0 ? tok * w->a->group : 0;
}

// One segment, into w->seg.
static void walk_segment(const walk *w, int segment)
{
    int pos = segment * FXI_ATTN_SEGMENT, left = w->a->pos + w->a->n_tok - pos;
    segment_rows(w, first_row(w, pos), pos, left < FXI_ATTN_SEGMENT ? left : FXI_ATTN_SEGMENT);
}

// w->seg, of this segment, into whole.
static void merge_segment(const walk *w, int segment)
{
    for (int r = first_row(w, segment * FXI_ATTN_SEGMENT); r < w->n_row; r++) {
        size_t at = (size_t)r * part_floats(w);
        part_merge(w->seg + at, w->whole + at, w->n_vec);
    }
}

static void attention(const fxi_attn *a)
{
    ask_list ask = {0};
    walk w = walk_of(a, &ask);
    walk_queries(&w);
    walk_begin(&w);
    ask_begin(&w);
    for (int s = 0; s < fxi_attn_n_segment(a->pos + a->n_tok); s++) {
        walk_segment(&w, s);
        merge_segment(&w, s);
    }
    walk_end(&w);
}

static float *segment_parts(const walk *w, const float *part, int segment)
{
    return (float *)part + (size_t)segment * (size_t)w->n_row * part_floats(w);
}

static void attention_part(const fxi_attn *a, int segment0, int segment1, float *part)
{
    ask_list ask = {0};
    walk w = walk_of(a, &ask);
    walk_queries(&w);
    ask_begin(&w);
    for (int s = segment0; s < segment1; s++) {
        w.seg = segment_parts(&w, part, s);
        walk_segment(&w, s);
    }
}

static void attention_merge(const fxi_attn *a, const float *part)
{
    ask_list ask = {0};
    walk w = walk_of(a, &ask);
    walk_begin(&w);
    for (int s = 0; s < fxi_attn_n_segment(a->pos + a->n_tok); s++) {
        w.seg = segment_parts(&w, part, s);
        merge_segment(&w, s);
    }
    walk_end(&w);
}
