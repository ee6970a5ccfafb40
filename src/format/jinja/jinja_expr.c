// jinja_expr.c - expressions: tokens to the tree, by precedence.
//
//     x if y else z   or   and   not   == in < ..   + -   ~   * / // %   **   -x   x.y x[y] x(y)
//     x|filter, x is test: bind like the unary minus, applied after it
//
// All binary operators go from left to right, ** too; comparisons chain.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/jinja/jinja_parse.h"

// ---- tokens, nodes, names, nesting: for statements too ------------------------------------------

fx_status fxi_jparse_next(fxi_jparse *p)
{
    p->cur = p->ahead;
    return fxi_jlex_next(&p->lex, &p->ahead);
}

bool fxi_jparse_at_op(const fxi_jparse *p, int op)
{
    return p->cur.kind == FXI_JTOK_OP && p->cur.op == op;
}

bool fxi_jtoken_is_name(const fxi_jtoken *t, const char *name)
{
    return t->kind == FXI_JTOK_NAME && t->n == strlen(name) && !memcmp(t->p, name, t->n);
}

bool fxi_jparse_at_name(const fxi_jparse *p, const char *name)
{
    return fxi_jtoken_is_name(&p->cur, name);
}

fx_status fxi_jparse_wrong(fxi_jparse *p, const char *expected)
{
    static const char *const words[] = {[FXI_JTOK_END] = "the end",
                                        [FXI_JTOK_DATA] = "text",
                                        [FXI_JTOK_VAR_END] = "'}}'",
                                        [FXI_JTOK_BLOCK_END] = "'%}'"};
    const fxi_jtoken *t = &p->cur;
    if (t->kind <= FXI_JTOK_BLOCK_END && words[t->kind])
        return fxi_jlex_refuse(p->err, t->line, "expected %s, got %s", expected, words[t->kind]);
    return fxi_jlex_refuse(p->err, t->line, "expected %s, got '%.*s'", expected,
                           t->n < 40 ? (int)t->n : 40, t->p);
}

fx_status fxi_jparse_expect_op(fxi_jparse *p, int op)
{
    char what[] = {'\'', (char)op, '\'', 0};
    return fxi_jparse_at_op(p, op) ? fxi_jparse_next(p) : fxi_jparse_wrong(p, what);
}

fx_status fxi_jparse_expect_name(fxi_jparse *p, const char *name)
{
    char what[32];
    snprintf(what, sizeof what, "'%s'", name);
    return fxi_jparse_at_name(p, name) ? fxi_jparse_next(p) : fxi_jparse_wrong(p, what);
}

fx_status fxi_jparse_no_memory(fxi_jparse *p)
{
    return fxi_fail(p->err, FX_ENOMEM, "no memory for the chat template");
}

fx_status fxi_jparse_node(fxi_jparse *p, fxi_jkind kind, int line, fxi_jnode **out)
{
    fxi_jnode *n = fxi_jmem_take(p->mem, sizeof *n);
    if (!n) return fxi_jparse_no_memory(p);
    *n = (fxi_jnode){.kind = (uint8_t)kind, .line = line};
    *out = n;
    return FX_OK;
}

fx_status fxi_jparse_intern(fxi_jparse *p, fxi_jnames **names, const char *s, size_t n,
                            const fxi_jstr **out)
{
    *out = fxi_jnames_add(p->mem, names, s, n);
    if (*out) return FX_OK;
    if (!fxi_jnames_is_full(*names)) return fxi_jparse_no_memory(p);
    return fxi_jlex_refuse(p->err, p->cur.line, "more than %d names", FXI_JNAMES_MAX);
}

fx_status fxi_jparse_name(fxi_jparse *p, const fxi_jstr **out)
{
    if (p->cur.kind != FXI_JTOK_NAME) return fxi_jparse_wrong(p, "a name");
    FX_TRY(fxi_jparse_intern(p, p->names, p->cur.p, p->cur.n, out));
    return fxi_jparse_next(p);
}

