// schema.c - reads a schema. Sets of schemas get a rule each; a queue of the rules that are not
// defined yet replaces recursion over the schema's depth.
//
// A set is expanded to its alternatives by a work list. A branch has the schemas that it has
// applied and those that it has yet to apply; anyOf and oneOf split it. A schema is applied once
// per branch, so a cycle of $ref ends. oneOf is treated as anyOf, after its alternatives were shown
// to exclude each other.
#include "grammar/schema/schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"
#include "grammar/schema/schema_impl.h"

enum { SLAB_BYTES = 16 << 10, MAX_RULE = 20000, MAX_REF_CHAIN = 100, MAX_WITHOUT = 16 };
enum { WORK_PER_INTERSECTION = 100, PAIRS_PER_WORK = 4 };

// ---- memory and work ----------------------------------------------------------------------------

void *fxi_schema_alloc(fxi_schema *r, size_t n, size_t elem_bytes)
{
    void *p = fxi_arena_take(&r->arena, n * elem_bytes, SLAB_BYTES);
    if (p) memset(p, 0, n * elem_bytes);
    return p;
}

// Makes room for one more after the n elements of *list, which has room for *cap. False: out of
// memory.
static bool grow_in_arena(fxi_schema *r, void *list, size_t elem_bytes, size_t n, size_t *cap)
{
    void **at = list;
    if (n < *cap) return true;
    const size_t want = 2 * *cap + 4;
    void *more = fxi_schema_alloc(r, want, elem_bytes);
    if (!more) return false;
    if (n) memcpy(more, *at, n * elem_bytes);
    *at = more;
    *cap = want;
    return true;
}

fx_status fxi_schema_charge(fxi_schema *r, size_t n)
{
    if ((r->n_work += n) <= FXI_SCHEMA_MAX_WORK) return FX_OK;
    return fxi_fail(r->err, FX_EINVAL, "schema: its alternatives are too many to be written down");
}

fx_status fxi_schema_charge_pairs(fxi_schema *r, size_t n, size_t n_pair)
{
    return fxi_schema_charge(r, n * WORK_PER_INTERSECTION + n_pair / PAIRS_PER_WORK);
}

// ---- sets and their rules -----------------------------------------------------------------------

bool fxi_schema_has(const fxi_schema_set *s, const json_t *schema)
{
    size_t i = 0;
    while (i < s->n && s->at[i] != schema) i++;
    return i < s->n;
}

fx_status fxi_schema_put(fxi_schema *r, fxi_schema_bag *b, const json_t *schema)
{
    if (fxi_schema_has(&b->set, schema)) return FX_OK;
    if (!grow_in_arena(r, &b->set.at, sizeof *b->set.at, b->set.n, &b->cap))
        return fxi_fail_memory(r->err);
    b->set.at[b->set.n++] = schema;
    return FX_OK;
}

fx_status fxi_schema_add_alt(fxi_schema *r, fxi_schema_alts *alts, uint32_t node)
{
    if (!grow_in_arena(r, &alts->node, sizeof *alts->node, alts->n, &alts->cap))
        return fxi_fail_memory(r->err);
    alts->node[alts->n++] = node;
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
    static const char *const ignored[] = {"title", "description", "$comment", "default"};
    size_t n = json_object_get(s, "$ref") ? 1 : 0;
    for (size_t i = 0; n && i < sizeof ignored / sizeof *ignored; i++)
        n += json_object_get(s, ignored[i]) != NULL;
    return n && n == json_object_size(s);
}

// Drops `true` and replaces bare references by what they name, so that recursive schemas return to
// the same set.
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

fx_status fxi_schema_node(fxi_schema *r, const fxi_schema_set *set, uint32_t *node)
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
        return fxi_fail_memory(r->err);
    const uint32_t rule = fxi_gram_rule_add(r->g, fxi_str_of("a schema"));
    r->rule[r->n_rule++] = (fxi_schema_rule){s, rule};
    *node = fxi_gram_ref(r->g, rule);
    return FX_OK;
}

