// jinja_impl.h - what the files of the interpreter share, grouped by the file that defines it.
//
//   text -> jinja_lex.c (tokens) -> jinja_parse.c, jinja_expr.c (tree)
//   tree -> jinja_exec.c (statements), jinja_eval.c (expressions), jinja_call.c
//        -> jinja_ops.c, jinja_filters*.c, jinja_tests.c, jinja_methods*.c, jinja_globals.c,
//           jinja_format.c over jinja_value.c, jinja_text.c, jinja_show.c, jinja_json.c
//
// Names begin with fxi_j. Values are made in the run's memory and freed with it as a whole; none is
// ever changed, but a namespace, a cycler, a joiner and how far a generator has been read.
#ifndef FXI_FORMAT_CHAT_JINJA_IMPL_H
#define FXI_FORMAT_CHAT_JINJA_IMPL_H

#include "format/chat/jinja.h"

typedef struct fxi_jnode fxi_jnode;
typedef struct fxi_jrun fxi_jrun;

// ---- jinja_mem.c: memory for pieces that are freed together -----------------------------------

typedef struct fxi_jmem {
    struct fxi_jmem_block *block; // the newest
    size_t n_used, limit_bytes;
} fxi_jmem;

// At a multiple of 16, not cleared. NULL: the limit is reached, or memory is short (then
// mem->n_used <= mem->limit_bytes).
void *fxi_jmem_take(fxi_jmem *mem, size_t n_bytes);
void fxi_jmem_free(fxi_jmem *mem);

// ---- values -----------------------------------------------------------------------------------

typedef enum fxi_jtype {
    FXI_J_UNDEFINED,
    FXI_J_NONE,
    FXI_J_BOOL,
    FXI_J_INT,
    FXI_J_FLOAT,
    FXI_J_STR,
    FXI_J_LIST,
    FXI_J_TUPLE,
    FXI_J_DICT,
    FXI_J_RANGE,
    FXI_J_VIEW, // dict.items() and kin
    FXI_J_GENERATOR,
    FXI_J_NAMESPACE,
    FXI_J_LOOP,
    FXI_J_MACRO,
    FXI_J_METHOD, // bound to its object
    FXI_J_FUNCTION,
    FXI_J_CYCLER,
    FXI_J_JOINER,
    FXI_J_N_TYPE,
    FXI_J_ABSENT = FXI_J_N_TYPE, // an argument that was not given; never seen by a template
} fxi_jtype;

typedef struct fxi_jstr { // UTF-8, valid
    const char *p;
    const char *own;       // [n] marks; NULL: all of it is the caller's
    size_t n;              // bytes
    struct fxi_jout *room; // what it was put together in, where it may go on; NULL: nothing
} fxi_jstr;

typedef struct fxi_jval fxi_jval;

typedef struct fxi_jseq { // list, tuple
    const fxi_jval *v;
    size_t n;
} fxi_jseq;

typedef struct fxi_jrange {
    int64_t start, stop, step;
    size_t n;
} fxi_jrange;

struct fxi_jval {
    uint8_t type; // fxi_jtype
    bool own;     // of a number: computed by the template, so that its digits are too
    union {
        bool b;
        int64_t i;
        double f;
        const fxi_jstr *s; // also what an undefined value was called, NULL if it had no name
        const fxi_jseq *seq;
        const struct fxi_jdict *dict;
        const fxi_jrange *range;
        struct fxi_jview *view;
        struct fxi_jgenerator *gen;
        struct fxi_jnamespace *ns;
        struct fxi_jloop *loop;
        const struct fxi_jmacro *macro;
        const struct fxi_jmethod *method;
        const struct fxi_jfunction *function;
        struct fxi_jcycler *cycler;
    };
};

typedef struct fxi_jpair {
    fxi_jval key, value;
} fxi_jpair;

_Static_assert(sizeof(fxi_jpair) == 2 * sizeof(fxi_jval), "a pair can be a tuple's elements");

typedef struct fxi_jdict {
    const fxi_jpair *e; // [n] in order
    size_t n;
    const uint32_t *by_key; // [n] strings first and in order; NULL: few enough to look through
    size_t n_str;           // of by_key
} fxi_jdict;

typedef enum fxi_jview_kind { FXI_J_ITEMS, FXI_J_KEYS, FXI_J_VALUES } fxi_jview_kind;

struct fxi_jview {
    const fxi_jdict *dict;
    fxi_jview_kind kind;
};

