// body_attention.h - attention over a cache. Written once for every vector unit (cpu.h).
// Needs: body_act.h; body_tile.h; the tile of small batches, SMALL_TOK x SMALL_PANELS, with
// SMALL_CASES(X).
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
// All rows that attend to some of a segment cover the same positions of it: those that any of them
// attends to. Positions that a row must not see have weight 0, which changes at most the sign of a
// zero in acc; the merge turns every zero into +0.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/attn_range.h"
#include "kernels/cpu/body/body_kv.h"
#include "kernels/cpu/body/body_product.h"
#include "kernels/cpu/body/body_softmax.h"

typedef struct attn_walk {
    const fxi_attn *a;
    const kv_kind *kind;
    bool halves;             // keys and values stay 16-bit until they are multiplied
    int n_row, n_vec;        // rows of one KV head; vectors of 16 in a value
    int segment0, n_segment; // that the call attends to: from segment0 up to, not including, this
    int value_tile;          // positions whose values are multiplied at a time
    float *tile; // keys or values of KV_TILE positions, as f32 (halves: keys as 16 bits)

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

static size_t part_floats(const attn_walk *w)
{
    return PART_ACC + 16 * (size_t)w->n_vec;
}

// What a walk covers of one segment: for each head the rows r0 to r1 - 1, which attend to some of
// it, and of the positions from pos on those in `all`, which some of the rows attend to.
typedef struct attn_span {
    int pos, r0, r1;
    attn_range all;
    attn_range tok[FXI_ATTN_MAX_TOK]; // what each token attends to; set by walk_segment
} attn_span;

static attn_range token_range(const fxi_attn *a, int tok, int pos)
{
    return (attn_range){
        max_int(fxi_attn_first(a->pos + tok, a->window) - pos, 0),
        min_int(fxi_attn_end(a->pos + tok, a->n_pos, a->window) - pos, FXI_ATTN_SEGMENT)};
}

static void span_of(const attn_walk *w, int segment, attn_span *s)
{
    const fxi_attn *a = w->a;
    int pos = segment * FXI_ATTN_SEGMENT, tok0 = 0, tok1 = a->n_tok;
    while (tok0 < tok1 && fxi_attn_end(a->pos + tok0, a->n_pos, a->window) <= pos) tok0++;
    while (tok1 > tok0 && fxi_attn_first(a->pos + tok1 - 1, a->window) >= pos + FXI_ATTN_SEGMENT)
        tok1--;
    s->pos = pos;
    s->r0 = tok0 * a->group;
    s->r1 = tok1 * a->group;
}

// The positions of each token and of all of them; some tokens attend to the segment.
static void span_ranges(const attn_walk *w, attn_span *s)
{
    const int tok0 = s->r0 / w->a->group, tok1 = s->r1 / w->a->group;
    for (int t = tok0; t < tok1; t++) s->tok[t] = token_range(w->a, t, s->pos);
    s->all = (attn_range){s->tok[tok0].from, s->tok[tok1 - 1].end};
}

// ---- keys and values as panels -----------------------------------------------------------------

static const char *kv_row(const attn_walk *w, int plane, int pos)
{
    return fxi_kv_row(&w->a->view, plane, pos) + w->head_bytes;
}

// Numbers of keys or values that are widened and multiplied at a time: all of a usual head; of a
// wider one as many as stay in the first-level cache, for all positions of a tile.
enum { MAX_WHOLE_HEAD = 256, PART_OF_HEAD = 96 };

static int head_step(int head_dim)
{
    return head_dim > MAX_WHOLE_HEAD ? PART_OF_HEAD : head_dim;
}

// Loads numbers d to d + n_d - 1 of the keys of n <= KV_TILE positions from pos on, as panels of
// [n_d][16].
static void tile_keys(const attn_walk *w, int pos, int n, int d, int n_d)
{
    const fxi_attn *a = w->a;
    const size_t from = fxi_kv_bytes(a->kv_type, d);
    float *dst = w->tile;
    for (int i = 0; i < n; i += 16, dst += 16 * n_d)
        w->kind->key_panel(kv_row(w, fxi_attn_key_plane(a), pos + i) + from,
                           a->view.tok_stride_bytes, min_int(n - i, 16), n_d, dst);
}

// Loads the same numbers of their values, as panels of [KV_TILE][16].
static void tile_values(const attn_walk *w, int pos, int n, int d, int n_d)
{
    const fxi_attn *a = w->a;
    const size_t from = fxi_kv_bytes(a->kv_type, d);
    float *dst = w->tile;
    for (int i = 0, m; i < n; i += m, dst += 16 * m) {
        m = min_int(n - i, 16 - (pos + i) % 16);
        w->kind->value_panels(kv_row(w, fxi_attn_value_plane(a), pos + i) + from,
                              a->view.tok_stride_bytes, m, n_d, dst);
    }
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
        key_panel_halves(kv_row(w, fxi_attn_key_plane(a), pos + i), a->view.tok_stride_bytes,
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
        c.panel = kv_row(w, fxi_attn_value_plane(w->a), pos);
        w->kind->halves(c, n_row, w->n_vec, w->next);
        c.first = false;
        c.x += c.n_k;
        pos += c.n_k;
    }
}

// Scores with keys of any type, widened to f32 some numbers of the head after the others.
static void scores_widened(const attn_walk *w, tile c, int n_row, int pos, int n)
{
    const int head_dim = w->a->head_dim, step = head_step(head_dim);
    for (int d = 0; d < head_dim; d += step) {
        c.n_k = min_int(head_dim - d, step);
        c.panel_bytes = 16 * (size_t)c.n_k * sizeof(float);
        tile_keys(w, pos, n, d, c.n_k);
        product_tiles(c, n_row, (n + 15) / 16, w->next);
        c.x += c.n_k;
        c.first = false;
    }
}

// Weighted sums of values, widened in the same way.
static void values_widened(const attn_walk *w, tile c, int n_row, int pos, int n)
{
    const int dim = fxi_attn_value_dim(w->a), step = head_step(dim);
    for (int d = 0; d < dim; d += step) {
        const int n_d = min_int(dim - d, step);
        tile_values(w, pos, n, d, n_d);
        c.n_out = whole_16(n_d + 15);
        product_tiles(c, n_row, c.n_out / 16, w->next);
        c.y += n_d;
    }
}

// Scores of the head's rows for n positions of the segment from `at` on, to s from column `at` on.
// If `at` is not a multiple of 16, the positions end before the next one.
static void head_scores(const attn_walk *w, const attn_span *s, int n, int at)
{
    const fxi_attn *a = w->a;
    const int r0 = s->r0, pos = s->pos + at;
    tile c = {.panel = (const char *)w->tile,
              .x = w->q + (size_t)r0 * (size_t)a->head_dim,
              .ldx = (size_t)a->head_dim,
              .n_k = a->head_dim,
              .first = true,
              .y = w->s + (size_t)r0 * FXI_ATTN_SEGMENT + at,
              .ldy = FXI_ATTN_SEGMENT,
              .n_out = min_int(whole_16(n + 15), FXI_ATTN_SEGMENT - at)};
    prefetch_begin(w->next, n);
    if (w->halves)
        scores_halves(w, c, s->r1 - r0, pos, n);
    else
        scores_widened(w, c, s->r1 - r0, pos, n);
    prefetch_flush(w->next);
}

// Adds the values of n positions of the segment from `at` on to acc, weighted by s from column `at`
// on.
static void head_values(const attn_walk *w, const attn_span *s, int n, int at)
{
    const int r0 = s->r0, pos = s->pos + at;
    tile c = {.panel = (const char *)w->tile,
              .panel_bytes = 16 * KV_TILE * sizeof(float),
              .x = w->s + (size_t)r0 * FXI_ATTN_SEGMENT + at,
              .ldx = FXI_ATTN_SEGMENT,
              .n_k = n,
              .first = at == s->all.from,
              .y = w->seg + (size_t)r0 * part_floats(w) + PART_ACC,
              .ldy = part_floats(w),
              .n_out = 16 * w->n_vec};
    prefetch_begin(w->next, n);
    if (w->halves)
        values_halves(w, c, s->r1 - r0, pos, n);
    else
        values_widened(w, c, s->r1 - r0, pos, n);
    prefetch_flush(w->next);
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
static void head_weights(const attn_walk *w, const attn_span *s)
{
    const size_t ld = part_floats(w);
    const int group = w->a->group, n = s->r1 - s->r0;
    const attn_range *tok = s->tok + s->r0 / group;
    float *score = w->s + (size_t)s->r0 * FXI_ATTN_SEGMENT, *part = w->seg + (size_t)s->r0 * ld;
    if (w->a->softcap)
        for (int r = 0; r < n; r++)
            row_cap(score + r * FXI_ATTN_SEGMENT, tok[r / group], w->a->softcap);
    for (int r = 0; r < n; r++)
        row_max(score + r * FXI_ATTN_SEGMENT, tok[r / group], part + (size_t)r * ld);
    for (int r = 0; r < n; r++)
        row_weights(score + r * FXI_ATTN_SEGMENT, tok[r / group], s->all, part + (size_t)r * ld);
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
    w->head_bytes = fxi_kv_bytes(a->kv_type, fxi_attn_head_at(a, a->kv_head + h));
    w->q = w->q0 + row * (size_t)a->head_dim;
    w->s = w->s0 + row * FXI_ATTN_SEGMENT;
    w->whole = w->whole0 + row * ld;
    w->seg = w->seg0 + row * ld;
    if (w->part)
        w->seg = w->part + ((size_t)h * (size_t)w->n_segment + (size_t)segment) * n_row * ld;
}

// Where row r of head h begins in q or out, whose heads have n numbers.
static size_t head_at(const fxi_attn *a, int h, int r, int n)
{
    int head = r / a->group * a->n_head + (a->kv_head + h) * a->group + r % a->group;
    return (size_t)head * (size_t)n;
}

static void walk_queries(attn_walk *w)
{
    const fxi_attn *a = w->a;
    for (int h = 0; h < a->n_kv_head; h++) {
        walk_head(w, h, 0);
        for (int r = 0; r < w->n_row; r++)
            row_scale(a->q + head_at(a, h, r, a->head_dim), a->scale, a->head_dim,
                      w->q + (size_t)r * (size_t)a->head_dim);
    }
}

static void walk_begin(const attn_walk *w)
{
    const fxi_attn *a = w->a;
    for (int r = 0; r < w->n_row * a->n_kv_head; r++) {
        float *o = w->whole0 + (size_t)r * part_floats(w);
        memset(o, 0, part_floats(w) * sizeof *o);
        o[PART_M] = -INFINITY;
        if (!a->sink) continue;
        o[PART_M] = a->sink[(a->kv_head + r / w->n_row) * a->group + r % a->group];
        o[PART_L] = 1;
    }
}

static void walk_end(attn_walk *w)
{
    const fxi_attn *a = w->a;
    const int n = fxi_attn_value_dim(a);
    for (int h = 0; h < a->n_kv_head; h++) {
        walk_head(w, h, 0);
        for (int r = 0; r < w->n_row; r++) {
            const float *o = w->whole + (size_t)r * part_floats(w);
            row_scale(o + PART_ACC, 1 / o[PART_L], n, a->out + head_at(a, h, r, n));
        }
    }
}

// A walk from a segment on, but no earlier than the call attends to. part, if not NULL: where
// partial results of segments go or come from. The layout of the call's scratch: fxi_attn_scratch.
static attn_walk walk_of(const fxi_attn *a, int segment, float *part, prefetch_list *next)
{
    attn_walk w = {.a = a,
                   .kind = &kv_kinds[a->kv_type],
                   .next = next,
                   .part = part,
                   .n_vec = (fxi_attn_value_dim(a) + 15) / 16,
                   .segment0 = fxi_attn_first(a->pos, a->window) / FXI_ATTN_SEGMENT,
                   .n_segment = fxi_attn_n_segment(fxi_attn_call_end(a)),
                   .n_row = a->n_tok * a->group};
    const size_t n_row = (size_t)w.n_row, n_all = n_row * (size_t)a->n_kv_head;
    const size_t head = ((size_t)a->head_dim + 15) / 16 * 16; // no value is wider
    w.halves = w.kind->halves && w.n_row <= TILE_TOK && a->head_dim % 16 == 0 && a->v_dim % 16 == 0;
    w.tile = a->scratch;
    w.s0 = w.tile + KV_TILE * head;
    w.seg0 = w.s0 + n_all * FXI_ATTN_SEGMENT;
    w.whole0 = w.seg0 + n_all * part_floats(&w);
    w.q0 = w.whole0 + n_all * part_floats(&w);
    w.segment0 = max_int(segment, w.segment0);
    *next = prefetch_open(a, w.segment0, (const char **)(void *)(w.q0 + n_all * head));
    w.value_tile = w.halves ? next->block_rows : KV_TILE;
    return w;
}

// Merges the segment's partial results of the head's rows into their totals.
static void head_merge(const attn_walk *w, const attn_span *s)
{
    const size_t ld = part_floats(w);
    for (int r = s->r0, n; r < s->r1; r += n) {
        n = min_int(s->r1 - r, 16);
        parts_merge(w->seg + (size_t)r * ld, w->whole + (size_t)r * ld, n, ld, w->n_vec);
    }
}

// How many keys are multiplied together from column i on: up to a multiple of 16, then up to
// multiples of KV_TILE, because 16 neighbouring lanes are positions from a multiple of 16 on.
static int key_step(const attn_span *s, int i)
{
    int n = i % 16 ? 16 - i % 16 : KV_TILE - i % KV_TILE;
    return min_int(s->all.end - i, n);
}

static void walk_keys(attn_walk *w, const attn_span *s, int segment)
{
    for (int i = s->all.from, n; i < s->all.end; i += n) {
        n = key_step(s, i);
        for (int h = 0; h < w->a->n_kv_head; h++) {
            walk_head(w, h, segment);
            head_scores(w, s, n, i);
        }
    }
}

static void walk_values(attn_walk *w, const attn_span *s, int segment)
{
    for (int i = s->all.from, n; i < s->all.end; i += n) {
        n = min_int(s->all.end - i, w->value_tile - i % w->value_tile);
        for (int h = 0; h < w->a->n_kv_head; h++) {
            walk_head(w, h, segment);
            head_values(w, s, n, i);
        }
    }
}

static void walk_segment(attn_walk *w, int segment)
{
    attn_span s;
    span_of(w, segment, &s);
    if (s.r0 == s.r1) return;
    span_ranges(w, &s);
    walk_keys(w, &s, segment);
    for (int h = 0; h < w->a->n_kv_head; h++) {
        walk_head(w, h, segment);
        head_weights(w, &s);
    }
    walk_values(w, &s, segment);
}

// Merges the segment's partial results of all heads into their totals.
static void merge_segment(attn_walk *w, int segment)
{
    attn_span s;
    span_of(w, segment, &s);
    for (int h = 0; h < w->a->n_kv_head; h++) {
        walk_head(w, h, segment);
        head_merge(w, &s);
    }
}

static void attention_whole(const fxi_attn *a)
{
    prefetch_list next;
    attn_walk w = walk_of(a, 0, NULL, &next);
    walk_queries(&w);
    walk_begin(&w);
    for (int s = w.segment0; s < w.n_segment; s++) {
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
    for (int s = w.segment0; s < segment1; s++) walk_segment(&w, s);
}

static void attention_merge(const fxi_attn *a, const float *part)
{
    prefetch_list next;
    attn_walk w = walk_of(a, 0, (float *)part, &next);
    walk_begin(&w);
    for (int s = w.segment0; s < w.n_segment; s++) merge_segment(&w, s);
    walk_end(&w);
}
