// cuda_h_calls.c - compares the names and signatures of cu_api.h with the toolkit's cuda.h: the
// list is compiled with the toolkit's types, and each function must have the same declaration.
#include <cuda.h>

#define FXI_CU_TYPES
typedef CUresult fxi_cu_result;
typedef CUdevice fxi_cu_device;
typedef CUdevice_attribute fxi_cu_attribute;
typedef CUfunction_attribute fxi_cu_func_attribute;
typedef CUdeviceptr fxi_cu_ptr;
typedef CUcontext fxi_cu_context;
typedef CUstream fxi_cu_stream;
typedef CUevent fxi_cu_event;
typedef CUmodule fxi_cu_module;
typedef CUfunction fxi_cu_function;
typedef CUgraph fxi_cu_graph;
typedef CUgraphNode fxi_cu_node;
typedef CUgraphExec fxi_cu_exec;
typedef CUDA_KERNEL_NODE_PARAMS fxi_cu_kernel_node;
typedef CUmemorytype fxi_cu_memory_type;
typedef CUDA_MEMCPY2D fxi_cu_copy_2d;
#include "gpu/driver/cu_api.h"

#define SAME_TYPE(member, result, symbol, parameters)                                             \
    _Static_assert(                                                                               \
        __builtin_types_compatible_p(__typeof__(((fxi_cu_api *)0)->member), __typeof__(&symbol)), \
        #symbol);
FXI_CU_FUNCTIONS(SAME_TYPE)
