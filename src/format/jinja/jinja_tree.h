// jinja_tree.h - a compiled template as data: values, strings, names, the tables of what can be
// called, and the tree that the parser makes and a run walks.
//
// Values are made in the memory of a run (constants: of the template) and freed with it as a whole.
// None is ever changed, except a namespace and how far a generator has been consumed.
#ifndef FXI_FORMAT_JINJA_TREE_H
#define FXI_FORMAT_JINJA_TREE_H

#include "format/jinja/jinja.h"

// A token's or name's text, cut short: two arguments of a printf for "%.*s".
#define FXI_JINJA_HEAD(t) (t)->n < 40 ? (int)(t)->n : 40, (t)->p

// ---- values -------------------------------------------------------------------------------------

typedef enum fxi_jtype {
    FXI_JVAL_UNDEFINED,
    FXI_JVAL_NONE,
    FXI_JVAL_BOOL,
    FXI_JVAL_INT,
    FXI_JVAL_FLOAT,
    FXI_JVAL_STR,
    FXI_JVAL_LIST,
    FXI_JVAL_TUPLE,
    FXI_JVAL_DICT,
    FXI_JVAL_RANGE,
    FXI_JVAL_VIEW, // the result of dict.items(), .keys() or .values()
    FXI_JVAL_GENERATOR,
    FXI_JVAL_NAMESPACE,
    FXI_JVAL_LOOP,
    FXI_JVAL_MACRO,
    FXI_JVAL_METHOD, // bound to its object
    FXI_JVAL_FUNCTION,
    FXI_JVAL_N_TYPE,
    FXI_JVAL_ABSENT = FXI_JVAL_N_TYPE, // an argument that was not given; never seen by a template
} fxi_jtype;

typedef struct fxi_jstr { // UTF-8, valid
    const char *p;
    const char *own;       // [n] marks; NULL: all bytes are the caller's
    size_t n;              // bytes
    struct fxi_jout *room; // the buffer it was built in and may grow in; NULL: none
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
    bool own;     // a number: computed by the template, so its digits count as the template's;
                  // an undefined value: a method of Python's that is not supported
    union {
        bool b;
        int64_t i;
        double f;
        const fxi_jstr *s; // an undefined value: its name, NULL if it had none
        const fxi_jseq *seq;
        const struct fxi_jdict *dict;
        const fxi_jrange *range;
        struct fxi_jview *view;
        struct fxi_jgenerator *gen;
        struct fxi_jnamespace *ns;
        struct fxi_jloop *loop;
        const struct fxi_jmacro *macro;
        const struct fxi_jmethod *method;
        const struct fxi_jroutine *function;
    };
};

typedef struct fxi_jpair {
    fxi_jval key, value;
} fxi_jpair;

_Static_assert(sizeof(fxi_jpair) == 2 * sizeof(fxi_jval), "a pair can be a tuple's elements");

typedef struct fxi_jdict {
    const fxi_jpair *e; // [n] in order
    size_t n;
} fxi_jdict;

typedef enum fxi_jview_kind { FXI_JVIEW_ITEMS, FXI_JVIEW_KEYS, FXI_JVIEW_VALUES } fxi_jview_kind;

struct fxi_jview {
    const fxi_jdict *dict;
    fxi_jview_kind kind;
};

struct fxi_jgenerator {
    fxi_jseq seq;
    size_t at;
    const char *of; // not NULL: made from a value of this type, which is not iterable
};

struct fxi_jnamespace {
    fxi_jpair *e; // [n], keys are strings
    size_t n, cap;
};

struct fxi_jloop {
    const fxi_jval *v; // [n] the items
    size_t n, i;
};

struct fxi_jmacro {
    const struct fxi_jnode *node;
    struct fxi_jscope *scope; // it was defined in
};

struct fxi_jmethod {
    fxi_jval self;
    const struct fxi_jroutine *row;
};

