// jinja_statement.c - statements: tokens to the tree. A table has a row for each tag.
#include <string.h>

#include "format/jinja/jinja_parse.h"

// ---- bodies -------------------------------------------------------------------------------------

static fx_status parse_statement(fxi_jparse *p, fxi_jnode **out);

static bool ends_body(const fxi_jparse *p, const char *const ends[])
{
    for (; *ends; ends++)
        if (fxi_jtoken_is_name(&p->ahead, *ends)) return true;
    return false;
}

static fx_status parse_output(fxi_jparse *p, fxi_jnode **out)
{
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_OUTPUT, p->cur.line, out));
    FX_TRY(fxi_jparse_next(p));
    FX_TRY(fxi_jparse_tuple(p, false, false, &(*out)->a));
    if (p->cur.kind != FXI_JTOK_VAR_END) return fxi_jparse_wrong(p, "'}}'");
    return fxi_jparse_next(p);
}

static fx_status own_text(fxi_jparse *p, const char *s, size_t n, fxi_jval *out)
{
    fxi_jstr *str = fxi_jmem_take(p->mem, sizeof *str + n);
    if (!str) return fxi_jparse_no_memory(p);
    char *own = (char *)(str + 1);
    memset(own, 1, n);
    *str = (fxi_jstr){.p = s, .own = own, .n = n};
    *out = (fxi_jval){.type = FXI_JVAL_STR, .s = str};
    return FX_OK;
}

static fx_status parse_data(fxi_jparse *p, fxi_jnode **out)
{
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_DATA, p->cur.line, out));
    FX_TRY(own_text(p, p->cur.p, p->cur.n, &(*out)->value));
    return fxi_jparse_next(p);
}

// Statements up to a tag whose word is one of `ends` (NULL: up to the template's end). Leaves `cur`
// at that word.
static fx_status parse_body(fxi_jparse *p, const char *const *ends, fxi_jnode **out)
{
    const int line = p->tag_line;
    FX_TRY(fxi_jparse_enter(p));
    for (fxi_jnode **tail = out; p->cur.kind != FXI_JTOK_END; tail = &(*tail)->next) {
        if (p->cur.kind == FXI_JTOK_DATA) {
            FX_TRY(parse_data(p, tail));
        } else if (p->cur.kind == FXI_JTOK_VAR_BEGIN) {
            FX_TRY(parse_output(p, tail));
        } else {
            if (ends && ends_body(p, ends)) {
                p->depth--;
                return fxi_jparse_next(p);
            }
            FX_TRY(fxi_jparse_next(p));
            FX_TRY(parse_statement(p, tail));
        }
    }
    p->depth--;
    return ends ? fxi_jlex_refuse(p->err, line, "a block has no '%s'", ends[0]) : FX_OK;
}

static fx_status end_block(fxi_jparse *p)
{
    if (p->cur.kind != FXI_JTOK_BLOCK_END) return fxi_jparse_wrong(p, "'%}'");
    p->tag_line = p->cur.line;
    return fxi_jparse_next(p);
}

// The rest of an opening tag, the body, and the closing tag up to its '%}'.
static fx_status parse_block(fxi_jparse *p, const char *end, fxi_jnode **body)
{
    const char *const ends[] = {end, NULL};
    FX_TRY(end_block(p));
    FX_TRY(parse_body(p, ends, body));
    return fxi_jparse_next(p);
}

// ---- the tags: `cur` is the token after the tag's word ------------------------------------------

static fx_status parse_loop_body(fxi_jparse *p, fxi_jnode *n)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    FX_TRY(end_block(p));
    p->n_loop++;
    FX_TRY(parse_body(p, ends, &n->d));
    p->n_loop--;
    bool has_else = fxi_jparse_at_name(p, "else");
    FX_TRY(fxi_jparse_next(p));
    return has_else ? parse_block(p, "endfor", &n->e) : FX_OK;
}

// x.content, x['content'], content, with any filters or slices.
static bool is_content(const fxi_jnode *n)
{
    while (n->kind == FXI_JNODE_FILTER || n->kind == FXI_JNODE_GETSLICE) n = n->a;
    if (n->kind == FXI_JNODE_NAME || n->kind == FXI_JNODE_GETATTR)
        return fxi_jstr_is(n->name, "content");
    return n->kind == FXI_JNODE_GETITEM && n->b->kind == FXI_JNODE_CONST &&
           n->b->value.type == FXI_JVAL_STR && fxi_jstr_is(n->b->value.s, "content");
}

