// unmarked_calls.h - calls that a model writes as plain JSON instead of in its own format, as small
// models do: found in the text that the parser emits, and nowhere else.
#ifndef FXI_UNMARKED_CALLS_H
#define FXI_UNMARKED_CALLS_H

#include "output_parser/output_parser.h"

typedef struct fxi_unmarked fxi_unmarked;

// The spec must outlive it. NULL: out of memory.
fxi_unmarked *fxi_unmarked_new(const fxi_output_spec *spec);
void fxi_unmarked_free(fxi_unmarked *u); // NULL is allowed
// Where events go from now on.
void fxi_unmarked_listen(fxi_unmarked *u, fxi_output_fn fn, void *ud);
// An fxi_output_fn: takes an event, passes it on, or makes calls of its text.
bool fxi_unmarked_event(void *unmarked, const fxi_output_event *ev);
// Emits the text that is decided; false: out of memory.
bool fxi_unmarked_flush(fxi_unmarked *u);
// There are no more events: what is undecided is text.
bool fxi_unmarked_end(fxi_unmarked *u);
size_t fxi_unmarked_bytes(const fxi_unmarked *u); // of memory

#endif
