// internal.h - what the files of libvtensor share: the words, the types and their invariants, and
// every function that crosses a file, grouped under the file that defines it.
//
// Words
//   token     one position of a sequence: row_bytes in each plane
//   plane     what the user sees: the K rows or the V rows of one layer
//   view      what is mapped: each plane for itself (SPLIT: n_view = n_plane), or all planes of a
//             token side by side (PACKED: n_view = 1)
//   slice     slice_bytes of physical memory, mapped at one place of one view
//   chunk     the slices of all views at one position: the unit of allocation
//   position  number of a chunk within its span, from 0: token t begins in the chunk at position
//             t x stride_bytes / slice_bytes; it may straddle two
//   region    chunks_per_span neighbouring chunk indices: index = region x chunks_per_span +
//             position
//   span      the reserved addresses of one sequence
//   run       neighbouring chunks mapped one after another in one view: one mapping of the system
//
// A span and its views:
//
//   addr
//   | guard | view 0: mapped slices | reserved | guard | view 1: ... | guard | ... | guard |
//           |<------------- view_stride -------------->|
//
// The chunks of a span and their states; a chunk changes state only in vti_pset_move:
//
//   position 0          n_owned              n_created       chunks_per_span
//            |  OWNED   |  SPARE, "warm"     |  FREE         |
//
//   FREE  -> SPARE   vti_palloc      the backend creates it
//   SPARE -> OWNED   vt_seq_extend   it is mapped in every view and zero
//   OWNED -> SPARE   vt_seq_release  it stays mapped, warm for the next sequence of this span
//   SPARE -> FREE    vti_pfree       unmapped before; for trim, for the budget, to undo an extend
//
// A sequence takes its chunks in order of position from its span's own region. Neighbours in a view
// are then neighbours in the memfd, and a sequence costs n_view runs however it grows, whatever
// grows beside it. Region and span are two things: chunks are named by region, addresses by span.
//
// Invariants; vt_check proves 1 to 7, the tests prove 8.
//  1. In each region: OWNED chunks first, then SPARE, then FREE; the counts agree with the states.
//  2. Each region in use belongs to one span and each span has one region.
//  3. n_owned(span) = OWNED chunks of its region <= n_mapped[v] <= n_created for each view v.
//     n_mapped[v] = n_created, but where the undoing of a failed call has failed as well.
//  4. A live span owns exactly the chunks its length needs; an idle one owns none. Each span is
//     either live, or idle and once in the idle list.
//  5. owned + spare = created, summed over regions; created x chunk_bytes = the backend's resident
//     bytes, <= budget.
//  6. n_run = pairs (span, view) with n_mapped[v] > 0.
//  7. live_tok = sum of the lengths; peaks are at least the present values.
//  8. Zero law: SPARE chunks read as zero, but for the first n_dirty ones of an idle span.
#ifndef VTI_INTERNAL_H
#define VTI_INTERNAL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vtensor/vtensor.h"

// Forwards a failure.
#define VT_TRY(expr)                                \
    do {                                            \
        vt_status vt_try_st_ = (expr);              \
        if (vt_try_st_ != VT_OK) return vt_try_st_; \
    } while (0)

// The sizes of a manager. Immutable after vti_geo_init.
typedef struct vti_geo {
    uint32_t n_plane;
    uint32_t n_view;          // n_plane (SPLIT) or 1 (PACKED); also slices per chunk
    uint32_t max_tok;         // tokens of the longest sequence
    uint32_t max_seq;         // spans, and regions
    uint32_t chunks_per_span; // positions of a span; a region has as many indices
    size_t stride_bytes;      // from token to token
    size_t plane_stride;      // bytes from plane to plane
    size_t slice_bytes;
    size_t chunk_bytes; // n_view x slice_bytes
    size_t guard_bytes; // at least a token; never mapped
    size_t view_stride; // bytes from view to view
    size_t span_bytes;  // guard_bytes + n_view x view_stride
} vti_geo;

typedef enum vti_chunk_state {
    VTI_CHUNK_FREE = 0, // an index without memory
    VTI_CHUNK_SPARE,    // physical memory without an owner
    VTI_CHUNK_OWNED,    // holds tokens of the one sequence it is mapped into
    VTI_N_CHUNK_STATE
} vti_chunk_state;

typedef struct vti_region {
    uint8_t *state;                   // [chunks_per_region] vti_chunk_state; NULL: never opened
    uint32_t n_in[VTI_N_CHUNK_STATE]; // chunks by state
    uint32_t span;                    // who uses it: id of the span
    bool open;                        // some span uses it
} vti_region;

// pSet: the physical chunks, ordered by index.
typedef struct vti_pset {
    uint32_t n_region;
    uint32_t chunks_per_region;
    uint32_t n_full;                  // the regions below this one are all open
    vti_region *region;               // [n_region]
    uint64_t n_in[VTI_N_CHUNK_STATE]; // sums over the open regions
} vti_pset;

typedef struct vti_span {
    uint32_t id;
    uint32_t region;
    uintptr_t addr;                 // first reserved byte
    vt_seq *seq;                    // who lives here; NULL: idle
    uint32_t n_owned;               // chunks of seq
    uint32_t n_dirty;               // idle: first chunks that may hold bytes of a dead sequence
    struct vti_span *newer, *older; // neighbours in the idle list
    uint32_t n_mapped[];            // [n_view] slices mapped, from position 0
} vti_span;