// ---- alternatives of a set ----------------------------------------------------------------------

typedef struct branch_item {
    const json_t *v;
    bool is_choice; // a list of schemas of which one must hold
} branch_item;

typedef struct branch { // the current one has room for more items; those that wait do not
    fxi_schema_bag applied;
    branch_item item[FXI_SCHEMA_MAX_LIST];
    size_t n_item;
} branch;

typedef struct waiting_branch {
    fxi_schema_bag applied;
    size_t n_item;
    branch_item item[]; // [n_item]
} waiting_branch;

typedef struct branch_stack {
    waiting_branch **at;
    size_t n, cap;
} branch_stack;

static fx_status push_branch(fxi_schema *r, branch_stack *stack, const branch *from)
{
    FX_TRY(fxi_schema_charge(r, 1 + from->n_item + from->applied.set.n));
    const size_t item_bytes = from->n_item * sizeof *from->item;
    waiting_branch *b = malloc(sizeof *b + item_bytes);
    if (!b) return fxi_fail_memory(r->err);
    if (!fxi_grow(&stack->at, sizeof *stack->at, stack->n, &stack->cap)) {
        free(b);
        return fxi_fail_memory(r->err);
    }
    *b = (waiting_branch){.n_item = from->n_item};
    memcpy(b->item, from->item, item_bytes);
    stack->at[stack->n++] = b;
    for (size_t i = 0; i < from->applied.set.n; i++)
        FX_TRY(fxi_schema_put(r, &b->applied, from->applied.set.at[i]));
    return FX_OK;
}

static void pop_branch(branch_stack *stack, branch *out)
{
    waiting_branch *b = stack->at[--stack->n];
    out->applied = b->applied;
    out->n_item = b->n_item;
    memcpy(out->item, b->item, b->n_item * sizeof *b->item);
    free(b);
}

static fx_status push_item(fxi_schema *r, branch *b, const json_t *v, bool is_choice)
{
    if (b->n_item == FXI_SCHEMA_MAX_LIST)
        return fxi_schema_refuse(r, v, "more than %d schemas at once", FXI_SCHEMA_MAX_LIST);
    b->item[b->n_item++] = (branch_item){v, is_choice};
    return FX_OK;
}

// Remembers a list of oneOf, to be checked.
static fx_status note_one_of(fxi_schema *r, const json_t *list)
{
    const fxi_schema_set seen = {r->one_of.at, r->one_of.n};
    if (fxi_schema_has(&seen, list)) return FX_OK;
    if (!fxi_grow(&r->one_of.at, sizeof *r->one_of.at, r->one_of.n, &r->one_of.cap))
        return fxi_fail_memory(r->err);
    r->one_of.at[r->one_of.n++] = list;
    return FX_OK;
}

static fx_status apply_schema(fxi_schema *r, branch *b, const json_t *s, bool *is_never)
{
    const json_t *target, *all = json_object_get(s, "allOf"), *any = json_object_get(s, "anyOf"),
                          *one = json_object_get(s, "oneOf");
    if (json_is_true(s) || fxi_schema_has(&b->applied.set, s)) return FX_OK;
    *is_never = !json_is_object(s);
    if (*is_never) return FX_OK;
    FX_TRY(fxi_schema_put(r, &b->applied, s));
    FX_TRY(fxi_schema_check(r, s));
    if (one) FX_TRY(note_one_of(r, one));
    if (one) FX_TRY(push_item(r, b, one, true));
    if (any) FX_TRY(push_item(r, b, any, true));
    for (size_t i = json_array_size(all); i-- > 0;)
        FX_TRY(push_item(r, b, json_array_get(all, i), false));
    if (!json_object_get(s, "$ref")) return FX_OK;
    FX_TRY(fxi_schema_resolve(r, s, &target));
    return push_item(r, b, target, false);
}