fx_status fxi_jparse_binds(fxi_jparse *p, const fxi_jstr *name)
{
    const fxi_jstr *same;
    return fxi_jparse_intern(p, &p->bound, name->p, name->n, &same);
}

fx_status fxi_jparse_enter(fxi_jparse *p)
{
    if (p->depth == FXI_JLEX_MAX_NEST)
        return fxi_jlex_refuse(p->err, p->cur.line, "nests deeper than %d", FXI_JLEX_MAX_NEST);
    p->depth++;
    return FX_OK;
}

typedef enum level { OR = 1, AND, NOT, COMPARE, SUM, TILDE, PRODUCT, POWER } level;

static fx_status parse_level(fxi_jparse *p, level least, fxi_jnode **out);
static fx_status parse_unary(fxi_jparse *p, bool with_filter, fxi_jnode **out);

// ---- literals -----------------------------------------------------------------------------------

static fx_status add_constant(fxi_jparse *p, int line, fxi_jval v, fxi_jnode **out)
{
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_CONST, line, out));
    (*out)->value = v;
    return FX_OK;
}

// The number that up to `most` digits of this base spell. Returns how many digits there were.
static size_t escape_digits(const char *s, size_t n, size_t most, int base, uint32_t *out)
{
    size_t i = 0;
    for (*out = 0; i < n && i < most; i++) {
        const char *all = "0123456789abcdef", *d = strchr(all, s[i] | (s[i] > '9' ? 0x20 : 0));
        if (!s[i] || !d || d - all >= base) break;
        *out = *out * (uint32_t)base + (uint32_t)(d - all);
    }
    return i;
}

// An escape with a number: \xhh, \uhhhh, \Uhhhhhhhh, \ooo. Returns the bytes read, 0: not one.
static size_t numbered_escape(const char *s, size_t n, uint32_t *c)
{
    static const struct {
        char letter;
        size_t digits;
    } hex[] = {{'x', 2}, {'u', 4}, {'U', 8}};
    if (*s >= '0' && *s <= '7') return escape_digits(s, n, 3, 8, c);
    for (size_t i = 0; i < 3; i++) {
        if (*s != hex[i].letter) continue;
        bool whole = escape_digits(s + 1, n - 1, hex[i].digits, 16, c) == hex[i].digits;
        return whole && *c <= 0x10FFFF && (*c & ~0x7FFu) != 0xD800 ? 1 + hex[i].digits : 0;
    }
    return 0;
}

// The escape after a backslash, as in Python. *n_read: its bytes, 0 if it names no character.
static size_t unescape_char(const char *s, size_t n, char *dst, size_t *n_read)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *plain = *s ? strchr(from, *s) : NULL;
    uint32_t c;
    *n_read = 1;
    if (plain) return *dst = to[plain - from], 1;
    if (*s == '\n') return 0;
    if (strchr("01234567xuU", *s)) {
        *n_read = numbered_escape(s, n, &c);
        return *n_read ? fxi_utf8_put(dst, c) : 0;
    }
    if (*s == 'N') *n_read = 0;
    dst[0] = '\\'; // as in Python, an unknown escape keeps its backslash
    dst[1] = *s;
    return 2;
}

static fx_status add_literal(fxi_jparse *p, char *dst, size_t *n)
{
    const char *s = p->cur.p + 1, *end = p->cur.p + p->cur.n - 1;
    while (s < end) {
        size_t n_read;
        if (*s != '\\') {
            dst[(*n)++] = *s++;
            continue;
        }
        *n += unescape_char(s + 1, (size_t)(end - s - 1), dst + *n, &n_read);
        if (!n_read) return fxi_jlex_refuse(p->err, p->cur.line, "invalid escape sequence");
        s += 1 + n_read;
    }
    return fxi_jparse_next(p);
}

