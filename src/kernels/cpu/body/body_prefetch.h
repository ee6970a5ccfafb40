// body_ask.h - asks memory for the rows of a cache that a walk of attention comes to next, while
// its products run. Once for every vector unit (cpu.h).
// Needs: body_tile.h.
//
// A walk comes to the rows of all of its heads, of each segment first to the keys and then to the
// values:
//
//     keys of segment 0 | values of segment 0 | keys of segment 1 | ...      256 rows each
//
// Counted so, rows make blocks of 64 to 512. While products work on a block, each of them asks for
// its share of the next, line by line into the second-level cache.
#ifndef FXI_KERNELS_BODY_ASK_H
#define FXI_KERNELS_BODY_ASK_H

#include "kernels/cpu/body/body_tile.h"

enum {
    ASK_BLOCK_BYTES = 128 << 10, // two blocks are in the cache at a time
    ASK_MIN_ROWS = 64,           // of a block
    ASK_PIECE_LINES = 16,        // of a row, that are asked for together
};

typedef struct ask_list {
    const fxi_attn *a;
    size_t first_byte;         // of a row, that the call's heads need
    int row_lines, row_pieces; // of it: lines of 64 bytes; pieces of ASK_PIECE_LINES
    int block_rows;
    int next_row; // the next block's first
    int done;     // of this block: rows, each counted once for each head
    size_t *line; // [n] a product's share of the next block, from the view's base on
    int n, next;  // next: which is asked for next
} ask_list;

static int ask_block_rows(size_t row_bytes)
{
    int n = 2 * FXI_ATTN_SEGMENT;
    while (n > ASK_MIN_ROWS && (size_t)n * row_bytes > ASK_BLOCK_BYTES) n /= 2;
    return n;
}

// For a walk from a segment on. line: room for the largest share (attention.c).
static ask_list ask_open(const fxi_attn *a, int segment, size_t *line)
{
    const size_t row_bytes = fxi_kv_bytes(a->kv_type, a->n_kv_head * a->head_dim);
    ask_list l = {.a = a,
                  .first_byte = fxi_kv_bytes(a->kv_type, a->kv_head * a->head_dim),
                  .row_lines = (int)(row_bytes + 63) / 64,
                  .block_rows = ask_block_rows(row_bytes),
                  .line = line};
    l.row_pieces = (l.row_lines + ASK_PIECE_LINES - 1) / ASK_PIECE_LINES;
    l.next_row = 2 * FXI_ATTN_SEGMENT * segment + l.block_rows;
    return l;
}

// A piece of the next block. They come by turns from four runs of rows, which hardware follows
// better than one.
typedef struct ask_piece {
    int run, row, piece; // row of the run, piece of the row
} ask_piece;

static ask_piece ask_piece_at(const ask_list *l, int i)
{
    return (ask_piece){i % 4, i / 4 / l->row_pieces, i / 4 % l->row_pieces};
}

static void ask_piece_next(const ask_list *l, ask_piece *p)
{
    if (++p->run < 4) return;
    p->run = 0;
    if (++p->piece < l->row_pieces) return;
    p->piece = 0;
    p->row++;
}

// Appends the piece's lines if the call sees its row.
static size_t *ask_piece_lines(const ask_list *l, const ask_piece *p, size_t *line)
{
    const fxi_attn *a = l->a;
    const unsigned row = (unsigned)(l->next_row + p->run * (l->block_rows / 4) + p->row);
    const unsigned in_segment = row % (2 * FXI_ATTN_SEGMENT);
    const int pos = (int)((row - in_segment) / 2 + in_segment % FXI_ATTN_SEGMENT);
    if (pos >= a->pos + a->n_tok) return line;
    const int plane = 2 * a->layer + (in_segment >= FXI_ATTN_SEGMENT);
    const int first = p->piece * ASK_PIECE_LINES,
              n = min_int(l->row_lines - first, ASK_PIECE_LINES);
    size_t at = (size_t)(fxi_kv_row(&a->view, plane, pos) - a->view.base) + l->first_byte;
    for (int i = 0; i < n; i++) line[i] = at + 64 * (size_t)(first + i);
    return line + n;
}

// A product with the keys or values of n positions and one head begins.
static void ask_begin(ask_list *l, int n)
{
    const int n_head = l->a->n_kv_head, end = (l->done + n) * l->row_pieces / n_head;
    int i = l->done * l->row_pieces / n_head;
    size_t *line = l->line;
    for (ask_piece p = ask_piece_at(l, i); i < end; i++, ask_piece_next(l, &p))
        line = ask_piece_lines(l, &p, line);
    l->next = 0;
    l->n = (int)(line - l->line);
    l->done += n;
    if (l->done < l->block_rows * n_head) return;
    l->done = 0;
    l->next_row += l->block_rows;
}

// The next n_k lines of the list for a tile, or, where there are fewer, one that is here already.
static void ask_with(ask_list *l, tile *c)
{
    static const size_t here = 0;
    bool enough = l->n - l->next >= c->n_k;
    c->ask_base = enough ? l->a->view.base : c->panel;
    c->ask = enough ? l->line + l->next : &here;
    c->ask_step = enough;
    if (enough) l->next += c->n_k;
}

// The product ends: what no tile has asked for.
static void ask_end(ask_list *l)
{
    for (; l->next < l->n; l->next++) __builtin_prefetch(l->a->view.base + l->line[l->next], 0, 2);
}

#endif
