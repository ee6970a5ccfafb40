// jinja_eval.c - expressions: a function for each kind of node.
#include "format/jinja/run/jinja_exec.h"

// ---- variables ----------------------------------------------------------------------------------

static fx_status eval_name(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    return fxi_jscope_lookup(r, n->name, out);
}

// ---- literals -----------------------------------------------------------------------------------

static fx_status eval_const(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    (void)r;
    *out = n->value;
    return FX_OK;
}

static fx_status eval_captured(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    (void)n;
    *out = r->captured;
    return FX_OK;
}

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
    for (; list; list = list->next) FX_TRY(fxi_jnode_eval(r, list, &v[i++]));
    *out = (fxi_jseq){v, i};
    return FX_OK;
}

static fx_status eval_seq(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jseq s;
    FX_TRY(eval_list(r, n->a, &s));
    return fxi_jval_make_seq(r, n->kind == FXI_JNODE_MAKE_LIST ? FXI_JVAL_LIST : FXI_JVAL_TUPLE,
                             s.v, s.n, out);
}

static fx_status eval_dict(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jpair *e;
    size_t i = 0;
    FX_TRY(fxi_jrun_take(r, count_nodes(n->a) * sizeof *e, &e));
    for (const fxi_jnode *k = n->a, *v = n->b; k; k = k->next, v = v->next, i++) {
        FX_TRY(fxi_jnode_eval(r, k, &e[i].key));
        FX_TRY(fxi_jnode_eval(r, v, &e[i].value));
    }
    return fxi_jdict_merge(r, e, i, out);
}

// ---- operators ----------------------------------------------------------------------------------

static fx_status eval_neg(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jval a;
    FX_TRY(fxi_jnode_eval(r, n->a, &a));
    return fxi_jop_negate(r, a, out);
}

static fx_status eval_pos(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jval a;
    FX_TRY(fxi_jnode_eval(r, n->a, &a));
    return fxi_jop_plus(r, a, out);
}

static fx_status eval_not(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jval a;
    FX_TRY(fxi_jnode_eval(r, n->a, &a));
    *out = fxi_jval_bool(!fxi_jval_truth(a));
    return FX_OK;
}

static fx_status eval_binary(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jval a, b;
    FX_TRY(fxi_jnode_eval(r, n->a, &a));
    FX_TRY(fxi_jnode_eval(r, n->b, &b));
    r->line = n->line;
    return fxi_jop_binary(r, n->op, a, b, out);
}

// The value of the side that decides.
static fx_status eval_logic(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    FX_TRY(fxi_jnode_eval(r, n->a, out));
    bool decided = fxi_jval_truth(*out) == (n->kind == FXI_JNODE_OR);
    return decided ? FX_OK : fxi_jnode_eval(r, n->b, out);
}

static fx_status eval_compare(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jval a, b;
    bool holds = true;
    FX_TRY(fxi_jnode_eval(r, n->a, &a));
    for (const fxi_jnode *next = n->b; next && holds; next = next->next, a = b) {
        FX_TRY(fxi_jnode_eval(r, next->b, &b));
        r->line = next->line;
        FX_TRY(fxi_jop_compare(r, next->op, a, b, &holds));
    }
    *out = fxi_jval_bool(holds);
    return FX_OK;
}

static fx_status eval_cond(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jval test;
    FX_TRY(fxi_jnode_eval(r, n->a, &test));
    if (fxi_jval_truth(test)) return fxi_jnode_eval(r, n->b, out);
    *out = fxi_jval_undefined(NULL);
    return n->c ? fxi_jnode_eval(r, n->c, out) : FX_OK;
}

// ---- attributes, items, slices ------------------------------------------------------------------

static fx_status eval_getattr(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jval a;
    FX_TRY(fxi_jnode_eval(r, n->a, &a));
    r->line = n->line;
    return fxi_jval_attribute(r, a, n->name, out);
}

static fx_status eval_getitem(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jval a, key;
    FX_TRY(fxi_jnode_eval(r, n->a, &a));
    FX_TRY(fxi_jnode_eval(r, n->b, &key));
    r->line = n->line;
    return fxi_jval_subscript(r, a, key, out);
}

static fx_status eval_getslice(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jval a, bound[3];
    const fxi_jnode *const bounds[3] = {n->b, n->c, n->d};
    FX_TRY(fxi_jnode_eval(r, n->a, &a));
    for (int i = 0; i < 3; i++) {
        bound[i] = fxi_jval_none();
        if (bounds[i]) FX_TRY(fxi_jnode_eval(r, bounds[i], &bound[i]));
    }
    r->line = n->line;
    return fxi_jval_slice(r, a, bound, out);
}

// ---- calls --------------------------------------------------------------------------------------

fx_status fxi_jnode_eval_args(fxi_jrun *r, const fxi_jnode *n, fxi_jargs *out)
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
        FX_TRY(fxi_jnode_eval(r, k->a, &kw[out->n_kw].value));
    }
    return FX_OK;
}

// The callee, or the input of a filter or test, and the arguments.
static fx_status eval_operands(fxi_jrun *r, const fxi_jnode *n, fxi_jval *first, fxi_jargs *args)
{
    FX_TRY(fxi_jnode_eval(r, n->a, first));
    FX_TRY(fxi_jnode_eval_args(r, n, args));
    r->line = n->line;
    return FX_OK;
}

static fx_status eval_call(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jval f;
    fxi_jargs args;
    FX_TRY(eval_operands(r, n, &f, &args));
    return fxi_jval_call(r, f, &args, out);
}

// Filters and tests: the row says which.
static fx_status eval_routine(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    fxi_jval in;
    fxi_jargs args;
    FX_TRY(eval_operands(r, n, &in, &args));
    return fxi_jroutine_call(r, n->row, in, &args, out);
}

static fx_status (*const evals[FXI_JNODE_N_KIND])(fxi_jrun *r, const fxi_jnode *n,
                                                  fxi_jval *out) = {
    [FXI_JNODE_CONST] = eval_const,     [FXI_JNODE_NAME] = eval_name,
    [FXI_JNODE_MAKE_LIST] = eval_seq,   [FXI_JNODE_MAKE_TUPLE] = eval_seq,
    [FXI_JNODE_MAKE_DICT] = eval_dict,  [FXI_JNODE_NEG] = eval_neg,
    [FXI_JNODE_POS] = eval_pos,         [FXI_JNODE_NOT] = eval_not,
    [FXI_JNODE_BINARY] = eval_binary,   [FXI_JNODE_AND] = eval_logic,
    [FXI_JNODE_OR] = eval_logic,        [FXI_JNODE_COMPARE] = eval_compare,
    [FXI_JNODE_COND] = eval_cond,       [FXI_JNODE_GETATTR] = eval_getattr,
    [FXI_JNODE_GETITEM] = eval_getitem, [FXI_JNODE_GETSLICE] = eval_getslice,
    [FXI_JNODE_CALL] = eval_call,       [FXI_JNODE_FILTER] = eval_routine,
    [FXI_JNODE_TEST] = eval_routine,    [FXI_JNODE_CAPTURED] = eval_captured,
};

fx_status fxi_jnode_eval(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out)
{
    r->line = n->line;
    FX_TRY(fxi_jrun_enter(r));
    fx_status st = evals[n->kind](r, n, out);
    fxi_jrun_leave(r);
    return st;
}
