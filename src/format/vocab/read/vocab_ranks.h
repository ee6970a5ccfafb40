// vocab_ranks.h - what rank files and pairs of files, two forms of the same vocabularies, leave
// out.
#ifndef FXI_FORMAT_VOCAB_RANKS_H
#define FXI_FORMAT_VOCAB_RANKS_H

#include "format/vocab/spec/vocab_spec.h"

// Adds to a spec with its tokens what the pre-tokenizer's name implies: how text is cut into words,
// and the special tokens after the others. Errors: FX_EFORMAT (no or an unknown name), FX_ENOMEM.
fx_status fxi_ranks_finish(fxi_vocab_spec *s, const char *pre, fx_error *err);

#endif
