// gram_regex.h - regular expressions as nodes of a grammar.
//
// Supported is what the common dialects (ECMA-262, which JSON Schema names; Python; PCRE; Rust)
// agree on, over characters and not bytes:
//
//     abc  .  [a-z\d_]  [^"]  a|b  (..)  (?:..)  (?<name>..)  (?P<name>..)
//     * + ? {m} {m,} {m,n}   and their lazy forms, which match the same texts
//     \d \w \s \D \W \S      as in ECMA-262: digits and word characters are ASCII
//     \n \r \t \f \v \0 \cX \xHH \x{H..} \uHHHH (also surrogate pairs) \u{H..}
//     ^ at the beginning and $ at the end of an alternative outside groups
//
// "." is any character but \n, \r, U+2028 and U+2029. What is not regular (lookaround,
// backreferences), unknown, or different between dialects is refused by name.
#ifndef FXI_GRAMMAR_REGEX_H
#define FXI_GRAMMAR_REGEX_H

#include "grammar/syntax/gram.h"

enum {
    // The pattern may match anywhere in the text, as in JSON Schema; else it matches all of it.
    FXI_GRAM_SEARCH = 1,
};

// The texts that the pattern matches. Error: FX_EINVAL (what is refused, and at which byte).
fx_status fxi_gram_regex(fxi_gram *g, fxi_str pattern, unsigned flags, fxi_gram_spelling spelling,
                         uint32_t *node, fx_error *err);

// Reads the class at s[*at], after its bracket, adds its characters to *out and moves *at past it.
// Error: the same.
fx_status fxi_regex_class(fxi_str s, size_t *at, fxi_char_set *out, fx_error *err);

// Takes a decimal number at s[*at], if there is one. *out: FXI_GRAM_MAX_COUNT + 1 if it is larger.
bool fxi_regex_count(fxi_str s, size_t *at, uint32_t *out);

enum { FXI_GRAM_MAX_COUNT = 1000000 }; // of a repeat

#endif
