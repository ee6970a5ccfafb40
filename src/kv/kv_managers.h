// kv_managers.h - the tables of all managers, one per file.
#ifndef FXI_KV_MANAGERS_H
#define FXI_KV_MANAGERS_H

#include "kv/kv.h"

extern const fxi_kv_ops fxi_kv_vtensor;          // kv_vtensor.c
extern const fxi_kv_ops fxi_kv_vattention;       // kv_vattention.c
extern const fxi_kv_ops fxi_kv_vattention_mega;  // the same
extern const fxi_kv_ops fxi_kv_vattention_start; // the same
extern const fxi_kv_ops fxi_kv_paged;            // paged/kv_paged.c

#endif
