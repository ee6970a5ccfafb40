// gram_auto.h - runs a grammar over bytes, one at a time: a pushdown automaton that is made
// deterministic as it runs.
//
// A state is a set of stacks (gram_stacks.h) whose tops wait for a byte. A step takes the stacks
// whose tops accept the byte and advances them until every top waits for a byte again; the result
// is a state. It is computed once, then read from a table [state][class]; bytes that no part of the
// grammar distinguishes are one class. Nothing is undone and no input is read twice.
//
// Every state can be continued to a text that matches: parts of the grammar that match nothing are
// never entered, so a text is never led into a dead end. Only a limit can end it (see the errors of
// fxi_auto_step).
//
// One thread at a time; several texts may be in progress, each with its state number.
#ifndef FXI_GRAMMAR_AUTO_H
#define FXI_GRAMMAR_AUTO_H

#include "grammar/syntax/gram.h"

typedef struct fxi_auto fxi_auto;

enum { FXI_AUTO_DEAD = 0 }; // the state after a text that no match begins with
#define FXI_AUTO_UNKNOWN UINT32_MAX

// `g` is finished and outlives the automaton. At most max_set sets of stacks (states, and what lies
// below them) are kept. Errors: FX_ENOMEM, and those of fxi_auto_step for the first state.
fx_status fxi_auto_make(const fxi_gram *g, size_t max_set, fxi_auto **out, fx_error *err);
void fxi_auto_free(fxi_auto *a); // NULL is allowed

uint32_t fxi_auto_start(const fxi_auto *a);
// The state after one more byte; FXI_AUTO_DEAD: no match continues so. Errors: FX_EINVAL (nested
// too deeply, too many states, or too ambiguous), FX_ENOMEM, FX_ENOSPACE (see
// fxi_auto_limit_steps); the automaton stays usable.
fx_status fxi_auto_step(fxi_auto *a, uint32_t state, uint8_t byte, uint32_t *next, fx_error *err);
// The known states after one more byte, by its class; FXI_AUTO_UNKNOWN where fxi_auto_step has yet
// to compute one. Valid until its next call. NULL: none are known.
const uint32_t *fxi_auto_moves(const fxi_auto *a, uint32_t state);

bool fxi_auto_is_final(const fxi_auto *a, uint32_t state);      // the text so far matches
fxi_byte_set fxi_auto_bytes(const fxi_auto *a, uint32_t state); // that may come next
// The only byte that may come next, if the text cannot end here; else -1.
int fxi_auto_forced(const fxi_auto *a, uint32_t state);
// Appends the bytes that must come next, at most max_bytes of them, and advances *state past them.
// Errors: those of fxi_auto_step; *out and *state are then those of the last byte that succeeded.
fx_status fxi_auto_forced_text(fxi_auto *a, uint32_t *state, size_t max_bytes, fxi_buf *out,
                               fx_error *err);

// [256] the class of each byte: bytes of one class lead to the same states from every state.
const uint8_t *fxi_auto_classes(const fxi_auto *a);

size_t fxi_auto_n_work(const fxi_auto *a);  // steps that all moves have taken so far
size_t fxi_auto_n_set(const fxi_auto *a);   // states and other sets of stacks so far
size_t fxi_auto_n_bytes(const fxi_auto *a); // memory that it holds, without its grammar
// A move that takes more steps fails with FX_ENOSPACE. 0: no limit but that on ambiguity.
void fxi_auto_limit_steps(fxi_auto *a, size_t max_step);

// ---- normalized states --------------------------------------------------------------------------
//
// A string of up to 1000 characters has 1000 states, one for each count, and while the maximum is
// far they all allow the same tokens. Within `reach` bytes a repeat makes at most `reach` rounds,
// so where neither its maximum nor its minimum can be reached the count does not matter.
// Normalizing drops such counts: all those states have one normalized state.

typedef struct fxi_auto_normals { // of one automaton; all zero but for reach: nothing is known
    uint32_t reach;               // bytes
    uint32_t *of;                 // [n] of a set: the normalized one, 0: not known
    size_t n, cap;
} fxi_auto_normals;

void fxi_auto_normals_free(fxi_auto_normals *m);

// The normalized state if it was computed before; 0: not yet.
static inline uint32_t fxi_auto_normal_known(const fxi_auto_normals *m, uint32_t state)
{
    return state < m->n ? m->of[state] : 0;
}

// *out: a state that the same texts of up to `reach` bytes continue; often this one. Errors: as
// fxi_auto_step.
fx_status fxi_auto_normalize(fxi_auto *a, fxi_auto_normals *m, uint32_t state, uint32_t *out,
                             fx_error *err);

// ---- characters beyond ASCII --------------------------------------------------------------------

// All of them as sequences of bytes: by the first byte, what the second may be, and how many
// continuation bytes follow it.
typedef struct fxi_utf8_row {
    uint8_t first_lo, first_hi, second_lo, second_hi;
    uint8_t n_more;
} fxi_utf8_row;

enum { FXI_N_UTF8_ROW = 8 };
extern const fxi_utf8_row fxi_utf8_rows[FXI_N_UTF8_ROW];

// Whether every character beyond ASCII leads from this state where this ASCII byte leads, judged by
// the grammar alone, without a move. False: it may be so nevertheless.
bool fxi_auto_wide_like_ascii(const fxi_auto *a, uint32_t state, uint8_t ascii);

#endif
