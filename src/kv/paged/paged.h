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
// While it moves between them, and until its sequence is back, a page has both a block and a slot.
//
// A full page is recorded under the serial number of the page before it (the first one under that
// of its domain) and its own tokens, which are compared, not only their hash. A serial number is
// used once. A sequence that holds a recorded page mostly holds those before it, too; of idle
// pages, those before it were used later, and eviction begins at the ends of prefixes. A page whose
// predecessor has been evicted is found no more, and leaves in its turn.
//
//   kv_paged.c      the manager; sequences; snapshots; the invariants
//   page_swap.c     the swap: sequences on their way
//   page_jobs.c     the bytes of pages on their way, in a thread
//   page_store.c    pages, blocks and slots; eviction; recorded pages, by what they contain
#ifndef FXI_KV_PAGED_H
#define FXI_KV_PAGED_H

#include <pthread.h>

#include "base/keyed/hash.h"
#include "flexinfer/snapshot_rows.h"
#include "kv/kv.h"
#include "kv/kv_pool.h"

#define FXI_PAGE_NONE UINT32_MAX

// ---- jobs --------------------------------------------------------------------------------------
//
// The bytes of pages on their way between a block of the pool and a slot of the swap,
// one page at a time, in the background: by a thread, or inside fxi_kv_step.
//
// A job belongs to a slot, so a slot has one at most:
//
//   FREE --post--> WAITS --its turn--> RUNS --> DONE --take_done--> FREE
//                    +--withdraw--> FREE
//
// The thread gets jobs that name a block and a slot, and gives back a status and a time. It sees
// neither pages nor sequences, only what has been fixed since the manager was opened. It alone
// calls what swaps, so a slot that is free again is dropped by a job, too (FXI_PAGE_DROP), after
// all others; its result does not matter, so it is FREE at once.

// What is done with a page's bytes.
typedef enum fxi_page_way { FXI_PAGE_STAYS, FXI_PAGE_OUT, FXI_PAGE_IN, FXI_PAGE_DROP } fxi_page_way;

typedef enum fxi_page_job_state {
    FXI_PAGE_JOB_FREE,
    FXI_PAGE_JOB_WAITS,
    FXI_PAGE_JOB_RUNS,
    FXI_PAGE_JOB_DONE
} fxi_page_job_state;

typedef struct fxi_page_job {
    uint8_t way, state;
    uint32_t page;  // the owner's
    uint32_t block; // not of FXI_PAGE_DROP
    fx_status st;   // of one that is done, as the time that it took
    uint64_t ns;
    uint32_t prev, next; // slots in the queue that it is in
} fxi_page_job;

typedef struct fxi_page_queue {
    uint32_t first, last;
} fxi_page_queue;

typedef struct fxi_page_jobs {
    pthread_t thread;
    bool has_thread;
    uint64_t now[FXI_MAX_RANK]; // the owner's last mark: what the devices have been given to do
    uint64_t *ticket;           // [n_slot][n_rank] what they must have done before a job
    uint64_t *sum;              // [n_slot][n_rank] of the bytes in the swap; the thread's
    fxi_kv_copies copies;       // the thread's
    pthread_mutex_t mu;         // guards all below, but not the other fields of a FREE job
    pthread_cond_t posted, ended;
    bool stops;
    fxi_page_job *job; // [n_slot]
    fxi_page_queue moves, drops, done;
} fxi_page_jobs;

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
    uint32_t n_ref;       // sequences that hold it; 0, and not idle: a job that runs ends it
    uint32_t n_out;       // of them, that want it out
    uint32_t block, slot; // FXI_PAGE_NONE: it has none
    uint8_t way;          // fxi_page_way: OUT or IN, its slot has a job
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

// Where a sequence is (page_swap.c).
typedef enum fxi_paged_seq_way {
    FXI_SEQ_IN,
    FXI_SEQ_LEAVING,
    FXI_SEQ_OUT,
    FXI_SEQ_COMING
} fxi_paged_seq_way;

typedef struct fxi_paged_seq {
    struct fxi_paged_seq *prev, *next;
    int len_tok, n_page;
    fxi_paged_seq_way way;
    bool wants_out; // what was asked last: swap_out
    fx_status st;   // how that failed, until it is told
    uint32_t *page; // [max_page]
    int32_t *table; // [max_page] their blocks, for the kernels
} fxi_paged_seq;

