// jinja_exec.c - walks the tree: variables, expressions, calls, statements.
//
// Each round of a loop, a macro's body, and the bodies of with, filter, call and generation blocks
// are scopes: what they set is gone afterwards. The body of an if is not.
#include <string.h>

#include "format/jinja/jinja_run.h"

// ---- scopes: chains of them, each a list of bindings --------------------------------------------

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

static fx_status lookup_variable(fxi_jrun *r, const fxi_jstr *name, fxi_jval *out)
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

// ---- calls of a library's rows: arguments to parameters -----------------------------------------

fx_status fxi_jcall_need(fxi_jrun *r, const fxi_jcall *c, char type, fxi_jval *v)
{
    const char *expected = NULL;
    if (type == 'v') return FX_OK;
    if (type == 't') {
        const fxi_jstr *s;
        FX_TRY(fxi_jval_to_str(r, *v, &s));
        *v = fxi_jval_str(s);
        return FX_OK;
    }
    FX_TRY(fxi_jval_need_defined(r, *v));
    if (type == 's' && v->type != FXI_JVAL_STR) expected = "a string";
    if (type == 'i' && !fxi_jval_is_integer(*v)) expected = "an integer";
    if (type == 'n' && !fxi_jval_is_number(*v)) expected = "a number";
    if (!expected) return FX_OK;
    return fxi_jrun_fail(r, "%s: expected %s, got a %s", c->row->name, expected,
                         fxi_jval_type_name(*v));
}

static fx_status bind_named(fxi_jrun *r, fxi_jcall *c, size_t n_param, const fxi_jkeyword *kw)
{
    const fxi_jroutine *row = c->row;
    for (size_t i = 0; i < n_param; i++) {
        if (!row->param[i] || !fxi_jstr_is(kw->name, row->param[i])) continue;
        if (fxi_jcall_given(c, (int)i))
            return fxi_jrun_fail(r, "%s: '%s' is given twice", row->name, row->param[i]);
        c->arg[i] = kw->value;
        return FX_OK;
    }
    return fxi_jrun_fail(r, "%s: has no argument '%.*s'", row->name, FXI_JINJA_HEAD(kw->name));
}

fx_status fxi_jroutine_call(fxi_jrun *r, const fxi_jroutine *row, fxi_jval self, const fxi_jargs *a,
                            fxi_jval *out)
{
    fxi_jcall c = {.row = row, .self = self, .all = a};
    const size_t n = row->types ? strlen(row->types) : 0;
    for (int i = 0; i < FXI_JROUTINE_MAX_PARAM; i++) c.arg[i].type = FXI_JVAL_ABSENT;
    if (n && *row->types == '*') return row->run(r, &c, out);
    if (a->n > n)
        return fxi_jrun_fail(r, "%s: takes %zu arguments at most, got %zu", row->name, n, a->n);
    if (a->n) memcpy(c.arg, a->v, a->n * sizeof *a->v);
    for (size_t i = 0; i < a->n_kw; i++) FX_TRY(bind_named(r, &c, n, &a->kw[i]));
    if (row->self) FX_TRY(fxi_jcall_need(r, &c, row->self, &c.self));
    for (int i = 0; i < (int)n; i++) {
        const bool optional = row->types[i] < 'a'; // a capital
        if (i < row->n_must && !fxi_jcall_given(&c, i))
            return fxi_jrun_fail(r, "%s: needs %d arguments", row->name, row->n_must);
        if (optional && c.arg[i].type == FXI_JVAL_NONE) c.arg[i].type = FXI_JVAL_ABSENT;
        if (fxi_jcall_given(&c, i))
            FX_TRY(fxi_jcall_need(r, &c, (char)(row->types[i] | 0x20), &c.arg[i]));
    }
    return row->run(r, &c, out);
}

bool fxi_jcall_true(const fxi_jcall *c, int i)
{
    return fxi_jcall_given(c, i) && fxi_jval_truth(c->arg[i]);
}

// ---- expressions --------------------------------------------------------------------------------

static fx_status eval_node(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out);
static fx_status call_value(fxi_jrun *r, fxi_jval f, const fxi_jargs *a, fxi_jval *out);

static size_t count_nodes(const fxi_jnode *list)
{
    size_t n = 0;
    for (; list; list = list->next) n++;
    return n;
}

