// fake_rig.h - for the tests of the test backends: a fake with some chunks and mappings, and short
// names for its calls.
#ifndef VT_TEST_FAKE_RIG_H
#define VT_TEST_FAKE_RIG_H

#include <stdbool.h>

#include "assert_vt.h"
#include "vmm_fake.h"

enum { PAGE = VT_FAKE_PAGE_BYTES, SLICE = 2 * PAGE, N_SLICE = 3, ROOM = 16 * SLICE };

#define N_INDEX (UINT64_C(1) << 40) // far more than there could be memory for

static vt_vmm *vmm;
static uintptr_t addr; // a reservation of ROOM bytes
static vt_fake_report end;
static uint64_t sum; // of a swap
static bool flag;    // of passed

static inline vt_status map(uintptr_t at, uint32_t slice, uint64_t index, uint64_t n)
{
    return vmm->ops->map(vmm, at, slice, index, n, VT_VMM_WRITE);
}

static inline vt_status unmap(uintptr_t at, size_t size_bytes)
{
    return vmm->ops->unmap(vmm, at, size_bytes);
}

static inline vt_status create(uint64_t index, uint64_t n)
{
    return vmm->ops->create(vmm, index, n);
}

static inline vt_status destroy(uint64_t index, uint64_t n)
{
    return vmm->ops->destroy(vmm, index, n);
}

static inline vt_status protect(uintptr_t at, size_t size_bytes, vt_vmm_use use)
{
    return vmm->ops->protect(vmm, at, size_bytes, use);
}

static inline vt_status zero(uintptr_t at, size_t size_bytes, vt_vmm_order order)
{
    return vmm->ops->zero(vmm, at, size_bytes, order);
}

static inline vt_status copy(uintptr_t dst, uint32_t slice, uint64_t index, size_t offset,
                             size_t size)
{
    return vmm->ops->fetch(vmm, dst, slice, index, offset, size, VT_VMM_QUEUED);
}

static inline vt_status fetch(uintptr_t dst, uint32_t slice, uint64_t index, size_t offset,
                              size_t size)
{
    return vmm->ops->fetch(vmm, dst, slice, index, offset, size, VT_VMM_NOW);
}

// Chunks 5 and 6 are created; slice 1 of both is mapped at addr. A swap is open.
VT_FIXTURE(setup)
{
    vt_vmm_geometry geo = {.n_class = 1, .cls = {{N_SLICE, SLICE, N_INDEX}}};
    vmm = vt_fake_open();
    assert_ok(vmm->ops->configure(vmm, &geo));
    vt_fake_set_epitaph(vmm, &end);
    assert_ok(vmm->ops->reserve(vmm, ROOM, &addr));
    assert_ok(create(5, 2));
    assert_ok(vmm->ops->swap_open(vmm, NULL, 8 * SLICE));
    assert_ok(map(addr, 1, 5, 2));
    assert_int_equal(vt_fake_look(vmm).n_violation, 0);
}

VT_FIXTURE(teardown)
{
    vmm->ops->close(vmm);
}

// The one breach found so far is this, and it changed nothing.
static inline void assert_breach(vt_status st, const char *what)
{
    vt_fake_report now = vt_fake_look(vmm);
    assert_int_equal(st, VT_EINVAL);
    assert_int_equal(now.n_violation, 1);
    assert_string_equal(now.violation, what);
    assert_true(now.n_created == 2 && now.n_mapped == 2 && now.n_run == 1);
    assert_int_equal(now.reserved_bytes, ROOM);
}

static inline void assert_no_breach(void)
{
    assert_int_equal(vt_fake_look(vmm).n_violation, 0);
}

#endif
