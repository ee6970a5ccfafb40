// hf_open.c - opens a Hugging Face folder: config.json selects the family, whose tables say what
// keys and tensors to present; the tensors' recipes stay with the fxi_gguf and make their bytes.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/gguf/gguf_made.h"
#include "format/hf.h"
#include "format/hf/hf_folder.h"
#include "format/show.h"

// ---- the maker ---------------------------------------------------------------------------------

static const void *place_tensor(void *ud, uint64_t i)
{
    const fxi_folder *f = ud;
    return fxi_recipe_place(&f->recipe[i]);
}

static void drop_tensor(void *ud, const void *p, size_t n_bytes)
{
    const fxi_folder *f = ud;
    for (size_t i = 0; i < f->files.n_file; i++)
        if (fxi_mapping_holds(&f->files.file[i].map, p))
            fxi_mapping_drop(&f->files.file[i].map, p, n_bytes);
}

static bool reads_file(void *ud, const char *path)
{
    const fxi_folder *f = ud;
    for (size_t i = 0; i < f->files.n_file; i++)
        if (fxi_mapping_is_of(&f->files.file[i].map, path)) return true;
    return false;
}

static void make_tensor(void *ud, uint64_t i, uint64_t row, uint64_t n_row, void *dst)
{
    const fxi_folder *f = ud;
    fxi_recipe_make(&f->recipe[i], row, n_row, dst);
}

static void drop_sources(void *ud, uint64_t i)
{
    const fxi_folder *f = ud;
    const fxi_recipe *r = &f->recipe[i];
    for (size_t k = 0; k < r->n_src; k++)
        drop_tensor(ud, r->src[k].t->data, r->src[k].t->size_bytes);
}

static void close_folder(void *ud)
{
    fxi_folder *f = ud;
    fxi_hf_free_recipes(f);
    fxi_hf_files_close(&f->files);
    fxi_config_close(&f->whole);
    free(f);
}

// ---- the family --------------------------------------------------------------------------------

static fx_status fail_family(const fxi_folder *f, const char *type)
{
    char list[384] = "";
    size_t n = 0;
    const char *name;
    for (size_t i = 0; (name = fxi_hf_family_name(i)) && n < sizeof list - 32; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, i ? ", %s" : "%s", name);
    return fxi_config_fail(&f->whole, "model_type", f->err, "'%s' is not one of %s",
                           fxi_show_text(type, strlen(type)).s, list);
}

// A model that sees pictures has its text model's config inside.
static fx_status choose_family(fxi_folder *f)
{
    const char *type;
    f->config = f->whole;
    const fxi_config text = fxi_config_part(&f->whole, "text_config", "text_config.");
    if (text.root && fxi_config_get(&text, "model_type")) f->config = text;
    FX_TRY(fxi_config_str(&f->config, "model_type", true, &type, f->err));
    f->family = fxi_hf_family_find(type);
    return f->family ? fxi_hf_add_defaults(f) : fail_family(f, type);
}

// ---- the whole ---------------------------------------------------------------------------------

// The folder's own name: GGUF files are often renamed.
static fx_status write_name(const fxi_folder *f)
{
    char *path = realpath(f->path, NULL);
    if (!path && errno == ENOMEM) return fxi_fail(f->err, FX_ENOMEM, "%s: no memory", f->path);
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (slash && slash[1]) fxi_gguf_write_str(f->w, "general.name", slash + 1);
    free(path);
    return FX_OK;
}

// general.file_type, llama.cpp's number for what most matrices are.
static void write_file_type(const fxi_folder *f)
{
    static const struct file_type {
        fxi_dtype type;
        uint32_t number;
    } types[] = {{FXI_F32, 0}, {FXI_F16, 1}, {FXI_BF16, 32}, {FXI_MXFP4, 38}};
    uint64_t most = 0;
    uint32_t number = 0;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        uint64_t n = 0;
        for (size_t i = 0; i < f->n_recipe; i++)
            if (f->recipe[i].type == types[t].type && f->recipe[i].n_dim > 1)
                n += f->recipe[i].ne[0] * f->recipe[i].ne[1] * f->recipe[i].ne[2];
        if (n > most) most = n, number = types[t].number;
    }
    fxi_gguf_write_u32(f->w, "general.file_type", number);
}

static void declare_tensors(const fxi_folder *f)
{
    for (size_t i = 0; i < f->n_recipe; i++) {
        const fxi_recipe *r = &f->recipe[i];
        fxi_gguf_declare_tensor(f->w, r->name, r->type, r->n_dim, r->ne);
    }
}

static fx_status translate_folder(fxi_folder *f)
{
    FX_TRY(fxi_config_open(f->path, "config.json", true, &f->whole, f->err));
    FX_TRY(choose_family(f));
    FX_TRY(fxi_hf_files_open(f->path, &f->files, f->err));
    FX_TRY(fxi_hf_read_numbers(f));
    FX_TRY(fxi_hf_write_keys(f));
    FX_TRY(write_name(f));
    FX_TRY(fxi_hf_write_vocab(f));
    FX_TRY(fxi_hf_plan_tensors(f));
    write_file_type(f);
    declare_tensors(f);
    return FX_OK;
}

// The writer is freed in every case.
static fx_status make_head(fxi_folder *f, fxi_buf *head)
{
    FX_TRY(fxi_gguf_writer_open_memory(f->path, &f->w, f->err));
    fx_status st = translate_folder(f);
    fx_status taken = fxi_gguf_writer_take_head(f->w, head, st == FX_OK ? f->err : NULL);
    f->w = NULL;
    return st == FX_OK ? taken : st;
}

fx_status fxi_hf_open(const char *folder, fxi_gguf **out, fx_error *err)
{
    fxi_folder *f = calloc(1, sizeof *f);
    fxi_buf head = {0};
    *out = NULL;
    if (!f) return fxi_fail(err, FX_ENOMEM, "%s: no memory", folder);
    f->path = folder;
    f->err = err;
    fx_status st = make_head(f, &head);
    if (st != FX_OK) {
        fxi_buf_free(&head);
        close_folder(f);
        return st;
    }
    f->path = NULL; // the caller's
    const fxi_gguf_maker maker = {.ud = f,
                                  .file_bytes = f->files.size_bytes,
                                  .place = place_tensor,
                                  .make = make_tensor,
                                  .made = drop_sources,
                                  .drop = drop_tensor,
                                  .reads = reads_file,
                                  .close = close_folder};
    return fxi_gguf_present(folder, &head, &maker, out, err);
}
