// jinja_tests.c - what stands behind `is`.
#include "format/chat/jinja_impl.h"

#define TEST(name) static fx_status name(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)

static fx_status say(fxi_jval *out, bool yes)
{
    *out = fxi_j_bool(yes);
    return FX_OK;
}

// ---- types --------------------------------------------------------------------------------------

// row->how: a set of types
TEST(test_type)
{
    (void)r;
    return say(out, c->row->how >> c->self.type & 1);
}

// row->how: 1 for true
TEST(test_bool)
{
    (void)r;
    return say(out, c->self.type == FXI_J_BOOL && c->self.b == (c->row->how == 1));
}

TEST(test_defined)
{
    (void)r;
    return say(out, c->self.type != FXI_J_UNDEFINED);
}

TEST(test_iterable)
{
    (void)r;
    return say(out, fxi_j_iterable(c->self));
}

// Macros, methods and functions; cyclers too would be called by their next().
TEST(test_callable)
{
    (void)r;
    uint8_t t = c->self.type;
    return say(out, t == FXI_J_MACRO || t == FXI_J_METHOD || t == FXI_J_FUNCTION ||
                        t == FXI_J_JOINER || t == FXI_J_LOOP || t == FXI_J_UNDEFINED);
}

// The same thing, where Python would say so of values that were made apart.
TEST(test_sameas)
{
    fxi_jval a = c->self, b = c->arg[0];
    if (a.type != b.type) return say(out, false);
    if (a.type > FXI_J_STR && a.type != FXI_J_VIEW) return say(out, a.seq == b.seq);
    bool same;
    FX_TRY(fxi_j_equal(r, a, b, &same));
    return say(out, same);
}

// ---- numbers ------------------------------------------------------------------------------------

static fx_status rest_by(fxi_jrun *r, const fxi_jcall *c, fxi_jval by, fxi_jval *rest)
{
    FX_TRY(fxi_j_defined(r, c->self));
    if (!fxi_j_is_number(c->self))
        return fxi_j_fail(r, "%s: wants a number, got a %s", c->row->name,
                          fxi_j_type_name(c->self));
    return fxi_j_binary(r, FXI_J_MOD, c->self, by, rest);
}

// row->how: what is left of a division by 2
TEST(test_parity)
{
    fxi_jval rest;
    bool yes;
    FX_TRY(rest_by(r, c, fxi_j_int(2), &rest));
    FX_TRY(fxi_j_equal(r, rest, fxi_j_int(c->row->how), &yes));
    return say(out, yes);
}

TEST(test_divisibleby)
{
    fxi_jval rest;
    FX_TRY(rest_by(r, c, c->arg[0], &rest));
    return say(out, !fxi_j_truth(rest));
}

// ---- text ---------------------------------------------------------------------------------------

// row->how: 'l' or 'u'. There must be a character with case, and none in another one.
TEST(test_case)
{
    const fxi_jstr *s;
    size_t n;
    bool any = false;
    FX_TRY(fxi_j_to_str(r, c->self, &s));
    FX_TRY(fxi_j_work_chars(r, 4 * s->n, 0));
    for (size_t at = 0; at < s->n; at += n) {
        uint32_t ch = fxi_j_char(s, at, &n);
        bool lower = fxi_j_is_lower(ch), upper = fxi_j_is_upper(ch);
        if (fxi_j_is_title(ch) || (c->row->how == 'l' ? upper : lower)) return say(out, false);
        any |= c->row->how == 'l' ? lower : upper;
    }
    return say(out, any);
}

// ---- comparisons --------------------------------------------------------------------------------

// row->how: fxi_jop
TEST(test_compare)
{
    bool yes;
    FX_TRY(fxi_j_compares(r, (fxi_jop)c->row->how, c->self, c->arg[0], &yes));
    return say(out, yes);
}

