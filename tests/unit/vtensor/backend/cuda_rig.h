// cuda_rig.h - the GPU backend on the stand-in for NVIDIA's driver, with addresses to map at and
// helper functions. Each test program includes it once.
#ifndef VT_TEST_CUDA_RIG_H
#define VT_TEST_CUDA_RIG_H

#include <pthread.h>
#include <string.h>

#include "assert_vt.h"
#include "standin_assert.h"

#define SLICE   ((size_t)2 * STANDIN_GRANULARITY)
#define WIDE    ((size_t)3 * STANDIN_GRANULARITY)
#define N_INDEX ((uint64_t)1 << 40) // of each class
#define FAR     (N_INDEX - 2)       // an index far from 0, with one behind it
#define BROAD   N_INDEX             // the first of the second class, whose slices are WIDE

enum { N_SLICE = 3, N_PLACE = 24 };

static const vt_vmm_geometry rig_geometry = {
    .n_class = 2,
    .cls = {{.n_slice = N_SLICE, .slice_bytes = SLICE, .n_index = N_INDEX},
            {.n_slice = 1, .slice_bytes = WIDE, .n_index = N_INDEX}},
};

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

VT_FIXTURE(rig_setup)
{
    standin_reset();
    standin_use_context(0);
    assert_ok(open_vmm());
    assert_ok(vmm->ops->configure(vmm, &rig_geometry));
    assert_ok(vmm->ops->reserve(vmm, N_PLACE * SLICE, &base));
}

VT_FIXTURE(rig_teardown)
{
    standin_fail(NULL, 0, 0, 0);
    standin_use_context(0);
    assert_ok(vmm->ops->unreserve(vmm, base, N_PLACE * SLICE));
    vmm->ops->close(vmm);
    standin_assert_empty();
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

static inline uint64_t bytes_mapped(void)
{
    uint64_t size_bytes, n;
    assert_ok(vmm->ops->mapped(vmm, &size_bytes, &n));
    assert_int_equal(size_bytes, n * STANDIN_GRANULARITY);
    return size_bytes;
}

// What map gives is not zero: memory that the manager would wipe before use.
static inline void create_filled(uint64_t index, uint64_t n, int value)
{
    assert_ok(vmm->ops->create(vmm, index, n));
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t s = 0; s < N_SLICE; s++) {
            assert_ok(map(N_PLACE - 1, s, index + i, 1));
            memset((void *)place(N_PLACE - 1), value, SLICE);
            assert_ok(unmap(N_PLACE - 1, 1));
        }
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

#endif
