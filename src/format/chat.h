// chat.h - a conversation to text and to token ids, by a chat template.
//
// The template is the model's own Jinja text, one that the user names, or a built-in one. The
// template's own text may become control tokens; what the caller gives (messages, tools, further
// variables) never does, whatever it spells. Apart from that the whole text is tokenized as one, so
// that a conversation without spelled control tokens gets the ids that its model was trained with.
#ifndef FXI_FORMAT_CHAT_H
#define FXI_FORMAT_CHAT_H

#include <time.h>

#include "format/marked.h"
#include "format/vocab.h"

typedef struct fxi_chat fxi_chat; // immutable: any thread may use it

typedef struct fxi_chat_source {
    const fxi_gguf *gguf; // the model's file, its tokenizer.chat_template keys; NULL: none
    fxi_str tokenizer;    // the template of a tokenizer's file, before the model's; n 0: none
    const char *wanted;   // a built-in's name, the name of one of the model's templates, or a
                          // file's path; NULL: the model's, else a built-in by the vocabulary's
                          // tokens
} fxi_chat_source;

// A template of the model that cannot be compiled fails when it is used, not here. Errors:
// FX_EINVAL, FX_EIO, FX_EFORMAT (of the template that `wanted` names), FX_ENOMEM.
fx_status fxi_chat_open(const fxi_chat_source *s, const fxi_vocab *v, fxi_chat **out,
                        fx_error *err);
void fxi_chat_free(fxi_chat *c); // NULL is allowed

// The Jinja text: of the template for requests with tools, if the model brings one for them and
// with_tools. Lives as long as c.
fxi_str fxi_chat_jinja(const fxi_chat *c, bool with_tools);
// The built-in template's name ("chatml", ..); NULL: it is not a built-in one.
const char *fxi_chat_builtin(const fxi_chat *c);
// Why chats cannot be rendered, in one line; NULL: they can. Lives as long as c.
const char *fxi_chat_broken(const fxi_chat *c);
// The names of the built-in ones, separated by blanks; static.
const char *fxi_chat_builtin_names(void);

typedef struct fxi_chat_msg { // a message of plain text
    const char *role;
    fxi_str text; // UTF-8
} fxi_chat_msg;

// A conversation to render. The caller keeps everything. JSON texts have p NULL where they are
// absent.
typedef struct fxi_conversation {
    fxi_str messages; // a JSON array of objects; absent: plain[0..n_plain)
    const fxi_chat_msg *plain;
    size_t n_plain;
    fxi_str tools;  // a JSON array; absent: none
    fxi_str kwargs; // a JSON object with further variables; absent: none
    bool add_generation_prompt;
    bool continue_final; // the text ends where the last message's does, without the marks that end
                         // a message; not with add_generation_prompt
    struct tm now;       // for strftime_now
} fxi_conversation;

// Appends the conversation's text, with an owner for every byte. Messages are fitted to the
// template first: template/chat.c says how. Errors: FX_EINVAL (text that is not JSON, or of another
// type; no messages, one that is not an object with a role, one to continue that has no text or
// that the template changes, bad UTF-8; what the template itself refuses, in its words; a limit),
// FX_EFORMAT (the model's template could not be compiled), FX_ENOMEM; then *out is as before.
fx_status fxi_chat_render(const fxi_chat *c, const fxi_conversation *q, fxi_marked *out,
                          fx_error *err);

// The same as ids of v, the vocabulary that c was opened with. BOS stands where the template writes
// it; built-in ones write it where the vocabulary asks for it.
fx_status fxi_chat_encode(const fxi_chat *c, const fxi_vocab *v, const fxi_conversation *q,
                          fxi_ids *out, fx_error *err);

#endif
