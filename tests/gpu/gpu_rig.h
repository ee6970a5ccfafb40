// gpu_rig.h - the GPU backend on a GPU, with addresses to map at and helper functions. Each test
// program includes it once.
#ifndef VT_TEST_GPU_RIG_H
#define VT_TEST_GPU_RIG_H

#include <stdlib.h>
#include <string.h>

#include "gpu_context.h"
#include "unit/cmocka_all.h"
#include "vtensor/vmm.h"

#define assert_ok(expr) assert_int_equal((expr), VT_OK)

enum { N_SLICE = 2, N_PLACE = 64 };

static gpu_context *gpu;
static vt_vmm *vmm;
static size_t slice;
static uintptr_t base; // N_PLACE slices
static unsigned char *bytes;

static inline uintptr_t place_at(int i)
{
    return base + (size_t)i * slice;
}

// Two classes; the chunks of the second have one slice of twice the length.
enum { BROAD = 1 << 20 };

static inline vt_vmm_geometry geometry_of(size_t slice_bytes)
{
    return (vt_vmm_geometry){
        .n_class = 2,
        .cls = {{.n_slice = N_SLICE, .slice_bytes = slice_bytes, .n_index = BROAD},
                {.n_slice = 1, .slice_bytes = 2 * slice_bytes, .n_index = BROAD}},
    };
}

static inline int open_rig(const vt_vmm_cuda_config *cfg)
{
    const char *why = NULL;
    if (vt_vmm_cuda_open(cfg, &vmm, &why) != VT_OK) {
        print_message("vt_vmm_cuda_open: %s\n", why ? why : "no memory");
        return -1;
    }
    slice = vmm->ops->granularity(vmm);
    bytes = malloc(slice);
    vt_vmm_geometry geo = geometry_of(slice);
    if (!bytes || vmm->ops->configure(vmm, &geo) != VT_OK) return -1;
    return vmm->ops->reserve(vmm, N_PLACE * slice, &base) == VT_OK ? 0 : -1;
}

static inline int setup(void **state)
{
    (void)state;
    vt_vmm_cuda_config cfg = {.device = gpu_device(gpu), .stream = NULL};
    return open_rig(&cfg);
}

static inline int teardown(void **state)
{
    (void)state;
    free(bytes);
    vt_status st = vmm->ops->unreserve(vmm, base, N_PLACE * slice);
    vmm->ops->close(vmm);
    return st == VT_OK ? 0 : -1;
}

static inline vt_status map_at(int at, uint32_t s, uint64_t index, uint64_t n)
{
    return vmm->ops->map(vmm, place_at(at), s, index, n, VT_VMM_WRITE);
}

static inline vt_status unmap_at(int at, int n)
{
    return vmm->ops->unmap(vmm, place_at(at), (size_t)n * slice);
}

static inline vt_status fetch_to(int at, uint32_t s, uint64_t index, vt_vmm_order order)
{
    return vmm->ops->fetch(vmm, place_at(at), s, index, 0, slice, order);
}

static inline void assert_bytes(uintptr_t at, int value, size_t size_bytes)
{
    assert_true(size_bytes <= slice);
    assert_true(gpu_read(gpu, bytes, at, size_bytes));
    for (size_t i = 0; i < size_bytes; i++)
        if (bytes[i] != value) assert_int_equal(bytes[i], value);
}

static inline void fill_bytes(uintptr_t at, int value, size_t size_bytes)
{
    assert_true(gpu_fill(gpu, NULL, at, (unsigned char)value, size_bytes));
    assert_true(gpu_synchronize(gpu));
}

static inline void create_chunks(uint64_t index, uint64_t n)
{
    assert_ok(vmm->ops->create(vmm, index, n));
}

static inline void destroy_chunks(uint64_t index, uint64_t n)
{
    assert_ok(vmm->ops->destroy(vmm, index, n));
}

static inline uint64_t fence(void)
{
    uint64_t ticket = 0;
    assert_ok(vmm->ops->fence(vmm, &ticket));
    return ticket;
}

static inline bool passed(uint64_t ticket, bool wait)
{
    bool is_passed = wait;
    assert_ok(vmm->ops->passed(vmm, ticket, wait, &is_passed));
    return is_passed;
}

FX_RUN(run_listed)

// The file's tests, or the status of a skipped test where there is no GPU.
static inline int run_on_gpu(void)
{
    const char *why;
    gpu = gpu_open(&why);
    if (!gpu) {
        print_message("skipped: %s\n", why);
        return GPU_SKIPPED;
    }
    print_message("%s, driver %d\n", gpu_name(gpu), gpu_driver_version(gpu));
    int rc = run_listed();
    gpu_close(gpu);
    return rc;
}

#endif
