// vmm_fake.c - see vmm_fake.h.
//
//   reservation  [page] -> chunk and page of it that is mapped there; no chunk: reserved only
//   chunk        made by create, found by its index in a hash table: there are far more indices
//                than chunks. Knows how many of its pages are mapped, and which bytes of each are
//                dirty
//   swap         see vmm_fake_swap.h
//   work         an entry of a reservation that a kernel reads remembers the first fence after it
//
// The address of a reservation comes from a counter that only grows, so an address of a span that
// is gone is never valid again, and the list of reservations is sorted.
//
// Every call begins with enter and ends with leave, and holds the lock in between.
#include "vmm_fake.h"

#include <pthread.h>
#include <stdlib.h>

#include "vmm_fake_swap.h"
#include "vmm_fake_work.h"

enum { FIRST_BUCKETS = 64, FIRST_RESERVATIONS = 16 };

// Microseconds, of the order that a host shows.
enum {
    COST_RESERVE = 2,
    COST_CREATE = 7,
    COST_DESTROY = 13,
    COST_MAP = 4,
    COST_ALIAS = 1,
    COST_UNMAP = 6,
    COST_BYTES = 2, // zero and fetch
    COST_WAIT = 50,
    COST_SWAP = 100,
};

typedef struct chunk {
    struct chunk *next; // in the same bucket
    uint64_t index;
    uint64_t n_mapped; // pages, one for each address they are mapped at
    vt_extent dirty[]; // [n_slice x pages_per_slice]
} chunk;

typedef struct entry {
    chunk *chunk;  // NULL: nothing is mapped
    uint32_t page; // of the chunk's n_slice x pages_per_slice
} entry;

typedef struct reservation {
    uintptr_t addr;
    size_t size_bytes;
    entry *entry; // [size_bytes / page]; NULL: given back
} reservation;

typedef struct fake {
    vt_vmm vmm;
    pthread_mutex_t mu; // guards all below
    vt_vmm_geometry geo;
    bool configured;
    uint32_t pages_per_slice;
    uint64_t max_runs, max_chunks;
    uintptr_t next_addr;
    reservation *res; // [n_res] in order of address
    size_t n_res, room_res, n_res_gone;
    chunk **bucket; // [n_bucket], a power of two
    size_t n_bucket;
    vt_fake_swap swap;
    bool async;
    uint64_t last_ticket, passed_ticket;
    vt_fake_works work; // given to the device
    vt_fake_report now;
    vt_fake_report *epitaph;
} fake;

static fake *fake_of(const vt_vmm *vmm)
{
    return (fake *)vmm;
}

static fake *enter(const vt_vmm *vmm)
{
    fake *f = fake_of(vmm);
    pthread_mutex_lock(&f->mu);
    return f;
}

// Enters for a call of the table.
static fake *enter_at_cost(vt_vmm *vmm, uint64_t cost_us)
{
    fake *f = enter(vmm);
    f->now.n_call++;
    f->now.clock_us += cost_us;
    return f;
}

static vt_status leave(fake *f, vt_status st)
{
    pthread_mutex_unlock(&f->mu);
    return st;
}

static vt_status breach(fake *f, const char *what)
{
    if (f->now.n_violation++ == 0) f->now.violation = what;
    return VT_EINVAL;
}

static bool is_busy(const fake *f, uintptr_t addr, size_t size_bytes)
{
    return vt_fake_work_touches(&f->work, addr, size_bytes, f->passed_ticket);
}

// ---- chunks

static chunk **chunk_bucket(const fake *f, uint64_t index)
{
    uint64_t hash = index * UINT64_C(0x9e3779b97f4a7c15);
    return &f->bucket[(hash >> 32) & (f->n_bucket - 1)];
}

static chunk *chunk_find(const fake *f, uint64_t index)
{
    if (f->n_bucket == 0) return NULL;
    chunk *c = *chunk_bucket(f, index);
    while (c && c->index != index) c = c->next;
    return c;
}

