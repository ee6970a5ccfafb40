// seq_undo.h - what team/ needs of a sequence beside vtensor.h, to know before it acts, and to take
// back what it did.
#ifndef VTI_SEQ_UNDO_H
#define VTI_SEQ_UNDO_H

#include "vtensor/vtensor.h"

// What vt_seq_truncate would answer: VT_OK, VT_EINVAL or VT_EDEVICE.
vt_status vti_seq_can_truncate(const vt_seq *s, uint32_t len_tok);

// What vt_seq_fork would answer, but for shortages and failures of the backend.
vt_status vti_seq_can_fork(const vt_seq *s, uint32_t len_tok);

// An extend in two halves: what may fail, as vt_seq_extend fails, and what cannot. Between the two
// the length is what it was, no window has passed anything, and it can be taken back; a state keeps
// its bytes. Errors of that: VT_EDEVICE (the sequence is lost). Pre: len_tok is above the length.
vt_status vti_seq_extend_begin(vt_seq *s, uint32_t len_tok);
void vti_seq_extend_end(vt_seq *s, uint32_t len_tok);
vt_status vti_seq_extend_cancel(vt_seq *s);

// Waits until a sequence on its way to the swap or back has arrived; how it ended is still to be
// asked. Does nothing otherwise.
void vti_seq_arrive(vt_seq *s);

// Takes a record back: what it kept for the release is dropped, and the retention that it gave is
// taken off. What it has shared stays in the tree.
void vti_seq_unrecord(vt_seq *s, vt_domain *d, const uint32_t *tok, uint32_t n_tok, bool retained);

#endif
