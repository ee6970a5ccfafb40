// page_swap.c - pages whose sequences are all swapped out, in slots of the swap that hold a block.
// Nothing changes before all bytes have been written, or read.
#include "kv/paged/paged.h"

#include <string.h>

// ---- bytes -------------------------------------------------------------------------------------

// A block consists of one piece for each plane; in scratch memory they follow each other.
static fx_status copy_pieces_of(fxi_paged *k, uint32_t block, bool out)
{
    size_t at = fxi_kv_pool_scratch(&k->pool, 0);
    for (int g = 0; g < k->layout.n_group; g++) {
        const size_t n = k->layout.group[g].row_bytes << k->block_shift;
        for (int p = 0; p < k->layout.group[g].n_plane; p++, at += n) {
            const size_t piece = fxi_paged_byte(k, g, p, block);
            fxi_kv_pool_list(&k->pool, out ? at : piece, out ? piece : at, n);
        }
    }
    return fxi_kv_pool_copy(&k->pool, VT_VMM_NOW);
}

static uint64_t *sums_of(const fxi_paged *k, uint32_t slot)
{
    return k->sum + (size_t)slot * (size_t)k->pool.n_rank;
}

static fx_status write_page(fxi_paged *k, uint32_t block, uint32_t slot)
{
    FX_TRY(copy_pieces_of(k, block, true));
    return fxi_kv_pool_swap_out(&k->pool, slot * k->slot_bytes, k->part_bytes, sums_of(k, slot));
}

static fx_status read_page(fxi_paged *k, uint32_t block, uint32_t slot)
{
    uint64_t sum[FXI_MAX_RANK];
    FX_TRY(fxi_kv_pool_swap_in(&k->pool, slot * k->slot_bytes, k->part_bytes, sum));
    const bool is_whole = !memcmp(sum, sums_of(k, slot), (size_t)k->pool.n_rank * sizeof *sum);
    return is_whole ? copy_pieces_of(k, block, false) : FX_EIO;
}

// Copies a page one way, and counts it.
static fx_status move_page(fxi_paged *k, fxi_page *p, bool out)
{
    const uint64_t start_ns = fxi_now_ns();
    FX_TRY((out ? write_page : read_page)(k, p->block, p->slot));
    k->moved.bytes += k->block_bytes;
    k->moved.ns += fxi_now_ns() - start_ns;
    return FX_OK;
}

// ---- out ---------------------------------------------------------------------------------------

// Whether the page leaves memory when s is out: nobody else needs it there.
static bool will_leave(const fxi_paged_seq *s, const fxi_page *p)
{
    return p->block != FXI_PAGE_NONE && p->n_ref == p->n_out + !s->is_out;
}

static uint32_t n_leaving(const fxi_paged *k, const fxi_paged_seq *s)
{
    uint32_t n = 0;
    for (int i = 0; i < s->n_page; i++) n += will_leave(s, &k->page[s->page[i]]);
    return n;
}

// Recorded pages leave, too.
uint64_t fxi_page_swap_gain(const fxi_kv *kv, const fxi_kv_seq *seq, int n_recorded)
{
    const fxi_paged *k = fxi_paged_of(kv);
    (void)n_recorded;
    return n_leaving(k, fxi_paged_seq_of(seq)) * (uint64_t)k->block_bytes;
}

// The pages in slots of their own, still in the pool. On an error none has one.
static fx_status write_pages(fxi_paged *k, const fxi_paged_seq *s)
{
    fx_status st = FX_OK;
    for (int i = 0; i < s->n_page && st == FX_OK; i++) {
        fxi_page *p = &k->page[s->page[i]];
        if (!will_leave(s, p)) continue;
        p->slot = k->free_slot[--k->n_free_slot];
        st = move_page(k, p, true);
    }
    for (int i = 0; i < s->n_page && st != FX_OK; i++) {
        fxi_page *p = &k->page[s->page[i]];
        if (p->block == FXI_PAGE_NONE || p->slot == FXI_PAGE_NONE) continue;
        fxi_page_give_slot(k, p->slot);
        p->slot = FXI_PAGE_NONE;
    }
    return st;
}

