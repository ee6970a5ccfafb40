// manager.h - the design of the manager, and its state: `struct vt_manager` and all that it holds.
//
// Folders, from the top down; a file calls its own folder and those below:
//   sequence/    VTS of the vTensor paper: what an engine calls (vtensor.h), and the same on the
//                managers of a tensor-parallel group (team.h)
//   operations/  VTO: chunks and spans are created, mapped and released; the backend and the
//                structure change together
//   tree/        rTree: recorded prefixes, and the order of their eviction
//   core/        pSet and vSet, chunks and spans as plain data; the mapper thread
// Apart from them are backend/ (host, cuda), which uses only the backend port vmm.h and common.h,
// and vattention/, a second manager over the same port, which uses only common.h and mapper.h.
//
// Words
//   token     one position of a sequence: row_bytes in each plane
//   plane     what the user sees: the K rows or the V rows of one layer
//   group     planes whose rows have the same size and life
//   view      what is mapped: each plane separately (SPLIT), or several or all planes of a group
//             (view_planes, PACKED), a token's side by side
//   slice     slice_bytes of physical memory, mapped at one place of one view
//   chunk     the slices of all views of a group at one position: the unit of allocation
//   class     the chunks of one shape. They are fungible: any of them may be mapped at any position
//             of any lane of that shape
//   name      of a chunk: region and offset, which make its index in the backend. The structure
//             knows chunks by small numbers (pset.c)
//   span      the reserved addresses of one sequence
//   lane      the part of a span that belongs to one group
//   position  number of a chunk within a lane, from 0: token t begins in the chunk at position
//             t x stride_bytes / slice_bytes; it may straddle two
//   run       neighbouring chunks, mapped one after another with the same access in one view: one
//             mapping of the system
//   holder    of a chunk: a span, or a node of the prefix tree
//   block     block_tok tokens: what a node of the prefix tree stands for
//   tail      the last chunk of a sequence or prefix, if its tokens fill only part of it
//   free      a chunk without a holder, kept for later use (in vtensor.h: spare)
//   mapped-free  a free chunk that is still mapped in a lane, after the tokens
//   pool      the free chunks that are mapped nowhere
//   dirty     a chunk or byte that may hold data of an earlier holder
//   preferred region  of a lane: the region of neighbouring names from which it takes new chunks
//   in flight a job that the mapper has, and the lane that it works on
//   waiting   a position that is still mapped and held, until the device is done with it
//   needs zeroing  a live lane in which chunks that could not be wiped wait to be unmapped
//   source    a chunk that a queued copy still reads; it is held until the copy is done
//   stale     a free slot of the swap whose room the system has not got back
//   moving    a sequence whose rows are on their way to the swap or back, and may not be touched
//   quarantined  a span that could not be restored after a failure; it is not used until all of it
//             is unmapped
//   due       a span that has changed, or for which work is left: the next step looks at it
//
// A lane:
//
//   position   0    1    2    3    4    5    6 ...
//   at         7    8    9    20   21   22   -        a shared prefix of 3 chunks, own chunks
//              read-only     | writable
//              holds tokens (n_owned = 5) | mapped-free
//
// The states of a chunk follow from its counts; they change only in pset.c:
//
//   ABSENT -> SPARE    a BACK job has created it
//   SPARE  -> OWNED    extend, fork, match                its first holder
//   OWNED <-> SHARED   fork, match, record, and back      more holders, with a sequence among them
//   OWNED  -> SPARE    truncate, release, swap_out        the last holder has gone
//   SHARED -> CACHED   the last sequence has gone         held by the tree alone
//   CACHED -> SPARE    eviction                           it enters the pool
//   SPARE  -> ABSENT   a DESTROY job, or destroy at once
//
// What a sequence may still write is never shared: a fork or a match copies the tail, and it is
// recorded when the sequence ends. So extend copies nothing, and nothing mapped is replaced
// under a running kernel. The exception is a sequence that was truncated into a chunk that it
// shares (seq_extend.c).
//
// Memory for a position comes from the first of these that has it (lane.c):
//   the neighbour of the chunk before, from the pool or made anew; the pool; mapped-free chunks of
//   idle spans, the longest idle first; prefixes that no sequence uses, the least valuable first;
//   mapped-free chunks of other live spans (not ahead of need).
//
// The states of a span:
//
//   (made)  ->  IDLE  ->  LIVE  ->  RETIRED  ->  IDLE
//        idle_span.c           release     release.c: the device is done with it, what is shared is
//                                          unmapped, mapped-free chunks stay
//   RETIRED  <->  CLEARING                 the device is done with it, and a lane is in flight
//   any     ->  QUARANTINED  ->  IDLE      fence.c
//
// Threads. The structure belongs to the owner. The mapper thread gets jobs: plain data that names
// the chunks and addresses to work on (lane_job.c). The owner takes the chunks that a job needs
// from the structure before it posts it, does not touch what is in flight, and commits the outcome
// when it takes the job back. The synchronous path is the same jobs, run at once by the owner.
//
// Invariants; vt_check proves 1 to 9 and 12, the tests prove 10 and 11.
//  1. n_user of a chunk = lanes that hold it + its entries as a source; n_gone = those of the lanes
//     that have given it up + its entries as a source; n_node = references in the prefix tree;
//     n_kept = those of nodes that may not be evicted.
//  2. A preferred region belongs to one lane.
//  3. Where a lane maps a chunk, it is created. At positions in [held0, held1) it is held;
//     elsewhere it is SPARE, and mapped nowhere else. The chunks of the pool are mapped nowhere.
//  4. A live lane owns exactly the chunks that its length and window need; those that are not
//     mapped are in the swap. An idle span holds nothing. A span is in the list of its state.
//  5. owned + shared + cached + spare = created; the bytes of created chunks = the backend's
//     resident bytes; they and reserved_bytes are at most the budget, or, while a lower one waits
//     for memory to go, at most what there was; that never grows.
//  6. n_run = the runs of all lanes and views; what the system maps is no more, if nothing is
//     quarantined.
//  7. live and slack bytes = what the lengths say; peaks are at least the current values.
//  8. Every node's chunks hold the rows of all tokens of its path that lie in them. Of two children
//     of a node none begins with the other's tokens. n_evictable counts what may be evicted.
//  9. A slot of the swap is free or belongs to one sequence and position, which the sequence owns.
//     The rows of that position are in memory, or in the swap; nothing of the list of a sequence at
//     rest is mapped, and a moving sequence has a list.
// 10. Beyond its length a lane reads as zero from dirty_end on, and before that, unless it needs
//     zeroing, no bytes of another holder. Chunks of the pool that are not dirty read as zero.
// 11. What more than one holder can read is mapped for reading only, unless no_guard, or mappings
//     are short: a guard then waits (guard_end), as it does while the device may still write.
// 12. A step has nothing to do for a span that is not due (look_ahead.c).
#ifndef VTI_MANAGER_H
#define VTI_MANAGER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "common.h"
#include "geometry.h"
#include "mapper.h"
#include "pset.h"
#include "vset.h"

