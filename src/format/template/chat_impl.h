// chat_impl.h - what chat.c makes and chat_render.c uses.
#ifndef FXI_FORMAT_CHAT_IMPL_H
#define FXI_FORMAT_CHAT_IMPL_H

#include "format/chat.h"
#include "format/jinja/jinja.h"
#include "format/template/chat_builtin.h"

typedef struct fxi_chat_template {
    fxi_jinja *jinja;     // NULL: could not be compiled:
    fx_error broken;      // why
    bool knows_developer; // it speaks of that role
} fxi_chat_template;

struct fxi_chat {
    const fxi_builtin *builtin; // NULL: not a built-in one
    fxi_chat_template usual,
        tools; // tools: for requests with tools, where the model has such a one
    bool has_tools;
    json_t *bos, *eos; // strings; "" if the vocabulary has none
    bool adds_bos;
};

typedef struct fxi_chat_said { // a request, parsed; owned
    json_t *messages, *tools, *kwargs;
} fxi_chat_said;

// chat_json.c. Errors: FX_EINVAL (not JSON, or of another type: says which), FX_ENOMEM.
fx_status fxi_chat_parse(const fxi_chat_request *q, fxi_chat_said *out, fx_error *err);
void fxi_chat_said_free(fxi_chat_said *s);

#endif
