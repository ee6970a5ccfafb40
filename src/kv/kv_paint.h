// kv_paint.h - where the chunks of libvtensor's managers are, for pictures (fxi_kv_paint).
#ifndef FXI_KV_PAINT_H
#define FXI_KV_PAINT_H

#include "kv/kv_chunks.h"
#include "vtensor/team.h"

// Of one manager: a sequence is its vt_seq. Errors: FX_ENOMEM.
fx_status fxi_chunks_paint(const fxi_kv_chunks *c, vt_manager *m, const fxi_kv_painter *to);

// Of the managers of a team: a sequence is its vt_team_seq. Group g of rank k is k x n_group + g.
// Names of chunks are told apart as kv_paint.c says. Errors: FX_ENOMEM.
fx_status fxi_chunks_paint_team(const fxi_kv_chunks *c, const vt_team *t, const fxi_kv_painter *to);

#endif
