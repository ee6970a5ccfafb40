// jinja_parse.c - tokens to the tree: expressions by precedence, and a row of a table for each tag.
//
//     x if y else z   or   and   not   == in < ..   + -   ~   * / // %   **   -x   x.y x[y] x(y)
//     x|filter, x is test: bind like the unary minus, applied after it
//
// All binary operators go from left to right, ** too; comparisons chain.
#include "format/jinja/jinja_parse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

typedef struct template_parser {
    fxi_jlex lex;
    fxi_jtoken cur, ahead; // the current token and the next one
    fxi_jinja *t;          // what is built
    fxi_jnames bound;      // names that something is bound to
    fxi_jnode *called;     // calls of plain names, through e
    fxi_jsees sees;        // in the macro that is parsed
    int n_loop;            // enclosing loops, within this macro
    int depth;
    bool to_attribute; // the target that is parsed has an attribute
    int tag_line;      // the line of the last tag that opened a block
    fx_error *err;
} template_parser;

#define REFUSE(p, line, ...) fxi_jlex_refuse((p)->err, (line), __VA_ARGS__)

typedef enum level { OR = 1, AND, NOT, COMPARE, SUM, TILDE, PRODUCT, POWER } level;

static fx_status parse_expr(template_parser *p, fxi_jnode **out);
static fx_status parse_level(template_parser *p, level least, fxi_jnode **out);

// ---- tokens -------------------------------------------------------------------------------------

static fx_status next_token(template_parser *p)
{
    p->cur = p->ahead;
    return fxi_jlex_next(&p->lex, &p->ahead);
}

// Names and operators.
static bool token_is(const fxi_jtoken *t, const char *text)
{
    return (t->kind == FXI_JTOK_NAME || t->kind == FXI_JTOK_OP) && t->n == strlen(text) &&
           !memcmp(t->p, text, t->n);
}

static bool at_token(const template_parser *p, const char *text)
{
    return token_is(&p->cur, text);
}

static fx_status fail_expected(template_parser *p, const char *expected)
{
    const fxi_jtoken *t = &p->cur;
    if (t->kind == FXI_JTOK_END || t->kind == FXI_JTOK_DATA)
        return REFUSE(p, t->line, "expected %s, got %s", expected,
                      t->kind == FXI_JTOK_END ? "the end" : "text");
    return REFUSE(p, t->line, "expected %s, got '%.*s'", expected, FXI_JINJA_HEAD(t));
}

static fx_status expect_token(template_parser *p, const char *text)
{
    char what[32];
    snprintf(what, sizeof what, "'%s'", text);
    return at_token(p, text) ? next_token(p) : fail_expected(p, what);
}

// After an element of a list that `close` ends.
static fx_status expect_comma(template_parser *p, const char *close)
{
    return at_token(p, close) ? FX_OK : expect_token(p, ",");
}

// ---- nodes, names, nesting ----------------------------------------------------------------------

static fx_status add_node(template_parser *p, fxi_jkind kind, fxi_jnode *a, fxi_jnode **out)
{
    fxi_jnode *n = fxi_jmem_take(&p->t->mem, sizeof *n);
    if (!n) return fxi_fail_memory(p->err);
    *n = (fxi_jnode){.kind = (uint8_t)kind, .line = p->cur.line, .a = a};
    *out = n;
    return FX_OK;
}

// The same, and moves past the current token, which begins it.
static fx_status start_node(template_parser *p, fxi_jkind kind, fxi_jnode *a, fxi_jnode **out)
{
    FX_TRY(add_node(p, kind, a, out));
    return next_token(p);
}

static fx_status intern_name(template_parser *p, fxi_jnames *names, const char *s, size_t n,
                             const fxi_jstr **out)
{
    *out = fxi_jnames_add(&p->t->mem, names, s, n);
    if (*out) return FX_OK;
    if (names->n < FXI_JNAMES_MAX) return fxi_fail_memory(p->err);
    return REFUSE(p, p->cur.line, "more than %d names", FXI_JNAMES_MAX);
}

static fx_status parse_name(template_parser *p, const fxi_jstr **out)
{
    if (p->cur.kind != FXI_JTOK_NAME) return fail_expected(p, "a name");
    FX_TRY(intern_name(p, &p->t->names, p->cur.p, p->cur.n, out));
    return next_token(p);
}

