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
//   position  number of a chunk within a span, from 0: token t begins in the chunk at position
//             t x stride_bytes / slice_bytes; it may straddle two
//   region    chunks_per_span neighbouring chunk indices: index = region x chunks_per_span +
//             position
//   span      the reserved addresses of one sequence
//   run       neighbouring chunks of one region, mapped one after another in one view: one mapping
//             of the system
//   holder    of a chunk: a live span in which it holds tokens, or a node of the prefix tree
//
// A span and its views:
//
//   addr
//   | guard | view 0: mapped slices | reserved | guard | view 1: ... | guard | ... | guard |
//           |<------------- view_stride -------------->|
//
// The law of positions: a chunk is mapped at its own position and at no other, whichever span it is
// mapped in. So a span's map is one region for each position,
//
//   position   0    1    2    3    4    5    6 ...
//   at         A    A    A    B    B    B    -            prefix of A shared, own chunks in B
//              holds tokens (n_owned = 5) | spare
//
// neighbours from one region are neighbours in the memfd, and a sequence costs n_view runs for each
// region it draws on: one where nothing is shared, one more for each time it forked or matched.
// New chunks come from the span's home region. A span takes as its home: the region of its last
// chunk where nobody lives and the place behind is free (a conversation that goes on), or a fresh
// one. It changes home when it has to write where its home has a chunk that other spans hold. Where
// the tree alone holds its tail with it, the tree gets a copy, in a region that is nobody's home
// and never will be (an attic), and the sequence goes on in one run.
//
// The states of a chunk follow from its counts; they change only in pset.c:
//
//   ABSENT -> SPARE    a BACK job commits                 no memory -> memory, zero
//   SPARE  -> OWNED    extend                             its first holder
//   OWNED <-> SHARED   fork, match, record, and back      more holders, with a sequence among them
//   OWNED  -> SPARE    truncate, release, swap_out        the last holder has gone
//   SHARED -> CACHED   the last sequence has gone         held by the tree alone
//   CACHED -> SPARE    eviction
//   SPARE  -> ABSENT   a SHED job commits                 memory -> no memory
//
// Spare chunks are mapped in the span whose home their region is ("warm"), but for those whose
// region is nobody's home ("stray"), which wait only to be destroyed. Where the device has failed
// twice, a tear of another span may show a spare chunk still; it is mended before the chunk is
// destroyed (vti_untangle).
//
// The states of a span:
//
//   (made) -> IDLE -> LIVE -> RETIRED -> IDLE
//             span.c  span.c  release    span_reap: the device is done with it, foreign chunks are
//                                        unmapped, only warm ones are left
//
// Threads. The structure is the owner's. The mapper thread gets jobs: plain data that names chunks
// and addresses lent to it (mapper.h). The owner reserves what a job needs before it posts it
// (n_pledged chunks, runs_pledged), does not touch what is lent, and commits the outcome when it
// takes the job back. The same jobs, run at once by the owner, are the synchronous path.
//
// Invariants; vt_check proves 1 to 9, the tests prove 10.
//  1. A chunk's n_user is the number of spans, live or retired, that hold it below their n_owned,
//     mapped or lifted; its n_node the number of references in the prefix tree. Both are 0 where it
//     is not created.
//  2. A region that is some span's home is the home of that span alone. A region in use is a home
//     or has created chunks.
//  3. Where a span maps a region at a position, that chunk is created. At positions below n_owned
//     it is held; from n_owned on it is SPARE and of the home region.
//  4. A live span owns exactly the chunks its length needs; those that are not mapped are in the
//     swap, and then it is swapped, or lifted, and then it is torn. An idle span owns none. A span
//     is live, retired or idle, and the latter two are in one list each, once.
//  5. owned + shared + cached + spare = created, summed over regions; created x chunk_bytes = the
//     backend's resident bytes; created + n_pledged <= budget.
//  6. n_run = sum over spans of n_view x (changes of region along its map); what the system maps is
//     the same, if no span is torn and no job runs.
//  7. live_tok = sum of the lengths; peaks are at least the present values.
//  8. Every node's chunks hold the rows of all tokens of its path that lie in them. A tree is
//     compressed: two children of a node begin with different tokens, and no node but a root is
//     empty.
//  9. A slot of the swap is free or belongs to one sequence and position.
// 10. Zero law: SPARE chunks read as zero, but for the first n_dirty positions of a span that is
//     idle. Beyond its length a live tail chunk reads as zero, unless tail_stale.
#ifndef VTI_INTERNAL_H
#define VTI_INTERNAL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mapper.h"
#include "rtree.h"
#include "vtensor/vtensor.h"

