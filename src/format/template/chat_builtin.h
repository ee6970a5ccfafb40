// chat_builtin.h - chat templates for models that bring none.
#ifndef FXI_FORMAT_TEMPLATE_BUILTIN_H
#define FXI_FORMAT_TEMPLATE_BUILTIN_H

#include "format/vocab.h"

typedef struct fxi_builtin {
    const char *name;
    const char *token; // a vocabulary with this token uses it; NULL: none does
    const char *jinja; // has the variable add_bos besides the usual ones
} fxi_builtin;

// NULL: there is no such template.
const fxi_builtin *fxi_builtin_find(const char *name);
// The first one whose token the vocabulary has as a control token; "plain" if there is none.
const fxi_builtin *fxi_builtin_for(const fxi_vocab *v);

#endif
