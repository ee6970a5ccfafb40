// jinja_exec.c - statements: a function for each kind of node.
//
// Each round of a loop, a macro's body, and the bodies of with, filter, call and generation blocks
// are scopes: what they set is gone afterwards. The body of an if is not.
#include <string.h>

#include "format/jinja/run/jinja_exec.h"
#include "format/jinja/tree/jinja_str.h"

// ---- output -------------------------------------------------------------------------------------

static fx_status exec_data(fxi_jrun *r, const fxi_jnode *n)
{
    return fxi_jout_add(r, r->out, n->value.s);
}

static fx_status exec_output(fxi_jrun *r, const fxi_jnode *n)
{
    fxi_jval v;
    FX_TRY(fxi_jnode_eval(r, n->a, &v));
    r->line = n->line;
    return fxi_jval_show(r, r->out, v, false);
}

static fx_status exec_scoped(fxi_jrun *r, const fxi_jnode *body)
{
    fxi_jscope *const around = r->scope;
    fxi_jscope *inner;
    FX_TRY(fxi_jrun_take(r, sizeof *inner, &inner));
    *inner = (fxi_jscope){.up = around};
    r->scope = inner;
    fx_status st = fxi_jnode_exec(r, body);
    r->scope = around;
    return st;
}

// What a body writes, as a string.
static fx_status capture_text(fxi_jrun *r, const fxi_jnode *body, bool scoped, fxi_jval *out)
{
    fxi_jout *const around = r->out;
    fxi_jout text = {0};
    r->out = &text;
    fx_status st = scoped ? exec_scoped(r, body) : fxi_jnode_exec(r, body);
    r->out = around;
    return st == FX_OK ? fxi_jout_finish(r, &text, out) : st;
}

static fx_status apply_filters(fxi_jrun *r, const fxi_jnode *filters, fxi_jval *text)
{
    if (!filters) return FX_OK;
    r->captured = *text;
    return fxi_jnode_eval(r, filters, text);
}

static fx_status exec_filter_block(fxi_jrun *r, const fxi_jnode *n)
{
    fxi_jval text;
    FX_TRY(capture_text(r, n->d, true, &text));
    FX_TRY(apply_filters(r, n->b, &text));
    return fxi_jval_show(r, r->out, text, false);
}

static fx_status exec_scope(fxi_jrun *r, const fxi_jnode *n)
{
    return exec_scoped(r, n->d);
}

// ---- assignments --------------------------------------------------------------------------------

static fx_status set_member(fxi_jrun *r, struct fxi_jnamespace *ns, const fxi_jstr *name,
                            fxi_jval v)
{
    fxi_jpair *e;
    for (size_t i = 0; i < ns->n; i++) {
        if (fxi_jstr_compare(ns->e[i].key.s, name)) continue;
        ns->e[i].value = v;
        return FX_OK;
    }
    if (ns->n == ns->cap) {
        FX_TRY(fxi_jrun_take(r, (2 * ns->cap + 4) * sizeof *e, &e));
        if (ns->n) memcpy(e, ns->e, ns->n * sizeof *e);
        ns->e = e;
        ns->cap = 2 * ns->cap + 4;
    }
    ns->e[ns->n++] = (fxi_jpair){{.type = FXI_JVAL_STR, .s = name}, v};
    return fxi_jrun_work(r, ns->n);
}

static fx_status assign_value(fxi_jrun *r, const fxi_jnode *target, fxi_jval v);

static fx_status assign_each(fxi_jrun *r, const fxi_jnode *target, fxi_jval v)
{
    fxi_jseq items;
    const fxi_jnode *t = target->a;
    size_t i = 0;
    FX_TRY(fxi_jval_items(r, v, &items));
    for (; t && i < items.n; t = t->next) FX_TRY(assign_value(r, t, items.v[i++]));
    if (t || i < items.n)
        return fxi_jrun_fail(r, "%zu values for %s names", items.n, t ? "more" : "fewer");
    return FX_OK;
}

static fx_status assign_attribute(fxi_jrun *r, const fxi_jnode *target, fxi_jval v)
{
    fxi_jval object;
    FX_TRY(fxi_jnode_eval(r, target->a, &object));
    if (object.type == FXI_JVAL_NAMESPACE) return set_member(r, object.ns, target->name, v);
    return fxi_jrun_fail(r, "cannot assign to an attribute of a %s, only of a namespace",
                         fxi_jval_type_name(object));
}

