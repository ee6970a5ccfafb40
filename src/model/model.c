// model.c - the public face: loads a transformer, runs it, and says what it is.
#include "model/decoder.h"
#include "model/load/loading.h"

static void free_decoder(fxi_model *m)
{
    fxi_transformer_free((fxi_transformer *)m);
}

static const fxi_model_ops decoder_ops = {free_decoder, fxi_decoder_submit, fxi_decoder_wait};

fx_status fxi_model_load(const fxi_gguf *g, const fxi_model_options *opt, fxi_model **out,
                         fx_error *err)
{
    fxi_transformer *m;
    *out = NULL;
    if (opt->device && opt->device->ranks)
        FX_TRY(fxi_ranks_load(g, opt, &m, err));
    else
        FX_TRY(fxi_transformer_load(g, opt, (fxi_cut){0, 1}, false, &m, err));
    m->model.ops = &decoder_ops;
    *out = &m->model;
    return FX_OK;
}

fx_status fxi_model_inspect(const fxi_gguf *g, const fxi_model_options *opt, fxi_model **out,
                            fx_error *err)
{
    fxi_transformer *m;
    *out = NULL;
    FX_TRY(fxi_transformer_load(g, opt, (fxi_cut){0, 1}, true, &m, err));
    m->model.ops = &decoder_ops;
    *out = &m->model;
    return FX_OK;
}

void fxi_model_free(fxi_model *m)
{
    if (m) m->ops->free(m);
}

fx_status fxi_model_submit(fxi_model *m, const fxi_batch *batch, float *logits, fx_error *err)
{
    return m->ops->submit(m, batch, logits, err);
}

fx_status fxi_model_wait(fxi_model *m, fx_error *err)
{
    return m->ops->wait ? m->ops->wait(m, err) : FX_OK;
}

fx_status fxi_model_forward(fxi_model *m, const fxi_batch *batch, float *logits, fx_error *err)
{
    FX_TRY(fxi_model_submit(m, batch, logits, err));
    return fxi_model_wait(m, err);
}

const fxi_model_shape *fxi_model_get_shape(const fxi_model *m)
{
    return &m->shape;
}

const char *fxi_model_kernel_path(const fxi_model *m)
{
    return m->path;
}

const char *fxi_model_kv_type_name(const fxi_model *m)
{
    return fxi_dtype_find(m->kv_type)->name;
}

size_t fxi_model_kv_row_bytes(const fxi_model *m)
{
    return m->shape.kv.group[0].row_bytes;
}
