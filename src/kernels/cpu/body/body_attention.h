// body_attention.h - attention over a cache. Written once for every vector unit (cpu.h).
// Needs: body_tile.h; the tile of small batches, SMALL_TOK x SMALL_PANELS, with SMALL_CASES(X).
//
// One call walks the positions once for all of its query rows, segment by segment; each KV head has
// n_tok tokens x group heads of them. In a segment the scores of all heads come first, then their
// weights, then the products with the values. So rows are read whole and in memory order, and
// prefetched in that order (body_prefetch.h).
//
// Both products of a segment run on the tiles of body_tile.h, over 64 positions at a time that are
// widened to f32 once for all rows:
//
//     scores   rows of q            x  keys, transposed: panels [head_dim][16 positions]
//     acc      rows of weights      x  values: panels [64 positions][16 numbers of the head]
//
// For few rows and a 16-bit cache, widening beforehand costs more than it saves. Then keys are
// transposed as 16-bit numbers, values are read in place, up to a segment at a time, and both are
// widened inside the products.
//
// All rows of a segment cover as many positions as its last row attends to. Positions that a row
// must not see have weight 0, which changes at most the sign of a zero in acc; the merge turns
// every zero into +0.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/cpu/body/body_kv.h"
#include "kernels/cpu/body/body_product.h"

typedef struct attn_walk {
    const fxi_attn *a;
    const kv_kind *kind;
    bool halves;      // keys and values stay 16-bit until they are multiplied
    int n_row, n_vec; // rows of one KV head; vectors of 16 in a row of values
    int value_tile;   // positions whose values are multiplied at a time
    float *tile;      // keys or values of KV_TILE positions, as f32 (halves: keys as 16 bits)

    // Buffers of the call's first KV head; those of the others follow.
    float *q0;     // [n_row][head_dim] times scale
    float *s0;     // [n_row][FXI_ATTN_SEGMENT] scores, then weights
    float *seg0;   // [n_row] partial results of the current segment
    float *whole0; // [n_row] partial results of all segments so far

    // Buffers of the current KV head.
    float *q, *s, *seg, *whole;
    size_t head_bytes; // offset of the head in a row of the cache
    float *part;       // the caller's partial results; NULL: seg0 holds them
    prefetch_list *next;
} attn_walk;

enum { PART_M, PART_L, PART_ACC = FXI_ATTN_PART_ACC };

static size_t part_floats(const attn_walk *w)
{
    return PART_ACC + 16 * (size_t)w->n_vec;
}

// How many of the n positions from pos on the row attends to; rows of later tokens attend to more.
static int row_sees(const attn_walk *w, int row, int pos, int n)
{
    int sees = w->a->pos + row / w->a->group + 1 - pos;
    return sees < n ? sees : n;
}

// ---- keys and values as panels -----------------------------------------------------------------

static const char *kv_row(const attn_walk *w, int plane, int pos)
{
    return fxi_kv_row(&w->a->view, plane, pos) + w->head_bytes;
}

// Loads the keys of n <= KV_TILE positions from pos on, as panels of [head_dim][16].
static void tile_keys(const attn_walk *w, int pos, int n)
{
    const fxi_attn *a = w->a;
    float *dst = w->tile;
    for (int i = 0; i < n; i += 16, dst += 16 * a->head_dim)
        w->kind->key_panel(kv_row(w, 2 * a->layer, pos + i), a->view.tok_stride_bytes,
                           min_int(n - i, 16), a->head_dim, dst);
}

// Loads their values, as panels of [KV_TILE][16].
static void tile_values(const attn_walk *w, int pos, int n)
{
    const fxi_attn *a = w->a;
    float *dst = w->tile;
    for (int i = 0; i < n; i += 16, dst += 16 * 16)
        w->kind->value_panels(kv_row(w, 2 * a->layer + 1, pos + i), a->view.tok_stride_bytes,
                              min_int(n - i, 16), a->head_dim, dst);
}

// ---- products ----------------------------------------------------------------------------------

