// jinja_call.c - calls of a library's rows: arguments to parameters.
#include <string.h>

#include "format/jinja/run/jinja_run.h"
#include "format/jinja/tree/jinja_str.h"

static int count_params(const fxi_jroutine *row)
{
    int n = 0;
    while (n < FXI_JROUTINE_MAX_PARAM && row->param[n]) n++;
    return n;
}

static fx_status bind_named(fxi_jrun *r, fxi_jcall *c, const fxi_jkeyword *kw)
{
    const fxi_jroutine *row = c->row;
    for (int i = 0; i < count_params(row); i++) {
        if (!fxi_jstr_is(kw->name, row->param[i])) continue;
        if (c->arg[i].type != FXI_JVAL_ABSENT)
            return fxi_jrun_fail(r, "%s: '%s' is given twice", row->name, row->param[i]);
        c->arg[i] = kw->value;
        return FX_OK;
    }
    return fxi_jrun_fail(r, "%s: has no argument '%.*s'", row->name,
                         kw->name->n < 40 ? (int)kw->name->n : 40, kw->name->p);
}

static fx_status bind_all(fxi_jrun *r, fxi_jcall *c, const fxi_jargs *a)
{
    const fxi_jroutine *row = c->row;
    const int n = count_params(row);
    for (int i = 0; i < FXI_JROUTINE_MAX_PARAM; i++)
        c->arg[i] = (fxi_jval){.type = FXI_JVAL_ABSENT};
    if (n && row->param[0][0] == '*') return FX_OK;
    if (a->n > (size_t)n)
        return fxi_jrun_fail(r, "%s: takes %d arguments at most, got %zu", row->name, n, a->n);
    if (a->n) memcpy(c->arg, a->v, a->n * sizeof *a->v);
    for (size_t i = 0; i < a->n_kw; i++) FX_TRY(bind_named(r, c, &a->kw[i]));
    for (int i = 0; i < row->n_must; i++)
        if (c->arg[i].type == FXI_JVAL_ABSENT)
            return fxi_jrun_fail(r, "%s: needs %d arguments", row->name, row->n_must);
    return FX_OK;
}

fx_status fxi_jroutine_call(fxi_jrun *r, const fxi_jroutine *row, fxi_jval self, const fxi_jargs *a,
                            fxi_jval *out)
{
    fxi_jcall c = {.row = row, .self = self, .all = a};
    FX_TRY(bind_all(r, &c, a));
    return row->run(r, &c, out);
}

// ---- arguments ----------------------------------------------------------------------------------

bool fxi_jcall_given(const fxi_jcall *c, int i)
{
    return c->arg[i].type != FXI_JVAL_ABSENT && c->arg[i].type != FXI_JVAL_NONE;
}

bool fxi_jcall_true(const fxi_jcall *c, int i)
{
    return c->arg[i].type != FXI_JVAL_ABSENT && fxi_jval_truth(c->arg[i]);
}

fx_status fxi_jcall_int(fxi_jrun *r, const fxi_jcall *c, int i, int64_t preset, int64_t *out)
{
    *out = preset;
    if (c->arg[i].type == FXI_JVAL_ABSENT) return FX_OK;
    FX_TRY(fxi_jval_need_defined(r, c->arg[i]));
    if (!fxi_jval_is_integer(c->arg[i]))
        return fxi_jrun_fail(r, "%s: wants an integer, got a %s", c->row->name,
                             fxi_jval_type_name(c->arg[i]));
    *out = fxi_jval_to_int(c->arg[i]);
    return FX_OK;
}

fx_status fxi_jcall_str(fxi_jrun *r, const fxi_jcall *c, int i, const fxi_jstr **out)
{
    FX_TRY(fxi_jval_need_defined(r, c->arg[i]));
    if (c->arg[i].type != FXI_JVAL_STR)
        return fxi_jrun_fail(r, "%s: wants a string, got a %s", c->row->name,
                             fxi_jval_type_name(c->arg[i]));
    *out = c->arg[i].s;
    return FX_OK;
}
