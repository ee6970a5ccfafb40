// pset.h - pSet of the paper: the physical chunks, their holders and states. Structure only: no
// backend call. manager.h defines the words and the transitions.
#ifndef VTI_PSET_H
#define VTI_PSET_H

#include <stdbool.h>

#include "geometry.h"

enum { VTI_NO_CHUNK = UINT32_MAX };

// Where a spare chunk is.
typedef enum vti_place {
    VTI_IN_POOL = 0, // mapped nowhere, in its class's list
    VTI_IN_LANE,     // warm: mapped in one lane, after its tokens
    VTI_WITH_JOB     // taken for a job that will map or destroy it
} vti_place;

typedef struct vti_chunk {
    uint32_t n_user;     // spans that hold it
    uint32_t n_node;     // nodes of the prefix tree that hold it
    uint32_t n_kept;     // of these, nodes that may not be evicted
    uint32_t next, prev; // in the pool, or VTI_NO_CHUNK
    bool is_created;
    bool is_dirty; // may hold bytes of an earlier holder
    uint8_t place; // vti_place, if it is spare; of an absent one VTI_WITH_JOB, or 0
} vti_chunk;

// Neighbouring chunks, made when one of them is first named.
typedef struct vti_region {
    vti_chunk *chunk;               // [len]; NULL: never used
    uint32_t n_created, n_reserved; // chunks that exist; absent ones that jobs will create
    uint32_t next_unused; // if it is listed as unused: the next such region, or VTI_NO_CHUNK
    bool is_home;         // of a lane
    bool is_listed;
} vti_region;

typedef struct vti_class {
    uint32_t first; // index of its first chunk
    uint32_t len;   // chunks of a region
    uint32_t n_region, max_region, cap_region;
    uint32_t unused; // a list of regions made, all that are not in use among them; or VTI_NO_CHUNK
    vti_region *region;
    size_t chunk_bytes;
    uint32_t pool; // the chunk that entered it last, or VTI_NO_CHUNK
    uint64_t n_pool;
    uint64_t n_evictable;            // cached, and held by no node that is kept
    uint64_t n_in[VT_N_CHUNK_STATE]; // of created chunks; ABSENT is not counted
} vti_class;

typedef struct vti_pset {
    uint32_t n_class;
    vti_class cls[VT_MAX_GROUP];
} vti_pset;

void vti_pset_init(vti_pset *ps, const vti_geo *g);
void vti_pset_free(vti_pset *ps);

// Chunks. A name that was never used is that of an absent chunk.
uint32_t vti_pset_class(const vti_pset *ps, uint32_t chunk);
vti_chunk vti_pset_chunk(const vti_pset *ps, uint32_t chunk);
vt_chunk_state vti_chunk_state(const vti_chunk *c);
vt_chunk_state vti_pset_state(const vti_pset *ps, uint32_t chunk);
// Whether `chunk` is the neighbour after `before` and of the same class, so that both can be one
// run.
bool vti_pset_continues(const vti_pset *ps, uint32_t before, uint32_t chunk);

// Sums over the classes, in bytes.
uint64_t vti_pset_bytes(const vti_pset *ps, vt_chunk_state state);
uint64_t vti_pset_created_bytes(const vti_pset *ps);
uint64_t vti_class_created(const vti_class *c);

// The region of a chunk: its first chunk, and whether it is a lane's home; how many are created.
uint32_t vti_pset_region_first(const vti_pset *ps, uint32_t chunk);
bool vti_pset_is_home(const vti_pset *ps, uint32_t chunk);
uint32_t vti_pset_region_created(const vti_pset *ps, uint32_t chunk);

// Homes: open finds a region of which nothing is created or reserved, and which is no lane's home;
// *first is its first chunk. Errors: VT_NOSPACE (all are in use), VT_ENOMEM.
vt_status vti_pset_home_open(vti_pset *ps, uint32_t cls, uint32_t *first);
void vti_pset_home_close(vti_pset *ps, uint32_t first);

// An absent chunk that a job will create is with the job. Errors: VT_ENOMEM.
vt_status vti_pset_reserve(vti_pset *ps, uint32_t chunk);
void vti_pset_unreserve(vti_pset *ps, uint32_t chunk);

// Transitions.
void vti_pset_create(vti_pset *ps, uint32_t chunk, bool is_dirty);  // ABSENT -> SPARE, with a job
void vti_pset_destroy(vti_pset *ps, uint32_t chunk);                // SPARE, with a job -> ABSENT
void vti_pset_take(vti_pset *ps, uint32_t chunk);                   // SPARE: from the pool to a job
void vti_pset_place(vti_pset *ps, uint32_t chunk, vti_place place); // SPARE: from a job or a lane
void vti_pset_set_clean(vti_pset *ps, uint32_t chunk);
void vti_pset_soil(vti_pset *ps, uint32_t chunk); // it may hold bytes now

// Holders. Pre: created; for drop: held. Of a chunk without holders, `place` says where it is then,
// and it is dirty; a node's is in the pool.
void vti_pset_user_hold(vti_pset *ps, uint32_t chunk);
void vti_pset_user_drop(vti_pset *ps, uint32_t chunk, vti_place place);
void vti_pset_node_hold(vti_pset *ps, uint32_t chunk, bool is_kept);
void vti_pset_node_drop(vti_pset *ps, uint32_t chunk, bool was_kept);
void vti_pset_node_keep(vti_pset *ps, uint32_t chunk, bool is_kept); // the node's guard has changed

#endif
