// schema_value.c - whether a value satisfies a set; enum and const, whose values are spelled as
// they stand there if the rest of the schema allows them; whether two sets exclude each other.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text/utf8.h"
#include "grammar/schema/schema_impl.h"

// ---- equal values -------------------------------------------------------------------------------

// Numbers are equal by value: 1 and 1.0 are.
static bool equals_value(const fxi_json *a, const fxi_json *b)
{
    if (fxi_json_is_int(a) && fxi_json_is_int(b)) return fxi_json_int(a) == fxi_json_int(b);
    if (fxi_json_is_number(a) && fxi_json_is_number(b))
        return fxi_json_number(a) == fxi_json_number(b);
    if (fxi_json_type_of(a) != fxi_json_type_of(b)) return false;
    if (fxi_json_is_string(a)) return !strcmp(fxi_json_text(a), fxi_json_text(b));
    if (fxi_json_is_bool(a)) return fxi_json_is_true(a) == fxi_json_is_true(b);
    bool same = fxi_json_object_size(a) == fxi_json_object_size(b) &&
                fxi_json_array_size(a) == fxi_json_array_size(b); // 0 of other types
    for (fxi_json_iter it = fxi_json_items(a); same && fxi_json_next(&it);) {
        const fxi_json *other = it.key ? fxi_json_get(b, it.key) : fxi_json_at(b, it.i);
        same = other && equals_value(it.value, other);
    }
    return same;
}

// ---- whether a value is valid -------------------------------------------------------------------

static unsigned type_of_value(const fxi_json *v)
{
    switch (fxi_json_type_of(v)) {
    case FXI_JSON_NULL: return FXI_SCHEMA_NULL;
    case FXI_JSON_BOOL: return FXI_SCHEMA_BOOL;
    case FXI_JSON_INT:
    case FXI_JSON_REAL: return FXI_SCHEMA_NUMBER;
    case FXI_JSON_STRING: return FXI_SCHEMA_STRING;
    case FXI_JSON_ARRAY: return FXI_SCHEMA_ARRAY;
    case FXI_JSON_OBJECT: return FXI_SCHEMA_OBJECT;
    default: return 0;
    }
}

static bool is_in_bound(const fxi_json *s, const char *keyword, double v, int sign, bool strict)
{
    const fxi_json *bound = fxi_json_get(s, keyword);
    const double far = bound ? sign * (v - fxi_json_number(bound)) : 1;
    return strict ? far > 0 : far >= 0;
}

static bool fits_number(const fxi_json *s, const fxi_json *value)
{
    const double v = fxi_json_number(value);
    const fxi_json *m = fxi_json_get(s, "multipleOf");
    const double times = m ? v / fxi_json_number(m) : 0;
    return is_in_bound(s, "minimum", v, 1, false) && is_in_bound(s, "maximum", v, -1, false) &&
           is_in_bound(s, "exclusiveMinimum", v, 1, true) &&
           is_in_bound(s, "exclusiveMaximum", v, -1, true) && fabs(times - round(times)) < 1e-9;
}

static bool fits_count(const fxi_schema_set *list, const char *least, const char *most, size_t n)
{
    const uint32_t max = fxi_schema_most(list, most);
    return n >= fxi_schema_least(list, least) && (n <= max || max == FXI_GRAM_NO_MAX);
}

static bool fits_string(fxi_schema *r, const fxi_schema_set *list, const fxi_json *value)
{
    const char *text = fxi_json_text(value);
    const fxi_json *v;
    bool fits =
        fits_count(list, "minLength", "maxLength", fxi_utf8_count(text, fxi_json_string(value).n));
    for (const fxi_json *s = NULL; fits && (s = fxi_schema_next(list, "pattern", s, &v));) {
        const fxi_schema_text cond = {.at = s, .pattern = fxi_json_text(v)};
        fits = fxi_schema_matches(r, &cond, text);
    }
    for (const fxi_json *s = NULL; fits && (s = fxi_schema_next(list, "format", s, &v));) {
        const fxi_schema_text cond = {.at = s, .whole = fxi_schema_format(fxi_json_text(v))};
        fits = !cond.whole || fxi_schema_matches(r, &cond, text);
    }
    return fits;
}

