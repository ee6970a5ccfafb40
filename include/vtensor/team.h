// team.h - the same operation on the managers of a tensor-parallel group ("team"), all or nothing:
// one manager for each rank, or for each device of a pipeline, driven by one thread.
//
// The ranks of a team hold the same sequences, each its own part of every row (its heads, or its
// layers). A sequence that is longer in one rank than in another cannot be computed with; so an
// operation that fails in one rank is undone in the others, and lengths never differ. The managers
// may have different budgets, planes and backends: the team can serve what the rank with the least
// memory can.
//
//     vt_manager *m[2] = {...};  vt_team *t;  vt_team_domain *d;  vt_team_seq *s;  uint32_t n_hit;
//     vt_team_create(m, 2, &t);
//     vt_team_domain_open(t, "my-model", 8, &d);
//     vt_team_seq_match(d, prompt, n_prompt, 0, &s, &n_hit); // the same n_hit on all ranks
//     if (vt_team_seq_extend(s, n_prompt) == VT_OK) ...      // on all of them, or on none
//     vt_seq_plane(vt_team_seq_rank(s, 1), 0);               // rows of rank 1
//
// Functions are those of vtensor.h with the same name, pre-conditions and errors, unless their
// comment says otherwise; the error is that of the first rank that failed. Where undoing fails
// as well (the device failed twice), the sequence is lost: it can only be released.
//
// While a team exists, sequences, domains and budgets of its managers are changed only through it.
// Statistics, snapshots, events and vt_check of each manager work as before.
#ifndef VTENSOR_TEAM_H
#define VTENSOR_TEAM_H

#include "vtensor/vtensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vt_team vt_team;
typedef struct vt_team_seq vt_team_seq;
typedef struct vt_team_domain vt_team_domain;

enum { VT_MAX_RANK = 64 };

// The managers stay the caller's and must outlive the team. Errors: VT_EINVAL (n is 0 or above
// VT_MAX_RANK, or a manager is named twice), VT_ENOMEM.
VT_API VT_NODISCARD vt_status vt_team_create(vt_manager *const *m, uint32_t n, vt_team **out);

// Releases all sequences and closes all domains of the team. NULL is allowed.
VT_API void vt_team_destroy(vt_team *t);

VT_API uint32_t vt_team_n_rank(const vt_team *t);
VT_API vt_manager *vt_team_manager(const vt_team *t, uint32_t rank); // Pre: rank < n_rank

// ---- Sequences

// Creates a sequence of length 0 in every rank.
VT_API VT_NODISCARD vt_status vt_team_seq_create(vt_team *t, uint32_t expect_tok,
                                                 vt_team_seq **out);

// VT_EINVAL also: swapped out in any rank.
VT_API VT_NODISCARD vt_status vt_team_seq_extend(vt_team_seq *s, uint32_t len_tok);
VT_API VT_NODISCARD vt_status vt_team_seq_extend_many(vt_team_seq *const *seq,
                                                      const uint32_t *len_tok, uint32_t n,
                                                      uint32_t *n_done);
VT_API VT_NODISCARD vt_status vt_team_seq_fork(vt_team_seq *s, uint32_t len_tok, vt_team_seq **out);
VT_API VT_NODISCARD vt_status vt_team_seq_truncate(vt_team_seq *s, uint32_t len_tok);
VT_API void vt_team_seq_release(vt_team_seq *s); // NULL is allowed

// VT_BUSY while a rank is on its way, as in vt_seq_swap_out. If a rank fails, the others turn
// round, and the call answers VT_BUSY until they have arrived, then the failure. (vt_team_seq_wait
// waits.)
VT_API VT_NODISCARD vt_status vt_team_seq_swap_out(vt_team_seq *s);
VT_API VT_NODISCARD vt_status vt_team_seq_swap_in(vt_team_seq *s);

VT_API vt_seq *vt_team_seq_rank(const vt_team_seq *s, uint32_t rank); // for planes and strides
VT_API uint32_t vt_team_seq_len(const vt_team_seq *s);
VT_API uint32_t vt_team_seq_backed(const vt_team_seq *s); // the least of the ranks
VT_API bool vt_team_seq_is_swapped(const vt_team_seq *s);
VT_API bool vt_team_seq_is_lost(const vt_team_seq *s);

// Calls fn for every sequence of the team, the newest first. fn must not call the team; false ends
// the walk.
VT_API void vt_team_seq_each(const vt_team *t, bool (*fn)(void *ud, vt_team_seq *s), void *ud);

// ---- Ahead of need

// vt_seq_prepare and vt_seq_wait of every rank. What some have prepared when another fails stays
// so.
VT_API VT_NODISCARD vt_status vt_team_seq_prepare(vt_team_seq *s, uint32_t len_tok,
                                                  uint32_t deadline);
// Waits for the memory that was requested in every rank.
VT_API VT_NODISCARD vt_status vt_team_seq_wait(vt_team_seq *s);

// Every rank takes its step, whatever happens in another.
VT_API VT_NODISCARD vt_status vt_team_step(vt_team *t, vt_ahead policy, uint32_t n_tok,
                                           uint64_t now_ms);

// ---- Prefixes

VT_API VT_NODISCARD vt_status vt_team_domain_open(vt_team *t, const void *key, size_t key_bytes,
                                                  vt_team_domain **out);
VT_API void vt_team_domain_close(vt_team_domain *d); // NULL is allowed
VT_API void vt_team_domain_forget(vt_team_domain *d);
VT_API vt_domain *vt_team_domain_rank(const vt_team_domain *d, uint32_t rank);

// The longest prefix of tok that all ranks can serve. Ranks evict on their own, so one may have
// more.
VT_API uint32_t vt_team_match(const vt_team_domain *d, const uint32_t *tok, uint32_t n_tok);
VT_API VT_NODISCARD vt_status vt_team_seq_match(vt_team_domain *d, const uint32_t *tok,
                                                uint32_t n_tok, uint32_t expect_tok,
                                                vt_team_seq **out, uint32_t *n_hit);

// If a rank fails, what others have recorded stays in their trees until it is evicted; nothing of
// it is found by a match, since not all ranks have it, and its retention is taken off.
VT_API VT_NODISCARD vt_status vt_team_seq_record(vt_team_seq *s, vt_team_domain *d,
                                                 const uint32_t *tok, uint32_t n_tok,
                                                 const vt_retention *keep);

// ---- Memory

// budget_bytes: [n_rank]. If a rank fails, the others get their budgets back, but not the prefixes
// that they have evicted.
VT_API VT_NODISCARD vt_status vt_team_set_budget(vt_team *t, const uint64_t *budget_bytes);

// want_bytes and keep_bytes are for each rank; *freed_bytes (may be NULL) is the sum. Every rank is
// asked, whatever happens in another.
VT_API VT_NODISCARD vt_status vt_team_evict(vt_team *t, uint64_t want_bytes, uint64_t *freed_bytes);
VT_API VT_NODISCARD vt_status vt_team_trim(vt_team *t, uint64_t keep_bytes, uint64_t *freed_bytes);

// vt_give_back on all ranks, keep_bytes on each; and vt_aim_budget, as vt_team_set_budget.
VT_API void vt_team_give_back(vt_team *t, uint64_t keep_bytes, bool forget);
VT_API VT_NODISCARD vt_status vt_team_aim_budget(vt_team *t, const uint64_t *budget_bytes);

// vt_check of all ranks, and that every sequence that is not lost has one length in all of them.
VT_API VT_NODISCARD vt_status vt_team_check(vt_team *t, const char **what);

#ifdef __cplusplus
}
#endif
#endif