static fx_status assign_value(fxi_jrun *r, const fxi_jnode *target, fxi_jval v)
{
    r->line = target->line;
    if (target->kind == FXI_JNODE_NAME) return fxi_jscope_bind(r, r->scope, target->name, v);
    if (target->kind == FXI_JNODE_GETATTR) return assign_attribute(r, target, v);
    return assign_each(r, target, v);
}

static fx_status exec_set(fxi_jrun *r, const fxi_jnode *n)
{
    fxi_jval v;
    FX_TRY(fxi_jnode_eval(r, n->b, &v));
    return assign_value(r, n->a, v);
}

static fx_status exec_set_block(fxi_jrun *r, const fxi_jnode *n)
{
    fxi_jval text;
    FX_TRY(capture_text(r, n->d, true, &text));
    FX_TRY(apply_filters(r, n->b, &text));
    return assign_value(r, n->a, text);
}

// Values are computed outside the block's scope.
static fx_status exec_with(fxi_jrun *r, const fxi_jnode *n)
{
    fxi_jscope *const around = r->scope;
    fxi_jscope *inner;
    fx_status st = FX_OK;
    FX_TRY(fxi_jrun_take(r, sizeof *inner, &inner));
    *inner = (fxi_jscope){.up = around};
    const fxi_jnode *value = n->b;
    for (const fxi_jnode *target = n->a; st == FX_OK && target;
         target = target->next, value = value->next) {
        fxi_jval v;
        FX_TRY(fxi_jnode_eval(r, value, &v));
        r->scope = inner;
        st = assign_value(r, target, v);
        r->scope = around;
    }
    if (st != FX_OK) return st;
    r->scope = inner;
    st = fxi_jnode_exec(r, n->d);
    r->scope = around;
    return st;
}

// ---- conditions and loops -----------------------------------------------------------------------

static fx_status exec_if(fxi_jrun *r, const fxi_jnode *n)
{
    fxi_jval test;
    for (;; n = n->e) { // an elif is an if in the else
        r->line = n->line;
        FX_TRY(fxi_jnode_eval(r, n->a, &test));
        if (fxi_jval_truth(test)) return fxi_jnode_exec(r, n->d);
        if (!n->e || n->e->kind != FXI_JNODE_IF || n->e->next) return fxi_jnode_exec(r, n->e);
    }
}

// Keeps the items that pass the loop's condition.
static fx_status filter_items(fxi_jrun *r, const fxi_jnode *n, fxi_jseq *items)
{
    fxi_jscope *const around = r->scope;
    fxi_jval *kept, test;
    size_t n_kept = 0;
    fx_status st = FX_OK;
    if (!n->c) return FX_OK;
    FX_TRY(fxi_jrun_take(r, items->n * sizeof *kept, &kept));
    for (size_t i = 0; st == FX_OK && i < items->n; i++) {
        fxi_jscope s = {.up = around};
        r->scope = &s;
        st = assign_value(r, n->a, items->v[i]);
        if (st == FX_OK) st = fxi_jnode_eval(r, n->c, &test);
        if (st == FX_OK && fxi_jval_truth(test)) kept[n_kept++] = items->v[i];
    }
    r->scope = around;
    *items = (fxi_jseq){kept, n_kept};
    return st;
}

static fx_status bind_loop(fxi_jrun *r, struct fxi_jloop *l, const fxi_jnode *n)
{
    const fxi_jstr *name = fxi_jnames_find(r->t->names, "loop", 4);
    FX_TRY(assign_value(r, n->a, l->v[l->i]));
    if (!name) return FX_OK;
    return fxi_jscope_bind(r, r->scope, name, (fxi_jval){.type = FXI_JVAL_LOOP, .loop = l});
}

static fx_status run_loop(fxi_jrun *r, const fxi_jnode *n, struct fxi_jloop *l)
{
    fxi_jscope *const around = r->scope;
    fx_status st = FX_OK;
    for (; st == FX_OK && l->i < l->n && r->flow != FXI_JFLOW_BREAK; l->i++) {
        fxi_jscope *s; // macros defined in the body may outlive the round
        r->flow = FXI_JFLOW_GO_ON;
        FX_TRY(fxi_jrun_take(r, sizeof *s, &s));
        *s = (fxi_jscope){.up = around};
        r->scope = s;
        st = bind_loop(r, l, n);
        if (st == FX_OK) st = fxi_jnode_exec(r, n->d);
        r->scope = around;
    }
    r->flow = FXI_JFLOW_GO_ON;
    return st;
}

