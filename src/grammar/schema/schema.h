// schema.h - JSON Schema (draft 2020-12) as rules of a grammar: the JSON values that a schema
// validates, spelled as in gram_parts.h.
//
//     any type     type, enum, const, anyOf, allOf, oneOf where its alternatives exclude each
//                  other, $ref within the schema, true and false
//     numbers      minimum, maximum, exclusiveMinimum, exclusiveMaximum; multipleOf of an integer
//                  up to 1000 or of 0.1, 0.01, ..
//     strings      minLength, maxLength, pattern, and the formats of schema_string.c
//     arrays       prefixItems, items, minItems, maxItems
//     objects      properties, required, additionalProperties, patternProperties (up to 3);
//                  minProperties and maxProperties where no property is named
//
// Annotations are ignored. Every other keyword is refused, with its name and where it stands.
//
// Members of an object come in the order of `properties`, then those that only `required` names,
// then others. An integer has no fraction. Schemas that allOf and $ref combine act as one schema:
// each set of schemas that hold at once gets one rule, so that recursion ends.
#ifndef FXI_GRAMMAR_SCHEMA_H
#define FXI_GRAMMAR_SCHEMA_H

#include "base/json/json.h"

#include "grammar/syntax/gram.h"
#include "grammar/syntax/gram_parts.h"

// Which part of a schema, and which of its values.
typedef struct fxi_schema_ask {
    const fxi_json *schema; // NULL: any value
    const char *at;         // a JSON pointer (RFC 6901) to the part of it; "" or NULL: all
    bool only_objects;
    const fxi_str *mark; // [n_mark] of plain strings: texts that must not occur,
    size_t n_mark;
    const char *const *pattern; // [n_pattern] and regular expressions that must match nowhere
    size_t n_pattern;
} fxi_schema_ask;

// `json`: the rules that fxi_gram_json_add returned; NULL: only the strings among these values are
// meant, plain ones, neither quoted nor escaped. The schema is only read, and references are
// resolved in the whole. Errors: FX_EINVAL (what is not supported, not a schema, or too large, and
// where), FX_ENOMEM.
fx_status fxi_schema_add(fxi_gram *g, const fxi_gram_json *json, const fxi_schema_ask *ask,
                         uint32_t *node, fx_error *err);

#endif
