// schema_set.c - sets of schemas that a value must satisfy at once: each gets a rule, and is
// expanded to its alternatives.
//
// A work list expands a set. A branch has the schemas that it has applied and those that it has yet
// to apply; anyOf and oneOf split it. A schema is applied once per branch, so a cycle of $ref ends.
#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"
#include "grammar/schema/schema_impl.h"

enum { MAX_RULE = 20000, MAX_REF_CHAIN = 100 };

// ---- rules --------------------------------------------------------------------------------------

static bool equals_set(const fxi_schema_set *a, const fxi_schema_set *b)
{
    size_t i = 0;
    if (a->n != b->n) return false;
    while (i < a->n && fxi_schema_has(b, a->at[i])) i++;
    return i == a->n;
}

static bool is_bare_ref(const fxi_json *s)
{
    static const char *const ignored[] = {"title", "description", "$comment", "default"};
    size_t n = fxi_json_get(s, "$ref") ? 1 : 0;
    for (size_t i = 0; n && i < sizeof ignored / sizeof *ignored; i++)
        n += fxi_json_get(s, ignored[i]) != NULL;
    return n && n == fxi_json_object_size(s);
}

// Drops `true` and replaces bare references by what they name, so that recursive schemas return to
// the same set.
static fx_status simplify_set(fxi_schema *r, const fxi_schema_set *set, fxi_schema_set *out)
{
    fxi_schema_bag b = {0};
    for (size_t i = 0; i < set->n; i++) {
        const fxi_json *s = set->at[i];
        for (int k = 0; is_bare_ref(s) && k < MAX_REF_CHAIN; k++) {
            FX_TRY(fxi_schema_check(r, s));
            FX_TRY(fxi_schema_resolve(r, s, &s));
        }
        if (!fxi_json_is_true(s)) FX_TRY(fxi_schema_put(r, &b, s));
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
    const fxi_json *v;
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

static fx_status push_item(fxi_schema *r, branch *b, const fxi_json *v, bool is_choice)
{
    if (b->n_item == FXI_SCHEMA_MAX_LIST)
        return fxi_schema_refuse(r, v, "more than %d schemas at once", FXI_SCHEMA_MAX_LIST);
    b->item[b->n_item++] = (branch_item){v, is_choice};
    return FX_OK;
}

// Remembers a list of oneOf, to be checked.
static fx_status note_one_of(fxi_schema *r, const fxi_json *list)
{
    const fxi_schema_set seen = {r->one_of.at, r->one_of.n};
    if (fxi_schema_has(&seen, list)) return FX_OK;
    if (!fxi_grow(&r->one_of.at, sizeof *r->one_of.at, r->one_of.n, &r->one_of.cap))
        return fxi_fail_memory(r->err);
    r->one_of.at[r->one_of.n++] = list;
    return FX_OK;
}

static fx_status apply_schema(fxi_schema *r, branch *b, const fxi_json *s, bool *is_never)
{
    const fxi_json *target, *all = fxi_json_get(s, "allOf"), *any = fxi_json_get(s, "anyOf"),
                            *one = fxi_json_get(s, "oneOf");
    if (fxi_json_is_true(s) || fxi_schema_has(&b->applied.set, s)) return FX_OK;
    *is_never = !fxi_json_is_object(s);
    if (*is_never) return FX_OK;
    FX_TRY(fxi_schema_put(r, &b->applied, s));
    FX_TRY(fxi_schema_check(r, s));
    if (one) FX_TRY(note_one_of(r, one));
    if (one) FX_TRY(push_item(r, b, one, true));
    if (any) FX_TRY(push_item(r, b, any, true));
    for (size_t i = fxi_json_array_size(all); i-- > 0;)
        FX_TRY(push_item(r, b, fxi_json_at(all, i), false));
    if (!fxi_json_get(s, "$ref")) return FX_OK;
    FX_TRY(fxi_schema_resolve(r, s, &target));
    return push_item(r, b, target, false);
}

static fx_status split_branch(fxi_schema *r, branch_stack *stack, branch *b, const fxi_json *list)
{
    for (size_t i = fxi_json_array_size(list); i-- > 0;) {
        FX_TRY(push_item(r, b, fxi_json_at(list, i), false));
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
    if (!fxi_schema_grow(r, &out->at, sizeof *out->at, out->n, &out->cap))
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
