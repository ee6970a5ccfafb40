// verbs.h - the verbs: everything that changes memory and the structure together, grouped by the
// defining file, the lowest first. The operation of the vTensor paper is in brackets. (rPush and
// rPrefixMatch are vti_rtree_push and vti_rtree_match of tree/rtree.h.)
//
// A verb that fails has changed nothing, unless its comment says what may be left. Errors, where
// not stated otherwise: VT_NOSPACE and VT_EDEVICE of the backend, VT_ENOMEM.
#ifndef VTI_VERBS_H
#define VTI_VERBS_H

#include "vtensor/structure/manager.h"
#include "vtensor/tree/rtree.h"

// Deadlines of jobs: the step in which they are needed, or one of these, which come after all
// steps.
#define VTI_SOON   (UINT64_MAX - 3)
#define VTI_REFILL (UINT64_MAX - 2)
#define VTI_WIPE   (UINT64_MAX - 1)
#define VTI_RETURN UINT64_MAX

// span_fence.c
vt_status vti_span_fence(vt_manager *m, vti_span *sp); // sp->fence: after the work so far
vt_status vti_span_await_fence(vt_manager *m, const vti_span *sp); // waits for sp->fence
// Waits until no work on the device can read what is unmapped next.
vt_status vti_span_quiesce(vt_manager *m, vti_span *sp);

// span_map.c
// [Map] Pre: the range shows one region, or nothing, throughout.
vt_status vti_span_map(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n, uint32_t region,
                       vt_vmm_use use);
vt_status vti_span_unmap(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n); // [Unmap]
// Undoes a Map of one position before a kernel has seen it: `region` again. A failure leaves a
// tear.
void vti_span_map_back(vt_manager *m, vti_span *sp, uint32_t position, uint32_t region);
// Unmaps one run that stays held: vti_span_drop_detached releases it, vti_span_repair maps it
// again.
vt_status vti_span_detach(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n);
void vti_span_drop_detached(vt_manager *m, vti_span *sp, uint32_t first); // from `first` on
vt_status vti_span_repair(vt_manager *m, vti_span *sp); // maps what is torn or detached
// Repairs the tears that show these chunks, which are about to be destroyed.
vt_status vti_tears_repair(vt_manager *m, uint32_t region, uint32_t first, uint32_t n);

// span_copy.c: in each view
// Copies the first bytes of a chunk, which need not be mapped, into the span at the same position.
vt_status vti_span_fetch(vt_manager *m, vti_span *sp, uint32_t position, uint32_t from_region,
                         size_t size_bytes);
// Copies the other way.
vt_status vti_span_store(vt_manager *m, const vti_span *sp, uint32_t position, uint32_t to_region,
                         size_t size_bytes);
// Wipes from `offset` to the end of the position.
vt_status vti_span_zero(vt_manager *m, vti_span *sp, uint32_t position, size_t offset);

// chunk_alloc.c
vt_status vti_span_alloc(vt_manager *m, vti_span **out); // [vAlloc] a new span, idle
void vti_span_free(vt_manager *m, vti_span *sp);         // [vFree] Pre: the newest span, not live
// [pAlloc] Pre: ABSENT.
vt_status vti_chunks_alloc(vt_manager *m, uint32_t region, uint32_t first, uint32_t n);
// [pFree] Pre: SPARE, and mapped nowhere but in tears.
vt_status vti_chunks_free(vt_manager *m, uint32_t region, uint32_t first, uint32_t n);

// span_jobs.c: the same for spare chunks, at once or on the mapper thread. A span has one job at a
// time.
vt_status vti_job_now(vt_manager *m, vti_span *sp, vti_job_kind kind, uint32_t first, uint32_t n);
// Errors: VT_NOSPACE (the queue is full), VT_ENOMEM (no thread can be started).
vt_status vti_job_post(vt_manager *m, vti_span *sp, vti_job_kind kind, uint32_t first, uint32_t n,
                       uint64_t deadline);
void vti_jobs_take(vt_manager *m);                     // commits what is done
bool vti_job_cancel(vt_manager *m, vti_span *sp);      // false: it is running, or done
vt_status vti_job_finish(vt_manager *m, vti_span *sp); // does it, or waits for it
void vti_job_settle(vt_manager *m, vti_span *sp);      // cancels it, or waits for it
void vti_jobs_settle(vt_manager *m);                   // all

// strays.c
vt_status vti_strays_free(vt_manager *m);
// Pre: nothing is mapped at the position. Frees the home's spare chunk there, if it has one.
vt_status vti_stray_free_at(vt_manager *m, vti_span *sp, uint32_t position);

