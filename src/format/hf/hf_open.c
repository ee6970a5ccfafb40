// hf_open.c - opens a Hugging Face folder: config.json selects the family, whose tables say what
// keys and tensors to present; the tensors' recipes stay with the fxi_gguf and make their bytes.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "format/gguf/gguf_made.h"
#include "format/hf/hf_folder.h"
#include "format/show.h"
#include "format/vocab.h"

// ---- the tokenizer: what ends a generation ------------------------------------------------------

static fx_status add_end(const fxi_folder *f, const fxi_members *c, const fxi_json *v,
                         fxi_ids *ends)
{
    const double id = fxi_json_is_number(v) ? fxi_json_number(v) : -1;
    if (!(id >= 0 && id < INT32_MAX))
        return fxi_members_fail(c, "eos_token_id", "not a token's id");
    for (size_t i = 0; i < ends->n; i++)
        if (ends->id[i] == (int32_t)id) return FX_OK;
    return fxi_ids_add(ends, (int32_t)id) ? FX_OK : fxi_fail_memory(f->err);
}

// An id, or a list of ids.
static fx_status add_ends(const fxi_folder *f, const fxi_members *c, fxi_ids *ends)
{
    const fxi_json *v = fxi_members_get(c, "eos_token_id");
    if (!v) return FX_OK;
    if (!fxi_json_is_array(v)) return add_end(f, c, v, ends);
    for (fxi_json_iter it = fxi_json_items(v); fxi_json_next(&it);)
        FX_TRY(add_end(f, c, it.value, ends));
    return FX_OK;
}

static fx_status read_ends(const fxi_folder *f, fxi_ids *ends)
{
    fxi_config generation;
    fx_status st =
        fxi_config_open(f->path, "generation_config.json", FXI_CONFIG_MAY, &generation, f->err);
    if (st == FX_OK) st = add_ends(f, &generation.all, ends);
    fxi_config_close(&generation);
    if (st == FX_OK && !ends->n) st = add_ends(f, &f->config, ends);
    return st;
}

// ---- the tokenizer: named templates -------------------------------------------------------------

// Models may have several: tokenizer_config.json lists them by name.
static fx_status write_named_templates(const fxi_folder *f)
{
    fxi_config c;
    fx_status st = fxi_config_open(f->path, "tokenizer_config.json", FXI_CONFIG_MAY, &c, f->err);
    const fxi_json *list = fxi_members_get(&c.all, "chat_template");
    if (!fxi_json_is_array(list)) list = NULL;
    for (fxi_json_iter it = fxi_json_items(list); st == FX_OK && fxi_json_next(&it);) {
        const fxi_json *text = fxi_json_get(it.value, "template");
        const char *name = fxi_json_text(fxi_json_get(it.value, "name"));
        char key[128];
        if (!name || !fxi_json_is_string(text) || !strcmp(name, "default")) continue;
        const int n = snprintf(key, sizeof key, "tokenizer.chat_template.%s", name);
        if (n > 0 && (size_t)n < sizeof key) fxi_gguf_write_text(f->w, key, fxi_json_string(text));
    }
    fxi_config_close(&c);
    return st;
}

// ---- the tokenizer: its keys --------------------------------------------------------------------

// A folder without a tokenizer opens; only its vocabulary is missing. One with nothing but files
// that are not read is refused.
static fx_status write_tokenizer(fxi_folder *f)
{
    fxi_ids ends = {0};
    uint32_t n_row = 0;
    if (!fxi_hf_has_file(f->path, "tokenizer.json") &&
        !fxi_hf_has_file(f->path, "tokenizer.model") && !fxi_hf_has_file(f->path, "vocab.json"))
        return FX_OK;
    FX_TRY(fxi_members_u32(&f->config, "vocab_size", false, &n_row));
    fx_status st = read_ends(f, &ends);
    if (st == FX_OK) st = fxi_vocab_describe(f->path, n_row, &ends, f->w, f->err);
    if (st == FX_OK) st = write_named_templates(f);
    fxi_ids_free(&ends);
    return st;
}

// ---- how tokens are chosen by default -----------------------------------------------------------

