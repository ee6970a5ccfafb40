// vocab_norm.h - norm steps: what happens to a text before it is cut into words, or to a word.
#ifndef FXI_FORMAT_VOCAB_NORM_H
#define FXI_FORMAT_VOCAB_NORM_H

#include "base/text/buf.h"
#include "format/vocab/spec/vocab_spec.h"

enum { FXI_MAX_NORM_BYTES = 1 << 30 }; // a text's size after any step; a step that makes more stops

// What running norm steps needs; one thread's. All zero: empty.
typedef struct fxi_norm_work {
    fxi_buf a, b; // a step reads one and writes the other
    int32_t *cp;  // code points of a stretch that is put in a normal form
    size_t cap_cp;
    fxi_matcher *matcher;
    size_t front; // as in fxi_norm_how, for the text that the last run made
} fxi_norm_work;

typedef struct fxi_norm_how {
    bool late;  // run the late steps, otherwise the others
    bool space; // run the PREPEND steps
    // Bytes that come from the first character of the input: by them FXI_NORM_PREPEND_FIRST knows
    // the beginning, as `tokenizers` does. 0: another stretch, or a step removed them.
    size_t front;
} fxi_norm_how;

// Takes a text through n norm steps; *out points into it or into w, valid until the next call with
// w. Errors: FX_EINVAL (a pattern takes too many steps; the result is too long), FX_ENOMEM.
fx_status fxi_norm_run(const fxi_norm *step, size_t n, fxi_norm_how how, fxi_str text,
                       fxi_norm_work *w, fxi_str *out, fx_error *err);
void fxi_norm_work_free(fxi_norm_work *w);

// Whether these bytes are a map that fxi_charsmap_append can use.
bool fxi_charsmap_check(fxi_str map);
// Appends `text`, mapped. False: out of memory. Pre: the map was checked.
bool fxi_charsmap_append(fxi_str map, fxi_str text, fxi_buf *out);

#endif
