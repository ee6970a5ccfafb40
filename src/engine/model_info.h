// model_info.h - what a model is, as its users see it.
#ifndef FXI_ENGINE_MODEL_INFO_H
#define FXI_ENGINE_MODEL_INFO_H

#include "flexinfer/flexinfer.h"
#include "model/model.h"

// Fills what follows from the file and the model, loaded or not; the context is the trained one.
void fxi_info_fill(fx_model_info *info, const fxi_gguf *g, const fxi_model *m, const char *path);

#endif
