// simulated_memory.c - the backend without memory: what it must know is the size of a chunk by its
// index and the calls' costs.
#include "lab/simulated_memory.h"

#include <stdlib.h>

#define FIRST_ADDRESS ((uintptr_t)1 << 40) // of reservations, which follow each other

typedef struct simulated_vmm {
    vt_vmm vmm;
    size_t granularity;
    vt_vmm_geometry geo;
    uintptr_t next;
    fxi_memory_costs costs;
    fxi_simulated_memory seen;
} simulated_vmm;

static simulated_vmm *simulated_of(vt_vmm *vmm)
{
    return (simulated_vmm *)vmm;
}

static void add_cost(simulated_vmm *p, double us)
{
    *(p->seen.is_beside ? &p->seen.beside_us : &p->seen.owner_us) += us;
}

static const vt_vmm_class *simulated_class(const simulated_vmm *p, uint64_t index)
{
    uint32_t c = 0;
    for (; c + 1 < p->geo.n_class && index >= p->geo.cls[c].n_index; c++)
        index -= p->geo.cls[c].n_index;
    return &p->geo.cls[c];
}

static uint64_t chunk_bytes(const vt_vmm_class *c)
{
    return (uint64_t)c->n_slice * c->slice_bytes;
}

static size_t simulated_granularity(vt_vmm *vmm)
{
    return simulated_of(vmm)->granularity;
}

static vt_status simulated_configure(vt_vmm *vmm, const vt_vmm_geometry *geo)
{
    simulated_of(vmm)->geo = *geo;
    return VT_OK;
}

static uint64_t simulated_max_runs(vt_vmm *vmm)
{
    (void)vmm;
    return UINT64_MAX;
}

static bool simulated_yes(vt_vmm *vmm)
{
    (void)vmm;
    return true;
}

static vt_status simulated_reserve(vt_vmm *vmm, size_t size_bytes, uintptr_t *addr)
{
    simulated_vmm *p = simulated_of(vmm);
    if (size_bytes > UINTPTR_MAX - p->next) return VT_NOSPACE;
    *addr = p->next;
    p->next += size_bytes;
    add_cost(p, p->costs.reserve_us);
    return VT_OK;
}

static vt_status simulated_unreserve(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    (void)vmm, (void)addr, (void)size_bytes;
    return VT_OK;
}

// A driver creates each slice by itself.
static vt_status simulated_create(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    simulated_vmm *p = simulated_of(vmm);
    const vt_vmm_class *c = simulated_class(p, index);
    p->seen.created_bytes += n * chunk_bytes(c);
    p->seen.n_call++;
    add_cost(p, (double)(n * c->n_slice) * p->costs.create_us);
    return VT_OK;
}

static vt_status simulated_destroy(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    simulated_vmm *p = simulated_of(vmm);
    p->seen.created_bytes -= n * chunk_bytes(simulated_class(p, index));
    p->seen.n_call++;
    return VT_OK;
}

static vt_status simulated_map(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index,
                               uint64_t n, vt_vmm_use use)
{
    (void)addr, (void)slice, (void)use;
    simulated_vmm *p = simulated_of(vmm);
    p->seen.mapped_bytes += n * simulated_class(p, index)->slice_bytes;
    p->seen.n_call++;
    add_cost(p, (double)n * p->costs.map_us + p->costs.protect_us); // access is set once for a run
    return VT_OK;
}

// Access is set once for all of them.
static vt_status simulated_map_each(vt_vmm *vmm, uintptr_t addr, uint32_t slice,
                                    const uint64_t *index, uint64_t n, vt_vmm_use use)
{
    return simulated_map(vmm, addr, slice, index[0], n, use);
}

static vt_status simulated_protect(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_use use)
{
    (void)addr, (void)size_bytes, (void)use;
    simulated_vmm *p = simulated_of(vmm);
    p->seen.n_call++;
    add_cost(p, p->costs.protect_us);
    return VT_OK;
}

static vt_status simulated_unmap(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    (void)addr;
    simulated_vmm *p = simulated_of(vmm);
    p->seen.mapped_bytes -= size_bytes;
    p->seen.n_call++;
    add_cost(p, p->costs.unmap_us);
    return VT_OK;
}

static vt_status simulated_fetch(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index,
                                 size_t offset, size_t size_bytes, vt_vmm_order order)
{
    (void)dst, (void)slice, (void)index, (void)offset, (void)order;
    add_cost(simulated_of(vmm), (double)size_bytes / 1e9 * simulated_of(vmm)->costs.copy_us_per_gb);
    return VT_OK;
}