static fx_status exec_for(fxi_jrun *r, const fxi_jnode *n)
{
    fxi_jval what;
    fxi_jseq items;
    struct fxi_jloop *l;
    FX_TRY(fxi_jnode_eval(r, n->b, &what));
    r->line = n->line;
    FX_TRY(fxi_jval_items(r, what, &items));
    FX_TRY(filter_items(r, n, &items));
    if (!items.n) return n->e ? exec_scoped(r, n->e) : FX_OK;
    FX_TRY(fxi_jrun_take(r, sizeof *l, &l));
    *l = (struct fxi_jloop){.v = items.v, .n = items.n};
    return run_loop(r, n, l);
}

static fx_status exec_break(fxi_jrun *r, const fxi_jnode *n)
{
    (void)n;
    r->flow = FXI_JFLOW_BREAK;
    return FX_OK;
}

static fx_status exec_continue(fxi_jrun *r, const fxi_jnode *n)
{
    (void)n;
    r->flow = FXI_JFLOW_CONTINUE;
    return FX_OK;
}

// ---- macros and calls ---------------------------------------------------------------------------

static fx_status make_macro(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    struct fxi_jmacro *m;
    FX_TRY(fxi_jrun_take(r, sizeof *m, &m));
    *m = (struct fxi_jmacro){n, r->scope};
    *out = (fxi_jval){.type = FXI_JVAL_MACRO, .macro = m};
    return FX_OK;
}

static fx_status exec_macro_def(fxi_jrun *r, const fxi_jnode *n)
{
    fxi_jval m;
    FX_TRY(make_macro(r, n, &m));
    return fxi_jscope_bind(r, r->scope, n->name, m);
}

static const fxi_jkeyword *find_kw(const fxi_jargs *a, const fxi_jstr *name)
{
    for (size_t i = 0; i < a->n_kw; i++)
        if (a->kw[i].name == name) return &a->kw[i];
    return NULL;
}

// Parameters in order: by position, by name, or by a default that may use earlier ones.
static fx_status bind_params(fxi_jrun *r, const fxi_jnode *m, const fxi_jargs *a)
{
    size_t i = 0;
    for (const fxi_jnode *p = m->a; p; p = p->next, i++) {
        const fxi_jkeyword *kw = find_kw(a, p->name);
        fxi_jval v = fxi_jval_undefined(p->name);
        if (i < a->n && kw) return fxi_jrun_fail(r, "a macro's argument is given twice");
        if (i < a->n)
            v = a->v[i];
        else if (kw)
            v = kw->value;
        else if (p->a)
            FX_TRY(fxi_jnode_eval(r, p->a, &v));
        FX_TRY(fxi_jscope_bind(r, r->scope, p->name, v));
    }
    return FX_OK;
}

static bool is_param(const fxi_jnode *m, const fxi_jstr *name)
{
    for (const fxi_jnode *p = m->a; p; p = p->next)
        if (p->name == name) return true;
    return false;
}

// The rest: varargs and kwargs where the body mentions them; caller.
static fx_status bind_rest(fxi_jrun *r, const fxi_jnode *m, const fxi_jargs *a)
{
    size_t n_param = 0, n_pair = 0;
    fxi_jpair *pairs;
    fxi_jval v;
    for (const fxi_jnode *p = m->a; p; p = p->next) n_param++;
    size_t n_more = a->n > n_param ? a->n - n_param : 0;
    if (n_more && !m->takes_more) return fxi_jrun_fail(r, "a macro got too many arguments");
    FX_TRY(fxi_jrun_take(r, a->n_kw * sizeof *pairs, &pairs));
    for (size_t i = 0; i < a->n_kw; i++) {
        const fxi_jstr *name = a->kw[i].name;
        if (is_param(m, name)) continue;
        if (m->op && fxi_jstr_is(name, "caller"))
            FX_TRY(fxi_jscope_bind(r, r->scope, name, a->kw[i].value));
        else
            pairs[n_pair++] = (fxi_jpair){{.type = FXI_JVAL_STR, .s = name}, a->kw[i].value};
    }
    if (n_pair && !m->takes_more_kw)
        return fxi_jrun_fail(r, "a macro got an argument it does not have");
    if (m->takes_more) {
        FX_TRY(fxi_jval_make_seq(r, FXI_JVAL_TUPLE, n_more ? a->v + n_param : NULL, n_more, &v));
        FX_TRY(fxi_jscope_bind(r, r->scope, fxi_jnames_find(r->t->names, "varargs", 7), v));
    }
    if (!m->takes_more_kw) return FX_OK;
    FX_TRY(fxi_jdict_merge(r, pairs, n_pair, &v));
    return fxi_jscope_bind(r, r->scope, fxi_jnames_find(r->t->names, "kwargs", 6), v);
}

