// schema_value.c - enum and const: the values that the rest of the schema allows, spelled as they
// stand there; and whether a value satisfies a set.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text/utf8.h"
#include "grammar/read/gram_chars.h"
#include "grammar/read/gram_regex.h"
#include "grammar/schema/schema_parts.h"

// ---- equal values -------------------------------------------------------------------------------

static bool equals_value(const json_t *a, const json_t *b);

static bool equals_members(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *v;
    bool same = json_object_size(a) == json_object_size(b);
    json_object_foreach((json_t *)a, key, v)
    {
        const json_t *other = json_object_get(b, key);
        same = same && other && equals_value(v, other);
    }
    return same;
}

static bool equals_elements(const json_t *a, const json_t *b)
{
    size_t i = 0;
    if (json_array_size(a) != json_array_size(b)) return false;
    while (i < json_array_size(a) && equals_value(json_array_get(a, i), json_array_get(b, i))) i++;
    return i == json_array_size(a);
}

// Numbers are equal by value: 1 and 1.0 are.
static bool equals_value(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) == json_integer_value(b);
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b)) return false;
    if (json_is_object(a)) return equals_members(a, b);
    if (json_is_array(a)) return equals_elements(a, b);
    return !json_is_string(a) || !strcmp(json_string_value(a), json_string_value(b));
}

static bool has_value(const json_t *list, const json_t *v)
{
    size_t i = 0;
    while (i < json_array_size(list) && !equals_value(json_array_get(list, i), v)) i++;
    return i < json_array_size(list);
}

// ---- whether a value is valid -------------------------------------------------------------------

static unsigned type_of_value(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_NULL: return FXI_SCHEMA_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return FXI_SCHEMA_BOOL;
    case JSON_INTEGER:
    case JSON_REAL: return FXI_SCHEMA_NUMBER;
    case JSON_STRING: return FXI_SCHEMA_STRING;
    case JSON_ARRAY: return FXI_SCHEMA_ARRAY;
    case JSON_OBJECT: return FXI_SCHEMA_OBJECT;
    }
    return 0;
}

static bool is_in_bound(const json_t *s, const char *keyword, double v, int sign, bool strict)
{
    const json_t *bound = json_object_get(s, keyword);
    const double far = bound ? sign * (v - json_number_value(bound)) : 1;
    return strict ? far > 0 : far >= 0;
}

static bool fits_number(const json_t *s, const json_t *value)
{
    const double v = json_number_value(value);
    const json_t *m = json_object_get(s, "multipleOf");
    const double times = m ? v / json_number_value(m) : 0;
    return is_in_bound(s, "minimum", v, 1, false) && is_in_bound(s, "maximum", v, -1, false) &&
           is_in_bound(s, "exclusiveMinimum", v, 1, true) &&
           is_in_bound(s, "exclusiveMaximum", v, -1, true) && fabs(times - round(times)) < 1e-9;
}

static bool fits_count(const fxi_schema_set *list, const char *least, const char *most, size_t n)
{
    const uint32_t max = fxi_schema_most(list, most);
    return n >= fxi_schema_least(list, least) && (n <= max || max == FXI_GRAM_NO_MAX);
}

static fx_status fits_string(fxi_schema *r, const fxi_schema_set *list, const json_t *value,
                             bool *out)
{
    const char *text = json_string_value(value);
    const json_t *v;
    *out =
        fits_count(list, "minLength", "maxLength", fxi_utf8_count(text, json_string_length(value)));
    for (const json_t *s = NULL; *out && (s = fxi_schema_next(list, "pattern", s, &v));) {
        const fxi_schema_text cond = {.at = s, .pattern = json_string_value(v)};
        FX_TRY(fxi_schema_matches(r, &cond, text, out));
    }
    for (const json_t *s = NULL; *out && (s = fxi_schema_next(list, "format", s, &v));) {
        const fxi_schema_text cond = {.at = s, .whole = fxi_regex_of_format(json_string_value(v))};
        if (cond.whole) FX_TRY(fxi_schema_matches(r, &cond, text, out));
    }
    return FX_OK;
}

