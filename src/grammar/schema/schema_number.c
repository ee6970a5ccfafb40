// schema_number.c - numbers: the strictest bounds of a list, as magnitudes on both sides of zero.
#include <math.h>
#include <stdlib.h>

#include "grammar/schema/schema_parts.h"

enum { MAX_MULTIPLE = 1000, MAX_PART = 15 };

typedef struct bound {
    const json_t *at; // NULL: none
    bool strict;
} bound;

typedef struct number_range {
    bound low, high;
    int n_part;
    uint32_t modulus;
} number_range;

// a - b, exact for integers.
static int compare_bounds(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b))
        return (json_integer_value(a) > json_integer_value(b)) -
               (json_integer_value(a) < json_integer_value(b));
    const double x = json_number_value(a), y = json_number_value(b);
    return (x > y) - (x < y);
}

static int sign_of(const json_t *v)
{
    const double d = json_number_value(v);
    return (d > 0) - (d < 0);
}

// Keeps the stricter of two bounds.
static void tighten_bound(bound *b, const json_t *at, bool strict, int sign)
{
    const int order = b->at ? sign * compare_bounds(at, b->at) : 1;
    if (order > 0 || (order == 0 && strict)) *b = (bound){at, strict};
}

static void find_bounds(const fxi_schema_set *list, number_range *range)
{
    static const struct {
        const char *keyword;
        int sign;
        bool strict;
    } rows[] = {{"minimum", 1, false},
                {"exclusiveMinimum", 1, true},
                {"maximum", -1, false},
                {"exclusiveMaximum", -1, true}};
    const json_t *v;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (const json_t *s = NULL; (s = fxi_schema_next(list, rows[i].keyword, s, &v));)
            tighten_bound(rows[i].sign > 0 ? &range->low : &range->high, v, rows[i].strict,
                          rows[i].sign);
}

static uint32_t common_multiple(uint32_t a, uint32_t b)
{
    uint32_t x = a, y = b;
    while (y) {
        const uint32_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

static fx_status add_multiple(fxi_schema *r, const json_t *s, const json_t *v, number_range *range)
{
    const double m = json_number_value(v);
    if (m >= 1 && m <= MAX_MULTIPLE && m == floor(m)) {
        range->n_part = 0;
        range->modulus = common_multiple(range->modulus, (uint32_t)m);
        if (range->modulus <= MAX_MULTIPLE) return FX_OK;
    }
    for (int k = 1; k <= MAX_PART; k++)
        if (m ==
            strtod((const char[]){'1', 'e', '-', (char)('0' + k / 10), (char)('0' + k % 10), 0},
                   NULL)) {
            if (range->n_part > k) range->n_part = k;
            return FX_OK;
        }
    return fxi_schema_refuse(r, s,
                             "\"multipleOf\" %g is not supported: integers up to %d are, and "
                             "0.1, 0.01, ..",
                             m, MAX_MULTIPLE);
}

static fx_status find_range(fxi_schema *r, const fxi_schema_set *list, bool whole,
                            number_range *range)
{
    const json_t *v;
    *range = (number_range){.n_part = whole ? 0 : MAX_PART, .modulus = 1};
    find_bounds(list, range);
    for (const json_t *s = NULL; (s = fxi_schema_next(list, "multipleOf", s, &v));)
        FX_TRY(add_multiple(r, s, v, range));
    return FX_OK;
}

// Magnitudes from `least` to `most`, each NULL or a bound; `above_zero`: 0 is left out.
static fx_status magnitudes_node(fxi_schema *r, const number_range *range, const bound *least,
                                 const bound *most, bool above_zero, uint32_t *node)
{
    static const fxi_decimal zero = {"0", ""};
    fxi_decimal a, b;
    size_t n_pair;
    fxi_magnitudes m = {.n_part = range->n_part, .modulus = range->modulus};
    if (above_zero) {
        m.least = &zero;
        m.above = true;
    }
    if (least) {
        a = fxi_decimal_of(least->at);
        m.least = &a;
        m.above = least->strict;
    }
    if (most) {
        b = fxi_decimal_of(most->at);
        m.most = &b;
        m.below = most->strict;
    }
    FX_TRY(fxi_decimal_node(r->g, &m, node, &n_pair, r->err));
    return fxi_schema_met(r, 0, n_pair);
}

static fx_status add_negative(fxi_schema *r, const number_range *range, fxi_schema_ways *w)
{
    const bound *low = range->low.at ? &range->low : NULL,
                *high = range->high.at && sign_of(range->high.at) < 0 ? &range->high : NULL;
    uint32_t node = 0;
    if (low && sign_of(low->at) >= 0) return FX_OK;
    FX_TRY(magnitudes_node(r, range, high, low, !high, &node));
    const uint32_t part[] = {fxi_gram_text(r->g, "-", 1), node};
    return fxi_schema_way(r, w, fxi_gram_seq(r->g, part, 2));
}

static fx_status add_positive(fxi_schema *r, const number_range *range, fxi_schema_ways *w)
{
    const bound *low = range->low.at && sign_of(range->low.at) >= 0 ? &range->low : NULL,
                *high = range->high.at ? &range->high : NULL;
    uint32_t node = 0;
    if (high && sign_of(high->at) < 0) return FX_OK;
    if (low && !sign_of(low->at) && !low->strict) low = NULL;
    FX_TRY(magnitudes_node(r, range, low, high, false, &node));
    return fxi_schema_way(r, w, node);
}

fx_status fxi_schema_numbers(fxi_schema *r, const fxi_schema_set *list, bool whole,
                             fxi_schema_ways *w)
{
    number_range range;
    FX_TRY(find_range(r, list, whole, &range));
    if (!range.low.at && !range.high.at && range.modulus == 1) {
        if (!range.n_part) return fxi_schema_way(r, w, r->json->integer);
        if (range.n_part == MAX_PART) return fxi_schema_way(r, w, r->json->number);
    }
    FX_TRY(add_negative(r, &range, w));
    return add_positive(r, &range, w);
}
