// kv_paged.c - the KV manager with blocks and tables (paged.h): its life, its sequences and their
// swap, what they cost, snapshots, and the checks.
#include "kv/kv_managers.h"
#include "kv/kv_snapshot.h"
#include "kv/paged/paged.h"

#include <stdlib.h>

enum { BLOCK_TOK = 16, MAX_BLOCK_TOK = 256, AGE_MS = 1000 };

// ---- life --------------------------------------------------------------------------------------

static fx_status lay_out_blocks(fxi_paged *k, fx_error *err)
{
    const uint64_t n_block = k->pool.size_bytes / k->part_bytes;
    k->slot_bytes =
        (k->part_bytes + k->pool.chunk_bytes - 1) / k->pool.chunk_bytes * k->pool.chunk_bytes;
    const uint64_t n_slot = k->pool.swap_bytes / k->slot_bytes;
    if (!n_block) return fxi_fail(err, FX_ENOSPACE, "KV cache: the budget holds no block");
    if (n_block + n_slot > INT32_MAX)
        return fxi_fail(err, FX_EINVAL, "KV cache: more than %d blocks", INT32_MAX);
    k->n_block = (uint32_t)n_block;
    k->n_slot = (uint32_t)n_slot;
    fxi_kv_pool_divide(&k->pool, n_block << k->block_shift);
    if (fxi_page_store_open(k)) return FX_OK;
    fxi_page_store_close(k);
    return fxi_fail(err, FX_ENOMEM, "KV cache: out of memory");
}

static fx_status paged_open(fxi_kv *kv, const fxi_kv_shape *shape, fx_error *err)
{
    fxi_paged *k = fxi_paged_of(kv);
    const int block_tok = shape->block_tok ? shape->block_tok : BLOCK_TOK;
    const int least = shape->tile_tok ? shape->tile_tok : 1;
    if (block_tok < least || block_tok > MAX_BLOCK_TOK || (block_tok & (block_tok - 1)))
        return fxi_fail(err, FX_EINVAL, "KV cache: blocks of %d tokens; %d to %d, a power of two",
                        block_tok, least, MAX_BLOCK_TOK);
    while (fxi_paged_block_tok(k) < block_tok) k->block_shift++;
    k->tok_bytes = fxi_kv_tok_bytes(&shape->layout);
    k->block_bytes = k->tok_bytes << k->block_shift;
    k->part_bytes = k->block_bytes / (size_t)fxi_kv_n_device(shape);
    k->budget_bytes = shape->budget_bytes;
    k->ctx_tok = shape->ctx_tok;
    k->max_seq = shape->max_seq;
    k->max_page = (int)fxi_paged_n_page(k, shape->ctx_tok);
    FX_TRY(fxi_kv_pool_open(&k->pool, shape, shape->swap_bytes ? k->part_bytes : 0, err));
    const fx_status st = lay_out_blocks(k, err);
    if (st != FX_OK) fxi_kv_pool_close(&k->pool);
    return st;
}

static void paged_release(fxi_kv *kv, fxi_kv_seq *seq);

static void paged_close(fxi_kv *kv)
{
    fxi_paged *k = fxi_paged_of(kv);
    while (k->first) paged_release(kv, (fxi_kv_seq *)k->first);
    fxi_page_evict_all(k);
    for (fxi_page_domain *d = k->domain, *next; d; d = next) {
        next = d->next;
        free(d);
    }
    fxi_page_store_close(k);
    fxi_kv_pool_close(&k->pool);
}

// ---- sequences ---------------------------------------------------------------------------------

static fx_status make_seq(fxi_paged *k, fxi_paged_seq **out)
{
    const size_t n = (size_t)k->max_page;
    *out = NULL;
    if (k->n_seq == k->max_seq) return FX_ENOSPACE;
    fxi_paged_seq *s = calloc(1, sizeof *s + n * (sizeof *s->page + sizeof *s->table));
    if (!s) return FX_ENOMEM;
    s->table = (int32_t *)(s->page + n);
    s->next = k->first;
    if (s->next) s->next->prev = s;
    k->first = s;
    k->n_seq++;
    *out = s;
    return FX_OK;
}

