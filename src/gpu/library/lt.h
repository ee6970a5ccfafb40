// lt.h - linear layers by cuBLASLt: weights of f16 or bf16, rows of the same type, sums and results
// in f32.
//
// y[n_row][n_out] = a[n_row][n_in] x w[n_out][n_in]^T, all of them plain rows, one after the other.
// To the library, whose matrices are stored by columns, that is Y = W^T A with W: n_in x n_out,
// A: n_in x n_row and Y: n_out x n_row.
//
// Shapes are announced while a model is loaded. For each one and each number of rows, the library
// is asked once for its best algorithm, when such a product is first computed, and the answer is
// kept: asking takes longer than launching. Which algorithm that is, and so the order of sums,
// depends on the number of rows and on the version of the library.
//
// Threads and errors: as cu.h. A call that the library refuses leaves a line such as "cuda:0:
// cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED". All calls are made between fxi_cu_enter and
// fxi_cu_leave of the same thread.
#ifndef FXI_GPU_LT_H
#define FXI_GPU_LT_H

#include "base/number/dtype.h"
#include "gpu/driver/cu.h"
#include "gpu/library/lt_api.h"

// Of the device's memory; what NVIDIA recommends for Hopper.
enum { FXI_LT_WORKSPACE_BYTES = 32 << 20 };

typedef struct fxi_lt {
    fxi_lt_api api; // not loaded: this is not open
    fxi_cu *cu;
    fxi_lt_handle handle;
    fxi_lt_product product;
    fxi_lt_preference preference;
    struct fxi_lt_shape *shape; // [n_shape]
    int n_shape;
    int max_row;
} fxi_lt;

// Loads the library. cu is borrowed until close. Errors: also FX_EINVAL: there is no cuBLASLt.
// *lt is then closed.
fx_status fxi_lt_open(fxi_lt *lt, fxi_cu *cu, fx_error *err);
void fxi_lt_close(fxi_lt *lt); // also one that is not open, or all zero. Pre: no product runs

bool fxi_lt_is_open(const fxi_lt *lt);
// Whether layers with weights of this type can be computed.
bool fxi_lt_has_type(fxi_dtype type);

// Announces layers of a shape, which may be known already. Errors: FX_ENOMEM, of the host.
fx_status fxi_lt_announce(fxi_lt *lt, fxi_dtype type, int n_in, int n_out, fx_error *err);

// All shapes are known: makes room for the algorithms of up to max_row rows, and asks for those of
// one row and of max_row, so that a shape that the library does not take is refused now. Errors:
// FX_EINVAL: it does not take one.
fx_status fxi_lt_prepare(fxi_lt *lt, int max_row, fx_error *err);

// A product; the memory is the device's, aligned to 256 bytes.
typedef struct fxi_lt_job {
    fxi_dtype type;
    int n_in, n_out, n_row;
    const void *w, *a; // [n_out][n_in], [n_row][n_in] of `type`
    float *y;          // [n_row][n_out]
    void *workspace;   // FXI_LT_WORKSPACE_BYTES
} fxi_lt_job;

// In the compute stream. Pre: prepared; the shape was announced, and 1 <= n_row <= max_row.
fx_status fxi_lt_run(fxi_lt *lt, const fxi_lt_job *job, fx_error *err);

#endif
