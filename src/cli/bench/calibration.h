// calibration.h - this machine and a model as a setting of a replay, from what `flexinfer bench
// --json` measured.
#ifndef FXI_CLI_CALIBRATION_H
#define FXI_CLI_CALIBRATION_H

#include "base/fail.h"
#include "replay/paper/setting.h"

typedef struct fxi_calibration {
    fxi_geometry geometry;   // the model's
    fxi_paper_device device; // as fast as the measured prompts and decodes; its memory is not known
    char name[128];          // of the model
} fxi_calibration;

// `out` must not be moved: its geometry's name lies in it. Errors: FX_EIO, FX_EFORMAT (not what
// bench --json writes, or a run without a prompt or without a batch of 1), FX_ENOMEM.
fx_status fxi_calibration_read(const char *path, fxi_calibration *out, fx_error *err);

#endif
