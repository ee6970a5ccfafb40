// core.c - the stand-in's calls, contexts and devices: counting, failing on command, recording
// breaches of the rules.
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 8

pthread_mutex_t standin_mu = PTHREAD_MUTEX_INITIALIZER;

static struct CUctx_st contexts[STANDIN_N_DEVICE] = {{0}, {1}, {2}, {3}};
static _Thread_local vti_cu_context stack[MAX_DEPTH];
static _Thread_local int depth;
static _Thread_local vti_cu_capture_mode mode = VTI_CU_CAPTURE_MODE_GLOBAL;
static _Thread_local uint64_t n_wait, n_here[N_FUNCTION];
static _Thread_local uint64_t waits_since; // n_reset when they were counted

#define SYMBOL(member, symbol, parameters) #symbol,
static const char *const symbols[N_FUNCTION] = {STANDIN_FUNCTIONS(SYMBOL)};

typedef struct order {
    const char *symbol;
    uint64_t i, n, seen, fired;
    int result;
} order;

static int n_device = STANDIN_N_DEVICE;
static int has_vmm = 1;
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

// ---- calls

static order failing;
static void (*hook)(void);
static const char *hook_symbol;
static uint64_t n_call[N_FUNCTION];
static uint64_t n_breach, n_reset;
static const char *first_breach;
static int broken;                    // by a kernel's fault: what calls answer; 0: not
static _Thread_local int known_break; // what of it the call that has begun does not answer

void standin_break(int result)
{
    if (broken == 0) broken = result;
}

bool standin_is_broken(void)
{
    return broken != 0;
}

vti_cu_result standin_breach(const char *what)
{
    if (getenv("STANDIN_ABORT")) abort(); // in the guilty call, for a debugger
    if (n_breach++ == 0) first_breach = what;
    return CU_INVALID_VALUE;
}

static vti_cu_result obey(standin_call f)
{
    if (failing.n == 0 ||
        (failing.symbol ? strcmp(failing.symbol, symbols[f]) != 0 : f == F_get_error_name))
        return VTI_CU_SUCCESS;
    uint64_t i = failing.seen++;
    if (i < failing.i || i - failing.i >= failing.n) return VTI_CU_SUCCESS;
    failing.fired++;
    return failing.result;
}

static const bool needs_no_context[N_FUNCTION] = {
    [F_init] = true,
    [F_driver_get_version] = true,
    [F_device_get] = true,
    [F_device_get_count] = true,
    [F_device_get_name] = true,
    [F_device_get_attribute] = true,
    [F_get_error_name] = true,
    [F_ctx_retain] = true,
    [F_ctx_release] = true,
    [F_ctx_set_current] = true,
    [F_ctx_get_current] = true,
    [F_ctx_push_current] = true,
    [F_exchange_capture_mode] = true,
};

static const bool frees[N_FUNCTION] = {
    [F_mem_address_free] = true,   [F_mem_release] = true,   [F_mem_unmap] = true,
    [F_mem_free_host] = true,      [F_mem_free] = true,      [F_stream_destroy] = true,
    [F_event_destroy] = true,      [F_module_unload] = true, [F_graph_destroy] = true,
    [F_graph_exec_destroy] = true,
};

static const bool asks_nothing[N_FUNCTION] = {
    [F_ctx_get_device] = true,
    [F_ctx_push_current] = true,
    [F_ctx_pop_current] = true,
    [F_stream_is_capturing] = true,
};

// The driver names no list; these allocate, map, wait or query.
static const bool breaks_captures[N_FUNCTION] = {
    [F_ctx_synchronize] = true,     [F_event_query] = true,    [F_event_synchronize] = true,
    [F_mem_address_free] = true,    [F_mem_create] = true,     [F_mem_free_host] = true,
    [F_mem_address_reserve] = true, [F_mem_host_alloc] = true, [F_mem_map] = true,
    [F_mem_release] = true,         [F_mem_set_access] = true, [F_mem_unmap] = true,
    [F_memcpy_dtoh] = true,         [F_memcpy_htod] = true,    [F_stream_create] = true,
    [F_stream_destroy] = true,      [F_stream_query] = true,   [F_stream_synchronize] = true,
    [F_mem_alloc] = true,           [F_mem_free] = true,       [F_module_load] = true,
    [F_module_unload] = true,
};

static const bool waits[N_FUNCTION] = {
    [F_ctx_synchronize] = true,    [F_event_synchronize] = true, [F_memcpy_dtoh] = true,
    [F_stream_synchronize] = true, [F_memcpy_htod] = true,       [F_mem_free] = true,
};

// Counts a call of this thread.
static void count_here(standin_call f)
{
    if (waits_since != n_reset) n_wait = 0, memset(n_here, 0, sizeof n_here);
    waits_since = n_reset;
    n_wait += waits[f];
    n_here[f]++;
}

static vti_cu_result meet_rules(standin_call f)
{
    if (!needs_no_context[f] && depth == 0) {
        (void)standin_breach("a call without a current context");
        return CU_INVALID_CONTEXT;
    }
    if (breaks_captures[f] && mode != VTI_CU_CAPTURE_MODE_RELAXED && standin_captures()) {
        (void)standin_breach("a call that breaks the capture of a stream");
        standin_break_captures();
        return CU_CAPTURE_UNSUPPORTED;
    }
    bool answers = !needs_no_context[f] && !asks_nothing[f];
    known_break = answers ? 0 : broken;
    return answers && !frees[f] ? broken : VTI_CU_SUCCESS;
}

