// jinja_exec.h - walking the tree: variables, expressions, statements.
//
//     jinja_scope.c   variables
//     jinja_input.c   the caller's JSON to values
//     jinja_eval.c    expressions    } call each other: a macro is called in an expression and
//     jinja_exec.c    statements     } runs statements
#ifndef FXI_FORMAT_JINJA_RUN_EXEC_H
#define FXI_FORMAT_JINJA_RUN_EXEC_H

#include "format/jinja/run/jinja_run.h"

typedef struct fxi_jscope {
    struct fxi_jscope *up;
    struct fxi_jbinding *first; // the newest
} fxi_jscope;

fx_status fxi_jscope_bind(fxi_jrun *r, fxi_jscope *s, const fxi_jstr *name, fxi_jval v);
// The variable, else the function of this name, else undefined.
fx_status fxi_jscope_lookup(fxi_jrun *r, const fxi_jstr *name, fxi_jval *out);

fx_status fxi_jval_from_json(fxi_jrun *r, const json_t *j, fxi_jinja_whose whose, fxi_jval *out);

fx_status fxi_jnode_eval(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out);
fx_status fxi_jnode_eval_args(fxi_jrun *r, const fxi_jnode *n, fxi_jargs *out); // of n->b and n->c
fx_status fxi_jnode_exec(fxi_jrun *r, const fxi_jnode *list);
// What a template calls: a macro, a bound method, a function.
fx_status fxi_jval_call(fxi_jrun *r, fxi_jval f, const fxi_jargs *a, fxi_jval *out);

#endif