static inline fxi_jval fxi_jval_none(void)
{
    return (fxi_jval){.type = FXI_JVAL_NONE};
}
static inline fxi_jval fxi_jval_bool(bool b)
{
    return (fxi_jval){.type = FXI_JVAL_BOOL, .own = true, .b = b};
}
static inline fxi_jval fxi_jval_int(int64_t i)
{
    return (fxi_jval){.type = FXI_JVAL_INT, .own = true, .i = i};
}
static inline fxi_jval fxi_jval_float(double f)
{
    return (fxi_jval){.type = FXI_JVAL_FLOAT, .own = true, .f = f};
}
static inline fxi_jval fxi_jval_str(const fxi_jstr *s)
{
    return (fxi_jval){.type = FXI_JVAL_STR, .s = s};
}
static inline fxi_jval fxi_jval_undefined(const fxi_jstr *name)
{
    return (fxi_jval){.type = FXI_JVAL_UNDEFINED, .s = name};
}

// ---- memory: pieces that are freed together -----------------------------------------------------

typedef struct fxi_jmem {
    struct fxi_jmem_block *block; // the newest
    size_t n_used, limit_bytes;
} fxi_jmem;

// At a multiple of 16, not cleared. NULL: the limit is reached, or memory is short (then
// mem->n_used <= mem->limit_bytes).
void *fxi_jmem_take(fxi_jmem *mem, size_t n_bytes);
void fxi_jmem_free(fxi_jmem *mem);

// ---- names: each stored once, so that equal names are one pointer -------------------------------

enum { FXI_JNAMES_MAX = 2048, FXI_JNAMES_BUCKETS = 512 };

typedef struct fxi_jnames { // a hash table; all zero: empty
    struct fxi_jname *bucket[FXI_JNAMES_BUCKETS];
    size_t n;
} fxi_jnames;

// The one string for this name; NULL: memory is short, or there are FXI_JNAMES_MAX.
const fxi_jstr *fxi_jnames_add(fxi_jmem *mem, fxi_jnames *names, const char *p, size_t n);
const fxi_jstr *fxi_jnames_find(const fxi_jnames *names, const char *p, size_t n); // NULL: absent

// ---- strings: characters are code points, `at` is the byte where one starts --------------------

int fxi_jstr_compare(const fxi_jstr *a, const fxi_jstr *b);
bool fxi_jstr_is(const fxi_jstr *s, const char *text);
// The first occurrence of `what` in bytes from .. to of s; SIZE_MAX: none. Linear.
size_t fxi_jstr_find(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to);
// The last one.
size_t fxi_jstr_rfind(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to);

uint32_t fxi_jstr_char_at(const fxi_jstr *s, size_t at, size_t *n_bytes);
bool fxi_jstr_owns(const fxi_jstr *s, size_t at, size_t n); // all these bytes are the template's
size_t fxi_jstr_byte_of(const fxi_jstr *s, size_t i_char);  // s->n beyond the end
// s without the characters `chars` (NULL: white space) at its ends.
fxi_jstr fxi_jstr_strip(const fxi_jstr *s, const fxi_jstr *chars, bool left, bool right);

bool fxi_jchar_is_space(uint32_t c); // as Python's str.isspace

// ---- routines: filters, tests, methods and functions --------------------------------------------

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
    fxi_jval arg[FXI_JROUTINE_MAX_PARAM]; // absent where not given
    const fxi_jargs *all;
} fxi_jcall;

// A row of a library. What `run` gets has the types that the row demands, a letter each:
//     v  any value          V, S, I  the same as v, s, i, but none counts as not given
//     d  a defined value    s  a string     t  any value's text, as str() makes it
//     i  an integer         n  a number
typedef struct fxi_jroutine {
    const char *name;
    fx_status (*run)(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out);
    int how;           // for run, where several rows share one
    char self;         // what c->self must be; 0: any value
    const char *types; // of the parameters; NULL: there are none; "*": run takes c->all
    int n_must;        // parameters that must be given
    const char *param[FXI_JROUTINE_MAX_PARAM]; // names; NULL: by position only
} fxi_jroutine;

typedef struct fxi_jmethods { // the methods of one type
    const fxi_jroutine *rows; // NULL: the type has no methods
    const char *others;       // methods of Python's type that are not supported, with a blank
                              // around each: their names hide items of the same name
} fxi_jmethods;

// Tables end with a row without a name. A template points to its library: the parser and a run,
// which the library's rows call, do not name it.
typedef struct fxi_jlibrary {
    const fxi_jroutine *filters[3]; // tables
    const fxi_jroutine *tests, *functions;
    const fxi_jmethods *methods; // [FXI_JVAL_N_TYPE]
} fxi_jlibrary;