// Adjacent strings, 'a' "b", are one.
static fx_status parse_string(fxi_jparse *p, fxi_jnode **out)
{
    const int line = p->cur.line;
    fxi_jstr whole = {.p = "", .own = "", .n = 0};
    while (p->cur.kind == FXI_JTOK_STR) {
        size_t n = whole.n;
        char *s = fxi_jmem_take(p->mem, 2 * (n + p->cur.n));
        if (!s) return fxi_jparse_no_memory(p);
        memcpy(s, whole.p, n);
        FX_TRY(add_literal(p, s, &n));
        memset(s + n, 1, n);
        whole = (fxi_jstr){.p = s, .own = s + n, .n = n};
    }
    fxi_jstr *str = fxi_jmem_take(p->mem, sizeof *str);
    if (!str) return fxi_jparse_no_memory(p);
    *str = whole;
    return add_constant(p, line, (fxi_jval){.type = FXI_JVAL_STR, .s = str}, out);
}

static fx_status parse_number(fxi_jparse *p, fxi_jnode **out)
{
    char text[64];
    // A number's text without its '_'.
    size_t n = 0;
    for (size_t i = 0; i < p->cur.n; i++) {
        if (p->cur.p[i] == '_') continue;
        if (n == 63) return fxi_jlex_refuse(p->err, p->cur.line, "a number is too long");
        text[n++] = p->cur.p[i];
    }
    text[n] = 0;
    errno = 0;
    fxi_jval v = p->cur.kind == FXI_JTOK_INT ? fxi_jval_int(strtoll(text, NULL, 10))
                                             : fxi_jval_float(strtod(text, NULL));
    if (errno == ERANGE && v.type == FXI_JVAL_INT)
        return fxi_jlex_refuse(p->err, p->cur.line, "the number %s is too large", text);
    FX_TRY(add_constant(p, p->cur.line, v, out));
    return fxi_jparse_next(p);
}

// ---- brackets -----------------------------------------------------------------------------------

static fx_status parse_list(fxi_jparse *p, fxi_jnode **out)
{
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_MAKE_LIST, p->cur.line, out));
    FX_TRY(fxi_jparse_next(p));
    for (fxi_jnode **tail = &(*out)->a; !fxi_jparse_at_op(p, ']'); tail = &(*tail)->next) {
        FX_TRY(fxi_jparse_expr(p, tail));
        if (!fxi_jparse_at_op(p, ']')) FX_TRY(fxi_jparse_expect_op(p, ','));
    }
    return fxi_jparse_next(p);
}

static fx_status parse_dict(fxi_jparse *p, fxi_jnode **out)
{
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_MAKE_DICT, p->cur.line, out));
    FX_TRY(fxi_jparse_next(p));
    for (fxi_jnode **k = &(*out)->a, **v = &(*out)->b; !fxi_jparse_at_op(p, '}');
         k = &(*k)->next, v = &(*v)->next) {
        FX_TRY(fxi_jparse_expr(p, k));
        FX_TRY(fxi_jparse_expect_op(p, ':'));
        FX_TRY(fxi_jparse_expr(p, v));
        if (!fxi_jparse_at_op(p, '}')) FX_TRY(fxi_jparse_expect_op(p, ','));
    }
    return fxi_jparse_next(p);
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

static void note_special(fxi_jparse *p, const fxi_jstr *name)
{
    p->sees_varargs |= fxi_jstr_is(name, "varargs");
    p->sees_kwargs |= fxi_jstr_is(name, "kwargs");
    p->sees_caller |= fxi_jstr_is(name, "caller");
}

static fx_status parse_word(fxi_jparse *p, fxi_jnode **out)
{
    const int line = p->cur.line;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!fxi_jparse_at_name(p, words[i].name)) continue;
        FX_TRY(add_constant(p, line, words[i].value, out));
        return fxi_jparse_next(p);
    }
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_NAME, line, out));
    FX_TRY(fxi_jparse_name(p, &(*out)->name));
    note_special(p, (*out)->name);
    return FX_OK;
}

