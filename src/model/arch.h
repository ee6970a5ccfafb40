// arch.h - what an architecture family provides, and what all models begin with. Only for
// src/model.
#ifndef FXI_MODEL_ARCH_H
#define FXI_MODEL_ARCH_H

#include "kernels/kernels.h"
#include "model/model.h"

typedef struct fxi_arch {
    const char *name; // value of general.architecture
    fx_status (*load)(const fxi_gguf *g, const fxi_model_options *opt, fxi_model **out,
                      fx_error *err);
    void (*free)(fxi_model *m);
    void (*forward)(fxi_model *m, const fxi_batch *batch, float *logits);
} fxi_arch;

// The first member of every model; the rest belongs to its family.
struct fxi_model {
    const fxi_arch *arch; // set by fxi_model_load
    fxi_model_shape shape;
    const fxi_kernels *k;
    fxi_pool *pool;
    fxi_dtype kv_type;
};

// The type of cache that an option names; NULL: f16. Errors: FX_EINVAL (unknown, or not possible
// with heads of head_dim numbers).
fx_status fxi_model_kv_type(const char *name, int head_dim, fxi_dtype *out, fx_error *err);

#endif
