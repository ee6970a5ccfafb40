// cuda_driver.h - the project's one table of NVIDIA's driver: the functions of libcuda.so.1 that
// manage memory, which the backend needs, and those that run kernels, which the engine's GPU device
// needs too. They are declared here, so that nothing needs the toolkit or the driver to build.
//
// Values, layouts and signatures are those of cuda.h; where a toolkit is installed, the tests
// compare each of them with it at compile time (tests/unit/vtensor/backend/cuda_h_*.c). Names that
// end in _v2 are what cuda.h turns the plain names into: the plain ones are older interfaces. No
// runtime library (cudart) is used.
#ifndef VTI_CUDA_DRIVER_H
#define VTI_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "vtensor/status.h"

#ifndef VTI_CU_TYPES // the comparison supplies those of cuda.h instead
typedef int vti_cu_result;
typedef int vti_cu_device;
typedef int vti_cu_attribute;      // of a device
typedef int vti_cu_func_attribute; // of a kernel
typedef int vti_cu_memory_type;
typedef int vti_cu_granularity;
typedef int vti_cu_capture_status;
typedef int vti_cu_capture_mode; // of a thread
typedef unsigned long long vti_cu_ptr;
typedef unsigned long long vti_cu_handle; // physical memory
typedef struct CUctx_st *vti_cu_context;
typedef struct CUstream_st *vti_cu_stream; // NULL: the default stream
typedef struct CUevent_st *vti_cu_event;
typedef struct CUmod_st *vti_cu_module;
typedef struct CUfunc_st *vti_cu_function;
typedef struct CUgraph_st *vti_cu_graph;
typedef struct CUgraphNode_st *vti_cu_node;
typedef struct CUgraphExec_st *vti_cu_exec;

typedef struct vti_cu_location {
    int type;
    int id; // of a device: its ordinal
} vti_cu_location;

