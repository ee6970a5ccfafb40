// vset.h - vSet of the paper: the spans of addresses, what each maps, and which are idle. Structure
// only: no backend call. manager.h defines the words and the states.
#ifndef VTI_VSET_H
#define VTI_VSET_H

#include "geometry.h"
#include "vtensor/common/calls.h"
#include "vtensor/common/mapper.h"

typedef enum vti_span_state { VTI_SPAN_IDLE = 0, VTI_SPAN_LIVE, VTI_SPAN_RETIRED } vti_span_state;

typedef enum vti_job_kind {
    VTI_JOB_BACK = 0, // create the chunks and map them in every view
    VTI_JOB_SHED,     // unmap them in every view and destroy them
    VTI_JOB_ZERO,     // wipe them in every view; they stay mapped
    VTI_JOB_UNMAP,    // unmap them in every view; others hold them
} vti_job_kind;

// Backend work on the chunks at positions [first, first + n) of one span, all of one region.
typedef struct vti_span_job {
    vti_job base; // the queue's, first; its deadline is the step in which the chunks are needed

    // what is to be done; the owner's, constant while posted
    vti_job_kind kind;
    uint32_t span;       // id
    uint64_t generation; // of the sequence it was posted for, so that a late outcome is not
                         // reported to another one
    uint32_t region, first, n;
    uintptr_t addr; // of position `first` in view 0
    uint64_t index; // of the chunk at position `first`
    uint64_t fence; // SHED, UNMAP: not before the backend has passed this ticket

    // the outcome, valid when done
    vt_status st;
    bool created;    // the chunks have memory now
    uint32_t n_view; // views [0, n_view) map them now
    vti_calls calls;
} vti_span_job;

// A range of a span in which the views do not agree, because undoing a failed call failed too:
// views [0, n_view) map `region`, the others nothing. `at` says what should be mapped.
typedef struct vti_tear {
    uint32_t first, n; // positions; n = 0: none
    uint32_t region;
    uint32_t n_view;
} vti_tear;

typedef struct vti_span {
    uint32_t id;
    vti_span_state state;
    uint32_t home;    // region; VTI_NO_REGION: none yet
    uint32_t n_owned; // positions held
    uint32_t n_warm;  // SPARE chunks mapped, all at positions from n_owned on
    uint32_t n_dirty; // warm positions below may hold bytes of this span's last or present sequence
    uint32_t n_run;   // runs of one view
    uint32_t n_end;   // the last mapped position, plus one
    uint64_t generation; // counts the sequences that lived here
    uint64_t fence;      // the device may use what the span released until it passes this ticket
    bool needs_fence;    // retired, and the fence could not be taken yet
    bool is_lent;        // `job` is with the mapper
    bool passed_over;    // during a search for a span: this one could not be wiped
    uintptr_t addr;      // first reserved byte
    vt_seq *seq;         // the sequence that lives here, or NULL
    vti_tear tear;
    vti_span_job job;
    struct vti_span *newer, *older; // neighbours in the list of the idle or of the retired
    uint32_t n_detached;            // positions that are unmapped while they are held
    uint32_t *detached; // [chunks_per_span] region to be mapped there again, or VTI_NO_REGION
    uint32_t at[]; // [2 x chunks_per_span] region mapped there, or VTI_NO_REGION; then `detached`
} vti_span;

typedef struct vti_span_list {
    vti_span *newest, *oldest; // by time of release
    uint32_t n;
} vti_span_list;

typedef struct vti_vset {
    uint32_t n_max;
    uint32_t n_position;
    uint32_t n_span; // made so far; ids 0 .. n_span-1
    vti_span **span; // [n_max]
    vti_span_list idle, retired;
    uint64_t n_run; // of one view, over all spans
} vti_vset;

vt_status vti_vset_init(vti_vset *vs, uint32_t n_max, uint32_t n_position); // VT_ENOMEM
void vti_vset_free(vti_vset *vs);                                           // Pre: no spans

// A new span, in no list yet. Errors: VT_NOSPACE (n_max exist), VT_ENOMEM.
vt_status vti_vset_push(vti_vset *vs, vti_span **out);
void vti_vset_pop(vti_vset *vs);                  // frees the newest span, which is in no list
void vti_vset_list(vti_vset *vs, vti_span *sp);   // a new span becomes idle
void vti_vset_unlist(vti_vset *vs, vti_span *sp); // out of its list, for vti_vset_pop
void vti_vset_move(vti_vset *vs, vti_span *sp, vti_span_state to);

// What is mapped. runs_if: how many more runs one view would have after vti_span_set.
void vti_span_set(vti_vset *vs, vti_span *sp, uint32_t first, uint32_t n, uint32_t region);
int32_t vti_span_runs_if(const vti_vset *vs, const vti_span *sp, uint32_t first, uint32_t n,
                         uint32_t region);
uint32_t vti_run_length(const uint32_t *at, uint32_t first,
                        uint32_t end);                               // positions of one region
uint32_t vti_span_cold_chunks(const vti_span *sp, uint32_t n_chunk); // unmapped, n_owned to n_chunk
uintptr_t vti_span_addr(const vti_geo *g, const vti_span *sp, uint32_t view, uint32_t position);

// Whether some memory of its sequence is not mapped.
static inline bool vti_span_is_torn(const vti_span *sp)
{
    return sp->n_detached > 0 || (sp->tear.n > 0 && sp->tear.first < sp->n_owned);
}

#endif
