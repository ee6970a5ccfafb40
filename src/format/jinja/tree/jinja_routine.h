// jinja_routine.h - the tables of what a template can call: filters, tests, methods and functions.
//
// A library is one set of tables. The parser looks filters, tests and functions up in it, a run its
// methods; neither knows which library it was given.
#ifndef FXI_FORMAT_JINJA_TREE_ROUTINE_H
#define FXI_FORMAT_JINJA_TREE_ROUTINE_H

#include "base/fail.h"
#include "format/jinja/tree/jinja_value.h"

typedef struct fxi_jrun fxi_jrun;

typedef struct fxi_jkeyword {
    const fxi_jstr *name;
    fxi_jval value;
} fxi_jkeyword;

typedef struct fxi_jargs {
    const fxi_jval *v; // [n] by position
    size_t n;
    const fxi_jkeyword *kw; // [n_kw] by name
    size_t n_kw;
} fxi_jargs;

enum { FXI_JROUTINE_MAX_PARAM = 4 };

typedef struct fxi_jcall { // what a filter, test, method or function is called with
    const struct fxi_jroutine *row;
    fxi_jval self; // filter: its input, test: its subject, method: its object
    fxi_jval arg[FXI_JROUTINE_MAX_PARAM]; // by the row's names; absent where not given
    const fxi_jargs *all;
} fxi_jcall;

typedef struct fxi_jroutine {
    const char *name;
    fx_status (*run)(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out);
    int n_must;                                // parameters that must be given
    const char *param[FXI_JROUTINE_MAX_PARAM]; // names; "-": by position only; a first "*": run
                                               // takes c->all
    int how;                                   // for run, where several rows share one
} fxi_jroutine;

typedef struct fxi_jmethods { // of one type
    const fxi_jroutine *rows; // NULL: the type has no methods
    const char *others;       // methods of Python's type that are not supported, with a blank
                              // around each: their names hide items of the same name
} fxi_jmethods;

typedef struct fxi_jlibrary {       // tables end with a row without a name
    const fxi_jroutine *filters[4]; // tables, then NULL
    const fxi_jroutine *tests, *functions;
    const fxi_jmethods *methods; // [FXI_JVAL_N_TYPE]
} fxi_jlibrary;

// By name; NULL: the table has none.
const fxi_jroutine *fxi_jroutine_find(const fxi_jroutine *table, const char *name, size_t n);
const fxi_jroutine *fxi_jfilter_find(const fxi_jlibrary *lib, const char *name, size_t n);
// A method of values of this type. *exists: whether Python's type has one of this name.
const fxi_jroutine *fxi_jmethod_find(const fxi_jlibrary *lib, uint8_t type, const fxi_jstr *name,
                                     bool *exists);

#endif
