// rules_ways.c - the right side of a rule.
//
// An alternative that begins with its own rule is kept apart: a: a x | b is b x*.
#include <stdlib.h>

#include "grammar/rules/rules_parts.h"

enum { MAX_OPEN = 100, MAX_TIMES = 1000000 };

// ---- repeats ------------------------------------------------------------------------------------

static bool take_times(fxi_rule_reader *r, uint32_t *out)
{
    const size_t from = r->at;
    uint64_t v = 0;
    for (; r->at < r->s.n && r->s.p[r->at] >= '0' && r->s.p[r->at] <= '9'; r->at++)
        v = v > MAX_TIMES ? v : 10 * v + (uint64_t)(r->s.p[r->at] - '0');
    *out = v > MAX_TIMES ? MAX_TIMES + 1 : (uint32_t)v;
    return r->at > from;
}

// {m}, {m,}, {m,n} and {,n}, behind the brace.
static fx_status read_brace_times(fxi_rule_reader *r, uint32_t *min, uint32_t *max)
{
    const bool has_min = take_times(r, min);
    fxi_rules_skip(r, false);
    *max = *min;
    if (fxi_rules_take(r, ",")) {
        fxi_rules_skip(r, false);
        if (!take_times(r, max)) *max = FXI_GRAM_NO_MAX;
        fxi_rules_skip(r, false);
    } else if (!has_min) {
        return fxi_rules_refuse(r, "a repeat without a number");
    }
    return fxi_rules_take(r, "}") ? FX_OK : fxi_rules_refuse(r, "a repeat without \"}\"");
}

// ~m and ~m..n, behind the tilde.
static fx_status read_tilde_times(fxi_rule_reader *r, uint32_t *min, uint32_t *max)
{
    fxi_rules_skip(r, false);
    if (!take_times(r, min)) return fxi_rules_refuse(r, "a repeat (~) without a number");
    *max = *min;
    fxi_rules_skip(r, false);
    if (fxi_rules_take(r, "..")) {
        fxi_rules_skip(r, false);
        if (!take_times(r, max)) return fxi_rules_refuse(r, "a repeat (~) without its end");
    }
    return FX_OK;
}

static fx_status read_times(fxi_rule_reader *r, uint32_t *min, uint32_t *max, bool *found)
{
    *min = fxi_rules_is_next(r, "+");
    *max = fxi_rules_is_next(r, "?") ? 1 : FXI_GRAM_NO_MAX;
    *found = true;
    if (fxi_rules_take(r, "*") || fxi_rules_take(r, "+") || fxi_rules_take(r, "?")) return FX_OK;
    if (!r->is_lark && fxi_rules_take(r, "{")) return read_brace_times(r, min, max);
    if (r->is_lark && fxi_rules_take(r, "~")) return read_tilde_times(r, min, max);
    *found = false;
    return FX_OK;
}

// ---- elements -----------------------------------------------------------------------------------

// Behind "(" or "[".
static fx_status read_rule_group(fxi_rule_reader *r, const char *close, uint32_t *node)
{
    if (++r->depth > MAX_OPEN) return fxi_rules_refuse(r, "groups nested deeper than %d", MAX_OPEN);
    FX_TRY(fxi_rules_ways(r, node));
    if (!fxi_rules_take(r, close)) return fxi_rules_refuse(r, "a group without \"%s\"", close);
    r->depth--;
    if (*close == ']') *node = fxi_gram_repeat(r->g, *node, 0, 1);
    return FX_OK;
}

static fx_status read_element(fxi_rule_reader *r, uint32_t *node, bool *is_self)
{
    uint32_t min, max;
    bool found = true;
    *is_self = false;
    if (fxi_rules_take(r, "("))
        FX_TRY(read_rule_group(r, ")", node));
    else if (r->is_lark && fxi_rules_take(r, "["))
        FX_TRY(read_rule_group(r, "]", node));
    else
        FX_TRY(fxi_rules_atom(r, node, is_self));
    while (found) {
        FX_TRY(read_times(r, &min, &max, &found));
        if (!found) break;
        if (min > max || min > MAX_TIMES || (max > MAX_TIMES && max != FXI_GRAM_NO_MAX))
            return fxi_rules_refuse(r, "a repeat of %u to %u times", min, max);
        *node = fxi_gram_repeat(r->g, *node, min, max);
        *is_self = false;
    }
    return FX_OK;
}