struct fxi_jgenerator {
    fxi_jseq seq;
    size_t at;
    const char *of; // not NULL: it was made of this type, which cannot be looped over
};

struct fxi_jnamespace {
    fxi_jpair *e; // [n], keys are strings
    size_t n, cap;
};

struct fxi_jloop {
    const fxi_jval *v; // [n] what is looped over
    size_t n, i;
    fxi_jval changed; // what changed() was called with last; absent at first
};

struct fxi_jcycler {
    const fxi_jseq *seq; // of a joiner: one, the separator
    size_t at;
};

struct fxi_jmacro {
    const fxi_jnode *node;
    struct fxi_jscope *scope; // it was defined in
};

struct fxi_jmethod {
    fxi_jval self;
    const struct fxi_jroutine *row;
};

typedef struct fxi_jscope {
    struct fxi_jscope *up;
    struct fxi_jbinding *first; // the newest
} fxi_jscope;

// What a run of a template works with.
struct fxi_jrun {
    fxi_jmem mem;
    const fxi_jinja *t;
    const fxi_jinja_context *c;
    fxi_jinja_limits lim;
    uint64_t n_step; // left
    int depth;
    int line;          // of what is being evaluated
    fxi_jscope *scope; // innermost
    struct fxi_jout *out;
    fxi_jval captured; // what a block with filters has rendered
    enum { FXI_J_GO_ON, FXI_J_BREAK, FXI_J_CONTINUE } flow;
    fx_error *err;
};

// jinja.c
// FX_EINVAL: "chat template, line N: ...", N being where the run is.
__attribute__((format(printf, 2, 3))) fx_status fxi_j_fail(fxi_jrun *r, const char *fmt, ...);
// The error of a text with whatever is in it, control characters made visible.
fx_status fxi_j_fail_text(fxi_jrun *r, const char *what, const fxi_jstr *s);
fx_status fxi_j_take(fxi_jrun *r, size_t n_bytes, void *out); // *(void **)out
fx_status fxi_j_work(fxi_jrun *r, size_t n_bytes);            // counts the steps for n bytes
// The same for n bytes that are looked at one character at a time, each beside n_more other bytes.
fx_status fxi_j_work_chars(fxi_jrun *r, size_t n_bytes, size_t n_more);
fx_status fxi_j_enter(fxi_jrun *r); // one level deeper; leave after FX_OK
void fxi_j_leave(fxi_jrun *r);

// ---- jinja_text.c: strings with marks ---------------------------------------------------------

typedef struct fxi_jout { // a string that grows
    char *p, *own;        // [cap]
    size_t n, cap;
} fxi_jout;

fx_status fxi_jout_add(fxi_jrun *r, fxi_jout *o, const fxi_jstr *s);
// A part of s: bytes from .. from + n.
fx_status fxi_jout_part(fxi_jrun *r, fxi_jout *o, const fxi_jstr *s, size_t from, size_t n);
fx_status fxi_jout_bytes(fxi_jrun *r, fxi_jout *o, const char *p, size_t n, bool own);
fx_status fxi_jout_char(fxi_jrun *r, fxi_jout *o, uint32_t c, bool own);
// What has grown as a value; o must not grow afterwards.
fx_status fxi_jout_done(fxi_jrun *r, const fxi_jout *o, fxi_jval *out);

fx_status fxi_j_str(fxi_jrun *r, const char *p, const char *own, size_t n, fxi_jval *out);
fx_status fxi_j_text(fxi_jrun *r, const char *text, bool own, fxi_jval *out); // static text
fx_status fxi_j_part(fxi_jrun *r, const fxi_jstr *s, size_t from, size_t n, fxi_jval *out);
fx_status fxi_j_concat(fxi_jrun *r, const fxi_jstr *a, const fxi_jstr *b, fxi_jval *out);

int fxi_j_compare_str(const fxi_jstr *a, const fxi_jstr *b);
bool fxi_j_str_is(const fxi_jstr *s, const char *text);
// The first place of `what` in s from byte `from` on, before byte `to`; SIZE_MAX: none. Linear.
size_t fxi_j_find(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to);
size_t fxi_j_rfind(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to);