// Forwards a failure.
#define VT_TRY(expr)                                \
    do {                                            \
        vt_status vt_try_st_ = (expr);              \
        if (vt_try_st_ != VT_OK) return vt_try_st_; \
    } while (0)

// In a function that answers the first broken invariant in words, or NULL.
#define HOLDS(cond, what)         \
    do {                          \
        if (!(cond)) return what; \
    } while (0)

enum { VTI_NO_REGION = UINT32_MAX };

// Deadlines of jobs: the step in which they are needed, and these behind all steps there will be.
#define VTI_SOON   (UINT64_MAX - 3)
#define VTI_REFILL (UINT64_MAX - 2)
#define VTI_WIPE   (UINT64_MAX - 1)
#define VTI_RETURN UINT64_MAX

// The sizes of a manager. Immutable after vti_geo_init.
struct vti_geo {
    uint32_t n_plane;
    uint32_t n_view;          // n_plane (SPLIT) or 1 (PACKED); also slices per chunk
    uint32_t max_tok;         // tokens of the longest sequence
    uint32_t max_seq;         // spans
    uint32_t chunks_per_span; // positions of a span; a region has as many indices
    uint32_t max_region;      // regions there may be: as many as fit a file's offsets
    size_t stride_bytes;      // from token to token
    size_t plane_stride;      // bytes from plane to plane
    size_t slice_bytes;
    size_t chunk_bytes; // n_view x slice_bytes
    size_t guard_bytes; // at least a token; never mapped
    size_t view_stride; // bytes from view to view
    size_t span_bytes;  // guard_bytes + n_view x view_stride
};

typedef struct vti_chunk {
    uint32_t n_user; // spans, live or retired, that hold it
    uint32_t n_node : 31;
    uint32_t created : 1;
} vti_chunk;

typedef struct vti_region {
    vti_chunk *chunk;                // [chunks_per_region]; NULL: never used
    uint32_t n_in[VT_N_CHUNK_STATE]; // chunks by state
    uint32_t home_of;                // id of the span, VTI_ATTIC, or VTI_NO_SPAN: nobody's
} vti_region;

enum { VTI_NO_SPAN = UINT32_MAX, VTI_ATTIC = UINT32_MAX - 1 };

// pSet: the physical chunks, ordered by index, reference-counted.
struct vti_pset {
    uint32_t n_region; // used so far
    uint32_t max_region;
    uint32_t cap_region;
    uint32_t chunks_per_region;
    uint32_t n_full;                 // the regions below this one are all in use
    vti_region *region;              // [cap_region]
    uint64_t n_in[VT_N_CHUNK_STATE]; // sums over the regions
};

typedef enum vti_span_state { VTI_SPAN_IDLE = 0, VTI_SPAN_LIVE, VTI_SPAN_RETIRED } vti_span_state;

// A range of a span in which the views do not agree, since the undoing of a failed call has failed
// as well: views [0, n_view) map `region`, the others nothing. What should be there, `at` says.
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
    uint64_t fence;   // the device may use what the span has let go of until this ticket is passed
    bool needs_fence; // retired, and the fence could not be taken yet
    bool is_lent;     // `job` is with the mapper
    bool passed_over; // while somebody looks for a span: this one could not be cleaned
    uintptr_t addr;   // first reserved byte
    vt_seq *seq;      // who lives here, or NULL
    vti_tear tear;
    vti_job job;
    struct vti_span *newer, *older; // neighbours in the list of the idle or of the retired
    uint32_t n_lifted;              // positions that are unmapped while they are held
    uint32_t *lifted;               // [chunks_per_span] region that belongs there, or VTI_NO_REGION
    uint32_t
        at[]; // [2 x chunks_per_span] region mapped there, or VTI_NO_REGION; behind it `lifted`
} vti_span;

typedef struct vti_span_list {
    vti_span *newest, *oldest; // by time of release
    uint32_t n;
} vti_span_list;

// vSet: the spans of addresses, all of one size.
typedef struct vti_vset {
    uint32_t n_max;
    uint32_t n_position;
    uint32_t n_span; // made so far; ids 0 .. n_span-1
    vti_span **span; // [n_max]
    vti_span_list idle, retired;
    uint64_t n_run; // of one view, over all spans
} vti_vset;

