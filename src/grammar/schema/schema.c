// schema.c - reads a schema: a queue of sets that have a rule but no definition yet, so that
// nothing recurses over the schema's depth; and the lists of oneOf that were met on the way.
#include "grammar/schema/schema.h"

#include <stdlib.h>

#include "base/text/utf8.h"
#include "grammar/schema/schema_parts.h"

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

// The alternatives of oneOf must exclude each other: then it is the same as anyOf.
static fx_status check_one_of(fxi_schema *r, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t k = 0; k < i; k++) {
            bool apart;
            FX_TRY(fxi_schema_apart(r, json_array_get(list, i), json_array_get(list, k), &apart));
            if (!apart)
                return fxi_schema_refuse(r, list,
                                         "\"oneOf\" whose alternatives %zu and %zu may hold "
                                         "together (anyOf is supported)",
                                         k, i);
        }
    return FX_OK;
}

static fx_status check_one_ofs(fxi_schema *r)
{
    for (size_t i = 0; i < r->one_of.n; i++) FX_TRY(check_one_of(r, r->one_of.at[i]));
    return FX_OK;
}

static fx_status define_sets(fxi_schema *r)
{
    for (size_t i = 0; i < r->n_rule; i++) {
        const fxi_schema_rule rule = r->rule[i]; // the array may move
        FX_TRY(define_set(r, &rule));
    }
    return check_one_ofs(r);
}

// ---- strings as they are ------------------------------------------------------------------------

// The listed texts of one alternative that satisfy all of the set: names of a condition.
static fx_status list_texts(fxi_schema *r, const fxi_schema_set *set, const json_t *values,
                            fxi_schema_text *cond)
{
    const size_t n = json_array_size(values);
    const char **name = fxi_schema_take(r, n, sizeof *name);
    if (!name) return fxi_schema_no_memory(r);
    *cond = (fxi_schema_text){.at = set->at[0], .name = name};
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(values, i);
        bool fits = false;
        if (json_is_string(v)) FX_TRY(fxi_schema_accepts(r, v, set, &fits));
        if (fits) name[cond->n_name++] = json_string_value(v);
    }
    return FX_OK;
}

static fx_status list_values(fxi_schema *r, const fxi_schema_set *set, const fxi_schema_set *list,
                             fxi_schema_text *cond)
{
    const json_t *v;
    if (!fxi_schema_next(list, "const", NULL, &v)) {
        (void)fxi_schema_next(list, "enum", NULL, &v);
        return list_texts(r, set, v, cond);
    }
    json_t *one = json_pack("[O]", v);
    const fx_status st = one ? list_texts(r, set, one, cond) : fxi_schema_no_memory(r);
    json_decref(one);
    return st;
}

static fx_status add_plain_way(fxi_schema *r, const fxi_schema_set *set, const fxi_schema_set *list,
                               const fxi_schema_text *more, size_t n_more, fxi_schema_ways *w)
{
    fxi_schema_text cond[2 * FXI_SCHEMA_MAX_CONDITION];
    size_t n = 0;
    uint32_t node = 0;
    if (!(fxi_schema_types_of(list) & FXI_SCHEMA_STRING)) return FX_OK;
    if (fxi_schema_has_values(list))
        FX_TRY(list_values(r, set, list, &cond[n++]));
    else
        FX_TRY(fxi_schema_conditions(r, list, cond, &n));
    if (n == 1 && fxi_schema_has_values(list) && !cond[0].n_name) return FX_OK;
    for (size_t i = 0; i < n_more && n < 2 * FXI_SCHEMA_MAX_CONDITION; i++) {
        cond[n] = more[i];
        cond[n++].at = set->n ? set->at[0] : r->root;
    }
    FX_TRY(fxi_schema_texts(r, cond, n, &node));
    return fxi_schema_way(r, w, node);
}

