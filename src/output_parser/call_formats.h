// call_formats.h - how models write tool calls and reasoning: rows of data.
//
//   section = open [again] call {skip} {again call {skip}} [close]     white space anywhere between
//
//   body            a call
//   FXI_BODY_OBJECT   {"name": "f", "arguments": {..}}, or a list of those
//   FXI_BODY_HEAD     name, name_end, {..}
//   FXI_BODY_TAGS     name, name_end, {key_open key key_end [value_open] value value_end}, call_end
//   FXI_BODY_PYTHON   a list of name(key=value, ..)
//   FXI_BODY_CHANNELS messages of OpenAI's harmony format, the reasoning among them
#ifndef FXI_CALL_FORMATS_H
#define FXI_CALL_FORMATS_H

#include <stdbool.h>
#include <stddef.h>

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

// A NULL ends each list of marks. Among marks that are searched at one place, none is a prefix of
// another.
typedef struct fxi_call_format {
    const char *name;    // "hermes"
    const char *about;   // models that write so
    const char *hint[3]; // what a template of such a model contains, all of them
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
    const char *name; // "think"
    const char *about;
    const char *hint[2]; // as above
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

#endif
