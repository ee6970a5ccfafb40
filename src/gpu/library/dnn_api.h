// dnn_api.h - the part of NVIDIA's cuDNN that describes, plans and runs graphs of operations
// ("backend API"): its functions by name, declared here so that this builds without the library.
//
// Values and signatures are those of cudnn_graph.h of version 9.19; where it is installed, the
// tests compare each of them with it at compile time (tests/unit/gpu/dnn_h.c).
#ifndef FXI_GPU_DNN_API_H
#define FXI_GPU_DNN_API_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/driver/dl_load.h"

#ifndef FXI_DNN_TYPES // the comparison supplies those of cudnn_graph.h instead
typedef int fxi_dnn_status;
typedef int fxi_dnn_kind;      // of an object
typedef int fxi_dnn_attribute; // of an object
typedef int fxi_dnn_type;      // of an attribute
typedef void *fxi_dnn_object;  // "backend descriptor"
typedef struct cudnnContext *fxi_dnn_handle;
typedef struct CUstream_st *fxi_dnn_stream;
#endif

enum {
    FXI_DNN_SUCCESS = 0,
    FXI_DNN_NOT_SUPPORTED = 3000, // up to NOT_SUPPORTED + 999
    FXI_DNN_ALLOC_FAILED = 4003,  // INTERNAL_ERROR_HOST_ALLOCATION_FAILED

    FXI_DNN_POINTWISE = 0, // kinds of objects
    FXI_DNN_ENGINE_CONFIG = 3,
    FXI_DNN_HEURISTIC = 4,
    FXI_DNN_PLAN = 5,
    FXI_DNN_OPERATION_POINTWISE = 13,
    FXI_DNN_GRAPH = 15,
    FXI_DNN_VARIANT = 16, // the operands of an execution
    FXI_DNN_TENSOR = 17,
    FXI_DNN_MATMUL = 18,
    FXI_DNN_OPERATION_MATMUL = 19,
    FXI_DNN_REDUCTION = 21,
    FXI_DNN_OPERATION_REDUCTION = 22,
    FXI_DNN_DEVICE = 38,
    FXI_DNN_SDPA = 41,

    FXI_DNN_HANDLE = 0, // types of attributes
    FXI_DNN_DATA_TYPE = 1,
    FXI_DNN_BOOLEAN = 2,
    FXI_DNN_INT64 = 3,
    FXI_DNN_POINTER = 6,
    FXI_DNN_HEURISTIC_MODE = 8,
    FXI_DNN_MODE = 14, // of a pointwise step
    FXI_DNN_OBJECT = 15,
    FXI_DNN_REDUCTION_TYPE = 18, // its operator
    FXI_DNN_CHAR = 24,

    FXI_DNN_FLOAT = 0, // types of data
    FXI_DNN_HALF = 2,
    FXI_DNN_INT32 = 4,
    FXI_DNN_BFLOAT16 = 9,
    FXI_DNN_DATA_INT64 = 10,
    FXI_DNN_DATA_BOOLEAN = 11,

    FXI_DNN_ADD = 0, // modes of pointwise steps
    FXI_DNN_MUL = 1,
    FXI_DNN_DIV = 6,
    FXI_DNN_SUB = 9,
    FXI_DNN_EXP = 13,
    FXI_DNN_CMP_GE = 303,
    FXI_DNN_CMP_LT = 304,
    FXI_DNN_LOGICAL_AND = 400,
    FXI_DNN_GEN_INDEX = 501,
    FXI_DNN_SELECT = 601, // y = t ? x : b

    FXI_DNN_REDUCE_ADD = 0, // operators of reductions
    FXI_DNN_REDUCE_MAX = 3,