// vSet: the spans of addresses, all of one size.
typedef struct vti_vset {
    uint32_t n_max;
    uint32_t n_view;
    uint32_t n_span;           // made so far; ids 0 .. n_span-1
    uint32_t n_idle;           // of them, in the idle list
    vti_span **span;           // [n_max]
    vti_span *newest, *oldest; // ends of the idle list, by time of release
    uint64_t n_run;            // runs mapped
} vti_vset;

// Counters that only grow.
typedef struct vti_tally {
    uint64_t map_calls, unmap_calls, create_calls, destroy_calls;
    uint64_t nospace, device_errors;
    uint64_t peak_chunks; // created at once
    uint64_t peak_tok;    // live at once
} vti_tally;

struct vt_seq {
    vt_manager *m;
    vti_span *span;
    uint32_t len_tok;
};

// Everything is owned by the manager's one thread.
struct vt_manager {
    vti_geo geo;
    vt_vmm *vmm;
    vti_pset pset;
    vti_vset vset;
    vti_tally tally;
    uint64_t budget_bytes;  // as configured
    uint64_t budget_chunks; // created at once, at most
    uint64_t spare_chunks;  // kept at release, at most
    uint64_t max_runs;      // what the backend allows
    uint64_t live_tok;      // sum of the lengths
    uint32_t n_seq;         // sequences alive
};

// geo.c
vt_status vti_geo_init(vti_geo *g, const vt_config *cfg, size_t granularity);
uint32_t vti_geo_chunks(const vti_geo *g, uint32_t len_tok); // that hold len_tok tokens
uint32_t vti_geo_tokens(const vti_geo *g, uint32_t n_chunk); // that fit in n_chunk chunks

// pset.c: structure alone, no backend call
vt_status vti_pset_init(vti_pset *ps, uint32_t n_region, uint32_t chunks_per_region);
void vti_pset_free(vti_pset *ps);
vt_status vti_pset_open(vti_pset *ps, uint32_t span, uint32_t *region); // the lowest unused one
void vti_pset_close(vti_pset *ps, uint32_t region);                     // pre: all chunks FREE
void vti_pset_move(vti_pset *ps, uint32_t region, uint32_t first, uint32_t n, vti_chunk_state from,
                   vti_chunk_state to); // pre: all n are `from`
uint64_t vti_pset_index(const vti_pset *ps, uint32_t region, uint32_t position);
uint32_t vti_pset_region_created(const vti_pset *ps, uint32_t region);
uint64_t vti_pset_created(const vti_pset *ps);

// vset.c: structure alone, no backend call
vt_status vti_vset_init(vti_vset *vs, uint32_t n_max, uint32_t n_view);
void vti_vset_free(vti_vset *vs);                      // pre: no spans
vt_status vti_vset_push(vti_vset *vs, vti_span **out); // a new span, neither live nor idle yet
void vti_vset_pop(vti_vset *vs);                       // frees the span made last
void vti_vset_idle(vti_vset *vs, vti_span *sp);        // into the idle list, as the newest
void vti_vset_wake(vti_vset *vs, vti_span *sp);        // out of the idle list
void vti_vset_set_mapped(vti_vset *vs, vti_span *sp, uint32_t view, uint32_t n);
uint32_t vti_span_even(const vti_span *sp, uint32_t n_view); // mapped in every view
uintptr_t vti_span_addr(const vti_geo *g, const vti_span *sp, uint32_t view, uint32_t position);

// ops.c: the VTO verbs, each a backend call and the structure in step with it
vt_status vti_valloc(vt_manager *m, vti_span **out);
void vti_vfree(vt_manager *m, vti_span *sp); // pre: the span made last, neither live nor idle
vt_status vti_palloc(vt_manager *m, vti_span *sp, uint32_t upto);
vt_status vti_pfree(vt_manager *m, vti_span *sp, uint32_t keep);
vt_status vti_map(vt_manager *m, vti_span *sp, uint32_t view, uint32_t upto);
vt_status vti_unmap(vt_manager *m, vti_span *sp, uint32_t view, uint32_t keep);
vt_status vti_zero(vt_manager *m, vti_span *sp);
vt_status vti_back(vt_manager *m, vti_span *sp, uint32_t upto); // palloc + map in every view
vt_status vti_shed(vt_manager *m, vti_span *sp, uint32_t keep); // unmap in every view + pfree
uint32_t vti_created(const vt_manager *m, const vti_span *sp);

// reclaim.c: what becomes of spare chunks
uint64_t vti_spare(const vt_manager *m, const vti_span *besides); // of all spans but `besides`
vt_status vti_reclaim(vt_manager *m, uint64_t n_chunk,
                      const vti_span *besides); // pre: n_chunk <= vti_spare(m, besides)
vt_status vti_make_room(vt_manager *m, const vti_span *sp, uint32_t upto);

// stats.c
vt_status vti_answer(vt_manager *m, vt_status st); // counts what a public call answers

#endif
