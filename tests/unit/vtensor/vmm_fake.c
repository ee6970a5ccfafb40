// vmm_fake.c - see vmm_fake.h.
//
//   reservation  [page] -> number of the physical page mapped there, plus one; 0: reserved only
//   chunk        [index] -> created, and how many of its pages are mapped
//   page         number = (slice x n_index + index) x pages_per_slice + page within the slice
//
// The address of a reservation is taken from a counter that never goes back, so an address from
// a span that is gone is never valid again.
#include "vmm_fake.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RESERVATION = 4096 };

// Microseconds, of the order that a host shows.
enum {
    COST_RESERVE = 2,
    COST_CREATE = 7,
    COST_DESTROY = 13,
    COST_MAP = 4,
    COST_UNMAP = 6,
    COST_ZERO = 2
};

typedef struct reservation {
    uintptr_t addr;
    size_t size_bytes;
    uint64_t *page; // NULL: given back
} reservation;

typedef struct fake {
    vt_vmm vmm;
    vt_vmm_geometry geo;
    bool configured;
    size_t pages_per_slice;
    uint64_t max_runs, max_chunks;
    uintptr_t next_addr;
    reservation res[MAX_RESERVATION];
    uint32_t n_res;
    uint8_t *created;   // [n_index]
    uint32_t *n_mapped; // [n_index] pages
    uint8_t *dirty;     // [n_slice x n_index x pages_per_slice]
    vt_fake_report now;
    vt_fake_report *epitaph;
} fake;

static fake *fake_of(vt_vmm *vmm)
{
    return (fake *)vmm;
}

static vt_status breach(fake *f, const char *what)
{
    if (f->now.n_violation++ == 0) f->now.violation = what;
    return VT_EINVAL;
}

static void spend(fake *f, uint64_t cost_us)
{
    f->now.n_call++;
    f->now.clock_us += cost_us;
}

static size_t fake_granularity(vt_vmm *vmm)
{
    (void)vmm;
    return VT_FAKE_PAGE_BYTES;
}

static uint64_t fake_max_runs(vt_vmm *vmm)
{
    return fake_of(vmm)->max_runs;
}

static vt_status fake_configure(vt_vmm *vmm, const vt_vmm_geometry *geo)
{
    fake *f = fake_of(vmm);
    spend(f, 0);
    if (f->configured) return breach(f, "configured twice");
    if (geo->n_slice == 0 || geo->n_index == 0 || geo->slice_bytes == 0 ||
        geo->slice_bytes % VT_FAKE_PAGE_BYTES != 0)
        return breach(f, "geometry out of range");
    f->geo = *geo;
    f->pages_per_slice = geo->slice_bytes / VT_FAKE_PAGE_BYTES;
    f->created = calloc(geo->n_index, 1);
    f->n_mapped = calloc(geo->n_index, sizeof *f->n_mapped);
    f->dirty = calloc(geo->n_slice * geo->n_index, f->pages_per_slice);
    if (!f->created || !f->n_mapped || !f->dirty) return VT_ENOMEM;
    f->configured = true;
    return VT_OK;
}

static vt_status fake_reserve(vt_vmm *vmm, size_t size_bytes, uintptr_t *addr)
{
    fake *f = fake_of(vmm);
    spend(f, COST_RESERVE);
    if (!f->configured) return breach(f, "reserve before configure");
    if (size_bytes == 0 || size_bytes % VT_FAKE_PAGE_BYTES != 0)
        return breach(f, "reserve of no whole pages");
    if (f->n_res == MAX_RESERVATION) return VT_NOSPACE;
    reservation *r = &f->res[f->n_res];
    r->page = calloc(size_bytes / VT_FAKE_PAGE_BYTES, sizeof *r->page);
    if (!r->page) return VT_ENOMEM;
    r->addr = f->next_addr;
    r->size_bytes = size_bytes;
    f->next_addr += size_bytes + VT_FAKE_PAGE_BYTES;
    f->n_res++;
    f->now.reserved_bytes += size_bytes;
    *addr = r->addr;
    return VT_OK;
}

