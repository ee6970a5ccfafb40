// schema.c - sets of schemas to rules: a queue, so that nothing recurses over the schema's depth.
#include "grammar/schema/schema.h"

#include "base/system/grow.h"
#include "grammar/schema/schema_parts.h"

enum { MAX_RULE = 20000, SLAB_BYTES = 16 << 10, MAX_REF_CHAIN = 100 };

fx_status fxi_schema_no_memory(fxi_schema *r)
{
    return fxi_fail(r->err, FX_ENOMEM, "out of memory");
}

void *fxi_schema_take(fxi_schema *r, size_t n, size_t elem_bytes)
{
    void *p = fxi_arena_take(&r->arena, n * elem_bytes, SLAB_BYTES);
    if (p) memset(p, 0, n * elem_bytes);
    return p;
}

fx_status fxi_schema_work(fxi_schema *r, size_t n)
{
    if ((r->n_work += n) <= FXI_SCHEMA_MAX_WORK) return FX_OK;
    return fxi_fail(r->err, FX_EINVAL, "schema: its alternatives are too many to be written down");
}

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

// ---- rules --------------------------------------------------------------------------------------

static fx_status add_plain_types(fxi_schema *r, unsigned types, fxi_schema_ways *w)
{
    if (types & FXI_SCHEMA_NULL) FX_TRY(fxi_schema_way(r, w, fxi_gram_text(r->g, "null", 4)));
    if (!(types & FXI_SCHEMA_BOOL)) return FX_OK;
    FX_TRY(fxi_schema_way(r, w, fxi_gram_text(r->g, "true", 4)));
    return fxi_schema_way(r, w, fxi_gram_text(r->g, "false", 5));
}

static fx_status add_alternative(fxi_schema *r, const fxi_schema_set *list, fxi_schema_ways *w)
{
    const unsigned types = fxi_schema_types_of(list);
    if (fxi_schema_has_values(list)) return fxi_schema_values(r, list, w);
    FX_TRY(add_plain_types(r, types, w));
    if (types & FXI_SCHEMA_NUMBER) FX_TRY(fxi_schema_numbers(r, list, types & FXI_SCHEMA_WHOLE, w));
    if (types & FXI_SCHEMA_STRING) FX_TRY(fxi_schema_strings(r, list, w));
    if (types & FXI_SCHEMA_ARRAY) FX_TRY(fxi_schema_arrays(r, list, w));
    if (types & FXI_SCHEMA_OBJECT) FX_TRY(fxi_schema_objects(r, list, w));
    return FX_OK;
}

static fx_status define_set(fxi_schema *r, const fxi_schema_rule *rule)
{
    fxi_schema_lists lists;
    fxi_schema_ways w = {0};
    const uint32_t number = rule->rule; // the array may move
    FX_TRY(fxi_schema_expand(r, &rule->set, &lists));
    for (size_t i = 0; i < lists.n; i++) FX_TRY(add_alternative(r, &lists.at[i], &w));
    fxi_gram_rule_define(r->g, number, fxi_gram_alt(r->g, w.node, w.n));
    return FX_OK;
}

static fx_status read_schema(fxi_schema *r, uint32_t *node)
{
    fxi_schema_set root = {&r->root, 1};
    if (!json_is_object(r->root) && !json_is_boolean(r->root))
        return fxi_fail(r->err, FX_EINVAL, "schema: it must be an object, true or false");
    FX_TRY(fxi_schema_node(r, &root, node));
    for (size_t i = 0; i < r->n_rule; i++) {
        const fxi_schema_rule rule = r->rule[i]; // the array may move
        FX_TRY(define_set(r, &rule));
    }
    return FX_OK;
}

fx_status fxi_schema_add(fxi_gram *g, const fxi_gram_json *json, const json_t *schema,
                         uint32_t *node, fx_error *err)
{
    fxi_schema r = {.g = g, .json = json, .root = schema, .err = err};
    const fx_status st = read_schema(&r, node);
    free(r.rule);
    free(r.one_of.at);
    fxi_arena_free(&r.arena);
    return st;
}
