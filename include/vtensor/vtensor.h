// vtensor.h - libvtensor: a KV-cache memory manager in which each sequence is one contiguous range
// of addresses.
//
//     vt_config cfg = vt_config_default();
//     cfg.n_plane = 2 * n_layer;  cfg.row_bytes = n_kv_head * head_dim * 2;  cfg.max_tok = 4096;
//     cfg.max_seq = 64;           cfg.budget_bytes = 4ull << 30;
//     vt_manager *m;  vt_seq *s;
//     vt_manager_create(&cfg, &m);
//     vt_seq_create(m, &s);
//     vt_seq_extend(s, 100);                       // tokens 0..99 are backed now
//     char *k = vt_seq_plane(s, 2 * layer);        // row of token t: k + t * vt_seq_stride(s)
//     vt_seq_release(s);  vt_manager_destroy(m);
//
// The ideas: vTensor / FlexInfer (arXiv 2407.15309). The manager knows no model: only planes (a K
// and a V for each layer), bytes per token and plane, and tokens.
//
// Laws. Every operation is all or nothing. VT_NOSPACE is a normal answer. Beyond a sequence's
// length nothing readable is mapped but its own or zeroed memory; what lies there is not the
// sequence's to write. The accounting is exact and vt_check proves it. The library never prints,
// exits, aborts (release builds) or throws.
//
// Threads. All calls on one manager come from one thread, its owner.
#ifndef VTENSOR_H
#define VTENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "vtensor/status.h"
#include "vtensor/vmm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vt_manager vt_manager; // owned by one thread
typedef struct vt_seq vt_seq;         // belongs to its manager, same thread

// Where the bytes of token t, plane p of a sequence lie:
//   SPLIT   base + p x plane_stride + t x row_bytes          a span of addresses for each plane
//   PACKED  base + t x n_plane x row_bytes + p x row_bytes   one span, the planes of a token side
//                                                            by side
typedef enum vt_layout { VT_LAYOUT_SPLIT = 0, VT_LAYOUT_PACKED } vt_layout;

typedef struct vt_config {
    uint32_t n_plane;      // 2 x layers
    size_t row_bytes;      // bytes per token per plane
    uint32_t max_tok;      // longest sequence, in tokens: fixes the span's size
    uint32_t max_seq;      // sequences alive at once
    uint64_t budget_bytes; // physical memory at most
    vt_layout layout;
    size_t slice_bytes; // bytes of a chunk in each plane (SPLIT) or in all (PACKED), a multiple of
                        // the backend's granularity; 0: the smallest that holds 32 tokens
    uint64_t spare_bytes; // chunks of released sequences kept for the next ones, at most; the rest
                          // goes back to the system at release. UINT64_MAX: all, until vt_trim
    vt_vmm *vmm;          // backend, fresh; owned by the manager from a successful create on;
                          // NULL: the host
} vt_config;

// All zero but spare_bytes = UINT64_MAX.
VT_API vt_config vt_config_default(void);

// Makes a manager: reserves addresses lazily, allocates no physical memory.
// Errors: VT_EINVAL (a zero where none may be, sizes that overflow, a slice that is no multiple of
// the granularity), VT_NOSPACE (a budget smaller than one chunk), VT_ENOMEM, VT_EDEVICE. On error
// *out is NULL and cfg->vmm stays the caller's, as fresh as it was.
VT_API VT_NODISCARD vt_status vt_manager_create(const vt_config *cfg, vt_manager **out);

// Releases all sequences and returns all memory. NULL is allowed. Pointers into sequences are dead
// afterwards.
VT_API void vt_manager_destroy(vt_manager *m);

// A new sequence of length 0 with a span of its own. The span of a released sequence is used again,
// one that still has its (zeroed) chunks before one that has none.
// Errors: VT_NOSPACE (max_seq are alive, or no addresses left), VT_ENOMEM, VT_EDEVICE.
VT_API VT_NODISCARD vt_status vt_seq_create(vt_manager *m, vt_seq **out);