    FXI_DNN_POINTWISE_MODE = 0, // attributes
    FXI_DNN_POINTWISE_COMPUTE = 1,
    FXI_DNN_POINTWISE_AXIS = 9,
    FXI_DNN_HEURISTIC_MODE_VALUE = 200,
    FXI_DNN_HEURISTIC_GRAPH = 201,
    FXI_DNN_HEURISTIC_RESULTS = 202,
    FXI_DNN_HEURISTIC_DEVICE = 204,
    FXI_DNN_PLAN_CONFIG = 401,
    FXI_DNN_PLAN_WORKSPACE = 402,
    FXI_DNN_PLAN_DEVICE = 407,
    FXI_DNN_POINTWISE_WHAT = 750,
    FXI_DNN_POINTWISE_X = 751,
    FXI_DNN_POINTWISE_B = 752,
    FXI_DNN_POINTWISE_Y = 753,
    FXI_DNN_POINTWISE_T = 758,
    FXI_DNN_GRAPH_OPERATIONS = 801,
    FXI_DNN_TENSOR_ALIGNMENT = 900,
    FXI_DNN_TENSOR_TYPE = 901,
    FXI_DNN_TENSOR_SIZES = 902,
    FXI_DNN_TENSOR_STRIDES = 903,
    FXI_DNN_TENSOR_ID = 906,
    FXI_DNN_TENSOR_VIRTUAL = 907,
    FXI_DNN_TENSOR_BY_VALUE = 908,
    FXI_DNN_TENSOR_RAGGED = 913,
    FXI_DNN_VARIANT_IDS = 1000,
    FXI_DNN_VARIANT_POINTERS = 1001,
    FXI_DNN_VARIANT_WORKSPACE = 1003,
    FXI_DNN_MATMUL_COMPUTE = 1500,
    FXI_DNN_MATMUL_A = 1520,
    FXI_DNN_MATMUL_B = 1521,
    FXI_DNN_MATMUL_C = 1522,
    FXI_DNN_MATMUL_WHAT = 1523,
    FXI_DNN_REDUCTION_OPERATOR = 1600,
    FXI_DNN_REDUCTION_COMPUTE = 1601,
    FXI_DNN_REDUCTION_X = 1610,
    FXI_DNN_REDUCTION_Y = 1611,
    FXI_DNN_REDUCTION_WHAT = 1612,
    FXI_DNN_DEVICE_HANDLE = 2701,
    FXI_DNN_DEVICE_JSON = 2702,
    FXI_DNN_SDPA_Q = 2800,
    FXI_DNN_SDPA_K = 2801,
    FXI_DNN_SDPA_V = 2802,
    FXI_DNN_SDPA_OUT = 2803,
    FXI_DNN_SDPA_SCALE = 2805,
    FXI_DNN_SDPA_N_Q = 2809,
    FXI_DNN_SDPA_N_KV = 2810,

    FXI_DNN_MODE_A = 3, // the heuristic that knows most
};

// X(member of fxi_dnn_api, type of the result, name in libcudnn, parameters)
#define FXI_DNN_FUNCTIONS(X)                                                                      \
    X(get_error_name, const char *, cudnnGetErrorString, (fxi_dnn_status status))                 \
    X(get_last_error, void, cudnnGetLastErrorString, (char *text, size_t size_bytes))             \
    X(make, fxi_dnn_status, cudnnBackendCreateDescriptor,                                         \
      (fxi_dnn_kind kind, fxi_dnn_object * object))                                               \
    X(drop, fxi_dnn_status, cudnnBackendDestroyDescriptor, (fxi_dnn_object object))               \
    X(set, fxi_dnn_status, cudnnBackendSetAttribute,                                              \
      (fxi_dnn_object object, fxi_dnn_attribute which, fxi_dnn_type type, int64_t n,              \
       const void *values))                                                                       \
    X(get, fxi_dnn_status, cudnnBackendGetAttribute,                                              \
      (const fxi_dnn_object object, fxi_dnn_attribute which, fxi_dnn_type type, int64_t n_wanted, \
       int64_t *n, void *values))                                                                 \
    X(finish, fxi_dnn_status, cudnnBackendFinalize, (fxi_dnn_object object))                      \
    X(open, fxi_dnn_status, cudnnCreate, (fxi_dnn_handle * handle))                               \
    X(close, fxi_dnn_status, cudnnDestroy, (fxi_dnn_handle handle))                               \
    X(set_stream, fxi_dnn_status, cudnnSetStream, (fxi_dnn_handle handle, fxi_dnn_stream stream)) \
    X(execute, fxi_dnn_status, cudnnBackendExecute,                                               \
      (fxi_dnn_handle handle, fxi_dnn_object plan, fxi_dnn_object variant))

typedef struct fxi_dnn_api {
    void *library; // NULL: not loaded
    FXI_DNN_FUNCTIONS(FXI_DL_MEMBER)
} fxi_dnn_api;

extern const fxi_dl_source fxi_dnn_source; // libcudnn.so.9

#endif
