// vmm_fake.c - see vmm_fake.h: chunks, addresses and mappings; and the table.
#include "vmm_fake_state.h"

#include <stdlib.h>

vt_fake *vt_fake_enter(const vt_vmm *vmm)
{
    vt_fake *f = (vt_fake *)vmm;
    pthread_mutex_lock(&f->mu);
    return f;
}

vt_fake *vt_fake_enter_at_cost(vt_vmm *vmm, uint64_t cost_us)
{
    vt_fake *f = vt_fake_enter(vmm);
    f->now.n_call++;
    f->now.clock_us += cost_us;
    return f;
}

vt_status vt_fake_leave(vt_fake *f, vt_status st)
{
    pthread_mutex_unlock(&f->mu);
    return st;
}

vt_status vt_fake_breach(vt_fake *f, const char *what)
{
    if (f->now.n_violation++ == 0) f->now.violation = what;
    return VT_EINVAL;
}

// ---- settings

static size_t fake_granularity(vt_vmm *vmm)
{
    (void)vmm;
    return VT_FAKE_PAGE_BYTES;
}

#define GETTER(name, type, value)        \
    static type name(vt_vmm *vmm)        \
    {                                    \
        vt_fake *f = vt_fake_enter(vmm); \
        type is = value;                 \
        (void)vt_fake_leave(f, VT_OK);   \
        return is;                       \
    }
GETTER(fake_max_runs, uint64_t, f->max_runs)
GETTER(fake_can_protect, bool, !f->writable_aliases)
GETTER(fake_creates_zeroed, bool, !f->dirty_create)

static vt_status configure(vt_fake *f, const vt_vmm_geometry *geo)
{
    if (f->chunks.n_class > 0) return vt_fake_breach(f, "configured twice");
    if (!vt_fake_chunks_configure(&f->chunks, geo))
        return vt_fake_breach(f, "geometry out of range");
    f->owner = pthread_self();
    return VT_OK;
}

static VT_FAKE_CALL(fake_configure, 0, configure(f, geo), const vt_vmm_geometry *geo)

    // ---- chunks

    static vt_status create(vt_fake *f, uint64_t index, uint64_t n)
{
    vt_fake_chunks *c = &f->chunks;
    if (!vt_fake_class_of(c, index, n)) return vt_fake_breach(f, "create of an index out of range");
    for (uint64_t i = 0; i < n; i++)
        if (vt_fake_chunk_find(c, index + i)) return vt_fake_breach(f, "create of a created chunk");
    if (c->n > f->max_chunks || n > f->max_chunks - c->n) return VT_NOSPACE;
    for (uint64_t i = 0; i < n; i++) {
        if (vt_fake_chunk_make(c, index + i, f->dirty_create)) continue;
        while (i-- > 0) vt_fake_chunk_unmake(c, index + i);
        return VT_ENOMEM;
    }
    return VT_OK;
}

static vt_status fake_create(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    vt_fake *f = vt_fake_enter_at_cost(vmm, VT_COST_CREATE * n);
    return vt_fake_leave(f, create(f, index, n));
}

static vt_status destroy(vt_fake *f, uint64_t index, uint64_t n)
{
    if (!vt_fake_class_of(&f->chunks, index, n))
        return vt_fake_breach(f, "destroy of an index out of range");
    for (uint64_t i = 0; i < n; i++) {
        const vt_fake_chunk *c = vt_fake_chunk_find(&f->chunks, index + i);
        if (!c) return vt_fake_breach(f, "destroy of a chunk that is not created");
        if (c->n_mapped > 0) return vt_fake_breach(f, "destroy of a mapped chunk");
        if (vt_fake_work_uses(&f->work, (vt_fake_bytes){index + i, 0, UINT64_MAX}, false))
            return vt_fake_breach(f, "destroy of a chunk that work uses");
    }
    for (uint64_t i = 0; i < n; i++) vt_fake_chunk_unmake(&f->chunks, index + i);
    return VT_OK;
}

static vt_status fake_destroy(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    vt_fake *f = vt_fake_enter_at_cost(vmm, VT_COST_DESTROY * n);
    return vt_fake_leave(f, destroy(f, index, n));
}

static vt_status fake_resident(vt_vmm *vmm, uint64_t *size_bytes)
{
    vt_fake *f = vt_fake_enter_at_cost(vmm, 0);
    *size_bytes = f->chunks.size_bytes;
    return vt_fake_leave(f, VT_OK);
}

// ---- addresses

static vt_status reserve(vt_fake *f, size_t size_bytes, uintptr_t *addr)
{
    if (f->chunks.n_class == 0) return vt_fake_breach(f, "reserve before configure");
    if (size_bytes == 0 || size_bytes % VT_FAKE_PAGE_BYTES != 0)
        return vt_fake_breach(f, "reserve of no whole pages");
    return vt_fake_space_reserve(&f->space, size_bytes, addr) ? VT_OK : VT_ENOMEM;
}

