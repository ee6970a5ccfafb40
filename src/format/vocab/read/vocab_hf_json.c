// vocab_hf_json.c - JSON files: parsing, members of objects by type, paths and errors.
//
// jansson refuses NUL bytes in keys, but pieces are byte strings, and some vocabularies have one
// that is a NUL. In a copy of the file, "\u0000" in a key becomes the escape of a character that
// the file does not have. Readers of keys change it back.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/utf8.h" // defines: fxi_utf8_vprint
#include "format/json_text.h"
#include "format/show.h"
#include "format/vocab/read/vocab_hf.h"

// ---- NUL in keys --------------------------------------------------------------------------------

enum { ESCAPE_BYTES = 6, FIRST_MARK = 0xE000, N_MARK = 64 }; // private use

static const char nul_escape[] = "\\u0000";

// Whether a character is in the file, as bytes or as an escape.
static bool has_character(fxi_str json, const char *utf8, const char *escape)
{
    if (memmem(json.p, json.n, utf8, 3)) return true;
    const char *at = json.p, *end = json.p + json.n;
    while ((at = memmem(at, (size_t)(end - at), "\\u", 2))) {
        if (end - at >= ESCAPE_BYTES && !strncasecmp(at, escape, ESCAPE_BYTES)) return true;
        at += 2;
    }
    return false;
}

static bool choose_mark(fxi_str json, char utf8[4], char escape[8])
{
    for (unsigned i = 0; i < N_MARK; i++) {
        const unsigned cp = FIRST_MARK + i;
        utf8[fxi_utf8_put(utf8, cp)] = 0;
        snprintf(escape, 8, "\\u%04X", cp & 0xFFFF);
        if (!has_character(json, utf8, escape)) return true;
    }
    return false;
}

// The end of the string whose first byte is at `at`: its quote, or the file's end.
static size_t string_end(fxi_str json, size_t at)
{
    while (at < json.n && json.p[at] != '"') at += json.p[at] == '\\' ? 2 : 1;
    return at < json.n ? at : json.n;
}

static bool is_key(fxi_str json, size_t quote)
{
    size_t at = quote + 1;
    while (at < json.n && json.p[at] && strchr(" \t\r\n", json.p[at])) at++;
    return at < json.n && json.p[at] == ':';
}

static void mark_string(char *p, size_t n, const char *escape)
{
    for (size_t i = 0; i < n; i += p[i] == '\\' ? 2 : 1)
        if (n - i >= ESCAPE_BYTES && !memcmp(p + i, nul_escape, ESCAPE_BYTES))
            memcpy(p + i, escape, ESCAPE_BYTES);
}

// Changes *json to a copy whose keys have the character `mark` for every NUL, if there are any;
// otherwise mark is empty. False: out of memory.
static bool hide_nul(fxi_str *json, fxi_buf *copy, char mark[4])
{
    char escape[8];
    *mark = 0;
    if (!memmem(json->p, json->n, nul_escape, ESCAPE_BYTES)) return true;
    if (!choose_mark(*json, mark, escape)) {
        *mark = 0;
        return true;
    }
    if (!fxi_buf_add(copy, json->p, json->n)) return false;
    *json = (fxi_str){copy->p, copy->n};
    for (size_t at = 0, end; at < json->n; at = end + 1) {
        const char *quote = memchr(json->p + at, '"', json->n - at);
        if (!quote) break;
        const size_t from = (size_t)(quote - json->p) + 1;
        end = string_end(*json, from);
        if (is_key(*json, end)) mark_string(copy->p + from, end - from, escape);
    }
    return true;
}

bool fxi_hf_show_nul(const char mark[4], fxi_str *key, fxi_buf *room)
{
    if (!*mark || !memmem(key->p, key->n, mark, 3)) return true;
    fxi_buf_clear(room);
    for (size_t i = 0; i < key->n;) {
        const bool is = key->n - i >= 3 && !memcmp(key->p + i, mark, 3);
        if (!fxi_buf_add(room, is ? "" : key->p + i, 1)) return false;
        i += is ? 3 : 1;
    }
    *key = (fxi_str){room->p, room->n};
    return true;
}

enum { MAX_ID = (1 << 24) - 1 };

// ---- paths and errors ---------------------------------------------------------------------------

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

// ---- members of objects -------------------------------------------------------------------------

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

// ---- the file -----------------------------------------------------------------------------------

fx_status fxi_hf_parse(fxi_hf *h, const char *json, size_t n, size_t flags, json_t **root)
{
    json_error_t e;
    bool no_memory;
    fxi_str text = {json, n};
    fxi_buf copy = {0};
    if (!hide_nul(&text, &copy, h->nul)) return fxi_hf_fail_memory(h);
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
