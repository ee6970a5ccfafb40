// gram_wide.c - a set of characters is written as a choice of sequences of byte sets. Where those
// sequences and the byte of ASCII lie over the same stacks, whatever has been read of them, the
// same follows.
#include "grammar/run/gram_wide.h"

#include "grammar/run/gram_stacks.h"

const fxi_utf8_row fxi_utf8_rows[FXI_N_UTF8_ROW] = {
    {0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xEC, 0x80, 0xBF, 1},
    {0xED, 0xED, 0x80, 0x9F, 1}, {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
    {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};

static int count_accepted(const fxi_gram *g, uint32_t node, unsigned lo, unsigned hi)
{
    const fxi_gram_node *x = &g->node[node];
    int n = 0;
    for (unsigned b = lo; x->kind == FXI_GRAM_SET && b <= hi; b++)
        n += fxi_byte_in(&g->set[x->at], (uint8_t)b);
    return n;
}

static bool accepts_all(const fxi_gram *g, uint32_t node, unsigned lo, unsigned hi)
{
    return count_accepted(g, node, lo, hi) == (int)(hi - lo + 1);
}

// The one top that accepts any of these bytes, if it accepts all of them and is a set; or NULL.
static const fxi_gram_frame *only_top(const fxi_auto *a, uint32_t state, unsigned lo, unsigned hi)
{
    const fxi_gram *g = fxi_auto_form(a);
    const fxi_gram_stacks *stacks = fxi_auto_stacks(a);
    const fxi_gram_stack_set set = stacks->set[state];
    const fxi_gram_frame *only = NULL;
    for (uint32_t i = 0; i < set.n; i++) {
        const fxi_gram_frame *top = &stacks->frame[set.first + i];
        const fxi_gram_node *x = &g->node[top->node];
        const uint8_t spelled = x->kind == FXI_GRAM_TEXT ? (uint8_t)g->text.p[x->at + top->at] : 0;
        if (x->kind == FXI_GRAM_TEXT && spelled >= lo && spelled <= hi) return NULL;
        if (!count_accepted(g, top->node, lo, hi)) continue;
        if (only || !accepts_all(g, top->node, lo, hi)) return NULL;
        only = top;
    }
    return only;
}

// Whether all characters of a row are one sequence of byte sets over `rest`.
static bool lies_over(const fxi_auto *a, uint32_t state, const fxi_utf8_row *r, uint32_t rest)
{
    const fxi_gram *g = fxi_auto_form(a);
    const fxi_gram_stacks *stacks = fxi_auto_stacks(a);
    const fxi_gram_frame *top = only_top(a, state, r->first_lo, r->first_hi);
    if (!top || stacks->set[top->rest].n != 1 || stacks->set[top->rest].has_empty) return false;
    const fxi_gram_frame *next = &stacks->frame[stacks->set[top->rest].first];
    const fxi_gram_node *seq = &g->node[next->node];
    if (seq->kind != FXI_GRAM_SEQ || next->at != 1 || next->rest != rest ||
        seq->n != 2u + r->n_more ||
        !accepts_all(g, g->kid[seq->at + 1], r->second_lo, r->second_hi))
        return false;
    for (uint32_t i = 2; i < seq->n; i++)
        if (!accepts_all(g, g->kid[seq->at + i], 0x80, 0xBF)) return false;
    return true;
}

bool fxi_auto_goes_wide(const fxi_auto *a, uint32_t state, uint8_t ascii)
{
    const fxi_gram_frame *top = only_top(a, state, ascii, ascii);
    size_t i = 0;
    while (top && i < FXI_N_UTF8_ROW && lies_over(a, state, &fxi_utf8_rows[i], top->rest)) i++;
    return i == FXI_N_UTF8_ROW;
}