static void leave_blocks(fxi_paged *k, const fxi_paged_seq *s)
{
    for (int i = 0; i < s->n_page; i++) {
        fxi_page *p = &k->page[s->page[i]];
        if (p->block == FXI_PAGE_NONE || p->slot == FXI_PAGE_NONE) continue;
        if (p->serial) fxi_page_unrecord(k, s->page[i]);
        fxi_page_give_block(k, p->block);
        fxi_page_set_block(k, p, FXI_PAGE_NONE);
    }
}

static void mark_out(fxi_paged *k, fxi_paged_seq *s)
{
    if (s->is_out) return;
    for (int i = 0; i < s->n_page; i++) k->page[s->page[i]].n_out++;
    s->is_out = true;
    k->live_tok -= (uint64_t)s->len_tok;
}

fx_status fxi_page_swap_out(fxi_kv *kv, fxi_kv_seq *seq, bool *is_moving)
{
    fxi_paged *k = fxi_paged_of(kv);
    *is_moving = false;
    fxi_paged_seq *s = fxi_paged_seq_of(seq);
    if (n_leaving(k, s) > k->n_free_slot) return FX_ENOSPACE;
    FX_TRY(fxi_kv_pool_settle(&k->pool));
    FX_TRY(write_pages(k, s));
    leave_blocks(k, s);
    mark_out(k, s);
    return FX_OK;
}

// ---- in ----------------------------------------------------------------------------------------

static uint32_t n_absent(const fxi_paged *k, const fxi_paged_seq *s)
{
    uint32_t n = 0;
    for (int i = 0; i < s->n_page; i++) n += k->page[s->page[i]].block == FXI_PAGE_NONE;
    return n;
}

// The pages in blocks of their own, still in the swap. On an error none has one.
static fx_status read_pages(fxi_paged *k, const fxi_paged_seq *s)
{
    fx_status st = FX_OK;
    for (int i = 0; i < s->n_page && st == FX_OK; i++) {
        fxi_page *p = &k->page[s->page[i]];
        if (p->block != FXI_PAGE_NONE) continue;
        fxi_page_set_block(k, p, fxi_page_take_block(k));
        st = move_page(k, p, false);
    }
    for (int i = 0; i < s->n_page && st != FX_OK; i++) {
        fxi_page *p = &k->page[s->page[i]];
        if (p->block == FXI_PAGE_NONE || p->slot == FXI_PAGE_NONE) continue;
        fxi_page_give_block(k, p->block);
        fxi_page_set_block(k, p, FXI_PAGE_NONE);
    }
    return st;
}

static void leave_slots(fxi_paged *k, fxi_paged_seq *s)
{
    for (int i = 0; i < s->n_page; i++) {
        fxi_page *p = &k->page[s->page[i]];
        p->n_out--;
        s->table[i] = (int32_t)p->block;
        if (p->slot == FXI_PAGE_NONE) continue;
        fxi_page_give_slot(k, p->slot);
        p->slot = FXI_PAGE_NONE;
    }
}

fx_status fxi_page_swap_in(fxi_kv *kv, fxi_kv_seq *seq, bool *is_moving)
{
    fxi_paged *k = fxi_paged_of(kv);
    *is_moving = false;
    fxi_paged_seq *s = fxi_paged_seq_of(seq);
    if (!s->is_out) return FX_OK;
    if (n_absent(k, s) > fxi_page_n_room(k)) return FX_ENOSPACE;
    FX_TRY(fxi_kv_pool_settle(&k->pool));
    FX_TRY(read_pages(k, s));
    leave_slots(k, s);
    s->is_out = false;
    k->live_tok += (uint64_t)s->len_tok;
    if (k->live_tok > k->peak_live_tok) k->peak_live_tok = k->live_tok;
    return FX_OK;
}
