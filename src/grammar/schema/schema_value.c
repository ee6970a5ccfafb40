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
    bool same = fxi_json_object_size(a) == fxi_json_object_size(b) &&
                fxi_json_array_size(a) == fxi_json_array_size(b); // 0 of other types
    for (size_t i = 0; same && i < fxi_json_array_size(a); i++)
        same = equals_value(fxi_json_at(a, i), fxi_json_at(b, i));
    for (fxi_json_iter it = fxi_json_members(a); fxi_json_next(&it);) {
        const fxi_json *other = fxi_json_get(b, it.key);
        same = same && other && equals_value(it.value, other);
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

static fx_status fits_string(fxi_schema *r, const fxi_schema_set *list, const fxi_json *value,
                             bool *out)
{
    const char *text = fxi_json_text(value);
    const fxi_json *v;
    *out =
        fits_count(list, "minLength", "maxLength", fxi_utf8_count(text, fxi_json_string(value).n));
    for (const fxi_json *s = NULL; *out && (s = fxi_schema_next(list, "pattern", s, &v));) {
        const fxi_schema_text cond = {.at = s, .pattern = fxi_json_text(v)};
        FX_TRY(fxi_schema_matches(r, &cond, text, out));
    }
    for (const fxi_json *s = NULL; *out && (s = fxi_schema_next(list, "format", s, &v));) {
        const fxi_schema_text cond = {.at = s, .whole = fxi_schema_format(fxi_json_text(v))};
        if (cond.whole) FX_TRY(fxi_schema_matches(r, &cond, text, out));
    }
    return FX_OK;
}

static fx_status fits_array(fxi_schema *r, const fxi_schema_set *list, const fxi_json *value,
                            bool *out)
{
    const size_t n = fxi_json_array_size(value);
    *out = fits_count(list, "minItems", "maxItems", n);
    for (size_t i = 0; *out && i < n; i++) {
        fxi_schema_bag b = {0};
        FX_TRY(fxi_schema_element(r, list, i, &b));
        FX_TRY(fxi_schema_accepts(r, fxi_json_at(value, i), &b.set, out));
    }
    return FX_OK;
}

static bool has_required(const fxi_schema_set *list, const fxi_json *value)
{
    const fxi_json *names;
    for (const fxi_json *s = NULL; (s = fxi_schema_next(list, "required", s, &names));)
        for (size_t i = 0; i < fxi_json_array_size(names); i++)
            if (!fxi_json_get(value, fxi_json_text(fxi_json_at(names, i)))) return false;
    return true;
}

static fx_status fits_object(fxi_schema *r, const fxi_schema_set *list, const fxi_json *value,
                             bool *out)
{
    *out = has_required(list, value) &&
           fits_count(list, "minProperties", "maxProperties", fxi_json_object_size(value));
    for (fxi_json_iter it = fxi_json_members(value); fxi_json_next(&it);) {
        fxi_schema_bag b = {0};
        if (!*out) break;
        FX_TRY(fxi_schema_member(r, list, it.key, &b));
        FX_TRY(fxi_schema_accepts(r, it.value, &b.set, out));
    }
    return FX_OK;
}

// Whether each const and enum has the value, except the enum that it comes from.
static fx_status fits_values(fxi_schema *r, const fxi_schema_set *list, const fxi_json *value,
                             const fxi_json *source, bool *out)
{
    const fxi_json *v;
    *out = true;
    for (const fxi_json *s = NULL; *out && (s = fxi_schema_next(list, "const", s, &v));)
        *out = equals_value(v, value);
    for (const fxi_json *s = NULL; *out && (s = fxi_schema_next(list, "enum", s, &v));) {
        if (v == source) continue;
        FX_TRY(fxi_schema_charge(r, fxi_json_array_size(v) / FXI_SCHEMA_LOOKS));
        *out = false;
        for (size_t i = 0; !*out && i < fxi_json_array_size(v); i++)
            *out = equals_value(fxi_json_at(v, i), value);
    }
    return FX_OK;
}

static fx_status fits_list(fxi_schema *r, const fxi_schema_set *list, const fxi_json *value,
                           const fxi_json *source, bool *out)
{
    const unsigned types = fxi_schema_types_of(list), type = type_of_value(value);
    *out = types & type;
    if (*out) FX_TRY(fits_values(r, list, value, source, out));
    if (type == FXI_SCHEMA_NUMBER) {
        if (types & FXI_SCHEMA_WHOLE && fxi_json_is_real(value))
            *out = *out && fxi_json_number(value) == floor(fxi_json_number(value));
        for (size_t i = 0; *out && i < list->n; i++) *out = fits_number(list->at[i], value);
    }
    if (!*out) return FX_OK;
    if (type == FXI_SCHEMA_STRING) return fits_string(r, list, value, out);
    if (type == FXI_SCHEMA_ARRAY) return fits_array(r, list, value, out);
    return type == FXI_SCHEMA_OBJECT ? fits_object(r, list, value, out) : FX_OK;
}

fx_status fxi_schema_accepts(fxi_schema *r, const fxi_json *value, const fxi_schema_set *set,
                             bool *out)
{
    fxi_schema_lists lists;
    *out = false;
    FX_TRY(fxi_schema_charge(r, 1));
    if (r->depth >= FXI_SCHEMA_MAX_DEPTH)
        return fxi_schema_refuse(r, value, "a value nested deeper than %d", FXI_SCHEMA_MAX_DEPTH);
    r->depth++;
    FX_TRY(fxi_schema_expand(r, set, &lists));
    for (size_t i = 0; !*out && i < lists.n; i++)
        FX_TRY(fits_list(r, &lists.at[i], value, NULL, out));
    r->depth--;
    return FX_OK;
}

// ---- spelling -----------------------------------------------------------------------------------

static fx_status spell_value(fxi_schema *r, const fxi_json *v, uint32_t *node);

static fx_status spell_string(fxi_schema *r, const char *s, uint32_t *node)
{
    const uint32_t text = fxi_gram_spell(r->g, fxi_str_of(s), FXI_SPELL_JSON);
    *node = FXI_SEQ_OF(r->g, fxi_gram_str(r->g, "\""), text, fxi_gram_str(r->g, "\""));
    return FX_OK;
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

static fx_status spell_members(fxi_schema *r, const fxi_json *v, fxi_schema_alts *alts)
{
    const uint32_t space = r->json->space;
    bool is_first = true;
    for (fxi_json_iter it = fxi_json_members(v); fxi_json_next(&it);) {
        uint32_t name = 0, value = 0;
        FX_TRY(spell_string(r, it.key, &name));
        FX_TRY(spell_value(r, it.value, &value));
        const uint32_t comma = fxi_gram_str(r->g, is_first ? "" : ",");
        FX_TRY(fxi_schema_add_alt(
            r, alts,
            FXI_SEQ_OF(r->g, comma, space, name, space, fxi_gram_str(r->g, ":"), space, value)));
        is_first = false;
    }
    return FX_OK;
}

static fx_status spell_elements(fxi_schema *r, const fxi_json *v, fxi_schema_alts *alts)
{
    const uint32_t space = r->json->space;
    for (size_t i = 0; i < fxi_json_array_size(v); i++) {
        uint32_t value = 0;
        FX_TRY(spell_value(r, fxi_json_at(v, i), &value));
        const uint32_t comma = fxi_gram_str(r->g, i ? "," : "");
        FX_TRY(fxi_schema_add_alt(r, alts, FXI_SEQ_OF(r->g, comma, space, value, space)));
    }
    return FX_OK;
}

static fx_status spell_value(fxi_schema *r, const fxi_json *v, uint32_t *node)
{
    fxi_schema_alts alts = {0};
    if (fxi_json_is_string(v)) return spell_string(r, fxi_json_text(v), node);
    if (fxi_json_is_number(v)) *node = spell_number(r, v);
    if (fxi_json_is_null(v)) *node = fxi_gram_str(r->g, "null");
    if (fxi_json_is_bool(v)) *node = fxi_gram_str(r->g, fxi_json_is_true(v) ? "true" : "false");
    if (!fxi_json_is_object(v) && !fxi_json_is_array(v)) return FX_OK;
    FX_TRY(fxi_json_is_object(v) ? spell_members(r, v, &alts) : spell_elements(r, v, &alts));
    *node = FXI_SEQ_OF(r->g, fxi_gram_str(r->g, fxi_json_is_object(v) ? "{" : "["),
                       fxi_gram_seq(r->g, alts.node, alts.n), r->json->space,
                       fxi_gram_str(r->g, fxi_json_is_object(v) ? "}" : "]"));
    return FX_OK;
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

fx_status fxi_schema_values(fxi_schema *r, const fxi_schema_set *list, fxi_schema_alts *alts)
{
    const fxi_json *v, *source = NULL; // of the values: no need to look there
    if (!fxi_schema_next(list, "const", NULL, &v))
        (void)fxi_schema_next(list, "enum", NULL, &source);
    for (size_t i = 0; (v = fxi_schema_listed(list, i)); i++) {
        bool fits;
        uint32_t node = 0;
        FX_TRY(fxi_schema_charge(r, 1));
        FX_TRY(fits_list(r, list, v, source, &fits));
        if (!fits) continue;
        FX_TRY(spell_value(r, v, &node));
        FX_TRY(fxi_schema_add_alt(r, alts, node));
    }
    return FX_OK;
}

// ---- sets that exclude each other ---------------------------------------------------------------
//
// By type, by their values, by ranges and texts, by an element or a member that both must have.
// "No" may also mean that it is not known.

// Whether a lists values and none of them satisfies b.
static fx_status values_exclude(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                                bool *out)
{
    const fxi_json *v;
    bool fits = !fxi_schema_has_values(a);
    for (size_t i = 0; !fits && (v = fxi_schema_listed(a, i)); i++)
        FX_TRY(fxi_schema_accepts(r, v, b, &fits));
    *out = !fits;
    return FX_OK;
}

// Whether no string satisfies both: their texts are written to a temporary grammar.
static fx_status strings_exclude(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                                 bool *out)
{
    fxi_gram own = {0}, *const g = r->g;
    fxi_gram_json json;
    const fxi_gram_json *const old = r->json;
    fxi_schema_bag both = {0};
    fxi_schema_alts alts = {0};
    fx_status st = fxi_gram_json_add(&own, &json, r->err);
    for (size_t i = 0; !st && i < a->n; i++) st = fxi_schema_put(r, &both, a->at[i]);
    for (size_t i = 0; !st && i < b->n; i++) st = fxi_schema_put(r, &both, b->at[i]);
    r->g = &own;
    r->json = &json;
    if (!st) st = fxi_schema_strings(r, &both.set, &alts);
    if (!st) {
        const uint32_t all = fxi_gram_alt(&own, alts.node, alts.n);
        st = fxi_gram_finish(&own, all, r->err);
        *out = st == FX_EINVAL && own.n_node && !own.node[all].productive;
        if (*out) st = FX_OK;
    }
    r->g = g;
    r->json = old;
    fxi_gram_free(&own);
    return st;
}

static fx_status arrays_exclude(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                                bool *out)
{
    const uint32_t least_a = fxi_schema_least(a, "minItems"),
                   least_b = fxi_schema_least(b, "minItems");
    const uint32_t n = least_a > least_b ? least_a : least_b;
    *out = fxi_schema_most(a, "maxItems") < least_b || fxi_schema_most(b, "maxItems") < least_a;
    for (uint32_t i = 0; !*out && i < n; i++) {
        fxi_schema_bag x = {0}, y = {0};
        FX_TRY(fxi_schema_element(r, a, i, &x));
        FX_TRY(fxi_schema_element(r, b, i, &y));
        FX_TRY(fxi_schema_exclude(r, &x.set, &y.set, out));
    }
    return FX_OK;
}

// Whether a member that `a` requires cannot satisfy both.
static fx_status members_exclude(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                                 bool *out)
{
    const fxi_json *names;
    for (const fxi_json *s = NULL; (s = fxi_schema_next(a, "required", s, &names));)
        for (size_t i = 0; !*out && i < fxi_json_array_size(names); i++) {
            const char *name = fxi_json_text(fxi_json_at(names, i));
            fxi_schema_bag x = {0}, y = {0};
            FX_TRY(fxi_schema_member(r, a, name, &x));
            FX_TRY(fxi_schema_member(r, b, name, &y));
            FX_TRY(fxi_schema_exclude(r, &x.set, &y.set, out));
        }
    return FX_OK;
}

static fx_status lists_exclude(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                               bool *out)
{
    const unsigned both = fxi_schema_types_of(a) & fxi_schema_types_of(b) & FXI_SCHEMA_ALL;
    *out = !both;
    if (!*out) FX_TRY(values_exclude(r, a, b, out));
    if (!*out) FX_TRY(values_exclude(r, b, a, out));
    if (*out || both & (FXI_SCHEMA_NULL | FXI_SCHEMA_BOOL)) return FX_OK;
    *out = !(both & FXI_SCHEMA_NUMBER) || fxi_schema_is_below(a, b) || fxi_schema_is_below(b, a);
    if (*out && both & FXI_SCHEMA_STRING) FX_TRY(strings_exclude(r, a, b, out));
    if (*out && both & FXI_SCHEMA_ARRAY) FX_TRY(arrays_exclude(r, a, b, out));
    if (*out && both & FXI_SCHEMA_OBJECT) {
        *out = false;
        FX_TRY(members_exclude(r, a, b, out));
        if (!*out) FX_TRY(members_exclude(r, b, a, out));
    }
    return FX_OK;
}

fx_status fxi_schema_exclude(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                             bool *out)
{
    fxi_schema_lists x, y;
    *out = false;
    if (r->depth >= FXI_SCHEMA_MAX_DEPTH) return FX_OK;
    r->depth++;
    FX_TRY(fxi_schema_charge(r, 1));
    FX_TRY(fxi_schema_expand(r, a, &x));
    FX_TRY(fxi_schema_expand(r, b, &y));
    *out = true;
    for (size_t i = 0; *out && i < x.n; i++)
        for (size_t k = 0; *out && k < y.n; k++) {
            FX_TRY(fxi_schema_charge(r, 1));
            FX_TRY(lists_exclude(r, &x.at[i], &y.at[k], out));
        }
    r->depth--;
    return FX_OK;
}
