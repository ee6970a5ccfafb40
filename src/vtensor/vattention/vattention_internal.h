// vattention_internal.h - the design of the manager of vattention.h, and what its files share.
// It depends only on the backend port, common.h and mapper.h.
//
// A tensor ("view": one for each plane, or a single one with megacache), and what is mapped in it:
//
//   base                    + request_stride          + 2 x request_stride
//   | request 0             | request 1               | ...                 | guard | next view
//   | 0 1 2 3 7 8 - - - - - | 16 17 4 - - - - - - - - |
//     `need'                                            page groups (number: its name, -: none)
//     `----- mapped
//
// A page group is a chunk of vmm.h, named by its index. It is mapped at one position of one request
// in every view, or is spare: created, and mapped nowhere. Groups are fungible: what moves memory
// from one request to another is unmap, map and wipe; groups are created as demand grows and
// destroyed when the budget shrinks or the owner trims.
//
//   state of a name
//   NONE --create--> SPARE --map, wipe--> MAPPED --unmap--> SPARE --destroy--> NONE
//
// Where the system limits mappings (the host), neighbouring names at neighbouring positions (a run)
// cost one mapping in each view. Every position of every request has two names of its own:
//
//   names   0 .. n_preferred-1   preferred: position p of request r prefers the name
//                                r x groups_per_request + p; it may serve anywhere
//           n_preferred ..       reserve, as many: serves at its position only, so it is always
//                                free
//
// A position takes the spare group that continues its request's run; else, while fewer than
// max_jump runs are mapped, any spare one, or a new one; else what continues the run, created in
// the place of a spare one that is destroyed; else its reserve name. At the limit, a request starts
// at most one run, of reserve names, and max_jump leaves one for each request: mappings never run
// out.
//
//   groups of a request  0 ... n_need ... n_dirty ... n_mapped ... + n_torn ... groups_per_request
//
//   n_need    its length needs them: not taken while it is active
//   n_dirty   kernels may have written below: wiped before another request begins here. Above, all
//             is zero
//   n_torn    after the mapped ones: the device failed while they were mapped or unmapped, and
//             again while that was undone, so that they are mapped in the first torn_view views
//             only. The request is lost: it keeps what it has, and grows, shrinks and begins no
//             more. vt_va_recover and cleanup try again
//
// Two threads change mappings: the owner in its calls, and the worker of a look-ahead. While a job
// is with the worker, all fields under "mappings" are the worker's, until vti_va_settle has taken
// it back; the owner then only reads those that are atomic, for the gauges. What the worker needs
// of the owner's fields stands in the goals of its jobs. An actor says which of them works: the
// owner queues its wipes in the order of the device's work; the worker wipes at once.
//
//   IDLE --alloc_reqid--> ACTIVE --step, step_async: need follows the length--> ACTIVE
//     ^                     |
//     `------free_reqid-----'   fence taken; what is mapped stays (deferred) or is unmapped
//
// Fences. `fence` of a request is a ticket after all work that may use groups which it does not
// need: kernels before it became shorter or ended, and queued wipes. Wipes queued since then set
// has_queued; the next step takes a ticket for them.
//
// Invariants; vt_va_check proves them.
//  1. n_dirty <= n_mapped, n_mapped + n_torn <= groups_per_request.
//  2. An inactive request has length 0 and needs nothing; n_need follows from the length; what
//     kernels were given of an active request (n_given) is needed and mapped.
//  3. The names of mapped and torn groups are MAPPED, each at one position; a reserve name only at
//     its own. n_spare and n_created count the states; n_created is at most the budget.
//  4. n_run counts the runs, at most max_jump + max_batch.
//  5. The system holds n_created groups and maps as many pages as 1 implies, in at most one mapping
//     for each run and view.
//  6. No job is with the worker after a settle.
#ifndef VTI_VATTENTION_INTERNAL_H
#define VTI_VATTENTION_INTERNAL_H

#include <sys/types.h>