static void count_live(fxi_paged *k, int n_more)
{
    k->live_tok += (uint64_t)n_more;
    if (k->live_tok > k->peak_live_tok) k->peak_live_tok = k->live_tok;
}

static void set_len(fxi_paged *k, fxi_paged_seq *s, int len_tok)
{
    count_live(k, len_tok - s->len_tok);
    s->len_tok = len_tok;
}

static void put_page_at(const fxi_paged *k, fxi_paged_seq *s, int i, uint32_t page)
{
    s->page[i] = page;
    s->table[i] = (int32_t)k->page[page].block;
}

static fx_status paged_create(fxi_kv *kv, const fxi_kv_expect *expect, fxi_kv_seq **out)
{
    fxi_paged_seq *s;
    (void)expect; // nothing is reserved
    const fx_status st = make_seq(fxi_paged_of(kv), &s);
    *out = (fxi_kv_seq *)s;
    return st;
}

// The pages of the longest recorded prefix; pages may be NULL.
static int find_pages(const fxi_paged *k, const fxi_kv_domain *domain, const int32_t *tok,
                      int n_tok, uint32_t *pages)
{
    uint64_t parent = ((const fxi_page_domain *)domain)->serial;
    int n = 0;
    for (; n < n_tok >> k->block_shift && n < k->max_page; n++) {
        const uint32_t page = fxi_page_find(k, parent, tok + ((size_t)n << k->block_shift));
        if (page == FXI_PAGE_NONE) break;
        parent = k->page[page].serial;
        if (pages) pages[n] = page;
    }
    return n;
}

static int paged_peek(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok, int n_tok)
{
    const fxi_paged *k = fxi_paged_of(kv);
    return find_pages(k, d, tok, n_tok, NULL) << k->block_shift;
}

static fx_status paged_match(fxi_kv *kv, fxi_kv_domain *d, const int32_t *tok, int n_tok,
                             const fxi_kv_expect *expect, fxi_kv_seq **out, int *n_hit)
{
    fxi_paged *k = fxi_paged_of(kv);
    *n_hit = 0;
    FX_TRY(paged_create(kv, expect, out));
    fxi_paged_seq *s = fxi_paged_seq_of(*out);
    s->n_page = find_pages(k, d, tok, n_tok, s->page);
    for (int i = 0; i < s->n_page; i++) {
        fxi_page_hold(k, s->page[i]);
        put_page_at(k, s, i, s->page[i]);
    }
    *n_hit = s->n_page << k->block_shift;
    set_len(k, s, *n_hit);
    return FX_OK;
}

static fx_status paged_fork(fxi_kv *kv, fxi_kv_seq *seq, int len_tok, fxi_kv_seq **out)
{
    fxi_paged *k = fxi_paged_of(kv);
    const fxi_paged_seq *from = fxi_paged_seq_of(seq);
    fxi_paged_seq *s;
    *out = NULL;
    if (from->is_out || len_tok > from->len_tok) return FX_EINVAL;
    FX_TRY(make_seq(k, &s));
    s->n_page = (int)fxi_paged_n_page(k, len_tok);
    for (int i = 0; i < s->n_page; i++) {
        fxi_page_hold(k, from->page[i]);
        put_page_at(k, s, i, from->page[i]);
    }
    set_len(k, s, len_tok);
    *out = (fxi_kv_seq *)s;
    return FX_OK;
}

// ---- growing -----------------------------------------------------------------------------------

static int tail_tok(const fxi_paged *k, const fxi_paged_seq *s)
{
    return s->len_tok & (fxi_paged_block_tok(k) - 1);
}

// Whether the sequence would write to a page that others hold.
static bool tail_is_shared(const fxi_paged *k, const fxi_paged_seq *s)
{
    return tail_tok(k, s) && k->page[s->page[s->n_page - 1]].n_ref > 1;
}

// Copy-on-write, all planes in one call. Pre: there is room.
static fx_status copy_tail(fxi_paged *k, fxi_paged_seq *s)
{
    const uint32_t old = s->page[s->n_page - 1], page = fxi_page_take(k);
    const fx_status st =
        fxi_kv_pool_copy_rows(&k->pool, fxi_paged_row(k, k->page[page].block),
                              fxi_paged_row(k, k->page[old].block), tail_tok(k, s));
    if (st == FX_OK) put_page_at(k, s, s->n_page - 1, page);
    fxi_page_let_go(k, st == FX_OK ? old : page);
    return st;
}

