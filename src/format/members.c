// members.c - objects of JSON files: their members by type, places and errors.
#include "format/members.h"

#include <math.h>
#include <stdarg.h>

#include "base/text/utf8.h" // defines: fxi_utf8_vprint

__attribute__((format(printf, 2, 3))) static void set_path(fxi_members *m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fxi_utf8_vprint(m->path, sizeof m->path, fmt, args);
    va_end(args);
}

static const char *dot_before(const fxi_members *m, const char *key)
{
    return *m->path && *key ? "." : "";
}

fx_status fxi_members_parse(fxi_str text, const fxi_json_rules *rules, bool may_be_list,
                            const char *file, fxi_json_doc *doc, fxi_members *out, fx_error *err)
{
    fx_error e;
    *out = (fxi_members){.file = file, .err = err};
    const fx_status st = fxi_json_parse(doc, text, rules, &e);
    if (st == FX_ENOMEM) return fxi_fail_memory(err);
    if (st != FX_OK) return fxi_fail(err, FX_EFORMAT, "%s: %s", file, e.text);
    out->root = doc->root;
    if (fxi_json_is_object(out->root) || (may_be_list && fxi_json_is_array(out->root)))
        return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: not a JSON object", file);
}

fxi_members fxi_members_part(const fxi_members *m, const char *key)
{
    const fxi_json *of = fxi_json_get(m->root, key);
    fxi_members out = {.root = fxi_json_is_object(of) ? of : NULL, .file = m->file, .err = m->err};
    set_path(&out, "%s%s%s", m->path, dot_before(m, key), key);
    return out;
}

fxi_members fxi_members_item(const fxi_members *m, const char *key, size_t i, const fxi_json *item)
{
    fxi_members out = {.root = item, .file = m->file, .err = m->err};
    if (!key) key = "";
    set_path(&out, "%s%s%s[%zu]", m->path, dot_before(m, key), key, i);
    return out;
}

fx_status fxi_members_fail(const fxi_members *m, const char *key, const char *fmt, ...)
{
    char what[FX_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    fxi_utf8_vprint(what, sizeof what, fmt, args);
    va_end(args);
    if (!key) key = "";
    return fxi_fail(m->err, FX_EFORMAT, "%s: %s%s%s: %s", m->file, m->path, dot_before(m, key), key,
                    what);
}

const fxi_json *fxi_members_get(const fxi_members *m, const char *key)
{
    const fxi_json *v = fxi_json_get(m->root, key);
    if (!v) v = fxi_json_get(m->presets, key);
    return fxi_json_is_null(v) ? NULL : v;
}

// *v is NULL if the member is absent and not `must`.
static fx_status find_member(const fxi_members *m, const char *key, bool must, const fxi_json **v)
{
    *v = fxi_members_get(m, key);
    return *v || !must ? FX_OK : fxi_members_fail(m, key, "missing");
}

fx_status fxi_members_f64(const fxi_members *m, const char *key, bool must, double *out)
{
    const fxi_json *v;
    FX_TRY(find_member(m, key, must, &v));
    if (!v) return FX_OK;
    const double d = fxi_json_number(v);
    if (!fxi_json_is_number(v) || !isfinite(d)) return fxi_members_fail(m, key, "not a number");
    *out = d;
    return FX_OK;
}

fx_status fxi_members_u32(const fxi_members *m, const char *key, bool must, uint32_t *out)
{
    double d = -1;
    FX_TRY(fxi_members_f64(m, key, must, &d));
    if (!must && !fxi_members_get(m, key)) return FX_OK;
    if (!(d >= 0 && d <= (double)UINT32_MAX && d == floor(d)))
        return fxi_members_fail(m, key, "%g is not a whole number from 0 to 2^32 - 1", d);
    *out = (uint32_t)d;
    return FX_OK;
}

fx_status fxi_members_bool(const fxi_members *m, const char *key, bool *out)
{
    const fxi_json *v = fxi_members_get(m, key);
    if (!v) return FX_OK;
    if (!fxi_json_is_bool(v)) return fxi_members_fail(m, key, "not true or false");
    *out = fxi_json_is_true(v);
    return FX_OK;
}

fx_status fxi_members_str(const fxi_members *m, const char *key, bool must, fxi_str *out)
{
    const fxi_json *v;
    FX_TRY(find_member(m, key, must, &v));
    if (!v) return FX_OK;
    if (!fxi_json_is_string(v)) return fxi_members_fail(m, key, "not a string");
    *out = fxi_json_string(v);
    return FX_OK;
}

fx_status fxi_members_array(const fxi_members *m, const char *key, const fxi_json **out)
{
    *out = fxi_json_get(m->root, key);
    return fxi_json_is_array(*out) ? FX_OK : fxi_members_fail(m, key, "not an array");
}
