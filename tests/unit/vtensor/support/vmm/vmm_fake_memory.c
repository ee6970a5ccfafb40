// vmm_fake_memory.c - see vmm_fake_memory.h.
#include "vmm_fake_memory.h"

#include <stdlib.h>

enum { PAGE = VT_DIRT_PAGE_BYTES, FIRST_BUCKETS = 64, FIRST_RESERVATIONS = 16 };

// ---- chunks

bool vt_fake_chunks_configure(vt_fake_chunks *c, const vt_vmm_geometry *geo)
{
    const uint64_t most = UINT64_MAX / PAGE;
    uint64_t index = 0, page = 0;
    if (geo->n_class == 0 || geo->n_class > VT_VMM_MAX_CLASS) return false;
    for (uint32_t i = 0; i < geo->n_class; i++) {
        const vt_vmm_class *g = &geo->cls[i];
        if (g->n_slice == 0 || g->slice_bytes == 0 || g->slice_bytes % PAGE != 0 ||
            g->slice_bytes / PAGE > UINT32_MAX / g->n_slice)
            return false;
        uint64_t pages_per_slice = g->slice_bytes / PAGE, n_page = g->n_slice * pages_per_slice;
        if (g->n_index == 0 || page > most || g->n_index > (most - page) / n_page) return false;
        c->cls[i] = (vt_fake_class){
            g->n_slice, (uint32_t)pages_per_slice, index, index + g->n_index, page,
        };
        index += g->n_index;
        page += g->n_index * n_page + 1; // classes do not join
    }
    c->n_class = geo->n_class;
    return true;
}

void vt_fake_chunks_free(vt_fake_chunks *c)
{
    for (size_t i = 0; i < c->n_bucket; i++)
        for (vt_fake_chunk *k = c->bucket[i], *next; k; k = next) {
            next = k->next;
            free(k);
        }
    free(c->bucket);
}

static vt_fake_chunk **bucket_of(const vt_fake_chunks *c, uint64_t index)
{
    uint64_t hash = index * UINT64_C(0x9e3779b97f4a7c15);
    return &c->bucket[(hash >> 32) & (c->n_bucket - 1)];
}

vt_fake_chunk *vt_fake_chunk_find(const vt_fake_chunks *c, uint64_t index)
{
    if (c->n_bucket == 0) return NULL;
    vt_fake_chunk *k = *bucket_of(c, index);
    while (k && k->index != index) k = k->next;
    return k;
}

static bool table_grow(vt_fake_chunks *c)
{
    vt_fake_chunk **old = c->bucket;
    size_t n_old = c->n_bucket, n = n_old > 0 ? 2 * n_old : FIRST_BUCKETS;
    vt_fake_chunk **bucket = calloc(n, sizeof *bucket);
    if (!bucket) return false;
    c->bucket = bucket;
    c->n_bucket = n;
    for (size_t i = 0; i < n_old; i++)
        for (vt_fake_chunk *k = old[i], *next; k; k = next) {
            next = k->next;
            vt_fake_chunk **at = bucket_of(c, k->index);
            k->next = *at;
            *at = k;
        }
    free(old);
    return true;
}

static size_t pages_of_chunk(const vt_fake_class *cls)
{
    return (size_t)cls->n_slice * cls->pages_per_slice;
}

bool vt_fake_chunk_make(vt_fake_chunks *c, uint64_t index, bool dirty)
{
    if (c->n >= c->n_bucket && !table_grow(c)) return false;
    const vt_fake_class *cls = vt_fake_class_of(c, index, 1);
    size_t n_page = pages_of_chunk(cls);
    vt_fake_chunk *k = calloc(1, sizeof *k + n_page * sizeof *k->dirty);
    if (!k) return false;
    vt_fake_chunk **at = bucket_of(c, index);
    k->index = index;
    k->cls = cls;
    k->next = *at;
    *at = k;
    c->n++;
    c->size_bytes += n_page * PAGE;
    vt_place all = vt_place_in_list(k->dirty, 0);
    if (dirty) vt_place_add(&all, n_page * PAGE);
    return true;
}

void vt_fake_chunk_unmake(vt_fake_chunks *c, uint64_t index)
{
    vt_fake_chunk **at = bucket_of(c, index);
    while ((*at)->index != index) at = &(*at)->next;
    vt_fake_chunk *k = *at;
    *at = k->next;
    c->n--;
    c->size_bytes -= pages_of_chunk(k->cls) * PAGE;
    free(k);
}

const vt_fake_class *vt_fake_class_of(const vt_fake_chunks *c, uint64_t index, uint64_t n)
{
    for (uint32_t i = 0; i < c->n_class; i++)
        if (index < c->cls[i].end) return n > 0 && n <= c->cls[i].end - index ? &c->cls[i] : NULL;
    return NULL;
}

// ---- addresses

void vt_fake_space_free(vt_fake_space *s)
{
    for (size_t i = 0; i < s->n_res; i++) free(s->res[i].entry);
    free(s->res);
}

static void forget_what_is_gone(vt_fake_space *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_res; i++)
        if (s->res[i].entry) s->res[n++] = s->res[i];
    s->n_res = n;
    s->n_res_gone = 0;
}

