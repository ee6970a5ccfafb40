// vocab_hf.c - tokenizer.json, as the library `tokenizers` writes it.
//
//   {"truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
//    "decoder", "model"}
//
// Every step is one that is known here, or refused by its name: none is passed over.
#include "format/vocab/vocab_hf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "format/json_text.h"
#include "format/show.h"

enum { MAX_ID = (1 << 24) - 1 };

//
// Paths and errors
//

__attribute__((format(printf, 1, 2))) static fxi_hf_path path_of(const char *fmt, ...)
{
    fxi_hf_path p;
    va_list args;
    va_start(args, fmt);
    vsnprintf(p.s, sizeof p.s, fmt, args);
    va_end(args);
    return p;
}

fxi_hf_path fxi_hf_key(const char *base, const char *key)
{
    return path_of("%s%s%s", base, *base ? "." : "", key);
}

fxi_hf_path fxi_hf_at(const char *base, size_t i)
{
    return path_of("%s[%zu]", base, i);
}

fx_status fxi_hf_bad(const fxi_hf *h, const char *path, const char *fmt, ...)
{
    char text[FX_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return fxi_fail(h->err, FX_EFORMAT, "%s: %s: %s", h->s->name, path, text);
}

fx_status fxi_hf_no_memory(const fxi_hf *h)
{
    return fxi_fail(h->err, FX_ENOMEM, "%s: no memory for the vocabulary", h->s->name);
}

//
// Members of objects
//

static bool is_absent(const json_t *value)
{
    return !value || json_is_null(value);
}

fx_status fxi_hf_bool(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                      bool fallback, bool *out)
{
    const json_t *value = json_object_get(of, key);
    *out = fallback;
    if (is_absent(value)) return FX_OK;
    if (!json_is_boolean(value)) return fxi_hf_bad(h, fxi_hf_key(path, key).s, "not true or false");
    *out = json_is_true(value);
    return FX_OK;
}

fx_status fxi_hf_str(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                     fxi_str *out)
{
    const json_t *value = json_object_get(of, key);
    *out = (fxi_str){NULL, 0};
    if (is_absent(value)) return FX_OK;
    if (!json_is_string(value)) return fxi_hf_bad(h, fxi_hf_key(path, key).s, "not a string");
    *out = (fxi_str){json_string_value(value), json_string_length(value)};
    return FX_OK;
}

fx_status fxi_hf_need_str(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                          fxi_str *out)
{
    FX_TRY(fxi_hf_str(h, of, path, key, out));
    return out->p ? FX_OK : fxi_hf_bad(h, fxi_hf_key(path, key).s, "missing");
}

fx_status fxi_hf_need_array(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                            const json_t **out)
{
    *out = json_object_get(of, key);
    return json_is_array(*out) ? FX_OK : fxi_hf_bad(h, fxi_hf_key(path, key).s, "not an array");
}

fx_status fxi_hf_need_object(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                             const json_t **out)
{
    *out = json_object_get(of, key);
    return json_is_object(*out) ? FX_OK : fxi_hf_bad(h, fxi_hf_key(path, key).s, "not an object");
}

fx_status fxi_hf_id(const fxi_hf *h, const json_t *value, const char *path, int32_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > MAX_ID)
        return fxi_hf_bad(h, path, "not a token's id (0 to %d)", MAX_ID);
    *out = (int32_t)json_integer_value(value);
    return FX_OK;
}

//
// Added tokens
//

static fx_status read_added(const fxi_hf *h, const json_t *of, const char *path, fxi_spec_token *t,
                            int32_t *id)
{
    bool special;
    FX_TRY(fxi_hf_id(h, json_object_get(of, "id"), fxi_hf_key(path, "id").s, id));
    FX_TRY(fxi_hf_need_str(h, of, path, "content", &t->piece));
    FX_TRY(fxi_hf_bool(h, of, path, "special", false, &special));
    FX_TRY(fxi_hf_bool(h, of, path, "single_word", false, &t->whole_word));
    FX_TRY(fxi_hf_bool(h, of, path, "lstrip", false, &t->eats_left));
    FX_TRY(fxi_hf_bool(h, of, path, "rstrip", false, &t->eats_right));
    FX_TRY(fxi_hf_bool(h, of, path, "normalized", !special, &t->normalized));
    t->type = special ? FXI_TOKEN_CONTROL : FXI_TOKEN_USER;
    return FX_OK;
}

