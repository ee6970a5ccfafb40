// schema_parts.h - what the files that read a schema share.
//
//   schema.c          the queue of sets that are to be defined
//   schema_rules.c    sets of schemas and their rules
//   schema_work.c     the memory and the work that reading takes
//   schema_expand.c   a set to its alternatives: lists of schemas without $ref, allOf, anyOf, oneOf
//   schema_keyword.c  which keywords there are, what their values must be; where a schema stands
//   schema_ref.c      $ref
//   schema_apart.c    whether two alternatives exclude each other
//   schema_value.c    enum and const; whether a value is valid
//   schema_number.c, schema_text.c, schema_array.c, schema_object.c
//   schema_decimal.c  bounds as digits
//
// A set says which schemas a value must satisfy at once. It expands to alternatives; each is a list
// of schema objects, and a value is valid if it satisfies all their remaining keywords for one
// alternative. So what allOf merges is never written down: each keyword is looked up in every
// schema of the list.
#ifndef FXI_GRAMMAR_SCHEMA_PARTS_H
#define FXI_GRAMMAR_SCHEMA_PARTS_H

#include "base/system/arena.h"
#include "grammar/read/gram_chars.h"
#include "grammar/schema/schema.h"

typedef struct fxi_schema_set { // in the reader's arena
    const json_t **at;          // [n]
    size_t n;
} fxi_schema_set;

typedef struct fxi_schema_rule {
    fxi_schema_set set;
    uint32_t rule;
} fxi_schema_rule;

typedef struct fxi_schema {
    fxi_gram *g;
    const fxi_gram_json *json;
    const json_t *root;
    fx_error *err;
    fxi_gram_spelling spelling; // of texts
    fxi_arena arena;            // everything below, and what is needed only for a while
    fxi_schema_rule *rule;      // [n_rule]
    size_t n_rule, cap_rule;
    struct fxi_schema_lists_seen { // lists of oneOf
        const json_t **at;
        size_t n, cap;
    } one_of;
    size_t n_work; // expansions and the like so far, against a limit
    int depth;     // of what calls itself
} fxi_schema;

enum {
    FXI_SCHEMA_NULL = 1,
    FXI_SCHEMA_BOOL = 2,
    FXI_SCHEMA_NUMBER = 4,
    FXI_SCHEMA_STRING = 8,
    FXI_SCHEMA_ARRAY = 16,
    FXI_SCHEMA_OBJECT = 32,
    FXI_SCHEMA_ALL = 63,
    FXI_SCHEMA_WHOLE = 64, // of numbers: integers alone
};

enum {
    FXI_SCHEMA_MAX_LIST = 256,
    FXI_SCHEMA_MAX_WORK = 200000,
    FXI_SCHEMA_MAX_DEPTH = 64,
    FXI_SCHEMA_MAX_CONDITION = 64, // on a text
};
enum { FXI_SCHEMA_LOOKS = 256 }; // values that are looked at for a piece of work

// ---- schema_work.c ------------------------------------------------------------------------------

fx_status fxi_schema_no_memory(fxi_schema *r);
// Memory of the arena, cleared; NULL: none.
void *fxi_schema_take(fxi_schema *r, size_t n, size_t elem_bytes);
// Counts n pieces of work, of some 10 us at most: a schema may make so many of them that it takes
// seconds, not minutes. Error: FX_EINVAL.
fx_status fxi_schema_work(fxi_schema *r, size_t n);
// The same for n conditions on a text that met in so many pairs of states; n is 0 for bounds of a
// number, whose automata are small.
fx_status fxi_schema_met(fxi_schema *r, size_t n, size_t n_pair);

// ---- schema_rules.c -----------------------------------------------------------------------------

// The values that satisfy all schemas of a set; *set is sorted.
fx_status fxi_schema_node(fxi_schema *r, fxi_schema_set *set, uint32_t *node);

typedef struct fxi_schema_ways { // alternatives that are being collected, in the arena
    uint32_t *node;
    size_t n, cap;
} fxi_schema_ways;

fx_status fxi_schema_way(fxi_schema *r, fxi_schema_ways *w, uint32_t node);

// A set that grows, in the arena; what is in it already is not added again.
typedef struct fxi_schema_bag {
    fxi_schema_set set;
    size_t cap;
} fxi_schema_bag;

fx_status fxi_schema_put(fxi_schema *r, fxi_schema_bag *b, const json_t *schema);
bool fxi_schema_has(const fxi_schema_set *s, const json_t *schema);

// ---- schema_keyword.c ---------------------------------------------------------------------------

// Checks the keywords of one schema object.
fx_status fxi_schema_check(fxi_schema *r, const json_t *schema);
// Fails with "schema: WHAT at #/where".
__attribute__((format(printf, 3, 4))) fx_status fxi_schema_refuse(fxi_schema *r, const json_t *at,
                                                                  const char *fmt, ...);
