// standin_kernel_calls.h - the part of the driver's interface that runs kernels, as the stand-in
// has it: types, layouts and signatures are those of cuda.h.
#ifndef STANDIN_KERNEL_CALLS_H
#define STANDIN_KERNEL_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vtensor/backend/cuda/cuda_driver.h"

#ifndef STANDIN_KERNEL_TYPES // the comparison supplies those of cuda.h instead
typedef int standin_func_attribute;
typedef struct CUmod_st *standin_module;
typedef struct CUfunc_st *standin_function;
typedef struct CUgraph_st *standin_graph;
typedef struct CUgraphNode_st *standin_graph_node;
typedef struct CUgraphExec_st *standin_exec;

typedef struct standin_node_params {
    standin_function function;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
    void *kernel;
    vti_cu_context context;
} standin_node_params;

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

typedef struct standin_copy_2d {
    size_t src_x_bytes, src_y;
    int src_type; // of memory
    const void *src_host;
    vti_cu_ptr src_device;
    void *src_array;
    size_t src_pitch, dst_x_bytes, dst_y;
    int dst_type;
    void *dst_host;
    vti_cu_ptr dst_device;
    void *dst_array;
    size_t dst_pitch, width_bytes, height;
} standin_copy_2d;

typedef struct standin_fill_params {
    vti_cu_ptr dst;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height;
} standin_fill_params;
#endif

enum {
    STANDIN_MEMORY_HOST = 1,
    STANDIN_MEMORY_DEVICE = 2,
    STANDIN_FUNC_MAX_THREADS = 0,
    STANDIN_FUNC_DYNAMIC_SHARED = 8,
};

// X(name of the call, name in libcuda.so.1, parameters)
#define STANDIN_KERNEL_FUNCTIONS(X)                                                             \
    X(get_error_name, cuGetErrorName, (vti_cu_result r, const char **name))                     \
    X(mem_alloc, cuMemAlloc_v2, (vti_cu_ptr * at, size_t size_bytes))                           \
    X(mem_free, cuMemFree_v2, (vti_cu_ptr at))                                                  \
    X(memcpy_2d_async, cuMemcpy2DAsync_v2, (const standin_copy_2d *copy, vti_cu_stream stream)) \
    X(module_load, cuModuleLoadData, (standin_module * module, const void *image))              \
    X(module_unload, cuModuleUnload, (standin_module module))                                   \
    X(module_get_function, cuModuleGetFunction,                                                 \
      (standin_function * function, standin_module module, const char *name))                   \
    X(func_set_attribute, cuFuncSetAttribute,                                                   \
      (standin_function function, standin_func_attribute attribute, int value))                 \
    X(func_get_attribute, cuFuncGetAttribute,                                                   \
      (int *value, standin_func_attribute attribute, standin_function function))                \
    X(launch_kernel, cuLaunchKernel,                                                            \
      (standin_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,            \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,             \
       vti_cu_stream stream, void **params, void **extra))                                      \
    X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                   \
      (int *n_block, standin_function function, int n_thread, size_t shared_bytes))             \
    X(graph_create, cuGraphCreate, (standin_graph * graph, unsigned flags))                     \
    X(graph_add_kernel, cuGraphAddKernelNode_v2,                                                \
      (standin_graph_node * node, standin_graph graph, const standin_graph_node *after,         \
       size_t n_after, const standin_node_params *params))                                      \
    X(graph_add_memcpy, cuGraphAddMemcpyNode,                                                   \
      (standin_graph_node * node, standin_graph graph, const standin_graph_node *after,         \
       size_t n_after, const standin_copy_params *params, vti_cu_context context))              \
    X(graph_add_memset, cuGraphAddMemsetNode,                                                   \
      (standin_graph_node * node, standin_graph graph, const standin_graph_node *after,         \
       size_t n_after, const standin_fill_params *params, vti_cu_context context))              \
    X(graph_instantiate, cuGraphInstantiateWithFlags,                                           \
      (standin_exec * exec, standin_graph graph, unsigned long long flags))                     \
    X(graph_launch, cuGraphLaunch, (standin_exec exec, vti_cu_stream stream))                   \
    X(exec_set_kernel, cuGraphExecKernelNodeSetParams_v2,                                       \
      (standin_exec exec, standin_graph_node node, const standin_node_params *params))          \
    X(graph_exec_destroy, cuGraphExecDestroy, (standin_exec exec))

// A copy, or a fill where src is 0.
typedef struct standin_transfer {
    uintptr_t dst, src;
    bool host_dst, host_src;
    unsigned char value;
    size_t size_bytes;
} standin_transfer;

#endif
