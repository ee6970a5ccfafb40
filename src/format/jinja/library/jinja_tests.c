// jinja_tests.c - tests: the right side of `is`.
#include "format/jinja/library/jinja_library.h"

#define TEST(name) static fx_status name(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)

static fx_status say_bool(fxi_jval *out, bool yes)
{
    *out = fxi_jval_bool(yes);
    return FX_OK;
}

// ---- types --------------------------------------------------------------------------------------

// row->how: a set of types
TEST(test_type)
{
    (void)r;
    return say_bool(out, c->row->how >> c->self.type & 1);
}

// row->how: 1 for true
TEST(test_bool)
{
    (void)r;
    return say_bool(out, c->self.type == FXI_JVAL_BOOL && c->self.b == (c->row->how == 1));
}

TEST(test_defined)
{
    (void)r;
    return say_bool(out, c->self.type != FXI_JVAL_UNDEFINED);
}

TEST(test_iterable)
{
    (void)r;
    return say_bool(out, fxi_jval_is_iterable(c->self));
}

TEST(test_callable)
{
    (void)r;
    uint8_t t = c->self.type;
    return say_bool(out, t == FXI_JVAL_MACRO || t == FXI_JVAL_METHOD || t == FXI_JVAL_FUNCTION ||
                             t == FXI_JVAL_LOOP || t == FXI_JVAL_UNDEFINED);
}

// ---- numbers and comparisons --------------------------------------------------------------------

// odd, even: row->how is the remainder
TEST(test_parity)
{
    fxi_jval rest;
    bool yes;
    FX_TRY(fxi_jval_need_defined(r, c->self));
    if (!fxi_jval_is_number(c->self))
        return fxi_jrun_fail(r, "%s: wants a number, got a %s", c->row->name,
                             fxi_jval_type_name(c->self));
    FX_TRY(fxi_jop_binary(r, FXI_JOP_MOD, c->self, fxi_jval_int(2), &rest));
    FX_TRY(fxi_jval_equal(r, rest, fxi_jval_int(c->row->how), &yes));
    return say_bool(out, yes);
}

// row->how: fxi_jop
TEST(test_compare)
{
    bool yes;
    FX_TRY(fxi_jop_compare(r, (fxi_jop)c->row->how, c->self, c->arg[0], &yes));
    return say_bool(out, yes);
}

// ---- the table ----------------------------------------------------------------------------------

#define BIT(type) (1 << FXI_JVAL_##type)
#define ONE       .n_must = 1, .param = {"-"}
enum {
    NUMBERS = BIT(BOOL) | BIT(INT) | BIT(FLOAT),
    SEQUENCES = BIT(STR) | BIT(LIST) | BIT(TUPLE) | BIT(DICT) | BIT(RANGE) | BIT(UNDEFINED),
};

const fxi_jroutine fxi_jlibrary_tests[] = {
    {.name = "!=", .run = test_compare, ONE, .how = FXI_JOP_NE},
    {.name = "==", .run = test_compare, ONE, .how = FXI_JOP_EQ},
    {.name = "boolean", .run = test_type, .how = BIT(BOOL)},
    {.name = "callable", .run = test_callable},
    {.name = "defined", .run = test_defined},
    {.name = "eq", .run = test_compare, ONE, .how = FXI_JOP_EQ},
    {.name = "equalto", .run = test_compare, ONE, .how = FXI_JOP_EQ},
    {.name = "even", .run = test_parity, .how = 0},
    {.name = "false", .run = test_bool, .how = 0},
    {.name = "float", .run = test_type, .how = BIT(FLOAT)},
    {.name = "ge", .run = test_compare, ONE, .how = FXI_JOP_GE},
    {.name = "gt", .run = test_compare, ONE, .how = FXI_JOP_GT},
    {.name = "in", .run = test_compare, ONE, .how = FXI_JOP_IN},
    {.name = "integer", .run = test_type, .how = BIT(INT)},
    {.name = "iterable", .run = test_iterable},
    {.name = "le", .run = test_compare, ONE, .how = FXI_JOP_LE},
    {.name = "lt", .run = test_compare, ONE, .how = FXI_JOP_LT},
    {.name = "mapping", .run = test_type, .how = BIT(DICT)},
    {.name = "ne", .run = test_compare, ONE, .how = FXI_JOP_NE},
    {.name = "none", .run = test_type, .how = BIT(NONE)},
    {.name = "number", .run = test_type, .how = NUMBERS},
    {.name = "odd", .run = test_parity, .how = 1},
    {.name = "sequence", .run = test_type, .how = SEQUENCES},
    {.name = "string", .run = test_type, .how = BIT(STR)},
    {.name = "true", .run = test_bool, .how = 1},
    {.name = "undefined", .run = test_type, .how = BIT(UNDEFINED)},
    {.name = NULL},
};
