// vtensor.h - libvtensor: a KV-cache memory manager in which each sequence is one contiguous range
// of addresses, and one physical chunk may be mapped in many of them.
//
//     vt_config cfg = vt_config_default();
//     cfg.n_plane = 2 * n_layer;  cfg.row_bytes = n_kv_head * head_dim * 2;  cfg.max_tok = 4096;
//     cfg.max_seq = 64;           cfg.budget_bytes = 4ull << 30;
//     vt_manager *m;  vt_domain *d;  vt_seq *s;  uint32_t n_hit;
//     vt_manager_create(&cfg, &m);
//     vt_domain_open(m, "my-model", 8, &d);
//     vt_seq_match(d, prompt, n_prompt, 0, &s, &n_hit); // rows 0 .. n_hit-1 are there already
//     vt_seq_extend(s, n_prompt);                       // memory for the others
//     char *k = vt_seq_plane(s, 2 * layer);             // row of token t: k + t * vt_seq_stride(s)
//     ... compute, write the rows n_hit .. n_prompt-1 of every plane ...
//     vt_seq_record(s, d, prompt, n_prompt, NULL);      // the next one with this prompt matches
//     vt_seq_release(s);  vt_manager_destroy(m);
//
// Sources: vTensor / FlexInfer (arXiv 2407.15309) for the operations, the slack as deadline and the
// radix tree over chunks; vAttention (arXiv 2405.04437) for look-ahead and deferred reclamation;
// PagedAttention (arXiv 2309.06180) for copy on write between forks. The manager knows no model:
// only planes (a K and a V for each layer), bytes per token and plane, and tokens.
//
// Words: a chunk is the unit of physical memory: as many tokens as fit slice_bytes, in all planes
// of a group. A span is the reserved address range of one sequence. The tail is the last chunk of a
// sequence, if its tokens fill only part of it. A spare chunk has no holder and is kept for the
// next sequence.
//
// Groups. Planes whose rows have the same size and life belong to one group, and each group has
// chunks of its own: layers whose K and V differ in width, scales next to codes, layers with a
// sliding window, recurrent state. All groups share one budget and one tree of prefixes. A plain
// model has one group.
//
// Rules
//  - Every operation is all or nothing. A shortage (vt_is_shortage) is a normal answer. If the
//    device fails, and fails again while the call is undone, the span is quarantined: its sequence
//    is lost (vt_seq_is_lost) and can only be released; its memory is counted in quarantined_bytes
//    until a later step can unmap it.
//  - A shared chunk is read-only, by the mapping itself where the backend can (vt_config.no_guard):
//    a stray write faults. Where nearly all mappings are in use (max_mappings), what a sequence
//    shares may stay or become writable in its own mappings until there are more, because a guard
//    costs a mapping. A sequence never shares its tail: a fork or a match gets a copy.
//  - A sequence may write the rows [n, length) that an extend added, and no row that it shares:
//    rows that were matched, or that existed when it was forked or recorded.
//  - Beyond a sequence's length only its own or zeroed memory is readable. Within the length, a
//    byte that the sequence neither wrote nor inherited reads as zero.
//  - extend, fork, match, truncate and release never wait for the device. What must wait for it
//    waits in the background, or the call answers VT_BUSY.
//  - Prefixes are compared token by token inside a domain, never by hash.
//  - The accounting is exact to the byte, and vt_check proves it.
//  - The library never prints, exits, aborts (release builds) or throws.
//
// Threads. All calls on one manager come from one thread at a time, its owner, except
// vt_read_stats and vt_events_take. The manager's mapper thread maps memory ahead of need
// (vt_seq_prepare, vt_step); it starts when it is first needed.
#ifndef VTENSOR_H
#define VTENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vtensor/status.h"
#include "vtensor/vmm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vt_manager vt_manager; // owned by one thread
typedef struct vt_seq vt_seq;         // belongs to its manager, same thread
typedef struct vt_domain vt_domain;   // a root of the prefix tree; belongs to its manager

// Where the bytes of token t, plane p of a sequence lie:
//   SPLIT   base + p x plane_stride + t x row_bytes          a span of addresses for each plane
//   PACKED  base + t x n_plane x row_bytes + p x row_bytes   one span, the planes of a token side
//                                                            by side
// SPLIT with view_planes = k > 1 lies between: the planes of a token lie k by k side by side in
// views, and from view to view it is view_stride:
//           base + (p / k) x view_stride + t x k x row_bytes + p % k x row_bytes
// A sequence then costs k times fewer mappings. vt_seq_plane and vt_seq_stride hold for all.
typedef enum vt_layout { VT_LAYOUT_SPLIT = 0, VT_LAYOUT_PACKED } vt_layout;

// Which thread does the work of vt_seq_prepare and the idle work of vt_step.
typedef enum vt_mapper {
    VT_MAPPER_THREAD = 0, // the manager's mapper thread
    VT_MAPPER_OWNER       // the owner, in vt_work: no thread is started
} vt_mapper;

