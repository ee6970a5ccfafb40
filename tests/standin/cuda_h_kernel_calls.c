// cuda_h_kernel_calls.c - compares what standin_kernel_calls.h declares with the toolkit's cuda.h:
// the list is compiled with the toolkit's types, and each function must have the same declaration.
#include <cuda.h>

#define VTI_CU_TYPES
typedef CUresult vti_cu_result;
typedef CUdevice vti_cu_device;
typedef CUdevice_attribute vti_cu_attribute;
typedef CUmemAllocationGranularity_flags vti_cu_granularity;
typedef CUstreamCaptureStatus vti_cu_capture_status;
typedef CUstreamCaptureMode vti_cu_capture_mode;
typedef CUdeviceptr vti_cu_ptr;
typedef CUmemGenericAllocationHandle vti_cu_handle;
typedef CUcontext vti_cu_context;
typedef CUstream vti_cu_stream;
typedef CUevent vti_cu_event;
typedef CUmemAllocationProp vti_cu_prop;
typedef CUmemAccessDesc vti_cu_access;

#define STANDIN_KERNEL_TYPES
typedef CUfunction_attribute standin_func_attribute;
typedef CUmodule standin_module;
typedef CUfunction standin_function;
typedef CUgraph standin_graph;
typedef CUgraphNode standin_graph_node;
typedef CUgraphExec standin_exec;
typedef CUDA_KERNEL_NODE_PARAMS_v2 standin_node_params;
typedef CUDA_MEMCPY3D standin_copy_params;
typedef CUDA_MEMSET_NODE_PARAMS standin_fill_params;
typedef CUDA_MEMCPY2D standin_copy_2d;
#include "standin/standin_kernel_calls.h"

#define SAME_TYPE(member, symbol, parameters)                                                  \
    _Static_assert(__builtin_types_compatible_p(vti_cu_result parameters, __typeof__(symbol)), \
                   #symbol);
STANDIN_KERNEL_FUNCTIONS(SAME_TYPE)

_Static_assert((int)STANDIN_MEMORY_HOST == CU_MEMORYTYPE_HOST, "host");
_Static_assert((int)STANDIN_MEMORY_DEVICE == CU_MEMORYTYPE_DEVICE, "device");
_Static_assert((int)STANDIN_FUNC_MAX_THREADS == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "threads");
_Static_assert((int)STANDIN_FUNC_DYNAMIC_SHARED == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
               "shared");