typedef struct vti_cu_prop {
    int type;
    int export_types;
    vti_cu_location location;
    void *win32;
    struct {
        unsigned char compression, rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} vti_cu_prop;

typedef struct vti_cu_access {
    vti_cu_location location;
    int flags;
} vti_cu_access;

// A launch as a node of a graph.
typedef struct vti_cu_kernel_node {
    vti_cu_function function;
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    void **params; // a pointer to each parameter
    void **extra;  // NULL
    void *kernel;  // NULL
    vti_cu_context context;
} vti_cu_kernel_node;

// Rows of one memory to rows of another.
typedef struct vti_cu_copy_2d {
    size_t src_x, src_y;
    vti_cu_memory_type src_type;
    const void *src_host;
    vti_cu_ptr src_device;
    void *src_array;
    size_t src_pitch; // from row to row, in bytes
    size_t dst_x, dst_y;
    vti_cu_memory_type dst_type;
    void *dst_host;
    vti_cu_ptr dst_device;
    void *dst_array;
    size_t dst_pitch;
    size_t width_bytes, height;
} vti_cu_copy_2d;
#endif

enum {
    VTI_CU_SUCCESS = 0,
    VTI_CU_OUT_OF_MEMORY = 2,
    VTI_CU_NO_DEVICE = 100,
    VTI_CU_INVALID_IMAGE = 200,
    VTI_CU_NO_BINARY = 209, // NO_BINARY_FOR_GPU
    VTI_CU_NOT_FOUND = 500,
    VTI_CU_NOT_READY = 600,

    VTI_CU_ATTRIBUTE_N_SM = 16,
    VTI_CU_ATTRIBUTE_CC_MAJOR = 75,
    VTI_CU_ATTRIBUTE_CC_MINOR = 76,
    VTI_CU_ATTRIBUTE_SHARED = 97, // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    VTI_CU_ATTRIBUTE_VMM = 102,   // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED

    VTI_CU_FUNC_DYNAMIC_SHARED = 8, // MAX_DYNAMIC_SHARED_SIZE_BYTES
    VTI_CU_MEMORY_HOST = 1,
    VTI_CU_MEMORY_DEVICE = 2,

    VTI_CU_LOCATION_DEVICE = 1,
    VTI_CU_ALLOCATION_PINNED = 1,
    VTI_CU_ACCESS_READWRITE = 3,
    VTI_CU_GRANULARITY_MINIMUM = 0,

    VTI_CU_STREAM_NON_BLOCKING = 1, // not ordered against the default stream
    VTI_CU_EVENT_BLOCKING_SYNC = 1, // a waiting thread sleeps
    VTI_CU_EVENT_DISABLE_TIMING = 2,

    VTI_CU_CAPTURE_NONE = 0,
    VTI_CU_CAPTURE_MODE_GLOBAL = 0,  // of every thread at first
    VTI_CU_CAPTURE_MODE_RELAXED = 2, // its calls do not break a capture
};

// What manages memory: X(member of vti_cu_driver, name in libcuda.so.1, parameters).
#define VTI_CU_FUNCTIONS(X)                                                                   \
    X(device_get, cuDeviceGet, (vti_cu_device * device, int ordinal))                         \
    X(device_get_attribute, cuDeviceGetAttribute,                                             \
      (int *value, vti_cu_attribute attribute, vti_cu_device device))                         \
    X(ctx_get_current, cuCtxGetCurrent, (vti_cu_context * context))                           \
    X(ctx_get_device, cuCtxGetDevice, (vti_cu_device * device))                               \
    X(ctx_push_current, cuCtxPushCurrent_v2, (vti_cu_context context))                        \
    X(ctx_pop_current, cuCtxPopCurrent_v2, (vti_cu_context * context))                        \
    X(mem_get_granularity, cuMemGetAllocationGranularity,                                     \
      (size_t * size_bytes, const vti_cu_prop *prop, vti_cu_granularity which))               \
    X(mem_address_reserve, cuMemAddressReserve,                                               \
      (vti_cu_ptr * addr, size_t size_bytes, size_t align, vti_cu_ptr hint,                   \
       unsigned long long flags))                                                             \
    X(mem_address_free, cuMemAddressFree, (vti_cu_ptr addr, size_t size_bytes))               \
    X(mem_create, cuMemCreate,                                                                \
      (vti_cu_handle * handle, size_t size_bytes, const vti_cu_prop *prop,                    \
       unsigned long long flags))                                                             \
    X(mem_release, cuMemRelease, (vti_cu_handle handle))                                      \
    X(mem_map, cuMemMap,                                                                      \
      (vti_cu_ptr addr, size_t size_bytes, size_t offset, vti_cu_handle handle,               \
       unsigned long long flags))                                                             \
    X(mem_unmap, cuMemUnmap, (vti_cu_ptr addr, size_t size_bytes))                            \
    X(mem_set_access, cuMemSetAccess,                                                         \
      (vti_cu_ptr addr, size_t size_bytes, const vti_cu_access *access, size_t n))            \
    X(mem_host_alloc, cuMemHostAlloc, (void **bytes, size_t size_bytes, unsigned flags))      \
    X(mem_free_host, cuMemFreeHost, (void *bytes))                                            \
    X(memset_async, cuMemsetD8Async,                                                          \
      (vti_cu_ptr dst, unsigned char value, size_t size_bytes, vti_cu_stream stream))         \
    X(memcpy_dtod_async, cuMemcpyDtoDAsync_v2,                                                \
      (vti_cu_ptr dst, vti_cu_ptr src, size_t size_bytes, vti_cu_stream stream))              \
    X(memcpy_dtoh_async, cuMemcpyDtoHAsync_v2,                                                \
      (void *dst, vti_cu_ptr src, size_t size_bytes, vti_cu_stream stream))                   \
    X(memcpy_htod_async, cuMemcpyHtoDAsync_v2,                                                \
      (vti_cu_ptr dst, const void *src, size_t size_bytes, vti_cu_stream stream))             \
    X(stream_create, cuStreamCreate, (vti_cu_stream * stream, unsigned flags))                \
    X(stream_destroy, cuStreamDestroy_v2, (vti_cu_stream stream))                             \
    X(stream_synchronize, cuStreamSynchronize, (vti_cu_stream stream))                        \
    X(stream_is_capturing, cuStreamIsCapturing,                                               \
      (vti_cu_stream stream, vti_cu_capture_status * status))                                 \
    X(stream_wait_event, cuStreamWaitEvent,                                                   \
      (vti_cu_stream stream, vti_cu_event event, unsigned flags))                             \
    X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (vti_cu_capture_mode * mode)) \
    X(event_create, cuEventCreate, (vti_cu_event * event, unsigned flags))                    \
    X(event_destroy, cuEventDestroy_v2, (vti_cu_event event))                                 \
    X(event_record, cuEventRecord, (vti_cu_event event, vti_cu_stream stream))                \
    X(event_query, cuEventQuery, (vti_cu_event event))                                        \
    X(event_synchronize, cuEventSynchronize, (vti_cu_event event))

