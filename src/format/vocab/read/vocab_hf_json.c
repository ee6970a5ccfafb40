// vocab_hf_json.c - JSON files: parsing, members of objects by type, paths and errors.
#include <stdarg.h>
#include <stdio.h>

#include "base/text/utf8.h" // defines: fxi_utf8_vprint
#include "format/vocab/read/vocab_hf.h"

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

bool fxi_hf_is_absent(const fxi_json *value)
{
    return !value || fxi_json_is_null(value);
}

fx_status fxi_hf_get_bool(const fxi_hf *h, const fxi_json *of, const char *path, const char *key,
                          bool fallback, bool *out)
{
    const fxi_json *value = fxi_json_get(of, key);
    *out = fallback;
    if (fxi_hf_is_absent(value)) return FX_OK;
    if (!fxi_json_is_bool(value))
        return fxi_hf_fail(h, fxi_hf_path_key(path, key).s, "not true or false");
    *out = fxi_json_is_true(value);
    return FX_OK;
}

fx_status fxi_hf_get_str(const fxi_hf *h, const fxi_json *of, const char *path, const char *key,
                         fxi_str *out)
{
    const fxi_json *value = fxi_json_get(of, key);
    *out = (fxi_str){NULL, 0};
    if (fxi_hf_is_absent(value)) return FX_OK;
    if (!fxi_json_is_string(value))
        return fxi_hf_fail(h, fxi_hf_path_key(path, key).s, "not a string");
    *out = fxi_json_string(value);
    return FX_OK;
}

fx_status fxi_hf_need_str(const fxi_hf *h, const fxi_json *of, const char *path, const char *key,
                          fxi_str *out)
{
    FX_TRY(fxi_hf_get_str(h, of, path, key, out));
    return out->p ? FX_OK : fxi_hf_fail(h, fxi_hf_path_key(path, key).s, "missing");
}

fx_status fxi_hf_need_array(const fxi_hf *h, const fxi_json *of, const char *path, const char *key,
                            const fxi_json **out)
{
    *out = fxi_json_get(of, key);
    return fxi_json_is_array(*out) ? FX_OK
                                   : fxi_hf_fail(h, fxi_hf_path_key(path, key).s, "not an array");
}

fx_status fxi_hf_need_object(const fxi_hf *h, const fxi_json *of, const char *path, const char *key,
                             const fxi_json **out)
{
    *out = fxi_json_get(of, key);
    return fxi_json_is_object(*out) ? FX_OK
                                    : fxi_hf_fail(h, fxi_hf_path_key(path, key).s, "not an object");
}

fx_status fxi_hf_need_id(const fxi_hf *h, const fxi_json *value, const char *path, int32_t *out)
{
    if (!fxi_json_is_int(value) || fxi_json_int(value) < 0 || fxi_json_int(value) > MAX_ID)
        return fxi_hf_fail(h, path, "not a token's id (0 to %d)", MAX_ID);
    *out = (int32_t)fxi_json_int(value);
    return FX_OK;
}

// ---- the file -----------------------------------------------------------------------------------

fx_status fxi_hf_parse(const fxi_hf *h, fxi_str json, bool reals, fxi_json_doc *doc)
{
    const fxi_json_rules rules = {.reals = reals, .nul_texts = true, .nul_keys = true};
    const fx_status st = fxi_json_parse(doc, json, &rules, h->err);
    if (st == FX_ENOMEM) return fxi_fail(h->err, st, "%s: no memory for the file", h->s->name);
    if (st != FX_OK) {
        (void)fxi_fail_in(h->err, "%s", h->s->name);
        if (h->err) h->err->status = FX_EFORMAT;
        return FX_EFORMAT;
    }
    if (fxi_json_is_object(doc->root)) return FX_OK;
    return fxi_fail(h->err, FX_EFORMAT, "%s: not a JSON object", h->s->name);
}