// The swap: slots of chunk_bytes, handed out last in, first out.
typedef struct vti_swap {
    uint32_t n_slot, n_free;
    uint32_t *free_slot; // [n_slot], the first n_free of them
    bool open;           // the backend has been told
    char *dir;           // owned; NULL: not given
    uint64_t size_bytes;
} vti_swap;

// Counters that only grow.
typedef struct vti_tally {
    vti_calls calls;
    uint64_t nospace;
    uint64_t peak_chunks; // created at once
    uint64_t peak_tok;    // live at once
    uint64_t prefix_evicted, match_calls, match_tok, hit_tok;
    uint64_t copied_chunks, ready_hits, ready_misses, jobs, job_failures;
    uint64_t swap_out_chunks, swap_in_chunks, swap_corrupt;
} vti_tally;

// A chunk's content in the swap.
typedef struct vti_swapped {
    uint32_t position, slot;
    uint64_t sum; // of its slices, one after another
} vti_swapped;

struct vt_seq {
    vt_manager *m;
    vti_span *span;
    uint32_t len_tok;
    bool tail_stale;      // rows beyond the length in the tail chunk may not be zero
    vt_status ahead;      // how the last prepare ended
    uint32_t ahead_tok;   // prepared, or to be, up to here
    vti_node *node;       // deepest node of the tree it was matched to or recorded in; referenced
    vti_swapped *swapped; // [n_swapped] owned, by position; NULL: not swapped out
    uint32_t n_swapped;
};

// Everything is owned by the manager's one thread, but for what jobs lend to the mapper.
struct vt_manager {
    struct vti_geo geo;
    vt_vmm *vmm;
    struct vti_pset pset;
    vti_vset vset;
    vti_rtree *rtree;
    vti_mapper *mapper; // NULL: not started yet, or VT_MAPPER_OWNER
    vti_swap swap;
    vti_tally tally;
    vt_mapper mapper_kind;
    uint64_t budget_bytes;  // as configured or set
    uint64_t budget_chunks; // created at once, at most
    uint64_t spare_low_chunks, spare_high_chunks;
    uint64_t n_pledged;    // chunks that jobs may create
    uint64_t n_leaving;    // chunks that jobs give back
    uint64_t runs_pledged; // of one view, that jobs may map
    uint64_t max_runs;     // what the backend allows, over all views
    uint64_t live_tok;     // sum of the lengths
    uint64_t now_ms;       // of the last vt_step
    uint64_t n_step;       // calls of vt_step
    uint32_t n_seq;        // sequences alive
    uint32_t n_lent;       // jobs with the mapper
    uint32_t *scratch;     // [chunks_per_span] regions of a prefix
};

// geo.c
vt_status vti_geo_init(vti_geo *g, const vt_config *cfg, size_t granularity);
uint32_t vti_geo_chunks(const vti_geo *g, uint32_t len_tok);   // that hold len_tok tokens
uint32_t vti_geo_whole(const vti_geo *g, uint32_t len_tok);    // of them, filled to the end
size_t vti_geo_tail_bytes(const vti_geo *g, uint32_t len_tok); // in the last, of each view; 0: full
uint32_t vti_geo_tokens(const vti_geo *g, uint32_t n_chunk);   // that fit in n_chunk chunks
bool vti_mul(size_t a, size_t b, size_t *out);                 // false: it overflows
bool vti_round_up(size_t a, size_t unit, size_t *out);         // likewise
bool vti_choose_slice(size_t asked_bytes, size_t tok_bytes, size_t granularity,
                      size_t *slice_bytes); // 0 asked: the smallest of 32 tokens; false: none is

