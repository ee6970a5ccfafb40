// jinja_run.c - the floor of a run: error lines, limits, and strings with an owner for every byte.
//
// A concatenation leaves room after its result. A further concatenation that starts with that
// result grows in place, so building a text from many pieces takes linear time and memory. Shared
// bytes are never overwritten: a string sees its own length only, and only the longest may grow.
#include <stdarg.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/jinja/jinja_run.h"

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

// ---- limits -------------------------------------------------------------------------------------

fx_status fxi_jrun_take(fxi_jrun *r, size_t n_bytes, void *out)
{
    void *p = fxi_jmem_take(&r->mem, n_bytes ? n_bytes : 1);
    memcpy(out, &p, sizeof p);
    if (p) return FX_OK;
    if (r->mem.n_used > r->lim.memory_bytes)
        return fxi_jrun_fail(r, "takes more than %zu bytes of memory", r->lim.memory_bytes);
    return fxi_fail_memory(r->err);
}

fx_status fxi_jrun_grow(fxi_jrun *r, void *list, size_t elem_bytes, size_t n, size_t *cap)
{
    void **place = list, *more;
    if (n < *cap) return FX_OK;
    const size_t want = 2 * *cap + 8;
    FX_TRY(fxi_jrun_take(r, want * elem_bytes, &more));
    if (n) memcpy(more, *place, n * elem_bytes);
    *place = more;
    *cap = want;
    return FX_OK;
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

// ---- growing ------------------------------------------------------------------------------------

static fx_status append_bytes(fxi_jrun *r, fxi_jout *o, const char *p, const char *own, int mark,
                              size_t n)
{
    FX_TRY(fxi_jrun_work(r, n));
    if (!n) return FX_OK;
    if (o->cap - o->n < n) {
        char *more;
        if (n > r->lim.memory_bytes) return fxi_jrun_take(r, n, &more); // fails
        const size_t cap = 2 * (o->n + n) + 32;
        FX_TRY(fxi_jrun_take(r, 2 * cap, &more));
        if (o->n) memcpy(more, o->p, o->n);
        if (o->n) memcpy(more + cap, o->own, o->n);
        *o = (fxi_jout){more, more + cap, o->n, cap};
    }
    memcpy(o->p + o->n, p, n);
    if (own)
        memcpy(o->own + o->n, own, n);
    else
        memset(o->own + o->n, mark, n);
    o->n += n;
    if (o == r->out && o->n > r->lim.output_bytes)
        return fxi_jrun_fail(r, "writes more than %zu bytes", r->lim.output_bytes);
    return FX_OK;
}

fx_status fxi_jout_add_part(fxi_jrun *r, fxi_jout *o, const fxi_jstr *s, size_t from, size_t n)
{
    return append_bytes(r, o, s->p + from, s->own ? s->own + from : NULL, 0, n);
}

fx_status fxi_jout_add(fxi_jrun *r, fxi_jout *o, const fxi_jstr *s)
{
    return fxi_jout_add_part(r, o, s, 0, s->n);
}

fx_status fxi_jout_add_bytes(fxi_jrun *r, fxi_jout *o, const char *p, size_t n, bool own)
{
    return append_bytes(r, o, p, NULL, own, n);
}

fx_status fxi_jout_finish(fxi_jrun *r, const fxi_jout *o, fxi_jval *out)
{
    return fxi_jstr_make(r, o->n ? o->p : "", o->own, o->n, out);
}

// ---- making -------------------------------------------------------------------------------------

fx_status fxi_jstr_make(fxi_jrun *r, const char *p, const char *own, size_t n, fxi_jval *out)
{
    fxi_jstr *s;
    FX_TRY(fxi_jrun_take(r, sizeof *s, &s));
    *s = (fxi_jstr){.p = p, .own = own, .n = n};
    *out = (fxi_jval){.type = FXI_JVAL_STR, .s = s};
    return FX_OK;
}

fx_status fxi_jstr_part(fxi_jrun *r, const fxi_jstr *s, size_t from, size_t n, fxi_jval *out)
{
    return fxi_jstr_make(r, s->p + from, s->own ? s->own + from : NULL, n, out);
}

fx_status fxi_jstr_concat(fxi_jrun *r, const fxi_jstr *a, const fxi_jstr *b, fxi_jval *out)
{
    fxi_jout *o = a->room;
    fxi_jstr *s;
    if (!o || a->p != o->p || a->n != o->n) {
        FX_TRY(fxi_jrun_take(r, sizeof *o, &o));
        *o = (fxi_jout){0};
        FX_TRY(fxi_jout_add(r, o, a));
    }
    FX_TRY(fxi_jout_add(r, o, b));
    FX_TRY(fxi_jrun_take(r, sizeof *s, &s));
    *s = (fxi_jstr){o->n ? o->p : "", o->own, o->n, o};
    *out = (fxi_jval){.type = FXI_JVAL_STR, .s = s};
    return FX_OK;
}
