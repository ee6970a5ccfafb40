// body_prefetch.h - prefetches the cache rows that a walk of attention reads next, while its
// products run. Written once for every vector unit (cpu.h).
// Needs: body_tile.h.
//
// A walk reads the rows of all of its heads; in each segment first the keys, then the values:
//
//     keys of segment 0 | values of segment 0 | keys of segment 1 | ...      256 rows each
//
// In this order, rows are grouped into blocks of 64 to 512. While the products work on one block,
// each of them prefetches its share of the next one, line by line, into the second-level cache.
#ifndef FXI_KERNELS_BODY_PREFETCH_H
#define FXI_KERNELS_BODY_PREFETCH_H

#include "kernels/attn_range.h"
#include "kernels/cpu/body/body_tile.h"

enum {
    PREFETCH_BLOCK_BYTES = 128 << 10, // two blocks share the cache
    PREFETCH_MIN_ROWS = 64,           // per block
    PREFETCH_PIECE_LINES = 16,        // lines of a row that are prefetched in sequence
};

typedef struct prefetch_list {
    const fxi_attn *a;
    int first_pos, end_pos;    // that the call attends to
    size_t first_byte;         // of a row that the call's heads need
    int row_lines, row_pieces; // of what they need: lines of 64 bytes; pieces
    int block_rows;
    int next_row; // first row of the next block
    int done;     // rows of this block that are done, counted once per head
    size_t *line; // [n] one product's share of the next block, as offsets from the view's base
    int n, next;  // next: index of the line to prefetch next
} prefetch_list;

static int prefetch_block_rows(size_t row_bytes)
{
    int n = 2 * FXI_ATTN_SEGMENT;
    while (n > PREFETCH_MIN_ROWS && (size_t)n * row_bytes > PREFETCH_BLOCK_BYTES) n /= 2;
    return n;
}

// The list of a walk that starts at `segment`. line: room for the largest share (attention_size.c).
static prefetch_list prefetch_open(const fxi_attn *a, int segment, size_t *line)
{
    const size_t row_bytes = fxi_kv_bytes(a->kv_type, a->n_kv_head * a->head_dim);
    prefetch_list l = {.a = a,
                       .first_pos = fxi_attn_first(a, 0),
                       .end_pos = fxi_attn_call_end(a),
                       .first_byte = fxi_kv_bytes(a->kv_type, a->kv_head * a->head_dim),
                       .row_lines = (int)(row_bytes + 63) / 64,
                       .block_rows = prefetch_block_rows(row_bytes),
                       .line = line};
    l.row_pieces = (l.row_lines + PREFETCH_PIECE_LINES - 1) / PREFETCH_PIECE_LINES;
    l.next_row = 2 * FXI_ATTN_SEGMENT * segment + l.block_rows;
    return l;
}

// A piece of the next block. Pieces alternate between four streams of rows, which the hardware
// follows better than one.
typedef struct prefetch_piece {
    int stream, row, piece; // row of the stream, piece of the row
} prefetch_piece;

static prefetch_piece prefetch_piece_at(const prefetch_list *l, int i)
{
    return (prefetch_piece){i % 4, i / 4 / l->row_pieces, i / 4 % l->row_pieces};
}

static void prefetch_piece_next(const prefetch_list *l, prefetch_piece *p)
{
    if (++p->stream < 4) return;
    p->stream = 0;
    if (++p->piece < l->row_pieces) return;
    p->piece = 0;
    p->row++;
}

// Appends the piece's lines if the call attends to its row. Returns the end of the list.
static size_t *prefetch_piece_lines(const prefetch_list *l, const prefetch_piece *p, size_t *line)
{
    const fxi_attn *a = l->a;
    const unsigned row = (unsigned)(l->next_row + p->stream * (l->block_rows / 4) + p->row);
    const unsigned in_segment = row % (2 * FXI_ATTN_SEGMENT);
    const int pos = (int)((row - in_segment) / 2 + in_segment % FXI_ATTN_SEGMENT);
    if (pos < l->first_pos || pos >= l->end_pos) return line;
    const int plane = 2 * a->layer + (in_segment >= FXI_ATTN_SEGMENT);
    const int first = p->piece * PREFETCH_PIECE_LINES,
              n = min_int(l->row_lines - first, PREFETCH_PIECE_LINES);
    size_t at = (size_t)(fxi_kv_row(&a->view, plane, pos) - a->view.base) + l->first_byte;
    for (int i = 0; i < n; i++) line[i] = at + 64 * (size_t)(first + i);
    return line + n;
}

// Starts a product over the keys or values of n positions of one head: lists its share.
static void prefetch_begin(prefetch_list *l, int n)
{
    const int n_head = l->a->n_kv_head, end = (l->done + n) * l->row_pieces / n_head;
    int i = l->done * l->row_pieces / n_head;
    size_t *line = l->line;
    for (prefetch_piece p = prefetch_piece_at(l, i); i < end; i++, prefetch_piece_next(l, &p))
        line = prefetch_piece_lines(l, &p, line);
    l->next = 0;
    l->n = (int)(line - l->line);
    l->done += n;
    if (l->done < l->block_rows * n_head) return;
    l->done = 0;
    l->next_row += l->block_rows;
}

// Passes over n rows of every head that the walk skips.
static void prefetch_skip(prefetch_list *l, int n)
{
    const int n_block = l->block_rows * l->a->n_kv_head;
    l->done += n * l->a->n_kv_head;
    l->next_row += l->done / n_block * l->block_rows;
    l->done %= n_block;
}

// Gives the tile the next n_k lines of the list; if fewer are left, one that is cached already.
static void prefetch_attach(prefetch_list *l, tile *c)
{
    static const size_t here = 0;
    bool enough = l->n - l->next >= c->n_k;
    c->prefetch_base = enough ? l->a->view.base : c->panel;
    c->prefetch_line = enough ? l->line + l->next : &here;
    c->prefetch_step = enough;
    if (enough) l->next += c->n_k;
}

// Ends the product: prefetches the lines that no tile took.
static void prefetch_flush(prefetch_list *l)
{
    for (; l->next < l->n; l->next++) __builtin_prefetch(l->a->view.base + l->line[l->next], 0, 2);
}

#endif
