// cu_api.c - where the driver is found; see cu_api.h.
#include "gpu/driver/cu_api.h"

static const char *const cu_symbols[] = {FXI_CU_FUNCTIONS(FXI_DL_SYMBOL)};

const fxi_dl_source fxi_cu_source = {.label = "NVIDIA's driver",
                                     .file = {"libcuda.so.1"},
                                     .symbol = cu_symbols,
                                     .n_symbol = sizeof cu_symbols / sizeof *cu_symbols};