// span_warm.c
// Sheds warm chunks of [first, end), the last ones first, max_n at most.
vt_status vti_span_shed(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end, uint32_t max_n);
// The mapper sheds an idle span's last stretch. Returns its number of chunks; 0: none.
uint32_t vti_span_shed_async(vt_manager *m, vti_span *sp, uint64_t max_n);
vt_status vti_span_leave_home(vt_manager *m, vti_span *sp); // sheds all; the span has no home then
bool vti_span_dirty(const vti_span *sp, uint32_t *first, uint32_t *n); // the last dirty stretch
vt_status vti_span_clean(vt_manager *m, vti_span *sp);                 // wipes the dirty chunks

// span_leave.c
typedef enum vti_reap {
    VTI_REAP_TRY = 0, // those the device is done with; the mapper does what takes long
    VTI_REAP_NOW,     // the same, but at once
    VTI_REAP_WAIT     // all, and waits for the device
} vti_reap;
// Releases the positions from `keep` on. A failure that cannot be undone leaves the span torn.
vt_status vti_span_drop(vt_manager *m, vti_span *sp, uint32_t keep);
void vti_span_retire(vt_manager *m, vti_span *sp); // its sequence has ended
// Makes retired spans idle. Errors: VT_EDEVICE (some stay retired, and are tried again).
vt_status vti_spans_reap(vt_manager *m, vti_reap how);

// reclaim.c
uint64_t vti_spare_count(const vt_manager *m, const vti_span *except); // not those of `except`
// Returns n_chunk spare chunks to the system, but none of `except`.
// Errors: VT_NOSPACE (there were fewer; they are returned), VT_EDEVICE.
vt_status vti_spare_reclaim(vt_manager *m, uint64_t n_chunk, const vti_span *except);
void vti_spare_return_excess(vt_manager *m); // spare chunks beyond the high mark
// Evicts until n_chunk more chunks are spare, or no prefix is left that may be evicted. Destroys no
// chunk.
void vti_prefixes_evict(vt_manager *m, uint64_t n_chunk);
// Makes room in the budget for n_chunk more chunks, which sp wants below position `end`; its warm
// chunks below `end` stay. sp may be NULL. Errors: VT_NOSPACE (returning everything that may be
// returned would not suffice: nothing is lost).
vt_status vti_room_make(vt_manager *m, vti_span *sp, uint32_t end, uint64_t n_chunk);
// The same for work ahead of need, only from the free budget and from idle spans other than sp.
vt_status vti_room_from_idle(vt_manager *m, const vti_span *sp, uint64_t n_chunk);
bool vti_runs_fit(const vt_manager *m, int64_t n_run); // n_run more runs in each view
vt_status vti_runs_make(vt_manager *m, const vti_span *sp, int64_t n_run); // room for them

// span_grow.c
// Makes sure that the home holds no chunk in use at [first, end).
vt_status vti_span_home(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end);
// How many positions from `first` on one job may back: *n, at least 1, not beyond `end`.
// Pre: nothing is mapped at `first`.
vt_status vti_span_stretch(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end, uint32_t *n);
// Backs *n positions from `first` on, at least 1 and not beyond `end`: warm chunks.
vt_status vti_span_back(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end, uint32_t *n);

// span_share.c
// The chunks mapped at [first, first + n) hold tokens from now on. Pre: first = n_owned.
void vti_span_hold(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n);
// The span becomes one more holder of chunks. Pre: nothing is mapped there; first = n_owned.
vt_status vti_span_share(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n, uint32_t region,
                         vt_vmm_use use);
// Shares the chunks that at[0 .. n) names. On an error some are shared already. Pre: nothing is
// held yet; no eviction can take these chunks away.
vt_status vti_span_alias(vt_manager *m, vti_span *sp, const uint32_t *at, uint32_t n);
// Replaces a shared chunk by a copy of the first size_bytes of each view. Pre: the home's place is
// free (vti_span_home) and there is room for a chunk.
vt_status vti_span_unshare(vt_manager *m, vti_span *sp, uint32_t position, size_t size_bytes);

// span_take.c
// A live span, wiped, for a sequence that will alias n_alias chunks and is expected to grow to
// expect_tok tokens (0: unknown). Errors: VT_NOSPACE (all spans are live), VT_ENOMEM, VT_EDEVICE.
vt_status vti_span_take(vt_manager *m, uint32_t expect_tok, uint32_t n_alias, vti_span **out);

#endif
