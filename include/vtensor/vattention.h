// vattention.h - the calls of vAttention (arXiv 2405.04437) over any backend of vmm.h.
//
//     vt_va_config cfg = {.n_plane = 2 * n_layer, .row_bytes = n_kv_head * head_dim * 2,
//                         .max_tok = 4096, .max_batch = 64, .budget_bytes = 4ull << 30};
//     vt_va *va;  uint32_t reqid, len_tok[64] = {0};
//     vt_va_init(&cfg, &va);
//     vt_va_alloc_reqid(va, n_prompt, &reqid);
//     len_tok[reqid] = n_prompt;
//     vt_va_step_async(va, len_tok);          // backed now; the next token is prefetched
//     char *k = vt_va_tensor(va, 2 * layer);  // row: k + reqid x request_stride + t x token_stride
//     ... kernels ...
//     vt_va_free_reqid(va, reqid);  vt_va_cleanup(va);
//
// Each plane (the K or the V rows of one layer) has one tensor for the whole batch,
// [max_batch][max_tok][row_bytes], at addresses that never change. A request is a row of that
// batch, named by its reqid; kernels that take strided tensors need no change. Memory comes in page
// groups (the paper's "kvblocks"): a page in each plane at the same place of the same request. Each
// step gets the length of every request and backs what is missing. The memory of a freed request
// stays mapped (deferred reclamation): it serves the request that takes its place, or goes to
// others that need memory. Page groups are created once, as demand grows, and then only mapped
// elsewhere; one that is mapped nowhere is spare.
//
// The other manager, vtensor.h, shares memory between sequences and swaps. This one is for engines
// that address by batch row, and for comparison.
//
// Rules
//  - Every call is all or nothing for active requests: on an error their lengths, their memory and
//    its bytes are as before. Memory that no active request needs may have moved, and more may be
//    mapped than before; never more than the budget.
//  - A step backs the whole batch or nothing. Memory given to an active request is not taken away.
//  - A new request reads zero wherever it has not written: memory that another request used is
//    wiped first. Beyond its length, only its own or zeroed bytes are readable in its row.
//  - Nothing is unmapped or wiped while work submitted to the device may read it.
//  - A call waits for the device only to take memory that is needed and that the device still uses,
//    and to undo what has failed (device_waits counts both). Wipes are queued in its order.
//  - A request is out of service ("lost") if the backend fails while it is mapped or unmapped, and
//    again while that is undone. It keeps what it has, cannot grow, is not handed out again, and
//    its memory counts against the budget until vt_va_recover or vt_va_cleanup.
//  - vt_va_check proves the accounting.
//
// Threads. All calls on one instance come from one thread at a time, its owner. vt_va_step_async
// starts the instance's worker thread when it is first called.
#ifndef VTENSOR_VATTENTION_H
#define VTENSOR_VATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vtensor/status.h"
#include "vtensor/vmm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vt_va vt_va; // owned by one thread

#define VT_VA_NONE UINT32_MAX

// A field of 0 takes its default, if it has one; VT_VA_NONE stands for 0.
typedef struct vt_va_config {
    uint32_t n_plane;   // 2 x layers
    size_t row_bytes;   // bytes per token per plane
    uint32_t max_tok;   // longest request, in tokens
    uint32_t max_batch; // requests active at once; reqids are 0 .. max_batch-1
    size_t page_bytes;  // of a page, one tensor's part of a group: a multiple of the backend's
                        // granularity; 0: the smallest that holds 32 tokens. It may hold less than
                        // one token
    uint64_t budget_bytes; // limit on physical memory; 0: none until vt_va_reserve_physical_pages
    bool megacache; // one tensor, with the planes of a token side by side: a page group is one page
    bool makes_at_start; // init creates the page groups of the budget, as many as the tensors have
                         // room for; otherwise each is created when it is first needed
    uint32_t eager_groups; // page groups that a look-ahead maps beyond the next token's; 0: 2
    uint32_t next_groups;  // page groups that a look-ahead maps in the request that alloc_reqid
                           // will hand out next; 0: 4
    uint32_t low_percent;  // if less of the budget is free, a look-ahead reclaims what inactive
                           // requests hold; 0: 10, VT_VA_NONE: it does not
    uint32_t high_percent; // until so much is free; 0: 15, or low_percent if that is more
    vt_vmm *vmm;           // backend, fresh; owned by the instance from a successful init on;
                           // NULL: the host
} vt_va_config;

// Reserves the addresses of all tensors; allocates physical memory only with makes_at_start.
// Errors: VT_EINVAL (a required field is zero, sizes overflow, 2^31 page groups or more,
// page_bytes is not a multiple of the granularity, low_percent > high_percent, or that > 100),
// VT_NOMAPS (max_batch x tensors exceeds the system's limit of mappings: use megacache, or a
// smaller batch), VT_NOSPACE (no addresses; no memory), VT_ENOMEM, VT_EDEVICE. On error *out is
// NULL and cfg->vmm stays the caller's; it may have been configured and can then only be closed.
VT_API VT_NODISCARD vt_status vt_va_init(const vt_va_config *cfg, vt_va **out);

