// operations.h - the operations: everything that changes memory and the structure together, grouped
// by the defining file, the lowest first. The operation of the vTensor paper is in brackets. (rPush
// and rPrefixMatch are vti_radix_push and vti_radix_match of tree/radix.h.)
//
// An operation that fails has changed nothing, unless its comment says what may be left. Errors,
// where not stated otherwise: VT_NOSPACE and VT_EDEVICE of the backend, VT_ENOMEM.
#ifndef VTI_OPERATIONS_H
#define VTI_OPERATIONS_H

#include "vtensor/core/manager.h"
#include "vtensor/tree/radix.h"

// Deadlines of jobs: the step in which they are needed, or one of these, which come after all
// steps.
#define VTI_SOON   (UINT64_MAX - 4)
#define VTI_SWAP   (UINT64_MAX - 3)
#define VTI_REFILL (UINT64_MAX - 2)
#define VTI_WIPE   (UINT64_MAX - 1)
#define VTI_RETURN UINT64_MAX

enum {
    VTI_PORTION_BYTES = 4 << 20, // of a job at a time
    VTI_RETURN_AT_ONCE = 1024,   // chunks that the owner plans in one step to return to the system
};

typedef enum vti_haste {
    VTI_NOW = 0, // the owner waits: others' prepared chunks and system calls are allowed
    VTI_AHEAD    // no caller waits: slow work is left to the mapper, and the answer is VT_NOSPACE
} vti_haste;

// ---- fence.c

vt_status vti_fence_take(vt_manager *m, vti_span *sp); // sp->fence: after the work so far
vt_status vti_fence_passed(vt_manager *m, uint64_t ticket, bool wait, bool *is_passed);
vt_status vti_fence_await(vt_manager *m, uint64_t ticket);
// Whether the device is done with what the span gave up, and with wiping it: VT_BUSY if not.
vt_status vti_span_is_quiet(vt_manager *m, vti_span *sp);
vt_status vti_span_await(vt_manager *m, vti_span *sp); // until it is. Errors: VT_EDEVICE
vt_status vti_live_spans_await(vt_manager *m);         // the same for all that are live
// A chunk that a queued copy reads stays held until the copy is done. Errors: VT_ENOMEM (before the
// copy: reserve), VT_EDEVICE.
vt_status vti_source_reserve(vt_manager *m);
void vti_source_hold(vt_manager *m, uint32_t chunk);
void vti_sources_release(vt_manager *m, bool wait);

void vti_span_quarantine(vt_manager *m, vti_span *sp); // a part of it could not be restored
// A lane of such a span holds all that it maps. Pre: it is not in flight.
void vti_quarantine_hold(vt_manager *m, vti_span *sp, uint32_t group);
// Unmaps all that a quarantined span maps; continues where it failed before. Pre: no lane is
// in flight, no sequence lives there. Errors: VT_EDEVICE.
vt_status vti_quarantine_clear(vt_manager *m, vti_span *sp);
void vti_quarantine_retry(vt_manager *m); // all that the device is done with
void vti_quarantine_await(vt_manager *m); // all, once it is

// ---- swap.c

vt_status vti_swap_init(vt_manager *m, const vt_config *cfg); // VT_ENOMEM
void vti_swap_free(vti_swap *sw);
vt_status vti_swap_open(vt_manager *m); // once. Errors: VT_EINVAL (no swap is configured)
uint32_t vti_slot_take(vt_manager *m, uint32_t group); // Pre: one is free
void vti_slot_put(vt_manager *m, const vti_swapped *c);
void vti_swap_forget(vt_seq *s); // returns the sequence's slots. Pre: it is not moving
// Slots whose room is to be returned go into the list of the job; false: there are none.
bool vti_slots_pick_stale(vti_swap *sw);
void vti_slots_put_picked(vti_swap *sw); // as far as the job went
// Runs on either thread. True: there is more to do.
bool vti_copy_step(const vt_manager *m, vti_copy *c);

// ---- lane_job.c

// A chunk in a plan, to be mapped or destroyed as it is.
vti_plan vti_plan_of(const vt_manager *m, uint32_t chunk);
// The chunks of plan[from .. to) go back.
void vti_plan_drop(vt_manager *m, uint32_t cls, const vti_plan *plan, uint32_t from, uint32_t to);
// What the mappings of plan[0 .. n) at `first` cost, at most, in mappings.
uint64_t vti_plan_runs(const vt_manager *m, const vti_span *sp, uint32_t group, uint32_t first,
                       const vti_plan *plan, uint32_t n);

// Chunks of a class in a portion of a job; at least one.
uint32_t vti_portion_chunks(const vt_manager *m, uint32_t cls);

// Backend work on a lane, at once or on the mapper thread. A lane has one job at a time. BACK and
// DESTROY work off plan[0 .. n), whose chunks are with the job (vti_plan_make).
typedef struct vti_job_spec {
    vti_job_kind kind;
    uint32_t first, n;
    vt_vmm_use use;    // BACK: WRITE leaves the chunks free, otherwise they are held
    uint64_t deadline; // of a job that is posted
} vti_job_spec;

