// parser_impl.h - the state of a parser, and what its files share.
#ifndef FXI_OUTPUT_PARSER_IMPL_H
#define FXI_OUTPUT_PARSER_IMPL_H

#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/str.h"
#include "output_parser/json_scan.h"
#include "output_parser/output_parser.h"
#include "output_parser/unmarked_calls.h"

// What a byte did to a call.
typedef enum fxi_body_step {
    FXI_BODY_MORE,  // it continues
    FXI_BODY_DONE,  // it ends with this byte
    FXI_BODY_AGAIN, // it continues; the last o->n_back bytes are read again
    FXI_BODY_BAD,   // it is not a call; the last o->n_back bytes are not part of it
} fxi_body_step;

enum { FXI_NAME_BYTES = 256, FXI_VALUE_DEPTH = 64 };

typedef struct fxi_call_draft {
    fxi_call_body body;
    int step; // of its machine
    fxi_buf name, id;
    fxi_buf args;     // those that wait for the name
    fxi_buf word;     // what is being read: a key, a mark, a value
    const char *mark; // what ended the last word
    fxi_buf key;      // TAGS: of the value that is being read
    bool begun;       // FXI_OUTPUT_CALL has been emitted
    bool has_args, escaped;
    bool wants_name, wants_args; // OBJECT: what the next value is
    fxi_param_kind kind;         // TAGS: of the value,
    bool in_json;                // which is a JSON value so far, and continues
    fxi_json_scan scan;
    char quote;           // PYTHON: of the string
    uint8_t n_hex, depth; // PYTHON
    char level[FXI_VALUE_DEPTH];
    bool comma; // TAGS, PYTHON: a comma waits for what follows it
} fxi_call_draft;

struct fxi_output_parser {
    fxi_output_spec spec;
    int state;         // of output_parser.c
    bool channels;     // harmony
    bool ending;       // there are no more bytes
    bool failed;       // out of memory: nothing is kept or emitted any more
    bool bare;         // the section was opened without a mark
    bool in_list;      // the calls stand in a list
    bool trim;         // drop white space that comes now
    bool has_called;   // a call is complete
    bool has_reasoned; // reasoning has closed: text may come between its own marks,
    bool in_marks;     // and it does
    unsigned begun;    // harmony: states of messages that have begun, as bits
    fxi_buf in;        // bytes that are not decided yet, and those after them
    size_t from;       // where the undecided bytes begin; all before it is emitted
    size_t mark;       // where a mark may have begun; from <= mark <= at
    size_t at;         // the next byte
    size_t emitted;    // of a call: all before it has been
    size_t n_back;
    fxi_buf space;        // white space that waits for what follows it
    fxi_output_kind kind; // of `out`
    fxi_buf out;          // to be emitted at the end of the current bytes
    fxi_output_fn fn;
    void *ud;
    fxi_unmarked *unmarked; // all events go through it; NULL: none do
    fxi_call_draft call;
};

// ---- call_bodies.c: events ----------------------------------------------------------------------

// Appends to a buffer of the parser.
void fxi_parser_keep(fxi_output_parser *o, fxi_buf *b, const char *p, size_t n);
// Emits what waits in `out`, then the event.
void fxi_emit_event(fxi_output_parser *o, const fxi_output_event *ev);
void fxi_emit_flush(fxi_output_parser *o);
// Bytes of one kind: TEXT, REASONING, ARGS.
void fxi_emit_run(fxi_output_parser *o, fxi_output_kind kind, const char *p, size_t n);

// ---- call_bodies.c: one byte of a call ----------------------------------------------------------

// An empty call; what was read of the one before is forgotten.
void fxi_call_begin(fxi_call_draft *d, fxi_call_body body);
// The call of harmony's message to "functions.NAME".
void fxi_call_begin_named(fxi_output_parser *o, fxi_str recipient);
void fxi_call_free(fxi_call_draft *d);
fxi_body_step fxi_call_byte(fxi_output_parser *o, char c);

#endif
