// page_collect.c - snapshots of the pages: a chunk is a block of a device's pool or a slot of its
// swap, a node of the tree is a recorded page. Devices have the same blocks and slots; names go on
// from one to the next.
#include "kv/kv_snapshot.h"
#include "kv/paged/paged.h"

static uint64_t chunk_name(const fxi_paged *k, int device, const fxi_page *p)
{
    const uint64_t n = (uint64_t)device;
    return p->block == FXI_PAGE_NONE ? FX_SWAP_CHUNK | (n * k->n_slot + p->slot)
                                     : n * k->n_block + p->block;
}

static void collect_blocks(const fxi_paged *k, int device, fxi_kv_snapshot *to)
{
    for (uint32_t first = 0, end; first < k->n_block; first = end) {
        const uint8_t state = k->state[first];
        for (end = first + 1; end < k->n_block && k->state[end] == state;) end++;
        fxi_kv_snapshot_add_chunks(to, device, (uint64_t)device * k->n_block + first, end - first,
                                   state);
    }
}

// Usually there is none. A free page has neither a block nor a slot.
static void collect_slots(const fxi_paged *k, int device, fxi_kv_snapshot *to)
{
    uint32_t n_left = k->n_slot - k->n_free_slot;
    for (uint32_t i = 0; i < k->n_all_page && n_left; i++) {
        const fxi_page *p = &k->page[i];
        const bool is_free = !p->n_ref && !p->serial;
        if (is_free || p->block != FXI_PAGE_NONE) continue;
        fxi_kv_snapshot_add_chunks(to, device, chunk_name(k, device, p), 1, FX_CHUNK_swapped);
        n_left--;
    }
}

static void collect_table(const fxi_paged *k, int seq, fxi_kv_snapshot *to)
{
    const fxi_paged_seq *s = (const fxi_paged_seq *)to->seq[seq];
    for (int d = 0; d < k->pool.n_rank; d++)
        for (int i = 0; i < s->n_page; i++)
            fxi_kv_snapshot_add_segments(to, seq, d, (uint32_t)i,
                                         chunk_name(k, d, &k->page[s->page[i]]), 1);
}

// A page whose predecessor has been evicted begins a prefix, as far as one can see.
static fx_prefix_node node_of(const fxi_paged *k, const fxi_page *p)
{
    return (fx_prefix_node){.id = p->serial,
                            .parent = p->parent == p->domain->serial ? 0 : p->parent,
                            .domain = p->domain->serial,
                            .held_bytes = k->block_bytes,
                            .n_tok = (uint32_t)fxi_paged_block_tok(k),
                            .n_seq = p->n_ref};
}

static void collect_recorded(const fxi_paged *k, fxi_kv_snapshot *to)
{
    for (const fxi_page_domain *d = k->domain; d; d = d->next) to->n_all_node += d->n_page;
    uint64_t n_left = to->n_all_node;
    for (uint32_t i = 0; i < k->n_all_page && n_left; i++) {
        if (!k->page[i].serial) continue;
        const fx_prefix_node node = node_of(k, &k->page[i]);
        n_left = fxi_kv_snapshot_add_node(to, &node) ? n_left - 1 : 0;
    }
}

void fxi_page_collect_all(fxi_kv *kv, fxi_kv_snapshot *to)
{
    const fxi_paged *k = fxi_paged_of(kv);
    for (int d = 0; d < k->pool.n_rank; d++)
        fxi_kv_snapshot_add_group(to, k->part_bytes, fxi_paged_block_tok(k), d);
    for (int d = 0; d < k->pool.n_rank; d++) {
        collect_blocks(k, d, to);
        collect_slots(k, d, to);
    }
    for (int i = 0; i < to->n_seq; i++) collect_table(k, i, to);
    collect_recorded(k, to);
}