static bool chunk_table_grow(fake *f)
{
    chunk **old = f->bucket;
    size_t n_old = f->n_bucket, n = n_old > 0 ? 2 * n_old : FIRST_BUCKETS;
    chunk **bucket = calloc(n, sizeof *bucket);
    if (!bucket) return false;
    f->bucket = bucket;
    f->n_bucket = n;
    for (size_t i = 0; i < n_old; i++)
        for (chunk *c = old[i], *next; c; c = next) {
            next = c->next;
            chunk **at = chunk_bucket(f, c->index);
            c->next = *at;
            *at = c;
        }
    free(old);
    return true;
}

static bool chunk_make(fake *f, uint64_t index)
{
    if (f->now.n_created >= f->n_bucket && !chunk_table_grow(f)) return false;
    size_t n_page = (size_t)f->geo.n_slice * f->pages_per_slice;
    chunk *c = calloc(1, sizeof *c + n_page * sizeof *c->dirty);
    if (!c) return false;
    chunk **at = chunk_bucket(f, index);
    c->index = index;
    c->next = *at;
    *at = c;
    f->now.n_created++;
    return true;
}

static void chunk_unmake(fake *f, uint64_t index)
{
    chunk **at = chunk_bucket(f, index);
    while ((*at)->index != index) at = &(*at)->next;
    chunk *c = *at;
    *at = c->next;
    free(c);
    f->now.n_created--;
}

static bool indices_in_range(const fake *f, uint64_t index, uint64_t n)
{
    return f->configured && n > 0 && index < f->geo.n_index && n <= f->geo.n_index - index;
}

static vt_status create(fake *f, uint64_t index, uint64_t n)
{
    if (!indices_in_range(f, index, n)) return breach(f, "create of an index out of range");
    for (uint64_t i = 0; i < n; i++)
        if (chunk_find(f, index + i)) return breach(f, "create of a created chunk");
    if (f->now.n_created > f->max_chunks || n > f->max_chunks - f->now.n_created) return VT_NOSPACE;
    for (uint64_t i = 0; i < n; i++) {
        if (chunk_make(f, index + i)) continue;
        while (i-- > 0) chunk_unmake(f, index + i);
        return VT_ENOMEM;
    }
    return VT_OK;
}

static vt_status fake_create(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    fake *f = enter_at_cost(vmm, COST_CREATE * n);
    return leave(f, create(f, index, n));
}

static vt_status destroy(fake *f, uint64_t index, uint64_t n)
{
    if (!indices_in_range(f, index, n)) return breach(f, "destroy of an index out of range");
    for (uint64_t i = 0; i < n; i++) {
        const chunk *c = chunk_find(f, index + i);
        if (!c) return breach(f, "destroy of a chunk that is not created");
        if (c->n_mapped > 0) return breach(f, "destroy of a mapped chunk");
    }
    for (uint64_t i = 0; i < n; i++) chunk_unmake(f, index + i);
    return VT_OK;
}

static vt_status fake_destroy(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    fake *f = enter_at_cost(vmm, COST_DESTROY * n);
    return leave(f, destroy(f, index, n));
}

// ---- geometry and addresses

static size_t fake_granularity(vt_vmm *vmm)
{
    (void)vmm;
    return VT_FAKE_PAGE_BYTES;
}

static uint64_t fake_max_runs(vt_vmm *vmm)
{
    fake *f = enter(vmm);
    uint64_t n = f->max_runs;
    (void)leave(f, VT_OK);
    return n;
}

static vt_status configure(fake *f, const vt_vmm_geometry *geo)
{
    if (f->configured) return breach(f, "configured twice");
    if (geo->n_slice == 0 || geo->n_index == 0 || geo->slice_bytes == 0 ||
        geo->slice_bytes % VT_FAKE_PAGE_BYTES != 0 ||
        geo->slice_bytes / VT_FAKE_PAGE_BYTES > UINT32_MAX / geo->n_slice)
        return breach(f, "geometry out of range");
    f->geo = *geo;
    f->pages_per_slice = (uint32_t)(geo->slice_bytes / VT_FAKE_PAGE_BYTES);
    f->configured = true;
    return VT_OK;
}

static vt_status fake_configure(vt_vmm *vmm, const vt_vmm_geometry *geo)
{
    fake *f = enter_at_cost(vmm, 0);
    return leave(f, configure(f, geo));
}

static void forget_what_is_gone(fake *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_res; i++)
        if (f->res[i].entry) f->res[n++] = f->res[i];
    f->n_res = n;
    f->n_res_gone = 0;
}

