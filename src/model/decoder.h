// decoder.h - runs a transformer.
#ifndef FXI_MODEL_DECODER_H
#define FXI_MODEL_DECODER_H

#include "model/model_base.h"

// model: an fxi_transformer. As fxi_model_forward.
fx_status fxi_decoder_forward(fxi_model *model, const fxi_batch *batch, float *logits,
                              fx_error *err);

#endif
