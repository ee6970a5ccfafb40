// vocab_hf_json.c - JSON files: parsing, members of objects by type, paths and errors.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h" // defines: fxi_utf8_vprint
#include "format/json_text.h"
#include "format/show.h"
#include "format/vocab/read/hf/vocab_hf.h"

enum { MAX_ID = (1 << 24) - 1 };

//
// Paths and errors
//

__attribute__((format(printf, 1, 2))) static fxi_hf_path path_of(const char *fmt, ...)
{
    fxi_hf_path p;
    va_list args;
    va_start(args, fmt);
    fxi_utf8_vprint(p.s, sizeof p.s, fmt, args);
    va_end(args);
    return p;
}

fxi_hf_path fxi_hf_path_key(const char *base, const char *key)
{
    return path_of("%s%s%s", base, *base ? "." : "", key);
}

fxi_hf_path fxi_hf_path_at(const char *base, size_t i)
{
    return path_of("%s[%zu]", base, i);
}

fx_status fxi_hf_fail(const fxi_hf *h, const char *path, const char *fmt, ...)
{
    char text[FX_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    fxi_utf8_vprint(text, sizeof text, fmt, args);
    va_end(args);
    return fxi_fail(h->err, FX_EFORMAT, "%s: %s: %s", h->s->name, path, text);
}

fx_status fxi_hf_fail_memory(const fxi_hf *h)
{
    return fxi_spec_fail_memory(h->s, h->err);
}

//
// Members of objects
//

bool fxi_hf_is_absent(const json_t *value)
{
    return !value || json_is_null(value);
}

fx_status fxi_hf_get_bool(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                          bool fallback, bool *out)
{
    const json_t *value = json_object_get(of, key);
    *out = fallback;
    if (fxi_hf_is_absent(value)) return FX_OK;
    if (!json_is_boolean(value))
        return fxi_hf_fail(h, fxi_hf_path_key(path, key).s, "not true or false");
    *out = json_is_true(value);
    return FX_OK;
}

fx_status fxi_hf_get_str(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                         fxi_str *out)
{
    const json_t *value = json_object_get(of, key);
    *out = (fxi_str){NULL, 0};
    if (fxi_hf_is_absent(value)) return FX_OK;
    if (!json_is_string(value)) return fxi_hf_fail(h, fxi_hf_path_key(path, key).s, "not a string");
    *out = (fxi_str){json_string_value(value), json_string_length(value)};
    return FX_OK;
}

fx_status fxi_hf_need_str(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                          fxi_str *out)
{
    FX_TRY(fxi_hf_get_str(h, of, path, key, out));
    return out->p ? FX_OK : fxi_hf_fail(h, fxi_hf_path_key(path, key).s, "missing");
}

fx_status fxi_hf_need_array(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                            const json_t **out)
{
    *out = json_object_get(of, key);
    return json_is_array(*out) ? FX_OK
                               : fxi_hf_fail(h, fxi_hf_path_key(path, key).s, "not an array");
}

fx_status fxi_hf_need_object(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                             const json_t **out)
{
    *out = json_object_get(of, key);
    return json_is_object(*out) ? FX_OK
                                : fxi_hf_fail(h, fxi_hf_path_key(path, key).s, "not an object");
}

fx_status fxi_hf_need_id(const fxi_hf *h, const json_t *value, const char *path, int32_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > MAX_ID)
        return fxi_hf_fail(h, path, "not a token's id (0 to %d)", MAX_ID);
    *out = (int32_t)json_integer_value(value);
    return FX_OK;
}

//
// The file
//

fx_status fxi_hf_parse(fxi_hf *h, const char *json, size_t n, size_t flags, json_t **root)
{
    json_error_t e;
    bool no_memory;
    fxi_str text = {json, n};
    fxi_buf copy = {0};
    if (!fxi_hf_hide_nul(&text, &copy, h->nul)) return fxi_hf_fail_memory(h);
    *root = fxi_json_text(text.p, text.n, JSON_ALLOW_NUL | flags, &no_memory, &e);
    fxi_buf_free(&copy);
    if (no_memory) return fxi_fail(h->err, FX_ENOMEM, "%s: no memory for the file", h->s->name);
    if (!*root)
        return fxi_fail(h->err, FX_EFORMAT, "%s: line %d: %s", h->s->name, e.line,
                        fxi_show_text(e.text, strlen(e.text)).s);
    if (json_is_object(*root)) return FX_OK;
    json_decref(*root);
    *root = NULL;
    return fxi_fail(h->err, FX_EFORMAT, "%s: not a JSON object", h->s->name);
}