// Does all of it at once. A failure leaves what was done before it done (mapped-free chunks), but
// for aliases, which are undone. VT_EDEVICE without a call: the span is lost.
vt_status vti_job_now(vt_manager *m, vti_span *sp, uint32_t group, const vti_job_spec *spec);
// Errors: VT_NOSPACE (the queue is full), VT_ENOMEM (no thread can be started).
vt_status vti_job_post(vt_manager *m, vti_span *sp, uint32_t group, const vti_job_spec *spec);
vt_status vti_destroy_now(vt_manager *m, uint32_t n);  // chunks of m->job_plan
vt_status vti_destroy_post(vt_manager *m, uint32_t n); // the same
// A copy continues where it stopped. Errors: as vti_job_post.
vt_status vti_copy_post(vt_manager *m, vti_copy *c);
void vti_jobs_take(vt_manager *m); // commits what is done
// Takes a job back, if it is in flight, and commits it: after a portion, or a slice, at most.
void vti_job_settle(vt_manager *m, vti_lane_job *job);
void vti_job_await(vt_manager *m, vti_lane_job *job); // the same when it is done
void vti_span_settle(vt_manager *m, vti_span *sp);
void vti_jobs_settle(vt_manager *m);   // all, but for copies
void vti_copies_settle(vt_manager *m); // and those
void vti_slots_drop_ahead(vt_manager *m);
void vti_slots_drop_now(vt_manager *m); // by the caller, not by the mapper
// The system lets one thread at a time change the mappings of a process, and a thread that waits
// for that waits much longer than a call takes. So the mapper begins nothing while the owner makes
// many such calls. Returns whether it was held before, so that the caller can restore that.
bool vti_mapper_begins_nothing(vt_manager *m, bool hold);

// ---- release.c

// Positions outside [front, end) hold no tokens any more: what is the lane's alone and can be
// written stays mapped and becomes free, the rest waits until the device is done.
void vti_lane_leave(vt_manager *m, vti_span *sp, uint32_t group, uint32_t front, uint32_t end);
bool vti_lane_waits(const vti_lane *l);
// Unmaps what waits, if the device is done: VT_BUSY if it is not. `post`: lets the mapper do it.
vt_status vti_lane_clear(vt_manager *m, vti_span *sp, uint32_t group, bool post);
typedef enum vti_reap {
    VTI_REAP_POST = 0, // what must be unmapped is left to the mapper thread, if there is one
    VTI_REAP_NOW,      // it is unmapped now; jobs in flight are taken back
    VTI_REAP_WAIT      // the same, and waits for the device, with idle spans as well
} vti_reap;
void vti_span_retire(vt_manager *m, vti_span *sp); // its sequence has ended
uint32_t vti_spans_retired(const vt_manager *m);   // that are not idle yet
// Makes retired spans idle, the oldest first, as far as the device is done with them.
vt_status vti_spans_reap(vt_manager *m, vti_reap how);
bool vti_span_reap_oldest(vt_manager *m); // by the caller, not by the mapper; false: it is in use
// The same for what waits in live spans.
void vti_spans_clear(vt_manager *m, bool post);

// ---- reclaim.c

uint64_t vti_budget_left(const vt_manager *m);
// The system had no memory: until the next step there is no more than what exists now. What is
// missing comes from chunks that exist, of any class. False: so much was known, and nothing helps.
VT_NODISCARD bool vti_system_note_full(vt_manager *m);
// Whether spans have more mapped-free chunks than spare_high, and others can use them: then nothing
// new is created, so that memory follows the load. Where mappings are limited, runs are worth more.
bool vti_has_surplus(const vt_manager *m);
// Makes the pool of the class hold a chunk, or the budget have room for one.
vt_status vti_room_make(vt_manager *m, const vti_span *sp, uint32_t cls, vti_haste haste);
// The pool, and the mapped-free chunks of idle spans.
uint64_t vti_spare_for_arrivals(const vt_manager *m);
// What could not be had is not there, or not yet (VT_BUSY): some memory will be free as soon as the
// device is done with it, or once its rows are in the swap.
vt_status vti_room_shortage(const vt_manager *m);
// Returns spare memory to the system until `bytes` are returned, or there is none.
vt_status vti_spare_return(vt_manager *m, uint64_t bytes);
// Lets the mapper return some of it: what is beyond spare_high, or beyond what vt_give_back keeps,
// or beyond the budget.
void vti_spare_return_ahead(vt_manager *m);
// By how much what exists exceeds a budget, and by how much the manager's, since it was lowered.
uint64_t vti_excess_bytes(const vt_manager *m, uint64_t budget_bytes);
uint64_t vti_over_budget(const vt_manager *m);
// Whether `bytes` can go back to the system without taking anything from a sequence.
bool vti_can_return(const vt_manager *m, uint64_t bytes);
// What is still to go back, above the budget or for vt_give_back; 0: nothing.
uint64_t vti_returning_bytes(const vt_manager *m);
// Continues that: a bounded number of blocks and chunks.
void vti_giving_continue(vt_manager *m);
// Has the mapper take up to n mapped-free chunks of a lane into the pool. Returns how many.
uint32_t vti_mapped_free_post(vt_manager *m, vti_span *sp, uint32_t group, uint32_t n,
                              uint64_t deadline);