static reservation *push_reservation(fake *f)
{
    if (2 * f->n_res_gone > f->n_res) forget_what_is_gone(f);
    if (f->n_res == f->room_res) {
        size_t room = f->room_res > 0 ? 2 * f->room_res : FIRST_RESERVATIONS;
        reservation *res = realloc(f->res, room * sizeof *res);
        if (!res) return NULL;
        f->res = res;
        f->room_res = room;
    }
    return &f->res[f->n_res];
}

static vt_status reserve(fake *f, size_t size_bytes, uintptr_t *addr)
{
    if (!f->configured) return breach(f, "reserve before configure");
    if (size_bytes == 0 || size_bytes % VT_FAKE_PAGE_BYTES != 0)
        return breach(f, "reserve of no whole pages");
    reservation *r = push_reservation(f);
    entry *list = r ? calloc(size_bytes / VT_FAKE_PAGE_BYTES, sizeof *list) : NULL;
    if (!list) return VT_ENOMEM;
    *r = (reservation){.addr = f->next_addr, .size_bytes = size_bytes, .entry = list};
    f->next_addr += size_bytes + VT_FAKE_PAGE_BYTES;
    f->n_res++;
    f->now.reserved_bytes += size_bytes;
    *addr = r->addr;
    return VT_OK;
}

static vt_status fake_reserve(vt_vmm *vmm, size_t size_bytes, uintptr_t *addr)
{
    fake *f = enter_at_cost(vmm, COST_RESERVE);
    return leave(f, reserve(f, size_bytes, addr));
}

// The reservation in which the whole of [addr, addr + size_bytes) lies, or NULL.
static reservation *reservation_at(const fake *f, uintptr_t addr, size_t size_bytes)
{
    size_t lo = 0, hi = f->n_res; // the last one that begins at addr or before lies in [lo, hi)
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (f->res[mid].addr <= addr)
            lo = mid;
        else
            hi = mid;
    }
    if (lo == hi) return NULL;
    reservation *r = &f->res[lo];
    if (!r->entry || addr < r->addr || addr - r->addr >= r->size_bytes) return NULL;
    return size_bytes <= r->size_bytes - (addr - r->addr) ? r : NULL;
}

static entry *entry_at(const reservation *r, uintptr_t addr)
{
    return &r->entry[(addr - r->addr) / VT_FAKE_PAGE_BYTES];
}

static vt_status unreserve(fake *f, uintptr_t addr, size_t size_bytes)
{
    reservation *r = reservation_at(f, addr, 1);
    if (!r || r->addr != addr) return breach(f, "unreserve of what is not reserved");
    if (r->size_bytes != size_bytes) return breach(f, "unreserve of another size");
    for (size_t k = 0; k < size_bytes / VT_FAKE_PAGE_BYTES; k++)
        if (r->entry[k].chunk) return breach(f, "unreserve of mapped addresses");
    free(r->entry);
    r->entry = NULL;
    f->n_res_gone++;
    f->now.reserved_bytes -= size_bytes;
    return VT_OK;
}

static vt_status fake_unreserve(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    fake *f = enter_at_cost(vmm, COST_RESERVE);
    return leave(f, unreserve(f, addr, size_bytes));
}

// ---- mappings

// Number of a physical page, such that numbers follow each other as offsets do on the host.
static uint64_t page_number(const fake *f, const entry *e)
{
    uint64_t slice = e->page / f->pages_per_slice;
    return (slice * f->geo.n_index + e->chunk->index) * f->pages_per_slice +
           e->page % f->pages_per_slice;
}

// Borders between slices in n_slice slices from e, its ends included, that do not part two runs.
static uint64_t count_joins(const fake *f, const reservation *r, const entry *e, uint64_t n_slice)
{
    const entry *end = r->entry + r->size_bytes / VT_FAKE_PAGE_BYTES;
    uint64_t n = 0;
    for (uint64_t i = 0; i <= n_slice; i++, e += f->pages_per_slice) {
        if (e == r->entry || e == end || !e[-1].chunk || !e->chunk) continue;
        n += page_number(f, e - 1) + 1 == page_number(f, e);
    }
    return n;
}