struct vti_radix; // tree/radix.h
struct vti_node;

// A chunk's content in the swap, or on its way there or back.
typedef struct vti_swapped {
    uint32_t group, position, slot;
    bool is_out;  // the swap alone has its rows; otherwise memory has them still
    uint64_t sum; // of its slices, one after another
} vti_swapped;

// What the mapper does for the swap, a slice at a time (swap.c). Its lane_job says the kind,
// how many entries the list has, and the progress; the rest of that is not used.
typedef struct vti_copy {
    vti_lane_job job; // first
    const vti_span *span;
    vti_swapped *list;        // [job.n]
    uint64_t sum;             // of the slices of the current chunk so far
    bool is_corrupt;          // READ: other bytes were found than were written
    _Atomic uint32_t n_moved; // entries done so far; the owner may read it at any time
} vti_copy;

enum { VTI_DROP_SLOTS = 16 }; // that the mapper returns to the system in one job

// The swap: slots of a chunk each, of the largest class, handed out last in, first out.
typedef struct vti_swap {
    uint32_t n_slot, n_free;
    uint32_t n_stale;    // the last of the free ones: their room is still to be returned
    uint32_t *free_slot; // [n_slot], the first n_free of them
    bool open;           // the backend's swap_open was called
    char *dir;           // owned; NULL: not given
    uint64_t slot_bytes, size_bytes;
    uint64_t used_bytes;                  // of chunks in it
    vti_copy drop;                        // returns the room of the slots in
    vti_swapped dropping[VTI_DROP_SLOTS]; // these, drop.job.n of them
} vti_swap;

// A sequence on its way to the swap or back; seq_swap.c has the transitions.
typedef enum vti_move_phase {
    VTI_MOVE_FENCE = 0, // the device may still write its rows
    VTI_MOVE_WRITE,     // they are written to the swap; what is written is given up
    VTI_MOVE_UNMAP,     // what is mapped of the list is given up
    VTI_MOVE_BACK,      // what is not mapped of the list gets memory
    VTI_MOVE_READ,      // the rows are read
    VTI_MOVE_DONE,      // the caller is still to be told
    VTI_N_MOVE_PHASE
} vti_move_phase;

typedef struct vti_move {
    vt_seq *seq;
    struct vti_move *newer, *older; // in the manager's list
    vti_move_phase phase;
    bool is_out;     // what the caller asked for last: swap_out
    bool had_none;   // swap_out: nothing was swapped out before
    bool is_hasty;   // the caller waits for it
    uint32_t n_new;  // swap_out: entries that were added to the list
    uint64_t ticket; // FENCE
    uint64_t n_run;  // mappings reserved for the gaps
    vt_status st;    // how it ends
    vti_copy copy;
} vti_move;

// What a record could not share yet: tokens [first, n_tok) of the sequence.
typedef struct vti_pending {
    vt_domain *domain; // opened; NULL: nothing is pending
    uint64_t epoch;    // of the domain; another one: it was told to forget
    uint32_t first, n_tok;
    uint32_t *tok; // [n_tok - first] owned
    bool has_keep;
    vt_retention keep;
} vti_pending;

