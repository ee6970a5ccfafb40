// vtensor.h - libvtensor: a KV-cache memory manager in which each sequence is one contiguous range
// of addresses, and one physical chunk may lie in many of them.
//
//     vt_config cfg = vt_config_default();
//     cfg.n_plane = 2 * n_layer;  cfg.row_bytes = n_kv_head * head_dim * 2;  cfg.max_tok = 4096;
//     cfg.max_seq = 64;           cfg.budget_bytes = 4ull << 30;
//     vt_manager *m;  vt_domain *d;  vt_seq *s;  uint32_t n_hit;
//     vt_manager_create(&cfg, &m);
//     vt_domain_open(m, "my-model", 8, &d);
//     vt_seq_match(d, prompt, n_prompt, 0, &s, &n_hit); // tokens 0..n_hit-1 are there already
//     vt_seq_extend(s, n_prompt);                       // the others are backed now
//     char *k = vt_seq_plane(s, 2 * layer);             // row of token t: k + t * vt_seq_stride(s)
//     ... compute, write the rows n_hit .. n_prompt-1 of every plane ...
//     vt_seq_record(s, d, prompt, n_prompt, NULL);      // the next one with this prompt matches
//     vt_seq_release(s);  vt_manager_destroy(m);
//
// The ideas: vTensor / FlexInfer (arXiv 2407.15309) for the operations, its slack as deadline and
// the radix tree over chunks; vAttention (arXiv 2405.04437) for look-ahead and deferred
// reclamation; PagedAttention (arXiv 2309.06180) for copy on write between forks. The manager knows
// no model: only planes (a K and a V for each layer), bytes per token and plane, and tokens.
//
// Laws
//  - Every operation is all or nothing. VT_NOSPACE is a normal answer. Where the device fails, and
//    fails again while things are put back, the sequence concerned is torn: see vt_seq_extend.
//  - A shared chunk is read-only. Who would write into one (extend into a partly filled tail) gets
//    a copy of that one chunk first; the last owner writes in place.
//  - A sequence may write the rows [n, length) that it was extended by, and no row below n that it
//    shares: what was matched, or was there when it was forked or recorded.
//  - Beyond a sequence's length nothing readable is mapped but its own or zeroed memory, and in the
//    shared tail of a fork rows of the sequence it was forked from; what lies there is not the
//    sequence's to write. A byte that a sequence did not write or inherit reads as
//    zero once it is within the length.
//  - Prefixes are compared token by token inside a domain, never by hash.
//  - The accounting is exact and vt_check proves it.
//  - The library never prints, exits, aborts (release builds) or throws.
//
// Threads. All calls on one manager come from one thread at a time, its owner. A mapper thread of
// the manager's own maps ahead (vt_seq_prepare, vt_step); it is started when first needed.
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
typedef enum vt_layout { VT_LAYOUT_SPLIT = 0, VT_LAYOUT_PACKED } vt_layout;

// Who does the work of prepare and of idle moments.
typedef enum vt_mapper {
    VT_MAPPER_THREAD = 0, // a thread of the manager's own
    VT_MAPPER_OWNER       // the owner, in vt_work: no thread is ever started
} vt_mapper;

typedef struct vt_config {
    uint32_t n_plane;      // 2 x layers
    size_t row_bytes;      // bytes per token per plane
    uint32_t max_tok;      // longest sequence, in tokens: fixes the span's size
    uint32_t max_seq;      // sequences alive at once
    uint64_t budget_bytes; // physical memory at most
    vt_layout layout;
    size_t slice_bytes; // bytes of a chunk in each plane (SPLIT) or in all (PACKED), a multiple of
                        // the backend's granularity; 0: the smallest that holds 32 tokens
    uint64_t spare_low_bytes;  // spare chunks that vt_step has made ready ahead, at least
    uint64_t spare_high_bytes; // spare chunks kept for the next sequences, at most; the mapper
                               // thread gives the rest back to the system, release itself where
                               // there is none. UINT64_MAX: all, until vt_trim
    const char *swap_dir;      // host: directory of the swap file; elsewhere not used
    uint64_t swap_bytes;       // room for what is swapped out; 0: no swap
    vt_mapper mapper;
    vt_vmm *vmm; // backend, fresh; owned by the manager from a successful create on;
                 // NULL: the host
} vt_config;

