// jinja.c - compile, render, free: passes the library to the parser and to a run, and the caller's
// JSON to the template's variables.
#include "format/jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/jinja/jinja_parse.h"
#include "format/jinja/jinja_run.h"

// ---- JSON to values -----------------------------------------------------------------------------

static fx_status marks_for(fxi_jrun *r, size_t n, const char **out)
{
    char *marks;
    FX_TRY(fxi_jrun_take(r, n, &marks));
    *out = memset(marks, 1, n);
    return FX_OK;
}

static fx_status input_text(fxi_jrun *r, const char *p, size_t n, bool own, fxi_jval *out)
{
    const char *marks = NULL;
    if (own) FX_TRY(marks_for(r, n, &marks));
    return fxi_jstr_make(r, p, marks, n, out);
}

static fx_status input_value(fxi_jrun *r, const fxi_json *j, bool own, fxi_jval *out);

static fx_status input_array(fxi_jrun *r, const fxi_json *j, bool own, fxi_jval *out)
{
    const size_t n = fxi_json_array_size(j);
    fxi_jval *v;
    FX_TRY(fxi_jrun_take(r, n * sizeof *v, &v));
    for (size_t i = 0; i < n; i++) FX_TRY(input_value(r, fxi_json_at(j, i), own, &v[i]));
    return fxi_jval_make_seq(r, FXI_JVAL_LIST, v, n, out);
}

static fx_status input_object(fxi_jrun *r, const fxi_json *j, bool own, fxi_jval *out)
{
    fxi_jpair *e;
    FX_TRY(fxi_jrun_take(r, fxi_json_object_size(j) * sizeof *e, &e));
    for (fxi_json_iter it = fxi_json_members(j); fxi_json_next(&it);) {
        FX_TRY(input_text(r, it.key, it.key_bytes, own, &e[it.i].key));
        FX_TRY(input_value(r, it.value, own, &e[it.i].value));
    }
    return fxi_jdict_make(r, e, fxi_json_object_size(j), out);
}

static fx_status input_any(fxi_jrun *r, const fxi_json *j, bool own, fxi_jval *out)
{
    *out = fxi_jval_none();
    switch (fxi_json_type_of(j)) {
    case FXI_JSON_OBJECT: return input_object(r, j, own, out);
    case FXI_JSON_ARRAY: return input_array(r, j, own, out);
    case FXI_JSON_STRING: return input_text(r, fxi_json_text(j), fxi_json_string(j).n, own, out);
    case FXI_JSON_INT: *out = fxi_jval_int(fxi_json_int(j)); break;
    case FXI_JSON_REAL: *out = fxi_jval_float(fxi_json_number(j)); break;
    case FXI_JSON_BOOL: *out = fxi_jval_bool(fxi_json_is_true(j)); break;
    default: break;
    }
    out->own = own;
    return FX_OK;
}

static fx_status input_value(fxi_jrun *r, const fxi_json *j, bool own, fxi_jval *out)
{
    FX_TRY(fxi_jrun_enter(r));
    FX_TRY(input_any(r, j, own, out));
    fxi_jrun_leave(r);
    return FX_OK;
}

// The roles that published templates know. None spells a control token by itself.
static const char *const roles[] = {"system",      "user",     "assistant",  "tool",
                                    "developer",   "function", "ipython",    "model",
                                    "observation", "context",  "environment"};

// Marks messages[i].role as the template's own if it is one of these words.
static fx_status own_roles(fxi_jrun *r, const fxi_jval *messages)
{
    for (size_t i = 0; messages->type == FXI_JVAL_LIST && i < messages->seq->n; i++) {
        fxi_jval m = messages->seq->v[i];
        for (size_t k = 0; m.type == FXI_JVAL_DICT && k < m.dict->n; k++) {
            const fxi_jpair *e = &m.dict->e[k];
            if (!fxi_jstr_is(e->key.s, "role") || e->value.type != FXI_JVAL_STR) continue;
            if (fxi_str_is_any((fxi_str){e->value.s->p, e->value.s->n}, roles,
                               sizeof roles / sizeof *roles))
                FX_TRY(marks_for(r, e->value.s->n, &((fxi_jstr *)e->value.s)->own));
        }
    }
    return FX_OK;
}

const fxi_jinja_limits fxi_jinja_usual_limits = {
    .n_step = 20000000,
    .memory_bytes = (size_t)256 << 20,
    .output_bytes = (size_t)64 << 20,
    .depth = 400,
};

enum { TREE_BYTES = 256 << 20 };

void fxi_marked_free(fxi_marked *m)
{
    fxi_buf_free(&m->text);
    fxi_buf_free(&m->own);
}

// ---- compile ------------------------------------------------------------------------------------

// As Jinja's lexer: newlines of all kinds become \n, and the last one is dropped.
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

fx_status fxi_jinja_compile(const char *text, size_t n_bytes, fxi_jinja **out, fx_error *err)
{
    *out = NULL;
    if (n_bytes > FXI_JINJA_MAX_BYTES)
        return fxi_fail(err, FX_EFORMAT, "chat template: %zu bytes, at most %d are read", n_bytes,
                        FXI_JINJA_MAX_BYTES);
    size_t n = 0, bad = fxi_utf8_check(text, n_bytes);
    if (bad < n_bytes)
        return fxi_fail(err, FX_EFORMAT, "chat template: bad UTF-8 at byte %zu", bad);
    fxi_jinja *t = calloc(1, sizeof *t);
    if (!t) return fxi_fail_memory(err);
    t->mem.limit_bytes = TREE_BYTES;
    t->lib = &fxi_jlibrary_chat;
    const char *s = normal_text(&t->mem, text, n_bytes, &n);
    fx_status st = s ? fxi_jinja_parse(t, s, n, err) : fxi_fail_memory(err);
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

static fx_status run_template(fxi_jrun *r, fxi_jout *out)
{
    fxi_jscope context = {0}, top = {.up = &context};
    r->out = out;
    r->scope = &top;
    for (size_t i = 0; i < r->c->n_var; i++) {
        const fxi_jinja_var *var = &r->c->var[i];
        const fxi_jstr *name = fxi_jnames_find(&r->t->names, var->name, strlen(var->name));
        fxi_jval v;
        if (!name) continue; // the template does not mention it
        FX_TRY(input_value(r, var->value, var->owner == FXI_JINJA_TEMPLATE, &v));
        if (var->owner == FXI_JINJA_MESSAGES) FX_TRY(own_roles(r, &v));
        FX_TRY(fxi_jscope_bind(r, &context, name, v));
    }
    return fxi_jnode_exec(r, r->t->body);
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
    fx_status st = run_template(&r, &text);
    // Room for both first, so that neither grows alone.
    if (st == FX_OK &&
        (!fxi_buf_reserve(&out->text, text.n) || !fxi_buf_reserve(&out->own, text.n) ||
         !fxi_buf_add(&out->text, text.p, text.n) || !fxi_buf_add(&out->own, text.own, text.n)))
        st = fxi_fail_memory(err);
    fxi_jmem_free(&r.mem);
    return st;
}
