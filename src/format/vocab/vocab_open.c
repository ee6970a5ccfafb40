// vocab_open.c - opens a vocabulary by path: the file's first bytes select the reader, files next
// to it are read, and the vocabulary is built.
//
//   a folder                tokenizer.json in it
//   "GGUF"                  a model, or a vocabulary alone
//   "{"                     tokenizer.json
//   base64, space, number   a rank file
//
// Next to a tokenizer.json, tokenizer_config.json holds BOS, EOS and the chat template, which
// chat_template.jinja overrides.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fail.h"
#include "base/system/regions.h"
#include "format/gguf.h"
#include "format/vocab/build/vocab_build.h"
#include "format/vocab/read/vocab_read.h"
#include "format/vocab/vocab_write.h"

enum { MAX_FILE_BYTES = 64 << 20, PATH_BYTES = 4096 };

// ---- files --------------------------------------------------------------------------------------

// *is_gguf: the file is a GGUF file, of any size.
static fx_status map_file(const char *path, fxi_mapping *map, bool *is_gguf, fx_error *err)
{
    FX_TRY(fxi_mapping_open(path, map, err));
    *is_gguf = map->size_bytes >= 4 && !memcmp(map->data, "GGUF", 4);
    if (*is_gguf || map->size_bytes <= MAX_FILE_BYTES) return FX_OK;
    fxi_mapping_close(map);
    return fxi_fail(err, FX_EFORMAT, "%s: larger than %d MiB, the limit for a vocabulary", path,
                    MAX_FILE_BYTES >> 20);
}

static fxi_str mapped_text(const fxi_mapping *map)
{
    return (fxi_str){map->data ? (const char *)map->data : "", map->size_bytes};
}

// Reads the file `name` in the folder of `path`, if there is one.
static fx_status read_sibling(const char *path, const char *name, fxi_vocab_spec *s,
                              fx_status (*read)(fxi_str text, fxi_vocab_spec *s, fx_error *err),
                              fx_error *err)
{
    char other[PATH_BYTES];
    struct stat st;
    fxi_mapping map = {0}; // of a file that is not empty
    bool is_gguf;
    const char *slash = strrchr(path, '/'), *of = s->name;
    const int n_folder = slash ? (int)(slash + 1 - path) : 0;
    if (snprintf(other, PATH_BYTES, "%.*s%s", n_folder, path, name) >= PATH_BYTES ||
        stat(other, &st) || S_ISDIR(st.st_mode))
        return FX_OK;
    if (st.st_size) FX_TRY(map_file(other, &map, &is_gguf, err));
    s->name = other;
    const fx_status status = read(mapped_text(&map), s, err);
    s->name = of;
    fxi_mapping_close(&map);
    return status;
}

static fx_status read_template(fxi_str text, fxi_vocab_spec *s, fx_error *err)
{
    if (fxi_spec_str(s, text.p, text.n, &s->chat_template)) return FX_OK;
    return fxi_fail_memory(err);
}

// ---- kinds of files -----------------------------------------------------------------------------

// The tokenizer.json in a model's file, then the model's own keys for special tokens; or its keys.
static fx_status read_model(const fxi_gguf *g, fxi_vocab_spec *s, fx_error *err)
{
    fxi_str json = {NULL, 0};
    FX_TRY(fxi_gguf_str(g, FXI_KEY_HF_JSON, false, &json, err));
    if (json.n) {
        FX_TRY(fxi_vocab_read_hf(json, s, err));
        return fxi_vocab_read_gguf_ids(g, s, err);
    }
    if (fxi_gguf_find(g, "flexinfer.sentencepiece") &&
        !fxi_spec_warn(s,
                       "was converted from a tokenizer.model, which is no longer read: convert the "
                       "model again, with a tokenizer.json"))
        return fxi_fail_memory(err);
    if (fxi_gguf_find(g, "tokenizer.ggml.model") || fxi_gguf_find(g, "tokenizer.ggml.tokens"))
        return fxi_vocab_read_gguf(g, s, err);
    return fxi_fail(err, FX_EFORMAT,
                    "%s: has no vocabulary: no key 'tokenizer.ggml.model' (in a folder: no "
                    "tokenizer.json)",
                    fxi_gguf_name(g));
}

static fx_status refuse_pre(const char *path, const char *pre, fx_error *err)
{
    if (!pre) return FX_OK;
    return fxi_fail(err, FX_EINVAL,
                    "%s: names its own pre-tokenizer; only a rank file takes one ('%s')", path,
                    pre);
}