// All zero but spare_high_bytes = UINT64_MAX.
VT_API vt_config vt_config_default(void);

// Makes a manager: reserves addresses lazily, allocates no physical memory.
// Errors: VT_EINVAL (a zero where none may be, sizes that overflow, a slice that is no multiple of
// the granularity, spare_low above spare_high), VT_NOSPACE (a budget smaller than one chunk),
// VT_ENOMEM, VT_EDEVICE. On error *out is NULL and cfg->vmm stays the caller's, as fresh as it was.
VT_API VT_NODISCARD vt_status vt_manager_create(const vt_config *cfg, vt_manager **out);

// Releases all sequences, forgets all prefixes, returns all memory. NULL is allowed. Pointers into
// sequences are dead afterwards.
VT_API void vt_manager_destroy(vt_manager *m);

// Grows or shrinks the budget of a running manager. To shrink, spare chunks go back to the system
// first, then idle prefixes, the least worth keeping first.
// Errors: VT_NOSPACE (sequences and pinned prefixes hold more than that: nothing is changed and
// nothing lost; release or swap out, then call again), VT_EINVAL (less than one chunk), VT_EDEVICE (the budget is as
// before).
VT_API VT_NODISCARD vt_status vt_set_budget(vt_manager *m, uint64_t budget_bytes);

// ---- Sequences

// A new sequence of length 0 with a span of its own. The span and the chunks of a released sequence
// are used again: the one whose chunks fit expect_tok tokens best (0: unknown, the most recent).
// Errors: VT_NOSPACE (max_seq are alive, or no addresses left), VT_ENOMEM, VT_EDEVICE.
VT_API VT_NODISCARD vt_status vt_seq_create(vt_manager *m, uint32_t expect_tok, vt_seq **out);

// Makes tokens [0, len_tok) of the sequence backed and writable memory. len_tok below the present
// length is allowed and changes nothing. Where the budget or the mappings do not suffice, spare
// chunks and then idle prefixes are given back to the system, at last also the ends of prefixes in
// use that no sequence holds. Within chunks that are prepared, or
// are the sequence's own already, it makes no system call.
// Errors: VT_EINVAL (len_tok > max_tok, or swapped out), VT_NOSPACE (budget, or the system's limit
// of mappings), VT_ENOMEM, VT_EDEVICE; the sequence is then as before, but that it may have its copy of a
// shared tail already. Running out of budget costs no spare chunk and no prefix. Only if the device
// fails again while things are put back, memory of the sequence may be left unmapped: it is torn
// (vt_seq_is_torn), its rows must not be touched, and every further call on it tries to mend it
// first.
VT_API VT_NODISCARD vt_status vt_seq_extend(vt_seq *s, uint32_t len_tok);

// A new sequence whose first len_tok tokens are those of s: whole chunks and the tail are shared,
// nothing is copied. Whoever grows first gets a copy of the tail chunk.
// Errors: VT_EINVAL (len_tok > length of s, or s is swapped out), and those of create and extend; s
// is not changed.
VT_API VT_NODISCARD vt_status vt_seq_fork(vt_seq *s, uint32_t len_tok, vt_seq **out);

// Forgets the tokens from len_tok on. Chunks that hold no others become spare, or are left to those
// who share them. A len_tok of at least the length changes nothing.
// Errors: VT_EINVAL (swapped out), VT_EDEVICE; the sequence is then as before.
VT_API VT_NODISCARD vt_status vt_seq_truncate(vt_seq *s, uint32_t len_tok);

// Ends a sequence: chunks of its own become spare (and go back to the system beyond
// spare_high_bytes), its span is recycled. A chunk is zero again before another sequence sees it.
// On a device, addresses are not unmapped before the work given to it so far is done. NULL is
// allowed.
VT_API void vt_seq_release(vt_seq *s);

// Writes the chunks that nobody shares to the swap and gives them up; addresses, length and shared
// chunks stay. Until swap_in no row of the sequence may be touched; release is allowed.
// A sequence that is swapped out already gives up what was shared then and is no longer.
// Errors: VT_EINVAL (no swap was configured), VT_NOSPACE (the swap is full, or mappings),
// VT_EDEVICE, VT_ENOMEM; the sequence is then as before.
VT_API VT_NODISCARD vt_status vt_seq_swap_out(vt_seq *s);

