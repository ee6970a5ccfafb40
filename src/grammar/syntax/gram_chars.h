// gram_chars.h - sets of Unicode characters, and the node that matches one character of a set,
// spelled in UTF-8 or as in a JSON string.
#ifndef FXI_GRAMMAR_CHARS_H
#define FXI_GRAMMAR_CHARS_H

#include "grammar/syntax/gram.h"

typedef struct fxi_char_range {
    uint32_t lo, hi; // both included
} fxi_char_range;

typedef struct fxi_char_set { // all zero: empty
    fxi_char_range *range;
    size_t n, cap;
} fxi_char_set;

void fxi_char_set_free(fxi_char_set *s); // empty again
// These return false when out of memory.
bool fxi_char_set_add(fxi_char_set *s, uint32_t lo, uint32_t hi);
bool fxi_char_set_join(fxi_char_set *s, const fxi_char_set *more);
bool fxi_char_set_invert(fxi_char_set *s); // the other characters, U+0000 to U+10FFFF

typedef enum fxi_gram_spelling {
    FXI_SPELL_UTF8,
    // Inside a JSON string (RFC 8259, section 7): a quote, a backslash and the characters below
    // U+0020 are escaped, in the short form if there is one; all others stand for themselves. So
    // every text has one spelling.
    FXI_SPELL_JSON,
} fxi_gram_spelling;

// One character of the set; surrogates are never matched. Sorts the set. False: out of memory;
// errors of the grammar itself are reported by fxi_gram_finish.
bool fxi_gram_chars(fxi_gram *g, fxi_char_set *s, fxi_gram_spelling spelling, uint32_t *node);
// One character of lo..hi. False: out of memory.
bool fxi_gram_char_range(fxi_gram *g, uint32_t lo, uint32_t hi, fxi_gram_spelling spelling,
                         uint32_t *node);
// This text, which must be valid UTF-8. False: out of memory.
bool fxi_gram_spell(fxi_gram *g, fxi_str text, fxi_gram_spelling spelling, uint32_t *node);

#endif