static fx_status fits_array(fxi_schema *r, const fxi_schema_set *list, const json_t *value,
                            bool *out)
{
    const size_t n = json_array_size(value);
    *out = fits_count(list, "minItems", "maxItems", n);
    for (size_t i = 0; *out && i < n; i++) {
        fxi_schema_bag b = {0};
        FX_TRY(fxi_schema_element(r, list, i, &b));
        FX_TRY(fxi_schema_accepts(r, json_array_get(value, i), &b.set, out));
    }
    return FX_OK;
}

static bool has_required(const fxi_schema_set *list, const json_t *value)
{
    const json_t *names;
    for (const json_t *s = NULL; (s = fxi_schema_next(list, "required", s, &names));)
        for (size_t i = 0; i < json_array_size(names); i++)
            if (!json_object_get(value, json_string_value(json_array_get(names, i)))) return false;
    return true;
}

static fx_status fits_object(fxi_schema *r, const fxi_schema_set *list, const json_t *value,
                             bool *out)
{
    const char *key;
    json_t *v;
    *out = has_required(list, value) &&
           fits_count(list, "minProperties", "maxProperties", json_object_size(value));
    json_object_foreach((json_t *)value, key, v)
    {
        fxi_schema_bag b = {0};
        if (!*out) break;
        FX_TRY(fxi_schema_member(r, list, key, &b));
        FX_TRY(fxi_schema_accepts(r, v, &b.set, out));
    }
    return FX_OK;
}

// Whether each const and enum has it, but for the enum that it comes from.
static fx_status fits_values(fxi_schema *r, const fxi_schema_set *list, const json_t *value,
                             const json_t *source, bool *out)
{
    const json_t *v;
    *out = true;
    for (const json_t *s = NULL; *out && (s = fxi_schema_next(list, "const", s, &v));)
        *out = equals_value(v, value);
    for (const json_t *s = NULL; *out && (s = fxi_schema_next(list, "enum", s, &v));) {
        if (v == source) continue;
        FX_TRY(fxi_schema_work(r, json_array_size(v) / FXI_SCHEMA_LOOKS));
        *out = has_value(v, value);
    }
    return FX_OK;
}

static bool is_whole_number(const json_t *v)
{
    return json_is_integer(v) || json_real_value(v) == floor(json_real_value(v));
}

static fx_status fits_list(fxi_schema *r, const fxi_schema_set *list, const json_t *value,
                           const json_t *source, bool *out)
{
    const unsigned types = fxi_schema_types_of(list), type = type_of_value(value);
    *out = types & type;
    if (*out) FX_TRY(fits_values(r, list, value, source, out));
    if (type == FXI_SCHEMA_NUMBER) {
        if (types & FXI_SCHEMA_WHOLE) *out = *out && is_whole_number(value);
        for (size_t i = 0; *out && i < list->n; i++) *out = fits_number(list->at[i], value);
    }
    if (!*out) return FX_OK;
    if (type == FXI_SCHEMA_STRING) return fits_string(r, list, value, out);
    if (type == FXI_SCHEMA_ARRAY) return fits_array(r, list, value, out);
    return type == FXI_SCHEMA_OBJECT ? fits_object(r, list, value, out) : FX_OK;
}

fx_status fxi_schema_accepts(fxi_schema *r, const json_t *value, const fxi_schema_set *set,
                             bool *out)
{
    fxi_schema_lists lists;
    *out = false;
    FX_TRY(fxi_schema_work(r, 1));
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

static fx_status spell_value(fxi_schema *r, const json_t *v, uint32_t *node);

static uint32_t mark_node(fxi_schema *r, const char *s)
{
    return fxi_gram_text(r->g, s, strlen(s));
}

static fx_status spell_string(fxi_schema *r, const char *s, uint32_t *node)
{
    uint32_t text = 0;
    if (!fxi_gram_spell(r->g, fxi_str_of(s), FXI_SPELL_JSON, &text)) return fxi_schema_no_memory(r);
    const uint32_t part[] = {mark_node(r, "\""), text, mark_node(r, "\"")};
    *node = fxi_gram_seq(r->g, part, 3);
    return FX_OK;
}

// The shortest digits that are read as the same number.
static uint32_t spell_number(fxi_schema *r, const json_t *v)
{
    char s[40];
    const double d = json_real_value(v);
    if (json_is_integer(v)) snprintf(s, sizeof s, "%lld", (long long)json_integer_value(v));
    for (int digits = 15; json_is_real(v) && digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, d);
        if (strtod(s, NULL) == d) break;
    }
    return mark_node(r, s);
}