static fx_status note_bound(template_parser *p, const fxi_jstr *name)
{
    return intern_name(p, &p->bound, name->p, name->n, &(const fxi_jstr *){NULL});
}

// One level deeper; p->depth-- leaves.
static fx_status enter_nest(template_parser *p)
{
    if (p->depth == FXI_JLEX_MAX_NEST)
        return REFUSE(p, p->cur.line, "nests deeper than %d", FXI_JLEX_MAX_NEST);
    p->depth++;
    return FX_OK;
}

// ---- literals -----------------------------------------------------------------------------------

// Adjacent strings, 'a' "b", are one.
static fx_status parse_string(template_parser *p, fxi_jnode **out)
{
    fxi_jstr *str = fxi_jmem_take(&p->t->mem, sizeof *str);
    if (!str) return fxi_fail_memory(p->err);
    *str = (fxi_jstr){.p = "", .own = ""};
    FX_TRY(add_node(p, FXI_JNODE_CONST, NULL, out));
    while (p->cur.kind == FXI_JTOK_STR) {
        size_t n = str->n;
        char *s = fxi_jmem_take(&p->t->mem, 2 * (n + p->cur.n));
        if (!s) return fxi_fail_memory(p->err);
        memcpy(s, str->p, n);
        if (!fxi_jtoken_unescape(&p->cur, s, &n))
            return REFUSE(p, p->cur.line, "invalid escape sequence");
        memset(s + n, 1, n);
        *str = (fxi_jstr){.p = s, .own = s + n, .n = n};
        FX_TRY(next_token(p));
    }
    (*out)->value = fxi_jval_str(str);
    return FX_OK;
}

static fx_status parse_number(template_parser *p, fxi_jnode **out)
{
    fxi_jval v;
    if (!fxi_jtoken_number(&p->cur, &v))
        return REFUSE(p, p->cur.line, "the number %.*s is too large", FXI_JINJA_HEAD(&p->cur));
    FX_TRY(start_node(p, FXI_JNODE_CONST, NULL, out));
    (*out)->value = v;
    return FX_OK;
}

static const struct {
    const char *name;
    fxi_jval value;
} words[] = {
    {"true", {.type = FXI_JVAL_BOOL, .own = true, .b = true}},
    {"True", {.type = FXI_JVAL_BOOL, .own = true, .b = true}},
    {"false", {.type = FXI_JVAL_BOOL, .own = true}},
    {"False", {.type = FXI_JVAL_BOOL, .own = true}},
    {"none", {.type = FXI_JVAL_NONE}},
    {"None", {.type = FXI_JVAL_NONE}},
};

static fx_status parse_word(template_parser *p, fxi_jnode **out)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!at_token(p, words[i].name)) continue;
        FX_TRY(start_node(p, FXI_JNODE_CONST, NULL, out));
        (*out)->value = words[i].value;
        return FX_OK;
    }
    p->sees.varargs |= at_token(p, "varargs");
    p->sees.kwargs |= at_token(p, "kwargs");
    p->sees.caller |= at_token(p, "caller");
    FX_TRY(add_node(p, FXI_JNODE_NAME, NULL, out));
    return parse_name(p, &(*out)->name);
}

// ---- brackets -----------------------------------------------------------------------------------

// [x, y] or {k: x, l: y}
static fx_status parse_brackets(template_parser *p, bool is_dict, fxi_jnode **out)
{
    const char *close = is_dict ? "}" : "]";
    FX_TRY(start_node(p, is_dict ? FXI_JNODE_MAKE_DICT : FXI_JNODE_MAKE_LIST, NULL, out));
    fxi_jnode **value = &(*out)->b;
    for (fxi_jnode **tail = &(*out)->a; !at_token(p, close); tail = &(*tail)->next) {
        FX_TRY(parse_expr(p, tail));
        if (is_dict) {
            FX_TRY(expect_token(p, ":"));
            FX_TRY(parse_expr(p, value));
            value = &(*value)->next;
        }
        FX_TRY(expect_comma(p, close));
    }
    return next_token(p);
}

