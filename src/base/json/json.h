// json.h - JSON: text to a tree of values, access to them, and text again.
//
// A document is parsed by yyjson (third_party/yyjson) into memory of its own, charged as it grows,
// and freed as a whole. Values are read only, any thread may read them, and they live as long as
// their document. A function that reads a value takes NULL, or a value of another type, as one
// that is absent.
//
// Of equal keys in an object the last counts, as in Python and JavaScript; its place is the last's.
// Members and elements are found in constant time, whatever a client sends.
#ifndef FXI_BASE_JSON_H
#define FXI_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/str.h"
#include "flexinfer/error.h"

typedef struct yyjson_val fxi_json; // a value

// ---- documents ----------------------------------------------------------------------------------

typedef struct fxi_json_doc { // all zero: empty
    const fxi_json *root;
    struct fxi_json_block *block; // its memory, newest first
    size_t held_bytes;            // of all blocks
    size_t n_value;               // members and elements of all lists
} fxi_json_doc;

typedef struct fxi_json_room {
    bool (*take)(void *ud, size_t n_bytes); // before n_bytes more are taken; false: they must not
    void (*give)(void *ud, size_t n_bytes); // after n_bytes have been given back during the parse
    void *ud;
} fxi_json_room;

enum { FXI_JSON_MAX_DEPTH = 32, FXI_JSON_MAX_VALUE = 400000 }; // of what a client sends

typedef struct fxi_json_rules {  // all zero: what the comments call usual
    size_t max_depth, max_value; // members and elements of all lists; 0: 2048 and 2^30
    bool unique;                 // equal keys are an error; usual: the last counts
    bool reals;                  // all numbers are read as real ones, however many digits an
                                 // integer has; usual: integers have 64 bits
    bool not_finite;             // Infinity and NaN are numbers, as Python writes them
    bool nul_texts, nul_keys;    // strings and keys may have U+0000; usual: an error
    const fxi_json_room *room;   // NULL: no limit
} fxi_json_rules;

// Parses text[0..n), UTF-8, into an empty document. Free with fxi_json_doc_free in any case;
// held_bytes is what `room` still counts. Errors: FX_EFORMAT (not JSON: "line 1, column 7: ..");
// FX_EINVAL (JSON that breaks a rule: "nests deeper than 32"); FX_ENOMEM (no memory, or `room` says
// no). Any thread.
fx_status fxi_json_parse(fxi_json_doc *d, fxi_str text, const fxi_json_rules *rules, fx_error *err);
void fxi_json_doc_free(fxi_json_doc *d); // empty again

// ---- values -------------------------------------------------------------------------------------

typedef enum fxi_json_type {
    FXI_JSON_ABSENT,
    FXI_JSON_NULL,
    FXI_JSON_BOOL,
    FXI_JSON_INT,
    FXI_JSON_REAL,
    FXI_JSON_STRING,
    FXI_JSON_ARRAY,
    FXI_JSON_OBJECT,
} fxi_json_type;

fxi_json_type fxi_json_type_of(const fxi_json *v);

static inline bool fxi_json_is_null(const fxi_json *v)
{
    return fxi_json_type_of(v) == FXI_JSON_NULL;
}

static inline bool fxi_json_is_bool(const fxi_json *v)
{
    return fxi_json_type_of(v) == FXI_JSON_BOOL;
}

static inline bool fxi_json_is_int(const fxi_json *v)
{
    return fxi_json_type_of(v) == FXI_JSON_INT;
}

static inline bool fxi_json_is_real(const fxi_json *v)
{
    return fxi_json_type_of(v) == FXI_JSON_REAL;
}

static inline bool fxi_json_is_number(const fxi_json *v)
{
    return fxi_json_is_int(v) || fxi_json_is_real(v);
}

static inline bool fxi_json_is_string(const fxi_json *v)
{
    return fxi_json_type_of(v) == FXI_JSON_STRING;
}

static inline bool fxi_json_is_array(const fxi_json *v)
{
    return fxi_json_type_of(v) == FXI_JSON_ARRAY;
}

static inline bool fxi_json_is_object(const fxi_json *v)
{
    return fxi_json_type_of(v) == FXI_JSON_OBJECT;
}

bool fxi_json_is_true(const fxi_json *v);
bool fxi_json_is_false(const fxi_json *v);
int64_t fxi_json_int(const fxi_json *v);      // of an integer; otherwise 0
double fxi_json_number(const fxi_json *v);    // of an integer or a real number; otherwise 0
const char *fxi_json_text(const fxi_json *v); // of a string: its bytes and a NUL; otherwise NULL
fxi_str fxi_json_string(const fxi_json *v);   // the same with its length; otherwise NULL, 0

size_t fxi_json_array_size(const fxi_json *v);  // of others 0
size_t fxi_json_object_size(const fxi_json *v); // of others 0
const fxi_json *fxi_json_at(const fxi_json *array, size_t i);
const fxi_json *fxi_json_get(const fxi_json *object, const char *key);
const fxi_json *fxi_json_getn(const fxi_json *object, const char *key, size_t n_bytes);

// The constants, for where a value is wanted and none was parsed.
const fxi_json *fxi_json_null(void);
const fxi_json *fxi_json_bool(bool b);

// A walk over a list: for (fxi_json_iter it = fxi_json_items(v); fxi_json_next(&it);)
typedef struct fxi_json_iter {
    const char *key; // of a member, with a NUL; of an element NULL
    size_t key_bytes;
    size_t i; // how many came before
    const fxi_json *value;
    const fxi_json *next, *end; // private, like
    bool is_object;
} fxi_json_iter;

fxi_json_iter fxi_json_items(const fxi_json *v);   // of an object or an array
fxi_json_iter fxi_json_members(const fxi_json *v); // of an object alone
bool fxi_json_next(fxi_json_iter *it);             // false: there are no more

// ---- text ---------------------------------------------------------------------------------------

// Straight into a buffer. All return false when memory is short.

// Appends a quoted string. Bytes that are not UTF-8 become U+FFFD, so the output always parses.
bool fxi_json_str(fxi_buf *b, const char *s, size_t n_bytes);
bool fxi_json_cstr(fxi_buf *b, const char *s); // NULL: null
// Appends a number that reads back as the same float, always with a fraction or an exponent.
// Infinities, which JSON does not have, become -9999.0 and 9999.0, and NaN null.
bool fxi_json_float(fxi_buf *b, float v);
// Appends a value, without blanks; of NULL: null.
bool fxi_json_value(fxi_buf *b, const fxi_json *v);
// Appends the pattern, in which ' stands for " and each of these for an argument:
//
//     %q   const char *      a quoted string; of NULL: null
//     %t   fxi_str           a quoted string
//     %s   const char *      JSON, as it is
//     %b   const fxi_buf *   JSON, as it is
//     %v   const fxi_json *  a value
//     %d   int               %l   long long           %z   size_t
//     %u   uint32_t          %w   uint64_t            %f   double, as fxi_json_float
bool fxi_json_fmt(fxi_buf *b, const char *pattern, ...);

#endif