enum { VT_MAX_GROUP = 8 };

typedef enum vt_group_kind {
    VT_GROUP_TOKENS = 0, // a row per token: keys, values, scales
    VT_GROUP_STATE,      // a fixed size per sequence: recurrent state, of its whole length
    // A row per whole block of window_tok tokens: recurrent state, as it is after the block's last
    // token. A token needs the row of the last whole block before it.
    VT_GROUP_BLOCKS
} vt_group_kind;

// Planes whose rows have the same size and life.
typedef struct vt_group {
    vt_group_kind kind;
    uint32_t n_plane;
    size_t row_bytes; // per plane: of a token, of a sequence's whole state, of a block
    // TOKENS: a token attends to itself and the window_tok - 1 before it; rows that no later token
    // needs are freed, to the chunk. 0: to all. BLOCKS: tokens of a block
    uint32_t window_tok;
    size_t slice_bytes; // as in vt_config
} vt_group;

typedef struct vt_config {
    size_t struct_bytes;   // sizeof(vt_config) of the caller; vt_config_default sets it
    uint32_t n_plane;      // 2 x layers; ignored if there are groups
    size_t row_bytes;      // bytes per token per plane; ignored if there are groups
    uint32_t max_tok;      // longest sequence, in tokens: fixes the span's size
    uint32_t max_seq;      // most sequences alive at once
    uint64_t budget_bytes; // limit on physical memory
    vt_layout layout;
    size_t slice_bytes; // bytes of a chunk in each view: of one plane (SPLIT), of view_planes or of
                        // all (PACKED); a multiple of the backend's granularity; 0: the smallest
                        // that holds 32 tokens. Ignored if there are groups
    uint64_t spare_low_bytes; // vt_step keeps as much ready for the next new sequences, in up to
        // eight spans and as long as such sequences were recently, besides what
        // the live ones are about to need; idle prefixes are evicted for it
    uint64_t spare_high_bytes; // limit on the spare chunks kept, those still mapped in live spans
                               // not counted; the mapper thread returns the rest to the system
                               // (with VT_MAPPER_OWNER, vt_work). vt_set_budget changes a limit
                               // below the budget in proportion. UINT64_MAX: all are kept until
                               // vt_trim
    const char *swap_dir;      // host: directory of the swap file; not used on a GPU
    uint64_t swap_bytes;       // size of the swap; 0: no swap
    vt_mapper mapper;
    vt_vmm *vmm;           // backend, fresh; owned by the manager from a successful create on;
                           // NULL: the host
    const vt_group *group; // [n_group] copied; planes are numbered group after group. NULL: one
    uint32_t n_group;      // group of n_plane planes; VT_MAX_GROUP at most
    bool no_guard;         // shared chunks stay writable in the mappings of their sequences
    uint32_t n_event;      // events kept for vt_events_take; 0: none
    uint64_t view_planes;  // SPLIT: planes of a group that share a view, at most (vt_view_planes
                           // says how many); 0: 1. PACKED: ignored. (64 bits wide, because 32
                           // would lie in what was padding)
} vt_config;

// Fills in the first struct_bytes bytes of *cfg, which must be sizeof(vt_config) of the caller: all
// zero, except struct_bytes and spare_high_bytes = UINT64_MAX. Any thread; never fails.
VT_API void vt_config_init(vt_config *cfg, size_t struct_bytes);

// The same, by value.
static inline vt_config vt_config_default(void)
{
    vt_config cfg;
    vt_config_init(&cfg, sizeof cfg);
    return cfg;
}

// Creates a manager. Allocates no physical memory; addresses are reserved as sequences need them.
// Errors: VT_EINVAL (a required field is zero, sizes overflow, slice_bytes is not a multiple of the
// granularity, spare_low_bytes above spare_high_bytes, struct_bytes of no known version, a window
// of a state, blocks of 0 tokens), VT_NOSPACE (a budget smaller than a chunk of each group),
// VT_ENOMEM, VT_EDEVICE. On error *out is NULL; cfg->vmm stays the caller's and is still fresh.
VT_API VT_NODISCARD vt_status vt_manager_create(const vt_config *cfg, vt_manager **out);

// Releases all sequences, forgets all prefixes and returns all memory. NULL is allowed. Sequences,
// domains and pointers into planes are invalid afterwards.
//
// A child of fork(2) may call this and nothing else: there it only gives up the child's mappings
// and descriptors, and the parent's manager stays as it is. Until then the child sees the parent's
// rows, and what it wrote to them would be written to the parent's.
VT_API void vt_manager_destroy(vt_manager *m);

// Changes the budget of a running manager. Shrinking returns spare chunks to the system first, then
// idle prefixes, the least valuable first. Errors: VT_NOSPACE (sequences and pinned prefixes hold
// more than that; nothing is changed or lost: release or swap out, then call again), VT_EINVAL
// (less than one chunk), VT_EDEVICE (the budget is as before).
VT_API VT_NODISCARD vt_status vt_set_budget(vt_manager *m, uint64_t budget_bytes);