// As numbers alone: a folder opens whatever else stands there.
static fx_status write_sampling(const fxi_folder *f)
{
    static const char *const members[][2] = {
        {"temperature", "general.sampling.temp"},
        {"top_p", "general.sampling.top_p"},
        {"top_k", "general.sampling.top_k"},
        {"min_p", "general.sampling.min_p"},
        {"repetition_penalty", "general.sampling.penalty_repeat"}};
    fxi_config c;
    const fx_status st =
        fxi_config_open(f->path, "generation_config.json", FXI_CONFIG_MAY, &c, f->err);
    for (size_t i = 0; st == FX_OK && i < sizeof members / sizeof members[0]; i++) {
        const fxi_json *v = fxi_members_get(&c.all, members[i][0]);
        if (fxi_json_is_number(v) && isfinite(fxi_json_number(v)))
            fxi_gguf_write_f32(f->w, members[i][1], (float)fxi_json_number(v));
    }
    fxi_config_close(&c);
    return st;
}

// ---- pooling: how rows become an embedding ------------------------------------------------------

static const struct pooling_mode {
    const char *member, *name; // a flag of config.json, or the value of its pooling_mode
    uint32_t type;             // GGUF's number
} pooling_modes[] = {{"pooling_mode_mean_tokens", "mean", 1},
                     {"pooling_mode_cls_token", "cls", 2},
                     {"pooling_mode_lasttoken", "lasttoken", 3}};

enum { N_MODE = sizeof pooling_modes / sizeof *pooling_modes };

// By name, or by flags; *type stays 0 for a file that is absent.
static fx_status read_mode(const fxi_members *c, uint32_t *type)
{
    const bool named = fxi_members_get(c, "pooling_mode") != NULL;
    fxi_str name = {0};
    if (!fxi_json_object_size(c->root)) return FX_OK;
    FX_TRY(fxi_members_str(c, "pooling_mode", false, &name));
    for (size_t i = 0; i < N_MODE; i++) {
        bool on = named && fxi_str_is(name, pooling_modes[i].name);
        if (!named) FX_TRY(fxi_members_bool(c, pooling_modes[i].member, &on));
        if (on && *type)
            return fxi_members_fail(c, pooling_modes[i].member, "more than one pooling mode");
        if (on) *type = pooling_modes[i].type;
    }
    return *type
               ? FX_OK
               : fxi_members_fail(c, "pooling_mode", "only mean, cls and lasttoken are supported");
}

// ---- pooling: modules.json ----------------------------------------------------------------------

// A layer after pooling: its own folder has a matrix, and says what else there is.
static fx_status read_dense_step(fxi_folder *f, const fxi_members *c, const char *step)
{
    char path[600];
    fxi_config config;
    bool bias = false;
    fxi_str act = {0};
    if (!step || strspn(step, "0123456789") != 1 || strcmp(step + 1, "_Dense") != 0 ||
        f->n_dense == FXI_HF_MAX_DENSE)
        return fxi_members_fail(c, "path", "the layers after pooling are not two in N_Dense");
    snprintf(path, sizeof path, "%s/config.json", step);
    FX_TRY(fxi_config_open(f->path, path, FXI_CONFIG_MUST, &config, f->err));
    fx_status st = fxi_members_bool(&config.all, "bias", &bias);
    if (st == FX_OK) st = fxi_members_str(&config.all, "activation_function", false, &act);
    if (st == FX_OK && (bias || (act.n && !fxi_str_ends_in(act, ".Identity"))))
        st = fxi_members_fail(&config.all, bias ? "bias" : "activation_function",
                              "a layer after pooling is only supported as a matrix alone");
    fxi_config_close(&config);
    FX_TRY(st);
    snprintf(path, sizeof path, "%s/%s/model.safetensors", f->path, step);
    fxi_safetensors *file = &f->dense[f->n_dense];
    f->n_dense++;
    FX_TRY(fxi_safetensors_open(path, file, f->err));
    if (file->n_tensor != 1 || strcmp(file->tensor[0].name, "linear.weight") != 0)
        return fxi_fail(f->err, FX_EFORMAT, "%s: holds another tensor than linear.weight", path);
    snprintf(path, sizeof path, "dense_%zu.weight", f->n_dense + 1);
    return fxi_hf_plan_matrix(f, path, &file->tensor[0]);
}