// What a sequence takes until it has n_page pages.
static uint32_t n_new_page(const fxi_paged *k, const fxi_paged_seq *s, uint32_t n_page)
{
    return n_page - (uint32_t)s->n_page + tail_is_shared(k, s);
}

// The tail becomes one that the sequence alone holds, and that no match finds.
static fx_status paged_extend(fxi_kv *kv, fxi_kv_seq *seq, int len_tok)
{
    fxi_paged *k = fxi_paged_of(kv);
    fxi_paged_seq *s = fxi_paged_seq_of(seq);
    if (s->is_out || len_tok > k->ctx_tok) return FX_EINVAL;
    if (len_tok <= s->len_tok) return FX_OK;
    const uint32_t n_page = fxi_paged_n_page(k, len_tok);
    if (n_new_page(k, s, n_page) > fxi_page_n_room(k)) return FX_ENOSPACE;
    if (tail_is_shared(k, s))
        FX_TRY(copy_tail(k, s));
    else if (tail_tok(k, s) && k->page[s->page[s->n_page - 1]].serial)
        fxi_page_unrecord(k, s->page[s->n_page - 1]);
    while ((uint32_t)s->n_page < n_page) {
        put_page_at(k, s, s->n_page, fxi_page_take(k));
        s->n_page++;
    }
    set_len(k, s, len_tok);
    return FX_OK;
}

static fx_status paged_truncate(fxi_kv *kv, fxi_kv_seq *seq, int len_tok)
{
    fxi_paged *k = fxi_paged_of(kv);
    fxi_paged_seq *s = fxi_paged_seq_of(seq);
    if (s->is_out) return FX_EINVAL;
    if (len_tok >= s->len_tok) return FX_OK;
    while (s->n_page > (int)fxi_paged_n_page(k, len_tok)) fxi_page_let_go(k, s->page[--s->n_page]);
    set_len(k, s, len_tok);
    return FX_OK;
}

// The end first: it is evicted first.
static void paged_release(fxi_kv *kv, fxi_kv_seq *seq)
{
    fxi_paged *k = fxi_paged_of(kv);
    fxi_paged_seq *s = fxi_paged_seq_of(seq);
    for (int i = s->n_page - 1; i >= 0; i--) {
        k->page[s->page[i]].n_out -= s->is_out;
        fxi_page_let_go(k, s->page[i]);
    }
    if (!s->is_out) set_len(k, s, 0);
    if (s->next) s->next->prev = s->prev;
    *(s->prev ? &s->prev->next : &k->first) = s->next;
    k->n_seq--;
    free(s);
}

static int paged_whole_tok(const fxi_kv *kv, int n_tok)
{
    const fxi_paged *k = fxi_paged_of(kv);
    return n_tok >> k->block_shift << k->block_shift;
}

static void paged_views(const fxi_kv *kv, const fxi_kv_seq *s, fxi_kv_views *out)
{
    const fxi_paged *k = fxi_paged_of(kv);
    fxi_kv_pool_show(&k->pool, 0, out);
    for (int g = 0; g < k->pool.layout.n_group; g++) {
        out->group[g].table = fxi_paged_seq_of(s)->table;
        out->group[g].block_shift = k->block_shift;
        out->group[g].block_stride_bytes = out->group[g].tok_stride_bytes << k->block_shift;
    }
}

// ---- the swap ----------------------------------------------------------------------------------

// Whether the page leaves memory when s is out: no other sequence needs it there.
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
static uint64_t paged_swap_gain(const fxi_kv *kv, const fxi_kv_seq *s, int n_recorded)
{
    (void)n_recorded;
    return n_leaving(fxi_paged_of(kv), fxi_paged_seq_of(s)) *
           (uint64_t)fxi_paged_of(kv)->block_bytes;
}

