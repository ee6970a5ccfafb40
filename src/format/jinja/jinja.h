// jinja.h - a bounded interpreter of the Jinja that chat templates are written in.
//
// A template is compiled once to an immutable tree, which any thread may render. Rendering follows
// Jinja 3.1 in the environment that Hugging Face's transformers sets up: trim_blocks,
// lstrip_blocks, loop controls, {% generation %} (only its body), its tojson, raise_exception and
// strftime_now; only namespaces are mutable. Filters, tests, functions and tags that are not
// supported are refused by name at compile time, methods when they are used.
// docs/user/templates.md lists what is supported.
//
// Every byte of a string carries a mark: whether it is the template's own or came from the caller.
// All operations keep the marks, so the output has an owner for every byte.
//
// There is no input or output of any kind. Steps, nesting, memory and output are limited; every
// error names the template's line: "chat template, line 12: ...".
#ifndef FXI_FORMAT_JINJA_JINJA_H
#define FXI_FORMAT_JINJA_JINJA_H

#include "base/json/json.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/fail.h"
#include "base/text/str.h"
#include "format/marked.h"

typedef struct fxi_jinja fxi_jinja; // a compiled template

enum { FXI_JINJA_MAX_BYTES = 512 << 10 }; // a template's longest text

// Copies the text. Errors: FX_EFORMAT (too long, bad UTF-8, syntax, something that is not
// supported: the line and what it is), FX_ENOMEM.
fx_status fxi_jinja_compile(const char *text, size_t n_bytes, fxi_jinja **out, fx_error *err);
void fxi_jinja_free(fxi_jinja *t); // NULL is allowed

// Whether it loops over something called "content": messages may have lists of parts there.
bool fxi_jinja_reads_parts(const fxi_jinja *t);

typedef enum fxi_jinja_owner {
    FXI_JINJA_CALLER,   // no byte of it is the template's own
    FXI_JINJA_TEMPLATE, // every string in it counts as the template's own
    FXI_JINJA_MESSAGES, // the caller's, except roles of messages that are usual words:
                        // templates build control tokens from them, "<|" + role + "|>"
} fxi_jinja_owner;

typedef struct fxi_jinja_var {
    const char *name;
    const fxi_json *value; // not changed, not kept
    fxi_jinja_owner owner;
} fxi_jinja_var;

typedef struct fxi_jinja_limits {
    uint64_t n_step;     // nodes visited, plus one for 64 bytes processed, or for 8 where each
                         // character is examined
    size_t memory_bytes; // limit of all values together
    size_t output_bytes;
    int depth; // nesting of expressions, statements, macro calls and values
} fxi_jinja_limits;

extern const fxi_jinja_limits fxi_jinja_usual_limits;

typedef struct fxi_jinja_context {
    const fxi_jinja_var *var;
    size_t n_var;
    struct tm now;                  // for strftime_now
    const fxi_jinja_limits *limits; // NULL: the usual ones
} fxi_jinja_context;

// Appends to *out. Any thread. Errors: FX_EINVAL (the template fails or calls raise_exception; a
// limit), FX_ENOMEM; then *out is as before.
fx_status fxi_jinja_render(const fxi_jinja *t, const fxi_jinja_context *c, fxi_marked *out,
                           fx_error *err);

#endif
