// jinja_run.h - a run of a template: its state and limits, and what operators, routines and
// statements are built from.
//
//     jinja_run.c         error lines, limits, strings that grow
//     jinja_values.c      what values are
//     jinja_text.c        their text: str(), repr(), JSON
//     jinja_operators.c   operators, attributes, items, slices
//     jinja_exec.c        variables, expressions, calls, statements
//     jinja_strings.c     methods and filters of strings }
//     jinja_sequences.c   filters of sequences           } the library of chat templates
//     jinja_library.c     other filters, tests, functions }
//
// Each file calls those above it. A run ends with its first error: what a function changed for the
// time of a call (scope, output, depth) is put back only where the call succeeds.
#ifndef FXI_FORMAT_JINJA_RUN_H
#define FXI_FORMAT_JINJA_RUN_H

#include "format/jinja/jinja_tree.h"

typedef struct fxi_jout { // a string that grows
    char *p, *own;        // [cap]
    size_t n, cap;
} fxi_jout;

struct fxi_jrun {
    fxi_jmem mem;
    const fxi_jinja *t;
    const fxi_jinja_context *c;
    fxi_jinja_limits lim;
    uint64_t n_step; // left
    int depth;
    int line;                 // the line of the node that is being evaluated
    struct fxi_jscope *scope; // innermost
    fxi_jout *out;
    fxi_jval captured; // the text that a block with filters has rendered
    enum { FXI_JFLOW_GO_ON, FXI_JFLOW_BREAK, FXI_JFLOW_CONTINUE } flow;
    fx_error *err;
};

// Functions that take a run fail with FX_EINVAL (the template's fault, or a limit) or FX_ENOMEM.

// ---- jinja_run.c --------------------------------------------------------------------------------

// Fails with FX_EINVAL: "chat template, line N: ...", N being the run's line.
__attribute__((format(printf, 2, 3))) fx_status fxi_jrun_fail(fxi_jrun *r, const char *fmt, ...);
fx_status fxi_jrun_take(fxi_jrun *r, size_t n_bytes, void *out); // *(void **)out
// Makes room for one more after the n elements of *list, which has room for *cap.
fx_status fxi_jrun_grow(fxi_jrun *r, void *list, size_t elem_bytes, size_t n, size_t *cap);
fx_status fxi_jrun_work(fxi_jrun *r, size_t n_bytes); // counts the steps for n bytes
// The same for n bytes read character by character, each compared with n_more other bytes.
fx_status fxi_jrun_work_chars(fxi_jrun *r, size_t n_bytes, size_t n_more);
fx_status fxi_jrun_enter(fxi_jrun *r); // one level deeper; leave after FX_OK
static inline void fxi_jrun_leave(fxi_jrun *r)
{
    r->depth--;
}

fx_status fxi_jout_add(fxi_jrun *r, fxi_jout *o, const fxi_jstr *s);
// Bytes from .. from + n of s.
fx_status fxi_jout_add_part(fxi_jrun *r, fxi_jout *o, const fxi_jstr *s, size_t from, size_t n);
fx_status fxi_jout_add_bytes(fxi_jrun *r, fxi_jout *o, const char *p, size_t n, bool own);
// The text as a value; o must not grow afterwards.
fx_status fxi_jout_finish(fxi_jrun *r, const fxi_jout *o, fxi_jval *out);

fx_status fxi_jstr_make(fxi_jrun *r, const char *p, const char *own, size_t n, fxi_jval *out);
fx_status fxi_jstr_part(fxi_jrun *r, const fxi_jstr *s, size_t from, size_t n, fxi_jval *out);
fx_status fxi_jstr_concat(fxi_jrun *r, const fxi_jstr *a, const fxi_jstr *b, fxi_jval *out);

// ---- jinja_values.c -----------------------------------------------------------------------------

const char *fxi_jval_type_name(fxi_jval v); // Python's, "dict"
bool fxi_jval_truth(fxi_jval v);
static inline bool fxi_jval_is_integer(fxi_jval v) // int or bool
{
    return v.type == FXI_JVAL_INT || v.type == FXI_JVAL_BOOL;
}
static inline bool fxi_jval_is_number(fxi_jval v) // int, float or bool
{
    return fxi_jval_is_integer(v) || v.type == FXI_JVAL_FLOAT;
}
static inline bool fxi_jval_is_seq(fxi_jval v)
{
    return v.type == FXI_JVAL_LIST || v.type == FXI_JVAL_TUPLE;
}
static inline int64_t fxi_jval_to_int(fxi_jval v) // v is an int or bool
{
    return v.type == FXI_JVAL_BOOL ? v.b : v.i;
}
static inline double fxi_jval_to_float(fxi_jval v) // v is a number
{
    return v.type == FXI_JVAL_FLOAT ? v.f : (double)fxi_jval_to_int(v);
}
fx_status fxi_jval_equal(fxi_jrun *r, fxi_jval a, fxi_jval b, bool *out);
// < 0, 0, > 0; fails for types that Python does not order. op: for the error.
fx_status fxi_jval_compare(fxi_jrun *r, fxi_jval a, fxi_jval b, const char *op, int *out);
bool fxi_jval_is_hashable(fxi_jval v);
// Fails for an undefined value: "'x' is undefined", "the method 'x' is not supported".
fx_status fxi_jval_need_defined(fxi_jrun *r, fxi_jval v);

fx_status fxi_jval_make_seq(fxi_jrun *r, fxi_jtype type, const fxi_jval *v, size_t n,
                            fxi_jval *out);
