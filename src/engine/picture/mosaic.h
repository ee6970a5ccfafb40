// mosaic.h - the nodes of pictures, in tiles that pictures share: what has not changed since the
// last picture is neither copied nor compared.
//
// A tile is a block of nodes with references. A mosaic is the engine's list of tiles, by id. A tile
// that a picture holds, too, is never changed: it is replaced.
#ifndef FXI_ENGINE_MOSAIC_H
#define FXI_ENGINE_MOSAIC_H

#include <stdatomic.h>
#include <stdbool.h>

#include "flexinfer/picture.h"

typedef struct fxi_tile {
    fx_node_block block; // first
    _Atomic unsigned refs;
} fxi_tile;

typedef struct fxi_mosaic { // all 0: empty
    fxi_tile **tile;        // [n] a reference each
    size_t n, cap;
    size_t n_node;
} fxi_mosaic;

void fxi_mosaic_clear(fxi_mosaic *m); // frees all of it

// A new node, or one that has changed; many in a row go by growing ids best. False: no memory, and
// nothing has changed.
bool fxi_mosaic_put(fxi_mosaic *m, const fx_prefix_node *node);
// There need be none of this id. False: no memory, and nothing has changed.
bool fxi_mosaic_drop(fxi_mosaic *m, uint64_t id);

// The tiles as they are now, with a reference to each: [m->n]. NULL: no memory. Any thread may give
// them back.
const fx_node_block **fxi_mosaic_share(const fxi_mosaic *m);
void fxi_blocks_unref(const fx_node_block *const *block, size_t n); // and the list; NULL is allowed

#endif
