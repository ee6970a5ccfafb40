// schema_object.c - arrays: elements by position, then all others; objects: the named members in
// their order, then all others.
//
// Between two members there is a comma, so what may follow depends on whether a member precedes.
// From the last member to the first, two nodes say what may follow: if none precedes, and if some
// do.
#include <stdlib.h>

#include "grammar/schema/schema_impl.h"

enum { MAX_PREFIX = 4096, MAX_NAME = 4096, MAX_PATTERN = 3 };

// ---- arrays -------------------------------------------------------------------------------------

fxi_schema_set fxi_schema_element(fxi_schema *r, const fxi_schema_set *list, size_t at)
{
    fxi_schema_bag b = {0};
    for (size_t i = 0; i < list->n; i++) {
        const fxi_json *prefix = fxi_json_get(list->at[i], "prefixItems"),
                       *items = fxi_json_get(list->at[i], "items"),
                       *s = at < fxi_json_array_size(prefix) ? fxi_json_at(prefix, at) : items;
        if (s) fxi_schema_put(r, &b, s);
    }
    return b.set;
}

static size_t longest_prefix(const fxi_schema_set *list)
{
    size_t n = 0;
    const fxi_json *v;
    for (const fxi_json *s = NULL; (s = fxi_schema_next(list, "prefixItems", s, &v));)
        if (fxi_json_array_size(v) > n) n = fxi_json_array_size(v);
    return n;
}

static uint32_t element_node(fxi_schema *r, const fxi_schema_set *list, size_t at)
{
    const fxi_schema_set element = fxi_schema_element(r, list, at);
    return fxi_schema_node(r, &element);
}

// What may follow n elements of the prefix: elements by `items`.
static uint32_t others_node(fxi_schema *r, const fxi_schema_set *list, uint32_t n, uint32_t min,
                            uint32_t max)
{
    const uint32_t item = element_node(r, list, n);
    const uint32_t space = r->json->space;
    const uint32_t next = FXI_SEQ_OF(r->g, fxi_gram_str(r->g, ","), space, item, space);
    const uint32_t left = max == FXI_GRAM_NO_MAX ? max : max - n, least = min > n ? min - n : 0;
    if (n) return fxi_gram_repeat(r->g, next, least, left);
    const uint32_t most_more = left == FXI_GRAM_NO_MAX ? left : left ? left - 1 : 0;
    const uint32_t more = fxi_gram_repeat(r->g, next, least ? least - 1 : 0, most_more);
    return fxi_gram_repeat(r->g, FXI_SEQ_OF(r->g, item, space, more), least > 0, left > 0);
}

// From the last element of the prefix to the first: each is followed by nothing or by the next.
static uint32_t elements_node(fxi_schema *r, const fxi_schema_set *list, uint32_t min, uint32_t max)
{
    const size_t n_prefix = longest_prefix(list);
    const uint32_t n = n_prefix < max ? (uint32_t)n_prefix : max;
    uint32_t node = n == max ? fxi_gram_text(r->g, NULL, 0) : others_node(r, list, n, min, max);
    for (uint32_t i = n; i-- > 0;) {
        const uint32_t item = element_node(r, list, i);
        const uint32_t element = FXI_SEQ_OF(r->g, item, r->json->space, node);
        const uint32_t next = FXI_SEQ_OF(r->g, fxi_gram_str(r->g, ","), r->json->space, element);
        node = fxi_gram_repeat(r->g, i ? next : element, i < min, 1);
    }
    return node;
}

void fxi_schema_arrays(fxi_schema *r, const fxi_schema_set *list, fxi_schema_alts *alts)
{
    const uint32_t min = fxi_schema_least(list, "minItems"),
                   max = fxi_schema_most(list, "maxItems");
    if (min > max) return;
    if (longest_prefix(list) > MAX_PREFIX) {
        fxi_schema_refuse(r, list->at[0], "\"prefixItems\" with more than %d schemas", MAX_PREFIX);
        return;
    }
    const uint32_t all = elements_node(r, list, min, max);
    fxi_schema_add_alt(
        r, alts,
        FXI_SEQ_OF(r->g, fxi_gram_str(r->g, "["), r->json->space, all, fxi_gram_str(r->g, "]")));
}

typedef struct member_list { // in the arena, with room for all there may be
    const char **name;       // [n]
    bool *is_required;       // [n]
    size_t n;
} member_list;

// ---- what a member must satisfy -----------------------------------------------------------------

// Adds what one schema says of a member with this name.
static void put_member(fxi_schema *r, const fxi_json *s, const char *name, fxi_schema_bag *out)
{
    const fxi_json *own = fxi_json_get(fxi_json_get(s, "properties"), name),
                   *other = fxi_json_get(s, "additionalProperties");
    bool is_named = own != NULL;
    if (own) fxi_schema_put(r, out, own);
    for (fxi_json_iter it = fxi_json_members(fxi_json_get(s, "patternProperties"));
         fxi_json_next(&it);) {
        const fxi_schema_text cond = {.at = s, .pattern = it.key};
        if (!fxi_schema_matches(r, &cond, name)) continue;
        is_named = true;
        fxi_schema_put(r, out, it.value);
    }
    if (!is_named && other) fxi_schema_put(r, out, other);
}