static bool fits_array(fxi_schema *r, const fxi_schema_set *list, const fxi_json *value)
{
    const size_t n = fxi_json_array_size(value);
    bool fits = fits_count(list, "minItems", "maxItems", n);
    for (size_t i = 0; fits && i < n; i++) {
        const fxi_schema_set element = fxi_schema_element(r, list, i);
        fits = fxi_schema_accepts(r, fxi_json_at(value, i), &element);
    }
    return fits;
}

static bool fits_object(fxi_schema *r, const fxi_schema_set *list, const fxi_json *value)
{
    const fxi_json *names;
    bool fits = fits_count(list, "minProperties", "maxProperties", fxi_json_object_size(value));
    for (const fxi_json *s = NULL; (s = fxi_schema_next(list, "required", s, &names));)
        for (fxi_json_iter it = fxi_json_items(names); fits && fxi_json_next(&it);)
            fits = fxi_json_get(value, fxi_json_text(it.value)) != NULL;
    for (fxi_json_iter it = fxi_json_members(value); fits && fxi_json_next(&it);) {
        const fxi_schema_set member = fxi_schema_member(r, list, it.key);
        fits = fxi_schema_accepts(r, it.value, &member);
    }
    return fits;
}

// Whether each const and enum has the value, except the enum that it comes from.
static bool fits_values(fxi_schema *r, const fxi_schema_set *list, const fxi_json *value,
                        const fxi_json *source)
{
    const fxi_json *v;
    bool fits = true;
    for (const fxi_json *s = NULL; fits && (s = fxi_schema_next(list, "const", s, &v));)
        fits = equals_value(v, value);
    for (const fxi_json *s = NULL; fits && (s = fxi_schema_next(list, "enum", s, &v));) {
        if (v == source) continue;
        fxi_schema_charge(r, fxi_json_array_size(v) / FXI_SCHEMA_LOOKS);
        fits = false;
        for (size_t i = 0; !fits && i < fxi_json_array_size(v); i++)
            fits = equals_value(fxi_json_at(v, i), value);
    }
    return fits;
}

static bool fits_list(fxi_schema *r, const fxi_schema_set *list, const fxi_json *value,
                      const fxi_json *source)
{
    const unsigned types = fxi_schema_types_of(list), type = type_of_value(value);
    if (!(types & type) || !fits_values(r, list, value, source)) return false;
    if (type == FXI_SCHEMA_STRING) return fits_string(r, list, value);
    if (type == FXI_SCHEMA_ARRAY) return fits_array(r, list, value);
    if (type == FXI_SCHEMA_OBJECT) return fits_object(r, list, value);
    if (type != FXI_SCHEMA_NUMBER) return true;
    bool fits = !(types & FXI_SCHEMA_WHOLE) || !fxi_json_is_real(value) ||
                fxi_json_number(value) == floor(fxi_json_number(value));
    for (size_t i = 0; fits && i < list->n; i++) fits = fits_number(list->at[i], value);
    return fits;
}

bool fxi_schema_accepts(fxi_schema *r, const fxi_json *value, const fxi_schema_set *set)
{
    bool does = false;
    fxi_schema_charge(r, 1);
    if (r->depth >= FXI_SCHEMA_MAX_DEPTH)
        fxi_schema_refuse(r, value, "a value nested deeper than %d", FXI_SCHEMA_MAX_DEPTH);
    if (r->failed) return false;
    r->depth++;
    const fxi_schema_lists lists = fxi_schema_expand(r, set);
    for (size_t i = 0; !does && i < lists.n; i++) does = fits_list(r, &lists.at[i], value, NULL);
    r->depth--;
    return does;
}

// ---- spelling -----------------------------------------------------------------------------------

