// regex_char.h - the part of a regular expression that stands for one character: escapes, classes.
#ifndef FXI_GRAMMAR_REGEX_CHAR_H
#define FXI_GRAMMAR_REGEX_CHAR_H

#include "grammar/read/gram_chars.h"

typedef struct fxi_regex_text { // a pattern that is being read
    fxi_str s;
    size_t at;
    fx_error *err;
} fxi_regex_text;

// Fails with "regular expression: WHAT at byte AT".
fx_status fxi_regex_refuse(const fxi_regex_text *r, size_t at, const char *what);
fx_status fxi_regex_no_memory(const fxi_regex_text *r);
// Takes `text` if it comes next.
bool fxi_regex_take(fxi_regex_text *r, const char *text);

// Read what begins at r->at, an escape behind its backslash or a class behind its bracket, and add
// its characters to *out. *is_one: it is an escape for one character.
fx_status fxi_regex_escape(fxi_regex_text *r, bool in_class, fxi_char_set *out, bool *is_one);
fx_status fxi_regex_class(fxi_regex_text *r, fxi_char_set *out);

#endif