static fx_status parse_for(fxi_jparse *p, fxi_jnode *n)
{
    n->kind = FXI_JNODE_FOR;
    FX_TRY(fxi_jparse_target(p, false, &n->a));
    FX_TRY(fxi_jparse_expect_name(p, "in"));
    FX_TRY(fxi_jparse_tuple(p, true, false, &n->b));
    p->reads_parts |= is_content(n->b);
    if (fxi_jparse_at_name(p, "if")) {
        FX_TRY(fxi_jparse_next(p));
        FX_TRY(fxi_jparse_expr(p, &n->c));
    }
    if (fxi_jparse_at_name(p, "recursive"))
        return fxi_jlex_refuse(p->err, n->line, "recursive loops are not supported");
    return parse_loop_body(p, n);
}

// {% elif %} is an {% if %} inside {% else %}; both end at the same {% endif %}.
static fx_status parse_if(fxi_jparse *p, fxi_jnode *n)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    for (;;) {
        n->kind = FXI_JNODE_IF;
        FX_TRY(fxi_jparse_tuple(p, true, false, &n->a));
        FX_TRY(end_block(p));
        FX_TRY(parse_body(p, ends, &n->d));
        bool again = fxi_jparse_at_name(p, "elif"), otherwise = fxi_jparse_at_name(p, "else");
        FX_TRY(fxi_jparse_next(p));
        if (otherwise) return parse_block(p, "endif", &n->e);
        if (!again) return FX_OK;
        FX_TRY(fxi_jparse_node(p, FXI_JNODE_IF, p->cur.line, &n->e));
        n = n->e;
    }
}

// The filters of a block, applied to its rendered text; the first one's '|' has been read.
static fx_status parse_block_filters(fxi_jparse *p, fxi_jnode **out)
{
    fxi_jnode *captured;
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_CAPTURED, p->cur.line, &captured));
    return fxi_jparse_filters(p, captured, out);
}

static fx_status parse_set(fxi_jparse *p, fxi_jnode *n)
{
    n->kind = FXI_JNODE_SET;
    FX_TRY(fxi_jparse_target(p, true, &n->a));
    if (fxi_jparse_at_op(p, '=')) {
        FX_TRY(fxi_jparse_next(p));
        return fxi_jparse_tuple(p, false, false, &n->b);
    }
    n->kind = FXI_JNODE_SET_BLOCK;
    if (fxi_jparse_at_op(p, '|')) {
        FX_TRY(fxi_jparse_next(p));
        FX_TRY(parse_block_filters(p, &n->b));
    }
    return parse_block(p, "endset", &n->d);
}

static fx_status parse_params(fxi_jparse *p, fxi_jnode **tail)
{
    bool preset = false;
    FX_TRY(fxi_jparse_expect_op(p, '('));
    for (; !fxi_jparse_at_op(p, ')'); tail = &(*tail)->next) {
        FX_TRY(fxi_jparse_node(p, FXI_JNODE_KEYWORD, p->cur.line, tail));
        FX_TRY(fxi_jparse_name(p, &(*tail)->name));
        FX_TRY(fxi_jparse_binds(p, (*tail)->name));
        if (fxi_jparse_at_op(p, '=')) {
            FX_TRY(fxi_jparse_next(p));
            FX_TRY(fxi_jparse_expr(p, &(*tail)->a));
            preset = true;
        } else if (preset) {
            return fxi_jlex_refuse(p->err, p->cur.line,
                                   "a parameter without a default follows one with a default");
        }
        if (!fxi_jparse_at_op(p, ')')) FX_TRY(fxi_jparse_expect_op(p, ','));
    }
    return fxi_jparse_next(p);
}

// Optional parameters, and a body in which names have a macro's meaning.
static fx_status parse_macro_rest(fxi_jparse *p, fxi_jnode *n, bool must, const char *end)
{
    const fxi_jparse around = *p;
    p->sees_varargs = p->sees_kwargs = p->sees_caller = false;
    p->n_loop = 0;
    n->kind = FXI_JNODE_MACRO_DEF;
    if (must || fxi_jparse_at_op(p, '(')) FX_TRY(parse_params(p, &n->a));
    FX_TRY(parse_block(p, end, &n->d));
    n->takes_more = p->sees_varargs;
    n->takes_more_kw = p->sees_kwargs;
    n->op = p->sees_caller;
    p->sees_varargs = around.sees_varargs;
    p->sees_kwargs = around.sees_kwargs;
    p->sees_caller = around.sees_caller;
    p->n_loop = around.n_loop;
    return FX_OK;
}

static fx_status parse_macro(fxi_jparse *p, fxi_jnode *n)
{
    FX_TRY(fxi_jparse_name(p, &n->name));
    FX_TRY(fxi_jparse_binds(p, n->name));
    return parse_macro_rest(p, n, true, "endmacro");
}

