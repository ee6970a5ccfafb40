// gpu_context.c - see gpu_context.h.
#include "gpu_context.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long device_ptr;

// X(name in libcuda.so.1, parameters); what is opaque is void *.
#define FUNCTIONS(X)                                                                           \
    X(cuInit, (unsigned flags))                                                                \
    X(cuDriverGetVersion, (int *version))                                                      \
    X(cuDeviceGetCount, (int *n))                                                              \
    X(cuDeviceGet, (int *device, int ordinal))                                                 \
    X(cuDeviceGetName, (char *name, int size, int device))                                     \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device))                           \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                                  \
    X(cuDevicePrimaryCtxRelease_v2, (int device))                                              \
    X(cuCtxSetCurrent, (void *context))                                                        \
    X(cuCtxSynchronize, (void))                                                                \
    X(cuStreamQuery, (void *stream))                                                           \
    X(cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                            \
    X(cuMemsetD8Async, (device_ptr dst, unsigned char value, size_t n, void *stream))          \
    X(cuMemcpyDtoH_v2, (void *dst, device_ptr src, size_t n))                                  \
    X(cuMemcpyHtoD_v2, (device_ptr dst, const void *src, size_t n))                            \
    X(cuMemHostAlloc, (void **bytes, size_t n, unsigned flags))                                \
    X(cuMemFreeHost, (void *bytes))                                                            \
    X(cuStreamCreate, (void **stream, unsigned flags))                                         \
    X(cuStreamDestroy_v2, (void *stream))                                                      \
    X(cuStreamBeginCapture_v2, (void *stream, int mode))                                       \
    X(cuStreamEndCapture, (void *stream, void **graph))                                        \
    X(cuGraphDestroy, (void *graph))                                                           \
    X(cuStreamWaitValue32_v2, (void *stream, device_ptr addr, uint32_t value, unsigned flags)) \
    X(cuEventCreate, (void **event, unsigned flags))                                           \
    X(cuEventDestroy_v2, (void *event))                                                        \
    X(cuEventRecord, (void *event, void *stream))

enum {
    ATTRIBUTE_VMM = 102,
    STREAM_NON_BLOCKING = 1,
    EVENT_FLAGS = 1 | 2, // blocking, without times
    CAPTURE_GLOBAL = 0,
    NAME_BYTES = 128
};

#define POINTER(symbol, parameters) int(*symbol) parameters;
struct gpu_context {
    void *library;
    void *context; // NULL: none
    int ordinal, device, version;
    char name[NAME_BYTES];
    void *gate; // pinned: how many holds are released; NULL: none was needed yet
    uint32_t n_hold;
    FUNCTIONS(POINTER)
};

typedef struct import {
    const char *symbol;
    size_t at;
} import;

#define IMPORT(symbol, parameters) {#symbol, offsetof(gpu_context, symbol)},
static const import imports[] = {FUNCTIONS(IMPORT)};

static bool load_driver(gpu_context *g)
{
    g->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; g->library && i < sizeof imports / sizeof imports[0]; i++) {
        void *symbol = dlsym(g->library, imports[i].symbol);
        if (!symbol) return false;
        memcpy((char *)g + imports[i].at, &symbol, sizeof symbol);
    }
    return g->library != NULL;
}

static bool has_vmm(gpu_context *g, int ordinal)
{
    int yes = 0;
    return g->cuDeviceGet(&g->device, ordinal) == 0 &&
           g->cuDeviceGetAttribute(&yes, ATTRIBUTE_VMM, g->device) == 0 && yes;
}

static bool find_device(gpu_context *g)
{
    int n = 0;
    if (g->cuInit(0) != 0 || g->cuDeviceGetCount(&n) != 0) return false;
    while (g->ordinal < n && !has_vmm(g, g->ordinal)) g->ordinal++;
    return g->ordinal < n;
}

static bool take_context(gpu_context *g)
{
    if (g->cuDevicePrimaryCtxRetain(&g->context, g->device) != 0) {
        g->context = NULL;
        return false;
    }
    return g->cuCtxSetCurrent(g->context) == 0 &&
           g->cuDeviceGetName(g->name, NAME_BYTES, g->device) == 0 &&
           g->cuDriverGetVersion(&g->version) == 0;
}