// Brings it back. Changes nothing for a sequence that is not swapped out.
// Errors: VT_NOSPACE (budget), VT_EDEVICE (also: the swap holds other bytes than were written,
// which stats count as swap_corrupt; such a sequence can only be released), VT_ENOMEM; it then
// stays swapped out.
VT_API VT_NODISCARD vt_status vt_seq_swap_in(vt_seq *s);

// Plain reads; never fail. The base of a plane never changes while the sequence lives.
// Pre: plane < n_plane.
VT_API void *vt_seq_plane(const vt_seq *s, uint32_t plane);
VT_API size_t vt_seq_stride(const vt_seq *s);       // bytes from token to token
VT_API size_t vt_seq_plane_stride(const vt_seq *s); // bytes from plane to plane
VT_API uint32_t vt_seq_len(const vt_seq *s);        // tokens asked for by extend
VT_API uint32_t vt_seq_backed(const vt_seq *s);     // extend up to here is free and cannot fail
VT_API bool vt_seq_is_swapped(const vt_seq *s);
VT_API bool vt_seq_is_torn(const vt_seq *s);

// Physical bytes under a sequence of len_tok tokens that shares nothing: its chunks, whole. Never
// fails; a len_tok beyond max_tok counts as max_tok.
VT_API uint64_t vt_bytes_for(const vt_manager *m, uint32_t len_tok);

// ---- Ahead of need

// Asks for chunks up to len_tok (at most max_tok counts) to be made ready beside the caller, so
// that extend need not; `deadline` is the number of steps until they are needed: the nearest comes
// first. Answers at once. Draws on spare chunks and free budget; no prefix is evicted for it.
// Errors: VT_NOSPACE (budget, mappings, or too much is asked for already), VT_EINVAL (swapped out),
// VT_EDEVICE (an earlier prepare of this sequence has failed), VT_ENOMEM; extend works all the
// same.
VT_API VT_NODISCARD vt_status vt_seq_prepare(vt_seq *s, uint32_t len_tok, uint32_t deadline);

// Waits until what prepare was asked for is ready, or has failed: then with that error.
VT_API VT_NODISCARD vt_status vt_seq_wait(vt_seq *s);

// How vt_step looks ahead for every sequence alive.
typedef enum vt_ahead {
    VT_AHEAD_NONE = 0,
    VT_AHEAD_NEXT, // vAttention: the next token of each first, then n_tok more of each as there is
                   // time
    VT_AHEAD_SLACK // vTensor: less than n_tok tokens left in its chunks: n_tok more, due when the
                   // rest is used up at a token a step
} vt_ahead;

// Once per step of the engine, when the kernels have been given their work: takes over what the
// mapper has finished, unmaps what the device has done with, prepares the growth of the sequences,
// fills up spare chunks to spare_low_bytes and wipes those that are to be handed on. now_ms is the
// caller's clock, of any origin, which never goes back; retention is measured against it.
// Errors: VT_EDEVICE (something could not be unmapped; it is tried again).
VT_API VT_NODISCARD vt_status vt_step(vt_manager *m, vt_ahead policy, uint32_t n_tok,
                                      uint64_t now_ms);

// VT_MAPPER_OWNER: does up to max_jobs of the jobs that wait, the most urgent first; *n_left (may
// be NULL) is how many wait still. Otherwise only takes over what the mapper thread has finished.
VT_API void vt_work(vt_manager *m, uint32_t max_jobs, uint32_t *n_left);

// ---- Prefixes

// The domain with exactly this key (model, adapter, type of the cache, tenant: whatever must not
// mix). Each open is to be closed; prefixes stay when a domain is closed, until they are evicted,
// and are there again when it is opened.
// Errors: VT_EINVAL (key_bytes > 4096), VT_ENOMEM.
VT_API VT_NODISCARD vt_status vt_domain_open(vt_manager *m, const void *key, size_t key_bytes,
                                             vt_domain **out);
VT_API void vt_domain_close(vt_domain *d); // NULL is allowed

