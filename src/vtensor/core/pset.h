// pset.h - pSet of the paper: the physical chunks, their holders and states. Structure only: no
// backend call. manager.h defines the words and the transitions.
#ifndef VTI_PSET_H
#define VTI_PSET_H

#include <stdbool.h>

#include "geometry.h"

enum { VTI_NO_CHUNK = UINT32_MAX };

// Where a free chunk is.
typedef enum vti_place {
    VTI_IN_POOL = 0, // mapped nowhere, in its class's list
    VTI_IN_LANE,     // mapped-free: mapped in one lane, after its tokens
    VTI_WITH_JOB     // taken for a job that will map or destroy it
} vti_place;

typedef struct vti_chunk {
    uint32_t n_user : 28; // spans that hold it, and sources
    uint32_t is_created : 1;
    uint32_t is_dirty : 1; // may hold bytes of an earlier holder
    uint32_t place : 2;    // vti_place, if it is spare; of an absent one VTI_WITH_JOB, or 0
    uint32_t n_node;       // nodes of the prefix tree that hold it
    union {
        uint32_t n_gone; // users that have given it up: only the device may still use it for them
        uint32_t prev;   // in the pool, or VTI_NO_CHUNK
    };
    union {
        uint32_t n_kept; // nodes that hold it and may not be evicted
        uint32_t next;   // in the pool, or VTI_NO_CHUNK
    };
} vti_chunk;

// The name of a chunk of a class.
typedef struct vti_name {
    uint32_t region, offset; // offset: within the region
} vti_name;

// Chunks with neighbouring names have neighbouring numbers, a page of them at a time. A page is
// there while a chunk of it exists, or is reserved.
enum { VTI_PAGE_CHUNKS = 4 };
typedef struct vti_page {
    uint32_t region; // or the next of the pages that are free
    uint32_t index : 28, cls : 4;
    vti_chunk chunk[VTI_PAGE_CHUNKS];
} vti_page;

typedef struct vti_region {
    union {
        uint32_t one;   // n_room = 1
        uint32_t *many; // [n_room] owned
    } page;             // number of the page with these names, or VTI_NO_CHUNK
    uint32_t n_room;
    uint32_t n_used;      // chunks that exist, and absent ones that jobs will create
    uint32_t next_unused; // if it is listed as unused: the next such region, or VTI_NO_CHUNK
    bool is_preferred;    // of a lane
    bool is_listed;
} vti_region;

// Records in blocks that do not move, so that adding one costs no copy.
typedef struct vti_blocks {
    char **block; // each of VTI_BLOCK_RECORDS
    uint32_t n, cap_block;
    size_t record_bytes;
} vti_blocks;

enum { VTI_BLOCK_RECORDS = 128 };

// Chunks that a class counts: by state, ABSENT left out, and
enum {
    VTI_POOLED = VT_N_CHUNK_STATE, // in the pool
    VTI_EVICTABLE,                 // cached, and held by no node that is kept
    VTI_LEAVING,                   // held, and given up by all users: perhaps used by the device
    VTI_N_COUNT
};

typedef struct vti_class {
    uint64_t first; // index of its first chunk in the backend
    uint32_t len;   // names of a region
    uint32_t max_region;
    uint32_t unused;    // a list of regions made, all that are not in use among them; VTI_NO_CHUNK
    vti_blocks regions; // vti_region
    size_t chunk_bytes;
    uint32_t pool; // the chunk that entered it last, or VTI_NO_CHUNK
    uint64_t n_in[VTI_N_COUNT];
} vti_class;

typedef struct vti_pset {
    vti_blocks pages;   // vti_page
    uint32_t free_page; // a list, or VTI_NO_CHUNK
    uint32_t n_class;
    vti_class cls[VT_MAX_GROUP];
} vti_pset;

void vti_pset_init(vti_pset *ps, const vti_geo *g);
void vti_pset_free(vti_pset *ps);

// Chunks, by number: below vti_pset_end. A number without a chunk is absent.
uint32_t vti_pset_end(const vti_pset *ps);
uint32_t vti_pset_class(const vti_pset *ps, uint32_t chunk);
vti_chunk vti_pset_chunk(const vti_pset *ps, uint32_t chunk);
vt_chunk_state vti_chunk_state(const vti_chunk *c);
vt_chunk_state vti_pset_state(const vti_pset *ps, uint32_t chunk);

// Names. The index is that of the backend. Of a chunk that exists or is reserved.
vti_name vti_pset_name(const vti_pset *ps, uint32_t chunk);
uint64_t vti_pset_index(const vti_pset *ps, uint32_t chunk);
// Whether `chunk` is the neighbour after `before` and of the same class, so that both can be one
// run.
bool vti_pset_continues(const vti_pset *ps, uint32_t before, uint32_t chunk);
// The chunk of that name; VTI_NO_CHUNK: it does not exist.
uint32_t vti_pset_find(const vti_pset *ps, uint32_t cls, vti_name name);

// Sums over the classes, in bytes.
uint64_t vti_pset_bytes(const vti_pset *ps, int count); // a state, or VTI_POOLED and what follows
uint64_t vti_pset_created_bytes(const vti_pset *ps);
uint64_t vti_class_created(const vti_class *c);

// Regions of a class, by number. Homes: open finds a region of which nothing is used, and which is
// no lane's preferred region. Errors: VT_NOSPACE (all are in use), VT_ENOMEM.
vt_status vti_pset_region_open(vti_pset *ps, uint32_t cls, uint32_t *region);
void vti_pset_region_close(vti_pset *ps, uint32_t cls, uint32_t region);
bool vti_pset_is_preferred(const vti_pset *ps, uint32_t cls, uint32_t region);
uint32_t vti_pset_region_used(const vti_pset *ps, uint32_t cls, uint32_t region);

// An absent chunk that a job will create is with the job. Errors: VT_ENOMEM. Pre: no chunk has this
// name.
vt_status vti_pset_reserve(vti_pset *ps, uint32_t cls, vti_name name, uint32_t *chunk);
void vti_pset_unreserve(vti_pset *ps, uint32_t chunk);

// Transitions.
void vti_pset_create(vti_pset *ps, uint32_t chunk, bool is_dirty);  // reserved -> SPARE, with a job
void vti_pset_destroy(vti_pset *ps, uint32_t chunk);                // SPARE, with a job -> ABSENT
void vti_pset_place(vti_pset *ps, uint32_t chunk, vti_place place); // SPARE: between its places
void vti_pset_set_dirty(vti_pset *ps, uint32_t chunk,
                        bool is_dirty); // it may hold bytes now, or not

// Holders. Pre: created; for drop: held. Of a chunk without holders, `place` says where it is then,
// and it is dirty; a node's is in the pool. A user that leaves has given the chunk up, and holds it
// until the device is done with it.
void vti_pset_user_hold(vti_pset *ps, uint32_t chunk);
void vti_pset_user_leave(vti_pset *ps, uint32_t chunk);
void vti_pset_user_stay(vti_pset *ps, uint32_t chunk); // takes that back
void vti_pset_user_drop(vti_pset *ps, uint32_t chunk, vti_place place, bool had_left);
void vti_pset_node_hold(vti_pset *ps, uint32_t chunk, bool is_kept);
void vti_pset_node_drop(vti_pset *ps, uint32_t chunk, bool was_kept);
void vti_pset_node_keep(vti_pset *ps, uint32_t chunk, bool is_kept); // the node's guard has changed

#endif
