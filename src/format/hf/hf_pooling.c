// hf_pooling.c - how an embedding model turns the rows of a text into a vector: what the files of
// Sentence Transformers say beside the weights, as GGUF's keys.
//
//   modules.json            the steps: Transformer, Pooling and perhaps Normalize
//   1_Pooling/config.json   how rows are pooled
#include <string.h>

#include "format/hf/hf_folder.h"
#include "format/show.h"

static const struct pooling_mode {
    const char *member, *name; // of config.json: a flag, or the value of pooling_mode
    uint32_t type;             // GGUF's number
} pooling_modes[] = {{"pooling_mode_mean_tokens", "mean", 1},
                     {"pooling_mode_cls_token", "cls", 2},
                     {"pooling_mode_lasttoken", "lasttoken", 3}};

enum { N_MODE = sizeof pooling_modes / sizeof *pooling_modes };

static fx_status refuse_mode(const fxi_folder *f, const fxi_config *c)
{
    return fxi_config_fail(c, "pooling_mode", f->err, "only mean, cls and lasttoken are supported");
}

static fx_status read_flags(const fxi_folder *f, const fxi_config *c, uint32_t *type)
{
    for (size_t i = 0; i < N_MODE; i++) {
        bool on = false;
        FX_TRY(fxi_config_bool(c, pooling_modes[i].member, &on, f->err));
        if (on && *type)
            return fxi_config_fail(c, pooling_modes[i].member, f->err, "a second mode of pooling");
        if (on) *type = pooling_modes[i].type;
    }
    return *type ? FX_OK : refuse_mode(f, c);
}

static fx_status read_mode(const fxi_folder *f, const fxi_config *c, uint32_t *type)
{
    const char *name = "";
    if (!json_object_size(c->root)) return FX_OK;
    if (!fxi_config_get(c, "pooling_mode")) return read_flags(f, c, type);
    FX_TRY(fxi_config_str(c, "pooling_mode", true, &name, f->err));
    for (size_t i = 0; i < N_MODE; i++)
        if (!strcmp(name, pooling_modes[i].name)) *type = pooling_modes[i].type;
    return *type ? FX_OK : refuse_mode(f, c);
}

static fx_status read_pooling_file(const fxi_folder *f, uint32_t *type)
{
    fxi_config c;
    fx_status st = fxi_config_open(f->path, "1_Pooling/config.json", false, &c, f->err);
    if (st == FX_OK) st = read_mode(f, &c, type);
    fxi_config_close(&c);
    return st;
}

// ---- the steps ---------------------------------------------------------------------------------

// The last word of a module's type, "sentence_transformers.models.Pooling".
static const char *module_name(const json_t *module)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *dot = type ? strrchr(type, '.') : NULL;
    return dot ? dot + 1 : type ? type : "";
}

// Steps of other kinds, such as Dense, change the vector.
static fx_status read_modules(const fxi_folder *f, const fxi_config *c, bool *normalizes)
{
    for (size_t i = 0; i < json_array_size(c->root); i++) {
        const char *name = module_name(json_array_get(c->root, i));
        *normalizes |= !strcmp(name, "Normalize");
        if (strcmp(name, "Transformer") && strcmp(name, "Pooling") && strcmp(name, "Normalize"))
            return fxi_config_fail(c, "type", f->err, "module '%s' is not supported",
                                   fxi_show_text(name, strlen(name)).s);
    }
    return FX_OK;
}

static fx_status write_modules(const fxi_folder *f, uint32_t type, const fxi_config *modules)
{
    char key[FXI_HF_KEY_BYTES];
    bool normalizes = false;
    FX_TRY(read_modules(f, modules, &normalizes));
    if (!type) return FX_OK;
    fxi_gguf_write_u32(f->w, fxi_hf_arch_key(f, "pooling_type", key), type);
    if (json_is_array(modules->root))
        fxi_gguf_write_bool(f->w, fxi_hf_arch_key(f, "pooling_normalize", key), normalizes);
    return FX_OK;
}

fx_status fxi_hf_write_pooling(const fxi_folder *f)
{
    fxi_config modules;
    uint32_t type = 0;
    FX_TRY(read_pooling_file(f, &type));
    fx_status st = fxi_config_open_list(f->path, "modules.json", &modules, f->err);
    if (st == FX_OK) st = write_modules(f, type, &modules);
    fxi_config_close(&modules);
    return st;
}
