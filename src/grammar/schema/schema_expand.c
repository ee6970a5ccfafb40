// schema_expand.c - a set of schemas to its alternatives, by a list of work.
//
// A branch has the schemas that it has applied and those that it has still to apply. anyOf and
// oneOf split it: those that wait take as much memory as they have items, one at a time has room
// for more. What is applied is not applied again, so a $ref in a circle ends.
// oneOf is taken for anyOf here: schema.c checks that it is the same.
#include "base/system/grow.h"
#include "grammar/schema/schema_parts.h"

typedef struct branch_item {
    const json_t *v;
    bool is_choice; // a list of which one holds
} branch_item;

typedef struct branch {
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

static void free_branches(branch_stack *b)
{
    for (size_t i = 0; i < b->n; i++) free(b->at[i]);
    free(b->at);
}

static fx_status push_branch(fxi_schema *r, branch_stack *stack, const branch *from)
{
    FX_TRY(fxi_schema_work(r, 1 + from->n_item + from->applied.set.n));
    const size_t item_bytes = from->n_item * sizeof *from->item;
    waiting_branch *b = malloc(sizeof *b + item_bytes);
    if (!b) return fxi_schema_no_memory(r);
    if (!fxi_grow(&stack->at, sizeof *stack->at, stack->n, &stack->cap)) {
        free(b);
        return fxi_schema_no_memory(r);
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

// Keeps a list of oneOf, to be checked.
static fx_status note_one_of(fxi_schema *r, const json_t *list)
{
    const fxi_schema_set seen = {r->one_of.at, r->one_of.n};
    if (fxi_schema_has(&seen, list)) return FX_OK;
    if (!fxi_grow(&r->one_of.at, sizeof *r->one_of.at, r->one_of.n, &r->one_of.cap))
        return fxi_schema_no_memory(r);
    r->one_of.at[r->one_of.n++] = list;
    return FX_OK;
}

static fx_status apply_object(fxi_schema *r, branch *b, const json_t *s)
{
    const json_t *target, *all = json_object_get(s, "allOf"), *any = json_object_get(s, "anyOf"),
                          *one = json_object_get(s, "oneOf");
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

static fx_status apply_schema(fxi_schema *r, branch *b, const json_t *s, bool *is_never)
{
    if (json_is_true(s) || fxi_schema_has(&b->applied.set, s)) return FX_OK;
    *is_never = !json_is_object(s);
    if (*is_never) return FX_OK;
    FX_TRY(fxi_schema_put(r, &b->applied, s));
    return apply_object(r, b, s);
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

static fx_status add_list(fxi_schema *r, fxi_schema_lists *out, const branch *b)
{
    if (out->n == out->cap) {
        const size_t cap = 2 * out->cap + 8;
        fxi_schema_set *at = fxi_schema_take(r, cap, sizeof *at);
        if (!at) return fxi_schema_no_memory(r);
        if (out->n) memcpy(at, out->at, out->n * sizeof *at);
        out->at = at;
        out->cap = cap;
    }
    out->at[out->n++] = b->applied.set;
    return FX_OK;
}

// Goes on with a branch until it is complete, splits, or turns out to be impossible.
static fx_status run_branch(fxi_schema *r, branch_stack *stack, branch *b, fxi_schema_lists *out)
{
    bool is_never = false;
    while (b->n_item && !is_never) {
        const branch_item it = b->item[--b->n_item];
        if (it.is_choice) return split_branch(r, stack, b, it.v);
        FX_TRY(apply_schema(r, b, it.v, &is_never));
    }
    return is_never ? FX_OK : add_list(r, out, b);
}

fx_status fxi_schema_expand(fxi_schema *r, const fxi_schema_set *set, fxi_schema_lists *out)
{
    branch_stack stack = {0};
    branch *b = calloc(1, sizeof *b);
    fx_status st = b ? FX_OK : fxi_schema_no_memory(r);
    *out = (fxi_schema_lists){0};
    for (size_t i = set->n; !st && i-- > 0;) st = push_item(r, b, set->at[i], false);
    if (!st) st = push_branch(r, &stack, b);
    while (!st && stack.n) {
        pop_branch(&stack, b);
        st = run_branch(r, &stack, b, out);
    }
    free(b);
    free_branches(&stack);
    return st;
}