// The types that `type` allows in all of them; FXI_SCHEMA_ALL without it.
unsigned fxi_schema_types_of(const fxi_schema_set *list);
// The first schema of the list with this keyword, after `before` (NULL: from the beginning), and
// the keyword's value in *value. NULL: there is none.
const json_t *fxi_schema_next(const fxi_schema_set *list, const char *keyword, const json_t *before,
                              const json_t **value);
// The largest of minLength and the like; the smallest of maxLength and the like, FXI_GRAM_NO_MAX
// without it.
uint32_t fxi_schema_least(const fxi_schema_set *list, const char *keyword);
uint32_t fxi_schema_most(const fxi_schema_set *list, const char *keyword);

// ---- schema_ref.c -------------------------------------------------------------------------------

// The part of the root that a JSON pointer names, "" the root itself; NULL: it is not there.
fx_status fxi_schema_at(fxi_schema *r, const char *pointer, const json_t **out);
// What the $ref of this schema names.
fx_status fxi_schema_resolve(fxi_schema *r, const json_t *schema, const json_t **out);

// ---- schema_expand.c ----------------------------------------------------------------------------

typedef struct fxi_schema_lists { // in the arena
    fxi_schema_set *at;           // [n]
    size_t n, cap;
} fxi_schema_lists;

fx_status fxi_schema_expand(fxi_schema *r, const fxi_schema_set *set, fxi_schema_lists *out);

// ---- schema_apart.c -----------------------------------------------------------------------------

// Whether it is certain that no value satisfies both.
fx_status fxi_schema_apart(fxi_schema *r, const json_t *a, const json_t *b, bool *out);

// ---- types: each adds the ways of one alternative -----------------------------------------------

fx_status fxi_schema_values(fxi_schema *r, const fxi_schema_set *list, fxi_schema_ways *w);
fx_status fxi_schema_numbers(fxi_schema *r, const fxi_schema_set *list, bool whole,
                             fxi_schema_ways *w);
fx_status fxi_schema_strings(fxi_schema *r, const fxi_schema_set *list, fxi_schema_ways *w);
fx_status fxi_schema_arrays(fxi_schema *r, const fxi_schema_set *list, fxi_schema_ways *w);
fx_status fxi_schema_objects(fxi_schema *r, const fxi_schema_set *list, fxi_schema_ways *w);

// Whether enum or const is in the list.
bool fxi_schema_has_values(const fxi_schema_set *list);
// Whether a value satisfies a set.
fx_status fxi_schema_accepts(fxi_schema *r, const json_t *value, const fxi_schema_set *set,
                             bool *out);

// What element `at` of an array must satisfy, a member with this name of an object.
fx_status fxi_schema_element(fxi_schema *r, const fxi_schema_set *list, size_t at,
                             fxi_schema_bag *out);
fx_status fxi_schema_member(fxi_schema *r, const fxi_schema_set *list, const char *name,
                            fxi_schema_bag *out);

// ---- schema_text.c ------------------------------------------------------------------------------

// A condition on a text inside a JSON string.
typedef struct fxi_schema_text {
    const json_t *at;        // the schema that it comes from
    const char *pattern;     // a regular expression that matches anywhere in it, or
    const char *whole;       // one that matches all of it, or
    const char *const *name; // [n_name] one of these, or
    size_t n_name;
    const fxi_str *mark; // [n_mark] none of these occurs in it, or
    size_t n_mark;
    uint32_t min, max; // its length, if none of those
    bool is_not;       // the condition does not hold
} fxi_schema_text;

// Texts under all conditions, without quotes, spelled as r->spelling says. n = 0: any text.
fx_status fxi_schema_texts(fxi_schema *r, const fxi_schema_text *cond, size_t n, uint32_t *node);
// Adds what a list says of strings to cond[FXI_SCHEMA_MAX_CONDITION + 1], of which there are *n.
fx_status fxi_schema_conditions(fxi_schema *r, const fxi_schema_set *list, fxi_schema_text *cond,
                                size_t *n);
// Whether a text is such.
fx_status fxi_schema_matches(fxi_schema *r, const fxi_schema_text *cond, const char *text,
                             bool *out);

// ---- schema_decimal.c ---------------------------------------------------------------------------

typedef struct fxi_decimal {    // a number >= 0: digits without needless zeros
    char whole[320], part[360]; // "0" at least; "" without a fraction
} fxi_decimal;

fxi_decimal fxi_decimal_of(const json_t *number); // of its absolute value

typedef struct fxi_magnitudes {
    const fxi_decimal *least, *most; // NULL: no bound
    bool above, below;               // the bound itself is out
    int n_part;                      // most digits of a fraction; 0: integers
    uint32_t modulus;                // of which integers are multiples; 0, 1: of none
} fxi_magnitudes;

// Numbers >= 0 within bounds, without an exponent. *n_pair: as fxi_gram_meet_all.
fx_status fxi_decimal_node(fxi_gram *g, const fxi_magnitudes *m, uint32_t *node, size_t *n_pair,
                           fx_error *err);

#endif