// Takes mapped-free chunks of a lane from position `end` on into the pool, at once.
vt_status vti_surplus_unmap(vt_manager *m, vti_span *sp, uint32_t group, uint32_t end);
// Whether `bytes` more can be had by taking all that extend may take, for a sequence that will have
// len_tok tokens: where others have too little, it gives its own mapped-free chunks beyond them
// into the pool. Errors: VT_NOSPACE, VT_BUSY.
vt_status vti_span_room(vt_manager *m, vti_span *sp, uint64_t bytes, uint32_t len_tok);
// Evicts blocks until the pool holds `bytes` more, or nothing is left.
void vti_prefixes_evict(vt_manager *m, uint64_t bytes);
bool vti_runs_fit(const vt_manager *m, uint64_t n_run);
vt_status vti_runs_make(vt_manager *m, const vti_span *sp, uint64_t n_run); // VT_NOMAPS

// ---- lane.c

// Takes chunks for the unmapped positions [first, first + *n) of a lane out of the structure, into
// the lane's plan; ahead of need, perhaps fewer: *n of them. Errors: VT_NOSPACE, VT_NOMAPS; then
// they are where they were, or in the pool.
vt_status vti_plan_make(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first, uint32_t *n,
                        vti_haste haste);
// One created chunk that is mapped nowhere, with the job. Errors: as vti_plan_make.
vt_status vti_chunk_make(vt_manager *m, uint32_t group, uint32_t *chunk);
// Such a chunk goes to the pool, dirty, since a part of it may be written.
void vti_chunk_drop(vt_manager *m, uint32_t chunk);

// The following work in each view.
//
// Copies the first bytes of a chunk, which need not be mapped, into the lane, in the order of the
// device's work.
vt_status vti_lane_fetch(vt_manager *m, const vti_span *sp, uint32_t group, uint32_t position,
                         uint32_t chunk, size_t size_bytes);
// Copies all of a position into a chunk that is mapped nowhere. Pre: the backend has store.
vt_status vti_lane_store(vt_manager *m, const vti_span *sp, uint32_t group, uint32_t position,
                         uint32_t chunk);
// Wipes bytes [from, to) of each view.
vt_status vti_lane_zero(vt_manager *m, const vti_span *sp, uint32_t group, size_t from, size_t to);
// What is mapped below `end` is to be guarded against writes (unless no_guard), by the next
// vti_span_guard after the device has done its work so far; what is from `begin` on can be written
// again, at once.
void vti_lane_guard(vt_manager *m, vti_span *sp, uint32_t group, uint32_t end);
void vti_span_guard(vt_manager *m, vti_span *sp);
// Positions [first, end) were backed anew: those below n_ro are guarded again, at once.
vt_status vti_lane_guard_again(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                               uint32_t end);
vt_status vti_lane_unguard(vt_manager *m, vti_span *sp, uint32_t group, uint32_t begin);

// Backs the unmapped positions of [first, end) at once: mapped-free, but held where the lane holds
// its tokens. Errors: as vti_plan_make; then some may be backed.
vt_status vti_lane_back(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first, uint32_t end);
// The same by the mapper, as far as one stretch goes.
vt_status vti_lane_back_ahead(vt_manager *m, vti_span *sp, uint32_t group, uint32_t first,
                              uint32_t end, uint64_t deadline);
// Positions [n_owned, end) hold tokens from now on. Pre: they are mapped-free.
void vti_lane_hold(vt_manager *m, vti_span *sp, uint32_t group, uint32_t end);
// Maps the chunks at[first .. end) of others after those that the lane owns, and holds them.
vt_status vti_lane_share(vt_manager *m, vti_span *sp, uint32_t group, const uint32_t *at,
                         uint32_t first, uint32_t end, vt_vmm_use use);
// The same for a lane that holds nothing, with a guard; what is free there goes.
vt_status vti_lane_alias(vt_manager *m, vti_span *sp, uint32_t group, const uint32_t *at,
                         uint32_t first, uint32_t end);

// ---- idle_span.c

vt_status vti_span_alloc(vt_manager *m, vti_span **out); // [vAlloc] a new span, idle
void vti_span_free(vt_manager *m, vti_span *sp);         // [vFree] Pre: the newest span, not live
// A live span, wiped, for a sequence that is expected to grow to expect_tok tokens (0: unknown), of
// which it aliases alias_tok. Errors: VT_BUSY, VT_ENOMEM, VT_EDEVICE, VT_NOSPACE.
vt_status vti_span_take(vt_manager *m, uint32_t expect_tok, uint32_t alias_tok, vti_span **out);

// A sequence has come that matches hit_tok tokens and begins with n_tok.
void vti_arrival_note(vt_manager *m, uint32_t hit_tok, uint32_t n_tok);
// Makes memory ready for the next ones, up to the low mark.
void vti_arrivals_prepare(vt_manager *m);

#endif
