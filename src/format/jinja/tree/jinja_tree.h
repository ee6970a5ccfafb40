// jinja_tree.h - a compiled template: the tree that the parser makes and a run walks.
#ifndef FXI_FORMAT_JINJA_TREE_H
#define FXI_FORMAT_JINJA_TREE_H

#include "format/jinja/jinja.h"
#include "format/jinja/tree/jinja_mem.h"
#include "format/jinja/tree/jinja_names.h"
#include "format/jinja/tree/jinja_routine.h"

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
    FXI_JOP_NOT_IN,
    FXI_JOP_N_OP,
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
    FXI_JNODE_DO_CONTINUE,
    FXI_JNODE_N_KIND,
} fxi_jkind;

typedef struct fxi_jnode fxi_jnode;

struct fxi_jnode {
    uint8_t kind;
    uint8_t op;      // fxi_jop
    bool takes_more; // of a macro: its body mentions varargs, or (takes_more_kw) kwargs
    bool takes_more_kw;
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
    fxi_jnames *names;
    bool reads_parts; // it loops over something called "content"
    const fxi_jlibrary *lib;
};

#endif
