// gram_json.h - JSON (RFC 8259) as rules of a form.
//
// Any JSON value, as models write it and every reader reads it, so that an answer cannot go on for
// ever between two tokens of JSON, nor be refused by a reader with 64-bit numbers:
//
//     space    none, one blank, or a new line and up to 20 blanks or tabs
//     string   characters as in FXI_SPELL_JSON, without U+0000
//     number   up to 15 digits, a fraction of up to 15, an exponent of up to two
//
// Names of an object may come more than once: the form does not remember them.
#ifndef FXI_GRAMMAR_JSON_H
#define FXI_GRAMMAR_JSON_H

#include "grammar/form/gram_form.h"

typedef struct fxi_gram_json { // nodes
    uint32_t space, string, number, integer, value, object, array;
} fxi_gram_json;

// Adds the rules to a form. Errors: FX_ENOMEM; what the form lacks is reported by fxi_gram_finish.
fx_status fxi_gram_json_add(fxi_gram *g, fxi_gram_json *out, fx_error *err);

#endif