// After the copies, a page that has both a block and a slot leaves one of them.
static void leave_copies(fxi_paged *k, const fxi_paged_seq *s,
                         void (*leave)(fxi_paged *k, uint32_t page))
{
    for (int i = 0; i < s->n_page; i++) {
        const fxi_page *p = &k->page[s->page[i]];
        if (p->block != FXI_PAGE_NONE && p->slot != FXI_PAGE_NONE) leave(k, s->page[i]);
    }
}

static fx_status paged_swap_out(fxi_kv *kv, fxi_kv_seq *seq, bool *is_moving)
{
    fxi_paged *k = fxi_paged_of(kv);
    fxi_paged_seq *s = fxi_paged_seq_of(seq);
    *is_moving = false;
    if (n_leaving(k, s) > k->n_free_slot) return FX_ENOSPACE;
    fx_status st = fxi_kv_pool_settle(&k->pool);
    for (int i = 0; i < s->n_page && st == FX_OK; i++)
        if (will_leave(s, &k->page[s->page[i]])) st = fxi_page_write(k, s->page[i]);
    leave_copies(k, s, st == FX_OK ? fxi_page_leave_block : fxi_page_leave_slot);
    if (st != FX_OK || s->is_out) return st;
    for (int i = 0; i < s->n_page; i++) k->page[s->page[i]].n_out++;
    k->live_tok -= (uint64_t)s->len_tok;
    s->is_out = true;
    return FX_OK;
}

static fx_status paged_swap_in(fxi_kv *kv, fxi_kv_seq *seq, bool *is_moving)
{
    fxi_paged *k = fxi_paged_of(kv);
    fxi_paged_seq *s = fxi_paged_seq_of(seq);
    uint32_t n_absent = 0;
    *is_moving = false;
    if (!s->is_out) return FX_OK;
    for (int i = 0; i < s->n_page; i++) n_absent += k->page[s->page[i]].block == FXI_PAGE_NONE;
    if (n_absent > fxi_page_n_room(k)) return FX_ENOSPACE;
    fx_status st = fxi_kv_pool_settle(&k->pool);
    for (int i = 0; i < s->n_page && st == FX_OK; i++)
        if (k->page[s->page[i]].block == FXI_PAGE_NONE) st = fxi_page_read(k, s->page[i]);
    leave_copies(k, s, st == FX_OK ? fxi_page_leave_slot : fxi_page_leave_block);
    if (st != FX_OK) return st;
    for (int i = 0; i < s->n_page; i++) {
        k->page[s->page[i]].n_out--;
        put_page_at(k, s, i, s->page[i]);
    }
    count_live(k, s->len_tok);
    s->is_out = false;
    return FX_OK;
}

// ---- memory ------------------------------------------------------------------------------------

static uint64_t paged_bytes_for(const fxi_kv *kv, int len_tok)
{
    const fxi_paged *k = fxi_paged_of(kv);
    return fxi_paged_n_page(k, len_tok) * (uint64_t)k->block_bytes;
}

// Sequences hold no more pages together than each would on its own, less what is shared for good:
// the full pages of what they begin with.
static uint64_t paged_cost(const fxi_kv *kv, const fxi_kv_need *need)
{
    const fxi_paged *k = fxi_paged_of(kv);
    const uint64_t n = (uint64_t)need->n_seq, whole = fxi_paged_n_page(k, need->end_tok);
    const uint64_t hit = (uint64_t)(need->hit_tok >> k->block_shift);
    const uint64_t begin = (uint64_t)(need->each.begin_tok >> k->block_shift);
    uint64_t n_page = n * whole;
    if (n == 1)
        n_page = whole - (hit < whole ? hit : whole);
    else if (!need->is_apart && begin < whole)
        n_page = begin + n * (whole - begin);
    return n_page * k->block_bytes;
}

static uint64_t paged_growth(const fxi_kv *kv, const fxi_kv_seq *seq, int end_tok)
{
    const fxi_paged *k = fxi_paged_of(kv);
    const fxi_paged_seq *s = fxi_paged_seq_of(seq);
    if (end_tok <= s->len_tok) return 0;
    return n_new_page(k, s, fxi_paged_n_page(k, end_tok)) * (uint64_t)k->block_bytes;
}

