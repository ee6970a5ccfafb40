// schema.c - reads a schema: a queue of the rules that are not defined yet replaces recursion over
// the schema's depth. oneOf is treated as anyOf, after its alternatives were shown to exclude each
// other.
#include "grammar/schema/schema.h"

#include <stdlib.h>

#include "base/text/utf8.h"
#include "grammar/schema/schema_impl.h"

enum { MAX_WITHOUT = 16 };

// ---- definitions --------------------------------------------------------------------------------

static fx_status add_alternative(fxi_schema *r, const fxi_schema_set *list, fxi_schema_alts *alts)
{
    const unsigned types = fxi_schema_types_of(list);
    if (fxi_schema_has_values(list)) return fxi_schema_values(r, list, alts);
    if (types & FXI_SCHEMA_NULL) FX_TRY(fxi_schema_add_alt(r, alts, fxi_gram_str(r->g, "null")));
    if (types & FXI_SCHEMA_BOOL) FX_TRY(fxi_schema_add_alt(r, alts, fxi_gram_str(r->g, "true")));
    if (types & FXI_SCHEMA_BOOL) FX_TRY(fxi_schema_add_alt(r, alts, fxi_gram_str(r->g, "false")));
    if (types & FXI_SCHEMA_NUMBER)
        FX_TRY(fxi_schema_numbers(r, list, types & FXI_SCHEMA_WHOLE, alts));
    if (types & FXI_SCHEMA_STRING) FX_TRY(fxi_schema_strings(r, list, alts));
    if (types & FXI_SCHEMA_ARRAY) FX_TRY(fxi_schema_arrays(r, list, alts));
    if (types & FXI_SCHEMA_OBJECT) FX_TRY(fxi_schema_objects(r, list, alts));
    return FX_OK;
}

// The alternatives of oneOf must exclude each other: then it is the same as anyOf.
static fx_status check_one_ofs(fxi_schema *r)
{
    for (size_t at = 0; at < r->one_of.n; at++) {
        const fxi_json *list = r->one_of.at[at];
        for (size_t i = 0; i < fxi_json_array_size(list); i++)
            for (size_t k = 0; k < i; k++) {
                const fxi_json *a = fxi_json_at(list, i), *b = fxi_json_at(list, k);
                const fxi_schema_set set_a = {&a, 1}, set_b = {&b, 1};
                bool exclude;
                FX_TRY(fxi_schema_exclude(r, &set_a, &set_b, &exclude));
                if (!exclude)
                    return fxi_schema_refuse(r, list,
                                             "\"oneOf\" whose alternatives %zu and %zu may both "
                                             "match (anyOf is supported)",
                                             k, i);
            }
    }
    return FX_OK;
}

static fx_status define_sets(fxi_schema *r)
{
    for (size_t i = 0; i < r->n_rule; i++) {
        const fxi_schema_rule rule = r->rule[i]; // the array may move
        fxi_schema_lists lists;
        fxi_schema_alts alts = {0};
        FX_TRY(fxi_schema_expand(r, &rule.set, &lists));
        for (size_t k = 0; k < lists.n; k++) FX_TRY(add_alternative(r, &lists.at[k], &alts));
        fxi_gram_rule_define(r->g, rule.rule, fxi_gram_alt(r->g, alts.node, alts.n));
    }
    return check_one_ofs(r);
}

// ---- plain strings ------------------------------------------------------------------------------

// *cond: the strings among the values of `list` that satisfy the whole set.
static fx_status list_texts(fxi_schema *r, const fxi_schema_set *set, const fxi_schema_set *list,
                            fxi_schema_text *cond)
{
    const fxi_json *v;
    size_t n = 0;
    while (fxi_schema_listed(list, n)) n++;
    const char **name = fxi_schema_alloc(r, n, sizeof *name);
    if (!name) return fxi_fail_memory(r->err);
    *cond = (fxi_schema_text){.at = set->at[0], .name = name};
    for (size_t i = 0; (v = fxi_schema_listed(list, i)); i++) {
        bool fits = false;
        if (fxi_json_is_string(v)) FX_TRY(fxi_schema_accepts(r, v, set, &fits));
        if (fits) name[cond->n_name++] = fxi_json_text(v);
    }
    return FX_OK;
}