// What runs kernels, in the same form; it takes a driver of CUDA 12 or later.
#define VTI_CU_KERNEL_FUNCTIONS(X)                                                             \
    X(init, cuInit, (unsigned flags))                                                          \
    X(driver_get_version, cuDriverGetVersion, (int *version))                                  \
    X(get_error_name, cuGetErrorName, (vti_cu_result r, const char **name))                    \
    X(device_get_count, cuDeviceGetCount, (int *n))                                            \
    X(device_get_name, cuDeviceGetName, (char *name, int size, vti_cu_device device))          \
    X(ctx_retain, cuDevicePrimaryCtxRetain, (vti_cu_context * context, vti_cu_device device))  \
    X(ctx_release, cuDevicePrimaryCtxRelease_v2, (vti_cu_device device))                       \
    X(mem_get_info, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))              \
    X(mem_alloc, cuMemAlloc_v2, (vti_cu_ptr * at, size_t size_bytes))                          \
    X(mem_free, cuMemFree_v2, (vti_cu_ptr at))                                                 \
    X(memcpy_2d_async, cuMemcpy2DAsync_v2, (const vti_cu_copy_2d *copy, vti_cu_stream stream)) \
    X(stream_query, cuStreamQuery, (vti_cu_stream stream))                                     \
    X(module_load, cuModuleLoadData, (vti_cu_module * module, const void *image))              \
    X(module_unload, cuModuleUnload, (vti_cu_module module))                                   \
    X(module_get_function, cuModuleGetFunction,                                                \
      (vti_cu_function * function, vti_cu_module module, const char *name))                    \
    X(func_set_attribute, cuFuncSetAttribute,                                                  \
      (vti_cu_function function, vti_cu_func_attribute attribute, int value))                  \
    X(launch_kernel, cuLaunchKernel,                                                           \
      (vti_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,            \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,            \
       vti_cu_stream stream, void **params, void **extra))                                     \
    X(graph_create, cuGraphCreate, (vti_cu_graph * graph, unsigned flags))                     \
    X(graph_destroy, cuGraphDestroy, (vti_cu_graph graph))                                     \
    X(graph_add_kernel, cuGraphAddKernelNode_v2,                                               \
      (vti_cu_node * node, vti_cu_graph graph, const vti_cu_node *after, size_t n_after,       \
       const vti_cu_kernel_node *kernel))                                                      \
    X(graph_instantiate, cuGraphInstantiateWithFlags,                                          \
      (vti_cu_exec * exec, vti_cu_graph graph, unsigned long long flags))                      \
    X(graph_launch, cuGraphLaunch, (vti_cu_exec exec, vti_cu_stream stream))                   \
    X(graph_exec_destroy, cuGraphExecDestroy, (vti_cu_exec exec))

#define VTI_CU_MEMBER(member, symbol, parameters) vti_cu_result(*member) parameters;
typedef struct vti_cu_driver {
    void *library; // NULL: not loaded
    VTI_CU_FUNCTIONS(VTI_CU_MEMBER)
    VTI_CU_KERNEL_FUNCTIONS(VTI_CU_MEMBER)
} vti_cu_driver;
#undef VTI_CU_MEMBER

// Loads libcuda.so.1 and the functions that manage memory, or with `kernels` all. Errors:
// VT_EDEVICE; *why says what is missing (static). vti_cu_unload must be called also after an error;
// it may be called on a driver that is not loaded.
VT_NODISCARD vt_status vti_cu_load(vti_cu_driver *cu, bool kernels, const char **why);
void vti_cu_unload(vti_cu_driver *cu);

#endif
