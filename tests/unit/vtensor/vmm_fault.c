// vmm_fault.c - see vmm_fault.h.
#include "vmm_fault.h"

#include <stdlib.h>

typedef enum mode { MODE_OFF, MODE_COUNT, MODE_RANDOM } mode;

typedef struct fault {
    vt_vmm vmm;
    vt_vmm *inner;
    mode mode;
    uint64_t first, n_more; // MODE_COUNT: calls first .. first + n_more fail
    vt_status st;
    uint64_t rng; // MODE_RANDOM
    uint32_t one_in;
    uint64_t n_call, n_fired;
} fault;

static fault *fault_of(vt_vmm *vmm)
{
    return (fault *)vmm;
}

// splitmix64
static uint64_t draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static vt_status verdict(fault *f, bool may_lack_space)
{
    uint64_t i = f->n_call++;
    if (f->mode == MODE_COUNT) return i >= f->first && i - f->first <= f->n_more ? f->st : VT_OK;
    if (f->mode == MODE_OFF || draw(&f->rng) % f->one_in != 0) return VT_OK;
    return may_lack_space && draw(&f->rng) % 2 ? VT_NOSPACE : VT_EDEVICE;
}

// The status with which this call is to fail, or VT_OK.
static vt_status strike(vt_vmm *vmm, bool may_lack_space)
{
    fault *f = fault_of(vmm);
    vt_status st = verdict(f, may_lack_space);
    f->n_fired += st != VT_OK;
    return st;
}

static size_t fault_granularity(vt_vmm *vmm)
{
    vt_vmm *in = fault_of(vmm)->inner;
    return in->ops->granularity(in);
}

static uint64_t fault_max_runs(vt_vmm *vmm)
{
    vt_vmm *in = fault_of(vmm)->inner;
    return in->ops->max_runs(in);
}

static void fault_close(vt_vmm *vmm)
{
    vt_vmm *in = fault_of(vmm)->inner;
    in->ops->close(in);
    free(vmm);
}

// Fails the call or passes it on.
#define PASS(op, may_lack_space, ...)           \
    vt_status st = strike(vmm, may_lack_space); \
    vt_vmm *in = fault_of(vmm)->inner;          \
    return st != VT_OK ? st : in->ops->op(in, __VA_ARGS__)

static vt_status fault_configure(vt_vmm *vmm, const vt_vmm_geometry *geo)
{
    PASS(configure, true, geo);
}

static vt_status fault_reserve(vt_vmm *vmm, size_t size_bytes, uintptr_t *addr)
{
    PASS(reserve, true, size_bytes, addr);
}

static vt_status fault_unreserve(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    PASS(unreserve, false, addr, size_bytes);
}

static vt_status fault_create(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    PASS(create, true, index, n);
}

static vt_status fault_destroy(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    PASS(destroy, false, index, n);
}

static vt_status fault_map(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n)
{
    PASS(map, true, addr, slice, index, n);
}

static vt_status fault_unmap(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    PASS(unmap, false, addr, size_bytes);
}

static vt_status fault_copy(vt_vmm *vmm, uintptr_t dst, uintptr_t src, size_t size_bytes)
{
    PASS(copy, false, dst, src, size_bytes);
}

static vt_status fault_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    PASS(zero, false, addr, size_bytes);
}

static vt_status fault_resident(vt_vmm *vmm, uint64_t *size_bytes)
{
    PASS(resident, false, size_bytes);
}

static const vt_vmm_ops fault_ops = {
    .name = "fault",
    .granularity = fault_granularity,
    .configure = fault_configure,
    .max_runs = fault_max_runs,
    .reserve = fault_reserve,
    .unreserve = fault_unreserve,
    .create = fault_create,
    .destroy = fault_destroy,
    .map = fault_map,
    .unmap = fault_unmap,
    .copy = fault_copy,
    .zero = fault_zero,
    .resident = fault_resident,
    .close = fault_close,
};

vt_vmm *vt_fault_open(vt_vmm *inner)
{
    fault *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->vmm.ops = &fault_ops;
    f->inner = inner;
    return &f->vmm;
}

static void arm(vt_vmm *vmm, mode how)
{
    fault *f = fault_of(vmm);
    f->mode = how;
    f->n_call = f->n_fired = 0;
}

void vt_fault_arm(vt_vmm *vmm, uint64_t i, uint64_t n_more, vt_status st)
{
    fault *f = fault_of(vmm);
    arm(vmm, MODE_COUNT);
    f->first = i;
    f->n_more = n_more;
    f->st = st;
}

void vt_fault_arm_random(vt_vmm *vmm, uint64_t seed, uint32_t one_in)
{
    fault *f = fault_of(vmm);
    arm(vmm, MODE_RANDOM);
    f->rng = seed;
    f->one_in = one_in;
}

void vt_fault_disarm(vt_vmm *vmm)
{
    fault_of(vmm)->mode = MODE_OFF;
}

uint64_t vt_fault_fired(const vt_vmm *vmm)
{
    return ((const fault *)vmm)->n_fired;
}

uint64_t vt_fault_calls(const vt_vmm *vmm)
{
    return ((const fault *)vmm)->n_call;
}