// ---- Sequences

// Creates a sequence of length 0 with a span of its own. It reuses the span of a released sequence
// with its chunks: the one that fits expect_tok tokens best (0: unknown; then the most recent one).
// Errors: VT_NOSPANS (max_seq sequences are alive), VT_BUSY (those that ended are still in use by
// the device), VT_NOSPACE (no addresses are left), VT_ENOMEM, VT_EDEVICE.
VT_API VT_NODISCARD vt_status vt_seq_create(vt_manager *m, uint32_t expect_tok, vt_seq **out);

// Makes sure that memory backs tokens [0, len_tok). A len_tok below the current length changes
// nothing. If the budget does not suffice, spare chunks are taken from where they are, and then
// idle prefixes are evicted, chunk by chunk, as many as are needed. Within chunks that are
// prepared, or that the sequence already has, it makes no system call. With a window, rows that no
// token from the old length on needs are freed first. Errors: VT_EINVAL (len_tok > max_tok, or
// swapped out), VT_NOSPACE, VT_NOMAPS, VT_BUSY (chunks are still in use by the device, or held by
// sequences on their way to the swap, or the sequence was truncated into chunks that it shared),
// VT_ENOMEM, VT_EDEVICE. The sequence is then as before, and after VT_NOSPACE no prefix is lost.
// After VT_BUSY no work that reads the sequence may be submitted before an extend succeeds.
VT_API VT_NODISCARD vt_status vt_seq_extend(vt_seq *s, uint32_t len_tok);

// Extends n sequences, seq[i] to len_tok[i], in this order; *n_done (may be NULL) is how many
// succeeded. Stops at the first error and returns it; each sequence is all or nothing.
VT_API VT_NODISCARD vt_status vt_seq_extend_many(vt_seq *const *seq, const uint32_t *len_tok,
                                                 uint32_t n, uint32_t *n_done);

// Creates a sequence whose first len_tok tokens are those of s. Whole chunks are shared; the tail,
// and a recurrent state, are copied, in the order of the device's work. Errors: VT_EINVAL (len_tok
// > length of s; s is swapped out; a window has freed rows that len_tok needs; a
// len_tok below the length of a sequence with a state), and those of vt_seq_create and
// vt_seq_extend; s is not changed.
VT_API VT_NODISCARD vt_status vt_seq_fork(vt_seq *s, uint32_t len_tok, vt_seq **out);

// Removes the tokens from len_tok on. Chunks that hold no other tokens become spare, or stay with
// their other holders. A len_tok of at least the length changes nothing.
// Errors: VT_EINVAL (swapped out; a window has freed rows that len_tok needs; a state,
// unless len_tok is 0), VT_EDEVICE; the sequence is then as before.
VT_API VT_NODISCARD vt_status vt_seq_truncate(vt_seq *s, uint32_t len_tok);

// Ends a sequence. Chunks without another holder become spare (beyond spare_high_bytes they return
// to the system), and the span is reused. A chunk is zero again before another sequence sees it. On
// a GPU, nothing is unmapped before the work submitted to the device so far is done. What the last
// vt_seq_record could not share yet, the tail, is recorded now. NULL is allowed.
VT_API void vt_seq_release(vt_seq *s);

// Sends the chunks that are not shared to the swap, and frees them as they are written. Addresses,
// length and shared chunks stay. Never waits: it begins, and answers VT_BUSY while rows are on
// their way; vt_step continues while the owner goes on, and calling this again tells how it ended.
// From the first call on no row of the sequence may be touched; allowed are vt_seq_swap_in (turns
// it round), vt_seq_wait and vt_seq_release. Once it is out, calling it again also releases chunks
// that are no longer shared. Errors: VT_EINVAL (no swap is configured), VT_NOSWAP (also: the disk
// is full), VT_NOMAPS, VT_EDEVICE, VT_ENOMEM; the sequence is then as before. If others have taken
// what it gave up already, it stays out (vt_seq_is_swapped), with all its rows.
VT_API VT_NODISCARD vt_status vt_seq_swap_out(vt_seq *s);

// Brings a sequence back to the same addresses, in the same way: VT_BUSY until all rows are there.
// Turns a sequence on its way to the swap round. Does nothing if it is not swapped out. Errors:
// VT_NOSPACE (budget), VT_EDEVICE (also if the swap holds other bytes than were written, counted as
// swap_corrupt; such a sequence can only be released), VT_ENOMEM. The sequence then stays swapped
// out.
VT_API VT_NODISCARD vt_status vt_seq_swap_in(vt_seq *s);

