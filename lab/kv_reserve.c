// kv_reserve.c - KV managers that reserve contiguous memory for a sequence when it begins, as
// FasterTransformer and Orca do (compared with in arXiv 2309.06180):
//
//   reserve-max     for the longest sequence that there may be
//   reserve-pow2    for what is there, and the expected output rounded up to a power of two
//   reserve-oracle  for what is there, and the expected output exactly
//
// Where no output is expected, the last two reserve for the longest that this sequence may become.
// A pool of token slots is allocated at start. A buddy allocator divides it into blocks of 2^order
// units of unit_tok slots; a sequence has one block, at the same slots in every plane:
//
//     group 0: plane 0 [n_slot][row]  plane 1 [n_slot][row] ...  group 1: ...
//
// A sequence that outgrows its block moves to one twice as large. Nothing is shared, swapped or
// given back to the system, and snapshots show nothing. Where several devices share the cache out,
// a sequence has the same slots on each, with its part of every row.
#include "lab/kv_reserve.h"

#include <stdlib.h>
#include <string.h>

#include "kv/kv_pool.h"

// ---- the buddy allocator -----------------------------------------------------------------------

// A buddy allocator of units: blocks of 2^order units, at multiples of their size. A free
// block merges with its buddy, the other half of the block of the next order.
//
// The number of units need not be a power of two: at first the free blocks are those of its binary
// digits.
#define BUDDY_NONE UINT32_MAX

enum { BUDDY_N_ORDER = 31 };

typedef struct buddy_blocks {
    uint32_t n_unit;
    uint32_t n_free;              // units
    uint32_t head[BUDDY_N_ORDER]; // free blocks of each order
    uint32_t *next, *prev;        // [n_unit] at the first unit of a free block
    int8_t *order;                // [n_unit] of the free block that begins here, or -1
} buddy_blocks;

static uint32_t block_size(int order)
{
    return (uint32_t)1 << order;
}

static void add_free(buddy_blocks *b, uint32_t at, int order)
{
    const uint32_t head = b->head[order];
    b->next[at] = head;
    b->prev[at] = BUDDY_NONE;
    if (head != BUDDY_NONE) b->prev[head] = at;
    b->head[order] = at;
    b->order[at] = (int8_t)order;
}

static void remove_free(buddy_blocks *b, uint32_t at)
{
    const uint32_t next = b->next[at], prev = b->prev[at];
    if (next != BUDDY_NONE) b->prev[next] = prev;
    if (prev != BUDDY_NONE)
        b->next[prev] = next;
    else
        b->head[b->order[at]] = next;
    b->order[at] = -1;
}

static void buddy_close(buddy_blocks *b)
{
    free(b->next);
    free(b->prev);
    free(b->order);
}

static bool buddy_open(buddy_blocks *b, uint32_t n_unit)
{
    *b = (buddy_blocks){.n_unit = n_unit,
                        .next = malloc(n_unit * sizeof *b->next),
                        .prev = malloc(n_unit * sizeof *b->prev),
                        .order = malloc(n_unit)};
    if (!b->next || !b->prev || !b->order) {
        buddy_close(b);
        return false;
    }
    memset(b->order, -1, n_unit);
    uint32_t at = 0;
    for (int order = BUDDY_N_ORDER - 1; order >= 0; order--) {
        b->head[order] = BUDDY_NONE;
        if (!(b->n_unit & block_size(order))) continue;
        add_free(b, at, order);
        at += block_size(order);
    }
    b->n_free = b->n_unit;
    return true;
}

// The smallest order that holds so many.
static int buddy_order_of(uint64_t n_unit)
{
    int order = 0;
    while (((uint64_t)1 << order) < n_unit) order++;
    return order;
}

// The first unit of a block, now taken; BUDDY_NONE: there is none.
static uint32_t buddy_take(buddy_blocks *b, int order)
{
    int has = order;
    while (has < BUDDY_N_ORDER && b->head[has] == BUDDY_NONE) has++;
    if (has >= BUDDY_N_ORDER) return BUDDY_NONE;
    const uint32_t at = b->head[has];
    remove_free(b, at);
    while (has-- > order) add_free(b, at + block_size(has), has);
    b->n_free -= block_size(order);
    return at;
}

static bool buddy_is_free(const buddy_blocks *b, uint32_t at, int order)
{
    const uint32_t other = at ^ block_size(order);
    return other < b->n_unit && b->order[other] == order;
}

