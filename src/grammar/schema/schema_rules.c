// schema_rules.c - sets of schemas, each with a rule.
#include <stdlib.h>

#include "base/system/grow.h"
#include "grammar/schema/schema_parts.h"

enum { MAX_RULE = 20000, MAX_REF_CHAIN = 100 };

// ---- sets ---------------------------------------------------------------------------------------

bool fxi_schema_has(const fxi_schema_set *s, const json_t *schema)
{
    size_t i = 0;
    while (i < s->n && s->at[i] != schema) i++;
    return i < s->n;
}

fx_status fxi_schema_put(fxi_schema *r, fxi_schema_bag *b, const json_t *schema)
{
    if (fxi_schema_has(&b->set, schema)) return FX_OK;
    if (b->set.n == b->cap) {
        const size_t cap = b->cap ? 2 * b->cap : 4;
        const json_t **at = fxi_schema_take(r, cap, sizeof *at);
        if (!at) return fxi_schema_no_memory(r);
        if (b->set.n) memcpy(at, b->set.at, b->set.n * sizeof *at);
        b->set.at = at;
        b->cap = cap;
    }
    b->set.at[b->set.n++] = schema;
    return FX_OK;
}

fx_status fxi_schema_way(fxi_schema *r, fxi_schema_ways *w, uint32_t node)
{
    if (w->n == w->cap) {
        const size_t cap = 2 * w->cap + 8;
        uint32_t *more = fxi_schema_take(r, cap, sizeof *more);
        if (!more) return fxi_schema_no_memory(r);
        if (w->n) memcpy(more, w->node, w->n * sizeof *more);
        w->node = more;
        w->cap = cap;
    }
    w->node[w->n++] = node;
    return FX_OK;
}

static bool equals_set(const fxi_schema_set *a, const fxi_schema_set *b)
{
    size_t i = 0;
    if (a->n != b->n) return false;
    while (i < a->n && fxi_schema_has(b, a->at[i])) i++;
    return i == a->n;
}

static bool is_bare_ref(const json_t *s)
{
    static const char *const read_over[] = {"title", "description", "$comment", "default"};
    size_t n = json_object_get(s, "$ref") ? 1 : 0;
    for (size_t i = 0; n && i < sizeof read_over / sizeof *read_over; i++)
        n += json_object_get(s, read_over[i]) != NULL;
    return n && n == json_object_size(s);
}

// What the set says without `true` and with what bare references name, so that recursive schemas
// come back to the same set.
static fx_status simplify_set(fxi_schema *r, const fxi_schema_set *set, fxi_schema_set *out)
{
    fxi_schema_bag b = {0};
    for (size_t i = 0; i < set->n; i++) {
        const json_t *s = set->at[i];
        for (int k = 0; is_bare_ref(s) && k < MAX_REF_CHAIN; k++) {
            FX_TRY(fxi_schema_check(r, s));
            FX_TRY(fxi_schema_resolve(r, s, &s));
        }
        if (!json_is_true(s)) FX_TRY(fxi_schema_put(r, &b, s));
    }
    *out = b.set;
    return FX_OK;
}

fx_status fxi_schema_node(fxi_schema *r, fxi_schema_set *set, uint32_t *node)
{
    fxi_schema_set s;
    FX_TRY(simplify_set(r, set, &s));
    *node = r->json->value;
    if (!s.n) return FX_OK;
    for (size_t i = 0; i < r->n_rule; i++)
        if (equals_set(&r->rule[i].set, &s)) {
            *node = fxi_gram_ref(r->g, r->rule[i].rule);
            return FX_OK;
        }
    if (r->n_rule == MAX_RULE)
        return fxi_fail(r->err, FX_EINVAL, "schema: more than %d parts", MAX_RULE);
    if (!fxi_grow(&r->rule, sizeof *r->rule, r->n_rule, &r->cap_rule))
        return fxi_schema_no_memory(r);
    const uint32_t rule = fxi_gram_rule_add(r->g, fxi_str_of("a schema"));
    r->rule[r->n_rule++] = (fxi_schema_rule){s, rule};
    *node = fxi_gram_ref(r->g, rule);
    return FX_OK;
}
