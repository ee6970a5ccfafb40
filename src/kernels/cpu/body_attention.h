// body_attention.h - attention over a cache, once for every vector unit (cpu.h).
// Needs: body_tile.h; the tile of few rows, FEW_TOK x FEW_PANELS, with FEW_CASES(X).
//
// One call walks the positions once for all of its query rows, segment by segment, and within a
// segment by KV head: n_tok tokens x group heads. While it works on a segment, it asks for the rows
// of the next, keys and values of all of its heads, in the order in which they lie in memory.
//
// Both products of a segment run on the tiles of body_tile.h, over 64 positions at a
// time that are widened to f32 once for all rows:
//
//     scores   rows of q            x  keys, transposed: panels [head_dim][16 positions]
//     acc      rows of weights      x  values: panels [64 positions][16 numbers of the head]
//
// Where rows are few and the cache has 16 bits, widening would cost more than it saves: keys are
// transposed as they are, values are read where they lie, and both are widened within the products.
//
// All rows of a segment have as many positions as the last of them sees. What others do not see has
// weight 0, which leaves acc as it is but for the sign of a zero, and the merge makes zeros +0.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/cpu/body_kv.h"
#include "kernels/cpu/body_tile.h"

// Lines of memory that the walk comes to in the next segment. They are asked for one by one while
// products run.
struct ask_list {
    size_t *line; // [n] from base on
    const char *base;
    int n, next;
    int pos, call, n_call; // of the next segment; of this segment's products: which comes, how many
};