// Steps of other kinds change the vector.
static fx_status read_modules(fxi_folder *f, const fxi_members *c, bool *normalizes)
{
    for (size_t i = 0; i < fxi_json_array_size(c->root); i++) {
        // The last word of "sentence_transformers.models.Pooling".
        const char *type = fxi_json_text(fxi_json_get(fxi_json_at(c->root, i), "type"));
        const char *dot = type ? strrchr(type, '.') : NULL, *name = dot ? dot + 1 : type;
        if (!name) name = "";
        *normalizes |= !strcmp(name, "Normalize");
        if (!strcmp(name, "Dense") && f->family->flags & FXI_HF_DENSE) {
            const fxi_json *step = fxi_json_get(fxi_json_at(c->root, i), "path");
            FX_TRY(read_dense_step(f, c, fxi_json_text(step)));
            continue;
        }
        if (strcmp(name, "Transformer") && strcmp(name, "Pooling") && strcmp(name, "Normalize"))
            return fxi_members_fail(c, "type", "module '%s' is not supported",
                                    fxi_show_text(fxi_str_of(name)).s);
    }
    return FX_OK;
}

static fx_status write_modules(fxi_folder *f, uint32_t type, const fxi_members *modules)
{
    bool normalizes = false;
    FX_TRY(read_modules(f, modules, &normalizes));
    if (!type) return FX_OK;
    fxi_gguf_write_u32(f->w, FXI_HF_ARCH_KEY(f, "pooling_type"), type);
    if (fxi_json_is_array(modules->root))
        fxi_gguf_write_bool(f->w, FXI_HF_ARCH_KEY(f, "pooling_normalize"), normalizes);
    return FX_OK;
}

// ---- the score of a pair of texts ---------------------------------------------------------------

// What a folder of Sentence Transformers says of the score; a sigmoid is what others have, too.
static fx_status write_score(const fxi_folder *f)
{
    enum { RANK = 4 };
    const fxi_members *all = &f->whole.all, part = fxi_members_part(all, "sentence_transformers");
    fxi_str fn = {0};
    FX_TRY(fxi_members_str(all, "sbert_ce_default_activation_function", false, &fn));
    if (!fn.n && part.root) FX_TRY(fxi_members_str(&part, "activation_fn", false, &fn));
    const bool is_raw = fxi_str_ends_in(fn, ".Identity");
    if (fn.n && !is_raw && !fxi_str_ends_in(fn, ".Sigmoid"))
        return fxi_members_fail(all, "sentence_transformers",
                                "activation '%s' of a score is neither Identity nor Sigmoid",
                                fxi_show_text(fn).s);
    fxi_gguf_write_u32(f->w, FXI_HF_ARCH_KEY(f, "pooling_type"), RANK);
    if (is_raw) fxi_gguf_write_bool(f->w, "flexinfer.raw_scores", true);
    return FX_OK;
}

static fx_status write_pooling(fxi_folder *f)
{
    fxi_config pooling, modules;
    uint32_t type = 0;
    if (f->family->flags & FXI_HF_SCORES) return write_score(f);
    fx_status st =
        fxi_config_open(f->path, "1_Pooling/config.json", FXI_CONFIG_MAY, &pooling, f->err);
    if (st == FX_OK) st = read_mode(&pooling.all, &type);
    fxi_config_close(&pooling);
    FX_TRY(st);
    st = fxi_config_open(f->path, "modules.json", FXI_CONFIG_LIST, &modules, f->err);
    if (st == FX_OK) st = write_modules(f, type, &modules.all);
    fxi_config_close(&modules);
    return st;
}

// ---- tensors, as an fxi_gguf asks for them ------------------------------------------------------

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
    for (size_t i = 0; i < f->n_dense; i++) fxi_safetensors_close(&f->dense[i]);
    free(f->packed);
    fxi_json_doc_free(&f->defaults);
    fxi_config_close(&f->whole);
    free(f);
}

// ---- the family --------------------------------------------------------------------------------

// A model that sees pictures has its text model's config inside.
static fx_status choose_family(fxi_folder *f)
{
    fxi_str type;
    f->config = f->whole.all;
    const fxi_members text = fxi_members_part(&f->whole.all, "text_config");
    if (text.root && fxi_members_get(&text, "model_type")) f->config = text;
    FX_TRY(fxi_members_str(&f->config, "model_type", true, &type));
    const fxi_json *all = fxi_members_get(&f->whole.all, "architectures");
    f->family = fxi_hf_family_find(type, fxi_json_string(fxi_json_at(all, 0)));
    if (f->family) return fxi_hf_add_defaults(f);
    char list[384];
    fxi_hf_family_list(list, sizeof list);
    return fxi_members_fail(&f->whole.all, "model_type", "'%s' is not supported, only %s",
                            fxi_show_text(type).s, list);
}