// ---- alternatives -------------------------------------------------------------------------------

// Whether the rule or the group ends here; goes on to a next line that begins with "|".
static bool ends_ways(fxi_rule_reader *r)
{
    fxi_rules_skip(r, r->depth > 0);
    if (r->at < r->s.n && r->s.p[r->at] == '\n') {
        const size_t at = r->at;
        fxi_rules_skip(r, true);
        if (fxi_rules_is_next(r, "|")) return false;
        r->at = at;
        return true;
    }
    return r->at >= r->s.n || fxi_rules_is_next(r, ")") ||
           (r->is_lark && fxi_rules_is_next(r, "]"));
}

static bool ends_way(fxi_rule_reader *r)
{
    return ends_ways(r) || fxi_rules_is_next(r, "|") || (r->is_lark && fxi_rules_is_next(r, "->"));
}

static fx_status read_elements(fxi_rule_reader *r, fxi_rule_list *l, bool *is_left)
{
    *is_left = false;
    while (!ends_way(r)) {
        uint32_t node = 0;
        bool is_self;
        FX_TRY(read_element(r, &node, &is_self));
        if (!l->n && is_self && !r->depth && !*is_left)
            *is_left = true; // and it is left out
        else
            FX_TRY(fxi_rules_list(r, l, node));
    }
    if (!r->is_lark || !fxi_rules_take(r, "->")) return FX_OK;
    fxi_rules_skip(r, false);
    if (!fxi_rules_take_name(r).n) return fxi_rules_refuse(r, "an alias (->) without a name");
    return FX_OK;
}

static fx_status read_alternative(fxi_rule_reader *r, fxi_rule_list *ways, fxi_rule_list *left)
{
    fxi_rule_list l = {0};
    bool is_left;
    fx_status st = read_elements(r, &l, &is_left);
    if (!st && !(is_left && !l.n)) // a: a says nothing
        st = fxi_rules_list(r, is_left ? left : ways, fxi_gram_seq(r->g, l.node, l.n));
    free(l.node);
    return st;
}

// Whether a rule begins here.
static bool is_rule_next(const fxi_rule_reader *r)
{
    fxi_rule_reader ahead = *r;
    if (r->is_lark && !fxi_rules_take(&ahead, "?")) (void)fxi_rules_take(&ahead, "!");
    if (!fxi_rules_take_name(&ahead).n) return fxi_rules_is_next(r, "%") && r->is_lark;
    if (r->is_lark && fxi_rules_take(&ahead, ".")) (void)fxi_rules_take_name(&ahead);
    fxi_rules_skip(&ahead, false);
    return fxi_rules_is_next(&ahead, r->is_lark ? ":" : "::=");
}

// To an alternative, which may stand in a later line; an empty one does not reach the next rule.
static void skip_to_way(fxi_rule_reader *r)
{
    fxi_rules_skip(r, false);
    const size_t at = r->at;
    fxi_rules_skip(r, true);
    if (r->at > at && !r->depth && is_rule_next(r)) r->at = at;
}

fx_status fxi_rules_ways(fxi_rule_reader *r, uint32_t *node)
{
    fxi_rule_list ways = {0}, left = {0};
    fx_status st = FX_OK;
    do {
        skip_to_way(r);
        st = read_alternative(r, &ways, &left);
    } while (!st && !ends_ways(r) && fxi_rules_take(r, "|"));
    if (!st) *node = fxi_gram_alt(r->g, ways.node, ways.n);
    if (!st && left.n) {
        const uint32_t again = fxi_gram_alt(r->g, left.node, left.n);
        const uint32_t part[] = {*node, fxi_gram_repeat(r->g, again, 0, FXI_GRAM_NO_MAX)};
        *node = fxi_gram_seq(r->g, part, 2);
    }
    free(ways.node);
    free(left.node);
    return st;
}
