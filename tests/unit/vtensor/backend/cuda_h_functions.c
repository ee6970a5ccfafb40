// cuda_h_functions.c - compares the names and signatures of cuda_driver.h with the toolkit's
// cuda.h: the lists are compiled with the toolkit's types, and each function must have the same
// declaration.
#include <cuda.h>

#define VTI_CU_TYPES
typedef CUresult vti_cu_result;
typedef CUdevice vti_cu_device;
typedef CUdevice_attribute vti_cu_attribute;
typedef CUfunction_attribute vti_cu_func_attribute;
typedef CUmemorytype vti_cu_memory_type;
typedef CUmemAllocationGranularity_flags vti_cu_granularity;
typedef CUstreamCaptureStatus vti_cu_capture_status;
typedef CUstreamCaptureMode vti_cu_capture_mode;
typedef CUdeviceptr vti_cu_ptr;
typedef CUmemGenericAllocationHandle vti_cu_handle;
typedef CUcontext vti_cu_context;
typedef CUstream vti_cu_stream;
typedef CUevent vti_cu_event;
typedef CUmodule vti_cu_module;
typedef CUfunction vti_cu_function;
typedef CUgraph vti_cu_graph;
typedef CUgraphNode vti_cu_node;
typedef CUgraphExec vti_cu_exec;
typedef CUmemAllocationProp vti_cu_prop;
typedef CUmemAccessDesc vti_cu_access;
typedef CUDA_KERNEL_NODE_PARAMS vti_cu_kernel_node;
typedef CUDA_MEMCPY2D vti_cu_copy_2d;
#include "vtensor/backend/cuda/cuda_driver.h"

#define SAME_TYPE(member, symbol, parameters)                                                      \
    _Static_assert(__builtin_types_compatible_p(vti_cu_result(*) parameters, __typeof__(&symbol)), \
                   #symbol);
VTI_CU_FUNCTIONS(SAME_TYPE)
VTI_CU_KERNEL_FUNCTIONS(SAME_TYPE)