fx_status fxi_jval_make_generator(fxi_jrun *r, const fxi_jval *v, size_t n, fxi_jval *out);
// The items for a filter that returns a generator. If v is not iterable, *out is a generator that
// fails when consumed, as in Jinja; otherwise *out is absent.
fx_status fxi_jval_generator_source(fxi_jrun *r, fxi_jval v, fxi_jseq *items, fxi_jval *out);
// Works in e, which the value keeps. Of equal keys the first keeps its place and gets the last
// value.
fx_status fxi_jdict_merge(fxi_jrun *r, fxi_jpair *e, size_t n, fxi_jval *out);
// The same for keys that are hashable and differ.
fx_status fxi_jdict_make(fxi_jrun *r, const fxi_jpair *e, size_t n, fxi_jval *out);
fx_status fxi_jdict_lookup(fxi_jrun *r, const fxi_jdict *d, fxi_jval key, const fxi_jval **out);
// The member's value; NULL: there is none.
fxi_jval *fxi_jnamespace_find(const struct fxi_jnamespace *ns, const fxi_jstr *name);
// The items that a loop over v sees; consumes a generator.
fx_status fxi_jval_items(fxi_jrun *r, fxi_jval v, fxi_jseq *out);
bool fxi_jval_is_iterable(fxi_jval v);
// len(v); false where it has none.
bool fxi_jval_length(fxi_jval v, size_t *out);
fx_status fxi_jval_contains(fxi_jrun *r, fxi_jval in, fxi_jval what, bool *out);

// ---- jinja_text.c -------------------------------------------------------------------------------

fx_status fxi_jval_show(fxi_jrun *r, fxi_jout *o, fxi_jval v);            // str(v)
fx_status fxi_jval_to_str(fxi_jrun *r, fxi_jval v, const fxi_jstr **out); // str(v)

typedef struct fxi_jstyle { // how repr(), or json.dumps with these arguments, writes values
    bool json, ascii, sorted;
    const fxi_jstr *indent; // NULL: on one line
    fxi_jstr item, colon;   // separators
} fxi_jstyle;

fx_status fxi_jval_write(fxi_jrun *r, fxi_jout *o, fxi_jval v, const fxi_jstyle *style);

// ---- jinja_operators.c --------------------------------------------------------------------------

fx_status fxi_jop_binary(fxi_jrun *r, fxi_jop op, fxi_jval a, fxi_jval b, fxi_jval *out);
fx_status fxi_jop_compare(fxi_jrun *r, fxi_jop op, fxi_jval a, fxi_jval b, bool *out);
fx_status fxi_jop_sign(fxi_jrun *r, char sign, fxi_jval a, fxi_jval *out); // '-' or '+'

fx_status fxi_jval_attribute(fxi_jrun *r, fxi_jval v, const fxi_jstr *name, fxi_jval *out);
fx_status fxi_jval_subscript(fxi_jrun *r, fxi_jval v, fxi_jval key, fxi_jval *out);
fx_status fxi_jval_slice(fxi_jrun *r, fxi_jval v, const fxi_jval bound[3], fxi_jval *out);
// A path as filters take it, "a.b.0" or a number. The preset stands in for every part of it that is
// undefined; none is no preset: *out may be undefined.
fx_status fxi_jval_path(fxi_jrun *r, fxi_jval v, fxi_jval path, fxi_jval preset, fxi_jval *out);

// ---- jinja_exec.c -------------------------------------------------------------------------------

fx_status fxi_jroutine_call(fxi_jrun *r, const fxi_jroutine *row, fxi_jval self, const fxi_jargs *a,
                            fxi_jval *out);
// v as type letter `type` of fxi_jroutine demands; fails where it is not.
fx_status fxi_jcall_need(fxi_jrun *r, const fxi_jcall *c, char type, fxi_jval *v);
static inline bool fxi_jcall_given(const fxi_jcall *c, int i)
{
    return c->arg[i].type != FXI_JVAL_ABSENT;
}
bool fxi_jcall_true(const fxi_jcall *c, int i);                                // given, and true
static inline int64_t fxi_jcall_int(const fxi_jcall *c, int i, int64_t preset) // its type is i
{
    return fxi_jcall_given(c, i) ? fxi_jval_to_int(c->arg[i]) : preset;
}
static inline const fxi_jstr *fxi_jcall_str(const fxi_jcall *c, int i) // its type is s or t
{
    return fxi_jcall_given(c, i) ? c->arg[i].s : NULL;
}

typedef struct fxi_jscope {
    struct fxi_jscope *up;
    struct fxi_jbinding *first; // the newest
} fxi_jscope;

fx_status fxi_jscope_bind(fxi_jrun *r, fxi_jscope *s, const fxi_jstr *name, fxi_jval v);
fx_status fxi_jnode_exec(fxi_jrun *r, const fxi_jnode *list);

// What published chat templates call, and what Hugging Face documents for them:
// docs/user/templates.md.
extern const fxi_jlibrary fxi_jlibrary_chat;

// A function of a row.
#define FXI_JROUTINE(name) static fx_status name(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)

// Tables of it; each ends with a row without a name.
extern const fxi_jroutine fxi_jlibrary_str_filters[], fxi_jlibrary_str_methods[],
    fxi_jlibrary_seq_filters[];

// ---- jinja_strings.c ----------------------------------------------------------------------------

// The first character and the others in upper ('u'), lower ('l') or title case ('t').
fx_status fxi_jstr_recase(fxi_jrun *r, const fxi_jstr *s, char first, char how, fxi_jval *out);
// Argument i: a text, or a number of blanks, which are the template's own.
fx_status fxi_jcall_blanks(fxi_jrun *r, const fxi_jcall *c, int i, const fxi_jstr **out);

#endif