// Elements read by `parse`, separated by commas; a single one without a comma is itself.
static fx_status parse_commas(template_parser *p,
                              fx_status (*parse)(template_parser *, fxi_jnode **),
                              bool may_be_empty, fxi_jnode **out)
{
    fxi_jnode *tuple = NULL;
    bool comma = false;
    FX_TRY(add_node(p, FXI_JNODE_MAKE_TUPLE, NULL, &tuple));
    for (fxi_jnode **tail = &tuple->a;
         p->cur.kind != FXI_JTOK_VAR_END && p->cur.kind != FXI_JTOK_BLOCK_END &&
         !at_token(p, ")") && !at_token(p, "in");
         tail = &(*tail)->next) {
        FX_TRY(parse(p, tail));
        if (!at_token(p, ",")) break;
        comma = true;
        FX_TRY(next_token(p));
    }
    if (!tuple->a && !may_be_empty) return fail_expected(p, "an expression");
    *out = tuple->a && !comma ? tuple->a : tuple;
    return FX_OK;
}

static fx_status parse_primary(template_parser *p, fxi_jnode **out)
{
    switch (p->cur.kind) {
    case FXI_JTOK_NAME: return parse_word(p, out);
    case FXI_JTOK_STR: return parse_string(p, out);
    case FXI_JTOK_INT:
    case FXI_JTOK_FLOAT: return parse_number(p, out);
    default: break;
    }
    if (at_token(p, "[") || at_token(p, "{")) return parse_brackets(p, at_token(p, "{"), out);
    if (!at_token(p, "(")) return fail_expected(p, "an expression");
    FX_TRY(next_token(p));
    FX_TRY(parse_commas(p, parse_expr, true, out));
    return expect_token(p, ")");
}

// ---- what follows a primary ---------------------------------------------------------------------

// (x, y, name=z) into n->b and n->c
static fx_status parse_arguments(template_parser *p, fxi_jnode *n)
{
    fxi_jnode **args = &n->b, **kw = &n->c;
    FX_TRY(expect_token(p, "("));
    while (!at_token(p, ")")) {
        if (at_token(p, "*") || at_token(p, "**"))
            return REFUSE(p, p->cur.line, "'*' in front of an argument is not supported");
        if (p->cur.kind == FXI_JTOK_NAME && token_is(&p->ahead, "=")) {
            FX_TRY(add_node(p, FXI_JNODE_KEYWORD, NULL, kw));
            FX_TRY(parse_name(p, &(*kw)->name));
            FX_TRY(next_token(p));
            FX_TRY(parse_expr(p, &(*kw)->a));
            kw = &(*kw)->next;
        } else {
            FX_TRY(parse_expr(p, args));
            args = &(*args)->next;
            if (n->c) return REFUSE(p, n->line, "a positional argument follows a keyword argument");
        }
        FX_TRY(expect_comma(p, ")"));
    }
    return next_token(p);
}

static fx_status parse_call(template_parser *p, fxi_jnode **out)
{
    fxi_jnode *n = NULL, *callee = *out;
    FX_TRY(add_node(p, FXI_JNODE_CALL, callee, &n));
    *out = n;
    FX_TRY(parse_arguments(p, n));
    if (callee->kind != FXI_JNODE_NAME) return FX_OK;
    if (fxi_jstr_is(callee->name, "loop"))
        return REFUSE(p, n->line, "recursive loops are not supported");
    n->e = p->called;
    p->called = n;
    return FX_OK;
}

static fx_status parse_dot(template_parser *p, fxi_jnode **out)
{
    FX_TRY(start_node(p, FXI_JNODE_GETATTR, *out, out));
    if (p->cur.kind != FXI_JTOK_INT) return parse_name(p, &(*out)->name);
    (*out)->kind = FXI_JNODE_GETITEM;
    return parse_number(p, &(*out)->b);
}

static fx_status parse_subscript(template_parser *p, fxi_jnode **out)
{
    FX_TRY(start_node(p, FXI_JNODE_GETITEM, *out, out));
    fxi_jnode *n = *out, **const bounds[] = {&n->b, &n->c, &n->d};
    for (int i = 0;; i++) {
        if (!at_token(p, ":") && !at_token(p, "]")) FX_TRY(parse_expr(p, bounds[i]));
        if (i == 2 || !at_token(p, ":")) break;
        n->kind = FXI_JNODE_GETSLICE;
        FX_TRY(next_token(p));
    }
    if (n->kind == FXI_JNODE_GETITEM && !n->b) return fail_expected(p, "an expression");
    return expect_token(p, "]");
}