static fx_status parse_primary(fxi_jparse *p, fxi_jnode **out)
{
    switch (p->cur.kind) {
    case FXI_JTOK_NAME: return parse_word(p, out);
    case FXI_JTOK_STR: return parse_string(p, out);
    case FXI_JTOK_INT:
    case FXI_JTOK_FLOAT: return parse_number(p, out);
    default: break;
    }
    if (fxi_jparse_at_op(p, '(')) {
        FX_TRY(fxi_jparse_next(p));
        FX_TRY(fxi_jparse_tuple(p, false, true, out));
        return fxi_jparse_expect_op(p, ')');
    }
    if (fxi_jparse_at_op(p, '[')) return parse_list(p, out);
    if (fxi_jparse_at_op(p, '{')) return parse_dict(p, out);
    return fxi_jparse_wrong(p, "an expression");
}

// ---- what follows a primary ---------------------------------------------------------------------

static fx_status parse_argument(fxi_jparse *p, fxi_jnode ***args, fxi_jnode ***kw)
{
    if (fxi_jparse_at_op(p, '*') || fxi_jparse_at_op(p, FXI_JLEX_OP2('*', '*')))
        return fxi_jlex_refuse(p->err, p->cur.line, "'*' in front of an argument is not supported");
    bool named = p->cur.kind == FXI_JTOK_NAME && p->ahead.kind == FXI_JTOK_OP && p->ahead.op == '=';
    fxi_jnode ***tail = named ? kw : args;
    if (!named) {
        FX_TRY(fxi_jparse_expr(p, *tail));
    } else {
        FX_TRY(fxi_jparse_node(p, FXI_JNODE_KEYWORD, p->cur.line, *tail));
        FX_TRY(fxi_jparse_name(p, &(**tail)->name));
        FX_TRY(fxi_jparse_next(p));
        FX_TRY(fxi_jparse_expr(p, &(**tail)->a));
    }
    *tail = &(**tail)->next;
    return FX_OK;
}

// (x, y, name=z) into n->b and n->c
static fx_status parse_arguments(fxi_jparse *p, fxi_jnode *n)
{
    fxi_jnode **args = &n->b, **kw = &n->c;
    FX_TRY(fxi_jparse_expect_op(p, '('));
    while (!fxi_jparse_at_op(p, ')')) {
        fxi_jnode **before = args;
        FX_TRY(parse_argument(p, &args, &kw));
        if (args != before && n->c)
            return fxi_jlex_refuse(p->err, n->line,
                                   "a positional argument follows a keyword argument");
        if (!fxi_jparse_at_op(p, ')')) FX_TRY(fxi_jparse_expect_op(p, ','));
    }
    return fxi_jparse_next(p);
}

static fx_status parse_call(fxi_jparse *p, fxi_jnode *callee, fxi_jnode **out)
{
    fxi_jnode *n;
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_CALL, p->cur.line, &n));
    n->a = callee;
    FX_TRY(parse_arguments(p, n));
    if (callee->kind == FXI_JNODE_NAME) {
        if (fxi_jstr_is(callee->name, "loop"))
            return fxi_jlex_refuse(p->err, n->line, "recursive loops are not supported");
        n->e = p->called;
        p->called = n;
    }
    *out = n;
    return FX_OK;
}

static fx_status parse_dot(fxi_jparse *p, fxi_jnode *object, fxi_jnode **out)
{
    fxi_jnode *n;
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_GETATTR, p->cur.line, &n));
    FX_TRY(fxi_jparse_next(p));
    n->a = object;
    *out = n;
    if (p->cur.kind != FXI_JTOK_INT) return fxi_jparse_name(p, &n->name);
    n->kind = FXI_JNODE_GETITEM;
    return parse_number(p, &n->b);
}

// An optional bound of a slice; leaves cur at the ':' or ']' after it.
static fx_status parse_bound(fxi_jparse *p, fxi_jnode **out)
{
    if (fxi_jparse_at_op(p, ':') || fxi_jparse_at_op(p, ']')) return FX_OK;
    return fxi_jparse_expr(p, out);
}