// Characters (code points). `at` is a byte position at the start of one.
uint32_t fxi_j_char(const fxi_jstr *s, size_t at, size_t *n_bytes);
bool fxi_j_own(const fxi_jstr *s, size_t at, size_t n); // all of these bytes are
size_t fxi_j_n_char(const fxi_jstr *s);
size_t fxi_j_byte_of(const fxi_jstr *s, size_t i_char); // s->n beyond the end
bool fxi_j_is_space(uint32_t c);                        // as Python's str.isspace
bool fxi_j_is_printable(uint32_t c);
bool fxi_j_is_alpha(uint32_t c);
bool fxi_j_is_digit(uint32_t c); // decimal digits
bool fxi_j_is_upper(uint32_t c);
bool fxi_j_is_lower(uint32_t c);
bool fxi_j_is_title(uint32_t c);
// Appends the character in another case: 'u', 'l', 't'.
fx_status fxi_jout_cased(fxi_jrun *r, fxi_jout *o, uint32_t c, char how, bool own);
fxi_jstr fxi_j_stripped(const fxi_jstr *s, const fxi_jstr *chars, bool left, bool right);

// ---- jinja_value.c: what values are -----------------------------------------------------------

static inline fxi_jval fxi_j_none(void)
{
    return (fxi_jval){.type = FXI_J_NONE};
}
static inline fxi_jval fxi_j_bool(bool b)
{
    return (fxi_jval){.type = FXI_J_BOOL, .own = true, .b = b};
}
static inline fxi_jval fxi_j_int(int64_t i)
{
    return (fxi_jval){.type = FXI_J_INT, .own = true, .i = i};
}
static inline fxi_jval fxi_j_float(double f)
{
    return (fxi_jval){.type = FXI_J_FLOAT, .own = true, .f = f};
}
static inline fxi_jval fxi_j_undefined(const fxi_jstr *name)
{
    return (fxi_jval){.type = FXI_J_UNDEFINED, .s = name};
}

const char *fxi_j_type_name(fxi_jval v); // as Python calls it, "dict"
bool fxi_j_truth(fxi_jval v);
bool fxi_j_is_number(fxi_jval v);  // int, float or bool
bool fxi_j_is_integer(fxi_jval v); // int or bool
int64_t fxi_j_int_of(fxi_jval v);  // pre: int or bool
double fxi_j_float_of(fxi_jval v); // pre: a number
fx_status fxi_j_equal(fxi_jrun *r, fxi_jval a, fxi_jval b, bool *out);
// < 0, 0, > 0; fails for what Python does not order.
fx_status fxi_j_compare(fxi_jrun *r, fxi_jval a, fxi_jval b, const char *op, int *out);
bool fxi_j_hashable(fxi_jval v);
// FX_EINVAL for a value that is undefined: "'x' is undefined".
fx_status fxi_j_defined(fxi_jrun *r, fxi_jval v);

fx_status fxi_j_seq(fxi_jrun *r, fxi_jtype type, const fxi_jval *v, size_t n, fxi_jval *out);
fx_status fxi_j_generator(fxi_jrun *r, const fxi_jval *v, size_t n, fxi_jval *out);
// The members that a filter makes a generator of. Of what has none, as in Jinja, the generator
// alone fails, once it is read: *out is such a one then, and otherwise absent.
fx_status fxi_j_source(fxi_jrun *r, fxi_jval v, fxi_jseq *items, fxi_jval *out);
// Takes e over; of equal keys the first keeps its place and gets the last value.
fx_status fxi_j_dict(fxi_jrun *r, fxi_jpair *e, size_t n, fxi_jval *out);
// The same for keys that can be keys and differ.
fx_status fxi_j_make_dict(fxi_jrun *r, const fxi_jpair *e, size_t n, fxi_jval *out);
fx_status fxi_j_lookup(fxi_jrun *r, const fxi_jdict *d, fxi_jval key, const fxi_jval **out);
// Everything that a loop over v would see; a generator is used up.
fx_status fxi_j_items(fxi_jrun *r, fxi_jval v, fxi_jseq *out);
bool fxi_j_iterable(fxi_jval v);
// len(v): false where it has none.
bool fxi_j_length(fxi_jval v, size_t *out);
fx_status fxi_j_contains(fxi_jrun *r, fxi_jval in, fxi_jval what, bool *out);

// ---- jinja_show.c: values as text -------------------------------------------------------------

fx_status fxi_j_to_str(fxi_jrun *r, fxi_jval v, const fxi_jstr **out); // str(v)
fx_status fxi_j_show(fxi_jrun *r, fxi_jout *o, fxi_jval v, bool repr);
#define FXI_J_FLOAT_BYTES 40
size_t fxi_j_float_text(double f, char text[FXI_J_FLOAT_BYTES]); // repr(f)

// ---- jinja_json.c -----------------------------------------------------------------------------

