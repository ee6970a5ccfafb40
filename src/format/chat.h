// chat.h - a conversation to token ids.
//
// The template's own marks become control tokens; text of users never does, whatever it spells. A
// file's Jinja template is recognised by the marks it uses (a table of families in chat.c); a file
// without one, or with one of no known family, is served in a plain "User: ... Assistant:" form.
#ifndef FXI_FORMAT_CHAT_H
#define FXI_FORMAT_CHAT_H

#include "format/vocab.h"

typedef struct fxi_chat_family fxi_chat_family; // a row of the table, static

// Chooses the family for a file. Never NULL.
const fxi_chat_family *fxi_chat_family_for(const fxi_gguf *g);
const char *fxi_chat_family_name(const fxi_chat_family *f); // "chatml", .., "plain"

typedef struct fxi_chat_msg {
    const char *role; // "system" (or "developer"), "user", "assistant"
    fxi_str text;
} fxi_chat_msg;

// Appends BOS where the vocabulary adds it, the conversation, and the opening of the assistant's
// answer. Errors: FX_EINVAL (no messages, unknown role: says which message; bad UTF-8), FX_ENOMEM;
// then *out is as before.
fx_status fxi_chat_encode(const fxi_chat_family *f, const fxi_vocab *v, const fxi_chat_msg *msg,
                          size_t n_msg, fxi_ids *out, fx_error *err);

#endif