static fx_status parse_subscript(fxi_jparse *p, fxi_jnode *object, fxi_jnode **out)
{
    fxi_jnode *n;
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_GETITEM, p->cur.line, &n));
    FX_TRY(fxi_jparse_next(p));
    n->a = object;
    *out = n;
    FX_TRY(parse_bound(p, &n->b));
    fxi_jnode **const bounds[] = {&n->c, &n->d};
    for (int i = 0; i < 2 && fxi_jparse_at_op(p, ':'); i++) {
        n->kind = FXI_JNODE_GETSLICE;
        FX_TRY(fxi_jparse_next(p));
        FX_TRY(parse_bound(p, bounds[i]));
    }
    if (n->kind == FXI_JNODE_GETITEM && !n->b) return fxi_jparse_wrong(p, "an expression");
    return fxi_jparse_expect_op(p, ']');
}

static fx_status parse_postfix(fxi_jparse *p, fxi_jnode **n)
{
    for (;;) {
        if (fxi_jparse_at_op(p, '.'))
            FX_TRY(parse_dot(p, *n, n));
        else if (fxi_jparse_at_op(p, '['))
            FX_TRY(parse_subscript(p, *n, n));
        else if (fxi_jparse_at_op(p, '('))
            FX_TRY(parse_call(p, *n, n));
        else
            return FX_OK;
    }
}

// ---- filters and tests --------------------------------------------------------------------------

typedef struct routine_kind {
    fxi_jkind node;
    const char *what, *name; // for errors
} routine_kind;

static const routine_kind filter_kind = {FXI_JNODE_FILTER, "filter", "a filter's name"};
static const routine_kind test_kind = {FXI_JNODE_TEST, "test", "a test's name"};

// The name of a filter or test, to a node without arguments.
static fx_status parse_routine(fxi_jparse *p, const routine_kind *k, fxi_jnode *input,
                               fxi_jnode **out)
{
    const fxi_jtoken t = p->cur;
    if (t.kind != FXI_JTOK_NAME) return fxi_jparse_wrong(p, k->name);
    const fxi_jroutine *row = k == &filter_kind ? fxi_jfilter_find(p->lib, t.p, t.n)
                                                : fxi_jroutine_find(p->lib->tests, t.p, t.n);
    if (!row)
        return fxi_jlex_refuse(p->err, t.line, "the %s '%.*s' is not supported", k->what,
                               t.n < 40 ? (int)t.n : 40, t.p);
    FX_TRY(fxi_jparse_node(p, k->node, t.line, out));
    (*out)->row = row;
    (*out)->a = input;
    return fxi_jparse_next(p);
}

static fx_status parse_filter(fxi_jparse *p, fxi_jnode *input, fxi_jnode **out)
{
    FX_TRY(parse_routine(p, &filter_kind, input, out));
    return fxi_jparse_at_op(p, '(') ? parse_arguments(p, *out) : FX_OK;
}

fx_status fxi_jparse_filters(fxi_jparse *p, fxi_jnode *input, fxi_jnode **out)
{
    FX_TRY(parse_filter(p, input, out));
    while (fxi_jparse_at_op(p, '|')) {
        FX_TRY(fxi_jparse_next(p));
        FX_TRY(parse_filter(p, *out, out));
    }
    return FX_OK;
}

// Whether a test's one argument follows without brackets: "x is eq 3".
static bool at_bare_argument(const fxi_jparse *p)
{
    static const char *const stop[] = {"else", "or", "and"};
    if (p->cur.kind != FXI_JTOK_NAME)
        return p->cur.kind == FXI_JTOK_STR || p->cur.kind == FXI_JTOK_INT ||
               p->cur.kind == FXI_JTOK_FLOAT || fxi_jparse_at_op(p, '[') ||
               fxi_jparse_at_op(p, '{');
    for (size_t i = 0; i < sizeof stop / sizeof *stop; i++)
        if (fxi_jparse_at_name(p, stop[i])) return false;
    return true;
}

