// vset.h - vSet of the paper: the spans of addresses, what each of their lanes maps, and which are
// idle. Structure only: no backend call. manager.h defines the words and the states.
#ifndef VTI_VSET_H
#define VTI_VSET_H

#include "common.h"
#include "geometry.h"
#include "mapper.h"
#include "pset.h"

typedef enum vti_span_state {
    VTI_SPAN_IDLE = 0,
    VTI_SPAN_LIVE,
    VTI_SPAN_RETIRED,
    VTI_SPAN_CLEARING,
    VTI_SPAN_QUARANTINED,
    VTI_N_SPAN_STATE
} vti_span_state;

typedef enum vti_job_kind {
    VTI_JOB_BACK = 0, // create the chunks that need it, map them in every view, wipe the dirty ones
    VTI_JOB_UNMAP,    // unmap them in every view
    VTI_JOB_WIPE,     // wipe them in every view; they stay mapped
    VTI_JOB_DESTROY,  // chunks of the pool, mapped nowhere: destroy them
    VTI_JOB_WRITE,    // of a vti_copy, as the next two: chunks that are mapped to their slots
    VTI_JOB_READ,     // and back
    VTI_JOB_DROP,     // return the room of slots to the system
    VTI_N_JOB_KIND
} vti_job_kind;

// A chunk in a job's list, and what is to be done with it. Names are there for the mapper, which
// does not look into the structure.
typedef struct vti_plan {
    uint64_t name, drop_name; // their indices in the backend
    uint32_t chunk;
    uint32_t drop;   // to be destroyed before this one is created, or VTI_NO_CHUNK
    bool is_absent;  // to be created
    bool is_dirty;   // to be wiped
    bool is_read;    // UNMAP: it is mapped for reading only, if it must be mapped again
    bool is_dropped; // set by the job: `drop` is destroyed
} vti_plan;

// Backend work on positions [first, first + n) of one lane, in portions: each is done in all views
// before the next begins. See lane_job.c.
typedef struct vti_lane_job {
    vti_job base;   // the queue's, first; its deadline is the step in which the chunks are needed
    bool in_flight; // with the mapper

    // what is to be done; the owner's, constant while posted
    vti_job_kind kind;
    uint32_t span, group; // span: UINT32_MAX for the manager's own job
    uint64_t generation;  // of the sequence it was posted for: a late outcome is not another's
    uint32_t first, n;
    uint32_t portion;   // positions at a time
    vti_plan *plan;     // [n] the chunks
    uintptr_t addr;     // of position `first` in view 0
    vt_vmm_use use;     // BACK
    vt_vmm_order order; // of wiping
    uint64_t n_run;     // mappings reserved for it

    // progress
    uint32_t n_done;    // positions that are done in all views
    uint32_t n_created; // plan[0 .. n_created) have memory
    uint32_t n_view;    // of the portion after n_done: views that are done
    bool is_claimed;    // taken back by the owner, in the middle of a portion
    bool is_stuck;      // a failure could not be undone: see fence.c
    uint32_t n_left;    // then: positions mapped in the view where the undo failed
    vt_status st;       // the first failure
    vti_calls calls;
} vti_lane_job;

enum { VTI_SHORT_PLAN = 4 };

// What a span maps of one group. What it knows of a position takes room only as far as chunks have
// been mapped.
typedef struct vti_lane {
    uint32_t front;   // positions below hold no tokens any more: a window has passed them
    uint32_t n_owned; // positions [front, n_owned) hold tokens
    uint32_t held0,
        held1;          // positions [held0, held1) are held: those, and what waits to be unmapped
    uint32_t n_ro;      // positions below are mapped for reading only, if at all
    uint32_t guard_end; // positions below are to become so: see vti_lane_guard
    uint32_t n_mapped_free;  // free chunks mapped, all at positions from held1 on
    uint32_t n_end;          // the last mapped position, plus one
    uint32_t solid0, solid1; // positions [solid0, solid1) are mapped; others may be, too
    uint32_t n_run;          // runs of one view
    uint32_t region;         // the region for the names of new chunks, or VTI_NO_CHUNK
    uint32_t region_first;   // the position of its first name
    uint32_t n_room;         // positions that `at` has room for; none beyond is mapped
    bool needs_zeroing; // what waits at the end may have bytes of another holder: it was not wiped
    size_t dirty_end; // bytes of each view, from the end of the tokens up to here, may not be zero
    uint32_t *at;     // [n_room] chunk mapped there, or VTI_NO_CHUNK
    vti_plan *plan;   // [n_plan] of the job
    uint32_t n_plan;
    vti_lane_job job; // from here on: extend needs what is before, and finds it in two cache lines
    vti_plan short_plan[VTI_SHORT_PLAN]; // the plan, if it is no longer than that
} vti_lane;

// Up to where a quarantined span has been unmapped.
typedef struct vti_place_in_span {
    uint32_t group, view, position;
} vti_place_in_span;

