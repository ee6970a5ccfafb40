// gram_near.c - goes down the stacks, each set once; sets with nothing to forget stay as they are.
#include "grammar/run/gram_near.h"

#include <stdlib.h>

#include "base/system/grow.h"

// Beyond one for each byte: what is entered before the first and behind the last.
enum { SPARE_ROUNDS = 2 };

void fxi_gram_near_free(fxi_gram_near *m)
{
    free(m->of);
    m->of = NULL;
    m->n = m->cap = 0;
}

static bool reach_set(fxi_gram_near *m, uint32_t set)
{
    while (m->n <= set) {
        if (!fxi_grow(&m->of, sizeof *m->of, m->n, &m->cap)) return false;
        m->of[m->n++] = 0;
    }
    return true;
}

static uint32_t near_count(const fxi_gram *form, const fxi_gram_node *x, uint32_t count,
                           uint32_t reach)
{
    const uint32_t min = form->node[x->at].nullable ? 0 : x->min, far = reach + SPARE_ROUNDS;
    if (count & FXI_NEAR_FAR) return count;
    if (count < min && min - count > far) return FXI_NEAR_LESS;
    if (x->max == FXI_GRAM_NO_MAX || x->max < count || x->max - count <= far) return count;
    return FXI_NEAR_FAR | (count < min ? count : min);
}

static fxi_gram_frame near_frame(const fxi_gram_near *m, const fxi_gram *form, fxi_gram_frame f)
{
    const fxi_gram_node *x = &form->node[f.node];
    f.rest = m->of[f.rest];
    if (x->kind == FXI_GRAM_REPEAT) f.at = near_count(form, x, f.at, m->reach);
    return f;
}

static bool differs_near(const fxi_gram_near *m, const fxi_gram *form, const fxi_gram_frame *f)
{
    const fxi_gram_frame near = near_frame(m, form, *f);
    return near.rest != f->rest || near.at != f->at;
}

static fx_status make_near(fxi_gram_near *m, const fxi_gram *form, fxi_gram_stacks *stacks,
                           uint32_t set, uint32_t *out, fx_error *err)
{
    const fxi_gram_stack_set x = stacks->set[set];
    fxi_gram_frame *f = calloc(x.n, sizeof *f);
    if (!f) return fxi_fail(err, FX_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < x.n; i++) f[i] = near_frame(m, form, stacks->frame[x.first + i]);
    const fx_status st = fxi_gram_stacks_put(stacks, f, x.n, x.has_empty, out, err);
    free(f);
    return st;
}

// The sets below are known.
static fx_status find_set(fxi_gram_near *m, const fxi_gram *form, fxi_gram_stacks *stacks,
                          uint32_t set, uint32_t *out, fx_error *err)
{
    const fxi_gram_stack_set x = stacks->set[set];
    bool differs = false;
    *out = set;
    for (uint32_t i = 0; i < x.n; i++)
        differs = differs || differs_near(m, form, &stacks->frame[x.first + i]);
    if (differs) FX_TRY(make_near(m, form, stacks, set, out, err));
    if (!reach_set(m, *out > set ? *out : set)) return fxi_fail(err, FX_ENOMEM, "out of memory");
    m->of[set] = m->of[*out] = *out;
    return FX_OK;
}

// A stack is no deeper than FXI_STACKS_MAX_DEPTH.
fx_status fxi_gram_near_find(fxi_gram_near *m, const fxi_gram *form, fxi_gram_stacks *stacks,
                             uint32_t set, uint32_t *out, fx_error *err)
{
    *out = set <= FXI_STACKS_EMPTY ? set : fxi_gram_near_known(m, set);
    if (!reach_set(m, set > FXI_STACKS_EMPTY ? set : FXI_STACKS_EMPTY))
        return fxi_fail(err, FX_ENOMEM, "out of memory");
    m->of[FXI_STACKS_EMPTY] = FXI_STACKS_EMPTY;
    if (*out || set == FXI_STACKS_NONE) return FX_OK;
    const fxi_gram_stack_set x = stacks->set[set];
    for (uint32_t i = 0; i < x.n; i++) {
        uint32_t rest;
        FX_TRY(fxi_gram_near_find(m, form, stacks, stacks->frame[x.first + i].rest, &rest, err));
    }
    return find_set(m, form, stacks, set, out, err);
}