static void put_entries(fake *f, entry *e, uint32_t slice, uint64_t index, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        chunk *c = chunk_find(f, index + i);
        c->n_mapped += f->pages_per_slice;
        for (uint32_t k = 0; k < f->pages_per_slice; k++, e++)
            *e = (entry){.chunk = c, .page = slice * f->pages_per_slice + k};
    }
}

static void take_entries(fake *f, entry *e, uint64_t n_slice)
{
    for (uint64_t k = 0; k < n_slice * f->pages_per_slice; k++, e++) {
        e->chunk->n_mapped--;
        *e = (entry){0};
    }
}

// What takes n slices away again takes away their runs too: the runs in all are slices less joins.
static void count_slices(fake *f, const reservation *r, const entry *e, uint64_t n, bool more)
{
    uint64_t n_run = n - count_joins(f, r, e, n);
    f->now.n_mapped += more ? n : -n;
    f->now.n_run += more ? n_run : -n_run;
}

static vt_status map(fake *f, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n)
{
    if (slice >= f->geo.n_slice || !indices_in_range(f, index, n))
        return breach(f, "map of a slice out of range");
    if (addr % VT_FAKE_PAGE_BYTES != 0) return breach(f, "map at an odd address");
    reservation *r = reservation_at(f, addr, n * f->geo.slice_bytes);
    if (!r) return breach(f, "map outside a reservation");
    for (uint64_t i = 0; i < n; i++)
        if (!chunk_find(f, index + i)) return breach(f, "map of a chunk that is not created");
    entry *e = entry_at(r, addr);
    for (size_t k = 0; k < n * f->pages_per_slice; k++)
        if (e[k].chunk) return breach(f, "map over a mapping");
    uint64_t n_run = f->now.n_run;
    put_entries(f, e, slice, index, n);
    count_slices(f, r, e, n, true);
    if (f->now.n_run <= f->max_runs || f->now.n_run <= n_run) return VT_OK;
    count_slices(f, r, e, n, false);
    take_entries(f, e, n);
    return VT_NOSPACE;
}

static vt_status fake_map(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n,
                          vt_vmm_use use)
{
    fake *f = enter_at_cost(vmm, use == VT_VMM_ALIAS ? COST_ALIAS : COST_MAP);
    if (use != VT_VMM_WRITE && use != VT_VMM_ALIAS) return leave(f, breach(f, "map for no use"));
    return leave(f, map(f, addr, slice, index, n));
}

static vt_status unmap(fake *f, uintptr_t addr, size_t size_bytes)
{
    if (!f->configured || size_bytes == 0 || size_bytes % f->geo.slice_bytes != 0 ||
        addr % VT_FAKE_PAGE_BYTES != 0)
        return breach(f, "unmap of no whole slices");
    reservation *r = reservation_at(f, addr, size_bytes);
    if (!r) return breach(f, "unmap outside a reservation");
    entry *e = entry_at(r, addr);
    size_t n_page = size_bytes / VT_FAKE_PAGE_BYTES;
    for (size_t k = 0; k < n_page; k++) {
        if (!e[k].chunk) return breach(f, "unmap of what is not mapped");
        if (e[k].page % f->pages_per_slice != k % f->pages_per_slice)
            return breach(f, "unmap of a part of a slice");
    }
    if (is_busy(f, addr, size_bytes)) return breach(f, "unmap of what a kernel reads");
    count_slices(f, r, e, n_page / f->pages_per_slice, false);
    take_entries(f, e, n_page / f->pages_per_slice);
    return VT_OK;
}

static vt_status fake_unmap(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    fake *f = enter_at_cost(vmm, COST_UNMAP);
    return leave(f, unmap(f, addr, size_bytes));
}

static vt_status fake_mapped(vt_vmm *vmm, uint64_t *size_bytes, uint64_t *n_mapping)
{
    fake *f = enter_at_cost(vmm, 0);
    *size_bytes = f->now.n_mapped * f->geo.slice_bytes;
    *n_mapping = f->now.n_run;
    return leave(f, VT_OK);
}

static vt_status fake_resident(vt_vmm *vmm, uint64_t *size_bytes)
{
    fake *f = enter_at_cost(vmm, 0);
    *size_bytes = f->now.n_created * f->geo.n_slice * f->geo.slice_bytes;
    return leave(f, VT_OK);
}