static void paged_tick(fxi_kv *kv, uint64_t now_ms)
{
    fxi_paged *k = fxi_paged_of(kv);
    k->now_ms = now_ms;
    if (now_ms < k->age_ms) return;
    fxi_page_age(k);
    k->age_ms = now_ms + AGE_MS;
}

static void paged_step(fxi_kv *kv, int ahead_tok, uint64_t now_ms)
{
    (void)ahead_tok;
    paged_tick(kv, now_ms);
}

static fx_status paged_forget_idle(fxi_kv *kv)
{
    fxi_page_evict_all(fxi_paged_of(kv));
    return FX_OK;
}

// The empty part of the tails in memory. A page that is the tail of some of its sequences only is
// full.
static uint64_t slack_tok(const fxi_paged *k)
{
    uint64_t sum = 0;
    for (const fxi_paged_seq *s = k->first; s; s = s->next)
        if (tail_tok(k, s)) k->page[s->page[s->n_page - 1]].n_seen = 0;
    for (const fxi_paged_seq *s = k->first; s; s = s->next) {
        const int n_tok = tail_tok(k, s);
        if (!n_tok) continue;
        fxi_page *p = &k->page[s->page[s->n_page - 1]];
        if (!p->n_seen++ || n_tok > p->fill_tok) p->fill_tok = n_tok;
        if (p->n_seen == p->n_ref && p->block != FXI_PAGE_NONE)
            sum += (uint64_t)(fxi_paged_block_tok(k) - p->fill_tok);
    }
    return sum;
}

static uint64_t paged_held(const fxi_kv *kv)
{
    const fxi_paged *k = fxi_paged_of(kv);
    return (uint64_t)(k->n_block - k->n_free_block - k->n_idle) * k->block_bytes;
}

static void paged_stats(const fxi_kv *kv, fxi_kv_stats *out)
{
    const fxi_paged *k = fxi_paged_of(kv);
    const uint64_t mapped = fxi_kv_pool_mapped_bytes(&k->pool);
    const uint64_t internal = slack_tok(k) * k->tok_bytes, held = paged_held(kv);
    *out = (fxi_kv_stats){
        .budget_bytes = k->budget_bytes,
        .usable_bytes = k->n_block * (uint64_t)k->block_bytes,
        .mapped_bytes = mapped,
        .used_bytes = held - internal,
        .internal_bytes = internal,
        .cached_bytes = k->n_idle * (uint64_t)k->block_bytes,
        .shared_bytes = k->n_shared * (uint64_t)k->block_bytes,
        .spare_bytes = mapped - held - k->n_idle * (uint64_t)k->block_bytes,
        .held_bytes = held,
        .live_bytes = k->live_tok * k->tok_bytes,
        .n_evicted = k->n_evicted,
        .swapped_bytes = (k->n_slot - k->n_free_slot) * (uint64_t)k->block_bytes,
        .peak_mapped_bytes = mapped,
        .peak_live_bytes = k->peak_live_tok * k->tok_bytes,
    };
}

static void paged_moved(const fxi_kv *kv, fxi_kv_moved *out)
{
    *out = fxi_paged_of(kv)->moved;
}

// ---- snapshots ---------------------------------------------------------------------------------
//
// Snapshots of the pages: a chunk is a block of a device's pool or a slot of its
// swap, a node of the tree is a recorded page. Devices have the same blocks and slots; names go on
// from one to the next.

static uint64_t chunk_name(const fxi_paged *k, int device, const fxi_page *p)
{
    const uint64_t n = (uint64_t)device;
    return p->block == FXI_PAGE_NONE ? FX_SWAP_CHUNK | (n * k->n_slot + p->slot)
                                     : n * k->n_block + p->block;
}

static void collect_device(const fxi_paged *k, int device, fxi_kv_snapshot *to)
{
    for (uint32_t first = 0, end; first < k->n_block; first = end) {
        const uint8_t state = k->state[first];
        for (end = first + 1; end < k->n_block && k->state[end] == state;) end++;
        fxi_kv_snapshot_add_chunks(to, device, (uint64_t)device * k->n_block + first, end - first,
                                   state);
    }
    uint32_t n_left = k->n_slot - k->n_free_slot; // usually there is none
    for (uint32_t i = 0; i < k->n_all_page && n_left; i++) {
        const fxi_page *p = &k->page[i];
        if (!p->n_ref || p->block != FXI_PAGE_NONE) continue;
        fxi_kv_snapshot_add_chunks(to, device, chunk_name(k, device, p), 1, FX_CHUNK_swapped);
        n_left--;
    }
}