static void buddy_give(buddy_blocks *b, uint32_t at, int order)
{
    b->n_free += block_size(order);
    while (order < BUDDY_N_ORDER - 1 && buddy_is_free(b, at, order)) {
        remove_free(b, at ^ block_size(order));
        at &= ~block_size(order);
        order++;
    }
    add_free(b, at, order);
}

static const char *check_free_list(const buddy_blocks *b, int order, uint64_t *n_free)
{
    uint32_t prev = BUDDY_NONE;
    for (uint32_t at = b->head[order]; at != BUDDY_NONE; at = b->next[at]) {
        if (b->order[at] != order || b->prev[at] != prev) return "a list of free blocks is broken";
        if (at % block_size(order) || at + (uint64_t)block_size(order) > b->n_unit)
            return "a free block lies where none may";
        if (order < BUDDY_N_ORDER - 1 && buddy_is_free(b, at, order))
            return "two free buddies are not merged";
        *n_free += block_size(order);
        if (*n_free > b->n_unit) return "free blocks overlap";
        prev = at;
    }
    return NULL;
}

// What is wrong with the free blocks; NULL: nothing.
static const char *buddy_check(const buddy_blocks *b)
{
    uint64_t n_free = 0;
    for (int order = 0; order < BUDDY_N_ORDER; order++) {
        const char *what = check_free_list(b, order, &n_free);
        if (what) return what;
    }
    return n_free == b->n_free ? NULL : "the number of free units is wrong";
}

// ---- the managers ------------------------------------------------------------------------------

#define MAX_UNIT (1u << 20) // units are larger where there were more

enum { RESERVE_MAX, RESERVE_POW2, RESERVE_ORACLE };

typedef struct reserved_seq {
    struct reserved_seq *prev, *next;
    int len_tok, expect_tok; // expect_tok: when it will probably end
    int kept_tok;            // what was reserved: at most what the block holds
    uint32_t at;             // first unit of its block
    int order;
} reserved_seq;

typedef struct kv_reserve {
    fxi_kv kv;
    int policy; // the manager's place in fxi_kv_reserve
    fxi_kv_pool pool;
    buddy_blocks buddy;
    size_t tok_bytes; // of all devices
    int unit_tok, ctx_tok, max_seq, n_seq;
    reserved_seq *first;
    uint64_t budget_bytes, live_tok, peak_live_tok;
} kv_reserve;

static kv_reserve *reserve_of(const fxi_kv *kv)
{
    return (kv_reserve *)kv;
}

static reserved_seq *kept_of(const fxi_kv_seq *s)
{
    return (reserved_seq *)s;
}

