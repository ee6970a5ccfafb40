// hf.h - a Hugging Face folder as an fxi_gguf: config.json's members under GGUF's keys, the tensors
// of its safetensors files under GGUF's names, the tokenizer's files as tokenizer.* keys. What
// `flexinfer convert` writes to a file is what this presents.
#ifndef FXI_FORMAT_HF_H
#define FXI_FORMAT_HF_H

#include "format/gguf.h"

// The caller closes *out. Errors: FX_EIO, FX_EFORMAT, FX_ENOMEM; texts name the file in the folder
// and the member or tensor.
fx_status fxi_hf_open(const char *folder, fxi_gguf **out, fx_error *err);

#endif