// Waits for the look-ahead and the device, returns all memory and closes the backend. NULL is
// allowed.
VT_API void vt_va_cleanup(vt_va *va);

// ---- Addresses. The row of token t of a request in a plane:
// vt_va_tensor(va, plane) + reqid x vt_va_request_stride(va) + t x vt_va_token_stride(va)

VT_API void *vt_va_tensor(const vt_va *va, uint32_t plane); // NULL: no such plane
VT_API size_t vt_va_request_stride(const vt_va *va);        // whole pages
VT_API size_t
vt_va_token_stride(const vt_va *va); // row_bytes, or with megacache n_plane x row_bytes

// ---- Requests

// Activates an inactive request: among those whose mapped groups suffice for len_tok the one with
// the fewest, otherwise the one with the most. len_tok is the length expected in the next step.
// Maps nothing. Queues the wiping of what the previous request used, unless a look-ahead has wiped
// it. Errors: VT_EINVAL (len_tok > max_tok), VT_NOSPANS (max_batch are active or lost), VT_EDEVICE.
VT_API VT_NODISCARD vt_status vt_va_alloc_reqid(vt_va *va, uint32_t len_tok, uint32_t *reqid);

// Ends a request. With deferred reclamation its memory stays mapped. Without it the memory is
// unmapped as soon as the device has finished with it: by this call, or by a later step.
// Errors: VT_EINVAL (not active), VT_EDEVICE (the request is still active).
VT_API VT_NODISCARD vt_status vt_va_free_reqid(vt_va *va, uint32_t reqid);

// ---- Once per iteration, before its kernels

// Makes sure that memory backs tokens [0, len_tok[reqid]) of every active request; len_tok is
// [max_batch], 0 for inactive requests. If memory is missing, it is taken from inactive requests,
// the longest inactive first, then from active ones what they do not need. A length may shrink; the
// memory this frees serves others from the next step on. eager_reclaim: first unmaps all memory of
// inactive requests that the device has finished with. Errors: VT_EINVAL (a length > max_tok, or an
// inactive request's not 0), VT_NOSPACE (budget, or the system has no memory), VT_EDEVICE (also if
// a lost request would have to grow), VT_ENOMEM (of the backend).
VT_API VT_NODISCARD vt_status vt_va_step(vt_va *va, const uint32_t *len_tok, bool eager_reclaim);

// The two halves of vt_va_step, for callers that have several instances and need a step of all or
// of none: the first does all that may fail and gives no request another length, the second cannot
// fail. Without the second the step was not taken. Between the two comes no other call on the
// instance. Errors of the first: those of vt_va_step.
VT_API VT_NODISCARD vt_status vt_va_step_prepare(vt_va *va, const uint32_t *len_tok,
                                                 bool eager_reclaim);
VT_API void vt_va_step_commit(vt_va *va);

// vt_va_step without eager_reclaim. After it returns, a thread looks ahead, in this order:
//   - what each active request needs for one more token; this may take memory as a step does
//   - for 2 to 9 more tokens, until eager_groups groups are mapped beyond that
//   - the request that alloc_reqid will hand out next for a long prompt: it is wiped, and
//     next_groups groups of it are mapped
//   - if less than low_percent of the budget is free then (spare, or not created): what inactive
//     requests hold is unmapped, the longest inactive first, until high_percent is free
// The second and third use free budget only. The thread works in slices of some MiB and does not
// wait for the device. A failure is not reported: the next step maps what is missing. Every call
// that changes mappings first waits until the next token is backed, or one slice of the rest is
// done.
// Errors: as vt_va_step; VT_ENOMEM (no thread can be started: nothing was done).
VT_API VT_NODISCARD vt_status vt_va_step_async(vt_va *va, const uint32_t *len_tok);

// Waits until all of the look-ahead is done, if one is running.
VT_API void vt_va_wait(vt_va *va);

// ---- Memory

// Sets the budget: as many page groups as fit size_bytes. Shrinking returns memory that no active
// request needs to the system; growing allocates nothing and cannot fail.
// Errors: VT_NOSPACE (active and lost requests need more than that), VT_EDEVICE; the budget is as
// before.
VT_API VT_NODISCARD vt_status vt_va_reserve_physical_pages(vt_va *va, uint64_t size_bytes);

// Returns the memory of spare page groups to the system. Errors: VT_EDEVICE (some are left).
VT_API VT_NODISCARD vt_status vt_va_trim(vt_va *va);

// Tries again to unmap what a failing backend has left half mapped. A request for which that
// succeeds is in service again; where the device still uses its memory, a later call may succeed.
// Errors: VT_EDEVICE (it has failed again).
VT_API VT_NODISCARD vt_status vt_va_recover(vt_va *va);

