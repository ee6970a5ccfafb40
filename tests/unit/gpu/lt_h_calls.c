// lt_h_calls.c - compares the names and signatures of lt_api.h with the toolkit's cublasLt.h: the
// list is compiled with the toolkit's types, and each function must have the same declaration.
#include <cublasLt.h>

#define FXI_LT_TYPES
typedef cublasStatus_t fxi_lt_status;
typedef cublasComputeType_t fxi_lt_compute;
typedef cudaDataType_t fxi_lt_number;
typedef cublasLtMatmulDescAttributes_t fxi_lt_attribute;
typedef cublasLtMatrixLayoutAttribute_t fxi_lt_side;
typedef cublasLtMatmulPreferenceAttributes_t fxi_lt_wish;
typedef cublasLtHandle_t fxi_lt_handle;
typedef cublasLtMatmulDesc_t fxi_lt_product;
typedef cublasLtMatrixLayout_t fxi_lt_layout;
typedef cublasLtMatmulPreference_t fxi_lt_preference;
typedef cublasLtMatmulAlgo_t fxi_lt_algo;
typedef cublasLtMatmulHeuristicResult_t fxi_lt_candidate;
#include "gpu/library/lt_api.h"

#define SAME_TYPE(member, result, symbol, parameters)                                             \
    _Static_assert(                                                                               \
        __builtin_types_compatible_p(__typeof__(((fxi_lt_api *)0)->member), __typeof__(&symbol)), \
        #symbol);
FXI_LT_FUNCTIONS(SAME_TYPE)
