// gpu_vmm_cost.c - what the calls of virtual memory management cost, by the size of a handle, and
// how fast memory can be given to sequences (vAttention's tables 2 and 7), as CSV.
//
//     gpu_vmm_cost [small]
//
// Medians over many calls, in microseconds; GB/s is size / (create + map + set access).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "gpu/driver/cu.h"
#include "vtensor/backend/cuda/cuda_driver.h"

enum { MAX_HANDLE = 512 };

// The steps of a handle's life, in order.
typedef enum vmm_step { CREATE, MAP, ACCESS, UNMAP, RELEASE, N_STEP } vmm_step;

typedef struct vmm_rig {
    fxi_cu cu;
    vti_cu_driver vmm;
    vti_cu_prop prop;
    size_t granularity;
    vti_cu_ptr base;
    vti_cu_handle handle[MAX_HANDLE];
    double us[N_STEP][MAX_HANDLE];
} vmm_rig;

static vmm_rig rig;

static void must_do(const char *what, vti_cu_result r)
{
    if (r == VTI_CU_SUCCESS) return;
    fprintf(stderr, "%s: error %d\n", what, r);
    exit(1);
}

static void open_rig(void)
{
    fx_error err = {0};
    const char *why = NULL;
    if (fxi_cu_open(&rig.cu, 0, &err) != FX_OK || fxi_cu_enter(&rig.cu, &err) != FX_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    if (vti_cu_load(&rig.vmm, false, &why) != VT_OK) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
    rig.prop = (vti_cu_prop){.type = VTI_CU_ALLOCATION_PINNED,
                             .location = {.type = VTI_CU_LOCATION_DEVICE, .id = rig.cu.ordinal}};
    must_do("cuMemGetAllocationGranularity",
            rig.vmm.mem_get_granularity(&rig.granularity, &rig.prop, VTI_CU_GRANULARITY_MINIMUM));
}

static vti_cu_result do_step(vmm_step step, int i, size_t size_bytes)
{
    const vti_cu_ptr at = rig.base + (vti_cu_ptr)i * size_bytes;
    const vti_cu_access access = {.location = rig.prop.location, .flags = VTI_CU_ACCESS_READWRITE};
    switch (step) {
    case CREATE: return rig.vmm.mem_create(&rig.handle[i], size_bytes, &rig.prop, 0);
    case MAP: return rig.vmm.mem_map(at, size_bytes, 0, rig.handle[i], 0);
    case ACCESS: return rig.vmm.mem_set_access(at, size_bytes, &access, 1);
    case UNMAP: return rig.vmm.mem_unmap(at, size_bytes);
    default: return rig.vmm.mem_release(rig.handle[i]);
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *us, int n)
{
    qsort(us, (size_t)n, sizeof *us, by_value);
    return us[n / 2];
}

static void measure_size(size_t size_bytes, int n)
{
    static const char *const names[N_STEP] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
                                              "cuMemUnmap", "cuMemRelease"};
    double us[N_STEP];
    double t0 = fxi_now_s();
    must_do("cuMemAddressReserve",
            rig.vmm.mem_address_reserve(&rig.base, size_bytes * (size_t)n, 0, 0, 0));
    const double reserve = (fxi_now_s() - t0) * 1e6;
    for (int step = 0; step < N_STEP; step++) {
        for (int i = 0; i < n; i++) {
            t0 = fxi_now_s();
            must_do(names[step], do_step((vmm_step)step, i, size_bytes));
            rig.us[step][i] = (fxi_now_s() - t0) * 1e6;
        }
        us[step] = median_of(rig.us[step], n);
    }
    t0 = fxi_now_s();
    must_do("cuMemAddressFree", rig.vmm.mem_address_free(rig.base, size_bytes * (size_t)n));
    const double unreserve = (fxi_now_s() - t0) * 1e6;
    printf("%zu,%d,%.2f,%.2f,%.2f,%.2f,%.2f,%.2f,%.2f,%.2f\n", size_bytes, n, reserve, us[CREATE],
           us[MAP], us[ACCESS], us[UNMAP], us[RELEASE], unreserve,
           (double)size_bytes / (us[CREATE] + us[MAP] + us[ACCESS]) * 1e-3);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    open_rig();
    printf("handle_bytes,n,reserve_us,create_us,map_us,set_access_us,unmap_us,release_us,free_us,"
           "gb_per_s\n");
    for (size_t by = 1; by <= (small ? 2 : 64); by *= 2)
        measure_size(by * rig.granularity, small ? 8 : by <= 8 ? MAX_HANDLE : 64);
    vti_cu_unload(&rig.vmm);
    fxi_cu_leave(&rig.cu, FX_OK);
    fxi_cu_close(&rig.cu);
    return 0;
}
