// page_paint.c - what the pages are, for pictures: a chunk is a block of the pool or a slot of the
// swap, a node of the tree is a recorded page.
#include "kv/paged/paged.h"

#include <stdlib.h>

static fxi_kv_chunk_state shown_state(const fxi_page *p)
{
    if (p->block == FXI_PAGE_NONE) return FXI_KV_CHUNK_SWAPPED;
    if (!p->n_ref) return FXI_KV_CHUNK_CACHED;
    return fxi_page_is_shared(p) ? FXI_KV_CHUNK_SHARED : FXI_KV_CHUNK_OWNED;
}

static uint64_t shown_chunk(const fxi_page *p)
{
    return p->block == FXI_PAGE_NONE ? FXI_KV_SWAP_CHUNK | p->slot : p->block;
}

// A free page has neither.
static bool is_in_use(const fxi_page *p)
{
    return p->n_ref || p->serial;
}

// A byte for each block: pages are in no order.
static void fill_states(const fxi_paged *k, uint8_t *state)
{
    for (uint32_t i = 0; i < k->n_free_block; i++) state[k->free_block[i]] = FXI_KV_CHUNK_SPARE;
    for (uint32_t i = 0; i < k->n_all_page; i++)
        if (is_in_use(&k->page[i]) && k->page[i].block != FXI_PAGE_NONE)
            state[k->page[i].block] = (uint8_t)shown_state(&k->page[i]);
}

static void paint_blocks(const fxi_paged *k, const uint8_t *state, const fxi_kv_painter *to)
{
    for (uint32_t first = 0, end; first < k->n_block; first = end) {
        for (end = first + 1; end < k->n_block && state[end] == state[first];) end++;
        if (state[first])
            to->chunk(to->ud, 0, first, end - first, (fxi_kv_chunk_state)state[first]);
    }
}

static fx_status paint_pages(const fxi_paged *k, const fxi_kv_painter *to)
{
    uint8_t *state = calloc(k->n_block, 1);
    if (!state) return FX_ENOMEM;
    fill_states(k, state);
    paint_blocks(k, state, to);
    free(state);
    for (uint32_t i = 0; i < k->n_all_page && k->n_slot; i++)
        if (is_in_use(&k->page[i]) && k->page[i].block == FXI_PAGE_NONE)
            to->chunk(to->ud, 0, shown_chunk(&k->page[i]), 1, FXI_KV_CHUNK_SWAPPED);
    return FX_OK;
}

static void paint_tables(const fxi_paged *k, const fxi_kv_painter *to)
{
    for (const fxi_paged_seq *s = k->first; s; s = s->next)
        for (int i = 0; i < s->n_page; i++)
            to->segment(to->ud, (const fxi_kv_seq *)s, 0, i, shown_chunk(&k->page[s->page[i]]), 1);
}

// A page whose predecessor has been evicted begins a prefix, as far as one can see.
static void paint_recorded(const fxi_paged *k, const fxi_kv_painter *to)
{
    to->nodes_anew(to->ud);
    for (uint32_t i = 0; i < k->n_all_page; i++) {
        const fxi_page *p = &k->page[i];
        if (!p->serial) continue;
        const fxi_kv_node node = {.id = p->serial,
                                  .parent_id = p->parent == p->domain->serial ? 0 : p->parent,
                                  .domain_id = p->domain->serial,
                                  .held_bytes = k->block_bytes,
                                  .n_tok = fxi_paged_block_tok(k),
                                  .n_seq = (int)p->n_ref};
        to->node(to->ud, &node);
    }
}

fx_status fxi_page_paint(fxi_kv *kv, const fxi_kv_painter *to)
{
    const fxi_paged *k = fxi_paged_of(kv);
    to->group(to->ud, k->block_bytes, fxi_paged_block_tok(k), 0);
    FX_TRY(paint_pages(k, to));
    paint_tables(k, to);
    paint_recorded(k, to);
    return FX_OK;
}