static fx_status spell_members(fxi_schema *r, const json_t *v, fxi_schema_ways *w)
{
    const char *key;
    json_t *member;
    bool is_first = true;
    json_object_foreach((json_t *)v, key, member)
    {
        uint32_t name = 0, value = 0;
        FX_TRY(spell_string(r, key, &name));
        FX_TRY(spell_value(r, member, &value));
        const uint32_t part[] = {mark_node(r, is_first ? "" : ","),
                                 r->json->space,
                                 name,
                                 r->json->space,
                                 mark_node(r, ":"),
                                 r->json->space,
                                 value};
        FX_TRY(fxi_schema_way(r, w, fxi_gram_seq(r->g, part, 7)));
        is_first = false;
    }
    return FX_OK;
}

static fx_status spell_elements(fxi_schema *r, const json_t *v, fxi_schema_ways *w)
{
    for (size_t i = 0; i < json_array_size(v); i++) {
        uint32_t value = 0;
        FX_TRY(spell_value(r, json_array_get(v, i), &value));
        const uint32_t part[] = {mark_node(r, i ? "," : ""), r->json->space, value, r->json->space};
        FX_TRY(fxi_schema_way(r, w, fxi_gram_seq(r->g, part, 4)));
    }
    return FX_OK;
}

static fx_status spell_value(fxi_schema *r, const json_t *v, uint32_t *node)
{
    fxi_schema_ways w = {0};
    if (json_is_string(v)) return spell_string(r, json_string_value(v), node);
    if (json_is_number(v)) *node = spell_number(r, v);
    if (json_is_null(v)) *node = mark_node(r, "null");
    if (json_is_boolean(v)) *node = mark_node(r, json_is_true(v) ? "true" : "false");
    if (!json_is_object(v) && !json_is_array(v)) return FX_OK;
    FX_TRY(json_is_object(v) ? spell_members(r, v, &w) : spell_elements(r, v, &w));
    const uint32_t part[] = {mark_node(r, json_is_object(v) ? "{" : "["),
                             fxi_gram_seq(r->g, w.node, w.n), r->json->space,
                             mark_node(r, json_is_object(v) ? "}" : "]")};
    *node = fxi_gram_seq(r->g, part, 4);
    return FX_OK;
}

// ---- the values of a list -----------------------------------------------------------------------

bool fxi_schema_has_values(const fxi_schema_set *list)
{
    const json_t *v;
    return fxi_schema_next(list, "const", NULL, &v) || fxi_schema_next(list, "enum", NULL, &v);
}

static fx_status add_spelled(fxi_schema *r, const fxi_schema_set *list, const json_t *v,
                             const json_t *source, fxi_schema_ways *w)
{
    bool fits;
    uint32_t node = 0;
    FX_TRY(fxi_schema_work(r, 1));
    FX_TRY(fits_list(r, list, v, source, &fits));
    if (!fits) return FX_OK;
    FX_TRY(spell_value(r, v, &node));
    return fxi_schema_way(r, w, node);
}

fx_status fxi_schema_values(fxi_schema *r, const fxi_schema_set *list, fxi_schema_ways *w)
{
    const json_t *v;
    if (fxi_schema_next(list, "const", NULL, &v)) return add_spelled(r, list, v, NULL, w);
    if (!fxi_schema_next(list, "enum", NULL, &v)) return FX_OK;
    for (size_t i = 0; i < json_array_size(v); i++)
        FX_TRY(add_spelled(r, list, json_array_get(v, i), v, w));
    return FX_OK;
}