static fx_status add_plain_strings(fxi_schema *r, const fxi_schema_set *set,
                                   const fxi_schema_set *list, const fxi_schema_text *more,
                                   size_t n_more, fxi_schema_alts *alts)
{
    fxi_schema_text cond[2 * FXI_SCHEMA_MAX_CONDITION];
    size_t n = 0;
    uint32_t node = 0;
    if (!(fxi_schema_types_of(list) & FXI_SCHEMA_STRING)) return FX_OK;
    if (fxi_schema_has_values(list))
        FX_TRY(list_texts(r, set, list, &cond[n++]));
    else
        FX_TRY(fxi_schema_conditions(r, list, cond, &n));
    if (n == 1 && fxi_schema_has_values(list) && !cond[0].n_name) return FX_OK;
    for (size_t i = 0; i < n_more && n < 2 * FXI_SCHEMA_MAX_CONDITION; i++) {
        cond[n] = more[i];
        cond[n++].at = set->n ? set->at[0] : r->root;
    }
    FX_TRY(fxi_schema_texts(r, cond, n, &node));
    return fxi_schema_add_alt(r, alts, node);
}

// ---- entry points -------------------------------------------------------------------------------

// *out: the schema that a value must satisfy.
static fx_status find_asked(fxi_schema *r, const fxi_schema_ask *ask, fxi_schema_bag *out)
{
    const fxi_json *s = r->root;
    if (!fxi_json_is_object(s) && !fxi_json_is_bool(s))
        return fxi_fail(r->err, FX_EINVAL, "schema: it must be an object, true or false");
    if (ask->at) FX_TRY(fxi_schema_at(r, ask->at, &s));
    if (!fxi_json_is_object(s) && !fxi_json_is_bool(s))
        return fxi_fail(r->err, FX_EINVAL, "schema: there is no schema at \"%.*s\"",
                        FXI_UTF8_HEAD(ask->at, 100));
    return fxi_schema_put(r, out, s);
}

static fx_status read_values(fxi_schema *r, const fxi_schema_ask *ask, uint32_t *node)
{
    static const fxi_json_rules rules = {0};
    fxi_schema_bag b = {0};
    fxi_json_doc object = {0};
    fx_status st = find_asked(r, ask, &b);
    if (!st && ask->only_objects) {
        st = fxi_json_parse(&object, fxi_str_of("{\"type\": \"object\"}"), &rules, r->err);
        if (!st) st = fxi_schema_put(r, &b, object.root);
    }
    if (!st) st = fxi_schema_node(r, &b.set, node);
    if (!st) st = define_sets(r);
    fxi_json_doc_free(&object);
    return st;
}

static fx_status read_plain(fxi_schema *r, const fxi_schema_ask *ask, uint32_t *node)
{
    fxi_schema_bag b = {0};
    fxi_schema_alts alts = {0};
    fxi_schema_lists lists;
    fxi_schema_text more[MAX_WITHOUT];
    size_t n = 0;
    FX_TRY(find_asked(r, ask, &b));
    if (ask->n_mark) more[n++] = (fxi_schema_text){.mark = ask->mark, .n_mark = ask->n_mark};
    for (size_t i = 0; i < ask->n_pattern && n < MAX_WITHOUT; i++)
        more[n++] = (fxi_schema_text){.pattern = ask->pattern[i], .is_not = true};
    FX_TRY(fxi_schema_expand(r, &b.set, &lists));
    for (size_t i = 0; i < lists.n; i++)
        FX_TRY(add_plain_strings(r, &b.set, &lists.at[i], more, n, &alts));
    *node = fxi_gram_alt(r->g, alts.node, alts.n);
    return check_one_ofs(r);
}

static fx_status read_asked(fxi_schema r, const fxi_schema_ask *ask, uint32_t *node)
{
    r.root = ask->schema ? ask->schema : fxi_json_bool(true);
    const bool is_plain = r.spelling == FXI_SPELL_UTF8;
    const fx_status st = (is_plain ? read_plain : read_values)(&r, ask, node);
    free(r.rule);
    free(r.one_of.at);
    fxi_arena_free(&r.arena);
    return st;
}

fx_status fxi_schema_add_part(fxi_gram *g, const fxi_gram_json *json, const fxi_schema_ask *ask,
                              uint32_t *node, fx_error *err)
{
    const fxi_schema r = {.g = g, .json = json, .err = err, .spelling = FXI_SPELL_JSON};
    return read_asked(r, ask, node);
}

fx_status fxi_schema_add(fxi_gram *g, const fxi_gram_json *json, const fxi_json *schema,
                         uint32_t *node, fx_error *err)
{
    return fxi_schema_add_part(g, json, &(fxi_schema_ask){.schema = schema}, node, err);
}

fx_status fxi_schema_add_plain(fxi_gram *g, const fxi_schema_ask *ask, uint32_t *node,
                               fx_error *err)
{
    const fxi_schema r = {.g = g, .err = err, .spelling = FXI_SPELL_UTF8};
    return read_asked(r, ask, node);
}
