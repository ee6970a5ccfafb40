// vocab_hf_pattern.h - what rewriting a pattern takes: vocab_hf_regex.c writes it, vocab_hf_class.c
// its classes, vocab_hf_escape.c reads their members.
#ifndef FXI_FORMAT_VOCAB_HF_PATTERN_H
#define FXI_FORMAT_VOCAB_HF_PATTERN_H

#include "format/vocab/read/hf/vocab_hf.h"

#define FXI_HF_HEX        "0-9A-Fa-f"
#define FXI_HF_WORD_ALONE FXI_HF_WORD "\\xB2\\xB3\\xB9\\xBC-\\xBE" // \w outside of a class

typedef struct fxi_hf_pattern {
    const char *begin, *p, *end; // the pattern; p: the next character
    fxi_buf out, item;           // what it becomes; the escape read last
    unsigned depth;              // of classes
    const char *bad;             // NULL, or what is not supported
    bool short_memory;
} fxi_hf_pattern;

// ---- vocab_hf_escape.c --------------------------------------------------------------------------

void fxi_hf_refuse(fxi_hf_pattern *w, const char *what); // of several reasons, the first stays
// Appends to one of the pattern's buffers.
void fxi_hf_put(fxi_hf_pattern *w, fxi_buf *out, const char *text, size_t n);
void fxi_hf_put_text(fxi_hf_pattern *w, fxi_buf *out, const char *text);

// Members of a PCRE2 class; but: all characters but these. Valid until the next is read.
typedef struct fxi_hf_item {
    fxi_str text;
    bool but;
} fxi_hf_item;

// An escape that stands for characters; w->p is past the backslash.
fxi_hf_item fxi_hf_read_escape(fxi_hf_pattern *w);
// The members of a POSIX class; NULL: there is no such class.
const char *fxi_hf_posix_class(const char *name, size_t n);

// ---- vocab_hf_class.c ---------------------------------------------------------------------------

// Writes a class; w->p is past its bracket.
void fxi_hf_put_class(fxi_hf_pattern *w);

#endif
