// nccl_h.c - compares what nccl_api.h declares with NCCL's own header: the list is compiled with
// its types, each function must have the same declaration and each number the same value.
#include <nccl.h>

#define FXI_NCCL_TYPES
typedef ncclResult_t fxi_nccl_status;
typedef ncclDataType_t fxi_nccl_number;
typedef ncclRedOp_t fxi_nccl_op;
typedef ncclComm_t fxi_nccl_comm;
#include "gpu/comm/nccl_api.h"

#define SAME_TYPE(member, result, symbol, parameters)                                    \
    _Static_assert(__builtin_types_compatible_p(__typeof__(((fxi_nccl_api *)0)->member), \
                                                __typeof__(&symbol)),                    \
                   #symbol);
FXI_NCCL_FUNCTIONS(SAME_TYPE)

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(FXI_NCCL_SUCCESS, ncclSuccess);
SAME(FXI_NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(FXI_NCCL_F32, ncclFloat32);
SAME(FXI_NCCL_SUM, ncclSum);
