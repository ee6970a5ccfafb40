// gram_near.h - a state as a short text sees it: the counts of repeats that it cannot bring to an
// end are forgotten.
//
// A string of up to 1000 characters has 1000 states, one for each count, and where the maximum is
// far they all go on with the same tokens. Within `reach` bytes a repeat goes round at most `reach`
// times; so where neither its maximum nor its minimum can be reached the count says nothing, and
// all such states have one near state.
#ifndef FXI_GRAMMAR_NEAR_H
#define FXI_GRAMMAR_NEAR_H

#include "grammar/form/gram_form.h"
#include "grammar/run/gram_stacks.h"

// Counts of frames in place of numbers. FXI_NEAR_FAR: the maximum is out of reach; the rest of it
// counts up to the minimum. FXI_NEAR_LESS: so is the minimum.
#define FXI_NEAR_FAR  ((uint32_t)1 << 31)
#define FXI_NEAR_LESS UINT32_MAX

typedef struct fxi_gram_near { // of one automaton; all zero but for reach: nothing is known
    uint32_t reach;            // bytes
    uint32_t *of;              // [n] of a set: the near one, 0: not known
    size_t n, cap;
} fxi_gram_near;

void fxi_gram_near_free(fxi_gram_near *m);

// What was found before; 0: nothing.
static inline uint32_t fxi_gram_near_known(const fxi_gram_near *m, uint32_t set)
{
    return set < m->n ? m->of[set] : 0;
}

// *out: a set of stacks from which the same texts of up to `reach` bytes go on; the set itself if
// nothing can be forgotten. Errors: those of gram_stacks.h.
fx_status fxi_gram_near_find(fxi_gram_near *m, const fxi_gram *form, fxi_gram_stacks *stacks,
                             uint32_t set, uint32_t *out, fx_error *err);

#endif