static fx_status split_branch(fxi_schema *r, branch_stack *stack, branch *b, const json_t *list)
{
    for (size_t i = json_array_size(list); i-- > 0;) {
        FX_TRY(push_item(r, b, json_array_get(list, i), false));
        FX_TRY(push_branch(r, stack, b));
        b->n_item--;
    }
    return FX_OK;
}

// Continues a branch until it is complete, splits, or turns out to be impossible.
static fx_status run_branch(fxi_schema *r, branch_stack *stack, branch *b, fxi_schema_lists *out)
{
    bool is_never = false;
    while (b->n_item && !is_never) {
        const branch_item it = b->item[--b->n_item];
        if (it.is_choice) return split_branch(r, stack, b, it.v);
        FX_TRY(apply_schema(r, b, it.v, &is_never));
    }
    if (is_never) return FX_OK;
    if (!grow_in_arena(r, &out->at, sizeof *out->at, out->n, &out->cap))
        return fxi_fail_memory(r->err);
    out->at[out->n++] = b->applied.set;
    return FX_OK;
}

fx_status fxi_schema_expand(fxi_schema *r, const fxi_schema_set *set, fxi_schema_lists *out)
{
    branch_stack stack = {0};
    branch *b = calloc(1, sizeof *b);
    fx_status st = b ? FX_OK : fxi_fail_memory(r->err);
    *out = (fxi_schema_lists){0};
    for (size_t i = set->n; !st && i-- > 0;) st = push_item(r, b, set->at[i], false);
    if (!st) st = push_branch(r, &stack, b);
    while (!st && stack.n) {
        pop_branch(&stack, b);
        st = run_branch(r, &stack, b, out);
    }
    free(b);
    for (size_t i = 0; i < stack.n; i++) free(stack.at[i]);
    free(stack.at);
    return st;
}

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
        const json_t *list = r->one_of.at[at];
        for (size_t i = 0; i < json_array_size(list); i++)
            for (size_t k = 0; k < i; k++) {
                const json_t *a = json_array_get(list, i), *b = json_array_get(list, k);
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
    const json_t *v;
    size_t n = 0;
    while (fxi_schema_listed(list, n)) n++;
    const char **name = fxi_schema_alloc(r, n, sizeof *name);
    if (!name) return fxi_fail_memory(r->err);
    *cond = (fxi_schema_text){.at = set->at[0], .name = name};
    for (size_t i = 0; (v = fxi_schema_listed(list, i)); i++) {
        bool fits = false;
        if (json_is_string(v)) FX_TRY(fxi_schema_accepts(r, v, set, &fits));
        if (fits) name[cond->n_name++] = json_string_value(v);
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
    const json_t *s = r->root;
    if (!json_is_object(s) && !json_is_boolean(s))
        return fxi_fail(r->err, FX_EINVAL, "schema: it must be an object, true or false");
    if (ask->at) FX_TRY(fxi_schema_at(r, ask->at, &s));
    if (!json_is_object(s) && !json_is_boolean(s))
        return fxi_fail(r->err, FX_EINVAL, "schema: there is no schema at \"%.*s\"",
                        FXI_UTF8_HEAD(ask->at, 100));
    return fxi_schema_put(r, out, s);
}

static fx_status read_values(fxi_schema *r, const fxi_schema_ask *ask, uint32_t *node)
{
    fxi_schema_bag b = {0};
    json_t *object = NULL;
    FX_TRY(find_asked(r, ask, &b));
    if (ask->only_objects && !(object = json_pack("{s:s}", "type", "object")))
        return fxi_fail_memory(r->err);
    fx_status st = object ? fxi_schema_put(r, &b, object) : FX_OK;
    if (!st) st = fxi_schema_node(r, &b.set, node);
    if (!st) st = define_sets(r);
    json_decref(object);
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
    r.root = ask->schema ? ask->schema : json_true(); // which is static
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

fx_status fxi_schema_add(fxi_gram *g, const fxi_gram_json *json, const json_t *schema,
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
