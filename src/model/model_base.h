// model_base.h - what every model begins with: how it runs and is freed, and what it reports.
//
// There is one model in the product, the transformer of plan.h; tests put others in its
// place.
#ifndef FXI_MODEL_BASE_H
#define FXI_MODEL_BASE_H

#include "base/number/dtype.h"
#include "model/model.h"

typedef struct fxi_model_ops {
    void (*free)(fxi_model *m);
    fx_status (*submit)(fxi_model *m, const fxi_batch *batch, float *logits, fx_error *err);
    fx_status (*wait)(fxi_model *m, fx_error *err); // NULL: submit has computed everything
} fxi_model_ops;

// The first member of every model.
struct fxi_model {
    const fxi_model_ops *ops;
    fxi_model_shape shape;
    const char *path; // its kernels
    fxi_pool *pool;
    fxi_dtype kv_type;
};

#endif
