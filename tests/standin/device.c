// device.c - the stand-in's devices: what they say of themselves, and their primary contexts.
#include "state.h"

#include <stdio.h>

static int driver_version = 13000, n_device = STANDIN_N_DEVICE;
static bool has_vmm = true;
static int n_retained[STANDIN_N_DEVICE];

// Of an H100.
static const struct {
    vti_cu_attribute attribute;
    int value;
} attributes[] = {
    {1, 1024},       // threads of a block
    {2, 1024},       // its sides
    {3, 1024},       //
    {4, 64},         //
    {5, 2147483647}, // the sides of a grid
    {6, 65535},      //
    {7, 65535},      //
    {8, 49152},      // shared memory of a block that asks for no more
    {10, 32},        // threads of a warp
    {12, 65536},     // registers of a block
    {16, 132},       // multiprocessors
    {38, 52428800},  // L2
    {39, 2048},      // threads of a multiprocessor
    {41, 1},         // one address space with the host
    {75, 9},         // compute capability
    {76, 0},         //
    {81, 233472},    // shared memory of a multiprocessor
    {97, 232448},    // shared memory of a block that asks for it
    {106, 32},       // blocks of a multiprocessor
};

static const struct {
    vti_cu_result result;
    const char *name;
} errors[] = {
    {VTI_CU_SUCCESS, "CUDA_SUCCESS"},
    {CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
    {VTI_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
    {100, "CUDA_ERROR_NO_DEVICE"},
    {CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
    {CU_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
    {CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
    {CU_NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
    {CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
    {VTI_CU_NOT_READY, "CUDA_ERROR_NOT_READY"},
    {CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {CU_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
    {CU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
    {STANDIN_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
};

void standin_device_reset(void)
{
    pthread_mutex_lock(&standin_mu);
    driver_version = 13000;
    n_device = STANDIN_N_DEVICE;
    has_vmm = true;
    for (int i = 0; i < STANDIN_N_DEVICE; i++) n_retained[i] = 0;
    pthread_mutex_unlock(&standin_mu);
}

void standin_device_look(standin_report *r)
{
    for (int i = 0; i < STANDIN_N_DEVICE; i++) r->n_context += (uint64_t)n_retained[i];
}

static void set_number(int *what, int to)
{
    pthread_mutex_lock(&standin_mu);
    *what = to;
    pthread_mutex_unlock(&standin_mu);
}

void standin_set_vmm(bool supported)
{
    pthread_mutex_lock(&standin_mu);
    has_vmm = supported;
    pthread_mutex_unlock(&standin_mu);
}

void standin_set_driver_version(int version)
{
    set_number(&driver_version, version);
}

void standin_set_device_count(int n)
{
    set_number(&n_device, n);
}

bool standin_is_device(int device)
{
    return device >= 0 && device < n_device;
}

vti_cu_result cuInit(unsigned flags)
{
    STANDIN_BEGIN(F_init);
    standin_start_queue();
    return standin_end(flags == 0 ? VTI_CU_SUCCESS : standin_breach("cuInit with flags"));
}

vti_cu_result cuDriverGetVersion(int *version)
{
    STANDIN_BEGIN(F_driver_get_version);
    *version = driver_version;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuGetErrorName(vti_cu_result result, const char **name)
{
    STANDIN_BEGIN(F_get_error_name);
    *name = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].result == result) *name = errors[i].name;
    return standin_end(*name ? VTI_CU_SUCCESS : CU_INVALID_VALUE);
}

vti_cu_result cuDeviceGetCount(int *n)
{
    STANDIN_BEGIN(F_device_get_count);
    *n = n_device;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuDeviceGet(vti_cu_device *device, int ordinal)
{
    STANDIN_BEGIN(F_device_get);
    if (!standin_is_device(ordinal)) return standin_end(CU_INVALID_DEVICE);
    *device = ordinal;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuDeviceGetName(char *name, int size, vti_cu_device device)
{
    STANDIN_BEGIN(F_device_get_name);
    if (!standin_is_device(device)) return standin_end(CU_INVALID_DEVICE);
    snprintf(name, (size_t)size, "stand-in %d", device);
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuDeviceGetAttribute(int *value, vti_cu_attribute attribute, vti_cu_device device)
{
    STANDIN_BEGIN(F_device_get_attribute);
    if (!standin_is_device(device)) return standin_end(CU_INVALID_DEVICE);
    if (attribute == VTI_CU_ATTRIBUTE_VMM) {
        *value = has_vmm;
        return standin_end(VTI_CU_SUCCESS);
    }
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        if (attributes[i].attribute != attribute) continue;
        *value = attributes[i].value;
        return standin_end(VTI_CU_SUCCESS);
    }
    return standin_end(standin_breach("attribute unknown"));
}

vti_cu_result cuDevicePrimaryCtxRetain(vti_cu_context *ctx, vti_cu_device device)
{
    STANDIN_BEGIN(F_ctx_retain);
    if (!standin_is_device(device)) return standin_end(CU_INVALID_DEVICE);
    *ctx = standin_context_of(device);
    n_retained[device]++;
    return standin_end(VTI_CU_SUCCESS);
}

// With its last holder a broken context ends; the next one works again.
vti_cu_result cuDevicePrimaryCtxRelease_v2(vti_cu_device device)
{
    STANDIN_BEGIN(F_ctx_release);
    if (!standin_is_device(device)) return standin_end(CU_INVALID_DEVICE);
    if (n_retained[device] == 0)
        return standin_end(standin_breach("a context released that nobody holds"));
    if (--n_retained[device] > 0) return standin_end(VTI_CU_SUCCESS);
    for (int i = 0; i < STANDIN_N_DEVICE; i++)
        if (n_retained[i] > 0) return standin_end(VTI_CU_SUCCESS);
    standin_mend();
    pthread_mutex_unlock(&standin_mu);
    return VTI_CU_SUCCESS;
}
