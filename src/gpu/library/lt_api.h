// lt_api.h - the part of NVIDIA's cuBLASLt that multiplies matrices: its functions by name,
// declared here so that this builds without the toolkit.
//
// Values, layouts and signatures are those of cublasLt.h; where a toolkit is installed, the tests
// compare each of them with it at compile time (tests/unit/gpu/lt_h_*.c). They are the same in
// versions 12 and 13 of the library.
#ifndef FXI_GPU_LT_API_H
#define FXI_GPU_LT_API_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/driver/dl_load.h"
#include "vtensor/backend/cuda/cuda_driver.h"

#ifndef FXI_LT_TYPES // the comparison supplies those of cublasLt.h instead
typedef int fxi_lt_status;
typedef int fxi_lt_compute;   // the arithmetic
typedef int fxi_lt_number;    // a type of numbers
typedef int fxi_lt_attribute; // of a product
typedef int fxi_lt_side;      // an attribute of a layout
typedef int fxi_lt_wish;      // an attribute of a preference
typedef struct cublasLtContext *fxi_lt_handle;
typedef struct fxi_lt_product_ *fxi_lt_product; // "matmul descriptor"
typedef struct fxi_lt_layout_ *fxi_lt_layout;
typedef struct fxi_lt_preference_ *fxi_lt_preference;

// How a product is computed: data of the library's.
typedef struct fxi_lt_algo {
    uint64_t data[8];
} fxi_lt_algo;

typedef struct fxi_lt_candidate {
    fxi_lt_algo algo;
    size_t workspace_bytes;
    fxi_lt_status state;
    float waves;
    int reserved[4];
} fxi_lt_candidate;
#endif

enum {
    FXI_LT_SUCCESS = 0,
    FXI_LT_ALLOC_FAILED = 3,

    FXI_LT_COMPUTE_32F = 68,
    FXI_LT_32F = 0, // types of numbers
    FXI_LT_16F = 2,
    FXI_LT_16BF = 14,

    FXI_LT_PRODUCT_TRANSA = 3,
    FXI_LT_OP_T = 1, // its value
    FXI_LT_LAYOUT_COLS = 3,
    FXI_LT_WISH_WORKSPACE = 1, // MAX_WORKSPACE_BYTES
};

// X(member of fxi_lt_api, type of the result, name in libcublasLt, parameters)
#define FXI_LT_FUNCTIONS(X)                                                                     \
    X(create, fxi_lt_status, cublasLtCreate, (fxi_lt_handle * handle))                          \
    X(destroy, fxi_lt_status, cublasLtDestroy, (fxi_lt_handle handle))                          \
    X(get_status_name, const char *, cublasLtGetStatusName, (fxi_lt_status status))             \
    X(product_create, fxi_lt_status, cublasLtMatmulDescCreate,                                  \
      (fxi_lt_product * product, fxi_lt_compute compute, fxi_lt_number scale))                  \
    X(product_destroy, fxi_lt_status, cublasLtMatmulDescDestroy, (fxi_lt_product product))      \
    X(product_set, fxi_lt_status, cublasLtMatmulDescSetAttribute,                               \
      (fxi_lt_product product, fxi_lt_attribute which, const void *value, size_t size_bytes))   \
    X(layout_create, fxi_lt_status, cublasLtMatrixLayoutCreate,                                 \
      (fxi_lt_layout * layout, fxi_lt_number type, uint64_t n_row, uint64_t n_col, int64_t ld)) \
    X(layout_destroy, fxi_lt_status, cublasLtMatrixLayoutDestroy, (fxi_lt_layout layout))       \
    X(layout_set, fxi_lt_status, cublasLtMatrixLayoutSetAttribute,                              \
      (fxi_lt_layout layout, fxi_lt_side which, const void *value, size_t size_bytes))          \
    X(preference_create, fxi_lt_status, cublasLtMatmulPreferenceCreate,                         \
      (fxi_lt_preference * preference))                                                         \
    X(preference_destroy, fxi_lt_status, cublasLtMatmulPreferenceDestroy,                       \
      (fxi_lt_preference preference))                                                           \
    X(preference_set, fxi_lt_status, cublasLtMatmulPreferenceSetAttribute,                      \
      (fxi_lt_preference preference, fxi_lt_wish which, const void *value, size_t size_bytes))  \
    X(find, fxi_lt_status, cublasLtMatmulAlgoGetHeuristic,                                      \
      (fxi_lt_handle handle, fxi_lt_product product, fxi_lt_layout a, fxi_lt_layout b,          \
       fxi_lt_layout c, fxi_lt_layout d, fxi_lt_preference preference, int n_wanted,            \
       fxi_lt_candidate candidate[], int *n_found))                                             \
    X(multiply, fxi_lt_status, cublasLtMatmul,                                                  \
      (fxi_lt_handle handle, fxi_lt_product product, const void *alpha, const void *a,          \
       fxi_lt_layout a_layout, const void *b, fxi_lt_layout b_layout, const void *beta,         \
       const void *c, fxi_lt_layout c_layout, void *d, fxi_lt_layout d_layout,                  \
       const fxi_lt_algo *algo, void *workspace, size_t workspace_bytes, vti_cu_stream stream))

typedef struct fxi_lt_api {
    void *library; // NULL: not loaded
    FXI_LT_FUNCTIONS(FXI_DL_MEMBER)
} fxi_lt_api;

extern const fxi_dl_source fxi_lt_source; // libcublasLt.so.13 or .12

#endif