// ---- the whole ---------------------------------------------------------------------------------

// general.file_type, llama.cpp's number for what most matrices are.
static void write_file_type(const fxi_folder *f)
{
    static const struct file_type {
        fxi_dtype type;
        uint32_t number;
    } types[] = {{FXI_F32, 0},    {FXI_F16, 1},  {FXI_BF16, 32},
                 {FXI_MXFP4, 38}, {FXI_Q4_0, 2}, {FXI_Q5_0, 8}};
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

// The folder's own name: GGUF files are often renamed. A snapshot in the hub's cache,
// models--ORG--NAME/snapshots/COMMIT, has that of its repository. Cuts the path.
static const char *folder_name(char *path)
{
    char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const size_t n = slash ? (size_t)(slash - path) : 0, n_tail = sizeof "/snapshots" - 1;
    if (n < n_tail || memcmp(slash - n_tail, "/snapshots", n_tail) != 0) return name;
    slash[-(ptrdiff_t)n_tail] = 0;
    const char *dashes = NULL;
    for (const char *p = path; (p = strstr(p, "--")); p += 2) dashes = p;
    return dashes && !strchr(dashes, '/') ? dashes + 2 : name;
}

static fx_status translate_folder(fxi_folder *f)
{
    FX_TRY(fxi_config_open(f->path, "config.json", FXI_CONFIG_MUST, &f->whole, f->err));
    FX_TRY(choose_family(f));
    FX_TRY(fxi_hf_files_open(f->path, &f->files, f->err));
    FX_TRY(fxi_hf_read_numbers(f));
    FX_TRY(fxi_hf_write_keys(f));
    FX_TRY(write_pooling(f));
    char *path = realpath(f->path, NULL);
    if (!path && errno == ENOMEM) return fxi_fail_memory(f->err);
    const char *name = path ? folder_name(path) : "";
    if (name[0]) fxi_gguf_write_str(f->w, "general.name", name);
    free(path);
    FX_TRY(write_tokenizer(f));
    FX_TRY(write_sampling(f));
    FX_TRY(fxi_hf_plan_tensors(f));
    write_file_type(f);
    for (size_t i = 0; i < f->n_recipe; i++) {
        const fxi_recipe *r = &f->recipe[i];
        fxi_gguf_declare_tensor(f->w, r->name, r->type, r->n_dim, r->ne);
    }
    return FX_OK;
}

fx_status fxi_hf_open(const char *folder, fxi_gguf **out, fx_error *err)
{
    fxi_folder *f = calloc(1, sizeof *f);
    fxi_buf head = {0};
    *out = NULL;
    if (!f) return fxi_fail_memory(err);
    f->path = folder;
    f->err = err;
    fx_status st = fxi_gguf_writer_open_memory(f->path, &f->w, f->err);
    if (st == FX_OK) {
        st = translate_folder(f);
        // It frees the writer in every case.
        const fx_status taken = fxi_gguf_writer_take_head(f->w, &head, st == FX_OK ? err : NULL);
        f->w = NULL;
        if (st == FX_OK) st = taken;
    }
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

// ---- a path: the reader by what is there --------------------------------------------------------

fx_status fxi_model_file_open(const char *path, fxi_gguf **out, fx_error *err)
{
    static const char *const names[] = {".safetensors", ".safetensors.index.json", "/config.json"};
    struct stat file;
    *out = NULL;
    if (stat(path, &file)) return fxi_gguf_open(path, out, err);
    if (S_ISDIR(file.st_mode)) return fxi_hf_open(path, out, err);
    bool of_folder = !strcmp(path, "config.json");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        of_folder |= fxi_str_ends_in(fxi_str_of(path), names[i]);
    if (!of_folder) return fxi_gguf_open(path, out, err);
    const char *slash = strrchr(path, '/'); // the file stands for its folder
    char *folder = slash ? strndup(path, (size_t)(slash - path) + !(slash - path)) : strdup(".");
    if (!folder) return fxi_fail_memory(err);
    const fx_status st = fxi_hf_open(folder, out, err);
    free(folder);
    return st;
}