static fx_status parse_postfix(template_parser *p, fxi_jnode **n)
{
    for (;;) {
        if (at_token(p, "."))
            FX_TRY(parse_dot(p, n));
        else if (at_token(p, "["))
            FX_TRY(parse_subscript(p, n));
        else if (at_token(p, "("))
            FX_TRY(parse_call(p, n));
        else
            return FX_OK;
    }
}

// ---- filters and tests --------------------------------------------------------------------------

// The name of a filter or test, to a node without arguments around *out.
static fx_status parse_routine(template_parser *p, bool is_test, fxi_jnode **out)
{
    const fxi_jtoken t = p->cur;
    if (t.kind != FXI_JTOK_NAME)
        return fail_expected(p, is_test ? "a test's name" : "a filter's name");
    const fxi_jroutine *row = fxi_jlibrary_find(p->t->lib, is_test, t.p, t.n);
    if (!row)
        return REFUSE(p, t.line, "the %s '%.*s' is not supported", is_test ? "test" : "filter",
                      FXI_JINJA_HEAD(&t));
    FX_TRY(start_node(p, is_test ? FXI_JNODE_TEST : FXI_JNODE_FILTER, *out, out));
    (*out)->row = row;
    return FX_OK;
}

// One filter or more on *out: as long as there is a '|', or (block) another after the first one.
static fx_status parse_filters(template_parser *p, bool in_block, fxi_jnode **out)
{
    for (bool first = in_block; first || at_token(p, "|"); first = false) {
        if (!first) FX_TRY(next_token(p));
        FX_TRY(parse_routine(p, false, out));
        if (at_token(p, "(")) FX_TRY(parse_arguments(p, *out));
    }
    return FX_OK;
}

// Whether a test's one argument follows without brackets: "x is eq 3".
static bool at_bare_argument(const template_parser *p)
{
    if (p->cur.kind == FXI_JTOK_NAME)
        return !at_token(p, "else") && !at_token(p, "or") && !at_token(p, "and");
    return p->cur.kind == FXI_JTOK_STR || p->cur.kind == FXI_JTOK_INT ||
           p->cur.kind == FXI_JTOK_FLOAT || at_token(p, "[") || at_token(p, "{");
}

static fx_status parse_test(template_parser *p, fxi_jnode **out)
{
    FX_TRY(next_token(p));
    const bool negated = at_token(p, "not");
    if (negated) FX_TRY(next_token(p));
    FX_TRY(parse_routine(p, true, out));
    fxi_jnode *n = *out;
    if (at_token(p, "(")) {
        FX_TRY(parse_arguments(p, n));
    } else if (at_bare_argument(p)) {
        if (at_token(p, "is")) return REFUSE(p, n->line, "tests cannot be chained with 'is'");
        FX_TRY(parse_primary(p, &n->b));
        FX_TRY(parse_postfix(p, &n->b));
    }
    if (!negated) return FX_OK;
    FX_TRY(add_node(p, FXI_JNODE_NOT, n, out));
    (*out)->line = n->line;
    return FX_OK;
}

// ---- operators ----------------------------------------------------------------------------------

static fx_status parse_unary(template_parser *p, bool with_filter, fxi_jnode **out)
{
    if (at_token(p, "-") || at_token(p, "+")) {
        FX_TRY(enter_nest(p));
        FX_TRY(start_node(p, at_token(p, "-") ? FXI_JNODE_NEG : FXI_JNODE_POS, NULL, out));
        FX_TRY(parse_unary(p, false, &(*out)->a));
        p->depth--;
    } else {
        FX_TRY(parse_primary(p, out));
    }
    FX_TRY(parse_postfix(p, out));
    while (with_filter) {
        if (at_token(p, "|"))
            FX_TRY(parse_filters(p, false, out));
        else if (at_token(p, "is"))
            FX_TRY(parse_test(p, out));
        else if (at_token(p, "("))
            FX_TRY(parse_call(p, out));
        else
            break;
    }
    return FX_OK;
}