typedef struct fxi_jdump { // arguments of json.dumps
    bool ascii, sorted;
    const fxi_jstr *indent; // NULL: on one line
    fxi_jstr item, colon;   // separators
} fxi_jdump;

fx_status fxi_j_dump(fxi_jrun *r, const fxi_jdump *d, fxi_jval v, fxi_jout *o);
fx_status fxi_j_from_json(fxi_jrun *r, const json_t *j, fxi_jinja_whose whose, fxi_jval *out);

// ---- jinja_ops.c: operators -------------------------------------------------------------------

typedef enum fxi_jop {
    FXI_J_ADD,
    FXI_J_SUB,
    FXI_J_MUL,
    FXI_J_DIV,
    FXI_J_FLOORDIV,
    FXI_J_MOD,
    FXI_J_POW,
    FXI_J_CONCAT,
    FXI_J_EQ,
    FXI_J_NE,
    FXI_J_LT,
    FXI_J_LE,
    FXI_J_GT,
    FXI_J_GE,
    FXI_J_IN,
    FXI_J_NOT_IN,
    FXI_J_N_OP,
} fxi_jop;

fx_status fxi_j_binary(fxi_jrun *r, fxi_jop op, fxi_jval a, fxi_jval b, fxi_jval *out);
fx_status fxi_j_compares(fxi_jrun *r, fxi_jop op, fxi_jval a, fxi_jval b, bool *out);
fx_status fxi_j_negate(fxi_jrun *r, fxi_jval a, fxi_jval *out);
fx_status fxi_j_plus(fxi_jrun *r, fxi_jval a, fxi_jval *out);
fx_status fxi_j_attribute(fxi_jrun *r, fxi_jval v, const fxi_jstr *name, fxi_jval *out);
fx_status fxi_j_subscript(fxi_jrun *r, fxi_jval v, fxi_jval key, fxi_jval *out);
fx_status fxi_j_slice(fxi_jrun *r, fxi_jval v, const fxi_jval bound[3], fxi_jval *out);
// A path as filters take it, "a.b.0" or a number; *out may be undefined.
fx_status fxi_j_path(fxi_jrun *r, fxi_jval v, fxi_jval path, fxi_jval *out);

// ---- jinja_call.c: calls and their arguments --------------------------------------------------

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

enum { FXI_J_MAX_PARAM = 6 };

typedef struct fxi_jcall { // what a filter, test, method or function is called with
    const struct fxi_jroutine *row;
    fxi_jval self;                 // the filter's input, the test's subject, the method's object
    fxi_jval arg[FXI_J_MAX_PARAM]; // by the row's names; absent where not given
    const fxi_jargs *all;
} fxi_jcall;

// A row of a table of filters, tests, methods or functions.
typedef struct fxi_jroutine {
    const char *name;
    fx_status (*run)(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out);
    int n_must;                         // parameters that must be given
    const char *param[FXI_J_MAX_PARAM]; // names; "-": by position only; a first "*": takes c->all
    int how;                            // for run, where several rows share one
} fxi_jroutine;

struct fxi_jfunction {
    fxi_jroutine row;
};

// By name, in a table that ends with a row without one; NULL if there is none.
const fxi_jroutine *fxi_jroutine_find(const fxi_jroutine *table, const char *name, size_t n);
fx_status fxi_jroutine_call(fxi_jrun *r, const fxi_jroutine *row, fxi_jval self, const fxi_jargs *a,
                            fxi_jval *out);
fx_status fxi_j_call(fxi_jrun *r, fxi_jval f, const fxi_jargs *a, fxi_jval *out);
// Arguments as C wants them; `preset` where absent.
fx_status fxi_j_arg_int(fxi_jrun *r, const fxi_jcall *c, int i, int64_t preset, int64_t *out);
fx_status fxi_j_arg_str(fxi_jrun *r, const fxi_jcall *c, int i, const fxi_jstr **out);
bool fxi_j_arg_true(const fxi_jcall *c, int i);
bool fxi_j_given(const fxi_jcall *c, int i); // and not None

// The tables. jinja_filters.c, jinja_filters_seq.c, jinja_tests.c, jinja_methods.c, jinja_globals.c
extern const fxi_jroutine fxi_j_filters[], fxi_j_seq_filters[], fxi_j_tests[], fxi_j_str_methods[],
    fxi_j_dict_methods[], fxi_j_seq_methods[], fxi_j_loop_methods[];