static const char *open_all(gpu_context *g)
{
    if (!load_driver(g)) return "no libcuda.so.1 of CUDA 11.2 or later";
    if (!find_device(g)) return "no CUDA device with virtual memory management";
    if (!take_context(g)) return "no context on the CUDA device";
    return NULL;
}

gpu_context *gpu_open(const char **why)
{
    gpu_context *g = calloc(1, sizeof *g);
    *why = g ? open_all(g) : "no memory";
    if (!*why) return g;
    if (g) gpu_close(g);
    return NULL;
}

void gpu_close(gpu_context *g)
{
    if (g->context) {
        if (g->gate) (void)g->cuMemFreeHost(g->gate);
        (void)g->cuCtxSetCurrent(NULL);
        (void)g->cuDevicePrimaryCtxRelease_v2(g->device);
    }
    if (g->library) dlclose(g->library);
    free(g);
}

int gpu_device(const gpu_context *g)
{
    return g->ordinal;
}

const char *gpu_name(const gpu_context *g)
{
    return g->name;
}

int gpu_driver_version(const gpu_context *g)
{
    return g->version;
}

bool gpu_read(gpu_context *g, void *dst, uintptr_t src, size_t size_bytes)
{
    return g->cuMemcpyDtoH_v2(dst, src, size_bytes) == 0;
}

bool gpu_write(gpu_context *g, uintptr_t dst, const void *src, size_t size_bytes)
{
    return g->cuMemcpyHtoD_v2(dst, src, size_bytes) == 0;
}

bool gpu_fill(gpu_context *g, void *stream, uintptr_t dst, unsigned char value, size_t size_bytes)
{
    return g->cuMemsetD8Async(dst, value, size_bytes, stream) == 0;
}

bool gpu_synchronize(gpu_context *g)
{
    return g->cuCtxSynchronize() == 0;
}

bool gpu_is_done(gpu_context *g)
{
    return g->cuStreamQuery(NULL) == 0;
}

bool gpu_free_bytes(gpu_context *g, size_t *size_bytes)
{
    size_t total;
    return g->cuMemGetInfo_v2(size_bytes, &total) == 0;
}

void *gpu_new_stream(gpu_context *g)
{
    void *stream = NULL;
    return g->cuStreamCreate(&stream, STREAM_NON_BLOCKING) == 0 ? stream : NULL;
}

void gpu_drop_stream(gpu_context *g, void *stream)
{
    (void)g->cuStreamDestroy_v2(stream);
}

void *gpu_new_event(gpu_context *g, void *stream)
{
    void *event = NULL;
    if (g->cuEventCreate(&event, EVENT_FLAGS) != 0) return NULL;
    if (g->cuEventRecord(event, stream) == 0) return event;
    gpu_drop_event(g, event);
    return NULL;
}

void gpu_drop_event(gpu_context *g, void *event)
{
    (void)g->cuEventDestroy_v2(event);
}

static bool open_gate(gpu_context *g)
{
    if (g->gate) return true;
    if (g->cuMemHostAlloc(&g->gate, sizeof(uint32_t), 0) != 0) g->gate = NULL;
    if (g->gate) *(_Atomic uint32_t *)g->gate = 0;
    return g->gate != NULL;
}

// Pinned memory has one address for host and device.
bool gpu_hold(gpu_context *g, void *stream)
{
    if (!open_gate(g)) return false;
    bool held = g->cuStreamWaitValue32_v2(stream, (uintptr_t)g->gate, g->n_hold + 1, 0) == 0;
    g->n_hold += held;
    return held;
}

void gpu_release(gpu_context *g)
{
    if (g->gate) *(_Atomic uint32_t *)g->gate = g->n_hold;
}

bool gpu_begin_capture(gpu_context *g, void *stream)
{
    return g->cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL) == 0;
}

bool gpu_end_capture(gpu_context *g, void *stream)
{
    void *graph = NULL;
    bool intact = g->cuStreamEndCapture(stream, &graph) == 0;
    if (graph) (void)g->cuGraphDestroy(graph);
    return intact;
}
