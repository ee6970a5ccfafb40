// vocab_pair.h - encoder.json and vocab.bpe.
#ifndef FXI_FORMAT_VOCAB_PAIR_H
#define FXI_FORMAT_VOCAB_PAIR_H

#include "format/vocab/vocab_spec.h"

// `pre` as for rank files. Errors: FX_EFORMAT (what and where), FX_ENOMEM.
fx_status fxi_vocab_read_pair(fxi_str vocab, fxi_str merges, const char *pre, fxi_vocab_spec *s,
                              fx_error *err);

#endif
