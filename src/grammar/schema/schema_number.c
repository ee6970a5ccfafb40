// schema_number.c - numbers: the strictest bounds of a list, as magnitudes on both sides of zero,
// digit by digit.
//
// A number that is at least a bound has more digits before the point, or as many and is larger at
// the first digit that differs; the same the other way round. Both bounds, and at most 15 digits in
// all, so that no reader rounds one number to another, are intersected as automata.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "grammar/automaton/gram_intersect.h"
#include "grammar/schema/schema_impl.h"
#include "grammar/syntax/gram_regex.h"

enum { MAX_MULTIPLE = 1000, MAX_DIGIT = 15, MAX_BOUND_DIGIT = 20 };

typedef struct decimal {        // a bound >= 0: digits without needless zeros
    char whole[320], part[360]; // "0" at least; "" without a fraction
    bool strict;                // the bound itself is excluded
} decimal;

typedef struct number_bound {
    const fxi_json *at; // NULL: none
    bool strict;
} number_bound;

typedef struct number_range {
    number_bound low, high;
    int n_part;       // most digits of a fraction; 0: integers
    uint32_t modulus; // integers must be multiples of it; 1: any
} number_range;

// ---- digits -------------------------------------------------------------------------------------

// The decimal of digits[0..n), with the point after the first `point` of them.
static decimal decimal_of_digits(const char *digits, int n, int point)
{
    decimal d;
    int n_whole = 0, n_part = 0, i = 0;
    for (; i < point && n_whole < (int)sizeof d.whole - 1; i++)
        if (n_whole || (i < n && digits[i] != '0')) d.whole[n_whole++] = i < n ? digits[i] : '0';
    if (!n_whole) d.whole[n_whole++] = '0';
    for (i = point; i < n && n_part < (int)sizeof d.part - 1; i++)
        d.part[n_part++] = i < 0 ? '0' : digits[i];
    while (n_part && d.part[n_part - 1] == '0') n_part--;
    d.whole[n_whole] = d.part[n_part] = 0;
    return d;
}

// The absolute value of a number.
static decimal decimal_of(const fxi_json *number)
{
    char s[40], digits[20];
    int n = 0;
    if (fxi_json_is_int(number)) {
        const long long v = fxi_json_int(number);
        n = snprintf(s, sizeof s, "%llu",
                     v < 0 ? 0ull - (unsigned long long)v : (unsigned long long)v);
        return decimal_of_digits(s, n, n);
    }
    const double v = fabs(fxi_json_number(number));
    for (int k = 14; k <= 16; k++) { // d.ddddde+XX, the shortest that is read as the same
        snprintf(s, sizeof s, "%.*e", k, v);
        if (strtod(s, NULL) == v) break;
    }
    for (const char *p = s; *p && *p != 'e'; p++)
        if (*p != '.') digits[n++] = *p;
    return decimal_of_digits(digits, n, 1 + atoi(strchr(s, 'e') + 1));
}

// ---- grammars of digits -------------------------------------------------------------------------

typedef struct digit_nodes {
    fxi_gram *g;
    uint32_t any, any_part; // any digits; nothing, or a point and digits
} digit_nodes;

static uint32_t digits_between(fxi_gram *g, char lo, char hi)
{
    fxi_byte_set s = {0};
    if (lo > hi) return 0;
    for (char c = lo; c <= hi; c++) fxi_byte_put(&s, (uint8_t)c);
    return fxi_gram_set(g, &s);
}

static digit_nodes make_digits(fxi_gram *g)
{
    digit_nodes d = {.g = g};
    const uint32_t digit = digits_between(g, '0', '9');
    d.any = fxi_gram_repeat(g, digit, 0, FXI_GRAM_NO_MAX);
    const uint32_t some = fxi_gram_repeat(g, digit, 1, FXI_GRAM_NO_MAX);
    d.any_part = fxi_gram_repeat(g, FXI_SEQ_OF(g, fxi_gram_str(g, "."), some), 0, 1);
    return d;
}

static uint32_t zeros_of(fxi_gram *g, uint32_t min)
{
    return fxi_gram_repeat(g, fxi_gram_str(g, "0"), min, FXI_GRAM_NO_MAX);
}

