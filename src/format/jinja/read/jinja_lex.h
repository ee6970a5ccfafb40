// jinja_lex.h - a template's text to tokens.
#ifndef FXI_FORMAT_JINJA_READ_LEX_H
#define FXI_FORMAT_JINJA_READ_LEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fail.h"

typedef enum fxi_jtok {
    FXI_JTOK_END,
    FXI_JTOK_DATA,
    FXI_JTOK_VAR_BEGIN,
    FXI_JTOK_VAR_END,
    FXI_JTOK_BLOCK_BEGIN,
    FXI_JTOK_BLOCK_END,
    FXI_JTOK_NAME,
    FXI_JTOK_STR, // p, n: with its quotes
    FXI_JTOK_INT,
    FXI_JTOK_FLOAT,
    FXI_JTOK_OP,
} fxi_jtok;

#define FXI_JLEX_OP2(a, b) ((a) << 8 | (b))

typedef struct fxi_jtoken {
    fxi_jtok kind;
    int line;
    const char *p; // in the text
    size_t n;
    int op; // '+', FXI_JLEX_OP2('*', '*'), ..
} fxi_jtoken;

enum { FXI_JLEX_MAX_NEST = 100 }; // of brackets, expressions and blocks in a template's text

typedef struct fxi_jlex {
    const char *s; // newlines are \n, without the last one
    size_t n, at;
    int line;
    enum { FXI_JLEX_IN_DATA, FXI_JLEX_IN_VAR, FXI_JLEX_IN_BLOCK } in;
    bool line_starts; // `at` is the first place of a line
    fxi_jtoken begin; // of the tag after the data returned last
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

#endif