typedef struct vti_span {
    uint32_t id;
    vti_span_state state;
    uint64_t generation; // counts the sequences that lived here
    uint64_t fence;      // the device may use what the span gave up until it has passed this ticket
    uint64_t guard_fence;  // ticket after the work that may write what is to be guarded
    bool needs_fence;      // retired, and the ticket could not be taken yet
    bool is_lost;          // live, but a failure could not be undone
    bool is_due;           // it is in that list
    bool is_listed_mapped; // it is in the list of idle spans with mapped-free chunks
    vti_place_in_span cleared;
    uintptr_t addr;                               // first reserved byte
    vt_seq *seq;                                  // the sequence that lives here, or NULL
    struct vti_span *newer, *older;               // neighbours in the list of its state
    struct vti_span *mapped_newer, *mapped_older; // and in idle_mapped
    vti_lane lane[];                              // [n_group]
} vti_span;

typedef struct vti_span_list {
    vti_span *newest, *oldest; // by time of entry
    uint32_t n;
} vti_span_list;

typedef struct vti_vset {
    const vti_geo *geo;
    const vti_pset *pset;
    uint32_t n_max;
    uint32_t n_span;                    // made so far; ids 0 .. n_span-1
    vti_span **span;                    // [n_max]
    vti_span_list in[VTI_N_SPAN_STATE]; // the spans of each state
    vti_span_list
        idle_mapped; // idle spans with mapped-free chunks, by time of entry, so that taking
                     // some walks past no others
    vti_span **due;  // [n_max] a ring, n_due of them from first_due on: see below
    uint32_t first_due, n_due;
    uint32_t n_lost;                              // spans that are lost
    uint64_t n_run;                               // mappings: over all lanes, the runs of all views
    uint64_t mapped_free_bytes[VTI_N_SPAN_STATE]; // of mapped-free chunks in spans of each state
} vti_vset;

// geo and pset must outlive it. Errors: VT_ENOMEM.
vt_status vti_vset_init(vti_vset *vs, const vti_geo *geo, const vti_pset *pset, uint32_t n_max);
void vti_vset_free(vti_vset *vs); // Pre: no spans

// A new span, idle. Errors: VT_NOSPANS (n_max exist), VT_ENOMEM.
vt_status vti_vset_push(vti_vset *vs, vti_span **out);
void vti_vset_pop(vti_vset *vs); // frees the newest span; invalidates the list of due spans
// A span that is retired again has waited already: it comes before the others.
void vti_vset_move(vti_vset *vs, vti_span *sp, vti_span_state to);

// The due spans are those that the next step looks at, each once, in the order in which they became
// due. A span that becomes live or idle is due; a function that changes what a step may have to do
// for a span sets it due. So a step looks at no others.
void vti_span_set_due(vti_vset *vs, vti_span *sp);
vti_span *vti_vset_due(const vti_vset *vs, uint32_t i); // i < n_due
vti_span *vti_vset_take_due(vti_vset *vs); // the first leaves the list. Pre: there is one

// Room for positions below `end` in the map of a lane, and for a plan of n entries. Errors:
// VT_ENOMEM. Pre: the lane is not in flight.
vt_status vti_lane_make_room(vti_lane *l, uint32_t end);
vt_status vti_lane_make_plan(vti_lane *l, uint32_t n);
void vti_lane_end_plan(vti_lane *l); // a long one is freed
// Both, for a BACK job of n positions at `first`.
vt_status vti_lane_make_job_room(vti_lane *l, uint32_t first, uint32_t n);
// An idle span gives back what a longer sequence needed.
void vti_span_shrink(const vti_vset *vs, vti_span *sp);

// What is mapped at a position, or VTI_NO_CHUNK.
static inline uint32_t vti_lane_at(const vti_lane *l, uint32_t position)
{
    return position < l->n_end ? l->at[position] : VTI_NO_CHUNK;
}

// Whether a position is held that its sequence has given up. What a lost span holds is not.
static inline bool vti_lane_has_left(const vti_span *sp, const vti_lane *l, uint32_t position)
{
    return !sp->is_lost && position >= l->held0 && position < l->held1 &&
           (position < l->front || position >= l->n_owned);
}

// Changes what a lane maps at one position, and how; counts runs and mapped ends.
void vti_lane_set(vti_vset *vs, vti_span *sp, uint32_t group, uint32_t position, uint32_t chunk);
void vti_lane_set_ro(vti_vset *vs, vti_span *sp, uint32_t group, uint32_t n_ro);
void vti_lane_count_mapped_free(vti_vset *vs, vti_span *sp, uint32_t group, int32_t more);

uint64_t vti_span_mapped_free_bytes(const vti_vset *vs, const vti_span *sp);
bool vti_span_in_flight(const vti_vset *vs, const vti_span *sp); // some lane is
// Whether the mapping at a position begins a run of its own.
bool vti_lane_run_begins(const vti_vset *vs, const vti_lane *l, uint32_t position);
uintptr_t vti_lane_addr(const vti_geo *g, const vti_span *sp, uint32_t group, uint32_t view,
                        uint32_t position);
// How many positions of [first, end) are not mapped.
uint32_t vti_lane_count_unmapped(const vti_lane *l, uint32_t first, uint32_t end);
// The first position from `first` on that is not mapped; `end`: all below are.
uint32_t vti_lane_first_unmapped(const vti_lane *l, uint32_t first, uint32_t end);

#endif
