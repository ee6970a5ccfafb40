// manager.h - the design of the manager, and its state: `struct vt_manager` and all that it holds.
//
// Shelves, from the top down; a file calls its own shelf and those below:
//   sequence/   VTS of the paper: what an engine calls (vtensor.h)
//   verbs/      VTO: chunks and spans are created, mapped and released; the backend and the
//               structure change together
//   tree/       rTree: recorded prefixes, and the order of their eviction
//   structure/  pSet and vSet: chunks and spans as plain data
//   common/     shared with vattention/: jobs and their thread, memory behind a range, sizes
// Beside them are backend/ (host, cuda), which uses only the backend port vmm.h and try.h, and
// vattention/, a second manager over the same port, which uses only common/.
//
// Words
//   token     one position of a sequence: row_bytes in each plane
//   plane     what the user sees: the K rows or the V rows of one layer
//   view      what is mapped: each plane separately (SPLIT: n_view = n_plane), or all planes of a
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
//   home      of a span: the region from which it takes new chunks
//   tree region  a region for the prefix tree's own copies of chunks; never a home
//   tail      the last chunk of a sequence or prefix, if its tokens fill only part of it
//   warm      a spare chunk that is mapped in the span whose home its region is
//   stray     a spare chunk that is mapped nowhere: it waits to be destroyed
//   cold      a position where nothing is mapped yet
//   dirty     a warm chunk that may hold bytes of an earlier sequence
//   to back   to create chunks and map them; to shed is the reverse
//   lent      a range of a span that a job of the mapper works on
//   detached  a position that is held but unmapped for the moment, so that it can be mapped again
//   tear      a range of a span in which the views do not agree: mapped in the first views only,
//             because the device failed, and failed again during the undo. A sequence with a tear,
//             or with detached positions, is torn
//   repair    mapping what is torn or detached as it should be
//
// A span and its views:
//
//   addr
//   | guard | view 0: mapped slices | reserved | guard | view 1: ... | guard | ... | guard |
//           |<------------- view_stride -------------->|
//
// The law of positions: a chunk is mapped at its own position and at no other, in every span that
// maps it. So the map of a span is one region for each position,
//
//   position   0    1    2    3    4    5    6 ...
//   at         A    A    A    B    B    B    -            prefix of A shared, own chunks in B
//              holds tokens (n_owned = 5) | spare
//
// neighbours from one region are neighbours in the memfd, and a sequence costs n_view runs for each
// region it draws on: one if nothing is shared, one more for each time it forked or matched.
// A span takes as its home the region of its last chunk, if that is no span's home and the next
// place is free (a conversation that continues); otherwise a fresh one. It changes home when it has
// to write at a position where its home has a chunk that others hold. If the tree alone shares the
// tail of a sequence, the tree gets a copy in a tree region, and the sequence continues in one run.
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
// A spare chunk is warm or stray. If the device has failed twice, a tear of another span may still
// show it; the tear is repaired before the chunk is destroyed (vti_tears_repair).
//
// The states of a span:
//
//   (made)  ->  IDLE  ->  LIVE  ->  RETIRED  ->  IDLE
//        span_take.c           release     span_reap: the device is done with it, shared chunks are
//                                          unmapped, warm ones stay
//
// Threads. The structure belongs to the owner. The mapper thread gets jobs: plain data that names
// the chunks and addresses lent to it (mapper.h). The owner reserves what a job needs before it
// posts it (n_reserved chunks, runs_reserved), does not touch what is lent, and commits the outcome
// when it takes the job back. The synchronous path is the same jobs, run at once by the owner.
//
// Invariants; vt_check proves 1 to 9, the tests prove 10.
//  1. A chunk's n_user is the number of spans, live or retired, that hold it below their n_owned,
//     mapped or detached; its n_node the number of references in the prefix tree. Both are 0 if it
//     is not created.
//  2. A region that is some span's home is the home of that span alone. A region in use is a home
//     or has created chunks.
//  3. Where a span maps a region at a position, that chunk is created. At positions below n_owned
//     it is held; from n_owned on it is SPARE and of the home region.
//  4. A live span owns exactly the chunks its length needs. Those that are not mapped are in the
//     swap (the sequence is swapped out) or detached (it is torn). An idle span owns none. A span
//     is live, or in the list of the retired, or in the list of the idle.
//  5. owned + shared + cached + spare = created, summed over regions; created x chunk_bytes = the
//     backend's resident bytes; created + n_reserved <= budget.
//  6. n_run = sum over spans of n_view x (changes of region along its map); what the system maps is
//     the same, if no span is torn and no job runs.
//  7. live_tok = sum of the lengths; peaks are at least the current values.
//  8. Every node's chunks hold the rows of all tokens of its path that lie in them. A tree is
//     compressed: two children of a node begin with different tokens, and no node but a root is
//     empty.
//  9. A slot of the swap is free or belongs to one sequence and position.
// 10. SPARE chunks read as zero, except for the first n_dirty positions of an idle span. Beyond its
//     length a live tail chunk reads as zero, unless tail_stale.
#ifndef VTI_MANAGER_H
#define VTI_MANAGER_H

#include "geometry.h"
#include "pset.h"
#include "vset.h"

struct vti_rtree; // tree/rtree.h
struct vti_node;

// The swap: slots of chunk_bytes, handed out last in, first out.
typedef struct vti_swap {
    uint32_t n_slot, n_free;
    uint32_t *free_slot; // [n_slot], the first n_free of them
    bool open;           // the backend's swap_open was called
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
    bool tail_stale;       // rows beyond the length in the tail chunk may not be zero
    vt_status ahead;       // how the last prepare ended
    uint32_t ahead_tok;    // prepared, or to be, up to here
    struct vti_node *node; // deepest node of the tree it was matched to or recorded in; referenced
    vti_swapped *swapped;  // [n_swapped] owned, by position; NULL: not swapped out
    uint32_t n_swapped;
};

// Everything is owned by the manager's one thread, except for what jobs lend to the mapper.
struct vt_manager {
    struct vti_geo geo;
    vt_vmm *vmm;
    struct vti_pset pset;
    vti_vset vset;
    struct vti_rtree *rtree;
    vti_mapper_thread *mapper; // NULL: not started yet, or VT_MAPPER_OWNER
    vti_swap swap;
    vti_tally tally;
    vt_mapper mapper_kind;
    uint64_t budget_bytes;  // as configured or set
    uint64_t budget_chunks; // created at once, at most
    uint64_t spare_low_chunks, spare_high_chunks;
    uint64_t n_reserved;    // chunks that posted jobs may create
    uint64_t n_leaving;     // chunks that posted jobs destroy
    uint64_t runs_reserved; // of one view, that posted jobs may map
    uint64_t max_runs;      // what the backend allows, over all views
    uint64_t live_tok;      // sum of the lengths
    uint64_t now_ms;        // of the last vt_step
    uint64_t n_step;        // calls of vt_step
    uint32_t n_seq;         // sequences alive
    uint32_t n_lent;        // jobs with the mapper
    uint32_t *scratch;      // [chunks_per_span] regions of a prefix
};

// tally.c: both count st and return it.
vt_status vti_tally_backend(vt_manager *m, vt_status st); // a call of the backend: VT_EDEVICE
vt_status vti_tally_answer(vt_manager *m, vt_status st);  // a call of the owner: VT_NOSPACE

#endif