static VT_FAKE_CALL(fake_reserve, VT_COST_RESERVE, reserve(f, size_bytes, addr), size_t size_bytes,
                    uintptr_t *addr)

    static vt_status unreserve(vt_fake *f, uintptr_t addr, size_t size_bytes)
{
    vt_fake_res *r = vt_fake_space_at(&f->space, addr, 1);
    if (!r || r->addr != addr) return vt_fake_breach(f, "unreserve of what is not reserved");
    if (r->size_bytes != size_bytes) return vt_fake_breach(f, "unreserve of another size");
    for (size_t k = 0; k < size_bytes / VT_FAKE_PAGE_BYTES; k++)
        if (r->entry[k].chunk) return vt_fake_breach(f, "unreserve of mapped addresses");
    vt_fake_space_unreserve(&f->space, r);
    return VT_OK;
}

static VT_FAKE_CALL(fake_unreserve, VT_COST_RESERVE, unreserve(f, addr, size_bytes), uintptr_t addr,
                    size_t size_bytes)

    // ---- mappings

    static bool no_run_is_left(const vt_fake *f, uint64_t n_run_before)
{
    return f->space.n_run > f->max_runs && f->space.n_run > n_run_before;
}

static vt_status map(vt_fake *f, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n,
                     bool read_only)
{
    const vt_fake_class *cls = vt_fake_class_of(&f->chunks, index, n);
    if (!cls || slice >= cls->n_slice) return vt_fake_breach(f, "map of a slice out of range");
    if (addr % VT_FAKE_PAGE_BYTES != 0) return vt_fake_breach(f, "map at an odd address");
    size_t n_page = n * cls->pages_per_slice;
    vt_fake_res *r = vt_fake_space_at(&f->space, addr, n_page * VT_FAKE_PAGE_BYTES);
    if (!r) return vt_fake_breach(f, "map outside a reservation");
    for (uint64_t i = 0; i < n; i++)
        if (!vt_fake_chunk_find(&f->chunks, index + i))
            return vt_fake_breach(f, "map of a chunk that is not created");
    for (size_t k = 0; k < n_page; k++)
        if (vt_fake_entry_at(r, addr)[k].chunk) return vt_fake_breach(f, "map over a mapping");
    uint64_t n_run = f->space.n_run;
    vt_fake_space_put(&f->space, r, addr, n_page, &f->chunks, slice, index, read_only);
    if (!no_run_is_left(f, n_run)) return VT_OK;
    vt_fake_space_take(&f->space, r, addr, n_page);
    return VT_NOSPACE;
}

static vt_status fake_map(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n,
                          vt_vmm_use use)
{
    vt_fake *f = vt_fake_enter_at_cost(vmm, use == VT_VMM_WRITE ? VT_COST_MAP : VT_COST_ALIAS);
    if (use != VT_VMM_WRITE && use != VT_VMM_ALIAS && use != VT_VMM_READ)
        return vt_fake_leave(f, vt_fake_breach(f, "map for no use"));
    bool read_only = use == VT_VMM_READ && !f->writable_aliases;
    return vt_fake_leave(f, map(f, addr, slice, index, n, read_only));
}

// The reservation of addresses where whole slices are mapped; NULL: a violation.
static vt_fake_res *whole_slices(vt_fake *f, uintptr_t addr, size_t size_bytes)
{
    size_t n_page = size_bytes / VT_FAKE_PAGE_BYTES;
    if (size_bytes == 0 || (addr | size_bytes) % VT_FAKE_PAGE_BYTES != 0)
        return (void)vt_fake_breach(f, "unmap or protect of no whole slices"), NULL;
    vt_fake_res *r = vt_fake_space_at(&f->space, addr, size_bytes);
    if (!r) return (void)vt_fake_breach(f, "unmap or protect outside a reservation"), NULL;
    const vt_fake_entry *e = vt_fake_entry_at(r, addr);
    for (size_t k = 0; k < n_page; k += e[k].chunk->cls->pages_per_slice) {
        if (!e[k].chunk)
            return (void)vt_fake_breach(f, "unmap or protect of what is not mapped"), NULL;
        uint32_t n = e[k].chunk->cls->pages_per_slice;
        if (e[k].page % n != 0 || n > n_page - k)
            return (void)vt_fake_breach(f, "unmap or protect of a part of a slice"), NULL;
    }
    return r;
}

