// answer.h - an answer as it comes from a model, taken apart: text, reasoning, calls of tools.
//
//   bytes -> answer.c (marks: where reasoning and calls begin and end) -> events, in order
//              call_object.c, call_head.c, call_tags.c, call_python.c (one call)
//              answer_channels.c (harmony's messages)
//              answer_emit.c (events)
//
// Every byte is taken alone, so the events do not depend on how the text is cut: neighbouring
// pieces of one kind, joined, are the same. What looks like the beginning of a mark waits for the
// bytes that decide it.
//
// A call is emitted once its name is known and its arguments begin. Its arguments are one JSON
// object, whatever the format. What turns out to be no call is text: nothing of an answer is lost.
// Marks and the white space around reasoning and calls are not emitted.
//
// One owner, no locks.
#ifndef FXI_ANSWER_H
#define FXI_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "answer/call_format.h"

typedef enum fxi_answer_kind {
    FXI_ANSWER_TEXT,
    FXI_ANSWER_REASONING,
    FXI_ANSWER_CALL,   // a call begins: p is its tool's name
    FXI_ANSWER_ARGS,   // a piece of its arguments
    FXI_ANSWER_DONE,   // it is complete
    FXI_ANSWER_BROKEN, // it is none after all: p is all of it as text
} fxi_answer_kind;

typedef struct fxi_answer_event {
    fxi_answer_kind kind;
    const char *p; // [n] not NUL-terminated; valid during the callback
    size_t n;
    const char *id; // CALL: what the model calls it; n_id 0: nothing
    size_t n_id;
    size_t n_emitted; // BROKEN: so many bytes at the front of p came with CALL and ARGS
} fxi_answer_event;

// What a parameter of a tool is, for formats that write values without quotes.
typedef enum fxi_param_kind { FXI_PARAM_UNKNOWN, FXI_PARAM_TEXT, FXI_PARAM_OTHER } fxi_param_kind;

typedef struct fxi_answer_spec {
    const fxi_call_format *calls;       // NULL: calls are text
    const fxi_reason_format *reasoning; // NULL: reasoning is text
    bool either; // the answer is text or calls, behind their mark: text is not searched for calls
    // The tools: whether there is one of this name, and what its parameter is. NULL: any name is a
    // tool's, every parameter unknown.
    bool (*has_tool)(void *tools, const char *name, size_t n);
    fxi_param_kind (*param)(void *tools, const char *name, size_t n, const char *param,
                            size_t n_param);
    void *tools;
} fxi_answer_spec;

typedef struct fxi_answer fxi_answer;

// False: out of memory; then the answer can only be freed, and what has been emitted stays so.
typedef bool (*fxi_answer_fn)(void *ud, const fxi_answer_event *ev);

// NULL: out of memory.
fxi_answer *fxi_answer_new(const fxi_answer_spec *spec);
void fxi_answer_free(fxi_answer *a); // NULL is allowed
// The prompt ends with the mark that opens reasoning: the answer begins within it.
void fxi_answer_open_reasoning(fxi_answer *a);
// Whether a prompt that ends like this has opened it.
bool fxi_answer_opens_reasoning(const fxi_answer_spec *spec, const char *tail, size_t n);
// Takes the next bytes, or the end; calls `fn` for the events in them.
bool fxi_answer_add(fxi_answer *a, const char *p, size_t n, fxi_answer_fn fn, void *ud);
bool fxi_answer_end(fxi_answer *a, fxi_answer_fn fn, void *ud);
// Whether the bytes so far end within reasoning.
bool fxi_answer_is_reasoning(const fxi_answer *a);
size_t fxi_answer_bytes(const fxi_answer *a); // of memory

#endif
