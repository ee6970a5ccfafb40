// model_open.c - the table of families: a file's architecture selects one, which loads, runs and
// frees the model.
#include "model/llama.h"

static const fxi_arch archs[] = {
    {"llama", fxi_llama_load, fxi_llama_free, fxi_llama_forward},
};

static const fxi_arch *find_arch(fxi_str name)
{
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (fxi_str_is(name, archs[i].name)) return &archs[i];
    return NULL;
}

fx_status fxi_model_load(const fxi_gguf *g, const fxi_model_options *opt, fxi_model **out,
                         fx_error *err)
{
    *out = NULL;
    fxi_str name;
    FX_TRY(fxi_gguf_str(g, "general.architecture", true, &name, err));
    const fxi_arch *arch = find_arch(name);
    if (!arch)
        return fxi_fail(err, FX_EFORMAT, "%s: architecture '%.*s' is not one we run (llama)",
                        fxi_gguf_name(g), name.n < 64 ? (int)name.n : 64, name.p);
    FX_TRY(arch->load(g, opt, out, err));
    (*out)->arch = arch;
    return FX_OK;
}

void fxi_model_free(fxi_model *m)
{
    if (m) m->arch->free(m);
}

void fxi_model_forward(fxi_model *m, const fxi_batch *batch, float *logits)
{
    m->arch->forward(m, batch, logits);
}