// How many of the first n_tok tokens are in the tree. Changes nothing, not even the order of
// eviction.
VT_API uint32_t vt_match(const vt_domain *d, const uint32_t *tok, uint32_t n_tok);

// A new sequence that begins with the longest recorded prefix of tok: *n_hit tokens, its length.
// Whole chunks are shared, of a partly matched one the rows are copied. *n_hit = 0 is a plain
// create.
// Errors: VT_EINVAL (n_tok > max_tok), and those of create and extend.
VT_API VT_NODISCARD vt_status vt_seq_match(vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                                           uint32_t expect_tok, vt_seq **out, uint32_t *n_hit);

// What is worth how much. Of two prefixes that nobody uses the one with the lower priority is
// evicted first, of equal ones that unused for longer.
enum { VT_MAX_PRIORITY = 7 };
typedef struct vt_retention {
    uint8_t priority;  // 0 (plain) .. VT_MAX_PRIORITY
    bool pinned;       // never evicted; all pins together may hold half of the budget at most
    uint64_t until_ms; // when both end, by the clock of vt_step; 0: never
} vt_retention;

// Puts the first n_tok tokens of s, which are `tok`, into the tree: their chunks are shared from
// now on. What of them is there already stays as it is. keep NULL: plain.
// Errors: VT_EINVAL (n_tok > length, swapped out, a domain of another manager, or priority),
// VT_NOSPACE (pins would hold too much: nothing is recorded), VT_EDEVICE (a torn sequence), VT_ENOMEM.
VT_API VT_NODISCARD vt_status vt_seq_record(vt_seq *s, vt_domain *d, const uint32_t *tok,
                                            uint32_t n_tok, const vt_retention *keep);

// Changes what the recorded part of tok is worth, and counts as use of it. *n_hit (may be NULL) as
// in vt_match. Prefixes that go on behind it keep their own worth.
// Errors: VT_EINVAL (priority), VT_NOSPACE (pins would hold too much), VT_ENOMEM.
VT_API VT_NODISCARD vt_status vt_retain(vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                                        const vt_retention *keep, uint32_t *n_hit);

// Forgets every prefix of the domain, pinned or not. What sequences use of them stays theirs.
// Errors: VT_EDEVICE (some chunks could not be given back yet; they are spare and counted).
VT_API VT_NODISCARD vt_status vt_domain_forget(vt_domain *d);

// ---- Memory

// Gives spare chunks back to the system until at most keep_bytes of them remain, the longest idle
// first; *freed_bytes (may be NULL) is what went back.
// Errors: VT_EDEVICE (what was given back by then stays given back and counted).
VT_API VT_NODISCARD vt_status vt_trim(vt_manager *m, uint64_t keep_bytes, uint64_t *freed_bytes);

// Evicts prefixes that nobody uses, the least worth keeping first, until want_bytes have gone back
// to the system or none is left; *freed_bytes (may be NULL) is what went back. Errors: as vt_trim.
VT_API VT_NODISCARD vt_status vt_evict(vt_manager *m, uint64_t want_bytes, uint64_t *freed_bytes);

