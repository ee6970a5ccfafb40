// cuda_driver.h - the part of NVIDIA's driver interface that this backend needs, declared here so
// that it builds without the toolkit and the driver.
//
// Values, layouts and signatures are those of cuda.h; where a toolkit is installed, the tests
// compare each of them with it at compile time (tests/unit/vtensor/backend/cuda_h_*.c). Names that
// end in _v2 are what cuda.h turns the plain names into: the plain ones are older interfaces.
#ifndef VTI_CUDA_DRIVER_H
#define VTI_CUDA_DRIVER_H

#include <stddef.h>

#include "vtensor/status.h"

#ifndef VTI_CU_TYPES // the comparison supplies those of cuda.h instead
typedef int vti_cu_result;
typedef int vti_cu_device;
typedef int vti_cu_attribute;
typedef int vti_cu_granularity;
typedef int vti_cu_capture_status;
typedef int vti_cu_capture_mode; // of a thread
typedef unsigned long long vti_cu_ptr;
typedef unsigned long long vti_cu_handle; // physical memory
typedef struct CUctx_st *vti_cu_context;
typedef struct CUstream_st *vti_cu_stream; // NULL: the default stream
typedef struct CUevent_st *vti_cu_event;

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
#endif

enum {
    VTI_CU_SUCCESS = 0,
    VTI_CU_OUT_OF_MEMORY = 2,
    VTI_CU_NOT_READY = 600,

    VTI_CU_ATTRIBUTE_VMM = 102, // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED

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

// X(member of vti_cu_driver, name in libcuda.so.1, parameters)
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

#define VTI_CU_MEMBER(member, symbol, parameters) vti_cu_result(*member) parameters;
typedef struct vti_cu_driver {
    void *library; // NULL: not loaded
    VTI_CU_FUNCTIONS(VTI_CU_MEMBER)
} vti_cu_driver;
#undef VTI_CU_MEMBER

// Loads libcuda.so.1 and every function above. Errors: VT_EDEVICE; *why says what is missing
// (static). vti_cu_unload must be called also after an error; it may be called on a driver that is
// not loaded.
VT_NODISCARD vt_status vti_cu_load(vti_cu_driver *cu, const char **why);
void vti_cu_unload(vti_cu_driver *cu);

#endif
