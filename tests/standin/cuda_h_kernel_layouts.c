// cuda_h_kernel_layouts.c - compares the layouts of structs and the values of errors and attributes
// that the stand-in knows with the toolkit's cuda.h.
#include <cuda.h>

#include "standin/standin_kernel_calls.h"

#define SAME_PLACE(ours, member, theirs, other) \
    _Static_assert(offsetof(ours, member) == offsetof(theirs, other), #ours "." #member)
#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #ours)

SAME_SIZE(standin_node_params, CUDA_KERNEL_NODE_PARAMS_v2);
SAME_PLACE(standin_node_params, function, CUDA_KERNEL_NODE_PARAMS_v2, func);
SAME_PLACE(standin_node_params, grid, CUDA_KERNEL_NODE_PARAMS_v2, gridDimX);
SAME_PLACE(standin_node_params, block, CUDA_KERNEL_NODE_PARAMS_v2, blockDimX);
SAME_PLACE(standin_node_params, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes);
SAME_PLACE(standin_node_params, params, CUDA_KERNEL_NODE_PARAMS_v2, kernelParams);
SAME_PLACE(standin_node_params, extra, CUDA_KERNEL_NODE_PARAMS_v2, extra);
SAME_PLACE(standin_node_params, kernel, CUDA_KERNEL_NODE_PARAMS_v2, kern);
SAME_PLACE(standin_node_params, context, CUDA_KERNEL_NODE_PARAMS_v2, ctx);

SAME_SIZE(standin_copy_params, CUDA_MEMCPY3D);
SAME_PLACE(standin_copy_params, src.x_bytes, CUDA_MEMCPY3D, srcXInBytes);
SAME_PLACE(standin_copy_params, src.type, CUDA_MEMCPY3D, srcMemoryType);
SAME_PLACE(standin_copy_params, src.host, CUDA_MEMCPY3D, srcHost);
SAME_PLACE(standin_copy_params, src.device, CUDA_MEMCPY3D, srcDevice);
SAME_PLACE(standin_copy_params, src.array, CUDA_MEMCPY3D, srcArray);
SAME_PLACE(standin_copy_params, src.pitch, CUDA_MEMCPY3D, srcPitch);
SAME_PLACE(standin_copy_params, dst.x_bytes, CUDA_MEMCPY3D, dstXInBytes);
SAME_PLACE(standin_copy_params, dst.device, CUDA_MEMCPY3D, dstDevice);
SAME_PLACE(standin_copy_params, dst.height, CUDA_MEMCPY3D, dstHeight);
SAME_PLACE(standin_copy_params, width_bytes, CUDA_MEMCPY3D, WidthInBytes);
SAME_PLACE(standin_copy_params, depth, CUDA_MEMCPY3D, Depth);

SAME_SIZE(standin_copy_2d, CUDA_MEMCPY2D);
SAME_PLACE(standin_copy_2d, src_type, CUDA_MEMCPY2D, srcMemoryType);
SAME_PLACE(standin_copy_2d, src_device, CUDA_MEMCPY2D, srcDevice);
SAME_PLACE(standin_copy_2d, src_pitch, CUDA_MEMCPY2D, srcPitch);
SAME_PLACE(standin_copy_2d, dst_type, CUDA_MEMCPY2D, dstMemoryType);
SAME_PLACE(standin_copy_2d, dst_host, CUDA_MEMCPY2D, dstHost);
SAME_PLACE(standin_copy_2d, dst_pitch, CUDA_MEMCPY2D, dstPitch);
SAME_PLACE(standin_copy_2d, width_bytes, CUDA_MEMCPY2D, WidthInBytes);
SAME_PLACE(standin_copy_2d, height, CUDA_MEMCPY2D, Height);

SAME_SIZE(standin_fill_params, CUDA_MEMSET_NODE_PARAMS);
SAME_PLACE(standin_fill_params, dst, CUDA_MEMSET_NODE_PARAMS, dst);
SAME_PLACE(standin_fill_params, value, CUDA_MEMSET_NODE_PARAMS, value);
SAME_PLACE(standin_fill_params, element_bytes, CUDA_MEMSET_NODE_PARAMS, elementSize);
SAME_PLACE(standin_fill_params, width, CUDA_MEMSET_NODE_PARAMS, width);
SAME_PLACE(standin_fill_params, height, CUDA_MEMSET_NODE_PARAMS, height);
