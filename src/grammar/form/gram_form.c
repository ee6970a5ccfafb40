// gram_form.c - adds nodes to a form. What is trivial is simplified on the way: a sequence or a
// choice of one node is that node, a repeat of no times is the empty text.
#include "grammar/form/gram_form.h"

#include <stdlib.h>

#include "base/system/grow.h"

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

static uint32_t break_form(fxi_gram *g, fx_status st)
{
    if (!g->broken) g->broken = st;
    return 0;
}

// Whether n more fit behind `have` elements.
static bool fits_more(fxi_gram *g, size_t have, size_t n)
{
    if (g->broken) return false;
    if (n <= FXI_GRAM_MAX_SIZE && have <= FXI_GRAM_MAX_SIZE - n) return true;
    break_form(g, FX_EINVAL);
    return false;
}

static uint32_t append_node(fxi_gram *g, fxi_gram_node node)
{
    if (!fits_more(g, g->n_node, 1)) return 0;
    if (!fxi_grow(&g->node, sizeof *g->node, g->n_node, &g->cap_node))
        return break_form(g, FX_ENOMEM);
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
    break_form(g, FX_ENOMEM);
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
    if (!fxi_grow(&g->set, sizeof *g->set, g->n_set, &g->cap_set)) return break_form(g, FX_ENOMEM);
    g->set[g->n_set] = *s;
    return make_node(g, (fxi_gram_node){.kind = FXI_GRAM_SET, .at = (uint32_t)g->n_set++});
}

static uint32_t add_list(fxi_gram *g, fxi_gram_kind kind, const uint32_t *node, size_t n)
{
    const uint32_t at = (uint32_t)g->n_kid;
    if (!fits_more(g, g->n_kid, n)) return 0;
    for (size_t i = 0; i < n; i++) {
        if (!fxi_grow(&g->kid, sizeof *g->kid, g->n_kid, &g->cap_kid))
            return break_form(g, FX_ENOMEM);
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
        return break_form(g, FX_ENOMEM);
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
