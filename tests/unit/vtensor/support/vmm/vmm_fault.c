// vmm_fault.c - see vmm_fault.h. The lock is held to decide, never while a call runs.
#include "vmm_fault.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef enum mode { MODE_OFF, MODE_COUNT, MODE_RANDOM } mode;

// How a call is treated.
enum {
    CALL_PLAIN = 0,
    CALL_MAY_LACK_SPACE = 1,
    CALL_GATED = 2,
    CALL_WRITES = 4, // the swap
    CALL_READS = 8,
};

typedef struct fault {
    vt_vmm vmm;
    vt_vmm_ops ops; // what the inner backend has
    vt_vmm *inner;
    size_t granularity;     // 0: the inner one's
    uint64_t max_runs;      // 0: the inner one's
    pthread_mutex_t mu;     // guards all below
    pthread_cond_t changed; // hold.., n_held
    mode mode;
    uint64_t first, n_more; // MODE_COUNT: calls first .. first + n_more fail
    vt_status st;
    uint64_t rng; // MODE_RANDOM
    uint32_t one_in;
    uint64_t n_call, n_fired;
    uint64_t delay_rng;
    uint32_t delay_max_us;
    bool hold, hold_writes, hold_reads;
    uint64_t n_held;
    pthread_t here; // that called vt_fault_hold_swap
    bool has_here;
    uint64_t n_swap_here;
} fault;

static fault *fault_of(vt_vmm *vmm)
{
    return (fault *)vmm;
}

static fault *lock(const vt_vmm *vmm)
{
    fault *f = (fault *)vmm;
    pthread_mutex_lock(&f->mu);
    return f;
}

static void unlock(fault *f)
{
    pthread_mutex_unlock(&f->mu);
}

// splitmix64
static uint64_t draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void dawdle(vt_vmm *vmm)
{
    fault *f = lock(vmm);
    uint64_t us = f->delay_max_us > 0 ? draw(&f->delay_rng) % (f->delay_max_us + UINT64_C(1)) : 0;
    unlock(f);
    if (us > 0) usleep((useconds_t)us);
}

static void wait_at_gate(fault *f, const bool *hold)
{
    f->n_held++;
    pthread_cond_broadcast(&f->changed);
    while (*hold) pthread_cond_wait(&f->changed, &f->mu);
    f->n_held--;
}

// Whether the caller is the thread that holds them up.
static bool note_swap(fault *f)
{
    bool is_here = f->has_here && pthread_equal(f->here, pthread_self());
    f->n_swap_here += is_here;
    return is_here;
}

static void swap_gate(fault *f, const bool *hold)
{
    if (!note_swap(f) && *hold) wait_at_gate(f, hold);
}

static vt_status verdict(fault *f, bool may_lack_space)
{
    uint64_t i = f->n_call++;
    vt_status st = f->st == VT_NOSPACE && !may_lack_space ? VT_EDEVICE : f->st;
    if (f->mode == MODE_COUNT) return i >= f->first && i - f->first <= f->n_more ? st : VT_OK;
    if (f->mode == MODE_OFF || draw(&f->rng) % f->one_in != 0) return VT_OK;
    return may_lack_space && draw(&f->rng) % 2 ? VT_NOSPACE : VT_EDEVICE;
}

// The status with which this call is to fail, or VT_OK.
static vt_status strike(vt_vmm *vmm, int how)
{
    dawdle(vmm);
    fault *f = lock(vmm);
    if ((how & CALL_GATED) && f->hold) wait_at_gate(f, &f->hold);
    if (how & (CALL_WRITES | CALL_READS))
        swap_gate(f, how & CALL_READS ? &f->hold_reads : &f->hold_writes);
    vt_status st = verdict(f, how & CALL_MAY_LACK_SPACE);
    f->n_fired += st != VT_OK;
    unlock(f);
    return st;
}

static size_t fault_granularity(vt_vmm *vmm)
{
    const fault *f = fault_of(vmm);
    return f->granularity ? f->granularity : f->inner->ops->granularity(f->inner);
}

static uint64_t fault_max_runs(vt_vmm *vmm)
{
    const fault *f = fault_of(vmm);
    return f->max_runs > 0 ? f->max_runs : f->inner->ops->max_runs(f->inner);
}

