// fail.c - fills an error, adds a prefix; what errno means.
#include "base/fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h" // defines: fxi_utf8_vprint

void fxi_error_set(fx_error *err, fx_status st, const char *fmt, ...)
{
    if (!err) return;
    va_list ap;
    va_start(ap, fmt);
    fxi_utf8_vprint(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    err->status = st;
}

fx_status fxi_fail_memory(fx_error *err)
{
    return fxi_fail(err, FX_ENOMEM, "out of memory");
}

fx_status fxi_fail_in(fx_error *err, const char *fmt, ...)
{
    if (!err) return FX_EINTERNAL;
    char inner[FX_ERROR_TEXT_BYTES], prefix[FX_ERROR_TEXT_BYTES];
    memcpy(inner, err->text, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    fxi_utf8_vprint(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    return fxi_fail(err, err->status, "%s: %s", prefix, inner);
}

fx_status fxi_errno_status(int error)
{
    return error == ENOMEM ? FX_ENOMEM : FX_EIO;
}
