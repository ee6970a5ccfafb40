// vocab_ranks.h - what rank files share with the other form of the same vocabularies
// (vocab_pair.c).
#ifndef FXI_FORMAT_VOCAB_RANKS_H
#define FXI_FORMAT_VOCAB_RANKS_H

#include "format/vocab/vocab_spec.h"

// Whether a file begins as rank files do.
bool fxi_ranks_begin(const char *text, size_t n);

// What neither form says and the pre-tokenizer's name does: how words are cut, and which special
// tokens follow those that are there. Errors: FX_EFORMAT (no or an unknown name), FX_ENOMEM.
fx_status fxi_ranks_finish(fxi_vocab_spec *s, const char *pre, fx_error *err);

#endif
