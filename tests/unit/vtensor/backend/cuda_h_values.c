// cuda_h_values.c - compares the values and layouts of cuda_driver.h with the toolkit's
// cuda.h. Nothing runs: the compiler makes all comparisons.
#include <cuda.h>

#include "vtensor/backend/cuda/cuda_driver.h"

#define SAME_VALUE(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
#define SAME_FIELD(our_type, our_field, their_type, their_field)                                 \
    _Static_assert(offsetof(our_type, our_field) == offsetof(their_type, their_field),           \
                   #their_field);                                                                \
    _Static_assert(sizeof(((our_type *)0)->our_field) == sizeof(((their_type *)0)->their_field), \
                   #their_field)

SAME_VALUE(VTI_CU_SUCCESS, CUDA_SUCCESS);
SAME_VALUE(VTI_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(VTI_CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME_VALUE(VTI_CU_ATTRIBUTE_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_VALUE(VTI_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_VALUE(VTI_CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_VALUE(VTI_CU_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_VALUE(VTI_CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_VALUE(VTI_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME_VALUE(VTI_CU_EVENT_BLOCKING_SYNC, CU_EVENT_BLOCKING_SYNC);
SAME_VALUE(VTI_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(VTI_CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME_VALUE(VTI_CU_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME_VALUE(VTI_CU_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(VTI_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME_VALUE(VTI_CU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME_VALUE(VTI_CU_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_VALUE(VTI_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME_VALUE(VTI_CU_ATTRIBUTE_N_SM, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(VTI_CU_ATTRIBUTE_CC_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(VTI_CU_ATTRIBUTE_CC_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(VTI_CU_ATTRIBUTE_SHARED, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_VALUE(VTI_CU_FUNC_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_VALUE(VTI_CU_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME_VALUE(VTI_CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);

_Static_assert(sizeof(vti_cu_result) == sizeof(CUresult), "CUresult");
_Static_assert(sizeof(vti_cu_attribute) == sizeof(CUdevice_attribute), "CUdevice_attribute");
_Static_assert(sizeof(vti_cu_func_attribute) == sizeof(CUfunction_attribute), "of a function");
_Static_assert(sizeof(vti_cu_memory_type) == sizeof(CUmemorytype), "CUmemorytype");
_Static_assert(sizeof(vti_cu_capture_status) == sizeof(CUstreamCaptureStatus), "status");
_Static_assert(sizeof(vti_cu_capture_mode) == sizeof(CUstreamCaptureMode), "mode");
_Static_assert(sizeof(vti_cu_device) == sizeof(CUdevice), "CUdevice");
_Static_assert(sizeof(vti_cu_ptr) == sizeof(CUdeviceptr), "CUdeviceptr");
_Static_assert(sizeof(vti_cu_handle) == sizeof(CUmemGenericAllocationHandle), "handle");
_Static_assert(sizeof(vti_cu_prop) == sizeof(CUmemAllocationProp), "CUmemAllocationProp");
_Static_assert(sizeof(vti_cu_access) == sizeof(CUmemAccessDesc), "CUmemAccessDesc");

SAME_FIELD(vti_cu_location, type, CUmemLocation, type);
SAME_FIELD(vti_cu_location, id, CUmemLocation, id);
SAME_FIELD(vti_cu_access, location, CUmemAccessDesc, location);
SAME_FIELD(vti_cu_access, flags, CUmemAccessDesc, flags);
SAME_FIELD(vti_cu_prop, type, CUmemAllocationProp, type);
SAME_FIELD(vti_cu_prop, export_types, CUmemAllocationProp, requestedHandleTypes);
SAME_FIELD(vti_cu_prop, location, CUmemAllocationProp, location);
SAME_FIELD(vti_cu_prop, win32, CUmemAllocationProp, win32HandleMetaData);
SAME_FIELD(vti_cu_prop, flags, CUmemAllocationProp, allocFlags);

#define SAME_PLACE(ours, member, theirs, other) \
    _Static_assert(offsetof(ours, member) == offsetof(theirs, other), #ours "." #member)
#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #ours)

SAME_SIZE(vti_cu_kernel_node, CUDA_KERNEL_NODE_PARAMS_v2);
SAME_PLACE(vti_cu_kernel_node, function, CUDA_KERNEL_NODE_PARAMS_v2, func);
SAME_PLACE(vti_cu_kernel_node, grid, CUDA_KERNEL_NODE_PARAMS_v2, gridDimX);
SAME_PLACE(vti_cu_kernel_node, block, CUDA_KERNEL_NODE_PARAMS_v2, blockDimX);
SAME_PLACE(vti_cu_kernel_node, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes);
SAME_PLACE(vti_cu_kernel_node, params, CUDA_KERNEL_NODE_PARAMS_v2, kernelParams);
SAME_PLACE(vti_cu_kernel_node, extra, CUDA_KERNEL_NODE_PARAMS_v2, extra);
SAME_PLACE(vti_cu_kernel_node, kernel, CUDA_KERNEL_NODE_PARAMS_v2, kern);
SAME_PLACE(vti_cu_kernel_node, context, CUDA_KERNEL_NODE_PARAMS_v2, ctx);

SAME_SIZE(vti_cu_copy_2d, CUDA_MEMCPY2D);
SAME_PLACE(vti_cu_copy_2d, src_x, CUDA_MEMCPY2D, srcXInBytes);
SAME_PLACE(vti_cu_copy_2d, src_y, CUDA_MEMCPY2D, srcY);
SAME_PLACE(vti_cu_copy_2d, src_type, CUDA_MEMCPY2D, srcMemoryType);
SAME_PLACE(vti_cu_copy_2d, src_host, CUDA_MEMCPY2D, srcHost);
SAME_PLACE(vti_cu_copy_2d, src_device, CUDA_MEMCPY2D, srcDevice);
SAME_PLACE(vti_cu_copy_2d, src_array, CUDA_MEMCPY2D, srcArray);
SAME_PLACE(vti_cu_copy_2d, src_pitch, CUDA_MEMCPY2D, srcPitch);
SAME_PLACE(vti_cu_copy_2d, dst_x, CUDA_MEMCPY2D, dstXInBytes);
SAME_PLACE(vti_cu_copy_2d, dst_y, CUDA_MEMCPY2D, dstY);
SAME_PLACE(vti_cu_copy_2d, dst_type, CUDA_MEMCPY2D, dstMemoryType);
SAME_PLACE(vti_cu_copy_2d, dst_host, CUDA_MEMCPY2D, dstHost);
SAME_PLACE(vti_cu_copy_2d, dst_device, CUDA_MEMCPY2D, dstDevice);
SAME_PLACE(vti_cu_copy_2d, dst_array, CUDA_MEMCPY2D, dstArray);
SAME_PLACE(vti_cu_copy_2d, dst_pitch, CUDA_MEMCPY2D, dstPitch);
SAME_PLACE(vti_cu_copy_2d, width_bytes, CUDA_MEMCPY2D, WidthInBytes);
SAME_PLACE(vti_cu_copy_2d, height, CUDA_MEMCPY2D, Height);