extern const struct fxi_jfunction fxi_j_functions[];
const fxi_jroutine *fxi_j_find_filter(const char *name, size_t n);
const fxi_jroutine *fxi_j_find_test(const char *name, size_t n);
const struct fxi_jfunction *fxi_j_find_function(const char *name, size_t n);
// A method of v, or whether Python's type has one of this name that we do not (or must not) run.
const fxi_jroutine *fxi_j_find_method(fxi_jval v, const fxi_jstr *name, bool *exists);
// jinja_format.c: "..." % values
fx_status fxi_j_format(fxi_jrun *r, const fxi_jstr *fmt, fxi_jval values, fxi_jval *out);
fx_status fxi_j_str_format(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out); // str.format

// ---- the tree ---------------------------------------------------------------------------------

typedef enum fxi_jkind {
    // expressions              name  a           b             c            d       e
    FXI_J_CONST,     // value
    FXI_J_NAME,      //         name
    FXI_J_MAKE_LIST, //               elements..
    FXI_J_MAKE_TUPLE,
    FXI_J_MAKE_DICT, //               key..       value..
    FXI_J_NEG,       //               operand
    FXI_J_POS,
    FXI_J_NOT,
    FXI_J_BINARY, // op               left        right
    FXI_J_AND,
    FXI_J_OR,
    FXI_J_COMPARE,  //                first       FXI_J_BINARY.. with the op and b
    FXI_J_COND,     //                test        then          else or NULL
    FXI_J_GETATTR,  //          name  object
    FXI_J_GETITEM,  //                object      key
    FXI_J_GETSLICE, //                object      start         stop         step    (or NULL)
    FXI_J_CALL,     //                callee      arguments..   FXI_J_KEYWORD..
    FXI_J_KEYWORD,  //          name  value
    FXI_J_FILTER,   // row            input       arguments..   FXI_J_KEYWORD..
    FXI_J_TEST,     // row            subject     arguments..   FXI_J_KEYWORD..
    FXI_J_CAPTURED, // what the block around has rendered
    // statements
    FXI_J_DATA,         // value
    FXI_J_OUTPUT,       //            expression
    FXI_J_FOR,          //            target      what          filter       body..  else..
    FXI_J_IF,           //            test                                   body..  else..
    FXI_J_SET,          //            target      expression
    FXI_J_SET_BLOCK,    //            target      filters                    body..
    FXI_J_MACRO_DEF,    //      name  FXI_J_KEYWORD.. (a: default or NULL)   body..
    FXI_J_CALL_BLOCK,   //            FXI_J_CALL  FXI_J_MACRO_DEF
    FXI_J_FILTER_BLOCK, //            filters                                body..
    FXI_J_WITH,         //            target..    value..                    body..
    FXI_J_SCOPE,        //                                                   body..
    FXI_J_DO_BREAK,
    FXI_J_DO_CONTINUE,
    FXI_J_N_KIND,
} fxi_jkind;

struct fxi_jnode {
    uint8_t kind;
    uint8_t op;      // fxi_jop
    bool takes_more; // of a macro: its body speaks of varargs or kwargs
    bool takes_more_kw;
    int line;
    const fxi_jstr *name; // interned: equal names are one pointer
    fxi_jval value;
    const fxi_jroutine *row;
    fxi_jnode *a, *b, *c, *d, *e;
    fxi_jnode *next; // in the list it is part of
};

struct fxi_jinja {
    fxi_jmem mem;
    fxi_jnode *body;
    struct fxi_jnames *names;
    bool reads_parts;
};

// jinja_names.c: names of a template, each once
typedef struct fxi_jnames fxi_jnames;
enum { FXI_J_MAX_NAMES = 2048 };
// The one string for this name; NULL: memory is short, or there are too many.
const fxi_jstr *fxi_jnames_add(fxi_jmem *mem, fxi_jnames **names, const char *p, size_t n);
bool fxi_jnames_full(const fxi_jnames *names); // NULL is allowed
const fxi_jstr *fxi_jnames_find(const fxi_jnames *names, const char *p, size_t n); // NULL: absent

// ---- jinja_lex.c: text to tokens --------------------------------------------------------------

typedef enum fxi_jtok {
    FXI_J_T_END,
    FXI_J_T_DATA,
    FXI_J_T_VAR_BEGIN,
    FXI_J_T_VAR_END,
    FXI_J_T_BLOCK_BEGIN,
    FXI_J_T_BLOCK_END,
    FXI_J_T_NAME,
    FXI_J_T_STR, // p, n: with its quotes
    FXI_J_T_INT,
    FXI_J_T_FLOAT,
    FXI_J_T_OP,
} fxi_jtok;