static const struct binary {
    const char *text;
    level level;
    fxi_jkind kind;
    fxi_jop meaning;
} binaries[] = {
    {"or", OR, FXI_JNODE_OR, 0},
    {"and", AND, FXI_JNODE_AND, 0},
    {"in", COMPARE, FXI_JNODE_COMPARE, FXI_JOP_IN},
    {"==", COMPARE, FXI_JNODE_COMPARE, FXI_JOP_EQ},
    {"!=", COMPARE, FXI_JNODE_COMPARE, FXI_JOP_NE},
    {"<", COMPARE, FXI_JNODE_COMPARE, FXI_JOP_LT},
    {"<=", COMPARE, FXI_JNODE_COMPARE, FXI_JOP_LE},
    {">", COMPARE, FXI_JNODE_COMPARE, FXI_JOP_GT},
    {">=", COMPARE, FXI_JNODE_COMPARE, FXI_JOP_GE},
    {"+", SUM, FXI_JNODE_BINARY, FXI_JOP_ADD},
    {"-", SUM, FXI_JNODE_BINARY, FXI_JOP_SUB},
    {"~", TILDE, FXI_JNODE_BINARY, FXI_JOP_CONCAT},
    {"*", PRODUCT, FXI_JNODE_BINARY, FXI_JOP_MUL},
    {"/", PRODUCT, FXI_JNODE_BINARY, FXI_JOP_DIV},
    {"//", PRODUCT, FXI_JNODE_BINARY, FXI_JOP_FLOORDIV},
    {"%", PRODUCT, FXI_JNODE_BINARY, FXI_JOP_MOD},
    {"**", POWER, FXI_JNODE_BINARY, FXI_JOP_POW},
};

static const struct binary not_in = {"not", COMPARE, FXI_JNODE_COMPARE, FXI_JOP_NOT_IN};

// The operator at cur; NULL: cur is not an operator.
static const struct binary *binary_here(const template_parser *p)
{
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
        if (at_token(p, binaries[i].text)) return &binaries[i];
    return at_token(p, "not") && token_is(&p->ahead, "in") ? &not_in : NULL;
}

// a < b <= c: one node with a list of operators and right sides.
static fx_status parse_comparisons(template_parser *p, fxi_jnode **out)
{
    FX_TRY(add_node(p, FXI_JNODE_COMPARE, *out, out));
    fxi_jnode **tail = &(*out)->b;
    for (const struct binary *b; (b = binary_here(p)) && b->level == COMPARE;
         tail = &(*tail)->next) {
        FX_TRY(start_node(p, FXI_JNODE_BINARY, NULL, tail));
        (*tail)->op = (uint8_t)b->meaning;
        if (b == &not_in) FX_TRY(next_token(p));
        FX_TRY(parse_level(p, COMPARE + 1, &(*tail)->b));
    }
    return FX_OK;
}

// An expression whose operators bind at least as tightly as `least`.
static fx_status parse_level(template_parser *p, level least, fxi_jnode **out)
{
    FX_TRY(enter_nest(p));
    if (least <= NOT && at_token(p, "not")) {
        FX_TRY(start_node(p, FXI_JNODE_NOT, NULL, out));
        FX_TRY(parse_level(p, NOT, &(*out)->a));
    } else {
        FX_TRY(parse_unary(p, true, out));
    }
    for (const struct binary *b; (b = binary_here(p)) && b->level >= least;) {
        if (b->level == COMPARE) {
            FX_TRY(parse_comparisons(p, out));
            continue;
        }
        FX_TRY(start_node(p, b->kind, *out, out));
        (*out)->op = (uint8_t)b->meaning;
        FX_TRY(parse_level(p, b->level + 1, &(*out)->b));
    }
    p->depth--;
    return FX_OK;
}

// Without "x if y", as before a loop's condition.
static fx_status parse_without_if(template_parser *p, fxi_jnode **out)
{
    return parse_level(p, OR, out);
}

// x if y else z; "else z" is optional, and z may be another such expression.
static fx_status parse_expr(template_parser *p, fxi_jnode **out)
{
    FX_TRY(parse_level(p, OR, out));
    while (at_token(p, "if")) {
        fxi_jnode *n = NULL;
        FX_TRY(start_node(p, FXI_JNODE_COND, NULL, &n));
        n->b = *out;
        FX_TRY(parse_level(p, OR, &n->a));
        if (at_token(p, "else")) {
            FX_TRY(next_token(p));
            FX_TRY(enter_nest(p));
            FX_TRY(parse_expr(p, &n->c));
            p->depth--;
        }
        *out = n;
    }
    return FX_OK;
}