// Whether there is a filter or test of this name. row->how: 'f' or 't'
TEST(test_exists)
{
    if (c->self.type != FXI_J_STR)
        return fxi_j_fail(r, "%s: wants a name, got a %s", c->row->name, fxi_j_type_name(c->self));
    const fxi_jstr *s = c->self.s;
    return say(out, c->row->how == 'f' ? fxi_j_find_filter(s->p, s->n) != NULL
                                       : fxi_j_find_test(s->p, s->n) != NULL);
}

// ---- the table ----------------------------------------------------------------------------------

#define BIT(type) (1 << FXI_J_##type)
#define ONE       .n_must = 1, .param = {"-"}
enum {
    NUMBERS = BIT(BOOL) | BIT(INT) | BIT(FLOAT),
    SEQUENCES = BIT(STR) | BIT(LIST) | BIT(TUPLE) | BIT(DICT) | BIT(RANGE) | BIT(UNDEFINED),
};

const fxi_jroutine fxi_j_tests[] = {
    {.name = "!=", .run = test_compare, ONE, .how = FXI_J_NE},
    {.name = "<", .run = test_compare, ONE, .how = FXI_J_LT},
    {.name = "<=", .run = test_compare, ONE, .how = FXI_J_LE},
    {.name = "==", .run = test_compare, ONE, .how = FXI_J_EQ},
    {.name = ">", .run = test_compare, ONE, .how = FXI_J_GT},
    {.name = ">=", .run = test_compare, ONE, .how = FXI_J_GE},
    {.name = "boolean", .run = test_type, .how = BIT(BOOL)},
    {.name = "callable", .run = test_callable},
    {.name = "defined", .run = test_defined},
    {.name = "divisibleby", .run = test_divisibleby, ONE},
    {.name = "eq", .run = test_compare, ONE, .how = FXI_J_EQ},
    {.name = "equalto", .run = test_compare, ONE, .how = FXI_J_EQ},
    {.name = "even", .run = test_parity, .how = 0},
    {.name = "false", .run = test_bool, .how = 0},
    {.name = "filter", .run = test_exists, .how = 'f'},
    {.name = "float", .run = test_type, .how = BIT(FLOAT)},
    {.name = "ge", .run = test_compare, ONE, .how = FXI_J_GE},
    {.name = "greaterthan", .run = test_compare, ONE, .how = FXI_J_GT},
    {.name = "gt", .run = test_compare, ONE, .how = FXI_J_GT},
    {.name = "in", .run = test_compare, ONE, .how = FXI_J_IN},
    {.name = "integer", .run = test_type, .how = BIT(INT)},
    {.name = "iterable", .run = test_iterable},
    {.name = "le", .run = test_compare, ONE, .how = FXI_J_LE},
    {.name = "lessthan", .run = test_compare, ONE, .how = FXI_J_LT},
    {.name = "lower", .run = test_case, .how = 'l'},
    {.name = "lt", .run = test_compare, ONE, .how = FXI_J_LT},
    {.name = "mapping", .run = test_type, .how = BIT(DICT)},
    {.name = "ne", .run = test_compare, ONE, .how = FXI_J_NE},
    {.name = "none", .run = test_type, .how = BIT(NONE)},
    {.name = "number", .run = test_type, .how = NUMBERS},
    {.name = "odd", .run = test_parity, .how = 1},
    {.name = "sameas", .run = test_sameas, ONE},
    {.name = "sequence", .run = test_type, .how = SEQUENCES},
    {.name = "string", .run = test_type, .how = BIT(STR)},
    {.name = "test", .run = test_exists, .how = 't'},
    {.name = "true", .run = test_bool, .how = 1},
    {.name = "undefined", .run = test_type, .how = BIT(UNDEFINED)},
    {.name = "upper", .run = test_case, .how = 'u'},
    {.name = NULL},
};

const fxi_jroutine *fxi_j_find_test(const char *name, size_t n)
{
    return fxi_jroutine_find(fxi_j_tests, name, n);
}