// pset.c: structure alone, no backend call
void vti_pset_init(vti_pset *ps, uint32_t max_region, uint32_t chunks_per_region);
void vti_pset_free(vti_pset *ps);
vt_status vti_pset_open(vti_pset *ps, uint32_t span, uint32_t *region); // one not in use
void vti_pset_adopt(vti_pset *ps, uint32_t region, uint32_t span);      // pre: nobody's home
void vti_pset_leave(vti_pset *ps, uint32_t region);
bool vti_pset_is_home(const vti_pset *ps, uint32_t region);                  // of a span
vt_status vti_pset_attic(vti_pset *ps, uint32_t position, uint32_t *region); // ABSENT there
vti_chunk vti_pset_chunk(const vti_pset *ps, uint32_t region, uint32_t position);
vt_chunk_state vti_pset_state(const vti_pset *ps, uint32_t region, uint32_t position);
void vti_pset_create(vti_pset *ps, uint32_t region, uint32_t first, uint32_t n);  // pre: ABSENT
void vti_pset_destroy(vti_pset *ps, uint32_t region, uint32_t first, uint32_t n); // pre: SPARE
void vti_pset_user_hold(vti_pset *ps, uint32_t region, uint32_t position);
void vti_pset_user_drop(vti_pset *ps, uint32_t region, uint32_t position);
void vti_pset_node_hold(vti_pset *ps, uint32_t region, uint32_t position);
void vti_pset_node_drop(vti_pset *ps, uint32_t region, uint32_t position);
uint64_t vti_pset_index(const vti_pset *ps, uint32_t region, uint32_t position);
uint32_t vti_pset_region_created(const vti_pset *ps, uint32_t region);
uint64_t vti_pset_created(const vti_pset *ps);

// vset.c: structure alone, no backend call
vt_status vti_vset_init(vti_vset *vs, uint32_t n_max, uint32_t n_position);
void vti_vset_free(vti_vset *vs);                      // pre: no spans
vt_status vti_vset_push(vti_vset *vs, vti_span **out); // a new span, in no list yet
void vti_vset_pop(vti_vset *vs);                       // frees the span made last, in no list
void vti_vset_list(vti_vset *vs, vti_span *sp);        // a new span becomes idle
void vti_vset_unlist(vti_vset *vs, vti_span *sp);      // out of its list, for vti_vset_pop
void vti_vset_move(vti_vset *vs, vti_span *sp, vti_span_state to);
void vti_span_set(vti_vset *vs, vti_span *sp, uint32_t first, uint32_t n, uint32_t region);
int32_t vti_span_runs_if(const vti_vset *vs, const vti_span *sp, uint32_t first, uint32_t n,
                         uint32_t region); // runs more, in one view, if vti_span_set were called
uint32_t vti_run(const uint32_t *at, uint32_t first, uint32_t end); // positions of one region
uintptr_t vti_span_addr(const vti_geo *g, const vti_span *sp, uint32_t view, uint32_t position);

// ops.c: the VTO verbs
vt_status vti_valloc(vt_manager *m, vti_span **out); // idle
void vti_vfree(vt_manager *m, vti_span *sp);         // pre: the span made last, not live
vt_status vti_palloc(vt_manager *m, uint32_t region, uint32_t first, uint32_t n); // pre: ABSENT
vt_status vti_pfree(vt_manager *m, uint32_t region, uint32_t first,
                    uint32_t n); // pre: SPARE, unmapped but for tears
vt_status vti_untangle(vt_manager *m, uint32_t region, uint32_t first, uint32_t n);
vt_status vti_map(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n, uint32_t region,
                  vt_vmm_use use); // pre: the range shows one region, or nothing, throughout
void vti_map_back(vt_manager *m, vti_span *sp, uint32_t position, uint32_t region); // else torn
vt_status vti_unmap(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n);       // run by run
vt_status vti_lift(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n);        // of one run
void vti_lifted_drop(vt_manager *m, vti_span *sp, uint32_t first); // is not held any longer
vt_status vti_mark(vt_manager *m, vti_span *sp); // sp->fence: the device may read up to there
vt_status vti_await_mark(vt_manager *m, const vti_span *sp); // waits for sp->fence
vt_status vti_quiesce(vt_manager *m, vti_span *sp); // waits for the device to be done with it
vt_status vti_mend(vt_manager *m, vti_span *sp);    // maps what was lifted or torn as it should be
vt_status vti_fetch(vt_manager *m, vti_span *sp, uint32_t position, uint32_t from_region,
                    size_t size_bytes); // of each view, from the chunk at that position
vt_status vti_store(vt_manager *m, const vti_span *sp, uint32_t position, uint32_t to_region,
                    size_t size_bytes);                                            // the other way
vt_status vti_zero(vt_manager *m, vti_span *sp, uint32_t position, size_t offset); // to the end

// jobs.c: the same verbs for spare chunks, now or beside the owner. A span has one job at a time.
void vti_job_run(void *manager, vti_job *job);
vt_status vti_job_now(vt_manager *m, vti_span *sp, vti_job_kind kind, uint32_t first, uint32_t n);
vt_status vti_job_post(vt_manager *m, vti_span *sp, vti_job_kind kind, uint32_t first, uint32_t n,
                       uint64_t deadline);
