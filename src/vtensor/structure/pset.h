// pset.h - pSet of the paper: the physical chunks, their holders and states. Structure only: no
// backend call. manager.h defines the words and the transitions.
#ifndef VTI_PSET_H
#define VTI_PSET_H

#include <stdbool.h>

#include "vtensor/vtensor.h"

enum { VTI_NO_REGION = UINT32_MAX };

// Values of vti_region.home_of that are not a span's id: a region that is no span's home, and one
// reserved for the prefix tree's copies of tails, which never becomes a home.
enum { VTI_NO_SPAN = UINT32_MAX, VTI_TREE_REGION = UINT32_MAX - 1 };

typedef struct vti_chunk {
    uint32_t n_user; // spans, live or retired, that hold it
    uint32_t n_node : 31;
    uint32_t created : 1;
} vti_chunk;

typedef struct vti_region {
    vti_chunk *chunk;                // [chunks_per_region]; NULL: never used
    uint32_t n_in[VT_N_CHUNK_STATE]; // chunks by state
    uint32_t home_of;                // id of the span, VTI_TREE_REGION, or VTI_NO_SPAN
} vti_region;

typedef struct vti_pset {
    uint32_t n_region; // used so far
    uint32_t max_region;
    uint32_t cap_region;
    uint32_t chunks_per_region;
    uint32_t n_full;                 // the regions below this one are all in use
    vti_region *region;              // [cap_region]
    uint64_t n_in[VT_N_CHUNK_STATE]; // sums over the regions
} vti_pset;

void vti_pset_init(vti_pset *ps, uint32_t max_region, uint32_t chunks_per_region);
void vti_pset_free(vti_pset *ps);

// Regions. open finds one that is not in use and makes it the home of a span. tree_region finds a
// tree region with an ABSENT chunk at the position. Errors of both: VT_NOSPACE (all regions are in
// use), VT_ENOMEM.
vt_status vti_pset_open(vti_pset *ps, uint32_t span, uint32_t *region);
vt_status vti_pset_tree_region(vti_pset *ps, uint32_t position, uint32_t *region);
void vti_pset_adopt(vti_pset *ps, uint32_t region, uint32_t span); // Pre: no span's home
void vti_pset_leave(vti_pset *ps, uint32_t region);                // Pre: a home
bool vti_pset_is_home(const vti_pset *ps, uint32_t region);        // of a span
uint32_t vti_pset_region_created(const vti_pset *ps, uint32_t region);

// Chunks.
vti_chunk vti_pset_chunk(const vti_pset *ps, uint32_t region, uint32_t position);
vt_chunk_state vti_pset_state(const vti_pset *ps, uint32_t region, uint32_t position);
uint64_t vti_pset_index(const vti_pset *ps, uint32_t region, uint32_t position);
uint64_t vti_pset_created(const vti_pset *ps);
void vti_pset_create(vti_pset *ps, uint32_t region, uint32_t first, uint32_t n);  // Pre: ABSENT
void vti_pset_destroy(vti_pset *ps, uint32_t region, uint32_t first, uint32_t n); // Pre: SPARE

// Holders. Pre: the chunk is created; for drop: held.
void vti_pset_user_hold(vti_pset *ps, uint32_t region, uint32_t position);
void vti_pset_user_drop(vti_pset *ps, uint32_t region, uint32_t position);
void vti_pset_node_hold(vti_pset *ps, uint32_t region, uint32_t position);
void vti_pset_node_drop(vti_pset *ps, uint32_t region, uint32_t position);

#endif