typedef struct fxi_paged {
    fxi_kv kv;
    fxi_kv_pool pool;
    fxi_kv_layout layout;            // of a device
    size_t region[FXI_KV_MAX_GROUP]; // first byte of each group in the pool
    size_t tok_bytes, block_bytes;   // of all devices
    size_t part_bytes;               // of a block, on each
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
    uint32_t n_ending; // pages that only a running job holds
    uint8_t *state;    // [n_block] FX_CHUNK_*: pages are in no order
    uint32_t *bucket;  // [n_bucket] recorded pages by hash
    uint32_t n_bucket;
    fxi_secret secret;       // of their hashes
    uint64_t n_serial;       // given out so far
    uint64_t n_evicted;      // pages so far
    uint64_t now_ms, age_ms; // age_ms: when priorities are looked at next
    fxi_page_domain *domain;
    fxi_page_jobs jobs;

    fxi_paged_seq *first;
    int n_seq;
    uint64_t live_tok, peak_live_tok; // of sequences that are IN
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

static inline bool fxi_paged_wants_out(const fxi_paged_seq *s)
{
    return s->way == FXI_SEQ_LEAVING || s->way == FXI_SEQ_OUT;
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

// First byte of a block in a plane, in the pool.
static inline size_t fxi_paged_byte(const fxi_paged *k, int group, int plane, uint32_t block)
{
    const size_t row_bytes = k->layout.group[group].row_bytes;
    return k->region[group] + (((size_t)plane * k->n_block + block) << k->block_shift) * row_bytes;
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
// A block; evicts an idle page if none is free. Pre: there is room.
uint32_t fxi_page_take_block(fxi_paged *k);
void fxi_page_give_block(fxi_paged *k, uint32_t block);
uint32_t fxi_page_take_slot(fxi_paged *k); // pre: one is free
void fxi_page_leave_slot(fxi_paged *k, fxi_page *p);
// A page with a block, held once. Pre: there is room.
uint32_t fxi_page_take(fxi_paged *k);
// The page is in this block from now on; FXI_PAGE_NONE: in its slot.
void fxi_page_set_block(fxi_paged *k, fxi_page *p, uint32_t block);
void fxi_page_hold(fxi_paged *k, uint32_t page);
void fxi_page_let_go(fxi_paged *k, uint32_t page);
void fxi_page_keep(fxi_paged *k, uint32_t page); // it goes OUT no more, unless its job runs
void fxi_page_end(fxi_paged *k, uint32_t page);  // pre: it has neither holders nor a job
void fxi_page_evict_all(fxi_paged *k);           // idle pages
void fxi_page_age(fxi_paged *k);                 // priorities that have run out no longer count

fx_status fxi_page_record(fxi_kv *kv, fxi_kv_seq *s, fxi_kv_domain *d, const int32_t *tok,
                          int n_tok, const fxi_kv_keep *keep);

// ---- page_swap.c -------------------------------------------------------------------------------

fx_status fxi_page_swap_out(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving);
fx_status fxi_page_swap_in(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving);
uint64_t fxi_page_swap_gain(const fxi_kv *kv, const fxi_kv_seq *s, int n_recorded);
void fxi_page_collect(fxi_paged *k); // jobs that are done

// ---- page_jobs.c: the owner's calls ------------------------------------------------------------

bool fxi_page_jobs_open(fxi_paged *k, bool single_thread); // false: no memory, or no thread
void fxi_page_jobs_close(fxi_paged *k);                    // a job that runs ends before
void fxi_page_jobs_work(fxi_paged *k, int most);           // without a thread: some of them
// What devices have been given to do so far goes before the jobs posted from now on. Errors:
// FX_EIO.
fx_status fxi_page_jobs_mark(fxi_paged *k);
// Pre: the slot's job is FREE. page: FXI_PAGE_NONE where it is FXI_PAGE_DROP
void fxi_page_job_post(fxi_paged *k, uint32_t slot, fxi_page_way way, uint32_t page);
bool fxi_page_job_withdraw(fxi_paged *k, uint32_t slot); // false: it does not wait
void fxi_page_job_end_drop(fxi_paged *k, uint32_t slot); // waits only if that one runs
// One that is done, and FREE from now on: look at it before its slot gets another. NULL: none is.
const fxi_page_job *fxi_page_job_take_done(fxi_paged *k);

#endif