#include "vtensor/core/mapper.h"
#include "vtensor/vattention.h"

typedef struct vti_va_geo {
    uint32_t n_plane, n_view, max_tok, max_batch;
    size_t row_bytes, tok_stride, page_bytes, group_bytes;
    size_t request_stride, view_stride; // view_stride: a tensor and a page of guard
    size_t reserved_bytes;
    uint32_t groups_per_request, n_preferred; // n_preferred: of all requests
    uint32_t slice_groups; // most that a step of the worker maps, wipes or unmaps
} vti_va_geo;

typedef enum vti_va_state {
    VTI_VA_NONE = 0,
    VTI_VA_SPARE,
    VTI_VA_MAPPED,
    VTI_VA_SEEN // during vt_va_check: MAPPED, and found at its position
} vti_va_state;

typedef struct vti_va_req {
    // mappings
    _Atomic uint32_t n_mapped, n_torn;
    uint32_t n_dirty, torn_view;
    uint32_t *name; // [groups_per_request] of the mapped and torn groups

    // the owner's
    bool is_active;
    bool has_queued; // wipes were queued after `fence`
    uint32_t len_tok, n_need;
    uint32_t n_given;  // of n_need, what the last step backed: 0 between alloc and step
    uint64_t fence;    // 0: passed
    uint64_t freed_at; // number of the free that ended it, or of its place at first
    // scratch space of one call, or of a step from prepare to commit
    uint32_t n_keep;   // groups that a reclaim leaves
    uint32_t want_tok; // length after the step that is prepared
    uint32_t n_want;   // groups that a step must end with, at least; or that a look-ahead aims at
} vti_va_req;

// Which thread works, and where its work is counted (only counters).
typedef struct vti_va_actor {
    vt_vmm_order order; // of wiping
    vt_va_stats *count;
} vti_va_actor;

// Groups at neighbouring positions with neighbouring names.
typedef struct vti_va_run {
    uint32_t req, first, n;
    uint32_t name;
    bool is_fresh; // created for this
} vti_va_run;

// What the worker is to reach.
typedef struct vti_va_goal {
    enum { VTI_VA_GROW, VTI_VA_SHED, VTI_VA_WIPE } kind;
    uint32_t req;
    uint32_t n_group;  // mapped; WIPE: none is dirty
    uint64_t fence;    // to be passed first
    uint64_t *counter; // of the groups mapped or unmapped; NULL: they are not counted
} vti_va_goal;

// The worker pursues the goals in order, a slice in each step, and stops at the first failure.
typedef struct vti_va_job {
    vti_job base; // the queue's, first
    bool is_out;
    uint32_t n_goal, n_done;
    vti_va_goal *goal; // [VTI_VA_GOALS_PER_REQUEST x max_batch + VTI_VA_GOALS_FOR_NEXT]
    vt_status st;
    vt_va_stats count;
} vti_va_job;

enum { VTI_VA_GOALS_PER_REQUEST = 2, VTI_VA_GOALS_FOR_NEXT = 2 };
enum { VTI_VA_URGENT, VTI_VA_BACKGROUND, VTI_VA_N_JOB };

struct vt_va {
    // never changes after init
    vti_va_geo geo;
    vt_vmm *vmm;
    pid_t pid; // of the process that made it
    uintptr_t addr;
    uint32_t eager_groups, next_groups;
    uint32_t low_percent, high_percent; // of the budget; low 0: no background reclamation
    bool creates_zeroed;
    uint64_t max_jump; // runs up to which any group is mapped anywhere

    // mappings
    uint8_t *state; // [2 x n_preferred] vti_va_state of each name
    _Atomic uint64_t n_created, n_spare;
    uint64_t n_run;

    // the owner's
    vti_va_req *req;        // [max_batch]
    uint32_t *name;         // [max_batch][groups_per_request]
    uint64_t budget_groups; // constant while a job is out
    uint64_t n_free;        // numbers given to freed_at so far
    uint64_t step_fence;    // of the step that is prepared; 0: it needs none
    bool deferred;
    vt_va_stats count;  // only the counters of VT_VA_STATS
    vti_va_actor owner; // queues its wipes, and counts in `count`