static vt_fake_res *push_reservation(vt_fake_space *s)
{
    if (2 * s->n_res_gone > s->n_res) forget_what_is_gone(s);
    if (s->n_res == s->room_res) {
        size_t room = s->room_res > 0 ? 2 * s->room_res : FIRST_RESERVATIONS;
        vt_fake_res *res = realloc(s->res, room * sizeof *res);
        if (!res) return NULL;
        s->res = res;
        s->room_res = room;
    }
    return &s->res[s->n_res];
}

bool vt_fake_space_reserve(vt_fake_space *s, size_t size_bytes, uintptr_t *addr)
{
    vt_fake_res *r = push_reservation(s);
    vt_fake_entry *list = r ? calloc(size_bytes / PAGE, sizeof *list) : NULL;
    if (!list) return false;
    *r = (vt_fake_res){.addr = s->next_addr, .size_bytes = size_bytes, .entry = list};
    s->next_addr += size_bytes + PAGE;
    s->n_res++;
    s->reserved_bytes += size_bytes;
    *addr = r->addr;
    return true;
}

void vt_fake_space_unreserve(vt_fake_space *s, vt_fake_res *r)
{
    free(r->entry);
    r->entry = NULL;
    s->n_res_gone++;
    s->reserved_bytes -= r->size_bytes;
}

vt_fake_res *vt_fake_space_at(const vt_fake_space *s, uintptr_t addr, size_t size_bytes)
{
    size_t lo = 0, hi = s->n_res; // the last one that begins at addr or before lies in [lo, hi)
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->res[mid].addr <= addr)
            lo = mid;
        else
            hi = mid;
    }
    if (lo == hi) return NULL;
    vt_fake_res *r = &s->res[lo];
    if (!r->entry || addr < r->addr || addr - r->addr >= r->size_bytes) return NULL;
    return size_bytes <= r->size_bytes - (addr - r->addr) ? r : NULL;
}

vt_fake_entry *vt_fake_entry_at(const vt_fake_res *r, uintptr_t addr)
{
    return &r->entry[(addr - r->addr) / PAGE];
}

// ---- mappings

static uint64_t page_number(const vt_fake_entry *e)
{
    const vt_fake_class *cls = e->chunk->cls;
    uint64_t slice = e->page / cls->pages_per_slice;
    uint64_t position = slice * (cls->end - cls->first) + (e->chunk->index - cls->first);
    return cls->first_page + position * cls->pages_per_slice + e->page % cls->pages_per_slice;
}

// Borders between slices in n_page pages from e, its ends included, that do not part two runs.
static uint64_t count_joins(const vt_fake_res *r, const vt_fake_entry *e, size_t n_page)
{
    const vt_fake_entry *end = r->entry + r->size_bytes / PAGE, *last = e + n_page;
    uint64_t n = 0;
    for (;; e += e->chunk->cls->pages_per_slice) {
        if (e != r->entry && e != end && e[-1].chunk && e->chunk && e[-1].read_only == e->read_only)
            n += page_number(e - 1) + 1 == page_number(e);
        if (e == last) return n;
    }
}

static uint64_t count_slices(const vt_fake_entry *e, size_t n_page)
{
    uint64_t n = 0;
    for (size_t k = 0; k < n_page; k += e[k].chunk->cls->pages_per_slice) n++;
    return n;
}

// What takes slices away takes away their runs too: the runs in all are slices less joins.
static void count_mapped(vt_fake_space *s, const vt_fake_res *r, const vt_fake_entry *e,
                         size_t n_page, bool more)
{
    uint64_t n = count_slices(e, n_page), n_run = n - count_joins(r, e, n_page);
    s->n_slice += more ? n : -n;
    s->n_run += more ? n_run : -n_run;
    s->mapped_bytes += more ? n_page * PAGE : -(n_page * PAGE);
}

void vt_fake_space_put(vt_fake_space *s, const vt_fake_res *r, uintptr_t addr, size_t n_page,
                       const vt_fake_chunks *c, uint32_t slice, uint64_t index, bool read_only)
{
    vt_fake_entry *e = vt_fake_entry_at(r, addr);
    for (size_t k = 0; k < n_page; index++) {
        vt_fake_chunk *chunk = vt_fake_chunk_find(c, index);
        uint32_t n = chunk->cls->pages_per_slice;
        chunk->n_mapped += n;
        for (uint32_t page = 0; page < n; page++, k++)
            e[k] = (vt_fake_entry){chunk, slice * n + page, read_only};
    }
    count_mapped(s, r, e, n_page, true);
}

void vt_fake_space_take(vt_fake_space *s, const vt_fake_res *r, uintptr_t addr, size_t n_page)
{
    vt_fake_entry *e = vt_fake_entry_at(r, addr);
    count_mapped(s, r, e, n_page, false);
    for (size_t k = 0; k < n_page; k++) {
        e[k].chunk->n_mapped--;
        e[k] = (vt_fake_entry){0};
    }
}

void vt_fake_space_protect(vt_fake_space *s, const vt_fake_res *r, uintptr_t addr, size_t n_page,
                           bool read_only)
{
    vt_fake_entry *e = vt_fake_entry_at(r, addr);
    s->n_run += count_joins(r, e, n_page);
    for (size_t k = 0; k < n_page; k++) e[k].read_only = read_only;
    s->n_run -= count_joins(r, e, n_page);
}
