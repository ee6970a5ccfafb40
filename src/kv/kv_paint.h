// kv_paint.h - where the chunks of libvtensor's managers are, for pictures (fxi_kv_paint); names of
// chunks of several devices.
#ifndef FXI_KV_PAINT_H
#define FXI_KV_PAINT_H

#include "kv/kv_chunks.h"
#include "vtensor/team.h"

// The name in a picture of the chunk that rank k of n calls `index`; kv_paint.c says how they are
// told apart. With n 1 it is index.
uint64_t fxi_kv_rank_name(uint64_t index, uint32_t k, uint32_t n);

// Of one manager: a sequence is its vt_seq. Errors: FX_ENOMEM.
fx_status fxi_chunks_paint(const fxi_kv_chunks *c, vt_manager *m, const fxi_kv_painter *to);

// Of the managers of a team: a sequence is its vt_team_seq. Group g of rank k is k x n_group + g.
// Errors: FX_ENOMEM.
fx_status fxi_chunks_paint_team(const fxi_kv_chunks *c, const vt_team *t, const fxi_kv_painter *to);

#endif
