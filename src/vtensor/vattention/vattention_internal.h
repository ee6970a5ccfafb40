// vattention_internal.h - the design of the manager behind vattention.h, and what its files share.
// It depends only on the backend port and on common/.
//
// A tensor ("view": one for each plane, or a single one with megacache), and what is mapped in it:
//
//   base                    + request_stride          + 2 x request_stride
//   | request 0             | request 1               | ...                 | guard | next view
//   | 0 1 2 3 4 5 - - - - - | 0 1 2 - - - - - - - - - |
//     `need'                                            page groups (digit: created, -: none)
//     `----- mapped
//
// A page group is a chunk of vmm.h: index = reqid x groups_per_request + position. It is mapped at
// that position of that request in every view and nowhere else, so its index, its place in the
// memfd and its addresses follow from (reqid, position). A request always has a prefix of its
// positions: one mapping of the system in each view. To move memory from one request to another, a
// group is destroyed here and created there.
//
//   groups of a request  0 ... n_need ... n_dirty ... n_mapped ... + tear.n ... groups_per_request
//
//   n_need    its length needs them: not taken while it is active
//   n_dirty   kernels may have written or read below: wiped before another request begins here, and
//             unmapped or wiped only when the fence is passed
//   tear      after the mapped ones, groups that are created but mapped in the first views only:
//             the device failed while they were mapped or unmapped, and again during the undo.
//             Nothing is mapped after them until they are repaired, that is, shed
//
// All changes of mappings are runs: neighbouring groups of one request that are BACKed (created,
// mapped) or SHED (unmapped, destroyed). A run is plain data. vti_va_run_do calls the backend, and
// reads only fields of the instance that never change; the owner commits the outcome with
// vti_va_run_commit. A step does both at once. A look-ahead lends the worker a list of runs (a
// job); until vti_va_settle has taken it back, the owner changes no mapping.
//
//   IDLE --alloc_reqid--> ACTIVE --step, step_async: need follows the length--> ACTIVE
//     ^                     |
//     `------free_reqid-----'   fence taken; what is mapped stays (deferred) or is shed
//
// Invariants; vt_va_check proves them.
//  1. n_dirty <= n_mapped, n_mapped + tear.n <= groups_per_request, and a tear is not mapped in all
//     views.
//  2. An inactive request has length 0 and needs nothing; n_need follows from the length; what
//     kernels were given of an active request (n_given) is needed and mapped.
//  3. n_created = sum of n_mapped + tear.n, at most the budget.
//  4. The system holds n_created groups and maps as many pages as 1 implies, in at most one mapping
//     for each request and view.
//  5. No job is with the worker after a settle.
#ifndef VTI_VATTENTION_INTERNAL_H
#define VTI_VATTENTION_INTERNAL_H

#include "vtensor/common/backing.h"
#include "vtensor/common/mapper.h"
#include "vtensor/vattention.h"

typedef struct vti_va_geo {
    uint32_t n_plane, n_view, max_tok, max_batch;
    size_t row_bytes, tok_stride, page_bytes, group_bytes;
    size_t request_stride, view_stride; // view_stride: a tensor and a page of guard
    size_t reserved_bytes;
    uint32_t groups_per_request;
} vti_va_geo;

typedef struct vti_va_tear {
    uint32_t n;      // groups; 0: none
    uint32_t n_view; // the first views, which still map them
} vti_va_tear;

typedef struct vti_va_req {
    bool is_active;
    uint32_t len_tok;
    uint32_t n_need, n_mapped, n_dirty;
    uint32_t n_given; // of n_need, what the last step backed: 0 between alloc and step
    vti_va_tear tear;
    uint64_t fence;    // after the last work on groups below n_dirty that are not needed
    uint64_t freed_at; // number of the free that ended it; 0: never used
    // scratch space of one call
    uint32_t n_keep; // groups that a reclaim leaves
    uint32_t n_want; // groups that a step must end with, at least; or that a look-ahead aims at
    uint32_t n_had;  // mapped before the step
} vti_va_req;

// A BACK begins with created = false and n_view = 0, a SHED created and mapped in views [0,
// n_view). Afterwards both fields describe the state, whatever failed.
typedef struct vti_va_run {
    bool back;
    uint32_t req, first, n;
    uint64_t fence; // SHED: not before it is passed
    bool created;
    uint32_t n_view;
} vti_va_run;

// The work of a look-ahead. The worker does the runs in order and stops at the first that fails.
typedef struct vti_va_job {
    vti_job base; // the queue's, first
    uint32_t n_run;
    vti_va_run *run; // [VTI_VA_RUNS_PER_REQUEST x max_batch]
    // the outcome
    uint32_t n_done; // runs tried
    vt_status st;    // of the last of them
    vti_calls tally;
} vti_va_job;

enum { VTI_VA_RUNS_PER_REQUEST = 2 }; // a shed, or the next token's and those beyond

struct vt_va {
    // never changes after init
    vti_va_geo geo;
    vt_vmm *vmm;
    uintptr_t addr;
    uint32_t eager_groups;

    // the owner's
    vti_va_req *req; // [max_batch]
    uint64_t budget_groups, n_created;
    uint64_t n_free; // calls of free_reqid so far
    bool deferred;
    vti_calls tally;
    vt_va_stats count; // only the counters of VT_VA_STATS

    vti_mapper_thread *mapper; // NULL: not needed yet
    vti_va_job job;
    bool job_is_out;
};

// vattention_group.c: page groups and the backend.
uint32_t vti_va_groups_for(const vti_va_geo *g, uint32_t len_tok);
vti_va_run vti_va_back_run(uint32_t reqid, uint32_t first, uint32_t n);
// Pre: nothing is torn there.
vti_va_run vti_va_shed_run(const vt_va *va, uint32_t reqid, uint32_t first);
vt_status vti_va_run_do(const vt_va *va, vti_va_run *run, vti_calls *t);
void vti_va_run_commit(vt_va *va, const vti_va_run *run);
vt_status vti_va_repair(vt_va *va, uint32_t reqid);
// Maps up to n_group groups. On an error the request may be torn.
vt_status vti_va_grow(vt_va *va, uint32_t reqid, uint32_t n_group);
// Sheds down to n_group groups, and what is torn. On an error fewer may be shed.
vt_status vti_va_shrink(vt_va *va, uint32_t reqid, uint32_t n_group);
vt_status vti_va_wipe(vt_va *va, uint32_t reqid);
vt_status vti_va_is_passed(vt_va *va, uint64_t fence, bool wait, bool *is_passed);

// vattention_reclaim.c: which requests lose memory. n_keep is set by the caller, or by keep_needed.
// visit is called for each request that has more than n_keep, in the order in which they lose it;
// it returns false to end the walk.
void vti_va_each_victim(vt_va *va, bool (*visit)(vt_va *va, uint32_t reqid, void *ctx), void *ctx);
void vti_va_keep_needed(vt_va *va);
// Sheds until n_created <= most. Pre: the sum of n_keep allows it. Errors: VT_EDEVICE.
vt_status vti_va_make_room(vt_va *va, uint64_t most);
// Returns what inactive requests hold and the device has finished with. Failures are only counted.
void vti_va_sweep(vt_va *va);

// vattention_ahead.c: the look-ahead.
vt_status vti_va_worker_start(vt_va *va); // unless it runs
void vti_va_look_ahead(vt_va *va);        // Pre: settled
void vti_va_settle(vt_va *va);            // afterwards no job is with the worker

#endif
