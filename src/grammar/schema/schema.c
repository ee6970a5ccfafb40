// schema.c - reads a schema: a queue of the rules that are not defined yet replaces recursion over
// the schema's depth. oneOf is treated as anyOf, after its alternatives were shown to exclude each
// other.
#include "grammar/schema/schema.h"

#include <stdlib.h>

#include "base/text/utf8.h"
#include "grammar/schema/schema_impl.h"

enum { MAX_WITHOUT = 16 };

// ---- definitions --------------------------------------------------------------------------------

static void add_alternative(fxi_schema *r, const fxi_schema_set *list, fxi_schema_alts *alts)
{
    const unsigned types = fxi_schema_types_of(list);
    if (fxi_schema_has_values(list)) {
        fxi_schema_values(r, list, alts);
        return;
    }
    if (types & FXI_SCHEMA_NULL) fxi_schema_add_alt(r, alts, fxi_gram_str(r->g, "null"));
    if (types & FXI_SCHEMA_BOOL) fxi_schema_add_alt(r, alts, fxi_gram_str(r->g, "true"));
    if (types & FXI_SCHEMA_BOOL) fxi_schema_add_alt(r, alts, fxi_gram_str(r->g, "false"));
    if (types & FXI_SCHEMA_NUMBER) fxi_schema_numbers(r, list, types & FXI_SCHEMA_WHOLE, alts);
    if (types & FXI_SCHEMA_STRING) fxi_schema_strings(r, list, alts);
    if (types & FXI_SCHEMA_ARRAY) fxi_schema_arrays(r, list, alts);
    if (types & FXI_SCHEMA_OBJECT) fxi_schema_objects(r, list, alts);
}

// The alternatives of oneOf must exclude each other: then it is the same as anyOf.
static void check_one_of(fxi_schema *r, const fxi_json *list)
{
    for (size_t i = 0; i < fxi_json_array_size(list); i++)
        for (size_t k = 0; k < i && !r->failed; k++) {
            const fxi_json *a = fxi_json_at(list, i), *b = fxi_json_at(list, k);
            const fxi_schema_set set_a = {&a, 1}, set_b = {&b, 1};
            if (!fxi_schema_exclude(r, &set_a, &set_b))
                fxi_schema_refuse(r, list,
                                  "\"oneOf\" whose alternatives %zu and %zu may both match (anyOf "
                                  "is supported)",
                                  k, i);
        }
}

static void define_sets(fxi_schema *r)
{
    for (size_t i = 0; i < r->n_rule && !r->failed; i++) {
        const fxi_schema_rule rule = r->rule[i]; // the array may move
        const fxi_schema_lists lists = fxi_schema_expand(r, &rule.set);
        fxi_schema_alts alts = {0};
        for (size_t k = 0; k < lists.n; k++) add_alternative(r, &lists.at[k], &alts);
        fxi_gram_rule_define(r->g, rule.rule, fxi_gram_alt(r->g, alts.node, alts.n));
    }
}

// ---- plain strings ------------------------------------------------------------------------------

// The strings among the values of `list` that satisfy the whole set, as a condition.
static fxi_schema_text list_texts(fxi_schema *r, const fxi_schema_set *set,
                                  const fxi_schema_set *list)
{
    const fxi_json *v;
    size_t n = 0, n_fit = 0;
    while (fxi_schema_listed(list, n)) n++;
    const char **name = fxi_schema_alloc(r, n, sizeof *name);
    for (size_t i = 0; name && (v = fxi_schema_listed(list, i)); i++)
        if (fxi_json_is_string(v) && fxi_schema_accepts(r, v, set))
            name[n_fit++] = fxi_json_text(v);
    return (fxi_schema_text){.at = set->at[0], .name = name, .n_name = n_fit};
}

