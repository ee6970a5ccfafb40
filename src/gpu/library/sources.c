// sources.c - where NVIDIA's libraries are found: a row for each, of files and functions.
#include "gpu/library/lt_api.h"
#include "gpu/library/nccl_api.h"

static const char *const lt_symbols[] = {FXI_LT_FUNCTIONS(FXI_DL_SYMBOL)};
static const char *const nccl_symbols[] = {FXI_NCCL_FUNCTIONS(FXI_DL_SYMBOL)};

#define SYMBOLS(list) .symbol = (list), .n_symbol = sizeof(list) / sizeof *(list)

const fxi_dl_source fxi_lt_source = {.label = "NVIDIA's cuBLASLt",
                                     .file = {"libcublasLt.so.13", "libcublasLt.so.12"},
                                     SYMBOLS(lt_symbols)};
const fxi_dl_source fxi_nccl_source = {
    .label = "NVIDIA's NCCL", .file = {"libnccl.so.2"}, SYMBOLS(nccl_symbols)};
