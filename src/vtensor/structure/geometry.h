// geometry.h - the sizes of a manager. manager.h defines the words (view, slice, chunk, span).
#ifndef VTI_GEOMETRY_H
#define VTI_GEOMETRY_H

#include "vtensor/vtensor.h"

// Immutable after vti_geo_init.
typedef struct vti_geo {
    uint32_t n_plane;
    uint32_t n_view;          // n_plane (SPLIT) or 1 (PACKED); also slices per chunk
    uint32_t max_tok;         // tokens of the longest sequence
    uint32_t max_seq;         // spans
    uint32_t chunks_per_span; // positions of a span; a region has as many indices
    uint32_t max_region;      // regions at most: as many as fit a file's offsets
    size_t stride_bytes;      // from token to token
    size_t plane_stride;      // bytes from plane to plane
    size_t slice_bytes;
    size_t chunk_bytes; // n_view x slice_bytes
    size_t guard_bytes; // at least a token; never mapped
    size_t view_stride; // bytes from view to view
    size_t span_bytes;  // guard_bytes + n_view x view_stride
} vti_geo;

// Errors: VT_EINVAL (a value out of range, or sizes that overflow).
vt_status vti_geo_init(vti_geo *g, const vt_config *cfg, size_t granularity);

uint32_t vti_geo_chunks(const vti_geo *g, uint32_t len_tok);   // that hold len_tok tokens
uint32_t vti_geo_whole(const vti_geo *g, uint32_t len_tok);    // of them, filled to the end
size_t vti_geo_tail_bytes(const vti_geo *g, uint32_t len_tok); // in the last, of each view; 0: full
uint32_t vti_geo_tokens(const vti_geo *g, uint32_t n_chunk);   // that fit in n_chunk chunks

// How many positions tokens [start, end) touch.
static inline uint32_t vti_geo_touched(const vti_geo *g, uint32_t start, uint32_t end)
{
    return end > start ? vti_geo_chunks(g, end) - vti_geo_whole(g, start) : 0;
}

#endif
