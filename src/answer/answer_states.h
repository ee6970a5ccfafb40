// answer_states.h - the states of an answer, and what those of harmony share with the others.
#ifndef FXI_ANSWER_STATES_H
#define FXI_ANSWER_STATES_H

#include "answer/answer_impl.h"

enum {
    FXI_STATE_START,
    FXI_STATE_TEXT,
    FXI_STATE_REASON,
    FXI_STATE_FIRST,
    FXI_STATE_OPEN,
    FXI_STATE_CALL,
    FXI_STATE_LIST,
    FXI_STATE_BETWEEN,
    FXI_STATE_HEADER,
};

// ---- answer_emit.c ------------------------------------------------------------------------------

// All before `at` is decided.
void fxi_answer_settle(fxi_answer *a, size_t at);
// Enters a state with what was said before it complete: white space between is not emitted.
void fxi_answer_enter(fxi_answer *a, int state);
// What was being read is no call: its bytes up to `to` are text. False: out of memory.
bool fxi_answer_break(fxi_answer *a, size_t to);

// ---- answer_channels.c: a byte of a message's header; false: out of memory ----------------------

bool fxi_answer_take_header(fxi_answer *a);

#endif