#define FXI_J_OP2(a, b) ((a) << 8 | (b))

typedef struct fxi_jtoken {
    fxi_jtok kind;
    int line;
    const char *p; // in the text
    size_t n;
    int op; // '+', FXI_J_OP2('*', '*'), ..
} fxi_jtoken;

enum { FXI_J_MAX_NEST = 100 }; // of brackets, expressions and blocks in a template's text

typedef struct fxi_jlex {
    const char *s; // newlines are \n, without the last one
    size_t n, at;
    int line;
    enum { FXI_J_IN_DATA, FXI_J_IN_VAR, FXI_J_IN_BLOCK } in;
    bool line_starts; // `at` is the first place of a line
    fxi_jtoken begin; // of the tag behind data that was given out
    bool has_begin;
    char open[FXI_J_MAX_NEST]; // brackets to be closed
    int n_open;
    fx_error *err;
} fxi_jlex;

fx_status fxi_jlex_next(fxi_jlex *l, fxi_jtoken *out);
// FX_EFORMAT: "chat template, line N: ..."
__attribute__((format(printf, 3, 4))) fx_status fxi_j_refuse(fx_error *err, int line,
                                                             const char *fmt, ...);

// ---- jinja_parse.c, jinja_expr.c: tokens to the tree ------------------------------------------

typedef struct fxi_jparse {
    fxi_jlex lex;
    fxi_jtoken cur, ahead; // what comes, and what comes then
    fxi_jmem *mem;
    fxi_jnames **names;
    int depth;
    int tag_line;                                // of the last tag that opened a block
    bool sees_varargs, sees_kwargs, sees_caller; // in the macro that is parsed
    int n_loop;                                  // loops around, in this macro
    bool reads_parts;                            // a loop over "content" was seen
    fxi_jnode *called;                           // FXI_J_CALL of plain names, through e
    struct fxi_jnames *bound;                    // names that something is bound to
    fx_error *err;
} fxi_jparse;

fx_status fxi_jparse_template(fxi_jparse *p, fxi_jnode **out);

fx_status fxi_jparse_next(fxi_jparse *p);
bool fxi_jparse_at_op(const fxi_jparse *p, int op);
bool fxi_jparse_at_name(const fxi_jparse *p, const char *name);
fx_status fxi_jparse_expect_op(fxi_jparse *p, int op);
fx_status fxi_jparse_expect_name(fxi_jparse *p, const char *name);
fx_status fxi_jparse_wrong(fxi_jparse *p, const char *expected); // "expected X, got Y"
fx_status fxi_jparse_no_memory(fxi_jparse *p);
fx_status fxi_jparse_node(fxi_jparse *p, fxi_jkind kind, int line, fxi_jnode **out);
fx_status fxi_jparse_name(fxi_jparse *p, const fxi_jstr **out); // takes a name
fx_status fxi_jparse_binds(fxi_jparse *p, const fxi_jstr *name);
fx_status fxi_jparse_enter(fxi_jparse *p);

// jinja_expr.c
fx_status fxi_jparse_expr(fxi_jparse *p, fxi_jnode **out);
// a, b: a tuple; `no_if`: without "x if y", as in front of a loop's filter
fx_status fxi_jparse_tuple(fxi_jparse *p, bool no_if, bool in_brackets, fxi_jnode **out);
fx_status fxi_jparse_target(fxi_jparse *p, bool attributes, fxi_jnode **out);
// One filter or more on `input`; the first stands without its '|'.
fx_status fxi_jparse_filters(fxi_jparse *p, fxi_jnode *input, fxi_jnode **out);

// ---- jinja_eval.c, jinja_exec.c ---------------------------------------------------------------

fx_status fxi_j_eval(fxi_jrun *r, const fxi_jnode *n, fxi_jval *out);
fx_status fxi_j_eval_args(fxi_jrun *r, const fxi_jnode *n, fxi_jargs *out); // of n->b and n->c
fx_status fxi_j_exec(fxi_jrun *r, const fxi_jnode *list);
fx_status fxi_j_call_macro(fxi_jrun *r, const struct fxi_jmacro *m, const fxi_jargs *a,
                           fxi_jval *out);

fx_status fxi_j_bind(fxi_jrun *r, fxi_jscope *s, const fxi_jstr *name, fxi_jval v);
fx_status fxi_j_variable(fxi_jrun *r, const fxi_jstr *name, fxi_jval *out);

#endif
