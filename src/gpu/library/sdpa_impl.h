// sdpa_impl.h - how objects of an attention's graph are made; see sdpa.h.
#ifndef FXI_GPU_SDPA_IMPL_H
#define FXI_GPU_SDPA_IMPL_H

#include "gpu/library/sdpa.h"

#define FXI_SDPA_N_OF(list) ((int)(sizeof(list) / sizeof *(list)))

typedef struct fxi_sdpa_value { // of an attribute
    fxi_dnn_attribute which;
    fxi_dnn_type type;
    int64_t n; // 0: left out
    const void *values;
} fxi_sdpa_value;

// What the library says of a call; what: the call's name. Errors: FX_ENOMEM; FX_EINVAL: it does not
// support this; FX_EINTERNAL.
fx_status fxi_sdpa_check(const fxi_sdpa *s, fxi_dnn_status r, const char *what, fx_error *err);
// Makes an object, sets and finishes it. The caller drops *out, also where this fails.
fx_status fxi_sdpa_make_alone(const fxi_sdpa *s, fxi_dnn_kind kind, const fxi_sdpa_value *list,
                              int n, fxi_dnn_object *out, fx_error *err);
// The same, but it is dropped with the attention.
fx_status fxi_sdpa_make(fxi_sdpa *s, fxi_dnn_kind kind, const fxi_sdpa_value *list, int n,
                        fxi_dnn_object *out, fx_error *err);

typedef struct fxi_sdpa_space {
    int64_t size[4], stride[4]; // in elements
} fxi_sdpa_space;

typedef struct fxi_sdpa_operand {
    int64_t id;
    int type;            // of its data
    int64_t align_bytes; // of an element, or of a load
    const fxi_sdpa_space *space;
    fxi_dnn_object at; // the tensor of its offsets; NULL: none
    bool is_by_value;
    bool is_virtual; // lies nowhere: the result of one step, and an operand of others
} fxi_sdpa_operand;

fx_status fxi_sdpa_describe(fxi_sdpa *s, const fxi_sdpa_operand *t, fxi_dnn_object *out,
                            fx_error *err);

// The operations of a masked attention, between tensors by fxi_sdpa_tensor, of which K is
// transposed: [head_dim][max_kv_tok]. sdpa_masked.c
enum { FXI_SDPA_MAX_OPERATION = 24 };
fx_status fxi_sdpa_mask(fxi_sdpa *s, const fxi_sdpa_shape *shape, const fxi_dnn_object *tensor,
                        fxi_dnn_object *operation, int *n_operation, fx_error *err);

#endif
