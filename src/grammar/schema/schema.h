// schema.h - JSON Schema (draft 2020-12) as rules of a form: the JSON values that a schema
// validates, spelled as in gram_json.h.
//
//     any type     type, enum, const, anyOf, allOf, oneOf where its alternatives exclude each
//                  other, $ref within the schema, true and false
//     numbers      minimum, maximum, exclusiveMinimum, exclusiveMaximum; multipleOf of an integer
//                  up to 1000 or of 0.1, 0.01, ..
//     strings      minLength, maxLength, pattern, and the formats of regex_format.c
//     arrays       prefixItems, items, minItems, maxItems
//     objects      properties, required, additionalProperties, patternProperties (up to 3);
//                  minProperties and maxProperties where no property is named
//
// Annotations are read over. Every other keyword is refused by name, and where it stands.
//
// Members of an object come in the order of `properties`, then those that only `required` names,
// then others. An integer has no fraction. What allOf and $ref bring together is one schema: sets
// of schemas that hold at once get a rule each, so that recursion ends.
#ifndef FXI_GRAMMAR_SCHEMA_H
#define FXI_GRAMMAR_SCHEMA_H

#include <jansson.h>

#include "grammar/form/gram_form.h"
#include "grammar/read/gram_json.h"

// `json`: the rules that fxi_gram_json_add gave. The schema is only read. Errors: FX_EINVAL (what
// is not supported, not a schema, or too large, and where), FX_ENOMEM.
fx_status fxi_schema_add(fxi_gram *g, const fxi_gram_json *json, const json_t *schema,
                         uint32_t *node, fx_error *err);

// What of a schema is asked for.
typedef struct fxi_schema_ask {
    const json_t *schema; // NULL: any value
    const char *at; // a JSON pointer (RFC 6901) to the part of it that counts; "" or NULL: all
    bool only_objects;
    const fxi_str *mark; // [n_mark] of fxi_schema_add_plain: texts that do not occur,
    size_t n_mark;
    const char *const *pattern; // [n_pattern] and regular expressions that match nowhere
    size_t n_pattern;
} fxi_schema_ask;

// The same for a part of a schema. References are looked up in the whole.
fx_status fxi_schema_add_part(fxi_gram *g, const fxi_gram_json *json, const fxi_schema_ask *ask,
                              uint32_t *node, fx_error *err);
// The strings among these values, as they are: neither quoted nor escaped.
fx_status fxi_schema_add_plain(fxi_gram *g, const fxi_schema_ask *ask, uint32_t *node,
                               fx_error *err);

#endif