static int min_tok(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

// ---- how much is reserved ----------------------------------------------------------------------

static int64_t wanted_tok(const kv_reserve *k, const fxi_kv_expect *e)
{
    if (k->policy == RESERVE_MAX) return k->ctx_tok;
    if (!e->output_tok) { // unknown
        const int most = e->most_tok ? e->most_tok : k->ctx_tok;
        return most > e->begin_tok ? most : e->begin_tok;
    }
    if (k->policy == RESERVE_ORACLE) return (int64_t)e->begin_tok + e->output_tok;
    return e->begin_tok + ((int64_t)1 << buddy_order_of((uint64_t)e->output_tok));
}

// At least one token; no more than a sequence may have, unless more is there already.
static int kept_tok_of(const kv_reserve *k, const fxi_kv_expect *e)
{
    const int most = k->ctx_tok > e->begin_tok ? k->ctx_tok : e->begin_tok;
    const int kept = min_tok(wanted_tok(k, e), most);
    return kept > 0 ? kept : 1;
}

static int order_for(const kv_reserve *k, int n_tok)
{
    return buddy_order_of(((uint64_t)n_tok + (uint64_t)k->unit_tok - 1) / (uint64_t)k->unit_tok);
}

static uint64_t block_tok(const kv_reserve *k, int order)
{
    return (uint64_t)k->unit_tok << order;
}

static uint64_t block_bytes(const kv_reserve *k, int order)
{
    return block_tok(k, order) * k->tok_bytes;
}

// ---- life --------------------------------------------------------------------------------------

// The longest sequence is as long as the largest block.
static fx_status divide_pool(kv_reserve *k, int ctx_tok, fx_error *err)
{
    const uint64_t n_slot = k->pool.size_bytes / fxi_kv_tok_bytes(&k->pool.layout);
    fxi_kv_pool_divide(&k->pool, n_slot);
    k->unit_tok = 1;
    while (n_slot / (uint64_t)k->unit_tok > MAX_UNIT) k->unit_tok *= 2;
    const uint64_t n_unit = n_slot / (uint64_t)k->unit_tok;
    if (!n_unit) return fxi_fail(err, FX_ENOSPACE, "KV cache: the budget holds no token");
    if (!buddy_open(&k->buddy, (uint32_t)n_unit))
        return fxi_fail(err, FX_ENOMEM, "KV cache: out of memory");
    int order = BUDDY_N_ORDER - 1;
    while (k->buddy.head[order] == BUDDY_NONE) order--;
    const uint64_t most = block_tok(k, order);
    k->ctx_tok = most < (uint64_t)ctx_tok ? (int)most : ctx_tok;
    return FX_OK;
}

static fx_status reserve_open(fxi_kv *kv, const fxi_kv_shape *shape, fx_error *err)
{
    kv_reserve *k = reserve_of(kv);
    k->policy = (int)(kv->ops - fxi_kv_reserve);
    k->tok_bytes = fxi_kv_tok_bytes(&shape->layout);
    k->max_seq = shape->max_seq;
    k->budget_bytes = shape->budget_bytes;
    FX_TRY(fxi_kv_pool_open(&k->pool, shape, 0, err));
    const fx_status st = divide_pool(k, shape->ctx_tok, err);
    if (st != FX_OK) fxi_kv_pool_close(&k->pool);
    return st;
}

static void reserve_release(fxi_kv *kv, fxi_kv_seq *seq);

static void reserve_close(fxi_kv *kv)
{
    kv_reserve *k = reserve_of(kv);
    while (k->first) reserve_release(kv, (fxi_kv_seq *)k->first);
    buddy_close(&k->buddy);
    fxi_kv_pool_close(&k->pool);
}

// ---- sequences ---------------------------------------------------------------------------------

static fx_status reserve_create(fxi_kv *kv, const fxi_kv_expect *expect, fxi_kv_seq **out)
{
    kv_reserve *k = reserve_of(kv);
    *out = NULL;
    if (expect->begin_tok > k->ctx_tok) return FX_EINVAL;
    if (k->n_seq == k->max_seq) return FX_ENOSPACE;
    const int kept = kept_tok_of(k, expect), order = order_for(k, kept);
    const uint32_t at = buddy_take(&k->buddy, order);
    if (at == BUDDY_NONE) return FX_ENOSPACE;
    reserved_seq *s = malloc(sizeof *s);
    if (!s) {
        buddy_give(&k->buddy, at, order);
        return FX_ENOMEM;
    }
    *s = (reserved_seq){.kept_tok = kept, .at = at, .order = order};
    s->expect_tok = min_tok((int64_t)expect->begin_tok + expect->output_tok, kept);
    s->next = k->first;
    if (s->next) s->next->prev = s;
    k->first = s;
    k->n_seq++;
    *out = (fxi_kv_seq *)s;
    return FX_OK;
}

static void set_kept_len(kv_reserve *k, reserved_seq *s, int len_tok)
{
    k->live_tok += (uint64_t)(len_tok - s->len_tok);
    if (k->live_tok > k->peak_live_tok) k->peak_live_tok = k->live_tok;
    s->len_tok = len_tok;
    if (s->kept_tok < len_tok) s->kept_tok = len_tok;
}

static uint64_t first_slot(const kv_reserve *k, uint32_t unit)
{
    return (uint64_t)unit * (uint64_t)k->unit_tok;
}

static fx_status move_seq(kv_reserve *k, reserved_seq *s, int order)
{
    const uint32_t to = buddy_take(&k->buddy, order);
    if (to == BUDDY_NONE) return FX_ENOSPACE;
    const fx_status st =
        fxi_kv_pool_copy_rows(&k->pool, first_slot(k, to), first_slot(k, s->at), s->len_tok);
    buddy_give(&k->buddy, st == FX_OK ? s->at : to, st == FX_OK ? s->order : order);
    if (st != FX_OK) return st;
    s->at = to;
    s->order = order;
    return FX_OK;
}

static fx_status reserve_extend(fxi_kv *kv, fxi_kv_seq *seq, int len_tok)
{
    kv_reserve *k = reserve_of(kv);
    reserved_seq *s = kept_of(seq);
    if (len_tok > k->ctx_tok) return FX_EINVAL;
    if (len_tok <= s->len_tok) return FX_OK;
    if ((uint64_t)len_tok > block_tok(k, s->order)) FX_TRY(move_seq(k, s, order_for(k, len_tok)));
    set_kept_len(k, s, len_tok);
    return FX_OK;
}

// The block stays reserved.
static fx_status reserve_truncate(fxi_kv *kv, fxi_kv_seq *seq, int len_tok)
{
    if (len_tok < kept_of(seq)->len_tok) set_kept_len(reserve_of(kv), kept_of(seq), len_tok);
    return FX_OK;
}

static void reserve_release(fxi_kv *kv, fxi_kv_seq *seq)
{
    kv_reserve *k = reserve_of(kv);
    reserved_seq *s = kept_of(seq);
    set_kept_len(k, s, 0);
    buddy_give(&k->buddy, s->at, s->order);
    if (s->next) s->next->prev = s->prev;
    *(s->prev ? &s->prev->next : &k->first) = s->next;
    k->n_seq--;
    free(s);
}

static void reserve_views(const fxi_kv *kv, const fxi_kv_seq *seq, fxi_kv_views *out)
{
    const kv_reserve *k = reserve_of(kv);
    fxi_kv_pool_show(&k->pool, first_slot(k, kept_of(seq)->at), out);
}

// ---- memory ------------------------------------------------------------------------------------

static uint64_t reserve_bytes_for(const fxi_kv *kv, int len_tok)
{
    const kv_reserve *k = reserve_of(kv);
    const fxi_kv_expect e = {.begin_tok = len_tok, .most_tok = len_tok};
    return block_bytes(k, order_for(k, kept_tok_of(k, &e)));
}

typedef struct kept_range {
    int least, most; // tokens
} kept_range;

// What is reserved for a sequence that is created again when it has begin_tok tokens.
static void add_kept(const kv_reserve *k, const fxi_kv_need *need, int64_t begin_tok, kept_range *r)
{
    const fxi_kv_expect *e = &need->each;
    const int64_t rest = (int64_t)e->begin_tok + e->output_tok - begin_tok;
    if (begin_tok < e->begin_tok || begin_tok > need->end_tok) return;
    const int kept =
        kept_tok_of(k, &(fxi_kv_expect){(int)begin_tok, rest > 0 ? (int)rest : 0, e->most_tok});
    if (kept < r->least) r->least = kept;
    if (kept > r->most) r->most = kept;
}

// What may be reserved for one of the sequences. A policy that rounds up reserves most where the
// rest of the output is a power of two and one more; where nothing is left, no output is expected
// any longer.
static kept_range kept_range_of(const kv_reserve *k, const fxi_kv_need *need)
{
    const int64_t output = need->each.output_tok, expected_end = need->each.begin_tok + output;
    const int kept = kept_tok_of(k, &need->each);
    kept_range r = {kept, kept};
    for (int64_t rest = 1; rest <= output; rest *= 2) {
        add_kept(k, need, expected_end - rest, &r);
        add_kept(k, need, expected_end - rest - 1, &r);
    }
    add_kept(k, need, expected_end, &r);
    add_kept(k, need, need->end_tok, &r);
    return r;
}

// A sequence that moves holds two blocks. With one block more of the largest size than there are
// sequences, one of that size is always free, however the others lie.
static uint64_t reserve_cost(const fxi_kv *kv, const fxi_kv_need *need)
{
    const kv_reserve *k = reserve_of(kv);
    const uint64_t n = (uint64_t)need->n_seq;
    const kept_range kept = kept_range_of(k, need);
    const int begin = order_for(k, kept.most), end = order_for(k, need->end_tok);
    const bool may_move = end > order_for(k, kept.least);
    return (n + may_move) * block_bytes(k, end > begin ? end : begin);
}

static uint64_t reserve_growth(const fxi_kv *kv, const fxi_kv_seq *s, int end_tok)
{
    const kv_reserve *k = reserve_of(kv);
    const int end = order_for(k, end_tok);
    return end > kept_of(s)->order ? block_bytes(k, end) : 0;
}

static uint64_t reserve_held(const fxi_kv *kv)
{
    const kv_reserve *k = reserve_of(kv);
    return (k->buddy.n_unit - k->buddy.n_free) * block_bytes(k, 0);
}

static void reserve_stats(const fxi_kv *kv, fxi_kv_stats *out)
{
    const kv_reserve *k = reserve_of(kv);
    const uint64_t mapped = fxi_kv_pool_mapped_bytes(&k->pool);
    *out = (fxi_kv_stats){.budget_bytes = k->budget_bytes,
                          .usable_bytes = k->buddy.n_unit * block_bytes(k, 0),
                          .mapped_bytes = mapped};
    for (const reserved_seq *s = k->first; s; s = s->next) {
        const int wanted = s->expect_tok > s->len_tok ? s->expect_tok : s->len_tok;
        out->used_bytes += (uint64_t)s->len_tok * k->tok_bytes;
        out->reserved_bytes += (uint64_t)(wanted - s->len_tok) * k->tok_bytes;
        out->internal_bytes += (uint64_t)(s->kept_tok - wanted) * k->tok_bytes;
        out->external_bytes += block_bytes(k, s->order) - (uint64_t)s->kept_tok * k->tok_bytes;
        out->held_bytes += block_bytes(k, s->order);
    }
    out->spare_bytes = mapped - out->held_bytes;
    out->live_bytes = k->live_tok * k->tok_bytes;
    out->peak_mapped_bytes = mapped;
    out->peak_live_bytes = k->peak_live_tok * k->tok_bytes;
}

// ---- checks ------------------------------------------------------------------------------------

static const char *check_blocks(const kv_reserve *k)
{
    uint64_t n_unit = k->buddy.n_free, live_tok = 0;
    int n_seq = 0;
    for (const reserved_seq *s = k->first; s; s = s->next, n_seq++) {
        const uint32_t size = (uint32_t)1 << s->order;
        n_unit += size;
        live_tok += (uint64_t)s->len_tok;
        if (s->at % size || s->at + (uint64_t)size > k->buddy.n_unit)
            return "a block lies where none may";
        if (s->len_tok > s->kept_tok || (uint64_t)s->kept_tok > block_tok(k, s->order))
            return "a sequence is longer than its block";
        for (uint32_t i = s->at; i < s->at + size; i++)
            if (k->buddy.order[i] >= 0) return "a free block lies in that of a sequence";
        for (const reserved_seq *t = s->next; t; t = t->next)
            if (t->at < s->at + size && s->at < t->at + ((uint32_t)1 << t->order))
                return "two sequences have the same memory";
    }
    if (n_unit != k->buddy.n_unit) return "units are lost";
    return n_seq != k->n_seq || live_tok != k->live_tok ? "the sequences are counted wrong" : NULL;
}

static fx_status reserve_check(fxi_kv *kv, const char **what)
{
    kv_reserve *k = reserve_of(kv);
    *what = buddy_check(&k->buddy);
    if (!*what) *what = check_blocks(k);
    if (!*what && !fxi_kv_pool_is_resident(&k->pool)) *what = "the system holds another amount";
    return *what ? FX_EINVAL : FX_OK;
}

#define RESERVE_OPS(name_)                                                                  \
    {                                                                                       \
        .name = name_, .struct_bytes = sizeof(kv_reserve), .open = reserve_open,            \
        .close = reserve_close, .seq_create = reserve_create, .seq_extend = reserve_extend, \
        .seq_truncate = reserve_truncate, .seq_release = reserve_release,                   \
        .seq_views = reserve_views, .bytes_for = reserve_bytes_for, .cost = reserve_cost,   \
        .seq_growth = reserve_growth, .held = reserve_held, .stats = reserve_stats,         \
        .check = reserve_check,                                                             \
    }

const fxi_kv_ops fxi_kv_reserve[FXI_N_KV_RESERVE] = {
    [RESERVE_MAX] = RESERVE_OPS("reserve-max"),
    [RESERVE_POW2] = RESERVE_OPS("reserve-pow2"),
    [RESERVE_ORACLE] = RESERVE_OPS("reserve-oracle"),
};

const fxi_kv_ops *fxi_kv_reserve_find(const char *name)
{
    for (int i = 0; i < FXI_N_KV_RESERVE; i++)
        if (strcmp(fxi_kv_reserve[i].name, name) == 0) return &fxi_kv_reserve[i];
    return NULL;
}

const char *fxi_lab_manager_name(int i)
{
    int n = 0;
    for (; fxi_kv_manager_name(n); n++)
        if (n == i) return fxi_kv_manager_name(n);
    return i >= n && i < n + FXI_N_KV_RESERVE ? fxi_kv_reserve[i - n].name : NULL;
}