static fx_status parse_test_arguments(fxi_jparse *p, fxi_jnode *n)
{
    if (fxi_jparse_at_op(p, '(')) return parse_arguments(p, n);
    if (!at_bare_argument(p)) return FX_OK;
    if (fxi_jparse_at_name(p, "is"))
        return fxi_jlex_refuse(p->err, n->line, "tests cannot be chained with 'is'");
    FX_TRY(parse_primary(p, &n->b));
    return parse_postfix(p, &n->b);
}

static fx_status parse_test(fxi_jparse *p, fxi_jnode *subject, fxi_jnode **out)
{
    fxi_jnode *n = NULL;
    FX_TRY(fxi_jparse_next(p));
    const bool negated = fxi_jparse_at_name(p, "not");
    if (negated) FX_TRY(fxi_jparse_next(p));
    FX_TRY(parse_routine(p, &test_kind, subject, &n));
    *out = n;
    FX_TRY(parse_test_arguments(p, n));
    if (!negated) return FX_OK;
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_NOT, n->line, out));
    (*out)->a = n;
    return FX_OK;
}

static fx_status parse_filters_and_tests(fxi_jparse *p, fxi_jnode **n)
{
    for (;;) {
        if (fxi_jparse_at_op(p, '|')) {
            FX_TRY(fxi_jparse_next(p));
            FX_TRY(parse_filter(p, *n, n));
        } else if (fxi_jparse_at_name(p, "is")) {
            FX_TRY(parse_test(p, *n, n));
        } else if (fxi_jparse_at_op(p, '(')) {
            FX_TRY(parse_call(p, *n, n));
        } else {
            return FX_OK;
        }
    }
}

// ---- operators ----------------------------------------------------------------------------------

static fx_status parse_sign(fxi_jparse *p, fxi_jkind kind, fxi_jnode **out)
{
    fxi_jnode *n;
    FX_TRY(fxi_jparse_enter(p));
    FX_TRY(fxi_jparse_node(p, kind, p->cur.line, &n));
    FX_TRY(fxi_jparse_next(p));
    FX_TRY(parse_unary(p, false, &n->a));
    p->depth--;
    *out = n;
    return FX_OK;
}

static fx_status parse_unary(fxi_jparse *p, bool with_filter, fxi_jnode **out)
{
    if (fxi_jparse_at_op(p, '-'))
        FX_TRY(parse_sign(p, FXI_JNODE_NEG, out));
    else if (fxi_jparse_at_op(p, '+'))
        FX_TRY(parse_sign(p, FXI_JNODE_POS, out));
    else
        FX_TRY(parse_primary(p, out));
    FX_TRY(parse_postfix(p, out));
    return with_filter ? parse_filters_and_tests(p, out) : FX_OK;
}

static const struct binary {
    const char *word; // an operator that is a name, otherwise NULL
    int op;           // any other operator
    level level;
    fxi_jkind kind;
    fxi_jop meaning;
} binaries[] = {
    {"or", 0, OR, FXI_JNODE_OR, 0},
    {"and", 0, AND, FXI_JNODE_AND, 0},
    {"in", 0, COMPARE, FXI_JNODE_COMPARE, FXI_JOP_IN},
    {NULL, FXI_JLEX_OP2('=', '='), COMPARE, FXI_JNODE_COMPARE, FXI_JOP_EQ},
    {NULL, FXI_JLEX_OP2('!', '='), COMPARE, FXI_JNODE_COMPARE, FXI_JOP_NE},
    {NULL, '<', COMPARE, FXI_JNODE_COMPARE, FXI_JOP_LT},
    {NULL, FXI_JLEX_OP2('<', '='), COMPARE, FXI_JNODE_COMPARE, FXI_JOP_LE},
    {NULL, '>', COMPARE, FXI_JNODE_COMPARE, FXI_JOP_GT},
    {NULL, FXI_JLEX_OP2('>', '='), COMPARE, FXI_JNODE_COMPARE, FXI_JOP_GE},
    {NULL, '+', SUM, FXI_JNODE_BINARY, FXI_JOP_ADD},
    {NULL, '-', SUM, FXI_JNODE_BINARY, FXI_JOP_SUB},
    {NULL, '~', TILDE, FXI_JNODE_BINARY, FXI_JOP_CONCAT},
    {NULL, '*', PRODUCT, FXI_JNODE_BINARY, FXI_JOP_MUL},
    {NULL, '/', PRODUCT, FXI_JNODE_BINARY, FXI_JOP_DIV},
    {NULL, FXI_JLEX_OP2('/', '/'), PRODUCT, FXI_JNODE_BINARY, FXI_JOP_FLOORDIV},
    {NULL, '%', PRODUCT, FXI_JNODE_BINARY, FXI_JOP_MOD},
    {NULL, FXI_JLEX_OP2('*', '*'), POWER, FXI_JNODE_BINARY, FXI_JOP_POW},
};

