// cuda_rig.h - the GPU backend on the stand-in for NVIDIA's driver, with addresses to map at and
// helper functions. Each test program includes it once.
#ifndef VT_TEST_CUDA_RIG_H
#define VT_TEST_CUDA_RIG_H

#include <pthread.h>

#include "assert_vt.h"
#include "standin_assert.h"

#define N_INDEX ((uint64_t)1 << 40)
#define SLICE   ((size_t)2 * STANDIN_GRANULARITY)
#define FAR     (N_INDEX - 2) // an index far from 0, with one behind it

enum { N_SLICE = 3, N_PLACE = 24 };

static vt_vmm *vmm;
static uintptr_t base; // a reservation of N_PLACE slices

static inline uintptr_t place(int i)
{
    return base + (size_t)i * SLICE;
}

static inline vt_status open_vmm(void)
{
    vt_vmm_cuda_config cfg = {.device = 0, .stream = NULL};
    const char *why = NULL;
    return vt_vmm_cuda_open(&cfg, &vmm, &why);
}

static inline int rig_setup(void **state)
{
    (void)state;
    standin_reset();
    standin_use_context(0);
    vt_vmm_geometry geo = {.n_slice = N_SLICE, .slice_bytes = SLICE, .n_index = N_INDEX};
    if (open_vmm() != VT_OK || vmm->ops->configure(vmm, &geo) != VT_OK) return -1;
    return vmm->ops->reserve(vmm, N_PLACE * SLICE, &base) == VT_OK ? 0 : -1;
}

static inline int rig_teardown(void **state)
{
    (void)state;
    standin_fail(NULL, 0, 0, 0);
    standin_use_context(0);
    if (vmm->ops->unreserve(vmm, base, N_PLACE * SLICE) != VT_OK) return -1;
    vmm->ops->close(vmm);
    standin_assert_empty();
    return 0;
}

static inline vt_status map(int at, uint32_t slice, uint64_t index, uint64_t n)
{
    return vmm->ops->map(vmm, place(at), slice, index, n, VT_VMM_WRITE);
}

static inline vt_status unmap(int at, int n)
{
    return vmm->ops->unmap(vmm, place(at), (size_t)n * SLICE);
}

static inline void assert_bytes(uintptr_t at, int value, size_t size_bytes)
{
    const unsigned char *p = (const unsigned char *)at;
    for (size_t i = 0; i < size_bytes; i++)
        if (p[i] != value) assert_int_equal(p[i], value);
}

static inline uint64_t resident(void)
{
    uint64_t size_bytes = 0;
    assert_ok(vmm->ops->resident(vmm, &size_bytes));
    return size_bytes;
}

static inline uint64_t n_mapping(void)
{
    uint64_t size_bytes, n;
    assert_ok(vmm->ops->mapped(vmm, &size_bytes, &n));
    assert_int_equal(size_bytes, n * SLICE);
    return n;
}

// A call of the backend in a thread of its own, which has no context.
typedef struct errand {
    pthread_t thread;
    vt_status (*run)(void);
    vt_status st;
    int depth; // of contexts, afterwards
} errand;

static inline void *run_errand(void *arg)
{
    errand *e = arg;
    e->st = e->run();
    e->depth = standin_context_depth();
    return NULL;
}

static inline void send(errand *e, vt_status (*run)(void))
{
    *e = (errand){.run = run};
    assert_int_equal(pthread_create(&e->thread, NULL, run_errand, e), 0);
}

static inline void meet(errand *e)
{
    pthread_join(e->thread, NULL);
    assert_ok(e->st);
    assert_int_equal(e->depth, 0);
}

static inline bool passed(uint64_t ticket, bool wait)
{
    bool is_passed = wait;
    assert_ok(vmm->ops->passed(vmm, ticket, wait, &is_passed));
    return is_passed;
}

static inline uint64_t fence(void)
{
    uint64_t ticket = 0;
    assert_ok(vmm->ops->fence(vmm, &ticket));
    assert_true(ticket > 0);
    return ticket;
}

#define ON_STANDIN(test) cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

#endif
