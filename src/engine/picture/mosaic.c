// mosaic.c - a sorted list in tiles of up to FX_NODE_BLOCK nodes. A tile that is full is split; one
// that has few nodes left is joined with a neighbour that has few, too.
#include "engine/picture/mosaic.h"

#include <stdlib.h>
#include <string.h>

enum { FEW_NODES = FX_NODE_BLOCK / 4, FIRST_TILES = 16 };

// ---- tiles -------------------------------------------------------------------------------------

static fxi_tile *make_tile(const fx_prefix_node *node, size_t n)
{
    fxi_tile *t = malloc(sizeof *t);
    if (!t) return NULL;
    t->block.n = n;
    if (n) memcpy(t->block.node, node, n * sizeof *node);
    atomic_init(&t->refs, 1);
    return t;
}

static void unref_tile(fxi_tile *t)
{
    if (atomic_fetch_sub(&t->refs, 1) == 1) free(t);
}

// The number of nodes of the tile whose ids are less.
static size_t place_in(const fxi_tile *t, uint64_t id)
{
    size_t low = 0, high = t->block.n;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (t->block.node[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool tile_has(const fxi_tile *t, size_t at, uint64_t id)
{
    return at < t->block.n && t->block.node[at].id == id;
}

// ---- the list ----------------------------------------------------------------------------------

// The last tile that begins at or before id, or the first one; 0 if there is none.
static size_t tile_for(const fxi_mosaic *m, uint64_t id)
{
    size_t low = 0, high = m->n;
    while (low + 1 < high) {
        const size_t mid = (low + high) / 2;
        if (m->tile[mid]->block.node[0].id <= id)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static bool insert_tile(fxi_mosaic *m, size_t at, fxi_tile *t)
{
    if (!t) return false;
    if (m->n == m->cap) {
        const size_t cap = m->cap ? 2 * m->cap : FIRST_TILES;
        fxi_tile **more = realloc(m->tile, cap * sizeof(fxi_tile *));
        if (!more) {
            unref_tile(t);
            return false;
        }
        m->tile = more;
        m->cap = cap;
    }
    memmove(m->tile + at + 1, m->tile + at, (m->n - at) * sizeof *m->tile);
    m->tile[at] = t;
    m->n++;
    return true;
}

static void remove_tile(fxi_mosaic *m, size_t at)
{
    unref_tile(m->tile[at]);
    m->n--;
    memmove(m->tile + at, m->tile + at + 1, (m->n - at) * sizeof *m->tile);
}

// The tile, to be changed: a copy of it, if pictures hold it.
static fxi_tile *own_tile(fxi_mosaic *m, size_t at)
{
    fxi_tile *t = m->tile[at];
    if (atomic_load(&t->refs) == 1) return t;
    fxi_tile *copy = make_tile(t->block.node, t->block.n);
    if (!copy) return NULL;
    unref_tile(t);
    return m->tile[at] = copy;
}

// Its second half becomes a tile of its own.
static bool split_tile(fxi_mosaic *m, size_t at)
{
    fxi_tile *t = own_tile(m, at);
    const size_t half = FX_NODE_BLOCK / 2;
    if (!t || !insert_tile(m, at + 1, make_tile(t->block.node + half, t->block.n - half)))
        return false;
    t->block.n = half;
    return true;
}

// Nodes mostly come by growing ids: a full last tile is then followed by a new one.
static bool insert_node(fxi_mosaic *m, size_t at, const fx_prefix_node *node)
{
    const bool is_last = at + 1 >= m->n;
    if (!m->n) return insert_tile(m, 0, make_tile(node, 1));
    if (m->tile[at]->block.n == FX_NODE_BLOCK) {
        if (is_last && place_in(m->tile[at], node->id) == FX_NODE_BLOCK)
            return insert_tile(m, at + 1, make_tile(node, 1));
        if (!split_tile(m, at)) return false;
        at = tile_for(m, node->id);
    }
    fxi_tile *t = own_tile(m, at);
    if (!t) return false;
    const size_t place = place_in(t, node->id);
    fx_prefix_node *to = t->block.node + place;
    memmove(to + 1, to, (t->block.n - place) * sizeof *to);
    *to = *node;
    t->block.n++;
    return true;
}

// Without memory both stay as they are.
static void join_next(fxi_mosaic *m, size_t at)
{
    if (at + 1 >= m->n) return;
    const fx_node_block *next = &m->tile[at + 1]->block;
    if (m->tile[at]->block.n > FEW_NODES || next->n > FEW_NODES) return;
    fxi_tile *t = own_tile(m, at);
    if (!t) return;
    memcpy(t->block.node + t->block.n, next->node, next->n * sizeof *next->node);
    t->block.n += next->n;
    remove_tile(m, at + 1);
}

// ---- calls -------------------------------------------------------------------------------------

void fxi_mosaic_clear(fxi_mosaic *m)
{
    for (size_t i = 0; i < m->n; i++) unref_tile(m->tile[i]);
    free(m->tile);
    *m = (fxi_mosaic){0};
}

bool fxi_mosaic_put(fxi_mosaic *m, const fx_prefix_node *node)
{
    const size_t at = tile_for(m, node->id);
    const size_t place = m->n ? place_in(m->tile[at], node->id) : 0;
    if (m->n && tile_has(m->tile[at], place, node->id)) {
        if (!memcmp(&m->tile[at]->block.node[place], node, sizeof *node)) return true;
        fxi_tile *t = own_tile(m, at);
        if (t) t->block.node[place] = *node;
        return t != NULL;
    }
    const bool ok = insert_node(m, at, node);
    m->n_node += ok;
    return ok;
}

bool fxi_mosaic_drop(fxi_mosaic *m, uint64_t id)
{
    const size_t at = tile_for(m, id);
    const size_t place = m->n ? place_in(m->tile[at], id) : 0;
    if (!m->n || !tile_has(m->tile[at], place, id)) return true;
    if (m->tile[at]->block.n == 1) {
        remove_tile(m, at);
    } else {
        fxi_tile *t = own_tile(m, at);
        if (!t) return false;
        fx_prefix_node *gone = t->block.node + place;
        t->block.n--;
        memmove(gone, gone + 1, (t->block.n - place) * sizeof *gone);
        join_next(m, at);
        if (at) join_next(m, at - 1);
    }
    m->n_node--;
    return true;
}

const fx_node_block **fxi_mosaic_share(const fxi_mosaic *m)
{
    const fx_node_block **block = malloc((m->n + 1) * sizeof *block);
    for (size_t i = 0; block && i < m->n; i++) {
        block[i] = &m->tile[i]->block;
        atomic_fetch_add(&m->tile[i]->refs, 1);
    }
    return block;
}

void fxi_blocks_unref(const fx_node_block *const *block, size_t n)
{
    for (size_t i = 0; block && i < n; i++) unref_tile((fxi_tile *)block[i]);
    free((void *)block);
}
