// gram_parts.h - ready-made parts of grammars: JSON (RFC 8259), and any text without certain marks.
//
// Any JSON value, as models write it and every reader accepts it: an answer can neither continue
// forever between two tokens of JSON, nor hold a number that a reader with 64-bit numbers refuses.
//
//     space    none, one blank, or a line break and up to 12 blanks or tabs
//     pad      none or one blank: around a colon
//     string   characters as in FXI_SPELL_JSON, without U+0000
//     number   up to 15 digits, a fraction of up to 15, an exponent of up to two
//
// Names of an object may repeat: the grammar does not remember them.
#ifndef FXI_GRAMMAR_PARTS_H
#define FXI_GRAMMAR_PARTS_H

#include "grammar/syntax/gram.h"

typedef struct fxi_gram_json { // nodes
    uint32_t space, pad, string, number, integer, value, object, array;
} fxi_gram_json;

// Adds the rules of JSON. Errors: FX_ENOMEM; errors of the grammar itself are reported by
// fxi_gram_finish.
fx_status fxi_gram_json_add(fxi_gram *g, fxi_gram_json *out, fx_error *err);

// Any UTF-8 text without U+0000, also the empty one, in which none of mark[0..n) occurs; a text may
// end with the beginning of a mark. Errors: FX_EINVAL (an empty mark, bad UTF-8), FX_ENOMEM.
fx_status fxi_gram_without(fxi_gram *g, const fxi_str *mark, size_t n, uint32_t *node,
                           fx_error *err);

#endif
