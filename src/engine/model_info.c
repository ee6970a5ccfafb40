// model_info.c - fx_model_info of a model, loaded or only looked at.
#include "engine/engine.h"

#include <stdio.h>
#include <string.h>

#include "format/model_file.h"
#include "format/vocab.h"
#include "model/pooling.h"

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// general.name, or the file's name without its extension.
static void fill_name(fx_model_info *info, const fxi_gguf *g, const char *path)
{
    fxi_str name = {NULL, 0};
    if (fxi_gguf_str(g, "general.name", false, &name, NULL) != FX_OK || !name.n) {
        name.p = base_name(path);
        const char *dot = strrchr(name.p, '.');
        name.n = dot && dot != name.p ? (size_t)(dot - name.p) : strlen(name.p);
    }
    snprintf(info->name, sizeof info->name, "%.*s", name.n < 127 ? (int)name.n : 127, name.p);
}

static void fill_abilities(fx_model_info *info, const fxi_model_shape *s)
{
    info->generates = s->generates;
    info->embeds = s->pooling != FXI_POOL_NONE;
    snprintf(info->pooling, sizeof info->pooling, "%s", fxi_pooling_name(s->pooling));
    if (!info->embeds) return;
    info->n_embd = s->dim;
    info->embd_tok = s->train_ctx_tok;
}

void fxi_info_fill(fx_model_info *info, const fxi_gguf *g, const fxi_model *m, const char *path)
{
    const fxi_model_shape *s = fxi_model_get_shape(m);
    fxi_str arch = {"", 0};
    (void)fxi_gguf_str(g, "general.architecture", false, &arch, NULL);
    fill_name(info, g, path);
    snprintf(info->arch, sizeof info->arch, "%.*s", arch.n < 31 ? (int)arch.n : 31, arch.p);
    snprintf(info->type, sizeof info->type, "%s", s->type->name);
    snprintf(info->kernel_path, sizeof info->kernel_path, "%s", fxi_model_kernel_path(m));
    snprintf(info->kv_type, sizeof info->kv_type, "%s", fxi_model_kv_type_name(m));
    info->file_bytes = fxi_gguf_size(g);
    info->n_param = s->n_param;
    info->mul_per_prompt_tok = s->layer_mul;
    info->mul_per_logit_row = s->output_mul;
    info->weight_bytes_per_pass = s->pass_bytes;
    info->n_layer = s->n_layer;
    info->dim = s->dim;
    info->n_head = s->n_head;
    info->n_kv_head = s->n_kv_head;
    info->head_dim = s->head_dim;
    info->n_ffn = s->n_ffn;
    info->n_vocab = s->n_vocab;
    info->bos_id = info->eos_id = -1;
    info->train_ctx_tok = info->ctx_tok = s->train_ctx_tok;
    fill_abilities(info, s);
    info->kv_bytes_per_tok = fxi_kv_tok_bytes(&s->kv);
}

// ---- without loading ---------------------------------------------------------------------------

static fx_status check_vocab(const fxi_gguf *g, const fx_model_info *info, fx_error *err)
{
    fxi_vocab *v;
    FX_TRY(fxi_vocab_load(g, &v, err));
    const int n = fxi_vocab_size(v);
    fxi_vocab_free(v);
    if (n <= info->n_vocab) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: the vocabulary has %d tokens, the embedding %d rows",
                    fxi_gguf_name(g), n, info->n_vocab);
}

static fx_status inspect_opened(const fxi_gguf *g, const char *kv_type, fx_model_info *out,
                                fx_error *err)
{
    fxi_model *m;
    const fxi_model_options opt = {.kv_type = kv_type};
    if (!fxi_gguf_n_tensor(g))
        return fxi_fail(err, FX_EFORMAT, "%s: holds a vocabulary and no weights", fxi_gguf_name(g));
    FX_TRY(fxi_model_inspect(g, &opt, &m, err));
    fxi_info_fill(out, g, m, fxi_gguf_name(g));
    out->has_chat_template = fxi_gguf_find(g, "tokenizer.chat_template") != NULL;
    fxi_model_free(m);
    return check_vocab(g, out, err);
}

fx_status fx_model_inspect(const char *model_path, const char *kv_type, fx_model_info *out,
                           fx_error *err)
{
    fxi_gguf *g;
    memset(out, 0, sizeof *out);
    FX_TRY(fxi_model_file_open(model_path, &g, err));
    fx_status st = inspect_opened(g, kv_type, out, err);
    fxi_gguf_close(g);
    return st;
}