// ---- targets of assignments ---------------------------------------------------------------------

// A name, or (as FXI_JNODE_GETATTR) an attribute of one, or several in brackets.
static fx_status parse_assignable(template_parser *p, fxi_jnode **out)
{
    const fxi_jtoken t = p->cur;
    if (at_token(p, "(")) {
        FX_TRY(enter_nest(p));
        FX_TRY(next_token(p));
        FX_TRY(parse_commas(p, parse_assignable, false, out));
        p->depth--;
        return expect_token(p, ")");
    }
    if (t.kind != FXI_JTOK_NAME) return fail_expected(p, "a name to assign to");
    FX_TRY(parse_word(p, out));
    if ((*out)->kind != FXI_JNODE_NAME)
        return REFUSE(p, t.line, "cannot assign to '%.*s'", (int)t.n, t.p);
    if (!at_token(p, ".")) return note_bound(p, (*out)->name);
    FX_TRY(parse_dot(p, out));
    p->to_attribute = true;
    return (*out)->kind == FXI_JNODE_GETATTR ? FX_OK
                                             : REFUSE(p, t.line, "cannot assign to an item");
}

static fx_status parse_target(template_parser *p, bool attributes, fxi_jnode **out)
{
    p->to_attribute = false;
    FX_TRY(parse_commas(p, parse_assignable, false, out));
    if (attributes || !p->to_attribute) return FX_OK;
    return REFUSE(p, (*out)->line, "cannot assign to an attribute here");
}

// ---- bodies -------------------------------------------------------------------------------------

static fx_status parse_statement(template_parser *p, fxi_jnode **out);

static fx_status parse_data(template_parser *p, fxi_jnode **out)
{
    fxi_jstr *str = fxi_jmem_take(&p->t->mem, sizeof *str + p->cur.n);
    if (!str) return fxi_fail_memory(p->err);
    *str = (fxi_jstr){.p = p->cur.p, .own = (char *)(str + 1), .n = p->cur.n};
    memset(str + 1, 1, str->n);
    FX_TRY(start_node(p, FXI_JNODE_DATA, NULL, out));
    (*out)->value = fxi_jval_str(str);
    return FX_OK;
}

static bool ends_body(const template_parser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (token_is(&p->ahead, *ends)) return true;
    return false;
}

// Statements up to a tag whose word is one of `ends` (NULL: up to the template's end). Leaves `cur`
// at that word.
static fx_status parse_body(template_parser *p, const char *const *ends, fxi_jnode **out)
{
    const int line = p->tag_line;
    FX_TRY(enter_nest(p));
    for (fxi_jnode **tail = out; p->cur.kind != FXI_JTOK_END; tail = &(*tail)->next) {
        if (p->cur.kind == FXI_JTOK_DATA) {
            FX_TRY(parse_data(p, tail));
        } else if (p->cur.kind == FXI_JTOK_VAR_BEGIN) {
            FX_TRY(start_node(p, FXI_JNODE_OUTPUT, NULL, tail));
            FX_TRY(parse_commas(p, parse_expr, false, &(*tail)->a));
            if (p->cur.kind != FXI_JTOK_VAR_END) return fail_expected(p, "'}}'");
            FX_TRY(next_token(p));
        } else if (ends_body(p, ends)) {
            p->depth--;
            return next_token(p);
        } else {
            FX_TRY(next_token(p));
            FX_TRY(parse_statement(p, tail));
        }
    }
    p->depth--;
    return ends ? REFUSE(p, line, "a block has no '%s'", ends[0]) : FX_OK;
}

static fx_status end_tag(template_parser *p)
{
    if (p->cur.kind != FXI_JTOK_BLOCK_END) return fail_expected(p, "'%}'");
    p->tag_line = p->cur.line;
    return next_token(p);
}

// The rest of an opening tag, the body, and the closing tag up to its '%}'.
static fx_status parse_block(template_parser *p, const char *end, fxi_jnode **body)
{
    const char *const ends[] = {end, NULL};
    FX_TRY(end_tag(p));
    FX_TRY(parse_body(p, ends, body));
    return next_token(p);
}

// ---- the tags: `cur` is the token after the tag's word ------------------------------------------

