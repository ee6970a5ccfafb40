// schema_decimal.c - numbers within bounds, digit by digit.
//
// A number that is at least a bound has more digits in front of the point, or as many and is larger
// at the first digit that differs; the same the other way round. Both conditions, and at most 15
// digits in all, so that no reader rounds one number to another, meet as automata.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "grammar/meet/gram_meet.h"
#include "grammar/read/gram_regex.h"
#include "grammar/schema/schema_parts.h"

enum { MAX_DIGIT = 15 };

// ---- digits -------------------------------------------------------------------------------------

// Writes digits[0..n), a point behind the first `point` of them, to a decimal.
static fxi_decimal decimal_of_digits(const char *digits, int n, int point)
{
    fxi_decimal d;
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

fxi_decimal fxi_decimal_of(const json_t *number)
{
    char s[40], digits[20];
    int n = 0;
    if (json_is_integer(number)) {
        const long long v = json_integer_value(number);
        n = snprintf(s, sizeof s, "%llu",
                     v < 0 ? 0ull - (unsigned long long)v : (unsigned long long)v);
        return decimal_of_digits(s, n, n);
    }
    const double v = fabs(json_real_value(number));
    for (int k = 14; k <= 16; k++) { // d.ddddde+XX, the shortest that is read as the same
        snprintf(s, sizeof s, "%.*e", k, v);
        if (strtod(s, NULL) == v) break;
    }
    for (const char *p = s; *p && *p != 'e'; p++)
        if (*p != '.') digits[n++] = *p;
    return decimal_of_digits(digits, n, 1 + atoi(strchr(s, 'e') + 1));
}

// ---- forms --------------------------------------------------------------------------------------

typedef struct digit_form {
    fxi_gram *g;
    uint32_t any, any_part; // any digits; nothing, or a point and digits
} digit_form;

static uint32_t digits_between(fxi_gram *g, char lo, char hi)
{
    fxi_byte_set s = {0};
    if (lo > hi) return 0;
    for (char c = lo; c <= hi; c++) fxi_byte_put(&s, (uint8_t)c);
    return fxi_gram_set(g, &s);
}

static uint32_t seq_of(fxi_gram *g, uint32_t a, uint32_t b)
{
    const uint32_t part[] = {a, b};
    return fxi_gram_seq(g, part, 2);
}

static uint32_t alt_of(fxi_gram *g, uint32_t a, uint32_t b)
{
    const uint32_t way[] = {a, b};
    return fxi_gram_alt(g, way, 2);
}

static digit_form make_digits(fxi_gram *g)
{
    digit_form d = {.g = g};
    const uint32_t digit = digits_between(g, '0', '9');
    d.any = fxi_gram_repeat(g, digit, 0, FXI_GRAM_NO_MAX);
    d.any_part = fxi_gram_repeat(
        g, seq_of(g, fxi_gram_text(g, ".", 1), fxi_gram_repeat(g, digit, 1, FXI_GRAM_NO_MAX)), 0,
        1);
    return d;
}

static uint32_t zeros_of(fxi_gram *g, uint32_t min)
{
    return fxi_gram_repeat(g, fxi_gram_text(g, "0", 1), min, FXI_GRAM_NO_MAX);
}

// Digits behind the bound's own that make the number larger than it, or as large.
static uint32_t tail_above(const digit_form *d, bool strict)
{
    const uint32_t some = seq_of(d->g, digits_between(d->g, '1', '9'), d->any);
    return strict ? seq_of(d->g, zeros_of(d->g, 0), some) : d->any;
}

// Fractions that are at least the bound's, with the point.
static uint32_t part_above(const digit_form *d, const char *part, bool strict)
{
    fxi_gram *g = d->g;
    uint32_t node = tail_above(d, strict);
    if (!*part && !strict) return d->any_part;
    for (size_t i = strlen(part); i-- > 0;)
        node = alt_of(g, seq_of(g, digits_between(g, part[i] + 1, '9'), d->any),
                      seq_of(g, fxi_gram_text(g, &part[i], 1), node));
    return seq_of(g, fxi_gram_text(g, ".", 1), node);
}

// Fractions that are at most the bound's: where the digits end, the rest is zero.
static uint32_t part_below(const digit_form *d, const char *part, bool strict)
{
    fxi_gram *g = d->g;
    const uint32_t empty = fxi_gram_text(g, NULL, 0);
    uint32_t node = strict ? 0 : zeros_of(g, 0); // behind all digits
    if (!*part)
        return strict ? 0 : alt_of(g, empty, seq_of(g, fxi_gram_text(g, ".", 1), zeros_of(g, 1)));
    for (size_t i = strlen(part); i-- > 0;) {
        node = alt_of(g, seq_of(g, digits_between(g, '0', part[i] - 1), d->any),
                      seq_of(g, fxi_gram_text(g, &part[i], 1), node));
        if (i) node = alt_of(g, empty, node);
    }
    return alt_of(g, empty, seq_of(g, fxi_gram_text(g, ".", 1), node));
}

// Numbers with n digits in front of the point and any fraction; the first digit is not 0.
static uint32_t numbers_of_length(const digit_form *d, uint32_t min, uint32_t max)
{
    fxi_gram *g = d->g;
    const uint32_t more = fxi_gram_repeat(g, digits_between(g, '0', '9'), min - 1,
                                          max == FXI_GRAM_NO_MAX ? max : max - 1);
    return seq_of(g, digits_between(g, '1', '9'), seq_of(g, more, d->any_part));
}

// Numbers with as many digits in front of the point as the bound, on one side of it.
static uint32_t numbers_beside(const digit_form *d, const fxi_decimal *bound, bool above,
                               bool strict)
{
    fxi_gram *g = d->g;
    const size_t n = strlen(bound->whole);
    const uint32_t digit = digits_between(g, '0', '9');
    uint32_t node = above ? part_above(d, bound->part, strict) : part_below(d, bound->part, strict);
    for (size_t i = n; i-- > 0;) {
        const char c = bound->whole[i];
        const uint32_t other = above ? digits_between(g, c + 1, '9')
                                     : digits_between(g, !i && n > 1 ? '1' : '0', c - 1);
        const uint32_t left = (uint32_t)(n - i - 1);
        const uint32_t rest = seq_of(g, fxi_gram_repeat(g, digit, left, left), d->any_part);
        node = alt_of(g, seq_of(g, other, rest), seq_of(g, fxi_gram_text(g, &c, 1), node));
    }
    return node;
}

static uint32_t numbers_above(fxi_gram *g, const fxi_decimal *bound, bool strict)
{
    const digit_form d = make_digits(g);
    const uint32_t n = (uint32_t)strlen(bound->whole);
    return alt_of(g, numbers_of_length(&d, n + 1, FXI_GRAM_NO_MAX),
                  numbers_beside(&d, bound, true, strict));
}

static uint32_t numbers_below(fxi_gram *g, const fxi_decimal *bound, bool strict)
{
    const digit_form d = make_digits(g);
    const uint32_t n = (uint32_t)strlen(bound->whole);
    const uint32_t beside = numbers_beside(&d, bound, false, strict);
    if (n == 1) return beside;
    const uint32_t zero = seq_of(g, fxi_gram_text(g, "0", 1), d.any_part);
    return alt_of(g, beside, alt_of(g, zero, numbers_of_length(&d, 1, n - 1)));
}

// All numbers of at most 15 digits, n_part of them behind the point; with more digits where a bound
// has more.
static fx_status all_numbers(fxi_gram *g, const fxi_magnitudes *m, uint32_t *node, fx_error *err)
{
    fxi_buf p = {0};
    int n_digit = MAX_DIGIT;
    if (m->most && (int)strlen(m->most->whole) > n_digit) n_digit = (int)strlen(m->most->whole);
    if (m->least && (int)strlen(m->least->whole) > n_digit) n_digit = (int)strlen(m->least->whole);
    if (n_digit > 20) n_digit = 20;
    const int n_part = m->n_part < MAX_DIGIT ? m->n_part : MAX_DIGIT;
    bool ok = n_part ? fxi_buf_fmt(&p, "0(?:\\.[0-9]{1,%d})?", n_part) : fxi_buf_str(&p, "0");
    for (int n = 1; ok && n <= n_digit; n++) {
        const int left = n_digit - n < n_part ? n_digit - n : n_part;
        ok = fxi_buf_fmt(&p, "|[1-9][0-9]{%d}", n - 1) &&
             (left < 1 || fxi_buf_fmt(&p, "(?:\\.[0-9]{1,%d})?", left));
    }
    fx_status st = ok ? fxi_gram_regex(g, (fxi_str){p.p, p.n}, 0, FXI_SPELL_UTF8, node, err)
                      : fxi_fail(err, FX_ENOMEM, "out of memory");
    fxi_buf_free(&p);
    return st;
}

// Integers by their remainder: a rule for each says by which digits the others are reached.
static uint32_t multiples_of(fxi_gram *g, uint32_t modulus)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < modulus; i++) {
        const uint32_t rule = fxi_gram_rule_add(g, fxi_str_of("a remainder"));
        if (!i) first = rule;
    }
    for (uint32_t i = 0; i < modulus; i++) {
        uint32_t way[11], n = 0;
        if (!i) way[n++] = fxi_gram_text(g, NULL, 0);
        for (uint32_t d = 0; d < 10; d++) {
            const char c = (char)('0' + d);
            const uint32_t next = fxi_gram_ref(g, first + (10 * i + d) % modulus);
            way[n++] = seq_of(g, fxi_gram_text(g, &c, 1), next);
        }
        fxi_gram_rule_define(g, first + i, fxi_gram_alt(g, way, n));
    }
    return fxi_gram_ref(g, first);
}

fx_status fxi_decimal_node(fxi_gram *g, const fxi_magnitudes *m, uint32_t *node, size_t *n_pair,
                           fx_error *err)
{
    fxi_meet_part part[4] = {{.root = 0}};
    size_t n = 1;
    *n_pair = 0;
    if (!m->least && !m->most && m->modulus < 2) return all_numbers(g, m, node, err);
    const fx_status st = all_numbers(&part[0].form, m, &part[0].root, err);
    if (st) {
        fxi_gram_free(&part[0].form);
        return st;
    }
    if (m->least) {
        part[n].root = numbers_above(&part[n].form, m->least, m->above);
        n++;
    }
    if (m->most) {
        part[n].root = numbers_below(&part[n].form, m->most, m->below);
        n++;
    }
    if (m->modulus > 1) {
        part[n].root = multiples_of(&part[n].form, m->modulus);
        n++;
    }
    return fxi_gram_meet_all(g, part, n, node, n_pair, err);
}