// The map entries of [addr, addr + size_bytes), which must lie in one reservation; NULL otherwise.
static uint64_t *pages_at(fake *f, uintptr_t addr, size_t size_bytes)
{
    for (uint32_t i = 0; i < f->n_res; i++) {
        reservation *r = &f->res[i];
        if (!r->page || addr < r->addr || addr - r->addr >= r->size_bytes) continue;
        if (size_bytes > r->size_bytes - (addr - r->addr)) return NULL;
        return &r->page[(addr - r->addr) / VT_FAKE_PAGE_BYTES];
    }
    return NULL;
}

static vt_status fake_unreserve(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    fake *f = fake_of(vmm);
    spend(f, COST_RESERVE);
    for (uint32_t i = 0; i < f->n_res; i++) {
        reservation *r = &f->res[i];
        if (!r->page || r->addr != addr) continue;
        if (r->size_bytes != size_bytes) return breach(f, "unreserve of another size");
        for (size_t k = 0; k < size_bytes / VT_FAKE_PAGE_BYTES; k++)
            if (r->page[k] != 0) return breach(f, "unreserve of mapped addresses");
        free(r->page);
        r->page = NULL;
        f->now.reserved_bytes -= size_bytes;
        return VT_OK;
    }
    return breach(f, "unreserve of what is not reserved");
}

static bool indices_in_range(const fake *f, uint64_t index, uint64_t n)
{
    return n > 0 && index < f->geo.n_index && n <= f->geo.n_index - index;
}

static void set_dirty(fake *f, uint64_t index, uint8_t dirty)
{
    for (uint32_t s = 0; s < f->geo.n_slice; s++)
        memset(f->dirty + (s * f->geo.n_index + index) * f->pages_per_slice, dirty,
               f->pages_per_slice);
}

static vt_status fake_create(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    fake *f = fake_of(vmm);
    spend(f, COST_CREATE * n);
    if (!indices_in_range(f, index, n)) return breach(f, "create of an index out of range");
    for (uint64_t i = index; i < index + n; i++)
        if (f->created[i]) return breach(f, "create of a created chunk");
    if (n > f->max_chunks - f->now.n_created) return VT_NOSPACE;
    for (uint64_t i = index; i < index + n; i++) {
        f->created[i] = 1;
        set_dirty(f, i, 0);
    }
    f->now.n_created += n;
    return VT_OK;
}

static vt_status fake_destroy(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    fake *f = fake_of(vmm);
    spend(f, COST_DESTROY * n);
    if (!indices_in_range(f, index, n)) return breach(f, "destroy of an index out of range");
    for (uint64_t i = index; i < index + n; i++) {
        if (!f->created[i]) return breach(f, "destroy of a chunk that is not created");
        if (f->n_mapped[i] > 0) return breach(f, "destroy of a mapped chunk");
    }
    memset(f->created + index, 0, n);
    f->now.n_created -= n;
    return VT_OK;
}

static vt_status fake_map(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n)
{
    fake *f = fake_of(vmm);
    spend(f, COST_MAP);
    if (slice >= f->geo.n_slice || !indices_in_range(f, index, n))
        return breach(f, "map of a slice out of range");
    if (addr % VT_FAKE_PAGE_BYTES != 0) return breach(f, "map at an odd address");
    uint64_t *page = pages_at(f, addr, n * f->geo.slice_bytes);
    if (!page) return breach(f, "map outside a reservation");
    for (uint64_t i = index; i < index + n; i++)
        if (!f->created[i]) return breach(f, "map of a chunk that is not created");
    for (size_t k = 0; k < n * f->pages_per_slice; k++)
        if (page[k] != 0) return breach(f, "map over a mapping");
    uint64_t first = (slice * f->geo.n_index + index) * f->pages_per_slice;
    for (size_t k = 0; k < n * f->pages_per_slice; k++) {
        page[k] = first + k + 1;
        f->n_mapped[index + k / f->pages_per_slice]++;
    }
    f->now.n_mapped += n;
    return VT_OK;
}

static vt_status fake_unmap(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    fake *f = fake_of(vmm);
    spend(f, COST_UNMAP);
    if (size_bytes == 0 || size_bytes % f->geo.slice_bytes != 0 || addr % VT_FAKE_PAGE_BYTES != 0)
        return breach(f, "unmap of no whole slices");
    uint64_t *page = pages_at(f, addr, size_bytes);
    if (!page) return breach(f, "unmap outside a reservation");
    size_t n_page = size_bytes / VT_FAKE_PAGE_BYTES;
    for (size_t k = 0; k < n_page; k++) {
        if (page[k] == 0) return breach(f, "unmap of what is not mapped");
        if ((page[k] - 1) % f->pages_per_slice != k % f->pages_per_slice)
            return breach(f, "unmap of a part of a slice");
    }
    for (size_t k = 0; k < n_page; k++) {
        f->n_mapped[(page[k] - 1) / f->pages_per_slice % f->geo.n_index]--;
        page[k] = 0;
    }
    f->now.n_mapped -= n_page / f->pages_per_slice;
    return VT_OK;
}

