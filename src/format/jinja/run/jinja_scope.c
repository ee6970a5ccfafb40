// jinja_scope.c - variables: chains of scopes, each a list of bindings.
#include "format/jinja/run/jinja_exec.h"

struct fxi_jbinding {
    const fxi_jstr *name; // interned
    fxi_jval v;
    struct fxi_jbinding *next;
};

fx_status fxi_jscope_bind(fxi_jrun *r, fxi_jscope *s, const fxi_jstr *name, fxi_jval v)
{
    struct fxi_jbinding *b = s->first;
    while (b && b->name != name) b = b->next;
    if (!b) {
        FX_TRY(fxi_jrun_take(r, sizeof *b, &b));
        *b = (struct fxi_jbinding){.name = name, .next = s->first};
        s->first = b;
    }
    b->v = v;
    return FX_OK;
}

fx_status fxi_jscope_lookup(fxi_jrun *r, const fxi_jstr *name, fxi_jval *out)
{
    size_t n_seen = 0;
    for (const fxi_jscope *s = r->scope; s; s = s->up)
        for (const struct fxi_jbinding *b = s->first; b; b = b->next, n_seen++)
            if (b->name == name) {
                *out = b->v;
                return fxi_jrun_work(r, 4 * n_seen);
            }
    const fxi_jroutine *f = fxi_jroutine_find(r->t->lib->functions, name->p, name->n);
    *out = fxi_jval_undefined(name);
    if (f) *out = (fxi_jval){.type = FXI_JVAL_FUNCTION, .function = f};
    return fxi_jrun_work(r, 4 * n_seen);
}
