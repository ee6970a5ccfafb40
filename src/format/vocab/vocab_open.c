// vocab_open.c - a vocabulary from a path: chooses the reader by the form of the file, reads what
// is beside it, and builds.
//
//   a folder                tokenizer.json in it, otherwise tokenizer.model, otherwise vocab.json
//   "GGUF"                  a model, or a vocabulary alone
//   "{" .. with "model"     tokenizer.json
//   "{" .. without          encoder.json or vocab.json, with vocab.bpe or merges.txt beside it
//   base64, space, number   a rank file
//   anything else           a SentencePiece model
//
// Beside a tokenizer.json, a SentencePiece model or a vocab.json, tokenizer_config.json has BOS,
// EOS and the chat template, which chat_template.jinja overrides; of the latter two also added
// tokens. Its class of tokenizers implies how a vocab.json's words are cut.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fail.h"
#include "format/gguf.h"
#include "format/vocab/build/vocab_build.h"
#include "format/vocab/read/vocab_read.h"
#include "format/vocab/write/vocab_write.h"

enum { MAX_FILE_BYTES = 64 << 20, PATH_BYTES = 4096 };

//
// Files
//

static fx_status read_open_file(FILE *f, const char *path, fxi_buf *out, fx_error *err)
{
    enum { STEP_BYTES = 1 << 16 };
    size_t n;
    do {
        if (!fxi_buf_reserve(out, STEP_BYTES))
            return fxi_fail(err, FX_ENOMEM, "%s: no memory for the file", path);
        n = fread(out->p + out->n, 1, STEP_BYTES, f);
        out->n += n;
        if (out->n > MAX_FILE_BYTES)
            return fxi_fail(err, FX_EFORMAT, "%s: more than %d MiB: no vocabulary is that large",
                            path, MAX_FILE_BYTES >> 20);
    } while (n);
    if (ferror(f)) return fxi_fail(err, FX_EIO, "%s: cannot be read: %s", path, strerror(errno));
    out->p[out->n] = 0;
    return FX_OK;
}

static fx_status open_file(const char *path, FILE **out, fx_error *err)
{
    *out = fopen(path, "rb");
    return *out ? FX_OK
                : fxi_fail(err, fxi_errno_status(errno), "%s: cannot be opened: %s", path,
                           strerror(errno));
}

static fx_status read_file(const char *path, fxi_buf *out, fx_error *err)
{
    FILE *f;
    FX_TRY(open_file(path, &f, err));
    fx_status st = read_open_file(f, path, out, err);
    fclose(f);
    return st;
}

static bool is_file(const char *path)
{
    struct stat st;
    return !stat(path, &st) && !S_ISDIR(st.st_mode);
}

static bool is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

// The path of `name` beside `path`, or in it if `folder`. False: too long.
static bool path_beside(char out[PATH_BYTES], const char *path, bool folder, const char *name)
{
    const char *slash = strrchr(path, '/');
    const size_t n = folder ? strlen(path) : slash ? (size_t)(slash - path) : 0;
    const char *between = folder || slash ? "/" : "";
    return (size_t)snprintf(out, PATH_BYTES, "%.*s%s%s", (int)n, path, between, name) < PATH_BYTES;
}

// The first of the names that is a file there.
static bool find_beside(char out[PATH_BYTES], const char *path, bool folder,
                        const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (path_beside(out, path, folder, names[i]) && is_file(out)) return true;
    return false;
}

//
// Files beside it
//

static const char *const config_name = "tokenizer_config.json";

static fx_status read_config_file(const char *path, fxi_vocab_spec *s, fx_error *err)
{
    fxi_buf text = {0};
    const char *name = s->name;
    fx_status st = read_file(path, &text, err);
    s->name = path;
    if (st == FX_OK) st = fxi_vocab_read_config(text.p, text.n, s, err);
    s->name = name;
    fxi_buf_free(&text);
    return st;
}

static fx_status read_template_file(const char *path, fxi_vocab_spec *s, fx_error *err)
{
    fxi_buf text = {0};
    fx_status st = read_file(path, &text, err);
    if (st == FX_OK && !fxi_spec_str(s, text.p, text.n, &s->chat_template))
        st = fxi_fail(err, FX_ENOMEM, "%s: no memory for the template", path);
    fxi_buf_free(&text);
    return st;
}

static fx_status read_beside(const char *path, fxi_vocab_spec *s, fx_error *err)
{
    static const char *const jinja = "chat_template.jinja";
    char other[PATH_BYTES];
    if (find_beside(other, path, false, &config_name, 1)) FX_TRY(read_config_file(other, s, err));
    if (find_beside(other, path, false, &jinja, 1)) FX_TRY(read_template_file(other, s, err));
    return FX_OK;
}

//
// Kinds of files
//