// Getters; they never fail. The base of a plane does not change while the sequence lives.
// Pre: plane < n_plane.
VT_API void *vt_seq_plane(const vt_seq *s, uint32_t plane);
VT_API size_t vt_seq_stride(const vt_seq *s);       // bytes from token to token, group 0
VT_API size_t vt_seq_plane_stride(const vt_seq *s); // as vt_plane_distance, of group 0
VT_API uint32_t vt_seq_len(const vt_seq *s);        // tokens
// For the group of a plane: bytes from row to row (0: a state has one); bytes from plane
// to plane within a view, or from view to view where each plane has its own; planes in a view (the
// last may have fewer); bytes from view to view; and the first token whose row is there: 0, unless
// a window has passed it; of blocks, the first token of the first one whose row is there.
VT_API size_t vt_plane_stride(const vt_manager *m, uint32_t plane);
VT_API size_t vt_plane_distance(const vt_manager *m, uint32_t plane);
VT_API uint32_t vt_view_planes(const vt_manager *m, uint32_t plane);
VT_API size_t vt_view_distance(const vt_manager *m, uint32_t plane);
VT_API uint32_t vt_seq_front(const vt_seq *s, uint32_t plane);
VT_API uint32_t vt_seq_backed(const vt_seq *s); // extend up to here is immediate and cannot fail
VT_API bool vt_seq_is_swapped(const vt_seq *s); // or on its way to the swap, or back
VT_API bool vt_seq_is_lost(const vt_seq *s);    // its span is quarantined: it can only be released

// Physical bytes of a sequence of len_tok tokens that shares nothing: whole chunks, of a window
// only those that it needs. Never fails; a len_tok above max_tok counts as max_tok.
VT_API uint64_t vt_bytes_for(const vt_manager *m, uint32_t len_tok);
// Bytes that sequences hold now, each chunk once: owned_bytes + shared_bytes of vt_stats.
VT_API uint64_t vt_held_bytes(const vt_manager *m);
// Mappings that a sequence may soon need: in each view the runs that s has and one more, since what
// follows a guarded chunk begins a run, and two at least; so many for NULL, a new sequence. The sum
// over all that live is to be at most max_mappings of vt_stats.
VT_API uint64_t vt_mappings_for(const vt_manager *m, const vt_seq *s);

// ---- Ahead of need

// Prefetches memory for tokens up to len_tok (clamped to max_tok) while the caller continues, so
// that extend finds it ready. `deadline` is the number of steps until it is needed; the nearest
// comes first. Returns at once. Takes what extend would take, but nothing that another live
// sequence has prepared, and nothing while more exists than a lowered budget allows. Errors:
// VT_NOSPACE (budget, or too many requests are queued), VT_NOMAPS, VT_EINVAL (swapped out),
// VT_EDEVICE, VT_ENOMEM; and, once, the error with which an earlier prepare of this sequence
// failed. extend still works.
VT_API VT_NODISCARD vt_status vt_seq_prepare(vt_seq *s, uint32_t len_tok, uint32_t deadline);

// Waits until the memory requested by prepare is ready. Where extend answered VT_BUSY, waits until
// the device allows it. Where the sequence is on its way to the swap or back, waits until it has
// arrived. Errors: those of the prepare, or of the swap_out or swap_in, that failed; VT_EDEVICE.
VT_API VT_NODISCARD vt_status vt_seq_wait(vt_seq *s);

// Waits until the device has done the work submitted so far, and frees all that waits for it: after
// VT_BUSY, for a caller that has nothing else to do. Errors: VT_EDEVICE.
VT_API VT_NODISCARD vt_status vt_settle(vt_manager *m);

// How vt_step prefetches for every live sequence.
typedef enum vt_ahead {
    VT_AHEAD_NONE = 0,
    VT_AHEAD_NEXT, // vAttention: first the next token of each, then n_tok more of each if time
                   // allows
    VT_AHEAD_SLACK // vTensor: a sequence with room for fewer than n_tok tokens gets n_tok more; the
                   // deadline is when the room is used up at one token per step
} vt_ahead;

// Call once per step of the engine, after the kernels are launched. Takes over the results of the
// mapper, unmaps what the device has finished with, prepares the growth of the sequences, fills
// spare chunks up to spare_low_bytes and wipes those of released sequences. now_ms is the caller's
// clock, of any origin, and never decreases; retention is measured against it.
// Errors: VT_EINVAL (policy), VT_EDEVICE (a ticket could not be taken; a later step tries again).
VT_API VT_NODISCARD vt_status vt_step(vt_manager *m, vt_ahead policy, uint32_t n_tok,
                                      uint64_t now_ms);

// VT_MAPPER_OWNER: runs up to max_jobs queued jobs, the most urgent first; *n_left (may be NULL) is
// how many are left. VT_MAPPER_THREAD: only takes over what the mapper thread has finished.
VT_API void vt_work(vt_manager *m, uint32_t max_jobs, uint32_t *n_left);

// ---- Prefixes

// Opens the domain with exactly this key, which names all that must not mix: model, adapter, cache
// type, tenant. Every open needs a close. The prefixes of a closed domain stay until they are
// evicted, and are available again when it is reopened.
// Errors: VT_EINVAL (key_bytes > 4096), VT_ENOMEM.
VT_API VT_NODISCARD vt_status vt_domain_open(vt_manager *m, const void *key, size_t key_bytes,
                                             vt_domain **out);
