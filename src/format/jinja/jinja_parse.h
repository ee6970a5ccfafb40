// jinja_parse.h - a template's text to tokens (jinja_lex.c), and these to a tree (jinja_parse.c).
#ifndef FXI_FORMAT_JINJA_PARSE_H
#define FXI_FORMAT_JINJA_PARSE_H

#include "format/jinja/jinja_tree.h"

// ---- tokens -------------------------------------------------------------------------------------

typedef enum fxi_jtok {
    FXI_JTOK_END,
    FXI_JTOK_DATA,
    FXI_JTOK_VAR_BEGIN,
    FXI_JTOK_VAR_END,
    FXI_JTOK_BLOCK_BEGIN,
    FXI_JTOK_BLOCK_END,
    FXI_JTOK_NAME,
    FXI_JTOK_STR, // with its quotes
    FXI_JTOK_INT,
    FXI_JTOK_FLOAT,
    FXI_JTOK_OP
} fxi_jtok;

typedef struct fxi_jtoken {
    fxi_jtok kind;
    int line;
    const char *p; // in the text
    size_t n;
} fxi_jtoken;

enum { FXI_JLEX_MAX_NEST = 100 }; // nested brackets, expressions and blocks

typedef struct fxi_jlex {
    const char *s; // newlines are \n, without the last one
    size_t n, at;
    int line;
    enum { FXI_JLEX_IN_DATA, FXI_JLEX_IN_VAR, FXI_JLEX_IN_BLOCK } in;
    bool line_starts; // `at` is the first place of a line
    fxi_jtoken begin; // the tag after the data returned last
    bool has_begin;
    char open[FXI_JLEX_MAX_NEST]; // brackets not yet closed
    int n_open;
    fx_error *err;
} fxi_jlex;

// The next token. Errors: FX_EFORMAT.
fx_status fxi_jlex_next(fxi_jlex *l, fxi_jtoken *out);
// Fails with FX_EFORMAT: "chat template, line N: ..."
__attribute__((format(printf, 3, 4))) fx_status fxi_jlex_refuse(fx_error *err, int line,
                                                                const char *fmt, ...);

// Appends what a string says to dst[0..*n), which grows by less than t->n. False: an escape names
// no character.
bool fxi_jtoken_unescape(const fxi_jtoken *t, char *dst, size_t *n);
bool fxi_jtoken_number(const fxi_jtoken *t, fxi_jval *out); // false: too large

// ---- the parser ---------------------------------------------------------------------------------

// Makes t->body and t->reads_parts; t->mem, names and lib are set. The text stays in use. Errors:
// FX_EFORMAT (syntax, a limit, something that is not supported; with the line), FX_ENOMEM.
fx_status fxi_jinja_parse(fxi_jinja *t, const char *text, size_t n_bytes, fx_error *err);

#endif