// The text of a file that is kept in a model's file, then the model's own keys for special tokens.
static fx_status read_model(const fxi_gguf *g, fxi_vocab_spec *s, fx_error *err)
{
    fxi_str json = {NULL, 0};
    const fxi_gguf_kv *kv;
    FX_TRY(fxi_gguf_str(g, FXI_KEY_HF_JSON, false, &json, err));
    FX_TRY(fxi_gguf_array(g, FXI_KEY_SENTENCEPIECE, false, FXI_GGUF_U8, &kv, err));
    if (!json.n && !kv && !fxi_gguf_find(g, "tokenizer.ggml.model") &&
        !fxi_gguf_find(g, "tokenizer.ggml.tokens"))
        return fxi_fail(err, FX_EFORMAT,
                        "%s: has no vocabulary: neither the key 'tokenizer.ggml.model' nor, in a "
                        "folder, a tokenizer.json or tokenizer.model",
                        fxi_gguf_name(g));
    if (!json.n && !kv) return fxi_vocab_read_gguf(g, s, err);
    if (json.n)
        FX_TRY(fxi_vocab_read_hf(json.p, json.n, s, err));
    else
        FX_TRY(fxi_vocab_read_sentencepiece(kv->value, kv->n_elem, s, err));
    return fxi_vocab_read_gguf_ids(g, s, err);
}

static fx_status read_gguf(const char *path, fxi_vocab_spec *s, fx_error *err)
{
    fxi_gguf *g;
    FX_TRY(fxi_gguf_open(path, &g, err));
    fx_status st = read_model(g, s, err);
    fxi_gguf_close(g);
    return st;
}

// The pre-tokenizer that tokenizer_config.json beside a pair of files implies; NULL: none.
static fx_status imply_pre(const char *path, const char **pre, fxi_vocab_spec *s, fx_error *err)
{
    char other[PATH_BYTES];
    fxi_buf text = {0};
    if (!find_beside(other, path, false, &config_name, 1)) return FX_OK;
    const char *name = s->name;
    fx_status st = read_file(other, &text, err);
    s->name = other;
    if (st == FX_OK) st = fxi_vocab_read_class(text.p, text.n, s, pre, err);
    s->name = name;
    fxi_buf_free(&text);
    return st;
}

static fx_status read_pair(const char *path, fxi_str vocab, const char *pre, fxi_vocab_spec *s,
                           fx_error *err)
{
    static const char *const names[] = {"vocab.bpe", "merges.txt"};
    char other[PATH_BYTES];
    fxi_buf merges = {0};
    if (!find_beside(other, path, false, names, sizeof names / sizeof *names))
        return fxi_fail(
            err, FX_EFORMAT,
            "%s: has no \"model\" and so is not a tokenizer.json; nor is a vocab.bpe or "
            "merges.txt beside it",
            path);
    const char *implied = NULL;
    if (!pre) FX_TRY(imply_pre(path, &implied, s, err));
    if (implied) pre = implied;
    fx_status st = read_file(other, &merges, err);
    if (st == FX_OK)
        st = fxi_vocab_read_pair(vocab, (fxi_str){merges.p, merges.n}, pre, implied, s, err);
    fxi_buf_free(&merges);
    return st == FX_OK ? read_beside(path, s, err) : st;
}

static bool begins_json(fxi_str text)
{
    size_t i = 0;
    while (i < text.n && strchr(" \t\r\n", text.p[i]) && text.p[i]) i++;
    return i < text.n && text.p[i] == '{';
}