static vt_status simulated_copy_each(vt_vmm *vmm, const vt_vmm_copy *copy, uint64_t n,
                                     vt_vmm_order order)
{
    for (uint64_t i = 0; i < n; i++) simulated_fetch(vmm, 0, 0, 0, 0, copy[i].size_bytes, order);
    return VT_OK;
}

static vt_status simulated_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_order order)
{
    (void)addr, (void)order;
    add_cost(simulated_of(vmm), (double)size_bytes / 1e9 * simulated_of(vmm)->costs.copy_us_per_gb);
    return VT_OK;
}

static vt_status simulated_fence(vt_vmm *vmm, uint64_t *ticket)
{
    (void)vmm;
    *ticket = 0;
    return VT_OK;
}

static vt_status simulated_passed(vt_vmm *vmm, uint64_t ticket, bool wait, bool *is_passed)
{
    (void)vmm, (void)ticket, (void)wait;
    *is_passed = true;
    return VT_OK;
}

static vt_status simulated_resident(vt_vmm *vmm, uint64_t *size_bytes)
{
    *size_bytes = simulated_of(vmm)->seen.created_bytes;
    return VT_OK;
}

static vt_status simulated_mapped(vt_vmm *vmm, uint64_t *size_bytes, uint64_t *n_mapping)
{
    *size_bytes = simulated_of(vmm)->seen.mapped_bytes;
    *n_mapping = 0;
    return VT_OK;
}

static vt_status simulated_swap_open(vt_vmm *vmm, const char *dir, uint64_t size_bytes)
{
    (void)vmm, (void)dir, (void)size_bytes;
    return VT_OK;
}

static vt_status swap_bytes(vt_vmm *vmm, size_t size_bytes, uint64_t *sum)
{
    simulated_of(vmm)->seen.n_call++;
    simulated_of(vmm)->seen.swapped_bytes += size_bytes;
    add_cost(simulated_of(vmm), (double)size_bytes / 1e9 * simulated_of(vmm)->costs.swap_us_per_gb);
    *sum = 0;
    return VT_OK;
}

static vt_status simulated_swap_write(vt_vmm *vmm, uint64_t offset, uintptr_t src,
                                      size_t size_bytes, uint64_t *sum)
{
    (void)offset, (void)src;
    return swap_bytes(vmm, size_bytes, sum);
}

static vt_status simulated_swap_read(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                                     uint64_t *sum)
{
    (void)offset, (void)dst;
    return swap_bytes(vmm, size_bytes, sum);
}

static void simulated_swap_drop(vt_vmm *vmm, uint64_t offset, size_t size_bytes)
{
    (void)vmm, (void)offset, (void)size_bytes;
}

static void simulated_close(vt_vmm *vmm)
{
    free(vmm);
}

static const vt_vmm_ops simulated_ops = {
    .name = "simulated",
    .granularity = simulated_granularity,
    .configure = simulated_configure,
    .max_runs = simulated_max_runs,
    .can_protect = simulated_yes,
    .creates_zeroed = simulated_yes,
    .reserve = simulated_reserve,
    .unreserve = simulated_unreserve,
    .create = simulated_create,
    .destroy = simulated_destroy,
    .map = simulated_map,
    .map_each = simulated_map_each,
    .protect = simulated_protect,
    .unmap = simulated_unmap,
    .fetch = simulated_fetch,
    .copy_each = simulated_copy_each,
    .zero = simulated_zero,
    .fence = simulated_fence,
    .passed = simulated_passed,
    .resident = simulated_resident,
    .mapped = simulated_mapped,
    .swap_open = simulated_swap_open,
    .swap_write = simulated_swap_write,
    .swap_read = simulated_swap_read,
    .swap_drop = simulated_swap_drop,
    .close = simulated_close,
};

vt_vmm *fxi_simulated_memory_open(size_t granularity, const fxi_memory_costs *costs)
{
    simulated_vmm *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->vmm.ops = &simulated_ops;
    p->granularity = granularity;
    p->next = FIRST_ADDRESS;
    p->costs = *costs;
    return &p->vmm;
}

fxi_simulated_memory *fxi_simulated_memory_of(vt_vmm *vmm)
{
    return &simulated_of(vmm)->seen;
}