static fx_status eval_list(fxi_jrun *r, const fxi_jnode *list, fxi_jseq *out)
{
    fxi_jval *v;
    size_t i = 0;
    FX_TRY(fxi_jrun_take(r, count_nodes(list) * sizeof *v, &v));
    for (; list; list = list->next) FX_TRY(eval_node(r, list, &v[i++]));
    *out = (fxi_jseq){v, i};
    return FX_OK;
}

static fx_status eval_dict(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jpair *e;
    size_t i = 0;
    FX_TRY(fxi_jrun_take(r, count_nodes(n->a) * sizeof *e, &e));
    for (const fxi_jnode *k = n->a, *v = n->b; k; k = k->next, v = v->next, i++) {
        FX_TRY(eval_node(r, k, &e[i].key));
        FX_TRY(eval_node(r, v, &e[i].value));
    }
    return fxi_jdict_merge(r, e, i, out);
}

// a < b <= c, from the first side.
static fx_status eval_compare(fxi_jrun *r, const fxi_jnode *n, fxi_jval a, fxi_jval *out)
{
    fxi_jval b;
    bool holds = true;
    for (const fxi_jnode *next = n->b; next && holds; next = next->next, a = b) {
        FX_TRY(eval_node(r, next->b, &b));
        r->line = next->line;
        FX_TRY(fxi_jop_compare(r, next->op, a, b, &holds));
    }
    *out = fxi_jval_bool(holds);
    return FX_OK;
}

static fx_status eval_getslice(fxi_jrun *r, const fxi_jnode *n, fxi_jval a, fxi_jval *out)
{
    const fxi_jnode *const bounds[3] = {n->b, n->c, n->d};
    fxi_jval bound[3];
    for (int i = 0; i < 3; i++) {
        bound[i] = fxi_jval_none();
        if (bounds[i]) FX_TRY(eval_node(r, bounds[i], &bound[i]));
    }
    r->line = n->line;
    return fxi_jval_slice(r, a, bound, out);
}

// The arguments n->b and n->c.
static fx_status eval_args(fxi_jrun *r, const fxi_jnode *n, fxi_jargs *out)
{
    fxi_jkeyword *kw;
    fxi_jseq s = {0};
    *out = (fxi_jargs){0};
    if (n->b) FX_TRY(eval_list(r, n->b, &s));
    out->v = s.v;
    out->n = s.n;
    if (!n->c) return FX_OK;
    FX_TRY(fxi_jrun_take(r, count_nodes(n->c) * sizeof *kw, &kw));
    out->kw = kw;
    for (const fxi_jnode *k = n->c; k; k = k->next, out->n_kw++) {
        kw[out->n_kw].name = k->name;
        FX_TRY(eval_node(r, k->a, &kw[out->n_kw].value));
    }
    return FX_OK;
}

// The kinds whose first child is evaluated first.
static fx_status eval_operation(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jval a, b;
    fxi_jargs args;
    FX_TRY(eval_node(r, n->a, &a));
    *out = a;
    switch (n->kind) {
    case FXI_JNODE_NEG: return fxi_jop_sign(r, '-', a, out);
    case FXI_JNODE_POS: return fxi_jop_sign(r, '+', a, out);
    case FXI_JNODE_NOT: *out = fxi_jval_bool(!fxi_jval_truth(a)); return FX_OK;
    case FXI_JNODE_AND: return fxi_jval_truth(a) ? eval_node(r, n->b, out) : FX_OK;
    case FXI_JNODE_OR: return fxi_jval_truth(a) ? FX_OK : eval_node(r, n->b, out);
    case FXI_JNODE_COND:
        *out = fxi_jval_undefined(NULL);
        if (fxi_jval_truth(a)) return eval_node(r, n->b, out);
        return n->c ? eval_node(r, n->c, out) : FX_OK;
    case FXI_JNODE_COMPARE: return eval_compare(r, n, a, out);
    case FXI_JNODE_GETSLICE: return eval_getslice(r, n, a, out);
    case FXI_JNODE_GETATTR: r->line = n->line; return fxi_jval_attribute(r, a, n->name, out);
    case FXI_JNODE_BINARY:
    case FXI_JNODE_GETITEM: break;
    default: // a call, or a filter or test: the row says which
        FX_TRY(eval_args(r, n, &args));
        r->line = n->line;
        if (n->kind == FXI_JNODE_CALL) return call_value(r, a, &args, out);
        return fxi_jroutine_call(r, n->row, a, &args, out);
    }
    FX_TRY(eval_node(r, n->b, &b));
    r->line = n->line;
    if (n->kind == FXI_JNODE_BINARY) return fxi_jop_binary(r, n->op, a, b, out);
    return fxi_jval_subscript(r, a, b, out);
}

