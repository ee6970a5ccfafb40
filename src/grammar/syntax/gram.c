// gram.c - builds a grammar node by node, then finds what must be known before it runs: which nodes
// match the empty string, which match anything at all, and that no rule begins with itself.
//
// Building simplifies the trivial: a sequence or choice of one node is that node, a repeat of zero
// times is the empty text.
//
// The two properties are least fixed points, found by passes over all nodes until nothing changes.
// A node usually follows the nodes it is made of, so few passes suffice. References may point
// ahead, and an adversarial grammar needs a pass per rule, so the number of steps is limited.
//
// A rule that reaches itself before it takes a byte (a = a "x") would be entered forever. A
// depth-first walk over what can be entered without taking a byte finds it.
#include "grammar/syntax/gram.h"

#include <stdlib.h>

#include "base/system/grow.h"

enum { MAX_CHECK_STEPS = 100000000 };

void fxi_gram_free(fxi_gram *g)
{
    free(g->node);
    free(g->kid);
    free(g->set);
    free(g->rule);
    fxi_buf_free(&g->text);
    *g = (fxi_gram){0};
}

size_t fxi_gram_n_bytes(const fxi_gram *g)
{
    return g->cap_node * sizeof *g->node + g->cap_kid * sizeof *g->kid +
           g->cap_set * sizeof *g->set + g->cap_rule * sizeof *g->rule + g->text.cap;
}

static uint32_t break_gram(fxi_gram *g, fx_status st)
{
    if (!g->broken) g->broken = st;
    return 0;
}

// Whether n more elements fit after `have`.
static bool fits_more(fxi_gram *g, size_t have, size_t n)
{
    if (g->broken) return false;
    if (n <= FXI_GRAM_MAX_SIZE && have <= FXI_GRAM_MAX_SIZE - n) return true;
    break_gram(g, FX_EINVAL);
    return false;
}

static uint32_t append_node(fxi_gram *g, fxi_gram_node node)
{
    if (!fits_more(g, g->n_node, 1)) return 0;
    if (!fxi_grow(&g->node, sizeof *g->node, g->n_node, &g->cap_node))
        return break_gram(g, FX_ENOMEM);
    g->node[g->n_node] = node;
    return (uint32_t)g->n_node++;
}

static uint32_t make_node(fxi_gram *g, fxi_gram_node node)
{
    if (!g->n_node) append_node(g, (fxi_gram_node){.kind = FXI_GRAM_NEVER});
    return append_node(g, node);
}

static bool store_bytes(fxi_gram *g, const void *bytes, size_t n)
{
    if (!fits_more(g, g->text.n, n)) return false;
    if (!n || fxi_buf_add(&g->text, bytes, n)) return true;
    break_gram(g, FX_ENOMEM);
    return false;
}

uint32_t fxi_gram_text(fxi_gram *g, const void *bytes, size_t n)
{
    const uint32_t at = (uint32_t)g->text.n;
    if (!store_bytes(g, bytes, n)) return 0;
    return make_node(g, (fxi_gram_node){.kind = FXI_GRAM_TEXT, .at = at, .n = (uint32_t)n});
}

uint32_t fxi_gram_set(fxi_gram *g, const fxi_byte_set *s)
{
    if (!fits_more(g, g->n_set, 1)) return 0;
    if (!fxi_grow(&g->set, sizeof *g->set, g->n_set, &g->cap_set)) return break_gram(g, FX_ENOMEM);
    g->set[g->n_set] = *s;
    return make_node(g, (fxi_gram_node){.kind = FXI_GRAM_SET, .at = (uint32_t)g->n_set++});
}

static uint32_t add_list(fxi_gram *g, fxi_gram_kind kind, const uint32_t *node, size_t n)
{
    const uint32_t at = (uint32_t)g->n_kid;
    if (!fits_more(g, g->n_kid, n)) return 0;
    for (size_t i = 0; i < n; i++) {
        if (!fxi_grow(&g->kid, sizeof *g->kid, g->n_kid, &g->cap_kid))
            return break_gram(g, FX_ENOMEM);
        g->kid[g->n_kid++] = node[i];
    }
    return make_node(g, (fxi_gram_node){.kind = (uint8_t)kind, .at = at, .n = (uint32_t)n});
}

uint32_t fxi_gram_seq(fxi_gram *g, const uint32_t *node, size_t n)
{
    if (n == 0) return fxi_gram_text(g, NULL, 0);
    return n == 1 ? node[0] : add_list(g, FXI_GRAM_SEQ, node, n);
}

uint32_t fxi_gram_alt(fxi_gram *g, const uint32_t *node, size_t n)
{
    return n == 1 ? node[0] : add_list(g, FXI_GRAM_ALT, node, n);
}

uint32_t fxi_gram_repeat(fxi_gram *g, uint32_t node, uint32_t min, uint32_t max)
{
    if (max == 0) return fxi_gram_text(g, NULL, 0);
    if (min == 1 && max == 1) return node;
    return make_node(g,
                     (fxi_gram_node){.kind = FXI_GRAM_REPEAT, .at = node, .min = min, .max = max});
}

uint32_t fxi_gram_rule_add(fxi_gram *g, fxi_str name)
{
    const uint32_t at = (uint32_t)g->text.n;
    if (!fits_more(g, g->n_rule, 1) || !store_bytes(g, name.p, name.n)) return 0;
    if (!fxi_grow(&g->rule, sizeof *g->rule, g->n_rule, &g->cap_rule))
        return break_gram(g, FX_ENOMEM);
    g->rule[g->n_rule] = (fxi_gram_rule){.name = at, .n_name = (uint32_t)name.n};
    return (uint32_t)g->n_rule++;
}

void fxi_gram_rule_define(fxi_gram *g, uint32_t rule, uint32_t node)
{
    if (g->broken) return;
    g->rule[rule].node = node;
    g->rule[rule].defined = true;
}

uint32_t fxi_gram_ref(fxi_gram *g, uint32_t rule)
{
    return make_node(g, (fxi_gram_node){.kind = FXI_GRAM_REF, .at = rule});
}

bool fxi_node_list_add(fxi_node_list *l, uint32_t node)
{
    if (!fxi_grow(&l->node, sizeof *l->node, l->n, &l->cap)) return false;
    l->node[l->n++] = node;
    return true;
}

// ---- checks -------------------------------------------------------------------------------------

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
    const uint32_t *kid = g->kid + x->at;
    uint32_t i = 0;
    switch (x->kind) {
    case FXI_GRAM_TEXT: return true;
    case FXI_GRAM_SET: return fxi_byte_any(&g->set[x->at]);
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
    uint32_t node, next; // next: index of the child to visit
} left_step;

enum { UNSEEN, ON_PATH, DONE };
#define NO_NODE UINT32_MAX

// The i-th node that may be entered as soon as x is; NO_NODE: there is none.
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

// Walks from one node. Every cycle contains a reference: the last one on the path names the rule.
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
    fx_status st = mark && path ? FX_OK : fxi_fail_memory(err);
    for (uint32_t i = 0; !st && i < g->n_node; i++)
        if (mark[i] == UNSEEN) st = walk_left(g, i, mark, path, err);
    free(mark);
    free(path);
    return st;
}

fx_status fxi_gram_finish(fxi_gram *g, uint32_t root, fx_error *err)
{
    if (g->broken == FX_ENOMEM) return fxi_fail_memory(err);
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