// Makes tokens [0, len_tok) of the sequence backed memory. A byte this sequence has not written
// reads as zero. len_tok below the present length is allowed and changes nothing. Spare chunks are
// given back to the system where the budget or the mappings would not suffice otherwise.
// Errors: VT_EINVAL (len_tok > max_tok), VT_NOSPACE (budget, or the system's limit of mappings),
// VT_EDEVICE; the sequence is then as before. Running out of budget costs no spare chunk either.
VT_API VT_NODISCARD vt_status vt_seq_extend(vt_seq *s, uint32_t len_tok);

// Ends a sequence: its chunks become spare (or go back to the system beyond spare_bytes), its span
// is recycled. A chunk is zero again before another sequence sees it. NULL is allowed.
VT_API void vt_seq_release(vt_seq *s);

// Plain reads; never fail. The base of a plane never changes while the sequence lives.
// Pre: plane < n_plane.
VT_API void *vt_seq_plane(const vt_seq *s, uint32_t plane);
VT_API size_t vt_seq_stride(const vt_seq *s);       // bytes from token to token
VT_API size_t vt_seq_plane_stride(const vt_seq *s); // bytes from plane to plane
VT_API uint32_t vt_seq_len(const vt_seq *s);        // tokens asked for by extend
VT_API uint32_t vt_seq_backed(const vt_seq *s);     // tokens that fit the sequence's own chunks:
                                                    // extend up to here is free and cannot fail

// Physical bytes under a sequence of len_tok tokens: its chunks, whole. Never fails; a len_tok
// beyond max_tok counts as max_tok.
VT_API uint64_t vt_bytes_for(const vt_manager *m, uint32_t len_tok);

// Gives spare chunks back to the system until at most keep_bytes of them remain, the longest idle
// first; *freed_bytes (may be NULL) is what went back.
// Errors: VT_EDEVICE (what was given back by then stays given back and counted).
VT_API VT_NODISCARD vt_status vt_trim(vt_manager *m, uint64_t keep_bytes, uint64_t *freed_bytes);

// X(name, help): every counter and gauge there is, in one list.
#define VT_STATS(X)                                                              \
    X(budget_bytes, "physical memory the manager may use")                       \
    X(chunk_bytes, "bytes of one chunk, all its slices together")                \
    X(chunks_created, "chunks backed by physical memory now")                    \
    X(chunks_owned, "of them, mapped into one sequence")                         \
    X(chunks_spare, "of them, kept for the next sequence")                       \
    X(mapped_bytes, "physical memory in use: chunks_created x chunk_bytes")      \
    X(live_bytes, "bytes that hold tokens: sum of length x n_plane x row_bytes") \
    X(slack_bytes, "bytes of owned chunks beyond the sequences' lengths")        \
    X(peak_mapped_bytes, "largest mapped_bytes so far")                          \
    X(peak_live_bytes, "largest live_bytes so far")                              \
    X(seqs, "sequences alive")                                                   \
    X(mappings, "runs of neighbouring chunks mapped now, over all planes")       \
    X(max_mappings, "runs the backend allows at once")                           \
    X(map_calls, "calls of the backend's map so far")                            \
    X(unmap_calls, "calls of the backend's unmap so far")                        \
    X(create_calls, "calls of the backend's create so far")                      \
    X(destroy_calls, "calls of the backend's destroy so far")                    \
    X(nospace, "operations answered VT_NOSPACE so far")                          \
    X(device_errors, "backend calls answered VT_EDEVICE so far")

typedef struct vt_stats {
#define VT_STATS_FIELD(name, help) uint64_t name;
    VT_STATS(VT_STATS_FIELD)
#undef VT_STATS_FIELD
} vt_stats;

VT_API void vt_get_stats(const vt_manager *m, vt_stats *out);

// Proves the invariants: owned + spare = created, each chunk has one place, the spans' maps agree
// with the chunks, and the backend's resident bytes equal mapped_bytes. Slow; for tests, debug
// builds and idle moments. VT_OK; VT_EINVAL with the first broken invariant in *what (a static
// string; may be NULL); VT_EDEVICE if the backend cannot tell.
VT_API VT_NODISCARD vt_status vt_check(const vt_manager *m, const char **what);

// "VT_OK", "VT_NOSPACE", ...
VT_API const char *vt_status_name(vt_status st);

#ifdef __cplusplus
}
#endif
#endif