// Page groups that active requests do not need and that are not lost, for admitting new ones. Does
// not wait.
VT_API uint64_t vt_va_num_free_kvblocks(const vt_va *va);

// Page groups that a request of that length needs.
VT_API uint64_t vt_va_kvblocks_for(const vt_va *va, uint32_t len_tok);

// On by default. When off, each step first unmaps what inactive requests hold and the device has
// finished with.
VT_API void vt_va_set_deferred_reclamation(vt_va *va, bool on);

// X(name, help): all counters and gauges. Gauges are those of this moment, while a look-ahead may
// be at work. Counters do not include its work before the next call that changes mappings.
#define VT_VA_STATS(X)                                                                        \
    X(page_bytes, "bytes of a page of one tensor")                                            \
    X(group_bytes, "bytes of a page group, its pages in all tensors together")                \
    X(groups_budget, "page groups that may exist at once")                                    \
    X(groups_created, "page groups backed by physical memory now")                            \
    X(groups_spare, "of them, mapped nowhere")                                                \
    X(groups_active, "of them, mapped, and backed for active requests by their last step")    \
    X(groups_surplus, "of them, mapped in active requests beyond that")                       \
    X(groups_idle, "of them, mapped in inactive requests")                                    \
    X(groups_lost, "of them, held by lost requests beyond what these need")                   \
    X(requests_active, "requests active now")                                                 \
    X(requests_lost, "requests out of service")                                               \
    X(live_bytes, "bytes of the tokens of active requests")                                   \
    X(allocs, "successful calls of vt_va_alloc_reqid so far")                                 \
    X(reused_groups, "page groups that they found mapped and needed")                         \
    X(wiped_groups, "page groups wiped since another request had used them, or when created") \
    X(steps, "steps done so far")                                                             \
    X(sync_groups, "page groups mapped by steps while the caller waited")                     \
    X(ahead_groups, "page groups mapped by look-aheads for active requests")                  \
    X(next_groups, "page groups mapped by look-aheads for the next request")                  \
    X(ahead_jobs, "look-aheads ended so far")                                                 \
    X(ahead_failures, "jobs of look-aheads stopped by an error of the backend")               \
    X(reclaimed_groups, "page groups unmapped so far")                                        \
    X(background_groups, "of them, because less than low_percent was free")                   \
    X(device_waits, "times a call waited for the device so far")                              \
    X(create_calls, "calls of the backend's create so far")                                   \
    X(destroy_calls, "calls of the backend's destroy so far")                                 \
    X(map_calls, "calls of the backend's map so far")                                         \
    X(unmap_calls, "calls of the backend's unmap so far")                                     \
    X(nospace, "calls that returned VT_NOSPACE so far")                                       \
    X(device_errors, "backend calls that returned VT_EDEVICE so far")

typedef struct vt_va_stats {
#define VT_VA_STATS_FIELD(name, help) uint64_t name;
    VT_VA_STATS(VT_VA_STATS_FIELD)
#undef VT_VA_STATS_FIELD
} vt_va_stats;

// Fills *out with the figures of this moment. Owner thread.
VT_API void vt_va_get_stats(const vt_va *va, vt_va_stats *out);

typedef struct vt_va_request {
    bool is_active;
    bool is_lost; // out of service
    uint32_t len_tok;
    uint32_t n_need;   // page groups that the length needs
    uint32_t n_given;  // of them, what the last step has backed; 0 before the first one
    uint32_t n_mapped; // page groups mapped, from token 0 on
} vt_va_request;

// All zero if there is no such request. As of this moment, while a look-ahead may be at work.
VT_API vt_va_request vt_va_look(const vt_va *va, uint32_t reqid);

// A page group that exists.
typedef struct vt_va_group {
    uint32_t name;  // constant while it exists; names are small numbers and used again
    uint32_t reqid; // in which it is mapped; UINT32_MAX: nowhere
    uint32_t at;    // its position there: it holds the tokens of the at-th pages
    bool is_needed; // the last step has backed it for that request, which is active
} vt_va_group;

// Calls fn for each page group that exists: those of each request by position, then those that are
// mapped nowhere. fn must not call this manager. Waits for the look-ahead. Owner thread.
VT_API void vt_va_each_group(vt_va *va, void (*fn)(void *ud, const vt_va_group *group), void *ud);

// The same for the page groups of one request alone.
VT_API void vt_va_each_group_of(vt_va *va, uint32_t reqid,
                                void (*fn)(void *ud, const vt_va_group *group), void *ud);

// Proves the invariants, and that the system holds and maps exactly as much. Waits for the
// look-ahead. Slow: for tests, debug builds and idle moments. Returns VT_OK, or VT_EINVAL with the
// first broken invariant in *what (a static string; what may be NULL), or VT_EDEVICE if the backend
// cannot tell.
VT_API VT_NODISCARD vt_status vt_va_check(vt_va *va, const char **what);

#ifdef __cplusplus
}
#endif
#endif
