// jinja.c - compile, render, free: passes the library to the parser and to a run, and the caller's
// JSON to the template's variables.
#include "format/jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/jinja/jinja_parse.h"
#include "format/jinja/jinja_run.h"

// ---- JSON to values -----------------------------------------------------------------------------

typedef struct json_source {
    fxi_jrun *r;
    char *marks; // [n_marks] all set: marks for the template's own strings, which share them
    size_t n_marks;
} json_source;

static fx_status input_value(json_source *in, const fxi_json *j, bool own, fxi_jval *out);

static fx_status marks_for(json_source *in, size_t n, const char **out)
{
    if (in->n_marks < n) {
        FX_TRY(fxi_jrun_take(in->r, n, &in->marks));
        memset(in->marks, 1, n);
        in->n_marks = n;
    }
    *out = in->marks;
    return FX_OK;
}

static fx_status input_text(json_source *in, const char *p, size_t n, bool own, fxi_jval *out)
{
    const char *marks = NULL;
    if (own && n) FX_TRY(marks_for(in, n, &marks));
    return fxi_jstr_make(in->r, p, marks, n, out);
}

static fx_status input_array(json_source *in, const fxi_json *j, bool own, fxi_jval *out)
{
    const size_t n = fxi_json_array_size(j);
    fxi_jval *v;
    FX_TRY(fxi_jrun_take(in->r, n * sizeof *v, &v));
    for (size_t i = 0; i < n; i++) FX_TRY(input_value(in, fxi_json_at(j, i), own, &v[i]));
    return fxi_jval_make_seq(in->r, FXI_JVAL_LIST, v, n, out);
}

static fx_status input_object(json_source *in, const fxi_json *j, bool own, fxi_jval *out)
{
    fxi_jpair *e;
    size_t i = 0;
    FX_TRY(fxi_jrun_take(in->r, fxi_json_object_size(j) * sizeof *e, &e));
    for (fxi_json_iter it = fxi_json_members(j); fxi_json_next(&it);) {
        FX_TRY(input_text(in, it.key, it.key_bytes, own, &e[i].key));
        FX_TRY(input_value(in, it.value, own, &e[i++].value));
    }
    return fxi_jdict_make(in->r, e, i, out);
}

static fx_status input_any(json_source *in, const fxi_json *j, bool own, fxi_jval *out)
{
    *out = fxi_jval_none();
    switch (fxi_json_type_of(j)) {
    case FXI_JSON_OBJECT: return input_object(in, j, own, out);
    case FXI_JSON_ARRAY: return input_array(in, j, own, out);
    case FXI_JSON_STRING: return input_text(in, fxi_json_text(j), fxi_json_string(j).n, own, out);
    case FXI_JSON_INT: *out = fxi_jval_int(fxi_json_int(j)); break;
    case FXI_JSON_REAL: *out = fxi_jval_float(fxi_json_number(j)); break;
    case FXI_JSON_BOOL: *out = fxi_jval_bool(fxi_json_is_true(j)); break;
    default: break;
    }
    out->own = own;
    return FX_OK;
}

static fx_status input_value(json_source *in, const fxi_json *j, bool own, fxi_jval *out)
{
    FX_TRY(fxi_jrun_enter(in->r));
    fx_status st = input_any(in, j, own, out);
    fxi_jrun_leave(in->r);
    return st;
}

// The roles that published templates know. None spells a control token by itself.
static bool is_role(const fxi_jstr *s)
{
    static const char *const words[] = {"system",      "user",     "assistant",  "tool",
                                        "developer",   "function", "ipython",    "model",
                                        "observation", "context",  "environment"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (fxi_jstr_is(s, words[i])) return true;
    return false;
}

// Marks messages[i].role as the template's own if it is one of these words.
static fx_status own_roles(json_source *in, const fxi_jval *messages)
{
    for (size_t i = 0; messages->type == FXI_JVAL_LIST && i < messages->seq->n; i++) {
        fxi_jval m = messages->seq->v[i];
        for (size_t k = 0; m.type == FXI_JVAL_DICT && k < m.dict->n; k++) {
            const fxi_jpair *e = &m.dict->e[k];
            if (!fxi_jstr_is(e->key.s, "role") || e->value.type != FXI_JVAL_STR) continue;
            if (is_role(e->value.s))
                FX_TRY(marks_for(in, e->value.s->n, &((fxi_jstr *)e->value.s)->own));
        }
    }
    return FX_OK;
}

static fx_status value_from_json(fxi_jrun *r, const fxi_json *j, fxi_jinja_owner owner,
                                 fxi_jval *out)
{
    json_source in = {.r = r};
    FX_TRY(input_value(&in, j, owner == FXI_JINJA_TEMPLATE, out));
    return owner == FXI_JINJA_MESSAGES ? own_roles(&in, out) : FX_OK;
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

static fx_status compile_text(fxi_jinja *t, const char *text, size_t n_bytes, fx_error *err)
{
    size_t n = 0, bad = fxi_utf8_check(text, n_bytes);
    if (bad < n_bytes)
        return fxi_fail(err, FX_EFORMAT, "chat template: bad UTF-8 at byte %zu", bad);
    char *s = normal_text(&t->mem, text, n_bytes, &n);
    if (!s) return fxi_fail(err, FX_ENOMEM, "no memory for the chat template");
    fxi_jparse p = {.lib = t->lib, .mem = &t->mem, .names = &t->names, .err = err};
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
    t->lib = &fxi_jlibrary_chat;
    fx_status st = compile_text(t, text, n_bytes, err);
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

// Variables that the template does not mention are skipped.
static fx_status bind_context(fxi_jrun *r, fxi_jscope *top)
{
    for (size_t i = 0; i < r->c->n_var; i++) {
        const fxi_jinja_var *var = &r->c->var[i];
        const fxi_jstr *name = fxi_jnames_find(r->t->names, var->name, strlen(var->name));
        fxi_jval v;
        if (!name) continue;
        FX_TRY(value_from_json(r, var->value, var->owner, &v));
        FX_TRY(fxi_jscope_bind(r, top, name, v));
    }
    return FX_OK;
}

static fx_status run_template(fxi_jrun *r, fxi_jout *out)
{
    fxi_jscope context = {0}, top = {.up = &context};
    r->out = out;
    r->scope = &top;
    FX_TRY(bind_context(r, &context));
    return fxi_jnode_exec(r, r->t->body);
}

static bool append_marked(fxi_marked *m, const fxi_jout *o)
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
    fx_status st = run_template(&r, &text);
    if (st == FX_OK && !append_marked(out, &text))
        st = fxi_fail(err, FX_ENOMEM, "no memory to render the chat template");
    fxi_jmem_free(&r.mem);
    return st;
}
