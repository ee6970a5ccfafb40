// sequence.h - shared by the files that implement vtensor.h and team.h; grouped by the defining
// file, the lowest first. team.c calls those that say beforehand what a call would answer, or undo
// one.
#ifndef VTI_SEQUENCE_H
#define VTI_SEQUENCE_H

#include "vtensor/operations/operations.h"

// seq_life.c
// Creates a sequence of length 0 that will alias the chunks of alias_tok tokens. Does not count
// shortages. Errors: as vt_seq_create.
vt_status vti_seq_make(vt_manager *m, uint32_t expect_tok, uint32_t alias_tok, vt_seq **out);
void vti_seq_set_len(vt_seq *s, uint32_t len_tok);
void vti_seq_set_node(vt_seq *s, vti_node *node); // references it; NULL: none
void vti_seq_count_slack(vt_seq *s);              // it has grown, left or come back
uint64_t vti_seq_live_bytes(const vt_seq *s);
uint64_t vti_seq_slack_bytes(const vt_seq *s);
uint32_t vti_seq_mapped_tok(const vt_seq *s); // tokens that the mapped chunks have room for
void vti_move_end(vt_seq *s);                 // Pre: it is moving, and nothing of it is in flight
// What a record could not share yet: keeps tokens [first, n_tok) for the release. Errors:
// VT_ENOMEM.
vt_status vti_pending_set(vt_seq *s, vt_domain *d, uint32_t first, const uint32_t *tok,
                          uint32_t n_tok, const vt_retention *keep);
void vti_pending_drop(vti_pending *p);

// seq_extend.c
// Whether there is room for what is unmapped of len_tok tokens; no prefix is evicted for it yet.
// Errors: VT_NOSPACE, VT_BUSY.
vt_status vti_seq_room(vt_seq *s, uint32_t len_tok);
// Backs all lanes for len_tok tokens, and lets them hold the chunks; the length stays. Errors: as
// vt_seq_extend.
vt_status vti_seq_grow(vt_seq *s, uint32_t len_tok);
// What vt_seq_truncate would answer: VT_OK, VT_EINVAL or VT_EDEVICE.
vt_status vti_seq_can_truncate(const vt_seq *s, uint32_t len_tok);
// An extend in two halves: what may fail, as vt_seq_extend fails, and what cannot. Between the two
// the length is what it was, no window has passed anything, and it can be undone; a state keeps
// its bytes. Errors of that: VT_EDEVICE (the sequence is lost). Pre: len_tok is above the length.
vt_status vti_seq_extend_begin(vt_seq *s, uint32_t len_tok);
void vti_seq_extend_end(vt_seq *s, uint32_t len_tok);
vt_status vti_seq_extend_cancel(vt_seq *s);

// seq_share.c
// What vt_seq_fork would answer, but for shortages and failures of the backend.
vt_status vti_seq_can_fork(const vt_seq *s, uint32_t len_tok);
// Takes a record back: what it kept for the release is dropped, and the retention that it gave is
// taken off. What it has shared stays in the tree.
void vti_seq_unrecord(vt_seq *s, vt_domain *d, const uint32_t *tok, uint32_t n_tok, bool retained);

// seq_swap.c
void vti_moves_continue(vt_manager *m); // all sequences on their way, as far as they come now
// Where memory is short: gives up at once some of what a sequence moving out has written.
// False: there is nothing.
bool vti_moves_yield(vt_manager *m);
// Waits until the sequence has arrived. Errors: those of the call that it began with.
vt_status vti_move_wait(vt_seq *s); // Pre: it is moving
// Waits until a moving sequence has arrived; how it ended is still to be
// asked. Does nothing otherwise.
void vti_seq_arrive(vt_seq *s);
uint64_t vti_coming_bytes(const vt_manager *m); // what sequences on their way out hold still

// look_ahead.c: whether a step has nothing to do for a span
bool vti_span_is_done(const vt_manager *m, const vti_span *sp);

// manager.c
void vti_stats_publish(vt_manager *m);

#endif