// Fractions that are at least the bound's, with the point.
static uint32_t part_above(const digit_nodes *d, const char *part, bool strict)
{
    fxi_gram *g = d->g;
    uint32_t node = d->any; // digits after the bound's own
    if (!*part && !strict) return d->any_part;
    if (strict)
        node = FXI_SEQ_OF(g, zeros_of(g, 0), FXI_SEQ_OF(g, digits_between(g, '1', '9'), d->any));
    for (size_t i = strlen(part); i-- > 0;)
        node = FXI_ALT_OF(g, FXI_SEQ_OF(g, digits_between(g, part[i] + 1, '9'), d->any),
                          FXI_SEQ_OF(g, fxi_gram_text(g, &part[i], 1), node));
    return FXI_SEQ_OF(g, fxi_gram_str(g, "."), node);
}

// Fractions that are at most the bound's; digits that are not written are zero.
static uint32_t part_below(const digit_nodes *d, const char *part, bool strict)
{
    fxi_gram *g = d->g;
    const uint32_t empty = fxi_gram_text(g, NULL, 0);
    uint32_t node = strict ? 0 : zeros_of(g, 0); // after all digits
    if (!*part)
        return strict ? 0
                      : FXI_ALT_OF(g, empty, FXI_SEQ_OF(g, fxi_gram_str(g, "."), zeros_of(g, 1)));
    for (size_t i = strlen(part); i-- > 0;) {
        node = FXI_ALT_OF(g, FXI_SEQ_OF(g, digits_between(g, '0', part[i] - 1), d->any),
                          FXI_SEQ_OF(g, fxi_gram_text(g, &part[i], 1), node));
        if (i) node = FXI_ALT_OF(g, empty, node);
    }
    return FXI_ALT_OF(g, empty, FXI_SEQ_OF(g, fxi_gram_str(g, "."), node));
}

// Numbers with min to max digits before the point and any fraction; the first digit is not 0.
static uint32_t numbers_of_length(const digit_nodes *d, uint32_t min, uint32_t max)
{
    fxi_gram *g = d->g;
    const uint32_t more = fxi_gram_repeat(g, digits_between(g, '0', '9'), min - 1,
                                          max == FXI_GRAM_NO_MAX ? max : max - 1);
    return FXI_SEQ_OF(g, digits_between(g, '1', '9'), FXI_SEQ_OF(g, more, d->any_part));
}

// Numbers with as many digits before the point as the bound, on one side of it.
static uint32_t numbers_as_long(const digit_nodes *d, const decimal *bound, bool above)
{
    fxi_gram *g = d->g;
    const size_t n = strlen(bound->whole);
    const uint32_t digit = digits_between(g, '0', '9');
    uint32_t node = (above ? part_above : part_below)(d, bound->part, bound->strict);
    for (size_t i = n; i-- > 0;) {
        const char c = bound->whole[i];
        const uint32_t other = above ? digits_between(g, c + 1, '9')
                                     : digits_between(g, !i && n > 1 ? '1' : '0', c - 1);
        const uint32_t left = (uint32_t)(n - i - 1);
        const uint32_t rest = FXI_SEQ_OF(g, fxi_gram_repeat(g, digit, left, left), d->any_part);
        node =
            FXI_ALT_OF(g, FXI_SEQ_OF(g, other, rest), FXI_SEQ_OF(g, fxi_gram_text(g, &c, 1), node));
    }
    return node;
}

// Numbers on one side of the bound.
static uint32_t numbers_beyond(fxi_gram *g, const decimal *bound, bool above)
{
    const digit_nodes d = make_digits(g);
    const uint32_t n = (uint32_t)strlen(bound->whole);
    if (above)
        return FXI_ALT_OF(g, numbers_of_length(&d, n + 1, FXI_GRAM_NO_MAX),
                          numbers_as_long(&d, bound, true));
    const uint32_t as_long = numbers_as_long(&d, bound, false);
    if (n == 1) return as_long;
    const uint32_t zero = FXI_SEQ_OF(g, fxi_gram_str(g, "0"), d.any_part);
    return FXI_ALT_OF(g, as_long, FXI_ALT_OF(g, zero, numbers_of_length(&d, 1, n - 1)));
}