VT_API void vt_domain_close(vt_domain *d); // NULL is allowed

// The length of the longest recorded prefix of tok, in tokens. Changes nothing, not even the order
// of eviction.
VT_API uint32_t vt_match(const vt_domain *d, const uint32_t *tok, uint32_t n_tok);

// What has followed these tokens: writes to out up to max_n tokens that are recorded in the domain
// after exactly tok[0..n_tok), and returns how many; 0: nothing that is recorded continues from
// there (or n_tok is not recorded). Where recorded paths part, it follows the branch recorded last;
// where very many part in one place, some are not looked at. A guess at what a sequence will
// become, for speculative decoding: tokens only, of one domain only, whether or not their rows
// could be matched. Changes nothing, not even the order of eviction. What is recorded at the
// release of a sequence (vt_seq_record) counts from then on. Never fails. Pre: out does not overlap
// tok.
VT_API uint32_t vt_prefix_continue(const vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                                   uint32_t *out, uint32_t max_n);

// Creates a sequence that begins with the longest recorded prefix of tok; its length is *n_hit
// tokens. Whole chunks are shared; the rows of a partly matched chunk are copied. *n_hit = 0 is the
// same as vt_seq_create.
// Errors: VT_EINVAL (n_tok > max_tok), and those of vt_seq_create and vt_seq_extend.
VT_API VT_NODISCARD vt_status vt_seq_match(vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                                           uint32_t expect_tok, vt_seq **out, uint32_t *n_hit);

// How long a prefix is kept. Of the prefixes that no sequence uses, the one with the lowest
// priority is evicted first, and among equals the least recently used.
enum { VT_MAX_PRIORITY = 7 };
typedef struct vt_retention {
    uint8_t priority;  // 0 (plain) .. VT_MAX_PRIORITY
    bool pinned;       // never evicted; all pins together hold at most half of the budget
    uint64_t until_ms; // when both end, by the clock of vt_step; 0: never
} vt_retention;

// Records the first n_tok tokens of s, which are `tok`, as a prefix. While s lives, the part that
// fills whole chunks can be matched, and is shared from now on; the rest is recorded when s is
// released, since until then s may write there (unless s was truncated below it). Parts that are
// recorded already stay as they are. A recurrent state is recorded if n_tok is the length of s, now
// if that fills whole chunks, else at the release. States of blocks are recorded where a sequence
// can begin at the end of tok, or where tok parts from what is recorded. keep NULL: priority 0.
// Errors: VT_EINVAL (n_tok > length, swapped out, a domain of another manager, or priority),
// VT_NOPINS (nothing is recorded), VT_NOSPACE (a state: no room for a copy), VT_EDEVICE, VT_ENOMEM.
VT_API VT_NODISCARD vt_status vt_seq_record(vt_seq *s, vt_domain *d, const uint32_t *tok,
                                            uint32_t n_tok, const vt_retention *keep);

// Sets the retention of the recorded part of tok, to the block (vt_stats.block_tok) in which it
// ends, and counts as a use of it. *n_hit (may be NULL) is as in vt_match. Longer prefixes that
// continue it keep their own retention. Errors: VT_EINVAL (priority), VT_NOPINS.
VT_API VT_NODISCARD vt_status vt_retain(vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                                        const vt_retention *keep, uint32_t *n_hit);

// Forgets every prefix of the domain, pinned ones too. Sequences keep the chunks that they use.
// Their other chunks become spare. Never fails.
VT_API void vt_domain_forget(vt_domain *d);

// Limits what the prefixes of a domain hold: recording more evicts the least valuable of its own
// first, and what does not fit then is not recorded. UINT64_MAX (at first): no limit.
VT_API void vt_domain_set_quota(vt_domain *d, uint64_t quota_bytes);

typedef struct vt_domain_stats {
    size_t struct_bytes; // sizeof(vt_domain_stats) of the caller, set before the call
    uint64_t quota_bytes;
    uint64_t held_bytes; // of chunks that its prefixes hold; those of two domains count in both
    uint64_t prefix_nodes, prefix_tok;
    uint64_t match_calls, match_tok, hit_tok; // as in VT_STATS
    uint64_t evicted_nodes;
    uint64_t evicted_windows; // as window_evicted in VT_STATS
} vt_domain_stats;

// Fills *out with the figures of this moment; its struct_bytes says how much of it there is.
VT_API void vt_domain_get_stats(const vt_domain *d, vt_domain_stats *out);

// One node of the prefix tree: a block of tokens after those of its parent.
typedef struct vt_prefix_info {
    uint64_t id, parent_id; // 0: the root of the domain
    uint32_t start_tok;     // number of its first token
    uint32_t n_tok;
    const uint32_t *tok; // [n_tok] valid during the call
    uint64_t held_bytes; // of its chunks
    uint64_t used;       // grows with every use
    uint32_t n_seq;      // sequences that end in this node
    vt_retention keep;   // as set for this node
    uint32_t lacks;      // as in vt_event
} vt_prefix_info;

