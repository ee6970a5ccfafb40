// kv_view.h - a sequence's cache as an attention kernel sees it: plain data, no manager.
//
// A cache consists of groups of planes. Planes whose rows have the same size and life are one
// group: all layers of a plain model, or those with and those without a sliding window. Within a
// group, plane 2 l holds the keys of its layer l, plane 2 l + 1 the values; with latent attention,
// plane l holds the rows of its layer l. The row of token t in plane p, [n_kv_head][head_dim]
// numbers of the cache's type, begins at
//     base + p x plane_stride_bytes + t x tok_stride_bytes,
// or, if planes lie in views of view_planes planes each,
//     base + p / view_planes x view_stride_bytes + p % view_planes x plane_stride_bytes
//          + t x tok_stride_bytes,
// or, if the cache consists of blocks of 2^block_shift tokens that a table lists, at
//     base + p x plane_stride_bytes + table[t / block] x block_stride_bytes
//          + t % block x tok_stride_bytes.
// A view never parts the keys of a layer from its values. Kernels are given one layer of such a
// cache (fxi_kv_layer), so they know a base and strides only. GPUs see no views: view_planes is 0.
//
// RECURRENT LAYERS keep what later tokens read in groups with a plane for each layer:
//
//   rows     of tokens: what a token gives to those shortly after it. A window, as for attention
//   states   what a token gives to all those after it. Blocks are FXI_KV_STATE_TOK tokens long and
//            begin at multiples of that, whatever a pass computes. A row of the group is the state
//            after a whole block
//
// A token reads the state after the last whole block before it, and the rows of the tokens from
// there on. So a result depends on the position alone, not on where a pass began; a sequence is
// shortened, forked and matched at any token, by what is in the cache. The pass that computes the
// last token of a block writes the state after it. A sequence keeps the state that its next token
// reads, and those that its last pass has read or written.
#ifndef FXI_KERNELS_KV_VIEW_H
#define FXI_KERNELS_KV_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FXI_KV_MAX_GROUP = 4,
    FXI_KV_STATE_TOK = 64, // tokens of a block of a recurrence
    FXI_KV_TILE_TOK = 16,  // rows that a kernel reads at once: no block of a cache may hold fewer
    FXI_MAX_RANK = 8       // devices that compute one model together
};

typedef struct fxi_kv_group {
    int n_plane;
    size_t row_bytes; // one token, or one state, in one plane
    int window_tok;   // a token reads the rows of itself and the window_tok - 1 before it; 0: all
    bool is_state;    // of blocks; window_tok is 0
    bool is_passing;  // rows that only the state of their block, or a few tokens, need
} fxi_kv_group;

// What a model stores for each token.
typedef struct fxi_kv_layout {
    int n_group;
    fxi_kv_group group[FXI_KV_MAX_GROUP];
} fxi_kv_layout;

// Where one sequence has the rows of one group.
typedef struct fxi_kv_view {
    char *base;
    size_t plane_stride_bytes;
    size_t tok_stride_bytes;
    const int32_t *table; // NULL: the sequence is contiguous
    int block_shift;      // up to 8; blocks of FXI_KV_TILE_TOK tokens at least
    size_t block_stride_bytes;
    int first_tok;   // rows of earlier tokens are gone: a window has passed them
    int view_planes; // 0: planes are plane_stride_bytes apart, all of them
    size_t view_stride_bytes;
} fxi_kv_view;

typedef struct fxi_kv_views {
    fxi_kv_view group[FXI_KV_MAX_GROUP]; // as in the layout
    // Of a cache that several devices share out, each with the rows of its own heads: group[] is
    // the first device's view; in that of device 1 + k only `base` differs, and is this.
    char *rank_base[FXI_MAX_RANK - 1][FXI_KV_MAX_GROUP];
} fxi_kv_views;

static inline int fxi_kv_n_plane(const fxi_kv_layout *l)
{
    int n = 0;
    for (int g = 0; g < l->n_group; g++) n += l->group[g].n_plane;
    return n;
}

// Bytes of a row in all planes: of one state, or of one token without its states.
static inline size_t fxi_kv_rows_bytes(const fxi_kv_layout *l, bool of_state)
{
    size_t sum = 0;
    for (int g = 0; g < l->n_group; g++)
        if (l->group[g].is_state == of_state)
            sum += (size_t)l->group[g].n_plane * l->group[g].row_bytes;
    return sum;
}

// Those of one token in the planes whose rows pass.
static inline size_t fxi_kv_passing_bytes(const fxi_kv_layout *l)
{
    size_t sum = 0;
    for (int g = 0; g < l->n_group; g++)
        if (l->group[g].is_passing) sum += (size_t)l->group[g].n_plane * l->group[g].row_bytes;
    return sum;
}

static inline size_t fxi_kv_tok_bytes(const fxi_kv_layout *l)
{
    return fxi_kv_rows_bytes(l, false);
}

static inline size_t fxi_kv_state_bytes(const fxi_kv_layout *l)
{
    return fxi_kv_rows_bytes(l, true);
}

// First byte of plane p.
static inline char *fxi_kv_plane(const fxi_kv_view *v, int p)
{
    const int n = v->view_planes;
    if (!n) return v->base + (size_t)p * v->plane_stride_bytes;
    return v->base + (size_t)(p / n) * v->view_stride_bytes +
           (size_t)(p % n) * v->plane_stride_bytes;
}

// The cache of one layer alone, whose first plane is given: its keys are plane 0, its values plane
// 1, if they have one.
static inline fxi_kv_view fxi_kv_layer(const fxi_kv_view *v, int plane)
{
    fxi_kv_view one = *v;
    one.base = fxi_kv_plane(v, plane);
    one.view_planes = 0;
    return one;
}

// Row of one token.
static inline char *fxi_kv_row(const fxi_kv_view *v, int p, int tok)
{
    char *plane = fxi_kv_plane(v, p);
    if (!v->table) return plane + (size_t)tok * v->tok_stride_bytes;
    size_t block = (size_t)v->table[tok >> v->block_shift];
    size_t in_block = (size_t)tok & (((size_t)1 << v->block_shift) - 1);
    return plane + block * v->block_stride_bytes + in_block * v->tok_stride_bytes;
}

// The state after the block of token `tok`, [n_state] numbers. Before the first block a state is
// all zero, and nowhere. Managers that keep states have no tables.
static inline float *fxi_kv_state(const fxi_kv_view *v, int p, int tok)
{
    return (float *)(fxi_kv_plane(v, p) + (size_t)(tok / FXI_KV_STATE_TOK) * v->tok_stride_bytes);
}

#endif