static vt_status protect(vt_fake *f, uintptr_t addr, size_t size_bytes, vt_vmm_use use)
{
    if (use != VT_VMM_WRITE && use != VT_VMM_READ) return vt_fake_breach(f, "protect for no use");
    if (f->writable_aliases) return vt_fake_breach(f, "protect where nothing can be protected");
    const vt_fake_res *r = whole_slices(f, addr, size_bytes);
    if (!r) return VT_EINVAL;
    size_t n_page = size_bytes / VT_FAKE_PAGE_BYTES;
    const vt_fake_entry *e = vt_fake_entry_at(r, addr);
    for (size_t k = 1; k < n_page; k++)
        if (e[k].read_only != e[0].read_only)
            return vt_fake_breach(f, "protect of slices with unlike access");
    if (use == VT_VMM_READ && vt_fake_work_at(&f->work, addr, size_bytes, true))
        return vt_fake_breach(f, "protect of what work writes");
    bool before = e[0].read_only;
    uint64_t n_run = f->space.n_run;
    vt_fake_space_protect(&f->space, r, addr, n_page, use == VT_VMM_READ);
    if (!no_run_is_left(f, n_run)) return VT_OK;
    vt_fake_space_protect(&f->space, r, addr, n_page, before);
    return VT_NOSPACE;
}

static VT_FAKE_CALL(fake_protect, VT_COST_PROTECT, protect(f, addr, size_bytes, use),
                    uintptr_t addr, size_t size_bytes, vt_vmm_use use)

    static vt_status unmap(vt_fake *f, uintptr_t addr, size_t size_bytes)
{
    const vt_fake_res *r = whole_slices(f, addr, size_bytes);
    if (!r) return VT_EINVAL;
    if (vt_fake_work_at(&f->work, addr, size_bytes, false))
        return vt_fake_breach(f, "unmap of what work uses");
    vt_fake_space_take(&f->space, r, addr, size_bytes / VT_FAKE_PAGE_BYTES);
    return VT_OK;
}

static VT_FAKE_CALL(fake_unmap, VT_COST_UNMAP, unmap(f, addr, size_bytes), uintptr_t addr,
                    size_t size_bytes)

    static vt_status fake_mapped(vt_vmm *vmm, uint64_t *size_bytes, uint64_t *n_mapping)
{
    vt_fake *f = vt_fake_enter_at_cost(vmm, 0);
    *size_bytes = f->space.mapped_bytes;
    *n_mapping = f->space.n_run;
    return vt_fake_leave(f, VT_OK);
}

// ---- birth and death

static void fake_close(vt_vmm *vmm)
{
    vt_fake *f = (vt_fake *)vmm;
    if (f->epitaph) *f->epitaph = vt_fake_look(vmm);
    vt_fake_space_free(&f->space);
    vt_fake_chunks_free(&f->chunks);
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
    .can_protect = fake_can_protect,
    .creates_zeroed = fake_creates_zeroed,
    .reserve = fake_reserve,
    .unreserve = fake_unreserve,
    .create = fake_create,
    .destroy = fake_destroy,
    .map = fake_map,
    .protect = fake_protect,
    .unmap = fake_unmap,
    .fetch = vt_fake_fetch,
    .copy_each = vt_fake_copy_each,
    .store = vt_fake_store,
    .zero = vt_fake_zero,
    .fence = vt_fake_fence,
    .passed = vt_fake_passed,
    .resident = fake_resident,
    .mapped = fake_mapped,
    .swap_open = vt_fake_open_swap,
    .swap_write = vt_fake_write_swap,
    .swap_read = vt_fake_read_swap,
    .swap_drop = vt_fake_drop_swap,
    .close = fake_close,
};

vt_vmm *vt_fake_open(void)
{
    vt_fake *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->vmm.ops = &fake_ops;
    pthread_mutex_init(&f->mu, NULL);
    f->max_runs = f->max_chunks = UINT64_MAX;
    f->space.next_addr = (uintptr_t)1 << 40;
    return &f->vmm;
}

#define SETTER(name, type, field, value) \
    void name(vt_vmm *vmm, type to)      \
    {                                    \
        vt_fake *f = vt_fake_enter(vmm); \
        f->field = value;                \
        (void)vt_fake_leave(f, VT_OK);   \
    }
SETTER(vt_fake_set_max_runs, uint64_t, max_runs, to)
SETTER(vt_fake_set_max_chunks, uint64_t, max_chunks, to)
SETTER(vt_fake_set_can_protect, bool, writable_aliases, !to)
SETTER(vt_fake_set_dirty_create, bool, dirty_create, to)
SETTER(vt_fake_set_async, bool, async, to)
SETTER(vt_fake_set_epitaph, vt_fake_report *, epitaph, to)

vt_fake_report vt_fake_look(const vt_vmm *vmm)
{
    vt_fake *f = vt_fake_enter(vmm);
    vt_fake_report now = f->now;
    now.reserved_bytes = f->space.reserved_bytes;
    now.n_created = f->chunks.n;
    now.n_mapped = f->space.n_slice;
    now.n_run = f->space.n_run;
    now.swapped_bytes = f->swap.n_page * VT_FAKE_PAGE_BYTES;
    (void)vt_fake_leave(f, VT_OK);
    return now;
}
