// chat_impl.h - shared by the files of this folder.
//
//     chat_builtin.c   templates for models that bring none
//     chat_choose.c    which template a model is served with, compiled
//     chat_continue.c  the text up to the end of the last message
//     chat_fit.c       messages as templates expect them
//     chat_render.c    a conversation through its template
#ifndef FXI_FORMAT_TEMPLATE_IMPL_H
#define FXI_FORMAT_TEMPLATE_IMPL_H

#include "format/chat.h"
#include "format/jinja/jinja.h"
#include "format/template/chat_builtin.h"

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

// chat_fit.c: the messages as a list that the caller frees with json_decref. Errors: FX_EINVAL (no
// messages, or one that the template cannot take: which one and why), FX_ENOMEM.
fx_status fxi_chat_fit(const fxi_chat *c, const fxi_chat_template *t, const fxi_conversation *q,
                       json_t **out, fx_error *err);

// chat_continue.c: cuts *m, to which these messages were appended at `from`, after the text of the
// last one. FX_EINVAL: that has none, or it is not there.
fx_status fxi_chat_cut_final(const json_t *messages, size_t from, fxi_marked *m, fx_error *err);

#endif