static fx_status eval_kind(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jseq s;
    switch (n->kind) {
    case FXI_JNODE_CONST: *out = n->value; return FX_OK;
    case FXI_JNODE_CAPTURED: *out = r->captured; return FX_OK;
    case FXI_JNODE_NAME: return lookup_variable(r, n->name, out);
    case FXI_JNODE_MAKE_DICT: return eval_dict(r, n, out);
    case FXI_JNODE_MAKE_LIST:
    case FXI_JNODE_MAKE_TUPLE:
        FX_TRY(eval_list(r, n->a, &s));
        return fxi_jval_make_seq(r, n->kind == FXI_JNODE_MAKE_LIST ? FXI_JVAL_LIST : FXI_JVAL_TUPLE,
                                 s.v, s.n, out);
    default: return eval_operation(r, n, out);
    }
}

static fx_status eval_node(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    r->line = n->line;
    FX_TRY(fxi_jrun_enter(r));
    FX_TRY(eval_kind(r, n, out));
    fxi_jrun_leave(r);
    return FX_OK;
}

// ---- scopes and captured text -------------------------------------------------------------------

static fx_status open_scope(fxi_jrun *r, fxi_jscope *up)
{
    fxi_jscope *s; // macros defined in it may outlive it
    FX_TRY(fxi_jrun_take(r, sizeof *s, &s));
    *s = (fxi_jscope){.up = up};
    r->scope = s;
    return FX_OK;
}

static fx_status exec_scoped(fxi_jrun *r, const fxi_jnode *body)
{
    fxi_jscope *const around = r->scope;
    FX_TRY(open_scope(r, around));
    FX_TRY(fxi_jnode_exec(r, body));
    r->scope = around;
    return FX_OK;
}

// What a body writes, as a string.
static fx_status capture_text(fxi_jrun *r, const fxi_jnode *body, fxi_jval *out)
{
    fxi_jout *const around = r->out;
    fxi_jout text = {0};
    r->out = &text;
    FX_TRY(exec_scoped(r, body));
    r->out = around;
    return fxi_jout_finish(r, &text, out);
}

// The same, after the filters of its block.
static fx_status capture_filtered(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    FX_TRY(capture_text(r, n->d, &r->captured));
    return eval_node(r, n->b, out);
}

// ---- assignments --------------------------------------------------------------------------------

static fx_status set_member(fxi_jrun *r, struct fxi_jnamespace *ns, const fxi_jstr *name,
                            fxi_jval v)
{
    fxi_jval *old = fxi_jnamespace_find(ns, name);
    if (old) {
        *old = v;
        return FX_OK;
    }
    FX_TRY(fxi_jrun_grow(r, &ns->e, sizeof *ns->e, ns->n, &ns->cap));
    ns->e[ns->n++] = (fxi_jpair){fxi_jval_str(name), v};
    return fxi_jrun_work(r, ns->n);
}

static fx_status assign_value(fxi_jrun *r, const fxi_jnode *target, fxi_jval v)
{
    r->line = target->line;
    if (target->kind == FXI_JNODE_NAME) return fxi_jscope_bind(r, r->scope, target->name, v);
    if (target->kind == FXI_JNODE_GETATTR) {
        fxi_jval object;
        FX_TRY(eval_node(r, target->a, &object));
        if (object.type == FXI_JVAL_NAMESPACE) return set_member(r, object.ns, target->name, v);
        return fxi_jrun_fail(r, "cannot assign to an attribute of a %s, only of a namespace",
                             fxi_jval_type_name(object));
    }
    fxi_jseq items;
    const fxi_jnode *t = target->a;
    size_t i = 0;
    FX_TRY(fxi_jval_items(r, v, &items));
    for (; t && i < items.n; t = t->next) FX_TRY(assign_value(r, t, items.v[i++]));
    if (t || i < items.n)
        return fxi_jrun_fail(r, "%zu values for %s names", items.n, t ? "more" : "fewer");
    return FX_OK;
}

