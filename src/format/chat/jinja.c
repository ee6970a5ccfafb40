// jinja.c - the interpreter's face: compile, render, free; limits and error lines.
#include "format/chat/jinja.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "format/chat/jinja_impl.h"

const fxi_jinja_limits fxi_jinja_usual_limits = {
    .n_step = 20000000,
    .memory_bytes = (size_t)256 << 20,
    .output_bytes = (size_t)64 << 20,
    .depth = 400,
};

enum { TREE_BYTES = 256 << 20, BYTES_PER_STEP = 64, CHARS_PER_STEP = 8 };

void fxi_marked_free(fxi_marked *m)
{
    fxi_buf_free(&m->text);
    fxi_buf_free(&m->own);
}

// ---- errors -------------------------------------------------------------------------------------

fx_status fxi_j_refuse(fx_error *err, int line, const char *fmt, ...)
{
    char text[FX_ERROR_TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fxi_fail(err, FX_EFORMAT, "chat template, line %d: %s", line, text);
}

fx_status fxi_j_fail(fxi_jrun *r, const char *fmt, ...)
{
    char text[FX_ERROR_TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fxi_fail(r->err, FX_EINVAL, "chat template, line %d: %s", r->line, text);
}

// Cut to what fits, at the end of a character.
fx_status fxi_j_fail_text(fxi_jrun *r, const char *what, const fxi_jstr *s)
{
    char text[400];
    size_t n = s->n < sizeof text ? s->n : sizeof text - 1;
    memcpy(text, s->p, n);
    n = fxi_utf8_complete(text, n);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7F) text[i] = ' ';
    return fxi_j_fail(r, "%s%.*s", what, (int)n, text);
}

// ---- limits -------------------------------------------------------------------------------------

fx_status fxi_j_take(fxi_jrun *r, size_t n_bytes, void *out)
{
    void *p = fxi_jmem_take(&r->mem, n_bytes ? n_bytes : 1);
    memcpy(out, &p, sizeof p);
    if (p) return FX_OK;
    if (r->mem.n_used > r->lim.memory_bytes)
        return fxi_j_fail(r, "takes more than %zu bytes of memory", r->lim.memory_bytes);
    return fxi_fail(r->err, FX_ENOMEM, "no memory to render the chat template");
}

static fx_status count_steps(fxi_jrun *r, uint64_t n)
{
    if (r->n_step < n)
        return fxi_j_fail(r, "takes more than %llu steps", (unsigned long long)r->lim.n_step);
    r->n_step -= n;
    return FX_OK;
}

fx_status fxi_j_work(fxi_jrun *r, size_t n_bytes)
{
    return count_steps(r, 1 + n_bytes / BYTES_PER_STEP);
}

fx_status fxi_j_work_chars(fxi_jrun *r, size_t n_bytes, size_t n_more)
{
    return count_steps(r, 1 + n_bytes / CHARS_PER_STEP * (1 + n_more / BYTES_PER_STEP));
}

fx_status fxi_j_enter(fxi_jrun *r)
{
    FX_TRY(count_steps(r, 1));
    if (r->depth == r->lim.depth) return fxi_j_fail(r, "nests deeper than %d", r->lim.depth);
    r->depth++;
    return FX_OK;
}

void fxi_j_leave(fxi_jrun *r)
{
    r->depth--;
}

// ---- compile ------------------------------------------------------------------------------------

// Newlines of all kinds become \n, and a last one goes: as Jinja's lexer does.
static char *normal_text(fxi_jmem *mem, const char *text, size_t n, size_t *n_out)
{
    char *s = fxi_jmem_take(mem, n + 1);
    size_t k = 0;
    if (!s) return NULL;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n' && i && text[i - 1] == '\r') continue;
        s[k++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (k && s[k - 1] == '\n') k--;
    s[k] = 0;
    *n_out = k;
    return s;
}

static fx_status compile(fxi_jinja *t, const char *text, size_t n_bytes, fx_error *err)
{
    size_t n = 0, bad = fxi_utf8_check(text, n_bytes);
    if (bad < n_bytes)
        return fxi_fail(err, FX_EFORMAT, "chat template: bad UTF-8 at byte %zu", bad);
    char *s = normal_text(&t->mem, text, n_bytes, &n);
    if (!s) return fxi_fail(err, FX_ENOMEM, "no memory for the chat template");
    fxi_jparse p = {.mem = &t->mem, .names = &t->names, .err = err};
    p.lex = (fxi_jlex){.s = s, .n = n, .line = 1, .line_starts = true, .err = err};
    FX_TRY(fxi_jparse_template(&p, &t->body));
    t->reads_parts = p.reads_parts;
    return FX_OK;
}

fx_status fxi_jinja_compile(const char *text, size_t n_bytes, fxi_jinja **out, fx_error *err)
{
    *out = NULL;
    if (n_bytes > FXI_JINJA_MAX_BYTES)
        return fxi_fail(err, FX_EFORMAT, "chat template: %zu bytes, at most %d are read", n_bytes,
                        FXI_JINJA_MAX_BYTES);
    fxi_jinja *t = calloc(1, sizeof *t);
    if (!t) return fxi_fail(err, FX_ENOMEM, "no memory for the chat template");
    t->mem.limit_bytes = TREE_BYTES;
    fx_status st = compile(t, text, n_bytes, err);
    if (st == FX_OK)
        *out = t;
    else
        fxi_jinja_free(t);
    return st;
}

bool fxi_jinja_reads_parts(const fxi_jinja *t)
{
    return t->reads_parts;
}

void fxi_jinja_free(fxi_jinja *t)
{
    if (!t) return;
    fxi_jmem_free(&t->mem);
    free(t);
}

// ---- render -------------------------------------------------------------------------------------

// Variables that the template has no name for are left out.
static fx_status bind_context(fxi_jrun *r, fxi_jscope *top)
{
    for (size_t i = 0; i < r->c->n_var; i++) {
        const fxi_jinja_var *var = &r->c->var[i];
        const fxi_jstr *name = fxi_jnames_find(r->t->names, var->name, strlen(var->name));
        fxi_jval v;
        if (!name) continue;
        FX_TRY(fxi_j_from_json(r, var->value, var->whose, &v));
        FX_TRY(fxi_j_bind(r, top, name, v));
    }
    return FX_OK;
}

static fx_status run(fxi_jrun *r, fxi_jout *out)
{
    fxi_jscope context = {0}, top = {.up = &context};
    r->out = out;
    r->scope = &top;
    FX_TRY(bind_context(r, &context));
    return fxi_j_exec(r, r->t->body);
}

static bool append(fxi_marked *m, const fxi_jout *o)
{
    if (!fxi_buf_reserve(&m->text, o->n) || !fxi_buf_reserve(&m->own, o->n)) return false;
    return fxi_buf_add(&m->text, o->p, o->n) && fxi_buf_add(&m->own, o->own, o->n);
}

fx_status fxi_jinja_render(const fxi_jinja *t, const fxi_jinja_context *c, fxi_marked *out,
                           fx_error *err)
{
    const fxi_jinja_limits *lim = c->limits ? c->limits : &fxi_jinja_usual_limits;
    fxi_jrun r = {.mem = {.limit_bytes = lim->memory_bytes},
                  .t = t,
                  .c = c,
                  .lim = *lim,
                  .n_step = lim->n_step,
                  .line = 1,
                  .err = err};
    fxi_jout text = {0};
    fx_status st = run(&r, &text);
    if (st == FX_OK && !append(out, &text))
        st = fxi_fail(err, FX_ENOMEM, "no memory to render the chat template");
    fxi_jmem_free(&r.mem);
    return st;
}