    vti_mapper_thread *mapper; // NULL: not needed yet
    vti_va_job job[VTI_VA_N_JOB];
};

// vattention_map.c: page groups by name, and the groups of a request.
uint32_t vti_va_groups_for(const vti_va_geo *g, uint32_t len_tok);
vt_status vti_va_note(const vti_va_actor *by, vt_status st); // counts VT_EDEVICE; returns st
uint64_t vti_va_used(const vt_va *va);                       // groups that exist and are not spare
uint64_t vti_va_room(const vt_va *va); // groups that may be mapped in addition
bool vti_va_continues(const vt_va *va, uint32_t req, uint32_t at, uint32_t name);
// Creates all that the budget allows and the tensors have room for.
vt_status vti_va_create_all(vt_va *va, const vti_va_actor *by);
// Errors: VT_EDEVICE. Pre: there are as many.
vt_status vti_va_destroy_spares(vt_va *va, const vti_va_actor *by, uint64_t n_group);
// Maps up to `most` groups; fewer if they are no run. Pre: most > 0.
vt_status vti_va_grow_run(vt_va *va, const vti_va_actor *by, uint32_t req, uint32_t most);
vt_status vti_va_grow(vt_va *va, const vti_va_actor *by, uint32_t req, uint32_t n_group);
// Unmaps from the end, but leaves `least` groups. Pre: more are mapped; the device is done with
// them.
vt_status vti_va_shed_run(vt_va *va, const vti_va_actor *by, uint32_t req, uint32_t least);
vt_status vti_va_shrink(vt_va *va, const vti_va_actor *by, uint32_t req, uint32_t n_group);
// Wipes up to `most` of the dirty groups of an inactive request. Wiping at once: the device is done
// with them.
vt_status vti_va_wipe(vt_va *va, const vti_va_actor *by, uint32_t req, uint32_t most);
vt_status vti_va_unmap_torn(vt_va *va, const vti_va_actor *by, uint32_t req);
vt_status vti_va_take_fence(vt_va *va, uint64_t *ticket);
vt_status vti_va_device_await(vt_va *va); // until the device has done all work so far
vt_status vti_va_is_passed(vt_va *va, const vti_va_actor *by, uint64_t fence, bool wait,
                           bool *is_passed);

// vattention_ahead.c: which requests lose memory: what they have beyond n_keep, which is set by the
// caller, or by keep_needed.
void vti_va_keep_needed(vt_va *va);
// Groups beyond n_keep that a request out of service holds; 0 if it is none.
uint64_t vti_va_lost(const vti_va_req *r, uint32_t n_keep);
// Unmaps until at most `most` groups are used. Waits for the device only if nothing else helps.
// Pre: the sum of n_keep allows it. Errors: VT_EDEVICE, VT_NOSPACE.
vt_status vti_va_make_room(vt_va *va, uint64_t most);
// Unmaps what inactive requests hold and the device has finished with. Failures are only counted.
void vti_va_sweep(vt_va *va);
// Unmaps what is torn and the device has finished with. Errors: VT_EDEVICE (some is left).
vt_status vti_va_mend(vt_va *va);
// The inactive request whose mapped groups suffice with the fewest, else the one with the most;
// max_batch: there is none.
uint32_t vti_va_best_fit(const vt_va *va, uint32_t need);

// The look-ahead.
vt_status vti_va_worker_start(vt_va *va); // unless it runs
void vti_va_look_ahead(vt_va *va);        // Pre: settled
// Afterwards no job is with the worker. Waits for what the next step needs and for one slice of the
// rest, or with `all` for all.
void vti_va_settle(vt_va *va, bool all);
vt_status vti_va_make_jobs(vt_va *va); // Errors: VT_ENOMEM
void vti_va_free_jobs(vt_va *va);

#endif
