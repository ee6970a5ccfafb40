// cuda_h_numbers.c - the values and layouts of cu_api.h against the toolkit's cuda.h. Nothing runs:
// all comparisons are made by the compiler.
#include <cuda.h>

#include "gpu/driver/cu_api.h"

#define SAME_VALUE(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
#define SAME_PLACE(our_field, their_field)                                \
    _Static_assert(offsetof(fxi_cu_kernel_node, our_field) ==             \
                       offsetof(CUDA_KERNEL_NODE_PARAMS_v2, their_field), \
                   #their_field)

SAME_VALUE(FXI_CU_SUCCESS, CUDA_SUCCESS);
SAME_VALUE(FXI_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(FXI_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME_VALUE(FXI_CU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME_VALUE(FXI_CU_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_VALUE(FXI_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME_VALUE(FXI_CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME_VALUE(FXI_CU_ATTRIBUTE_N_SM, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(FXI_CU_ATTRIBUTE_CC_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(FXI_CU_ATTRIBUTE_CC_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(FXI_CU_ATTRIBUTE_SHARED, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_VALUE(FXI_CU_ATTRIBUTE_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_VALUE(FXI_CU_FUNC_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_VALUE(FXI_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME_VALUE(FXI_CU_EVENT_BLOCKING_SYNC, CU_EVENT_BLOCKING_SYNC);
SAME_VALUE(FXI_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);

SAME_VALUE(FXI_CU_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME_VALUE(FXI_CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);

_Static_assert(sizeof(fxi_cu_result) == sizeof(CUresult), "CUresult");
_Static_assert(sizeof(fxi_cu_attribute) == sizeof(CUdevice_attribute), "CUdevice_attribute");
_Static_assert(sizeof(fxi_cu_func_attribute) == sizeof(CUfunction_attribute), "of a function");
_Static_assert(sizeof(fxi_cu_device) == sizeof(CUdevice), "CUdevice");
_Static_assert(sizeof(fxi_cu_ptr) == sizeof(CUdeviceptr), "CUdeviceptr");
_Static_assert(sizeof(fxi_cu_kernel_node) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2), "a kernel node");

SAME_PLACE(function, func);
SAME_PLACE(grid, gridDimX);
SAME_PLACE(block, blockDimX);
SAME_PLACE(shared_bytes, sharedMemBytes);
SAME_PLACE(params, kernelParams);
SAME_PLACE(extra, extra);
SAME_PLACE(kernel, kern);
SAME_PLACE(context, ctx);

#define SAME_COPY(our_field, their_field)                                                       \
    _Static_assert(offsetof(fxi_cu_copy_2d, our_field) == offsetof(CUDA_MEMCPY2D, their_field), \
                   #their_field)

_Static_assert(sizeof(fxi_cu_copy_2d) == sizeof(CUDA_MEMCPY2D), "a copy of rows");
SAME_COPY(src_x, srcXInBytes);
SAME_COPY(src_y, srcY);
SAME_COPY(src_type, srcMemoryType);
SAME_COPY(src_host, srcHost);
SAME_COPY(src_device, srcDevice);
SAME_COPY(src_array, srcArray);
SAME_COPY(src_pitch, srcPitch);
SAME_COPY(dst_x, dstXInBytes);
SAME_COPY(dst_y, dstY);
SAME_COPY(dst_type, dstMemoryType);
SAME_COPY(dst_host, dstHost);
SAME_COPY(dst_device, dstDevice);
SAME_COPY(dst_array, dstArray);
SAME_COPY(dst_pitch, dstPitch);
SAME_COPY(width_bytes, WidthInBytes);
SAME_COPY(height, Height);
