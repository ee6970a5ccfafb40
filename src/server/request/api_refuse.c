// api_refuse.c - the ways to refuse a field's value or bytes, and which names the model has.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h" // defines: fxi_utf8_vprint, FXI_UTF8_HEAD
#include "server/request/api_fields.h"

fxi_place fxi_place_at(const char *fmt, ...)
{
    fxi_place at;
    va_list ap;
    va_start(ap, fmt);
    fxi_utf8_vprint(at.text, sizeof at.text, fmt, ap);
    va_end(ap);
    return at;
}

bool fxi_bad_value(fxi_parse *p, const char *param, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    fxi_utf8_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    return fxi_http_fail(p->err, 400, "invalid_value", param, "%s", text);
}

bool fxi_bad_type(fxi_parse *p, const char *param, const char *want)
{
    return fxi_http_fail(p->err, 400, "invalid_type", param, "'%s' must be %s", param, want);
}

bool fxi_no_memory(fxi_parse *p)
{
    return fxi_http_fail_memory(p->err);
}

static bool note_unsupported(fxi_parse *p, const char *param, const char *what)
{
    fxi_http_error *e = &p->par->unsupported;
    if (!e->status) fxi_http_fail(e, 400, "unsupported_parameter", param, "'%s' %s", param, what);
    return true;
}

bool fxi_not_supported(fxi_parse *p, const char *param, const char *why)
{
    char what[160];
    snprintf(what, sizeof what, "is %s", why);
    return note_unsupported(p, param, what);
}

bool fxi_part_not_supported(fxi_parse *p, const char *param, const char *type)
{
    char what[96];
    snprintf(what, sizeof what, "has a part of type '%.*s', which is not supported",
             FXI_UTF8_HEAD(type, 40));
    return note_unsupported(p, param, what);
}

bool fxi_bytes_granted(fxi_http_error *e, fxi_quota_result taken)
{
    if (taken == FXI_QUOTA_OK) return true;
    if (taken == FXI_QUOTA_NO_MEMORY) return fxi_http_fail_memory(e);
    if (taken == FXI_QUOTA_EXCEEDS_LIMIT)
        return fxi_http_fail(e, 413, "request_too_large", NULL,
                             "the request needs more memory than all requests may take together");
    return fxi_http_fail(e, 503, "overloaded", NULL,
                         "waiting requests take all the memory there is for them");
}

bool fxi_charge_list(fxi_parse *p, size_t n_bytes)
{
    if (!p->par->charge) return true;
    if (!fxi_bytes_granted(p->err, fxi_charge_reserve(p->par->charge, FXI_BYTES_TREE, n_bytes)))
        return false;
    p->par->list_bytes += n_bytes;
    return true;
}

// ---- names of the model -------------------------------------------------------------------------

const char *fxi_limits_model(const fxi_limits *lim, const char *name)
{
    if (!strcmp(name, lim->model_id)) return lim->model_id;
    for (size_t i = 0; i < lim->n_alias; i++)
        if (!strcmp(name, lim->alias[i])) return lim->alias[i];
    return NULL;
}

bool fxi_limits_no_model(const fxi_limits *lim, const char *param, const char *name,
                         fxi_http_error *err)
{
    return fxi_http_fail(err, 404, "model_not_found", param,
                         "the model '%.*s' does not exist; this server has '%.*s'",
                         FXI_UTF8_HEAD(name, 100), FXI_UTF8_HEAD(lim->model_id, 100));
}