static void add_plain_strings(fxi_schema *r, const fxi_schema_set *set, const fxi_schema_set *list,
                              const fxi_schema_text *more, size_t n_more, fxi_schema_alts *alts)
{
    fxi_schema_text cond[2 * FXI_SCHEMA_MAX_CONDITION];
    const bool has_values = fxi_schema_has_values(list);
    if (!(fxi_schema_types_of(list) & FXI_SCHEMA_STRING)) return;
    if (has_values) cond[0] = list_texts(r, set, list);
    size_t n = has_values ? 1 : fxi_schema_conditions(r, list, cond);
    if (has_values && !cond[0].n_name) return;
    for (size_t i = 0; i < n_more && n < 2 * FXI_SCHEMA_MAX_CONDITION; i++) {
        cond[n] = more[i];
        cond[n++].at = set->n ? set->at[0] : r->root;
    }
    fxi_schema_add_alt(r, alts, fxi_schema_texts(r, cond, n));
}

// ---- entry points -------------------------------------------------------------------------------

// The schema that a value must satisfy.
static void find_asked(fxi_schema *r, const fxi_schema_ask *ask, fxi_schema_bag *out)
{
    const fxi_json *s = r->root;
    if (!fxi_json_is_object(s) && !fxi_json_is_bool(s))
        r->failed = fxi_fail(r->err, FX_EINVAL, "schema: it must be an object, true or false");
    if (ask->at && !r->failed) s = fxi_schema_at(r, ask->at);
    if (!fxi_json_is_object(s) && !fxi_json_is_bool(s) && !r->failed)
        r->failed = fxi_fail(r->err, FX_EINVAL, "schema: there is no schema at \"%.*s\"",
                             FXI_UTF8_HEAD(ask->at, 100));
    fxi_schema_put(r, out, s);
}

static uint32_t read_values(fxi_schema *r, const fxi_schema_ask *ask)
{
    static const fxi_json_rules rules = {0};
    fxi_schema_bag b = {0};
    fxi_json_doc object = {0};
    find_asked(r, ask, &b);
    if (ask->only_objects && !r->failed) {
        r->failed = fxi_json_parse(&object, fxi_str_of("{\"type\": \"object\"}"), &rules, r->err);
        fxi_schema_put(r, &b, object.root);
    }
    const uint32_t node = fxi_schema_node(r, &b.set);
    define_sets(r);
    fxi_json_doc_free(&object);
    return node;
}

static uint32_t read_plain(fxi_schema *r, const fxi_schema_ask *ask)
{
    fxi_schema_bag b = {0};
    fxi_schema_alts alts = {0};
    fxi_schema_text more[MAX_WITHOUT];
    size_t n = 0;
    find_asked(r, ask, &b);
    if (ask->n_mark) more[n++] = (fxi_schema_text){.mark = ask->mark, .n_mark = ask->n_mark};
    for (size_t i = 0; i < ask->n_pattern && n < MAX_WITHOUT; i++)
        more[n++] = (fxi_schema_text){.pattern = ask->pattern[i], .is_not = true};
    const fxi_schema_lists lists = fxi_schema_expand(r, &b.set);
    for (size_t i = 0; i < lists.n; i++) add_plain_strings(r, &b.set, &lists.at[i], more, n, &alts);
    return fxi_gram_alt(r->g, alts.node, alts.n);
}

fx_status fxi_schema_add(fxi_gram *g, const fxi_gram_json *json, const fxi_schema_ask *ask,
                         uint32_t *node, fx_error *err)
{
    fxi_schema r = {.g = g,
                    .json = json,
                    .root = ask->schema ? ask->schema : fxi_json_bool(true),
                    .err = err,
                    .spelling = json ? FXI_SPELL_JSON : FXI_SPELL_UTF8};
    *node = (json ? read_values : read_plain)(&r, ask);
    for (size_t i = 0; i < r.one_of.n; i++) check_one_of(&r, r.one_of.at[i]);
    free(r.rule);
    free(r.one_of.at);
    fxi_arena_free(&r.arena);
    return r.failed;
}