// ---- bytes

// The pages that the bytes lie on, all mapped; NULL: a violation.
static entry *mapped_at(fake *f, uintptr_t addr, size_t size_bytes, size_t *n_page)
{
    size_t in_page = addr % VT_FAKE_PAGE_BYTES;
    *n_page = (in_page + size_bytes + VT_FAKE_PAGE_BYTES - 1) / VT_FAKE_PAGE_BYTES;
    reservation *r = size_bytes > 0 ? reservation_at(f, addr, size_bytes) : NULL;
    entry *e = r ? entry_at(r, addr) : NULL;
    for (size_t k = 0; e && k < *n_page; k++)
        if (!e[k].chunk) e = NULL;
    if (!e) (void)breach(f, "access to what is not mapped");
    return e;
}

static vt_extent *dirt_of_entry(const void *entries, size_t k)
{
    const entry *e = (const entry *)entries + k;
    return &e->chunk->dirty[e->page];
}

static vt_place place_of(const entry *e, uintptr_t addr)
{
    return (vt_place){.page = dirt_of_entry, .pages = e, .offset = addr % VT_FAKE_PAGE_BYTES};
}

static bool place_at(fake *f, uintptr_t addr, size_t size_bytes, vt_place *out)
{
    size_t n_page;
    const entry *e = mapped_at(f, addr, size_bytes, &n_page);
    *out = place_of(e, addr);
    return e != NULL;
}

// A place that the caller writes.
static bool quiet_place_at(fake *f, uintptr_t addr, size_t size_bytes, vt_place *out)
{
    if (!place_at(f, addr, size_bytes, out)) return false;
    if (!is_busy(f, addr, size_bytes)) return true;
    (void)breach(f, "writing where a kernel reads");
    return false;
}

static vt_status zero(fake *f, uintptr_t addr, size_t size_bytes)
{
    vt_place p;
    if (!quiet_place_at(f, addr, size_bytes, &p)) return VT_EINVAL;
    vt_place_cut(&p, size_bytes);
    return VT_OK;
}

static vt_status fake_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    fake *f = enter_at_cost(vmm, COST_BYTES);
    return leave(f, zero(f, addr, size_bytes));
}

// Bytes of a slice, and mapped bytes of other chunks, that are to be copied one way or the other.
static vt_status two_places(fake *f, uintptr_t addr, uint32_t slice, uint64_t index, size_t offset,
                            size_t size_bytes, vt_place *mapped, vt_place *stored)
{
    if (slice >= f->geo.n_slice || !indices_in_range(f, index, 1) || size_bytes == 0 ||
        offset > f->geo.slice_bytes || size_bytes > f->geo.slice_bytes - offset)
        return breach(f, "a copy of bytes out of range");
    chunk *c = chunk_find(f, index);
    if (!c) return breach(f, "a copy with a chunk that is not created");
    size_t n_page;
    const entry *e = mapped_at(f, addr, size_bytes, &n_page);
    if (!e) return VT_EINVAL;
    for (size_t k = 0; k < n_page; k++)
        if (e[k].chunk == c) return breach(f, "a copy from a chunk into itself");
    *mapped = place_of(e, addr);
    *stored = vt_place_in_list(c->dirty + (size_t)slice * f->pages_per_slice, offset);
    return VT_OK;
}

static vt_status fetch(fake *f, uintptr_t dst, uint32_t slice, uint64_t index, size_t offset,
                       size_t size_bytes)
{
    vt_place to, from;
    vt_status st = two_places(f, dst, slice, index, offset, size_bytes, &to, &from);
    if (st == VT_OK && is_busy(f, dst, size_bytes))
        return breach(f, "writing where a kernel reads");
    if (st == VT_OK) vt_place_copy(&to, &from, size_bytes);
    return st;
}

static vt_status store(fake *f, uint32_t slice, uint64_t index, size_t offset, uintptr_t src,
                       size_t size_bytes)
{
    vt_place to, from;
    vt_status st = two_places(f, src, slice, index, offset, size_bytes, &from, &to);
    if (st == VT_OK) vt_place_copy(&to, &from, size_bytes);
    return st;
}