// Values are computed outside the block's scope.
static fx_status exec_with(fxi_jrun *r, const fxi_jnode *n)
{
    fxi_jscope *const around = r->scope;
    FX_TRY(open_scope(r, around));
    fxi_jscope *const inner = r->scope;
    for (const fxi_jnode *target = n->a, *value = n->b; target;
         target = target->next, value = value->next) {
        fxi_jval v;
        r->scope = around;
        FX_TRY(eval_node(r, value, &v));
        r->scope = inner;
        FX_TRY(assign_value(r, target, v));
    }
    FX_TRY(fxi_jnode_exec(r, n->d));
    r->scope = around;
    return FX_OK;
}

// ---- conditions and loops -----------------------------------------------------------------------

static fx_status exec_if(fxi_jrun *r, const fxi_jnode *n)
{
    fxi_jval test;
    for (;; n = n->e) { // an elif is an if in the else
        r->line = n->line;
        FX_TRY(eval_node(r, n->a, &test));
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
    FX_TRY(fxi_jrun_take(r, items->n * sizeof *kept, &kept));
    for (size_t i = 0; i < items->n; i++) {
        FX_TRY(open_scope(r, around));
        FX_TRY(assign_value(r, n->a, items->v[i]));
        FX_TRY(eval_node(r, n->c, &test));
        if (fxi_jval_truth(test)) kept[n_kept++] = items->v[i];
    }
    r->scope = around;
    *items = (fxi_jseq){kept, n_kept};
    return FX_OK;
}

static fx_status exec_for(fxi_jrun *r, const fxi_jnode *n)
{
    fxi_jscope *const around = r->scope;
    const fxi_jstr *name = fxi_jnames_find(&r->t->names, "loop", 4);
    fxi_jval what;
    fxi_jseq items;
    struct fxi_jloop *l;
    FX_TRY(eval_node(r, n->b, &what));
    r->line = n->line;
    FX_TRY(fxi_jval_items(r, what, &items));
    if (n->c) FX_TRY(filter_items(r, n, &items));
    if (!items.n) return n->e ? exec_scoped(r, n->e) : FX_OK;
    FX_TRY(fxi_jrun_take(r, sizeof *l, &l));
    *l = (struct fxi_jloop){.v = items.v, .n = items.n};
    for (; l->i < l->n && r->flow != FXI_JFLOW_BREAK; l->i++) {
        r->flow = FXI_JFLOW_GO_ON;
        FX_TRY(open_scope(r, around));
        FX_TRY(assign_value(r, n->a, l->v[l->i]));
        if (name)
            FX_TRY(
                fxi_jscope_bind(r, r->scope, name, (fxi_jval){.type = FXI_JVAL_LOOP, .loop = l}));
        FX_TRY(fxi_jnode_exec(r, n->d));
    }
    r->scope = around;
    r->flow = FXI_JFLOW_GO_ON;
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

// Parameters in order: by position, by name, or by a default that may use earlier ones.
static fx_status bind_params(fxi_jrun *r, const fxi_jnode *m, const fxi_jargs *a)
{
    size_t i = 0;
    for (const fxi_jnode *p = m->a; p; p = p->next, i++) {
        size_t k = 0;
        while (k < a->n_kw && a->kw[k].name != p->name) k++;
        fxi_jval v = fxi_jval_undefined(p->name);
        if (i < a->n && k < a->n_kw) return fxi_jrun_fail(r, "a macro's argument is given twice");
        if (i < a->n)
            v = a->v[i];
        else if (k < a->n_kw)
            v = a->kw[k].value;
        else if (p->a)
            FX_TRY(eval_node(r, p->a, &v));
        FX_TRY(fxi_jscope_bind(r, r->scope, p->name, v));
    }
    return FX_OK;
}

// The rest: varargs and kwargs where the body mentions them; caller.
static fx_status bind_rest(fxi_jrun *r, const fxi_jnode *m, const fxi_jargs *a)
{
    const size_t n_param = count_nodes(m->a), n_more = a->n > n_param ? a->n - n_param : 0;
    size_t n_pair = 0;
    fxi_jpair *pairs;
    fxi_jval v;
    if (n_more && !m->sees.varargs) return fxi_jrun_fail(r, "a macro got too many arguments");
    FX_TRY(fxi_jrun_take(r, a->n_kw * sizeof *pairs, &pairs));
    for (size_t i = 0; i < a->n_kw; i++) {
        const fxi_jstr *name = a->kw[i].name;
        const fxi_jnode *param = m->a;
        while (param && param->name != name) param = param->next;
        if (param) continue;
        if (m->sees.caller && fxi_jstr_is(name, "caller"))
            FX_TRY(fxi_jscope_bind(r, r->scope, name, a->kw[i].value));
        else
            pairs[n_pair++] = (fxi_jpair){fxi_jval_str(name), a->kw[i].value};
    }
    if (n_pair && !m->sees.kwargs)
        return fxi_jrun_fail(r, "a macro got an unexpected keyword argument");
    if (m->sees.varargs) {
        FX_TRY(fxi_jval_make_seq(r, FXI_JVAL_TUPLE, n_more ? a->v + n_param : NULL, n_more, &v));
        FX_TRY(fxi_jscope_bind(r, r->scope, fxi_jnames_find(&r->t->names, "varargs", 7), v));
    }
    if (!m->sees.kwargs) return FX_OK;
    FX_TRY(fxi_jdict_merge(r, pairs, n_pair, &v));
    return fxi_jscope_bind(r, r->scope, fxi_jnames_find(&r->t->names, "kwargs", 6), v);
}

static fx_status call_macro(fxi_jrun *r, const struct fxi_jmacro *m, const fxi_jargs *a,
                            fxi_jval *out)
{
    fxi_jscope *const around = r->scope;
    FX_TRY(fxi_jrun_enter(r));
    FX_TRY(open_scope(r, m->scope));
    FX_TRY(bind_rest(r, m->node, a));
    FX_TRY(bind_params(r, m->node, a));
    FX_TRY(capture_text(r, m->node->d, out));
    r->scope = around;
    fxi_jrun_leave(r);
    return FX_OK;
}

// What a template calls: macros, bound methods, functions.
static fx_status call_value(fxi_jrun *r, fxi_jval f, const fxi_jargs *a, fxi_jval *out)
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
    FX_TRY(eval_node(r, call->a, &f));
    FX_TRY(eval_args(r, call, &args));
    FX_TRY(fxi_jrun_take(r, (args.n_kw + 1) * sizeof *kw, &kw));
    if (args.n_kw) memcpy(kw, args.kw, args.n_kw * sizeof *kw);
    kw[args.n_kw].name = n->b->name;
    FX_TRY(make_macro(r, n->b, &kw[args.n_kw].value));
    args.kw = kw;
    args.n_kw++;
    r->line = n->line;
    FX_TRY(call_value(r, f, &args, &out));
    return fxi_jval_show(r, r->out, out);
}

// ---- any statement ------------------------------------------------------------------------------

static fx_status exec_one(fxi_jrun *r, const fxi_jnode *n)
{
    fxi_jval v;
    switch (n->kind) {
    case FXI_JNODE_DATA: return fxi_jout_add(r, r->out, n->value.s);
    case FXI_JNODE_OUTPUT:
        FX_TRY(eval_node(r, n->a, &v));
        r->line = n->line;
        return fxi_jval_show(r, r->out, v);
    case FXI_JNODE_FOR: return exec_for(r, n);
    case FXI_JNODE_IF: return exec_if(r, n);
    case FXI_JNODE_SET: FX_TRY(eval_node(r, n->b, &v)); return assign_value(r, n->a, v);
    case FXI_JNODE_SET_BLOCK: FX_TRY(capture_filtered(r, n, &v)); return assign_value(r, n->a, v);
    case FXI_JNODE_FILTER_BLOCK:
        FX_TRY(capture_filtered(r, n, &v));
        return fxi_jval_show(r, r->out, v);
    case FXI_JNODE_MACRO_DEF:
        FX_TRY(make_macro(r, n, &v));
        return fxi_jscope_bind(r, r->scope, n->name, v);
    case FXI_JNODE_CALL_BLOCK: return exec_call_block(r, n);
    case FXI_JNODE_WITH: return exec_with(r, n);
    case FXI_JNODE_SCOPE: return exec_scoped(r, n->d);
    default:
        r->flow = n->kind == FXI_JNODE_DO_BREAK ? FXI_JFLOW_BREAK : FXI_JFLOW_CONTINUE;
        return FX_OK;
    }
}

fx_status fxi_jnode_exec(fxi_jrun *r, const fxi_jnode *list)
{
    FX_TRY(fxi_jrun_enter(r));
    for (; list && r->flow == FXI_JFLOW_GO_ON; list = list->next) {
        r->line = list->line;
        FX_TRY(fxi_jrun_work(r, 0));
        FX_TRY(exec_one(r, list));
    }
    fxi_jrun_leave(r);
    return FX_OK;
}
