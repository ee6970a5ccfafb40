// gram_auto.h - runs a form over bytes, one at a time: a pushdown automaton that is made
// deterministic as it goes.
//
// A state is a set of stacks (gram_stacks.h) whose tops wait for a byte. A byte takes from a state
// the stacks whose tops accept it, moves them on until every top waits for a byte again, and the
// result is a state. It is found once, then read from a table [state][class], where bytes that no
// part of the form tells apart are of one class. Nothing is ever undone and no input is read twice.
//
// Every state can be continued to a text that matches: parts of the form that match nothing are
// never entered, so an answer is never led into a dead end. Only a limit can end it: the errors of
// fxi_auto_step.
//
// One thread at a time; several texts may be in progress, each with its state number.
#ifndef FXI_GRAMMAR_AUTO_H
#define FXI_GRAMMAR_AUTO_H

#include "grammar/form/gram_form.h"

struct fxi_gram_stacks;
struct fxi_gram_near;

typedef struct fxi_auto fxi_auto;

enum { FXI_AUTO_DEAD = 0 }; // the state after a text that no match begins with
#define FXI_AUTO_UNKNOWN UINT32_MAX

// `form` is finished and outlives the automaton; at most max_set sets of stacks (states, and what
// lies below them) are kept. Errors: FX_ENOMEM, and those of fxi_auto_step for the first state.
fx_status fxi_auto_make(const fxi_gram *form, size_t max_set, fxi_auto **out, fx_error *err);
void fxi_auto_free(fxi_auto *a); // NULL is allowed

uint32_t fxi_auto_start(const fxi_auto *a);
// The state after one more byte: FXI_AUTO_DEAD if no match goes on so. Errors: FX_EINVAL (nested
// too deeply, too many states, or too ambiguous to be followed), FX_ENOMEM; the automaton stays
// usable.
fx_status fxi_auto_step(fxi_auto *a, uint32_t state, uint8_t byte, uint32_t *next, fx_error *err);
// The same for many bytes: the states after one more byte, by its class; those that are not known
// are FXI_AUTO_UNKNOWN, and fxi_auto_step finds them. Valid until the next call of that. NULL: none
// are known.
const uint32_t *fxi_auto_moves(const fxi_auto *a, uint32_t state);
// A state from which the same texts go on, up to near->reach bytes (gram_near.h); often this one.
// Errors: as fxi_auto_step.
fx_status fxi_auto_near(fxi_auto *a, struct fxi_gram_near *near, uint32_t state, uint32_t *out,
                        fx_error *err);
// Whether the text so far matches.
bool fxi_auto_is_final(const fxi_auto *a, uint32_t state);
// The bytes that may come next.
fxi_byte_set fxi_auto_bytes(const fxi_auto *a, uint32_t state);
// The one byte that may come next, if the text cannot end here; otherwise -1.
int fxi_auto_forced(const fxi_auto *a, uint32_t state);

// [256] the class of each byte: bytes of one class lead to the same states from every state.
const uint8_t *fxi_auto_classes(const fxi_auto *a);
size_t fxi_auto_n_work(const fxi_auto *a); // steps that all moves have taken so far
// A move that takes more steps is not made: FX_ENOSPACE. 0: all that are not too ambiguous are.
void fxi_auto_set_patience(fxi_auto *a, size_t max_step);
size_t fxi_auto_n_set(const fxi_auto *a);   // states and other sets of stacks so far
size_t fxi_auto_n_bytes(const fxi_auto *a); // memory that it holds, its form left out

// What it is made of: for those who look at a state as a set of stacks, its number.
const fxi_gram *fxi_auto_form(const fxi_auto *a);
const struct fxi_gram_stacks *fxi_auto_stacks(const fxi_auto *a);

#endif
