// core.c - the stand-in's calls, contexts and devices: counting, failing on command, recording
// breaches of the rules.
#include "state.h"

#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 8

pthread_mutex_t standin_mu = PTHREAD_MUTEX_INITIALIZER;

static struct CUctx_st contexts[STANDIN_N_DEVICE] = {{0}, {1}};
static _Thread_local vti_cu_context stack[MAX_DEPTH];
static _Thread_local int depth;

#define SYMBOL(member, symbol, parameters) #symbol,
static const char *const symbols[N_FUNCTION] = {STANDIN_FUNCTIONS(SYMBOL)};

typedef struct order {
    const char *symbol;
    uint64_t i, n, seen, fired;
    int result;
} order;

static order failing;
static uint64_t n_call[N_FUNCTION];
static uint64_t n_breach;
static const char *first_breach;
static bool has_vmm = true;

vti_cu_result standin_breach(const char *what)
{
    if (n_breach++ == 0) first_breach = what;
    return CU_INVALID_VALUE;
}

static vti_cu_result obey(function f)
{
    if (failing.n == 0 || (failing.symbol && strcmp(failing.symbol, symbols[f]) != 0))
        return VTI_CU_SUCCESS;
    uint64_t i = failing.seen++;
    if (i < failing.i || i - failing.i >= failing.n) return VTI_CU_SUCCESS;
    failing.fired++;
    return failing.result;
}

static bool needs_context(function f)
{
    switch (f) {
    case F_init:
    case F_driver_get_version:
    case F_device_get:
    case F_device_get_count:
    case F_device_get_name:
    case F_device_get_attribute:
    case F_ctx_retain:
    case F_ctx_release:
    case F_ctx_set_current:
    case F_ctx_get_current:
    case F_ctx_push_current: return false;
    default: return true;
    }
}

vti_cu_result standin_begin(function f)
{
    pthread_mutex_lock(&standin_mu);
    n_call[f]++;
    vti_cu_result r = obey(f);
    if (r == VTI_CU_SUCCESS && needs_context(f) && depth == 0) {
        (void)standin_breach("a call without a current context");
        r = CU_INVALID_CONTEXT;
    }
    return r == VTI_CU_SUCCESS ? r : standin_end(r);
}

vti_cu_result standin_end(vti_cu_result r)
{
    pthread_mutex_unlock(&standin_mu);
    return r;
}

void standin_reset(void)
{
    standin_stream_reset();
    standin_memory_reset();
    pthread_mutex_lock(&standin_mu);
    memset(n_call, 0, sizeof n_call);
    failing = (order){0};
    n_breach = 0;
    first_breach = NULL;
    has_vmm = true;
    pthread_mutex_unlock(&standin_mu);
}

standin_report standin_look(void)
{
    pthread_mutex_lock(&standin_mu);
    standin_report r = {.n_breach = n_breach, .breach = first_breach};
    standin_memory_look(&r);
    standin_stream_look(&r);
    pthread_mutex_unlock(&standin_mu);
    return r;
}

void standin_use_context(int device)
{
    depth = device >= 0;
    stack[0] = device >= 0 ? &contexts[device] : NULL;
}

int standin_context_depth(void)
{
    return depth;
}

void standin_set_vmm(bool supported)
{
    pthread_mutex_lock(&standin_mu);
    has_vmm = supported;
    pthread_mutex_unlock(&standin_mu);
}

void standin_fail(const char *symbol, uint64_t i, uint64_t n, int result)
{
    pthread_mutex_lock(&standin_mu);
    failing = (order){.symbol = symbol, .i = i, .n = n, .result = result};
    pthread_mutex_unlock(&standin_mu);
}

uint64_t standin_fired(void)
{
    pthread_mutex_lock(&standin_mu);
    uint64_t fired = failing.fired;
    pthread_mutex_unlock(&standin_mu);
    return fired;
}

uint64_t standin_calls(const char *symbol)
{
    uint64_t n = 0;
    pthread_mutex_lock(&standin_mu);
    for (int f = 0; f < N_FUNCTION; f++)
        if (!symbol || strcmp(symbol, symbols[f]) == 0) n += n_call[f];
    pthread_mutex_unlock(&standin_mu);
    return n;
}

vti_cu_result cuInit(unsigned flags)
{
    STANDIN_BEGIN(F_init);
    return standin_end(flags == 0 ? VTI_CU_SUCCESS : standin_breach("cuInit with flags"));
}

vti_cu_result cuDriverGetVersion(int *version)
{
    STANDIN_BEGIN(F_driver_get_version);
    *version = 0; // of no real one
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuDeviceGetCount(int *n)
{
    STANDIN_BEGIN(F_device_get_count);
    *n = STANDIN_N_DEVICE;
    return standin_end(VTI_CU_SUCCESS);
}

static bool is_device(int device)
{
    return device >= 0 && device < STANDIN_N_DEVICE;
}

vti_cu_result cuDeviceGet(vti_cu_device *device, int ordinal)
{
    STANDIN_BEGIN(F_device_get);
    if (!is_device(ordinal)) return standin_end(CU_INVALID_DEVICE);
    *device = ordinal;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuDeviceGetName(char *name, int size, vti_cu_device device)
{
    STANDIN_BEGIN(F_device_get_name);
    if (!is_device(device)) return standin_end(CU_INVALID_DEVICE);
    snprintf(name, (size_t)size, "stand-in %d", device);
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuDeviceGetAttribute(int *value, vti_cu_attribute attribute, vti_cu_device device)
{
    STANDIN_BEGIN(F_device_get_attribute);
    if (!is_device(device)) return standin_end(CU_INVALID_DEVICE);
    if (attribute != VTI_CU_ATTRIBUTE_VMM) return standin_end(standin_breach("attribute unknown"));
    *value = has_vmm;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuDevicePrimaryCtxRetain(vti_cu_context *ctx, vti_cu_device device)
{
    STANDIN_BEGIN(F_ctx_retain);
    if (!is_device(device)) return standin_end(CU_INVALID_DEVICE);
    *ctx = &contexts[device];
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuDevicePrimaryCtxRelease_v2(vti_cu_device device)
{
    STANDIN_BEGIN(F_ctx_release);
    return standin_end(is_device(device) ? VTI_CU_SUCCESS : CU_INVALID_DEVICE);
}

vti_cu_result cuCtxSetCurrent(vti_cu_context context)
{
    STANDIN_BEGIN(F_ctx_set_current);
    standin_use_context(context ? context->device : -1);
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuCtxGetCurrent(vti_cu_context *context)
{
    STANDIN_BEGIN(F_ctx_get_current);
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuCtxGetDevice(vti_cu_device *device)
{
    STANDIN_BEGIN(F_ctx_get_device);
    *device = stack[depth - 1]->device;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuCtxPushCurrent_v2(vti_cu_context context)
{
    STANDIN_BEGIN(F_ctx_push_current);
    if (!context || depth == MAX_DEPTH) return standin_end(standin_breach("context stack is full"));
    stack[depth++] = context;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuCtxPopCurrent_v2(vti_cu_context *context)
{
    STANDIN_BEGIN(F_ctx_pop_current);
    *context = stack[--depth];
    return standin_end(VTI_CU_SUCCESS);
}