// By name; NULL: there is none.
const fxi_jroutine *fxi_jroutine_find(const fxi_jroutine *table, const char *name, size_t n);
// A filter or a test.
const fxi_jroutine *fxi_jlibrary_find(const fxi_jlibrary *lib, bool is_test, const char *name,
                                      size_t n);
// A method of values of this type. *exists: whether Python's type has one of this name.
const fxi_jroutine *fxi_jmethod_find(const fxi_jlibrary *lib, uint8_t type, const fxi_jstr *name,
                                     bool *exists);

// ---- the tree -----------------------------------------------------------------------------------

typedef enum fxi_jop {
    FXI_JOP_ADD,
    FXI_JOP_SUB,
    FXI_JOP_MUL,
    FXI_JOP_DIV,
    FXI_JOP_FLOORDIV,
    FXI_JOP_MOD,
    FXI_JOP_POW,
    FXI_JOP_CONCAT,
    FXI_JOP_EQ,
    FXI_JOP_NE,
    FXI_JOP_LT,
    FXI_JOP_LE,
    FXI_JOP_GT,
    FXI_JOP_GE,
    FXI_JOP_IN,
    FXI_JOP_NOT_IN
} fxi_jop;

typedef enum fxi_jkind {
    // expressions              name  a           b             c            d       e
    FXI_JNODE_CONST,     // value
    FXI_JNODE_NAME,      //         name
    FXI_JNODE_MAKE_LIST, //               elements..
    FXI_JNODE_MAKE_TUPLE,
    FXI_JNODE_MAKE_DICT, //               key..       value..
    FXI_JNODE_NEG,       //               operand
    FXI_JNODE_POS,
    FXI_JNODE_NOT,
    FXI_JNODE_BINARY, // op               left        right
    FXI_JNODE_AND,
    FXI_JNODE_OR,
    FXI_JNODE_COMPARE,  //                first       FXI_JNODE_BINARY.. with the op and b
    FXI_JNODE_COND,     //                test        then          else or NULL
    FXI_JNODE_GETATTR,  //          name  object
    FXI_JNODE_GETITEM,  //                object      key
    FXI_JNODE_GETSLICE, //                object      start         stop         step    (or NULL)
    FXI_JNODE_CALL,     //                callee      arguments..   FXI_JNODE_KEYWORD..
    FXI_JNODE_KEYWORD,  //          name  value
    FXI_JNODE_FILTER,   // row            input       arguments..   FXI_JNODE_KEYWORD..
    FXI_JNODE_TEST,     // row            subject     arguments..   FXI_JNODE_KEYWORD..
    FXI_JNODE_CAPTURED, // the text that the enclosing block has rendered
    // statements
    FXI_JNODE_DATA,         // value
    FXI_JNODE_OUTPUT,       //            expression
    FXI_JNODE_FOR,          //            target      what          filter       body..  else..
    FXI_JNODE_IF,           //            test                                   body..  else..
    FXI_JNODE_SET,          //            target      expression
    FXI_JNODE_SET_BLOCK,    //            target      filters                    body..
    FXI_JNODE_MACRO_DEF,    //      name  FXI_JNODE_KEYWORD.. (a: default or NULL)   body..
    FXI_JNODE_CALL_BLOCK,   //            FXI_JNODE_CALL  FXI_JNODE_MACRO_DEF
    FXI_JNODE_FILTER_BLOCK, //            filters                                body..
    FXI_JNODE_WITH,         //            target..    value..                    body..
    FXI_JNODE_SCOPE,        //                                                   body..
    FXI_JNODE_DO_BREAK,
    FXI_JNODE_DO_CONTINUE
} fxi_jkind;

typedef struct fxi_jsees { // what the text of a macro mentions
    bool varargs, kwargs, caller;
} fxi_jsees;

typedef struct fxi_jnode fxi_jnode;

struct fxi_jnode {
    uint8_t kind;   // fxi_jkind
    uint8_t op;     // fxi_jop
    fxi_jsees sees; // a macro
    int line;
    const fxi_jstr *name; // interned: equal names are one pointer
    fxi_jval value;
    const fxi_jroutine *row;
    fxi_jnode *a, *b, *c, *d, *e;
    fxi_jnode *next; // in its list
};

struct fxi_jinja {
    fxi_jmem mem;
    fxi_jnode *body;
    fxi_jnames names;
    bool reads_parts; // it loops over something called "content"
    const fxi_jlibrary *lib;
};

#endif