static bool fault_can_protect(vt_vmm *vmm)
{
    vt_vmm *in = fault_of(vmm)->inner;
    return in->ops->can_protect(in);
}

static bool fault_creates_zeroed(vt_vmm *vmm)
{
    vt_vmm *in = fault_of(vmm)->inner;
    return in->ops->creates_zeroed(in);
}

static void fault_close(vt_vmm *vmm)
{
    fault *f = fault_of(vmm);
    f->inner->ops->close(f->inner);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->mu);
    free(f);
}

// A call that fails as armed, or is passed on.
#define PASS(op, how, args, ...)                          \
    static vt_status fault_##op(vt_vmm *vmm, __VA_ARGS__) \
    {                                                     \
        vt_status st = strike(vmm, how);                  \
        vt_vmm *in = fault_of(vmm)->inner;                \
        return st != VT_OK ? st : in->ops->op args;       \
    }

PASS(configure, CALL_MAY_LACK_SPACE, (in, geo), const vt_vmm_geometry *geo)
PASS(reserve, CALL_MAY_LACK_SPACE, (in, size_bytes, addr), size_t size_bytes, uintptr_t *addr)
PASS(unreserve, CALL_PLAIN, (in, addr, size_bytes), uintptr_t addr, size_t size_bytes)
PASS(create, CALL_MAY_LACK_SPACE | CALL_GATED, (in, index, n), uint64_t index, uint64_t n)
PASS(destroy, CALL_GATED, (in, index, n), uint64_t index, uint64_t n)
PASS(map, CALL_MAY_LACK_SPACE | CALL_GATED, (in, addr, slice, index, n, use), uintptr_t addr,
     uint32_t slice, uint64_t index, uint64_t n, vt_vmm_use use)
PASS(map_each, CALL_MAY_LACK_SPACE | CALL_GATED, (in, addr, slice, index, n, use), uintptr_t addr,
     uint32_t slice, const uint64_t *index, uint64_t n, vt_vmm_use use)
PASS(protect, CALL_MAY_LACK_SPACE | CALL_GATED, (in, addr, size_bytes, use), uintptr_t addr,
     size_t size_bytes, vt_vmm_use use)
PASS(unmap, CALL_GATED, (in, addr, size_bytes), uintptr_t addr, size_t size_bytes)
PASS(store, CALL_PLAIN, (in, slice, index, offset, src, size_bytes), uint32_t slice, uint64_t index,
     size_t offset, uintptr_t src, size_t size_bytes)
PASS(fetch, CALL_PLAIN, (in, dst, slice, index, offset, size_bytes, order), uintptr_t dst,
     uint32_t slice, uint64_t index, size_t offset, size_t size_bytes, vt_vmm_order order)
PASS(copy_each, CALL_PLAIN, (in, copy, n, order), const vt_vmm_copy *copy, uint64_t n,
     vt_vmm_order order)
PASS(zero, CALL_GATED, (in, addr, size_bytes, order), uintptr_t addr, size_t size_bytes,
     vt_vmm_order order)
PASS(fence, CALL_PLAIN, (in, ticket), uint64_t *ticket)
PASS(passed, CALL_PLAIN, (in, ticket, wait, is_passed), uint64_t ticket, bool wait, bool *is_passed)
PASS(resident, CALL_PLAIN, (in, size_bytes), uint64_t *size_bytes)
PASS(mapped, CALL_PLAIN, (in, size_bytes, n_mapping), uint64_t *size_bytes, uint64_t *n_mapping)
PASS(swap_open, CALL_MAY_LACK_SPACE, (in, dir, size_bytes), const char *dir, uint64_t size_bytes)
PASS(swap_write, CALL_MAY_LACK_SPACE | CALL_WRITES, (in, offset, src, size_bytes, sum),
     uint64_t offset, uintptr_t src, size_t size_bytes, uint64_t *sum)
PASS(swap_read, CALL_READS, (in, dst, offset, size_bytes, sum), uintptr_t dst, uint64_t offset,
     size_t size_bytes, uint64_t *sum)

