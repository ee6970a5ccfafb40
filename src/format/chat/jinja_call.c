// jinja_call.c - calls: arguments to the parameters of a table's row.
#include <string.h>

#include "format/chat/jinja_impl.h"

const fxi_jroutine *fxi_jroutine_find(const fxi_jroutine *table, const char *name, size_t n)
{
    for (; table->name; table++)
        if (strlen(table->name) == n && !memcmp(table->name, name, n)) return table;
    return NULL;
}

static int n_param(const fxi_jroutine *row)
{
    int n = 0;
    while (n < FXI_J_MAX_PARAM && row->param[n]) n++;
    return n;
}

static fx_status bind_named(fxi_jrun *r, fxi_jcall *c, const fxi_jkeyword *kw)
{
    const fxi_jroutine *row = c->row;
    for (int i = 0; i < n_param(row); i++) {
        if (!fxi_j_str_is(kw->name, row->param[i])) continue;
        if (c->arg[i].type != FXI_J_ABSENT)
            return fxi_j_fail(r, "%s: '%s' is given twice", row->name, row->param[i]);
        c->arg[i] = kw->value;
        return FX_OK;
    }
    return fxi_j_fail(r, "%s: has no argument '%.*s'", row->name,
                      kw->name->n < 40 ? (int)kw->name->n : 40, kw->name->p);
}

static fx_status bind_all(fxi_jrun *r, fxi_jcall *c, const fxi_jargs *a)
{
    const fxi_jroutine *row = c->row;
    const int n = n_param(row);
    for (int i = 0; i < FXI_J_MAX_PARAM; i++) c->arg[i] = (fxi_jval){.type = FXI_J_ABSENT};
    if (n && row->param[0][0] == '*') return FX_OK;
    if (a->n > (size_t)n)
        return fxi_j_fail(r, "%s: takes %d arguments at most, got %zu", row->name, n, a->n);
    if (a->n) memcpy(c->arg, a->v, a->n * sizeof *a->v);
    for (size_t i = 0; i < a->n_kw; i++) FX_TRY(bind_named(r, c, &a->kw[i]));
    for (int i = 0; i < row->n_must; i++)
        if (c->arg[i].type == FXI_J_ABSENT)
            return fxi_j_fail(r, "%s: needs %d arguments", row->name, row->n_must);
    return FX_OK;
}

fx_status fxi_jroutine_call(fxi_jrun *r, const fxi_jroutine *row, fxi_jval self, const fxi_jargs *a,
                            fxi_jval *out)
{
    fxi_jcall c = {.row = row, .self = self, .all = a};
    FX_TRY(bind_all(r, &c, a));
    return row->run(r, &c, out);
}

// ---- what a template calls ----------------------------------------------------------------------

static fx_status call_cycler(fxi_jrun *r, fxi_jval f, fxi_jval *out)
{
    struct fxi_jcycler *c = f.cycler;
    if (f.type == FXI_J_JOINER) {
        *out = c->seq->v[0];
        return c->at++ ? FX_OK : fxi_j_text(r, "", true, out);
    }
    return fxi_j_fail(r, "a Cycler cannot be called");
}

fx_status fxi_j_call(fxi_jrun *r, fxi_jval f, const fxi_jargs *a, fxi_jval *out)
{
    FX_TRY(fxi_j_defined(r, f));
    switch (f.type) {
    case FXI_J_MACRO: return fxi_j_call_macro(r, f.macro, a, out);
    case FXI_J_METHOD: return fxi_jroutine_call(r, f.method->row, f.method->self, a, out);
    case FXI_J_FUNCTION: return fxi_jroutine_call(r, &f.function->row, fxi_j_none(), a, out);
    case FXI_J_CYCLER:
    case FXI_J_JOINER: return call_cycler(r, f, out);
    default: return fxi_j_fail(r, "a %s cannot be called", fxi_j_type_name(f));
    }
}

// ---- arguments ----------------------------------------------------------------------------------

bool fxi_j_given(const fxi_jcall *c, int i)
{
    return c->arg[i].type != FXI_J_ABSENT && c->arg[i].type != FXI_J_NONE;
}

bool fxi_j_arg_true(const fxi_jcall *c, int i)
{
    return c->arg[i].type != FXI_J_ABSENT && fxi_j_truth(c->arg[i]);
}

fx_status fxi_j_arg_int(fxi_jrun *r, const fxi_jcall *c, int i, int64_t preset, int64_t *out)
{
    *out = preset;
    if (c->arg[i].type == FXI_J_ABSENT) return FX_OK;
    FX_TRY(fxi_j_defined(r, c->arg[i]));
    if (!fxi_j_is_integer(c->arg[i]))
        return fxi_j_fail(r, "%s: wants an integer, got a %s", c->row->name,
                          fxi_j_type_name(c->arg[i]));
    *out = fxi_j_int_of(c->arg[i]);
    return FX_OK;
}

fx_status fxi_j_arg_str(fxi_jrun *r, const fxi_jcall *c, int i, const fxi_jstr **out)
{
    FX_TRY(fxi_j_defined(r, c->arg[i]));
    if (c->arg[i].type != FXI_J_STR)
        return fxi_j_fail(r, "%s: wants a string, got a %s", c->row->name,
                          fxi_j_type_name(c->arg[i]));
    *out = c->arg[i].s;
    return FX_OK;
}