static uint32_t spell_string(fxi_schema *r, const char *s)
{
    const uint32_t text = fxi_gram_spell(r->g, fxi_str_of(s), FXI_SPELL_JSON);
    return FXI_SEQ_OF(r->g, fxi_gram_str(r->g, "\""), text, fxi_gram_str(r->g, "\""));
}

// The shortest digits that read as the same number.
static uint32_t spell_number(fxi_schema *r, const fxi_json *v)
{
    char s[40];
    const double d = fxi_json_number(v);
    if (fxi_json_is_int(v)) snprintf(s, sizeof s, "%lld", (long long)fxi_json_int(v));
    for (int digits = 15; fxi_json_is_real(v) && digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, d);
        if (strtod(s, NULL) == d) break;
    }
    return fxi_gram_str(r->g, s);
}

static uint32_t spell_value(fxi_schema *r, const fxi_json *v)
{
    fxi_schema_alts items = {0}; // members, or elements
    const uint32_t space = r->json->space, pad = r->json->pad;
    if (fxi_json_is_string(v)) return spell_string(r, fxi_json_text(v));
    if (fxi_json_is_number(v)) return spell_number(r, v);
    if (fxi_json_is_null(v)) return fxi_gram_str(r->g, "null");
    if (fxi_json_is_bool(v)) return fxi_gram_str(r->g, fxi_json_is_true(v) ? "true" : "false");
    for (fxi_json_iter it = fxi_json_items(v); fxi_json_next(&it);) {
        const uint32_t name = it.key ? spell_string(r, it.key) : 0;
        const uint32_t value = spell_value(r, it.value);
        const uint32_t comma = fxi_gram_str(r->g, it.i ? "," : "");
        const uint32_t item =
            it.key ? FXI_SEQ_OF(r->g, comma, space, name, pad, fxi_gram_str(r->g, ":"), pad, value)
                   : FXI_SEQ_OF(r->g, comma, space, value, space);
        fxi_schema_add_alt(r, &items, item);
    }
    return FXI_SEQ_OF(r->g, fxi_gram_str(r->g, fxi_json_is_object(v) ? "{" : "["),
                      fxi_gram_seq(r->g, items.node, items.n), space,
                      fxi_gram_str(r->g, fxi_json_is_object(v) ? "}" : "]"));
}

// ---- the values of a list -----------------------------------------------------------------------

bool fxi_schema_has_values(const fxi_schema_set *list)
{
    const fxi_json *v;
    return fxi_schema_next(list, "const", NULL, &v) || fxi_schema_next(list, "enum", NULL, &v);
}

const fxi_json *fxi_schema_listed(const fxi_schema_set *list, size_t i)
{
    const fxi_json *v;
    if (fxi_schema_next(list, "const", NULL, &v)) return i ? NULL : v;
    return fxi_schema_next(list, "enum", NULL, &v) ? fxi_json_at(v, i) : NULL;
}

void fxi_schema_values(fxi_schema *r, const fxi_schema_set *list, fxi_schema_alts *alts)
{
    const fxi_json *v, *source = NULL; // of the values: no need to look there
    if (!fxi_schema_next(list, "const", NULL, &v))
        (void)fxi_schema_next(list, "enum", NULL, &source);
    for (size_t i = 0; !r->failed && (v = fxi_schema_listed(list, i)); i++) {
        fxi_schema_charge(r, 1);
        if (fits_list(r, list, v, source)) fxi_schema_add_alt(r, alts, spell_value(r, v));
    }
}

// ---- sets that exclude each other ---------------------------------------------------------------
//
// By type, by their values, by ranges and texts, by an element or a member that both must have.
// "No" may also mean that it is not known.

// Whether a lists values and none of them satisfies b.
static bool values_exclude(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b)
{
    const fxi_json *v;
    bool fits = !fxi_schema_has_values(a);
    for (size_t i = 0; !fits && !r->failed && (v = fxi_schema_listed(a, i)); i++)
        fits = fxi_schema_accepts(r, v, b);
    return !fits;
}