struct vt_seq {
    vt_manager *m;
    vti_span *span;
    uint32_t len_tok;
    uint64_t live_bytes;  // of its tokens
    uint64_t slack_bytes; // beyond them in its tails; 0 while it is away
    vt_status ahead;      // how the last prepare ended
    uint32_t ahead_tok;   // prepared, or to be, up to here
    vti_swapped *swapped; // [n_swapped] owned, by group and position; NULL: not swapped out
    vti_move *move;       // owned; NULL: it is not moving
    uint32_t n_swapped;
    bool tail_asked;       // span->fence is a ticket after all work that may read the tail
    struct vti_node *node; // deepest node of the tree whose chunks it shares; referenced
    uint32_t path_tok;     // as many of its tokens are still those of the path to the node
    vti_pending pending;   // last: extend needs what is before
};

// What recent sequences began with: those that shared nothing, and those that shared. n_tok 0:
// there was none yet.
typedef struct vti_arrival {
    uint32_t hit_tok, n_tok; // they match tokens [0, hit_tok), and come with n_tok
} vti_arrival;

typedef struct vti_arrivals {
    vti_arrival whole, sharing;
    uint32_t n_sharing; // of the last 256, about
} vti_arrivals;

// A chunk that a queued copy reads until the device has passed the ticket.
typedef struct vti_source {
    uint64_t ticket;
    uint32_t chunk;
} vti_source;

// What vt_give_back asked for, as long as it is under way.
typedef struct vti_giving {
    bool is_on;
    bool forgets;          // also evicts prefixes that no sequence uses
    uint64_t keep_bytes;   // of free memory
    uint32_t n_retired;    // of the spans that had retired by then, those that are not idle yet
    uint64_t recent_bytes; // released recently: what comes and goes in the meantime does not count
} vti_giving;

// Everything is owned by the manager's one thread, except what is in flight to the mapper.
struct vt_manager {
    struct vti_geo geo;
    vt_vmm *vmm;
    pid_t pid;   // of the process that made it
    bool guards; // shared chunks are mapped for reading only
    bool zeroed; // created chunks are zero
    vti_pset pset;
    vti_vset vset;
    struct vti_radix *radix;
    vti_mapper_thread *mapper; // NULL: not started yet
    vti_lane_job job;          // of chunks that no lane maps: DESTROY
    vti_plan *job_plan;        // [VTI_RETURN_AT_ONCE]
    vti_swap swap;
    uint64_t live_bytes, slack_bytes; // of all sequences
    vti_move *moves;                  // of the sequences on their way, the newest first
    vt_stats count;                   // only the counters that calls have none of
    vti_calls calls;
    uint64_t looks; // at a span, by steps
    vt_mapper mapper_kind;
    uint64_t budget_bytes;
    uint64_t ceiling_bytes; // the budget; after it was lowered, what there was, less what has gone
    vti_giving giving;
    uint64_t reserved_bytes; // of chunks that jobs will create, less those that they destroy first
    uint64_t system_bytes;   // the system had no memory for more in this step; UINT64_MAX: it had
    vti_name copy_name[VT_MAX_GROUP]; // by class: the next for a copy; region VTI_NO_CHUNK: none
    uint64_t runs_reserved;           // mappings that posted jobs may make
    uint64_t spare_low_bytes, spare_high_bytes;
    uint64_t first_budget_bytes, first_spare_low_bytes, first_spare_high_bytes; // as configured
    vti_arrivals arrivals;
    uint64_t ready_bytes; // mapped-free in idle spans, and kept there for new sequences
    uint64_t max_runs;    // mappings that the backend allows
    uint64_t n_step;      // calls of vt_step
    vt_ahead ahead;       // what the last one asked for
    uint32_t ahead_tok;
    uint32_t n_seq;       // sequences alive
    uint32_t n_in_flight; // jobs with the mapper
    vti_source *source;   // [cap_source] a ring, n_source of them from first_source on, by ticket
    uint32_t first_source, n_source, cap_source;
    uint32_t *scratch[VT_MAX_GROUP]; // [n_position] chunks of a prefix
    pthread_mutex_t mu;              // guards published
    vt_stats published;
};

// Whether its rows may not be touched: it is swapped out, or moving.
static inline bool vti_seq_is_away(const vt_seq *s)
{
    return s->swapped || s->move;
}

// Both count st and return it: that of a backend call if it is VT_EDEVICE, that of a public call if
// it is a shortage.
static inline vt_status vti_tally_backend(vt_manager *m, vt_status st)
{
    return vti_calls_count(&m->calls, st);
}

static inline vt_status vti_tally_answer(vt_manager *m, vt_status st)
{
    if (vt_is_shortage(st)) m->count.shortages++;
    return st;
}

// Updates the highest figures of created and live bytes.
static inline void vti_tally_peaks(vt_manager *m)
{
    uint64_t created = vti_pset_created_bytes(&m->pset);
    if (created > m->count.peak_mapped_bytes) m->count.peak_mapped_bytes = created;
    if (m->live_bytes > m->count.peak_live_bytes) m->count.peak_live_bytes = m->live_bytes;
}

#endif
