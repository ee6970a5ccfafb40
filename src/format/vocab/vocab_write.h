// vocab_write.h - a vocabulary as the keys of a GGUF file, tokenizer.ggml.*: the way back of
// read/vocab_gguf.c.
//
// GGUF's keys cannot say everything that a tokenizer.json says. So the text of the file is written
// too, and is what this program reads again: a converted model tokenizes exactly as its folder. The
// other keys are for programs that know only those.
#ifndef FXI_FORMAT_VOCAB_WRITE_H
#define FXI_FORMAT_VOCAB_WRITE_H

#include "format/gguf_write.h"
#include "format/vocab/spec/vocab_spec.h"

// The text of the tokenizer.json, a string: a key of the GGUF standard.
#define FXI_KEY_HF_JSON "tokenizer.huggingface.json"
// Ids that end a generation, besides those that have keys of their own (ours): an array of i32.
#define FXI_KEY_ENDS    "flexinfer.end_token_ids"

// n_row: the embedding's rows; tokens are added up to it, as other programs expect one for each.
// Errors: FX_ENOMEM; those of w stay with it.
fx_status fxi_vocab_write_gguf(const fxi_vocab_spec *s, size_t n_row, const fxi_ids *ends,
                               fxi_gguf_writer *w, fx_error *err);

// The name of the pre-tokenizer that cuts text as the spec does; NULL: none
// known.
const char *fxi_spec_pre_name(const fxi_vocab_spec *s);

#endif