static vt_status fake_store(vt_vmm *vmm, uint32_t slice, uint64_t index, size_t offset,
                            uintptr_t src, size_t size_bytes)
{
    fake *f = enter_at_cost(vmm, COST_BYTES);
    return leave(f, store(f, slice, index, offset, src, size_bytes));
}

static vt_status fake_fetch(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index,
                            size_t offset, size_t size_bytes)
{
    fake *f = enter_at_cost(vmm, COST_BYTES);
    return leave(f, fetch(f, dst, slice, index, offset, size_bytes));
}

void vt_fake_touch(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    fake *f = enter(vmm);
    vt_place p;
    if (place_at(f, addr, size_bytes, &p)) vt_place_add(&p, size_bytes);
    (void)leave(f, VT_OK);
}

bool vt_fake_is_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    fake *f = enter(vmm);
    vt_place p;
    bool clean = place_at(f, addr, size_bytes, &p) && vt_place_is_clean(&p, size_bytes);
    (void)leave(f, VT_OK);
    return clean;
}

// ---- work beside the caller

static vt_status fake_fence(vt_vmm *vmm, uint64_t *ticket)
{
    fake *f = enter_at_cost(vmm, 0);
    *ticket = f->async ? ++f->last_ticket : 0;
    return leave(f, VT_OK);
}

static vt_status finish(fake *f, uint64_t ticket)
{
    if (ticket > f->last_ticket) return breach(f, "a ticket that no fence gave");
    if (ticket > f->passed_ticket) f->passed_ticket = ticket;
    return VT_OK;
}

static vt_status passed(fake *f, uint64_t ticket, bool wait, bool *is_passed)
{
    if (ticket > f->last_ticket) return breach(f, "a ticket that no fence gave");
    if (wait && ticket > f->passed_ticket) {
        f->now.clock_us += COST_WAIT;
        (void)finish(f, ticket);
    }
    *is_passed = ticket <= f->passed_ticket;
    return VT_OK;
}

static vt_status fake_passed(vt_vmm *vmm, uint64_t ticket, bool wait, bool *is_passed)
{
    fake *f = enter_at_cost(vmm, 0);
    return leave(f, passed(f, ticket, wait, is_passed));
}

void vt_fake_set_async(vt_vmm *vmm, bool async)
{
    fake *f = enter(vmm);
    f->async = async;
    (void)leave(f, VT_OK);
}

void vt_fake_run(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    fake *f = enter(vmm);
    size_t n_page;
    vt_fake_work w = {addr, size_bytes, f->last_ticket + 1};
    if (mapped_at(f, addr, size_bytes, &n_page) && f->async &&
        !vt_fake_work_add(&f->work, w, f->passed_ticket))
        (void)breach(f, "no memory for the test");
    (void)leave(f, VT_OK);
}

void vt_fake_finish(vt_vmm *vmm, uint64_t ticket)
{
    fake *f = enter(vmm);
    (void)leave(f, finish(f, ticket));
}

// ---- swap

static vt_status swap_open(fake *f, uint64_t size_bytes)
{
    if (f->swap.size_bytes > 0) return breach(f, "swap opened twice");
    if (size_bytes == 0) return breach(f, "swap of no bytes");
    return vt_fake_swap_open(&f->swap, size_bytes) ? VT_OK : VT_ENOMEM;
}

static vt_status fake_swap_open(vt_vmm *vmm, const char *dir, uint64_t size_bytes)
{
    (void)dir;
    fake *f = enter_at_cost(vmm, 0);
    return leave(f, swap_open(f, size_bytes));
}

static vt_status swap_write(fake *f, uint64_t offset, uintptr_t src, size_t size_bytes,
                            uint64_t *sum)
{
    const char *wrong = vt_fake_swap_check(&f->swap, offset, size_bytes);
    if (wrong) return breach(f, wrong);
    vt_place from;
    if (!place_at(f, src, size_bytes, &from)) return VT_EINVAL;
    *sum = vt_fake_swap_write(&f->swap, offset, &from, size_bytes);
    return VT_OK;
}

static vt_status fake_swap_write(vt_vmm *vmm, uint64_t offset, uintptr_t src, size_t size_bytes,
                                 uint64_t *sum)
{
    fake *f = enter_at_cost(vmm, COST_SWAP);
    return leave(f, swap_write(f, offset, src, size_bytes, sum));
}