// A tokenizer.json has an object "model", an encoder.json only numbers.
static bool has_model(fxi_str json)
{
    static const char key[] = "\"model\"";
    const char *at = json.p, *end = json.p + json.n;
    while ((at = memmem(at, (size_t)(end - at), key, sizeof key - 1))) {
        at += sizeof key - 1;
        const char *p = at;
        while (p < end && (*p == ':' || *p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')) p++;
        if (p < end && *p == '{') return true;
    }
    return false;
}

static fx_status refuse_pre(const char *path, const char *pre, fx_error *err)
{
    if (!pre) return FX_OK;
    return fxi_fail(err, FX_EINVAL,
                    "%s: says itself how text is cut into words; only a rank file takes the name "
                    "of a pre-tokenizer ('%s')",
                    path, pre);
}

static fx_status read_by_form(const char *path, fxi_str text, const char *pre, fxi_vocab_spec *s,
                              fx_error *err)
{
    const bool json = begins_json(text);
    if (fxi_ranks_begin(text.p, text.n)) return fxi_vocab_read_ranks(text.p, text.n, pre, s, err);
    if (json && !has_model(text)) return read_pair(path, text, pre, s, err);
    FX_TRY(refuse_pre(path, pre, err));
    if (json)
        FX_TRY(fxi_vocab_read_hf(text.p, text.n, s, err));
    else
        FX_TRY(fxi_vocab_read_sentencepiece(text.p, text.n, s, err));
    return read_beside(path, s, err);
}

static fx_status begins_gguf(const char *path, bool *begins, fx_error *err)
{
    char magic[4];
    FILE *f;
    FX_TRY(open_file(path, &f, err));
    *begins = fread(magic, 1, 4, f) == 4 && !memcmp(magic, "GGUF", 4);
    fclose(f);
    return FX_OK;
}

static fx_status read_path(const char *path, const char *pre, fxi_vocab_spec *s, fx_error *err)
{
    bool is_gguf;
    FX_TRY(begins_gguf(path, &is_gguf, err));
    if (is_gguf) {
        FX_TRY(refuse_pre(path, pre, err));
        return read_gguf(path, s, err);
    }
    fxi_buf text = {0};
    fx_status st = read_file(path, &text, err);
    if (st == FX_OK) st = read_by_form(path, (fxi_str){text.p, text.n}, pre, s, err);
    fxi_buf_free(&text);
    return st;
}

fx_status fxi_vocab_load(const fxi_gguf *g, fxi_vocab **out, fx_error *err)
{
    fxi_vocab_spec spec;
    fxi_vocab_spec_init(&spec, fxi_gguf_name(g));
    fx_status st = read_model(g, &spec, err);
    if (st == FX_OK) st = fxi_vocab_build(&spec, out, err);
    fxi_vocab_spec_free(&spec);
    return st;
}

// *path becomes that of the file in it, if it is a folder.
static fx_status enter_folder(const char **path, char inside[PATH_BYTES], fx_error *err)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "vocab.json"};
    if (!is_folder(*path)) return FX_OK;
    if (!find_beside(inside, *path, true, names, sizeof names / sizeof *names))
        return fxi_fail(err, FX_EIO,
                        "%s: a directory without tokenizer.json, tokenizer.model or vocab.json",
                        *path);
    *path = inside;
    return FX_OK;
}

fx_status fxi_vocab_open(const char *path, const char *pre, fxi_buf *chat_template, fxi_vocab **out,
                         fx_error *err)
{
    char inside[PATH_BYTES];
    *out = NULL;
    FX_TRY(enter_folder(&path, inside, err));
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, path);
    fx_status st = read_path(path, pre, &s, err);
    if (st == FX_OK) st = fxi_vocab_build(&s, out, err);
    if (st == FX_OK && chat_template &&
        !fxi_buf_add(chat_template, s.chat_template.p, s.chat_template.n)) {
        fxi_vocab_free(*out);
        *out = NULL;
        st = fxi_fail(err, FX_ENOMEM, "%s: no memory for the chat template", path);
    }
    fxi_vocab_spec_free(&s);
    return st;
}

//
// Describing
//

static fx_status describe_text(const char *path, fxi_gguf_writer *w, fx_error *err)
{
    const char *slash = strrchr(path, '/');
    const bool json = !strcmp(slash ? slash + 1 : path, "tokenizer.json");
    if (!json && strcmp(slash ? slash + 1 : path, "tokenizer.model")) return FX_OK;
    fxi_buf text = {0};
    fx_status st = read_file(path, &text, err);
    if (st == FX_OK && json)
        fxi_gguf_write_text(w, FXI_KEY_HF_JSON, (fxi_str){text.p, text.n});
    else if (st == FX_OK)
        fxi_gguf_write_array(w, FXI_KEY_SENTENCEPIECE, FXI_GGUF_U8, text.p, text.n);
    fxi_buf_free(&text);
    return st;
}

// `pre` is for pairs of files whose tokenizer_config.json does not imply one.
static fx_status read_for_model(const char *path, const char *pre, fxi_vocab_spec *s, fx_error *err)
{
    const size_t n = strlen(path);
    const bool pair = n > 10 && !strcmp(path + n - 10, "vocab.json");
    const char *implied = NULL;
    if (pair) FX_TRY(imply_pre(path, &implied, s, err));
    return read_path(path, pair && !implied ? pre : NULL, s, err);
}

fx_status fxi_vocab_describe(const char *path, const char *pre, size_t n_row, const fxi_ids *ends,
                             fxi_gguf_writer *w, fx_error *err)
{
    char inside[PATH_BYTES];
    FX_TRY(enter_folder(&path, inside, err));
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, path);
    fx_status st = read_for_model(path, pre, &s, err);
    if (st == FX_OK) st = fxi_vocab_write_gguf(&s, n_row, ends, w, err);
    if (st == FX_OK && s.chat_template.n)
        fxi_gguf_write_text(w, "tokenizer.chat_template", s.chat_template);
    if (st == FX_OK) st = describe_text(path, w, err);
    fxi_vocab_spec_free(&s);
    return st;
}
