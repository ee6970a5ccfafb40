// arch.h - inside the model room: what an architecture family provides.
#ifndef FXI_MODEL_ARCH_H
#define FXI_MODEL_ARCH_H

#include "kernels/kernels.h"
#include "model/model.h"

typedef struct fxi_arch {
    const char *name; // general.architecture
    fx_status (*load)(const fxi_gguf *g, const fxi_model_options *opt, fxi_model **out,
                      fx_error *err);
    void (*free)(fxi_model *m);
    void (*forward)(fxi_model *m, const fxi_batch *batch, float *logits);
} fxi_arch;

// A model begins so; what follows is its family's own.
struct fxi_model {
    const fxi_arch *arch;
    fxi_model_shape shape;
    const fxi_kernels *k;
    fxi_pool *pool;
    fxi_dtype kv_type;
};

// The type that the option names. Errors: FX_EINVAL.
fx_status fxi_model_kv_type(const char *name, int head_dim, fxi_dtype *out, fx_error *err);

#endif
