// quota.c - one atomic sum against a limit, and the parts of it for metrics.
#include "server/work/quota.h"

#include <stdlib.h>
#include <string.h>

#include "base/system/memory.h" // defines: fxi_free_memory_bytes

#define MIN_LIMIT   ((size_t)64 << 20)
#define MAX_LIMIT   ((size_t)1 << 30)
#define LARGE_SHARE 8                 // large charges leave 1 / LARGE_SHARE of the limit
#define FIRST_BYTES ((size_t)4 << 10) // of a body of unknown length

struct fxi_quota {
    atomic_int refs;
    size_t limit;
    atomic_size_t used, peak;
    atomic_size_t of[FXI_N_BYTES_OF];
    atomic_uint_fast64_t n_refused;
};

size_t fxi_quota_default_bytes(const char *root)
{
    const uint64_t share = fxi_free_memory_bytes(root) / 8;
    if (share < MIN_LIMIT) return MIN_LIMIT;
    return share > MAX_LIMIT ? MAX_LIMIT : (size_t)share;
}

fxi_quota *fxi_quota_new(size_t limit_bytes)
{
    fxi_quota *q = calloc(1, sizeof *q);
    if (!q) return NULL;
    atomic_init(&q->refs, 1);
    q->limit = limit_bytes;
    return q;
}

void fxi_quota_unref(fxi_quota *q)
{
    if (q && atomic_fetch_sub(&q->refs, 1) == 1) free(q);
}

void fxi_quota_read(const fxi_quota *q, fxi_quota_gauges *out)
{
    *out = (fxi_quota_gauges){.limit_bytes = q->limit,
                              .used_bytes = atomic_load(&q->used),
                              .peak_bytes = atomic_load(&q->peak),
                              .n_refused = atomic_load(&q->n_refused)};
    for (int i = 0; i < FXI_N_BYTES_OF; i++) out->of_bytes[i] = atomic_load(&q->of[i]);
}

static void raise_peak(fxi_quota *q, size_t used)
{
    size_t peak = atomic_load(&q->peak);
    while (used > peak && !atomic_compare_exchange_weak(&q->peak, &peak, used)) continue;
}

void fxi_quota_note(fxi_quota *q, fxi_bytes_of of, size_t n_bytes)
{
    const size_t was = atomic_exchange(&q->of[of], n_bytes);
    raise_peak(q, atomic_fetch_add(&q->used, n_bytes - was) + n_bytes - was);
}

// ---- charges ----------------------------------------------------------------------------------

void fxi_charge_open(fxi_charge *c, fxi_quota *q)
{
    atomic_fetch_add(&q->refs, 1);
    c->quota = q;
    for (int i = 0; i < FXI_N_BYTES_OF; i++) atomic_init(&c->of[i], 0);
}

void fxi_charge_close(fxi_charge *c)
{
    for (int i = 0; i < FXI_N_BYTES_OF; i++) fxi_charge_release(c, i, atomic_load(&c->of[i]));
    fxi_quota_unref(c->quota);
    c->quota = NULL;
}

static void enter_bytes(fxi_charge *c, fxi_bytes_of of, size_t n_bytes)
{
    atomic_fetch_add(&c->quota->of[of], n_bytes);
    atomic_fetch_add(&c->of[of], n_bytes);
}

fxi_quota_result fxi_charge_reserve(fxi_charge *c, fxi_bytes_of of, size_t n_bytes)
{
    fxi_quota *q = c->quota;
    if (!q || !n_bytes) return FXI_QUOTA_OK;
    size_t held = 0;
    for (int i = 0; i < FXI_N_BYTES_OF; i++) held += atomic_load(&c->of[i]);
    const bool is_small =
        n_bytes <= FXI_SMALL_CHARGE_BYTES && held + n_bytes <= FXI_SMALL_CHARGE_BYTES;
    const size_t limit = is_small ? q->limit : q->limit - q->limit / LARGE_SHARE;
    const bool exceeds = n_bytes > limit || held > limit - n_bytes;
    size_t used = atomic_load(&q->used);
    do
        if (exceeds || used > limit - n_bytes) {
            atomic_fetch_add(&q->n_refused, 1);
            return exceeds ? FXI_QUOTA_EXCEEDS_LIMIT : FXI_QUOTA_FULL;
        }
    while (!atomic_compare_exchange_weak(&q->used, &used, used + n_bytes));
    raise_peak(q, used + n_bytes);
    enter_bytes(c, of, n_bytes);
    return FXI_QUOTA_OK;
}

bool fxi_charge_add(fxi_charge *c, fxi_bytes_of of, size_t n_bytes)
{
    fxi_quota *q = c->quota;
    if (!q) return true;
    const size_t used = atomic_fetch_add(&q->used, n_bytes) + n_bytes;
    raise_peak(q, used);
    enter_bytes(c, of, n_bytes);
    return used <= q->limit && atomic_load(&q->of[of]) <= q->limit / 2;
}

void fxi_charge_release(fxi_charge *c, fxi_bytes_of of, size_t n_bytes)
{
    if (!c->quota || !n_bytes) return;
    atomic_fetch_sub(&c->of[of], n_bytes);
    atomic_fetch_sub(&c->quota->of[of], n_bytes);
    atomic_fetch_sub(&c->quota->used, n_bytes);
}

// ---- bodies -----------------------------------------------------------------------------------

fxi_quota_result fxi_body_reserve(fxi_body *b, fxi_charge *c, size_t n_bytes)
{
    if (n_bytes <= b->cap) return FXI_QUOTA_OK;
    const size_t more = n_bytes - b->cap;
    const fxi_quota_result res = fxi_charge_reserve(c, FXI_BYTES_BODY, more);
    if (res != FXI_QUOTA_OK) return res;
    char *p = realloc(b->p, n_bytes);
    if (!p) {
        fxi_charge_release(c, FXI_BYTES_BODY, more);
        return FXI_QUOTA_NO_MEMORY;
    }
    b->p = p;
    b->cap = n_bytes;
    return FXI_QUOTA_OK;
}

fxi_quota_result fxi_body_add(fxi_body *b, fxi_charge *c, const char *data, size_t n)
{
    size_t cap = b->cap ? b->cap : FIRST_BYTES;
    while (cap < b->n + n) cap *= 2;
    const fxi_quota_result res = b->n + n > b->cap ? fxi_body_reserve(b, c, cap) : FXI_QUOTA_OK;
    if (res != FXI_QUOTA_OK) return res;
    memcpy(b->p + b->n, data, n);
    b->n += n;
    return FXI_QUOTA_OK;
}

void fxi_body_free(fxi_body *b, fxi_charge *c)
{
    free(b->p);
    fxi_charge_release(c, FXI_BYTES_BODY, b->cap);
    *b = (fxi_body){0};
}
