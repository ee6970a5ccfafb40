// lt_h_numbers.c - compares the numbers and layouts of lt_api.h with the toolkit's cublasLt.h.
#include <cublasLt.h>

#include "gpu/library/lt_api.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(FXI_LT_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME(FXI_LT_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(FXI_LT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(FXI_LT_32F, CUDA_R_32F);
SAME(FXI_LT_16F, CUDA_R_16F);
SAME(FXI_LT_16BF, CUDA_R_16BF);
SAME(FXI_LT_PRODUCT_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(FXI_LT_OP_T, CUBLAS_OP_T);
SAME(FXI_LT_LAYOUT_COLS, CUBLASLT_MATRIX_LAYOUT_COLS);
SAME(FXI_LT_WISH_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);

#define SAME_PLACE(our, our_member, their, their_member)                                     \
    _Static_assert(offsetof(our, our_member) == offsetof(their, their_member) &&             \
                       sizeof(((our *)0)->our_member) == sizeof(((their *)0)->their_member), \
                   #their "." #their_member)
_Static_assert(sizeof(fxi_lt_algo) == sizeof(cublasLtMatmulAlgo_t), "cublasLtMatmulAlgo_t");
_Static_assert(sizeof(fxi_lt_candidate) == sizeof(cublasLtMatmulHeuristicResult_t),
               "cublasLtMatmulHeuristicResult_t");
SAME_PLACE(fxi_lt_candidate, algo, cublasLtMatmulHeuristicResult_t, algo);
SAME_PLACE(fxi_lt_candidate, workspace_bytes, cublasLtMatmulHeuristicResult_t, workspaceSize);
SAME_PLACE(fxi_lt_candidate, state, cublasLtMatmulHeuristicResult_t, state);
SAME_PLACE(fxi_lt_candidate, waves, cublasLtMatmulHeuristicResult_t, wavesCount);
