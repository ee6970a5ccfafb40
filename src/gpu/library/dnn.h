// dnn.h - cuDNN, opened, and the attentions that it was asked for.
//
// A graph is described, planned and kept for each shape, when it is first wanted; what the library
// does not support is remembered, too. As many shapes are kept as engines have batch sizes; the one
// used longest ago makes room.
//
// Threads: one at a time. Errors: as cu.h, with lines such as "cuda:0: cudnnBackendExecute:
// CUDNN_STATUS_EXECUTION_FAILED (..)". All calls are made between fxi_cu_enter and fxi_cu_leave.
#ifndef FXI_GPU_DNN_H
#define FXI_GPU_DNN_H

#include "gpu/driver/cu.h"
#include "gpu/library/sdpa.h"

enum { FXI_DNN_MAX_SHAPE = 32, FXI_DNN_WORKSPACE_BYTES = 32 << 20 };

typedef struct fxi_dnn_kept {
    fxi_sdpa_shape shape; // n_seq 0: a free place
    fxi_sdpa sdpa;        // all zero: not supported
    uint64_t used;
} fxi_dnn_kept;

typedef struct fxi_dnn {
    fxi_dnn_api api; // not loaded: this is not open
    fxi_cu *cu;
    fxi_dnn_handle handle;
    fxi_dnn_kept kept[FXI_DNN_MAX_SHAPE];
    uint64_t n_use;
} fxi_dnn;

// Loads the library, whose work then goes to the compute stream. cu is borrowed until close.
// Errors: also FX_EINVAL: there is no cuDNN, or an older one. *dnn is then closed.
fx_status fxi_dnn_open(fxi_dnn *dnn, fxi_cu *cu, fx_error *err);
void fxi_dnn_close(fxi_dnn *dnn); // also one that is not open, or all zero. Pre: nothing runs
bool fxi_dnn_is_open(const fxi_dnn *dnn);

// Attention of a shape, planned; *out NULL: it is not supported.
fx_status fxi_dnn_find(fxi_dnn *dnn, const fxi_sdpa_shape *shape, const fxi_sdpa **out,
                       fx_error *err);
// Executes it (fxi_sdpa_run). workspace: FXI_DNN_WORKSPACE_BYTES of the device
fx_status fxi_dnn_run(fxi_dnn *dnn, const fxi_sdpa *s, void *const *data, void *workspace,
                      fx_error *err);

#endif
