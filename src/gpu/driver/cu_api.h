// cu_api.h - the part of NVIDIA's driver interface that runs kernels: the functions of libcuda.so.1
// by name, declared here so that this builds without the toolkit and the driver.
//
// Values, layouts and signatures are those of cuda.h; where a toolkit is installed, the tests
// compare each of them with it at compile time (tests/unit/gpu/cuda_h_*.c). Names that end in _v2
// are what cuda.h turns the plain names into. No runtime library (cudart) is used.
#ifndef FXI_GPU_CU_API_H
#define FXI_GPU_CU_API_H

#include <stddef.h>

#include "base/fail.h"

#ifndef FXI_CU_TYPES // the comparison supplies those of cuda.h instead
typedef int fxi_cu_result;
typedef int fxi_cu_device;
typedef int fxi_cu_attribute;      // of a device
typedef int fxi_cu_func_attribute; // of a kernel
typedef unsigned long long fxi_cu_ptr;
typedef struct CUctx_st *fxi_cu_context;
typedef struct CUstream_st *fxi_cu_stream;
typedef struct CUevent_st *fxi_cu_event;
typedef struct CUmod_st *fxi_cu_module;
typedef struct CUfunc_st *fxi_cu_function;
typedef struct CUgraph_st *fxi_cu_graph;
typedef struct CUgraphNode_st *fxi_cu_node;
typedef struct CUgraphExec_st *fxi_cu_exec;

// A launch as a node of a graph.
typedef struct fxi_cu_kernel_node {
    fxi_cu_function function;
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    void **params; // a pointer to each parameter
    void **extra;  // NULL
    void *kernel;  // NULL
    fxi_cu_context context;
} fxi_cu_kernel_node;
#endif

enum {
    FXI_CU_SUCCESS = 0,
    FXI_CU_OUT_OF_MEMORY = 2,
    FXI_CU_NO_DEVICE = 100,
    FXI_CU_INVALID_IMAGE = 200,
    FXI_CU_NO_BINARY = 209, // NO_BINARY_FOR_GPU
    FXI_CU_NOT_FOUND = 500,
    FXI_CU_NOT_READY = 600,

    FXI_CU_ATTRIBUTE_N_SM = 16,
    FXI_CU_ATTRIBUTE_CC_MAJOR = 75,
    FXI_CU_ATTRIBUTE_CC_MINOR = 76,
    FXI_CU_ATTRIBUTE_SHARED = 97, // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    FXI_CU_ATTRIBUTE_VMM = 102,   // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED

    FXI_CU_FUNC_DYNAMIC_SHARED = 8, // MAX_DYNAMIC_SHARED_SIZE_BYTES

    FXI_CU_STREAM_NON_BLOCKING = 1, // not ordered against the default stream
    FXI_CU_EVENT_BLOCKING_SYNC = 1, // a waiting thread sleeps
    FXI_CU_EVENT_DISABLE_TIMING = 2,
};