static void run_hook(standin_call f)
{
    void (*run)(void) = NULL;
    pthread_mutex_lock(&standin_mu);
    if (hook && strcmp(hook_symbol, symbols[f]) == 0) {
        run = hook;
        hook = NULL;
    }
    pthread_mutex_unlock(&standin_mu);
    if (run) run();
}

vti_cu_result standin_begin(standin_call f)
{
    run_hook(f);
    pthread_mutex_lock(&standin_mu);
    n_call[f]++;
    count_here(f);
    vti_cu_result r = obey(f);
    if (r == VTI_CU_SUCCESS) r = meet_rules(f);
    return r == VTI_CU_SUCCESS ? r : standin_end(r);
}

vti_cu_result standin_end(vti_cu_result r)
{
    if (r == VTI_CU_SUCCESS && broken != known_break) r = broken;
    pthread_mutex_unlock(&standin_mu);
    return r;
}

// ---- for tests

static void reset_devices(void)
{
    n_device = STANDIN_N_DEVICE;
    has_vmm = 1;
    for (int i = 0; i < STANDIN_N_DEVICE; i++) n_retained[i] = 0;
}

void standin_reset(void)
{
    pthread_mutex_lock(&standin_mu);
    standin_stream_reset();
    standin_kernel_reset();
    standin_memory_reset();
    reset_devices();
    memset(n_call, 0, sizeof n_call);
    failing = (order){0};
    hook = NULL;
    n_breach = 0;
    first_breach = NULL;
    broken = 0;
    n_reset++;
    pthread_mutex_unlock(&standin_mu);
}

standin_report standin_look(void)
{
    pthread_mutex_lock(&standin_mu);
    standin_report r = {.n_breach = n_breach, .breach = first_breach};
    standin_memory_look(&r);
    standin_stream_look(&r);
    standin_kernel_look(&r);
    for (int i = 0; i < STANDIN_N_DEVICE; i++) r.n_context += (uint64_t)n_retained[i];
    pthread_mutex_unlock(&standin_mu);
    return r;
}

const char *standin_left(void)
{
    const standin_report r = standin_look();
    const struct {
        uint64_t n;
        const char *what;
    } rows[] = {{r.n_stream, "a stream"},      {r.n_event, "an event"},
                {r.n_pinned, "pinned memory"}, {r.n_module, "a module"},
                {r.n_graph, "a graph"},        {r.n_exec, "an instance of a graph"},
                {r.n_alloc, "an allocation"},  {r.n_context, "a context"},
                {r.n_mapping, "a mapping"},    {r.n_reservation, "reserved addresses"},
                {r.n_memory, "memory"}};
    if (r.n_breach) return r.breach;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].n) return rows[i].what;
    return NULL;
}

void standin_use_context(int device)
{
    depth = device >= 0;
    stack[0] = device >= 0 ? &contexts[device] : NULL;
}

int standin_current_device(void)
{
    return depth > 0 ? stack[depth - 1]->device : -1;
}

int standin_context_depth(void)
{
    return depth;
}

int standin_capture_mode(void)
{
    return mode;
}

uint64_t standin_waits(void)
{
    pthread_mutex_lock(&standin_mu);
    uint64_t n = waits_since == n_reset ? n_wait : 0;
    pthread_mutex_unlock(&standin_mu);
    return n;
}

uint64_t standin_calls_here(const char *symbol)
{
    uint64_t n = 0;
    pthread_mutex_lock(&standin_mu);
    for (int f = 0; waits_since == n_reset && f < N_FUNCTION; f++)
        if (!symbol || strcmp(symbols[f], symbol) == 0) n += n_here[f];
    pthread_mutex_unlock(&standin_mu);
    return n;
}

void standin_fail(const char *symbol, uint64_t i, uint64_t n, int result)
{
    pthread_mutex_lock(&standin_mu);
    failing = (order){.symbol = symbol, .i = i, .n = n, .result = result};
    pthread_mutex_unlock(&standin_mu);
}

void standin_before(const char *symbol, void (*run)(void))
{
    pthread_mutex_lock(&standin_mu);
    hook = run;
    hook_symbol = symbol;
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

static void set_number(int *what, int to)
{
    pthread_mutex_lock(&standin_mu);
    *what = to;
    pthread_mutex_unlock(&standin_mu);
}

void standin_set_vmm(bool supported)
{
    set_number(&has_vmm, supported);
}

void standin_set_device_count(int n)
{
    set_number(&n_device, n);
}

bool standin_is_device(int device)
{
    return device >= 0 && device < n_device;
}

// ---- the driver's calls

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

vti_cu_result cuThreadExchangeStreamCaptureMode(vti_cu_capture_mode *other)
{
    STANDIN_BEGIN(F_exchange_capture_mode);
    if (*other < VTI_CU_CAPTURE_MODE_GLOBAL || *other > VTI_CU_CAPTURE_MODE_RELAXED)
        return standin_end(standin_breach("an odd capture mode"));
    vti_cu_capture_mode before = mode;
    mode = *other;
    *other = before;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuInit(unsigned flags)
{
    STANDIN_BEGIN(F_init);
    return standin_end(flags == 0 ? VTI_CU_SUCCESS : standin_breach("cuInit with flags"));
}

vti_cu_result cuDriverGetVersion(int *version)
{
    STANDIN_BEGIN(F_driver_get_version);
    *version = 13000;
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
    *ctx = &contexts[device];
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
    broken = 0;
    pthread_mutex_unlock(&standin_mu);
    return VTI_CU_SUCCESS;
}
