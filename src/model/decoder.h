// decoder.h - runs a transformer.
#ifndef FXI_MODEL_DECODER_H
#define FXI_MODEL_DECODER_H

#include "model/model_base.h"

// model: an fxi_transformer with a device. As fxi_model_submit and fxi_model_wait.
fx_status fxi_decoder_submit(fxi_model *model, const fxi_batch *batch, float *logits,
                             fx_error *err);
fx_status fxi_decoder_wait(fxi_model *model, fx_error *err);

#endif