// Map entries of the pages that [addr, addr + size_bytes) touches, all mapped; NULL: a violation.
static uint64_t *mapped_at(fake *f, uintptr_t addr, size_t size_bytes, size_t *n_page)
{
    uintptr_t begin = addr - addr % VT_FAKE_PAGE_BYTES;
    *n_page = (addr + size_bytes - begin + VT_FAKE_PAGE_BYTES - 1) / VT_FAKE_PAGE_BYTES;
    uint64_t *page = pages_at(f, begin, *n_page * VT_FAKE_PAGE_BYTES);
    for (size_t k = 0; page && k < *n_page; k++)
        if (page[k] == 0) page = NULL;
    if (!page) (void)breach(f, "access to what is not mapped");
    return page;
}

static vt_status fake_copy(vt_vmm *vmm, uintptr_t dst, uintptr_t src, size_t size_bytes)
{
    fake *f = fake_of(vmm);
    spend(f, COST_ZERO);
    size_t n_page;
    if (size_bytes == 0 || !mapped_at(f, src, size_bytes, &n_page)) return VT_EINVAL;
    if (dst < src + size_bytes && src < dst + size_bytes) return breach(f, "copy onto itself");
    vt_fake_touch(vmm, dst, size_bytes);
    return VT_OK;
}

static vt_status fake_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    fake *f = fake_of(vmm);
    spend(f, COST_ZERO);
    size_t n_page;
    uint64_t *page = mapped_at(f, addr, size_bytes, &n_page);
    if (!page) return VT_EINVAL;
    for (size_t k = 0; k < n_page; k++) f->dirty[page[k] - 1] = 0;
    return VT_OK;
}

static vt_status fake_resident(vt_vmm *vmm, uint64_t *size_bytes)
{
    fake *f = fake_of(vmm);
    spend(f, 0);
    *size_bytes = f->now.n_created * f->geo.n_slice * f->geo.slice_bytes;
    return VT_OK;
}

static void fake_close(vt_vmm *vmm)
{
    fake *f = fake_of(vmm);
    if (f->epitaph) *f->epitaph = f->now;
    for (uint32_t i = 0; i < f->n_res; i++) free(f->res[i].page);
    free(f->created);
    free(f->n_mapped);
    free(f->dirty);
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
    .copy = fake_copy,
    .zero = fake_zero,
    .resident = fake_resident,
    .close = fake_close,
};

vt_vmm *vt_fake_open(void)
{
    fake *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->vmm.ops = &fake_ops;
    f->max_runs = f->max_chunks = UINT64_MAX;
    f->next_addr = (uintptr_t)1 << 40;
    return &f->vmm;
}

void vt_fake_set_max_runs(vt_vmm *vmm, uint64_t max_runs)
{
    fake_of(vmm)->max_runs = max_runs;
}

void vt_fake_set_max_chunks(vt_vmm *vmm, uint64_t max_chunks)
{
    fake_of(vmm)->max_chunks = max_chunks;
}

void vt_fake_set_epitaph(vt_vmm *vmm, vt_fake_report *at)
{
    fake_of(vmm)->epitaph = at;
}

vt_fake_report vt_fake_look(const vt_vmm *vmm)
{
    return ((const fake *)vmm)->now;
}

void vt_fake_touch(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    fake *f = fake_of(vmm);
    size_t n_page;
    uint64_t *page = mapped_at(f, addr, size_bytes, &n_page);
    for (size_t k = 0; page && k < n_page; k++) f->dirty[page[k] - 1] = 1;
}

bool vt_fake_is_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    fake *f = fake_of(vmm);
    size_t n_page;
    uint64_t *page = mapped_at(f, addr, size_bytes, &n_page);
    for (size_t k = 0; page && k < n_page; k++)
        if (f->dirty[page[k] - 1]) return false;
    return page != NULL;
}
