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
static fxi_schema_set simplify_set(fxi_schema *r, const fxi_schema_set *set)
{
    fxi_schema_bag b = {0};
    for (size_t i = 0; i < set->n; i++) {
        const fxi_json *s = set->at[i];
        for (int k = 0; is_bare_ref(s) && k < MAX_REF_CHAIN; k++) {
            fxi_schema_check(r, s);
            s = fxi_schema_resolve(r, s);
        }
        if (!fxi_json_is_true(s)) fxi_schema_put(r, &b, s);
    }
    return b.set;
}

uint32_t fxi_schema_node(fxi_schema *r, const fxi_schema_set *set)
{
    const fxi_schema_set s = simplify_set(r, set);
    if (!s.n) return r->json->value;
    for (size_t i = 0; i < r->n_rule; i++) {
        const fxi_schema_set *known = &r->rule[i].set;
        size_t k = 0;
        while (known->n == s.n && k < s.n && fxi_schema_has(&s, known->at[k])) k++;
        if (k == s.n) return fxi_gram_ref(r->g, r->rule[i].rule);
    }
    if (r->n_rule == MAX_RULE && !r->failed)
        r->failed = fxi_fail(r->err, FX_EINVAL, "schema: more than %d parts", MAX_RULE);
    if (r->failed ||
        !fxi_schema_need(r, fxi_grow(&r->rule, sizeof *r->rule, r->n_rule, &r->cap_rule)))
        return 0;
    const uint32_t rule = fxi_gram_rule_add(r->g, fxi_str_of("a schema"));
    r->rule[r->n_rule++] = (fxi_schema_rule){s, rule};
    return fxi_gram_ref(r->g, rule);
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

static void push_branch(fxi_schema *r, branch_stack *stack, const branch *from)
{
    const size_t item_bytes = from->n_item * sizeof *from->item;
    waiting_branch *b = malloc(sizeof *b + item_bytes);
    fxi_schema_charge(r, 1 + from->n_item + from->applied.set.n);
    if (!fxi_schema_need(r, b && fxi_grow(&stack->at, sizeof *stack->at, stack->n, &stack->cap))) {
        free(b);
        return;
    }
    *b = (waiting_branch){.n_item = from->n_item};
    memcpy(b->item, from->item, item_bytes);
    stack->at[stack->n++] = b;
    for (size_t i = 0; i < from->applied.set.n; i++)
        fxi_schema_put(r, &b->applied, from->applied.set.at[i]);
}

static void push_item(fxi_schema *r, branch *b, const fxi_json *v, bool is_choice)
{
    if (b->n_item < FXI_SCHEMA_MAX_LIST)
        b->item[b->n_item++] = (branch_item){v, is_choice};
    else
        fxi_schema_refuse(r, v, "more than %d schemas at once", FXI_SCHEMA_MAX_LIST);
}

// Remembers a list of oneOf, to be checked.
static void note_one_of(fxi_schema *r, const fxi_json *list)
{
    const fxi_schema_set seen = {r->one_of.at, r->one_of.n};
    if (fxi_schema_has(&seen, list)) return;
    if (fxi_schema_need(r, fxi_grow(&r->one_of.at, sizeof list, r->one_of.n, &r->one_of.cap)))
        r->one_of.at[r->one_of.n++] = list;
}

// False: no value satisfies it.
static bool apply_schema(fxi_schema *r, branch *b, const fxi_json *s)
{
    const fxi_json *all = fxi_json_get(s, "allOf"), *any = fxi_json_get(s, "anyOf"),
                   *one = fxi_json_get(s, "oneOf");
    if (fxi_json_is_true(s) || fxi_schema_has(&b->applied.set, s)) return true;
    if (!fxi_json_is_object(s)) return false;
    fxi_schema_put(r, &b->applied, s);
    fxi_schema_check(r, s);
    if (one) note_one_of(r, one);
    if (one) push_item(r, b, one, true);
    if (any) push_item(r, b, any, true);
    for (size_t i = fxi_json_array_size(all); i-- > 0;) push_item(r, b, fxi_json_at(all, i), false);
    if (fxi_json_get(s, "$ref")) push_item(r, b, fxi_schema_resolve(r, s), false);
    return true;
}

// Continues a branch until it is complete, splits, or turns out to be impossible.
static void run_branch(fxi_schema *r, branch_stack *stack, branch *b, fxi_schema_lists *out)
{
    while (b->n_item) {
        const branch_item it = b->item[--b->n_item];
        if (!it.is_choice) {
            if (!apply_schema(r, b, it.v) || r->failed) return;
            continue;
        }
        for (size_t i = fxi_json_array_size(it.v); i-- > 0 && !r->failed;) { // it splits
            push_item(r, b, fxi_json_at(it.v, i), false);
            push_branch(r, stack, b);
            b->n_item--;
        }
        return;
    }
    if (fxi_schema_grow(r, &out->at, sizeof *out->at, out->n, &out->cap))
        out->at[out->n++] = b->applied.set;
}

fxi_schema_lists fxi_schema_expand(fxi_schema *r, const fxi_schema_set *set)
{
    fxi_schema_lists out = {0};
    branch_stack stack = {0};
    branch *b = calloc(1, sizeof *b);
    if (!fxi_schema_need(r, b)) return out;
    for (size_t i = set->n; i-- > 0;) push_item(r, b, set->at[i], false);
    push_branch(r, &stack, b);
    while (!r->failed && stack.n) {
        waiting_branch *next = stack.at[--stack.n];
        b->applied = next->applied;
        b->n_item = next->n_item;
        memcpy(b->item, next->item, next->n_item * sizeof *next->item);
        free(next);
        run_branch(r, &stack, b, &out);
    }
    free(b);
    for (size_t i = 0; i < stack.n; i++) free(stack.at[i]);
    free(stack.at);
    if (r->failed) out.n = 0;
    return out;
}