static fx_status add_plain_strings(fxi_schema *r, fxi_schema_set *set, const fxi_schema_text *more,
                                   size_t n_more, fxi_schema_ways *w)
{
    fxi_schema_lists lists;
    FX_TRY(fxi_schema_expand(r, set, &lists));
    for (size_t i = 0; i < lists.n; i++)
        FX_TRY(add_plain_way(r, set, &lists.at[i], more, n_more, w));
    return FX_OK;
}

// ---- what is asked for --------------------------------------------------------------------------

// The schemas that a value must satisfy.
static fx_status find_asked(fxi_schema *r, const fxi_schema_ask *ask, fxi_schema_bag *out)
{
    const json_t *s = r->root;
    if (!json_is_object(s) && !json_is_boolean(s))
        return fxi_fail(r->err, FX_EINVAL, "schema: it must be an object, true or false");
    if (ask->at) FX_TRY(fxi_schema_at(r, ask->at, &s));
    if (!json_is_object(s) && !json_is_boolean(s))
        return fxi_fail(r->err, FX_EINVAL, "schema: \"%.*s\" is no schema in it",
                        FXI_UTF8_HEAD(ask->at, 100));
    return fxi_schema_put(r, out, s);
}

static fx_status read_values(fxi_schema *r, const fxi_schema_ask *ask, uint32_t *node)
{
    fxi_schema_bag b = {0};
    json_t *object = NULL;
    FX_TRY(find_asked(r, ask, &b));
    if (ask->only_objects && !(object = json_pack("{s:s}", "type", "object")))
        return fxi_schema_no_memory(r);
    fx_status st = object ? fxi_schema_put(r, &b, object) : FX_OK;
    if (!st) st = fxi_schema_node(r, &b.set, node);
    if (!st) st = define_sets(r);
    json_decref(object);
    return st;
}

enum { MAX_WITHOUT = 16 };

static fx_status read_plain(fxi_schema *r, const fxi_schema_ask *ask, uint32_t *node)
{
    fxi_schema_bag b = {0};
    fxi_schema_ways w = {0};
    fxi_schema_text more[MAX_WITHOUT];
    size_t n = 0;
    FX_TRY(find_asked(r, ask, &b));
    if (ask->n_mark) more[n++] = (fxi_schema_text){.mark = ask->mark, .n_mark = ask->n_mark};
    for (size_t i = 0; i < ask->n_pattern && n < MAX_WITHOUT; i++)
        more[n++] = (fxi_schema_text){.pattern = ask->pattern[i], .is_not = true};
    FX_TRY(add_plain_strings(r, &b.set, more, n, &w));
    *node = fxi_gram_alt(r->g, w.node, w.n);
    return check_one_ofs(r);
}

typedef fx_status ask_reader(fxi_schema *r, const fxi_schema_ask *ask, uint32_t *node);

static fx_status read_asked(fxi_schema r, const fxi_schema_ask *ask, ask_reader *read,
                            uint32_t *node)
{
    json_t *any = ask->schema ? NULL : json_true();
    r.root = any ? any : ask->schema;
    const fx_status st = read(&r, ask, node);
    json_decref(any);
    free(r.rule);
    free(r.one_of.at);
    fxi_arena_free(&r.arena);
    return st;
}

fx_status fxi_schema_add_part(fxi_gram *g, const fxi_gram_json *json, const fxi_schema_ask *ask,
                              uint32_t *node, fx_error *err)
{
    const fxi_schema r = {.g = g, .json = json, .err = err, .spelling = FXI_SPELL_JSON};
    return read_asked(r, ask, read_values, node);
}

fx_status fxi_schema_add(fxi_gram *g, const fxi_gram_json *json, const json_t *schema,
                         uint32_t *node, fx_error *err)
{
    return fxi_schema_add_part(g, json, &(fxi_schema_ask){.schema = schema}, node, err);
}

fx_status fxi_schema_add_plain(fxi_gram *g, const fxi_schema_ask *ask, uint32_t *node,
                               fx_error *err)
{
    const fxi_schema r = {.g = g, .err = err, .spelling = FXI_SPELL_UTF8};
    return read_asked(r, ask, read_plain, node);
}