// A page whose predecessor has been evicted begins a prefix, as far as one can see.
static void collect_recorded(const fxi_paged *k, fxi_kv_snapshot *to)
{
    for (const fxi_page_domain *d = k->domain; d; d = d->next) to->n_all_node += d->n_page;
    uint64_t n_left = to->n_all_node;
    for (uint32_t i = 0; i < k->n_all_page && n_left; i++) {
        const fxi_page *p = &k->page[i];
        if (!p->serial) continue;
        const fx_prefix_node node = {.id = p->serial,
                                     .parent = p->parent == p->domain->serial ? 0 : p->parent,
                                     .domain = p->domain->serial,
                                     .held_bytes = k->block_bytes,
                                     .n_tok = (uint32_t)fxi_paged_block_tok(k),
                                     .n_seq = p->n_ref};
        n_left = fxi_kv_snapshot_add_node(to, &node) ? n_left - 1 : 0;
    }
}

static void collect_pages(fxi_kv *kv, fxi_kv_snapshot *to)
{
    const fxi_paged *k = fxi_paged_of(kv);
    for (int d = 0; d < k->pool.n_rank; d++)
        fxi_kv_snapshot_add_group(to, k->part_bytes, fxi_paged_block_tok(k), d);
    for (int d = 0; d < k->pool.n_rank; d++) collect_device(k, d, to);
    for (int i = 0; i < to->n_seq; i++) {
        const fxi_paged_seq *s = (const fxi_paged_seq *)to->seq[i];
        for (int d = 0; d < k->pool.n_rank; d++)
            for (int at = 0; at < s->n_page; at++)
                fxi_kv_snapshot_add_segments(to, i, d, (uint32_t)at,
                                             chunk_name(k, d, &k->page[s->page[at]]), 1);
    }
    collect_recorded(k, to);
}

// ---- checks ------------------------------------------------------------------------------------
//
// Proves that every block and slot has one owner, that pages are counted as they are held, and that
// recorded pages are found.

// How often each is free or owned; how many pages are shared.
typedef struct owners {
    uint8_t *block, *slot, *page;
    uint32_t n_shared;
} owners;

static const char *check_page(const fxi_paged *k, uint32_t page, owners *o)
{
    const fxi_page *p = &k->page[page];
    const bool is_in = p->block != FXI_PAGE_NONE;
    if (p->n_seen != p->n_ref || (uint32_t)p->fill_tok != p->n_out)
        return "a page's sequences are counted wrong";
    if (!p->n_ref && !p->serial) return NULL; // it is free
    if (o->page[page]++) return "a page is free and in use";
    if (is_in == (p->slot != FXI_PAGE_NONE)) return "a page is nowhere, or in two places";
    if (is_in && k->state[p->block] != fxi_page_state(p)) return "a block's state is wrong";
    ++*(is_in ? &o->block[p->block] : &o->slot[p->slot]);
    o->n_shared += fxi_page_is_shared(p);
    if (!is_in && (p->serial || p->n_out != p->n_ref))
        return "a page is in the swap, but needed in memory";
    const int32_t *tok = k->tok + ((size_t)page << k->block_shift);
    if (p->serial && fxi_page_find(k, p->parent, tok) != page) return "a recorded page is lost";
    return NULL;
}

static const char *check_pages(const fxi_paged *k, owners *o)
{
    for (uint32_t i = 0; i < k->n_all_page; i++) k->page[i].n_seen = 0, k->page[i].fill_tok = 0;
    for (const fxi_paged_seq *s = k->first; s; s = s->next) {
        if ((uint32_t)s->n_page != fxi_paged_n_page(k, s->len_tok))
            return "a sequence has a wrong number of pages";
        for (int i = 0; i < s->n_page; i++) {
            fxi_page *p = &k->page[s->page[i]];
            p->n_seen++;
            p->fill_tok += s->is_out;
            if (!s->is_out && s->table[i] != (int32_t)p->block) return "a table is wrong";
        }
    }
    for (uint32_t i = 0; i < k->n_all_page; i++) {
        const char *what = check_page(k, i, o);
        if (what) return what;
    }
    return NULL;
}

