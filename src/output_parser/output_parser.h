// output_parser.h - what a model says, taken apart: the formats of reasoning and tool calls, and
// the parser.
#ifndef FXI_OUTPUT_PARSER_H
#define FXI_OUTPUT_PARSER_H

#include <stdbool.h>
#include <stddef.h>

// ---- formats ------------------------------------------------------------------------------------

// How models write tool calls and reasoning: rows of data.
//
//   section = open [again] call {skip} {again call {skip}} [close]     white space anywhere between
//
//   body            a call
//   FXI_BODY_OBJECT   {"name": "f", "arguments": {..}}, or a list of those
//   FXI_BODY_HEAD     name, name_end, {..}
//   FXI_BODY_TAGS     name, name_end, {key_open key key_end [value_open] value value_end}, call_end
//   FXI_BODY_PYTHON   a list of name(key=value, ..)
//   FXI_BODY_CHANNELS messages of OpenAI's harmony format, the reasoning among them

typedef enum fxi_call_body {
    FXI_BODY_OBJECT,
    FXI_BODY_HEAD,
    FXI_BODY_TAGS,
    FXI_BODY_PYTHON,
    FXI_BODY_CHANNELS,
} fxi_call_body;

// How calls are written where a grammar prescribes them: first call {between call} last.
//
//   OBJECT, HEAD   before NAME name_end {..} after;  where the head is the id: NAME:NUMBER
//   TAGS           before NAME name_end {key KEY key_end VALUE value_end} after
//   PYTHON         before NAME name_end [KEY=VALUE {, KEY=VALUE}] after
typedef struct fxi_call_spelling {
    const char *first, *before, *name_end, *after, *between, *last;
    const char *key, *key_end, *value_end; // TAGS
} fxi_call_spelling;

// A NULL ends each list. Among marks that are searched at one place, none is a prefix of another.
typedef struct fxi_call_format {
    const char *name;    // "hermes"
    const char *hint[4]; // what a template of such a model contains, all of them; none: open[0]
    fxi_call_body body;
    char bare;            // a byte that opens a section at the start of an answer; 0: none
    const char *open[3];  // marks that open a section
    const char *again[2]; // before each call
    const char *skip[3];  // after a call
    const char *close[3]; // end the section; it may also end without
    bool object_too;      // HEAD: an object, or a list of them, may stand there instead
    bool head_is_id;      // HEAD: "functions.NAME:0" is the call's id
    bool short_ids;       // the template wants ids of 9 letters and digits
    const char *name_end[4];
    const char *key_open, *key_end, *value_open, *value_end, *call_end; // TAGS
    fxi_call_spelling spelling;
} fxi_call_format;

typedef struct fxi_reason_format {
    const char *name;    // "think"
    const char *hint[3]; // as above
    const char *open[3], *close[3];
    const char *text_open[2], *text_close[2]; // around the text after reasoning; not emitted
    bool channels;                            // harmony's analysis channel
    const char *spelled_open, *spelled_close; // as a model writes it
    const char *spelled_text;                 // before the text after it; NULL: nothing
} fxi_reason_format;

// The i-th row; NULL: there are no more. Static.
const fxi_call_format *fxi_call_format_at(size_t i);
const fxi_reason_format *fxi_reason_format_at(size_t i);
// A list of objects without marks: for calls that a model must make whose own format cannot express
// them, or is unknown. Not among the rows.
const fxi_call_format *fxi_call_format_plain(void);
// By its name; NULL: there is none.
const fxi_call_format *fxi_call_format_named(const char *name);
const fxi_reason_format *fxi_reason_format_named(const char *name);
// The first row all of whose hints are in a chat template; NULL: none.
const fxi_call_format *fxi_call_format_of(const char *jinja, size_t n_bytes);
const fxi_reason_format *fxi_reason_format_of(const char *jinja, size_t n_bytes);

// Lists the marks of both rows (each may be NULL), as many as fit; returns how many.
size_t fxi_format_marks(const fxi_call_format *calls, const fxi_reason_format *reasoning,
                        const char **mark, size_t max);

// ---- the parser ---------------------------------------------------------------------------------

// Takes the output of a model apart as it comes: text, reasoning, tool calls.
//
//   bytes -> output_parser.c (marks: where reasoning and calls begin and end) -> events, in order
//              call_bodies.c (one call)   unmarked_calls.c (calls in the text, where wanted)
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

// Whether arguments, a JSON object, fit the schema of a tool.
typedef enum fxi_args_fit { FXI_ARGS_BAD, FXI_ARGS_FIT, FXI_ARGS_NO_MEMORY } fxi_args_fit;

typedef struct fxi_output_spec {
    const fxi_call_format *calls;       // NULL: calls are text
    const fxi_reason_format *reasoning; // NULL: reasoning is text
    bool either; // the output is text, or calls after their mark: text is not searched for calls
    bool forced; // a grammar makes the output calls, after reasoning
    // Whether there is a tool of this name, and what its parameter is. NULL: any name is a tool's,
    // every parameter is unknown.
    bool (*has_tool)(void *tools, const char *name, size_t n);
    fxi_param_kind (*param)(void *tools, const char *name, size_t n, const char *param,
                            size_t n_param);
    // Of the tool of this name. With it, and with has_tool, JSON in the text that names a tool is a
    // call, too (unmarked_calls.c). NULL: calls need the marks of their format.
    fxi_args_fit (*fits)(void *tools, const char *name, size_t n, const char *args, size_t n_args);
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
// is_cut: the output would have gone on. Then a call that has begun ends without FXI_OUTPUT_DONE,
// and the marks of one that has not are no text, nor what may be the beginning of marks where calls
// are forced.
bool fxi_output_parser_end(fxi_output_parser *o, bool is_cut, fxi_output_fn fn, void *ud);
// Whether the bytes so far end within reasoning.
bool fxi_output_parser_is_reasoning(const fxi_output_parser *o);
size_t fxi_output_parser_bytes(const fxi_output_parser *o); // of memory

#endif
