// hf_vocab.c - the tokenizer of a folder as tokenizer.* keys, with what generation_config.json and
// tokenizer_config.json say beside it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/hf/hf_folder.h"
#include "format/vocab.h"

// ---- what ends a generation --------------------------------------------------------------------

static fx_status add_end(const fxi_folder *f, const fxi_config *c, const json_t *v, fxi_ids *ends)
{
    const double id = json_is_number(v) ? json_number_value(v) : -1;
    if (!(id >= 0 && id < INT32_MAX))
        return fxi_config_fail(c, "eos_token_id", f->err, "not a token's id");
    for (size_t i = 0; i < ends->n; i++)
        if (ends->id[i] == (int32_t)id) return FX_OK;
    return fxi_ids_add(ends, (int32_t)id) ? FX_OK
                                          : fxi_fail(f->err, FX_ENOMEM, "%s: no memory", f->path);
}

// An id, or a list of ids.
static fx_status add_ends(const fxi_folder *f, const fxi_config *c, fxi_ids *ends)
{
    const json_t *v = fxi_config_get(c, "eos_token_id");
    if (!v) return FX_OK;
    if (!json_is_array(v)) return add_end(f, c, v, ends);
    for (size_t i = 0; i < json_array_size(v); i++)
        FX_TRY(add_end(f, c, json_array_get(v, i), ends));
    return FX_OK;
}

static fx_status read_ends(const fxi_folder *f, fxi_ids *ends)
{
    fxi_config generation;
    fx_status st = fxi_config_open(f->path, "generation_config.json", false, &generation, f->err);
    if (st == FX_OK) st = add_ends(f, &generation, ends);
    fxi_config_close(&generation);
    if (st == FX_OK && !ends->n) st = add_ends(f, &f->config, ends);
    return st;
}

// ---- templates ---------------------------------------------------------------------------------

// Models may have several: tokenizer_config.json lists them by name.
static void write_templates(const fxi_folder *f, const fxi_config *c)
{
    const json_t *list = fxi_config_get(c, "chat_template");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *of = json_array_get(list, i), *text = json_object_get(of, "template");
        const char *name = json_string_value(json_object_get(of, "name"));
        char key[128];
        if (!name || !json_is_string(text) || !strcmp(name, "default")) continue;
        const int n = snprintf(key, sizeof key, "tokenizer.chat_template.%s", name);
        if (n > 0 && (size_t)n < sizeof key)
            fxi_gguf_write_text(f->w, key,
                                (fxi_str){json_string_value(text), json_string_length(text)});
    }
}

static fx_status write_named_templates(const fxi_folder *f)
{
    fxi_config c;
    fx_status st = fxi_config_open(f->path, "tokenizer_config.json", false, &c, f->err);
    if (st == FX_OK) write_templates(f, &c);
    fxi_config_close(&c);
    return st;
}

// ---- the whole ---------------------------------------------------------------------------------

static bool has_tokenizer(const fxi_folder *f)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "vocab.json"};
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((size_t)snprintf(path, sizeof path, "%s/%s", f->path, names[i]) < sizeof path &&
            !access(path, F_OK))
            return true;
    return false;
}

// A folder without a tokenizer opens; whoever needs the vocabulary misses its keys.
fx_status fxi_hf_write_vocab(fxi_folder *f)
{
    fxi_ids ends = {0};
    uint32_t n_row = 0;
    if (!has_tokenizer(f)) return FX_OK;
    FX_TRY(fxi_config_u32(&f->config, "vocab_size", false, &n_row, f->err));
    fx_status st = read_ends(f, &ends);
    if (st == FX_OK) st = fxi_vocab_describe(f->path, f->family->pre, n_row, &ends, f->w, f->err);
    if (st == FX_OK) st = write_named_templates(f);
    fxi_ids_free(&ends);
    return st;
}
