// prob_log.c - a growing array of probabilities, and one of alternatives once a token has some.
#include "engine/sampling/prob_log.h"

#include <stdlib.h>
#include <string.h>

static bool grow_log(fxi_prob_log *l, int cap)
{
    fx_token_prob *tok = realloc(l->tok, (size_t)cap * sizeof *tok);
    if (tok) l->tok = tok;
    if (!tok) return false;
    if (l->top) {
        fx_logprob *top = realloc(l->top, (size_t)cap * FX_MAX_TOP * sizeof *top);
        if (!top) return false;
        l->top = top;
    }
    l->cap = cap;
    return true;
}

static bool make_top(fxi_prob_log *l)
{
    if (!l->top) l->top = malloc((size_t)l->cap * FX_MAX_TOP * sizeof *l->top);
    return l->top != NULL;
}

bool fxi_prob_log_add(fxi_prob_log *l, const fx_token_prob *p)
{
    if (l->n == l->cap && !grow_log(l, l->cap ? 2 * l->cap : 16)) return false;
    if (p->n_top && !make_top(l)) return false;
    l->tok[l->n] = *p;
    if (p->n_top)
        memcpy(l->top + (size_t)l->n * FX_MAX_TOP, p->top, (size_t)p->n_top * sizeof *p->top);
    l->n++;
    return true;
}

bool fxi_prob_log_copy(fxi_prob_log *to, const fxi_prob_log *from)
{
    if (!from->n) return true;
    if (!grow_log(to, from->cap) || (from->top && !make_top(to))) return false;
    memcpy(to->tok, from->tok, (size_t)from->n * sizeof *to->tok);
    if (from->top) memcpy(to->top, from->top, (size_t)from->n * FX_MAX_TOP * sizeof *to->top);
    to->n = from->n;
    return true;
}

fx_token_prob fxi_prob_log_at(const fxi_prob_log *l, int i)
{
    fx_token_prob p = l->tok[i];
    p.top = p.n_top ? l->top + (size_t)i * FX_MAX_TOP : NULL;
    return p;
}

void fxi_prob_log_free(fxi_prob_log *l)
{
    free(l->tok);
    free(l->top);
    *l = (fxi_prob_log){0};
}