fxi_schema_set fxi_schema_member(fxi_schema *r, const fxi_schema_set *list, const char *name)
{
    fxi_schema_bag b = {0};
    for (size_t i = 0; i < list->n; i++) put_member(r, list->at[i], name, &b);
    return b.set;
}

// ---- names --------------------------------------------------------------------------------------

static void put_member_name(fxi_schema *r, const fxi_schema_set *list, member_list *m,
                            const char *name, bool is_required)
{
    size_t i = 0;
    while (i < m->n && strcmp(m->name[i], name) != 0) i++;
    if (i == MAX_NAME) {
        fxi_schema_refuse(r, list->at[0], "more than %d names of members", MAX_NAME);
        return;
    }
    m->name[i] = name;
    m->is_required[i] |= is_required;
    if (i == m->n) m->n++;
}

// At most so many; names that occur twice are counted twice.
static size_t most_member_names(const fxi_schema_set *list)
{
    size_t n = 1;
    const fxi_json *v;
    for (const fxi_json *s = NULL; (s = fxi_schema_next(list, "properties", s, &v));)
        n += fxi_json_object_size(v);
    for (const fxi_json *s = NULL; (s = fxi_schema_next(list, "required", s, &v));)
        n += fxi_json_array_size(v);
    return n < MAX_NAME ? n : MAX_NAME;
}

static member_list list_member_names(fxi_schema *r, const fxi_schema_set *list)
{
    const fxi_json *v;
    const size_t most = most_member_names(list);
    member_list m = {.name = fxi_schema_alloc(r, most, sizeof *m.name),
                     .is_required = fxi_schema_alloc(r, most, sizeof *m.is_required)};
    if (r->failed) return m;
    for (const fxi_json *s = NULL; (s = fxi_schema_next(list, "properties", s, &v));) {
        for (fxi_json_iter it = fxi_json_members(v); fxi_json_next(&it);)
            put_member_name(r, list, &m, it.key, false);
    }
    for (const fxi_json *s = NULL; (s = fxi_schema_next(list, "required", s, &v));)
        for (size_t i = 0; i < fxi_json_array_size(v); i++)
            put_member_name(r, list, &m, fxi_json_text(fxi_json_at(v, i)), true);
    return m;
}

// "name": value, with space after it.
static uint32_t pair_node(fxi_schema *r, uint32_t name, uint32_t value)
{
    const uint32_t pad = r->json->pad, quote = fxi_gram_str(r->g, "\"");
    return FXI_SEQ_OF(r->g, quote, name, quote, pad, fxi_gram_str(r->g, ":"), pad, value,
                      r->json->space);
}

static uint32_t named_node(fxi_schema *r, const fxi_schema_set *list, const char *name)
{
    const fxi_schema_text cond = {.name = &name, .n_name = 1};
    const fxi_schema_set member = fxi_schema_member(r, list, name);
    const uint32_t value = fxi_schema_node(r, &member);
    return pair_node(r, fxi_schema_texts(r, &cond, 1), value);
}

// ---- all other members --------------------------------------------------------------------------

typedef struct other_patterns {
    const char *pattern[MAX_PATTERN];
    const fxi_json *at[MAX_PATTERN];
    size_t n;
} other_patterns;

static other_patterns list_patterns(fxi_schema *r, const fxi_schema_set *list)
{
    other_patterns p = {.n = 0};
    const fxi_json *v;
    for (const fxi_json *s = NULL; (s = fxi_schema_next(list, "patternProperties", s, &v));) {
        for (fxi_json_iter it = fxi_json_members(v); fxi_json_next(&it);) {
            size_t i = 0;
            while (i < p.n && strcmp(p.pattern[i], it.key) != 0) i++;
            if (i < p.n) continue;
            if (p.n == MAX_PATTERN) {
                fxi_schema_refuse(r, s, "\"patternProperties\" with more than %d patterns",
                                  MAX_PATTERN);
                return p;
            }
            p.pattern[p.n] = it.key;
            p.at[p.n++] = s;
        }
    }
    return p;
}

// What a member must satisfy whose name fits exactly these patterns.
static fxi_schema_set put_fitting(fxi_schema *r, const fxi_schema_set *list,
                                  const other_patterns *p, unsigned fits)
{
    fxi_schema_bag b = {0};
    for (size_t i = 0; i < list->n; i++) {
        const fxi_json *map = fxi_json_get(list->at[i], "patternProperties"),
                       *other = fxi_json_get(list->at[i], "additionalProperties");
        bool is_named = false;
        for (size_t k = 0; k < p->n; k++) {
            const fxi_json *v = fits >> k & 1 ? fxi_json_get(map, p->pattern[k]) : NULL;
            if (!v) continue;
            is_named = true;
            fxi_schema_put(r, &b, v);
        }
        if (!is_named && other) fxi_schema_put(r, &b, other);
    }
    return b.set;
}