// Fills the ids up to n with tokens that nothing is spelled with; as many as the file has room for.
static fx_status fill_up_to(const fxi_hf *h, size_t n, const char *path)
{
    enum { MAX_GAP = 1 << 16 };
    if (n > h->s->n_tok + MAX_GAP)
        return fxi_hf_bad(h, path, "id %zu leaves more than %d ids before it unused", n, MAX_GAP);
    while (h->s->n_tok < n)
        if (!fxi_spec_add_token(h->s, (fxi_spec_token){.type = FXI_TOKEN_UNUSED}))
            return fxi_hf_no_memory(h);
    return FX_OK;
}

static fx_status put_added(const fxi_hf *h, fxi_spec_token t, int32_t id, const char *path)
{
    fxi_vocab_spec *s = h->s;
    FX_TRY(fill_up_to(h, (size_t)id, path));
    if ((size_t)id == s->n_tok) return fxi_spec_add_token(s, t) ? FX_OK : fxi_hf_no_memory(h);
    fxi_spec_token *old = &s->tok[id];
    if (old->piece.n && fxi_str_compare(old->piece, t.piece))
        return fxi_hf_bad(h, path, "id %d is '%s' already", (int)id,
                          fxi_show(old->piece.p, old->piece.n).s);
    if (!old->piece.n && !fxi_spec_str(s, t.piece.p, t.piece.n, &t.piece))
        return fxi_hf_no_memory(h);
    if (old->piece.n) t.piece = old->piece;
    t.score = old->score;
    *old = t;
    return FX_OK;
}

// Empty tokens are passed over, as the library does.
static fx_status read_added_tokens(const fxi_hf *h, const json_t *root)
{
    const json_t *list = json_object_get(root, "added_tokens");
    if (is_absent(list)) return FX_OK;
    if (!json_is_array(list)) return fxi_hf_bad(h, "added_tokens", "not an array");
    for (size_t i = 0; i < json_array_size(list); i++) {
        fxi_spec_token t = {.score = 0};
        int32_t id = -1;
        const fxi_hf_path path = fxi_hf_at("added_tokens", i);
        FX_TRY(read_added(h, json_array_get(list, i), path.s, &t, &id));
        if (t.piece.n) FX_TRY(put_added(h, t, id, path.s));
    }
    return FX_OK;
}

//
// The file
//

fx_status fxi_hf_parse(const char *json, size_t n, const char *name, size_t flags, json_t **root,
                       fx_error *err)
{
    json_error_t e;
    bool no_memory;
    *root = fxi_json_text(json, n, JSON_ALLOW_NUL | flags, &no_memory, &e);
    if (no_memory) return fxi_fail(err, FX_ENOMEM, "%s: no memory for the file", name);
    if (!*root)
        return fxi_fail(err, FX_EFORMAT, "%s: line %d: %s", name, e.line,
                        fxi_show(e.text, strlen(e.text)).s);
    if (json_is_object(*root)) return FX_OK;
    json_decref(*root);
    *root = NULL;
    return fxi_fail(err, FX_EFORMAT, "%s: not a JSON object", name);
}

static fx_status read_root(fxi_hf *h, const json_t *root)
{
    static const char *const must_be_null[] = {"truncation", "padding"};
    for (size_t i = 0; i < sizeof must_be_null / sizeof *must_be_null; i++)
        if (!is_absent(json_object_get(root, must_be_null[i])))
            return fxi_hf_bad(h, must_be_null[i], "not read, it must be null");
    FX_TRY(fxi_hf_model(h, root));
    FX_TRY(read_added_tokens(h, root));
    return fxi_hf_steps(h, root);
}

fx_status fxi_vocab_read_hf(const char *json, size_t n, fxi_vocab_spec *s, fx_error *err)
{
    json_t *root;
    FX_TRY(fxi_hf_parse(json, n, s->name, 0, &root, err));
    fxi_hf h = {.s = s, .err = err};
    fx_status st = read_root(&h, root);
    fxi_index_free(&h.pieces);
    json_decref(root);
    return st;
}