void vti_jobs_take(vt_manager *m);                     // commits what is done
bool vti_job_cancel(vt_manager *m, vti_span *sp);      // false: it is running, or done
vt_status vti_job_finish(vt_manager *m, vti_span *sp); // does it, or waits for it
void vti_job_settle(vt_manager *m, vti_span *sp);      // cancels it, or waits
void vti_jobs_settle(vt_manager *m);                   // all

// span.c: what a span holds, and who gets it
typedef enum vti_reap {
    VTI_REAP_TRY = 0, // those the device is done with; what takes long the mapper does
    VTI_REAP_NOW,     // the same, but at once
    VTI_REAP_WAIT     // all, and waits for the device
} vti_reap;
vt_status vti_span_take(vt_manager *m, uint32_t expect_tok, uint32_t n_alias,
                        vti_span **out); // live
vt_status vti_span_home(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end);
vt_status vti_span_stretch(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end, uint32_t *n);
vt_status vti_span_back(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end, uint32_t *n);
vt_status vti_span_shed(vt_manager *m, vti_span *sp, uint32_t first, uint32_t end, uint32_t max_n);
uint32_t vti_span_shed_beside(vt_manager *m, vti_span *sp, uint64_t max_n);
void vti_span_hold(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n);
vt_status vti_span_share(vt_manager *m, vti_span *sp, uint32_t first, uint32_t n, uint32_t region,
                         vt_vmm_use use);
vt_status vti_span_alias(vt_manager *m, vti_span *sp, const uint32_t *at, uint32_t n);
vt_status vti_span_unshare(vt_manager *m, vti_span *sp, uint32_t position, size_t size_bytes);
vt_status vti_span_drop(vt_manager *m, vti_span *sp, uint32_t keep);
vt_status vti_span_clean(vt_manager *m, vti_span *sp);
bool vti_span_dirty(const vti_span *sp, uint32_t *first, uint32_t *n); // the last dirty stretch
void vti_span_retire(vt_manager *m, vti_span *sp);
vt_status vti_retired_reap(vt_manager *m, vti_reap how);

// reclaim.c: what becomes of spare chunks and idle prefixes
vt_status vti_reclaim(vt_manager *m, uint64_t n_chunk, const vti_span *besides);
void vti_return_excess(vt_manager *m); // what is spare beyond the high mark
vt_status vti_sweep(vt_manager *m);    // destroys spare chunks that are mapped nowhere
vt_status vti_make_room(vt_manager *m, vti_span *sp, uint32_t end, uint64_t n_chunk);
vt_status vti_spare_room(vt_manager *m, const vti_span *sp, uint64_t n_chunk); // from idle spans
bool vti_runs_fit(const vt_manager *m, int64_t n_run);                         // of one view
vt_status vti_make_runs(vt_manager *m, const vti_span *sp, int64_t n_run);     // of one view
uint64_t vti_spare(const vt_manager *m, const vti_span *besides); // of all spans but `besides`
void vti_evict_for(vt_manager *m, uint64_t n_chunk); // makes spare; nothing is destroyed yet

// seq.c
vt_status vti_seq_make(vt_manager *m, uint32_t expect_tok, uint32_t n_alias, vt_seq **out);
vt_status vti_seq_backing(vt_seq *s, uint32_t len_tok); // grow, not counted as an answer
void vti_seq_set_len(vt_seq *s, uint32_t len_tok);
void vti_seq_set_node(vt_seq *s, vti_node *node); // references it; NULL: none

// share.c
vt_status vti_seq_keep_tail(vt_seq *s, bool *is_kept);

// swap.c
vt_status vti_swap_init(vti_swap *sw, const vt_config *cfg, size_t chunk_bytes);
void vti_swap_free(vti_swap *sw);
void vti_swap_forget(vt_seq *s); // gives its slots back

// check.c
typedef struct vti_claim {
    uint64_t resident_bytes, mapped_bytes;
    uint64_t n_run; // mappings at most, where the system merges them
    bool is_torn;   // then nothing is known of what is mapped
} vti_claim;
// Compares with what the system says. Errors: VT_EDEVICE (it cannot tell).
vt_status vti_check_system(vt_vmm *vmm, const vti_claim *claim, const char **broken);

// stats.c
vt_status vti_answer(vt_manager *m, vt_status st); // counts what a public call answers
vt_status vti_met(vt_manager *m, vt_status st);    // counts what the backend answers

#endif