// Scores with 16-bit keys, transposed to [head_dim][16] for each 16 positions.
static void scores_halves(const attn_walk *w, tile c, int n_row, int pos, int n)
{
    const fxi_attn *a = w->a;
    uint16_t *dst = (uint16_t *)(void *)w->tile;
    c.panel_bytes = 16 * (size_t)a->head_dim * sizeof *dst;
    c.ldk = FXI_PANEL;
    for (int i = 0; i < n; i += 16, dst += 16 * a->head_dim)
        key_panel_halves(kv_row(w, 2 * a->layer, pos + i), a->view.tok_stride_bytes,
                         min_int(n - i, 16), a->head_dim, dst);
    w->kind->halves(c, n_row, (n + 15) / 16, w->next);
}

// Weighted sums of 16-bit values, read in place: neighbouring rows in one product.
static void values_halves(const attn_walk *w, tile c, int n_row, int pos, int n)
{
    const fxi_kv_view *v = &w->a->view;
    int block = v->table ? 1 << v->block_shift : n;
    c.panel_bytes = 16 * sizeof(uint16_t);
    c.ldk = v->tok_stride_bytes / sizeof(uint16_t);
    for (int left = n; left; left -= c.n_k) {
        int together = v->table ? block - (pos & (block - 1)) : n;
        c.n_k = left < together ? left : together;
        c.panel = kv_row(w, 2 * w->a->layer + 1, pos);
        w->kind->halves(c, n_row, w->n_vec, w->next);
        c.first = false;
        c.x += c.n_k;
        pos += c.n_k;
    }
}

// Scores of the head's rows from r0 on for n positions from pos on, to s from column `at` on.
static void head_scores(const attn_walk *w, int r0, int pos, int n, int at)
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
    prefetch_begin(w->next, n);
    if (w->halves) {
        scores_halves(w, c, w->n_row - r0, pos, n);
    } else {
        tile_keys(w, pos, n);
        product_tiles(c, w->n_row - r0, n_panel, w->next);
    }
    prefetch_flush(w->next);
}

// Adds the values of n positions from pos on to acc, weighted by s from column `at` on.
static void head_values(const attn_walk *w, int r0, int pos, int n, int at)
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
    prefetch_begin(w->next, n);
    if (w->halves) {
        values_halves(w, c, w->n_row - r0, pos, n);
    } else {
        tile_values(w, pos, n);
        product_tiles(c, w->n_row - r0, w->n_vec, w->next);
    }
    prefetch_flush(w->next);
}

// Stores the largest of the row's first n scores in its partial result. Sets the scores after them,
// up to a whole vector, to -inf.
static void row_max(float *s, int n, float *part)
{
    v16 low = v16_set1(-INFINITY), max = low;
    int whole = n / 16 * 16;
    if (n % 16) v16_store(s + whole, v16_first(n % 16, v16_load(s + whole), low));
    for (int i = 0; i < n; i += 16) max = v16_max(max, v16_load(s + i));
    part[PART_M] = v16_max_lane(max);
}

// Turns n scores into weights and stores their sum in the partial result; weights n to n_all are 0.
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

// ---- the walk -----------------------------------------------------------------------------------

// Merges the segment's partial results of up to 16 neighbouring rows into their totals; computes
// the exponentials of all rows at once.
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

// Turns the scores of the head's rows into weights.
static void head_weights(const attn_walk *w, int r0, int pos, int n)
{
    const size_t ld = part_floats(w);
    for (int r = r0; r < w->n_row; r++)
        row_max(w->s + (size_t)r * FXI_ATTN_SEGMENT, row_sees(w, r, pos, n),
                w->seg + (size_t)r * ld);
    for (int r = r0; r < w->n_row; r++)
        row_weights(w->s + (size_t)r * FXI_ATTN_SEGMENT, row_sees(w, r, pos, n), n,
                    w->seg + (size_t)r * ld);
}

static void row_scale(const float *src, float factor, int n, float *dst)
{
    v16 f = v16_set1(factor);
    int i = 0;
    for (; i + 16 <= n; i += 16) v16_store(dst + i, v16_mul(v16_load(src + i), f));
    if (i < n) v16_store_n(dst + i, v16_mul(v16_load_n(src + i, n - i), f), n - i);
}

