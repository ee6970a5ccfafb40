// body_prefetch.h - prefetches the cache rows that a walk of attention reads next, while its
// products run. Written once for every vector unit (cpu.h).
// Needs: body_tile.h.
//
// A walk reads the rows of all of its heads; in each segment first the keys, then the values:
//
//     keys of segment 0 | values of segment 0 | keys of segment 1 | ...      256 rows each
//
// Rows are grouped into blocks of up to 64 to 256, in this order. While the products work on one
// block, each of them prefetches its share of the next one, line by line, into the second-level
// cache. The block after a call's last one is the first of the call that the thread makes next:
// short sequences have no more than one block of keys, which nothing else would prefetch. Values
// that are a part of their keys are listed a second time: what is cached already costs little.
#ifndef FXI_KERNELS_BODY_PREFETCH_H
#define FXI_KERNELS_BODY_PREFETCH_H

#include "kernels/attn_range.h"
#include "kernels/cpu/body/body_tile.h"

enum {
    PREFETCH_BLOCK_BYTES = 128 << 10, // two blocks share the cache
    PREFETCH_MIN_ROWS = 64,           // of a block that does not end with its segment
    PREFETCH_PIECE_LINES = 16,        // lines of a row that are prefetched in sequence
    PREFETCH_STREAM = 4,              // parts of a block whose rows are prefetched in turn
};

// Neighbouring rows of a call.
typedef struct prefetch_block {
    const fxi_attn *a;
    int plane;  // 0: keys, 1: values
    int pos, n; // n 0: there is none
} prefetch_block;

// What is prefetched of a block: lines from first_byte on of its first n_row rows.
typedef struct prefetch_part {
    int n_row, stream_rows; // rows of each of the streams
    int row_lines, row_pieces;
    size_t first_byte;
} prefetch_part;

typedef struct prefetch_list {
    int block_rows;            // of a whole block
    prefetch_block now, ahead; // the products work on `now`, `part` of `ahead` is prefetched
    prefetch_part part;
    int done;           // rows of `now` that are done, counted once per head
    const char **line;  // [n] one product's share of `ahead`
    int n, next;        // next: index of the line to prefetch next
    const char *cached; // a line that is cached already
} prefetch_list;

static size_t prefetch_row_bytes(const fxi_attn *a)
{
    return fxi_kv_bytes(a->kv_type, a->v_dim ? a->head_dim : a->n_kv_head * a->head_dim);
}

static int prefetch_block_rows(size_t row_bytes)
{
    int n = FXI_ATTN_SEGMENT;
    while (n > PREFETCH_MIN_ROWS && (size_t)n * row_bytes > PREFETCH_BLOCK_BYTES) n /= 2;
    return n;
}

// The block from pos on, a position that the call attends to.
static prefetch_block prefetch_block_at(const prefetch_list *l, const fxi_attn *a, int plane,
                                        int pos)
{
    const int whole = (pos / l->block_rows + 1) * l->block_rows;
    return (prefetch_block){a, plane, pos, min_int(whole, fxi_attn_call_end(a)) - pos};
}

static prefetch_block prefetch_first_block(const prefetch_list *l, const fxi_attn *a, int segment)
{
    return prefetch_block_at(
        l, a, 0, max_int(fxi_attn_first(a->pos, a->window), segment * FXI_ATTN_SEGMENT));
}

// The block that is read after b.
static prefetch_block prefetch_block_after(const prefetch_list *l, const prefetch_block *b)
{
    const fxi_attn *a = b->a;
    const int end = fxi_attn_call_end(a), next = b->pos + b->n;
    const int segment = b->pos / FXI_ATTN_SEGMENT * FXI_ATTN_SEGMENT;
    if (next < min_int(end, segment + FXI_ATTN_SEGMENT))
        return prefetch_block_at(l, a, b->plane, next);
    if (!b->plane)
        return prefetch_block_at(l, a, 1, max_int(fxi_attn_first(a->pos, a->window), segment));
    if (next < end) return prefetch_block_at(l, a, 0, next);
    return a->then ? prefetch_first_block(l, a->then, 0) : (prefetch_block){.a = a};
}

