// jinja_value.h - what a template computes with: the types of values, and nothing that needs a run.
//
// Values are made in the memory of a run (constants: of the template) and freed with it as a whole.
// None is ever changed, except a namespace and how far a generator has been consumed.
#ifndef FXI_FORMAT_JINJA_TREE_VALUE_H
#define FXI_FORMAT_JINJA_TREE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    FXI_JVAL_VIEW, // of dict.items(), .keys() or .values()
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
    bool own;     // of a number: computed by the template, so its digits count as the template's;
                  // of an undefined value: a method of Python's that is not supported
    union {
        bool b;
        int64_t i;
        double f;
        const fxi_jstr *s; // of an undefined value: its name, NULL if it had none
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
    const uint32_t *by_key; // [n] strings first, sorted; NULL: few enough for a linear search
    size_t n_str;           // of by_key
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

#endif
