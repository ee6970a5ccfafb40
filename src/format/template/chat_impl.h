// chat_impl.h - a chat's compiled templates: chat_open.c makes them, chat_render.c renders them.
#ifndef FXI_FORMAT_CHAT_IMPL_H
#define FXI_FORMAT_CHAT_IMPL_H

#include "format/chat.h"
#include "format/jinja/jinja.h"
#include "format/vocab.h"

typedef struct fxi_builtin {
    const char *name;
    const char *token; // a vocabulary with this token uses it; NULL: none does
    const char *jinja; // has the variable add_bos besides the usual ones
} fxi_builtin;

typedef struct fxi_chat_template {
    fxi_jinja *jinja;     // NULL: could not be compiled
    fx_error broken;      // why
    bool knows_developer; // it mentions that role
    fxi_buf text;
} fxi_chat_template;

struct fxi_chat {
    const fxi_builtin *builtin;     // NULL: not a built-in one
    fxi_chat_template usual, tools; // tools: for requests with tools, if the model brings one
    bool has_tools;
    json_t *bos, *eos; // strings; "" if the vocabulary has none
    bool adds_bos;
};

#endif