// X(member of fxi_cu_api, name in libcuda.so.1, parameters)
#define FXI_CU_FUNCTIONS(X)                                                                   \
    X(init, cuInit, (unsigned flags))                                                         \
    X(driver_get_version, cuDriverGetVersion, (int *version))                                 \
    X(get_error_name, cuGetErrorName, (fxi_cu_result r, const char **name))                   \
    X(device_get_count, cuDeviceGetCount, (int *n))                                           \
    X(device_get, cuDeviceGet, (fxi_cu_device * device, int ordinal))                         \
    X(device_get_name, cuDeviceGetName, (char *name, int size, fxi_cu_device device))         \
    X(device_get_attribute, cuDeviceGetAttribute,                                             \
      (int *value, fxi_cu_attribute attribute, fxi_cu_device device))                         \
    X(ctx_retain, cuDevicePrimaryCtxRetain, (fxi_cu_context * context, fxi_cu_device device)) \
    X(ctx_release, cuDevicePrimaryCtxRelease_v2, (fxi_cu_device device))                      \
    X(ctx_push, cuCtxPushCurrent_v2, (fxi_cu_context context))                                \
    X(ctx_pop, cuCtxPopCurrent_v2, (fxi_cu_context * context))                                \
    X(mem_get_info, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))             \
    X(mem_alloc, cuMemAlloc_v2, (fxi_cu_ptr * at, size_t size_bytes))                         \
    X(mem_free, cuMemFree_v2, (fxi_cu_ptr at))                                                \
    X(mem_host_alloc, cuMemHostAlloc, (void **bytes, size_t size_bytes, unsigned flags))      \
    X(mem_free_host, cuMemFreeHost, (void *bytes))                                            \
    X(memset_async, cuMemsetD8Async,                                                          \
      (fxi_cu_ptr dst, unsigned char value, size_t size_bytes, fxi_cu_stream stream))         \
    X(memcpy_htod_async, cuMemcpyHtoDAsync_v2,                                                \
      (fxi_cu_ptr dst, const void *src, size_t size_bytes, fxi_cu_stream stream))             \
    X(memcpy_dtoh_async, cuMemcpyDtoHAsync_v2,                                                \
      (void *dst, fxi_cu_ptr src, size_t size_bytes, fxi_cu_stream stream))                   \
    X(memcpy_dtod_async, cuMemcpyDtoDAsync_v2,                                                \
      (fxi_cu_ptr dst, fxi_cu_ptr src, size_t size_bytes, fxi_cu_stream stream))              \
    X(stream_create, cuStreamCreate, (fxi_cu_stream * stream, unsigned flags))                \
    X(stream_destroy, cuStreamDestroy_v2, (fxi_cu_stream stream))                             \
    X(stream_synchronize, cuStreamSynchronize, (fxi_cu_stream stream))                        \
    X(stream_wait_event, cuStreamWaitEvent,                                                   \
      (fxi_cu_stream stream, fxi_cu_event event, unsigned flags))                             \
    X(event_create, cuEventCreate, (fxi_cu_event * event, unsigned flags))                    \
    X(event_destroy, cuEventDestroy_v2, (fxi_cu_event event))                                 \
    X(event_record, cuEventRecord, (fxi_cu_event event, fxi_cu_stream stream))                \
    X(event_synchronize, cuEventSynchronize, (fxi_cu_event event))                            \
    X(module_load_data, cuModuleLoadData, (fxi_cu_module * module, const void *image))        \
    X(module_unload, cuModuleUnload, (fxi_cu_module module))                                  \
    X(module_get_function, cuModuleGetFunction,                                               \
      (fxi_cu_function * function, fxi_cu_module module, const char *name))                   \
    X(func_set_attribute, cuFuncSetAttribute,                                                 \
      (fxi_cu_function function, fxi_cu_func_attribute attribute, int value))                 \
    X(launch_kernel, cuLaunchKernel,                                                          \
      (fxi_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,           \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,           \
       fxi_cu_stream stream, void **params, void **extra))                                    \
    X(graph_create, cuGraphCreate, (fxi_cu_graph * graph, unsigned flags))                    \
    X(graph_destroy, cuGraphDestroy, (fxi_cu_graph graph))                                    \
    X(graph_add_kernel, cuGraphAddKernelNode_v2,                                              \
      (fxi_cu_node * node, fxi_cu_graph graph, const fxi_cu_node *after, size_t n_after,      \
       const fxi_cu_kernel_node *kernel))                                                     \
    X(graph_instantiate, cuGraphInstantiateWithFlags,                                         \
      (fxi_cu_exec * exec, fxi_cu_graph graph, unsigned long long flags))                     \
    X(graph_launch, cuGraphLaunch, (fxi_cu_exec exec, fxi_cu_stream stream))                  \
    X(exec_destroy, cuGraphExecDestroy, (fxi_cu_exec exec))

#define FXI_CU_MEMBER(member, symbol, parameters) fxi_cu_result(*member) parameters;
typedef struct fxi_cu_api {
    void *library; // NULL: not loaded
    FXI_CU_FUNCTIONS(FXI_CU_MEMBER)
} fxi_cu_api;
#undef FXI_CU_MEMBER

// Loads libcuda.so.1 and every function above. Errors: FX_EINVAL: there is no driver, or it is too
// old; *cu is then not loaded.
fx_status fxi_cu_api_load(fxi_cu_api *cu, fx_error *err);
void fxi_cu_api_unload(fxi_cu_api *cu); // also one that is not loaded

#endif
