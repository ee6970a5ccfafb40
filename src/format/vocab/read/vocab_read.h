// vocab_read.h - the readers: each fills an initialised spec from one form of file.
//
// What a reader read may be freed afterwards. Errors: FX_EFORMAT (what is wrong, and where),
// FX_ENOMEM; then only fxi_vocab_spec_free may take the spec.
#ifndef FXI_FORMAT_VOCAB_READ_H
#define FXI_FORMAT_VOCAB_READ_H

#include "format/gguf.h"
#include "format/vocab/spec/vocab_spec.h"

fx_status fxi_vocab_read_gguf(const fxi_gguf *g, fxi_vocab_spec *s, fx_error *err);
// The special tokens alone, into a spec that another reader filled.
fx_status fxi_vocab_read_gguf_ids(const fxi_gguf *g, fxi_vocab_spec *s, fx_error *err);
// A tokenizer.json.
fx_status fxi_vocab_read_hf(fxi_str json, fxi_vocab_spec *s, fx_error *err);
// A rank file (tiktoken). `pre` names the pre-tokenizer, which the file does not: how text is cut
// into words, and which special tokens follow the ranks. Also FX_EFORMAT: no name, or an unknown
// one.
fx_status fxi_vocab_read_ranks(fxi_str text, const char *pre, fxi_vocab_spec *s, fx_error *err);
bool fxi_ranks_begin(fxi_str text); // whether a file begins as a rank file does

// tokenizer_config.json, after the tokenizer.json next to it: BOS, EOS and the chat template.
fx_status fxi_vocab_read_config(fxi_str json, fxi_vocab_spec *s, fx_error *err);

#endif
