// standin_kernel_calls.h - what the stand-in has of the driver's interface for kernels beyond
// cuda_driver.h: types, layouts and signatures are those of cuda.h.
#ifndef STANDIN_KERNEL_CALLS_H
#define STANDIN_KERNEL_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vtensor/backend/cuda/cuda_driver.h"

#ifndef STANDIN_KERNEL_TYPES // the comparison supplies those of cuda.h instead
typedef struct standin_copy_side {
    size_t x_bytes, y, z, lod;
    int type; // of memory
    const void *host;
    vti_cu_ptr device;
    void *array, *reserved;
    size_t pitch, height;
} standin_copy_side;

typedef struct standin_copy_params {
    standin_copy_side src, dst;
    size_t width_bytes, height, depth;
} standin_copy_params;

typedef struct standin_fill_params {
    vti_cu_ptr dst;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height;
} standin_fill_params;
#endif

enum { STANDIN_FUNC_MAX_THREADS = 0 };

// What programs other than ours call: X(name of the call, name in libcuda.so.1, parameters).
#define STANDIN_KERNEL_FUNCTIONS(X)                                                      \
    X(func_get_attribute, cuFuncGetAttribute,                                            \
      (int *value, vti_cu_func_attribute attribute, vti_cu_function function))           \
    X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor,                            \
      (int *n_block, vti_cu_function function, int n_thread, size_t shared_bytes))       \
    X(graph_add_memcpy, cuGraphAddMemcpyNode,                                            \
      (vti_cu_node * node, vti_cu_graph graph, const vti_cu_node *after, size_t n_after, \
       const standin_copy_params *params, vti_cu_context context))                       \
    X(graph_add_memset, cuGraphAddMemsetNode,                                            \
      (vti_cu_node * node, vti_cu_graph graph, const vti_cu_node *after, size_t n_after, \
       const standin_fill_params *params, vti_cu_context context))                       \
    X(exec_set_kernel, cuGraphExecKernelNodeSetParams_v2,                                \
      (vti_cu_exec exec, vti_cu_node node, const vti_cu_kernel_node *params))

// A copy, or a fill where src is 0.
typedef struct standin_transfer {
    uintptr_t dst, src;
    bool host_dst, host_src;
    unsigned char value;
    size_t size_bytes;
} standin_transfer;

#endif