// x.content, x['content'], content, with any filters or slices.
static bool is_content(const fxi_jnode *n)
{
    while (n->kind == FXI_JNODE_FILTER || n->kind == FXI_JNODE_GETSLICE) n = n->a;
    if (n->kind == FXI_JNODE_NAME || n->kind == FXI_JNODE_GETATTR)
        return fxi_jstr_is(n->name, "content");
    return n->kind == FXI_JNODE_GETITEM && n->b->kind == FXI_JNODE_CONST &&
           n->b->value.type == FXI_JVAL_STR && fxi_jstr_is(n->b->value.s, "content");
}

static fx_status parse_for(template_parser *p, fxi_jnode *n)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    FX_TRY(parse_target(p, false, &n->a));
    FX_TRY(expect_token(p, "in"));
    FX_TRY(parse_commas(p, parse_without_if, false, &n->b));
    p->t->reads_parts |= is_content(n->b);
    if (at_token(p, "if")) {
        FX_TRY(next_token(p));
        FX_TRY(parse_expr(p, &n->c));
    }
    if (at_token(p, "recursive")) return REFUSE(p, n->line, "recursive loops are not supported");
    FX_TRY(end_tag(p));
    p->n_loop++;
    FX_TRY(parse_body(p, ends, &n->d));
    p->n_loop--;
    bool has_else = at_token(p, "else");
    FX_TRY(next_token(p));
    return has_else ? parse_block(p, "endfor", &n->e) : FX_OK;
}

// {% elif %} is an {% if %} inside {% else %}; both end at the same {% endif %}.
static fx_status parse_if(template_parser *p, fxi_jnode *n)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    for (;;) {
        FX_TRY(parse_commas(p, parse_without_if, false, &n->a));
        FX_TRY(end_tag(p));
        FX_TRY(parse_body(p, ends, &n->d));
        bool again = at_token(p, "elif"), otherwise = at_token(p, "else");
        FX_TRY(next_token(p));
        if (otherwise) return parse_block(p, "endif", &n->e);
        if (!again) return FX_OK;
        FX_TRY(add_node(p, FXI_JNODE_IF, NULL, &n->e));
        n = n->e;
    }
}

static fx_status parse_set(template_parser *p, fxi_jnode *n)
{
    FX_TRY(parse_target(p, true, &n->a));
    if (at_token(p, "=")) {
        FX_TRY(next_token(p));
        return parse_commas(p, parse_expr, false, &n->b);
    }
    n->kind = FXI_JNODE_SET_BLOCK;
    FX_TRY(add_node(p, FXI_JNODE_CAPTURED, NULL, &n->b));
    FX_TRY(parse_filters(p, false, &n->b));
    return parse_block(p, "endset", &n->d);
}

static fx_status parse_params(template_parser *p, fxi_jnode **tail)
{
    bool preset = false;
    FX_TRY(expect_token(p, "("));
    for (; !at_token(p, ")"); tail = &(*tail)->next) {
        FX_TRY(add_node(p, FXI_JNODE_KEYWORD, NULL, tail));
        FX_TRY(parse_name(p, &(*tail)->name));
        FX_TRY(note_bound(p, (*tail)->name));
        if (at_token(p, "=")) {
            FX_TRY(next_token(p));
            FX_TRY(parse_expr(p, &(*tail)->a));
            preset = true;
        } else if (preset) {
            return REFUSE(p, p->cur.line,
                          "a parameter without a default follows one with a default");
        }
        FX_TRY(expect_comma(p, ")"));
    }
    return next_token(p);
}

// Parameters, and a body in which names have a macro's meaning.
static fx_status parse_macro_rest(template_parser *p, fxi_jnode *n, bool has_params,
                                  const char *end)
{
    const fxi_jsees sees = p->sees;
    const int n_loop = p->n_loop;
    p->sees = (fxi_jsees){0};
    p->n_loop = 0;
    if (has_params) FX_TRY(parse_params(p, &n->a));
    FX_TRY(parse_block(p, end, &n->d));
    n->sees = p->sees;
    p->sees = sees;
    p->n_loop = n_loop;
    return FX_OK;
}

static fx_status parse_macro(template_parser *p, fxi_jnode *n)
{
    FX_TRY(parse_name(p, &n->name));
    FX_TRY(note_bound(p, n->name));
    return parse_macro_rest(p, n, true, "endmacro");
}

