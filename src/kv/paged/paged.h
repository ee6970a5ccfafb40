// paged.h - PagedAttention's memory (arXiv 2309.06180): a pool of blocks, allocated at start, and a
// table of blocks for each sequence.
//
// A BLOCK is room for the rows of block_tok tokens in every plane; all groups of planes have the
// same blocks:
//
//     group 0: plane 0 [n_block][block_tok][row]  plane 1 ...   group 1: ...
//
// Where several devices share the cache out, each has its part of every block, at the same number,
// so that a table serves all of them.
//
// A PAGE is what a block contains, wherever it is: sequences hold pages, and a page has a block of
// the pool or a slot of the swap. Its sequences share it until one of them writes to it, which gets
// a copy (copy-on-write); the last one writes in place.
//
//   FREE  --a sequence grows-->  HELD  --the last one lets go-->  FREE, or IDLE if it is recorded
//   IDLE  --matched--> HELD      IDLE --its block is needed--> FREE
//   HELD in the pool  <--swap_in, swap_out, once all its sequences are out-->  HELD in the swap
//
// The caller of swap_out and swap_in waits for the copies: all pages are copied before the first
// one changes its place, so a call that fails has changed nothing.
//
// A full page is recorded under the serial number of the page before it (the first one under that
// of its domain) and its own tokens, which are compared, not only their hash. A serial number is
// used once. A sequence that holds a recorded page mostly holds those before it, too; of idle
// pages, those before it were used later, and eviction begins at the ends of prefixes. A page whose
// predecessor has been evicted is found no more, and leaves in its turn.
//
//   kv_paged.c      the manager; sequences and their swap; snapshots; the invariants
//   page_store.c    pages, blocks and slots; eviction; recorded pages, by what they contain
#ifndef FXI_KV_PAGED_H
#define FXI_KV_PAGED_H

#include "base/keyed/hash.h"
#include "flexinfer/snapshot_rows.h"
#include "kv/kv.h"
#include "kv/kv_pool.h"

#define FXI_PAGE_NONE UINT32_MAX

// ---- the manager -------------------------------------------------------------------------------

enum { FXI_PAGE_N_PRIORITY = 8 };

typedef struct fxi_page_domain {
    struct fxi_page_domain *next;
    uint64_t serial;
    int n_open;
    uint32_t n_page; // recorded in it
    size_t key_bytes;
    char key[];
} fxi_page_domain;

typedef struct fxi_page {
    uint32_t n_ref;       // sequences that hold it; 0: it is idle or free
    uint32_t n_out;       // of them, that are out
    uint32_t block, slot; // where it is; FXI_PAGE_NONE: the other one
    // recorded
    uint64_t serial; // 0: it is not
    uint64_t parent; // serial of the page before, or of the domain
    fxi_page_domain *domain;
    uint32_t chain; // next page of the same bucket
    uint8_t priority;
    uint64_t until_ms;
    uint32_t older, newer; // idle pages of the same list
    uint8_t list;          // which: the priority when it became idle, or since it has run out
    // scratch of statistics and checks
    uint32_t n_seen;
    int fill_tok;
} fxi_page;

typedef struct fxi_page_list {
    uint32_t oldest, newest;
} fxi_page_list;

typedef struct fxi_paged_seq {
    struct fxi_paged_seq *prev, *next;
    int len_tok, n_page;
    bool is_out;     // in the swap
    int32_t *table;  // [max_page] the blocks of its pages, for the kernels
    uint32_t page[]; // [max_page], then the table
} fxi_paged_seq;

typedef struct fxi_paged {
    fxi_kv kv;
    fxi_kv_pool pool;
    size_t tok_bytes, block_bytes; // of all devices
    size_t part_bytes;             // of a block, on each
    uint64_t budget_bytes, slot_bytes;
    int block_shift, ctx_tok, max_seq, max_page;
    uint32_t n_block, n_slot, n_all_page; // n_all_page: as many as both

    fxi_page *page; // [n_all_page]
    int32_t *tok;   // [n_all_page][block_tok] of recorded pages
    uint32_t *free_page, *free_block, *free_slot;
    uint32_t n_free_page, n_free_block, n_free_slot;
    fxi_page_list idle[FXI_PAGE_N_PRIORITY];
    uint32_t n_idle;
    uint32_t n_shared; // pages that fxi_page_is_shared
    uint8_t *state;    // [n_block] FX_CHUNK_*: pages are in no order
    uint32_t *bucket;  // [n_bucket] recorded pages by hash
    uint32_t n_bucket;
    fxi_secret secret;       // of their hashes
    uint64_t n_serial;       // given out so far
    uint64_t n_evicted;      // pages so far
    uint64_t now_ms, age_ms; // age_ms: when priorities are looked at next
    fxi_page_domain *domain;
    uint64_t *sum; // [n_slot][n_rank] of the bytes in the swap

    fxi_paged_seq *first;
    int n_seq;
    uint64_t live_tok, peak_live_tok; // of sequences in memory
    fxi_kv_moved moved;
} fxi_paged;

