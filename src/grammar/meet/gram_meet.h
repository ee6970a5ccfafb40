// gram_meet.h - the texts that two forms share, or that one has and the other has not.
//
// Context-free grammars cannot be intersected in general; these two can where both automata have
// few states, as patterns, lengths and bounds of numbers do. The result is a rule for each pair of
// states that can be reached.
#ifndef FXI_GRAMMAR_MEET_H
#define FXI_GRAMMAR_MEET_H

#include "grammar/form/gram_form.h"

enum { FXI_MEET_MAX_STATE = 1 << 14 };

typedef struct fxi_meet_part {
    fxi_gram form;
    uint32_t root;
    bool is_not; // what the form does not match
} fxi_meet_part;

// Adds what all parts allow, of which the first is not an is_not. Frees their forms, which need not
// be finished, whatever the result. A part may match nothing. *n_pair: how many pairs it took.
fx_status fxi_gram_meet_all(fxi_gram *out, fxi_meet_part *part, size_t n, uint32_t *node,
                            size_t *n_pair, fx_error *err);

#endif
