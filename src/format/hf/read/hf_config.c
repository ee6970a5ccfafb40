// hf_config.c - reads the JSON files of a Hugging Face folder.
#include "format/hf/read/hf_config.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/mapping.h"
#include "base/text/json_shape.h"
#include "base/text/utf8.h" // defines: fxi_utf8_vprint
#include "format/json_text.h"
#include "format/show.h"

enum { MAX_CONFIG_BYTES = 64 << 20, MAX_CONFIG_VALUES = 2000000 };

static fx_status parse_config(const char *text, size_t n, fxi_config *out, fx_error *err)
{
    json_error_t e;
    bool no_memory;
    const fxi_json_shape shape = fxi_json_measure(text, n);
    if (n > MAX_CONFIG_BYTES || shape.max_depth > FXI_JSON_MAX_DEPTH ||
        shape.n_value > MAX_CONFIG_VALUES)
        return fxi_fail(err, FX_EFORMAT, "%s: %zu bytes with %zu values, %zu deep, are too many",
                        out->path, n, shape.n_value, shape.max_depth);
    out->root =
        fxi_json_text(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &no_memory, &e);
    if (no_memory) return fxi_fail(err, FX_ENOMEM, "%s: no memory", out->path);
    if (!out->root)
        return fxi_fail(err, FX_EFORMAT, "%s: line %d: %s", out->path, e.line,
                        fxi_show_text(e.text, strlen(e.text)).s);
    if (json_is_object(out->root) || (json_is_array(out->root) && out->may_be_list)) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: not a JSON object", out->path);
}

fx_status fxi_config_parse(const char *text, size_t n, const char *name, fxi_config *out,
                           fx_error *err)
{
    *out = (fxi_config){.path = strdup(name), .part = ""};
    if (!out->path) return fxi_fail(err, FX_ENOMEM, "%s: no memory", name);
    return parse_config(text, n, out, err);
}

static fx_status open_config(const char *folder, const char *name, bool must, fxi_config *out,
                             fx_error *err)
{
    if (asprintf(&out->path, "%s/%s", folder, name) < 0) {
        out->path = NULL;
        return fxi_fail(err, FX_ENOMEM, "%s: no memory", folder);
    }
    if (!must && access(out->path, F_OK)) {
        out->root = json_object();
        return out->root ? FX_OK : fxi_fail(err, FX_ENOMEM, "%s: no memory", folder);
    }
    if (access(out->path, F_OK))
        return fxi_fail(err, FX_EIO, "%s: a directory without %s", folder, name);
    fxi_mapping map;
    FX_TRY(fxi_mapping_open(out->path, &map, err));
    fx_status st = parse_config((const char *)map.data, map.size_bytes, out, err);
    fxi_mapping_close(&map);
    return st;
}

fx_status fxi_config_open(const char *folder, const char *name, bool must, fxi_config *out,
                          fx_error *err)
{
    *out = (fxi_config){.part = ""};
    return open_config(folder, name, must, out, err);
}

fx_status fxi_config_open_list(const char *folder, const char *name, fxi_config *out, fx_error *err)
{
    *out = (fxi_config){.part = "", .may_be_list = true};
    return open_config(folder, name, false, out, err);
}

void fxi_config_close(fxi_config *c)
{
    json_decref(c->root);
    free(c->path);
    *c = (fxi_config){0};
}

fxi_config fxi_config_part(const fxi_config *c, const char *name, const char *part)
{
    json_t *of = json_object_get(c->root, name);
    return (fxi_config){.path = c->path, .root = json_is_object(of) ? of : NULL, .part = part};
}

const json_t *fxi_config_get(const fxi_config *c, const char *key)
{
    const json_t *v = json_object_get(c->root, key);
    return json_is_null(v) ? NULL : v;
}

fx_status fxi_config_fail(const fxi_config *c, const char *key, fx_error *err, const char *fmt, ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    fxi_utf8_vprint(what, sizeof what, fmt, ap);
    va_end(ap);
    return fxi_fail(err, FX_EFORMAT, "%s: %s%s: %s", c->path, c->part, key, what);
}

// *v is NULL if the member is absent and not `must`.
static fx_status find_member(const fxi_config *c, const char *key, bool must, const json_t **v,
                             fx_error *err)
{
    *v = fxi_config_get(c, key);
    return *v || !must ? FX_OK : fxi_config_fail(c, key, err, "missing");
}

fx_status fxi_config_f64(const fxi_config *c, const char *key, bool must, double *out,
                         fx_error *err)
{
    const json_t *v;
    FX_TRY(find_member(c, key, must, &v, err));
    if (!v) return FX_OK;
    const double d = json_number_value(v);
    if (!json_is_number(v) || !isfinite(d)) return fxi_config_fail(c, key, err, "not a number");
    *out = d;
    return FX_OK;
}

fx_status fxi_config_u32(const fxi_config *c, const char *key, bool must, uint32_t *out,
                         fx_error *err)
{
    double d = -1;
    FX_TRY(fxi_config_f64(c, key, must, &d, err));
    if (!must && !fxi_config_get(c, key)) return FX_OK;
    if (!(d >= 0 && d <= (double)UINT32_MAX && d == floor(d)))
        return fxi_config_fail(c, key, err, "%g is not a whole number from 0 to 2^32 - 1", d);
    *out = (uint32_t)d;
    return FX_OK;
}

fx_status fxi_config_bool(const fxi_config *c, const char *key, bool *out, fx_error *err)
{
    const json_t *v = fxi_config_get(c, key);
    if (!v) return FX_OK;
    if (!json_is_boolean(v)) return fxi_config_fail(c, key, err, "not true or false");
    *out = json_is_true(v);
    return FX_OK;
}

fx_status fxi_config_str(const fxi_config *c, const char *key, bool must, const char **out,
                         fx_error *err)
{
    const json_t *v;
    FX_TRY(find_member(c, key, must, &v, err));
    if (!v) return FX_OK;
    if (!json_is_string(v)) return fxi_config_fail(c, key, err, "not a string");
    *out = json_string_value(v);
    return FX_OK;
}
