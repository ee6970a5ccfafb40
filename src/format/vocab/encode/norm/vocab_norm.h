// vocab_norm.h - norm steps: what happens to a text before it is cut into words, or to a word.
#ifndef FXI_FORMAT_VOCAB_NORM_H
#define FXI_FORMAT_VOCAB_NORM_H

#include "base/text/buf.h"
#include "format/vocab.h"
#include "format/vocab/lookup/vocab_regex.h"
#include "format/vocab/lookup/vocab_trie.h"
#include "format/vocab/spec/vocab_kinds.h"

typedef struct fxi_norm_step {
    fxi_norm_kind kind;
    fxi_str from, to; // in the vocabulary's pool
    fxi_regex *regex; // of REPLACE_REGEX
    bool late;
} fxi_norm_step;

typedef struct fxi_norms { // all zero: no steps
    fxi_norm_step *step;
    size_t n;
    fxi_trie kept; // words that SentencePiece's map of characters leaves as they are
} fxi_norms;

enum { FXI_MAX_NORM_BYTES = 1 << 30 }; // of a text after any step; a step stops where it has more

// What running norm steps needs; one thread's. All zero: empty.
typedef struct fxi_norm_work {
    fxi_buf a, b; // a step reads one and writes the other
    int32_t *cp;  // code points of a stretch that is put in a normal form
    size_t cap_cp;
    fxi_matcher *matcher;
    bool moved; // a step of the last run removed or replaced the beginning of the text
} fxi_norm_work;

typedef struct fxi_norm_how {
    bool late;  // run the late steps, otherwise the others
    bool space; // run the PREPEND steps
    bool first; // the text is the very first stretch
} fxi_norm_how;

// Takes a text through norm steps; *out points into it or into w, valid until the
// next call with w. Errors: FX_EINVAL (a pattern takes too many steps; the result is too long),
// FX_ENOMEM.
fx_status fxi_norm_run(const fxi_norms *norms, fxi_norm_how how, fxi_str text, fxi_norm_work *w,
                       fxi_str *out, fx_error *err);
void fxi_norm_work_free(fxi_norm_work *w);

// vocab_marks.c: steps that look at one character at a time: LOWERCASE, STRIP_ACCENTS, STRIP_MN,
// CLEAN, PAD_HAN. Appends what the step makes of the text; sets *moved if its first character goes.
// False: out of memory.
bool fxi_norm_chars(fxi_norm_kind kind, fxi_str text, fxi_buf *out, bool *moved);

// vocab_nf.c: appends `text` in a normal form. *same: it is in that form already, and nothing was
// appended. False: out of memory.
bool fxi_nf_append(fxi_norm_kind form, fxi_str text, fxi_norm_work *w, fxi_buf *out, bool *same);

// vocab_charsmap.c: whether these bytes are a map that fxi_charsmap_append can use.
bool fxi_charsmap_check(fxi_str map);
// Appends `text`, mapped; words of `kept` (may be empty) are left as they are. False: out of
// memory. Pre: the map was checked.
bool fxi_charsmap_append(fxi_str map, const fxi_trie *kept, fxi_str text, fxi_buf *out);

#endif
