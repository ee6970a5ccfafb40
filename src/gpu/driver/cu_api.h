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
#include "gpu/driver/dl_load.h"

#ifndef FXI_CU_TYPES // the comparison supplies those of cuda.h instead
typedef int fxi_cu_result;
typedef int fxi_cu_device;
typedef int fxi_cu_attribute;      // of a device
typedef int fxi_cu_func_attribute; // of a kernel
typedef int fxi_cu_memory_type;
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

// Rows of one memory to rows of another.
typedef struct fxi_cu_copy_2d {
    size_t src_x, src_y;
    fxi_cu_memory_type src_type;
    const void *src_host;
    fxi_cu_ptr src_device;
    void *src_array;
    size_t src_pitch; // from row to row, in bytes
    size_t dst_x, dst_y;
    fxi_cu_memory_type dst_type;
    void *dst_host;
    fxi_cu_ptr dst_device;
    void *dst_array;
    size_t dst_pitch;
    size_t width_bytes, height;
} fxi_cu_copy_2d;
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
    FXI_CU_MEMORY_HOST = 1,
    FXI_CU_MEMORY_DEVICE = 2,
};

// X(member of fxi_cu_api, type of the result, name in libcuda.so.1, parameters)
#define FXI_CU_FUNCTIONS(X)                                                                      \
    X(init, fxi_cu_result, cuInit, (unsigned flags))                                             \
    X(driver_get_version, fxi_cu_result, cuDriverGetVersion, (int *version))                     \
    X(get_error_name, fxi_cu_result, cuGetErrorName, (fxi_cu_result r, const char **name))       \
    X(device_get_count, fxi_cu_result, cuDeviceGetCount, (int *n))                               \
    X(device_get, fxi_cu_result, cuDeviceGet, (fxi_cu_device * device, int ordinal))             \
    X(device_get_name, fxi_cu_result, cuDeviceGetName,                                           \
      (char *name, int size, fxi_cu_device device))                                              \
    X(device_get_attribute, fxi_cu_result, cuDeviceGetAttribute,                                 \
      (int *value, fxi_cu_attribute attribute, fxi_cu_device device))                            \
    X(ctx_retain, fxi_cu_result, cuDevicePrimaryCtxRetain,                                       \
      (fxi_cu_context * context, fxi_cu_device device))                                          \
    X(ctx_release, fxi_cu_result, cuDevicePrimaryCtxRelease_v2, (fxi_cu_device device))          \
    X(ctx_push, fxi_cu_result, cuCtxPushCurrent_v2, (fxi_cu_context context))                    \
    X(ctx_pop, fxi_cu_result, cuCtxPopCurrent_v2, (fxi_cu_context * context))                    \
    X(mem_get_info, fxi_cu_result, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes)) \
    X(mem_alloc, fxi_cu_result, cuMemAlloc_v2, (fxi_cu_ptr * at, size_t size_bytes))             \
    X(mem_free, fxi_cu_result, cuMemFree_v2, (fxi_cu_ptr at))                                    \
    X(mem_host_alloc, fxi_cu_result, cuMemHostAlloc,                                             \
      (void **bytes, size_t size_bytes, unsigned flags))                                         \
    X(mem_free_host, fxi_cu_result, cuMemFreeHost, (void *bytes))                                \
    X(memset_async, fxi_cu_result, cuMemsetD8Async,                                              \
      (fxi_cu_ptr dst, unsigned char value, size_t size_bytes, fxi_cu_stream stream))            \
    X(memcpy_htod_async, fxi_cu_result, cuMemcpyHtoDAsync_v2,                                    \
      (fxi_cu_ptr dst, const void *src, size_t size_bytes, fxi_cu_stream stream))                \
    X(memcpy_dtoh_async, fxi_cu_result, cuMemcpyDtoHAsync_v2,                                    \
      (void *dst, fxi_cu_ptr src, size_t size_bytes, fxi_cu_stream stream))                      \
    X(memcpy_dtod_async, fxi_cu_result, cuMemcpyDtoDAsync_v2,                                    \
      (fxi_cu_ptr dst, fxi_cu_ptr src, size_t size_bytes, fxi_cu_stream stream))                 \
    X(memcpy_2d_async, fxi_cu_result, cuMemcpy2DAsync_v2,                                        \
      (const fxi_cu_copy_2d *copy, fxi_cu_stream stream))                                        \
    X(stream_create, fxi_cu_result, cuStreamCreate, (fxi_cu_stream * stream, unsigned flags))    \
    X(stream_destroy, fxi_cu_result, cuStreamDestroy_v2, (fxi_cu_stream stream))                 \
    X(stream_synchronize, fxi_cu_result, cuStreamSynchronize, (fxi_cu_stream stream))            \
    X(stream_query, fxi_cu_result, cuStreamQuery, (fxi_cu_stream stream))                        \
    X(event_create, fxi_cu_result, cuEventCreate, (fxi_cu_event * event, unsigned flags))        \
    X(event_destroy, fxi_cu_result, cuEventDestroy_v2, (fxi_cu_event event))                     \
    X(event_record, fxi_cu_result, cuEventRecord, (fxi_cu_event event, fxi_cu_stream stream))    \
    X(event_synchronize, fxi_cu_result, cuEventSynchronize, (fxi_cu_event event))                \
    X(module_load_data, fxi_cu_result, cuModuleLoadData,                                         \
      (fxi_cu_module * module, const void *image))                                               \
    X(module_unload, fxi_cu_result, cuModuleUnload, (fxi_cu_module module))                      \
    X(module_get_function, fxi_cu_result, cuModuleGetFunction,                                   \
      (fxi_cu_function * function, fxi_cu_module module, const char *name))                      \
    X(func_set_attribute, fxi_cu_result, cuFuncSetAttribute,                                     \
      (fxi_cu_function function, fxi_cu_func_attribute attribute, int value))                    \
    X(launch_kernel, fxi_cu_result, cuLaunchKernel,                                              \
      (fxi_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,              \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,              \
       fxi_cu_stream stream, void **params, void **extra))                                       \
    X(graph_create, fxi_cu_result, cuGraphCreate, (fxi_cu_graph * graph, unsigned flags))        \
    X(graph_destroy, fxi_cu_result, cuGraphDestroy, (fxi_cu_graph graph))                        \
    X(graph_add_kernel, fxi_cu_result, cuGraphAddKernelNode_v2,                                  \
      (fxi_cu_node * node, fxi_cu_graph graph, const fxi_cu_node *after, size_t n_after,         \
       const fxi_cu_kernel_node *kernel))                                                        \
    X(graph_instantiate, fxi_cu_result, cuGraphInstantiateWithFlags,                             \
      (fxi_cu_exec * exec, fxi_cu_graph graph, unsigned long long flags))                        \
    X(graph_launch, fxi_cu_result, cuGraphLaunch, (fxi_cu_exec exec, fxi_cu_stream stream))      \
    X(exec_destroy, fxi_cu_result, cuGraphExecDestroy, (fxi_cu_exec exec))

typedef struct fxi_cu_api {
    void *library; // NULL: not loaded
    FXI_CU_FUNCTIONS(FXI_DL_MEMBER)
} fxi_cu_api;

extern const fxi_dl_source fxi_cu_source; // libcuda.so.1, a driver of CUDA 12 or later

#endif
