// text.h - from the bytes of tokens to text that may be shown: whole characters, and no part of a
// stop string.
//
//   token bytes --(decoder)--> clean: whole characters --(no stop string may begin here)--> shown
//
// The caller shows the first `show` bytes of `clean` and drops them. The bytes of a character that
// is cut between tokens wait in the decoder; a tail of `clean` that may begin a stop string waits
// there.
#ifndef FXI_ENGINE_TEXT_H
#define FXI_ENGINE_TEXT_H

#include "base/text/buf.h"
#include "format/vocab.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct fxi_text {
    fxi_decoder bytes; // to whole characters
    fxi_buf clean;     // valid UTF-8 that was not shown yet
    bool include_stop; // a stop string is shown as well
    bool stopped;      // a stop string was found: `clean` ends before it, or after it
    int stop_string;   // its index
} fxi_text;

// Adds n bytes; *show is how many bytes of t->clean may be shown now. stop[n_stop] are
// NUL-terminated and not empty. False: no memory.
bool fxi_text_add(fxi_text *t, const char *bytes, size_t n, const char *const *stop, size_t n_stop,
                  size_t *show);
// Ends the text: what was held back may be shown; an incomplete character becomes U+FFFD. False: no
// memory.
bool fxi_text_end(fxi_text *t, size_t *show);
// Copies into an empty `to`. False: no memory.
bool fxi_text_copy(fxi_text *to, const fxi_text *from);
void fxi_text_free(fxi_text *t);

#endif
