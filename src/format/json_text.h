// json_text.h - JSON texts by jansson, and whether memory was short, which jansson does not say: it
// may call the text broken then, or cut a string off.
#ifndef FXI_FORMAT_JSON_TEXT_H
#define FXI_FORMAT_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>

// As json_loadb. NULL with *no_memory, or with what is wrong in *e. Any thread.
json_t *fxi_json_text(const char *text, size_t n, size_t flags, bool *no_memory, json_error_t *e);

#endif
