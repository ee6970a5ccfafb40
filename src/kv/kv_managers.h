// kv_managers.h - the tables of all managers, one per file.
#ifndef FXI_KV_MANAGERS_H
#define FXI_KV_MANAGERS_H

#include "kv/kv.h"

extern const fxi_kv_ops fxi_kv_vtensor;          // kv_vtensor.c
extern const fxi_kv_ops fxi_kv_vattention;       // kv_vattention.c
extern const fxi_kv_ops fxi_kv_vattention_mega;  // the same
extern const fxi_kv_ops fxi_kv_vattention_start; // the same
extern const fxi_kv_ops fxi_kv_paged;            // paged/kv_paged.c

// kv_team.c: a manager of vtensor for each device of the shape. Pre: shape->n_rank > 0, which share
// out every row. Errors: as fxi_kv_open.
fx_status fxi_kv_team_open(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err);

#endif
