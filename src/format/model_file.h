// model_file.h - opens a model, whatever it is stored as: a GGUF file, all parts of one in parts, a
// Hugging Face folder (or a file in one: config.json, a .safetensors file).
#ifndef FXI_FORMAT_MODEL_FILE_H
#define FXI_FORMAT_MODEL_FILE_H

#include "format/gguf.h"

// Closed with fxi_gguf_close. Errors: FX_EIO, FX_EFORMAT, FX_ENOMEM.
fx_status fxi_model_file_open(const char *path, fxi_gguf **out, fx_error *err);

#endif