typedef struct walk {
    const fxi_attn *a;
    const kv_kind *kind;
    bool halves;        // the cache's numbers are read as they are
    int n_row, n_vec;   // of one KV head
    size_t all_bytes;   // where the call's heads begin in a row
    int row_lines;      // of all heads
    size_t head_bytes;  // where the head begins in a row
    float *tile;        // KV_TILE positions, as f32 or, of keys, as they are
    float *s;           // [n_row][FXI_ATTN_SEGMENT] scores, then weights
    float *seg;         // [n_row] parts: of a segment; here or with the caller
    float *q0, *whole0; // of the first head; others behind it
    float *q, *whole;   // [n_row][head_dim] times scale; [n_row] parts: of all segments so far
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

// What a segment's products ask for: a share each of the rows of the next, keys and values by turns.
enum { SEGMENT_ROWS = 2 * FXI_ATTN_SEGMENT };

static size_t *ask_row(const walk *w, size_t at, size_t *line)
{
    for (int i = 0; i < w->row_lines; i++) *line++ = at + 64 * (size_t)i;
    return line;
}

static const char *row_of_all(const walk *w, int plane, int pos)
{
    return fxi_kv_row(&w->a->view, plane, pos) + w->all_bytes;
}

// Row i of the next segment; NULL: the call does not see it. By turns from four runs of memory,
// which hardware follows better than one.
static const char *next_row(const walk *w, int i)
{
    const fxi_attn *a = w->a;
    int pos = w->ask->pos + i % 4 / 2 * (FXI_ATTN_SEGMENT / 2) + i / 4;
    if (pos >= a->pos + a->n_tok) return NULL;
    return row_of_all(w, 2 * a->layer + i % 2, pos);
}

// Products of the segment begin: the n_call calls of ask_begin that follow share out what is next.
static void ask_segment(const walk *w, int pos, int n)
{
    *w->ask = (ask_list){.line = w->ask->line,
                         .base = w->a->view.base,
                         .pos = pos + n,
                         .n_call = 2 * w->a->n_kv_head * ((n + KV_TILE - 1) / KV_TILE)};
}

static void ask_begin(const walk *w)
{
    ask_list *l = w->ask;
    size_t *line = l->line;
    l->n = l->next = 0;
    if (l->pos >= w->a->pos + w->a->n_tok) return;
    int end = SEGMENT_ROWS * (l->call + 1) / l->n_call;
    for (int i = SEGMENT_ROWS * l->call / l->n_call; i < end; i++) {
        const char *row = next_row(w, i);
        if (row) line = ask_row(w, (size_t)(row - l->base), line);
    }
    l->call++;
    l->n = (int)(line - l->line);
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
        w->kind->key_panel(kv_row(w, 2 * a->layer, pos + i), a->view.tok_stride_bytes,
                           n - i < 16 ? n - i : 16, a->head_dim, dst);
}

// Their values, as panels of [KV_TILE][16].
static void tile_values(const walk *w, int pos, int n)
{
    const fxi_attn *a = w->a;
    float *dst = w->tile;
    for (int i = 0; i < n; i += 16, dst += 16 * 16)
        w->kind->value_panels(kv_row(w, 2 * a->layer + 1, pos + i), a->view.tok_stride_bytes,
                              n - i < 16 ? n - i : 16, a->head_dim, dst);
}

// ---- products ----------------------------------------------------------------------------------

// One tile of few rows, and one of more. n_panel: FEW_PANELS or TILE_PANELS, or 1.
ALWAYS_INLINE void tile_few_rows(load_fn *load, size_t ldk, int n_row, int n_panel, const tile *c)
{
#define ROW_CASE(T)                                             \
    case T:                                                     \
        if (n_panel == 1)                                       \
            tile_run_asking(load, T, 1, true, ldk, c);          \
        else                                                    \
            tile_run_asking(load, T, FEW_PANELS, true, ldk, c); \
        break;
    switch (n_row) {
        FEW_CASES(ROW_CASE)
    }
#undef ROW_CASE
}

ALWAYS_INLINE void tile_rows(load_fn *load, size_t ldk, int n_row, int n_panel, const tile *c)
{
#define ROW_CASE(T)                                              \
    case T:                                                      \
        if (n_panel == 1)                                        \
            tile_run_asking(load, T, 1, true, ldk, c);           \
        else                                                     \
            tile_run_asking(load, T, TILE_PANELS, true, ldk, c); \
        break;
    switch (n_row) {
        TILE_CASES(ROW_CASE)
    }
#undef ROW_CASE
}

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

static void ask_end(ask_list *l)
{
    for (; l->next < l->n; l->next++) __builtin_prefetch(l->base + l->line[l->next], 0, 2);
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
                         n - i < 16 ? n - i : 16, a->head_dim, dst);
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
    ask_begin(w);
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
    ask_begin(w);
    if (w->halves) {
        weighted_halves(w, c, w->n_row - r0, pos, n);
    } else {
        tile_values(w, pos, n);
        product(c, w->n_row - r0, w->n_vec, w->ask);
    }
    ask_end(w->ask);
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

// dst = src * by
static void row_scale(const float *src, float by, int n, float *dst)
{
    v16 f = v16_set1(by);
    int i = 0;
    for (; i + 16 <= n; i += 16) v16_store(dst + i, v16_mul(v16_load(src + i), f));
    if (i < n) v16_store_n(dst + i, v16_mul(v16_load_n(src + i, n - i), f), n - i);
}

// Parts of head h and a segment, with the caller.
static float *segment_parts(const walk *w, const float *part, int h, int segment)
{
    size_t i = (size_t)h * (size_t)fxi_attn_n_segment(w->a->pos + w->a->n_tok) + (size_t)segment;
    return (float *)part + i * (size_t)w->n_row * part_floats(w);
}

// Turns to KV head h of the call.
static void walk_head(walk *w, int h)
{
    const fxi_attn *a = w->a;
    w->head_bytes = fxi_kv_bytes(a->kv_type, (a->kv_head + h) * a->head_dim);
    w->q = w->q0 + (size_t)h * (size_t)w->n_row * (size_t)a->head_dim;
    w->whole = w->whole0 + (size_t)h * (size_t)w->n_row * part_floats(w);
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
        walk_head(w, h);
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
        walk_head(w, h);
        for (int r = 0; r < w->n_row; r++) {
            const float *o = w->whole + (size_t)r * part_floats(w);
            row_scale(o + PART_ACC, 1 / o[PART_L], a->head_dim, a->out + head_at(a, h, r));
        }
    }
}

