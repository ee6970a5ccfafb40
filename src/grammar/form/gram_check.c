// gram_check.c - what must be known of a form before it runs: which nodes match the empty string,
// which match anything at all, and that no rule begins with itself.
//
// The first two are least fixed points, found by passes over all nodes until nothing changes. A
// node usually follows what it is made of, so few passes suffice; references may point ahead, and
// an evil form needs a pass per rule, so the passes have a limit.
//
// A rule that reaches itself before any byte (a = a "x") would be entered for ever. It is found by
// a walk, depth first, over what can be entered without a byte.
#include <stdlib.h>

#include "grammar/form/gram_form.h"

enum { MAX_CHECK_STEPS = 100000000 };

typedef bool node_property(const fxi_gram *g, const fxi_gram_node *x);

static bool is_nullable(const fxi_gram *g, const fxi_gram_node *x)
{
    const uint32_t *kid = g->kid + x->at;
    uint32_t i = 0;
    switch (x->kind) {
    case FXI_GRAM_TEXT: return x->n == 0;
    case FXI_GRAM_SEQ:
        while (i < x->n && g->node[kid[i]].nullable) i++;
        return i == x->n;
    case FXI_GRAM_ALT:
        while (i < x->n && !g->node[kid[i]].nullable) i++;
        return i < x->n;
    case FXI_GRAM_REPEAT: return x->min == 0 || g->node[x->at].nullable;
    case FXI_GRAM_REF: return g->node[g->rule[x->at].node].nullable;
    default: return false;
    }
}

static bool is_productive(const fxi_gram *g, const fxi_gram_node *x)
{
    static const fxi_byte_set none;
    const uint32_t *kid = g->kid + x->at;
    uint32_t i = 0;
    switch (x->kind) {
    case FXI_GRAM_TEXT: return true;
    case FXI_GRAM_SET: return memcmp(&g->set[x->at], &none, sizeof none) != 0;
    case FXI_GRAM_SEQ:
        while (i < x->n && g->node[kid[i]].productive) i++;
        return i == x->n;
    case FXI_GRAM_ALT:
        while (i < x->n && !g->node[kid[i]].productive) i++;
        return i < x->n;
    case FXI_GRAM_REPEAT: return x->min == 0 || g->node[x->at].productive;
    case FXI_GRAM_REF: return g->node[g->rule[x->at].node].productive;
    default: return false;
    }
}

static fx_status find_properties(fxi_gram *g, fx_error *err)
{
    const size_t pass_steps = g->n_node + g->n_kid;
    size_t n_step = 0;
    for (bool changed = true; changed;) {
        changed = false;
        if ((n_step += pass_steps) > MAX_CHECK_STEPS)
            return fxi_fail(err, FX_EINVAL, "the grammar's rules form chains that are too long");
        for (fxi_gram_node *x = g->node; x < g->node + g->n_node; x++) {
            const bool nullable = is_nullable(g, x), productive = is_productive(g, x);
            changed = changed || nullable != x->nullable || productive != x->productive;
            x->nullable = nullable;
            x->productive = productive;
        }
    }
    return FX_OK;
}

static fx_status fail_rule(const fxi_gram *g, uint32_t rule, const char *what, fx_error *err)
{
    const fxi_gram_rule *r = &g->rule[rule];
    return fxi_fail(err, FX_EINVAL, "rule \"%.*s\" %s", r->n_name > 80 ? 80 : (int)r->n_name,
                    g->text.p + r->name, what);
}

// ---- rules that begin with themselves -----------------------------------------------------------

typedef struct left_step {
    uint32_t node, next; // the next of its nodes to look at
} left_step;

enum { UNSEEN, ON_PATH, DONE };
#define NO_NODE UINT32_MAX

// The i-th node that may be entered as soon as x is, or NO_NODE.
static uint32_t entered_with(const fxi_gram *g, const fxi_gram_node *x, uint32_t i)
{
    if (!x->productive) return NO_NODE;
    switch (x->kind) {
    case FXI_GRAM_SEQ:
        if (i >= x->n || (i && !g->node[g->kid[x->at + i - 1]].nullable)) return NO_NODE;
        return g->kid[x->at + i];
    case FXI_GRAM_ALT: return i < x->n ? g->kid[x->at + i] : NO_NODE;
    case FXI_GRAM_REPEAT: return i == 0 ? x->at : NO_NODE;
    case FXI_GRAM_REF: return i == 0 ? g->rule[x->at].node : NO_NODE;
    default: return NO_NODE;
    }
}

// The walk from one node. A circle has a reference on it: the last one on the path is its rule.
static fx_status walk_left(const fxi_gram *g, uint32_t from, uint8_t *mark, left_step *path,
                           fx_error *err)
{
    size_t n = 0;
    path[n++] = (left_step){from, 0};
    mark[from] = ON_PATH;
    while (n) {
        left_step *s = &path[n - 1];
        const uint32_t to = entered_with(g, &g->node[s->node], s->next++);
        if (to == NO_NODE) {
            mark[s->node] = DONE;
            n--;
        } else if (mark[to] == ON_PATH) {
            while (g->node[path[n - 1].node].kind != FXI_GRAM_REF) n--;
            return fail_rule(g, g->node[path[n - 1].node].at,
                             "begins with itself: left recursion is not supported", err);
        } else if (mark[to] == UNSEEN) {
            mark[to] = ON_PATH;
            path[n++] = (left_step){to, 0};
        }
    }
    return FX_OK;
}

static fx_status check_left(const fxi_gram *g, fx_error *err)
{
    uint8_t *mark = calloc(g->n_node, 1);
    left_step *path = calloc(g->n_node, sizeof *path);
    fx_status st = mark && path ? FX_OK : fxi_fail(err, FX_ENOMEM, "out of memory");
    for (uint32_t i = 0; !st && i < g->n_node; i++)
        if (mark[i] == UNSEEN) st = walk_left(g, i, mark, path, err);
    free(mark);
    free(path);
    return st;
}

fx_status fxi_gram_finish(fxi_gram *g, uint32_t root, fx_error *err)
{
    if (g->broken == FX_ENOMEM) return fxi_fail(err, FX_ENOMEM, "out of memory");
    if (g->broken)
        return fxi_fail(err, FX_EINVAL, "the grammar has more than %d parts", FXI_GRAM_MAX_SIZE);
    for (uint32_t r = 0; r < g->n_rule; r++)
        if (!g->rule[r].defined) return fail_rule(g, r, "is not defined", err);
    FX_TRY(find_properties(g, err));
    FX_TRY(check_left(g, err));
    if (!g->n_node || !g->node[root].productive)
        return fxi_fail(err, FX_EINVAL, "nothing matches the grammar");
    g->root = root;
    return FX_OK;
}