// All numbers of at most 15 digits, n_part of them after the point; of up to 20 if a bound has so
// many.
static fx_status all_numbers(fxi_gram *g, int n_part, const decimal *least, const decimal *most,
                             uint32_t *node, fx_error *err)
{
    fxi_buf p = {0};
    int n_digit = MAX_DIGIT;
    if (most && (int)strlen(most->whole) > n_digit) n_digit = (int)strlen(most->whole);
    if (least && (int)strlen(least->whole) > n_digit) n_digit = (int)strlen(least->whole);
    if (n_digit > MAX_BOUND_DIGIT) n_digit = MAX_BOUND_DIGIT;
    bool ok = n_part ? fxi_buf_fmt(&p, "0(?:\\.[0-9]{1,%d})?", n_part) : fxi_buf_str(&p, "0");
    for (int n = 1; ok && n <= n_digit; n++) {
        const int left = n_digit - n < n_part ? n_digit - n : n_part;
        ok = fxi_buf_fmt(&p, "|[1-9][0-9]{%d}", n - 1) &&
             (left < 1 || fxi_buf_fmt(&p, "(?:\\.[0-9]{1,%d})?", left));
    }
    fx_status st = ok ? fxi_gram_regex(g, (fxi_str){p.p, p.n}, 0, FXI_SPELL_UTF8, node, err)
                      : fxi_fail_memory(err);
    fxi_buf_free(&p);
    return st;
}

// Integers by their remainder: a rule for each, with an edge for each digit.
static uint32_t multiples_of(fxi_gram *g, uint32_t modulus)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < modulus; i++) {
        const uint32_t rule = fxi_gram_rule_add(g, fxi_str_of("a remainder"));
        if (!i) first = rule;
    }
    for (uint32_t i = 0; i < modulus; i++) {
        uint32_t alt[11], n = 0;
        if (!i) alt[n++] = fxi_gram_text(g, NULL, 0);
        for (uint32_t d = 0; d < 10; d++) {
            const char c = (char)('0' + d);
            const uint32_t next = fxi_gram_ref(g, first + (10 * i + d) % modulus);
            alt[n++] = FXI_SEQ_OF(g, fxi_gram_text(g, &c, 1), next);
        }
        fxi_gram_rule_define(g, first + i, fxi_gram_alt(g, alt, n));
    }
    return fxi_gram_ref(g, first);
}

// ---- bounds -------------------------------------------------------------------------------------

// a - b, exact for integers.
static int compare_bounds(const fxi_json *a, const fxi_json *b)
{
    if (fxi_json_is_int(a) && fxi_json_is_int(b))
        return (fxi_json_int(a) > fxi_json_int(b)) - (fxi_json_int(a) < fxi_json_int(b));
    const double x = fxi_json_number(a), y = fxi_json_number(b);
    return (x > y) - (x < y);
}

static int sign_of(const fxi_json *v)
{
    const double d = fxi_json_number(v);
    return (d > 0) - (d < 0);
}

// Finds the strictest bounds.
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
    const fxi_json *v;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (const fxi_json *s = NULL; (s = fxi_schema_next(list, rows[i].keyword, s, &v));) {
            number_bound *b = rows[i].sign > 0 ? &range->low : &range->high;
            const int order = b->at ? rows[i].sign * compare_bounds(v, b->at) : 1;
            if (order > 0 || (order == 0 && rows[i].strict)) *b = (number_bound){v, rows[i].strict};
        }
}

