// schema_impl.h - what the files that read a schema share.
//
//   schema.c          the queue of rules to define; parts of a schema, plain strings
//   schema_set.c      sets of schemas and their rules; a set's alternatives, without $ref, allOf,
//                     anyOf and oneOf
//   schema_keyword.c  memory and work; the keywords and what their values must be; where a schema
//                     stands; $ref
//   schema_value.c    enum and const; whether a value is valid; whether two sets exclude each other
//   schema_number.c, schema_string.c, schema_object.c (arrays, too)
//
// A set says which schemas a value must satisfy at once. It expands to alternatives, each a list of
// schema objects. A value is valid if it satisfies all remaining keywords of one alternative. So
// what allOf combines is never written out: each keyword is looked up in every schema of the list.
//
// The reader remembers its first failure, in `failed` and *err. From then on the calls below do
// nothing and return 0, NULL or false, so that their callers need not check each of them; loops
// whose work is not bounded by what they walk over ask.
#ifndef FXI_GRAMMAR_SCHEMA_IMPL_H
#define FXI_GRAMMAR_SCHEMA_IMPL_H

#include "base/system/regions.h"
#include "grammar/schema/schema.h"
#include "grammar/syntax/gram.h"

typedef struct fxi_schema_set { // in the reader's arena
    const fxi_json **at;        // [n]
    size_t n;
} fxi_schema_set;

typedef struct fxi_schema_rule {
    fxi_schema_set set;
    uint32_t rule;
} fxi_schema_rule;

typedef struct fxi_schema {
    fxi_gram *g;
    const fxi_gram_json *json;
    const fxi_json *root;
    fx_error *err;
    fx_status failed;           // the first failure, which *err tells
    fxi_gram_spelling spelling; // of texts
    fxi_arena arena;            // of everything below, and of temporary data
    fxi_schema_rule *rule;      // [n_rule]
    size_t n_rule, cap_rule;
    struct fxi_schema_lists_seen { // lists of oneOf
        const fxi_json **at;
        size_t n, cap;
    } one_of;
    size_t n_work; // charged so far, against FXI_SCHEMA_MAX_WORK
    int depth;     // of recursive calls
} fxi_schema;

enum {
    FXI_SCHEMA_NULL = 1,
    FXI_SCHEMA_BOOL = 2,
    FXI_SCHEMA_NUMBER = 4,
    FXI_SCHEMA_STRING = 8,
    FXI_SCHEMA_ARRAY = 16,
    FXI_SCHEMA_OBJECT = 32,
    FXI_SCHEMA_ALL = 63,
    FXI_SCHEMA_WHOLE = 64, // of numbers: only integers
};

enum {
    FXI_SCHEMA_MAX_LIST = 256,
    FXI_SCHEMA_MAX_WORK = 200000,
    FXI_SCHEMA_MAX_DEPTH = 64,
    FXI_SCHEMA_MAX_CONDITION = 64, // on a text
};
enum { FXI_SCHEMA_LOOKS = 256 }; // values that one unit of work looks at

// ---- schema_keyword.c ---------------------------------------------------------------------------

// Memory of the arena, cleared; NULL: none.
void *fxi_schema_alloc(fxi_schema *r, size_t n, size_t elem_bytes);
// Makes room for one more after the n elements of *list, which has room for *cap, in the arena.
bool fxi_schema_grow(fxi_schema *r, void *list, size_t elem_bytes, size_t n, size_t *cap);
// Fails with FX_ENOMEM unless `got`, which it returns.
bool fxi_schema_need(fxi_schema *r, bool got);
// Charges n units of work, of up to 10 us each. Bounded, so that a schema takes seconds at most,
// not minutes.
void fxi_schema_charge(fxi_schema *r, size_t n);
// The same for an intersection of n conditions on a text, which took n_pair pairs of states; n is 0
// for bounds of a number, whose automata are small.
void fxi_schema_charge_pairs(fxi_schema *r, size_t n, size_t n_pair);

// A set that grows, in the arena, without duplicates.
typedef struct fxi_schema_bag {
    fxi_schema_set set;
    size_t cap;
} fxi_schema_bag;

void fxi_schema_put(fxi_schema *r, fxi_schema_bag *b, const fxi_json *schema);
bool fxi_schema_has(const fxi_schema_set *s, const fxi_json *schema);

typedef struct fxi_schema_alts { // nodes of alternatives, in the arena
    uint32_t *node;
    size_t n, cap;
} fxi_schema_alts;

void fxi_schema_add_alt(fxi_schema *r, fxi_schema_alts *alts, uint32_t node);

