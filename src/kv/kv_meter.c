// kv_meter.c - the metered backend: the counted operations, then those that are only passed on.
#include "kv/kv_meter.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct meter_cell {
    _Atomic uint64_t n_call, n_failure, ns;
} meter_cell;

typedef struct kv_meter {
    vt_vmm vmm;
    vt_vmm_ops ops;
    vt_vmm *inner;
    bool owns_inner; // it was not given, and is closed with the meter
    meter_cell cell[FX_N_DRIVER_OP];
    _Atomic uint64_t moved_bytes, moved_ns;
    double run_share;
} kv_meter;

static kv_meter *meter_of(const vt_vmm *vmm)
{
    return (kv_meter *)vmm;
}

static vt_vmm *inner_of(const vt_vmm *vmm)
{
    return meter_of(vmm)->inner;
}

static void add_relaxed(_Atomic uint64_t *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static vt_status count_call(vt_vmm *vmm, fx_driver_op op, uint64_t start_ns, vt_status st)
{
    meter_cell *c = &meter_of(vmm)->cell[op];
    add_relaxed(&c->n_call, 1);
    if (st != VT_OK) add_relaxed(&c->n_failure, 1);
    add_relaxed(&c->ns, fxi_now_ns() - start_ns);
    return st;
}

// X(name, count, params, ...): an operation with these parameters next to the backend, which is
// called with these arguments, and counted as `count` of fx_driver_op.
#define METERED_OPS(X)                                                                           \
    X(reserve, reserve, (size_t n, uintptr_t * addr), n, addr)                                   \
    X(unreserve, unreserve, (uintptr_t addr, size_t n), addr, n)                                 \
    X(create, create, (uint64_t index, uint64_t n), index, n)                                    \
    X(destroy, destroy, (uint64_t index, uint64_t n), index, n)                                  \
    X(map, map, (uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n, vt_vmm_use use),    \
      addr, slice, index, n, use)                                                                \
    X(map_each, map,                                                                             \
      (uintptr_t addr, uint32_t slice, const uint64_t *index, uint64_t n, vt_vmm_use use), addr, \
      slice, index, n, use)                                                                      \
    X(protect, protect, (uintptr_t addr, size_t n, vt_vmm_use use), addr, n, use)                \
    X(unmap, unmap, (uintptr_t addr, size_t n), addr, n)                                         \
    X(fetch, fetch,                                                                              \
      (uintptr_t dst, uint32_t slice, uint64_t index, size_t at, size_t n, vt_vmm_order order),  \
      dst, slice, index, at, n, order)                                                           \
    X(store, store, (uint32_t slice, uint64_t index, size_t at, uintptr_t src, size_t n), slice, \
      index, at, src, n)                                                                         \
    X(zero, zero, (uintptr_t addr, size_t n, vt_vmm_order order), addr, n, order)

#define METER_PARAMS(...) __VA_ARGS__
#define METERED(name, op, params, ...)                              \
    static vt_status meter_##name(vt_vmm *vmm, METER_PARAMS params) \
    {                                                               \
        vt_vmm *const in = inner_of(vmm);                           \
        const uint64_t start_ns = fxi_now_ns();                     \
        const vt_status st = in->ops->name(in, __VA_ARGS__);        \
        return count_call(vmm, FX_DRIVER_##op, start_ns, st);       \
    }
METERED_OPS(METERED)

static vt_status count_move(vt_vmm *vmm, fx_driver_op op, uint64_t start_ns, size_t size_bytes,
                            vt_status st)
{
    kv_meter *m = meter_of(vmm);
    if (st == VT_OK) {
        add_relaxed(&m->moved_bytes, size_bytes);
        add_relaxed(&m->moved_ns, fxi_now_ns() - start_ns);
    }
    return count_call(vmm, op, start_ns, st);
}

static vt_status meter_swap_write(vt_vmm *vmm, uint64_t offset, uintptr_t src, size_t size_bytes,
                                  uint64_t *sum)
{
    const uint64_t start_ns = fxi_now_ns();
    vt_vmm *in = inner_of(vmm);
    return count_move(vmm, FX_DRIVER_swap_write, start_ns, size_bytes,
                      in->ops->swap_write(in, offset, src, size_bytes, sum));
}

static vt_status meter_swap_read(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                                 uint64_t *sum)
{
    const uint64_t start_ns = fxi_now_ns();
    vt_vmm *in = inner_of(vmm);
    return count_move(vmm, FX_DRIVER_swap_read, start_ns, size_bytes,
                      in->ops->swap_read(in, dst, offset, size_bytes, sum));
}

// ---- passed on --------------------------------------------------------------------------------

// X(type, name, params, ...): the same, not counted.
#define PASSED_OPS(X)                                                                           \
    X(size_t, granularity, (vt_vmm * vmm), inner_of(vmm))                                       \
    X(bool, can_protect, (vt_vmm * vmm), inner_of(vmm))                                         \
    X(bool, creates_zeroed, (vt_vmm * vmm), inner_of(vmm))                                      \
    X(vt_status, configure, (vt_vmm * vmm, const vt_vmm_geometry *geo), inner_of(vmm), geo)     \
    X(vt_status, fence, (vt_vmm * vmm, uint64_t * ticket), inner_of(vmm), ticket)               \
    X(vt_status, passed, (vt_vmm * vmm, uint64_t ticket, bool wait, bool *is_passed),           \
      inner_of(vmm), ticket, wait, is_passed)                                                   \
    X(vt_status, resident, (vt_vmm * vmm, uint64_t * n), inner_of(vmm), n)                      \
    X(vt_status, mapped, (vt_vmm * vmm, uint64_t * n, uint64_t * n_mapping), inner_of(vmm), n,  \
      n_mapping)                                                                                \
    X(vt_status, swap_open, (vt_vmm * vmm, const char *dir, uint64_t n), inner_of(vmm), dir, n) \
    X(void, swap_drop, (vt_vmm * vmm, uint64_t offset, size_t n), inner_of(vmm), offset, n)

#define PASSED_ON(type, name, params, ...)            \
    static type meter_##name(METER_PARAMS params)     \
    {                                                 \
        return inner_of(vmm)->ops->name(__VA_ARGS__); \
    }
PASSED_OPS(PASSED_ON)

static uint64_t meter_max_runs(vt_vmm *vmm)
{
    const uint64_t n = inner_of(vmm)->ops->max_runs(inner_of(vmm));
    const double share = meter_of(vmm)->run_share;
    return share > 0 && n < UINT64_MAX ? (uint64_t)((double)n * share) : n;
}

static void meter_close(vt_vmm *vmm)
{
    if (meter_of(vmm)->owns_inner) inner_of(vmm)->ops->close(inner_of(vmm));
    free(meter_of(vmm));
}

#define METERED_MEMBER(name, ...)      .name = meter_##name,
#define PASSED_MEMBER(type, name, ...) .name = meter_##name,
static const vt_vmm_ops meter_ops = {
    .name = "meter",
    .max_runs = meter_max_runs,
    .swap_write = meter_swap_write,
    .swap_read = meter_swap_read,
    .close = meter_close,
    METERED_OPS(METERED_MEMBER) // those counted
    PASSED_OPS(PASSED_MEMBER)   // and those passed on
};

// ---- life -------------------------------------------------------------------------------------

vt_status fxi_meter_open(vt_vmm *inner, double run_share, vt_vmm **out)
{
    *out = NULL;
    kv_meter *m = calloc(1, sizeof *m);
    if (!m) return VT_ENOMEM;
    m->ops = meter_ops;
    m->vmm.ops = &m->ops;
    m->inner = inner;
    m->owns_inner = !inner;
    m->run_share = run_share;
    vt_status st = inner ? VT_OK : vt_vmm_host_open(&m->inner);
    if (st != VT_OK) {
        free(m);
        return st;
    }
    if (!m->inner->ops->store) m->ops.store = NULL; // the manager asks whether there is one
    if (!m->inner->ops->map_each) m->ops.map_each = NULL;
    *out = &m->vmm;
    return VT_OK;
}

void fxi_meter_add(const vt_vmm *meter, fx_op_stats out[FX_N_DRIVER_OP])
{
    for (int i = 0; i < FX_N_DRIVER_OP; i++) {
        meter_cell *c = &meter_of(meter)->cell[i];
        out[i].n_call += atomic_load_explicit(&c->n_call, memory_order_relaxed);
        out[i].n_failure += atomic_load_explicit(&c->n_failure, memory_order_relaxed);
        out[i].ns += atomic_load_explicit(&c->ns, memory_order_relaxed);
    }
}

fxi_kv_moved fxi_meter_moved(const vt_vmm *meter)
{
    kv_meter *m = meter_of(meter);
    return (fxi_kv_moved){.bytes = atomic_load_explicit(&m->moved_bytes, memory_order_relaxed),
                          .ns = atomic_load_explicit(&m->moved_ns, memory_order_relaxed)};
}