// A call's scratch: see fxi_attn_scratch.
static walk walk_of(const fxi_attn *a, ask_list *ask)
{
    walk w = {.a = a,
              .kind = &kv_kinds[a->kv_type],
              .ask = ask,
              .all_bytes = fxi_kv_bytes(a->kv_type, a->kv_head * a->head_dim),
              .n_vec = (a->head_dim + 15) / 16,
              .n_row = a->n_tok * a->group};
    const size_t n_row = (size_t)w.n_row, n_all = n_row * (size_t)a->n_kv_head;
    w.halves = w.kind->halves && w.n_row <= TILE_TOK && a->head_dim % 32 == 0;
    w.row_lines = (int)(fxi_kv_bytes(a->kv_type, a->n_kv_head * a->head_dim) + 63) / 64;
    w.tile = a->scratch;
    w.s = w.tile + KV_TILE * 16 * (size_t)w.n_vec;
    w.seg = w.s + n_row * FXI_ATTN_SEGMENT;
    w.whole0 = w.seg + n_row * part_floats(&w);
    w.q0 = w.whole0 + n_all * part_floats(&w);
    ask->line = (size_t *)(void *)(w.q0 + n_all * 16 * (size_t)w.n_vec);
    return w;
}

// The first row that sees position pos.
static int first_row(const walk *w, int pos)
{
    int tok = pos - w->a->pos;
    return tok > 0 ? tok * w->a->group : 0;
}

// w->seg, of this segment, into whole.
static void merge_segment(const walk *w, int segment)
{
    const size_t ld = part_floats(w);
    for (int r = first_row(w, segment * FXI_ATTN_SEGMENT), n; r < w->n_row; r += n) {
        n = w->n_row - r < 16 ? w->n_row - r : 16;
        parts_merge(w->seg + (size_t)r * ld, w->whole + (size_t)r * ld, n, ld, w->n_vec);
    }
}

// One segment of all heads: into `part`, or, where it is NULL, into their wholes.
static void walk_segment(walk *w, int segment, const float *part)
{
    const fxi_attn *a = w->a;
    int pos = segment * FXI_ATTN_SEGMENT, left = a->pos + a->n_tok - pos;
    int n = left < FXI_ATTN_SEGMENT ? left : FXI_ATTN_SEGMENT;
    ask_segment(w, pos, n);
    for (int h = 0; h < a->n_kv_head; h++) {
        walk_head(w, h);
        if (part) w->seg = segment_parts(w, part, h, segment);
        segment_rows(w, first_row(w, pos), pos, n);
        if (!part) merge_segment(w, segment);
    }
}

static void attention(const fxi_attn *a)
{
    ask_list ask = {0};
    walk w = walk_of(a, &ask);
    walk_queries(&w);
    walk_begin(&w);
    for (int s = 0; s < fxi_attn_n_segment(a->pos + a->n_tok); s++) walk_segment(&w, s, NULL);
    walk_end(&w);
}

static void attention_part(const fxi_attn *a, int segment0, int segment1, float *part)
{
    ask_list ask = {0};
    walk w = walk_of(a, &ask);
    walk_queries(&w);
    for (int s = segment0; s < segment1; s++) walk_segment(&w, s, part);
}

static void attention_merge(const fxi_attn *a, const float *part)
{
    ask_list ask = {0};
    walk w = walk_of(a, &ask);
    walk_begin(&w);
    for (int h = 0; h < a->n_kv_head; h++) {
        walk_head(&w, h);
        for (int s = 0; s < fxi_attn_n_segment(a->pos + a->n_tok); s++) {
            w.seg = segment_parts(&w, part, h, s);
            merge_segment(&w, s);
        }
    }
    walk_end(&w);
}
