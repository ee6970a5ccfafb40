// output_parser.h - takes the output of a model apart as it comes: text, reasoning, tool calls.
//
//   bytes -> output_parser.c (marks: where reasoning and calls begin and end) -> events, in order
//              call_bodies.c, call_python.c (one call)
//
// Each byte is processed alone, so the events do not depend on how the output is split:
// neighbouring pieces of one kind, joined, are the same. What looks like the beginning of a mark
// waits for the bytes that decide it.
//
// A call is emitted once its name is known and its arguments begin. Its arguments are one JSON
// object, whatever the format. What turns out not to be a call is text: nothing of an output is
// lost. Marks, and the white space around reasoning and calls, are not emitted.
//
// One owner, no locks.
#ifndef FXI_OUTPUT_PARSER_H
#define FXI_OUTPUT_PARSER_H

#include <stdbool.h>
#include <stddef.h>

#include "output_parser/call_formats.h"

typedef enum fxi_output_kind {
    FXI_OUTPUT_TEXT,
    FXI_OUTPUT_REASONING,
    FXI_OUTPUT_CALL,   // a call begins: p is its tool's name
    FXI_OUTPUT_ARGS,   // a piece of its arguments
    FXI_OUTPUT_DONE,   // it is complete
    FXI_OUTPUT_BROKEN, // it is not a call after all: p is all of it as text
} fxi_output_kind;

typedef struct fxi_output_event {
    fxi_output_kind kind;
    const char *p; // [n] not NUL-terminated; valid during the callback
    size_t n;
    const char *id; // CALL: the id that the model gave it; n_id 0: none
    size_t n_id;
    size_t n_emitted; // BROKEN: bytes at the front of p that came with CALL and ARGS
} fxi_output_event;

// What a parameter of a tool is, for formats that write values without quotes.
typedef enum fxi_param_kind { FXI_PARAM_UNKNOWN, FXI_PARAM_TEXT, FXI_PARAM_OTHER } fxi_param_kind;

typedef struct fxi_output_spec {
    const fxi_call_format *calls;       // NULL: calls are text
    const fxi_reason_format *reasoning; // NULL: reasoning is text
    bool either; // the output is text, or calls after their mark: text is not searched for calls
    // Whether there is a tool of this name, and what its parameter is. NULL: any name is a tool's,
    // every parameter is unknown.
    bool (*has_tool)(void *tools, const char *name, size_t n);
    fxi_param_kind (*param)(void *tools, const char *name, size_t n, const char *param,
                            size_t n_param);
    void *tools;
} fxi_output_spec;

typedef struct fxi_output_parser fxi_output_parser;

// False: out of memory; then the parser can only be freed, and what was emitted stays valid.
typedef bool (*fxi_output_fn)(void *ud, const fxi_output_event *ev);

// NULL: out of memory.
fxi_output_parser *fxi_output_parser_new(const fxi_output_spec *spec);
void fxi_output_parser_free(fxi_output_parser *o); // NULL is allowed
// The prompt ends with the mark that opens reasoning: the output begins within it.
void fxi_output_parser_open_reasoning(fxi_output_parser *o);
// Whether a prompt with this tail has opened it.
bool fxi_output_parser_opens_reasoning(const fxi_output_spec *spec, const char *tail, size_t n);
// Takes the next bytes, or the end; calls `fn` for the events in them.
bool fxi_output_parser_add(fxi_output_parser *o, const char *p, size_t n, fxi_output_fn fn,
                           void *ud);
bool fxi_output_parser_end(fxi_output_parser *o, fxi_output_fn fn, void *ud);
// Whether the bytes so far end within reasoning.
bool fxi_output_parser_is_reasoning(const fxi_output_parser *o);
size_t fxi_output_parser_bytes(const fxi_output_parser *o); // of memory

#endif
