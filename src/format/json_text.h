// json_text.h - parses JSON with jansson and detects failed allocations.
//
// jansson does not report them: it may call the text broken, or cut a string off. It has one
// allocation function for the process and none per parse, so the first call wraps that function,
// whichever it is, in one that sets a flag of the calling thread. Memory is freed as before. If a
// program sets jansson's functions later, failures are no longer detected.
#ifndef FXI_FORMAT_JSON_TEXT_H
#define FXI_FORMAT_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>

// As json_loadb. NULL: *no_memory, or *e says what is wrong. Any thread.
json_t *fxi_json_text(const char *text, size_t n, size_t flags, bool *no_memory, json_error_t *e);

#endif
