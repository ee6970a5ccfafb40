// ledger.c - one atomic sum against a limit, and the parts of it for metrics.
#include "server/work/ledger.h"

#include <stdlib.h>

#include "base/system/memory.h" // defines: fxi_free_memory_bytes

#define MIN_LIMIT   ((size_t)64 << 20)
#define MAX_LIMIT   ((size_t)1 << 30)
#define LARGE_SHARE 8 // large bills leave 1 / LARGE_SHARE of the limit to small ones

struct fxi_ledger {
    atomic_int refs;
    size_t limit;
    atomic_size_t used, peak;
    atomic_size_t of[FXI_N_BYTES_OF];
    atomic_uint_fast64_t n_refused;
};

size_t fxi_ledger_default_bytes(const char *root)
{
    uint64_t share = fxi_free_memory_bytes(root) / 8;
    if (share < MIN_LIMIT) return MIN_LIMIT;
    return share > MAX_LIMIT ? MAX_LIMIT : (size_t)share;
}

fxi_ledger *fxi_ledger_new(size_t limit_bytes)
{
    fxi_ledger *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    atomic_init(&l->refs, 1);
    l->limit = limit_bytes;
    return l;
}

void fxi_ledger_unref(fxi_ledger *l)
{
    if (l && atomic_fetch_sub(&l->refs, 1) == 1) free(l);
}

void fxi_ledger_read(const fxi_ledger *l, fxi_ledger_gauges *out)
{
    *out = (fxi_ledger_gauges){.limit_bytes = l->limit,
                               .used_bytes = atomic_load(&l->used),
                               .peak_bytes = atomic_load(&l->peak),
                               .n_refused = atomic_load(&l->n_refused)};
    for (int i = 0; i < FXI_N_BYTES_OF; i++) out->of_bytes[i] = atomic_load(&l->of[i]);
}

// ---- bills ------------------------------------------------------------------------------------

void fxi_bill_open(fxi_bill *b, fxi_ledger *l)
{
    atomic_fetch_add(&l->refs, 1);
    b->ledger = l;
    for (int i = 0; i < FXI_N_BYTES_OF; i++) atomic_init(&b->of[i], 0);
}

static size_t held_in_all(const fxi_bill *b)
{
    size_t sum = 0;
    for (int i = 0; i < FXI_N_BYTES_OF; i++) sum += atomic_load(&b->of[i]);
    return sum;
}

static void raise_peak(fxi_ledger *l, size_t used)
{
    size_t peak = atomic_load(&l->peak);
    while (used > peak && !atomic_compare_exchange_weak(&l->peak, &peak, used)) continue;
}

static void enter_bytes(fxi_bill *b, fxi_bytes_of of, size_t n_bytes)
{
    atomic_fetch_add(&b->ledger->of[of], n_bytes);
    atomic_fetch_add(&b->of[of], n_bytes);
}

static fxi_take refuse_bytes(fxi_ledger *l, fxi_take why)
{
    atomic_fetch_add(&l->n_refused, 1);
    return why;
}

fxi_take fxi_bill_take(fxi_bill *b, fxi_bytes_of of, size_t n_bytes)
{
    fxi_ledger *l = b->ledger;
    if (!l || !n_bytes) return FXI_TAKE_OK;
    size_t held = held_in_all(b);
    bool small = n_bytes <= FXI_SMALL_BILL_BYTES && held + n_bytes <= FXI_SMALL_BILL_BYTES;
    size_t limit = small ? l->limit : l->limit - l->limit / LARGE_SHARE;
    if (n_bytes > limit || held > limit - n_bytes) return refuse_bytes(l, FXI_TAKE_NEVER);
    size_t used = atomic_load(&l->used);
    do
        if (used > limit - n_bytes) return refuse_bytes(l, FXI_TAKE_FULL);
    while (!atomic_compare_exchange_weak(&l->used, &used, used + n_bytes));
    raise_peak(l, used + n_bytes);
    enter_bytes(b, of, n_bytes);
    return FXI_TAKE_OK;
}

bool fxi_bill_force(fxi_bill *b, fxi_bytes_of of, size_t n_bytes)
{
    fxi_ledger *l = b->ledger;
    if (!l) return true;
    size_t used = atomic_fetch_add(&l->used, n_bytes) + n_bytes;
    raise_peak(l, used);
    enter_bytes(b, of, n_bytes);
    return used <= l->limit && atomic_load(&l->of[of]) <= l->limit / 2;
}

void fxi_bill_give(fxi_bill *b, fxi_bytes_of of, size_t n_bytes)
{
    if (!b->ledger || !n_bytes) return;
    atomic_fetch_sub(&b->of[of], n_bytes);
    atomic_fetch_sub(&b->ledger->of[of], n_bytes);
    atomic_fetch_sub(&b->ledger->used, n_bytes);
}

void fxi_ledger_note(fxi_ledger *l, fxi_bytes_of of, size_t n_bytes)
{
    const size_t was = atomic_exchange(&l->of[of], n_bytes);
    raise_peak(l, atomic_fetch_add(&l->used, n_bytes - was) + n_bytes - was);
}

void fxi_bill_close(fxi_bill *b)
{
    for (int i = 0; i < FXI_N_BYTES_OF; i++) fxi_bill_give(b, i, atomic_load(&b->of[i]));
    fxi_ledger_unref(b->ledger);
    b->ledger = NULL;
}