// Makes KV head h of the call the current one, for a segment.
static void walk_head(attn_walk *w, int h, int segment)
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

static void walk_queries(attn_walk *w)
{
    const fxi_attn *a = w->a;
    for (int h = 0; h < a->n_kv_head; h++) {
        walk_head(w, h, 0);
        for (int r = 0; r < w->n_row; r++)
            row_scale(a->q + head_at(a, h, r), a->scale, a->head_dim,
                      w->q + (size_t)r * (size_t)a->head_dim);
    }
}

static void walk_begin(const attn_walk *w)
{
    for (int r = 0; r < w->n_row * w->a->n_kv_head; r++) {
        float *o = w->whole0 + (size_t)r * part_floats(w);
        memset(o, 0, part_floats(w) * sizeof *o);
        o[PART_M] = -INFINITY;
    }
}

static void walk_end(attn_walk *w)
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

// A walk from a segment on. part, if not NULL: where partial results of segments go or come from.
// The layout of the call's scratch: see fxi_attn_scratch.
static attn_walk walk_of(const fxi_attn *a, int segment, float *part, prefetch_list *next)
{
    attn_walk w = {.a = a,
                   .kind = &kv_kinds[a->kv_type],
                   .next = next,
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
    *next = prefetch_open(a, segment, (size_t *)(void *)(w.q0 + n_all * 16 * (size_t)w.n_vec));
    w.value_tile = w.halves ? min_int(next->block_rows, FXI_ATTN_SEGMENT) : KV_TILE;
    return w;
}

// The first row that attends to position pos.
static int first_row(const attn_walk *w, int pos)
{
    int tok = pos - w->a->pos;
    return tok > 0 ? tok * w->a->group : 0;
}

// Merges the partial results of the head's rows from r0 on into their totals.
static void head_merge(const attn_walk *w, int r0)
{
    const size_t ld = part_floats(w);
    for (int r = r0, n; r < w->n_row; r += n) {
        n = min_int(w->n_row - r, 16);
        parts_merge(w->seg + (size_t)r * ld, w->whole + (size_t)r * ld, n, ld, w->n_vec);
    }
}

static void walk_segment(attn_walk *w, int segment)
{
    const int pos = segment * FXI_ATTN_SEGMENT, r0 = first_row(w, pos);
    const int n = min_int(w->a->pos + w->a->n_tok - pos, FXI_ATTN_SEGMENT);
    const int n_head = w->a->n_kv_head, step = w->value_tile;
    for (int i = 0; i < n; i += KV_TILE)
        for (int h = 0; h < n_head; h++) {
            walk_head(w, h, segment);
            head_scores(w, r0, pos + i, min_int(n - i, KV_TILE), i);
        }
    for (int h = 0; h < n_head; h++) {
        walk_head(w, h, segment);
        head_weights(w, r0, pos, n);
    }
    for (int i = 0; i < n; i += step)
        for (int h = 0; h < n_head; h++) {
            walk_head(w, h, segment);
            head_values(w, r0, pos + i, min_int(n - i, step), i);
        }
}

// Merges the segment's partial results of all heads into their totals.
static void merge_segment(attn_walk *w, int segment)
{
    for (int h = 0; h < w->a->n_kv_head; h++) {
        walk_head(w, h, segment);
        head_merge(w, first_row(w, segment * FXI_ATTN_SEGMENT));
    }
}

static void attention_whole(const fxi_attn *a)
{
    prefetch_list next;
    attn_walk w = walk_of(a, 0, NULL, &next);
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
    prefetch_list next;
    attn_walk w = walk_of(a, segment0, part, &next);
    walk_queries(&w);
    for (int s = segment0; s < segment1; s++) walk_segment(&w, s);
}

static void attention_merge(const fxi_attn *a, const float *part)
{
    prefetch_list next;
    attn_walk w = walk_of(a, 0, (float *)part, &next);
    walk_begin(&w);
    for (int s = 0; s < fxi_attn_n_segment(a->pos + a->n_tok); s++) merge_segment(&w, s);
    walk_end(&w);
}