static vt_status swap_read(fake *f, uintptr_t dst, uint64_t offset, size_t size_bytes,
                           uint64_t *sum)
{
    const char *wrong = vt_fake_swap_check(&f->swap, offset, size_bytes);
    if (wrong) return breach(f, wrong);
    vt_place to;
    if (!quiet_place_at(f, dst, size_bytes, &to)) return VT_EINVAL;
    wrong = vt_fake_swap_read(&f->swap, &to, offset, size_bytes, sum);
    return wrong ? breach(f, wrong) : VT_OK;
}

static vt_status fake_swap_read(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                                uint64_t *sum)
{
    fake *f = enter_at_cost(vmm, COST_SWAP);
    return leave(f, swap_read(f, dst, offset, size_bytes, sum));
}

static void fake_swap_drop(vt_vmm *vmm, uint64_t offset, size_t size_bytes)
{
    fake *f = enter_at_cost(vmm, COST_DESTROY);
    const char *wrong = vt_fake_swap_check(&f->swap, offset, size_bytes);
    if (!wrong) vt_fake_swap_drop(&f->swap, offset, size_bytes);
    (void)leave(f, wrong ? breach(f, wrong) : VT_OK);
}

void vt_fake_corrupt(vt_vmm *vmm, uint64_t offset)
{
    fake *f = enter(vmm);
    vt_fake_swap_corrupt(&f->swap, offset);
    (void)leave(f, VT_OK);
}

// ---- birth and death

static void fake_close(vt_vmm *vmm)
{
    fake *f = fake_of(vmm);
    if (f->epitaph) *f->epitaph = vt_fake_look(vmm);
    for (size_t i = 0; i < f->n_res; i++) free(f->res[i].entry);
    free(f->res);
    for (size_t i = 0; i < f->n_bucket; i++)
        for (chunk *c = f->bucket[i], *next; c; c = next) {
            next = c->next;
            free(c);
        }
    free(f->bucket);
    vt_fake_swap_free(&f->swap);
    vt_fake_work_free(&f->work);
    pthread_mutex_destroy(&f->mu);
    free(f);
}

static const vt_vmm_ops fake_ops = {
    .name = "fake",
    .granularity = fake_granularity,
    .configure = fake_configure,
    .max_runs = fake_max_runs,
    .reserve = fake_reserve,
    .unreserve = fake_unreserve,
    .create = fake_create,
    .destroy = fake_destroy,
    .map = fake_map,
    .unmap = fake_unmap,
    .fetch = fake_fetch,
    .store = fake_store,
    .zero = fake_zero,
    .fence = fake_fence,
    .passed = fake_passed,
    .resident = fake_resident,
    .mapped = fake_mapped,
    .swap_open = fake_swap_open,
    .swap_write = fake_swap_write,
    .swap_read = fake_swap_read,
    .swap_drop = fake_swap_drop,
    .close = fake_close,
};

vt_vmm *vt_fake_open(void)
{
    fake *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->vmm.ops = &fake_ops;
    pthread_mutex_init(&f->mu, NULL);
    f->max_runs = f->max_chunks = UINT64_MAX;
    f->next_addr = (uintptr_t)1 << 40;
    return &f->vmm;
}

void vt_fake_set_max_runs(vt_vmm *vmm, uint64_t max_runs)
{
    fake *f = enter(vmm);
    f->max_runs = max_runs;
    (void)leave(f, VT_OK);
}

void vt_fake_set_max_chunks(vt_vmm *vmm, uint64_t max_chunks)
{
    fake *f = enter(vmm);
    f->max_chunks = max_chunks;
    (void)leave(f, VT_OK);
}

void vt_fake_set_epitaph(vt_vmm *vmm, vt_fake_report *at)
{
    fake *f = enter(vmm);
    f->epitaph = at;
    (void)leave(f, VT_OK);
}

vt_fake_report vt_fake_look(const vt_vmm *vmm)
{
    fake *f = enter(vmm);
    vt_fake_report now = f->now;
    now.swapped_bytes = f->swap.n_page * VT_FAKE_PAGE_BYTES;
    (void)leave(f, VT_OK);
    return now;
}