// Calls fn for every domain, and for every node of a domain, parents first. fn must not call the
// manager; false ends the walk.
VT_API void vt_domain_each(vt_manager *m,
                           bool (*fn)(void *ud, vt_domain *d, const void *key, size_t key_bytes),
                           void *ud);
VT_API void vt_prefix_each(const vt_domain *d, bool (*fn)(void *ud, const vt_prefix_info *node),
                           void *ud);
// The same from the newest node to the oldest: children before parents.
VT_API void vt_prefix_each_newest(const vt_domain *d,
                                  bool (*fn)(void *ud, const vt_prefix_info *node), void *ud);

// ---- Events, for routers that follow what is cached where

typedef enum vt_event_kind {
    VT_EVENT_RECORDED = 0,   // the tokens of a block were recorded; again, with more of them, when
                             // a block that was not full is continued
    VT_EVENT_EVICTED,        // the block is gone, and all that it held
    VT_EVENT_FORKED,         // a sequence was forked after n_tok tokens
    VT_EVENT_WINDOW_EVICTED, // the block stays, but what it held for windows and states is gone
    VT_EVENT_WINDOW_RECORDED // some of that was recorded again: `lacks` has fewer bits
} vt_event_kind;

// No tokens: a block is named by `id`, which grows with each new node of the tree.
//
// `lacks` has bit g set if a block does not hold all that a sequence which begins at its end needs
// from it in group g: the rows within the group's window, or the state. No match can end with such
// a block. A match can end with a block where `lacks` is 0, if bit g is also clear, for each window
// of a group g, in the blocks above that hold the last window_tok - 1 tokens (VT_GROUP_BLOCKS: the
// last window_tok). Without windows and states `lacks` is always 0.
typedef struct vt_event {
    uint64_t number; // counts all events from 0: a gap means that some were overwritten
    vt_event_kind kind;
    uint32_t lacks;         // bits by group, after the event
    uint64_t domain_id;     // grows with each new domain; FORKED: 0 if nothing of it is recorded
    uint64_t id, parent_id; // nodes, as in vt_prefix_info; FORKED: the last whose chunks it shares
    uint32_t start_tok, n_tok;
    uint64_t now_ms; // of the last vt_step
} vt_event;

// Copies up to max_n of the oldest events that were not taken yet, and returns their number. If
// more than vt_config.n_event wait, the oldest are overwritten. Any thread, one at a time.
VT_API uint32_t vt_events_take(vt_manager *m, vt_event *out, uint32_t max_n);
VT_API uint64_t vt_domain_id(const vt_domain *d);

// ---- Memory

// Returns spare chunks to the system until at most keep_bytes of them remain, the longest idle
// first; *freed_bytes (may be NULL) is how much was returned. So is room of the swap that nobody
// uses. Errors: VT_EDEVICE (what was returned before the failure stays returned and counted).
VT_API VT_NODISCARD vt_status vt_trim(vt_manager *m, uint64_t keep_bytes, uint64_t *freed_bytes);

// Evicts prefixes that no sequence uses, the least valuable first, until want_bytes are returned to
// the system or none is left; *freed_bytes (may be NULL) is how much was returned.
// Errors: as vt_trim.
VT_API VT_NODISCARD vt_status vt_evict(vt_manager *m, uint64_t want_bytes, uint64_t *freed_bytes);

// vt_trim, vt_evict and a smaller vt_set_budget do all of their work at once, which takes 0.2 s and
// more for each GiB. An owner that has other things to do calls these instead: each does a small
// part, bounded in blocks and chunks whatever the amount, and returns; every vt_step does another,
// and unmapping and destroying is the mapper's (with VT_MAPPER_OWNER, vt_work's).
// vt_stats.returning_bytes is what is still to go: 0 when it is done.
//
// Spare memory beyond keep_bytes goes back to the system, also what spare_low_bytes would keep;
// what live sequences have prepared stays. `forget`: idle prefixes go first, all of them, until
// once none is left; until then they can be matched. A call while another is under way adds to it.
// It ends where the device fails (counted in job_failures). Never fails.
VT_API void vt_give_back(vt_manager *m, uint64_t keep_bytes, bool forget);

// Sets the budget at once: from now on nothing is created or evicted for a sequence that it has no
// room for, and what is beyond a smaller one goes back as above, spare memory first, then idle
// prefixes. Errors: as vt_set_budget; VT_BUSY (it is held by work of the device, or by sequences on
// their way to the swap). A match may put prefixes to use that were to go, and a new sequence what
// the last one has left mapped: if they hold too much, the same call, again, answers VT_NOSPACE.
VT_API VT_NODISCARD vt_status vt_aim_budget(vt_manager *m, uint64_t budget_bytes);

