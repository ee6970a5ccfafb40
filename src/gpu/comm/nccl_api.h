// nccl_api.h - the part of NVIDIA's NCCL that adds and gathers over several GPUs of one process:
// its functions by name, declared here so that this builds without the library.
//
// Values and signatures are those of nccl.h of version 2; where it is installed, the tests compare
// each of them with it at compile time (tests/unit/gpu/nccl_h.c).
#ifndef FXI_GPU_NCCL_API_H
#define FXI_GPU_NCCL_API_H

#include <stddef.h>

#include "vtensor/backend/cuda/cuda_driver.h"

#ifndef FXI_NCCL_TYPES // the comparison supplies those of nccl.h instead
typedef int fxi_nccl_status;
typedef int fxi_nccl_number; // a type of numbers
typedef int fxi_nccl_op;     // what becomes of them
typedef struct ncclComm *fxi_nccl_comm;
#endif

enum {
    FXI_NCCL_SUCCESS = 0,
    FXI_NCCL_SYSTEM_ERROR = 2, // a call of the system failed; mostly for want of memory
    FXI_NCCL_F32 = 7,
    FXI_NCCL_SUM = 0,
};

// X(member of fxi_nccl_api, type of the result, name in libnccl, parameters)
#define FXI_NCCL_FUNCTIONS(X)                                                          \
    X(get_error_text, const char *, ncclGetErrorString, (fxi_nccl_status status))      \
    X(init_all, fxi_nccl_status, ncclCommInitAll,                                      \
      (fxi_nccl_comm * comm, int n_rank, const int *devices))                          \
    X(destroy, fxi_nccl_status, ncclCommDestroy, (fxi_nccl_comm comm))                 \
    X(abort, fxi_nccl_status, ncclCommAbort, (fxi_nccl_comm comm))                     \
    X(group_start, fxi_nccl_status, ncclGroupStart, (void))                            \
    X(group_end, fxi_nccl_status, ncclGroupEnd, (void))                                \
    X(all_reduce, fxi_nccl_status, ncclAllReduce,                                      \
      (const void *from, void *to, size_t n, fxi_nccl_number type, fxi_nccl_op op,     \
       fxi_nccl_comm comm, vti_cu_stream stream))                                      \
    X(all_gather, fxi_nccl_status, ncclAllGather,                                      \
      (const void *from, void *to, size_t n, fxi_nccl_number type, fxi_nccl_comm comm, \
       vti_cu_stream stream))

#define FXI_NCCL_MEMBER(member, result, symbol, parameters) result(*member) parameters;
typedef struct fxi_nccl_api {
    void *library; // NULL: not loaded
    FXI_NCCL_FUNCTIONS(FXI_NCCL_MEMBER)
} fxi_nccl_api;
#undef FXI_NCCL_MEMBER

#endif