static void fault_swap_drop(vt_vmm *vmm, uint64_t offset, size_t size_bytes)
{
    vt_vmm *in = fault_of(vmm)->inner;
    fault *f = lock(vmm);
    (void)note_swap(f);
    unlock(f);
    in->ops->swap_drop(in, offset, size_bytes);
}

static const vt_vmm_ops fault_ops = {
    .name = "fault",
    .granularity = fault_granularity,
    .configure = fault_configure,
    .max_runs = fault_max_runs,
    .can_protect = fault_can_protect,
    .creates_zeroed = fault_creates_zeroed,
    .reserve = fault_reserve,
    .unreserve = fault_unreserve,
    .create = fault_create,
    .destroy = fault_destroy,
    .map = fault_map,
    .map_each = fault_map_each,
    .protect = fault_protect,
    .unmap = fault_unmap,
    .fetch = fault_fetch,
    .store = fault_store,
    .copy_each = fault_copy_each,
    .zero = fault_zero,
    .fence = fault_fence,
    .passed = fault_passed,
    .resident = fault_resident,
    .mapped = fault_mapped,
    .swap_open = fault_swap_open,
    .swap_write = fault_swap_write,
    .swap_read = fault_swap_read,
    .swap_drop = fault_swap_drop,
    .close = fault_close,
};

vt_vmm *vt_fault_open(vt_vmm *inner)
{
    fault *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->ops = fault_ops;
    if (!inner->ops->map_each) f->ops.map_each = NULL;
    f->vmm.ops = &f->ops;
    f->inner = inner;
    pthread_mutex_init(&f->mu, NULL);
    pthread_cond_init(&f->changed, NULL);
    return &f->vmm;
}

static void arm(fault *f, mode how)
{
    f->mode = how;
    f->n_call = f->n_fired = 0;
}

void vt_fault_set_granularity(vt_vmm *vmm, size_t bytes)
{
    fault_of(vmm)->granularity = bytes;
}

void vt_fault_set_max_runs(vt_vmm *vmm, uint64_t max_runs)
{
    fault_of(vmm)->max_runs = max_runs;
}

void vt_fault_arm(vt_vmm *vmm, uint64_t i, uint64_t n_more, vt_status st)
{
    fault *f = lock(vmm);
    arm(f, MODE_COUNT);
    f->first = i;
    f->n_more = n_more;
    f->st = st;
    unlock(f);
}

void vt_fault_arm_random(vt_vmm *vmm, uint64_t seed, uint32_t one_in)
{
    fault *f = lock(vmm);
    arm(f, MODE_RANDOM);
    f->rng = seed;
    f->one_in = one_in;
    unlock(f);
}

void vt_fault_disarm(vt_vmm *vmm)
{
    fault *f = lock(vmm);
    f->mode = MODE_OFF;
    unlock(f);
}

#define GETTER(name, field)          \
    uint64_t name(const vt_vmm *vmm) \
    {                                \
        fault *f = lock(vmm);        \
        uint64_t n = f->field;       \
        unlock(f);                   \
        return n;                    \
    }
GETTER(vt_fault_fired, n_fired)
GETTER(vt_fault_calls, n_call)
GETTER(vt_fault_swap_here, n_swap_here)
GETTER(vt_fault_held, n_held)

void vt_fault_hold_swap(vt_vmm *vmm, bool writes, bool reads)
{
    fault *f = lock(vmm);
    f->hold_writes = writes;
    f->hold_reads = reads;
    f->here = pthread_self();
    f->has_here = true;
    pthread_cond_broadcast(&f->changed);
    unlock(f);
}

void vt_fault_set_delay(vt_vmm *vmm, uint64_t seed, uint32_t max_us)
{
    fault *f = lock(vmm);
    f->delay_rng = seed;
    f->delay_max_us = max_us;
    unlock(f);
}

void vt_fault_hold(vt_vmm *vmm, bool hold)
{
    fault *f = lock(vmm);
    f->hold = hold;
    pthread_cond_broadcast(&f->changed);
    unlock(f);
}

void vt_fault_await_held(vt_vmm *vmm, uint64_t n)
{
    fault *f = lock(vmm);
    while (f->n_held < n) pthread_cond_wait(&f->changed, &f->mu);
    unlock(f);
}
