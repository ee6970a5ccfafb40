// schema_apart.c - whether two sets exclude each other: by type, by their values, by ranges and
// texts, by an element or a member that both must have. "No" may also mean that it is not known.
#include "grammar/schema/schema_parts.h"

static fx_status sets_apart(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                            bool *out);

// Whether none of the values of a satisfies b.
static fx_status values_apart(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                              bool *out)
{
    const json_t *v, *list = NULL;
    bool fits = false;
    *out = false;
    if (!fxi_schema_next(a, "const", NULL, &v) && !fxi_schema_next(a, "enum", NULL, &list))
        return FX_OK;
    const size_t n = list ? json_array_size(list) : 1;
    for (size_t i = 0; !fits && i < n; i++)
        FX_TRY(fxi_schema_accepts(r, list ? json_array_get(list, i) : v, b, &fits));
    *out = !fits;
    return FX_OK;
}

static double strictest_bound(const fxi_schema_set *list, const char *keyword, int sign,
                              bool *found)
{
    double best = 0;
    const json_t *v;
    for (const json_t *s = NULL; (s = fxi_schema_next(list, keyword, s, &v));) {
        const double x = json_number_value(v);
        if (!*found || sign * (x - best) > 0) best = x;
        *found = true;
    }
    return best;
}

// Whether all numbers of a are below those of b.
static bool is_range_below(const fxi_schema_set *a, const fxi_schema_set *b)
{
    static const char *const highs[] = {"maximum", "exclusiveMaximum"}, *const lows[] = {
                                                                            "minimum",
                                                                            "exclusiveMinimum"};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            bool has_high = false, has_low = false;
            const double high = strictest_bound(a, highs[i], -1, &has_high),
                         low = strictest_bound(b, lows[k], 1, &has_low);
            if (has_high && has_low && (i || k ? high <= low : high < low)) return true;
        }
    return false;
}

static bool counts_apart(const fxi_schema_set *a, const fxi_schema_set *b, const char *least,
                         const char *most)
{
    return fxi_schema_most(a, most) < fxi_schema_least(b, least) ||
           fxi_schema_most(b, most) < fxi_schema_least(a, least);
}

// Whether no string satisfies both: their texts are written to a form of their own.
static fx_status strings_apart(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                               bool *out)
{
    fxi_gram own = {0}, *const g = r->g;
    fxi_gram_json json;
    const fxi_gram_json *const old = r->json;
    fxi_schema_bag both = {0};
    fxi_schema_ways w = {0};
    fx_status st = fxi_gram_json_add(&own, &json, r->err);
    for (size_t i = 0; !st && i < a->n; i++) st = fxi_schema_put(r, &both, a->at[i]);
    for (size_t i = 0; !st && i < b->n; i++) st = fxi_schema_put(r, &both, b->at[i]);
    r->g = &own;
    r->json = &json;
    if (!st) st = fxi_schema_strings(r, &both.set, &w);
    if (!st) {
        const uint32_t all = fxi_gram_alt(&own, w.node, w.n);
        st = fxi_gram_finish(&own, all, r->err);
        *out = st == FX_EINVAL && own.n_node && !own.node[all].productive;
        if (*out) st = FX_OK;
    }
    r->g = g;
    r->json = old;
    fxi_gram_free(&own);
    return st;
}

static fx_status arrays_apart(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                              bool *out)
{
    const uint32_t least_a = fxi_schema_least(a, "minItems"),
                   least_b = fxi_schema_least(b, "minItems");
    const uint32_t n = least_a > least_b ? least_a : least_b;
    *out = counts_apart(a, b, "minItems", "maxItems");
    for (uint32_t i = 0; !*out && i < n; i++) {
        fxi_schema_bag x = {0}, y = {0};
        FX_TRY(fxi_schema_element(r, a, i, &x));
        FX_TRY(fxi_schema_element(r, b, i, &y));
        FX_TRY(sets_apart(r, &x.set, &y.set, out));
    }
    return FX_OK;
}

// Whether a member that `a` requires cannot be what both say of it.
static fx_status members_apart(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                               bool *out)
{
    const json_t *names;
    for (const json_t *s = NULL; (s = fxi_schema_next(a, "required", s, &names));)
        for (size_t i = 0; !*out && i < json_array_size(names); i++) {
            const char *name = json_string_value(json_array_get(names, i));
            fxi_schema_bag x = {0}, y = {0};
            FX_TRY(fxi_schema_member(r, a, name, &x));
            FX_TRY(fxi_schema_member(r, b, name, &y));
            FX_TRY(sets_apart(r, &x.set, &y.set, out));
        }
    return FX_OK;
}

static fx_status objects_apart(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                               bool *out)
{
    *out = false;
    FX_TRY(members_apart(r, a, b, out));
    return *out ? FX_OK : members_apart(r, b, a, out);
}

static fx_status lists_apart(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                             bool *out)
{
    const unsigned both = fxi_schema_types_of(a) & fxi_schema_types_of(b) & FXI_SCHEMA_ALL;
    *out = !both;
    if (!*out) FX_TRY(values_apart(r, a, b, out));
    if (!*out) FX_TRY(values_apart(r, b, a, out));
    if (*out || both & (FXI_SCHEMA_NULL | FXI_SCHEMA_BOOL)) return FX_OK;
    *out = !(both & FXI_SCHEMA_NUMBER) || is_range_below(a, b) || is_range_below(b, a);
    if (*out && both & FXI_SCHEMA_STRING) FX_TRY(strings_apart(r, a, b, out));
    if (*out && both & FXI_SCHEMA_ARRAY) FX_TRY(arrays_apart(r, a, b, out));
    if (*out && both & FXI_SCHEMA_OBJECT) FX_TRY(objects_apart(r, a, b, out));
    return FX_OK;
}

static fx_status all_lists_apart(fxi_schema *r, const fxi_schema_lists *a,
                                 const fxi_schema_lists *b, bool *out)
{
    *out = true;
    for (size_t i = 0; *out && i < a->n; i++)
        for (size_t k = 0; *out && k < b->n; k++) {
            FX_TRY(fxi_schema_work(r, 1));
            FX_TRY(lists_apart(r, &a->at[i], &b->at[k], out));
        }
    return FX_OK;
}

static fx_status sets_apart(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b,
                            bool *out)
{
    fxi_schema_lists x, y;
    *out = false;
    if (r->depth >= FXI_SCHEMA_MAX_DEPTH) return FX_OK;
    r->depth++;
    FX_TRY(fxi_schema_work(r, 1));
    FX_TRY(fxi_schema_expand(r, a, &x));
    FX_TRY(fxi_schema_expand(r, b, &y));
    FX_TRY(all_lists_apart(r, &x, &y, out));
    r->depth--;
    return FX_OK;
}

fx_status fxi_schema_apart(fxi_schema *r, const json_t *a, const json_t *b, bool *out)
{
    const fxi_schema_set x = {&a, 1}, y = {&b, 1};
    return sets_apart(r, &x, &y, out);
}