// What to prefetch of the block ahead: no more bytes than this block has.
static void prefetch_set_part(prefetch_list *l)
{
    const fxi_attn *a = l->ahead.a;
    const size_t bytes = prefetch_row_bytes(a),
                 most = (size_t)l->now.n * prefetch_row_bytes(l->now.a) / bytes;
    prefetch_part *p = &l->part;
    p->n_row = min_int(l->ahead.n, (int)most);
    p->stream_rows = (p->n_row + PREFETCH_STREAM - 1) / PREFETCH_STREAM;
    p->row_lines = (int)(bytes + 63) / 64;
    p->row_pieces = (p->row_lines + PREFETCH_PIECE_LINES - 1) / PREFETCH_PIECE_LINES;
    p->first_byte = fxi_kv_bytes(a->kv_type, fxi_attn_head_at(a, a->kv_head));
}

// The list of a walk that starts at `segment`. line: room for the largest share (attention_size.c).
static prefetch_list prefetch_open(const fxi_attn *a, int segment, const char **line)
{
    prefetch_list l = {.block_rows = prefetch_block_rows(prefetch_row_bytes(a)), .line = line};
    l.now = prefetch_first_block(&l, a, segment);
    l.ahead = prefetch_block_after(&l, &l.now);
    prefetch_set_part(&l);
    return l;
}

// A piece of a row of the next block. Pieces alternate between four streams of rows, which the
// hardware follows better than one.
typedef struct prefetch_piece {
    int stream, row, piece; // row of the stream, piece of the row
} prefetch_piece;

static prefetch_piece prefetch_piece_at(int i, int row_pieces)
{
    const int of_stream = i / PREFETCH_STREAM;
    return (prefetch_piece){i % PREFETCH_STREAM, of_stream / row_pieces, of_stream % row_pieces};
}

static void prefetch_piece_next(prefetch_piece *p, int row_pieces)
{
    if (++p->stream < PREFETCH_STREAM) return;
    p->stream = 0;
    if (++p->piece < row_pieces) return;
    p->piece = 0;
    p->row++;
}

// Appends the piece's lines. Returns the end of the list.
static const char **prefetch_piece_lines(const prefetch_list *l, const prefetch_piece *p,
                                         const char **line)
{
    const prefetch_part *part = &l->part;
    const fxi_attn *a = l->ahead.a;
    const int row = p->stream * part->stream_rows + p->row;
    if (row >= part->n_row) return line;
    const int first = p->piece * PREFETCH_PIECE_LINES,
              n = min_int(part->row_lines - first, PREFETCH_PIECE_LINES);
    const int plane = l->ahead.plane ? fxi_attn_value_plane(a) : fxi_attn_key_plane(a);
    const char *at = fxi_kv_row(&a->view, plane, l->ahead.pos + row);
    for (int i = 0; i < n; i++) line[i] = at + part->first_byte + 64 * (size_t)(first + i);
    return line + n;
}

// Lists the share of a product over n positions of one head.
static const char **prefetch_share(const prefetch_list *l, int n)
{
    const char **line = l->line;
    const int64_t n_piece = (int64_t)PREFETCH_STREAM * l->part.stream_rows * l->part.row_pieces;
    const int n_now = l->now.n * l->now.a->n_kv_head;
    int i = (int)(l->done * n_piece / n_now);
    const int end = (int)((l->done + n) * n_piece / n_now), row_pieces = l->part.row_pieces;
    for (prefetch_piece p = prefetch_piece_at(i, row_pieces); i < end;
         i++, prefetch_piece_next(&p, row_pieces))
        line = prefetch_piece_lines(l, &p, line);
    return line;
}

// Starts a product over the keys or values of n positions of one head.
static void prefetch_begin(prefetch_list *l, int n)
{
    l->next = 0;
    l->n = l->ahead.n ? (int)(prefetch_share(l, n) - l->line) : 0;
    l->done += n;
    if (l->done < l->now.n * l->now.a->n_kv_head) return;
    l->done = 0;
    l->now = l->ahead;
    if (!l->now.n) return;
    l->ahead = prefetch_block_after(l, &l->now);
    prefetch_set_part(l);
}

// Gives the tile the next n_k lines of the list; if fewer are left, one that is cached already.
static void prefetch_attach(prefetch_list *l, tile *c)
{
    const bool enough = l->n - l->next >= c->n_k;
    l->cached = c->panel;
    c->prefetch_line = enough ? l->line + l->next : &l->cached;
    c->prefetch_step = enough;
    if (enough) l->next += c->n_k;
}

// Ends the product: prefetches the lines that no tile took.
static void prefetch_flush(prefetch_list *l)
{
    for (; l->next < l->n; l->next++) __builtin_prefetch(l->line[l->next], 0, 2);
}

#endif