// X(name, help): all counters and gauges.
#define VT_STATS(X)                                                              \
    X(budget_bytes, "physical memory the manager may use")                       \
    X(chunk_bytes, "bytes of one chunk of the first group, all its slices")      \
    X(block_tok, "tokens of a node of the prefix tree, at most")                 \
    X(chunks_created, "chunks backed by physical memory now")                    \
    X(chunks_owned, "of them, held by one sequence alone")                       \
    X(chunks_shared, "of them, held by a sequence and by others or the tree")    \
    X(chunks_cached, "of them, held by the prefix tree alone")                   \
    X(chunks_spare, "of them, kept for the next sequence")                       \
    X(chunks_swapped, "chunks whose content is in the swap; not in created")     \
    X(mapped_bytes, "physical memory in use: all created chunks")                \
    X(owned_bytes, "of it, in owned chunks")                                     \
    X(shared_bytes, "of it, in shared chunks")                                   \
    X(cached_bytes, "of it, in cached chunks")                                   \
    X(spare_bytes, "of it, in spare chunks")                                     \
    X(evictable_bytes, "of cached_bytes, what may be evicted now")               \
    X(quarantined_bytes, "of mapped_bytes, in spans that could not be put back") \
    X(swapped_bytes, "in the swap")                                              \
    X(live_bytes, "bytes that hold tokens, shared rows once for each sequence")  \
    X(slack_bytes, "bytes of owned tails beyond the sequences' lengths")         \
    X(peak_mapped_bytes, "largest mapped_bytes so far")                          \
    X(peak_live_bytes, "largest live_bytes so far")                              \
    X(seqs, "sequences alive")                                                   \
    X(quarantined_spans, "spans out of use since the device failed twice")       \
    X(mappings, "runs of neighbouring chunks mapped now, over all planes")       \
    X(max_mappings, "runs the backend allows at once")                           \
    X(map_calls, "calls of the backend's map so far")                            \
    X(unmap_calls, "calls of the backend's unmap so far")                        \
    X(protect_calls, "calls of the backend's protect so far")                    \
    X(create_calls, "calls of the backend's create so far")                      \
    X(destroy_calls, "calls of the backend's destroy so far")                    \
    X(shortages, "operations that answered a shortage so far")                   \
    X(device_errors, "backend calls that returned VT_EDEVICE so far")            \
    X(prefix_nodes, "nodes of the prefix tree now")                              \
    X(prefix_tok, "tokens in the prefix tree now")                               \
    X(prefix_evicted, "nodes evicted so far")                                    \
    X(match_calls, "calls of vt_seq_match so far")                               \
    X(match_tok, "tokens looked up in them")                                     \
    X(hit_tok, "tokens found in them")                                           \
    X(copied_chunks, "tails and states copied by fork, match, record so far")    \
    X(ready_hits, "extends into new chunks that found them prepared")            \
    X(ready_misses, "extends into new chunks that had to map them")              \
    X(jobs, "jobs done ahead so far")                                            \
    X(job_failures, "of them, failed")                                           \
    X(swap_bytes, "room in the swap")                                            \
    X(swap_out_chunks, "chunks written to the swap so far")                      \
    X(swap_in_chunks, "chunks read back so far")                                 \
    X(swap_corrupt, "chunks that came back with other bytes so far")             \
    X(coming_bytes, "of owned_bytes, what swap-outs under way will give back")   \
    X(leaving_bytes, "of owned and shared, what only the device may still use")  \
    X(window_evicted, "nodes that stay, but lost windows or states so far")      \
    X(views, "mappings that a sequence costs if each of its lanes is one run")   \
    X(returning_bytes, "what is still to go back to the system, as was asked")

typedef struct vt_stats {
    size_t struct_bytes; // sizeof(vt_stats) of the caller: what is filled in at most
#define VT_STATS_FIELD(name, help) uint64_t name;
    VT_STATS(VT_STATS_FIELD)
#undef VT_STATS_FIELD
} vt_stats;

// Fills *out with the figures of this moment. Owner thread.
VT_API void vt_stats_get(const vt_manager *m, vt_stats *out);

// Fills *out with the figures of the last vt_step, or of the creation. Any thread.
VT_API void vt_stats_read(vt_manager *m, vt_stats *out);

// The same, with struct_bytes set.
static inline void vt_get_stats(const vt_manager *m, vt_stats *out)
{
    out->struct_bytes = sizeof *out;
    vt_stats_get(m, out);
}
static inline void vt_read_stats(vt_manager *m, vt_stats *out)
{
    out->struct_bytes = sizeof *out;
    vt_stats_read(m, out);
}

// Times in milliseconds, by size: count[i] of them were in (2^(i-1), 2^i], count[0] were 0 or 1,
// and the last element counts all longer ones.
#define VT_N_AGE 24
typedef struct vt_ages {
    uint64_t count[VT_N_AGE + 1];
    uint64_t sum_ms;
} vt_ages;

