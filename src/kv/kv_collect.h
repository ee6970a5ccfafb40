// kv_collect.h - snapshots of the managers over libvtensor (fxi_kv_collect), and the names of
// chunks of several devices.
#ifndef FXI_KV_COLLECT_H
#define FXI_KV_COLLECT_H

#include "kv/kv_chunks.h"
#include "kv/kv_snapshot.h"
#include "vtensor/team.h"

// The name in a snapshot of the chunk that rank k of n calls `index`; kv_collect.c says how they
// are told apart. With n 1 it is index.
uint64_t fxi_kv_rank_name(uint64_t index, uint32_t k, uint32_t n);

// Of one manager: a sequence is its vt_seq.
void fxi_chunks_collect(const fxi_kv_chunks *c, vt_manager *m, fxi_kv_snapshot *to);

// Of the managers of a team: a sequence is its vt_team_seq. Group g of rank k is k x n_group + g.
void fxi_chunks_collect_team(const fxi_kv_chunks *c, const vt_team *t, fxi_kv_snapshot *to);

#endif