static const char *check_idle_pages(const fxi_paged *k)
{
    uint32_t n = 0;
    for (int i = 0; i < FXI_PAGE_N_PRIORITY; i++) {
        uint32_t older = FXI_PAGE_NONE;
        for (uint32_t page = k->idle[i].oldest; page != FXI_PAGE_NONE; page = k->page[page].newer) {
            const fxi_page *p = &k->page[page];
            if (p->n_ref || !p->serial || p->list != i || p->older != older)
                return "an idle page is wrong";
            older = page;
            n++;
        }
    }
    return n == k->n_idle ? NULL : "idle pages are counted wrong";
}

static bool all_once(const uint8_t *n_owner, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (n_owner[i] != 1) return false;
    return true;
}

static const char *check_all_pages(const fxi_paged *k, owners *o)
{
    for (uint32_t i = 0; i < k->n_free_block; i++) {
        o->block[k->free_block[i]]++;
        if (k->state[k->free_block[i]] != FX_CHUNK_spare) return "a free block is not spare";
    }
    for (uint32_t i = 0; i < k->n_free_slot; i++) o->slot[k->free_slot[i]]++;
    for (uint32_t i = 0; i < k->n_free_page; i++) o->page[k->free_page[i]]++;
    const char *what = check_pages(k, o);
    if (!what) what = check_idle_pages(k);
    uint64_t n_page = 0, n_recorded = 0;
    for (const fxi_page_domain *d = k->domain; d; d = d->next) n_page += d->n_page;
    for (uint32_t i = 0; i < k->n_bucket; i++)
        for (uint32_t page = k->bucket[i]; page != FXI_PAGE_NONE; page = k->page[page].chain)
            n_recorded++;
    if (!what) what = n_page == n_recorded ? NULL : "the pages of a domain are counted wrong";
    if (what) return what;
    if (o->n_shared != k->n_shared) return "shared pages are counted wrong";
    if (!all_once(o->block, k->n_block)) return "a block is lost, or has two owners";
    if (!all_once(o->slot, k->n_slot)) return "a slot is lost, or has two owners";
    return all_once(o->page, k->n_all_page) ? NULL : "a page is lost";
}

static fx_status paged_check(fxi_kv *kv, const char **what)
{
    fxi_paged *k = fxi_paged_of(kv);
    uint8_t *count = calloc(2 * (size_t)k->n_all_page, 1);
    if (!count) return FX_ENOMEM;
    owners o = {count, count + k->n_block, count + k->n_all_page, 0};
    *what = check_all_pages(k, &o);
    free(count);
    if (!*what && !fxi_kv_pool_is_resident(&k->pool)) *what = "the system holds another amount";
    return *what ? FX_EINVAL : FX_OK;
}

const fxi_kv_ops fxi_kv_paged = {
    .name = "paged",
    .caps = FXI_KV_PREFIX | FXI_KV_FORK | FXI_KV_SWAP,
    .struct_bytes = sizeof(fxi_paged),
    .open = paged_open,
    .close = paged_close,
    .domain_open = fxi_page_domain_open,
    .domain_close = fxi_page_domain_close,
    .peek = paged_peek,
    .seq_create = paged_create,
    .seq_match = paged_match,
    .seq_fork = paged_fork,
    .seq_extend = paged_extend,
    .seq_truncate = paged_truncate,
    .seq_record = fxi_page_record,
    .whole_tok = paged_whole_tok,
    .seq_swap_out = paged_swap_out,
    .seq_swap_in = paged_swap_in,
    .swap_gain = paged_swap_gain,
    .seq_release = paged_release,
    .seq_views = paged_views,
    .bytes_for = paged_bytes_for,
    .cost = paged_cost,
    .seq_growth = paged_growth,
    .held = paged_held,
    .step = paged_step,
    .tick = paged_tick,
    .forget_idle = paged_forget_idle,
    .stats = paged_stats,
    .moved = paged_moved,
    .collect = collect_pages,
    .check = paged_check,
};
