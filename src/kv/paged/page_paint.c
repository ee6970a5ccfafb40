// page_paint.c - what the pages are, for pictures: a chunk is a block of a device's pool or a slot
// of its swap, a node of the tree is a recorded page. Devices have the same blocks and slots; names
// go on from one to the next.
#include "kv/paged/paged.h"

static uint64_t shown_chunk(const fxi_paged *k, int device, const fxi_page *p)
{
    const uint64_t n = (uint64_t)device;
    return p->block == FXI_PAGE_NONE ? FXI_KV_SWAP_CHUNK | (n * k->n_slot + p->slot)
                                     : n * k->n_block + p->block;
}

// A free page has neither.
static bool is_in_use(const fxi_page *p)
{
    return p->n_ref || p->serial;
}

static void paint_blocks(const fxi_paged *k, int device, const fxi_kv_painter *to)
{
    for (uint32_t first = 0, end; first < k->n_block; first = end) {
        const uint8_t state = k->state[first];
        for (end = first + 1; end < k->n_block && k->state[end] == state;) end++;
        to->chunk(to->ud, device, (uint64_t)device * k->n_block + first, end - first,
                  (fxi_kv_chunk_state)state);
    }
}

// Mostly there is none.
static void paint_slots(const fxi_paged *k, int device, const fxi_kv_painter *to)
{
    uint32_t n_left = k->n_slot - k->n_free_slot;
    for (uint32_t i = 0; i < k->n_all_page && n_left; i++) {
        const fxi_page *p = &k->page[i];
        if (!is_in_use(p) || p->block != FXI_PAGE_NONE) continue;
        to->chunk(to->ud, device, shown_chunk(k, device, p), 1, FXI_KV_CHUNK_SWAPPED);
        n_left--;
    }
}

static void paint_table(const fxi_paged *k, const fxi_paged_seq *s, const fxi_kv_painter *to)
{
    for (int d = 0; d < k->pool.n_rank; d++)
        for (int i = 0; i < s->n_page; i++)
            to->segment(to->ud, (const fxi_kv_seq *)s, d, i,
                        shown_chunk(k, d, &k->page[s->page[i]]), 1);
}

// A page whose predecessor has been evicted begins a prefix, as far as one can see.
static void paint_node_of(const fxi_paged *k, const fxi_page *p, const fxi_kv_painter *to)
{
    const fxi_kv_node node = {.id = p->serial,
                              .parent_id = p->parent == p->domain->serial ? 0 : p->parent,
                              .domain_id = p->domain->serial,
                              .held_bytes = k->block_bytes,
                              .n_tok = fxi_paged_block_tok(k),
                              .n_seq = (int)p->n_ref};
    to->node(to->ud, &node);
}

static void paint_all_recorded(const fxi_paged *k, const fxi_kv_painter *to)
{
    to->nodes_anew(to->ud);
    for (uint32_t i = 0; i < k->n_all_page; i++)
        if (k->page[i].serial) paint_node_of(k, &k->page[i], to);
}

static void paint_news(const fxi_paged *k, const fxi_kv_painter *to)
{
    const fxi_buf *gone = &k->watch.gone, *page = &k->watch.page;
    for (size_t i = 0; i < gone->n / sizeof(uint64_t); i++)
        to->gone_node(to->ud, ((const uint64_t *)(const void *)gone->p)[i]);
    for (size_t i = 0; i < page->n / sizeof(uint32_t); i++)
        paint_node_of(k, &k->page[((const uint32_t *)(const void *)page->p)[i]], to);
}

static void paint_recorded(fxi_paged *k, const fxi_kv_painter *to)
{
    if (!k->watch.is_on || k->watch.is_anew)
        paint_all_recorded(k, to);
    else
        paint_news(k, to);
    fxi_page_forget_news(k);
    k->watch.is_anew = false;
}

fx_status fxi_page_paint(fxi_kv *kv, const fxi_kv_painter *to)
{
    fxi_paged *k = fxi_paged_of(kv);
    for (int d = 0; d < k->pool.n_rank; d++)
        to->group(to->ud, k->part_bytes, fxi_paged_block_tok(k), d);
    for (int d = 0; d < k->pool.n_rank; d++) {
        paint_blocks(k, d, to);
        paint_slots(k, d, to);
    }
    for (const fxi_paged_seq *s = k->first; s; s = s->next) paint_table(k, s, to);
    paint_recorded(k, to);
    return FX_OK;
}
