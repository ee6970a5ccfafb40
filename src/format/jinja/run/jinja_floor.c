// jinja_floor.c - the lowest layer of a run: error lines and limits.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/jinja/run/jinja_run.h"

enum { BYTES_PER_STEP = 64, CHARS_PER_STEP = 8 };

// ---- errors -------------------------------------------------------------------------------------

fx_status fxi_jrun_fail(fxi_jrun *r, const char *fmt, ...)
{
    char text[FX_ERROR_TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    fxi_utf8_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    return fxi_fail(r->err, FX_EINVAL, "chat template, line %d: %s", r->line, text);
}

// Cuts a long text at the end of a character.
fx_status fxi_jrun_fail_text(fxi_jrun *r, const char *what, const fxi_jstr *s)
{
    char text[400];
    size_t n = s->n < sizeof text ? s->n : sizeof text - 1;
    memcpy(text, s->p, n);
    n = fxi_utf8_complete(text, n);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7F) text[i] = ' ';
    return fxi_jrun_fail(r, "%s%.*s", what, (int)n, text);
}

// ---- limits -------------------------------------------------------------------------------------

fx_status fxi_jrun_take(fxi_jrun *r, size_t n_bytes, void *out)
{
    void *p = fxi_jmem_take(&r->mem, n_bytes ? n_bytes : 1);
    memcpy(out, &p, sizeof p);
    if (p) return FX_OK;
    if (r->mem.n_used > r->lim.memory_bytes)
        return fxi_jrun_fail(r, "takes more than %zu bytes of memory", r->lim.memory_bytes);
    return fxi_fail(r->err, FX_ENOMEM, "no memory to render the chat template");
}

static fx_status count_steps(fxi_jrun *r, uint64_t n)
{
    if (r->n_step < n)
        return fxi_jrun_fail(r, "takes more than %llu steps", (unsigned long long)r->lim.n_step);
    r->n_step -= n;
    return FX_OK;
}

fx_status fxi_jrun_work(fxi_jrun *r, size_t n_bytes)
{
    return count_steps(r, 1 + n_bytes / BYTES_PER_STEP);
}

fx_status fxi_jrun_work_chars(fxi_jrun *r, size_t n_bytes, size_t n_more)
{
    return count_steps(r, 1 + n_bytes / CHARS_PER_STEP * (1 + n_more / BYTES_PER_STEP));
}

fx_status fxi_jrun_enter(fxi_jrun *r)
{
    FX_TRY(count_steps(r, 1));
    if (r->depth == r->lim.depth) return fxi_jrun_fail(r, "nests deeper than %d", r->lim.depth);
    r->depth++;
    return FX_OK;
}

void fxi_jrun_leave(fxi_jrun *r)
{
    r->depth--;
}