static inline fxi_paged *fxi_paged_of(const fxi_kv *kv)
{
    return (fxi_paged *)kv;
}

static inline fxi_paged_seq *fxi_paged_seq_of(const fxi_kv_seq *s)
{
    return (fxi_paged_seq *)s;
}

static inline int fxi_paged_block_tok(const fxi_paged *k)
{
    return 1 << k->block_shift;
}

static inline uint32_t fxi_paged_n_page(const fxi_paged *k, int n_tok)
{
    return (uint32_t)(((int64_t)n_tok + fxi_paged_block_tok(k) - 1) >> k->block_shift);
}

// Whether the page is in memory and several sequences hold it, or one and the recorded prefixes.
static inline bool fxi_page_is_shared(const fxi_page *p)
{
    return p->block != FXI_PAGE_NONE && p->n_ref && p->n_ref + (p->serial != 0) > 1;
}

// Of a page in memory.
static inline unsigned fxi_page_state(const fxi_page *p)
{
    if (!p->n_ref && p->serial) return FX_CHUNK_cached;
    return fxi_page_is_shared(p) ? FX_CHUNK_shared : FX_CHUNK_owned;
}

// The first of a block's rows in the pool.
static inline uint64_t fxi_paged_row(const fxi_paged *k, uint32_t block)
{
    return (uint64_t)block << k->block_shift;
}

// ---- page_store.c: recorded pages --------------------------------------------------------------

// The page recorded after `parent` with these block_tok tokens; FXI_PAGE_NONE: there is none.
uint32_t fxi_page_find(const fxi_paged *k, uint64_t parent, const int32_t *tok);
void fxi_page_put(fxi_paged *k, uint32_t page, uint64_t parent, fxi_page_domain *d,
                  const int32_t *tok);
void fxi_page_unrecord(fxi_paged *k, uint32_t page);
fx_status fxi_page_domain_open(fxi_kv *kv, const char *key, size_t key_bytes, fxi_kv_domain **out);
void fxi_page_domain_close(fxi_kv *kv, fxi_kv_domain *d);

// ---- page_store.c: pages, blocks and slots -----------------------------------------------------

bool fxi_page_store_open(fxi_paged *k); // false: no memory. Pre: n_block, n_slot
void fxi_page_store_close(fxi_paged *k);

uint32_t fxi_page_n_room(const fxi_paged *k); // blocks that are free, or that idle pages would free
// A page with a block, held once. Pre: there is room. Evicts an idle page if no block is free.
uint32_t fxi_page_take(fxi_paged *k);
void fxi_page_hold(fxi_paged *k, uint32_t page);
void fxi_page_let_go(fxi_paged *k, uint32_t page);
void fxi_page_evict_all(fxi_paged *k); // idle pages
void fxi_page_age(fxi_paged *k);       // priorities that have run out no longer count

fx_status fxi_page_record(fxi_kv *kv, fxi_kv_seq *s, fxi_kv_domain *d, const int32_t *tok,
                          int n_tok, const fxi_kv_keep *keep);

// The bytes of a page go to a slot, or to a block; then it has both. Pre: the devices are settled;
// a slot is free, or there is room. Errors: FX_EIO, FX_ENOSPACE; it then is where it was.
fx_status fxi_page_write(fxi_paged *k, uint32_t page);
fx_status fxi_page_read(fxi_paged *k, uint32_t page);
// Of a page that has both, it keeps the other.
void fxi_page_leave_block(fxi_paged *k, uint32_t page);
void fxi_page_leave_slot(fxi_paged *k, uint32_t page);

#endif