bool fxi_schema_is_below(const fxi_schema_set *a, const fxi_schema_set *b)
{
    number_range x = {.n_part = 0}, y = {.n_part = 0};
    find_bounds(a, &x);
    find_bounds(b, &y);
    if (!x.high.at || !y.low.at) return false;
    const int order = compare_bounds(x.high.at, y.low.at);
    return order < 0 || (order == 0 && (x.high.strict || y.low.strict));
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

static void add_multiple(fxi_schema *r, const fxi_json *s, const fxi_json *v, number_range *range)
{
    const double m = fxi_json_number(v);
    if (m >= 1 && m <= MAX_MULTIPLE && m == floor(m)) {
        range->n_part = 0;
        range->modulus = common_multiple(range->modulus, (uint32_t)m);
        if (range->modulus <= MAX_MULTIPLE) return;
    }
    for (int k = 1; k <= MAX_DIGIT; k++) {
        char power[16];
        snprintf(power, sizeof power, "1e-%d", k);
        if (m != strtod(power, NULL)) continue;
        if (range->n_part > k) range->n_part = k;
        return;
    }
    fxi_schema_refuse(
        r, s, "\"multipleOf\" %g is not supported: integers up to %d are, and 0.1, 0.01, ..", m,
        MAX_MULTIPLE);
}

// ---- numbers ------------------------------------------------------------------------------------

// Numbers >= 0 within bounds, each NULL or a bound, without an exponent; above_zero: 0 is excluded.
static uint32_t magnitudes_node(fxi_schema *r, const number_range *range, const number_bound *low,
                                const number_bound *high, bool above_zero)
{
    fxi_intersect_part part[4] = {{.root = 0}};
    decimal least = {"0", "", true}, most;
    size_t n = 1, n_pair = 0;
    uint32_t node = 0;
    if (r->failed) return 0;
    const bool has_least = low || above_zero;
    if (low) least = decimal_of(low->at);
    if (low) least.strict = low->strict;
    if (high) most = decimal_of(high->at);
    if (high) most.strict = high->strict;
    const bool is_simple = !has_least && !high && range->modulus < 2;
    r->failed = all_numbers(is_simple ? r->g : &part[0].g, range->n_part, has_least ? &least : NULL,
                            high ? &most : NULL, is_simple ? &node : &part[0].root, r->err);
    if (r->failed) fxi_gram_free(&part[0].g);
    if (r->failed || is_simple) return node;
    if (has_least) {
        part[n].root = numbers_beyond(&part[n].g, &least, true);
        n++;
    }
    if (high) {
        part[n].root = numbers_beyond(&part[n].g, &most, false);
        n++;
    }
    if (range->modulus > 1) {
        part[n].root = multiples_of(&part[n].g, range->modulus);
        n++;
    }
    r->failed = fxi_gram_intersect(r->g, part, n, &node, &n_pair, r->err);
    fxi_schema_charge_pairs(r, 0, n_pair);
    return node;
}

static void add_negative(fxi_schema *r, const number_range *range, fxi_schema_alts *alts)
{
    const number_bound *low = range->low.at ? &range->low : NULL,
                       *high = range->high.at && sign_of(range->high.at) < 0 ? &range->high : NULL;
    if (low && sign_of(low->at) >= 0) return;
    const uint32_t node = magnitudes_node(r, range, high, low, !high);
    fxi_schema_add_alt(r, alts, FXI_SEQ_OF(r->g, fxi_gram_str(r->g, "-"), node));
}

static void add_positive(fxi_schema *r, const number_range *range, fxi_schema_alts *alts)
{
    const number_bound *low = range->low.at && sign_of(range->low.at) >= 0 ? &range->low : NULL,
                       *high = range->high.at ? &range->high : NULL;
    if (high && sign_of(high->at) < 0) return;
    if (low && !sign_of(low->at) && !low->strict) low = NULL;
    fxi_schema_add_alt(r, alts, magnitudes_node(r, range, low, high, false));
}

void fxi_schema_numbers(fxi_schema *r, const fxi_schema_set *list, bool whole,
                        fxi_schema_alts *alts)
{
    number_range range = {.n_part = whole ? 0 : MAX_DIGIT, .modulus = 1};
    const fxi_json *v;
    find_bounds(list, &range);
    for (const fxi_json *s = NULL; (s = fxi_schema_next(list, "multipleOf", s, &v));)
        add_multiple(r, s, v, &range);
    const bool is_plain = !range.low.at && !range.high.at && range.modulus == 1;
    if (is_plain && (!range.n_part || range.n_part == MAX_DIGIT)) {
        fxi_schema_add_alt(r, alts, range.n_part ? r->json->number : r->json->integer);
        return;
    }
    add_negative(r, &range, alts);
    add_positive(r, &range, alts);
}