// Whether no string satisfies both: their texts are written to a temporary grammar.
static bool strings_exclude(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b)
{
    fxi_gram own = {0}, *const g = r->g;
    fxi_gram_json json;
    const fxi_gram_json *const old = r->json;
    fxi_schema_bag both = {0};
    fxi_schema_alts alts = {0};
    if (r->failed) return false;
    r->failed = fxi_gram_json_add(&own, &json, r->err);
    for (size_t i = 0; i < a->n; i++) fxi_schema_put(r, &both, a->at[i]);
    for (size_t i = 0; i < b->n; i++) fxi_schema_put(r, &both, b->at[i]);
    r->g = &own;
    r->json = &json;
    if (!r->failed) fxi_schema_strings(r, &both.set, &alts);
    const uint32_t all = fxi_gram_alt(&own, alts.node, alts.n);
    const fx_status st = r->failed ? r->failed : fxi_gram_finish(&own, all, r->err);
    const bool exclude = !r->failed && st == FX_EINVAL && own.n_node && !own.node[all].productive;
    if (!exclude) r->failed = st;
    r->g = g;
    r->json = old;
    fxi_gram_free(&own);
    return exclude;
}

static bool arrays_exclude(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b)
{
    const uint32_t least_a = fxi_schema_least(a, "minItems"),
                   least_b = fxi_schema_least(b, "minItems");
    const uint32_t n = least_a > least_b ? least_a : least_b;
    bool exclude =
        fxi_schema_most(a, "maxItems") < least_b || fxi_schema_most(b, "maxItems") < least_a;
    for (uint32_t i = 0; !exclude && !r->failed && i < n; i++) {
        const fxi_schema_set x = fxi_schema_element(r, a, i), y = fxi_schema_element(r, b, i);
        exclude = fxi_schema_exclude(r, &x, &y);
    }
    return exclude;
}

// Whether a member that `a` requires cannot satisfy both.
static bool members_exclude(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b)
{
    const fxi_json *names;
    bool exclude = false;
    for (const fxi_json *s = NULL; (s = fxi_schema_next(a, "required", s, &names));)
        for (size_t i = 0; !exclude && i < fxi_json_array_size(names); i++) {
            const char *name = fxi_json_text(fxi_json_at(names, i));
            const fxi_schema_set x = fxi_schema_member(r, a, name),
                                 y = fxi_schema_member(r, b, name);
            exclude = fxi_schema_exclude(r, &x, &y);
        }
    return exclude;
}

static bool lists_exclude(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b)
{
    const unsigned both = fxi_schema_types_of(a) & fxi_schema_types_of(b) & FXI_SCHEMA_ALL;
    if (!both || values_exclude(r, a, b) || values_exclude(r, b, a)) return true;
    if (both & (FXI_SCHEMA_NULL | FXI_SCHEMA_BOOL)) return false;
    return (!(both & FXI_SCHEMA_NUMBER) || fxi_schema_is_below(a, b) ||
            fxi_schema_is_below(b, a)) &&
           (!(both & FXI_SCHEMA_STRING) || strings_exclude(r, a, b)) &&
           (!(both & FXI_SCHEMA_ARRAY) || arrays_exclude(r, a, b)) &&
           (!(both & FXI_SCHEMA_OBJECT) || members_exclude(r, a, b) || members_exclude(r, b, a));
}

bool fxi_schema_exclude(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b)
{
    bool exclude = true;
    if (r->failed || r->depth >= FXI_SCHEMA_MAX_DEPTH) return false;
    r->depth++;
    fxi_schema_charge(r, 1);
    const fxi_schema_lists x = fxi_schema_expand(r, a), y = fxi_schema_expand(r, b);
    for (size_t i = 0; exclude && i < x.n; i++)
        for (size_t k = 0; exclude && !r->failed && k < y.n; k++) {
            fxi_schema_charge(r, 1);
            exclude = lists_exclude(r, &x.at[i], &y.at[k]);
        }
    r->depth--;
    return exclude;
}
