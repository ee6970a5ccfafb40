// jinja_parse.h - a template's text to tokens (jinja_lex.c), and tokens to the tree: expressions
// (jinja_expr.c) and statements (jinja_statement.c).
#ifndef FXI_FORMAT_JINJA_PARSE_H
#define FXI_FORMAT_JINJA_PARSE_H

#include "format/jinja/jinja_tree.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/fail.h"

// ---- tokens -------------------------------------------------------------------------------------

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
    FXI_JTOK_OP
} fxi_jtok;

#define FXI_JLEX_OP2(a, b) ((a) << 8 | (b))

typedef struct fxi_jtoken {
    fxi_jtok kind;
    int line;
    const char *p; // in the text
    size_t n;
    int op; // '+', FXI_JLEX_OP2('*', '*'), ..
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

// ---- the parser ---------------------------------------------------------------------------------

typedef struct fxi_jparse {
    fxi_jlex lex;
    fxi_jtoken cur, ahead; // the current token and the next one
    const fxi_jlibrary *lib;
    fxi_jmem *mem;
    fxi_jnames **names;
    int depth;
    int tag_line;                                // the line of the last tag that opened a block
    bool sees_varargs, sees_kwargs, sees_caller; // in the macro that is parsed
    int n_loop;                                  // enclosing loops, within this macro
    bool reads_parts;                            // a loop over "content" was seen
    fxi_jnode *called;                           // FXI_JNODE_CALL of plain names, through e
    fxi_jnames *bound;                           // names that something is bound to
    fx_error *err;
} fxi_jparse;

// All functions fail with FX_EFORMAT (syntax, a limit, something that is not supported; with the
// line) or FX_ENOMEM.

// jinja_statement.c: the whole template, after p->lex, lib, mem, names and err are set.
fx_status fxi_jparse_template(fxi_jparse *p, fxi_jnode **out);

// jinja_expr.c
fx_status fxi_jparse_expr(fxi_jparse *p, fxi_jnode **out);
// "a, b" is a tuple; `no_if`: without "x if y", as before a loop's condition.
fx_status fxi_jparse_tuple(fxi_jparse *p, bool no_if, bool in_brackets, fxi_jnode **out);
fx_status fxi_jparse_target(fxi_jparse *p, bool attributes, fxi_jnode **out);
// One filter or more on `input`; the first one's '|' has been read.
fx_status fxi_jparse_filters(fxi_jparse *p, fxi_jnode *input, fxi_jnode **out);

// jinja_expr.c, for statements too
bool fxi_jtoken_is_name(const fxi_jtoken *t, const char *name);
fx_status fxi_jparse_next(fxi_jparse *p); // moves on by one token
bool fxi_jparse_at_op(const fxi_jparse *p, int op);
bool fxi_jparse_at_name(const fxi_jparse *p, const char *name);
fx_status fxi_jparse_expect_op(fxi_jparse *p, int op);
fx_status fxi_jparse_expect_name(fxi_jparse *p, const char *name);
fx_status fxi_jparse_wrong(fxi_jparse *p, const char *expected); // fails: "expected X, got Y"
fx_status fxi_jparse_no_memory(fxi_jparse *p);                   // fails
fx_status fxi_jparse_node(fxi_jparse *p, fxi_jkind kind, int line, fxi_jnode **out);
fx_status fxi_jparse_intern(fxi_jparse *p, fxi_jnames **names, const char *s, size_t n,
                            const fxi_jstr **out);
fx_status fxi_jparse_name(fxi_jparse *p, const fxi_jstr **out);  // the current token, a name
fx_status fxi_jparse_binds(fxi_jparse *p, const fxi_jstr *name); // notes that it is bound
fx_status fxi_jparse_enter(fxi_jparse *p); // one level deeper; p->depth-- leaves

#endif
