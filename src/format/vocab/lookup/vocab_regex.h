// vocab_regex.h - regular expressions, matched by PCRE2 within limits of time and memory.
#ifndef FXI_FORMAT_VOCAB_REGEX_H
#define FXI_FORMAT_VOCAB_REGEX_H

#include "base/fail.h"
#include "base/text/str.h"

typedef struct fxi_regex fxi_regex;     // immutable: any thread may match with it
typedef struct fxi_matcher fxi_matcher; // what one thread needs to match

// Errors: FX_EFORMAT (the pattern and what is wrong with it), FX_ENOMEM. `bytes`: each byte is a
// character, otherwise pattern and text are UTF-8.
fx_status fxi_regex_compile(fxi_str pattern, bool bytes, fxi_regex **out, fx_error *err);
void fxi_regex_free(fxi_regex *re); // NULL is allowed

fxi_matcher *fxi_matcher_new(void); // NULL: out of memory
void fxi_matcher_free(fxi_matcher *m);

typedef struct fxi_regex_match {
    size_t from, to; // bytes; from = SIZE_MAX: no match
} fxi_regex_match;

// The first match in s[0..n) at or after byte `at`. Unless the pattern is one of bytes, s must be
// valid UTF-8. Errors: FX_EINVAL (the pattern takes too many steps on this text), FX_ENOMEM.
fx_status fxi_regex_next(const fxi_regex *re, fxi_matcher *m, const char *s, size_t n, size_t at,
                         fxi_regex_match *out, fx_error *err);

#endif