static const struct binary not_in = {"not", 0, COMPARE, FXI_JNODE_COMPARE, FXI_JOP_NOT_IN};

// The operator at cur; NULL: cur is not an operator.
static const struct binary *binary_here(const fxi_jparse *p)
{
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++) {
        const struct binary *b = &binaries[i];
        if (b->word ? fxi_jparse_at_name(p, b->word) : fxi_jparse_at_op(p, b->op)) return b;
    }
    bool in_follows =
        p->ahead.kind == FXI_JTOK_NAME && p->ahead.n == 2 && !memcmp(p->ahead.p, "in", 2);
    return fxi_jparse_at_name(p, "not") && in_follows ? &not_in : NULL;
}

// a < b <= c: one node with a list of operators and right sides.
static fx_status parse_comparisons(fxi_jparse *p, fxi_jnode *first, fxi_jnode **out)
{
    fxi_jnode *n;
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_COMPARE, p->cur.line, &n));
    n->a = first;
    fxi_jnode **tail = &n->b;
    for (const struct binary *b; (b = binary_here(p)) && b->level == COMPARE;
         tail = &(*tail)->next) {
        FX_TRY(fxi_jparse_node(p, FXI_JNODE_BINARY, p->cur.line, tail));
        (*tail)->op = (uint8_t)b->meaning;
        FX_TRY(fxi_jparse_next(p));
        if (b == &not_in) FX_TRY(fxi_jparse_next(p));
        FX_TRY(parse_level(p, COMPARE + 1, &(*tail)->b));
    }
    *out = n;
    return FX_OK;
}

static fx_status parse_binary(fxi_jparse *p, const struct binary *b, fxi_jnode **left)
{
    fxi_jnode *n;
    if (b->level == COMPARE) return parse_comparisons(p, *left, left);
    FX_TRY(fxi_jparse_node(p, b->kind, p->cur.line, &n));
    n->op = (uint8_t)b->meaning;
    n->a = *left;
    FX_TRY(fxi_jparse_next(p));
    FX_TRY(parse_level(p, b->level + 1, &n->b));
    *left = n;
    return FX_OK;
}

// An expression whose operators bind at least as tightly as `least`.
static fx_status parse_level(fxi_jparse *p, level least, fxi_jnode **out)
{
    FX_TRY(fxi_jparse_enter(p));
    if (least <= NOT && fxi_jparse_at_name(p, "not")) {
        FX_TRY(fxi_jparse_node(p, FXI_JNODE_NOT, p->cur.line, out));
        FX_TRY(fxi_jparse_next(p));
        FX_TRY(parse_level(p, NOT, &(*out)->a));
    } else
        FX_TRY(parse_unary(p, true, out));
    for (const struct binary *b; (b = binary_here(p)) && b->level >= least;)
        FX_TRY(parse_binary(p, b, out));
    p->depth--;
    return FX_OK;
}