// {% call(x) f(y) %}..{% endcall %}: the parameters come before what is called.
static fx_status parse_call_block(fxi_jparse *p, fxi_jnode *n)
{
    fxi_jnode *m;
    n->kind = FXI_JNODE_CALL_BLOCK;
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_MACRO_DEF, n->line, &m));
    if (fxi_jparse_at_op(p, '(')) FX_TRY(parse_params(p, &m->a));
    FX_TRY(fxi_jparse_expr(p, &n->a));
    if (n->a->kind != FXI_JNODE_CALL) return fxi_jlex_refuse(p->err, n->line, "expected a call");
    n->b = m;
    FX_TRY(parse_macro_rest(p, m, false, "endcall"));
    return fxi_jparse_intern(p, p->names, "caller", 6, &m->name);
}

static fx_status parse_filter_block(fxi_jparse *p, fxi_jnode *n)
{
    n->kind = FXI_JNODE_FILTER_BLOCK;
    FX_TRY(parse_block_filters(p, &n->b));
    return parse_block(p, "endfilter", &n->d);
}

static fx_status parse_with(fxi_jparse *p, fxi_jnode *n)
{
    n->kind = FXI_JNODE_WITH;
    for (fxi_jnode **a = &n->a, **b = &n->b; p->cur.kind != FXI_JTOK_BLOCK_END;
         a = &(*a)->next, b = &(*b)->next) {
        if (n->a && a != &n->a) FX_TRY(fxi_jparse_expect_op(p, ','));
        FX_TRY(fxi_jparse_target(p, false, a));
        FX_TRY(fxi_jparse_expect_op(p, '='));
        FX_TRY(fxi_jparse_expr(p, b));
    }
    return parse_block(p, "endwith", &n->d);
}

static fx_status parse_generation(fxi_jparse *p, fxi_jnode *n)
{
    n->kind = FXI_JNODE_SCOPE;
    return parse_block(p, "endgeneration", &n->d);
}

static fx_status in_loop(fxi_jparse *p, fxi_jnode *n, fxi_jkind kind, const char *word)
{
    n->kind = (uint8_t)kind;
    return p->n_loop ? FX_OK : fxi_jlex_refuse(p->err, n->line, "'%s' outside of a loop", word);
}

static fx_status parse_break(fxi_jparse *p, fxi_jnode *n)
{
    return in_loop(p, n, FXI_JNODE_DO_BREAK, "break");
}

static fx_status parse_continue(fxi_jparse *p, fxi_jnode *n)
{
    return in_loop(p, n, FXI_JNODE_DO_CONTINUE, "continue");
}

static const struct {
    const char *word;
    fx_status (*parse)(fxi_jparse *p, fxi_jnode *n); // n: a new node with its line set
} tags[] = {
    {"for", parse_for},         {"if", parse_if},
    {"set", parse_set},         {"macro", parse_macro},
    {"call", parse_call_block}, {"filter", parse_filter_block},
    {"with", parse_with},       {"generation", parse_generation},
    {"break", parse_break},     {"continue", parse_continue},
};

static fx_status parse_statement(fxi_jparse *p, fxi_jnode **out)
{
    const fxi_jtoken t = p->cur;
    if (t.kind != FXI_JTOK_NAME) return fxi_jparse_wrong(p, "a tag's name");
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!fxi_jtoken_is_name(&t, tags[i].word)) continue;
        FX_TRY(fxi_jparse_node(p, FXI_JNODE_DATA, t.line, out));
        FX_TRY(fxi_jparse_next(p));
        FX_TRY(tags[i].parse(p, *out));
        return end_block(p);
    }
    return fxi_jlex_refuse(p->err, t.line, "the tag '%.*s' is not supported here",
                           t.n < 40 ? (int)t.n : 40, t.p);
}

// ---- the whole template -------------------------------------------------------------------------

// A plain name that is called must be a function of the library or bound by the template itself:
// nothing that a caller gives can be called.
static fx_status check_called(fxi_jparse *p)
{
    for (const fxi_jnode *n = p->called; n; n = n->e) {
        const fxi_jstr *name = n->a->name;
        if (fxi_jroutine_find(p->lib->functions, name->p, name->n) ||
            fxi_jnames_find(p->bound, name->p, name->n) || fxi_jstr_is(name, "caller"))
            continue;
        return fxi_jlex_refuse(p->err, n->line, "the function '%.*s' is not supported",
                               name->n < 40 ? (int)name->n : 40, name->p);
    }
    return FX_OK;
}

fx_status fxi_jparse_template(fxi_jparse *p, fxi_jnode **out)
{
    FX_TRY(fxi_jparse_next(p));
    FX_TRY(fxi_jparse_next(p));
    FX_TRY(parse_body(p, NULL, out));
    return check_called(p);
}
