// kv_chunks.h - how the managers over libvtensor divide memory: the planes, slices and chunks of a
// layout, and what sequences cost in them.
//
// A group of the layout is a group of planes of libvtensor, with its window. A chunk of states has
// one state of each of its planes.
//
// The host's pages are small, and mapping one costs little: each plane has a span of its own
// (SPLIT), where the rows of successive tokens are neighbours. But the system limits how many
// mappings there are, and each sequence needs two runs in each view, one that it shares and one
// that it writes. Where that is too much for all that run at once, planes share views: as few as
// suffice, and always the keys and values of a layer together. Pages of devices are large, and each
// mapping is a call of the driver: the planes of a group lie side by side in one span (PACKED), so
// that a chunk is one slice with few tokens of all planes, not one of many tokens for each plane
// (vAttention's tensor slicing, arXiv 2405.04437, section 6.1).
#ifndef FXI_KV_CHUNKS_H
#define FXI_KV_CHUNKS_H

#include "kv/kv_snapshot.h"
#include "vtensor/team.h"
#include "vtensor/vtensor.h"

typedef struct fxi_chunk_shape { // of a group
    size_t row_bytes;            // of a token, or of a state, in a slice
    int row_tok;                 // tokens from row to row: 1, or those of a block
    size_t slice_bytes;
    uint64_t chunk_bytes; // of all its slices
    int window_tok;       // as the group's; of states row_tok
} fxi_chunk_shape;

// Of one manager: where several share a cache out, each has 1 / n_rank of every row.
typedef struct fxi_kv_chunks {
    int n_group;
    vt_layout packing;
    int view_planes;                  // SPLIT: planes of a group in a view, at most
    vt_group group[FXI_KV_MAX_GROUP]; // as libvtensor is told
    fxi_chunk_shape chunk[FXI_KV_MAX_GROUP];
    uint32_t plane0[FXI_KV_MAX_GROUP]; // the first plane of each group
    int step_tok;                      // most that an extend adds
    int whole_tok; // smallest number of tokens whose rows end where a chunk ends, in all groups
} fxi_kv_chunks;

// vmm: whose granularity and limit on mappings count.
void fxi_chunks_plan(const fxi_kv_shape *shape, struct vt_vmm *vmm, fxi_kv_chunks *out);

// In bytes of one manager, as kv.h has it: fxi_kv_cost, fxi_kv_swap_gain, fxi_kv_growth.
uint64_t fxi_chunks_cost(const fxi_kv_chunks *c, const fxi_kv_need *need);
uint64_t fxi_chunks_gain(const fxi_kv_chunks *c, int len_tok, int n_recorded);
uint64_t fxi_chunks_growth(const fxi_kv_chunks *c, int len_tok, int end_tok);

// ---- snapshots (fxi_kv_collect) ----------------------------------------------------------------

// The name in a snapshot of the chunk that rank k of n calls `index`; kv_chunks.c says how they
// are told apart. With n 1 it is index.
uint64_t fxi_kv_rank_name(uint64_t index, uint32_t k, uint32_t n);

// A sequence is its vt_team_seq. Group g of rank k is k x n_group + g.
void fxi_chunks_collect(const fxi_kv_chunks *c, const vt_team *t, fxi_kv_snapshot *to);

#endif