// How long parts of prefixes live, by the clock of vt_step: when a part is evicted, the time since
// it was recorded (life) and since it was used last (idle); when a sequence matches it, the time
// since it was used before (reuse).
typedef struct vt_prefix_ages {
    size_t struct_bytes; // sizeof(vt_prefix_ages) of the caller: what is filled in at most
    vt_ages life, idle, reuse;
} vt_prefix_ages;

// Sets the clock of vt_step between steps, for retention and ages; it never goes back. Owner
// thread.
VT_API void vt_tick(vt_manager *m, uint64_t now_ms);

// Fills *out with the ages so far. Owner thread.
VT_API void vt_prefix_ages_get(const vt_manager *m, vt_prefix_ages *out);

// The same, with struct_bytes set.
static inline void vt_get_prefix_ages(const vt_manager *m, vt_prefix_ages *out)
{
    out->struct_bytes = sizeof *out;
    vt_prefix_ages_get(m, out);
}

// Proves the invariants: owned + shared + cached + spare = created, the count of holders of every
// chunk, the map of every span, the prefix tree, and that the system holds and maps exactly as
// much. Waits for the mapper first. Slow: for tests, debug builds and idle moments. Returns VT_OK,
// or VT_EINVAL with the first broken invariant in *what (a static string; what may be NULL), or
// VT_EDEVICE or VT_ENOMEM if it cannot tell.
VT_API VT_NODISCARD vt_status vt_check(vt_manager *m, const char **what);

typedef enum vt_chunk_state {
    VT_CHUNK_ABSENT = 0, // no memory
    VT_CHUNK_SPARE,      // memory without a holder
    VT_CHUNK_CACHED,     // held by the prefix tree alone
    VT_CHUNK_OWNED,      // held by one sequence alone
    VT_CHUNK_SHARED,     // held by a sequence and by others or the tree
    VT_N_CHUNK_STATE
} vt_chunk_state;

typedef struct vt_chunk_info {
    uint64_t index; // number of the chunk: small, and used again once it is gone
    uint32_t group; // the first of those whose chunks have this shape
    vt_chunk_state state;
    uint32_t n_seq;  // sequences that hold it
    uint32_t n_node; // nodes of the prefix tree that hold it
} vt_chunk_info;

typedef struct vt_span_info {
    void *plane0;      // base of plane 0
    bool is_live;      // a sequence lives here:
    const vt_seq *seq; // this one, or NULL
    bool is_swapped;
    uint32_t len_tok;
    uint32_t n_chunk;  // chunks that hold tokens of the sequence
    uint32_t n_mapped; // chunks mapped, spare ones included
    uint32_t n_run;    // runs of neighbouring chunks, over all groups, in each view
} vt_span_info;

#define VT_AT_NOTHING UINT64_MAX
#define VT_AT_SWAP    ((uint64_t)1 << 63)

// The state of every chunk that has memory and of every span, for tools and status pages. One
// block, freed with vt_snapshot_free.
typedef struct vt_snapshot {
    uint64_t n_chunk;
    uint32_t n_span, n_group;
    uint32_t n_position;                   // chunks that a span has room for, group after group:
    uint32_t group_position[VT_MAX_GROUP]; // [n_group] this many of each
    const vt_chunk_info *chunk;            // [n_chunk] by index
    const vt_span_info *span;              // [n_span]
    // [n_span, n_position] index of the chunk mapped there; VT_AT_SWAP and the number of a slot:
    // the rows are in the swap alone; VT_AT_NOTHING
    const uint64_t *at;
} vt_snapshot;

// Errors: VT_ENOMEM.
VT_API VT_NODISCARD vt_status vt_snapshot_take(const vt_manager *m, vt_snapshot **out);
VT_API void vt_snapshot_free(vt_snapshot *snap); // NULL is allowed

// The same for large caches, call by call and without a block of memory. The calls must not call
// the manager. Owner thread.
//
// Chunks that have memory, in runs of neighbours of one group and state, by index.
VT_API void vt_chunk_each(const vt_manager *m,
                          void (*fn)(void *ud, uint64_t first, uint64_t n, uint32_t group,
                                     vt_chunk_state state),
                          void *ud);
// Sequences alive, in any order.
VT_API void vt_seq_each(const vt_manager *m, void (*fn)(void *ud, const vt_seq *s), void *ud);
// What is mapped for a sequence, spare chunks included, or in the swap alone: positions
// [position, position + n) of a group have the names at, at + 1, ..; `at` as in vt_snapshot. By
// group and position.
VT_API void vt_seq_map(const vt_seq *s,
                       void (*fn)(void *ud, uint32_t group, uint32_t position, uint64_t at,
                                  uint32_t n),
                       void *ud);

// "VT_OK", "VT_NOSPACE", ...; "VT_?" for other values. Static.
VT_API const char *vt_status_name(vt_status st);

#ifdef __cplusplus
}
#endif
#endif