// Members whose names fit exactly these patterns and are not in `properties` or `required`.
static void add_fitting(fxi_schema *r, const fxi_schema_set *list, const other_patterns *p,
                        const member_list *m, unsigned fits, fxi_schema_alts *alts)
{
    const fxi_schema_set member = put_fitting(r, list, p, fits);
    fxi_schema_text cond[MAX_PATTERN + 1];
    size_t n = 0;
    if (fxi_schema_has(&member, fxi_json_bool(false))) return;
    for (size_t k = 0; k < p->n; k++)
        cond[n++] =
            (fxi_schema_text){.at = p->at[k], .pattern = p->pattern[k], .is_not = !(fits >> k & 1)};
    if (m->n)
        cond[n++] =
            (fxi_schema_text){.at = list->at[0], .name = m->name, .n_name = m->n, .is_not = true};
    const uint32_t value = fxi_schema_node(r, &member);
    fxi_schema_add_alt(r, alts, pair_node(r, fxi_schema_texts(r, cond, n), value));
}

// 0: there are none.
static uint32_t other_node(fxi_schema *r, const fxi_schema_set *list, const member_list *m)
{
    const other_patterns p = list_patterns(r, list);
    fxi_schema_alts alts = {0};
    for (unsigned fits = 0; fits < 1u << p.n; fits++) add_fitting(r, list, &p, m, fits, &alts);
    return alts.n ? fxi_gram_alt(r->g, alts.node, alts.n) : 0;
}

// ---- objects ------------------------------------------------------------------------------------

typedef struct member_counts {
    uint32_t min, max;
} member_counts;

// minProperties and maxProperties are supported where no member is named; elsewhere they must
// follow from the members that are required and named.
static member_counts count_others(fxi_schema *r, const fxi_schema_set *list, const member_list *m,
                                  uint32_t other)
{
    const member_counts c = {fxi_schema_least(list, "minProperties"),
                             fxi_schema_most(list, "maxProperties")};
    uint32_t n_required = 0;
    for (size_t i = 0; i < m->n; i++) n_required += m->is_required[i];
    if (!m->n) return c;
    if (c.min > n_required)
        fxi_schema_refuse(r, list->at[0], "\"minProperties\" together with named members");
    if (c.max != FXI_GRAM_NO_MAX && (other || c.max < m->n))
        fxi_schema_refuse(r, list->at[0], "\"maxProperties\" together with named members");
    return (member_counts){0, FXI_GRAM_NO_MAX};
}

// Members of an object from the i-th on: if none precedes, and if some do.
typedef struct rest_nodes {
    uint32_t first, later;
} rest_nodes;

static rest_nodes others_rest(fxi_schema *r, uint32_t other, member_counts c)
{
    const uint32_t empty = fxi_gram_str(r->g, "");
    if (!other || !c.max) return (rest_nodes){c.min ? 0 : empty, empty};
    const uint32_t most_more = c.max == FXI_GRAM_NO_MAX ? c.max : c.max - 1;
    const uint32_t more = FXI_SEQ_OF(r->g, fxi_gram_str(r->g, ","), r->json->space, other);
    const uint32_t all =
        FXI_SEQ_OF(r->g, other, fxi_gram_repeat(r->g, more, c.min ? c.min - 1 : 0, most_more));
    return (rest_nodes){fxi_gram_repeat(r->g, all, c.min > 0, 1),
                        fxi_gram_repeat(r->g, more, 0, FXI_GRAM_NO_MAX)};
}

// The same with one more member before them, which may be left out unless it is required.
static rest_nodes with_member(fxi_schema *r, uint32_t member, bool is_required, rest_nodes rest)
{
    const uint32_t first = FXI_SEQ_OF(r->g, member, rest.later);
    const uint32_t later =
        FXI_SEQ_OF(r->g, fxi_gram_str(r->g, ","), r->json->space, member, rest.later);
    if (is_required) return (rest_nodes){first, later};
    return (rest_nodes){FXI_ALT_OF(r->g, first, rest.first), FXI_ALT_OF(r->g, later, rest.later)};
}

void fxi_schema_objects(fxi_schema *r, const fxi_schema_set *list, fxi_schema_alts *alts)
{
    const member_list m = list_member_names(r, list);
    const uint32_t other = other_node(r, list, &m);
    const member_counts c = count_others(r, list, &m, other);
    if (c.min > c.max) return;
    rest_nodes rest = others_rest(r, other, c);
    for (size_t i = m.n; i-- > 0;)
        rest = with_member(r, named_node(r, list, m.name[i]), m.is_required[i], rest);
    fxi_schema_add_alt(r, alts,
                       FXI_SEQ_OF(r->g, fxi_gram_str(r->g, "{"), r->json->space, rest.first,
                                  fxi_gram_str(r->g, "}")));
}