// x if y else z; "else z" is optional, and z may be another such expression.
fx_status fxi_jparse_expr(fxi_jparse *p, fxi_jnode **out)
{
    FX_TRY(parse_level(p, OR, out));
    while (fxi_jparse_at_name(p, "if")) {
        fxi_jnode *n;
        FX_TRY(fxi_jparse_node(p, FXI_JNODE_COND, p->cur.line, &n));
        FX_TRY(fxi_jparse_next(p));
        n->b = *out;
        FX_TRY(parse_level(p, OR, &n->a));
        if (fxi_jparse_at_name(p, "else")) {
            FX_TRY(fxi_jparse_next(p));
            FX_TRY(fxi_jparse_enter(p));
            FX_TRY(fxi_jparse_expr(p, &n->c));
            p->depth--;
        }
        *out = n;
    }
    return FX_OK;
}

// ---- tuples and targets -------------------------------------------------------------------------

static bool tuple_ends(const fxi_jparse *p)
{
    return p->cur.kind == FXI_JTOK_VAR_END || p->cur.kind == FXI_JTOK_BLOCK_END ||
           fxi_jparse_at_op(p, ')') || fxi_jparse_at_name(p, "in");
}

// Elements read by `parse`, separated by commas; a single one without a comma is itself.
static fx_status parse_commas(fxi_jparse *p, fx_status (*parse)(fxi_jparse *, fxi_jnode **),
                              bool may_be_empty, fxi_jnode **out)
{
    fxi_jnode *tuple;
    bool comma = false;
    FX_TRY(fxi_jparse_node(p, FXI_JNODE_MAKE_TUPLE, p->cur.line, &tuple));
    for (fxi_jnode **tail = &tuple->a; !tuple_ends(p); tail = &(*tail)->next) {
        FX_TRY(parse(p, tail));
        if (!fxi_jparse_at_op(p, ',')) break;
        comma = true;
        FX_TRY(fxi_jparse_next(p));
    }
    if (!tuple->a && !may_be_empty) return fxi_jparse_wrong(p, "an expression");
    *out = tuple->a && !comma ? tuple->a : tuple;
    return FX_OK;
}

static fx_status parse_without_if(fxi_jparse *p, fxi_jnode **out)
{
    return parse_level(p, OR, out);
}

fx_status fxi_jparse_tuple(fxi_jparse *p, bool no_if, bool in_brackets, fxi_jnode **out)
{
    return parse_commas(p, no_if ? parse_without_if : fxi_jparse_expr, in_brackets, out);
}

// The target of an assignment: a name, or (as FXI_JNODE_GETATTR) an attribute of one.
static fx_status parse_assignable(fxi_jparse *p, fxi_jnode **out)
{
    const fxi_jtoken t = p->cur;
    if (fxi_jparse_at_op(p, '(')) {
        FX_TRY(fxi_jparse_enter(p));
        FX_TRY(fxi_jparse_next(p));
        FX_TRY(parse_commas(p, parse_assignable, false, out));
        p->depth--;
        return fxi_jparse_expect_op(p, ')');
    }
    if (t.kind != FXI_JTOK_NAME) return fxi_jparse_wrong(p, "a name to assign to");
    FX_TRY(parse_word(p, out));
    if ((*out)->kind != FXI_JNODE_NAME)
        return fxi_jlex_refuse(p->err, t.line, "cannot assign to '%.*s'", (int)t.n, t.p);
    if (!fxi_jparse_at_op(p, '.')) return fxi_jparse_binds(p, (*out)->name);
    FX_TRY(parse_dot(p, *out, out));
    if ((*out)->kind == FXI_JNODE_GETATTR) return FX_OK;
    return fxi_jlex_refuse(p->err, t.line, "cannot assign to an item");
}

static bool has_attribute(const fxi_jnode *n)
{
    if (n->kind == FXI_JNODE_GETATTR) return true;
    if (n->kind != FXI_JNODE_MAKE_TUPLE) return false;
    for (n = n->a; n; n = n->next)
        if (has_attribute(n)) return true;
    return false;
}

fx_status fxi_jparse_target(fxi_jparse *p, bool attributes, fxi_jnode **out)
{
    FX_TRY(parse_commas(p, parse_assignable, false, out));
    if (attributes || !has_attribute(*out)) return FX_OK;
    return fxi_jlex_refuse(p->err, (*out)->line, "cannot assign to an attribute here");
}