static fx_status run_macro(fxi_jrun *r, const fxi_jnode *m, const fxi_jargs *a, fxi_jval *out)
{
    FX_TRY(bind_rest(r, m, a));
    FX_TRY(bind_params(r, m, a));
    return capture_text(r, m->d, false, out);
}

static fx_status call_macro(fxi_jrun *r, const struct fxi_jmacro *m, const fxi_jargs *a,
                            fxi_jval *out)
{
    fxi_jscope *const around = r->scope;
    fxi_jscope *s;
    FX_TRY(fxi_jrun_take(r, sizeof *s, &s));
    *s = (fxi_jscope){.up = m->scope};
    FX_TRY(fxi_jrun_enter(r));
    r->scope = s;
    fx_status st = run_macro(r, m->node, a, out);
    r->scope = around;
    fxi_jrun_leave(r);
    return st;
}

// What a template calls: macros, bound methods, functions.
fx_status fxi_jval_call(fxi_jrun *r, fxi_jval f, const fxi_jargs *a, fxi_jval *out)
{
    FX_TRY(fxi_jval_need_defined(r, f));
    switch (f.type) {
    case FXI_JVAL_MACRO: return call_macro(r, f.macro, a, out);
    case FXI_JVAL_METHOD: return fxi_jroutine_call(r, f.method->row, f.method->self, a, out);
    case FXI_JVAL_FUNCTION: return fxi_jroutine_call(r, f.function, fxi_jval_none(), a, out);
    default: return fxi_jrun_fail(r, "a %s cannot be called", fxi_jval_type_name(f));
    }
}

// The block becomes a macro that the callee gets as its `caller`.
static fx_status exec_call_block(fxi_jrun *r, const fxi_jnode *n)
{
    const fxi_jnode *call = n->a;
    fxi_jval f, out;
    fxi_jargs args;
    fxi_jkeyword *kw;
    FX_TRY(fxi_jnode_eval(r, call->a, &f));
    FX_TRY(fxi_jnode_eval_args(r, call, &args));
    FX_TRY(fxi_jrun_take(r, (args.n_kw + 1) * sizeof *kw, &kw));
    if (args.n_kw) memcpy(kw, args.kw, args.n_kw * sizeof *kw);
    kw[args.n_kw].name = n->b->name;
    FX_TRY(make_macro(r, n->b, &kw[args.n_kw].value));
    args.kw = kw;
    args.n_kw++;
    r->line = n->line;
    FX_TRY(fxi_jval_call(r, f, &args, &out));
    return fxi_jval_show(r, r->out, out, false);
}

// ---- the table ----------------------------------------------------------------------------------

static fx_status (*const execs[FXI_JNODE_N_KIND])(fxi_jrun *r, const fxi_jnode *n) = {
    [FXI_JNODE_DATA] = exec_data,
    [FXI_JNODE_OUTPUT] = exec_output,
    [FXI_JNODE_FOR] = exec_for,
    [FXI_JNODE_IF] = exec_if,
    [FXI_JNODE_SET] = exec_set,
    [FXI_JNODE_SET_BLOCK] = exec_set_block,
    [FXI_JNODE_MACRO_DEF] = exec_macro_def,
    [FXI_JNODE_CALL_BLOCK] = exec_call_block,
    [FXI_JNODE_FILTER_BLOCK] = exec_filter_block,
    [FXI_JNODE_WITH] = exec_with,
    [FXI_JNODE_SCOPE] = exec_scope,
    [FXI_JNODE_DO_BREAK] = exec_break,
    [FXI_JNODE_DO_CONTINUE] = exec_continue,
};

static fx_status exec_list(fxi_jrun *r, const fxi_jnode *list)
{
    for (; list && r->flow == FXI_JFLOW_GO_ON; list = list->next) {
        r->line = list->line;
        FX_TRY(fxi_jrun_work(r, 0));
        FX_TRY(execs[list->kind](r, list));
    }
    return FX_OK;
}

fx_status fxi_jnode_exec(fxi_jrun *r, const fxi_jnode *list)
{
    FX_TRY(fxi_jrun_enter(r));
    fx_status st = exec_list(r, list);
    fxi_jrun_leave(r);
    return st;
}
