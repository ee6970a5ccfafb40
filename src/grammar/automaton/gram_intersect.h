// gram_intersect.h - the texts that two grammars share, or that one has and the other has not.
//
// Context-free grammars cannot be intersected in general. These can where both automata have few
// states, as patterns, lengths and bounds of numbers do. The result is a rule for each pair of
// states that can be reached.
#ifndef FXI_GRAMMAR_INTERSECT_H
#define FXI_GRAMMAR_INTERSECT_H

#include "grammar/syntax/gram.h"

enum { FXI_INTERSECT_MAX_STATE = 1 << 14 };

typedef struct fxi_intersect_part {
    fxi_gram g;
    uint32_t root;
    bool is_not; // the texts that the grammar does not match
} fxi_intersect_part;

// Adds what all parts allow; the first must not be an is_not. Frees their grammars, which need not
// be finished, whatever the result. A part may match nothing. *n_pair: pairs of states it took.
fx_status fxi_gram_intersect(fxi_gram *out, fxi_intersect_part *part, size_t n, uint32_t *node,
                             size_t *n_pair, fx_error *err);

#endif
