// model_file.h - opens a model, whatever it is stored as: a GGUF file, all parts of one in parts, a
// Hugging Face folder (or a file in one: config.json, a .safetensors file).
//
// A folder appears as an fxi_gguf: config.json's members under GGUF's keys, the tensors of its
// safetensors files under GGUF's names, the tokenizer's files as tokenizer.* keys. `flexinfer
// convert` writes a file with the same contents.
#ifndef FXI_FORMAT_MODEL_FILE_H
#define FXI_FORMAT_MODEL_FILE_H

#include "format/gguf.h"

// Closed with fxi_gguf_close. Errors: FX_EIO, FX_EFORMAT, FX_ENOMEM.
fx_status fxi_model_file_open(const char *path, fxi_gguf **out, fx_error *err);

// The caller closes *out. Errors: FX_EIO, FX_EFORMAT, FX_ENOMEM; texts name the file in the folder
// and the member or tensor.
fx_status fxi_hf_open(const char *folder, fxi_gguf **out, fx_error *err);

#endif