// Checks the keywords of one schema object.
void fxi_schema_check(fxi_schema *r, const fxi_json *schema);
// Fails with "schema: WHAT at #/where".
__attribute__((format(printf, 3, 4))) void fxi_schema_refuse(fxi_schema *r, const fxi_json *at,
                                                             const char *fmt, ...);
// The types that `type` allows in all of them; FXI_SCHEMA_ALL without it.
unsigned fxi_schema_types_of(const fxi_schema_set *list);
// The first schema of the list with this keyword, after `before` (NULL: from the beginning).
// *value: the keyword's value. NULL: there is none.
const fxi_json *fxi_schema_next(const fxi_schema_set *list, const char *keyword,
                                const fxi_json *before, const fxi_json **value);
// The largest of minLength and the like; the smallest of maxLength and the like, FXI_GRAM_NO_MAX
// without it.
uint32_t fxi_schema_least(const fxi_schema_set *list, const char *keyword);
uint32_t fxi_schema_most(const fxi_schema_set *list, const char *keyword);

// The part of the root that a JSON pointer names, "" the root itself; NULL: there is none.
const fxi_json *fxi_schema_at(fxi_schema *r, const char *pointer);
// The schema that the $ref of this one names.
const fxi_json *fxi_schema_resolve(fxi_schema *r, const fxi_json *schema);

// ---- schema_set.c -------------------------------------------------------------------------------

// The values that satisfy all schemas of a set.
uint32_t fxi_schema_node(fxi_schema *r, const fxi_schema_set *set);

typedef struct fxi_schema_lists { // in the arena
    fxi_schema_set *at;           // [n]
    size_t n, cap;
} fxi_schema_lists;

// The alternatives of a set.
fxi_schema_lists fxi_schema_expand(fxi_schema *r, const fxi_schema_set *set);

// ---- types: each adds what one alternative allows -----------------------------------------------

void fxi_schema_values(fxi_schema *r, const fxi_schema_set *list, fxi_schema_alts *alts);
void fxi_schema_numbers(fxi_schema *r, const fxi_schema_set *list, bool whole,
                        fxi_schema_alts *alts);
void fxi_schema_strings(fxi_schema *r, const fxi_schema_set *list, fxi_schema_alts *alts);
void fxi_schema_arrays(fxi_schema *r, const fxi_schema_set *list, fxi_schema_alts *alts);
void fxi_schema_objects(fxi_schema *r, const fxi_schema_set *list, fxi_schema_alts *alts);

// Whether it is certain that no value satisfies both.
bool fxi_schema_exclude(fxi_schema *r, const fxi_schema_set *a, const fxi_schema_set *b);
// Whether enum or const is in the list.
bool fxi_schema_has_values(const fxi_schema_set *list);
// The i-th value that const, or else enum, lists; NULL: there are no more.
const fxi_json *fxi_schema_listed(const fxi_schema_set *list, size_t i);
// Whether all numbers of a are below those of b.
bool fxi_schema_is_below(const fxi_schema_set *a, const fxi_schema_set *b);
// Whether a value satisfies a set.
bool fxi_schema_accepts(fxi_schema *r, const fxi_json *value, const fxi_schema_set *set);

// What element `at` of an array, or a member with this name of an object, must satisfy.
fxi_schema_set fxi_schema_element(fxi_schema *r, const fxi_schema_set *list, size_t at);
fxi_schema_set fxi_schema_member(fxi_schema *r, const fxi_schema_set *list, const char *name);

// ---- schema_string.c ----------------------------------------------------------------------------

// A condition on a text inside a JSON string.
typedef struct fxi_schema_text {
    const fxi_json *at;      // the schema that it comes from
    const char *pattern;     // a regular expression that matches anywhere in it, or
    const char *whole;       // one that matches all of it, or
    const char *const *name; // [n_name] one of these, or
    size_t n_name;
    const fxi_str *mark; // [n_mark] none of these occurs in it, or
    size_t n_mark;
    uint32_t min, max; // its length, if none of those
    bool is_not;       // the condition must not hold
} fxi_schema_text;

// Texts that satisfy all conditions, without quotes, in r->spelling. n = 0: any text.
uint32_t fxi_schema_texts(fxi_schema *r, const fxi_schema_text *cond, size_t n);
// Lists a list's conditions on strings in cond[FXI_SCHEMA_MAX_CONDITION + 1], one more than
// fxi_schema_texts accepts; returns how many.
size_t fxi_schema_conditions(fxi_schema *r, const fxi_schema_set *list, fxi_schema_text *cond);
// Whether a text satisfies the condition.
bool fxi_schema_matches(fxi_schema *r, const fxi_schema_text *cond, const char *text);
// A format as a pattern that matches the whole text; NULL: unknown. Static.
const char *fxi_schema_format(const char *name);

#endif
