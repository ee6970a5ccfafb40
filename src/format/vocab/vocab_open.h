// vocab_open.h - a vocabulary of any file that is read here.
#ifndef FXI_FORMAT_VOCAB_OPEN_H
#define FXI_FORMAT_VOCAB_OPEN_H

#include "base/buf.h"
#include "format/vocab.h"

// `path`: a GGUF file, a tokenizer.json, a SentencePiece model, a rank file, an encoder.json with
// its vocab.bpe beside it, or a folder with a tokenizer.json or tokenizer.model. `pre`: for rank
// files and pairs the pre-tokenizer's name ("llama-bpe", "qwen2", ..), otherwise NULL. The chat
// template that the files hold is added to *chat_template, if that is not NULL. The caller frees
// *out. Errors: FX_EIO, FX_EFORMAT (what and where), FX_EINVAL (`pre` for a file that names its
// own), FX_ENOMEM; *out is NULL then.
fx_status fxi_vocab_open(const char *path, const char *pre, fxi_buf *chat_template, fxi_vocab **out,
                         fx_error *err);

#endif