// X(name, help): every counter and gauge there is, in one list.
#define VT_STATS(X)                                                               \
    X(budget_bytes, "physical memory the manager may use")                        \
    X(chunk_bytes, "bytes of one chunk, all its slices together")                 \
    X(chunks_created, "chunks backed by physical memory now")                     \
    X(chunks_owned, "of them, held by one sequence alone")                        \
    X(chunks_shared, "of them, held by a sequence and by others or the tree")     \
    X(chunks_cached, "of them, held by the prefix tree alone")                    \
    X(chunks_spare, "of them, kept for the next sequence")                        \
    X(chunks_swapped, "chunks whose content is in the swap; not in created")      \
    X(mapped_bytes, "physical memory in use: chunks_created x chunk_bytes")       \
    X(live_bytes, "bytes that hold tokens, shared rows once for each sequence")   \
    X(slack_bytes, "bytes of owned chunks beyond the sequences' lengths")         \
    X(peak_mapped_bytes, "largest mapped_bytes so far")                           \
    X(peak_live_bytes, "largest live_bytes so far")                               \
    X(seqs, "sequences alive")                                                    \
    X(mappings, "runs of neighbouring chunks mapped now, over all planes")        \
    X(max_mappings, "runs the backend allows at once")                            \
    X(map_calls, "calls of the backend's map so far")                             \
    X(unmap_calls, "calls of the backend's unmap so far")                         \
    X(create_calls, "calls of the backend's create so far")                       \
    X(destroy_calls, "calls of the backend's destroy so far")                     \
    X(nospace, "operations answered VT_NOSPACE so far")                           \
    X(device_errors, "backend calls answered VT_EDEVICE so far")                  \
    X(prefix_nodes, "nodes of the prefix tree now")                               \
    X(prefix_tok, "tokens in the prefix tree now")                                \
    X(prefix_evicted, "nodes evicted, or cut shorter, so far")                    \
    X(match_calls, "calls of vt_seq_match so far")                                \
    X(match_tok, "tokens asked for in them")                                      \
    X(hit_tok, "tokens found in them")                                            \
    X(copied_chunks, "chunks copied since a shared tail was extended or matched") \
    X(ready_hits, "extends into new chunks that found them prepared")             \
    X(ready_misses, "extends into new chunks that had to map them")               \
    X(jobs, "jobs done ahead so far")                                             \
    X(job_failures, "of them, failed")                                            \
    X(swap_bytes, "room in the swap")                                             \
    X(swap_out_chunks, "chunks written to the swap so far")                       \
    X(swap_in_chunks, "chunks read back so far")                                  \
    X(swap_corrupt, "chunks that came back with other bytes so far")

typedef struct vt_stats {
#define VT_STATS_FIELD(name, help) uint64_t name;
    VT_STATS(VT_STATS_FIELD)
#undef VT_STATS_FIELD
} vt_stats;

VT_API void vt_get_stats(const vt_manager *m, vt_stats *out);

// Proves the invariants: owned + shared + cached + spare = created, each count of holders, each
// span's map, the prefix tree, and that the system holds and maps just as much. Slow; for tests,
// debug builds and idle moments. VT_OK; VT_EINVAL with the first broken invariant in *what (a
// static string; may be NULL); VT_EDEVICE if the backend cannot tell. Waits for the mapper first.
VT_API VT_NODISCARD vt_status vt_check(vt_manager *m, const char **what);

typedef enum vt_chunk_state {
    VT_CHUNK_ABSENT = 0, // no memory
    VT_CHUNK_SPARE,      // memory that nobody holds
    VT_CHUNK_CACHED,     // held by the prefix tree alone
    VT_CHUNK_OWNED,      // held by one sequence alone
    VT_CHUNK_SHARED,     // held by a sequence and by others or the tree
    VT_N_CHUNK_STATE
} vt_chunk_state;

typedef struct vt_chunk_info {
    uint64_t index; // name of the chunk in the backend
    vt_chunk_state state;
    uint32_t n_seq;  // sequences that hold it
    uint32_t n_node; // nodes of the prefix tree that do
} vt_chunk_info;

typedef struct vt_span_info {
    void *plane0; // base of plane 0
    bool is_live; // a sequence lives here
    bool is_swapped;
    uint32_t len_tok;
    uint32_t n_chunk;  // positions that hold tokens of the sequence
    uint32_t n_mapped; // positions mapped, those of spare chunks with them
    uint32_t n_run;    // runs of neighbouring chunks, in each view
} vt_span_info;

// A picture of every chunk that has memory and every span, for tools and pages; one block, freed
// with vt_snapshot_free.
typedef struct vt_snapshot {
    uint64_t n_chunk;
    uint32_t n_span;
    uint32_t n_position;        // chunks that a span has room for
    const vt_chunk_info *chunk; // [n_chunk] by index
    const vt_span_info *span;   // [n_span]
    const uint64_t *at; // [n_span, n_position] index of the chunk mapped there, or UINT64_MAX
} vt_snapshot;

// Errors: VT_ENOMEM.
VT_API VT_NODISCARD vt_status vt_snapshot_take(const vt_manager *m, vt_snapshot **out);
VT_API void vt_snapshot_free(vt_snapshot *snap); // NULL is allowed

// "VT_OK", "VT_NOSPACE", ...
VT_API const char *vt_status_name(vt_status st);

#ifdef __cplusplus
}
#endif
#endif