// {% call(x) f(y) %}..{% endcall %}: the parameters come before what is called.
static fx_status parse_call_block(template_parser *p, fxi_jnode *n)
{
    FX_TRY(add_node(p, FXI_JNODE_MACRO_DEF, NULL, &n->b));
    n->b->line = n->line;
    if (at_token(p, "(")) FX_TRY(parse_params(p, &n->b->a));
    FX_TRY(parse_expr(p, &n->a));
    if (n->a->kind != FXI_JNODE_CALL) return REFUSE(p, n->line, "expected a call");
    FX_TRY(parse_macro_rest(p, n->b, false, "endcall"));
    return intern_name(p, &p->t->names, "caller", 6, &n->b->name);
}

static fx_status parse_filter_block(template_parser *p, fxi_jnode *n)
{
    FX_TRY(add_node(p, FXI_JNODE_CAPTURED, NULL, &n->b));
    FX_TRY(parse_filters(p, true, &n->b));
    return parse_block(p, "endfilter", &n->d);
}

static fx_status parse_with(template_parser *p, fxi_jnode *n)
{
    for (fxi_jnode **a = &n->a, **b = &n->b; p->cur.kind != FXI_JTOK_BLOCK_END;
         a = &(*a)->next, b = &(*b)->next) {
        if (n->a) FX_TRY(expect_token(p, ","));
        FX_TRY(parse_target(p, false, a));
        FX_TRY(expect_token(p, "="));
        FX_TRY(parse_expr(p, b));
    }
    return parse_block(p, "endwith", &n->d);
}

static fx_status parse_generation(template_parser *p, fxi_jnode *n)
{
    return parse_block(p, "endgeneration", &n->d);
}

static fx_status parse_jump(template_parser *p, fxi_jnode *n)
{
    return p->n_loop ? FX_OK
                     : REFUSE(p, n->line, "'%s' outside of a loop",
                              n->kind == FXI_JNODE_DO_BREAK ? "break" : "continue");
}

static const struct {
    const char *word;
    fxi_jkind kind;
    fx_status (*parse)(template_parser *p, fxi_jnode *n); // n: a new node of this kind
} tags[] = {
    {"for", FXI_JNODE_FOR, parse_for},
    {"if", FXI_JNODE_IF, parse_if},
    {"set", FXI_JNODE_SET, parse_set},
    {"macro", FXI_JNODE_MACRO_DEF, parse_macro},
    {"call", FXI_JNODE_CALL_BLOCK, parse_call_block},
    {"filter", FXI_JNODE_FILTER_BLOCK, parse_filter_block},
    {"with", FXI_JNODE_WITH, parse_with},
    {"generation", FXI_JNODE_SCOPE, parse_generation},
    {"break", FXI_JNODE_DO_BREAK, parse_jump},
    {"continue", FXI_JNODE_DO_CONTINUE, parse_jump},
};

static fx_status parse_statement(template_parser *p, fxi_jnode **out)
{
    if (p->cur.kind != FXI_JTOK_NAME) return fail_expected(p, "a tag's name");
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!at_token(p, tags[i].word)) continue;
        FX_TRY(start_node(p, tags[i].kind, NULL, out));
        FX_TRY(tags[i].parse(p, *out));
        return end_tag(p);
    }
    return REFUSE(p, p->cur.line, "the tag '%.*s' is not supported here", FXI_JINJA_HEAD(&p->cur));
}

// A plain name that is called must be a function of the library or bound by the template itself:
// nothing that a caller gives can be called.
fx_status fxi_jinja_parse(fxi_jinja *t, const char *text, size_t n_bytes, fx_error *err)
{
    template_parser p = {.t = t, .err = err};
    p.lex = (fxi_jlex){.s = text, .n = n_bytes, .line = 1, .line_starts = true, .err = err};
    FX_TRY(next_token(&p));
    FX_TRY(next_token(&p));
    FX_TRY(parse_body(&p, NULL, &t->body));
    for (const fxi_jnode *n = p.called; n; n = n->e) {
        const fxi_jstr *name = n->a->name;
        if (!fxi_jroutine_find(t->lib->functions, name->p, name->n) &&
            !fxi_jnames_find(&p.bound, name->p, name->n) && !fxi_jstr_is(name, "caller"))
            return REFUSE(&p, n->line, "the function '%.*s' is not supported",
                          FXI_JINJA_HEAD(name));
    }
    return FX_OK;
}