static fx_status read_by_form(const char *path, fxi_str text, const char *pre, fxi_vocab_spec *s,
                              fx_error *err)
{
    if (fxi_ranks_begin(text)) return fxi_vocab_read_ranks(text, pre, s, err);
    size_t i = 0;
    while (i < text.n && text.p[i] && strchr(" \t\r\n", text.p[i])) i++;
    if (i == text.n || text.p[i] != '{')
        return fxi_fail(err, FX_EFORMAT,
                        "%s: neither GGUF nor a tokenizer.json nor a rank file; transformers makes "
                        "a tokenizer.json of other formats (AutoTokenizer, save_pretrained)",
                        path);
    FX_TRY(refuse_pre(path, pre, err));
    FX_TRY(fxi_vocab_read_hf(text, s, err));
    FX_TRY(read_sibling(path, "tokenizer_config.json", s, fxi_vocab_read_config, err));
    return read_sibling(path, "chat_template.jinja", s, read_template, err);
}

// *map: the file, for its text; the caller closes it.
static fx_status read_path(const char *path, const char *pre, fxi_vocab_spec *s, fxi_mapping *map,
                           fx_error *err)
{
    bool is_gguf;
    FX_TRY(map_file(path, map, &is_gguf, err));
    if (!is_gguf) return read_by_form(path, mapped_text(map), pre, s, err);
    FX_TRY(refuse_pre(path, pre, err));
    fxi_gguf *g;
    FX_TRY(fxi_gguf_open(path, &g, err));
    fx_status st = read_model(g, s, err);
    fxi_gguf_close(g);
    return st;
}

// *path becomes that of the tokenizer.json in it, if it is a folder.
static fx_status enter_folder(const char **path, char inside[PATH_BYTES], fx_error *err)
{
    struct stat st;
    if (stat(*path, &st) || !S_ISDIR(st.st_mode)) return FX_OK;
    if (snprintf(inside, PATH_BYTES, "%s/tokenizer.json", *path) >= PATH_BYTES ||
        stat(inside, &st) || S_ISDIR(st.st_mode))
        return fxi_fail(err, FX_EIO,
                        "%s: a directory without tokenizer.json; transformers makes one of the "
                        "tokenizer's other files (AutoTokenizer, save_pretrained)",
                        *path);
    *path = inside;
    return FX_OK;
}

// ---- the face -----------------------------------------------------------------------------------

fx_status fxi_vocab_load(const fxi_gguf *g, fxi_vocab **out, fx_error *err)
{
    fxi_vocab_spec spec;
    fxi_vocab_spec_init(&spec, fxi_gguf_name(g));
    fx_status st = read_model(g, &spec, err);
    if (st == FX_OK) st = fxi_vocab_build(&spec, out, err);
    fxi_vocab_spec_free(&spec);
    return st;
}

fx_status fxi_vocab_open(const char *path, const char *pre, fxi_buf *chat_template, fxi_vocab **out,
                         fx_error *err)
{
    char inside[PATH_BYTES];
    fxi_mapping map = {0};
    fxi_vocab_spec s;
    *out = NULL;
    FX_TRY(enter_folder(&path, inside, err));
    fxi_vocab_spec_init(&s, path);
    fx_status st = read_path(path, pre, &s, &map, err);
    fxi_mapping_close(&map);
    if (st == FX_OK && chat_template &&
        !fxi_buf_add(chat_template, s.chat_template.p, s.chat_template.n))
        st = fxi_fail_memory(err);
    if (st == FX_OK) st = fxi_vocab_build(&s, out, err);
    fxi_vocab_spec_free(&s);
    return st;
}

fx_status fxi_vocab_describe(const char *folder, size_t n_row, const fxi_ids *ends,
                             fxi_gguf_writer *w, fx_error *err)
{
    char inside[PATH_BYTES];
    FX_TRY(enter_folder(&folder, inside, err));
    fxi_mapping map = {0};
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, folder);
    fx_status st = read_path(folder, NULL, &s, &map, err);
    if (st == FX_OK) st = fxi_vocab_write_gguf(&s, n_row, ends, w, err);
    if (st == FX_OK && s.chat_template.n)
        fxi_gguf_write_text(w, "tokenizer.chat_template", s.chat_template);
    if (st == FX_OK) fxi_gguf_write_text(w, FXI_KEY_HF_JSON, mapped_text(&map));
    fxi_mapping_close(&map);
    fxi_vocab_spec_free(&s);
    return st;
}
