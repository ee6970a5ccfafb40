// text.h - from the bytes of tokens to text that may be shown: whole characters, and no part of a
// stop string.
//
//   token bytes --(decoder)--> clean: whole characters --(no stop string may begin here)--> shown
//
// The caller shows the first `show` bytes of `clean` and drops them. The decoder holds the bytes of
// a character that is split between tokens; `clean` keeps a tail that may begin a stop string.
#ifndef FXI_ENGINE_TEXT_H
#define FXI_ENGINE_TEXT_H

#include "base/text/buf.h"
#include "format/vocab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A stop string, searched for with the algorithm of Knuth, Morris and Pratt (1977): a byte of text
// costs the same however long the string is.
typedef struct fxi_stop {
    const char *text; // the request's
    size_t n_bytes;   // > 0
    uint32_t *border; // [n_bytes + 1] the longest proper suffix of the first k bytes that is also
                      // their prefix
} fxi_stop;

typedef struct fxi_stops { // all zero: none; constant once made
    fxi_stop *stop;
    size_t n;
} fxi_stops;

// text[n] are not empty, of less than 2 GiB each, and must outlive *out. False: no memory; free
// *out in either case.
bool fxi_stops_make(fxi_stops *out, const char *const *text, size_t n);
void fxi_stops_free(fxi_stops *s);

typedef struct fxi_text {
    fxi_decoder bytes; // joins bytes into whole characters
    fxi_buf clean;     // valid UTF-8 that is not shown yet
    bool include_stop; // the stop string is shown too
    bool stopped;      // a stop string was found: `clean` ends before it, or after it
    int stop_string;   // its index
    bool show_control; // control tokens are text, as they are spelled
    size_t n_char;     // characters that have gone into `clean`
    size_t token_at;   // the same before the token that was added last
    uint32_t *matched; // [n_stop] bytes at the end of the text that begin this stop string; NULL:
                       // none has been looked for
    size_t n_stop;
} fxi_text;

// The bytes that this token adds as the next one, for fxi_text_add.
const char *fxi_text_token(fxi_text *t, const fxi_vocab *v, int32_t id, size_t *n_bytes);

// Adds n bytes; *show is the number of bytes of t->clean that may be shown now. stops: the same in
// each call, or NULL while none counts. False: no memory.
bool fxi_text_add(fxi_text *t, const char *bytes, size_t n, const fxi_stops *stops, size_t *show);
// Ends the text: what was held back may be shown; an incomplete character becomes U+FFFD. False: no
// memory.
bool fxi_text_end(fxi_text *t, size_t *show);
// As if nothing had been added; what the decoder strips is for the caller to say.
void fxi_text_restart(fxi_text *t);
// Copies into an empty `to`. False: no memory.
bool fxi_text_copy(fxi_text *to, const fxi_text *from);
void fxi_text_free(fxi_text *t);

#endif
