// geometry.h - the sizes of a manager and of its groups. manager.h defines the words (view, slice,
// chunk, lane, span).
#ifndef VTI_GEOMETRY_H
#define VTI_GEOMETRY_H

#include "vtensor/vtensor.h"

// A group of planes, and the lane that each span has for it.
typedef struct vti_lane_geo {
    bool is_state;
    uint32_t n_plane, plane0; // plane0: number of the first
    uint32_t view_planes;     // planes in a view; the last view may have fewer
    uint32_t n_view;          // n_plane (SPLIT) to 1 (PACKED); also slices per chunk
    uint32_t cls;             // class of its chunks
    uint32_t n_position;      // chunks that a lane has room for
    uint32_t row_tok;         // tokens of a row: 1, or those of a block
    uint32_t window_tok;      // 0: none; of blocks row_tok
    size_t stride_bytes;      // from row to row; of a state, all of it
    size_t plane_stride;      // bytes from plane to plane of a view; of one each, view_stride
    size_t slice_bytes;
    size_t chunk_bytes; // n_view x slice_bytes
    size_t guard_bytes; // at least a token; never mapped
    size_t view_stride; // bytes from view to view
    size_t lane_offset; // from the span's address to view 0
} vti_lane_geo;

// Immutable after vti_geo_init.
typedef struct vti_geo {
    uint32_t n_plane, n_group;
    uint32_t max_tok;   // tokens of the longest sequence
    uint32_t max_seq;   // sequences, and so spans in use
    uint32_t block_tok; // tokens of a node of the prefix tree
    bool has_state;
    size_t span_bytes;
    vti_lane_geo group[VT_MAX_GROUP];
    vt_vmm_geometry vmm;               // classes of chunks
    uint32_t region_len[VT_MAX_GROUP]; // by class: neighbouring names that a lane may fill
} vti_geo;

// Errors: VT_EINVAL (a value out of range, or sizes that overflow).
vt_status vti_geo_init(vti_geo *g, const vt_config *cfg, size_t granularity);

// From the first byte of view 0 to that of this plane.
size_t vti_group_plane_at(const vti_lane_geo *gr, uint32_t plane);

const vti_lane_geo *vti_geo_group_of(const vti_geo *g, uint32_t plane);

// Positions are those of a lane of group gr; a state has all of its chunks for any length but 0.
uint32_t vti_group_chunks(const vti_lane_geo *gr, uint32_t len_tok);   // that hold len_tok tokens
uint32_t vti_group_whole(const vti_lane_geo *gr, uint32_t len_tok);    // of them, filled to the end
size_t vti_group_tail_bytes(const vti_lane_geo *gr, uint32_t len_tok); // in the last, of each view
uint32_t vti_group_tokens(const vti_lane_geo *gr, uint32_t n_chunk);   // that fit n_chunk chunks
size_t vti_group_bytes(const vti_lane_geo *gr, uint32_t len_tok); // of len_tok tokens, in a view

// The first token that a token at number len_tok attends to.
uint32_t vti_group_front_tok(const vti_lane_geo *gr, uint32_t len_tok);
// How many positions at the front no token from len_tok on needs.
uint32_t vti_group_passed(const vti_lane_geo *gr, uint32_t len_tok);

#endif
