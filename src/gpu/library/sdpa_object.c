// sdpa_object.c - cuDNN's objects with attributes; see sdpa_impl.h.
#include "gpu/library/sdpa_impl.h"

enum { TEXT_BYTES = 200 };

fx_status fxi_sdpa_check(const fxi_sdpa *s, fxi_dnn_status r, const char *what, fx_error *err)
{
    char text[TEXT_BYTES] = "";
    if (r == FXI_DNN_SUCCESS) return FX_OK;
    s->dnn->get_last_error(text, sizeof text);
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' ';
    const bool refused = r / 1000 == FXI_DNN_NOT_SUPPORTED / 1000;
    const fx_status st = r == FXI_DNN_ALLOC_FAILED ? FX_ENOMEM : refused ? FX_EINVAL : FX_EINTERNAL;
    return fxi_fail(err, st, "%s: %s (%.160s)", what, s->dnn->get_error_name(r), text);
}

static fx_status set_and_finish(const fxi_sdpa *s, fxi_dnn_object object,
                                const fxi_sdpa_value *list, int n, fx_error *err)
{
    for (int i = 0; i < n; i++)
        if (list[i].n)
            FX_TRY(fxi_sdpa_check(
                s, s->dnn->set(object, list[i].which, list[i].type, list[i].n, list[i].values),
                "cudnnBackendSetAttribute", err));
    return fxi_sdpa_check(s, s->dnn->finish(object), "cudnnBackendFinalize", err);
}

fx_status fxi_sdpa_make_alone(const fxi_sdpa *s, fxi_dnn_kind kind, const fxi_sdpa_value *list,
                              int n, fxi_dnn_object *out, fx_error *err)
{
    FX_TRY(fxi_sdpa_check(s, s->dnn->make(kind, out), "cudnnBackendCreateDescriptor", err));
    return set_and_finish(s, *out, list, n, err);
}

fx_status fxi_sdpa_make(fxi_sdpa *s, fxi_dnn_kind kind, const fxi_sdpa_value *list, int n,
                        fxi_dnn_object *out, fx_error *err)
{
    fxi_dnn_object *kept = &s->object[s->n_object];
    FX_TRY(fxi_sdpa_check(s, s->dnn->make(kind, kept), "cudnnBackendCreateDescriptor", err));
    s->n_object++;
    *out = *kept;
    return set_and_finish(s, *kept, list, n, err);
}

fx_status fxi_sdpa_describe(fxi_sdpa *s, const fxi_sdpa_operand *t, fxi_dnn_object *out,
                            fx_error *err)
{
    const fxi_sdpa_value list[] = {
        {FXI_DNN_TENSOR_TYPE, FXI_DNN_DATA_TYPE, 1, &t->type},
        {FXI_DNN_TENSOR_SIZES, FXI_DNN_INT64, 4, t->space->size},
        {FXI_DNN_TENSOR_STRIDES, FXI_DNN_INT64, 4, t->space->stride},
        {FXI_DNN_TENSOR_ID, FXI_DNN_INT64, 1, &t->id},
        {FXI_DNN_TENSOR_ALIGNMENT, FXI_DNN_INT64, 1, &t->align_bytes},
        {FXI_DNN_TENSOR_VIRTUAL, FXI_DNN_BOOLEAN, t->is_virtual, &t->is_virtual},
        {FXI_DNN_TENSOR_BY_VALUE, FXI_DNN_BOOLEAN, t->is_by_value, &t->is_by_value},
        {FXI_DNN_TENSOR_RAGGED, FXI_DNN_OBJECT, t->at != NULL, &t->at},
    };
    return fxi_sdpa_make(s, FXI_DNN_TENSOR, list, FXI_SDPA_N_OF(list), out, err);
}
